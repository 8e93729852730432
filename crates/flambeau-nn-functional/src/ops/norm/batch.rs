//! Batch normalisation: the shapes and kernels of its two halves and of its gradient.

use super::forms::{check_alike, check_mixed};
use super::{Operands, channels, check_channels, check_float, like, mask_len, opt, opt_mut, stat_dtype};
use crate::generated::args;
use crate::ops::operands::{cast, done, plain, plain_opt, wide};
use flambeau_core::backend::out::{Chosen, OutMeta};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, MemoryFormat, Result, Tensor, ensure, ops as core_ops};
use flambeau_cpu::norm::erased as kernels;

/// Result and statistics, which are empty in evaluation mode.
fn shape(
    input: &Tensor,
    [weight, bias, running_mean, running_var]: [Option<&Tensor>; 4],
    training: bool,
) -> Result<[OutMeta; 3]> {
    let all =
        [(running_mean, "running_mean"), (running_var, "running_var"), (weight, "weight"), (bias, "bias")];
    let c = check_channels(input, &all)?;
    check_float(input, "batch_norm")?;
    check_mixed(input, &[weight, bias, running_mean, running_var])?;
    check_alike(input, &[weight, bias, running_mean, running_var])?;
    for t in [running_mean, running_var].into_iter().flatten() {
        ensure!(t.dim() == 1, Runtime, "TensorAccessor expected 1 dims but tensor has {}", t.dim());
    }
    ensure!(
        training || (running_mean.is_some() && running_var.is_some()),
        Runtime,
        "{} must be defined in evaluation mode",
        if running_mean.is_none() { "running_mean" } else { "running_var" }
    );
    let n = if training { c } else { 0 };
    let stat = OutMeta::of(&[n], stat_dtype(input, weight.or(running_mean)), input.device());
    Ok([like(input), stat.clone(), stat])
}
/// Whether memory has no gaps and the channels come second or last.
fn dense(x: &Tensor) -> bool {
    x.is_contiguous()
        || x.is_contiguous_format(MemoryFormat::ChannelsLast)
        || x.is_contiguous_format(MemoryFormat::ChannelsLast3d)
}

