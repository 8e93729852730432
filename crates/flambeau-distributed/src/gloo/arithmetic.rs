//! Reductions of bytes: `own = own op received`, element by element, as gloo's functions do it.

use crate::ReduceOp;
use flambeau_core::{DType, Error, Result, bail, ensure};
use half::{bf16, f16};

macro_rules! each {
    ($own:expr, $got:expr, $ty:ty, $n:literal, |$a:ident, $b:ident| $f:expr) => {{
        for (x, y) in $own.as_chunks_mut::<$n>().0.iter_mut().zip($got.as_chunks::<$n>().0) {
            let ($a, $b) = (<$ty>::from_le_bytes(*x), <$ty>::from_le_bytes(*y));
            *x = ($f).to_le_bytes();
        }
        Ok(())
    }};
}
macro_rules! floats {
    ($op:expr, $own:expr, $got:expr, $ty:ty, $n:literal) => {
        match $op {
            ReduceOp::Sum | ReduceOp::Avg => each!($own, $got, $ty, $n, |a, b| a + b),
            ReduceOp::Product => each!($own, $got, $ty, $n, |a, b| a * b),
            ReduceOp::Max => each!($own, $got, $ty, $n, |a, b| if a < b { b } else { a }),
            ReduceOp::Min => each!($own, $got, $ty, $n, |a, b| if b < a { b } else { a }),
            _ => bits_only($op),
        }
    };
}
macro_rules! integers {
    ($op:expr, $own:expr, $got:expr, $ty:ty, $n:literal) => {
        match $op {
            ReduceOp::Sum | ReduceOp::Avg => each!($own, $got, $ty, $n, |a, b| a.wrapping_add(b)),
            ReduceOp::Product => each!($own, $got, $ty, $n, |a, b| a.wrapping_mul(b)),
            ReduceOp::Max => each!($own, $got, $ty, $n, |a, b| a.max(b)),
            ReduceOp::Min => each!($own, $got, $ty, $n, |a, b| a.min(b)),
            ReduceOp::BitAnd => each!($own, $got, $ty, $n, |a, b| a & b),
            ReduceOp::BitOr => each!($own, $got, $ty, $n, |a, b| a | b),
            ReduceOp::BitXor => each!($own, $got, $ty, $n, |a, b| a ^ b),
            ReduceOp::PremulSum(_) => Err(premul()),
        }
    };
}
macro_rules! halves {
    ($op:expr, $own:expr, $got:expr, $ty:ty) => {
        match $op {
            ReduceOp::Sum | ReduceOp::Avg => {
                each!($own, $got, $ty, 2, |a, b| <$ty>::from_f32(a.to_f32() + b.to_f32()))
            }
            ReduceOp::Product => {
                each!($own, $got, $ty, 2, |a, b| <$ty>::from_f32(a.to_f32() * b.to_f32()))
            }
            ReduceOp::Max => each!($own, $got, $ty, 2, |a, b| if a < b { b } else { a }),
            ReduceOp::Min => each!($own, $got, $ty, 2, |a, b| if b < a { b } else { a }),
            _ => bits_only($op),
        }
    };
}
fn premul() -> Error {
    Error::runtime("Cannot use ReduceOp.PREMUL_SUM with Gloo")
}
fn bits_only(op: ReduceOp) -> Result<()> {
    if let ReduceOp::PremulSum(_) = op {
        return Err(premul());
    }
    bail!(Runtime, "Cannot use ReduceOp.{} with non-integral dtype", op.name())
}

/// Whether gloo sends elements of this type.
pub(crate) fn check_dtype(dtype: DType) -> Result<()> {
    use DType::*;
    ensure!(
        matches!(dtype, F16 | BF16 | F32 | F64 | I8 | U8 | I32 | I64 | Bool | C64 | C128),
        Runtime,
        "Invalid scalar type"
    );
    Ok(())
}

/// `own = own op received`; complex numbers are pairs of reals.
pub(crate) fn reduce(op: ReduceOp, dtype: DType, own: &mut [u8], got: &[u8]) -> Result<()> {
    match dtype {
        DType::F32 | DType::C64 => floats!(op, own, got, f32, 4),
        DType::F64 | DType::C128 => floats!(op, own, got, f64, 8),
        DType::F16 => halves!(op, own, got, f16),
        DType::BF16 => halves!(op, own, got, bf16),
        DType::I8 => integers!(op, own, got, i8, 1),
        DType::U8 | DType::Bool => integers!(op, own, got, u8, 1),
        DType::I32 => integers!(op, own, got, i32, 4),
        DType::I64 => integers!(op, own, got, i64, 8),
        _ => bail!(Runtime, "Invalid scalar type"),
    }
}
/// What the reduction refuses before anything is sent.
pub(crate) fn check(op: ReduceOp, dtype: DType) -> Result<()> {
    check_dtype(dtype)?;
    reduce(op, dtype, &mut [], &[])?;
    let floating = dtype.is_floating() || dtype.is_complex();
    ensure!(
        op != ReduceOp::Avg || floating,
        Runtime,
        "result type Float can't be cast to the desired output type {}",
        dtype.scalar_type_name()
    );
    Ok(())
}
/// The last step of an average: division in the dtype.
pub(crate) fn divide(dtype: DType, all: &mut [u8], n: usize) {
    macro_rules! by {
        ($ty:ty, $n:literal, |$a:ident| $f:expr) => {
            for x in all.as_chunks_mut::<$n>().0 {
                let $a = <$ty>::from_le_bytes(*x);
                *x = ($f).to_le_bytes();
            }
        };
    }
    match dtype {
        DType::F32 | DType::C64 => by!(f32, 4, |a| a / n as f32),
        DType::F64 | DType::C128 => by!(f64, 8, |a| a / n as f64),
        DType::F16 => by!(f16, 2, |a| f16::from_f32(a.to_f32() / n as f32)),
        DType::BF16 => by!(bf16, 2, |a| bf16::from_f32(a.to_f32() / n as f32)),
        _ => {}
    }
}

/// [`divide`] as PyTorch has it in reductions for one rank: there it divides complex numbers as such, by a factor, where the sum for all
/// ranks is one of pairs of reals.
pub(crate) fn divide_as_whole(dtype: DType, all: &mut [u8], n: usize) {
    macro_rules! by {
        ($ty:ty, $n:literal) => {{
            let (factor, none) = (1.0 / n as $ty, 0.0 as $ty);
            for [re, im] in all.as_chunks_mut::<$n>().0.as_chunks_mut::<2>().0 {
                let (a, b) = (<$ty>::from_le_bytes(*re), <$ty>::from_le_bytes(*im));
                // the divisor's imaginary part is zero, which counts beside zeros and infinities
                *re = ((a + b * none) * factor).to_le_bytes();
                *im = ((b - a * none) * factor).to_le_bytes();
            }
        }};
    }
    match dtype {
        DType::C64 => by!(f32, 4),
        DType::C128 => by!(f64, 8),
        _ => divide(dtype, all, n),
    }
}
