//! Norms of rows: layer norm and RMS norm.

use super::forms::{check_alike, check_mixed};
use super::{Operands, check_float, like, mask_len, opt, opt_mut, stat_dtype};
use crate::generated::args;
use crate::ops::operands::{cast, done, plain, plain_opt, wide};
use flambeau_core::backend::out::{Chosen, OutMeta};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{SizeVec, fmt_sizes};
use flambeau_core::{DType, Result, Tensor, ensure, ops as core_ops};
use flambeau_cpu::norm::erased as kernels;

/// A parameter has the sizes that are normalised over.
pub(super) fn same_shape(t: &Tensor, name: &str, normalized: &[i64]) -> Result<()> {
    ensure!(
        t.sizes() == normalized,
        Runtime,
        "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and normalized_shape = {}",
        fmt_sizes(t.sizes()),
        fmt_sizes(normalized)
    );
    Ok(())
}
/// There is a dimension to normalise.
pub(super) fn some_dimension(normalized: &[i64]) -> Result<()> {
    ensure!(
        !normalized.is_empty(),
        Runtime,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"
    );
    Ok(())
}
/// Rows and their length, with PyTorch's checks.
fn row_shape(
    input: &Tensor,
    normalized: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    rms: bool,
) -> Result<(usize, usize)> {
    some_dimension(normalized)?;
    for (t, name) in [(weight, "weight"), (bias, "bias")] {
        if let Some(t) = t {
            same_shape(t, name, normalized)?;
        }
    }
    let x = input.sizes();
    let fits = x.len() >= normalized.len() && x[x.len() - normalized.len()..] == *normalized;
    let list = normalized.iter().map(|d| d.to_string()).collect::<Vec<_>>().join(", ");
    ensure!(
        fits,
        Runtime,
        "Given normalized_shape={}, expected input with shape [*{}{list}], but got input of size{}",
        fmt_sizes(normalized),
        if rms { "" } else { ", " },
        fmt_sizes(x)
    );
    let n: i64 = normalized.iter().product();
    let rows: i64 = x[..x.len() - normalized.len()].iter().product();
    Ok((rows as usize, n as usize))
}
/// Statistics of rows: the normalised dimensions become 1.
fn row_stats(input: &Tensor, normalized: &[i64], dtype: DType) -> OutMeta {
    let first = input.dim() - normalized.len();
    let sizes: SizeVec =
        input.sizes().iter().enumerate().map(|(i, d)| if i < first { *d } else { 1 }).collect();
    OutMeta::new(sizes, dtype, input.device())
}
/// Parameters of a row norm in the input's dtype; PyTorch allows float ones with a half input.
fn row_param(t: Option<&Tensor>, input: &Tensor) -> Result<Option<Tensor>> {
    t.map(|t| {
        ensure!(
            t.dtype() == input.dtype() || t.dtype() == wide(input.dtype()),
            Runtime,
            "expected scalar type {} but found {}",
            input.dtype().scalar_type_name(),
            t.dtype().scalar_type_name()
        );
        plain(&cast(t, input.dtype())?)
    })
    .transpose()
}

/// `native_layer_norm`
pub fn native_layer_norm_shape(
    &args::NativeLayerNorm { input, normalized_shape, weight, bias, .. }: &args::NativeLayerNorm,
) -> Result<[OutMeta; 3]> {
    check_mixed(input, &[weight, bias])?;
    row_shape(input, normalized_shape, weight, bias, false)?;
    check_float(input, "LayerNormKernelImpl")?;
    check_alike(input, &[weight, bias])?;
    let stat = row_stats(input, normalized_shape, stat_dtype(input, weight));
    Ok([like(input), stat.clone(), stat])
}
/// `native_layer_norm`
pub fn native_layer_norm_cpu(
    &args::NativeLayerNorm { input, normalized_shape, weight, bias, eps }: &args::NativeLayerNorm,
    [y, mean, rstd]: [&Tensor; 3],
) -> Result<()> {
    let n: i64 = normalized_shape.iter().product();
    let (w, b) = (row_param(weight, input)?, row_param(bias, input)?);
    let x = plain(input)?;
    if x.numel() == 0 {
        return Ok(());
    }
    let mut o = Operands::default();
    let (ix, iw, ib) = (o.read(&x), o.read_opt(&w), o.read_opt(&b));
    let (iy, im, ir) = (o.write(y), o.write(mean), o.write(rstd));
    let a = o.hold()?;
    let r = kernels::layer_norm(
        a.any(ix)?,
        n as usize,
        opt(&a, iw)?,
        opt(&a, ib)?,
        eps,
        a.any_mut(iy)?,
        a.any_mut(im)?,
        a.any_mut(ir)?,
    );
    done(r, "LayerNormKernelImpl", x.dtype())
}
/// `layer_norm`
pub fn layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enable: bool,
) -> Result<Tensor> {
    crate::ops::native_layer_norm(input, normalized_shape, weight, bias, eps).map(|r| r.0)
}

