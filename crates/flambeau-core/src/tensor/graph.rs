//! The parts of the gradient graph that a tensor holds. The engine itself is in flambeau-autograd; here are the node
//! interface, edges that never drop recursively, and the table of functions that the engine fills in.

use crate::DType;
use crate::tensor::geometry::{SizeVec, size_vec};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::order::Mutex;
pub use flambeau_memory::{Slot, arc_with};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};

/// What the engine must know of one output of a node to check and shape the gradient that flows into it.
#[derive(Clone, Debug)]
pub struct OutputMeta {
    /// Sizes of the output.
    pub sizes: SizeVec,
    /// Its dtype.
    pub dtype: DType,
    /// Its device.
    pub device: Device,
}
impl OutputMeta {
    /// Of a tensor.
    #[inline]
    pub fn of(t: &Tensor) -> Self {
        OutputMeta { sizes: size_vec(t.sizes()), dtype: t.dtype(), device: t.device() }
    }
}

/// Where the gradients of a node's inputs go; most nodes have at most three.
pub type EdgeVec = SmallVec<[Option<Edge>; 3]>;

/// What every node has.
pub struct NodeHeader {
    /// Creation number, global: a consumer's is above its producers', so popping the highest is a topological order.
    pub seq: u64,
    /// Where each input's gradient goes; `None` where it is not wanted.
    pub edges: EdgeVec,
    /// One entry per output.
    pub outputs: SmallVec<[OutputMeta; 1]>,
    /// Hooks, anomaly data: owned by the engine.
    pub extra: OnceLock<Box<dyn Any + Send + Sync>>,
    /// The name of the composite operator that the node ends ([`named`]).
    label: Mutex<Option<&'static &'static str>>,
}

static SEQ: AtomicU64 = AtomicU64::new(0);

/// The creation number that the next node gets, if no other thread makes one before.
pub fn next_number() -> u64 {
    SEQ.load(Ordering::Relaxed)
}

impl NodeHeader {
    /// A header with the next creation number.
    #[inline]
    pub fn new(edges: EdgeVec, outputs: SmallVec<[OutputMeta; 1]>) -> Self {
        NodeHeader {
            seq: SEQ.fetch_add(1, Ordering::Relaxed),
            edges,
            outputs,
            extra: OnceLock::new(),
            label: Mutex::new(None),
        }
    }
}

/// One step of the gradient graph.
pub trait Node: Send + Sync + Any {
    /// Number, edges, outputs.
    fn header(&self) -> &NodeHeader;
    /// `AddBackward0`, as `grad_fn` prints.
    fn name(&self) -> Cow<'static, str>;
    /// Gradients of the outputs to gradients of the inputs, one per edge. `this` is the node's own handle: saved outputs
    /// get their history back from it.
    fn apply(
        &self,
        this: &Arc<dyn Node>,
        grads: &mut [Option<Tensor>],
    ) -> Result<SmallVec<[Option<Tensor>; 2]>>;
    /// Frees what was saved for backward.
    fn release(&self) {}
    /// For the accumulation node of a leaf: that leaf.
    fn leaf(&self) -> Option<Tensor> {
        None
    }
}

/// What `grad_fn` prints: the name of the composite operator that ended with this node, or the node's own.
pub fn node_name(n: &dyn Node) -> Cow<'static, str> {
    match *n.header().label.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(label) => Cow::Borrowed(*label),
        None => n.name(),
    }
}

/// Results whose nodes can be named.
pub trait Tensors {
    /// Each tensor.
    fn each(&self, f: &mut dyn FnMut(&Tensor));
}
impl Tensors for Tensor {
    fn each(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self);
    }
}
impl Tensors for Vec<Tensor> {
    fn each(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(f);
    }
}
impl Tensors for (Tensor, Tensor) {
    fn each(&self, f: &mut dyn FnMut(&Tensor)) {
        f(&self.0);
        f(&self.1);
    }
}
impl Tensors for (Tensor, Tensor, Tensor) {
    fn each(&self, f: &mut dyn FnMut(&Tensor)) {
        f(&self.0);
        f(&self.1);
        f(&self.2);
    }
}

