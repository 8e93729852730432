//! The functions over tensors by their documented names.

mod modules;
mod rnn;

use crate::parameter::Parameter;
use crate::utils::{self, ClipGradOptions, fusion};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::registry::CrateReg;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_library::{NativeFn, register_function};

/// What this crate makes known by name.
static REG: CrateReg = CrateReg { name: "flambeau-nn-utils", ops: &[], fills: &[install] };
#[linkme::distributed_slice(flambeau_core::dispatch::registry::CRATES)]
static LINKED: &CrateReg = &REG;

fn install() {
    for (path, f) in FUNCTIONS.iter().chain(modules::FUNCTIONS) {
        register_function(path, *f);
    }
}
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.nn.utils.get_total_norm", get_total_norm),
    ("torch.nn.utils.clip_grad_norm_", clip_grad_norm_),
    ("torch.nn.utils.clip_grad_norm", clip_grad_norm_),
    ("torch.nn.utils.clip_grad_value_", clip_grad_value_),
    ("torch.nn.utils.clip_grads_with_norm_", clip_grads_with_norm_),
    ("torch.nn.utils.parameters_to_vector", parameters_to_vector),
    ("torch.nn.utils.vector_to_parameters", vector_to_parameters),
    ("torch.nn.utils.fuse_conv_bn_weights", fuse_conv_bn_weights),
    ("torch.nn.utils.fuse_linear_bn_weights", fuse_linear_bn_weights),
];

/// Arguments of a call by the parameters' names.
pub(super) struct Arguments<'a> {
    name: &'static str,
    names: &'static [&'static str],
    pub(super) values: Vec<Option<&'a Value>>,
}
impl<'a> Arguments<'a> {
    pub(super) fn new(
        name: &'static str,
        names: &'static [&'static str],
        args: &'a [Value],
        kwargs: &'a Kwargs,
    ) -> Result<Self> {
        ensure!(
            args.len() <= names.len(),
            Type,
            "{name}() takes {} positional arguments but {} were given",
            names.len(),
            args.len()
        );
        let mut values: Vec<Option<&Value>> = args.iter().map(Some).collect();
        values.resize(names.len(), None);
        for (k, v) in kwargs {
            let i = names.iter().position(|n| n == k);
            let i =
                i.ok_or_else(|| Error::type_(format!("{name}() got an unexpected keyword argument '{k}'")))?;
            ensure!(values[i].is_none(), Type, "{name}() got multiple values for argument '{k}'");
            values[i] = Some(v);
        }
        Ok(Arguments { name, names, values })
    }
    pub(super) fn must<T: FromValue>(&self, i: usize) -> Result<T> {
        match self.values[i] {
            Some(v) => T::from_value(v),
            None => Err(Error::type_(format!(
                "{}() missing 1 required positional argument: '{}'",
                self.name, self.names[i]
            ))),
        }
    }
    /// The argument as it was given.
    pub(super) fn value(&self, i: usize) -> &Value {
        self.values[i].unwrap_or_else(|| Value::none())
    }
    pub(super) fn or<T: FromValue>(&self, i: usize, default: T) -> Result<T> {
        match self.values[i] {
            None | Some(Value::None) => Ok(default),
            Some(v) => T::from_value(v),
        }
    }
    /// A tensor, or several.
    fn tensors(&self, i: usize) -> Result<Vec<Tensor>> {
        match self.values[i] {
            Some(Value::Tensor(t)) => Ok(vec![t.clone()]),
            _ => self.must(i),
        }
    }
    pub(super) fn tensor(&self, i: usize) -> Result<Option<Tensor>> {
        match self.values[i] {
            None | Some(Value::None) => Ok(None),
            Some(v) => Tensor::from_value(v).map(Some),
        }
    }
    fn options(&self, norm_type: usize) -> Result<ClipGradOptions> {
        let o = ClipGradOptions::new().norm_type(self.or(norm_type, 2.0)?);
        // the last, `foreach`, chooses between two ways to the same result
        self.or(norm_type + 2, false)?;
        Ok(o.error_if_nonfinite(self.or(norm_type + 1, false)?))
    }
}
fn one(t: Tensor) -> Result<Vec<Value>> {
    Ok(vec![Value::Tensor(t)])
}
fn nothing(done: Result<()>) -> Result<Vec<Value>> {
    done.map(|()| vec![Value::None])
}

fn get_total_norm(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let names = &["tensors", "norm_type", "error_if_nonfinite", "foreach"];
    let a = Arguments::new("get_total_norm", names, a, k)?;
    one(utils::try_get_total_norm(&a.tensors(0)?, a.options(1)?)?)
}
fn clip_grad_norm_(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let names = &["parameters", "max_norm", "norm_type", "error_if_nonfinite", "foreach"];
    let a = Arguments::new("clip_grad_norm_", names, a, k)?;
    one(utils::try_clip_grad_norm_(&a.tensors(0)?, a.must(1)?, a.options(2)?)?)
}
fn clip_grad_value_(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new("clip_grad_value_", &["parameters", "clip_value", "foreach"], a, k)?;
    a.or(2, false)?;
    nothing(utils::try_clip_grad_value_(&a.tensors(0)?, a.must(1)?))
}
fn clip_grads_with_norm_(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let names = &["parameters", "max_norm", "total_norm", "foreach"];
    let a = Arguments::new("clip_grads_with_norm_", names, a, k)?;
    a.or(3, false)?;
    nothing(utils::try_clip_grads_with_norm_(&a.tensors(0)?, a.must(1)?, &a.must(2)?))
}
fn parameters_to_vector(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new("parameters_to_vector", &["parameters"], a, k)?;
    one(utils::try_parameters_to_vector(&a.tensors(0)?)?)
}
fn vector_to_parameters(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new("vector_to_parameters", &["vec", "parameters"], a, k)?;
    nothing(utils::try_vector_to_parameters(&a.must(0)?, &a.tensors(1)?))
}
fn pair((w, b): (Parameter, Parameter)) -> Vec<Value> {
    vec![Value::Tensor(w.tensor().clone()), Value::Tensor(b.tensor().clone())]
}
fn fuse_conv_bn_weights(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let names = &["conv_w", "conv_b", "bn_rm", "bn_rv", "bn_eps", "bn_w", "bn_b", "transpose"];
    let a = Arguments::new("fuse_conv_bn_weights", names, a, k)?;
    let bn = (a.must(2)?, a.must(3)?, a.tensor(5)?, a.tensor(6)?);
    let bn = fusion::Statistics {
        mean: &bn.0,
        var: &bn.1,
        eps: a.must(4)?,
        weight: bn.2.as_ref(),
        bias: bn.3.as_ref(),
    };
    Ok(pair(fusion::try_fuse_conv_bn_weights(&a.must(0)?, a.tensor(1)?.as_ref(), &bn, a.or(7, false)?)?))
}
fn fuse_linear_bn_weights(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let names = &["linear_w", "linear_b", "bn_rm", "bn_rv", "bn_eps", "bn_w", "bn_b"];
    let a = Arguments::new("fuse_linear_bn_weights", names, a, k)?;
    let bn = (a.must(2)?, a.must(3)?, a.tensor(5)?, a.tensor(6)?);
    let bn = fusion::Statistics {
        mean: &bn.0,
        var: &bn.1,
        eps: a.must(4)?,
        weight: bn.2.as_ref(),
        bias: bn.3.as_ref(),
    };
    Ok(pair(fusion::try_fuse_linear_bn_weights(&a.must(0)?, a.tensor(1)?.as_ref(), &bn)?))
}
