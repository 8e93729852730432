//! Attention over slices of run-time type: f32 and f64, and halves through f32. `None` means that the dtypes are not
//! supported; all operands share one dtype, and the logarithms are f32 for halves.

use super::{AttentionShape, Heads, Saved};
use crate::engine::erase::{Wide, erased, out};
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
    fn wide(&self) -> Wide<'a> {
        Wide::of(self.data)
    }
    fn over<'b, T: crate::Element>(&self, w: &'b Wide) -> Heads<'b, T> {
        Heads { data: w.any().get(), steps: self.steps }
    }
}

/// [`super::forward`].
pub fn forward(s: &AttentionShape, [q, k, v]: [HeadsAny; 3], y: AnyMut, lse: AnyMut) -> Option<()> {
    let (wq, wk, wv) = (q.wide(), k.wide(), v.wide());
    let d = lse.dtype();
    out(y, d, |y| {
        erased!(y, T in [FLOAT], same(wq.any(), wk.any(), wv.any(), lse) => {
            super::forward::<T>(s, q.over(&wq), k.over(&wk), v.over(&wv), y.get(), lse.get())
        })
    })
}

/// [`super::backward`].
pub fn backward(
    s: &AttentionShape,
    [q, k, v, grad]: [HeadsAny; 4],
    y: Any,
    lse: Any,
    [gq, gk, gv]: [AnyMut; 3],
) -> Option<()> {
    let (wq, wk, wv, wg, wy) = (q.wide(), k.wide(), v.wide(), grad.wide(), Wide::of(y));
    let d = lse.dtype();
    out(gq, d, |gq| {
        out(gk, d, |gk| {
            out(gv, d, |gv| {
                erased!(lse, T in [FLOAT], same(wq.any(), wk.any(), wv.any(), wg.any(), wy.any(), gq, gk, gv) => {
                    let saved = Saved {
                        q: q.over(&wq),
                        k: k.over(&wk),
                        v: v.over(&wv),
                        out: wy.any().get(),
                        lse: lse.get::<T>(),
                        grad: grad.over(&wg),
                    };
                    super::backward::<T>(s, &saved, gq.get(), gk.get(), gv.get())
                })
            })
        })
    })
}
