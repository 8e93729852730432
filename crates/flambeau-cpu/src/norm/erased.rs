//! Normalisation of f16, bf16, f32 and f64 slices of run-time type. `None` means that the dtypes are not supported.
//! Halves go through f32. Of batch and group normalisation, parameters, statistics and their gradients are f32 (f64 for
//! f64), or of the data's dtype; those that are written are rounded into it. Of layer and RMS norm, all data slices share
//! one dtype; statistics are f32 (f64 for f64) or, rounded, of the data's dtype.

use super::batch::{NormShape, Rules};
use crate::engine::erase::{
    Out, Typed, Wide, all_are, erased, opt_inout, opt_out, out, rounded, through, wide,
};
use crate::{Any, AnyMut, DType};

/// [`super::batch::batch_norm_train`]. `dense`: whether the caller's input lay so; see [`Rules::early`].
pub fn batch_norm_train(
    shape: NormShape,
    x: Any,
    weight: Option<Any>,
    bias: Option<Any>,
    running_mean: Option<AnyMut>,
    running_var: Option<AnyMut>,
    momentum: f64,
    eps: f64,
    dense: bool,
    y: AnyMut,
    save_mean: AnyMut,
    save_invstd: AnyMut,
) -> Option<()> {
    let d = wide(x.dtype());
    let (w, b) = (weight.map(Wide::of), bias.map(Wide::of));
    let (w, b) = (w.as_ref().map(Wide::any), b.as_ref().map(Wide::any));
    if !y.is(x.dtype()) || [w, b].iter().flatten().any(|p| p.dtype() != d) {
        return None;
    }
    let round = rounded(save_mean.dtype());
    let steps = save_mean.dtype() == DType::BF16;
    let rules = Rules { round, early: dense, steps, constant: true };
    opt_inout(running_mean, d, |rm| {
        opt_inout(running_var, d, |rv| {
            out(save_mean, d, |mean| {
                out(save_invstd, d, |invstd| {
                    through(x, y, |x, y| {
                        erased!(x, T in [FLOAT] => super::batch::batch_norm_train::<T>(
                            shape, x.get(), w.map(|s| s.get()), b.map(|s| s.get()), rm.map(|s| s.get()),
                            rv.map(|s| s.get()), momentum, eps, rules, y.get(), mean.get(), invstd.get(),
                        ))
                    })
                })
            })
        })
    })
}
/// [`super::batch::batch_norm_eval`].
pub fn batch_norm_eval(
    shape: NormShape,
    x: Any,
    weight: Option<Any>,
    bias: Option<Any>,
    running_mean: Any,
    running_var: Any,
    eps: f64,
    y: AnyMut,
) -> Option<()> {
    let d = wide(x.dtype());
    let (w, b) = (weight.map(Wide::of), bias.map(Wide::of));
    let (w, b) = (w.as_ref().map(Wide::any), b.as_ref().map(Wide::any));
    let (m, v) = (Wide::of(running_mean), Wide::of(running_var));
    let (m, v) = (m.any(), v.any());
    if !y.is(x.dtype()) || [w, b, Some(m), Some(v)].iter().flatten().any(|p| p.dtype() != d) {
        return None;
    }
    through(x, y, |x, y| {
        erased!(x, T in [FLOAT] => super::batch::batch_norm_eval::<T>(
            shape, x.get(), w.map(|s| s.get()), b.map(|s| s.get()), m.get(), v.get(), eps, y.get(),
        ))
    })
}
/// Gradients of normalisations by channel, which differ in the one argument behind the shape.
macro_rules! backward {
    ($($name:ident($argument:ident: $t:ty);)*) => {$(
        #[doc = concat!("[`super::batch::", stringify!($name), "`].")]
        pub fn $name(
            shape: NormShape,
            $argument: $t,
            grad_y: Any,
            x: Any,
            weight: Option<Any>,
            mean: Any,
            invstd: Any,
            grad_x: Option<AnyMut>,
            grad_weight: Option<AnyMut>,
            grad_bias: Option<AnyMut>,
        ) -> Option<()> {
            let d = wide(x.dtype());
            let (w, m, r) = (weight.map(Wide::of), Wide::of(mean), Wide::of(invstd));
            let (w, m, r) = (w.as_ref().map(Wide::any), m.any(), r.any());
            let same = all_are(x.dtype(), &[&grad_y, &grad_x]);
            if !same || [w, Some(m), Some(r)].iter().flatten().any(|p| p.dtype() != d) {
                return None;
            }
            opt_out(grad_weight, d, |gw| {
                opt_out(grad_bias, d, |gb| {
                    let (x, dy) = (Wide::of(x), Wide::of(grad_y));
                    let (x, dy) = (x.any(), dy.any());
                    let mut dx = grad_x.map(Out::of);
                    erased!(x, T in [FLOAT] => super::batch::$name::<T>(
                        shape, $argument, dy.get(), x.get(), w.map(|s| s.get()), m.get(), r.get(),
                        dx.as_mut().map(|s| s.any().get()), gw.map(|s| s.get()), gb.map(|s| s.get()),
                    ))?;
                    dx.into_iter().for_each(Out::done);
                    Some(())
                })
            })
        }
    )*};
}
backward! {
    batch_norm_backward(train: bool);
    group_norm_backward(groups: usize);
}
/// [`super::batch::group_norm`].
pub fn group_norm(
    shape: NormShape,
    groups: usize,
    x: Any,
    weight: Option<Any>,
    bias: Option<Any>,
    eps: f64,
    y: AnyMut,
    mean: AnyMut,
    rstd: AnyMut,
) -> Option<()> {
    let d = wide(x.dtype());
    let (w, b) = (weight.map(Wide::of), bias.map(Wide::of));
    let (w, b) = (w.as_ref().map(Wide::any), b.as_ref().map(Wide::any));
    if !y.is(x.dtype()) || [w, b].iter().flatten().any(|p| p.dtype() != d) {
        return None;
    }
    out(mean, d, |mean| {
        out(rstd, d, |rstd| {
            through(x, y, |x, y| {
                erased!(x, T in [FLOAT] => super::batch::group_norm::<T>(
                    shape, groups, x.get(), w.map(|s| s.get()), b.map(|s| s.get()), eps, y.get(), mean.get(),
                    rstd.get(),
                ))
            })
        })
    })
}
/// [`super::layer::layer_norm`].
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
        let a = super::layer::Affine { gamma: g.map(|s| s.get()), beta: b.map(|s| s.get()) };
        super::layer::layer_norm::<T>(x.get(), n, a, eps, y.any().get(), mean.any().get(), rstd.any().get())
    })?;
    [y, mean, rstd].into_iter().for_each(Out::done);
    Some(())
}
/// [`super::layer::rms_norm`].
pub fn rms_norm(x: Any, n: usize, gamma: Option<Any>, eps: f64, y: AnyMut, rstd: AnyMut) -> Option<()> {
    if !all_are(x.dtype(), &[&y, &gamma]) {
        return None;
    }
    let (x, g) = (Wide::of(x), gamma.map(Wide::of));
    let (x, g) = (x.any(), g.as_ref().map(Wide::any));
    let (mut y, mut rstd) = (Out::of(y), Out::of(rstd));
    erased!(x, T in [FLOAT], same(rstd.any()) => {
        super::layer::rms_norm::<T>(x.get(), n, g.map(|s| s.get()), eps, y.any().get(), rstd.any().get())
    })?;
    [y, rstd].into_iter().for_each(Out::done);
    Some(())
}
/// [`super::layer::layer_norm_backward`].
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
        super::layer::layer_norm_backward::<T>(
            dy.get(), x.get(), n, g.map(|s| s.get()), mean.get(), rstd.get(), dx.as_mut().map(|s| s.any().get()),
            dg.as_mut().map(|s| s.any().get()), db.as_mut().map(|s| s.any().get()),
        )
    })?;
    [dx, dg, db].into_iter().flatten().for_each(Out::done);
    Some(())
}
/// [`super::layer::rms_norm_backward`].
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
        super::layer::rms_norm_backward::<T>(
            dy.get(), x.get(), n, g.map(|s| s.get()), rstd.get(), dx.as_mut().map(|s| s.any().get()),
            dg.as_mut().map(|s| s.any().get()),
        )
    })?;
    [dx, dg].into_iter().flatten().for_each(Out::done);
    Some(())
}
