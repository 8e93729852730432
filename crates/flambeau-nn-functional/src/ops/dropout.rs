//! Dropout and its variants.

use super::operands::{done, number};
use crate::generated::args;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::generator::default_generator;
use flambeau_core::tensor::geometry::SizeVec;
use flambeau_core::{DType, Result, Scalar, Tensor, bail, ensure, ops as core_ops};

/// `_dropout_mask`
pub fn dropout_mask_shape(&args::DropoutMask { self_, .. }: &args::DropoutMask) -> Result<OutMeta> {
    Ok(OutMeta::like(self_))
}
/// `_dropout_mask`
pub fn dropout_mask_cpu(&args::DropoutMask { p, .. }: &args::DropoutMask, out: &Tensor) -> Result<()> {
    if out.is_complex() {
        let real = core_ops::empty_like(out, Some(out.dtype().to_real()), None, None, None, None)?;
        factors(p, &real)?;
        return core_ops::copy_(out, &real, false);
    }
    factors(p, out)
}
fn factors(p: f64, out: &Tensor) -> Result<()> {
    let a = Access::new(&[], &[out])?;
    let mask = a.any_mut(0)?;
    let r = default_generator().draw(|g| flambeau_cpu::random::erased::dropout_mask(g, mask, p))?;
    done(r, "bernoulli_scalar_cpu_", out.dtype())
}

fn check(p: f64) -> Result<()> {
    ensure!(!p.is_nan(), Runtime, "dropout probability has to be between 0 and 1, but got nan");
    ensure!((0.0..=1.0).contains(&p), Value, "dropout probability has to be between 0 and 1, but got {p:?}");
    Ok(())
}
/// Writes `result` into `input` where that was asked for.
fn finish(input: &Tensor, result: Tensor, inplace: bool) -> Result<Tensor> {
    if inplace && !result.is_same(input) {
        core_ops::copy_(input, &result, false)?;
        return Ok(input.clone());
    }
    Ok(result)
}
/// Memory for one draw per element, in the input's order, or per element of the first dimensions only.
fn ones_at(input: &Tensor, keep: usize) -> Result<Tensor> {
    if keep == usize::MAX {
        return core_ops::empty_like(input, None, None, None, None, None);
    }
    let sizes: SizeVec =
        input.sizes().iter().enumerate().map(|(i, s)| if i < keep { *s } else { 1 }).collect();
    Tensor::empty_raw(&sizes, input.dtype(), input.device())
}
/// Integers and bools cannot hold the mask's scale.
fn scalable(dtype: DType) -> Result<()> {
    ensure!(
        !dtype.is_integral(true),
        Runtime,
        "result type Float can't be cast to the desired output type {}",
        dtype.scalar_type_name()
    );
    Ok(())
}
/// The masked input; `noise` has the shape of the mask.
fn masked(input: &Tensor, noise: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    if !train || p == 0.0 || input.numel() == 0 {
        return Ok(input.clone());
    }
    if p == 1.0 {
        return core_ops::mul(input, &number(0)?);
    }
    scalable(input.dtype())?;
    core_ops::mul(input, &super::dropout_mask(noise, p)?)
}

/// `torch.nn.functional.dropout`
pub fn dropout(input: &Tensor, p: f64, training: bool, inplace: bool) -> Result<Tensor> {
    check(p)?;
    finish(input, masked(input, input, p, training)?, inplace)
}
/// `torch.dropout`
pub fn dropout_train(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    dropout(input, p, train, false)
}
/// `torch.feature_dropout`
pub fn feature_dropout(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    check(p)?;
    ensure!(
        !train || p == 0.0 || input.numel() == 0 || input.dim() >= 2,
        Runtime,
        "Feature dropout requires at least 2 dimensions in the input"
    );
    masked(input, &ones_at(input, 2)?, p, train)
}
/// `dropout1d`
pub fn dropout1d(input: &Tensor, p: f64, training: bool, inplace: bool) -> Result<Tensor> {
    check(p)?;
    let rank = input.dim();
    ensure!(
        matches!(rank, 2 | 3),
        Runtime,
        "dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
    );
    channels(input, p, training, inplace, rank == 2)
}
/// `dropout2d`
pub fn dropout2d(input: &Tensor, p: f64, training: bool, inplace: bool) -> Result<Tensor> {
    check(p)?;
    channels(input, p, training, inplace, false)
}
/// `dropout3d`
pub fn dropout3d(input: &Tensor, p: f64, training: bool, inplace: bool) -> Result<Tensor> {
    check(p)?;
    channels(input, p, training, inplace, input.dim() != 5)
}
fn channels(input: &Tensor, p: f64, training: bool, inplace: bool, single: bool) -> Result<Tensor> {
    let x = if single { core_ops::unsqueeze(input, 0)? } else { input.clone() };
    let y = feature_dropout(&x, p, training)?;
    let y = if single { core_ops::squeeze_dim(&y, 0)? } else { y };
    finish(input, y, inplace)
}

