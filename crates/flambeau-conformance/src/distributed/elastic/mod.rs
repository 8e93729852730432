//! Agents, launchers, and what belongs to them.

mod api;
mod torchrun;

use crate::families::{File, Outcome, text};
use serde_json::Value as J;

/// Runs a case.
pub fn run(f: &File, case: &J) -> Outcome {
    let done = if text(&f.json, "job").contains("torchrun") { torchrun::run(case) } else { api::run(case) };
    match done {
        Ok(()) => Outcome::Passed,
        Err(e) if e.contains("no runner") => Outcome::Missing(e),
        Err(e) => Outcome::Failed(e),
    }
}
type Done = Result<(), String>;

/// Starts a job in the place of `flambeau-run`; this program does so where it is called with [`LAUNCH`].
pub fn launch(args: Vec<String>) -> u8 {
    torch::distributed::launch::command_line(args)
}
/// The first argument of this program in the place of a launcher.
pub const LAUNCH: &str = "--launch-a-job";
