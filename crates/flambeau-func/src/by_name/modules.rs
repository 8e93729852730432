//! Modules as functions: `torch.func.functional_call`, `torch.func.stack_module_state`.

use super::class;
use crate::modules::{try_replace_all_batch_norm_modules_, try_stack_module_state};
use flambeau_core::dispatch::object::{Kwargs, no_attribute};
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::{Error, Result, Tensor, ensure};
use flambeau_library::NativeFn;
use flambeau_library::slots::Slots;
use flambeau_nn::Module;
use flambeau_nn::internal::{ModuleObject, Run, call_module};
use flambeau_nn::utils::stateless::functional_call_around;

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.func.functional_call", functional_call),
    ("torch.nn.utils.stateless.functional_call", functional_call),
    ("torch.func.stack_module_state", stack_module_state),
    ("torch.func.replace_all_batch_norm_modules_", replace_batch_norm),
];

fn module(v: &Value) -> Result<&ModuleObject> {
    let found = match v {
        Value::Object(o) => o.downcast::<ModuleObject>(),
        _ => None,
    };
    found.ok_or_else(|| no_attribute(v.type_name(), "named_parameters"))
}
/// The tensors of a dictionary, or of several that have no name in common.
fn state(v: &Value) -> Result<Vec<(String, Tensor)>> {
    let one = |v: &Value| -> Result<Vec<(String, Tensor)>> {
        match v {
            Value::Dict(d) => d.iter().map(|(k, v)| Ok((k.clone(), Tensor::from_value(v)?))).collect(),
            v => Err(wrong(v)),
        }
    };
    fn wrong(v: &Value) -> Error {
        Error::value(format!(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {}",
            class(v)
        ))
    }
    match v {
        Value::Tuple(l) | Value::List(l) => {
            ensure!(
                l.iter().all(|v| matches!(v, Value::Dict(_))),
                Value,
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            );
            let all = l.iter().map(one).collect::<Result<Vec<_>>>()?.concat();
            let mut twice: Vec<String> = Vec::new();
            for (i, (k, _)) in all.iter().enumerate() {
                let shown = format!("'{k}'");
                if all[..i].iter().any(|(n, _)| n == k) && !twice.contains(&shown) {
                    twice.push(shown);
                }
            }
            ensure!(
                twice.is_empty(),
                Value,
                "[{}] appeared in multiple dictionaries; behavior of functional call is ambiguous",
                twice.join(", ")
            );
            Ok(all)
        }
        v => one(v),
    }
}
fn functional_call(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["module", "parameter_and_buffer_dicts", "args", "kwargs", "tie_weights", "strict"];
    let s = Slots::new("functional_call", names, args, kwargs)?;
    let given = state(s.must(1)?)?.into_iter().collect();
    let args = match s.values[2] {
        None | Some(Value::None) => Vec::new(),
        Some(Value::Tuple(l)) => l.clone(),
        Some(v) => vec![v.clone()],
    };
    let keywords = match s.values[3] {
        Some(Value::Dict(d)) => d.clone(),
        _ => Vec::new(),
    };
    let (tied, strict) = (s.get(4)?.unwrap_or(true), s.get(5)?.unwrap_or(false));
    module(s.must(0)?)?.with(|m| {
        ensure!(
            tied || !has_ties(m),
            Missing,
            "functional_call with tie_weights=False of a module with tied weights"
        );
        functional_call_around(m.as_module(), &given, strict, |_| call_module(m, &args, &keywords))?
    })
}
/// Whether a tensor of the module has two names.
fn has_ties(m: &dyn Run) -> bool {
    let all = flambeau_nn::NamedOptions::new().remove_duplicate(false);
    m.as_module().named_parameters_with(all).len() != m.as_module().named_parameters().len()
}
fn with_all<R>(objects: &[&ModuleObject], f: &mut dyn FnMut(&[&dyn Module]) -> Result<R>) -> Result<R> {
    fn go<R>(
        objects: &[&ModuleObject],
        so_far: &mut Vec<&dyn Module>,
        f: &mut dyn FnMut(&[&dyn Module]) -> Result<R>,
    ) -> Result<R> {
        let Some((first, rest)) = objects.split_first() else { return f(so_far) };
        first.with(|m| {
            let mut all: Vec<&dyn Module> = so_far.clone();
            all.push(m.as_module());
            go(rest, &mut all, f)
        })
    }
    go(objects, &mut Vec::new(), f)
}
fn stack_module_state(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("stack_module_state", &["models"], args, kwargs)?;
    let models = s.must(0)?.items().unwrap_or(&[]).iter().map(module).collect::<Result<Vec<_>>>()?;
    let (p, b) = with_all(&models, &mut |all| try_stack_module_state(all.iter().copied()))?;
    let dict = |d: std::collections::BTreeMap<String, Tensor>| {
        Value::Dict(d.into_iter().map(|(k, t)| (k, Value::Tensor(t))).collect())
    };
    Ok(vec![Value::Tuple(vec![dict(p), dict(b)])])
}
fn replace_batch_norm(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("replace_all_batch_norm_modules_", &["root"], args, kwargs)?;
    let root = s.must(0)?;
    module(root)?.with_mut(|m| try_replace_all_batch_norm_modules_(m.as_module_mut()))?;
    Ok(vec![root.clone()])
}
