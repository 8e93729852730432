//! Type promotion, exactly as PyTorch's.

use crate::DType;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use std::sync::atomic::{AtomicU8, Ordering};

/// `promote_types` as a table over the first thirteen dtypes in declaration order.
#[rustfmt::skip]
const TABLE: [[DType; 13]; 13] = {
    use DType::*;
    [
        [U8, I16, I16, I32, I64, F16, F32, F64, C32, C64, C128, U8, BF16],
        [I16, I8, I16, I32, I64, F16, F32, F64, C32, C64, C128, I8, BF16],
        [I16, I16, I16, I32, I64, F16, F32, F64, C32, C64, C128, I16, BF16],
        [I32, I32, I32, I32, I64, F16, F32, F64, C32, C64, C128, I32, BF16],
        [I64, I64, I64, I64, I64, F16, F32, F64, C32, C64, C128, I64, BF16],
        [F16, F16, F16, F16, F16, F16, F32, F64, C32, C64, C128, F16, F32],
        [F32, F32, F32, F32, F32, F32, F32, F64, C64, C64, C128, F32, F32],
        [F64, F64, F64, F64, F64, F64, F64, F64, C128, C128, C128, F64, F64],
        [C32, C32, C32, C32, C32, C32, C64, C128, C32, C64, C128, C32, C64],
        [C64, C64, C64, C64, C64, C64, C64, C128, C64, C64, C128, C64, C64],
        [C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128],
        [U8, I8, I16, I32, I64, F16, F32, F64, C32, C64, C128, Bool, BF16],
        [BF16, BF16, BF16, BF16, BF16, F32, F32, F64, C64, C64, C128, BF16, BF16],
    ]
};

/// The complex dtype with parts of this dtype (`torch.dtype.to_complex`).
///
/// # Errors
/// Where there is none.
pub fn to_complex(d: DType) -> Result<DType> {
    d.complex()
        .ok_or_else(|| Error::dtype(format!("Unknown Complex ScalarType for {}", d.scalar_type_name())))
}

/// The smallest dtype that holds both (`torch.promote_types`).
///
/// # Errors
/// For float8, quantized and mixed wide unsigned types, as PyTorch.
pub fn promote_types(a: DType, b: DType) -> Result<DType> {
    use DType::*;
    if a == b {
        return Ok(a);
    }
    let (x, y) = (a as usize, b as usize);
    if x < 13 && y < 13 {
        return Ok(TABLE[x][y]);
    }
    let (an, bn) = (a.scalar_type_name(), b.scalar_type_name());
    if a.is_quantized() || b.is_quantized() {
        return Err(Error::dtype(format!(
            "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, \
             offending types: {an} {bn}"
        )));
    }
    let fp8 = |d| matches!(d, F8E4M3 | F8E5M2);
    if fp8(a) || fp8(b) {
        return Err(Error::dtype(format!(
            "Promotion for Float8 Types is not supported, attempted to promote {an} and {bn}"
        )));
    }
    let wide_unsigned = |d| matches!(d, U16 | U32 | U64);
    match (a, b) {
        // parts of bfloat16 fit no other narrow complex dtype
        (BC32, o) | (o, BC32) if !wide_unsigned(o) => Ok(match o {
            C128 | F64 => C128,
            F16 | F32 | C32 | C64 => C64,
            _ => BC32,
        }),
        (F16 | F32 | F64 | BF16, _) => Ok(a),
        (_, F16 | F32 | F64 | BF16) => Ok(b),
        _ => Err(Error::dtype(format!(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {an} and {bn}"
        ))),
    }
}

/// Whether values of `from` may be written to a tensor of `to` without an explicit cast (`torch.can_cast`).
///
/// ```
/// assert!(torch::can_cast(torch::int64, torch::float32) && !torch::can_cast(torch::float32, torch::int64));
/// ```
pub fn can_cast(from: DType, to: DType) -> bool {
    if from.is_complex() && !to.is_complex() {
        return false;
    }
    if from.is_floating() && to.is_integral(true) {
        return false;
    }
    !(from != DType::Bool && to == DType::Bool)
}

static DEFAULT: AtomicU8 = AtomicU8::new(DType::F32 as u8);

