//! What a capture writes down.

use super::deferred::{self, Deferred};
use super::numbers::Numbers;
use super::wrapped;
use crate::argument::Argument;
use crate::graph::Graph;
use crate::meta::{TensorMeta, Val};
use crate::module::GraphModule;
use crate::node::{Node, Op};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::overrides;
use flambeau_core::internal::{RawTensor as _, including};
use flambeau_core::tensor::arena::Record;
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::types::schema::{Default_, Schema, Ty};
use flambeau_core::{Device, Layout, Result, Tensor, Value};
use flambeau_utils::flop_counter::operations;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Where calls are seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// As they are made: composites are one node, and gradients are not seen.
    Calls,
    /// Below the gradients: what composites are made of, and the operators of backward passes too.
    Kernels,
}
/// How a call becomes a node.
pub enum Form {
    /// The operator as it is, with these results of it that the node gives.
    Own,
    /// A call of another name, with positional arguments and keywords.
    Call(String, Vec<Value>, Vec<(String, Value)>),
    /// A call of a method of the first argument.
    Method(String, Vec<Value>, Vec<(String, Value)>),
}
/// Names of nodes' targets.
pub trait Names {
    /// Whether a composite's body is recorded in its place.
    fn opens(&self, info: &'static OpInfo) -> bool {
        let _ = info;
        false
    }
    /// How a call becomes a node.
    ///
    /// # Errors
    /// A call that has no form here.
    fn form(&self, name: &str, python: &[&str], args: &[Value]) -> Result<Form> {
        let _ = (name, python, args);
        Ok(Form::Own)
    }
}
/// The names of ATen, as the table has them.
pub(crate) struct Plain;
impl Names for Plain {}

