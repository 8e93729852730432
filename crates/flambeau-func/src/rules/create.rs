//! Tensors made like others, filled, or copied.

use super::pointwise::padded;
use crate::call::Call;
use flambeau_core::dispatch::value::{Value, arg};
use flambeau_core::{MemoryFormat, Result, ops};

/// A tensor of the same sizes.
pub(crate) fn like(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    args[0] = Value::Tensor(c.whole_at(0)?);
    for v in &mut args[1..] {
        // a format of so many dimensions: the hidden one is one too many
        if matches!(v, Value::MemoryFormat(MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d)) {
            *v = Value::None;
        }
    }
    c.run(&args)
}
/// A tensor of given sizes, with the dtype of another.
pub(crate) fn of_sizes(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    args[0] = Value::Tensor(c.whole_at(0)?);
    let sizes = c.ints(1)?;
    if let Some(i) = c.position("stride") {
        let strides = c.ints(i)?;
        let span = reach(&sizes, &strides).saturating_add(1);
        args[i] = ints([&[span][..], &strides].concat());
    }
    args[1] = ints([&[c.batch()][..], &sizes].concat());
    c.run(&args)
}
/// How far the last element lies behind the first. It saturates: such a tensor has no memory.
pub(crate) fn reach(sizes: &[i64], strides: &[i64]) -> i64 {
    let steps = sizes.iter().zip(strides).map(|(n, s)| n.saturating_sub(1).max(0).saturating_mul(*s));
    steps.fold(0, i64::saturating_add)
}
pub(crate) fn ints(all: Vec<i64>) -> Value {
    Value::List(all.into_iter().map(Value::Int).collect())
}
/// `fill_` with a tensor.
pub(crate) fn fill_tensor(c: &Call<'_>) -> Result<Vec<Value>> {
    c.check_written()?;
    let to = c.whole_at(0)?;
    let (value, batched) = c.front(c.tensor(1)?)?;
    let value = if batched { padded(&value, to.dim() - 1)? } else { value };
    ops::copy_(&to, &value, false)?;
    Ok(vec![c.args[0].clone()])
}
/// Joined along a dimension.
pub(crate) fn cat(c: &Call<'_>) -> Result<Vec<Value>> {
    let all: Vec<flambeau_core::Tensor> = arg(c.args, 0)?;
    let rank = all.iter().map(|t| t.dim()).max().unwrap_or(0);
    // tensors of size [0] join anything
    let all = all.iter().filter(|t| t.sizes() != [0] || rank == 1);
    let all = all.map(|t| c.whole(t)).collect::<Result<Vec<_>>>()?;
    c.one(&ops::cat(&all, super::dims::shifted(c.int(1)?, rank as usize)?)?)
}
