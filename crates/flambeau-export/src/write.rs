//! Writing `.pt2` archives.

use crate::graph_signature::{ArgumentSpec, InputKind, InputSpec, OutputKind, OutputSpec};
use crate::program::ExportedProgram;
use crate::read::Operator;
use crate::schemas::{self, Schema};
use crate::specs;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Error, Layout, MemoryFormat, Result, Tensor, Value, ops};
use flambeau_fx::symbolic::{Bindings, Expr, Number};
use flambeau_fx::{Argument, Graph, GraphModule, Node, NodeData, Op, TensorMeta, Val};
use flambeau_serialization::container::{ArchiveWriter, atomic_write};
use flambeau_serialization::copy_contiguous;
use flambeau_serialization::torch_format::Tree;
use serde_json::{Map, Value as J, json};
use std::path::Path;

/// Writes a program as PyTorch's `torch.export.load` reads it; `load` reads it too. A file that is there is replaced when the new
/// one is whole.
///
/// ```
/// use torch::{Tensor, export, nn, prelude::*};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("net.pt2");
/// let net = nn::Linear::new(2, 3);
/// export::save(&export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::ones([4, 2])]), &path)?;
/// assert_eq!(export::load(&path)?.operators(), ["aten.linear.default"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Of the file system; a graph that calls what ATen does not have, or that holds values that files cannot.
#[doc(alias = "torch.export.save")]
pub fn save(program: &ExportedProgram, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let model = model(program)?;
    let records = records(program)?;
    let name = path.file_stem().and_then(|s| s.to_str()).unwrap_or("archive").to_string();
    let written = atomic_write(path, |out| {
        let mut zip = ArchiveWriter::new(out, &name);
        for (name, bytes) in &records {
            zip.record(name, bytes)?;
        }
        zip.record("models/model.json", model.to_string().as_bytes())?;
        zip.record("archive_format", b"pt2")?;
        zip.record("archive_version", b"0")?;
        zip.record("byteorder", if cfg!(target_endian = "big") { b"big" } else { b"little" })?;
        zip.finish()?;
        Ok(())
    });
    written.map_err(|e| Error::serialization(format!("{}: {e}", path.display())))
}

fn dtype(d: DType) -> Result<i64> {
    let known = (1..=35).find(|n| flambeau_serialization::tensors::exported_dtype(*n) == Some(d));
    known
        .ok_or_else(|| Error::serialization(format!("torch.{} has no number in exported programs", d.name())))
}
fn device(d: Device) -> J {
    let text = d.to_string();
    match text.split_once(':') {
        Some((kind, i)) => json!({ "type": kind, "index": i.parse::<i64>().ok() }),
        None => json!({ "type": text, "index": null }),
    }
}
fn layout(l: Layout) -> i64 {
    match l.name() {
        "sparse_coo" => 1,
        "sparse_csr" => 2,
        "sparse_csc" => 3,
        "sparse_bsr" => 4,
        "sparse_bsc" => 5,
        _ => 7,
    }
}
fn memory_format(m: MemoryFormat) -> i64 {
    match m {
        MemoryFormat::Contiguous => 1,
        MemoryFormat::ChannelsLast => 2,
        MemoryFormat::ChannelsLast3d => 3,
        _ => 4,
    }
}
fn float(x: f64) -> J {
    match x {
        x if x.is_nan() => json!("NaN"),
        x if x.is_infinite() => json!(if x > 0.0 { "Infinity" } else { "-Infinity" }),
        x => json!(x),
    }
}
fn number(e: &Expr, at: &Bindings) -> J {
    match e {
        Expr::Int(i) => json!({ "as_int": i }),
        Expr::Float(x) => json!({ "as_float": float(*x) }),
        Expr::Bool(b) => json!({ "as_bool": b }),
        e => {
            let hint = match e.evaluate(at) {
                Some(Number::Int(i)) => json!({ "as_int": i }),
                Some(Number::Float(x)) => json!({ "as_float": float(x) }),
                Some(Number::Bool(b)) => json!({ "as_bool": b }),
                None => J::Null,
            };
            json!({ "as_expr": { "expr_str": e.srepr(), "hint": hint } })
        }
    }
}
fn tensor_meta(t: &TensorMeta, at: &Bindings) -> Result<J> {
    let all = |l: &[Expr]| l.iter().map(|e| number(e, at)).collect::<Vec<_>>();
    Ok(json!({
        "dtype": dtype(t.dtype)?,
        "sizes": all(&t.shape),
        "requires_grad": t.requires_grad,
        "device": device(t.device),
        "strides": all(&t.stride),
        "storage_offset": number(&t.storage_offset, at),
        "layout": layout(t.layout),
    }))
}
/// A value without tensors.
fn plain(v: &Value) -> Result<J> {
    let all = |l: &[Value]| l.iter().map(plain).collect::<Result<Vec<J>>>().map(J::from);
    Ok(match v {
        Value::None => J::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(x) => json!(x),
        Value::Str(s) => json!(s),
        Value::List(l) | Value::Tuple(l) => all(l)?,
        Value::Dict(d) => {
            J::Object(d.iter().map(|(k, v)| Ok((k.clone(), plain(v)?))).collect::<Result<_>>()?)
        }
        v => return Err(Error::serialization(format!("an annotation that is a {}", v.type_name()))),
    })
}
fn named(name: &str) -> J {
    json!({ "as_tensor": { "name": name } })
}
fn within(e: Error, what: impl std::fmt::Display) -> Error {
    Error::new(e.kind(), format!("{what}: {}", e.message()))
}