/// A tensor's place: storage, first element, sizes, strides, element type.
type Place = (usize, i64, Vec<i64>, Vec<i64>, &'static str);
fn place(t: &Tensor) -> Option<Place> {
    (t.layout() == Layout::Strided && !t.is_wrapper() && t.numel() > 0).then(|| {
        (t.storage().id(), t.storage_offset(), t.sizes().to_vec(), t.strides().to_vec(), t.dtype().name())
    })
}

pub(crate) struct Recorder {
    pub graph: Graph,
    pub level: Level,
    pub names: Rc<dyn Names>,
    /// By the tensor's number; the tensor is kept, so that no other has the number.
    known: HashMap<usize, (Tensor, Argument)>,
    places: HashMap<Place, usize>,
    /// Tensors that stand at paths.
    paths: HashMap<usize, String>,
    pub attributes: Vec<(String, Value)>,
    /// Nodes that stand for parts of results.
    parts: HashSet<Node>,
    /// Above zero: calls are made and not written down.
    pub quiet: usize,
    /// The modules around: key, path, class.
    pub stack: Vec<(String, String, String)>,
    pub error: Option<flambeau_core::Error>,
    /// Values that are not worked out yet.
    pub deferred: Deferred,
    /// Integers that the program may read.
    pub(super) numbers: Option<Numbers>,
    /// The capture around, of the function of a branch or loop.
    outer: Option<Rc<RefCell<Recorder>>>,
    /// What is used of it.
    lifted: Vec<Tensor>,
    /// The most bytes at once of the tensors that the last call made.
    made: usize,
    /// Operations of the last call.
    flops: i64,
    /// Tensors that it wrote to.
    written: Vec<Tensor>,
    /// Memory that the program has a handle on, as far as is known.
    held: Vec<Held>,
    /// The modules around the calls whose gradients have this number or a higher one.
    around: Vec<(u64, Vec<(String, String, String)>)>,
}
/// The strided tensors among arguments, those in lists too.
fn tensors(args: &[Value]) -> impl Iterator<Item = &Tensor> {
    args.iter().flat_map(|v| v.items().unwrap_or(std::slice::from_ref(v))).filter_map(|v| match v {
        Value::Tensor(t) if t.layout() == Layout::Strided && !t.is_wrapper() => Some(t),
        _ => None,
    })
}
/// A block of memory: the node that made it, and its tensors so far.
struct Held {
    node: Node,
    tensors: Vec<Tensor>,
}
impl Held {
    /// Whether nobody but the capture has a handle on it: two for each tensor, and those of views on what they are views of.
    fn is_free(&self) -> bool {
        let n = self.tensors.len();
        let (mut inside, mut others): (usize, Vec<(&Tensor, usize)>) = (0, Vec::new());
        for base in self.tensors.iter().filter_map(|t| t.view_base()) {
            if self.tensors.iter().any(|t| t.is_same(base)) {
                inside += 1;
            } else if let Some(o) = others.iter_mut().find(|o| o.0.is_same(base)) {
                o.1 += 1;
            } else {
                others.push((base, 1));
            }
        }
        // a view reaches the memory by what it is a view of
        let own = self.tensors.iter().filter(|t| t.view_base().is_none()).count() + others.len();
        self.tensors.first().is_none_or(|t| t.storage().handle_count() == own)
            && self.tensors.iter().map(|t| t.handle_count()).sum::<usize>() == 2 * n + inside
            && others.iter().all(|(base, views)| base.handle_count() == *views)
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<RefCell<Recorder>>>> = const { RefCell::new(None) };
}
pub(crate) fn current() -> Option<Rc<RefCell<Recorder>>> {
    CURRENT.try_with(|c| c.borrow().clone()).ok().flatten()
}
struct Restore(Option<Rc<RefCell<Recorder>>>);
impl Drop for Restore {
    fn drop(&mut self) {
        let old = self.0.take();
        let gone = CURRENT.try_with(|c| c.replace(old)).ok();
        drop(gone);
    }
}

/// A capture: inputs are declared, the program runs within [`Capture::run`], the result becomes a graph.
pub struct Capture(Rc<RefCell<Recorder>>);
impl Capture {
    /// An empty one.
    pub fn new(level: Level, names: Rc<dyn Names>) -> Capture {
        wrapped::install();
        Capture(Rc::new(RefCell::new(Recorder {
            graph: Graph::new(),
            level,
            names,
            known: HashMap::new(),
            places: HashMap::new(),
            paths: HashMap::new(),
            attributes: Vec::new(),
            parts: HashSet::new(),
            quiet: 0,
            stack: Vec::new(),
            error: None,
            deferred: Deferred::default(),
            numbers: None,
            outer: None,
            lifted: Vec::new(),
            made: 0,
            flops: 0,
            written: Vec::new(),
            held: Vec::new(),
            around: Vec::new(),
        })))
    }
    pub(super) fn recorder(&self) -> &Rc<RefCell<Recorder>> {
        &self.0
    }
    /// One of a function within the program of another: what it uses of that program becomes its inputs.
    pub(crate) fn within(outer: &Rc<RefCell<Recorder>>) -> Capture {
        let (level, names) = {
            let r = outer.borrow();
            (r.level, r.names.clone())
        };
        let c = Capture::new(level, names);
        c.0.borrow_mut().outer = Some(outer.clone());
        c
    }
    /// What is used of the program around, in the order of the inputs behind those that were declared.
    pub(crate) fn lifted(&self) -> Vec<Tensor> {
        self.0.borrow().lifted.clone()
    }
    /// An input of that name; gives what the program is to be given.
    ///
    /// # Errors
    /// No memory.
    pub fn input(&self, name: &str, v: &Value) -> Result<Value> {
        let mut r = self.0.borrow_mut();
        let n = r.graph.create_node(Op::Placeholder, name, Vec::new(), Vec::new(), Some(name));
        let Value::Tensor(t) = v else { return Ok(v.clone()) };
        r.bind(n, t);
        wrapped::wrap(t).map(Value::Tensor)
    }
    /// An input that the program finds by itself, such as a weight: wherever it uses `t`, the wrapper must stand in its place.
    ///
    /// # Errors
    /// No memory.
    pub fn weight(&self, name: &str, t: &Tensor) -> Result<Tensor> {
        match self.input(name, &Value::Tensor(t.clone()))? {
            Value::Tensor(ref w) => Ok(w.clone()),
            _ => Ok(t.clone()),
        }
    }
    /// Says where a tensor stands: it is read from there.
    pub fn path(&self, t: &Tensor, path: &str) {
        self.0.borrow_mut().paths.insert(t.id(), path.to_string());
    }
    /// Runs a program, whose calls are written down.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let old = CURRENT.try_with(|c| c.replace(Some(self.0.clone()))).ok().flatten();
        let _restore = Restore(old);
        let level = self.0.borrow().level;
        match level {
            Level::Calls => including(KeySet::of(Key::Tracer), f),
            Level::Kernels => {
                let to = self.0.clone();
                let _mode = overrides::push_dispatch_mode(move |call: &overrides::OperatorCall<'_>| {
                    to.borrow_mut().let_go();
                    let record = Record::new();
                    let before: Vec<u32> = tensors(call.args()).map(|t| t.version()).collect();
                    let results = record.during(|| call.call_on())?;
                    let given = tensors(call.args()).zip(before);
                    let written = given.filter(|(t, v)| t.version() != *v).map(|(t, _)| t.clone()).collect();
                    let flops = operations(call.name(), call.args(), &results).unwrap_or(0);
                    {
                        let mut r = to.borrow_mut();
                        (r.made, r.flops, r.written) = (record.peak(), flops, written);
                    }
                    let seen = to.borrow_mut().saw(
                        call.name(),
                        call.python_names(),
                        call.schema(),
                        call.args(),
                        &results,
                    );
                    // handles that are kept would hold memory
                    to.borrow_mut().written.clear();
                    seen?;
                    Ok(results)
                });
                f()
            }
        }
    }
    /// What the program gave, as an argument.
    pub fn result(&self, v: &Value) -> Argument {
        self.0.borrow_mut().argument(&wrapped::unwrapped(v))
    }
    /// Makes the graph give that, and ends the capture.
    ///
    /// # Errors
    /// One that was met on the way.
    pub fn finish(self, result: Argument) -> Result<GraphModule> {
        // what a module kept for itself has become a constant
        let waits = {
            let r = self.0.borrow();
            r.attributes.iter().any(|(_, v)| matches!(v, Value::Tensor(t) if r.deferred.waits(t)))
        };
        if waits {
            deferred::settle(&self.0)?;
        }
        let mut r = self.0.borrow_mut();
        r.let_go();
        if let Some(e) = r.error.take() {
            return Err(e);
        }
        r.graph.output(result);
        // parts of results that nobody used
        let unused: Vec<Node> =
            r.graph.nodes().filter(|n| r.parts.contains(n) && r.graph.node(*n).users().is_empty()).collect();
        for n in unused {
            let d = r.graph.node(n);
            let of = d.args().first().and_then(Argument::node);
            if let (Some(of), Some((_, bytes))) = (of, d.meta.storage) {
                let kept = (bytes, d.meta.held_until);
                r.graph.meta_mut(of).unused.push(kept);
            }
            r.graph.erase_node(n)?;
        }
        let graph = std::mem::take(&mut r.graph);
        let mut m = GraphModule::new(graph);
        for (path, v) in r.attributes.drain(..) {
            m.set_value(&path, v);
        }
        Ok(m)
    }
}

