//! Normalisation: batch, instance, layer, RMS, group.

pub(crate) mod forms;
pub(crate) mod local_response;

use super::util::{done, plain, plain_opt, torch_size, wide};
use crate::kernel::norm as kernels;
pub use crate::ops::norm::forms::*;
pub use crate::ops::norm::local_response::{group_norm, local_response_norm, native_group_norm, rms_norm};
use flambeau_core::tensor::access::Access;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{DType, Device, Error, MemoryFormat, Result, Tensor, ensure, ops as core_ops};
use flambeau_cpu::norm::batch::NormShape;
use flambeau_cpu::{Any, AnyMut};
use smallvec::SmallVec;

/// Tensors under one hold, optional ones among them, by the order in which they were added.
#[derive(Default)]
struct Operands<'a> {
    ins: SmallVec<[&'a Tensor; 8]>,
    outs: SmallVec<[&'a Tensor; 6]>,
}
impl<'a> Operands<'a> {
    fn read(&mut self, t: &'a Tensor) -> usize {
        self.ins.push(t);
        self.ins.len() - 1
    }
    fn read_opt(&mut self, t: &'a Option<Tensor>) -> Option<usize> {
        t.as_ref().map(|t| self.read(t))
    }
    fn write(&mut self, t: &'a Tensor) -> usize {
        self.outs.push(t);
        self.outs.len() - 1
    }
    fn write_opt(&mut self, t: &'a Option<Tensor>) -> Option<usize> {
        t.as_ref().map(|t| self.write(t))
    }
    fn hold(&self) -> Result<Access<'a>> {
        Access::new(&self.ins, &self.outs)
    }
}
fn opt<'b>(a: &'b Access<'_>, i: Option<usize>) -> Result<Option<Any<'b>>> {
    i.map(|i| a.any(i)).transpose()
}
fn opt_mut<'b>(a: &'b Access<'_>, i: Option<usize>) -> Result<Option<AnyMut<'b>>> {
    i.map(|i| a.any_mut(i)).transpose()
}
fn empty(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    Tensor::empty_raw(sizes, like.dtype(), like.device())
}
fn wanted(on: bool, like: Option<&Tensor>) -> Result<Option<Tensor>> {
    match like {
        Some(t) if on => empty(t.sizes(), t).map(Some),
        _ => Ok(None),
    }
}
/// The gradients of a mask, with empty tensors for those that were not asked for.
fn masked(grads: [Option<Tensor>; 3], like: &Tensor) -> Result<Vec<Tensor>> {
    grads.into_iter().map(|g| g.map_or_else(|| empty(&[0], like), Ok)).collect()
}
fn mask_len(mask: &[bool], n: usize) -> Result<()> {
    ensure!(mask.len() == n, Runtime, "output_mask must have {n} entries, got {}", mask.len());
    Ok(())
}

/// `[N, C, *]` as batch, channels, positions.
fn channels(x: &[i64]) -> NormShape {
    let l: i64 = x[2..].iter().product();
    NormShape { n: x[0] as usize, c: x[1] as usize, l: l as usize }
}
fn check_channels(input: &Tensor, others: &[(Option<&Tensor>, &str)]) -> Result<i64> {
    ensure!(
        input.dim() >= 2,
        Index,
        "Dimension out of range (expected to be in range of [{}, {}], but got 1)",
        -(input.dim().max(1) as i64),
        input.dim().max(1) as i64 - 1
    );
    let c = input.sizes()[1];
    for (t, name) in others {
        if let Some(t) = t {
            ensure!(t.numel() == c, Runtime, "{name} should contain {c} elements not {}", t.numel());
        }
    }
    Ok(c)
}
fn check_float(t: &Tensor, label: &str) -> Result<()> {
    if !t.dtype().is_floating() {
        return Err(Error::not_implemented_for(label, t.dtype()));
    }
    Ok(())
}
/// Dtype of statistics: that of the parameters, the input's where there are none.
fn stat_dtype(input: &Tensor, given: Option<&Tensor>) -> DType {
    given.map_or(input.dtype(), Tensor::dtype)
}

