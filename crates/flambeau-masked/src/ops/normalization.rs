//! What keeps the sizes.

use super::mask::{Identity, cast, combined, dims, strided};
use super::reduction::masked_norm;
use flambeau_core::{DType, Layout, Result, Scalar, Tensor, ensure, ops as core};

type Mask<'a> = Option<&'a Tensor>;

/// The input along one dimension, hidden elements replaced, and the dtype of the result.
fn along(
    name: &str,
    input: &Tensor,
    dim: i64,
    dtype: Option<DType>,
    mask: Mask,
    (of, identity): (&str, Identity),
) -> Result<(Tensor, i64, DType)> {
    strided(input, name)?;
    let dim = dims(Some(&[dim]), input.dim())?[0];
    Ok((combined(of, input, mask, identity)?, dim, dtype.unwrap_or(input.dtype())))
}

/// `torch.masked.cumsum`
pub fn masked_cumsum(input: &Tensor, dim: i64, dtype: Option<DType>, mask: Mask) -> Result<Tensor> {
    let (x, dim, d) = along("cumsum", input, dim, dtype, mask, ("sum", Identity::Zero))?;
    cast(&core::cumsum(&x, dim, Some(d))?, d)
}
/// `torch.masked.cumprod`
pub fn masked_cumprod(input: &Tensor, dim: i64, dtype: Option<DType>, mask: Mask) -> Result<Tensor> {
    let (x, dim, d) = along("cumprod", input, dim, dtype, mask, ("prod", Identity::One))?;
    cast(&core::cumprod(&x, dim, Some(d))?, d)
}
/// `torch.masked.softmax`
pub fn masked_softmax(input: &Tensor, dim: i64, dtype: Option<DType>, mask: Mask) -> Result<Tensor> {
    let (x, dim, d) = along("softmax", input, dim, dtype, mask, ("amax", Identity::Least))?;
    core::softmax(&x, dim, Some(d))
}
/// `torch.masked.log_softmax`
pub fn masked_log_softmax(input: &Tensor, dim: i64, dtype: Option<DType>, mask: Mask) -> Result<Tensor> {
    let (x, dim, d) = along("log_softmax", input, dim, dtype, mask, ("amax", Identity::Least))?;
    core::log_softmax(&x, dim, Some(d))
}
/// `torch.masked.softmin`
pub fn masked_softmin(input: &Tensor, dim: i64, dtype: Option<DType>, mask: Mask) -> Result<Tensor> {
    let (x, dim, d) = along("softmin", input, dim, dtype, mask, ("amin", Identity::Most))?;
    core::softmax(&core::neg(&x)?, dim, Some(d))
}
/// `torch.masked.normalize`
pub fn masked_normalize(
    input: &Tensor,
    ord: Scalar,
    dim: i64,
    eps: f64,
    dtype: Option<DType>,
    mask: Mask,
) -> Result<Tensor> {
    strided(input, "normalize")?;
    let x = combined("sum", input, mask, Identity::Zero)?;
    let norm = masked_norm(input, ord, Some(&[dim]), true, dtype, mask)?;
    let least = core::full(&[], Scalar::Float(eps), Some(norm.dtype()), None, Some(norm.device()), None)?;
    core::div(&x, &core::maximum(&norm, &least)?)
}
/// `torch.masked.logaddexp`
pub fn masked_logaddexp(
    input: &Tensor,
    other: &Tensor,
    dtype: Option<DType>,
    input_mask: Mask,
    other_mask: Mask,
) -> Result<Tensor> {
    ensure!(
        input.layout() == Layout::Strided && other.layout() == Layout::Strided,
        Value,
        "masked logaddexp expects strided tensors (got torch.{} tensor for input, torch.{} for other)",
        input.layout().name(),
        other.layout().name()
    );
    let a = combined("logaddexp", input, input_mask, Identity::Least)?;
    let b = combined("logaddexp", other, other_mask, Identity::Least)?;
    cast(&core::logaddexp(&a, &b)?, dtype.unwrap_or(input.dtype()))
}
