//! Arithmetic with several operands: checks, and plans where the arguments' values decide.

use crate::backend::planned::Planned;
use crate::iter::promotion::{ResultTypeState, promote_types, result_type};
use crate::iter::spec::Label;
use crate::iter::{PointwiseSpec, Promote, Rare};
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::types::schema::OutDtype;
use crate::{DType, Device, bail, ensure, ops};
use flambeau_cpu::pointwise as k;

macro_rules! specs {
    ($($S:ident = $name:literal $label:expr, $kernel:ident $promote:ident $($rare:ident)|*;)*) => {$(
        pub(crate) static $S: PointwiseSpec = PointwiseSpec {
            name: $name,
            label: $label,
            kernel: &k::$kernel,
            promote: Promote::$promote,
            rare: Rare::NONE$(.and(Rare::$rare))*,
            kernels: $crate::dispatch::op::Kernels::new(&[]),
        };
    )*};
}
pub(crate) use specs;
/// With another name for narrow floats and a single number on the right.
const fn reduced(name: &'static str, narrow_number: &'static str) -> Label {
    Label { narrow_number: Some(narrow_number), ..Label::plain(name) }
}

specs! {
    DIV = "div" reduced("div_cpu", "div_cpu_reduced_float"), DIV IntToFloat UNSIGNED;
    DIV_FLOOR = "div" reduced("div_floor_cpu", "div_floor_cpu_reduced_float"), DIV_FLOOR Divide UNSIGNED;
    DIV_TRUNC = "div" Label::plain("div_trunc_cpu"), DIV_TRUNC Divide UNSIGNED;
    POW = "pow" Label::plain("pow"), POW Default;
    POW_2 = "pow" Label::plain("pow"), POW_2 Default;
    POW_3 = "pow" Label::plain("pow"), POW_3 Default;
    POW_NEG_2 = "pow" Label::plain("pow"), POW_NEG_2 Default;
    POW_1 = "pow" Label::plain("pow"), POSITIVE Default COMPLEX32 | FLOAT8 | UNSIGNED;
    POW_SQRT = "pow" Label::plain("sqrt_vml_cpu"), SQRT Default;
    POW_RSQRT = "pow" Label::plain("rsqrt_cpu"), RSQRT Default;
    POW_RECIPROCAL = "pow" Label::plain("reciprocal_cpu"), RECIPROCAL Default;
    SAME = "pow" Label::plain("pow"), EQ Default;
    BOOL_COPY = "pow" Label::plain("pow"), ABS Default;
    CLAMP = "clamp" Label::plain("clamp_scalar_cpu"), CLAMP Default UNSIGNED;
    CLAMP_MIN = "clamp" Label::plain("clamp_min_scalar_cpu"), CLAMP_MIN Default UNSIGNED;
    CLAMP_MAX = "clamp" Label::plain("clamp_max_scalar_cpu"), CLAMP_MAX Default UNSIGNED;
    CLAMP_TENSOR = "clamp_tensor" Label::plain("clamp_cpu"), CLAMP_TENSOR Default UNSIGNED;
    MAXIMUM = "clamp_tensor" Label::plain("maximum_cpu"), MAXIMUM Default UNSIGNED;
    MINIMUM = "clamp_tensor" Label::plain("minimum_cpu"), MINIMUM Default UNSIGNED;
}

