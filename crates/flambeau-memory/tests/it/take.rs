//! Holds taken by hand.

use flambeau_memory::{Busy, StorageLock};
use std::panic::Location;

/// As the methods of the lock, whose promise (the hold is given back) each test keeps, or wants to see broken.
pub(crate) trait Take {
    fn take_read(&self) -> Result<(), Busy>;
    fn take_write(&self) -> Result<(), Busy>;
    fn take_guard_read(&self, at: &'static Location<'static>) -> Result<(), Busy>;
    fn take_guard_write(&self, at: &'static Location<'static>) -> Result<(), Busy>;
}
impl Take for StorageLock {
    fn take_read(&self) -> Result<(), Busy> {
        // SAFETY: given back by the test.
        unsafe { self.read_kernel() }
    }
    fn take_write(&self) -> Result<(), Busy> {
        // SAFETY: given back by the test.
        unsafe { self.write_kernel() }
    }
    fn take_guard_read(&self, at: &'static Location<'static>) -> Result<(), Busy> {
        // SAFETY: given back by the test.
        unsafe { self.guard_read(at) }
    }
    fn take_guard_write(&self, at: &'static Location<'static>) -> Result<(), Busy> {
        // SAFETY: given back by the test.
        unsafe { self.guard_write(at) }
    }
}
