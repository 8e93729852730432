//! Embeddings.

use crate::ops;
use flambeau_autograd::shorthand::{div, eq, masked_not, number, reshape, to_dtype, unsqueeze};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops as core};

/// For the weight.
pub fn embedding_weight_grad(
    grad: &Tensor,
    indices: &Tensor,
    sizes: &[i64],
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    if sparse {
        return embedding_sparse_grad(grad, indices, sizes, padding_idx, scale_grad_by_freq);
    }
    ops::embedding_dense_backward(grad, indices, sizes[0], padding_idx, scale_grad_by_freq)
}

/// One element for each row that was looked up, but for those at `padding_idx`.
fn embedding_sparse_grad(
    grad: &Tensor,
    indices: &Tensor,
    sizes: &[i64],
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    ensure!(
        !scale_grad_by_freq,
        Runtime,
        "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
    );
    let width = sizes.get(1).copied().unwrap_or(1);
    let mut rows = reshape(grad, &[indices.numel(), width])?;
    let mut at = reshape(&to_dtype(indices, DType::I64)?, &[indices.numel()])?;
    if padding_idx >= 0 {
        let kept = core::nonzero(&core::ne(&at, &number(padding_idx)?)?)?;
        let kept = reshape(&kept, &[kept.numel()])?;
        at = core::index_select(&at, 0, &kept)?;
        rows = core::index_select(&rows, 0, &kept)?;
    }
    flambeau_sparse::ops::sparse_coo_tensor_unsafe(&unsqueeze(&at, 0)?, &rows, sizes, None)
}

/// The gradient of that, for the gradient it took.
pub fn embedding_double_backward(
    grad: &Tensor,
    indices: &Tensor,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    let mut g = ops::embedding_lookup(grad, indices, padding_idx, false, false)?;
    if padding_idx >= 0 {
        g = masked_not(&unsqueeze(&eq(indices, &number(padding_idx)?)?, -1)?, &g)?;
    }
    if scale_grad_by_freq {
        let idx = crate::ops::operands::cast(indices, DType::I64)?.try_to_vec::<i64>()?;
        let counts = crate::ops::embedding::counts(&idx, grad.sizes()[0] as usize)?;
        let each: Vec<f64> = idx.iter().map(|i| counts[*i as usize]).collect();
        let each = crate::ops::operands::on(Tensor::from_vec_raw(each, indices.sizes())?, grad.device())?;
        g = div(&g, &unsqueeze(&crate::ops::operands::cast(&each, grad.dtype())?, -1)?)?;
    }
    Ok(g)
}

/// For each index the row of its bag.
fn of_bags(rows: &Tensor, indices: &Tensor, starts: &Tensor) -> Result<Tensor> {
    let (bags, n) = (rows.sizes()[0], Scalar::Int(indices.numel()));
    let ends = core::narrow(starts, 0, 1, bags)?;
    let places = core::arange(n, Some(starts.dtype()), None, Some(starts.device()), None)?;
    core::index_select(rows, 0, &core::searchsorted(&ends, &places, false, true, None, None)?)
}
/// The gradient of `bag_sums` for its weight.
pub fn bag_weight_grad(
    grad: &Tensor,
    indices: &Tensor,
    starts: &Tensor,
    factors: Option<&Tensor>,
    sizes: &[i64],
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    let mut rows = of_bags(grad, indices, starts)?;
    if let Some(f) = factors {
        rows = core::mul(&rows, &core::conj(&unsqueeze(f, -1)?)?)?;
    }
    embedding_weight_grad(&rows, indices, sizes, -1, scale_grad_by_freq, sparse)
}
/// The same for its factors.
pub fn bag_factors_grad(grad: &Tensor, weight: &Tensor, indices: &Tensor, starts: &Tensor) -> Result<Tensor> {
    let rows =
        core::mul(&of_bags(grad, indices, starts)?, &core::conj(&core::index_select(weight, 0, indices)?)?)?;
    core::sum(&rows, Some(&[1]), false, None)
}