/// The gradients of a row norm, as far as they are asked for: input, weight, bias.
fn row_gradients(
    grad_out: &Tensor,
    input: &Tensor,
    normalized: &[i64],
    statistics: &[&Tensor],
    parameters: &[Option<&Tensor>],
    mask: &[bool],
    rms: bool,
) -> Result<Chosen> {
    let bias = parameters.get(1).copied().flatten();
    let (rows, _) = row_shape(input, normalized, parameters[0], bias, rms)?;
    ensure!(
        grad_out.sizes() == input.sizes() && grad_out.dtype() == input.dtype(),
        Shape,
        "layer_norm_backward: the gradient is not like the input"
    );
    ensure!(
        statistics.iter().all(|s| s.numel() as usize == rows),
        Shape,
        "layer_norm_backward: wrong number of statistics"
    );
    // PyTorch allows float parameters with a half input
    let of = |p: &Option<&Tensor>| OutMeta::of(normalized, stat_dtype(input, *p), input.device());
    let all = std::iter::once(like(input)).chain(parameters.iter().map(of));
    Ok(Chosen::new(all.zip(mask).map(|(m, on)| on.then_some(m)), input))
}
/// Layer norm with `mean`, RMS norm without.
fn row_backward(
    grad_out: &Tensor,
    input: &Tensor,
    n: i64,
    mean: Option<&Tensor>,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    [gx, gw, gb]: [Option<&Tensor>; 3],
) -> Result<()> {
    let (g, x, w) = (plain(grad_out)?, plain(input)?, row_param(weight, input)?);
    let (mean, rstd) = (plain_opt(mean)?, plain(rstd)?);
    if x.numel() == 0 {
        return [gw, gb].into_iter().flatten().try_for_each(core_ops::zero_);
    }
    // the kernel's gradients have the input's dtype
    let own = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
        let Some(t) = t else { return Ok(None) };
        if t.dtype() == x.dtype() { Ok(Some(t.clone())) } else { like_dtype(t, &x).map(Some) }
    };
    let (ow, ob) = (own(gw)?, own(gb)?);
    let mut o = Operands::default();
    let (ig, ix, iw) = (o.read(&g), o.read(&x), o.read_opt(&w));
    let (im, ir) = (o.read_opt(&mean), o.read(&rstd));
    let (ogx, ogw, ogb) = (gx.map(|t| o.write(t)), o.write_opt(&ow), o.write_opt(&ob));
    {
        let a = o.hold()?;
        let (gx, gw, gb) = (opt_mut(&a, ogx)?, opt_mut(&a, ogw)?, opt_mut(&a, ogb)?);
        let (g, x_, w, n) = (a.any(ig)?, a.any(ix)?, opt(&a, iw)?, n as usize);
        let r = match opt(&a, im)? {
            Some(m) => kernels::layer_norm_backward(g, x_, n, w, m, a.any(ir)?, gx, gw, gb),
            None => kernels::rms_norm_backward(g, x_, n, w, a.any(ir)?, gx, gw),
        };
        done(r, "LayerNormBackwardKernelImpl", x.dtype())?;
    }
    for (given, used) in [(gw, &ow), (gb, &ob)] {
        if let (Some(given), Some(used)) = (given, used)
            && !given.is_same(used)
        {
            core_ops::copy_(given, used, false)?;
        }
    }
    Ok(())
}
fn like_dtype(t: &Tensor, x: &Tensor) -> Result<Tensor> {
    Tensor::empty_raw(t.sizes(), x.dtype(), x.device())
}

/// `native_layer_norm_backward`
pub fn native_layer_norm_backward_shape(a: &args::NativeLayerNormBackward) -> Result<Chosen> {
    mask_len(a.output_mask, 3)?;
    let (statistics, parameters) = ([a.mean, a.rstd], [a.weight, a.bias]);
    row_gradients(a.grad_out, a.input, a.normalized_shape, &statistics, &parameters, a.output_mask, false)
}
/// `native_layer_norm_backward`
pub fn native_layer_norm_backward_cpu(
    a: &args::NativeLayerNormBackward,
    grads: &[Option<&Tensor>],
) -> Result<()> {
    let n = a.normalized_shape.iter().product();
    row_backward(a.grad_out, a.input, n, Some(a.mean), a.rstd, a.weight, [grads[0], grads[1], grads[2]])
}

/// `_fused_rms_norm`
pub fn fused_rms_norm_shape(
    &args::FusedRmsNorm { input, normalized_shape, weight, .. }: &args::FusedRmsNorm,
) -> Result<[OutMeta; 2]> {
    row_shape(input, normalized_shape, weight, None, true)?;
    check_float(input, "rms_norm")?;
    Ok([like(input), row_stats(input, normalized_shape, wide(input.dtype()))])
}
/// `_fused_rms_norm`
pub fn fused_rms_norm_cpu(
    &args::FusedRmsNorm { input, normalized_shape, weight, eps }: &args::FusedRmsNorm,
    [y, rstd]: [&Tensor; 2],
) -> Result<()> {
    let n: i64 = normalized_shape.iter().product();
    let (x, w) = (plain(input)?, row_param(weight, input)?);
    if x.numel() == 0 {
        return Ok(());
    }
    let mut o = Operands::default();
    let (ix, iw) = (o.read(&x), o.read_opt(&w));
    let (iy, ir) = (o.write(y), o.write(rstd));
    let a = o.hold()?;
    let r = kernels::rms_norm(a.any(ix)?, n as usize, opt(&a, iw)?, eps, a.any_mut(iy)?, a.any_mut(ir)?);
    done(r, "rms_norm", x.dtype())
}
/// `_fused_rms_norm_backward`
pub fn fused_rms_norm_backward_shape(a: &args::FusedRmsNormBackward) -> Result<Chosen> {
    mask_len(a.output_mask, 2)?;
    row_gradients(a.grad_out, a.input, a.normalized_shape, &[a.rstd], &[a.weight], a.output_mask, true)
}
/// `_fused_rms_norm_backward`
pub fn fused_rms_norm_backward_cpu(a: &args::FusedRmsNormBackward, grads: &[Option<&Tensor>]) -> Result<()> {
    let n = a.normalized_shape.iter().product();
    row_backward(a.grad_out, a.input, n, None, a.rstd, a.weight, [grads[0], grads[1], None])
}
