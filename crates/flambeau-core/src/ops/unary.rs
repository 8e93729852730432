//! Functions of one operand: checks, and plans where the dtype or an argument's value decides.

use super::arithmetic::specs;
use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::planned::Planned;
use crate::backend::transfer::contiguous_raw;
use crate::generated::args;
use crate::iter::spec::Label;
use crate::iter::{PointwiseSpec, Promote, Rare};
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::{DType, ensure, ops};
use flambeau_cpu::pointwise as k;

specs! {
    SQUARE = "square" Label::plain("pow"), SQUARE Default;
    CONJ = "conj_physical" Label::plain("conj_cpu"), CONJ Default COMPLEX32 | FLOAT8 | UNSIGNED;
    COPY = "conj_physical" Label::plain("conj_cpu"), POSITIVE Default COMPLEX32 | FLOAT8 | UNSIGNED;
    COPY_BOOL = "conj_physical" Label::plain("conj_cpu"), ABS Default COMPLEX32 | FLOAT8 | UNSIGNED;
    ROUND = "round" Label::plain("round_vml_cpu"), ROUND Default UNSIGNED;
    ROUND_AT = "round" Label::plain("round_cpu"), ROUND_DECIMALS Default UNSIGNED;
    ROUND_LEFT = "round" Label::plain("round_cpu"), ROUND_DECIMALS_NEG Default UNSIGNED;
    NAN_TO_NUM = "nan_to_num" Label::plain("nan_to_num"), NAN_TO_NUM Default UNSIGNED;
}

/// `abs` of bool is not computed.
pub fn abs_check(self_: &Tensor) -> Result<()> {
    if self_.dtype() == DType::Bool {
        return Err(Error::not_implemented_for("abs_cpu", DType::Bool));
    }
    Ok(())
}
/// `abs` of complex numbers is real, and cannot be written over them.
pub fn abs_inplace_check(self_: &Tensor) -> Result<()> {
    ensure!(!self_.dtype().is_complex(), Runtime, "In-place abs is not supported for complex tensors.");
    Ok(())
}
/// `sign` is for real numbers.
pub fn sign_real(self_: &Tensor) -> Result<()> {
    ensure!(
        !self_.dtype().is_complex(),
        Unsupported,
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
    );
    Ok(())
}
/// `neg` refuses bools.
#[inline]
pub fn no_bool_neg(self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() != DType::Bool,
        Unsupported,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or \
         `logical_not()` operator instead."
    );
    Ok(())
}
macro_rules! refuse_complex {
    ($($(#[$m:meta])* $f:ident: $text:literal;)*) => {$(
        $(#[$m])*
        pub fn $f(self_: &Tensor) -> Result<()> {
            ensure!(!self_.dtype().is_complex(), Unsupported, $text);
            Ok(())
        }
    )*};
}
refuse_complex! {
    /// Signs are of real numbers.
    signbit_real: "signbit is not implemented for complex tensors.";
    /// Angles are real.
    deg2rad_check: "deg2rad is not supported for complex tensors.";
    /// Angles are real.
    rad2deg_check: "rad2deg is not supported for complex tensors.";
    /// Rounding is of real numbers.
    floor_check: "floor is not supported for complex inputs";
    /// Rounding is of real numbers.
    ceil_check: "ceil is not supported for complex inputs";
    /// Rounding is of real numbers.
    trunc_check: "trunc is not supported for complex inputs";
}
/// `relu` takes ordered numbers.
pub fn relu_check(self_: &Tensor) -> Result<()> {
    ensure!(self_.dtype() != DType::Bool, Unsupported, "Boolean inputs not supported for relu");
    ensure!(!self_.dtype().is_complex(), Unsupported, "clamp is not supported for complex types");
    Ok(())
}

/// `square`: of bools an int64, as their power is.
pub fn square_plan(self_: &Tensor) -> Result<Planned<'_>> {
    let p = Planned::new(&SQUARE, &[self_]);
    Ok(if self_.dtype() == DType::Bool { p.compute(DType::I64) } else { p })
}
/// `conj_physical`
pub fn conj_physical_plan(self_: &Tensor) -> Result<Planned<'_>> {
    let spec = match self_.dtype() {
        d if d.is_complex() => &CONJ,
        DType::Bool => &COPY_BOOL,
        _ => &COPY,
    };
    Ok(Planned::new(spec, &[self_]))
}
/// `round`
pub fn round_decimals_plan(self_: &Tensor, decimals: i64) -> Result<Planned<'_>> {
    if decimals == 0 && !self_.dtype().is_floating() {
        return Err(Error::not_implemented_for("round_vml_cpu", self_.dtype()));
    }
    let scale = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    Ok(match decimals {
        0 => Planned::new(&ROUND, &[self_]),
        1.. => Planned::new(&ROUND_AT, &[self_]).param(scale),
        _ => Planned::new(&ROUND_LEFT, &[self_]).param(scale),
    })
}
/// `nan_to_num`: the largest finite numbers stand for infinities unless others are given.
pub fn nan_to_num_plan(
    self_: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Planned<'_>> {
    let max = match self_.dtype().to_real() {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(half::bf16::MAX),
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    };
    let p = Planned::new(&NAN_TO_NUM, &[self_]);
    let p = p.param(nan.unwrap_or(0.0)).param(posinf.unwrap_or(max)).param(neginf.unwrap_or(-max));
    Ok(p)
}

