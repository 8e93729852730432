//! Modules of a type that is not known: `isinstance`.

use super::Module;
use super::forward::Layer;

impl dyn Module {
    /// Whether the module is a `T` (`isinstance(m, nn.Conv2d)`).
    pub fn is<T: Module>(&self) -> bool {
        self.as_any().is::<T>()
    }
    /// The module as a `T`, if it is one.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    /// let net = nn::Sequential::new((nn::Linear::new(2, 3), nn::ReLU::new()));
    /// let sizes: Vec<i64> =
    ///     net.modules().iter().filter_map(|m| m.downcast_ref::<nn::Linear>()).map(|l| l.out_features()).collect();
    /// assert_eq!(sizes, [3]);
    /// ```
    pub fn downcast_ref<T: Module>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }
    /// The module as a `T` that can be changed, if it is one.
    pub fn downcast_mut<T: Module>(&mut self) -> Option<&mut T> {
        self.as_any_mut().downcast_mut()
    }
}
impl dyn Layer {
    /// Whether the layer is a `T` (`isinstance(m, nn.Conv2d)`).
    pub fn is<T: Module>(&self) -> bool {
        self.as_any().is::<T>()
    }
    /// The layer as a `T`, if it is one.
    pub fn downcast_ref<T: Module>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }
}
