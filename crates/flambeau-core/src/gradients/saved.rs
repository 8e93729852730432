//! Saved variables: what a node keeps of the forward call for its formulas, with version checks.

use crate::backend::pinned;
use crate::derivatives::shorthand;
use crate::gradients::anomaly;
use crate::gradients::forward_ad;
use crate::gradients::grad_mode::{self, ANOMALY, ModeGuard, SAVE_FAILED, SAVED_HOOKS, is_recording};
use crate::gradients::node::{Cx, short_name};
use crate::gradients::state;
use crate::gradients::work;
use crate::tensor::geometry::{SizeVec, fmt_sizes};
use crate::tensor::graph::{Edge, Slot};
use crate::types::order::none_held;
use crate::{Device, Error, Result, Tensor, ensure, ops};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What a pack hook made of a saved tensor.
pub type PackedValue = Box<dyn Any + Send + Sync>;
/// Turns a tensor that is to be saved into something else.
pub type PackHook = Arc<dyn Fn(&Tensor) -> Result<PackedValue> + Send + Sync>;
/// Turns it back.
pub type UnpackHook = Arc<dyn Fn(&(dyn Any + Send + Sync)) -> Result<Tensor> + Send + Sync>;

enum Packed {
    /// No wanted formula uses it.
    Absent,
    Released,
    Input {
        tensor: Tensor,
        version: u32,
    },
    /// An output of the node itself: without its history, else node and tensor would hold each other.
    Output {
        alias: Tensor,
        version: u32,
        nr: u32,
    },
    Hooked(Box<Hooked>),
}
struct Hooked {
    value: Option<Result<PackedValue>>,
    unpack: UnpackHook,
    /// History of the original: an edge of an input, or the number of the node's own output.
    edge: Option<Edge>,
    output: Option<u32>,
    /// What formulas count on.
    sizes: SizeVec,
}

/// One saved tensor. The slot is marked once there is nothing to free.
pub struct Saved(Slot<Packed>);

