//! Softmax, layer norm and RMS norm of f16, bf16, f32 and f64 slices of run-time type. `None` means that the dtypes are
//! not supported. All data slices share one dtype; statistics are f32 (f64 for f64) or, rounded, of the data's dtype.

use crate::erase::{Wide, erased, out, wide};
use crate::{Any, AnyMut};

macro_rules! same_shape {
    ($($(#[$doc:meta])* $name:ident($($i:ident),*; $o:ident);)*) => {$(
        $(#[$doc])*
        pub fn $name($($i: Any,)* outer: usize, n: usize, inner: usize, $o: AnyMut) -> Option<()> {
            erased!($o, T in [HALF, FLOAT], same($($i),*) => {
                super::$name::<T>($($i.get(),)* outer, n, inner, $o.get())
            })
        }
    )*};
}
same_shape! {
    /// [`super::softmax`].
    softmax(x; y);
    /// [`super::log_softmax`].
    log_softmax(x; y);
    /// [`super::softmax_backward`].
    softmax_backward(dy, y; dx);
    /// [`super::log_softmax_backward`].
    log_softmax_backward(dy, y; dx);
}

/// [`super::layer_norm`].
pub fn layer_norm(
    x: Any,
    n: usize,
    gamma: Option<Any>,
    beta: Option<Any>,
    eps: f64,
    y: AnyMut,
    mean: AnyMut,
    rstd: AnyMut,
) -> Option<()> {
    let w = wide(x.dtype());
    out(mean, w, |mean| {
        out(rstd, w, |rstd| {
            erased!(x, T in [HALF, FLOAT], same(y, gamma, beta) => {
                let a = super::Affine { gamma: gamma.map(|s| s.get()), beta: beta.map(|s| s.get()) };
                super::layer_norm::<T>(x.get(), n, a, eps, y.get(), mean.get(), rstd.get())
            })
        })
    })
}
/// [`super::rms_norm`].
pub fn rms_norm(x: Any, n: usize, gamma: Option<Any>, eps: f64, y: AnyMut, rstd: AnyMut) -> Option<()> {
    out(rstd, wide(x.dtype()), |rstd| {
        erased!(x, T in [HALF, FLOAT], same(y, gamma) => {
            super::rms_norm::<T>(x.get(), n, gamma.map(|s| s.get()), eps, y.get(), rstd.get())
        })
    })
}
/// [`super::layer_norm_backward`].
pub fn layer_norm_backward(
    dy: Any,
    x: Any,
    n: usize,
    gamma: Option<Any>,
    mean: Any,
    rstd: Any,
    dx: Option<AnyMut>,
    dgamma: Option<AnyMut>,
    dbeta: Option<AnyMut>,
) -> Option<()> {
    let (mean, rstd) = (Wide::of(mean), Wide::of(rstd));
    let (mean, rstd) = (mean.any(), rstd.any());
    if mean.dtype() != wide(x.dtype()) || rstd.dtype() != mean.dtype() {
        return None;
    }
    erased!(x, T in [HALF, FLOAT], same(dy, gamma, dx, dgamma, dbeta) => {
        super::layer_norm_backward::<T>(
            dy.get(), x.get(), n, gamma.map(|s| s.get()), mean.get(), rstd.get(),
            dx.map(|s| s.get()), dgamma.map(|s| s.get()), dbeta.map(|s| s.get()),
        )
    })
}
/// [`super::rms_norm_backward`].
pub fn rms_norm_backward(
    dy: Any,
    x: Any,
    n: usize,
    gamma: Option<Any>,
    rstd: Any,
    dx: Option<AnyMut>,
    dgamma: Option<AnyMut>,
) -> Option<()> {
    let rstd = Wide::of(rstd);
    let rstd = rstd.any();
    if rstd.dtype() != wide(x.dtype()) {
        return None;
    }
    erased!(x, T in [HALF, FLOAT], same(dy, gamma, dx, dgamma) => {
        super::rms_norm_backward::<T>(
            dy.get(), x.get(), n, gamma.map(|s| s.get()), rstd.get(), dx.map(|s| s.get()), dgamma.map(|s| s.get()),
        )
    })
}
