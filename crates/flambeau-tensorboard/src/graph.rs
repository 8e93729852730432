//! A model's graph: the operator calls of one run of it, each in the scope of the module that makes it.

use crate::proto::*;
use flambeau_core::dispatch::overrides::{OperatorCall, push_function_mode};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Result, Tensor, Value};
use flambeau_nn::Module;
use prost::Message;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

/// The scopes that the running thread is in, outermost first.
type Scopes = Arc<Mutex<Vec<String>>>;

struct Recording {
    nodes: Vec<NodeDef>,
    /// The node that a tensor comes from, and the tensor, so that its number stays its own.
    known: HashMap<usize, (String, Tensor)>,
    used: HashMap<String, usize>,
    scopes: Scopes,
    /// Names of parameters and buffers.
    state: HashMap<usize, String>,
}

fn shapes(tensors: &[Tensor]) -> AttrValue {
    let shape = tensors.iter().map(|t| TensorShapeProto::of(t.sizes())).collect();
    AttrValue { list: Some(ListValue { shape }), s: None }
}
fn node(name: String, op: &str, input: Vec<String>, outputs: &[Tensor], text: &str) -> NodeDef {
    let mut attr =
        BTreeMap::from([("attr".into(), AttrValue { list: None, s: Some(text.as_bytes().to_vec()) })]);
    if !outputs.is_empty() {
        attr.insert("_output_shapes".into(), shapes(outputs));
    }
    NodeDef { name, op: op.into(), input, attr, ..NodeDef::default() }
}

/// All tensors in values, also in lists.
fn tensors(values: &[Value], found: &mut Vec<Tensor>) {
    for v in values {
        match v {
            Value::Tensor(t) => found.push(t.clone()),
            Value::List(v) | Value::Tuple(v) => tensors(v, found),
            _ => {}
        }
    }
}
/// An argument that is no tensor, as Python writes it; `None` for the others.
fn written(v: &Value) -> Option<String> {
    Some(match v {
        Value::Bool(b) => if *b { "True" } else { "False" }.into(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => flambeau_core::text::PyText::py_text(f),
        Value::Str(s) => format!("'{s}'"),
        Value::List(l) if !l.is_empty() => {
            let parts: Option<Vec<String>> = l.iter().map(written).collect();
            format!("[{}]", parts?.join(", "))
        }
        _ => return None,
    })
}

impl Recording {
    /// A name in the present scope that no node has yet.
    fn name(&mut self, last: &str) -> String {
        let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner).join("/");
        let name = if scopes.is_empty() { last.to_string() } else { format!("{scopes}/{last}") };
        let count = self.used.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}_{}", *count - 1) }
    }
    /// The node that a tensor comes from. One that comes from nowhere is a parameter, or a constant of the model.
    fn source(&mut self, t: &Tensor) -> String {
        if let Some((name, _)) = self.known.get(&t.id()) {
            return name.clone();
        }
        let name = match self.state.get(&t.id()) {
            Some(name) => name.clone(),
            None => self.name("constant"),
        };
        let op = if self.state.contains_key(&t.id()) { "Parameter" } else { "prim::Constant" };
        self.nodes.push(node(name.clone(), op, Vec::new(), std::slice::from_ref(t), ""));
        self.known.insert(t.id(), (name.clone(), t.clone()));
        name
    }
    fn call(&mut self, call: &OperatorCall<'_>, results: &[Value]) {
        let mut inputs = Vec::new();
        tensors(call.args(), &mut inputs);
        let input = inputs.iter().map(|t| self.source(t)).collect();
        let base = call.name().split('.').next().unwrap_or_default();
        let name = self.name(base);
        let mut outputs = Vec::new();
        tensors(results, &mut outputs);
        let arguments: Vec<String> = call
            .schema()
            .args
            .iter()
            .zip(call.args())
            .filter_map(|(a, v)| Some(format!("{}: {}", a.name, written(v)?)))
            .collect();
        let text = format!("{{{}}}", arguments.join(", "));
        self.nodes.push(node(name.clone(), &format!("aten::{base}"), input, &outputs, &text));
        for (i, t) in outputs.into_iter().enumerate() {
            let from = if i == 0 { name.clone() } else { format!("{name}:{i}") };
            self.known.insert(t.id(), (from, t));
        }
    }
}

