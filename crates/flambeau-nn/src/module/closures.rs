//! What modules have beside the trait's own methods: closures, which a trait of objects cannot take.

use crate::module::hooks::{HookHandle, HookOptions, NewInputs};
use crate::module::keywords::Keyword;
use crate::module::state_dict::{IncompatibleKeys, LoadReport, StateDict};
use crate::module::{Module, traversal};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Result, Tensor};

/// Methods of all modules that take closures: also of those behind `dyn Module`, whose type is not known.
///
/// ```
/// use torch::{nn, prelude::*};
/// let net = nn::Sequential::new((nn::Linear::new(2, 3), nn::ReLU::new()));
/// let handles: Vec<_> = net
///     .named_modules()
///     .into_iter()
///     .map(|(_, m)| m.register_forward_hook(|_, _, outputs| Some(vec![&outputs[0] * 0.0])))
///     .collect();
/// assert_eq!(net.call(&torch::ones([1, 2])).to_vec::<f32>(), [0.0; 3]);
/// handles.into_iter().for_each(|h| h.remove());
/// ```
pub trait ModuleExt: Module {
    /// Calls `f` with every module below, children before their parents, and with this one last: `model.apply(init)` of a
    /// function `fn init(m: &dyn Module)`, or of a closure.
    ///
    /// ```
    /// use torch::{nn, nn::init, prelude::*};
    /// let net = nn::Sequential::new((nn::Linear::new(2, 3), nn::ReLU::new()));
    /// net.apply(|m| {
    ///     if let Some(linear) = m.downcast_ref::<nn::Linear>() {
    ///         init::zeros_(linear.bias());
    ///     }
    /// });
    /// ```
    #[doc(alias = "torch.nn.Module.apply")]
    fn apply(&self, mut f: impl FnMut(&dyn Module)) {
        traversal::apply(self.as_module(), &mut f);
    }
    /// Adds a hook that runs before `forward` when the module is called by `call`, and may give other inputs. Panics if
    /// the module has no base.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_forward_pre_hook")]
    fn register_forward_pre_hook(
        &self,
        f: impl Fn(&dyn Module, &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_forward_pre_hook(f)
    }
    /// Adds a hook that runs after `forward` when the module is called by `call`, and may give other outputs. Panics if
    /// the module has no base.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_forward_hook")]
    fn register_forward_hook(
        &self,
        f: impl Fn(&dyn Module, &[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_forward_hook(f)
    }
    /// Adds a hook that sees the keywords of a call too, and may change them (`with_kwargs=True`): the fields of argument
    /// structs like [`MultiheadAttentionArgs`](crate::MultiheadAttentionArgs) that differ from their defaults. Panics if the module has no
    /// base.
    #[track_caller]
    fn register_forward_pre_hook_with_kwargs(
        &self,
        f: impl Fn(&dyn Module, &[Tensor], &[Keyword]) -> Result<Option<NewInputs>> + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_forward_pre_hook_with_kwargs(f)
    }
    /// Adds a hook that sees the keywords of a call as well as its tensors and outputs (`with_kwargs=True`). Panics if the
    /// module has no base.
    #[track_caller]
    fn register_forward_hook_with_kwargs(
        &self,
        f: impl Fn(&dyn Module, &[Tensor], &[Keyword], &[Tensor]) -> Result<Option<Vec<Tensor>>>
        + Send
        + Sync
        + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_forward_hook_with_kwargs(f)
    }
    /// Adds a hook that sees the gradients of inputs and outputs in the backward pass and may replace the former. Panics
    /// if the module has no base, or has regular backward hooks.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_full_backward_hook")]
    fn register_full_backward_hook(
        &self,
        f: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Option<Vec<Option<Tensor>>>
        + Send
        + Sync
        + 'static,
    ) -> HookHandle {
        expect(expect(self.try_base()).register_full_backward_hook(f, HookOptions::new()))
    }
    /// Adds a hook that sees the gradients of the outputs before they go through the module, and may replace them. Panics
    /// if the module has no base.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_full_backward_pre_hook")]
    fn register_full_backward_pre_hook(
        &self,
        f: impl Fn(&str, &[Option<Tensor>]) -> Option<Vec<Option<Tensor>>> + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_full_backward_pre_hook(f)
    }
    /// Adds a hook to the module's last step. Panics if the module has no base, or has full backward hooks.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_backward_hook")]
    fn register_backward_hook(
        &self,
        f: impl Fn(&str, &[Option<Tensor>], &[Option<Tensor>]) -> Option<Vec<Option<Tensor>>>
        + Send
        + Sync
        + 'static,
    ) -> HookHandle {
        expect(expect(self.try_base()).register_backward_hook(f))
    }
    /// Adds a hook that runs before the module's state is collected. Panics if the module has no base.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_state_dict_pre_hook")]
    fn register_state_dict_pre_hook(
        &self,
        f: impl Fn(&dyn Module, &str, bool) + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_state_dict_pre_hook(f)
    }
    /// Adds a hook that may change the state dict after the module's part was collected. Panics if the module has no base.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_state_dict_post_hook")]
    fn register_state_dict_post_hook(
        &self,
        f: impl Fn(&dyn Module, &mut StateDict, &str) + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_state_dict_post_hook(f)
    }
    /// Adds a hook that may change what is loaded before the module takes it. Panics if the module has no base.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_load_state_dict_pre_hook")]
    fn register_load_state_dict_pre_hook(
        &self,
        f: impl Fn(&dyn Module, &mut StateDict, &str, &mut LoadReport) + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_load_state_dict_pre_hook(f)
    }
    /// Adds a hook that may change the report after module and children were loaded. Panics if the module has no base.
    #[track_caller]
    #[doc(alias = "torch.nn.Module.register_load_state_dict_post_hook")]
    fn register_load_state_dict_post_hook(
        &self,
        f: impl Fn(&dyn Module, &mut IncompatibleKeys) + Send + Sync + 'static,
    ) -> HookHandle {
        expect(self.try_base()).register_load_state_dict_post_hook(f)
    }
}
impl<M: Module + ?Sized> ModuleExt for M {}
