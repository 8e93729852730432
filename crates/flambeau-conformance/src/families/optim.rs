//! `optim/`: parameters after each step, final state, schedules.
//!
//! What an optimizer answers as an object: methods `step` (with a closure object where one is due), `zero_grad` and
//! `state_dict` (`{"state": {"0": {..}}}`), attribute `param_groups` (a list of dictionaries); a scheduler answers `step`.

use super::{Case, File, Outcome, text};
use crate::compare::{self, Tol, tolerance};
use crate::decode::{Decoder, Stop, number, tensor};
use crate::expr::Expr;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Tensor, Value};
use flambeau_library::object::{self, Kwargs, Object, ObjectRef};
use serde_json::Value as J;
use std::any::Any;

/// All cases of a file.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    f.list("cases")
        .iter()
        .map(|c| {
            let schedule = c.get("scheduler").is_some();
            let call = if schedule { text(&c["scheduler"], "call") } else { text(c, "call") };
            let run = Box::new(move || {
                if object::class(call).is_none() {
                    return Outcome::Missing(call.into());
                }
                Outcome::of(if schedule { scheduler(f, c) } else { optimizer(f, call, c) })
            });
            Case { id: text(c, "id").into(), call: call.into(), core: false, run }
        })
        .collect()
}

fn leaf(store: &crate::store::Store, j: &J) -> Result<Tensor, Stop> {
    let t = crate::device::there(tensor(store, j)?)?;
    (flambeau_core::tensor::graph::engine()?.set_requires_grad)(&t, true)?;
    Ok(t)
}

fn optimizer(f: &File, call: &str, c: &J) -> Result<(), Stop> {
    let engine = flambeau_core::tensor::graph::engine()?;
    let mut d = Decoder::new(&f.store);
    let params: Vec<Tensor> =
        c["params"].as_array().into_iter().flatten().map(|p| leaf(&f.store, p)).collect::<Result<_, _>>()?;
    let kwargs = d.kwargs(&c["kwargs"], "kwargs")?;
    let tensors = |p: &[Tensor]| Value::List(p.iter().cloned().map(Value::Tensor).collect());
    let first = match c["groups"].as_array() {
        None => tensors(&params),
        Some(groups) => {
            let mut at = 0;
            let mut all = Vec::new();
            for g in groups {
                let n = g["count"].as_u64().unwrap_or(0) as usize;
                let mut group = vec![("params".to_string(), tensors(params.get(at..at + n).unwrap_or(&[])))];
                group.extend(d.kwargs(&g["options"], "options")?);
                all.push(Value::Dict(group));
                at += n;
            }
            Value::List(all)
        }
    };
    let made = object::construct(call, &[first], &kwargs)?;
    let tol = tolerance(c, "");
    let closure = &c["closure"];
    for (step, want) in c["expect"].as_array().into_iter().flatten().enumerate() {
        let loss = if closure.is_null() {
            for (p, g) in params.iter().zip(c["step_grads"][step].as_array().into_iter().flatten()) {
                // may be sparse
                let g = d.value(g, "step_grads")?.into_tensor().ok();
                (engine.set_grad)(p, g)?;
            }
            made.method("step", &[], &[])?
        } else {
            let there = |j: &J| -> Result<Tensor, Stop> { crate::device::there(tensor(&f.store, j)?) };
            let numbers = |k: &str| closure.get(k).map(there).transpose();
            let c = Closure {
                name: text(closure, "name").into(),
                p: params[0].clone(),
                a: numbers("A")?,
                b: numbers("b")?,
            };
            made.method("step", &[Value::Object(ObjectRef::new(c))], &[])?
        };
        for (i, w) in want["params"].as_array().into_iter().flatten().enumerate() {
            let g = Value::Tensor(params[i].clone());
            compare::value(&g, w, &f.store, tol)
                .map_err(|e| Stop::Failed(format!("step {step}, parameter {i}: {e}")))?;
        }
        if !want["loss"].is_null() {
            let got = match loss.first() {
                Some(Value::Tensor(t)) => t.try_item::<f64>()?,
                Some(Value::Float(x)) => *x,
                _ => return Err(Stop::Failed("step() gave no loss".into())),
            };
            let want = Value::Float(got);
            compare::value(&want, &J::from(number(&c["expect"][step]["loss"])), &f.store, tol)
                .map_err(|e| Stop::Failed(format!("step {step}, loss: {e}")))?;
        }
    }
    let Some(want) = c["state"].as_object().filter(|m| !m.is_empty()) else { return Ok(()) };
    let state = super::modules::dict(&made, "state_dict")?;
    let Some((_, Value::Dict(state))) = state.iter().find(|(k, _)| k == "state") else {
        return Err(Stop::Failed("state_dict() has no state".into()));
    };
    for (p, fields) in want {
        let Some((_, Value::Dict(got))) = state.iter().find(|(k, _)| k == p) else {
            return Err(Stop::Failed(format!("no state of parameter {p}")));
        };
        for (k, w) in fields.as_object().into_iter().flatten() {
            let g = got.iter().find(|(n, _)| n == k).map_or_else(|| Value::none(), |(_, v)| v);
            compare::value(g, w, &f.store, tol).map_err(|e| Stop::Failed(format!("state {p}.{k}: {e}")))?;
        }
    }
    Ok(())
}

