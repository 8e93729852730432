//! `torch.func.rearrange`.

use crate::rearrange::try_rearrange;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::{Error, Result, Tensor, ops};
use flambeau_library::NativeFn;
use flambeau_library::slots::one;

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[("torch.func.rearrange", rearrange)];

fn rearrange(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let [t, pattern] = args else {
        return Err(Error::type_(format!(
            "rearrange() takes 2 positional arguments but {} were given",
            args.len()
        )));
    };
    let t = match t {
        Value::Tensor(t) => t.clone(),
        v => match v.items() {
            Some(l) => ops::stack(&l.iter().map(Tensor::from_value).collect::<Result<Vec<_>>>()?, 0)?,
            None => {
                return Err(Error::type_(format!(
                    "stack(): argument 'tensors' (position 1) must be tuple of Tensors, not {}",
                    v.type_name()
                )));
            }
        },
    };
    let sizes =
        kwargs.iter().map(|(k, v)| Ok((k.as_str(), i64::from_value(v)?))).collect::<Result<Vec<_>>>()?;
    one(try_rearrange(&t, &String::from_value(pattern)?, &sizes)?)
}
