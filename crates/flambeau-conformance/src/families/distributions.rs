//! `distributions/`: densities, moments, samples, divergences, transforms, constraints.
//!
//! What a distribution answers as an object: attributes `mean`, `mode`, `variance`, `stddev`, `batch_shape`, `event_shape`,
//! `has_rsample`, `has_enumerate_support`, `support`; methods `log_prob`, `cdf`, `icdf`, `entropy`, `perplexity`, `sample`,
//! `rsample`, `expand`, `enumerate_support`. A transform: a call, attributes `bijective`, `sign`, `domain`, `codomain`,
//! `inv`, methods `log_abs_det_jacobian`, `forward_shape`. A constraint: `check`.

use super::errors::judge;
use super::{Case, File, Outcome, gradients, seed, text};
use crate::compare::{self, Tol, tolerance};
use crate::decode::{Decoder, Stop, tensor};
use crate::expr::Expr;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, ErrorKind, Tensor, Value};
use flambeau_library as library;
use flambeau_library::object::ObjectRef;
use serde_json::Value as J;

const KL: &str = "torch.distributions.kl.kl_divergence";

/// All cases of a file.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    f.list("cases")
        .iter()
        .map(|c| {
            let called = ["dist", "transform"].iter().find_map(|k| c[*k]["new"]["call"].as_str());
            let call = match called {
                Some(n) => n.to_string(),
                None if c.get("p").is_some() => KL.to_string(),
                None => {
                    let name = text(c, "constraint");
                    format!("torch.distributions.constraints.{}", name.split('(').next().unwrap_or(name))
                }
            };
            let run = Box::new(move || {
                Outcome::of(match (c.get("dist"), c.get("p"), c.get("transform")) {
                    (Some(_), ..) => distribution(f, c),
                    (_, Some(_), _) => divergence(f, c),
                    (.., Some(_)) => transform(f, c),
                    _ => constraint(f, c),
                })
            });
            Case { id: text(c, "id").into(), call, core: false, run }
        })
        .collect()
}

fn object(v: Value) -> Result<ObjectRef, Stop> {
    v.into_object().map_err(|other| Stop::Failed(format!("an object expected, got {}", other.type_name())))
}
fn first(v: Vec<Value>) -> Value {
    v.into_iter().next().unwrap_or(Value::None)
}
type Got = Result<Value, Error>;

/// A recorded entry: a value, or that PyTorch raises.
fn entry(f: &File, name: &str, got: Got, want: &J, tol: Tol) -> Result<(), Stop> {
    let at = |e: String| Stop::Failed(format!("{name}: {e}"));
    if let Some(class) = want["error"].as_str() {
        return match got {
            Ok(_) => Err(at(format!("no error, expected {class}"))),
            Err(e) => {
                // the first line only is recorded
                let line = Error::new(e.kind(), e.message().lines().next().unwrap_or(""));
                judge(&line, class, text(want, "message"), None).map_err(at)
            }
        };
    }
    let got = got.map_err(|e| at(format!("{e:?}")))?;
    if let (Value::Object(o), J::String(s)) = (&got, want) {
        return if o.repr() == *s { Ok(()) } else { Err(at(format!("{}, expected {s}", o.repr()))) };
    }
    compare::value(&got, want, &f.store, tol).map_err(at)
}

