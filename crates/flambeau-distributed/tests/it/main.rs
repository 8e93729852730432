//! Processes that compute together: stores, groups and collectives.

mod backends;
mod checks;
mod ddp;
mod elastic;
mod groups;
#[cfg(unix)]
mod kills;
mod launch;
mod messages;
#[cfg(unix)]
mod numa;
mod simulation;
mod store;
mod training;

use flambeau_distributed::run_in_threads;
use flambeau_distributed::simulation::{SimulateOptions, simulate_with};
use std::fmt::Debug;
use std::time::Duration;

/// Runs a job over the loopback and in simulated worlds with delays, which all give the same.
fn everywhere<R: Send + PartialEq + Debug>(size: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let all = run_in_threads(size, &f);
    for seed in 0..3 {
        let o = SimulateOptions::new().seed(seed).delay(Duration::from_millis(5)).reorder(seed > 0);
        assert_eq!(simulate_with(size, &f, o).results(), all, "seed {seed}");
    }
    all
}
