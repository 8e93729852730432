//! Operators whose results depend on the data in their sizes, or are no tensors.

use crate::call::Call;
use flambeau_core::dispatch::value::Value;
use flambeau_core::tensor::geometry::broadcast_shapes;
use flambeau_core::{Error, Result, ops};

/// The number of elements depends on the data.
pub(crate) fn dynamic(c: &Call<'_>) -> Result<Vec<Value>> {
    let name = c.info.name;
    Err(Error::runtime(format!(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{name}. Please file \
         an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
    )))
}
/// A mask says how many elements there are.
pub(crate) fn masked_select(c: &Call<'_>) -> Result<Vec<Value>> {
    if !c.is_batched(1) {
        // the same places in every slice
        let t = c.whole_at(0)?;
        let rank = c.rank(0).max(c.rank(1));
        let t = super::pointwise::padded(&t, rank)?;
        let mask = c.tensor(1)?;
        let flat = broadcast_shapes(&t.sizes()[1..], mask.sizes())?.to_vec();
        let mut all = vec![c.batch()];
        all.extend(&flat);
        let (t, mask) = (ops::expand(&t, &all, false)?, ops::expand(mask, &flat, false)?);
        let n = mask.numel();
        let (t, mask) = (ops::reshape(&t, &[c.batch(), n])?, ops::reshape(&mask, &[n])?);
        let at = ops::reshape(&ops::nonzero(&mask)?, &[-1])?;
        return c.one(&ops::index_select(&t, 1, &at)?);
    }
    Err(Error::runtime(
        "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch \
         this would return a differently shaped Tensor. Please file an issue at https://github.com/pytorch/pytorch/issues if you \
         need this feature.",
    ))
}
/// A truth value of the data.
pub(crate) fn data_dependent(_: &Call<'_>) -> Result<Vec<Value>> {
    Err(Error::runtime(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, \
         please file an issue at https://github.com/pytorch/pytorch/issues .",
    ))
}
/// Other layouts than strided, whose elements have no common places.
pub(crate) fn no_batches(c: &Call<'_>) -> Result<Vec<Value>> {
    Err(Error::unsupported(format!(
        "{} has no batching rule: tensors of its layout cannot be sliced",
        c.info.name
    )))
}
