//! Losses over classes: negative log likelihood and cross-entropy.

pub(crate) mod ctc;
pub mod triplet_distance;

use super::operands::{cast, done, plain, plain_opt};
use crate::generated::args;
pub use crate::ops::loss::ctc::{
    ctc_loss, ctc_loss_of, fused_ctc_loss_backward_cpu, fused_ctc_loss_backward_shape, fused_ctc_loss_cpu,
    fused_ctc_loss_shape,
};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, bail, ensure, ops as core_ops};
use flambeau_cpu::loss::erased as kernels;
use flambeau_cpu::loss::{LossShape, Reduction};

/// No reduction, mean, sum, as operators number them.
pub(crate) const NONE: i64 = 0;
pub(crate) const MEAN: i64 = 1;
pub(crate) const SUM: i64 = 2;

/// The number of a reduction's name; the deprecated pair decides where it is given.
pub(crate) fn reduction_of(reduction: &str, size_average: Option<bool>, reduce: Option<bool>) -> Result<i64> {
    if size_average.is_some() || reduce.is_some() {
        return Ok(match (size_average.unwrap_or(true), reduce.unwrap_or(true)) {
            (_, false) => NONE,
            (true, true) => MEAN,
            (false, true) => SUM,
        });
    }
    match reduction {
        "none" => Ok(NONE),
        "mean" | "elementwise_mean" => Ok(MEAN),
        "sum" => Ok(SUM),
        other => bail!(Value, "{other} is not a valid value for reduction"),
    }
}
/// Reduces a loss per element.
pub(crate) fn reduced(loss: &Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        NONE => Ok(loss.clone()),
        SUM => core_ops::sum(loss, None, false, None),
        _ => core_ops::mean(loss, None, false, None),
    }
}

/// Classes and positions; the target's sizes without the class dimension.
fn shape(x: &[i64], target: &Tensor, reduction: i64, ignore_index: i64) -> Result<(LossShape, Vec<i64>)> {
    ensure!(
        (0..=2).contains(&reduction),
        Value,
        "reduction must be 0 (none), 1 (mean) or 2 (sum), got {reduction}"
    );
    ensure!(!x.is_empty(), Value, "Expected 1 or more dimensions (got 0)");
    let (n, c, l) = match x.len() {
        1 => (1, x[0], 1),
        _ => (x[0], x[1], x[2..].iter().product()),
    };
    let mut want = x.to_vec();
    want.remove(usize::from(x.len() > 1));
    ensure!(
        target.sizes() == want,
        Runtime,
        "size mismatch (got input: {}, target: {})",
        fmt_sizes(x),
        fmt_sizes(target.sizes())
    );
    let reduction = [Reduction::None, Reduction::Mean, Reduction::Sum][reduction as usize];
    Ok((LossShape { n: n as usize, c: c as usize, l: l as usize, ignore_index, reduction }, want))
}
fn of_classes(target: &Tensor) -> Result<()> {
    ensure!(
        matches!(target.dtype(), DType::I64 | DType::U8),
        Runtime,
        "expected target dtype to be Long or Byte, but got {}",
        target.dtype().scalar_type_name()
    );
    Ok(())
}
fn check(x: &[i64], dtype: DType, target: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    of_classes(target)?;
    if !dtype.is_floating() {
        // what has more than two dimensions is an image
        let label = if x.len() > 2 { "nll_loss2d_forward_out_frame" } else { "nll_loss_out_frame" };
        return Err(Error::not_implemented_for(label, dtype));
    }
    if let Some(w) = weight {
        let c = x[usize::from(x.len() > 1)];
        ensure!(
            x.len() <= 2 || w.numel() == c,
            Runtime,
            "weight tensor should be defined either for all or no classes"
        );
        ensure!(
            x.len() > 2 || w.sizes() == [c] || w.dim() == 0 && c == 1,
            Runtime,
            "weight tensor should be defined either for all {c} classes or no classes but got weight tensor of shape: {}",
            fmt_sizes(w.sizes())
        );
        ensure!(
            w.dtype() == dtype,
            Runtime,
            "expected scalar type {} but found {}",
            dtype.scalar_type_name(),
            w.dtype().scalar_type_name()
        );
    }
    Ok(())
}
fn long(target: &Tensor) -> Result<Tensor> {
    plain(&cast(target, DType::I64)?)
}
fn out_of_bounds(e: String) -> Error {
    if e.starts_with("Target") { Error::index(e) } else { Error::runtime(e) }
}
fn out_sizes(want: Vec<i64>, reduction: i64) -> Vec<i64> {
    if reduction == NONE { want } else { Vec::new() }
}