/// What a factor of `add` or `sub` must be for a result of this dtype.
#[cold]
fn alpha_fits(d: DType, alpha: Scalar) -> Result<()> {
    ensure!(
        d == DType::Bool || !matches!(alpha, Scalar::Bool(_)),
        Runtime,
        "Boolean alpha only supported for Boolean results."
    );
    ensure!(
        d.is_floating() || d.is_complex() || alpha.is_integral(true),
        Runtime,
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    ensure!(
        d.is_complex() || !alpha.is_complex(),
        Runtime,
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    Ok(())
}

/// `add`'s factor; an integer fits everywhere.
#[inline]
pub fn add_alpha(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<()> {
    if matches!(alpha, Scalar::Int(_)) {
        return Ok(());
    }
    alpha_fits(result_type(&[self_, other])?, alpha)
}

/// `sub` refuses bools.
#[inline]
pub fn sub_check(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<()> {
    let (a, b) = (self_.dtype() == DType::Bool, other.dtype() == DType::Bool);
    if a || b {
        return Err(bool_sub(a && b));
    }
    add_alpha(self_, other, alpha)
}
#[cold]
fn bool_sub(both: bool) -> Error {
    Error::unsupported(if both {
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator \
         instead."
    } else {
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the \
         `~` or `logical_not()` operator instead."
    })
}

/// `rsub.Scalar`
pub fn rsub_scalar(self_: &Tensor, other: Scalar, alpha: Scalar) -> Result<Tensor> {
    ops::rsub(self_, &crate::tensor::wrapped_number::wrapped_number(other)?, alpha)
}

/// `where` looks at its output before its mask.
pub fn where_output(_: &Tensor, self_: &Tensor, other: &Tensor, out: &Tensor) -> Result<()> {
    let want = result_type(&[self_, other])?;
    ensure!(
        out.dtype() == want,
        Runtime,
        "Expected out type to be {} but got {}",
        want.scalar_type_name(),
        out.dtype().scalar_type_name()
    );
    Ok(())
}
/// `where` wants a mask.
pub fn where_condition(condition: &Tensor, self_: &Tensor, other: &Tensor) -> Result<()> {
    ensure!(
        matches!(condition.dtype(), DType::Bool | DType::U8),
        Runtime,
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        condition.dtype().scalar_type_name()
    );
    number_fits(self_, other)?;
    number_fits(other, self_)
}
/// A number beside a tensor of integers must be one of them.
fn number_fits(number: &Tensor, beside: &Tensor) -> Result<()> {
    let narrow = beside.dtype().is_integral(false) && beside.dtype() != DType::I64;
    if narrow && number.is_wrapped_number() && number.dtype() == DType::I64 && number.device() != Device::Meta
    {
        Scalar::Int(number.try_item()?).check_fits(beside.dtype())?;
    }
    Ok(())
}

/// `div.Tensor_mode`
pub fn div_mode_plan<'a>(
    self_: &'a Tensor,
    other: &'a Tensor,
    rounding_mode: Option<&str>,
) -> Result<Planned<'a>> {
    let spec = match rounding_mode {
        None => &DIV,
        Some("trunc") => &DIV_TRUNC,
        Some("floor") => &DIV_FLOOR,
        Some(m) => {
            bail!(
                Runtime,
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{m}'"
            )
        }
    };
    Ok(Planned::new(spec, &[self_, other]))
}

/// `pow`: a Python number as exponent has forms of its own.
pub fn pow_plan<'a>(self_: &'a Tensor, exponent: &'a Tensor) -> Result<Planned<'a>> {
    if !exponent.is_wrapped_number() || exponent.device() == crate::Device::Meta {
        return Ok(Planned::new(&POW, &[self_, exponent]));
    }
    let e = crate::backend::transfer::item_scalar(exponent)?;
    ensure!(
        !(self_.dtype().is_integral(true) && e.is_integral(true) && e.to_i64() < 0),
        Runtime,
        "Integers to negative integer powers are not allowed."
    );
    let d = result_type(&[self_, exponent])?;
    let power = |v: f64| e.equals(v);
    if d == DType::Bool {
        // the two powers of bools: all true, and the same
        return Ok(if power(0.0) {
            Planned::new(&SAME, &[self_, self_])
        } else {
            Planned::new(&BOOL_COPY, &[self_])
        });
    }
    let inexact = d.is_floating() || d.is_complex();
    let spec = match () {
        // a copy, which PyTorch's `out=` takes as it takes `conj_physical`
        () if power(1.0) && (d == self_.dtype()) => {
            return Ok(Planned::new(&POW_1, &[self_]).compute(d).out_dtype(OutDtype::FOUND));
        }
        () if power(2.0) => &POW_2,
        () if power(3.0) => &POW_3,
        () if inexact && power(0.5) => &POW_SQRT,
        () if inexact && power(-0.5) => &POW_RSQRT,
        () if inexact && power(-1.0) => &POW_RECIPROCAL,
        () if d.is_floating() && power(-2.0) => &POW_NEG_2,
        () => return Ok(Planned::new(&POW, &[self_, exponent])),
    };
    Ok(Planned::new(spec, &[self_]).compute(d))
}

/// `float_power`: in float64 or complex128.
pub fn float_power(self_: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let complex = self_.dtype().is_complex() || exponent.dtype().is_complex();
    let d = if complex { DType::C128 } else { DType::F64 };
    let cast = |t: &Tensor| ops::to(t, Some(d), None, None, None, false, false, None);
    ops::pow(&cast(self_)?, &cast(exponent)?)
}

/// `float_power_` writes to tensors of the precision alone in which it computes.
pub fn float_power_inplace_check(self_: &Tensor, exponent: &Tensor) -> Result<()> {
    let complex = self_.dtype().is_complex() || exponent.dtype().is_complex();
    let d = if complex { DType::C128 } else { DType::F64 };
    crate::ensure!(
        self_.dtype() == d,
        Runtime,
        "the base given to float_power_ has dtype {} but the operation's result requires dtype {}",
        self_.dtype().scalar_type_name(),
        d.scalar_type_name()
    );
    Ok(())
}
/// `ldexp_` of integers: its result is never one.
pub fn ldexp_inplace_check(self_: &Tensor, _: &Tensor) -> Result<()> {
    crate::ensure!(
        !self_.dtype().is_integral(true),
        Runtime,
        "ldexp can't be cast to the desired output type {}",
        self_.dtype().scalar_type_name()
    );
    Ok(())
}
/// `ldexp`
pub fn ldexp(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let two = crate::tensor::wrapped_number::wrapped_number(Scalar::Float(2.0))?;
    let (x, e) = (self_.dtype(), other.dtype());
    if !(x.is_floating() && e.is_integral(true)) {
        if x.is_complex() {
            return complex_ldexp(self_, other);
        }
        return ops::mul(self_, &ops::pow(&two, other)?);
    }
    if matches!(x, DType::F8E4M3 | DType::F8E5M2) {
        return Err(Error::not_implemented_for("ldexp_cpu", x));
    }
    if e == DType::Bool || e.is_wide_unsigned() {
        return Err(Error::not_implemented_for("ldexp_cpu_exp", e));
    }
    let d = result_type(&[self_, other])?;
    let exponent = ops::to(other, Some(d), None, None, None, false, false, None)?;
    ops::mul(self_, &ops::pow(&two, &exponent)?)
}

/// The base of the power is a number of the input's dtype, and a zero-dim tensor.
fn complex_ldexp(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let base = ops::full(&[], Scalar::Float(2.0), Some(self_.dtype()), None, Some(self_.device()), None)?;
    let d = result_type(&[&base, other])?;
    if matches!(d, DType::C32) {
        return Err(Error::not_implemented_for("pow", d));
    }
    ops::mul(self_, &ops::pow(&base, other)?)
}

fn no_complex(name: &str, tensors: &[&Tensor]) -> Result<()> {
    if tensors.iter().any(|t| t.dtype().is_complex()) {
        return Err(Error::type_(format!("{name} not implemented for complex tensors.")));
    }
    Ok(())
}
macro_rules! real_only {
    ($($(#[$m:meta])* $f:ident $name:literal;)*) => {$(
        $(#[$m])*
        pub fn $f(self_: &Tensor, other: &Tensor) -> Result<()> {
            no_complex($name, &[self_, other])
        }
    )*};
}
real_only! {
    /// Complex numbers have no order.
    maximum_check "maximum";
    /// Complex numbers have no order.
    minimum_check "minimum";
    /// Complex numbers have no order.
    fmax_check "fmax";
    /// Complex numbers have no order.
    fmin_check "fmin";
}

const NO_COMPLEX_CLAMP: &str = "clamp is not supported for complex types";
const NO_BOUND: &str = "torch.clamp: At least one of 'min' or 'max' must not be None";

/// The dtype of a clamp by numbers: they take part in promotion unless the input is floating.
fn clamp_dtype(self_: &Tensor, bounds: &[Option<Scalar>]) -> Result<DType> {
    let d = self_.dtype();
    ensure!(!d.is_complex(), Unsupported, "{NO_COMPLEX_CLAMP}");
    if d.is_floating() {
        ensure!(!bounds.iter().flatten().any(|b| b.is_complex()), Unsupported, "{NO_COMPLEX_CLAMP}");
        return Ok(d);
    }
    let mut s = ResultTypeState::default();
    s.tensor(self_)?;
    for b in bounds.iter().flatten() {
        s.scalar(*b)?;
    }
    let d = s.finish()?;
    ensure!(!d.is_complex(), Unsupported, "{NO_COMPLEX_CLAMP}");
    Ok(d)
}

/// `clamp`
pub fn clamp_plan<'a>(self_: &'a Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Planned<'a>> {
    ensure!(min.is_some() || max.is_some(), Runtime, "{NO_BOUND}");
    let d = clamp_dtype(self_, &[min, max])?;
    let (min, max) = crate::types::type_info::bounds_within(d, min, max)?;
    let plan = match (min, max) {
        (Some(lo), Some(hi)) => Planned::new(&CLAMP, &[self_]).param(lo).param(hi),
        (Some(lo), None) => Planned::new(&CLAMP_MIN, &[self_]).param(lo),
        (_, hi) => Planned::new(&CLAMP_MAX, &[self_]).param(hi.unwrap_or(Scalar::Int(0))),
    };
    Ok(plan.compute(d))
}
/// `clamp_min`
pub fn clamp_min_plan<'a>(self_: &'a Tensor, min: Scalar) -> Result<Planned<'a>> {
    clamp_plan(self_, Some(min), None)
}
/// `clamp_max`
pub fn clamp_max_plan<'a>(self_: &'a Tensor, max: Scalar) -> Result<Planned<'a>> {
    clamp_plan(self_, None, Some(max))
}
/// `clamp.Tensor`
pub fn clamp_tensor_plan<'a>(
    self_: &'a Tensor,
    min: Option<&'a Tensor>,
    max: Option<&'a Tensor>,
) -> Result<Planned<'a>> {
    ensure!(!self_.dtype().is_complex(), Unsupported, "{NO_COMPLEX_CLAMP}");
    if let (Some(lo), Some(hi)) = (min, max) {
        let d = promote_types(self_.dtype(), promote_types(lo.dtype(), hi.dtype())?)?;
        if d.is_complex() {
            return Err(Error::not_implemented_for("clamp_cpu", d));
        }
    }
    match (min, max) {
        (Some(lo), Some(hi)) => Ok(Planned::new(&CLAMP_TENSOR, &[self_, lo, hi])),
        (Some(lo), None) => Ok(Planned::new(&MAXIMUM, &[self_, lo])),
        (None, Some(hi)) => Ok(Planned::new(&MINIMUM, &[self_, hi])),
        (None, None) => Err(Error::runtime(NO_BOUND)),
    }
}

