//! Custom functions by name: classes that a program derives from `torch.autograd.Function`, as a dictionary of their members.

use super::function as callable;
use crate::function::{BackwardContext, Context, Function, apply, is_batched};
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
    /// Calls the class's own rule of vmap.
    fn by_rule(
        &self,
        rule: &ObjectRef,
        batch_size: i64,
        in_dims: &[Option<usize>],
        inputs: &[Tensor],
    ) -> Result<(Vec<Tensor>, Vec<Option<usize>>)> {
        let (mut tensors, mut dims) = (inputs.iter().zip(in_dims), Vec::new());
        let place = |v: &Value| match v {
            Value::Tensor(t) => {
                let (t, d) = tensors.next().map_or((t, None), |(t, d)| (t, *d));
                dims.push(d.map_or(Value::None, |d| Value::Int(d as i64)));
                Value::Tensor(t.clone())
            }
            v => {
                dims.push(Value::None);
                v.clone()
            }
        };
        let args: Vec<Value> = self.args.iter().map(place).collect();
        let info = Value::Object(ObjectRef::new(VmapInfo(batch_size)));
        let all: Vec<Value> = [info, Value::Tuple(dims)].into_iter().chain(args).collect();
        let result = rule.call(&all, &[])?;
        let pair = match &result[..] {
            [Value::Tuple(l)] => &l[..],
            l => l,
        };
        let [out, places] = pair else {
            return Err(Error::runtime(format!(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with \
                 the output. Got a {} instead",
                result.first().map_or("NoneType", Value::type_name)
            )));
        };
        let out = match out {
            Value::Tensor(t) => {
                *self.single.lock().unwrap_or_else(|e| e.into_inner()) = true;
                vec![t.clone()]
            }
            v => each_tensor(v.items().unwrap_or(&[]))?,
        };
        let one = |(i, t): (usize, &Tensor)| -> Result<Option<usize>> {
            let v = places.items().map_or(Some(places), |l| l.get(i)).unwrap_or(Value::none());
            let n = t.dim() as i64;
            match v {
                Value::None => Ok(None),
                v => Ok(Some(i64::from_value(v)?.rem_euclid(n.max(1)) as usize)),
            }
        };
        let at = out.iter().enumerate().map(one).collect::<Result<_>>()?;
        Ok((out, at))
    }
    /// Gradients or tangents, one for each argument, as those of the tensors among them.
    fn of_tensors(&self, all: Vec<Value>) -> Result<Vec<Option<Tensor>>> {
        let all = match all.into_iter().next() {
            Some(v) => v.into_items().unwrap_or_else(|v| vec![v]),
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
        match result.first() {
            Some(Value::Tensor(t)) => {
                *self.single.lock().unwrap_or_else(|e| e.into_inner()) = true;
                Ok(vec![t.clone()])
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
    fn vmap(
        &self,
        batch_size: i64,
        in_dims: &[Option<usize>],
        inputs: &[Tensor],
    ) -> Option<Result<(Vec<Tensor>, Vec<Option<usize>>)>> {
        let rule = match self.member("vmap") {
            Ok(rule) => rule?,
            Err(e) => return Some(Err(e)),
        };
        Some(self.by_rule(rule, batch_size, in_dims, inputs))
    }
    fn jvp(&self, _: &[Tensor], tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let mut given = some(tangents);
        let place = |v: &Value| match v {
            Value::Tensor(_) => given.next().unwrap_or(Value::None),
            _ => Value::None,
        };
        let all: Vec<Value> = std::iter::once(self.ctx()).chain(self.args.iter().map(place)).collect();
        let result = self.must("jvp")?.call(&all, &[])?;
        let first = result.into_iter().next().map(|v| v.into_items().map_or_else(|v| v, Value::List));
        super::some_tensors(first.as_ref())
    }
}

/// What a rule of vmap is told: the size of the hidden dimension.
struct VmapInfo(i64);
impl Object for VmapInfo {
    fn type_name(&self) -> &'static str {
        "VmapInfo"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        match name {
            "batch_size" => Ok(Value::Int(self.0)),
            "randomness" => Ok(Value::Str("error".into())),
            _ => Err(no_attribute("VmapInfo", name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
const MORE: &str = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html";
/// What functions must say of themselves before vmap takes them.
fn takes_batches(name: &str, members: &[(String, Value)]) -> Result<()> {
    let has = |n: &str| members.iter().find(|(k, _)| k == n).map(|(_, v)| v);
    let generated = matches!(has("generate_vmap_rule"), Some(Value::Bool(true)));
    if has("setup_context").is_none() {
        return Err(Error::runtime(format!(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the \
             setup_context staticmethod. {MORE}"
        )));
    }
    match (generated, has("vmap").is_some()) {
        (true, true) => Err(Error::runtime(format!(
            "You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overriden vmap staticmethod. Please set \
             generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid ambiguity. {MORE}"
        ))),
        (false, false) => Err(Error::runtime(format!(
            "You tried to vmap over {name}, but it does not have vmap support. Please override and implement the vmap staticmethod \
             or set generate_vmap_rule=True. {MORE}"
        ))),
        _ => Ok(()),
    }
}

/// `Class.apply(*args)`, where the class is a dictionary of its members and its name.
fn call(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let Some((Value::Dict(members), args)) = args.split_first() else {
        return Err(Error::unsupported(
            "You must implement the forward function for custom autograd.Function.",
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
    if is_batched(&inputs) {
        takes_batches(&f.name, members)?;
    }
    let mut all: Vec<Value> = apply(f, &inputs)?.into_iter().map(Value::Tensor).collect();
    let single = *single.lock().unwrap_or_else(|e| e.into_inner());
    Ok(if single && all.len() == 1 { vec![all.remove(0)] } else { vec![Value::Tuple(all)] })
}

pub(super) fn install() {
    register_function("torch.autograd.Function.apply", call);
}