fn distribution(f: &File, c: &J) -> Result<(), Stop> {
    let mut d = Decoder::new(&f.store);
    let dist = object(d.value(&c["dist"], "dist")?)?;
    let value = tensor(&f.store, &c["value"])?;
    let v = Value::Tensor(value.clone());
    let expect = &c["expect"];
    let tol = tolerance(c, "");
    let shape = |n: i64| Value::Tuple(vec![Value::Int(n)]);
    let method = |name: &str, args: &[Value]| -> Got { Ok(first(dist.method(name, args, &[])?)) };
    for (name, want) in expect.as_object().into_iter().flatten() {
        let (got, tol): (Got, Tol) = match name.as_str() {
            "log_prob" | "cdf" => (method(name, std::slice::from_ref(&v)), tol),
            "icdf" => (points(&dist, value.dtype()).and_then(|p| method(name, &[p])), tol),
            "entropy" | "perplexity" | "enumerate_support" => (method(name, &[]), tol),
            "sample" | "rsample" => {
                if want.is_null() {
                    continue;
                }
                seed(c);
                (method(name, &[shape(if name == "sample" { 3 } else { 2 })]), tol)
            }
            "expand_log_prob" => (expand(&dist, &v), tol),
            "grads" => continue,
            _ => (dist.attribute(name), tol),
        };
        entry(f, name, got, want, tol)?;
    }
    for (name, want) in expect["grads"]["dict"].as_object().into_iter().flatten() {
        // every quantity anew: graphs are used once
        let mut d = Decoder::new(&f.store);
        d.all_leaves = true;
        let dist = object(d.value(&c["dist"], "dist")?)?;
        let out = match name.as_str() {
            "log_prob" => dist.method(name, std::slice::from_ref(&v), &[]).map(first),
            "entropy" => dist.method(name, &[], &[]).map(first),
            _ => dist.attribute(name),
        };
        if want.get("error").is_some() {
            entry(f, name, out, want, tol)?;
            continue;
        }
        let Ok(out) = out?.into_tensor() else { return Err(Stop::Failed(format!("{name} is no tensor"))) };
        let wanted = want["dict"].as_object();
        if wanted.is_some_and(|w| w.values().all(J::is_null)) {
            // PyTorch's result has no history either
            if out.requires_grad() {
                return Err(Stop::Failed(format!("{name} has a gradient")));
            }
            continue;
        }
        let ones = first(library::call("torch.ones_like", &[Value::Tensor(out.clone())], &[])?);
        let Ok(ones) = ones.into_tensor() else {
            return Err(Stop::Failed("ones_like gave no tensor".into()));
        };
        let grads = gradients(&[(out, ones)], &d.leaves)?;
        for (path, w) in want["dict"].as_object().into_iter().flatten() {
            let full = format!("dist.{path}");
            let i = d.leaves.iter().position(|(p, _)| *p == full);
            let g = i.and_then(|i| grads[i].clone()).map_or(Value::None, Value::Tensor);
            compare::value(&g, w, &f.store, tol)
                .map_err(|e| Stop::Failed(format!("gradient of {name} by {path}: {e}")))?;
        }
    }
    Ok(())
}
/// `[0.05, 0.3, 0.5, 0.9]` with one dimension of size 1 per batch dimension.
fn points(dist: &ObjectRef, dtype: flambeau_core::DType) -> Got {
    let dims = dist.attribute("batch_shape")?.items().map_or(0, <[Value]>::len);
    let mut shape = vec![4i64];
    shape.extend(std::iter::repeat_n(1, dims));
    let t = Tensor::from_vec_raw(vec![0.05f64, 0.3, 0.5, 0.9], &shape)?;
    Ok(Value::Tensor(t.try_to(dtype)?))
}
fn expand(dist: &ObjectRef, v: &Value) -> Got {
    let mut shape = vec![Value::Int(2), Value::Int(1)];
    shape.extend(dist.attribute("batch_shape")?.items().unwrap_or(&[]).iter().cloned());
    let Ok(wide) = first(dist.method("expand", &[Value::Tuple(shape)], &[])?).into_object() else {
        return Err(Error::runtime("expand() gave no distribution"));
    };
    match first(wide.method("log_prob", std::slice::from_ref(v), &[])?).into_tensor() {
        Ok(t) => Ok(Value::List(t.sizes().iter().map(|&n| Value::Int(n)).collect())),
        Err(other) => Ok(other),
    }
}