impl Saved {
    /// Nothing: for what no wanted formula uses.
    #[inline]
    pub fn none() -> Saved {
        Saved(Slot::new(Packed::Absent))
    }
    /// An input of the operator.
    #[inline]
    pub fn input(t: &Tensor) -> Saved {
        if grad_mode::has(SAVED_HOOKS) {
            return hooked(t, state::grad_edge(t), None);
        }
        if t.is_inference() {
            refuse_inference();
        }
        Saved(Slot::new(Packed::Input { tensor: t.clone(), version: t.version() }))
    }
    /// An input, if `wanted`.
    #[inline]
    pub fn input_if(wanted: bool, t: &Tensor) -> Saved {
        if wanted { Self::input(t) } else { Self::none() }
    }
    /// Differentiable output `nr` of the operator.
    #[inline]
    pub fn output(t: &Tensor, nr: u32) -> Saved {
        if grad_mode::has(SAVED_HOOKS) {
            return hooked(t, None, Some(nr));
        }
        Saved(Slot::new(Packed::Output { alias: t.alias_detached(), version: t.version(), nr }))
    }
    /// Output `nr`, if `wanted`.
    #[inline]
    pub fn output_if(wanted: bool, t: &Tensor, nr: u32) -> Saved {
        if wanted { Self::output(t, nr) } else { Self::none() }
    }
    /// The value of a tensor that is about to be overwritten: a copy with the tensor's present history.
    ///
    /// # Errors
    /// No memory.
    pub fn copy_of(t: &Tensor) -> Result<Saved> {
        Ok(Self::input(&shorthand::clone(t)?))
    }
    /// A copy of `t`, if `wanted`.
    ///
    /// # Errors
    /// No memory.
    pub fn copy_of_if(wanted: bool, t: &Tensor) -> Result<Saved> {
        if wanted { Self::copy_of(t) } else { Ok(Self::none()) }
    }
    /// The tensor, with its history. `name` is for errors.
    ///
    /// # Errors
    /// Written to since it was saved; freed by an earlier backward; a hook's own error.
    #[inline]
    pub fn unpack(&self, cx: &Cx<'_>, name: &str) -> Result<Tensor> {
        enum Found {
            Input(Tensor, u32),
            Output(Tensor, u32, u32),
            Hooked,
            Released,
            Absent,
        }
        let found = self.0.with(|p| match p {
            Packed::Input { tensor, version } => Found::Input(tensor.clone(), *version),
            Packed::Output { alias, version, nr } => Found::Output(alias.clone(), *version, *nr),
            Packed::Hooked(_) => Found::Hooked,
            Packed::Released => Found::Released,
            Packed::Absent => Found::Absent,
        });
        match found {
            Found::Input(t, version) if t.version() == version => Ok(t),
            Found::Input(t, version) => Err(modified(cx, name, &t, version, None)),
            Found::Output(t, version, nr) if t.version() != version => {
                Err(modified(cx, name, &t, version, Some(nr)))
            }
            Found::Output(t, _, nr) if forward_ad::is_level_open() => {
                let mut t = t.alias_detached();
                if is_recording() {
                    state::set_history_of_new(&mut t, Edge::new(cx.this.clone(), nr));
                }
                forward_ad::restore(&t, cx.this.header().seq, nr);
                Ok(t)
            }
            Found::Output(t, ..) if !is_recording() => Ok(t),
            Found::Output(t, _, nr) => {
                let mut t = t.alias_detached();
                state::set_history_of_new(&mut t, Edge::new(cx.this.clone(), nr));
                Ok(t)
            }
            Found::Hooked => self.unpack_hooked(cx),
            Found::Released => Err(second_time(cx)),
            Found::Absent => Err(Error::autograd(format!(
                "{} did not save '{name}': no gradient wanted it",
                cx.this.name()
            ))),
        }
    }
    /// As [`Saved::unpack`] for what one formula alone uses: where the run frees the graph, the tensor is handed over.
    ///
    /// # Errors
    /// As [`Saved::unpack`].
    #[inline]
    pub fn unpack_last(&self, cx: &Cx<'_>, name: &str) -> Result<Tensor> {
        if work::frees_graph() {
            let taken = self.0.with(|p| match p {
                Packed::Input { tensor, version } if tensor.version() == *version => {
                    Some(std::mem::replace(p, Packed::Released))
                }
                _ => None,
            });
            if let Some(Packed::Input { tensor, .. }) = taken {
                self.0.mark();
                return Ok(tensor);
            }
        }
        self.unpack(cx, name)
    }
    /// Frees the tensor.
    #[inline]
    pub fn release(&self) {
        if self.0.is_marked() {
            return;
        }
        // dropped after the slot is free again
        let _old = self.0.with(|p| match p {
            Packed::Absent => Packed::Absent,
            p => std::mem::replace(p, Packed::Released),
        });
    }
    #[cold]
    fn unpack_hooked(&self, cx: &Cx<'_>) -> Result<Tensor> {
        let put_back = |h: Box<Hooked>| {
            self.0.with(|p| {
                if matches!(*p, Packed::Absent) {
                    *p = Packed::Hooked(h);
                    return None;
                }
                Some(h)
            })
        };
        // the hook is the user's: it runs without our lock, so the value is taken out meanwhile
        let taken = self.0.with(|p| match std::mem::replace(p, Packed::Absent) {
            Packed::Hooked(h) => Ok(h),
            other => {
                let released = matches!(other, Packed::Released);
                *p = other;
                Err(released)
            }
        });
        let h = match taken {
            Ok(h) => h,
            Err(true) => return Err(second_time(cx)),
            Err(false) => return Err(Error::autograd("a saved tensor is being unpacked by another thread")),
        };
        none_held("a hook of a saved tensor runs");
        let result = match &h.value {
            Some(Ok(v)) => grad_mode::no_grad(|| (h.unpack)(&**v)),
            Some(Err(e)) => Err(e.clone()),
            None => Err(second_time(cx)),
        };
        let edge = h.edge.clone().or_else(|| h.output.map(|nr| Edge::new(cx.this.clone(), nr)));
        let sizes = h.sizes.clone();
        drop(put_back(h));
        let t = result?;
        ensure!(
            t.sizes() == &sizes[..],
            Runtime,
            "a hook gives back a tensor of sizes {:?} for a saved one of sizes {:?}",
            t.sizes(),
            &sizes[..]
        );
        match edge {
            Some(e) if is_recording() => {
                let t = t.alias_detached();
                state::set_history(&t, e);
                Ok(t)
            }
            _ => Ok(t),
        }
    }
}