/// The two functions that closures minimise.
struct Closure {
    name: String,
    p: Tensor,
    a: Option<Tensor>,
    b: Option<Tensor>,
}
impl Closure {
    fn loss(&self) -> Result<Value, Stop> {
        let text = match self.name.as_str() {
            "quadratic" => "0.5 * ((A @ p - b) ** 2).sum()",
            _ => "(100 * (p[..., 1:] - p[..., :n] ** 2) ** 2 + (1 - p[..., :n]) ** 2).sum()",
        };
        let mut env = vec![
            ("p".to_string(), Value::Tensor(self.p.clone())),
            ("n".into(), Value::Int(self.p.numel() - 1)),
        ];
        env.extend(self.a.clone().map(|t| ("A".to_string(), Value::Tensor(t))));
        env.extend(self.b.clone().map(|t| ("b".to_string(), Value::Tensor(t))));
        Expr::parse(text)?.eval(&env)
    }
}
impl Object for Closure {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, _: &[Value], _: &Kwargs) -> flambeau_core::Result<Vec<Value>> {
        let engine = flambeau_core::tensor::graph::engine()?;
        (engine.set_grad)(&self.p, None)?;
        let loss = self.loss().map_err(|e| Error::runtime(format!("{e:?}")))?;
        if let Value::Tensor(t) = &loss {
            (engine.backward)(t, None, None, false, None)?;
        }
        Ok(vec![loss])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A Python lambda over `epoch`.
struct Lambda(Expr);
impl Object for Lambda {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, args: &[Value], _: &Kwargs) -> flambeau_core::Result<Vec<Value>> {
        let epoch = args.first().cloned().unwrap_or(Value::None);
        self.0.eval(&[("epoch".into(), epoch)]).map(|v| vec![v]).map_err(|e| Error::runtime(format!("{e:?}")))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn build(d: &mut Decoder, optimizer: &ObjectRef, j: &J) -> Result<ObjectRef, Stop> {
    let call = text(j, "call");
    if object::class(call).is_none() {
        return Err(Stop::Missing(call.into()));
    }
    let mut kwargs = Vec::new();
    for (k, v) in j["kwargs"].as_object().into_iter().flatten() {
        kwargs.push((k.clone(), argument(d, optimizer, v)?));
    }
    // a chain finds its optimizer in its parts
    let chained =
        kwargs.iter().any(|(k, _)| k == "schedulers") && !kwargs.iter().any(|(k, _)| k == "milestones");
    let args = if chained { vec![] } else { vec![Value::Object(optimizer.clone())] };
    Ok(object::construct(call, &args, &kwargs)?)
}
fn argument(d: &mut Decoder, optimizer: &ObjectRef, j: &J) -> Result<Value, Stop> {
    if let Some(l) = j.as_array().or_else(|| j["list"].as_array()) {
        return Ok(Value::List(l.iter().map(|v| argument(d, optimizer, v)).collect::<Result<_, _>>()?));
    }
    if let Some(l) = j["lambda"].as_str() {
        return Ok(Value::Object(ObjectRef::new(Lambda(Expr::parse(l)?))));
    }
    if j["scheduler"].is_object() {
        return Ok(Value::Object(build(d, optimizer, &j["scheduler"])?));
    }
    d.value(j, "scheduler")
}

fn scheduler(f: &File, c: &J) -> Result<(), Stop> {
    let mut d = Decoder::new(&f.store);
    let o = &c["optimizer"];
    let call = text(o, "call");
    if object::class(call).is_none() {
        return Err(Stop::Missing(call.into()));
    }
    let mut groups = Vec::new();
    for lr in o["lrs"].as_array().into_iter().flatten() {
        let p = Tensor::zeros_raw(&[1], flambeau_core::DType::F32, flambeau_core::Device::Cpu)?;
        (flambeau_core::tensor::graph::engine()?.set_requires_grad)(&p, true)?;
        let params = Value::List(vec![Value::Tensor(p)]);
        groups.push(Value::Dict(vec![("params".into(), params), ("lr".into(), Value::Float(number(lr)))]));
    }
    let kwargs =
        [("lr".to_string(), Value::Float(0.1)), ("momentum".into(), Value::Float(number(&o["momentum"])))];
    let optimizer = object::construct(call, &[Value::List(groups)], &kwargs)?;
    let made = build(&mut d, &optimizer, &c["scheduler"])?;
    let tol = Tol::Close { rtol: number(&c["rtol"]), atol: 0.0 };
    for (i, want) in c["expect"].as_array().into_iter().flatten().enumerate() {
        if i > 0 {
            optimizer.method("step", &[], &[])?;
            let metric = &c["metrics"][i - 1];
            let args = if metric.is_null() { vec![] } else { vec![Value::Float(number(metric))] };
            made.method("step", &args, &[])?;
        }
        let Ok(groups) = optimizer.attribute("param_groups")?.into_items() else {
            return Err(Stop::Failed("param_groups is no list".into()));
        };
        for (key, values) in want.as_object().into_iter().flatten() {
            for (g, w) in groups.iter().zip(values.as_array().into_iter().flatten()) {
                let Value::Dict(g) = g else {
                    return Err(Stop::Failed("a group that is no dictionary".into()));
                };
                let got = g.iter().find(|(k, _)| k == key).and_then(|(_, v)| v.as_scalar());
                let got = Value::Float(got.map_or(f64::NAN, |s| s.to_f64()));
                let w = J::from(number(w));
                compare::value(&got, &w, &f.store, tol)
                    .map_err(|e| Stop::Failed(format!("{key} after {i} steps: {e}")))?;
            }
        }
    }
    Ok(())
}
