//! Activations: the composites over the pointwise rows, and checks.

use super::operands::number;
use crate::generated::args;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::generator::{Generator, default_generator};
use flambeau_core::tensor::geometry::wrap_dim;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, bail, ensure, ops as core_ops};

pub(crate) const SELU_ALPHA: f64 = 1.6732632423543772848170429916717;
pub(crate) const SELU_SCALE: f64 = 1.0507009873554804934193349852946;
const ONE: Scalar = Scalar::Int(1);

/// `hardtanh` refuses bools, and bounds in the wrong order.
pub fn no_bool_hardtanh(self_: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<()> {
    ensure!(self_.dtype() != DType::Bool, Unsupported, "Bool inputs not supported for hardtanh");
    ensure!(!self_.dtype().is_complex(), Unsupported, "clamp is not supported for complex types");
    ensure!(min_val.to_f64() <= max_val.to_f64(), Value, "min_val cannot be greater than max_val");
    Ok(())
}
/// `softshrink` refuses a negative shift.
pub fn softshrink_check(self_: &Tensor, lambd: Scalar) -> Result<()> {
    let l = lambd.to_f64();
    let d = self_.dtype();
    if !d.is_floating() {
        return Err(Error::not_implemented_for("softshrink_check", d));
    }
    let (max, text) = match d {
        DType::F16 => (65504.0, "65504"),
        DType::BF16 => (3.389_531_389_251_535_5e38, "3.38953e+38"),
        DType::F64 => (f64::MAX, "1.79769e+308"),
        _ => (f64::from(f32::MAX), "3.40282e+38"),
    };
    ensure!(
        (0.0..=max).contains(&l),
        Runtime,
        "lambda must be in range [0, {text}] for input dtype {}, but found {}",
        d.scalar_type_name(),
        flambeau_core::types::type_info::c_number(l)
    );
    Ok(())
}

/// Runs the in-place form where that was asked for.
macro_rules! either {
    ($inplace:expr, $x:ident, $raw:ident, $raw_:ident $(, $arg:expr)*) => {
        if $inplace {
            super::$raw_($x $(, $arg)*)?;
            Ok($x.clone())
        } else {
            super::$raw($x $(, $arg)*)
        }
    };
}

/// `leaky_relu`
pub fn leaky_relu(input: &Tensor, negative_slope: f64, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, leaky_relu_raw, leaky_relu_raw_, negative_slope.into())
}
/// `elu`
pub fn elu(input: &Tensor, alpha: f64, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, elu_raw, elu_raw_, alpha.into(), ONE, ONE)
}
/// `celu`
pub fn celu(input: &Tensor, alpha: f64, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, celu_raw, celu_raw_, alpha.into())
}
/// `selu`
pub fn selu(input: &Tensor, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, selu_raw, selu_raw_)
}
/// `gelu`
pub fn gelu(input: &Tensor, approximate: &str) -> Result<Tensor> {
    match approximate {
        "none" => super::gelu_erf(input),
        "tanh" => super::gelu_tanh(input),
        _ => bail!(Runtime, "approximate argument must be either none or tanh."),
    }
}
/// `silu`
pub fn silu(input: &Tensor, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, silu_raw, silu_raw_)
}
/// `mish`
pub fn mish(input: &Tensor, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, mish_raw, mish_raw_)
}
/// `hardtanh`
pub fn hardtanh(input: &Tensor, min_val: Scalar, max_val: Scalar, inplace: bool) -> Result<Tensor> {
    let bounds = flambeau_core::types::type_info::bounds_within(input.dtype(), Some(min_val), Some(max_val))?;
    let (min_val, max_val) = (bounds.0.unwrap_or(min_val), bounds.1.unwrap_or(max_val));
    either!(inplace, input, hardtanh_raw, hardtanh_raw_, min_val, max_val)
}
/// `relu6`
pub fn relu6(input: &Tensor, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, hardtanh_raw, hardtanh_raw_, Scalar::Int(0), Scalar::Int(6))
}
/// `hardsigmoid`
pub fn hardsigmoid(input: &Tensor, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, hardsigmoid_raw, hardsigmoid_raw_)
}
/// `hardswish`
pub fn hardswish(input: &Tensor, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, hardswish_raw, hardswish_raw_)
}
/// `threshold`
pub fn threshold(input: &Tensor, threshold: Scalar, value: Scalar, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, threshold_raw, threshold_raw_, threshold, value)
}

