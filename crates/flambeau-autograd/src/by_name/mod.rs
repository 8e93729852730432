//! Python's names of gradients, modes and forward mode.

mod checks;
mod control_flow;
mod custom;
mod functional;
mod modes;

use crate::checkpoint;
use crate::engine::{self, GradOptions};
use crate::forward_ad;
use flambeau_core::dispatch::object::{Kwargs, ObjectRef};
use flambeau_core::dispatch::value::{FromValue, NamedTuple, tensor_arg};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{object, register_function};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let all = engine::grad(&outputs, &inputs, o)?.into_iter().map(value_of);
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

/// `x.grad = g`
fn set_grad(args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
    let t = tensor_arg(args, 0)?;
    let grad = match args.get(1) {
        None | Some(Value::None) => None,
        Some(Value::Tensor(g)) => Some(g.clone()),
        Some(v) => {
            return Err(Error::type_(format!(
                "assigned grad expected to be a Tensor or None but got grad of type \"{}\"",
                v.type_name()
            )));
        }
    };
    (flambeau_core::tensor::graph::engine()?.set_grad)(t, grad)?;
    Ok(vec![Value::None])
}
/// `torch.utils.checkpoint.checkpoint(function, *args, use_reentrant, ...)`: tensors among the arguments are inputs, the rest
/// is handed on.
fn checkpointed(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let Some((f, args)) = args.split_first() else {
        return Err(Error::type_("checkpoint() missing 1 required positional argument: 'function'"));
    };
    let (mut o, mut named) = (checkpoint::CheckpointOptions::new(), Vec::new());
    for (k, v) in kwargs {
        match (k.as_str(), v) {
            ("use_reentrant", Value::None) => {}
            ("use_reentrant", v) => o = o.use_reentrant(bool::from_value(v)?),
            ("preserve_rng_state", v) => o = o.preserve_rng_state(bool::from_value(v)?),
            ("determinism_check", Value::Str(s)) => o = o.determinism_check(s != "none"),
            ("debug" | "early_stop", _) => {
                return Err(Error::missing(format!("torch.utils.checkpoint.checkpoint with {k}")));
            }
            ("context_fn", _) => {
                return Err(Error::missing("torch.utils.checkpoint.checkpoint with context_fn"));
            }
            _ => named.push((k.clone(), v.clone())),
        }
    }
    let inputs: Vec<Tensor> =
        args.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None }).collect();
    let (f, args) = (function(f)?.clone(), args.to_vec());
    let one = Arc::new(AtomicBool::new(false));
    let single = one.clone();
    let body = move |inputs: &[Tensor]| {
        let mut tensors = inputs.iter();
        let place = |v: &Value| match v {
            Value::Tensor(_) => tensors.next().cloned().map_or(Value::None, Value::Tensor),
            v => v.clone(),
        };
        let all: Vec<Value> = args.iter().map(place).collect();
        match &f.call(&all, &named)?[..] {
            [v] => {
                let (results, several) = super::by_name::tensors(v)?;
                single.store(!several, Ordering::Relaxed);
                Ok(results)
            }
            many => many.iter().map(Tensor::from_value).collect(),
        }
    };
    let results = checkpoint::checkpoint_with(body, &inputs[..], o)?;
    let mut values: Vec<Value> = results.into_iter().map(Value::Tensor).collect();
    Ok(match (one.load(Ordering::Relaxed), values.len()) {
        (true, 1) => vec![values.remove(0)],
        _ => vec![Value::Tuple(values)],
    })
}

/// Makes the names known.
pub(crate) fn install() {
    checks::install();
    register_function("torch.Tensor.grad.__set__", set_grad);
    register_function("torch.utils.checkpoint.checkpoint", checkpointed);
    register_function("torch.autograd.grad", grad);
    register_function("torch.Tensor.grad", |a, _| Ok(vec![value_of(tensor_arg(a, 0)?.grad())]));
    register_function("torch.autograd.backward", backward);
    register_function("torch.autograd.forward_ad.make_dual", make_dual);
    register_function("torch.autograd.forward_ad.unpack_dual", unpack_dual);
    register_function("torch.autograd.forward_ad.enter_dual_level", enter_dual_level);
    register_function("torch.autograd.forward_ad.exit_dual_level", exit_dual_level);
    control_flow::install();
    custom::install();
    functional::install();
    for (names, make) in modes::CLASSES {
        for name in *names {
            object::register_class(name, *make);
        }
    }
}
