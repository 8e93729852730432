//! How deeply modules may stand in each other. Walks and calls recurse, and an exhausted stack would end the process: beyond
//! a few hundred levels there is an error, as Python has one. Dropping cannot fail, so containers drop in a loop.

use flambeau_core::types::deep::Deep;
use flambeau_core::{Error, Result};
use std::cell::Cell;

/// Levels of modules that are walked and called.
const MAX: u32 = 256;

thread_local! {
    static LEVEL: Cell<u32> = const { Cell::new(0) };
}

/// Until it is dropped, this thread is one level deeper in modules.
pub(crate) struct Level(());
impl Drop for Level {
    fn drop(&mut self) {
        LEVEL.set(LEVEL.get() - 1);
    }
}
/// One level deeper.
///
/// # Errors
/// Too deep, in Python's words.
pub(crate) fn enter() -> Result<Level> {
    let n = LEVEL.get();
    if n >= MAX {
        return Err(Error::runtime("maximum recursion depth exceeded"));
    }
    LEVEL.set(n + 1);
    Ok(Level(()))
}

/// The named items of a container. What stands in it may be containers again, a million levels deep.
pub(crate) type Nested<F> = Deep<Vec<(String, F)>>;
