//! Convolutions.

use super::{joined_at, split_out};
use crate::call::Call;
use crate::rules::create::ints;
use crate::rules::linear::{joined, parted};
use flambeau_core::dispatch::value::Value;
use flambeau_core::{Result, Tensor, ops};

fn tensor(mut v: Vec<Value>) -> Result<Tensor> {
    flambeau_core::dispatch::value::FromValue::from_value(&v.pop().unwrap_or(Value::None))
}
/// `convolution`: a shared weight takes all slices as one batch; weights of their own are groups.
pub(crate) fn convolution(c: &Call<'_>) -> Result<Vec<Value>> {
    let bias = c.maybe(2).map(|b| c.front(b)).transpose()?;
    let mut args = c.args.to_vec();
    if !c.is_batched(1) {
        args[0] = Value::Tensor(joined(&c.whole_at(0)?)?);
        let own = bias.as_ref().is_some_and(|b| b.1);
        args[2] = match &bias {
            Some((b, false)) => Value::Tensor(b.clone()),
            _ => Value::None,
        };
        let out = parted(c, &tensor(c.info.call(&args)?)?)?;
        return match bias {
            Some((b, _)) if own => {
                // channels come third
                let mut b = ops::unsqueeze(&b, 1)?;
                for _ in 3..out.dim() {
                    b = ops::unsqueeze(&b, -1)?;
                }
                c.one(&ops::add(&out, &b, 1.into())?)
            }
            _ => c.one(&out),
        };
    }
    let groups = c.int(8)?;
    let (w, transposed) = (c.whole_at(1)?, c.flag(6)?);
    if !c.is_batched(0) && groups == 1 && !transposed {
        // one input under many weights: more channels of results
        args[1] = Value::Tensor(joined(&w)?);
    } else {
        args[0] = Value::Tensor(joined_at(&c.whole_at(0)?, 1)?);
        args[1] = Value::Tensor(joined(&w)?);
        args[8] = Value::Int(c.times(groups));
    }
    if c.maybe(2).is_some() {
        args[2] = Value::Tensor(joined(&c.whole_at(2)?)?);
    }
    c.one(&split_out(&tensor(c.info.call(&args)?)?, 1, c.batch())?)
}
/// The gradient of the input.
pub(crate) fn convolution_input(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    let sizes = c.ints(2)?;
    if !c.is_batched(1) {
        args[0] = Value::Tensor(joined(&c.whole_at(0)?)?);
        args[2] = ints(c.grown(sizes, 0)?);
        return c.one(&parted(c, &tensor(c.info.call(&args)?)?)?);
    }
    args[0] = Value::Tensor(joined_at(&c.whole_at(0)?, 1)?);
    args[1] = Value::Tensor(joined(&c.whole_at(1)?)?);
    args[2] = ints(c.grown(sizes, 1)?);
    args[6] = Value::Int(c.times(c.int(6)?));
    c.one(&split_out(&tensor(c.info.call(&args)?)?, 1, c.batch())?)
}
/// The gradient of the weight: one for each slice.
pub(crate) fn convolution_weight(c: &Call<'_>) -> Result<Vec<Value>> {
    let mut args = c.args.to_vec();
    let sizes = c.ints(2)?;
    args[0] = Value::Tensor(joined_at(&c.whole_at(0)?, 1)?);
    args[1] = Value::Tensor(joined_at(&c.whole_at(1)?, 1)?);
    args[2] = ints(c.grown(sizes, 0)?);
    args[6] = Value::Int(c.times(c.int(6)?));
    c.one(&parted(c, &tensor(c.info.call(&args)?)?)?)
}
