//! Classes by name: every documented class (module, optimizer, ...) declares its parameters once, on its options
//! struct, and stands in one link-time list.

use flambeau_core::dispatch::object::{Constructor, Parameter};

pub use linkme;

/// A documented class.
///
/// ```
/// use torch::library::class::{ClassInfo, classes, find};
/// let linear: &ClassInfo = find("torch.nn.Linear").expect("it is documented");
/// assert_eq!((linear.name(), linear.parameters[0].name), ("Linear", "in_features"));
/// assert!(classes().iter().any(|c| c.path == "torch.optim.Adam"));
/// ```
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