/// `positive`
pub fn positive(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype() != DType::Bool,
        Unsupported,
        "The `+` operator, on a bool tensor is not supported."
    );
    Ok(self_.clone())
}

/// Real or imaginary part as a view, without the conjugate bit.
fn part(t: &Tensor, i: i64) -> Result<Tensor> {
    let plain = if t.is_conj() { ops::conj(t)? } else { t.clone() };
    ops::select(&ops::view_as_real(&plain)?, -1, i)
}
/// `real`
pub fn real(self_: &Tensor) -> Result<Tensor> {
    if self_.dtype().is_complex() { part(self_, 0) } else { Ok(self_.clone()) }
}
/// `imag`
pub fn imag(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dtype().is_complex(), Type, "imag is not implemented for tensors with non-complex dtypes.");
    let p = part(self_, 1)?;
    if self_.is_conj() { ops::neg_view(&p) } else { Ok(p) }
}

fn parts_check(a: &Tensor, b: &Tensor) -> Result<()> {
    let fits = |d: DType| matches!(d, DType::F16 | DType::F32 | DType::F64);
    let (x, y) = (a.dtype(), b.dtype());
    ensure!(
        fits(x) && fits(y),
        Unsupported,
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
        x.scalar_type_name(),
        y.scalar_type_name()
    );
    ensure!(
        x == y,
        Runtime,
        "Expected object of scalar type {} but got scalar type {} for second argument",
        x.scalar_type_name(),
        y.scalar_type_name()
    );
    Ok(())
}
/// `complex` does not promote.
pub fn complex_check(real: &Tensor, imag: &Tensor) -> Result<()> {
    parts_check(real, imag)
}
/// `polar` does not promote.
pub fn polar_check(abs: &Tensor, angle: &Tensor) -> Result<()> {
    parts_check(abs, angle)
}

/// `frexp`
pub fn frexp_shape(&args::Frexp { self_ }: &args::Frexp) -> Result<[OutMeta; 2]> {
    ensure!(self_.dtype().is_floating(), Runtime, "torch.frexp() only supports floating-point dtypes");
    let like = |d| OutMeta::of(self_.sizes(), d, self_.device());
    Ok([like(self_.dtype()), like(DType::I32)])
}
/// `frexp`
pub fn frexp_cpu(&args::Frexp { self_ }: &args::Frexp, [mantissa, exponent]: [&Tensor; 2]) -> Result<()> {
    let x = contiguous_raw(self_)?;
    let a = Access::new(&[&x], &[mantissa, exponent])?;
    k::unary::frexp::erased::frexp(a.any(0)?, a.any_mut(0)?, a.slice_mut::<i32>(1)?)
        .ok_or_else(|| Error::not_implemented_for("frexp", x.dtype()))
}