/// A value for each symbol: the one that it has in an example of the program.
pub(crate) fn hints(p: &ExportedProgram) -> Bindings {
    let mut at = Bindings::new();
    for (i, (name, r)) in p.range_constraints.iter().enumerate() {
        let symbol = name.starts_with('s') && name.chars().skip(1).all(|c| c.is_ascii_digit());
        if !symbol {
            continue;
        }
        let mut n = (3 + 2 * i as i64).max(r.min.unwrap_or(0));
        if let Some(max) = r.max {
            n = n.min(max);
        }
        at.insert(name.clone(), n);
    }
    let leaves = p.example_inputs.as_ref().map(flambeau_fx::pytree::leaves).unwrap_or_default();
    let inputs = p.graph_module.graph.find_nodes(Op::Placeholder, None);
    let users =
        inputs.iter().zip(&p.graph_signature.input_specs).filter(|(_, s)| s.kind == InputKind::UserInput);
    let users: Vec<Node> = users.map(|(n, _)| *n).collect();
    if leaves.len() == users.len() {
        for (n, v) in users.iter().zip(&leaves) {
            let (Some(Val::Tensor(m)), Value::Tensor(t)) = (&p.graph_module.graph.node(*n).meta.val, v)
            else {
                continue;
            };
            for (e, n) in m.shape.iter().zip(t.sizes()) {
                if let Some((name, n)) = e.solve(*n) {
                    at.insert(name, n);
                }
            }
        }
    }
    at
}