/// `_nll_loss`
pub fn fused_nll_loss_shape(a: &args::FusedNllLoss) -> Result<[OutMeta; 2]> {
    let (_, want) = shape(a.self_.sizes(), a.target, a.reduction, a.ignore_index)?;
    check(a.self_.sizes(), a.self_.dtype(), a.target, a.weight)?;
    let device = a.self_.device();
    Ok([
        OutMeta::of(&out_sizes(want, a.reduction), a.self_.dtype(), device),
        OutMeta::of(&[], DType::F64, device),
    ])
}
/// `_nll_loss`
pub fn fused_nll_loss_cpu(given: &args::FusedNllLoss, [out, total]: [&Tensor; 2]) -> Result<()> {
    let (s, _) = shape(given.self_.sizes(), given.target, given.reduction, given.ignore_index)?;
    let (x, t, w) = (plain(given.self_)?, long(given.target)?, plain_opt(given.weight)?);
    let mut ins = vec![&x, &t];
    ins.extend(&w);
    let a = Access::new(&ins, &[out, total])?;
    let w = w.as_ref().map(|_| a.any(2)).transpose()?;
    let r = kernels::nll_loss(&s, a.any(0)?, a.slice::<i64>(1)?, w, a.any_mut(0)?);
    a.slice_mut::<f64>(1)?[0] = done(r, "nll_loss_out_frame", x.dtype())?.map_err(out_of_bounds)?;
    Ok(())
}
/// `_nll_loss_backward`
pub fn fused_nll_loss_backward_shape(a: &args::FusedNllLossBackward) -> Result<OutMeta> {
    let (_, want) = shape(a.sizes, a.target, a.reduction, a.ignore_index)?;
    ensure!(
        a.grad_output.numel() == out_sizes(want, a.reduction).iter().product::<i64>(),
        Shape,
        "nll_loss_backward: wrong number of gradients"
    );
    check(a.sizes, a.grad_output.dtype(), a.target, a.weight)?;
    Ok(OutMeta::of(a.sizes, a.grad_output.dtype(), a.grad_output.device()))
}
/// `_nll_loss_backward`
pub fn fused_nll_loss_backward_cpu(given: &args::FusedNllLossBackward, out: &Tensor) -> Result<()> {
    let (s, _) = shape(given.sizes, given.target, given.reduction, given.ignore_index)?;
    let (g, t, w) = (plain(given.grad_output)?, long(given.target)?, plain_opt(given.weight)?);
    let total: f64 = given.total_weight.try_item()?;
    let mut ins = vec![&g, &t];
    ins.extend(&w);
    let a = Access::new(&ins, &[out])?;
    let w = w.as_ref().map(|_| a.any(2)).transpose()?;
    let r = kernels::nll_loss_backward(&s, a.any(0)?, a.slice::<i64>(1)?, w, total, a.any_mut(0)?);
    done(r, "nll_loss_backward_out_frame", g.dtype())?.map_err(out_of_bounds)
}
/// `_cross_entropy`
pub fn fused_cross_entropy_shape(a: &args::FusedCrossEntropy) -> Result<[OutMeta; 3]> {
    let (x, d, device) = (a.self_.sizes(), a.self_.dtype(), a.self_.device());
    let (_, want) = shape(x, a.target, a.reduction, a.ignore_index)?;
    check(x, d, a.target, a.weight)?;
    let lse = OutMeta::of(&want, DType::F64, device);
    Ok([OutMeta::of(&out_sizes(want, a.reduction), d, device), lse, OutMeta::of(&[], DType::F64, device)])
}
/// `_cross_entropy`
pub fn fused_cross_entropy_cpu(
    given: &args::FusedCrossEntropy,
    [out, lse, total]: [&Tensor; 3],
) -> Result<()> {
    let (s, _) = shape(given.self_.sizes(), given.target, given.reduction, given.ignore_index)?;
    let (x, t, w) = (plain(given.self_)?, long(given.target)?, plain_opt(given.weight)?);
    let mut ins = vec![&x, &t];
    ins.extend(&w);
    let a = Access::new(&ins, &[out, lse, total])?;
    let w = w.as_ref().map(|_| a.any(2)).transpose()?;
    let (y, l) = (a.any_mut(0)?, a.slice_mut::<f64>(1)?);
    let r = kernels::cross_entropy(&s, a.any(0)?, a.slice::<i64>(1)?, w, given.label_smoothing, y, l);
    a.slice_mut::<f64>(2)?[0] =
        done(r, "log_softmax_lastdim_kernel_impl", x.dtype())?.map_err(out_of_bounds)?;
    Ok(())
}
/// `_cross_entropy_backward`
pub fn fused_cross_entropy_backward_shape(a: &args::FusedCrossEntropyBackward) -> Result<OutMeta> {
    let (x, d) = (a.self_.sizes(), a.self_.dtype());
    let (_, want) = shape(x, a.target, a.reduction, a.ignore_index)?;
    check(x, d, a.target, a.weight)?;
    ensure!(
        a.lse.dtype() == DType::F64
            && a.lse.numel() == a.target.numel()
            && a.grad_output.dtype() == d
            && a.grad_output.numel() == out_sizes(want, a.reduction).iter().product::<i64>(),
        Shape,
        "cross_entropy_backward: gradient or statistics do not fit the input"
    );
    Ok(OutMeta::of(x, d, a.self_.device()))
}
/// `_cross_entropy_backward`
pub fn fused_cross_entropy_backward_cpu(given: &args::FusedCrossEntropyBackward, out: &Tensor) -> Result<()> {
    let (s, _) = shape(given.self_.sizes(), given.target, given.reduction, given.ignore_index)?;
    let (g, x, t) = (plain(given.grad_output)?, plain(given.self_)?, long(given.target)?);
    let (w, lse) = (plain_opt(given.weight)?, plain(given.lse)?);
    let total: f64 = given.total_weight.try_item()?;
    let mut ins = vec![&g, &x, &t, &lse];
    ins.extend(&w);
    let a = Access::new(&ins, &[out])?;
    let r = kernels::cross_entropy_backward(
        &s,
        a.any(0)?,
        a.any(1)?,
        a.slice::<i64>(2)?,
        w.as_ref().map(|_| a.any(4)).transpose()?,
        given.label_smoothing,
        a.slice::<f64>(3)?,
        total,
        a.any_mut(0)?,
    );
    done(r, "cross_entropy_backward", x.dtype())?.map_err(out_of_bounds)
}

