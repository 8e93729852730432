//! `ops/`: values and gradients of operator calls.

use super::{Case, File, Outcome, at_path, gradients, is_core, outputs, seed, text};
use crate::compare::{self, Tol, positions, tolerance, unordered};
use crate::decode::{Decoder, Stop, tensor};
use crate::expr::Expr;
use flambeau_core::{Tensor, Value};
use flambeau_library as library;
use serde_json::Value as J;

/// All cases of a file.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    let call = text(&f.json, "call");
    let case = |c: &'_ J| -> (String, bool) { (text(c, "id").to_string(), is_core(call, c)) };
    f.list("cases")
        .iter()
        .map(|c| {
            let (id, core) = case(c);
            Case { id, call: call.to_string(), core, run: Box::new(move || run(f, call, c)) }
        })
        .collect()
}

fn run(f: &File, call: &str, c: &J) -> Outcome {
    if !library::exists(call) {
        return Outcome::Missing(call.to_string());
    }
    match (crate::device::other(), judge(f, call, c)) {
        // random numbers of the CPU, and layouts that are not on devices yet
        (Some(_), Outcome::Failed(e)) if !c["seed"].is_null() => Outcome::Apart(e),
        (Some(d), Outcome::Failed(_)) if text(c, "id").starts_with("sparse_") => {
            Outcome::Missing(format!("{call} of sparse tensors on {d}"))
        }
        (_, outcome) => outcome,
    }
}
fn judge(f: &File, call: &str, c: &J) -> Outcome {
    let flag = |k: &str| c[k] == J::Bool(true);
    match forward(f, call, c) {
        Err(Stop::Failed(e)) if flag("unstable") || flag("varies") => Outcome::Apart(e),
        Err(e) => Outcome::of(Err(e)),
        Ok(got) => match backward(f, c, &got) {
            Err(Stop::Failed(e)) if flag("grad_unstable") || flag("unstable") || flag("varies") => {
                Outcome::Apart(e)
            }
            r => Outcome::of(r),
        },
    }
}

struct Got {
    outputs: Vec<Value>,
    leaves: Vec<(String, Tensor)>,
    env: Vec<(String, Value)>,
}

fn forward(f: &File, call: &str, c: &J) -> Result<Got, Stop> {
    let mut d = Decoder::new(&f.store);
    d.hosted(call, ["args", "kwargs"]);
    let args = d.args(&c["args"], "args")?;
    let kwargs = d.kwargs(&c["kwargs"], "kwargs")?;
    seed(c);
    let got = outputs(library::call(call, &args, &kwargs)?, text(c, "output_kind"));
    let want = c["outputs"].as_array().map_or(&[][..], Vec::as_slice);
    let mut env: Vec<(String, Value)> = Vec::new();
    env.extend(got.iter().enumerate().map(|(i, v)| (format!("o{i}"), v.clone())));
    env.extend(args.iter().enumerate().map(|(i, v)| (format!("a{i}"), v.clone())));
    if got.len() != want.len() {
        return Err(Stop::Failed(format!("{} outputs, expected {}", got.len(), want.len())));
    }
    let how = text(c, "compare");
    let tol = if how == "values" { tolerance(c, "") } else { Tol::Shape };
    let index_output = f.json["index_output"].as_u64().map(|i| i as usize);
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let at = |e: String| Stop::Failed(format!("output {i}: {e}"));
        if let (Some(k), Tol::Close { .. }, Value::Tensor(t), Some(Value::Tensor(input))) =
            (index_output, tol, g, args.first())
            && k == i
        {
            positions(t, &tensor(&f.store, w)?, input, dim(&args, &kwargs)).map_err(at)?;
            continue;
        }
        compare::value(g, w, &f.store, tol).map_err(at)?;
    }
    for (path, w) in c["mutated"].as_object().into_iter().flatten() {
        let g = match path.split_once('.') {
            Some(("args", p)) => at_path(&args, p),
            Some(("kwargs", p)) => kwargs.iter().find(|(k, _)| k == p).map(|(_, v)| v),
            _ => None,
        };
        let g = g.ok_or_else(|| Stop::Failed(format!("no argument {path}")))?;
        compare::value(g, w, &f.store, tol).map_err(|e| Stop::Failed(format!("{path} afterwards: {e}")))?;
    }
    for (i, inv) in c["invariants"].as_array().into_iter().flatten().enumerate() {
        let text = text(inv, "expr");
        let at = |e: String| Stop::Failed(format!("invariant {i} `{text}`: {e}"));
        let v = invariant(inv, &env)?;
        let want = tensor(&f.store, &inv["value"])?;
        let tol = tolerance(c, "");
        if inv["unordered"] == J::Bool(true) {
            unordered(&v, &want, tol).map_err(at)?;
        } else {
            compare::compare_tensors(&v, &want, tol).map_err(at)?;
        }
    }
    Ok(Got { outputs: got, leaves: d.leaves, env })
}