fn same_dtype(want: &Tensor, got: &Tensor, name: &str) -> Result<()> {
    ensure!(
        want.dtype() == got.dtype(),
        Runtime,
        "expected dtype {} for `{name}` but got dtype {}",
        want.dtype().c_name(),
        got.dtype().c_name()
    );
    Ok(())
}
/// `lerp` does not promote.
pub fn lerp_check(self_: &Tensor, end: &Tensor, _weight: Scalar) -> Result<()> {
    same_dtype(self_, end, "end")
}
/// `lerp` does not promote.
pub fn lerp_tensor_check(self_: &Tensor, end: &Tensor, weight: &Tensor) -> Result<()> {
    same_dtype(self_, end, "end")?;
    if weight.dim() == 0 && weight.is_wrapped_number() {
        return Ok(());
    }
    same_dtype(self_, weight, "weight")
}

/// `addcdiv` refuses integers.
pub fn addcdiv_check(_self: &Tensor, tensor1: &Tensor, tensor2: &Tensor, _value: Scalar) -> Result<()> {
    ensure!(
        !(tensor1.dtype().is_integral(true) && tensor2.dtype().is_integral(true)),
        Runtime,
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true \
         division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * \
         torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) \
         for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / \
         tensor2), for all dtypes."
    );
    Ok(())
}

/// `heaviside` neither promotes nor takes complex numbers.
pub fn heaviside_check(self_: &Tensor, values: &Tensor) -> Result<()> {
    ensure!(
        !self_.dtype().is_complex() && !values.dtype().is_complex(),
        Unsupported,
        "heaviside is not yet implemented for complex tensors."
    );
    ensure!(
        self_.dtype() == values.dtype(),
        Runtime,
        "heaviside is not yet implemented for tensors with different dtypes."
    );
    Ok(())
}
