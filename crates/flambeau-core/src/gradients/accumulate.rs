//! The node at the end of every path: adds to the gradient of a leaf.

use crate::derivatives::shorthand;
use crate::gradients::grad_mode::is_recording;
use crate::gradients::hooks;
use crate::gradients::state;
use crate::tensor::geometry;
use crate::tensor::graph::{Node, NodeHeader, OutputMeta};
use crate::{Result, Tensor};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub struct AccumulateGrad {
    header: NodeHeader,
    leaf: Tensor,
    /// One accumulation at a time. Not the lock of the leaf's state: operators run under this one.
    busy: Mutex<()>,
    /// Whose turn it is ([`me`]), 0 for nobody's.
    owner: AtomicUsize,
}

impl AccumulateGrad {
    #[inline(always)]
    pub fn new(leaf: Tensor) -> Self {
        let outputs = SmallVec::from_buf([OutputMeta::of(&leaf)]);
        AccumulateGrad {
            header: NodeHeader::new(SmallVec::new(), outputs),
            leaf,
            busy: Mutex::new(()),
            owner: AtomicUsize::new(0),
        }
    }
    /// Waits until no other thread accumulates. A mode or a kernel of the user's that runs backward into the same leaf comes
    /// here from within its own thread's turn: it does not wait, and [`accumulate`] sees that the gradient has changed.
    fn exclusive(&self) -> Option<Turn<'_>> {
        let me = me();
        if self.owner.load(Ordering::Relaxed) == me {
            return None;
        }
        let one = self.busy.lock().unwrap_or_else(|e| e.into_inner());
        self.owner.store(me, Ordering::Relaxed);
        Some(Turn { owner: &self.owner, _one: one })
    }
}
struct Turn<'a> {
    owner: &'a AtomicUsize,
    _one: MutexGuard<'a, ()>,
}
impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}
/// A number of this thread that no other living thread has, and not 0.
fn me() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.try_with(|h| std::ptr::from_ref(h).addr()).unwrap_or(1)
}

impl Node for AccumulateGrad {
    fn header(&self) -> &NodeHeader {
        &self.header
    }
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("AccumulateGrad")
    }
    fn apply(
        &self,
        _this: &Arc<dyn Node>,
        grads: &mut [Option<Tensor>],
    ) -> Result<SmallVec<[Option<Tensor>; 2]>> {
        let Some(mut grad) = grads.first_mut().and_then(Option::take) else { return Ok(SmallVec::new()) };
        run_leaf_hooks(&self.leaf, &mut grad)?;
        {
            let _turn = self.exclusive();
            accumulate(&self.leaf, grad)?;
        }
        if !state::is_hooked(&self.leaf) {
            return Ok(SmallVec::new());
        }
        let post = state::get_or_init(&self.leaf).lock().post_accumulate.live();
        for f in post {
            f(&self.leaf)?;
        }
        Ok(SmallVec::new())
    }
    fn leaf(&self) -> Option<Tensor> {
        Some(self.leaf.clone())
    }
}

/// The hooks that were put on the leaf itself.
pub fn run_leaf_hooks(leaf: &Tensor, grad: &mut Tensor) -> Result<()> {
    if !state::is_hooked(leaf) {
        return Ok(());
    }
    let hooks = {
        let Some(s) = state::get(leaf) else { return Ok(()) };
        let mut inner = s.lock();
        if inner.hooks.is_empty() {
            return Ok(());
        }
        inner.hooks.live()
    };
    hooks::run_tensor_hooks(&hooks, grad)
}

/// Adds to `.grad`: in place unless a graph of the gradients is being made.
pub fn accumulate(t: &Tensor, mut grad: Tensor) -> Result<()> {
    // again where user code, which may run within the operators here, has put another gradient there meanwhile
    loop {
        match state::grad(t) {
            None => match state::exchange_grad(t, None, first(t, grad)?) {
                Ok(()) => return Ok(()),
                // what was made of the gradient alone is the gradient itself, in the leaf's layout
                Err(new) => grad = new,
            },
            Some(sum) => match sum_of(t, &sum, &grad)? {
                None => return Ok(()),
                Some(new) => {
                    if state::exchange_grad(t, Some(&sum), new).is_ok() {
                        return Ok(());
                    }
                }
            },
        }
    }
}
/// The first gradient.
fn first(t: &Tensor, grad: Tensor) -> Result<Tensor> {
    let recording = is_recording();
    // never the caller's own tensor, nor values that are a part of it
    if grad.is_sparse_any() {
        let keep = !recording && is_sole_owner_of_parts(&grad);
        return if keep { Ok(shorthand::detached(grad)) } else { shorthand::clone(&grad) };
    }
    if !obeys_layout(t, &grad) {
        return with_layout_of(t, &grad);
    }
    // recorded, and never the caller's own tensor
    if recording {
        return shorthand::clone(&grad);
    }
    if !is_sole_owner(&grad) {
        return with_layout_of(t, &grad);
    }
    // never a view: it would keep the tensor that it is a view of, and could not be detached in place
    Ok(match grad.view_base() {
        Some(_) => grad.alias_detached(),
        None => shorthand::detached(grad),
    })
}
/// What `sum` becomes; none where it was added to in place.
fn sum_of(t: &Tensor, sum: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
    let recording = is_recording();
    if sum.is_sparse_any() || grad.is_sparse_any() {
        if !recording && (!sum.is_sparse_any() || grad.is_sparse_any()) {
            return shorthand::add_(sum, grad).map(|()| None);
        }
        return shorthand::add_layouts(sum, grad).map(Some);
    }
    if !recording {
        return shorthand::add_(sum, grad).map(|()| None);
    }
    let s = shorthand::add(sum, grad)?;
    if obeys_layout(t, &s) { Ok(Some(s)) } else { with_layout_of(t, &s).map(Some) }
}

/// Nobody else can see this tensor or its memory.
pub fn is_sole_owner(t: &Tensor) -> bool {
    t.handle_count() == 1
        && match t.view_base() {
            None => t.storage().handle_count() == 1,
            // the view holds its root, the root its storage
            Some(root) => root.handle_count() == 1 && root.storage().handle_count() == 1,
        }
}

/// The same for a sparse tensor's values.
fn is_sole_owner_of_parts(t: &Tensor) -> bool {
    t.handle_count() == 1 && t.sparse_parts().is_some_and(|p| p.values().storage().handle_count() == 1)
}

/// A gradient has the strides of its leaf, or is contiguous where the leaf's memory overlaps or has gaps.
fn obeys_layout(t: &Tensor, g: &Tensor) -> bool {
    if g.is_conj() || g.is_neg() {
        return false;
    }
    if t.is_contiguous() && g.is_contiguous() {
        return true;
    }
    if geometry::is_non_overlapping_and_dense(t.sizes(), t.strides()) {
        let same = t.strides().iter().zip(g.strides()).zip(t.sizes()).all(|((a, b), n)| a == b || *n == 1);
        same && t.sizes() == g.sizes()
    } else {
        g.is_contiguous()
    }
}
fn with_layout_of(t: &Tensor, g: &Tensor) -> Result<Tensor> {
    let dense = geometry::is_non_overlapping_and_dense(t.sizes(), t.strides());
    let strides = if dense {
        geometry::SizeVec::from_slice(t.strides())
    } else {
        geometry::contiguous_strides(g.sizes())
    };
    // by an operator, so that a capture sees where the gradient comes from
    let out = shorthand::new_empty_strided(g, g.sizes(), &strides)?;
    shorthand::copy_(&out, g)?;
    Ok(out)
}
