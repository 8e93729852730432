//! `fx/`: graphs are built from their record, printed, run, watched, and changed.

use super::super::{Case, File, Outcome, text};
use super::{fx_ports, values};
use crate::compare::{Tol, tolerance};
use crate::decode::{Decoder, Stop, tensor};
use crate::store::Store;
use flambeau_core::{Tensor, Value};
use flambeau_fx::pytree::TreeSpec;
use flambeau_fx::{Argument, CodeGen, Graph, GraphModule, Interpreter, Node, Op, Val, shape_prop};
use flambeau_library::object::{self, ObjectRef};
use serde_json::Value as J;
use std::collections::HashMap;

fn failed<T>(s: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(s.into()))
}
/// All cases of a file.
pub fn cases<'a>(f: &'a File) -> Vec<Case<'a>> {
    let mut all: Vec<Case<'a>> = Vec::new();
    let name = text(&f.json, "name");
    let mut add = |id: String, run: Box<dyn Fn() -> Result<(), Stop> + 'a>| {
        all.push(Case { id, call: name.to_string(), core: false, run: Box::new(move || Outcome::of(run())) });
    };
    if name == "fx_errors" {
        for c in f.list("cases") {
            add(text(c, "id").into(), Box::new(move || fx_ports::error(c)));
        }
        return all;
    }
    let j = &f.json;
    add("print".into(), Box::new(move || printed(&build(f, j)?, j)));
    for c in f.list("cases") {
        add(format!("run {}", text(c, "id")), Box::new(move || run(f, j, c)));
    }
    if j["intermediate"].is_object() {
        add("intermediate".into(), Box::new(move || intermediate(f, j)));
    }
    if j["shape_prop"].is_object() {
        add("shape_prop".into(), Box::new(move || shapes(f, j)));
    }
    if j["transform"].is_object() {
        add("transform".into(), Box::new(move || fx_ports::transform(f, j)));
    }
    all
}

