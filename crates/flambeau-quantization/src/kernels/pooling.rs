//! Windows: extremes of integers, means of numbers, other sizes, borders.

use super::activation::in_steps;
use super::copies::one_integer;
use crate::tensor::{affine, mapped};
use flambeau_core::types::keys::Key::QuantizedCpu;
use flambeau_core::{Result, Tensor, bail};
use flambeau_nn_functional::generated::{padding as b, pool as p, vision as v};
use flambeau_nn_functional::ops as nn;

/// Copies of single elements, which integers bear; all other modes compute.
fn interpolate(
    t: &Tensor,
    size: Option<&[i64]>,
    factors: Option<&[f64]>,
    mode: &str,
    align: Option<bool>,
    recompute: Option<bool>,
    antialias: bool,
) -> Result<Tensor> {
    affine(t)?;
    in_steps(t, |x| nn::interpolate(x, size, factors, mode, align, recompute, antialias))
}
fn interpolate_by(
    t: &Tensor,
    size: Option<&[i64]>,
    factor: Option<f64>,
    mode: &str,
    align: Option<bool>,
    recompute: Option<bool>,
    antialias: bool,
) -> Result<Tensor> {
    in_steps(t, |x| nn::interpolate_by(x, size, factor, mode, align, recompute, antialias))
}
/// Max pooling of the integers, as PyTorch's kernels do it.
pub(crate) fn max_pool(
    t: &Tensor,
    spatial: usize,
    (kernel, stride, padding, dilation): (&[i64], Option<&[i64]>, &[i64], &[i64]),
    ceil: bool,
) -> Result<Tensor> {
    affine(t)?;
    let pool = |x: &Tensor| match spatial {
        1 => nn::max_pool1d(x, kernel, stride, padding, dilation, ceil, false),
        2 => nn::max_pool2d(x, kernel, stride, padding, dilation, ceil, false),
        _ => nn::max_pool3d(x, kernel, stride, padding, dilation, ceil, false),
    };
    in_steps(t, pool)
}

pub(super) fn fill() {
    p::MAX_POOL1D.register(QuantizedCpu, |t, k, s, pad, d, c, _| max_pool(t, 1, (k, s, pad, d), c));
    p::MAX_POOL2D.register(QuantizedCpu, |t, k, s, pad, d, c, _| max_pool(t, 2, (k, s, pad, d), c));
    p::AVG_POOL2D.register(QuantizedCpu, |t, k, s, pad, c, i, d| {
        in_steps(t, |x| nn::avg_pool2d(x, k, s, pad, c, i, d))
    });
    p::AVG_POOL3D.register(QuantizedCpu, |t, k, s, pad, c, i, d| {
        in_steps(t, |x| nn::avg_pool3d(x, k, s, pad, c, i, d))
    });
    p::ADAPTIVE_AVG_POOL2D.register(QuantizedCpu, |t, n| in_steps(t, |x| nn::adaptive_avg_pool2d(x, n)));
    p::ADAPTIVE_AVG_POOL3D.register(QuantizedCpu, |t, n| in_steps(t, |x| nn::adaptive_avg_pool3d(x, n)));
    v::INTERPOLATE.register(QuantizedCpu, interpolate);
    v::INTERPOLATE_BY.register(QuantizedCpu, interpolate_by);
    v::UPSAMPLE
        .register(QuantizedCpu, |t, n, f, mode, align| in_steps(t, |x| nn::upsample(x, n, f, mode, align)));
    v::UPSAMPLE_NEAREST.register(QuantizedCpu, |t, n, f| in_steps(t, |x| nn::upsample_nearest(x, n, f)));
    v::UPSAMPLE_BILINEAR.register(QuantizedCpu, |t, n, f| in_steps(t, |x| nn::upsample_bilinear(x, n, f)));
    b::CONSTANT_PAD_ND.register(QuantizedCpu, |t, n, value| {
        let whole = one_integer(t, value.to_f64())?;
        mapped(t, |q| {
            let filled = whole.try_item::<i64>()?;
            nn::constant_pad_nd(q, n, flambeau_core::Scalar::Int(filled))
        })
    });
    b::PAD.register(QuantizedCpu, pad);
}
fn pad(t: &Tensor, n: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    affine(t)?;
    match mode {
        "constant" => nn::constant_pad_nd(t, n, flambeau_core::Scalar::Float(value.unwrap_or(0.0))),
        "reflect" | "replicate" | "circular" => in_steps(t, |x| nn::pad(x, n, mode, value)),
        other => bail!(Unsupported, "Unrecognised padding mode {other}"),
    }
}
