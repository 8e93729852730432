//! Generators of devices: Philox, whose state is a seed and an offset.

mod choice;
mod fill;
mod rejection;

pub(crate) use fill::policy;

use flambeau_core::Result;
use flambeau_core::types::generator::{Generator, default_generator};
use flambeau_core::types::order::Mutex;
use std::sync::PoisonError;

/// Seed and offset of each device's generator.
static STATES: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

fn with<R>(device: usize, f: impl FnOnce(&mut (u64, u64)) -> R) -> R {
    let mut all = STATES.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() <= device {
        // a device that is used first after `torch.manual_seed` has its seed as well
        all.resize(device + 1, (default_generator().initial_seed(), 0));
    }
    f(&mut all[device])
}
/// Starts a device's generator anew.
pub(crate) fn seed(device: usize, seed: u64) {
    with(device, |s| *s = (seed, 0));
}
/// Starts all of them anew, as `torch.manual_seed` does.
pub(crate) fn seed_all(seed: u64) {
    for d in 0..crate::device::count() {
        with(d, |s| *s = (seed, 0));
    }
}
/// Seed and offset.
pub(crate) fn state(device: usize) -> (u64, u64) {
    with(device, |s| *s)
}
/// Restores them.
pub(crate) fn set(device: usize, seed: u64, offset: u64) {
    with(device, |s| *s = (seed, offset));
}

/// Takes numbers of a generator, the device's own where none is given: `n` of 32 bits for each thread. Gives seed and offset.
///
/// # Errors
/// From within another draw of the same generator.
pub(crate) fn take(device: usize, generator: Option<&Generator>, n: u64) -> Result<(u64, u64)> {
    // an offset is a whole number of blocks
    let n = n.next_multiple_of(4);
    if let Some(id) = crate::graph::of(device, crate::device::here(device)?)? {
        return crate::graph::take(id, device, generator, n);
    }
    advance(device, generator, n)
}
/// Seed and offset of a generator, which goes on by `n`, a multiple of 4.
///
/// # Errors
/// From within another draw of the same generator.
pub(crate) fn advance(device: usize, generator: Option<&Generator>, n: u64) -> Result<(u64, u64)> {
    match generator {
        None => Ok(with(device, |s| {
            let found = *s;
            s.1 = s.1.wrapping_add(n);
            (found.0, found.1 & !3)
        })),
        Some(g) => g.draw(|g| {
            let found = (g.initial_seed(), g.philox_offset);
            g.philox_offset = g.philox_offset.wrapping_add(n);
            // the offset of a state that somebody made up may be any number
            (found.0, found.1 & !3)
        }),
    }
}

/// Fills the rows' tables.
pub(crate) fn register() {
    fill::register();
    choice::register();
    rejection::register();
}
