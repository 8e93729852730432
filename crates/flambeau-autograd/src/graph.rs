//! Tools around the graph (`torch.autograd.graph`): writes to saved tensors, versions, and the engine's threads.

pub use crate::saved::{
    PackHook, PackedValue, SaveOnCpuOptions, SavedTensorsHooksGuard, UnpackHook, plain_saved_tensors,
    save_on_cpu, save_on_cpu_with, saved_tensors_hooks,
};
use crate::shorthand;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, TensorList, ensure};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lets saved tensors be written, until it is dropped: [`allow_mutation_on_saved_tensors`].
///
/// ```
/// use torch::autograd::graph::{MutationGuard, allow_mutation_on_saved_tensors};
/// use torch::prelude::*;
/// let a = torch::ones([2]).requires_grad_(true).clone();
/// let b = &a * 1.0;
/// let allowed: MutationGuard = allow_mutation_on_saved_tensors();
/// let y = (&b * &b).sum();
/// b.detach().fill_(5.0);
/// y.backward();
/// drop(allowed);
/// assert_eq!(a.grad().unwrap().to_vec::<f32>(), [2.0, 2.0]);
/// ```
#[must_use = "what is saved may be written until the guard is dropped"]
pub struct MutationGuard {
    alive: Arc<AtomicBool>,
    _hooks: SavedTensorsHooksGuard,
}
impl Drop for MutationGuard {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::Release);
    }
}
/// Until the guard is dropped, tensors that were saved for backward may be written: backward gets them as they were. It must
/// run before the guard goes. Each saved tensor is copied when it is saved, where PyTorch copies it when it is written.
///
/// ```
/// use torch::prelude::*;
/// let _allowed = torch::autograd::graph::allow_mutation_on_saved_tensors();
/// let a = torch::ones([2]).requires_grad_(true);
/// let b = a.clone();
/// let y = (&b * &b).sum();
/// b.detach().fill_(5.0);
/// y.backward();
/// assert_eq!(a.grad().unwrap().to_vec::<f32>(), [2.0, 2.0]);
/// ```
#[doc(alias = "torch.autograd.graph.allow_mutation_on_saved_tensors")]
pub fn allow_mutation_on_saved_tensors() -> MutationGuard {
    let alive = Arc::new(AtomicBool::new(true));
    let inside = alive.clone();
    let hooks = saved_tensors_hooks(
        Arc::new(|t| Ok(Box::new(shorthand::clone(t)?) as PackedValue)),
        Arc::new(move |v| {
            ensure!(
                inside.load(Ordering::Acquire),
                Autograd,
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally \
                 recorded."
            );
            v.downcast_ref::<Tensor>().cloned().ok_or_else(|| Error::autograd("unpacks only what it packed"))
        }),
    );
    MutationGuard { alive, _hooks: hooks }
}

/// Counts a write of tensors that the engine did not see: memory that was changed by other means.
///
/// ```
/// use torch::autograd::graph::increment_version;
/// let x = torch::ones([2]).requires_grad_(true).clone();
/// let y = x.exp();
/// increment_version([&y]);
/// // backward wants the result as it was
/// assert!(y.sum().try_backward(torch::options::BackwardOptions::new()).is_err());
/// ```
///
/// # Errors
/// Inference tensors have no count.
#[flambeau_macros::short]
#[doc(alias = "torch.autograd.graph.increment_version")]
pub fn try_increment_version(tensors: impl TensorList) -> Result<()> {
    for t in &*tensors.tensor_list() {
        ensure!(!t.is_inference(), Runtime, "Inference tensors do not track version counter.");
        t.storage().bump_version();
    }
    Ok(())
}

thread_local! {
    static MULTITHREADING: Cell<bool> = const { Cell::new(true) };
}
/// Whether backward may use threads of its own on this thread: on by default. Backward runs on the thread that calls it, with
/// those of kernels, so nothing depends on it but what is asked of it.
pub fn is_multithreading_enabled() -> bool {
    MULTITHREADING.get()
}
/// Sets [`is_multithreading_enabled`].
///
/// ```
/// use torch::autograd::graph::{is_multithreading_enabled, set_multithreading_enabled};
/// set_multithreading_enabled(false);
/// assert!(!is_multithreading_enabled());
/// ```
#[doc(alias = "torch.autograd.grad_mode.set_multithreading_enabled")]
pub fn set_multithreading_enabled(on: bool) {
    MULTITHREADING.set(on);
}
