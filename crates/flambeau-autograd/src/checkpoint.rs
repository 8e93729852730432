//! Checkpoints (`torch.utils.checkpoint`): what a part of the forward pass saved is dropped, and computed again when backward needs it.

use crate::grad_mode::{enable_grad, is_recording};
use crate::saved::{self, PackedValue};
use crate::state;
use flambeau_core::dispatch::{autocast, stand_in};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::generator::default_generator;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Generator, Result, Tensor, TensorList};
use std::sync::Arc;

type Body = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// Arguments of [`checkpoint`].
#[derive(Clone, Debug)]
pub struct CheckpointOptions {
    use_reentrant: bool,
    preserve_rng_state: bool,
    determinism_check: bool,
}
impl Default for CheckpointOptions {
    fn default() -> Self {
        CheckpointOptions { use_reentrant: false, preserve_rng_state: true, determinism_check: true }
    }
}
impl CheckpointOptions {
    /// The documented defaults (`use_reentrant` as PyTorch recommends: false).
    pub fn new() -> Self {
        Self::default()
    }
    /// The older variant, which runs backward inside backward.
    pub fn use_reentrant(mut self, on: bool) -> Self {
        self.use_reentrant = on;
        self
    }
    /// Draws the same random numbers the second time (the default), by rewinding the default generator for it.
    pub fn preserve_rng_state(mut self, on: bool) -> Self {
        self.preserve_rng_state = on;
        self
    }
    /// Compares sizes and dtypes of what is saved the first and the second time.
    pub fn determinism_check(mut self, on: bool) -> Self {
        self.determinism_check = on;
        self
    }
}

struct Recomputed {
    body: Arc<Body>,
    inputs: Vec<Tensor>,
    check: bool,
    /// The default generator as it was before the first run.
    random: Option<Generator>,
    /// Autocast as it was.
    autocast: autocast::State,
    slots: Mutex<Slots>,
}
#[derive(Default)]
struct Slots {
    /// Sizes and dtype of every tensor that the first run saved.
    first: Vec<(Vec<i64>, flambeau_core::DType)>,
    /// What the second run saved, until backward has fetched it.
    again: Vec<Option<Tensor>>,
}
fn lock<T>(m: &Mutex<T>) -> flambeau_core::types::order::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// The default generator in another state, until dropped.
struct Rewound(Generator);
impl Rewound {
    fn to(state: &Generator) -> Rewound {
        let now = default_generator().clone_state();
        default_generator().set_state_of(state);
        Rewound(now)
    }
}
impl Drop for Rewound {
    fn drop(&mut self) {
        default_generator().set_state_of(&self.0);
    }
}

/// What stands for a saved tensor. When it goes, no node asks for the tensor again.
struct Stub {
    of: Arc<Recomputed>,
    place: usize,
}
impl Drop for Stub {
    fn drop(&mut self) {
        // the tensor goes after the lock
        let _tensor = lock(&self.of.slots).again.get_mut(self.place).and_then(Option::take);
    }
}

impl Recomputed {
    fn fetch(self: &Arc<Self>, i: usize) -> Result<Tensor> {
        if let Some(t) = lock(&self.slots).again.get(i).cloned().flatten() {
            return Ok(t);
        }
        // every saved tensor of the second run is collected, then its graph is dropped
        let collected: Arc<Mutex<Vec<Tensor>>> = Arc::default();
        let sink = collected.clone();
        {
            let _hooks = saved::saved_tensors_hooks(
                Arc::new(move |t| {
                    let mut sink = lock(&sink);
                    sink.push(t.clone());
                    Ok(Box::new(()) as PackedValue)
                }),
                Arc::new(|_| Err(Error::autograd("a recomputed graph is never run"))),
            );
            let inputs: Vec<Tensor> = self
                .inputs
                .iter()
                .map(|t| {
                    let d = t.alias_detached();
                    if state::requires_grad(t) {
                        state::set_requires_grad(&d, true)?;
                    }
                    Ok(d)
                })
                .collect::<Result<_>>()?;
            let _rewound = self.random.as_ref().map(Rewound::to);
            let _autocast = autocast::Region::enter(self.autocast);
            enable_grad(|| (self.body)(&inputs))?;
        }
        let tensors = std::mem::take(&mut *lock(&collected));
        let mut slots = lock(&self.slots);
        if self.check {
            if tensors.len() != slots.first.len() {
                return Err(Error::autograd(format!(
                    "torch.utils.checkpoint: A different number of tensors was saved during the original forward and \
                     recomputation.\nNumber of tensors saved during forward: {}\nNumber of tensors saved during \
                     recomputation: {}.",
                    slots.first.len(),
                    tensors.len()
                )));
            }
            for (i, (t, (sizes, dtype))) in tensors.iter().zip(&slots.first).enumerate() {
                if t.sizes() != sizes || t.dtype() != *dtype {
                    return Err(Error::autograd(format!(
                        "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata \
                         than during the forward pass.\ntensor at position {i}"
                    )));
                }
            }
        }
        slots.again = tensors.into_iter().map(Some).collect();
        slots
            .again
            .get(i)
            .cloned()
            .flatten()
            .ok_or_else(|| Error::autograd("checkpoint saved fewer tensors the second time"))
    }
}

