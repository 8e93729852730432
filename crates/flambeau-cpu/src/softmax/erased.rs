//! Softmax, layer norm and RMS norm of f16, bf16, f32 and f64 slices of run-time type. `None` means that the dtypes are
//! not supported. All data slices share one dtype; statistics are f32 (f64 for f64) or, rounded, of the data's dtype.
//! Halves go through f32.

use crate::erase::{Out, Wide, all_are, erased, rounded};
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
    if !all_are(x.dtype(), &[&y, &gamma, &beta]) {
        return None;
    }
    let (x, g, b) = (Wide::of(x), gamma.map(Wide::of), beta.map(Wide::of));
    let (x, g, b) = (x.any(), g.as_ref().map(Wide::any), b.as_ref().map(Wide::any));
    let (mut y, mut mean, mut rstd) = (Out::of(y), Out::of(mean), Out::of(rstd));
    erased!(x, T in [FLOAT], same(mean.any(), rstd.any()) => {
        let a = super::Affine { gamma: g.map(|s| s.get()), beta: b.map(|s| s.get()) };
        super::layer_norm::<T>(x.get(), n, a, eps, y.any().get(), mean.any().get(), rstd.any().get())
    })?;
    [y, mean, rstd].into_iter().for_each(Out::done);
    Some(())
}
/// [`super::rms_norm`].
pub fn rms_norm(x: Any, n: usize, gamma: Option<Any>, eps: f64, y: AnyMut, rstd: AnyMut) -> Option<()> {
    if !all_are(x.dtype(), &[&y, &gamma]) {
        return None;
    }
    let (x, g) = (Wide::of(x), gamma.map(Wide::of));
    let (x, g) = (x.any(), g.as_ref().map(Wide::any));
    let (mut y, mut rstd) = (Out::of(y), Out::of(rstd));
    erased!(x, T in [FLOAT], same(rstd.any()) => {
        super::rms_norm::<T>(x.get(), n, g.map(|s| s.get()), eps, y.any().get(), rstd.any().get())
    })?;
    [y, rstd].into_iter().for_each(Out::done);
    Some(())
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
    if !all_are(x.dtype(), &[&dy, &gamma, &dx, &dgamma, &dbeta]) {
        return None;
    }
    let (dy, x, g) = (Wide::of(dy), Wide::of(x), gamma.map(Wide::of));
    let (dy, x, g) = (dy.any(), x.any(), g.as_ref().map(Wide::any));
    let (mean, rstd) = (Wide::of(mean), Wide::of(rstd));
    let (mean, rstd) = (mean.any(), rstd.any());
    let [mut dx, mut dg, mut db] = [dx, dgamma, dbeta].map(|o| o.map(Out::of));
    erased!(x, T in [FLOAT], same(mean, rstd) => {
        super::layer_norm_backward::<T>(
            dy.get(), x.get(), n, g.map(|s| s.get()), mean.get(), rstd.get(), dx.as_mut().map(|s| s.any().get()),
            dg.as_mut().map(|s| s.any().get()), db.as_mut().map(|s| s.any().get()),
        )
    })?;
    [dx, dg, db].into_iter().flatten().for_each(Out::done);
    Some(())
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
    if !all_are(x.dtype(), &[&dy, &gamma, &dx, &dgamma]) {
        return None;
    }
    let (dy, x, g, rstd) = (Wide::of(dy), Wide::of(x), gamma.map(Wide::of), Wide::of(rstd));
    let (dy, x, g, rstd) = (dy.any(), x.any(), g.as_ref().map(Wide::any), rstd.any());
    let [mut dx, mut dg] = [dx, dgamma].map(|o| o.map(Out::of));
    erased!(x, T in [FLOAT], same(rstd) => {
        super::rms_norm_backward::<T>(
            dy.get(), x.get(), n, g.map(|s| s.get()), rstd.get(), dx.as_mut().map(|s| s.any().get()),
            dg.as_mut().map(|s| s.any().get()),
        )
    })?;
    [dx, dg].into_iter().flatten().for_each(Out::done);
    Some(())
}
