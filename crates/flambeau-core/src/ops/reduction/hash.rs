//! A hash of a tensor's elements.

use super::{few_dims, reduced_dims, reduced_sizes};
use crate::backend::out::OutMeta;
use crate::backend::transfer::{cast_to, contiguous_raw, copy_into};
use crate::generated::args;
use crate::tensor::geometry::{SizeVec, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, Error, ensure, ops};

/// `hash_tensor`
pub fn hash_tensor_shape(
    &args::HashTensor { self_, dim, keepdim, mode }: &args::HashTensor,
) -> Result<OutMeta> {
    ensure!(mode == 0, Runtime, "Unknown hash_tensor mode: {mode}");
    few_dims(self_.dim())?;
    let dims = reduced_dims(self_.dim(), Some(dim))?;
    if self_.numel() == 0 {
        ensure!(
            !dim.is_empty(),
            Runtime,
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with \
             the 'dim' argument."
        );
        for d in &dims {
            ensure!(
                self_.sizes()[*d] != 0,
                Index,
                "hash_tensor: Expected reduction dim {d} to have non-zero size."
            );
        }
    }
    if self_.dim() == 0 {
        dim.iter().try_for_each(|d| wrap_dim(*d, 0).map(drop))?;
    }
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};
    if !matches!(self_.dtype(), Bool | U8 | I8 | I16 | I32 | I64 | F16 | BF16 | F32 | F64) {
        return Err(Error::not_implemented_for("xor_sum_cpu", self_.dtype()));
    }
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), DType::U64, self_.device()))
}
/// `hash_tensor`: half of the rows is combined with the other half, until one is left.
pub fn hash_tensor_cpu(&args::HashTensor { self_, dim, .. }: &args::HashTensor, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let wide = if self_.dtype().is_floating() { DType::F64 } else { DType::I64 };
    let x = cast_to(&self_.alias_detached(), wide)?;
    let dims = reduced_dims(x.dim(), Some(dim))?;
    let kept = (0..x.dim()).filter(|d| !dims.contains(d));
    let order: SizeVec = dims.iter().copied().chain(kept).map(|d| d as i64).collect();
    let rows: i64 = dims.iter().map(|d| x.sizes()[*d]).product();
    let x = contiguous_raw(&ops::permute(&x, &order)?)?;
    let mut x = ops::view_dtype(&ops::reshape(&x, &[rows, -1])?, DType::I64)?;
    loop {
        let n = x.sizes()[0];
        if n == 1 {
            break;
        }
        let half = n / 2;
        let y = ops::bitwise_xor(&ops::narrow(&x, 0, 0, half)?, &ops::narrow(&x, 0, half, half)?)?;
        if n % 2 == 1 {
            ops::bitwise_xor_(&ops::narrow(&y, 0, 0, 1)?, &ops::narrow(&x, 0, n - 1, 1)?)?;
        }
        x = y;
    }
    copy_into(out, &ops::reshape(&ops::view_dtype(&x, DType::U64)?, out.sizes())?)
}
