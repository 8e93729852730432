//! Reading and writing at computed places.

mod advanced;
mod along;
mod dim;
mod flat;
mod part;

pub use advanced::*;
pub use along::*;
pub use dim::*;
pub use flat::*;
pub use part::*;

use crate::DType;
use crate::backend::cpu::access::Access;
use crate::backend::transfer::{cast_to, contiguous_raw, copy_into};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use flambeau_cpu::indexing::IndexError;
use flambeau_cpu::reduction::Geo;

/// What an erased index kernel answers.
type Checked = Option<Result<(), IndexError>>;

/// Unwraps a kernel's answer: `bound` makes the error of a bad index.
fn done(r: Checked, label: &str, dtype: DType, bound: impl Fn(IndexError) -> Error) -> Result<()> {
    match r {
        None => Err(Error::not_implemented_for(label, dtype)),
        Some(Ok(())) => Ok(()),
        Some(Err(e)) => Err(bound(e)),
    }
}
/// "index 5 is out of bounds for dimension 0 with size 2"
fn out_of_bounds(e: IndexError, dim: usize) -> String {
    format!("index {} is out of bounds for dimension {dim} with size {}", e.index, e.size)
}

/// An index tensor as contiguous int64.
fn as_i64(index: &Tensor) -> Result<Tensor> {
    contiguous_raw(&if index.dtype() == DType::I64 { index.clone() } else { cast_to(index, DType::I64)? })
}
fn is_index(t: &Tensor) -> bool {
    matches!(t.dtype(), DType::I64 | DType::I32)
}

/// Runs a kernel on `out`, or on a contiguous copy that is written back where `fits` refuses its strides; not at all where
/// there are no elements.
fn written(
    out: &Tensor,
    fits: impl Fn(&Tensor) -> bool,
    run: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    if fits(out) {
        return run(out);
    }
    let work = Tensor::empty_raw(out.sizes(), out.dtype(), out.device())?;
    copy_into(&work, out)?;
    run(&work)?;
    copy_into(out, &work)
}

/// A number as a one-element tensor of a dtype.
fn element(value: Scalar, dtype: DType) -> Result<Tensor> {
    let t = Tensor::empty_raw(&[], dtype, Device::Cpu)?;
    crate::ops::creation::fill_scalar_(&t, value)?;
    Ok(t)
}
/// The C++ name of a dtype, as some texts have it.
fn c_name(d: DType) -> String {
    match d {
        DType::I64 => "int64_t".into(),
        DType::F32 => "float".into(),
        DType::F64 => "double".into(),
        DType::Bool => "bool".into(),
        other => other.scalar_type_name().to_lowercase(),
    }
}
/// The name of a dtype as the texts about masks have it.
pub(crate) fn plain_name(d: DType) -> String {
    match d {
        DType::I64 => "long int".into(),
        DType::I32 => "int".into(),
        DType::I16 => "short int".into(),
        DType::I8 => "signed char".into(),
        DType::U8 => "unsigned char".into(),
        DType::C32 => "c10::complex<c10::Half>".into(),
        DType::C64 => "c10::complex<float>".into(),
        DType::C128 => "c10::complex<double>".into(),
        other => c_name(other),
    }
}

/// The tensor as `[outer, n, inner]` around dimension `d`, where its strides allow that.
fn geo(t: &Tensor, d: usize) -> Option<Geo> {
    let merge = |dims: std::ops::Range<usize>| -> Option<(usize, isize)> {
        let mut acc: Option<(usize, isize)> = None;
        for i in dims.rev() {
            let (n, s) = (t.sizes()[i] as usize, t.strides()[i] as isize);
            acc = match acc {
                _ if n == 1 => acc,
                None => Some((n, s)),
                Some((m, st)) if s == st * m as isize => Some((m * n, st)),
                Some(_) => return None,
            };
        }
        Some(acc.unwrap_or((1, 1)))
    };
    if t.dim() == 0 {
        return Some(Geo::contiguous(1, 1, 1));
    }
    let ((outer, os), (inner, is)) = (merge(0..d)?, merge(d + 1..t.dim())?);
    Some(Geo { outer, n: t.sizes()[d] as usize, inner, os, ns: t.strides()[d] as isize, is })
}

/// The indices behind hold `i` of an access.
fn indices<'a>(a: &'a Access<'_>, i: usize) -> Result<&'a [i64]> {
    a.slice::<i64>(i)
}
