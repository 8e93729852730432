//! Activations: the composites over the pointwise rows, and checks.

use flambeau_core::{DType, Result, Scalar, Tensor, bail, ensure};

const SELU_ALPHA: f64 = 1.6732632423543772848170429916717;
const SELU_SCALE: f64 = 1.0507009873554804934193349852946;
const ONE: Scalar = Scalar::Int(1);

/// `hardtanh` refuses bools, and bounds in the wrong order.
pub fn no_bool_hardtanh(self_: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<()> {
    ensure!(self_.dtype() != DType::Bool, Unsupported, "Bool inputs not supported for hardtanh");
    ensure!(!self_.dtype().is_complex(), Unsupported, "clamp is not supported for complex types");
    ensure!(
        min_val.to_f64() <= max_val.to_f64(),
        Value,
        "min_val cannot be greater than max_val"
    );
    Ok(())
}
/// `softshrink` refuses a negative shift.
pub fn softshrink_check(_self: &Tensor, lambd: Scalar) -> Result<()> {
    let l = lambd.to_f64();
    ensure!(l >= 0.0, Runtime, "lambda must be greater or equal to 0, but found to be {l}.");
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
    ensure!(alpha != 0.0, Runtime, "ZeroDivisionError: alpha cannot be 0 for CELU");
    either!(inplace, input, elu_raw, elu_raw_, alpha.into(), ONE, Scalar::Float(1.0 / alpha))
}
/// `selu`
pub fn selu(input: &Tensor, inplace: bool) -> Result<Tensor> {
    either!(inplace, input, elu_raw, elu_raw_, SELU_ALPHA.into(), SELU_SCALE.into(), ONE)
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
