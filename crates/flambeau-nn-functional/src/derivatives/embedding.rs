//! Embeddings.

use crate::ops;
use flambeau_autograd::formula::{div, eq, masked_not, number, unsqueeze};
use flambeau_core::{DType, Error, Result, Tensor};

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
        return Err(Error::missing("embedding(sparse=True): sparse gradients"));
    }
    ops::embedding_dense_backward(grad, indices, sizes[0], padding_idx, scale_grad_by_freq)
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
        let idx = crate::ops::util::cast(indices, DType::I64)?.try_to_vec::<i64>()?;
        let counts = crate::ops::embedding::counts(&idx, grad.sizes()[0] as usize);
        let each: Vec<f64> = idx.iter().map(|i| counts[*i as usize]).collect();
        let each = Tensor::from_vec_raw(each, indices.sizes())?;
        g = div(&g, &unsqueeze(&crate::ops::util::cast(&each, grad.dtype())?, -1)?)?;
    }
    Ok(g)
}