/// The class of one sample may have a dimension.
fn for_one(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    if input.dim() == 1 && target.dim() == 1 { core_ops::reshape(target, &[]) } else { Ok(target.clone()) }
}
/// Batch sizes of input and target agree; the target has the input's shape without the class dimension.
fn check_batch(input: &Tensor, target: &Tensor) -> Result<()> {
    let (x, t) = (input.sizes(), target.sizes());
    ensure!(!x.is_empty(), Value, "Expected 1 or more dimensions (got 0)");
    if x.len() == 1 || t.is_empty() {
        ensure!(t.len() <= 1, Runtime, "0D or 1D target tensor expected, multi-target not supported");
        if x.len() > 1 {
            ensure!(x[0] == 0, Value, "Expected input batch_size ({}) to match target batch_size (0).", x[0]);
            bail!(Index, "Dimension specified as 0 but tensor has no dimensions");
        }
        of_classes(target)?;
        ensure!(
            t.is_empty() || t[0] == 1,
            Value,
            "For 1D input, 1D target must have size 1, but got target size: {}",
            t[0]
        );
        return Ok(());
    }
    ensure!(
        x[0] == t[0],
        Value,
        "Expected input batch_size ({}) to match target batch_size ({}).",
        x[0],
        t[0]
    );
    if x.len() == 2 {
        ensure!(t.len() == 1, Runtime, "0D or 1D target tensor expected, multi-target not supported");
    } else if t.len() + 1 != x.len() || t[1..] != x[2..] {
        let mut want = vec![x[0]];
        want.extend_from_slice(&x[2..]);
        if x.len() == 4 {
            ensure!(
                t.len() == 3,
                Runtime,
                "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
                t.len()
            );
            of_classes(target)?;
            bail!(Runtime, "size mismatch (got input: {} , target: {}", fmt_sizes(x), fmt_sizes(t));
        }
        bail!(Runtime, "Expected target size {}, got {}", fmt_sizes(&want), fmt_sizes(t));
    }
    Ok(())
}