/// `celu` divides by alpha.
pub fn celu_check(_self: &Tensor, alpha: Scalar) -> Result<()> {
    ensure!(alpha.to_f64() != 0.0, Runtime, "ZeroDivisionError: alpha cannot be 0 for CELU");
    Ok(())
}
/// `torch.nn.functional.relu`
pub fn relu(input: &Tensor, inplace: bool) -> Result<Tensor> {
    if inplace {
        core_ops::relu_(input)?;
        return Ok(input.clone());
    }
    core_ops::relu(input)
}
/// `torch.nn.functional.relu_`
pub fn relu_(input: &Tensor) -> Result<()> {
    core_ops::relu_(input)
}
/// `prelu`
pub fn prelu(self_: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let (x, w) = (self_, weight);
    ensure!(
        x.dtype() == w.dtype(),
        Runtime,
        "prelu: Type promoting not supported. Got {} and {}",
        x.dtype().scalar_type_name(),
        w.dtype().scalar_type_name()
    );
    if w.numel() != 1 {
        ensure!(x.dim() > 0, Runtime, "Not allow zero-dim input tensor.");
        let channels = if x.dim() > 1 { x.sizes()[1] } else { 1 };
        ensure!(
            channels == w.numel(),
            Runtime,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = {channels}.",
            w.numel()
        );
    }
    ensure!(
        w.dim() <= 1,
        Runtime,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
        w.dim()
    );
    if !x.dtype().is_floating() {
        return Err(Error::not_implemented_for("prelu_cpu", x.dtype()));
    }
    let mut shape = vec![1; x.dim()];
    if x.dim() > 1 {
        shape[1] = w.numel();
    }
    let w = core_ops::reshape(w, if x.dim() == 0 { &[] } else { &shape })?;
    core_ops::where_(&core_ops::gt(x, &number(0)?)?, x, &core_ops::mul(&w, x)?)
}
/// `rrelu`
pub fn rrelu(input: &Tensor, lower: f64, upper: f64, training: bool, inplace: bool) -> Result<Tensor> {
    let y = leaky_at_random(input, lower, upper, training, None)?;
    if inplace {
        core_ops::copy_(input, &y, false)?;
        return Ok(input.clone());
    }
    Ok(y)
}
/// `torch.rrelu`
pub fn rrelu_torch(
    self_: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    leaky_at_random(self_, lower.to_f64(), upper.to_f64(), training, generator)
}
fn leaky_at_random(
    input: &Tensor,
    lower: f64,
    upper: f64,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    for (bound, what) in [(lower, "lower"), (upper, "upper")] {
        ensure!(
            bound.is_finite(),
            Runtime,
            "rrelu: {what} bound must be finite, got {}",
            flambeau_core::types::type_info::c_number(bound)
        );
    }
    ensure!(lower <= upper, Runtime, "Lower bound should be less than or equal to the upper bound");
    if !training {
        return leaky_relu(input, (lower + upper) / 2.0, false);
    }
    if !input.dtype().is_floating() {
        return Err(Error::not_implemented_for("rrelu_with_noise_out_cpu", input.dtype()));
    }
    if input.dtype() == DType::F16 {
        return Err(Error::not_implemented_for("rrelu_with_noise_out_cpu", DType::F16));
    }
    // the bounds are numbers of the dtype that is computed in
    let (lower, upper) = match input.dtype() {
        DType::F64 => (lower, upper),
        _ => (f64::from(lower as f32), f64::from(upper as f32)),
    };
    let slopes = crate::ops::rrelu_slopes(input, lower, upper, generator)?;
    let y = core_ops::mul(&super::operands::cast(input, slopes.dtype())?, &slopes)?;
    super::operands::cast(&y, input.dtype())
}
/// `_rrelu_slopes`
pub fn rrelu_slopes_shape(&args::RreluSlopes { self_, .. }: &args::RreluSlopes) -> Result<OutMeta> {
    Ok(OutMeta::of(self_.sizes(), super::operands::wide(self_.dtype()), self_.device()))
}
/// `_rrelu_slopes`: only elements that are not positive draw one.
pub fn rrelu_slopes_cpu(
    &args::RreluSlopes { self_, lower, upper, generator }: &args::RreluSlopes,
    out: &Tensor,
) -> Result<()> {
    let x = super::operands::cast(&self_.alias_detached(), DType::F64)?.try_to_vec::<f64>()?;
    let slopes: Vec<f64> = generator.unwrap_or_else(|| default_generator()).draw(|g| {
        let mut one = |x: f64| if x <= 0.0 { g.uniform53() * (upper - lower) + lower } else { 1.0 };
        x.into_iter().map(&mut one).collect()
    })?;
    core_ops::copy_(out, &Tensor::from_vec_raw(slopes, out.sizes())?, false)
}
/// `glu`
pub fn glu(input: &Tensor, dim: i64) -> Result<Tensor> {
    ensure!(input.dim() > 0, Runtime, "glu does not support scalars because halving size must be even");
    let d = wrap_dim(dim, input.dim())?;
    let n = input.sizes()[d];
    ensure!(n % 2 == 0, Runtime, "Halving dimension must be even, but dimension {d} is size {n}");
    if !input.dtype().is_floating() {
        return Err(Error::not_implemented_for("glu_cpu", input.dtype()));
    }
    let half = |from: i64| core_ops::slice(input, d as i64, Some(from), Some(from + n / 2), 1);
    core_ops::mul(&half(0)?, &core_ops::sigmoid(&half(n / 2)?)?)
}
/// `softsign`
pub fn softsign(input: &Tensor) -> Result<Tensor> {
    if input.dtype() == DType::Bool {
        return Err(Error::not_implemented_for("abs_cpu", DType::Bool));
    }
    core_ops::div(input, &core_ops::add(&core_ops::abs(input)?, &number(1)?, ONE)?)
}
/// `tanhshrink`
pub fn tanhshrink(input: &Tensor) -> Result<Tensor> {
    core_ops::sub(input, &core_ops::tanh(input)?, ONE)
}
/// The dimension that is taken where none is given: the second, but the first of up to one or of three.
fn implicit_dim(rank: usize, dim: Option<i64>) -> i64 {
    dim.unwrap_or(if matches!(rank, 0 | 1 | 3) { 0 } else { 1 })
}
/// `softmin`
pub fn softmin(input: &Tensor, dim: Option<i64>, stacklevel: i64, dtype: Option<DType>) -> Result<Tensor> {
    softmax(&core_ops::neg(input)?, Some(implicit_dim(input.dim(), dim)), stacklevel, dtype)
}
/// `torch.nn.functional.softmax`
pub fn softmax(input: &Tensor, dim: Option<i64>, _stacklevel: i64, dtype: Option<DType>) -> Result<Tensor> {
    core_ops::softmax(input, implicit_dim(input.dim(), dim), dtype)
}
/// `torch.nn.functional.log_softmax`
pub fn log_softmax(
    input: &Tensor,
    dim: Option<i64>,
    _stacklevel: i64,
    dtype: Option<DType>,
) -> Result<Tensor> {
    core_ops::log_softmax(input, implicit_dim(input.dim(), dim), dtype)
}
/// `torch.nn.functional.sigmoid`
pub fn sigmoid(input: &Tensor) -> Result<Tensor> {
    core_ops::sigmoid(input)
}
/// `torch.nn.functional.tanh`
pub fn tanh(input: &Tensor) -> Result<Tensor> {
    core_ops::tanh(input)
}
/// `gumbel_softmax`
pub fn gumbel_softmax(logits: &Tensor, tau: f64, hard: bool, _eps: f64, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, logits.dim())? as i64;
    // drawn in row-major order, however the logits lie
    let noise = Tensor::empty_raw(logits.sizes(), logits.dtype(), logits.device())?;
    core_ops::exponential_(&noise, 1.0, None)?;
    let gumbels = core_ops::neg(&core_ops::log(&noise)?)?;
    let z = core_ops::div(&core_ops::add(logits, &gumbels, ONE)?, &number(tau)?)?;
    let soft = core_ops::softmax(&z, d, None)?;
    if !hard {
        return Ok(soft);
    }
    // one-hot forward, soft backward
    let picked = core_ops::max_dim(&soft.alias_detached(), d, true)?.1;
    let n = logits.sizes().get(d as usize).copied().unwrap_or(1);
    let mut shape = vec![1; logits.dim()];
    if let Some(s) = shape.get_mut(d as usize) {
        *s = n;
    }
    let places = core_ops::arange(Scalar::Int(n), Some(DType::I64), None, Some(logits.device()), None)?;
    let places = core_ops::reshape(&places, &shape)?;
    let one_hot = super::operands::cast(&core_ops::eq(&picked, &places)?, soft.dtype())?;
    core_ops::add(&core_ops::sub(&one_hot, &soft.alias_detached(), ONE)?, &soft, ONE)
}
