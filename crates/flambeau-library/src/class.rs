//! Classes by name: every documented class (module, optimizer, ...) declares its parameters once, on its options
//! struct, and stands in one link-time list.

use flambeau_core::dispatch::object::{Constructor, Parameter};

pub use linkme;

/// A documented class.
pub struct ClassInfo {
    /// `torch.nn.Linear`
    pub path: &'static str,
    /// Parameters in documented order.
    pub parameters: &'static [Parameter],
    /// Makes an instance of arguments.
    pub make: Constructor,
}

/// The link-time list that `#[class]` adds to.
#[linkme::distributed_slice]
pub static CLASSES: [ClassInfo];

/// All classes of the program.
pub fn classes() -> &'static [ClassInfo] {
    &CLASSES
}

/// The class of that documented name.
pub fn find(path: &str) -> Option<&'static ClassInfo> {
    classes().iter().find(|c| c.path == path)
}

impl ClassInfo {
    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}
