//! Attention over slices of run-time type: f32, f64 and halves. `None` means that the dtypes are not supported; all operands
//! share one dtype, and logarithms and masks are f32 for halves.

use super::{AttentionShape, Heads, Saved};
use crate::engine::erase::{erased, wide};
use crate::num::stored::Stored;
use crate::{Any, AnyMut};

/// [`Heads`] of run-time type.
#[derive(Clone, Copy)]
pub struct HeadsAny<'a> {
    /// Elements, from the first on.
    pub data: Any<'a>,
    /// Steps of the batch, of the heads, of the rows, in elements.
    pub steps: [usize; 3],
}
impl<'a> HeadsAny<'a> {
    fn get<T: crate::Element>(&self) -> Heads<'a, T> {
        Heads { data: self.data.get(), steps: self.steps }
    }
}

/// [`super::forward`].
pub fn forward(
    s: &AttentionShape,
    [q, k, v]: [HeadsAny; 3],
    mask: Option<HeadsAny>,
    y: AnyMut,
    lse: AnyMut,
) -> Option<()> {
    let w = wide(y.dtype());
    if lse.dtype() != w || mask.is_some_and(|m| m.data.dtype() != w) {
        return None;
    }
    erased!(y, S in [HALF, FLOAT], same(q.data, k.data, v.data) => {
        let mask = mask.map(|m| m.get::<<S as Stored>::Compute>());
        super::forward::<S>(s, [q.get(), k.get(), v.get()], mask, y.get(), lse.get())
    })
}

/// [`super::backward`].
pub fn backward(
    s: &AttentionShape,
    [q, k, v, grad]: [HeadsAny; 4],
    mask: Option<HeadsAny>,
    y: Any,
    lse: Any,
    [gq, gk, gv]: [AnyMut; 3],
) -> Option<()> {
    let w = wide(y.dtype());
    if lse.dtype() != w || mask.is_some_and(|m| m.data.dtype() != w) {
        return None;
    }
    erased!(y, S in [HALF, FLOAT], same(q.data, k.data, v.data, grad.data, gq, gk, gv) => {
        let saved = Saved {
            q: q.get(),
            k: k.get(),
            v: v.get(),
            mask: mask.map(|m| m.get()),
            out: y.get(),
            lse: lse.get::<<S as Stored>::Compute>(),
            grad: grad.get(),
        };
        super::backward::<S>(s, &saved, gq.get(), gk.get(), gv.get())
    })
}