#[cold]
fn second_time(cx: &Cx<'_>) -> Error {
    Error::autograd(format!(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already \
         been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). \
         Specify retain_graph=True if you need to backward through the graph a second time or if you need to access \
         saved tensors after calling backward.{}",
        anomaly::place(&**cx.this)
    ))
}

thread_local! {
    static FAILED: RefCell<Option<Error>> = const { RefCell::new(None) };
}
/// Saving itself does not fail, so that nodes are made without a branch per tensor: the error waits for [`check_saved`].
#[cold]
fn refuse_inference() {
    let e = Error::runtime(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in \
         computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in \
         autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
    );
    let _ = FAILED.try_with(|f| f.replace(Some(e)));
    grad_mode::set(SAVE_FAILED, true);
}
/// What went wrong with saving since the last call. Called between saving and making the node.
///
/// # Errors
/// An inference tensor was saved.
#[inline(always)]
pub fn check_saved() -> Result<()> {
    if grad_mode::has(SAVE_FAILED) { saving_failed() } else { Ok(()) }
}
#[cold]
fn saving_failed() -> Result<()> {
    grad_mode::set(SAVE_FAILED, false);
    let lost = || Error::autograd("a tensor could not be saved for backward while its thread ended");
    Err(FAILED.try_with(RefCell::take).ok().flatten().unwrap_or_else(lost))
}

/// `torch.FloatTensor`, as PyTorch's older texts name a tensor's type.
pub fn type_string(t: &Tensor) -> String {
    let device = match t.device() {
        Device::Cpu => "",
        Device::Meta => "meta.",
        _ => "cuda.",
    };
    format!("torch.{device}{}Tensor", t.dtype().scalar_type_name())
}

#[cold]
fn modified(cx: &Cx<'_>, name: &str, t: &Tensor, expected: u32, output: Option<u32>) -> Error {
    let edge = match output {
        Some(nr) => Some(Edge::new(cx.this.clone(), nr)),
        None => state::history(t),
    };
    let from = match &edge {
        Some(e) => format!(", which is output {} of {},", e.nr, short_name(&e.node().name())),
        None => String::new(),
    };
    let hint = if grad_mode::has(ANOMALY) {
        "Hint: the place of the forward call is named below. The variable in question was changed in there or anywhere \
         later. Good luck!"
    } else {
        "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with \
         torch.autograd.set_detect_anomaly(True, check_nan=False)."
    };
    let made = edge.map_or(String::new(), |e| {
        if Arc::ptr_eq(e.node(), cx.this) { String::new() } else { anomaly::place(&**e.node()) }
    });
    Error::autograd(format!(
        "one of the variables needed for gradient computation has been modified by an inplace operation: [{} {}]{from} \
         is at version {}; expected version {expected} instead. {hint} The tensor was saved as '{name}' for the \
         gradient of {}.{}{made}",
        type_string(t),
        fmt_sizes(t.sizes()),
        t.version(),
        short_name(&cx.this.name()),
        anomaly::place(&**cx.this),
    ))
}

/// A saved tensor that may not have been given.
pub struct SavedOpt(Option<Saved>);
impl SavedOpt {
    /// Nothing, because no wanted formula uses it.
    pub fn none() -> SavedOpt {
        SavedOpt(None)
    }
    /// An optional input.
    pub fn input(t: Option<&Tensor>) -> SavedOpt {
        SavedOpt(t.map(Saved::input))
    }
    /// An optional input, if `wanted`.
    pub fn input_if(wanted: bool, t: Option<&Tensor>) -> SavedOpt {
        if wanted { Self::input(t) } else { SavedOpt(None) }
    }
    /// The tensor, if it was given.
    ///
    /// # Errors
    /// As [`Saved::unpack`].
    pub fn unpack(&self, cx: &Cx<'_>, name: &str) -> Result<Option<Tensor>> {
        self.0.as_ref().map(|s| s.unpack(cx, name)).transpose()
    }
    /// Frees the tensor.
    pub fn release(&self) {
        if let Some(s) = &self.0 {
            s.release();
        }
    }
}

