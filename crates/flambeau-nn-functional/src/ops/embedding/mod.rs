//! Embeddings.

pub(crate) mod bag;
mod rows;
pub(crate) mod sums;

use super::operands::{cast, done, plain};
use crate::generated::args;
use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::wrapped_number;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::backend::transfer::to_device;
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{self, SizeVec, fmt_sizes};
use flambeau_core::{DType, Device, Error, Result, Scalar, Tensor, bail, ensure, ops as core_ops};

pub(crate) use flambeau_core::types::type_info::cpp_type_name as legacy_type;
pub(crate) fn check_indices(indices: &Tensor, op: &str) -> Result<()> {
    check_indices_at(indices, 1, op)
}
/// The same of an operator's argument of this number.
pub(crate) fn check_indices_at(indices: &Tensor, at: usize, op: &str) -> Result<()> {
    ensure!(
        matches!(indices.dtype(), DType::I64 | DType::I32),
        Runtime,
        "Expected tensor for argument #{at} 'indices' to have one of the following scalar types: Long, Int; but got {} instead (while checking arguments for {op})",
        legacy_type(indices.dtype())
    );
    Ok(())
}

/// `embedding`
pub fn embedding_lookup_shape(
    &args::EmbeddingLookup { weight, indices, .. }: &args::EmbeddingLookup,
) -> Result<OutMeta> {
    ensure!(weight.dim() == 2, Runtime, "'weight' must be 2-D");
    check_indices(indices, "embedding")?;
    let mut sizes = SizeVec::from_slice(indices.sizes());
    sizes.push(weight.sizes()[1]);
    Ok(OutMeta::new(sizes, weight.dtype(), weight.device()))
}
/// `embedding`
pub fn embedding_lookup_cpu(
    &args::EmbeddingLookup { weight, indices, .. }: &args::EmbeddingLookup,
    out: &Tensor,
) -> Result<()> {
    let (w, i) = (plain(weight)?, plain(&cast(indices, DType::I64)?)?);
    ensure!(
        w.sizes()[0] > 0 || i.numel() == 0,
        Runtime,
        "index_select(): self indexing axis dim should be positive"
    );
    let a = Access::new(&[&w, &i], &[out])?;
    let n = w.sizes()[0] as usize;
    done(
        rows::rows(a.any(0)?, n, w.sizes()[1] as usize, a.slice::<i64>(1)?, a.any_mut(0)?),
        "embedding",
        w.dtype(),
    )?
    .map_err(|_| Error::index("index out of range in self"))
}

/// `embedding_dense_backward`
pub fn embedding_dense_backward_shape(
    &args::EmbeddingDenseBackward { grad_output, indices, num_weights, .. }: &args::EmbeddingDenseBackward,
) -> Result<OutMeta> {
    check_indices(indices, "embedding_backward")?;
    ensure!(
        grad_output.dim() == indices.dim() + 1 && grad_output.sizes()[..indices.dim()] == *indices.sizes(),
        Shape,
        "embedding_dense_backward: the gradient's sizes must be those of the indices and one more"
    );
    ensure!(num_weights >= 0, Shape, "embedding_dense_backward: negative num_weights");
    let d = grad_output.sizes()[indices.dim()];
    Ok(OutMeta::of(&[num_weights, d], grad_output.dtype(), grad_output.device()))
}
/// How often each row is named.
pub(crate) fn counts(indices: &[i64], rows: usize) -> Result<Vec<f64>> {
    let mut n = geometry::filled(0.0, rows as i64)?;
    for i in indices {
        if let Some(c) = n.get_mut(*i as usize) {
            *c += 1.0;
        }
    }
    Ok(n)
}
/// `embedding_dense_backward`
pub fn embedding_dense_backward_cpu(
    &args::EmbeddingDenseBackward { grad_output, indices, padding_idx, scale_grad_by_freq, .. }: &args::EmbeddingDenseBackward,
    out: &Tensor,
) -> Result<()> {
    let (g, i) = (plain(grad_output)?, plain(&cast(indices, DType::I64)?)?);
    core_ops::zero_(out)?;
    let a = Access::new(&[&g, &i], &[out])?;
    let width = *g.sizes().last().unwrap_or(&1) as usize;
    done(
        rows::add_rows(a.any(0)?, width, a.slice::<i64>(1)?, padding_idx, scale_grad_by_freq, a.any_mut(0)?),
        "embedding_backward",
        g.dtype(),
    )?
    .map_err(|_| Error::index("index out of range in self"))
}