/// The dimension that the call names, if it is said by keyword.
fn dim(_: &[Value], kwargs: &[(String, Value)]) -> Option<i64> {
    kwargs.iter().find_map(|(k, v)| match v {
        Value::Int(i) if k == "dim" => Some(*i),
        _ => None,
    })
}

fn invariant(inv: &J, env: &[(String, Value)]) -> Result<Tensor, Stop> {
    // what the expression lacks is the fault of the case's own operator's surroundings, not a missing name of its own
    let v = Expr::parse(text(inv, "expr"))?.eval(env).map_err(|e| match e {
        Stop::Missing(n) => Stop::Failed(format!("the invariant needs {n}")),
        e => e,
    })?;
    v.into_tensor().map_err(|other| Stop::Failed(format!("an invariant that is {}", other.type_name())))
}

fn backward(f: &File, c: &J, got: &Got) -> Result<(), Stop> {
    let (Some(cotangents), Some(grads)) = (c["cotangents"].as_object(), c["grads"].as_object()) else {
        return Ok(());
    };
    let mut outs = Vec::new();
    for (path, w) in cotangents {
        let out = match path.split_once('.') {
            Some(("outputs", p)) => match at_path(&got.outputs, p) {
                Some(Value::Tensor(t)) => t.clone(),
                _ => return Err(Stop::Failed(format!("no tensor at {path}"))),
            },
            Some(("invariants", i)) => {
                invariant(&c["invariants"][i.parse::<usize>().unwrap_or(0)], &got.env)?
            }
            _ => return Err(Stop::Failed(format!("cotangent of {path}"))),
        };
        let cotangent = tensor(&f.store, w)?;
        // `x.cpu()` gives a tensor of the CPU wherever the call runs
        let on_cpu = out.device() == flambeau_core::Device::Cpu;
        outs.push((out, if on_cpu { cotangent } else { crate::device::there(cotangent)? }));
    }
    let leaves: Vec<(String, Tensor)> =
        got.leaves.iter().filter(|(p, _)| grads.contains_key(p)).cloned().collect();
    let all = gradients(&outs, &leaves).map_err(|e| prefix(e, "gradient: "))?;
    compare_gradients(f, c, grads, &leaves, &all)
}

/// Recorded gradients by path against computed ones.
pub fn compare_gradients(
    f: &File,
    c: &J,
    want: &serde_json::Map<String, J>,
    leaves: &[(String, Tensor)],
    got: &[Option<Tensor>],
) -> Result<(), Stop> {
    let tol = tolerance(c, "grad_");
    for (path, w) in want {
        let g = leaves.iter().position(|(p, _)| p == path).map(|i| got[i].clone());
        let Some(g) = g else { return Err(Stop::Failed(format!("gradient of {path}: no such leaf"))) };
        let g = g.map_or(Value::None, Value::Tensor);
        compare::value(&g, w, &f.store, tol).map_err(|e| Stop::Failed(format!("gradient of {path}: {e}")))?;
    }
    Ok(())
}

/// Puts text before a failure.
pub fn prefix(e: Stop, text: &str) -> Stop {
    match e {
        Stop::Failed(m) => Stop::Failed(format!("{text}{m}")),
        Stop::Missing(n) => Stop::Failed(format!("{text}needs {n}")),
    }
}