/// A saved list of tensors.
pub struct SavedList(Vec<Option<Saved>>);
impl SavedList {
    /// Nothing, because no wanted formula uses it.
    pub fn none() -> SavedList {
        SavedList(Vec::new())
    }
    /// A list of inputs.
    pub fn input(ts: &[Tensor]) -> SavedList {
        SavedList(ts.iter().map(|t| Some(Saved::input(t))).collect())
    }
    /// A list of inputs, if `wanted`.
    pub fn input_if(wanted: bool, ts: &[Tensor]) -> SavedList {
        if wanted { Self::input(ts) } else { Self::none() }
    }
    /// A list with gaps.
    pub fn input_opt(ts: &[Option<Tensor>]) -> SavedList {
        SavedList(ts.iter().map(|t| t.as_ref().map(Saved::input)).collect())
    }
    /// A list of outputs, numbered from `first`.
    pub fn output(ts: &[Tensor], first: u32) -> SavedList {
        SavedList(ts.iter().zip(first..).map(|(t, nr)| Some(Saved::output(t, nr))).collect())
    }
    /// The tensors of a list without gaps.
    ///
    /// # Errors
    /// As [`Saved::unpack`].
    pub fn unpack(&self, cx: &Cx<'_>, name: &str) -> Result<Vec<Tensor>> {
        self.0.iter().flatten().map(|s| s.unpack(cx, name)).collect()
    }
    /// The tensors of a list with gaps.
    ///
    /// # Errors
    /// As [`Saved::unpack`].
    pub fn unpack_opt(&self, cx: &Cx<'_>, name: &str) -> Result<Vec<Option<Tensor>>> {
        self.0.iter().map(|s| s.as_ref().map(|s| s.unpack(cx, name)).transpose()).collect()
    }
    /// Frees the tensors.
    pub fn release(&self) {
        self.0.iter().flatten().for_each(Saved::release);
    }
}

// --- hooks -------------------------------------------------------------------------------------------------------