/// Sizes and dtypes of batch normalisation.
pub(super) fn batch_norm_meta(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let all =
        [(running_mean, "running_mean"), (running_var, "running_var"), (weight, "weight"), (bias, "bias")];
    let c = check_channels(input, &all)?;
    check_float(input, "batch_norm")?;
    crate::ops::norm::forms::check_mixed(input, &[weight, bias, running_mean, running_var])?;
    ensure!(
        training || (running_mean.is_some() && running_var.is_some()),
        Runtime,
        "{} must be defined in evaluation mode",
        if running_mean.is_none() { "running_mean" } else { "running_var" }
    );
    let d = stat_dtype(input, weight.or(running_mean));
    let n = if training { c } else { 0 };
    let stat = || Tensor::empty_raw(&[n], d, input.device());
    Ok((empty(input.sizes(), input)?, stat()?, stat()?))
}
/// Whether memory has no gaps and the channels come second or last.
fn dense(x: &Tensor) -> bool {
    x.is_contiguous()
        || x.is_contiguous_format(MemoryFormat::ChannelsLast)
        || x.is_contiguous_format(MemoryFormat::ChannelsLast3d)
}
/// With a momentum in training, without one by the running statistics.
pub(super) fn batch_normalised(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    momentum: Option<f64>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (y, mean, invstd) =
        batch_norm_meta(input, weight, bias, running_mean, running_var, momentum.is_some())?;
    let (x, w, b) = (plain(input)?, plain_opt(weight)?, plain_opt(bias)?);
    let (rm, rv) = (plain_opt(running_mean)?, plain_opt(running_var)?);
    let shape = channels(x.sizes());
    let mut o = Operands::default();
    let (ix, iw, ib) = (o.read(&x), o.read_opt(&w), o.read_opt(&b));
    let iy = o.write(&y);
    let Some(momentum) = momentum else {
        let (im, iv) = (o.read_opt(&rm), o.read_opt(&rv));
        let a = o.hold()?;
        if let (Some(m), Some(v)) = (opt(&a, im)?, opt(&a, iv)?) {
            let r = kernels::batch_norm_eval(
                shape,
                a.any(ix)?,
                opt(&a, iw)?,
                opt(&a, ib)?,
                m,
                v,
                eps,
                a.any_mut(iy)?,
            );
            done(r, "batch_norm", x.dtype())?;
        }
        drop(a);
        drop(o);
        return Ok((y, mean, invstd));
    };
    let (im, iv) = (o.write(&mean), o.write(&invstd));
    let (irm, irv) = (o.write_opt(&rm), o.write_opt(&rv));
    {
        let a = o.hold()?;
        let r = kernels::batch_norm_train(
            shape,
            a.any(ix)?,
            opt(&a, iw)?,
            opt(&a, ib)?,
            opt_mut(&a, irm)?,
            opt_mut(&a, irv)?,
            momentum,
            eps,
            dense(input),
            a.any_mut(iy)?,
            a.any_mut(im)?,
            a.any_mut(iv)?,
        );
        done(r, "batch_norm", x.dtype())?;
    }
    drop(o);
    // running statistics that were not contiguous were moved in a copy
    for (given, used) in [(running_mean, &rm), (running_var, &rv)] {
        if let (Some(given), Some(used)) = (given, used)
            && !given.storage().same(used.storage())
        {
            core_ops::copy_(given, used, false)?;
        }
    }
    Ok((y, mean, invstd))
}
/// `native_batch_norm_backward`
pub fn native_batch_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
    output_mask: &[bool],
) -> Result<Vec<Tensor>> {
    mask_len(output_mask, 3)?;
    let c = check_channels(input, &[(weight, "weight")])?;
    ensure!(
        grad_out.sizes() == input.sizes() && grad_out.dtype() == input.dtype(),
        Shape,
        "batch_norm_backward: the gradient is not like the input"
    );
    let (mean, invstd) = if train {
        (save_mean.cloned(), save_invstd.cloned())
    } else {
        // 1 / sqrt(var + eps), once per channel
        let inv = running_var.map(|v| -> Result<Tensor> {
            if v.device() == Device::Meta {
                return Ok(v.clone());
            }
            let d = stat_dtype(input, Some(v));
            let v = super::util::cast(v, DType::F64)?.try_to_vec::<f64>()?;
            let v: Vec<f64> = v.iter().map(|v| 1.0 / (v + eps).sqrt()).collect();
            super::util::cast(&Tensor::from_vec_raw(v, &[c])?, wide(d))
        });
        (running_mean.cloned(), inv.transpose()?)
    };
    let (Some(mean), Some(invstd)) = (mean, invstd) else {
        return Err(Error::runtime("batch_norm_backward: the statistics are missing"));
    };
    ensure!(
        mean.numel() == c && invstd.numel() == c,
        Shape,
        "batch_norm_backward: wrong number of statistics"
    );
    let (g, x, w) = (plain(grad_out)?, plain(input)?, plain_opt(weight)?);
    let (mean, invstd) = (plain(&mean)?, plain(&invstd)?);
    let stat = Tensor::empty_raw(&[c], stat_dtype(input, weight), input.device())?;
    let gx = wanted(output_mask[0], Some(&x))?;
    let gw = wanted(output_mask[1], Some(&stat))?;
    let gb = wanted(output_mask[2], Some(&stat))?;
    if input.device() != Device::Meta {
        let mut o = Operands::default();
        let (ig, ix, iw) = (o.read(&g), o.read(&x), o.read_opt(&w));
        let (im, is) = (o.read(&mean), o.read(&invstd));
        let (ogx, ogw, ogb) = (o.write_opt(&gx), o.write_opt(&gw), o.write_opt(&gb));
        let a = o.hold()?;
        let r = kernels::batch_norm_backward(
            channels(x.sizes()),
            train,
            a.any(ig)?,
            a.any(ix)?,
            opt(&a, iw)?,
            a.any(im)?,
            a.any(is)?,
            opt_mut(&a, ogx)?,
            opt_mut(&a, ogw)?,
            opt_mut(&a, ogb)?,
        );
        done(r, "batch_norm_backward", x.dtype())?;
    }
    masked([gx, gw, gb], input)
}

