//! Python's names of gradients, modes and forward mode.

mod functional;
mod modes;

use crate::engine::{self, GradOptions};
use crate::forward_ad;
use flambeau_core::dispatch::object::{Kwargs, ObjectRef};
use flambeau_core::dispatch::value::{FromValue, NamedTuple, tensor_arg};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{object, register_function};

/// A tensor, or a list or tuple of tensors; the mark says which.
fn tensors(v: &Value) -> Result<(Vec<Tensor>, bool)> {
    match (v, v.items()) {
        (_, Some(l)) => Ok((l.iter().map(Tensor::from_value).collect::<Result<_>>()?, true)),
        _ => Ok((vec![Tensor::from_value(v)?], false)),
    }
}
/// The same where some may be `None`.
fn some_tensors(v: Option<&Value>) -> Result<Vec<Option<Tensor>>> {
    let one = |v: &Value| match v {
        Value::None => Ok(None),
        v => Tensor::from_value(v).map(Some),
    };
    match v {
        None | Some(Value::None) => Ok(Vec::new()),
        Some(v) => match v.items() {
            Some(l) => l.iter().map(one).collect(),
            None => Ok(vec![one(v)?]),
        },
    }
}
fn value_of(t: Option<Tensor>) -> Value {
    t.map_or(Value::None, Value::Tensor)
}
/// A function argument, as the object that can be called.
fn function(v: &Value) -> Result<&ObjectRef> {
    match v {
        Value::Object(o) => Ok(o),
        other => Err(Error::type_(format!("'{}' object is not callable", other.type_name()))),
    }
}

fn grad(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &[
        "outputs",
        "inputs",
        "grad_outputs",
        "retain_graph",
        "create_graph",
        "only_inputs",
        "allow_unused",
        "is_grads_batched",
        "materialize_grads",
    ];
    let s = Slots::new("grad", names, args, kwargs)?;
    let (outputs, inputs) = (tensors(s.must(0)?)?.0, tensors(s.must(1)?)?.0);
    let mut o = GradOptions::new()
        .grad_outputs(some_tensors(s.values[2])?)
        .create_graph(s.get(4)?.unwrap_or(false))
        .is_grads_batched(s.get(7)?.unwrap_or(false))
        .materialize_grads(s.get(8)?.unwrap_or(false));
    if let Some(on) = s.get(3)? {
        o = o.retain_graph(on);
    }
    if let Some(on) = s.get(6)? {
        o = o.allow_unused(on);
    }
    let all = engine::grad(&outputs, &inputs, &o)?.into_iter().map(value_of);
    Ok(vec![Value::Tuple(all.collect())])
}
fn backward(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] =
        &["tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs"];
    let s = Slots::new("backward", names, args, kwargs)?;
    let grads = some_tensors(s.values[1].or(s.values[4]))?;
    let inputs = match s.values[5] {
        None | Some(Value::None) => None,
        Some(v) => Some(tensors(v)?.0),
    };
    let create = s.get(3)?.unwrap_or(false);
    engine::backward(&tensors(s.must(0)?)?.0, &grads, s.get(2)?, create, inputs.as_deref())?;
    Ok(vec![Value::None])
}
fn make_dual(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("make_dual", &["tensor", "tangent", "level"], args, kwargs)?;
    one(forward_ad::make_dual(&s.tensor()?, &Tensor::from_value(s.must(1)?)?)?)
}
fn unpack_dual(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("unpack_dual", &["tensor", "level"], args, kwargs)?;
    let (primal, tangent) = forward_ad::unpack_dual(&s.tensor()?)?;
    Ok(vec![Value::Named(NamedTuple {
        class: "torch.autograd.forward_ad.UnpackedDualTensor".into(),
        fields: vec!["primal", "tangent"],
        items: vec![Value::Tensor(primal), value_of(tangent)],
    })])
}
fn enter_dual_level(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    Slots::new("enter_dual_level", &[], args, kwargs)?;
    forward_ad::enter()?;
    Ok(vec![Value::Int(0)])
}
fn exit_dual_level(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    Slots::new("exit_dual_level", &["level"], args, kwargs)?;
    forward_ad::exit();
    Ok(vec![Value::None])
}

/// Makes the names known.
pub(crate) fn install() {
    register_function("torch.autograd.grad", grad);
    register_function("torch.Tensor.grad", |a, _| Ok(vec![value_of(tensor_arg(a, 0)?.grad())]));
    register_function("torch.autograd.backward", backward);
    register_function("torch.autograd.forward_ad.make_dual", make_dual);
    register_function("torch.autograd.forward_ad.unpack_dual", unpack_dual);
    register_function("torch.autograd.forward_ad.enter_dual_level", enter_dual_level);
    register_function("torch.autograd.forward_ad.exit_dual_level", exit_dual_level);
    functional::install();
    for (names, make) in modes::CLASSES {
        for name in *names {
            object::register_class(name, *make);
        }
    }
}
