//! Recurrent layers over slices of run-time type, f32 and f64. `None` means that the dtypes are not supported; all operands
//! share one dtype.

use super::{Gradients, Input, RecurrentShape, Saved, Weights};
use crate::engine::erase::erased;
use crate::{Any, AnyMut};

/// [`Weights`] of run-time type.
#[derive(Clone, Copy)]
pub struct WeightsAny<'a> {
    /// See [`Weights`].
    pub hh: Any<'a>,
    /// See [`Weights`].
    pub bias: Option<Any<'a>>,
    /// See [`Weights`].
    pub hr: Option<Any<'a>>,
    /// See [`Weights`].
    pub h0: Any<'a>,
    /// See [`Weights`].
    pub c0: Option<Any<'a>>,
}
impl<'a> WeightsAny<'a> {
    fn get<T: crate::Element>(self) -> Weights<'a, T> {
        let WeightsAny { hh, bias, hr, h0, c0 } = self;
        Weights {
            hh: hh.get(),
            bias: bias.map(|a| a.get()),
            hr: hr.map(|a| a.get()),
            h0: h0.get(),
            c0: c0.map(|a| a.get()),
        }
    }
}

/// [`super::forward`] of the input `x` with its weight `ih`.
pub fn forward(
    s: &RecurrentShape,
    [x, ih]: [Any; 2],
    w: WeightsAny,
    gates: AnyMut,
    out: AnyMut,
    cells: AnyMut,
) -> Option<()> {
    erased!(w.hh, T in [FLOAT], same(x, ih, w.bias, w.hr, w.h0, w.c0, gates, out, cells) => {
        let input = Input { x: x.get(), ih: ih.get() };
        super::forward::<T>(s, Some(input), w.get(), gates.get(), out.get(), cells.get())
    })
}

/// [`Saved`] of run-time type.
#[derive(Clone, Copy)]
pub struct SavedAny<'a> {
    /// See [`Saved`].
    pub weights: WeightsAny<'a>,
    /// See [`Saved`].
    pub gates: Any<'a>,
    /// See [`Saved`].
    pub out: Any<'a>,
    /// See [`Saved`].
    pub cells: Any<'a>,
    /// See [`Saved`].
    pub grad_out: Option<Any<'a>>,
    /// See [`Saved`].
    pub grad_cells: Option<Any<'a>>,
}

/// [`super::backward`]: gradients of the gates, both initial states, and the results.
pub fn backward(s: &RecurrentShape, x: SavedAny, [gates, h0, c0, out]: [AnyMut; 4]) -> Option<()> {
    let w = x.weights;
    erased!(w.hh, T in [FLOAT], same(w.hr, w.h0, w.c0, x.gates, x.out, x.cells, x.grad_out, x.grad_cells, gates, h0, c0, out) => {
        let saved = Saved {
            weights: w.get(),
            gates: x.gates.get(),
            out: x.out.get(),
            cells: x.cells.get(),
            grad_out: x.grad_out.map(|a| a.get()),
            grad_cells: x.grad_cells.map(|a| a.get()),
        };
        let g = Gradients { gates: gates.get(), h0: h0.get(), c0: c0.get(), out: out.get() };
        super::backward::<T>(s, saved, g)
    })
}