fn divergence(f: &File, c: &J) -> Result<(), Stop> {
    let mut d = Decoder::new(&f.store);
    let p = d.value(&c["p"], "p")?;
    let q = d.value(&c["q"], "q")?;
    let names = [KL, "torch.distributions.kl_divergence"];
    let Some(name) = names.iter().find(|n| library::exists(n)) else { return Err(Stop::Missing(KL.into())) };
    entry(f, "kl", library::call(name, &[p, q], &[]).map(first), &c["expect"]["kl"], tolerance(c, ""))
}

fn transform(f: &File, c: &J) -> Result<(), Stop> {
    let mut d = Decoder::new(&f.store);
    let t = object(d.value(&c["transform"], "transform")?)?;
    let x = tensor(&f.store, &c["x"])?;
    let tol = tolerance(c, "");
    let xv = Value::Tensor(x.clone());
    let y = t.call(std::slice::from_ref(&xv), &[]).map(first);
    for (name, want) in c["expect"].as_object().into_iter().flatten() {
        let y = || y.as_ref().map_err(Clone::clone).cloned();
        let got: Got = match name.as_str() {
            "y" => y(),
            "inv" => t.attribute("inv").and_then(|inv| match &inv {
                Value::Object(o) => Ok(first(o.call(&[y()?], &[])?)),
                _ => Err(Error::runtime("inv is no transform")),
            }),
            "log_abs_det_jacobian" => y().and_then(|y| Ok(first(t.method(name, &[xv.clone(), y], &[])?))),
            "forward_shape" => {
                let shape = Value::Tuple(x.sizes().iter().map(|&n| Value::Int(n)).collect());
                t.method(name, &[shape], &[]).map(first)
            }
            _ => t.attribute(name),
        };
        entry(f, name, got, want, tol)?;
    }
    Ok(())
}

fn constraint(f: &File, c: &J) -> Result<(), Stop> {
    let text_ = text(c, "constraint");
    let (name, args) = text_.split_once('(').unwrap_or((text_, ""));
    let prefix = "torch.distributions.constraints.";
    let source = if args.is_empty() { String::new() } else { format!("({args}") };
    let path = format!("{prefix}{name}");
    if !library::exists(&path) {
        return Err(Stop::Missing(path));
    }
    // constraints without arguments are objects, the others are made by calls; arguments may name constraints
    let expr = format!("{path}{}", if source.is_empty() { "()".into() } else { source });
    let env = [("positive".to_string(), constraint_value(&format!("{prefix}positive"))?)];
    let made = object(Expr::parse(&expr)?.eval(&env)?)?;
    let x = tensor(&f.store, &c["x"])?;
    let tol = tolerance(c, "");
    for (entry_name, want) in c["expect"].as_object().into_iter().flatten() {
        let got: Got = match entry_name.as_str() {
            "transform_to" | "biject_to" => {
                let path = format!("torch.distributions.{entry_name}");
                library::call(&path, &[Value::Object(made.clone())], &[]).and_then(|t| match &first(t) {
                    Value::Object(t) => Ok(first(t.call(&[Value::Tensor(x.clone())], &[])?)),
                    _ => Err(Error::runtime("no transform")),
                })
            }
            "check" => made.method("check", &[Value::Tensor(x.clone())], &[]).map(first),
            "check_values" => {
                let all = vec![-1.5f64, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0, f64::NAN, f64::INFINITY];
                let t = Tensor::from_vec_raw(all, &[10])?.try_to(x.dtype())?;
                made.method("check", &[Value::Tensor(t)], &[]).map(first)
            }
            "text" => Ok(Value::Object(made.clone())),
            other => Err(Error::new(ErrorKind::Attribute, other)),
        };
        entry(f, entry_name, got, want, tol)?;
    }
    Ok(())
}
fn constraint_value(path: &str) -> Result<Value, Stop> {
    crate::decode::build(path, &[], &[])
}