/// `Net/Linear[fc]`: the scope of each module, by its dotted name.
fn scope(model: &dyn Module, path: &str) -> String {
    let mut scope = model.type_name().into_owned();
    let mut at = String::new();
    for part in path.split('.').filter(|p| !p.is_empty()) {
        if !at.is_empty() {
            at.push('.');
        }
        at.push_str(part);
        let kind = model.get_submodule(&at).map(|m| m.type_name().into_owned()).unwrap_or_default();
        scope += &format!("/{kind}[{part}]");
    }
    scope
}

/// The graph of `run(inputs)`, in evaluation mode, and the metadata that goes with it.
pub fn record(
    model: &dyn Module,
    inputs: &[Tensor],
    run: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let scopes = Scopes::default();
    let mut state = HashMap::new();
    let parameters = model.named_parameters().into_iter().map(|(n, p)| (n, p.id()));
    for (name, id) in parameters.chain(model.named_buffers().into_iter().map(|(n, b)| (n, b.id()))) {
        let (path, last) = name.rsplit_once('.').unwrap_or(("", &name));
        state.insert(id, format!("{}/{last}", scope(model, path)));
    }
    let recording = Rc::new(RefCell::new(Recording {
        nodes: Vec::new(),
        known: HashMap::new(),
        used: HashMap::new(),
        scopes: scopes.clone(),
        state,
    }));
    let mut inputs_of_graph = Vec::new();
    for (i, t) in inputs.iter().enumerate() {
        // a handle of its own: the caller's tensor may be a parameter too
        let t = t.alias_detached();
        let name = if i == 0 { "input/x".to_string() } else { format!("input/x{i}") };
        let mut r = recording.borrow_mut();
        r.nodes.push(node(name.clone(), "IO Node", Vec::new(), std::slice::from_ref(&t), ""));
        r.known.insert(t.id(), (name, t.clone()));
        inputs_of_graph.push(t);
    }

    // a module opens its scope before it runs, and closes it afterwards
    let mut handles = Vec::new();
    for (path, m) in model.named_modules() {
        let Some(base) = m.base() else { continue };
        let (name, enter, leave) = (scope(model, &path), scopes.clone(), scopes.clone());
        let here = name.rsplit('/').next().unwrap_or_default().to_string();
        handles.push(base.register_forward_pre_hook(move |_, _| {
            enter.lock().unwrap_or_else(PoisonError::into_inner).push(here.clone());
            None
        }));
        handles.push(base.register_forward_hook(move |_, _, _| {
            leave.lock().unwrap_or_else(PoisonError::into_inner).pop();
            None
        }));
    }
    let training: Vec<_> =
        model.modules().into_iter().filter_map(|m| m.base()).map(|b| (b, b.is_training())).collect();
    for (base, _) in &training {
        base.set_training(false);
    }
    let outputs = {
        let log = recording.clone();
        let _mode = push_function_mode(move |call: &OperatorCall<'_>| {
            let results = call.call_on()?;
            log.borrow_mut().call(call, &results);
            Ok(results)
        });
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&inputs_of_graph)));
        for (base, was) in &training {
            base.set_training(*was);
        }
        handles.iter().for_each(|h| h.remove());
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    let mut r = recording.borrow_mut();
    for (i, t) in outputs.iter().enumerate() {
        let from = r.source(t);
        let name = format!("output/output.{}", i + 1);
        r.nodes.push(node(name, "IO Node", vec![from], std::slice::from_ref(t), ""));
    }
    // the number that PyTorch writes
    const PRODUCER: i32 = 22;
    let graph =
        GraphDef { node: std::mem::take(&mut r.nodes), versions: Some(VersionDef { producer: PRODUCER }) };
    let device = DeviceStepStats { device: "/device:CPU:0".into() };
    let stats = RunMetadata { step_stats: Some(StepStats { dev_stats: vec![device] }) };
    Ok((graph.encode_to_vec(), stats.encode_to_vec()))
}
