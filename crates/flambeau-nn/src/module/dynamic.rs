//! What modules of a type that is not known have: `isinstance`, and hooks.

use super::Module;
use super::forward::Layer;
use super::hooks::{HookHandle, HookOptions};
use flambeau_core::Tensor;
use flambeau_core::api::ergonomic::expect;

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
    /// Adds a hook that runs after `forward` when the module is called by `call`, and may give other outputs. Panics if the module has
    /// no base.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let net = nn::Sequential::new((nn::Linear::new(2, 3), nn::ReLU::new()));
    /// for (name, m) in net.named_modules() {
    ///     m.register_forward_hook(move |_, _, outputs| {
    ///         println!("{name}: {:?}", outputs[0].shape());
    ///         None
    ///     });
    /// }
    /// net.call(&torch::zeros([1, 2]));
    /// ```
    #[track_caller]
    pub fn register_forward_hook(
        &self,
        f: impl Fn(&dyn Module, &[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_forward_hook(f)
    }
    /// Adds a hook that runs before `forward` when the module is called by `call`, and may give other inputs. Panics if the module has
    /// no base.
    #[track_caller]
    pub fn register_forward_pre_hook(
        &self,
        f: impl Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_forward_pre_hook(f)
    }
    /// Adds a hook that sees the gradients of inputs and outputs in the backward pass and may replace the former. Panics if the module
    /// has no base, or has regular backward hooks.
    #[track_caller]
    pub fn register_full_backward_hook(
        &self,
        f: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Option<Vec<Option<Tensor>>>
        + Send
        + Sync
        + 'static,
    ) -> HookHandle {
        expect(expect(self.try_base()).register_full_backward_hook(f, HookOptions::new()))
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