/// Runs the body of a composite operator that PyTorch differentiates as one: the nodes that its results end with take its
/// name. Results that the body only passes on keep theirs.
pub fn named<R: Tensors>(name: &'static &'static str, body: impl FnOnce() -> Result<R>) -> Result<R> {
    let since = SEQ.load(Ordering::Relaxed);
    let r = body();
    if let Ok(r) = &r {
        rename_all(name, since, r);
    }
    r
}
fn rename_all(name: &'static &'static str, since: u64, of: &dyn Tensors) {
    of.each(&mut |t| rename_since(name, since, t));
}
/// Gives the node that a tensor ends with another name.
pub fn rename(name: &'static &'static str, t: &Tensor) {
    rename_since(name, 0, t);
}
fn rename_since(name: &'static &'static str, since: u64, t: &Tensor) {
    if let Some(e) = history(t)
        && e.node().header().seq >= since
    {
        *e.node().header().label.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
    }
}

/// The edge that `grad_fn` stands for.
pub fn history(t: &Tensor) -> Option<Edge> {
    if !t.key_set().has(crate::types::keys::Key::Autograd) {
        return None;
    }
    match engine() {
        Ok(e) => (e.rebased_edge)(t),
        Err(_) => t.first_edge().cloned(),
    }
}

/// One output of a node: what a tensor's `grad_fn` and `output_nr` are together.
pub struct Edge {
    node: ManuallyDrop<Arc<dyn Node>>,
    /// Which output.
    pub nr: u32,
}
impl Edge {
    /// Output `nr` of `node`.
    #[inline]
    pub fn new(node: Arc<dyn Node>, nr: u32) -> Edge {
        Edge { node: ManuallyDrop::new(node), nr }
    }
    /// The node.
    #[inline]
    pub fn node(&self) -> &Arc<dyn Node> {
        &self.node
    }
}
impl Clone for Edge {
    #[inline]
    fn clone(&self) -> Self {
        Edge { node: self.node.clone(), nr: self.nr }
    }
}

/// No node is being dropped on this thread; one is; one is, and others wait in `PENDING`.
const IDLE: u8 = 0;
const DRAINING: u8 = 1;
const MORE: u8 = 2;

thread_local! {
    static STATE: Cell<u8> = const { Cell::new(IDLE) };
    static PENDING: Waiting = const { RefCell::new(Vec::new()) };
    /// Takes its place while the thread ends, when it is gone: it has no destructor, and gives its memory back each time.
    static LATE: ManuallyDrop<Waiting> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}
type Waiting = RefCell<Vec<Arc<dyn Node>>>;

/// One of the two lists. `LATE` has no destructor, so it is always there.
fn waiting<R>(f: impl Fn(&Waiting) -> R) -> Option<R> {
    PENDING.try_with(&f).or_else(|_| LATE.try_with(|late| f(late))).ok()
}

impl Drop for Edge {
    /// Dropping the last reference to a node would drop its edges and saved tensors, and so their nodes, as deep as the
    /// graph: instead the node goes to a list that the outermost drop works off.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the field is taken exactly once, here.
        let node = unsafe { ManuallyDrop::take(&mut self.node) };
        if Arc::strong_count(&node) == 1 {
            drop_node(node);
        }
    }
}
#[inline(never)]
fn drop_node(node: Arc<dyn Node>) {
    if STATE.get() != IDLE {
        STATE.set(MORE);
        let slot = Cell::new(Some(node));
        waiting(|p| p.borrow_mut().extend(slot.take()));
        return;
    }
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            STATE.set(IDLE);
        }
    }
    STATE.set(DRAINING);
    let _reset = Reset;
    drop(node);
    if STATE.get() == DRAINING {
        return;
    }
    while let Some(next) = waiting(|p| p.borrow_mut().pop()).flatten() {
        drop(next);
    }
    let _ = LATE.try_with(|late| drop(late.take()));
}