/// `torch.nn.functional.embedding`
pub fn embedding(
    input: &Tensor,
    weight: &Tensor,
    padding_idx: Option<i64>,
    max_norm: Option<f64>,
    norm_type: f64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    let padding_idx = match padding_idx {
        None => -1,
        // the first row is there, or missed further below
        Some(0) => 0,
        Some(p) => {
            ensure!(weight.dim() > 0, Index, "Dimension specified as 0 but tensor has no dimensions");
            let n = weight.sizes()[0];
            ensure!(
                if p >= 0 { p < n } else { p >= -n },
                Assertion,
                "Padding_idx must be within num_embeddings"
            );
            if p < 0 { p + n } else { p }
        }
    };
    if let Some(max_norm) = max_norm {
        no_grad(|| super::embedding_renorm_(weight, input, max_norm, norm_type))?;
    }
    super::embedding_lookup(weight, input, padding_idx, scale_grad_by_freq, sparse)
}

/// `embedding_renorm_`
pub fn embedding_renorm_(self_: &Tensor, indices: &Tensor, max_norm: f64, norm_type: f64) -> Result<()> {
    ensure!(
        self_.dim() == 2,
        Runtime,
        "Expected 2-dimensional tensor, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for embedding_renorm_)",
        self_.dim()
    );
    check_indices_at(indices, 2, "embedding_renorm_")?;
    if self_.device() == Device::Meta {
        return Ok(());
    }
    let rows = self_.sizes()[0];
    let mut idx = cast(indices, DType::I64)?.try_to_vec::<i64>()?;
    idx.sort_unstable();
    idx.dedup();
    let in_range = |i: &i64| {
        ensure!(
            (-rows..rows).contains(i),
            Index,
            "select(): index {i} out of range for tensor of size {} at dimension 0",
            fmt_sizes(self_.sizes())
        );
        Ok(())
    };
    // the first row is looked up before its norm is asked for
    idx.first().map_or(Ok(()), in_range)?;
    if !self_.dtype().is_floating() {
        bail!(
            Unsupported,
            "norm(): input dtype should be either floating point or complex. Got {} instead.",
            self_.dtype().scalar_type_name()
        );
    }
    idx.iter().try_for_each(in_range)?;
    // rows counted from the end are refused by the lookup that follows
    idx.retain(|i| *i >= 0);
    let named = Tensor::from_vec_raw(idx.clone(), &[idx.len() as i64])?;
    let used = core_ops::index_select(self_, 0, &to_device(named, self_.device())?)?;
    // norm and factor are rounded into the weight's dtype, as PyTorch does
    let norms = core_ops::linalg_vector_norm(&used, Scalar::Float(norm_type), Some(&[1]), false, None)?;
    for (i, norm) in idx.into_iter().zip(cast(&norms, DType::F64)?.try_to_vec::<f64>()?) {
        if norm > max_norm {
            let scale = cast(&wrapped_number(Scalar::Float(max_norm / (norm + 1e-7)))?, self_.dtype())?;
            core_ops::mul_(&core_ops::select(self_, 0, i)?, &scale)?;
        }
    }
    Ok(())
}
pub use crate::ops::embedding::bag::embedding_bag;
pub use crate::ops::embedding::sums::{bag_sums_cpu, bag_sums_shape};
