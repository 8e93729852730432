//! Reductions of sparse tensors: what is not specified does not count, and the result is sparse, specified where anything counts.

use super::mask::{canonical, dims};
use flambeau_core::{DType, Layout, Result, Scalar, Tensor, ensure, ops as core};
use flambeau_sparse::generated::ops as sparse;

type Mask<'a> = Option<&'a Tensor>;
/// A reduction of strided tensors.
type Reduction = fn(&Tensor, Option<&[i64]>, bool, Option<DType>, Mask<'_>) -> Result<Tensor>;

/// A reduction by its name, of COO (but for means) and CSR tensors.
pub(super) fn reduced(
    name: &str,
    input: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
    mask: Mask<'_>,
    f: Reduction,
) -> Result<Tensor> {
    let layout = input.layout();
    let coo = layout == Layout::SparseCoo && name != "mean";
    ensure!(
        coo || layout == Layout::SparseCsr,
        Value,
        "masked {name} expects strided{} tensor (got torch.{} tensor)",
        if name == "mean" { " or sparse_csr" } else { ", sparse_coo or sparse_csr" },
        layout.name()
    );
    ensure!(
        coo || keepdim,
        Assertion,
        "reduction operations on CSR tensors with keepdim=False is unsupported"
    );
    let dim = dims(dim, input.dim())?;
    let dense = sparse::to_dense(input, None, None)?;
    let counts = match mask {
        Some(m) => canonical(&dense, m)?,
        None => {
            ensure!(
                name == "sum",
                Value,
                "masked {name} expects explicit mask for {} tensor input",
                layout.name()
            );
            let values = if coo { sparse::values_unchecked(input)? } else { sparse::values(input)? };
            let ones = core::ones_like(&values, Some(DType::I64), None, None, None, None)?;
            let places = if coo {
                sparse::sparse_coo_tensor_unsafe(
                    &sparse::indices_unchecked(input)?,
                    &ones,
                    input.sizes(),
                    None,
                )?
            } else {
                let (rows, columns) = (sparse::crow_indices(input)?, sparse::col_indices(input)?);
                sparse::sparse_compressed_tensor_unsafe(&rows, &columns, &ones, input.sizes(), layout)?
            };
            super::mask::cast(&sparse::to_dense(&places, None, None)?, DType::Bool)?
        }
    };
    let full = f(&dense, Some(&dim), keepdim, dtype, Some(&counts))?;
    if coo && sparse::dense_dim(input)? == 0 && dim.len() >= input.dim() {
        // of everything: the reduction's identity where nothing counts, and nothing where it gives 0
        return sparse::to_sparse(&full, Some(layout), None, None);
    }
    let any = core::any_dims(&counts, Some(&dim), keepdim)?;
    let result = core::masked_fill(&full, &core::logical_not(&any)?, Scalar::Int(0))?;
    sparse::sparse_mask(&result, &sparse::to_sparse(&any, Some(layout), None, None)?)
}