/// The graph module that a record describes.
pub fn build(f: &File, j: &J) -> Result<GraphModule, Stop> {
    let mut d = Decoder::new(&f.store);
    let mut g = Graph::new();
    let mut names: HashMap<String, Node> = HashMap::new();
    for n in j["nodes"].as_array().into_iter().flatten() {
        let Some(op) = Op::from_name(text(n, "op")) else { return failed("an unknown kind of node") };
        let args = n["args"].as_array().into_iter().flatten();
        let args = args.map(|a| argument(&mut d, a, &names)).collect::<Result<Vec<_>, _>>()?;
        let kwargs = n["kwargs"].as_object().into_iter().flatten();
        let kwargs = kwargs
            .map(|(k, a)| Ok((k.clone(), argument(&mut d, a, &names)?)))
            .collect::<Result<Vec<_>, Stop>>()?;
        let name = text(n, "name");
        let node = g.create_named(op, text(n, "target"), args, kwargs, name)?;
        if let Some(t) = n["type"].as_str() {
            let t = t.trim_start_matches("<class '").trim_end_matches("'>");
            g.set_type(node, Some(t));
        }
        if text(n, "target").starts_with("graphsgen.") {
            g.meta_mut(node).is_wrapped = true;
        }
        names.insert(name.to_string(), node);
    }
    let code = text(j, "code");
    if code.contains("pytree") {
        g.codegen = trees(f, j, code)?;
    }
    let mut m = GraphModule::new(g);
    for (path, w) in j["modules"].as_object().into_iter().flatten() {
        m.set_module(path, module(&f.store, w)?);
    }
    for (path, w) in j["attributes"].as_object().into_iter().flatten() {
        let v = values::value(&mut d, w, path)?;
        // the record says of parameters that they want gradients only where it watches shapes
        let reader =
            m.graph.find_nodes(Op::GetAttr, Some(path)).first().map(|n| m.graph.node(*n).name.clone());
        let wants = reader.is_some_and(|n| f.json["shape_prop"][&n]["requires_grad"] == J::Bool(true));
        if let (true, Value::Tensor(t)) = (wants, &v) {
            (flambeau_core::tensor::graph::engine()?.set_requires_grad)(t, true)?;
        }
        if m.get(path).is_err() {
            m.set_value(path, v);
        }
    }
    for (path, w) in j["children"].as_object().into_iter().flatten() {
        m.set_graph(path, build(f, w)?);
    }
    m.train(false)?;
    for (path, w) in j["modules"].as_object().into_iter().flatten() {
        m.submodule(path)?.method("train", &[Value::Bool(w["training"] == J::Bool(true))], &[])?;
    }
    Ok(m)
}
/// Names of the parameters from the program's head, the result's form from the first case.
fn trees(f: &File, j: &J, code: &str) -> Result<CodeGen, Stop> {
    let head = code.lines().find_map(|l| l.strip_prefix("def forward(")).unwrap_or("");
    let names = head.split([')', ':']).next().unwrap_or("").split(", ").map(str::to_string).collect();
    let mut d = Decoder::new(&f.store);
    let c = &j["cases"][0];
    let args = values::list(&mut d, &c["args"], "args")?;
    let out = values::value(&mut d, &c["output"], "output")?;
    let inputs = TreeSpec::flatten(&Value::List(args), &mut Vec::new());
    let output = code.contains("tree_unflatten").then(|| TreeSpec::flatten(&out, &mut Vec::new()));
    Ok(CodeGen::Trees { names, inputs, output })
}
fn argument(d: &mut Decoder, j: &J, names: &HashMap<String, Node>) -> Result<Argument, Stop> {
    let many = |d: &mut Decoder, l: &J| -> Result<Vec<Argument>, Stop> {
        l.as_array().into_iter().flatten().map(|a| argument(d, a, names)).collect()
    };
    if let J::Object(m) = j {
        if let Some(n) = m.get("node").and_then(J::as_str) {
            let known = names.get(n).ok_or_else(|| Stop::Failed(format!("no node {n}")))?;
            return Ok(Argument::Node(*known));
        }
        if let Some(l) = m.get("list") {
            return Ok(Argument::List(many(d, l)?));
        }
        if let Some(l) = m.get("tuple") {
            return Ok(Argument::Tuple(many(d, l)?));
        }
        if let Some(J::Array(l)) = m.get("slice")
            && l.iter().any(J::is_object)
        {
            let l = many(d, &m["slice"])?;
            if let Ok(l) = <[Argument; 3]>::try_from(l) {
                return Ok(Argument::Slice(Box::new(l)));
            }
        }
        if let Some(o) = m.get("dict").and_then(J::as_object) {
            let all = o.iter().map(|(k, v)| Ok((k.clone(), argument(d, v, names)?)));
            return Ok(Argument::Dict(all.collect::<Result<_, Stop>>()?));
        }
    }
    Ok(d.value(j, "")?.into())
}
/// Options that are texts of the printed form, not of the constructor.
fn module(store: &Store, j: &J) -> Result<ObjectRef, Stop> {
    let class = text(j, "type");
    let short = class.rsplit('.').next().unwrap_or(class);
    let path = format!("torch.nn.{short}");
    let mut d = Decoder::new(store);
    let made = if let Some(children) = j["children"].as_object() {
        let mut all = Vec::new();
        for c in children.values() {
            all.push(Value::Object(module(store, c)?));
        }
        object::construct(&path, &all, &[])?
    } else {
        let options = j["options"].as_object().into_iter().flatten();
        let kwargs = options
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| {
                Ok((
                    k.clone(),
                    match v {
                        J::Array(l) => {
                            Value::Tuple(l.iter().map(|v| d.value(v, k)).collect::<Result<_, _>>()?)
                        }
                        v => d.value(v, k)?,
                    },
                ))
            })
            .collect::<Result<Vec<_>, Stop>>()?;
        if object::class(&path).is_none() {
            return Err(Stop::Missing(path));
        }
        object::construct(&path, &[], &kwargs)?
    };
    let mut state = Vec::new();
    for (k, v) in j["state"].as_object().into_iter().flatten() {
        state.push((k.clone(), Value::Tensor(tensor(store, v)?)));
    }
    if !state.is_empty() {
        // shared weights stand in the record once for each name: all must be loaded
        made.method("load_state_dict", &[Value::Dict(state)], &[])?;
    }
    made.method("train", &[Value::Bool(j["training"] == J::Bool(true))], &[])?;
    Ok(made)
}

