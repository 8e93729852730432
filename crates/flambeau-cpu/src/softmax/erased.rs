//! Softmax of f16, bf16, f32 and f64 slices of run-time type. `None` means that the dtypes are not supported. All slices
//! share one dtype. Halves go through f32.

use crate::engine::erase::{Out, Wide, all_are, erased, rounded};
use crate::{Any, AnyMut};

macro_rules! same_shape {
    ($($(#[$doc:meta])* $name:ident($($i:ident),*; $o:ident);)*) => {$(
        $(#[$doc])*
        pub fn $name($($i: Any,)* outer: usize, n: usize, inner: usize, $o: AnyMut) -> Option<()> {
            if !all_are($o.dtype(), &[$(&$i),*]) {
                return None;
            }
            $(let $i = Wide::of($i);)*
            let mut out = Out::of($o);
            erased!(out.any(), T in [FLOAT] => {
                super::$name::<T>($($i.any().get(),)* outer, n, inner, out.any().get())
            })?;
            out.done();
            Some(())
        }
    )*};
}
same_shape! {
    /// [`super::softmax`].
    softmax(x; y);
    /// [`super::softmax_backward`].
    softmax_backward(dy, y; dx);
    /// [`super::log_softmax_backward`].
    log_softmax_backward(dy, y; dx);
}

/// [`super::log_softmax`], of halves with rounded sums.
pub fn log_softmax(x: Any, outer: usize, n: usize, inner: usize, y: AnyMut) -> Option<()> {
    if x.dtype() != y.dtype() {
        return None;
    }
    let keep = rounded(x.dtype());
    let x = Wide::of(x);
    let mut y = Out::of(y);
    erased!(y.any(), T in [FLOAT] => {
        super::log_softmax_keeping::<T>(x.any().get(), outer, n, inner, y.any().get(), keep)
    })?;
    y.done();
    Some(())
}
