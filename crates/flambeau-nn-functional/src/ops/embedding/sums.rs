//! Sums of bags of rows.

use super::super::operands::{cast, done, plain};
use super::check_indices;
use crate::generated::args;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::{Access, RawTensor as _};
use flambeau_core::{DType, Device, Error, Result, Scalar, Tensor, ensure, ops as core};
use flambeau_cpu::sparse;

/// Whether [`super::super::bag_sums`] has loops for a weight.
pub(super) fn suits(weight: &Tensor) -> bool {
    weight.device() == Device::Cpu && matches!(weight.dtype(), DType::F32 | DType::F64)
}

/// `bag_sums`
pub fn bag_sums_shape(
    &args::BagSums { weight, indices, starts, factors, .. }: &args::BagSums,
) -> Result<OutMeta> {
    ensure!(
        weight.dim() == 2 && indices.dim() == 1 && starts.dim() == 1 && starts.numel() > 0,
        Shape,
        "bag_sums: a weight of two dimensions, a list of indices and one of where bags start"
    );
    check_indices(indices, "bag_sums")?;
    if let Some(f) = factors {
        ensure!(
            f.sizes() == indices.sizes() && f.dtype() == weight.dtype(),
            Shape,
            "bag_sums: the factors must be as many as the indices, and of the weight's dtype"
        );
    }
    Ok(OutMeta::of(&[starts.numel() - 1, weight.sizes()[1]], weight.dtype(), weight.device()))
}
/// `bag_sums`: a product with the matrix that has a row for each bag and a column for each row of the weight.
pub fn bag_sums_cpu(
    &args::BagSums { weight, indices, starts, factors, .. }: &args::BagSums,
    out: &Tensor,
) -> Result<()> {
    let integers = |t: &Tensor| plain(&cast(t, DType::I64)?);
    let (i, s) = (integers(indices)?, integers(starts)?);
    let f = match factors {
        Some(f) => plain(f)?,
        None => {
            let ones = Tensor::empty_raw(i.sizes(), weight.dtype(), Device::Cpu)?;
            core::fill_(&ones, Scalar::Int(1))?;
            ones
        }
    };
    let w = plain(weight)?;
    let (rows, width) = (w.sizes()[0] as usize, w.sizes()[1] as usize);
    let a = Access::new(&[&i, &s, &f, &w], &[out])?;
    let (i, s) = (a.slice::<i64>(0)?, a.slice::<i64>(1)?);
    if !sparse::are_rows(s, i, rows) {
        return Err(Error::index("bag_sums: index out of range, or bags that are none"));
    }
    done(
        sparse::erased::times_dense((s, i), a.any(2)?, (a.any(3)?, width, width), a.any_mut(0)?),
        "embedding_bag",
        w.dtype(),
    )
}