/// `torch.nn.functional.instance_norm`
pub fn instance_norm(
    input: &Tensor,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
) -> Result<Tensor> {
    if use_input_stats {
        ensure!(
            input.sizes().iter().skip(2).product::<i64>() != 1,
            Value,
            "Expected more than 1 spatial element when training, got input size {}",
            torch_size(input.sizes())
        );
    }
    instance_norm_torch(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, true)
}
/// `torch.instance_norm`
pub fn instance_norm_torch(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    ensure!(
        use_input_stats || (running_mean.is_some() && running_var.is_some()),
        Runtime,
        "Expected running_mean and running_var to be defined when use_input_stats is false"
    );
    let all =
        [(running_mean, "running_mean"), (running_var, "running_var"), (weight, "weight"), (bias, "bias")];
    if input.numel() > 0 {
        crate::ops::norm::forms::both_or_none(running_mean, running_var)?;
    }
    let c = check_channels(input, &all)?;
    let n = input.sizes()[0];
    // every sample's channels are channels of one sample, so that the batch's statistics are the instances'
    let mut sizes = input.sizes().to_vec();
    (sizes[0], sizes[1]) = (1, n * c);
    let x = core_ops::reshape(input, &sizes)?;
    let repeat = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
        t.map(|t| core_ops::reshape(&core_ops::expand(t, &[n, c], false)?, &[n * c])).transpose()
    };
    // the moved statistics are copies: the given ones get their mean over the batch
    let own = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
        repeat(t)?.map(|t| core_ops::clone(&t.alias_detached(), None)).transpose()
    };
    let (rm, rv) = (own(running_mean)?, own(running_var)?);
    let (w, b) = (repeat(weight)?, repeat(bias)?);
    let y = super::native_batch_norm(
        &x,
        w.as_ref(),
        b.as_ref(),
        rm.as_ref(),
        rv.as_ref(),
        use_input_stats,
        momentum,
        eps,
    )?
    .0;
    if use_input_stats {
        for (given, moved) in [(running_mean, &rm), (running_var, &rv)] {
            if let (Some(given), Some(moved)) = (given, moved) {
                let sum = core_ops::sum(&core_ops::view(moved, &[n, c])?, Some(&[0]), false, None)?;
                let mean = core_ops::div(&sum, &super::util::number(n)?)?;
                flambeau_autograd::no_grad(|| core_ops::copy_(given, &mean, false))?;
            }
        }
    }
    core_ops::reshape(&y, input.sizes())
}

