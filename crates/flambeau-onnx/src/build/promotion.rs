//! Element types of results.

use super::value::Arg;
use flambeau_core::iter::promotion::promote_types;
use flambeau_core::{DType, Result};

fn category(d: DType) -> u8 {
    if d.is_complex() {
        3
    } else if d.is_floating() {
        2
    } else {
        u8::from(d != DType::Bool)
    }
}
fn join(a: Option<DType>, b: DType) -> Result<Option<DType>> {
    Ok(Some(match a {
        Some(a) => promote_types(a, b)?,
        None => b,
    }))
}
fn over(high: Option<DType>, low: Option<DType>) -> Result<Option<DType>> {
    Ok(match (high, low) {
        (Some(h), Some(l)) if category(l) > category(h) => Some(promote_types(h, l)?),
        (None, l) => l,
        (h, _) => h,
    })
}
/// The element type of arithmetic on these: tensors with dimensions come before those without, these before numbers.
pub(crate) fn result_type(all: &[&Arg]) -> Result<DType> {
    let (mut dims, mut zero, mut numbers) = (None, None, None);
    for a in all {
        match a {
            Arg::Var(v) if v.number => {
                let d = if v.dtype.is_floating() { DType::F32 } else { v.dtype };
                numbers = join(numbers, d)?;
            }
            Arg::Var(v) if v.shape.is_empty() => zero = join(zero, v.dtype)?,
            Arg::Var(v) => dims = join(dims, v.dtype)?,
            Arg::Int(_) => numbers = join(numbers, DType::I64)?,
            Arg::Bool(_) => numbers = join(numbers, DType::Bool)?,
            Arg::Float(_) => numbers = join(numbers, DType::F32)?,
            Arg::Complex(..) => numbers = join(numbers, DType::C64)?,
            _ => {}
        }
    }
    Ok(over(dims, over(zero, numbers)?)?.unwrap_or(DType::F32))
}
