//! What nodes of exported programs call: operators, branches and loops over graphs, regions.

use crate::read::Operator;
use crate::regions;
use crate::unflatten;
use flambeau_amp::{AutocastOptions, try_autocast_guard};
use flambeau_autograd::control_flow::{ScanOptions, try_map, try_scan};
use flambeau_core::dispatch::object::{Kwargs, ObjectRef};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_func::{Dims, Randomness, VmapOptions, try_vmap};
use flambeau_fx::{Calls, GraphModule, Interpreter, PlannedInterpreter, python};

/// Runs a graph of a program.
pub(crate) fn run(m: &GraphModule, inputs: &[Value]) -> Result<Value> {
    Interpreter::new(m).run_with(inputs, &mut Steps(m))
}
/// The same by a plan.
pub(crate) fn planned(plan: &PlannedInterpreter, inputs: &[Value]) -> Result<Value> {
    plan.run_with(inputs, &mut Steps(plan.module()))
}
struct Steps<'a>(&'a GraphModule);
impl Calls for Steps<'_> {
    fn module(&self) -> &GraphModule {
        self.0
    }
    fn call_function(&mut self, target: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        call(target, args, kwargs)
    }
    /// Modules of programs are graphs that call operators as this one does.
    fn call_module(&mut self, path: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        let m = self.0.submodule(path)?;
        match m.downcast::<GraphModule>() {
            Some(g) => unflatten::run(g, args, kwargs),
            None => {
                let mut all = m.call(args, kwargs)?;
                Ok(if all.len() == 1 { all.remove(0) } else { Value::Tuple(all) })
            }
        }
    }
}
fn graph(v: &Value) -> Result<&GraphModule> {
    let found = match v {
        Value::Object(o) => o.downcast::<GraphModule>(),
        _ => None,
    };
    found.ok_or_else(|| Error::type_(format!("a graph was expected, not {}", v.type_name())))
}
fn items(v: &Value) -> Vec<Value> {
    v.items().map_or_else(|| vec![v.clone()], <[Value]>::to_vec)
}
fn tensors(l: &[Value]) -> Result<Vec<Tensor>> {
    l.iter()
        .map(|v| match v {
            Value::Tensor(t) => Ok(t.clone()),
            v => Err(Error::type_(format!("a tensor was expected, not {}", v.type_name()))),
        })
        .collect()
}
fn values(l: &[Tensor]) -> Vec<Value> {
    l.iter().cloned().map(Value::Tensor).collect()
}
fn call(target: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    if let Some(name) = target.strip_prefix("torch.ops.higher_order.") {
        return higher(name, args, kwargs);
    }
    if let Some(name) = target.strip_prefix("torch.ops.aten.") {
        return crate::aten::call(name, args, kwargs);
    }
    if let Some(done) = unflatten::call(target, args) {
        return done;
    }
    let result = python::call(target, args, kwargs)?;
    Ok(match result {
        Value::Named(ref t) if !t.fields.is_empty() => Value::Tuple(t.items.clone()),
        v => v,
    })
}
fn higher(name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    match (name, args) {
        ("cond", [pred, yes, no, operands @ ..]) => {
            let inputs = operands.first().map(items).unwrap_or_default();
            run(graph(if python::truth(pred)? { yes } else { no })?, &inputs)
        }
        ("while_loop", [test, body, carried, rest @ ..]) => {
            let more = rest.first().map(items).unwrap_or_default();
            let (test, body, mut now) = (graph(test)?, graph(body)?, items(carried));
            loop {
                let inputs = [&now[..], &more[..]].concat();
                let go = items(&run(test, &inputs)?);
                match go.first() {
                    Some(v) if python::truth(v)? => now = items(&run(body, &inputs)?),
                    Some(_) => return Ok(Value::Tuple(now)),
                    None => return Err(Error::runtime("while_loop: the condition gives nothing")),
                }
            }
        }
        ("map_impl", [f, xs, rest @ ..]) => {
            let more = rest.first().map(items).unwrap_or_default();
            let f = graph(f)?;
            let one = |x: &[Tensor]| tensors(&items(&run(f, &[values(x), more.clone()].concat())?));
            let all = try_map(one, &tensors(&items(xs))?[..])?;
            Ok(Value::Tuple(values(&all)))
        }
        ("scan", [f, init, xs, rest @ ..]) => {
            let more = rest.first().map(items).unwrap_or_default();
            let (f, init) = (graph(f)?, tensors(&items(init))?);
            let n = init.len();
            let step = |c: &[Tensor], x: &[Tensor]| {
                let out = tensors(&items(&run(f, &[values(c), values(x), more.clone()].concat())?))?;
                if out.len() < n {
                    return Err(Error::runtime("scan: the graph gives fewer tensors than are carried"));
                }
                let (next, y) = out.split_at(n);
                Ok((next.to_vec(), y.to_vec()))
            };
            let (carry, all) = try_scan(step, &init[..], &tensors(&items(xs))?[..], ScanOptions::new())?;
            Ok(Value::Tuple([values(&carry), values(&all)].concat()))
        }
        (regions::VMAP, [f, places, inputs, outs, Value::Str(random)]) => {
            let (f, places, inputs) = (graph(f)?, items(places), items(inputs));
            let (mut dims, mut mapped) = (Vec::new(), Vec::new());
            for (place, x) in places.iter().zip(&inputs) {
                if let (Value::Int(d), Value::Tensor(t)) = (place, x) {
                    dims.push(Some(*d));
                    mapped.push(t.clone());
                }
            }
            let outs =
                items(outs).iter().map(|d| if let Value::Int(d) = d { Some(*d) } else { None }).collect();
            let all = |slices: &Vec<Tensor>| {
                let mut slices = slices.iter().cloned().map(Value::Tensor);
                let given = places.iter().zip(&inputs).map(|(place, x)| match (place, x) {
                    (Value::Int(_), Value::Tensor(_)) => slices.next().unwrap_or(Value::None),
                    _ => x.clone(),
                });
                tensors(&items(&run(f, &given.collect::<Vec<_>>())?))
            };
            let options = VmapOptions::new()
                .in_dims(Dims::Each(dims))
                .out_dims(Dims::Each(outs))
                .randomness(Randomness::parse(random)?);
            Ok(Value::Tuple(values(&try_vmap(all, options)(&mapped)?)))
        }
        ("wrap_with_set_grad_enabled", [Value::Bool(on), f, inputs @ ..]) => {
            let _region = flambeau_autograd::grad_mode::set_grad_enabled_guard(*on);
            run(graph(f)?, inputs)
        }
        ("wrap_with_autocast", [Value::Str(device), dtype, Value::Bool(on), cache, f, inputs @ ..]) => {
            let mut o = AutocastOptions::new(device.as_str()).enabled(*on);
            if let Value::DType(d) = dtype {
                o = o.dtype(*d);
            }
            if let Value::Bool(c) = cache {
                o = o.cache_enabled(*c);
            }
            let _region = try_autocast_guard(o)?;
            run(graph(f)?, inputs)
        }
        ("with_effects", [token, Value::Object(op), inputs @ ..]) => {
            let name = operator(op)?;
            let result = call(&name, inputs, kwargs)?;
            let mut all = vec![token.clone()];
            match result {
                Value::Tuple(ref l) | Value::List(ref l) => all.extend(l.iter().cloned()),
                v => all.push(v),
            }
            Ok(Value::Tuple(all))
        }
        _ => Err(Error::missing(format!("torch.ops.higher_order.{name} of {} arguments", args.len()))),
    }
}
fn operator(o: &ObjectRef) -> Result<String> {
    match o.downcast::<Operator>() {
        Some(op) => Ok(op.0.clone()),
        None => Err(Error::type_(format!("an operator was expected, not {}", o.type_name()))),
    }
}