/// `torch.nn.functional.nll_loss`
pub fn nll_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    size_average: Option<bool>,
    ignore_index: i64,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    check_batch(input, target)?;
    let target = &for_one(input, target)?;
    super::fused_nll_loss(input, target, weight, reduction, ignore_index).map(|r| r.0)
}

/// `torch.nn.functional.cross_entropy`
pub fn cross_entropy(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    size_average: Option<bool>,
    ignore_index: i64,
    reduce: Option<bool>,
    reduction: &str,
    label_smoothing: f64,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    if input.sizes() == target.sizes() {
        ensure!(
            target.dtype().is_floating(),
            Runtime,
            "Expected floating point type for target with class probabilities, got {}",
            target.dtype().scalar_type_name()
        );
        ensure!(ignore_index < 0, Runtime, "ignore_index is not supported for floating point target");
        return probabilities(input, target, weight, reduction, label_smoothing);
    }
    ensure!(input.dim() > 0, Index, "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    ensure!(
        (0.0..=1.0).contains(&label_smoothing),
        Runtime,
        "label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
    );
    if !input.dtype().is_floating() && input.numel() > 0 {
        let last = input.dim() <= 2;
        let label = if last { "log_softmax_lastdim_kernel_impl" } else { "log_softmax_kernel_impl" };
        return Err(flambeau_core::Error::not_implemented_for(label, input.dtype()));
    }
    check_batch(input, target)?;
    if target.dtype().is_floating() {
        of_classes(target)?;
    }
    let target = &for_one(input, target)?;
    super::fused_cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing).map(|r| r.0)
}

/// Cross-entropy with a distribution over the classes as target.
fn probabilities(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    label_smoothing: f64,
) -> Result<Tensor> {
    ensure!(input.dim() > 0, Index, "Dimension specified as 1 but tensor has no dimensions");
    let dim = usize::from(input.dim() > 1);
    let c = input.sizes()[dim];
    let mut target = target.clone();
    if label_smoothing > 0.0 {
        ensure!(
            label_smoothing <= 1.0,
            Runtime,
            "label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        );
        let keep = core_ops::mul(&target, &super::operands::number(1.0 - label_smoothing)?)?;
        target = core_ops::add(&keep, &super::operands::number(label_smoothing / c as f64)?, Scalar::Int(1))?;
    }
    let mut loss = core_ops::mul(&core_ops::log_softmax(input, dim as i64, None)?, &target)?;
    if let Some(w) = weight {
        ensure!(
            w.sizes() == [c],
            Runtime,
            "cross_entropy: weight tensor should be defined either for all {c} classes or no classes but got weight tensor of shape: {}",
            fmt_sizes(w.sizes())
        );
        let mut shape = vec![1; input.dim()];
        shape[dim] = c;
        loss = core_ops::mul(&loss, &core_ops::reshape(w, &shape)?)?;
    }
    let loss = core_ops::neg(&loss)?;
    match reduction {
        NONE => core_ops::sum(&loss, Some(&[dim as i64]), false, None),
        SUM => core_ops::sum(&loss, None, false, None),
        _ => {
            let count = if c == 0 { 0 } else { input.numel() / c };
            core_ops::div(&core_ops::sum(&loss, None, false, None)?, &super::operands::number(count)?)
        }
    }
}
