//! Custom functions by name: classes that a program derives from `torch.autograd.Function`, as a dictionary of their members.

use super::function as callable;
use crate::function::{BackwardContext, Context, Function, apply};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library::register_function;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// What `ctx` is told, and gives back.
#[derive(Default)]
struct Notes {
    attributes: Vec<(String, Value)>,
    save: Vec<Value>,
    dirty: Vec<Tensor>,
    non_differentiable: Vec<Tensor>,
    materialize: Option<bool>,
    needs: Vec<bool>,
    saved: Option<Vec<Tensor>>,
}
#[derive(Clone, Default)]
struct Ctx(Arc<Mutex<Notes>>);
impl Ctx {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}
fn each_tensor(args: &[Value]) -> Result<Vec<Tensor>> {
    args.iter().map(Tensor::from_value).collect()
}
impl Object for Ctx {
    fn type_name(&self) -> &'static str {
        "FunctionCtx"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let n = self.notes();
        match name {
            "saved_tensors" => {
                // what was saved as None comes back as None
                let mut tensors = n.saved.iter().flatten().cloned();
                let one = |v: &Value| match v {
                    Value::Tensor(_) => tensors.next().map_or(Value::None, Value::Tensor),
                    _ => Value::None,
                };
                Ok(Value::Tuple(n.save.iter().map(one).collect()))
            }
            "needs_input_grad" => Ok(Value::Tuple(n.needs.iter().map(|b| Value::Bool(*b)).collect())),
            _ => match n.attributes.iter().find(|(k, _)| k == name) {
                Some((_, v)) => Ok(v.clone()),
                None => Err(no_attribute("FunctionCtx", name)),
            },
        }
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        let mut n = self.notes();
        match (name, args) {
            ("save_for_backward", all) => n.save = all.to_vec(),
            ("mark_dirty", all) => n.dirty = each_tensor(all)?,
            ("mark_non_differentiable", all) => n.non_differentiable = each_tensor(all)?,
            ("set_materialize_grads", [v]) => n.materialize = Some(bool::from_value(v)?),
            ("__setattr__", [Value::Str(k), v]) => {
                n.attributes.retain(|(name, _)| name != k);
                n.attributes.push((k.clone(), v.clone()));
            }
            _ => return Err(no_attribute("FunctionCtx", name)),
        }
        Ok(vec![Value::None])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One call of such a class.
struct Called {
    name: String,
    members: Vec<(String, Value)>,
    args: Vec<Value>,
    kwargs: Vec<(String, Value)>,
    ctx: Ctx,
    /// Whether `forward` gave one tensor that is in no tuple.
    single: Arc<Mutex<bool>>,
}
impl Called {
    fn member(&self, name: &str) -> Result<Option<&ObjectRef>> {
        self.members.iter().find(|(k, _)| k == name).map(|(_, v)| callable(v)).transpose()
    }
    fn must(&self, name: &str) -> Result<&ObjectRef> {
        self.member(name)?.ok_or_else(|| {
            Error::unsupported(format!(
                "You must implement the {name} function for custom autograd.Function to use it with {} mode AD.",
                if name == "backward" { "backward" } else { "forward" }
            ))
        })
    }
    fn ctx(&self) -> Value {
        Value::Object(ObjectRef::new(self.ctx.clone()))
    }
    /// Gradients or tangents, one for each argument, as those of the tensors among them.
    fn of_tensors(&self, all: Vec<Value>) -> Result<Vec<Option<Tensor>>> {
        let all = match all.into_iter().next() {
            Some(Value::Tuple(l) | Value::List(l)) => l,
            Some(v) => vec![v],
            None => Vec::new(),
        };
        let one = |v: &Value| match v {
            Value::None => Ok(None),
            v => Tensor::from_value(v).map(Some),
        };
        let tensors = self.args.iter().zip(&all).filter(|(a, _)| matches!(a, Value::Tensor(_)));
        tensors.map(|(_, v)| one(v)).collect()
    }
}
fn some(all: &[Option<Tensor>]) -> impl Iterator<Item = Value> + '_ {
    all.iter().map(|t| t.clone().map_or(Value::None, Value::Tensor))
}
impl Function for Called {
    fn name(&self) -> Cow<'static, str> {
        Cow::Owned(self.name.clone())
    }
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut tensors = (0..).zip(inputs);
        let mut needs = Vec::new();
        let place = |v: &Value| match v {
            Value::Tensor(_) => {
                let (i, t) = tensors.next().unzip();
                needs.push(i.is_some_and(|i| ctx.needs_input_grad(i)));
                t.cloned().map_or(Value::None, Value::Tensor)
            }
            v => {
                needs.push(false);
                v.clone()
            }
        };
        let args: Vec<Value> = self.args.iter().map(place).collect();
        self.ctx.notes().needs = needs;
        let result = match self.member("setup_context")? {
            None => {
                let all: Vec<Value> = std::iter::once(self.ctx()).chain(args).collect();
                self.must("forward")?.call(&all, &self.kwargs)?
            }
            Some(setup) => {
                let result = self.must("forward")?.call(&args, &self.kwargs)?;
                let output = result.first().cloned().unwrap_or(Value::None);
                setup.call(&[self.ctx(), Value::Tuple(args), output], &[])?;
                result
            }
        };
        let notes = self.ctx.notes();
        let list = |l: &[Value]| -> Vec<Tensor> {
            l.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None }).collect()
        };
        let save = list(&notes.save);
        ctx.save_for_backward(&save.iter().collect::<Vec<_>>());
        ctx.mark_dirty(&notes.dirty.iter().collect::<Vec<_>>());
        ctx.mark_non_differentiable(&notes.non_differentiable.iter().collect::<Vec<_>>());
        if let Some(on) = notes.materialize {
            ctx.set_materialize_grads(on);
        }
        match result.into_iter().next() {
            Some(Value::Tensor(t)) => {
                *self.single.lock().unwrap_or_else(|e| e.into_inner()) = true;
                Ok(vec![t])
            }
            Some(v) => each_tensor(v.items().unwrap_or(&[])),
            None => Ok(Vec::new()),
        }
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = ctx.saved_tensors()?;
        self.ctx.notes().saved = Some(saved);
        let all: Vec<Value> = std::iter::once(self.ctx()).chain(some(grads)).collect();
        let result = self.must("backward")?.call(&all, &[]);
        self.ctx.notes().saved = None;
        self.of_tensors(result?)
    }
    fn jvp(&self, _: &[Tensor], tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let mut given = some(tangents);
        let place = |v: &Value| match v {
            Value::Tensor(_) => given.next().unwrap_or(Value::None),
            _ => Value::None,
        };
        let all: Vec<Value> = std::iter::once(self.ctx()).chain(self.args.iter().map(place)).collect();
        let result = self.must("jvp")?.call(&all, &[])?;
        match result.into_iter().next() {
            Some(Value::Tuple(l) | Value::List(l)) => super::some_tensors(Some(&Value::List(l))),
            v => super::some_tensors(v.as_ref()),
        }
    }
}

/// `Class.apply(*args)`, where the class is a dictionary of its members and its name.
fn call(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let Some((Value::Dict(members), args)) = args.split_first() else {
        return Err(Error::type_(
            "torch.autograd.Function.apply is called on a class that is derived from it",
        ));
    };
    let name = members.iter().find(|(k, _)| k == "__name__");
    let single = Arc::new(Mutex::new(false));
    let f = Called {
        name: name.map_or_else(|| Ok("Function".to_string()), |(_, v)| String::from_value(v))?,
        members: members.clone(),
        args: args.to_vec(),
        kwargs: kwargs.to_vec(),
        ctx: Ctx::default(),
        single: single.clone(),
    };
    let inputs: Vec<Tensor> =
        args.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None }).collect();
    let mut all: Vec<Value> = apply(f, &inputs)?.into_iter().map(Value::Tensor).collect();
    let single = *single.lock().unwrap_or_else(|e| e.into_inner());
    Ok(if single && all.len() == 1 { vec![all.remove(0)] } else { vec![Value::Tuple(all)] })
}

pub(super) fn install() {
    register_function("torch.autograd.Function.apply", call);
}