thread_local! {
    /// Each with the number of its guard.
    static HOOKS: RefCell<Vec<(u64, Hooks)>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

type Hooks = Option<(PackHook, UnpackHook)>;

#[cold]
fn hooked(t: &Tensor, edge: Option<Edge>, output: Option<u32>) -> Saved {
    let top = HOOKS.try_with(|h| h.borrow().last().cloned()).ok().flatten().and_then(|(_, h)| h);
    let Some((pack, unpack)) = top else {
        let _off = ModeGuard::new(SAVED_HOOKS, false);
        return match output {
            Some(nr) => Saved::output(t, nr),
            None => Saved::input(t),
        };
    };
    // what a hook itself saves is not packed again, and not recorded
    let value = {
        let _off = ModeGuard::new(SAVED_HOOKS, false);
        let plain = shorthand::detached(t.clone());
        none_held("a hook of a saved tensor runs");
        grad_mode::no_grad(|| pack(&plain))
    };
    Saved(Slot::new(Packed::Hooked(Box::new(Hooked {
        value: Some(value),
        unpack,
        edge,
        output,
        sizes: t.sizes().into(),
    }))))
}

/// Pack and unpack hooks for everything saved on this thread while the guard lives.
#[must_use = "the hooks end when the guard is dropped"]
pub struct SavedTensorsHooksGuard {
    id: u64,
    _mode: ModeGuard,
}
impl Drop for SavedTensorsHooksGuard {
    fn drop(&mut self) {
        // by number: guards may be dropped in any order
        let gone = HOOKS.try_with(|h| {
            let mut h = h.borrow_mut();
            h.iter().rposition(|e| e.0 == self.id).map(|i| h.remove(i))
        });
        none_held("a hook of saved tensors is dropped");
        drop(gone);
    }
}
fn push(hooks: Hooks) -> SavedTensorsHooksGuard {
    let id = NEXT.get();
    NEXT.set(id + 1);
    let mut entry = Some((id, hooks));
    let _ = HOOKS.try_with(|h| h.borrow_mut().extend(entry.take()));
    SavedTensorsHooksGuard { id, _mode: ModeGuard::new(SAVED_HOOKS, true) }
}

/// Saved tensors go through `pack` when they are saved and through `unpack` when backward needs them.
///
/// ```
/// use std::any::Any;
/// use std::sync::Arc;
/// use torch::Tensor;
/// use torch::autograd::graph::{PackedValue, saved_tensors_hooks};
/// let x = torch::tensor(3.0).requires_grad_(true).clone();
/// // twice the value: backward sees what `unpack` gives
/// let pack = |t: &Tensor| Ok(Box::new(t.detach() * 2.0) as PackedValue);
/// let unpack = |v: &(dyn Any + Send + Sync)| Ok(v.downcast_ref::<Tensor>().unwrap().clone());
/// let hooks = saved_tensors_hooks(Arc::new(pack), Arc::new(unpack));
/// let y = x.square();
/// drop(hooks);
/// y.backward();
/// assert_eq!(x.grad().unwrap().item::<f32>(), 12.0);
/// ```
#[doc(alias = "torch.autograd.graph.saved_tensors_hooks")]
pub fn saved_tensors_hooks(pack: PackHook, unpack: UnpackHook) -> SavedTensorsHooksGuard {
    push(Some((pack, unpack)))
}
/// Saves tensors as they are again, inside of [`saved_tensors_hooks`].
///
/// ```
/// use torch::autograd::graph::{SavedTensorsHooksGuard, plain_saved_tensors, save_on_cpu};
/// let x = torch::tensor(3.0).requires_grad_(true).clone();
/// let copied: SavedTensorsHooksGuard = save_on_cpu();
/// let y = {
///     let _plain = plain_saved_tensors();
///     x.square()
/// };
/// drop(copied);
/// y.backward();
/// assert_eq!(x.grad().unwrap().item::<f32>(), 6.0);
/// ```
#[doc(alias = "torch.autograd.graph.disable_saved_tensors_hooks")]
pub fn plain_saved_tensors() -> SavedTensorsHooksGuard {
    push(None)
}
/// Arguments of [`save_on_cpu`].
#[derive(Clone, Debug, Default)]
pub struct SaveOnCpuOptions {
    pin_memory: bool,
}
impl SaveOnCpuOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Keeps the copies in pinned memory where there is a device that reads it: copies back need not wait (default: false).
    pub fn pin_memory(mut self, on: bool) -> Self {
        self.pin_memory = on;
        self
    }
}
/// Keeps saved tensors in CPU memory and copies them back for backward.
#[doc(alias = "torch.autograd.graph.save_on_cpu")]
pub fn save_on_cpu() -> SavedTensorsHooksGuard {
    save_on_cpu_with(SaveOnCpuOptions::new())
}
/// [`save_on_cpu`] with options.
pub fn save_on_cpu_with(options: SaveOnCpuOptions) -> SavedTensorsHooksGuard {
    let pin_memory = options.pin_memory;
    saved_tensors_hooks(
        Arc::new(move |t| {
            let device = t.device();
            let copy = if device == Device::Cpu {
                shorthand::clone(t)?
            } else {
                shorthand::to_device(t, Device::Cpu)?
            };
            let dense = copy.layout() == crate::Layout::Strided;
            let copy = if pin_memory && dense && pinned::available() { pinned::pin(&copy)? } else { copy };
            Ok(Box::new((device, copy)) as PackedValue)
        }),
        Arc::new(move |v| {
            let (device, t) = v
                .downcast_ref::<(Device, Tensor)>()
                .ok_or_else(|| Error::autograd("save_on_cpu unpacks only what it packed"))?;
            if pin_memory && *device != Device::Cpu {
                return ops::to(t, None, None, Some(*device), None, true, false, None);
            }
            shorthand::to_device(t, *device)
        }),
    )
}
