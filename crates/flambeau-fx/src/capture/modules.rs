//! Modules as graphs whose nodes call the modules inside.

use super::leaves::{self, Leaf, Leaves, is_layer};
use super::recorder::{Capture, Form, Level, Names, split};
use super::wrapped;
use crate::module::GraphModule;
use crate::node::Op;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::object::ObjectRef;
use flambeau_core::dispatch::registry;
use flambeau_core::{Result, Tensor, Value};
use flambeau_nn::Module;
use std::rc::Rc;

/// Python's names of functions and methods.
struct Documented;
impl Names for Documented {
    fn form(&self, name: &str, python: &[&str], args: &[Value]) -> Result<Form> {
        let Some(op) = registry::find(&format!("aten::{name}")) else { return Ok(Form::Own) };
        let (positional, keywords) = split(&op.info().schema, args);
        let method = |p: &&&str| p.starts_with("torch.Tensor.") || p.starts_with("Tensor.");
        if let Some(f) = python.iter().find(|p| !method(p)) {
            return Ok(Form::Call(f.to_string(), positional, keywords));
        }
        match python.first() {
            Some(m) => Ok(Form::Method(m.rsplit('.').next().unwrap_or(m).to_string(), positional, keywords)),
            None => Ok(Form::Own),
        }
    }
}

/// What stands for a leaf, by module and path; none where it is the module itself.
type Objects = dyn Fn(&dyn Module, &str) -> Option<Result<ObjectRef>>;

/// How [`symbolic_trace_with`] captures.
#[derive(Clone, Default)]
pub struct SymbolicTraceOptions {
    leaf: Option<Rc<Leaf>>,
    object: Option<Rc<Objects>>,
    names: Vec<String>,
}
impl SymbolicTraceOptions {
    /// Layers of this library are leaves, containers and a program's own modules are not.
    pub fn new() -> SymbolicTraceOptions {
        SymbolicTraceOptions::default()
    }
    /// Which modules are called as they are, by module and path; the others are written out.
    #[doc(alias = "torch.fx.Tracer.is_leaf_module")]
    pub fn is_leaf_module(mut self, f: impl Fn(&dyn Module, &str) -> bool + 'static) -> SymbolicTraceOptions {
        self.leaf = Some(Rc::new(f));
        self
    }
    /// What is called in the place of leaves, by module and path. Where it gives nothing, the module is, which then must be one from
    /// tensors to tensors of this library.
    pub fn leaf_objects(
        mut self,
        f: impl Fn(&dyn Module, &str) -> Option<Result<ObjectRef>> + 'static,
    ) -> Self {
        self.object = Some(Rc::new(f));
        self
    }
    /// Names of the inputs.
    pub fn names(mut self, names: &[&str]) -> SymbolicTraceOptions {
        self.names = names.iter().map(|n| n.to_string()).collect();
        self
    }
}

/// The program of a module as a graph: layers are called (`call_module`), functions have Python's names, parameters and buffers
/// that the program uses itself are read (`get_attr`).
///
/// A Rust program's sizes are plain numbers, so the module runs once, on `inputs`, and the graph holds for inputs of these sizes
/// wherever the program computes with sizes. `forward` is what runs the module: `|x| net.call(&x[0])`.
///
/// # Panics
/// Where the program does, and at the line where it reads the elements of a captured tensor.
///
/// ```
/// use torch::{Tensor, fx, nn, prelude::*};
///
/// let net = nn::Sequential::new((nn::Linear::new(2, 3), nn::ReLU::new()));
/// let m = fx::symbolic_trace(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([1, 2])]);
/// assert_eq!(
///     m.code().trim(),
///     "def forward(self, x):\n    _0 = getattr(self, \"0\")(x);  x = None\n    _1 = getattr(self, \"1\")(_0);  _0 = None\n    return _1"
/// );
/// ```
#[doc(alias = "torch.fx.symbolic_trace")]
pub fn symbolic_trace<R: Into<Value>>(
    module: &dyn Module,
    forward: impl Fn(&[Tensor]) -> R,
    inputs: &[&Tensor],
) -> GraphModule {
    symbolic_trace_with(module, forward, inputs, SymbolicTraceOptions::new())
}
/// [`symbolic_trace`] with other leaves, or names of inputs.
///
/// # Panics
/// As [`symbolic_trace`].
pub fn symbolic_trace_with<R: Into<Value>>(
    module: &dyn Module,
    forward: impl Fn(&[Tensor]) -> R,
    inputs: &[&Tensor],
    options: SymbolicTraceOptions,
) -> GraphModule {
    expect(try_symbolic_trace_with(module, |x| Ok(forward(x)), inputs, options))
}
/// [`symbolic_trace_with`] of a program that may fail.
///
/// # Errors
/// Those of the program; reads of the elements of a captured tensor; a leaf that cannot be copied.
pub fn try_symbolic_trace_with<R: Into<Value>>(
    module: &dyn Module,
    forward: impl FnOnce(&[Tensor]) -> Result<R>,
    inputs: &[&Tensor],
    options: SymbolicTraceOptions,
) -> Result<GraphModule> {
    let capture = Capture::new(Level::Calls, Rc::new(Documented));
    let mut pairs = Vec::new();
    let mut given = Vec::new();
    for (i, t) in inputs.iter().enumerate() {
        let own = options.names.get(i).cloned();
        let name = own.unwrap_or_else(|| if inputs.len() == 1 { "x".into() } else { format!("x{}", i + 1) });
        given.push(capture.weight(&name, t)?);
    }
    for (path, p) in module.named_parameters() {
        capture.path(&p, &path);
        pairs.push((Tensor::clone(&p), wrapped::wrap(&p)?));
    }
    for (path, b) in module.named_buffers() {
        capture.path(&b, &path);
        pairs.push((Tensor::clone(&b), wrapped::wrap(&b)?));
    }
    let leaf: Rc<Leaf> =
        options.leaf.clone().unwrap_or_else(|| Rc::new(|m: &dyn Module, _: &str| is_layer(m)));
    let _watched = Leaves::watch(module, leaf);
    let out =
        capture.run(|| flambeau_core::dispatch::stand_in::substituting(&pairs, || forward(&given)))?.into();
    let result = capture.result(&out);
    let mut m = capture.finish(result)?.named(&module.type_name());
    // the leaves themselves, with the module's own tensors
    for n in m.graph.find_nodes(Op::CallModule, None) {
        let path = m.graph.node(n).target.clone();
        if m.get(&path).is_err() {
            let leaf = module.get_submodule(&path)?;
            let own = options.object.as_ref().and_then(|f| f(leaf, &path));
            m.set_module(&path, own.unwrap_or_else(|| leaves::object(leaf))?);
        }
    }
    Ok(m)
}