/// The dtype of new floating tensors (`torch.get_default_dtype`).
///
/// ```
/// assert_eq!(torch::get_default_dtype(), torch::float32);
/// ```
#[inline]
pub fn default_dtype() -> DType {
    match DEFAULT.load(Ordering::Relaxed) {
        d if d == DType::F32 as u8 => DType::F32,
        d if d == DType::F64 as u8 => DType::F64,
        d if d == DType::F16 as u8 => DType::F16,
        _ => DType::BF16,
    }
}
/// Sets the dtype of new floating tensors.
///
/// # Errors
/// Unless it is float16, bfloat16, float32 or float64.
pub fn set_default_dtype(d: DType) -> Result<()> {
    if !matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
        return Err(Error::type_("only floating-point types are supported as the default type"));
    }
    DEFAULT.store(d as u8, Ordering::Relaxed);
    Ok(())
}
/// The complex dtype that goes with the default dtype.
pub fn default_complex_dtype() -> DType {
    default_dtype().to_complex()
}

/// The dtype that a number on its own makes: floats take the default dtype, integers int64.
pub fn scalar_default_dtype(s: Scalar) -> DType {
    match s {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) => DType::I64,
        Scalar::UInt(_) => DType::U64,
        Scalar::Float(_) => default_dtype(),
        Scalar::Complex(_) => default_complex_dtype(),
    }
}

/// Collects operands by priority: tensors with dimensions, then zero-dim tensors, then numbers.
#[derive(Clone, Copy, Default)]
pub struct ResultTypeState {
    dim: Option<DType>,
    zero: Option<DType>,
    wrapped: Option<DType>,
}
fn merge(a: Option<DType>, b: DType) -> Result<Option<DType>> {
    Ok(Some(match a {
        None => b,
        Some(a) => promote_types(a, b)?,
    }))
}
/// A dtype of a higher category wins over one of a lower, within a category the first wins.
fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>> {
    let category = |d: DType| match d {
        d if d.is_complex() => 3,
        d if d.is_floating() => 2,
        DType::Bool => 0,
        _ => 1,
    };
    Ok(match (higher, lower) {
        (None, l) => l,
        (h, None) => h,
        // a float keeps its width when something of lower priority makes it complex
        (Some(h), Some(l)) if h.is_floating() && l.is_complex() => Some(to_complex(h)?),
        (Some(h), Some(l)) => {
            if l.is_complex() && !h.is_complex() {
                Some(l)
            } else if category(l) > category(h) {
                Some(promote_types(h, l)?)
            } else {
                Some(h)
            }
        }
    })
}
impl ResultTypeState {
    /// Adds a tensor operand.
    pub fn tensor(&mut self, t: &Tensor) -> Result<()> {
        let d = t.dtype();
        if t.is_wrapped_number() {
            let d = if d.is_complex() {
                default_complex_dtype()
            } else if d.is_floating() {
                default_dtype()
            } else {
                d
            };
            self.wrapped = merge(self.wrapped, d)?;
        } else if t.dim() == 0 {
            self.zero = merge(self.zero, d)?;
        } else {
            self.dim = merge(self.dim, d)?;
        }
        Ok(())
    }
    /// Adds a number.
    pub fn scalar(&mut self, s: Scalar) -> Result<()> {
        self.wrapped = merge(self.wrapped, scalar_default_dtype(s))?;
        Ok(())
    }
    /// The result dtype; float32 of nothing.
    pub fn finish(self) -> Result<DType> {
        Ok(combine(self.dim, combine(self.zero, self.wrapped)?)?.unwrap_or(DType::F32))
    }
}

/// The dtype of an arithmetic operation on these tensors (`torch.result_type`).
pub fn result_type(tensors: &[&Tensor]) -> Result<DType> {
    let mut s = ResultTypeState::default();
    for t in tensors {
        s.tensor(t)?;
    }
    s.finish()
}
/// The same with a number as last operand.
pub fn result_type_scalar(tensors: &[&Tensor], scalar: Scalar) -> Result<DType> {
    let mut s = ResultTypeState::default();
    for t in tensors {
        s.tensor(t)?;
    }
    s.scalar(scalar)?;
    s.finish()
}

/// The dtype in which a kernel for `d` accumulates: float32 for halves, itself otherwise.
pub fn op_math_type(d: DType) -> DType {
    match d {
        DType::F16 | DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => DType::F32,
        DType::C32 | DType::BC32 => DType::C64,
        other => other,
    }
}