/// What selu gives for minus infinity.
const ALPHA: f64 = 1.7580993408473766;

fn alpha(input: &Tensor, keep: usize, p: f64, train: bool) -> Result<Tensor> {
    check(p)?;
    if !train || p == 0.0 || input.numel() == 0 {
        return Ok(input.clone());
    }
    if p == 1.0 {
        return core_ops::mul(input, &number(0)?);
    }
    // a mask of truth values less 1 is of integers
    scalable(if input.dtype() == DType::Bool { DType::I64 } else { input.dtype() })?;
    let noise = ones_at(input, keep)?;
    let kept = super::dropout_mask(&noise, p)?;
    let zero = number(0)?;
    let kept = core_ops::eq(&core_ops::eq(&kept, &zero)?, &zero)?;
    let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    // dropped elements become -ALPHA; then everything is moved to the old mean and variance
    let kept = core_ops::to_copy(&kept, Some(input.dtype()), None, None, None, false, None)?;
    let b = core_ops::mul(&core_ops::sub(&kept, &number(1)?, Scalar::Int(1))?, &number(ALPHA * a)?)?;
    let b = core_ops::add(&b, &number(ALPHA * a * p)?, Scalar::Int(1))?;
    let noise = core_ops::mul(&kept, &number(a)?)?;
    core_ops::add(&core_ops::mul(input, &noise)?, &b, Scalar::Int(1))
}
/// `torch.nn.functional.alpha_dropout`
pub fn alpha_dropout(input: &Tensor, p: f64, training: bool, inplace: bool) -> Result<Tensor> {
    finish(input, alpha(input, usize::MAX, p, training)?, inplace)
}
/// `torch.alpha_dropout`
pub fn alpha_dropout_train(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    alpha(input, usize::MAX, p, train)
}
/// `torch.nn.functional.feature_alpha_dropout`
pub fn feature_alpha_dropout(input: &Tensor, p: f64, training: bool, inplace: bool) -> Result<Tensor> {
    finish(input, feature_alpha_dropout_train(input, p, training)?, inplace)
}
/// `torch.feature_alpha_dropout`
pub fn feature_alpha_dropout_train(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    if train && p != 0.0 && input.numel() > 0 && input.dim() < 2 {
        bail!(Runtime, "Feature dropout requires at least 2 dimensions in the input");
    }
    alpha(input, 2, p, train)
}

/// `native_dropout`
pub fn native_dropout(input: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    let x = input.alias_detached();
    if x.numel() == 0 {
        // of nothing PyTorch's mask has the input's type
        return Ok((core_ops::clone(&x, None)?, core_ops::empty_like(&x, None, None, None, None, None)?));
    }
    let bools = core_ops::empty_like(&x, Some(DType::Bool), None, None, None, None)?;
    if train == Some(false) {
        core_ops::fill_(&bools, Scalar::Bool(true))?;
        return Ok((core_ops::clone(&x, None)?, bools));
    }
    core_ops::bernoulli_float_(&bools, 1.0 - p, None)?;
    let y = core_ops::mul(&x, &bools)?;
    core_ops::mul_(&y, &number(dropout_scale(p, train))?)?;
    Ok((y, bools))
}
/// What the elements that are kept are multiplied with.
pub(crate) fn dropout_scale(p: f64, train: Option<bool>) -> f64 {
    match train {
        Some(false) => 1.0,
        _ if p == 1.0 => 0.0,
        _ => 1.0 / (1.0 - p),
    }
}
/// `native_dropout_backward`
pub fn native_dropout_backward(grad_output: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    let mask = super::operands::cast(mask, grad_output.dtype())?;
    core_ops::mul(grad_output, &core_ops::mul(&mask, &number(scale)?)?)
}
