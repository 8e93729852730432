//! `export/`, `models/export`: archives are loaded, printed, and run at all recorded sizes.

use super::super::{Case, File, Outcome, at_path, gradients, seed, text};
use super::values;
use crate::compare::{self, tolerance};
use crate::decode::{Decoder, Stop, tensor};
use flambeau_core::{ErrorKind, Tensor, Value};
use flambeau_export::graph_signature::ArgumentSpec;
use flambeau_export::{
    ExportedModule, ExportedProgram, UnflattenedModule, default_decompositions, load, unflatten,
};
use flambeau_fx::pytree;
use serde_json::{Value as J, json};

fn failed<T>(s: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(s.into()))
}
fn same(what: &str, got: &str, want: &str) -> Result<(), Stop> {
    if got == want {
        return Ok(());
    }
    let at = got.lines().zip(want.lines()).find(|(g, w)| g != w);
    let (g, w) = at.unwrap_or((got, want));
    failed(format!("{what}: got `{g}`, expected `{w}`"))
}
/// All cases of a file.
pub fn cases<'a>(f: &'a File) -> Vec<Case<'a>> {
    let mut all: Vec<Case<'a>> = Vec::new();
    let j = &f.json;
    let name = text(j, "name");
    let mut add = |id: String, run: Box<dyn Fn() -> Result<(), Stop> + 'a>| {
        all.push(Case { id, call: name.to_string(), core: false, run: Box::new(move || Outcome::of(run())) });
    };
    if name == "export_errors" {
        for c in f.list("cases") {
            let missing = || Err(Stop::Missing("export of a program of ours".into()));
            add(text(c, "id").into(), Box::new(missing));
        }
        return all;
    }
    let archive = text(j, "archive");
    let p = &j["program"];
    add("text".into(), Box::new(move || same("text", &open(f, archive)?.to_string(), text(p, "text"))));
    add("program".into(), Box::new(move || described(&open(f, archive)?, p)));
    add(
        "module_code".into(),
        Box::new(move || same("module_code", &open(f, archive)?.module()?.code(), text(j, "module_code"))),
    );
    for c in f.list("cases") {
        add(format!("run {}", text(c, "id")), Box::new(move || run(f, archive, c)));
    }
    let core = &j["core"];
    if core.is_object() {
        let archive = text(core, "archive");
        add(
            "core text".into(),
            Box::new(move || same("text", &open(f, archive)?.to_string(), text(core, "text"))),
        );
        add("core program".into(), Box::new(move || described(&open(f, archive)?, core)));
        for c in f.list("cases") {
            let plain = c["error"].is_null() && c["seed"].is_null() && j["training"] != J::Bool(true);
            if plain {
                add(format!("core run {}", text(c, "id")), Box::new(move || run(f, archive, c)));
            }
        }
        let program = text(j, "archive");
        add("decompose".into(), Box::new(move || decomposed(f, program, core)));
    }
    if j["unflatten"].is_object() {
        add("unflatten".into(), Box::new(move || unflattened(f, archive)));
    }
    all
}
/// Our own decomposition: the core set's operators, and the results of the cases.
fn decomposed(f: &File, archive: &str, core: &J) -> Result<(), Stop> {
    let p = match open(f, archive)?.run_decompositions(&default_decompositions()) {
        Err(e) if e.kind() == ErrorKind::Missing => return Err(Stop::Missing(e.message().to_string())),
        p => p?,
    };
    let training = f.json["training"] == J::Bool(true);
    for c in f.list("cases").iter().filter(|_| !training) {
        if c["error"].is_null() && c["seed"].is_null() && c["after"].is_null() {
            // a run may write to the weights: each has its own
            let p = open(f, archive)?.run_decompositions(&default_decompositions())?;
            call(f, &p.module()?, c)?;
        }
    }
    let operators = json!(p.operators());
    let (got, want) = (&operators, &core["operators"]);
    let without = |a: &J, b: &J| -> Vec<J> {
        let b = b.as_array().cloned().unwrap_or_default();
        a.as_array().into_iter().flatten().filter(|o| !b.contains(o)).cloned().collect()
    };
    if got != want {
        return failed(format!(
            "operators: {:?} too many, {:?} missing",
            without(got, want),
            without(want, got)
        ));
    }
    Ok(())
}
/// The modules of the program, its own graph, and the same results as before.
fn unflattened(f: &File, archive: &str) -> Result<(), Stop> {
    let want = &f.json["unflatten"];
    let m = match unflatten(&open(f, archive)?) {
        Err(e) if e.kind() == ErrorKind::Missing => return Err(Stop::Missing(e.message().to_string())),
        m => m?,
    };
    // graphs of branches stand in an order that is Python's of sets
    let sorted = |mut l: Vec<String>| {
        l.sort();
        l.join(" ")
    };
    let names = want["modules"].as_array().into_iter().flatten().filter_map(J::as_str).map(str::to_string);
    // where PyTorch refuses the program, the results alone say something
    if want["graph"].is_null() {
        return unflattened_run(f, &m);
    }
    same("modules", &sorted(m.named_modules().to_vec()), &sorted(names.collect()))?;
    same("graph", &m.graph().to_string(), text(want, "graph"))?;
    unflattened_run(f, &m)
}
fn unflattened_run(f: &File, m: &UnflattenedModule) -> Result<(), Stop> {
    let plain = |c: &&J| c["error"].is_null() && c["seed"].is_null() && c["after"].is_null();
    let Some(c) = f.list("cases").iter().find(plain) else { return Ok(()) };
    let mut d = Decoder::new(&f.store);
    let args = values::list(&mut d, &c["args"], "args")?;
    let got = m.run(&args, &values::kwargs(&mut d, &c["kwargs"])?)?;
    values::compare(&got, &c["output"], &f.store, tolerance(c, "")).map_err(Stop::Failed)
}
fn open(f: &File, archive: &str) -> Result<ExportedProgram, Stop> {
    Ok(load(f.folder.join(archive))?)
}
/// The program's code, signature, ranges and operators.
fn described(p: &ExportedProgram, want: &J) -> Result<(), Stop> {
    same("code", &p.graph_module.code(), text(want, "code"))?;
    let arg = |a: &ArgumentSpec| {
        let mut o = json!({ "kind": a.class_name(), "name": a.name() });
        if let ArgumentSpec::Constant(_, v) = a {
            o["value"] = match v {
                Value::Bool(b) => json!(b),
                Value::Int(i) => json!(i),
                Value::Float(x) => json!(x),
                Value::Str(s) => json!(s),
                _ => J::Null,
            };
        }
        o
    };
    let inputs: Vec<J> = p
        .graph_signature
        .input_specs
        .iter()
        .map(|s| json!({ "kind": s.kind.name(), "arg": arg(&s.arg), "target": s.target, "persistent": s.persistent }))
        .collect();
    let outputs: Vec<J> = p
        .graph_signature
        .output_specs
        .iter()
        .map(|s| json!({ "kind": s.kind.name(), "arg": arg(&s.arg), "target": s.target }))
        .collect();
    let got = json!({ "inputs": inputs, "outputs": outputs });
    if got != want["signature"] {
        return failed(format!("signature {got}, expected {}", want["signature"]));
    }
    for (name, r) in want["range_constraints"].as_object().into_iter().flatten() {
        let Some((_, g)) = p.range_constraints.iter().find(|(n, _)| n == name) else {
            return failed(format!("no range of {name}"));
        };
        let same = |got: Option<i64>, want: &J| want.as_i64() == got || (got.is_none() && !want.is_i64());
        if !same(g.min, &r[0]) || !same(g.max, &r[1]) {
            return failed(format!("range of {name}: {g:?}, expected {r}"));
        }
    }
    let operators = json!(p.operators());
    if operators != want["operators"] {
        return failed(format!("operators {operators}, expected {}", want["operators"]));
    }
    Ok(())
}
fn run(f: &File, archive: &str, c: &J) -> Result<(), Stop> {
    let m = open(f, archive)?.module()?;
    // what the module did before
    let mut before = Vec::new();
    let mut at = c;
    while let Some(id) = at["after"].as_str() {
        let Some(earlier) = f.list("cases").iter().find(|c| text(c, "id") == id) else {
            return failed(format!("no case {id}"));
        };
        before.push(earlier);
        at = earlier;
    }
    for c in before.into_iter().rev() {
        call(f, &m, c)?;
    }
    call(f, &m, c)
}
fn call(f: &File, m: &ExportedModule, c: &J) -> Result<(), Stop> {
    let mut d = Decoder::new(&f.store);
    let args = values::list(&mut d, &c["args"], "args")?;
    let kwargs = values::kwargs(&mut d, &c["kwargs"])?;
    seed(c);
    let got = match (m.run(&args, &kwargs), c.get("error")) {
        (Ok(_), Some(e)) => return failed(format!("no error; expected {e}")),
        (Err(e), Some(want)) => return values::judge_error(&e, want).map_err(Stop::Failed),
        (Err(e), None) => return Err(e.into()),
        (Ok(got), None) => got,
    };
    let tol = tolerance(c, "");
    values::compare(&got, &c["output"], &f.store, tol).map_err(Stop::Failed)?;
    let all = Value::Tuple(vec![Value::Tuple(args.clone()), Value::Dict(kwargs)]);
    let leaves = pytree::leaves(&all);
    for pair in c["mutated"].as_array().into_iter().flatten() {
        let at = pair[0].as_u64().and_then(|i| leaves.get(i as usize)).unwrap_or(Value::none());
        values::compare(at, &pair[1], &f.store, tol)
            .map_err(|e| Stop::Failed(format!("input {}: {e}", pair[0])))?;
    }
    let state = m.state();
    for (k, w) in c["state_after"].as_object().into_iter().flatten() {
        let Some((_, t)) = state.iter().find(|(n, _)| n == k) else { return failed(format!("no state {k}")) };
        values::compare(&Value::Tensor(t.clone()), w, &f.store, tol)
            .map_err(|e| Stop::Failed(format!("{k} afterwards: {e}")))?;
    }
    let Some(want) = c["grads"].as_object() else { return Ok(()) };
    let outputs = match &got {
        Value::Tuple(l) | Value::List(l) => l.clone(),
        v => vec![v.clone()],
    };
    let mut outs = Vec::new();
    for (path, w) in c["cotangents"].as_object().into_iter().flatten() {
        match at_path(&outputs, path) {
            Some(Value::Tensor(t)) => outs.push((t.clone(), tensor(&f.store, w)?)),
            _ => return failed(format!("no tensor at {path}")),
        }
    }
    let mut inputs: Vec<(String, Tensor)> = Vec::new();
    for k in want.keys() {
        let t = match (k.strip_prefix("params."), k.strip_prefix("inputs.")) {
            (Some(name), _) => state.iter().find(|(n, _)| n == name).map(|(_, t)| t.clone()),
            (_, Some(path)) => match at_path(&args, path) {
                Some(Value::Tensor(t)) => Some(t.clone()),
                _ => None,
            },
            _ => None,
        };
        let Some(t) = t else { return failed(format!("nothing is called {k}")) };
        inputs.push((k.clone(), t));
    }
    let grads = gradients(&outs, &inputs)?;
    for ((k, _), g) in inputs.iter().zip(grads) {
        let Some(g) = g else { return failed(format!("no gradient of {k}")) };
        compare::compare_tensors(&g, &tensor(&f.store, &want[k])?, tolerance(c, "grad_"))
            .map_err(|e| Stop::Failed(format!("gradient of {k}: {e}")))?;
    }
    Ok(())
}
