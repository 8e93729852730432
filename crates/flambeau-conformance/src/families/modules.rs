//! `modules/`: constructors, initial state, forward, changed state, gradients.
//!
//! What a module answers as an [`Object`](flambeau_library::object::Object): a call is `forward`; methods `to`,
//! `train`, `state_dict` (a dictionary) and `named_parameters` (a dictionary).

use super::ops::{compare_gradients, prefix};
use super::{Case, File, Outcome, at_path, gradients, outputs, seed, text};
use crate::compare::{self, Tol, tolerance};
use crate::decode::{Decoder, Stop, tensor};
use flambeau_core::{DType, Tensor, Value};
use flambeau_library::object::{self, ObjectRef};
use serde_json::Value as J;

/// All cases of a file.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    let call = text(&f.json, "call");
    f.list("cases")
        .iter()
        .map(|c| {
            let run = Box::new(move || {
                if object::class(call).is_some() { judge(f, call, c) } else { Outcome::Missing(call.into()) }
            });
            Case { id: text(c, "id").into(), call: call.into(), core: false, run }
        })
        .collect()
}

fn judge(f: &File, call: &str, c: &J) -> Outcome {
    let apart = c["unstable"] == J::Bool(true) || c["grad_unstable"] == J::Bool(true);
    match run(f, call, c) {
        Err(Stop::Failed(e)) if apart => Outcome::Apart(e),
        r => Outcome::of(r),
    }
}

/// A dictionary that a method gives, or pairs of names and values.
pub fn dict(o: &ObjectRef, method: &str) -> Result<Vec<(String, Value)>, Stop> {
    match o.method(method, &[], &[])?.first() {
        Some(Value::Dict(d)) => Ok(d.clone()),
        Some(Value::List(l)) => {
            let pair = |v: &Value| match v.items() {
                Some([Value::Str(n), v]) => Ok((n.clone(), v.clone())),
                _ => Err(Stop::Failed(format!("{method}() gave no pairs"))),
            };
            l.iter().map(pair).collect()
        }
        _ => Err(Stop::Failed(format!("{method}() gave no dictionary"))),
    }
}

fn run(f: &File, call: &str, c: &J) -> Result<(), Stop> {
    let mut d = Decoder::new(&f.store);
    seed(c);
    let args = d.args(&c["ctor"]["args"], "ctor.args")?;
    let kwargs = d.kwargs(&c["ctor"]["kwargs"], "ctor.kwargs")?;
    let module = crate::device::on_the_cpu(|| object::construct(call, &args, &kwargs))?;
    let dtype = DType::from_name(text(c, "dtype")).ok_or_else(|| Stop::Failed("unknown dtype".into()))?;
    module.method("to", &[Value::DType(dtype)], &[])?;
    module.method("train", &[Value::Bool(c["training"] == J::Bool(true))], &[])?;
    if let Some(want) = c["state_dict"].as_object() {
        let got = dict(&module, "state_dict")?;
        compare::dict(&got, want, &f.store, Tol::Bits)
            .map_err(|e| Stop::Failed(format!("initial state: {e}")))?;
    }
    if let Some(device) = crate::device::other() {
        module.method("to", &[Value::Device(device)], &[])?;
    }
    d.leaves.clear();
    let args = d.args(&c["forward"]["args"], "args")?;
    let kwargs = d.kwargs(&c["forward"]["kwargs"], "kwargs")?;
    seed(c);
    let got = outputs(module.call(&args, &kwargs)?, text(c, "output_kind"));
    let want = c["outputs"].as_array().map_or(&[][..], Vec::as_slice);
    let tol = tolerance(c, "");
    if got.len() != want.len() {
        return Err(Stop::Failed(format!("{} outputs, expected {}", got.len(), want.len())));
    }
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        compare::value(g, w, &f.store, tol).map_err(|e| Stop::Failed(format!("output {i}: {e}")))?;
    }
    if let Some(after) = c["state_after"].as_object() {
        let state = dict(&module, "state_dict")?;
        for (k, w) in after {
            let g = state.iter().find(|(n, _)| n == k).map_or_else(|| Value::none(), |(_, v)| v);
            compare::value(g, w, &f.store, tol).map_err(|e| Stop::Failed(format!("{k} afterwards: {e}")))?;
        }
    }
    let (Some(inputs), Some(params)) = (c["grads"]["inputs"].as_object(), c["grads"]["params"].as_object())
    else {
        return Ok(());
    };
    let mut outs = Vec::new();
    for (path, w) in c["cotangents"].as_object().into_iter().flatten() {
        match path.strip_prefix("outputs.").and_then(|p| at_path(&got, p)) {
            Some(Value::Tensor(t)) => outs.push((t.clone(), crate::device::there(tensor(&f.store, w)?)?)),
            _ => return Err(Stop::Failed(format!("no tensor at {path}"))),
        }
    }
    if outs.is_empty() {
        return Ok(());
    }
    let mut leaves: Vec<(String, Tensor)> =
        d.leaves.iter().filter(|(p, _)| inputs.contains_key(p)).cloned().collect();
    for (name, v) in dict(&module, "named_parameters")? {
        match &v {
            Value::Tensor(t) if params.contains_key(&name) => leaves.push((name, t.clone())),
            _ => {}
        }
    }
    let all = gradients(&outs, &leaves).map_err(|e| prefix(e, "gradient: "))?;
    compare_gradients(f, c, inputs, &leaves, &all)?;
    compare_gradients(f, c, params, &leaves, &all)
}
