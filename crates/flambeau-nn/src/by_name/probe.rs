//! Whether a type is a module that can be called without knowing it: of two methods of one name the first that it has is found.

use super::Run;

/// See the module.
pub struct ProbeRun<'a, T>(pub &'a T);
/// See the module.
pub trait RunItself<'a> {
    /// The module.
    fn probe_run(&self) -> Option<&'a dyn Run>;
}
/// See the module.
pub trait NotRun<'a> {
    /// Nothing.
    fn probe_run(&self) -> Option<&'a dyn Run>;
}
impl<'a, T: Run> RunItself<'a> for ProbeRun<'a, T> {
    fn probe_run(&self) -> Option<&'a dyn Run> {
        Some(self.0)
    }
}
impl<'a, T> NotRun<'a> for &ProbeRun<'a, T> {
    fn probe_run(&self) -> Option<&'a dyn Run> {
        None
    }
}