/// `_batch_norm_train`
pub fn batch_norm_train_shape(a: &args::BatchNormTrain) -> Result<[OutMeta; 3]> {
    shape(a.input, [a.weight, a.bias, a.running_mean, a.running_var], true)
}
/// `_batch_norm_train`: moves the running statistics too.
pub fn batch_norm_train_cpu(
    &args::BatchNormTrain { input, weight, bias, running_mean, running_var, momentum, eps }: &args::BatchNormTrain,
    [y, mean, invstd]: [&Tensor; 3],
) -> Result<()> {
    let (x, w, b) = (plain(input)?, plain_opt(weight)?, plain_opt(bias)?);
    let (rm, rv) = (plain_opt(running_mean)?, plain_opt(running_var)?);
    let mut o = Operands::default();
    let (ix, iw, ib) = (o.read(&x), o.read_opt(&w), o.read_opt(&b));
    let (iy, im, iv) = (o.write(y), o.write(mean), o.write(invstd));
    let (irm, irv) = (o.write_opt(&rm), o.write_opt(&rv));
    {
        let a = o.hold()?;
        let r = kernels::batch_norm_train(
            channels(x.sizes()),
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
    // running statistics that were not contiguous were moved in a copy
    for (given, used) in [(running_mean, &rm), (running_var, &rv)] {
        if let (Some(given), Some(used)) = (given, used)
            && !given.storage().same(used.storage())
        {
            core_ops::copy_(given, used, false)?;
        }
    }
    Ok(())
}

/// `_batch_norm_eval`
pub fn batch_norm_eval_shape(a: &args::BatchNormEval) -> Result<[OutMeta; 3]> {
    shape(a.input, [a.weight, a.bias, a.running_mean, a.running_var], false)
}
/// `_batch_norm_eval`
pub fn batch_norm_eval_cpu(
    &args::BatchNormEval { input, weight, bias, running_mean, running_var, eps }: &args::BatchNormEval,
    [y, _, _]: [&Tensor; 3],
) -> Result<()> {
    let (x, w, b) = (plain(input)?, plain_opt(weight)?, plain_opt(bias)?);
    let (rm, rv) = (plain_opt(running_mean)?, plain_opt(running_var)?);
    let mut o = Operands::default();
    let (ix, iw, ib) = (o.read(&x), o.read_opt(&w), o.read_opt(&b));
    let (im, iv, iy) = (o.read_opt(&rm), o.read_opt(&rv), o.write(y));
    let a = o.hold()?;
    let (Some(m), Some(v)) = (opt(&a, im)?, opt(&a, iv)?) else { return Ok(()) };
    let r = kernels::batch_norm_eval(
        channels(x.sizes()),
        a.any(ix)?,
        opt(&a, iw)?,
        opt(&a, ib)?,
        m,
        v,
        eps,
        a.any_mut(iy)?,
    );
    done(r, "batch_norm", x.dtype())
}

/// `native_batch_norm_backward`
pub fn native_batch_norm_backward_shape(
    &args::NativeBatchNormBackward {
        grad_out,
        input,
        weight,
        running_mean,
        running_var,
        save_mean,
        save_invstd,
        train,
        output_mask,
        ..
    }: &args::NativeBatchNormBackward,
) -> Result<Chosen> {
    mask_len(output_mask, 3)?;
    let c = check_channels(input, &[(weight, "weight")])?;
    ensure!(
        grad_out.sizes() == input.sizes() && grad_out.dtype() == input.dtype(),
        Shape,
        "batch_norm_backward: the gradient is not like the input"
    );
    let statistics = if train { (save_mean, save_invstd) } else { (running_mean, running_var) };
    let (Some(mean), Some(spread)) = statistics else {
        return Err(Error::runtime("batch_norm_backward: the statistics are missing"));
    };
    ensure!(
        mean.numel() == c && spread.numel() == c,
        Shape,
        "batch_norm_backward: wrong number of statistics"
    );
    let stat = OutMeta::of(&[c], stat_dtype(input, weight), input.device());
    let all = [like(input), stat.clone(), stat];
    Ok(Chosen::new(all.into_iter().zip(output_mask).map(|(m, on)| on.then_some(m)), input))
}
/// `native_batch_norm_backward`
pub fn native_batch_norm_backward_cpu(
    &args::NativeBatchNormBackward {
        grad_out,
        input,
        weight,
        running_mean,
        running_var,
        save_mean,
        save_invstd,
        train,
        eps,
        ..
    }: &args::NativeBatchNormBackward,
    grads: &[Option<&Tensor>],
) -> Result<()> {
    let statistics = if train { (save_mean, save_invstd) } else { (running_mean, running_var) };
    let (Some(mean), Some(spread)) = statistics else { return Ok(()) };
    if input.numel() == 0 {
        // statistics of nothing are NaN, sums over nothing are not
        return grads.iter().flatten().try_for_each(|t| core_ops::zero_(t));
    }
    let invstd = if train {
        spread.clone()
    } else {
        // 1 / sqrt(var + eps), once per channel
        let v = cast(spread, DType::F64)?.try_to_vec::<f64>()?;
        let n = v.len() as i64;
        let v: Vec<f64> = v.iter().map(|v| 1.0 / (v + eps).sqrt()).collect();
        cast(&Tensor::from_vec_raw(v, &[n])?, wide(stat_dtype(input, Some(spread))))?
    };
    let (g, x, w) = (plain(grad_out)?, plain(input)?, plain_opt(weight)?);
    let (mean, invstd) = (plain(mean)?, plain(&invstd)?);
    let mut o = Operands::default();
    let (ig, ix, iw) = (o.read(&g), o.read(&x), o.read_opt(&w));
    let (im, is) = (o.read(&mean), o.read(&invstd));
    let [ogx, ogw, ogb] = [0, 1, 2].map(|i| grads[i].map(|t| o.write(t)));
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
    done(r, "batch_norm_backward", x.dtype())
}
