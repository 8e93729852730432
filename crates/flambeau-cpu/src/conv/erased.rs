//! Convolutions over slices of run-time type: i64, floats and complex numbers (not complex32). `None` means that the
//! dtypes are not supported; all operands share one dtype.

use super::ConvShape;
use crate::engine::erase::erased;
use crate::{Any, AnyMut};

macro_rules! conv {
    ($($(#[$doc:meta])* $name:ident($($a:ident: $at:ty),*; $($o:ident),*; $call:expr);)*) => {$(
        $(#[$doc])*
        pub fn $name($($a: $at),*, out: AnyMut) -> Option<()> {
            erased!(out, T in [LONG, HALF, FLOAT, COMPLEX], same($($o),*) => {
                let f = $call;
                f(out.get::<T>())
            })
        }
    )*};
}
conv! {
    /// [`super::forward`].
    forward(shape: &ConvShape, x: Any, w: Any, bias: Option<Any>; x, w, bias;
        |out| super::forward(shape, x.get(), w.get(), bias.map(|b| b.get()), out));
    /// [`super::backward_input`].
    backward_input(shape: &ConvShape, grad_y: Any, w: Any; grad_y, w;
        |out| super::backward_input(shape, grad_y.get(), w.get(), out));
    /// [`super::backward_weight`].
    backward_weight(shape: &ConvShape, x: Any, grad_y: Any; x, grad_y;
        |out| super::backward_weight(shape, x.get(), grad_y.get(), out));
    /// [`super::transposed`].
    transposed(shape: &ConvShape, x: Any, w: Any, bias: Option<Any>; x, w, bias;
        |out| super::transposed(shape, x.get(), w.get(), bias.map(|b| b.get()), out));
    /// [`super::backward_bias`].
    backward_bias(n: usize, o: usize, plane: usize, grad_y: Any; grad_y;
        |out| super::backward_bias(n, o, plane, grad_y.get(), out));
}