/// Rows and their length, with PyTorch's checks.
fn row_shape(
    input: &Tensor,
    normalized: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    rms: bool,
) -> Result<(usize, usize)> {
    ensure!(
        !normalized.is_empty(),
        Runtime,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"
    );
    for (t, name) in [(weight, "weight"), (bias, "bias")] {
        if let Some(t) = t {
            ensure!(
                t.sizes() == normalized,
                Runtime,
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and normalized_shape = {}",
                fmt_sizes(t.sizes()),
                fmt_sizes(normalized)
            );
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
/// Sizes of the statistics: the normalised dimensions become 1.
fn row_stats(input: &Tensor, normalized: &[i64]) -> Vec<i64> {
    let first = input.dim() - normalized.len();
    input.sizes().iter().enumerate().map(|(i, d)| if i < first { *d } else { 1 }).collect()
}
/// Parameters of a row norm in the input's dtype; PyTorch allows float ones with a half input.
fn row_param(t: Option<&Tensor>, input: &Tensor, what: &str) -> Result<Option<Tensor>> {
    t.map(|t| {
        ensure!(
            t.dtype() == input.dtype() || t.dtype() == wide(input.dtype()),
            Runtime,
            "{what}: expected scalar type {} but found {}",
            input.dtype().scalar_type_name(),
            t.dtype().scalar_type_name()
        );
        plain(&super::util::cast(t, input.dtype())?)
    })
    .transpose()
}

/// `native_layer_norm` on the meta device.
pub fn native_layer_norm_meta_fn(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    _eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    row_shape(input, normalized_shape, weight, bias, false)?;
    check_float(input, "LayerNormKernelImpl")?;
    crate::ops::norm::forms::check_mixed(input, &[weight, bias])?;
    let stat =
        || Tensor::empty_raw(&row_stats(input, normalized_shape), stat_dtype(input, weight), input.device());
    Ok((empty(input.sizes(), input)?, stat()?, stat()?))
}
/// `native_layer_norm`
pub fn native_layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (y, mean, rstd) = native_layer_norm_meta_fn(input, normalized_shape, weight, bias, eps)?;
    let (_, n) = row_shape(input, normalized_shape, weight, bias, false)?;
    let (w, b) = (row_param(weight, input, "layer_norm")?, row_param(bias, input, "layer_norm")?);
    let x = plain(input)?;
    if x.numel() > 0 {
        let mut o = Operands::default();
        let (ix, iw, ib) = (o.read(&x), o.read_opt(&w), o.read_opt(&b));
        let (iy, im, ir) = (o.write(&y), o.write(&mean), o.write(&rstd));
        let a = o.hold()?;
        let r = kernels::layer_norm(
            a.any(ix)?,
            n,
            opt(&a, iw)?,
            opt(&a, ib)?,
            eps,
            a.any_mut(iy)?,
            a.any_mut(im)?,
            a.any_mut(ir)?,
        );
        done(r, "LayerNormKernelImpl", x.dtype())?;
    }
    Ok((y, mean, rstd))
}
/// `native_layer_norm_backward`
pub fn native_layer_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    output_mask: &[bool],
) -> Result<Vec<Tensor>> {
    mask_len(output_mask, 3)?;
    let (rows, n) = row_shape(input, normalized_shape, weight, bias, false)?;
    row_backward(
        grad_out,
        input,
        normalized_shape,
        rows,
        n,
        Some(mean),
        rstd,
        weight,
        bias,
        [output_mask[0], output_mask[1], output_mask[2]],
    )
}
/// Layer norm with `mean`, RMS norm without.
fn row_backward(
    grad_out: &Tensor,
    input: &Tensor,
    normalized: &[i64],
    rows: usize,
    n: usize,
    mean: Option<&Tensor>,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    mask: [bool; 3],
) -> Result<Vec<Tensor>> {
    ensure!(
        grad_out.sizes() == input.sizes() && grad_out.dtype() == input.dtype(),
        Shape,
        "layer_norm_backward: the gradient is not like the input"
    );
    ensure!(
        rstd.numel() as usize == rows && mean.is_none_or(|m| m.numel() as usize == rows),
        Shape,
        "layer_norm_backward: wrong number of statistics"
    );
    let (g, x, w) = (plain(grad_out)?, plain(input)?, row_param(weight, input, "layer_norm")?);
    let (mean, rstd) = (plain_opt(mean)?, plain(rstd)?);
    let param = empty(normalized, input)?;
    let gx = wanted(mask[0], Some(&x))?;
    let gw = wanted(mask[1], Some(&param))?;
    let gb = wanted(mask[2], Some(&param))?;
    if x.numel() == 0 {
        for t in [&gw, &gb].into_iter().flatten() {
            core_ops::zero_(t)?;
        }
    } else if input.device() != Device::Meta {
        let mut o = Operands::default();
        let (ig, ix, iw) = (o.read(&g), o.read(&x), o.read_opt(&w));
        let (im, ir) = (o.read_opt(&mean), o.read(&rstd));
        let (ogx, ogw, ogb) = (o.write_opt(&gx), o.write_opt(&gw), o.write_opt(&gb));
        let a = o.hold()?;
        let (gx, gw, gb) = (opt_mut(&a, ogx)?, opt_mut(&a, ogw)?, opt_mut(&a, ogb)?);
        let r = match opt(&a, im)? {
            Some(m) => kernels::layer_norm_backward(
                a.any(ig)?,
                a.any(ix)?,
                n,
                opt(&a, iw)?,
                m,
                a.any(ir)?,
                gx,
                gw,
                gb,
            ),
            None => kernels::rms_norm_backward(a.any(ig)?, a.any(ix)?, n, opt(&a, iw)?, a.any(ir)?, gx, gw),
        };
        done(r, "LayerNormBackwardKernelImpl", x.dtype())?;
    }
    let like = |g: Option<Tensor>, t: Option<&Tensor>| -> Result<Option<Tensor>> {
        match (g, t) {
            (Some(g), Some(t)) => super::util::cast(&g, t.dtype()).map(Some),
            (g, _) => Ok(g),
        }
    };
    masked([gx, like(gw, weight)?, like(gb, bias)?], input)
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
    super::native_layer_norm(input, normalized_shape, weight, bias, eps).map(|r| r.0)
}

/// `_fused_rms_norm` on the meta device.
pub fn fused_rms_norm_meta_fn(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    _eps: f64,
) -> Result<(Tensor, Tensor)> {
    row_shape(input, normalized_shape, weight, None, true)?;
    check_float(input, "rms_norm")?;
    let stat = Tensor::empty_raw(&row_stats(input, normalized_shape), wide(input.dtype()), input.device())?;
    Ok((empty(input.sizes(), input)?, stat))
}
/// `_fused_rms_norm`
pub fn fused_rms_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor)> {
    let (y, rstd) = fused_rms_norm_meta_fn(input, normalized_shape, weight, eps)?;
    let (_, n) = row_shape(input, normalized_shape, weight, None, true)?;
    let (x, w) = (plain(input)?, row_param(weight, input, "rms_norm")?);
    if x.numel() > 0 {
        let mut o = Operands::default();
        let (ix, iw) = (o.read(&x), o.read_opt(&w));
        let (iy, ir) = (o.write(&y), o.write(&rstd));
        let a = o.hold()?;
        let r = kernels::rms_norm(a.any(ix)?, n, opt(&a, iw)?, eps, a.any_mut(iy)?, a.any_mut(ir)?);
        done(r, "rms_norm", x.dtype())?;
    }
    Ok((y, rstd))
}
/// `_fused_rms_norm_backward`
pub fn fused_rms_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    rstd: &Tensor,
    weight: Option<&Tensor>,
    output_mask: &[bool],
) -> Result<Vec<Tensor>> {
    mask_len(output_mask, 2)?;
    let (rows, n) = row_shape(input, normalized_shape, weight, None, true)?;
    let mut all = row_backward(
        grad_out,
        input,
        normalized_shape,
        rows,
        n,
        None,
        rstd,
        weight,
        None,
        [output_mask[0], output_mask[1], false],
    )?;
    all.truncate(2);
    Ok(all)
}
/// `_fused_group_norm` on the meta device.
pub fn fused_group_norm_meta_fn(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    _eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(group > 0, Runtime, "Expected num groups to be greater than 0, got {group}");
    ensure!(c > 0, Runtime, "Expected number of channels to be greater than 0, got {c}");
    ensure!(
        hxw > 0 || input.numel() == 0 && hxw == 0,
        Runtime,
        "Expected HxW to be greater than 0, got {hxw}"
    );
    ensure!(
        c % group == 0,
        Runtime,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={group}",
        fmt_sizes(input.sizes())
    );
    for (t, name) in [(weight, "weight"), (bias, "bias")] {
        if let Some(t) = t {
            ensure!(
                t.sizes() == [c],
                Runtime,
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {} and input of shape {}",
                fmt_sizes(t.sizes()),
                fmt_sizes(input.sizes())
            );
        }
    }
    let stat = || Tensor::empty_raw(&[n, group], stat_dtype(input, weight), input.device());
    let (mean, rstd) = (stat()?, stat()?);
    check_float(input, "GroupNormKernelImpl")?;
    ensure!(
        n.saturating_mul(c).saturating_mul(hxw) == input.numel(),
        Runtime,
        "Expected X.numel() == N * C * HxW to be true, but got false.  (Could this error message be improved?  If so, please \
         report an enhancement request to PyTorch.)"
    );
    Ok((empty(input.sizes(), input)?, mean, rstd))
}
/// `_fused_group_norm`
pub fn fused_group_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (y, mean, rstd) = fused_group_norm_meta_fn(input, weight, bias, n, c, hxw, group, eps)?;
    let (x, w, b) = (plain(input)?, plain_opt(weight)?, plain_opt(bias)?);
    if x.numel() > 0 {
        let mut o = Operands::default();
        let (ix, iw, ib) = (o.read(&x), o.read_opt(&w), o.read_opt(&b));
        let (iy, im, ir) = (o.write(&y), o.write(&mean), o.write(&rstd));
        let a = o.hold()?;
        let shape = NormShape { n: n as usize, c: c as usize, l: hxw as usize };
        let r = kernels::group_norm(
            shape,
            group as usize,
            a.any(ix)?,
            opt(&a, iw)?,
            opt(&a, ib)?,
            eps,
            a.any_mut(iy)?,
            a.any_mut(im)?,
            a.any_mut(ir)?,
        );
        done(r, "GroupNormKernelImpl", x.dtype())?;
    }
    Ok((y, mean, rstd))
}
/// `native_group_norm_backward`
pub fn native_group_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    output_mask: &[bool],
) -> Result<Vec<Tensor>> {
    mask_len(output_mask, 3)?;
    fused_group_norm_meta_fn(input, weight, None, n, c, hxw, group, 0.0)?;
    ensure!(
        grad_out.sizes() == input.sizes()
            && grad_out.dtype() == input.dtype()
            && mean.numel() == n * group
            && rstd.numel() == n * group,
        Shape,
        "group_norm_backward: gradient or statistics do not fit the input"
    );
    let (g, x, w) = (plain(grad_out)?, plain(input)?, plain_opt(weight)?);
    let (mean, rstd) = (plain(mean)?, plain(rstd)?);
    let param = Tensor::empty_raw(&[c], stat_dtype(input, weight), input.device())?;
    let gx = wanted(output_mask[0], Some(&x))?;
    let gw = wanted(output_mask[1], Some(&param))?;
    let gb = wanted(output_mask[2], Some(&param))?;
    if x.numel() == 0 {
        for t in [&gw, &gb].into_iter().flatten() {
            core_ops::zero_(t)?;
        }
    } else if input.device() != Device::Meta {
        let mut o = Operands::default();
        let (ig, ix, iw) = (o.read(&g), o.read(&x), o.read_opt(&w));
        let (im, ir) = (o.read(&mean), o.read(&rstd));
        let (ogx, ogw, ogb) = (o.write_opt(&gx), o.write_opt(&gw), o.write_opt(&gb));
        let a = o.hold()?;
        let r = kernels::group_norm_backward(
            NormShape { n: n as usize, c: c as usize, l: hxw as usize },
            group as usize,
            a.any(ig)?,
            a.any(ix)?,
            opt(&a, iw)?,
            a.any(im)?,
            a.any(ir)?,
            opt_mut(&a, ogx)?,
            opt_mut(&a, ogw)?,
            opt_mut(&a, ogb)?,
        );
        done(r, "GroupNormBackwardKernelImpl", x.dtype())?;
    }
    masked([gx, gw, gb], input)
}

// The sizes of the gradients are those of the operands.
pub use self::{
    fused_rms_norm_backward as fused_rms_norm_backward_meta_fn,
    native_batch_norm_backward as native_batch_norm_backward_meta_fn,
    native_group_norm_backward as native_group_norm_backward_meta_fn,
    native_layer_norm_backward as native_layer_norm_backward_meta_fn,
};