/// `add.Tensor` as `torch.ops.aten.add.Tensor`.
pub(crate) fn target(name: &str) -> String {
    let (space, name) = name.split_once("::").unwrap_or(("aten", name));
    let overload = if name.contains('.') { "" } else { ".default" };
    format!("torch.ops.{space}.{name}{overload}")
}
/// The name that a node of a target wishes for.
fn wish(target: &str) -> String {
    let name = target.strip_prefix("torch.ops.").and_then(|t| t.split('.').nth(1));
    name.unwrap_or_else(|| target.rsplit('.').next().unwrap_or(target)).to_string()
}
/// Whether an argument is what it would be if it were not given.
fn is_default(v: &Value, d: Default_) -> bool {
    match (d, v) {
        (Default_::Required, _) => false,
        (Default_::None, v) => matches!(v, Value::None),
        (Default_::Int(i), Value::Int(j)) => i == *j,
        (Default_::Int(i), Value::Float(x)) => i as f64 == *x,
        (Default_::Int(i), Value::List(l)) => l.iter().all(|v| matches!(v, Value::Int(j) if *j == i)),
        (Default_::Float(x), Value::Float(y)) => x == *y,
        (Default_::Bool(a), Value::Bool(b)) => a == *b,
        (Default_::Str(a), Value::Str(b)) => a == b,
        (Default_::IntList(a), Value::List(b)) => {
            let same = |(i, v): (&i64, &Value)| matches!(v, Value::Int(j) if i == j);
            match a {
                [one] => b.iter().all(|v| matches!(v, Value::Int(j) if one == j)),
                _ => a.len() == b.len() && a.iter().zip(b).all(same),
            }
        }
        (Default_::MemoryFormat(a), Value::MemoryFormat(b)) => a == *b,
        (Default_::Layout(a), Value::Layout(b)) => a == *b,
        _ => false,
    }
}
/// Arguments as a call writes them: without those at the end that are defaults, keywords apart. Generators are left out.
pub fn split(schema: &Schema, args: &[Value]) -> (Vec<Value>, Vec<(String, Value)>) {
    let (mut positional, mut keywords) = (Vec::new(), Vec::new());
    for (a, v) in schema.args.iter().zip(args) {
        if a.ty == Ty::OptGenerator {
            continue;
        }
        let default = is_default(v, a.default);
        if a.kw_only {
            if !default {
                keywords.push((a.name.to_string(), v.clone()));
            }
        } else {
            positional.push((v.clone(), default));
        }
    }
    while positional.last().is_some_and(|(_, default)| *default) {
        positional.pop();
    }
    (positional.into_iter().map(|(v, _)| v).collect(), keywords)
}