/// Functions of the engine that inherent methods of `Tensor` call. flambeau-autograd fills it.
pub struct Engine {
    /// A leaf that requires a gradient, or a tensor whose history was rewritten in place.
    pub requires_grad: fn(&Tensor) -> bool,
    /// Whether this thread records what it computes
    pub is_recording: fn() -> bool,
    /// `requires_grad_(bool)`
    pub set_requires_grad: fn(&Tensor, bool) -> Result<()>,
    /// Accumulates gradients into the leaves: `backward(gradient, retain_graph, create_graph, inputs)`
    pub backward: fn(&Tensor, Option<&Tensor>, Option<bool>, bool, Option<&[Tensor]>) -> Result<()>,
    /// `.grad`
    pub grad: fn(&Tensor) -> Option<Tensor>,
    /// Assigns `.grad`
    pub set_grad: fn(&Tensor, Option<Tensor>) -> Result<()>,
    /// `retain_grad()`
    pub retain_grad: fn(&Tensor) -> Result<()>,
    /// `register_hook(f)`
    pub register_hook: fn(&Tensor, TensorHook) -> Result<RemovableHandle>,
    /// `detach_()`
    pub detach_: fn(&Tensor) -> Result<()>,
    /// Refuses `out=` where gradients would be lost: name of the operator, inputs, outputs
    pub check_out: fn(&str, &[&Tensor], &[&Tensor]) -> Result<()>,
    /// Refuses to change a tensor in place where that would be recorded and cannot be: leaves, views of leaves
    pub check_inplace: fn(&Tensor) -> Result<()>,
    /// The current history edge of a tensor whose history was rewritten in place.
    pub rebased_edge: fn(&Tensor) -> Option<Edge>,
}

/// A hook that can be taken out at any time.
pub(crate) trait Remove: Send + Sync {
    fn remove(&self);
}
/// Removes a hook when asked to; dropping the handle leaves the hook in place.
#[doc(alias = "torch.utils.hooks.RemovableHandle")]
pub struct RemovableHandle {
    id: u64,
    entries: SmallVec<[Weak<dyn Remove>; 1]>,
}
impl RemovableHandle {
    /// Of a hook and its number.
    pub(crate) fn new(id: u64, hook: Weak<dyn Remove>) -> RemovableHandle {
        RemovableHandle { id, entries: SmallVec::from_elem(hook, 1) }
    }
    /// Removes the hook. Doing so twice, or after the tensor is gone, does nothing.
    pub fn remove(&self) {
        for e in self.entries.iter().filter_map(Weak::upgrade) {
            e.remove();
        }
    }
    /// Number of the hook, unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }
    /// One handle for all.
    pub fn merge(all: Vec<RemovableHandle>) -> RemovableHandle {
        let id = all.first().map_or(0, |h| h.id);
        RemovableHandle { id, entries: all.into_iter().flat_map(|h| h.entries).collect() }
    }
}

/// A hook on a tensor's gradient: may return another gradient in its place.
pub type TensorHook = Arc<dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync>;

static ENGINE: OnceLock<&'static Engine> = OnceLock::new();

/// Fills in the engine; the first one stays.
pub fn set_engine(e: &'static Engine) -> bool {
    ENGINE.set(e).is_ok()
}
/// What the first question for the engine starts: the registry of crates, which stands above this room, adds its walk.
#[linkme::distributed_slice]
pub static START: [fn()];
/// The engine.
///
/// # Errors
/// Link-time lists are not there on this platform, and nobody registered core by hand.
pub fn engine() -> Result<&'static Engine> {
    if ENGINE.get().is_none() {
        START.iter().for_each(|f| f());
    }
    ENGINE.get().copied().ok_or_else(|| {
        Error::autograd(
            "the gradient engine is not registered: call `flambeau_core::dispatch::registry::init()`",
        )
    })
}
