//! Views: results share memory with the tensor, the hidden dimension included.

use super::create::reach;
use super::dims::shifted;
use crate::call::Call;
use flambeau_core::dispatch::value::{Value, arg};
use flambeau_core::{Error, Result, Tensor, ensure, ops};

fn front(c: &Call<'_>) -> Result<Tensor> {
    c.whole_at(0)
}
fn many(c: &Call<'_>, all: Vec<Tensor>) -> Result<Vec<Value>> {
    Ok(vec![Value::List(all.iter().map(|t| c.hidden(t, 0)).collect::<Result<_>>()?)])
}
/// Sizes of a slice, with one of -1 worked out: the hidden dimension has a size of its own.
fn sized(c: &Call<'_>, sizes: &[i64], numel: i64) -> Result<Vec<i64>> {
    let mut all = vec![c.batch()];
    all.extend_from_slice(sizes);
    if sizes.iter().filter(|n| **n == -1).count() == 1 && !sizes.iter().any(|n| *n < -1) {
        let known: i64 = sizes.iter().filter(|n| **n != -1).product();
        if known != 0 && numel % known == 0 {
            for n in &mut all {
                if *n == -1 {
                    *n = numel / known;
                }
            }
        } else {
            // the error of the slice itself
            let text: Vec<String> = sizes.iter().map(i64::to_string).collect();
            return Err(Error::runtime(if known == 0 {
                format!(
                    "cannot reshape tensor of 0 elements into shape [{}] because the unspecified dimension size -1 can be any \
                     value and is ambiguous",
                    text.join(", ")
                )
            } else {
                format!("shape '[{}]' is invalid for input of size {numel}", text.join(", "))
            }));
        }
    }
    Ok(all)
}
/// `view`
pub(crate) fn view(c: &Call<'_>) -> Result<Vec<Value>> {
    let sizes = sized(c, &c.ints(1)?, c.tensor(0)?.numel())?;
    c.one(&ops::view(&front(c)?, &sizes)?)
}
/// `reshape`: what is hidden decides too whether there is a view.
pub(crate) fn reshape(c: &Call<'_>) -> Result<Vec<Value>> {
    let sizes = sized(c, &c.ints(1)?, c.tensor(0)?.numel())?;
    c.one(&ops::reshape(&front(c)?, &sizes)?)
}
/// `expand`
pub(crate) fn expand(c: &Call<'_>) -> Result<Vec<Value>> {
    let (sizes, implicit) = (c.ints(1)?, c.flag(2)?);
    let rank = c.rank(0);
    ensure!(
        sizes.len() >= rank,
        Runtime,
        "expand: the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({rank})",
        sizes.len()
    );
    let t = super::pointwise::padded(&front(c)?, sizes.len())?;
    let mut all = vec![c.batch()];
    all.extend(sizes);
    c.one(&ops::expand(&t, &all, implicit)?)
}
/// `transpose`
pub(crate) fn transpose(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = c.rank(0);
    let (a, b) = (shifted(c.int(1)?, rank)?, shifted(c.int(2)?, rank)?);
    let t = front(c)?;
    c.one(&if rank == 0 { t } else { ops::transpose(&t, a, b)? })
}
/// `permute`
pub(crate) fn permute(c: &Call<'_>) -> Result<Vec<Value>> {
    let order = c.ints(1)?;
    let rank = c.rank(0);
    ensure!(
        order.len() == rank,
        Runtime,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of \
         dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {}",
        order.len()
    );
    let mut all = vec![0];
    for d in order {
        all.push(shifted(d, rank)?);
    }
    c.one(&ops::permute(&front(c)?, &all)?)
}
/// `unsqueeze`
pub(crate) fn unsqueeze(c: &Call<'_>) -> Result<Vec<Value>> {
    let at = shifted(c.int(1)?, c.rank(0) + 1)?;
    c.one(&ops::unsqueeze(&front(c)?, at)?)
}
/// `squeeze`
pub(crate) fn squeeze(c: &Call<'_>) -> Result<Vec<Value>> {
    let t = front(c)?;
    let ones: Vec<i64> = (1..t.dim() as i64).filter(|d| t.sizes()[*d as usize] == 1).collect();
    c.one(&if ones.is_empty() { ops::alias(&t)? } else { ops::squeeze_dims(&t, &ones)? })
}
/// `squeeze.dim`
pub(crate) fn squeeze_dim(c: &Call<'_>) -> Result<Vec<Value>> {
    let (rank, d) = (c.rank(0), c.int(1)?);
    let at = shifted(d, rank)?;
    let t = front(c)?;
    c.one(&if rank == 0 { ops::alias(&t)? } else { ops::squeeze_dim(&t, at)? })
}
/// `squeeze.dims`
pub(crate) fn squeeze_dims(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = c.rank(0);
    let dims = c.ints(1)?.into_iter().map(|d| shifted(d, rank)).collect::<Result<Vec<_>>>()?;
    let t = front(c)?;
    c.one(&if rank == 0 || dims.is_empty() { ops::alias(&t)? } else { ops::squeeze_dims(&t, &dims)? })
}
fn no_dimensions(c: &Call<'_>, what: &str) -> Result<usize> {
    let rank = c.rank(0);
    ensure!(rank > 0, Index, "{what}");
    Ok(rank)
}
/// `select`
pub(crate) fn select(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = no_dimensions(c, "select() cannot be applied to a 0-dim tensor.")?;
    c.one(&ops::select(&front(c)?, shifted(c.int(1)?, rank)?, c.int(2)?)?)
}
/// `slice`
pub(crate) fn slice(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = no_dimensions(c, "slice() cannot be applied to a 0-dim tensor.")?;
    let (start, end) = (arg(c.args, 2)?, arg(c.args, 3)?);
    c.one(&ops::slice(&front(c)?, shifted(c.int(1)?, rank)?, start, end, c.int(4)?)?)
}
/// `diagonal`
pub(crate) fn diagonal(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = c.rank(0);
    let (a, b) = (shifted(c.int(2)?, rank)?, shifted(c.int(3)?, rank)?);
    c.one(&ops::diagonal(&front(c)?, c.int(1)?, a, b)?)
}
/// `unfold`
pub(crate) fn unfold(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = c.rank(0);
    let t = front(c)?;
    let t = if rank == 0 { ops::unsqueeze(&t, 1)? } else { t };
    let t = ops::unfold(&t, shifted(c.int(1)?, rank)?, c.int(2)?, c.int(3)?)?;
    c.one(&if rank == 0 { ops::select(&t, 1, 0)? } else { t })
}
/// `unbind`
pub(crate) fn unbind(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = no_dimensions(c, "Dimension specified as 0 but tensor has no dimensions")?;
    many(c, ops::unbind(&front(c)?, shifted(c.int(1)?, rank)?)?)
}
/// `split`
pub(crate) fn split(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = no_dimensions(c, "split expects at least a 1-dimensional tensor")?;
    many(c, ops::split(&front(c)?, c.int(1)?, shifted(c.int(2)?, rank)?)?)
}
/// `split_with_sizes`
pub(crate) fn split_with_sizes(c: &Call<'_>) -> Result<Vec<Value>> {
    let rank = no_dimensions(c, "split_with_sizes expects at least a 1-dimensional tensor")?;
    many(c, ops::split_with_sizes(&front(c)?, &c.ints(1)?, shifted(c.int(2)?, rank)?)?)
}
/// `view.dtype`: the last dimension may change its size.
pub(crate) fn view_dtype(c: &Call<'_>) -> Result<Vec<Value>> {
    let dtype = arg(c.args, 1)?;
    let (own, t) = (c.tensor(0)?, front(c)?);
    ensure!(
        own.dim() > 0 || dtype == own.dtype() || own.element_size() == t.element_size(),
        Runtime,
        "self.dim() cannot be 0 to view {} as {} (different element sizes)",
        own.dtype().name(),
        flambeau_core::DType::name(dtype)
    );
    c.one(&ops::view_dtype(&t, dtype)?)
}
/// `as_strided`: strides and offset are those of a slice.
pub(crate) fn as_strided(c: &Call<'_>) -> Result<Vec<Value>> {
    let (sizes, strides) = (c.ints(1)?, c.ints(2)?);
    let offset: Option<i64> = arg(c.args, 3)?;
    let t = front(c)?;
    let begin = t.storage_offset();
    let largest = reach(&sizes, &strides);
    // a slice's memory is what its own elements span
    let span = reach(&t.sizes()[1..], &t.strides()[1..]);
    let shift = offset.map_or(0, |o| o.saturating_sub(begin));
    ensure!(
        sizes.contains(&0) || (shift >= 0 && shift.saturating_add(largest) <= span),
        Runtime,
        "result = tensor.as_strided({sizes:?}, {strides:?}, {}) can access memory outside of `tensor`. `tensor` has no storage but \
         the passed-in (size, stride, storage_offset) imply a result with some storage. This is not supported inside of vmap, \
         please try to rewrite the `as_strided` call as a sequence of PyTorch view operations",
        offset.unwrap_or(0)
    );
    let (mut all, mut steps) = (vec![c.batch()], vec![t.strides()[0]]);
    all.extend(sizes);
    steps.extend(strides);
    c.one(&ops::as_strided(&t, &all, &steps, Some(begin.saturating_add(shift)))?)
}
/// `view_as_complex`, `view_as_real`: the last dimension is one of the slice's.
pub(crate) fn last_pair(c: &Call<'_>) -> Result<Vec<Value>> {
    let t = front(c)?;
    ensure!(
        c.rank(0) > 0 || t.dtype().is_complex(),
        Runtime,
        "Input tensor must have one or more dimensions"
    );
    let mut args = c.args.to_vec();
    args[0] = Value::Tensor(t);
    c.run(&args)
}

/// `select_scatter`
pub(crate) fn select_scatter(c: &Call<'_>) -> Result<Vec<Value>> {
    let dim = shifted(c.int(2)?, c.rank(0))?;
    c.one(&ops::select_scatter(&c.whole_at(0)?, &c.whole_at(1)?, dim, c.int(3)?)?)
}
/// `slice_scatter`
pub(crate) fn slice_scatter(c: &Call<'_>) -> Result<Vec<Value>> {
    let dim = shifted(c.int(2)?, c.rank(0))?;
    let (start, end) = (arg(c.args, 3)?, arg(c.args, 4)?);
    c.one(&ops::slice_scatter(&c.whole_at(0)?, &c.whole_at(1)?, dim, start, end, c.int(5)?)?)
}
/// `diagonal_scatter`
pub(crate) fn diagonal_scatter(c: &Call<'_>) -> Result<Vec<Value>> {
    let (a, b) = (shifted(c.int(3)?, c.rank(0))?, shifted(c.int(4)?, c.rank(0))?);
    c.one(&ops::diagonal_scatter(&c.whole_at(0)?, &c.whole_at(1)?, c.int(2)?, a, b)?)
}