impl Recorder {
    /// Whether it is the capture of a branch's or loop's function.
    pub(super) fn is_within(&self) -> bool {
        self.outer.is_some()
    }
    /// Notes that the modules around have changed.
    pub(super) fn moved(&mut self) {
        if self.level == Level::Kernels {
            self.around.push((flambeau_autograd::next_number(), self.stack.clone()));
        }
    }
    /// Says that a node stands for a tensor from now on.
    pub fn bind(&mut self, n: Node, t: &Tensor) {
        if !t.is_wrapper() && t.layout() == Layout::Strided {
            let meta = self.graph.meta_mut(n);
            meta.val = Some(Val::Tensor(TensorMeta::of(t)));
            meta.storage = Some((t.storage().id(), t.storage().nbytes()));
            self.hold(n, t);
        }
        self.know(t, n.into());
    }
    /// Below the gradients, and on memory, the time is noted for which the program holds what a call made.
    fn hold(&mut self, n: Node, t: &Tensor) {
        let made = !matches!(self.graph.node(n).op, Op::Placeholder | Op::GetAttr);
        if self.level != Level::Kernels || t.device() != Device::Cpu || !made {
            return;
        }
        match self.held.iter_mut().rev().find(|h| h.tensors.iter().any(|o| o.storage().same(t.storage()))) {
            Some(h) if h.tensors.iter().any(|o| o.is_same(t)) => {}
            Some(h) => h.tensors.push(t.clone()),
            // a view of what stays is nothing of its own
            None if t.view_base().is_some() => {}
            None => self.held.push(Held { node: n, tensors: vec![t.clone()] }),
        }
    }
    /// Notes what the program has let go of since the last call.
    fn let_go(&mut self) {
        let Some(last) = self.graph.last_node() else { return };
        let gone: Vec<Node> = self.held.iter().filter(|h| h.is_free()).map(|h| h.node).collect();
        if gone.is_empty() {
            return;
        }
        self.held.retain(|h| !gone.contains(&h.node));
        for n in gone {
            self.graph.meta_mut(n).held_until = Some(last);
        }
    }
    fn know(&mut self, t: &Tensor, a: Argument) {
        if let Some(p) = place(t) {
            self.places.insert(p, t.id());
        }
        self.known.insert(t.id(), (t.clone(), a));
    }
    /// The node of a tensor, if there is one.
    pub fn known(&self, t: &Tensor) -> Option<Argument> {
        if let Some((_, a)) = self.known.get(&t.id()) {
            return Some(a.clone());
        }
        // another handle of the same elements: what was saved for a backward pass, a parameter's alias
        let id = self.places.get(&place(t)?)?;
        self.known.get(id).map(|(_, a)| a.clone())
    }
    /// A value as an argument of a node.
    pub fn argument(&mut self, v: &Value) -> Argument {
        match v {
            Value::Tensor(t) => self.tensor(t),
            Value::List(l) => Argument::List(l.iter().map(|v| self.argument(v)).collect()),
            Value::Tuple(l) => Argument::Tuple(l.iter().map(|v| self.argument(v)).collect()),
            Value::Named(t) => Argument::Tuple(t.items.iter().map(|v| self.argument(v)).collect()),
            Value::Dict(d) => Argument::Dict(d.iter().map(|(k, v)| (k.clone(), self.argument(v))).collect()),
            v => Argument::Value(v.clone()),
        }
    }
    fn tensor(&mut self, t: &Tensor) -> Argument {
        if let Some(a) = self.known(t) {
            return a;
        }
        if t.is_wrapped_number()
            && let Ok(s) = t.try_item::<flambeau_core::Scalar>()
        {
            return Argument::Value(s.into());
        }
        if self.outer.is_some() {
            // inputs come first, in the order in which they are met
            let name = format!("lifted_{}", self.lifted.len());
            let inputs = self.graph.find_nodes(Op::Placeholder, None);
            let next = match inputs.last() {
                Some(last) => self.graph.next(*last),
                None => self.graph.nodes().next(),
            };
            match next {
                Some(n) => self.graph.inserting_before(n),
                None => self.graph.inserting_at_end(),
            }
            let n = self.graph.placeholder(&name);
            self.graph.inserting_at_end();
            self.lifted.push(t.clone());
            self.bind(n, t);
            return n.into();
        }
        let (path, fresh) = match self.paths.get(&t.id()) {
            Some(p) => (p.clone(), false),
            None => {
                let kind = if t.is_parameter() { "_param_constant" } else { "_tensor_constant" };
                let n = self.attributes.iter().filter(|(p, _)| p.starts_with(kind)).count();
                (format!("{kind}{n}"), true)
            }
        };
        if fresh || !self.attributes.iter().any(|(p, _)| *p == path) {
            self.attributes.push((path.clone(), Value::Tensor(t.clone())));
        }
        let name = path.replace('.', "_");
        let n = self.graph.create_node(Op::GetAttr, &path, Vec::new(), Vec::new(), Some(&name));
        self.bind(n, t);
        n.into()
    }
    /// Adds a node of a call.
    pub fn call(
        &mut self,
        op: Op,
        target: &str,
        args: &[Value],
        kwargs: &[(String, Value)],
        results: &[Value],
    ) -> Node {
        let args: Vec<Argument> = args.iter().map(|v| self.argument(v)).collect();
        let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k.clone(), self.argument(v))).collect();
        let name = match op {
            Op::CallFunction => wish(target),
            _ => target.replace('.', "_"),
        };
        let n = self.graph.create_node(op, target, args, kwargs, Some(&name));
        let written = std::mem::take(&mut self.written);
        let writes = written.iter().filter_map(|t| self.known(t)).filter_map(|a| a.node()).collect();
        let meta = self.graph.meta_mut(n);
        meta.nn_module_stack = self.stack.clone();
        meta.writes = writes;
        meta.made = self.made;
        meta.flops = self.flops;
        if flambeau_autograd::current_run().is_some() {
            let number = flambeau_autograd::current_node();
            let before = number.map_or(0, |n| self.around.partition_point(|(from, _)| *from <= n));
            let of = before.checked_sub(1).map(|i| self.around[i].1.clone());
            meta.fwd_nn_module_stack = Some(of.unwrap_or_default());
        }
        match results {
            [Value::Tensor(t)] => self.bind(n, t),
            [Value::List(l)] | [Value::Tuple(l)] => self.results(n, l),
            [_] | [] => {}
            several => self.results(n, several),
        }
        n
    }
    /// Nodes for the parts of a result.
    pub fn results(&mut self, of: Node, all: &[Value]) {
        let val = |v: &Value| match v {
            Value::Tensor(t) if t.layout() == Layout::Strided => Val::Tensor(TensorMeta::of(t)),
            _ => Val::None,
        };
        self.graph.meta_mut(of).val = Some(Val::List(all.iter().map(val).collect()));
        for (i, v) in all.iter().enumerate() {
            let Value::Tensor(t) = v else { continue };
            let args = vec![Argument::Node(of), Argument::from(i as i64)];
            let n = self.graph.create_node(
                Op::CallFunction,
                "operator.getitem",
                args,
                Vec::new(),
                Some("getitem"),
            );
            self.graph.meta_mut(n).nn_module_stack = self.stack.clone();
            self.parts.insert(n);
            self.bind(n, t);
        }
    }
    /// Writes a call of an operator down.
    pub fn saw(
        &mut self,
        name: &str,
        python: &[&str],
        schema: &Schema,
        args: &[Value],
        results: &[Value],
    ) -> Result<()> {
        if self.quiet > 0 {
            return Ok(());
        }
        // one number for all dimensions is that number for each
        let args: Vec<Value> = schema
            .args
            .iter()
            .zip(args)
            .map(|(a, v)| match (a.ty, v) {
                (Ty::IntList(n) | Ty::OptIntList(n), Value::List(l)) if l.len() == 1 && n > 1 => {
                    Value::List(vec![l[0].clone(); n.into()])
                }
                (_, v) => v.clone(),
            })
            .collect();
        let args = &args[..];
        let names = self.names.clone();
        let n = match names.form(name, python, args)? {
            Form::Own => {
                let (positional, mut keywords) = split(schema, args);
                // a call from Python says where a new tensor is, if it is made of numbers
                let made = schema.args.iter().any(|a| a.name == "pin_memory")
                    && !args.iter().any(|v| matches!(v, Value::Tensor(_)));
                if made {
                    let mut say = |key: &str, v: Value| {
                        if keywords.iter().all(|(k, _)| k != key) {
                            keywords.push((key.to_string(), v));
                        }
                    };
                    say("device", Value::Device(Device::Cpu));
                    say("pin_memory", Value::Bool(false));
                }
                self.call(Op::CallFunction, &target(name), &positional, &keywords, results)
            }
            Form::Call(target, args, kwargs) => self.call(Op::CallFunction, &target, &args, &kwargs, results),
            Form::Method(name, args, kwargs) => self.call(Op::CallMethod, &name, &args, &kwargs, results),
        };
        // what was written to is that node's result from now on
        for (a, v) in schema.args.iter().zip(args) {
            if a.mutated
                && let Value::Tensor(t) = v
            {
                self.bind(n, t);
            }
        }
        Ok(())
    }
}