struct Writer<'a> {
    graph: &'a Graph,
    module: &'a GraphModule,
    at: &'a Bindings,
    tensors: Map<String, J>,
    ints: Map<String, J>,
    floats: Map<String, J>,
    bools: Map<String, J>,
    /// Symbols that the program's tensors know as numbers that may be below 1, such as integers among the inputs.
    loose: Vec<String>,
}
/// Whether a part of a result is nothing: nothing is known of it, and nobody uses it.
fn is_nothing(g: &Graph, part: Node) -> bool {
    let d = g.node(part);
    d.meta.val.is_none() && d.users().is_empty()
}
/// Those in a graph's sizes.
fn loose(g: &Graph) -> Vec<String> {
    let mut all = Vec::new();
    for n in g.nodes() {
        let Some(Val::Tensor(t)) = &g.node(n).meta.val else { continue };
        for e in t.shape.iter().chain(&t.stride) {
            let text = if matches!(e, Expr::Int(_)) { continue } else { e.srepr() };
            for name in e.symbols() {
                if name.starts_with('s')
                    && text.contains(&format!("'{name}', integer"))
                    && !all.contains(&name)
                {
                    all.push(name);
                }
            }
        }
    }
    all
}
fn is_truth(e: &Expr) -> bool {
    matches!(e, Expr::Relation(..) | Expr::And(_) | Expr::Or(_) | Expr::Not(_) | Expr::Bool(_))
}
impl Writer<'_> {
    /// The kind of number that a node gives.
    fn kind(&self, n: Node) -> Option<&'static str> {
        match &self.graph.node(n).meta.val {
            Some(Val::Sym(text)) => {
                let e = Expr::read(text).ok();
                Some(match e {
                    Some(e) if is_truth(&e) => "as_sym_bool",
                    Some(e) if e.is_float() => "as_sym_float",
                    Some(_) => "as_sym_int",
                    // floating symbols and functions of them
                    None => "as_sym_float",
                })
            }
            _ => None,
        }
    }
    /// Notes what a node gives.
    fn know(&mut self, n: Node) -> Result<()> {
        let d = self.graph.node(n);
        match &d.meta.val {
            Some(Val::Tensor(t)) => {
                self.tensors.insert(d.name.clone(), tensor_meta(t, self.at)?);
            }
            Some(Val::Sym(text)) => {
                let e = Expr::read(text).map_err(|e| within(e, format!("the number '{}'", d.name)))?;
                let mut j = number(&e, self.at);
                if let Some(J::String(text)) = j.pointer_mut("/as_expr/expr_str") {
                    for name in &self.loose {
                        let (from, to) = (format!("'{name}', positive=True,"), format!("'{name}',"));
                        *text = text.replace(&from, &to);
                    }
                }
                match self.kind(n) {
                    Some("as_sym_bool") => self.bools.insert(d.name.clone(), j),
                    Some("as_sym_float") => self.floats.insert(d.name.clone(), j),
                    _ => self.ints.insert(d.name.clone(), j),
                };
            }
            _ => {}
        }
        Ok(())
    }
    fn node(&mut self, n: Node) -> Result<J> {
        if !self.graph.has(n) {
            return Err(Error::serialization("an argument is a node of another graph"));
        }
        let d = self.graph.node(n);
        if d.op == Op::GetAttr {
            if let Ok(Value::Object(ref o)) = self.module.get(&d.target)
                && let Some(child) = o.downcast::<GraphModule>()
            {
                let inner = graph(child, self.at, false)?;
                return Ok(json!({ "as_graph": { "name": d.name, "graph": inner } }));
            }
            return Err(Error::serialization(format!(
                "'{}' reads '{}', which is no input of the program",
                d.name, d.target
            )));
        }
        Ok(match self.kind(n) {
            Some(kind) => json!({ kind: { "as_name": d.name } }),
            None => named(&d.name),
        })
    }
    fn list(&mut self, l: &[Argument], ty: &str) -> Result<J> {
        let ints = l.iter().all(|a| matches!(a, Argument::Value(Value::Int(_))));
        let value = |a: &Argument| a.value().cloned();
        if ty.starts_with("Tensor?") && ty.ends_with(']') {
            let all = l.iter().map(|a| match a {
                Argument::Node(n) => self.node(*n),
                _ => Ok(json!({ "as_none": true })),
            });
            return Ok(json!({ "as_optional_tensors": all.collect::<Result<Vec<_>>>()? }));
        }
        if l.is_empty() {
            let key = match ty {
                t if t.starts_with("Tensor") => "as_tensors",
                t if t.starts_with("float") => "as_floats",
                t if t.starts_with("bool") => "as_bools",
                _ => "as_ints",
            };
            return Ok(json!({ key: [] }));
        }
        if ints && !ty.starts_with("float") {
            let all: Vec<J> =
                l.iter().filter_map(value).filter_map(|v| v.as_scalar()).map(|s| json!(s.to_i64())).collect();
            return Ok(json!({ "as_ints": all }));
        }
        let nodes: Vec<Node> = l.iter().filter_map(Argument::node).collect();
        let numbers = nodes.iter().any(|n| self.kind(*n).is_some());
        if nodes.len() == l.len() && !numbers {
            let names: Vec<J> = nodes.iter().map(|n| json!({ "name": self.graph.node(*n).name })).collect();
            return Ok(json!({ "as_tensors": names }));
        }
        if numbers || !nodes.is_empty() {
            let all = l
                .iter()
                .map(|a| match a {
                    Argument::Node(n) => Ok(json!({ "as_name": self.graph.node(*n).name })),
                    Argument::Value(Value::Int(i)) => Ok(json!({ "as_int": i })),
                    other => Err(Error::serialization(format!("{other:?} in a list of sizes"))),
                })
                .collect::<Result<Vec<_>>>()?;
            return Ok(json!({ "as_sym_ints": all }));
        }
        let nested = l.iter().all(|a| matches!(a, Argument::List(_) | Argument::Tuple(_)));
        if nested {
            let all = l
                .iter()
                .map(|a| {
                    let names = a.items().unwrap_or(&[]).iter().filter_map(Argument::node);
                    J::Array(names.map(|n| json!({ "name": self.graph.node(n).name })).collect())
                })
                .collect::<Vec<_>>();
            return Ok(json!({ "as_nested_tensors": all }));
        }
        let (mut floats, mut bools, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for a in l {
            match a {
                Argument::Value(Value::Bool(b)) => bools.push(json!(b)),
                Argument::Value(Value::Str(s)) => texts.push(json!(s)),
                Argument::Value(Value::Float(x)) => floats.push(float(*x)),
                Argument::Value(Value::Int(i)) => floats.push(json!(*i as f64)),
                other => return Err(Error::serialization(format!("{other:?} in a list"))),
            }
        }
        match l.len() {
            n if n == floats.len() => Ok(json!({ "as_floats": floats })),
            n if n == bools.len() => Ok(json!({ "as_bools": bools })),
            n if n == texts.len() => Ok(json!({ "as_strings": texts })),
            _ => Err(Error::serialization("a list of values of several kinds")),
        }
    }
    fn argument(&mut self, a: &Argument, ty: &str) -> Result<J> {
        Ok(match a {
            Argument::Node(n) => self.node(*n)?,
            Argument::List(l) | Argument::Tuple(l) => self.list(l, ty)?,
            Argument::Dict(d) => {
                let mut all = Map::new();
                for (k, v) in d {
                    all.insert(k.clone(), self.argument(v, "")?);
                }
                json!({ "as_string_to_argument": all })
            }
            Argument::Slice(_) => return Err(Error::serialization("a slice as an argument")),
            Argument::Value(v) => match v {
                Value::List(l) | Value::Tuple(l) => {
                    let l: Vec<Argument> = l.iter().cloned().map(Argument::from).collect();
                    self.list(&l, ty)?
                }
                // one number where a list may stand
                Value::Int(i) if ty.starts_with("int[") => json!({ "as_int": i }),
                Value::Int(i) if ty.starts_with("float") => json!({ "as_float": *i as f64 }),
                v => constant(v)?,
            },
        })
    }
    fn step(&mut self, n: Node) -> Result<J> {
        let d = self.graph.node(n);
        let schema = schemas::of_target(&d.target);
        let inputs = self.inputs(d, schema.as_ref())?;
        let higher = d.target.starts_with("torch.ops.higher_order.");
        let (outputs, single) = self.outputs(n, d, schema.as_ref(), higher)?;
        let target = match d.target.strip_prefix("operator.") {
            Some(rest) => format!("_operator.{rest}"),
            None => d.target.clone(),
        };
        let mut metadata = Map::new();
        if let Some(s) = &d.meta.stack_trace {
            metadata.insert("stack_trace".into(), json!(s));
        }
        let stack: Vec<String> = d
            .meta
            .nn_module_stack
            .iter()
            .filter(|(k, _, _)| !k.is_empty())
            .map(|(k, p, c)| format!("{k},{p},{c}"))
            .collect();
        if !stack.is_empty() {
            metadata.insert("nn_module_stack".into(), json!(stack.join(";")));
        }
        if !d.meta.custom.is_empty() {
            metadata.insert("custom".into(), json!(plain(&Value::Dict(d.meta.custom.clone()))?.to_string()));
        }
        for (k, v) in &d.meta.notes {
            metadata.insert(k.clone(), json!(v));
        }
        Ok(json!({
            "target": target,
            "inputs": inputs,
            "outputs": outputs,
            "metadata": metadata,
            "is_hop_single_tensor_return": if higher { json!(single) } else { J::Null },
            "name": d.name,
        }))
    }
    fn inputs(&mut self, d: &NodeData, schema: Option<&Schema>) -> Result<Vec<J>> {
        let mut all = Vec::new();
        let python = d.target.starts_with("operator.") || d.target.starts_with("torch.sym_");
        let nameless = d.target.starts_with("torch._functorch.predispatch.");
        let known = schema.is_some() || python || nameless || d.target.starts_with("torch.ops.higher_order.");
        if !known {
            return Err(Error::missing(format!(
                "'{}' in an exported program: ATen has no such operator",
                d.target
            )));
        }
        for (i, a) in d.args().iter().enumerate() {
            let arg = schema.and_then(|s| s.args.iter().filter(|a| !a.kw_only).nth(i));
            let name = match (arg, python) {
                (Some(a), _) => a.name.clone(),
                (None, true) => ["a", "b", "c"].get(i).unwrap_or(&"").to_string(),
                (None, false) if schema.is_none() => String::new(),
                _ => return Err(Error::serialization(format!("'{}' has too many arguments", d.name))),
            };
            let j = self
                .argument(a, arg.map_or("", |a| &a.ty))
                .map_err(|e| within(e, format!("'{}'", d.name)))?;
            all.push(json!({ "name": name, "arg": j, "kind": 1 }));
        }
        for (k, a) in d.kwargs() {
            let arg = schema.and_then(|s| s.args.iter().find(|a| a.name == *k));
            let j = self
                .argument(a, arg.map_or("", |a| &a.ty))
                .map_err(|e| within(e, format!("'{}'", d.name)))?;
            all.push(json!({ "name": k, "arg": j, "kind": 2 }));
        }
        Ok(all)
    }
    /// The nodes of a result's parts, by number.
    fn parts(&self, n: Node) -> Vec<(usize, Node)> {
        let mut all = Vec::new();
        for u in self.graph.node(n).users() {
            let d = self.graph.node(*u);
            if d.target == "operator.getitem"
                && let [Argument::Node(of), Argument::Value(Value::Int(i))] = d.args()
                && *of == n
                && let Ok(i) = usize::try_from(*i)
            {
                all.push((i, *u));
            }
        }
        all.sort_by_key(|(i, _)| *i);
        all
    }
    fn outputs(
        &mut self,
        n: Node,
        d: &NodeData,
        schema: Option<&Schema>,
        higher: bool,
    ) -> Result<(Vec<J>, bool)> {
        if let Some(kind) = self.kind(n) {
            self.know(n)?;
            return Ok((vec![json!({ kind: { "as_name": d.name } })], false));
        }
        if let Some(Val::Tensor(_)) = &d.meta.val {
            self.know(n)?;
            return Ok((vec![named(&d.name)], true));
        }
        let parts = self.parts(n);
        let returns = schema.map_or(&[][..], |s| &s.returns);
        let list = matches!(returns, [one] if one.ends_with(']'));
        let known = match &d.meta.val {
            Some(Val::List(l)) => l.len(),
            _ => 0,
        };
        let mut count = parts.iter().map(|(i, _)| i + 1).max().unwrap_or(0).max(known);
        if !list && !higher {
            count = count.max(returns.len());
        }
        if count == 0 {
            let nothing = d.target.starts_with("torch._functorch.predispatch.");
            return Ok((if nothing { vec![json!({ "as_none": true })] } else { Vec::new() }, false));
        }
        let mut all = Vec::new();
        for i in 0..count {
            let found = parts.iter().find(|(j, _)| *j == i).map(|(_, u)| *u);
            match found {
                Some(u) => {
                    self.know(u)?;
                    let name = self.graph.node(u).name.clone();
                    all.push(match self.kind(u) {
                        Some(kind) => json!({ kind: { "as_name": name } }),
                        // a part that is nothing, and that nobody uses
                        None if is_nothing(self.graph, u) => json!({ "as_none": true }),
                        None => named(&name),
                    });
                }
                None => {
                    // a part that nobody uses
                    let meta = match &d.meta.val {
                        Some(Val::List(l)) => l.get(i),
                        _ => None,
                    };
                    match meta {
                        Some(Val::Tensor(t)) => {
                            let name = format!("{}_unused_{i}", d.name);
                            self.tensors.insert(name.clone(), tensor_meta(t, self.at)?);
                            all.push(named(&name));
                        }
                        _ => all.push(json!({ "as_none": true })),
                    }
                }
            }
        }
        if list {
            let names: Vec<J> = all.iter().map(|a| a["as_tensor"].clone()).collect();
            return Ok((vec![json!({ "as_tensors": names })], false));
        }
        Ok((all, false))
    }
}
fn constant(v: &Value) -> Result<J> {
    Ok(match v {
        Value::None => json!({ "as_none": true }),
        Value::Bool(b) => json!({ "as_bool": b }),
        Value::Int(i) => json!({ "as_int": i }),
        Value::Float(x) => json!({ "as_float": float(*x) }),
        Value::Complex(c) => json!({ "as_complex": { "real": float(c.re), "imag": float(c.im) } }),
        Value::Str(s) => json!({ "as_string": s }),
        Value::DType(d) => json!({ "as_scalar_type": dtype(*d)? }),
        Value::Device(d) => json!({ "as_device": device(*d) }),
        Value::Layout(l) => json!({ "as_layout": layout(*l) }),
        Value::MemoryFormat(m) => json!({ "as_memory_format": memory_format(*m) }),
        Value::Object(o) if o.downcast::<Operator>().is_some() => {
            json!({ "as_operator": o.downcast::<Operator>().map(|o| o.0.clone()) })
        }
        other => return Err(Error::serialization(format!("a {} as an argument", other.type_name()))),
    })
}
fn graph(m: &GraphModule, at: &Bindings, top: bool) -> Result<J> {
    let g = &m.graph;
    let mut w = Writer {
        graph: g,
        module: m,
        at,
        tensors: Map::new(),
        ints: Map::new(),
        floats: Map::new(),
        bools: Map::new(),
        loose: loose(g),
    };
    let (mut inputs, mut nodes, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    let mut single = false;
    for n in g.nodes() {
        let d = g.node(n);
        match d.op {
            Op::Placeholder => {
                w.know(n)?;
                inputs.push(w.node(n)?);
            }
            Op::GetAttr => {}
            Op::CallFunction => {
                // parts of results stand in the results
                let part = d.target == "operator.getitem"
                    && matches!(d.args(), [Argument::Node(of), _] if w.kind(*of).is_none() && !matches!(g.node(*of).meta.val, Some(Val::Tensor(_))));
                if !part {
                    nodes.push(w.step(n)?);
                }
            }
            Op::Output => match d.args().first() {
                Some(Argument::Tuple(l) | Argument::List(l)) => {
                    for a in l {
                        outputs.push(w.argument(a, "")?);
                    }
                }
                Some(a) => {
                    single = !top;
                    outputs.push(w.argument(a, "")?);
                }
                None => {}
            },
            _ => return Err(Error::serialization(format!("the node '{}' calls a {}", d.name, d.op.name()))),
        }
    }
    Ok(json!({
        "inputs": inputs,
        "outputs": outputs,
        "nodes": nodes,
        "tensor_values": w.tensors,
        "sym_int_values": w.ints,
        "sym_bool_values": w.bools,
        "is_single_tensor_return": single,
        "custom_obj_values": {},
        "sym_float_values": w.floats,
    }))
}
fn spec_argument(a: &ArgumentSpec) -> Result<J> {
    Ok(match a {
        ArgumentSpec::Tensor(n) => named(n),
        ArgumentSpec::Token(n) => json!({ "as_token": { "name": n } }),
        ArgumentSpec::CustomObj(n, c) => json!({ "as_custom_obj": { "name": n, "class_fqn": c } }),
        ArgumentSpec::SymInt(n) => json!({ "as_sym_int": { "as_name": n } }),
        ArgumentSpec::SymFloat(n) => json!({ "as_sym_float": { "as_name": n } }),
        ArgumentSpec::SymBool(n) => json!({ "as_sym_bool": { "as_name": n } }),
        ArgumentSpec::Constant(_, v) => constant(v)?,
    })
}
fn input_spec(s: &InputSpec) -> Result<J> {
    let arg = json!({ "name": s.arg.name() });
    let target = s.target.clone().unwrap_or_default();
    Ok(match (s.kind, &s.arg) {
        (InputKind::UserInput, ArgumentSpec::Constant(n, v)) => {
            json!({ "constant_input": { "name": n, "value": constant(v)? } })
        }
        (InputKind::UserInput, a) => json!({ "user_input": { "arg": spec_argument(a)? } }),
        (InputKind::Parameter, _) => json!({ "parameter": { "arg": arg, "parameter_name": target } }),
        (InputKind::Buffer, _) => {
            json!({ "buffer": { "arg": arg, "buffer_name": target, "persistent": s.persistent.unwrap_or(true) } })
        }
        (InputKind::ConstantTensor, _) => {
            json!({ "tensor_constant": { "arg": arg, "tensor_constant_name": target } })
        }
        (InputKind::Token, _) => json!({ "token": { "arg": arg } }),
        (InputKind::CustomObj, _) => {
            return Err(Error::missing("objects of a program's own classes in files"));
        }
    })
}
fn output_spec(s: &OutputSpec) -> Result<J> {
    let arg = json!({ "name": s.arg.name() });
    let target = s.target.clone().unwrap_or_default();
    Ok(match s.kind {
        OutputKind::UserOutput => json!({ "user_output": { "arg": spec_argument(&s.arg)? } }),
        OutputKind::LossOutput => json!({ "loss_output": { "arg": arg } }),
        OutputKind::BufferMutation => json!({ "buffer_mutation": { "arg": arg, "buffer_name": target } }),
        OutputKind::ParameterMutation => {
            json!({ "parameter_mutation": { "arg": arg, "parameter_name": target } })
        }
        OutputKind::GradientToParameter => {
            json!({ "gradient_to_parameter": { "arg": arg, "parameter_name": target } })
        }
        OutputKind::GradientToUserInput => {
            json!({ "gradient_to_user_input": { "arg": arg, "user_input_name": target } })
        }
        OutputKind::UserInputMutation => {
            json!({ "user_input_mutation": { "arg": arg, "user_input_name": target } })
        }
        OutputKind::Token => json!({ "token": { "arg": arg } }),
    })
}
/// The program as `model.json`.
fn model(p: &ExportedProgram) -> Result<J> {
    let at = hints(p);
    let mut graph = graph(&p.graph_module, &at, true)?;
    // constants among the caller's inputs stand there as themselves
    if let Some(inputs) = graph["inputs"].as_array_mut() {
        for (j, s) in inputs.iter_mut().zip(&p.graph_signature.input_specs) {
            if let (InputKind::UserInput, ArgumentSpec::Constant(_, v)) = (s.kind, &s.arg) {
                *j = constant(v)?;
            }
        }
    }
    let mut ranges = Map::new();
    for (name, r) in &p.range_constraints {
        ranges.insert(name.clone(), json!({ "min_val": r.min, "max_val": r.max }));
    }
    let mut fields = Map::new();
    let calls: Vec<J> = p
        .module_call_graph
        .iter()
        .map(|e| {
            let signature = e.signature.as_ref().map(|s| -> Result<J> {
                specs::fields(&s.in_spec, &mut fields);
                specs::fields(&s.out_spec, &mut fields);
                let all = |l: &[ArgumentSpec]| l.iter().map(spec_argument).collect::<Result<Vec<_>>>();
                Ok(json!({
                    "inputs": all(&s.inputs)?, "outputs": all(&s.outputs)?,
                    "in_spec": s.texts.0, "out_spec": s.texts.1,
                    "forward_arg_names": s.forward_arg_names,
                }))
            });
            Ok(json!({ "fqn": e.fqn, "signature": signature.transpose()? }))
        })
        .collect::<Result<_>>()?;
    let inputs = p.graph_signature.input_specs.iter().map(input_spec).collect::<Result<Vec<_>>>()?;
    let outputs = p.graph_signature.output_specs.iter().map(output_spec).collect::<Result<Vec<_>>>()?;
    Ok(json!({
        "graph_module": {
            "graph": graph,
            "signature": { "input_specs": inputs, "output_specs": outputs },
            "module_call_graph": calls,
            "metadata": {},
            "treespec_namedtuple_fields": fields,
        },
        "opset_version": { "aten": 10 },
        "range_constraints": ranges,
        "schema_version": { "major": 8, "minor": 20 },
        "verifiers": ["TRAINING"],
        "torch_version": "2.15.0",
        "guards_code": p.guards_code,
    }))
}
/// Bytes of a tensor without gaps.
fn bytes(t: &Tensor) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let dense = flambeau_autograd::no_grad(|| ops::resolve_neg(&ops::resolve_conj(&ops::detach(t)?)?))?;
    let written = dense.storage().with_bytes(|b| {
        let (sizes, strides, at) = (dense.sizes(), dense.strides(), dense.storage_offset());
        copy_contiguous(b, sizes, strides, at, dense.element_size(), &mut out)
    })?;
    written.map_err(|e| Error::serialization(e.to_string()))?;
    Ok(out)
}
/// A value as a checkpoint holds it; none of what only a program's own classes hold.
fn tree(v: &Value) -> Option<Tree<Tensor>> {
    let all = |l: &[Value]| l.iter().map(tree).collect::<Option<Vec<_>>>();
    Some(match v {
        Value::None => Tree::None,
        Value::Bool(b) => Tree::Bool(*b),
        Value::Int(i) => Tree::Int(*i),
        Value::Float(x) => Tree::Float(*x),
        Value::Str(s) => Tree::Str(s.clone()),
        Value::Tensor(t) => Tree::Tensor(t.detach()),
        Value::List(l) => Tree::List(all(l)?),
        Value::Tuple(l) => Tree::Tuple(all(l)?),
        Value::Dict(d) => {
            Tree::Dict(d.iter().map(|(k, v)| Some((Tree::Str(k.clone()), tree(v)?))).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
fn records(p: &ExportedProgram) -> Result<Vec<(String, Vec<u8>)>> {
    let none = || Tree::Tuple(vec![Tree::Tuple(Vec::new()), Tree::Dict(Vec::new())]);
    let example = p.example_inputs.as_ref().and_then(tree).unwrap_or_else(none);
    let example = flambeau_serialization::tensors::save_to(&example, Vec::new())?;
    let mut all = vec![("data/sample_inputs/model.pt".to_string(), example)];
    let none = Bindings::new();
    let parameters = p.graph_signature.parameters();
    for (folder, file, what, list) in [
        ("weights", "weight", "model_weights_config.json", &p.state_dict),
        ("constants", "tensor", "model_constants_config.json", &p.constants),
    ] {
        let mut config = Map::new();
        for (i, (name, t)) in list.iter().enumerate() {
            let record = format!("{file}_{i}");
            let mut meta = TensorMeta::of(&flambeau_autograd::no_grad(|| {
                ops::contiguous(&ops::detach(t)?, MemoryFormat::Contiguous)
            })?);
            meta.storage_offset = Expr::Int(0);
            let is_param = parameters.contains(&name.as_str());
            meta.requires_grad = t.requires_grad() && is_param;
            config.insert(
                name.clone(),
                json!({
                    "path_name": record, "is_param": is_param, "use_pickle": false,
                    "tensor_meta": tensor_meta(&meta, &none)?,
                }),
            );
            all.push((format!("data/{folder}/{record}"), bytes(t)?));
        }
        let config = json!({ "config": config });
        all.push((format!("data/{folder}/{what}"), config.to_string().into_bytes()));
    }
    Ok(all)
}