/// Runs `body` without keeping what it saves for backward; backward runs it again, with the same random numbers.
///
/// ```
/// use torch::utils::checkpoint::checkpoint;
/// let x = torch::tensor([1.0, 2.0]).requires_grad_(true).clone();
/// let y = checkpoint(|x| Ok(vec![x[0].pow(3)]), &[x.clone()])?;
/// y[0].sum().backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f32>(), [3.0, 12.0]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of `body`; `use_reentrant` is not available.
#[doc(alias = "torch.utils.checkpoint.checkpoint")]
pub fn checkpoint(
    body: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: impl TensorList,
) -> Result<Vec<Tensor>> {
    checkpoint_with(body, inputs, CheckpointOptions::new())
}
/// [`checkpoint`] with its options.
///
/// # Errors
/// As there.
pub fn checkpoint_with(
    body: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: impl TensorList,
    o: CheckpointOptions,
) -> Result<Vec<Tensor>> {
    let inputs = &*inputs.tensor_list();
    if o.use_reentrant {
        return Err(Error::missing("checkpoint with use_reentrant=True"));
    }
    if !is_recording() {
        return body(inputs);
    }
    // computed weights are inputs by their value of now: both runs see the same one, and gradients reach it
    let inputs = inputs.iter().map(stand_in::resolved).collect::<Result<Vec<_>>>()?;
    let frame = Arc::new(Recomputed {
        body: Arc::new(body),
        inputs: inputs.clone(),
        check: o.determinism_check,
        random: o.preserve_rng_state.then(|| default_generator().clone_state()),
        autocast: autocast::state(),
        slots: Mutex::default(),
    });
    let (packing, unpacking) = (frame.clone(), frame.clone());
    let _hooks = saved::saved_tensors_hooks(
        Arc::new(move |t| {
            let mut slots = lock(&packing.slots);
            slots.first.push((t.sizes().to_vec(), t.dtype()));
            let stub = Stub { of: packing.clone(), place: slots.first.len() - 1 };
            Ok(Box::new(stub) as PackedValue)
        }),
        Arc::new(move |v| {
            let stub = v
                .downcast_ref::<Stub>()
                .ok_or_else(|| Error::autograd("checkpoint unpacks only what it packed"))?;
            unpacking.fetch(stub.place)
        }),
    );
    (frame.body)(&inputs)
}

/// One step of [`checkpoint_sequential`].
pub type Step = Arc<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// Runs functions one after the other in `segments` parts of equal length. What the parts save for backward is dropped
/// and computed again, but for the last part, which backward needs first anyway.
///
/// ```
/// use torch::utils::checkpoint::{Step, checkpoint_sequential};
/// use torch::ops;
/// use std::sync::Arc;
///
/// let steps: Vec<Step> = (0..4).map(|_| Arc::new(|x: &_| ops::sin(x)) as Step).collect();
/// let x = torch::ones(3).requires_grad_(true);
/// let y = checkpoint_sequential(&steps, 2, &x)?;
/// y.sum().backward();
/// assert_eq!(x.grad().unwrap().sizes(), [3]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// No segments, or more than functions; as for [`checkpoint`].
#[doc(alias = "torch.utils.checkpoint.checkpoint_sequential")]
pub fn checkpoint_sequential(functions: &[Step], segments: usize, input: &Tensor) -> Result<Tensor> {
    checkpoint_sequential_with(functions, segments, input, CheckpointOptions::new())
}
/// [`checkpoint_sequential`] with its options.
///
/// # Errors
/// As there.
pub fn checkpoint_sequential_with(
    functions: &[Step],
    segments: usize,
    input: &Tensor,
    o: CheckpointOptions,
) -> Result<Tensor> {
    if segments == 0 || (segments > 1 && segments > functions.len()) {
        return Err(Error::value(format!(
            "checkpoint_sequential: {} functions cannot be cut into {segments} segments",
            functions.len()
        )));
    }
    let size = functions.len() / segments;
    let (dropped, kept) = functions.split_at(size * (segments - 1));
    let run = |steps: &[Step], x: &Tensor| steps.iter().try_fold(x.clone(), |x, f| f(&x));
    let mut x = input.clone();
    for part in dropped.chunks(size.max(1)) {
        let part = part.to_vec();
        let body = move |x: &[Tensor]| match x {
            [x] => Ok(vec![run(&part, x)?]),
            _ => Err(Error::autograd("checkpoint_sequential takes one input")),
        };
        let out = checkpoint_with(body, [&x], o.clone())?;
        x = out.into_iter().next().ok_or_else(|| Error::autograd("checkpoint gave no output"))?;
    }
    run(kept, &x)
}
