//! Layers: the hidden dimension becomes part of the batch where the parameters are shared, and of the channels or groups where
//! each slice has its own.

mod conv;
mod loss;
mod norm;
mod sequence;

pub(crate) use conv::*;
pub(crate) use loss::*;
pub(crate) use norm::*;
pub(crate) use sequence::*;

use super::create::ints;
use super::index::numbers;
use super::linear::{joined, parted};
use super::looped::looped;
use super::{mul_scalar, number};
use crate::call::Call;
use flambeau_core::dispatch::value::Value;
use flambeau_core::{Result, Tensor, ops};

/// Arguments that say sizes of a whole tensor.
fn is_sizes(name: &str) -> bool {
    matches!(name, "sizes" | "input_sizes")
}
/// Whole planes: dimensions before them are a batch of any number of dimensions.
pub(crate) fn planes(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    for (i, a) in c.info.schema.args.iter().enumerate() {
        if let Some(t) = c.maybe(i) {
            args[i] = Value::Tensor(c.whole(t)?);
        } else if is_sizes(a.name) {
            args[i] = ints([&[c.batch()][..], &c.ints(i)?].concat());
        }
    }
    c.run(&args)
}
/// The hidden dimension and the slice's first, which is a batch or the channels, as one.
pub(crate) fn fold(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    for (i, a) in c.info.schema.args.iter().enumerate() {
        if let Some(t) = c.maybe(i) {
            if t.dim() == 0 {
                return looped(c);
            }
            args[i] = Value::Tensor(joined(&c.whole(t)?)?);
        } else if is_sizes(a.name) {
            let mut sizes = c.ints(i)?;
            if let Some(n) = sizes.first_mut() {
                *n = c.times(*n);
            }
            args[i] = ints(sizes);
        }
    }
    let results = c.info.call(&args)?;
    results
        .into_iter()
        .map(|v| match &v {
            Value::Tensor(t) => c.hidden(&parted(c, t)?, 0),
            _ => Ok(v),
        })
        .collect()
}
/// `im2col` and `col2im`: a slice is a batch of planes, or planes.
pub(crate) fn columns(c: &Call<'_>) -> Result<Vec<Value>> {
    let with_batch = if c.position("output_size").is_some() { 3 } else { 4 };
    if c.rank(0) == with_batch { fold(c) } else { planes(c) }
}
/// `embedding`: rows of a weight of its own for each slice are rows of one.
pub(crate) fn embedding(c: &Call<'_>) -> Result<Vec<Value>> {
    use flambeau_nn_functional::generated::ops as nn;
    if !c.is_batched(0) {
        return super::pointwise::unary_at(c, 1);
    }
    let (w, i) = (c.whole_at(0)?, c.whole_at(1)?);
    let mut padding = c.int(2)?;
    let rows = crate::batched::size(&w, 1)?;
    let mut flat = joined(&w)?;
    if padding >= 0 {
        // the row of the padding has no gradient in any slice
        let row = ops::eq(&ops::arange(rows.into(), None, None, Some(w.device()), None)?, &number(padding)?)?;
        let all = joined(&ops::expand(&row, &[c.batch(), rows], false)?)?;
        flat = ops::where_(&ops::unsqueeze(&all, 1)?, &ops::detach(&flat)?, &flat)?;
        padding = -1;
    }
    let i = ops::add(&i, &mul_scalar(&numbers(c, &i, i.dim() - 1)?, rows.into())?, 1.into())?;
    c.one(&nn::embedding_lookup(&flat, &i, padding, c.flag(3)?, c.flag(4)?)?)
}
/// `embedding_dense_backward`
pub(crate) fn embedding_backward(c: &Call<'_>) -> Result<Vec<Value>> {
    use flambeau_nn_functional::generated::ops as nn;
    let (mut g, i) = (c.whole_at(0)?, c.whole_at(1)?);
    let (rows, padding) = (c.int(2)?, c.int(3)?);
    if padding >= 0 {
        let hidden = ops::unsqueeze(&ops::eq(&i, &number(padding)?)?, -1)?;
        g = ops::masked_fill(&g, &hidden, 0.into())?;
    }
    let i = ops::add(&i, &mul_scalar(&numbers(c, &i, i.dim() - 1)?, rows.into())?, 1.into())?;
    let out = nn::embedding_dense_backward(&g, &i, c.times(rows), -1, c.flag(4)?)?;
    c.one(&parted(c, &out)?)
}
/// The tensor with a dimension of `n` slices taken out of dimension `dim`, to the front.
fn split_out(t: &Tensor, dim: usize, n: i64) -> Result<Tensor> {
    let each = crate::batched::size(t, dim)? / n.max(1);
    let mut sizes = t.sizes().to_vec();
    sizes[dim] = each;
    sizes.insert(dim, n);
    crate::batched::moved(&ops::reshape(t, &sizes)?, dim, 0)
}
/// The first dimension put in front of dimension `dim`, counted without it, and joined with that.
fn joined_at(t: &Tensor, dim: usize) -> Result<Tensor> {
    let t = crate::batched::moved(t, 0, dim)?;
    let mut sizes = t.sizes().to_vec();
    crate::batched::size(&t, dim + 1)?;
    let n = sizes.remove(dim);
    sizes[dim] = sizes[dim].saturating_mul(n);
    ops::reshape(&t, &sizes)
}