/// Whether a graph prints as recorded, and its modules do.
pub fn printed(m: &GraphModule, j: &J) -> Result<(), Stop> {
    let same = |what: &str, got: &str, want: &str| {
        if got == want {
            return Ok(());
        }
        let at = got.lines().zip(want.lines()).find(|(g, w)| g != w);
        let (g, w) = at.unwrap_or((got, want));
        failed(format!("{what}: got `{g}`, expected `{w}`"))
    };
    same("graph", &m.graph.to_string(), text(j, "graph"))?;
    same("code", &m.code(), text(j, "code"))?;
    let rows = m.graph.table();
    let want = j["table"].as_array().map_or(&[][..], Vec::as_slice);
    if rows.len() != want.len() {
        return failed(format!("{} rows, expected {}", rows.len(), want.len()));
    }
    for (r, w) in rows.iter().zip(want) {
        for (c, w) in r.iter().zip(w.as_array().into_iter().flatten()) {
            same("table", c, w.as_str().unwrap_or(""))?;
        }
    }
    for n in j["nodes"].as_array().into_iter().flatten() {
        let Some(node) = m.graph.named(text(n, "name")) else {
            return failed(format!("no node {}", n["name"]));
        };
        let mut got: Vec<&str> =
            m.graph.node(node).users().iter().map(|u| m.graph.node(*u).name.as_str()).collect();
        let mut want: Vec<&str> = n["users"].as_array().into_iter().flatten().filter_map(J::as_str).collect();
        got.sort_unstable();
        want.sort_unstable();
        if got != want {
            return failed(format!("users of {}: {got:?}, expected {want:?}", n["name"]));
        }
    }
    for (path, w) in j["modules"].as_object().into_iter().flatten() {
        same(path, &m.submodule(path)?.repr(), text(w, "repr"))?;
    }
    for (path, w) in j["children"].as_object().into_iter().flatten() {
        let o = m.submodule(path)?;
        match o.downcast::<GraphModule>() {
            Some(c) => printed(c, w)?,
            None => return failed(format!("{path} is no graph")),
        }
    }
    m.lint()?;
    Ok(())
}
fn port(m: &GraphModule) -> Result<(), Stop> {
    // a function of the program itself
    let has = |n: Node| m.graph.node(n).target.starts_with("graphsgen.");
    if m.graph.nodes().any(has) {
        flambeau_library::register_function("graphsgen.fx_a.scale_by_length", |args, _| {
            let n = args[1].items().map_or(0, <[Value]>::len);
            Ok(vec![flambeau_library::method(&args[0], "__mul__", &[Value::Int(n as i64)], &[])?])
        });
    }
    Ok(())
}
/// Runs one case of a graph.
pub fn run_case(f: &File, m: &GraphModule, c: &J) -> Result<(), Stop> {
    port(m)?;
    let mut d = Decoder::new(&f.store);
    let args = values::list(&mut d, &c["args"], "args")?;
    let kwargs = values::kwargs(&mut d, &c["kwargs"])?;
    super::super::seed(c);
    match (m.run(&args, &kwargs), c.get("error")) {
        (Ok(_), Some(e)) => failed(format!("no error; expected {e}")),
        (Err(e), Some(want)) => values::judge_error(&e, want).map_err(Stop::Failed),
        (Err(e), None) => Err(e.into()),
        (Ok(got), None) => {
            values::compare(&got, &c["output"], &f.store, tolerance(c, "")).map_err(Stop::Failed)
        }
    }
}
fn run(f: &File, j: &J, c: &J) -> Result<(), Stop> {
    run_case(f, &build(f, j)?, c)
}
/// The inputs of the first case, one for each placeholder.
fn first_inputs(f: &File, m: &GraphModule, j: &J) -> Result<Vec<Value>, Stop> {
    let mut d = Decoder::new(&f.store);
    let c = &j["cases"][0];
    let mut args = values::list(&mut d, &c["args"], "args")?;
    args.extend(values::kwargs(&mut d, &c["kwargs"])?.into_iter().map(|(_, v)| v));
    Ok(match &m.graph.codegen {
        CodeGen::Trees { .. } => flambeau_fx::pytree::leaves(&Value::List(args)),
        CodeGen::Plain => args,
    })
}
fn intermediate(f: &File, j: &J) -> Result<(), Stop> {
    let m = build(f, j)?;
    port(&m)?;
    let inputs = first_inputs(f, &m, j)?;
    let got = Interpreter::new(&m).intermediate(&inputs)?;
    let tol = tolerance(&j["cases"][0], "");
    let Tol::Close { rtol, atol } = tol else { return failed("no tolerance") };
    for (name, w) in j["intermediate"].as_object().into_iter().flatten() {
        let Some((_, g)) = got.iter().find(|(n, _)| n == name) else {
            return failed(format!("no node {name}"));
        };
        // intermediate results carry other magnitudes than the last one, for which the tolerance was measured
        let tol = Tol::Close { rtol, atol: atol.max(1e-5) };
        values::compare(g, w, &f.store, tol).map_err(|e| Stop::Failed(format!("{name}: {e}")))?;
    }
    Ok(())
}
fn shapes(f: &File, j: &J) -> Result<(), Stop> {
    let mut m = build(f, j)?;
    port(&m)?;
    let inputs = first_inputs(f, &m, j)?;
    shape_prop(&mut m, &inputs)?;
    for (name, w) in j["shape_prop"].as_object().into_iter().flatten() {
        let Some(n) = m.graph.named(name) else { return failed(format!("no node {name}")) };
        meta(m.graph.node(n).meta.tensor_meta.as_ref(), w)
            .map_err(|e| Stop::Failed(format!("{name}: {e}")))?;
    }
    Ok(())
}
fn meta(got: Option<&Val>, want: &J) -> Result<(), String> {
    match (got, want) {
        (Some(Val::List(l)), J::Array(w)) => {
            if l.len() != w.len() {
                return Err(format!("{} values, expected {}", l.len(), w.len()));
            }
            l.iter().zip(w).try_for_each(|(g, w)| meta(Some(g), w))
        }
        (Some(Val::List(l)), J::Object(o)) if !o.contains_key("shape") => {
            l.iter().zip(o.values()).try_for_each(|(g, w)| meta(Some(g), w))
        }
        (Some(Val::Tensor(t)), J::Object(_)) => {
            let ints = |l: &[flambeau_fx::symbolic::Expr]| {
                J::Array(l.iter().filter_map(|e| e.as_int().map(J::from)).collect())
            };
            let format = t.memory_format.map_or(J::Null, |f| match f.name() {
                "contiguous_format" | "channels_last" | "channels_last_3d" => J::from(f.name()),
                other => J::from(other),
            });
            for (what, g, w) in [
                ("shape", ints(&t.shape), &want["shape"]),
                ("dtype", J::from(t.dtype.name()), &want["dtype"]),
                ("stride", ints(&t.stride), &want["stride"]),
                ("requires_grad", J::from(t.requires_grad), &want["requires_grad"]),
                ("memory_format", format, &want["memory_format"]),
            ] {
                if g != *w {
                    return Err(format!("{what} {g}, expected {w}"));
                }
            }
            Ok(())
        }
        (None | Some(Val::None), J::Null) => Ok(()),
        (_, J::String(_) | J::Number(_)) => Ok(()),
        (g, w) => Err(format!("got {g:?}, expected {w}")),
    }
}
/// Tensors that a graph must have where the record has them.
pub fn attributes(f: &File, m: &GraphModule, j: &J, tol: Tol) -> Result<(), Stop> {
    for (path, w) in j["attributes"].as_object().into_iter().flatten() {
        let got = m.get(path)?;
        values::compare(&got, w, &f.store, tol).map_err(|e| Stop::Failed(format!("{path}: {e}")))?;
    }
    for (path, w) in j["modules"].as_object().into_iter().flatten() {
        let o = m.submodule(path)?;
        let state: Vec<(String, Value)> = super::super::modules::dict(&o, "state_dict")?;
        for (k, w) in w["state"].as_object().into_iter().flatten() {
            let want: Tensor = tensor(&f.store, w)?;
            let Some((_, Value::Tensor(g))) = state.iter().find(|(n, _)| n == k) else {
                return failed(format!("{path} has no {k}"));
            };
            crate::compare::compare_tensors(g, &want, tol)
                .map_err(|e| Stop::Failed(format!("{path}.{k}: {e}")))?;
        }
    }
    Ok(())
}
