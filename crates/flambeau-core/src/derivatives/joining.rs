//! Joining and rearranging.

use crate::derivatives::shorthand::{real, to_dtype};
use crate::tensor::geometry::{SizeVec, wrap_dim};
use crate::{DType, Result, Tensor, ops};

/// `cat`: every input takes its part.
pub fn cat_backward(
    grad: &Tensor,
    sizes: &[SizeVec],
    dtypes: &[DType],
    dim: i64,
) -> Result<Vec<Option<Tensor>>> {
    let d = wrap_dim(dim, grad.dim())? as i64;
    let mut start = 0;
    sizes
        .iter()
        .zip(dtypes)
        .map(|(s, dtype)| {
            if s.len() == 1 && s[0] == 0 {
                // PyTorch lets a one-dimensional empty tensor join anything
                return Ok(Some(ops::zeros(&[0], Some(*dtype), None, Some(grad.device()), None)?));
            }
            let n = s[d as usize];
            let part = ops::narrow(grad, d, start, n)?;
            start += n;
            let part = if part.is_complex() && !dtype.is_complex() { real(&part)? } else { part };
            Ok(Some(to_dtype(&part, *dtype)?))
        })
        .collect()
}
/// `flip` undoes itself.
pub fn flip(grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ops::flip(grad, dims)
}
/// The same triangle of the gradient.
pub fn tril(grad: &Tensor, diagonal: i64) -> Result<Tensor> {
    ops::tril(grad, diagonal)
}
/// The same triangle of the gradient.
pub fn triu(grad: &Tensor, diagonal: i64) -> Result<Tensor> {
    ops::triu(grad, diagonal)
}
