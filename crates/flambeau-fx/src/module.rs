//! Graphs with what they name.

use crate::code::{CodeGen, CodeOptions};
use crate::graph::Graph;
use crate::interpreter::Interpreter;
use crate::node::{Node, Op};
use crate::plan::Bound;
use crate::pytree::{self, TreeSpec};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library as library;
use flambeau_nn::Parameter;
use flambeau_nn::internal::ModuleObject;
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a call's arguments become inputs of the graph, and its result what the call gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    /// Names of the parameters.
    pub names: Vec<String>,
    /// How arguments become leaves.
    pub inputs: TreeSpec,
    /// How leaves become the result.
    pub output: Option<TreeSpec>,
}

/// A graph with the modules and tensors that it names, at dotted paths. It can be called like a module.
///
/// ```
/// use torch::fx::{Graph, GraphModule};
/// let mut g = Graph::new();
/// let (x, w) = (g.placeholder("x"), g.get_attr("w"));
/// let product = g.call_function("operator.mul", [x, w], []);
/// g.output(product);
/// let mut m = GraphModule::new(g);
/// m.set("w", torch::tensor([10.0, 20.0]));
/// assert_eq!(m.try_forward(&[&torch::tensor([1.0, 2.0])])?.to_vec::<f32>(), [10.0, 40.0]);
/// assert!(m.code().contains("x * w"));
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.fx.GraphModule")]
#[derive(Debug)]
pub struct GraphModule {
    /// The program.
    pub graph: Graph,
    class: String,
    attributes: Vec<(String, Value)>,
    places: HashMap<String, usize>,
    training: AtomicBool,
    /// What is known of its runs.
    pub(crate) bound: Bound,
}
/// The same graph with the same modules and tensors.
impl Clone for GraphModule {
    fn clone(&self) -> GraphModule {
        GraphModule {
            graph: self.graph.clone(),
            class: self.class.clone(),
            attributes: self.attributes.clone(),
            places: self.places.clone(),
            training: AtomicBool::new(self.is_training()),
            bound: Bound::default(),
        }
    }
}

impl GraphModule {
    /// A graph without modules and tensors so far.
    pub fn new(graph: Graph) -> GraphModule {
        GraphModule {
            graph,
            class: "GraphModule".into(),
            attributes: Vec::new(),
            places: HashMap::new(),
            training: AtomicBool::new(true),
            bound: Bound::default(),
        }
    }
    /// The same under another class name.
    pub fn named(mut self, class: &str) -> GraphModule {
        self.class = class.to_string();
        self
    }
    /// The class name.
    pub fn class(&self) -> &str {
        &self.class
    }
    /// Puts a tensor, a module or another value at a dotted path, in place of what was there.
    pub fn set(&mut self, path: &str, v: impl Into<Value>) {
        self.set_value(path, v.into());
    }
    /// As [`set`](GraphModule::set), of any value.
    pub fn set_value(&mut self, path: &str, v: Value) {
        self.bound.forget();
        match self.places.get(path) {
            Some(i) => self.attributes[*i].1 = v,
            None => {
                self.places.insert(path.to_string(), self.attributes.len());
                self.attributes.push((path.to_string(), v));
            }
        }
    }
    /// Puts a module at a dotted path.
    pub fn set_module(&mut self, path: &str, m: ObjectRef) {
        self.set_value(path, Value::Object(m));
    }
    /// Puts another graph at a dotted path.
    pub fn set_graph(&mut self, path: &str, m: GraphModule) {
        self.set_value(path, Value::Object(ObjectRef::new(m)));
    }
    /// Takes away what stands at a path; says whether there was something.
    pub fn remove(&mut self, path: &str) -> bool {
        let Some(i) = self.places.remove(path) else { return false };
        self.bound.forget();
        self.attributes.remove(i);
        for at in self.places.values_mut().filter(|at| **at > i) {
            *at -= 1;
        }
        true
    }
    /// All that stands at paths, in order.
    pub fn attributes(&self) -> &[(String, Value)] {
        &self.attributes
    }
    /// What stands at a dotted path; parts of modules have paths too.
    ///
    /// # Errors
    /// An attribute error where there is nothing.
    pub fn get(&self, path: &str) -> Result<Value> {
        if let Some(i) = self.places.get(path) {
            return Ok(self.attributes[*i].1.clone());
        }
        // the module with the longest path that leads there, and the rest of the way in it
        let longest = self.places.keys().map(String::len).max().unwrap_or(0);
        let mut cut = path.len();
        while let Some(i) = path[..cut].rfind('.') {
            cut = i;
            if cut > longest {
                continue;
            }
            let Some(at) = self.places.get(&path[..cut]) else { continue };
            let mut v = self.attributes[*at].1.clone();
            for part in path[cut + 1..].split('.') {
                v = library::attribute(&v, part)?;
            }
            return Ok(v);
        }
        // a path on which others lie is a module without anything of its own
        let (mut owner, mut name) = ("Module".to_string(), path);
        if let Some((front, rest)) = path.split_once('.') {
            let inner = format!("{front}.");
            if !self.attributes.iter().any(|(p, _)| p.starts_with(&inner)) {
                name = front;
            } else {
                name = rest;
            }
        }
        if self.attributes.is_empty() {
            owner = "Module".into();
        }
        Err(Error::attribute(format!("'{owner}' object has no attribute '{name}'")))
    }
    /// What stands at exactly this path, and can be replaced through the graph module alone.
    pub(crate) fn own(&self, path: &str) -> Option<&Value> {
        self.places.get(path).map(|i| &self.attributes[*i].1)
    }
    /// The module at a dotted path.
    ///
    /// # Errors
    /// An attribute error where there is none.
    pub fn submodule(&self, path: &str) -> Result<ObjectRef> {
        match self.get(path)?.into_object() {
            Ok(o) => Ok(o),
            Err(v) => Err(Error::attribute(format!("`{path}` is not an nn.Module but a {}", v.type_name()))),
        }
    }
    /// The tensor at a dotted path.
    ///
    /// # Errors
    /// An attribute error where there is none.
    pub fn tensor(&self, path: &str) -> Result<Tensor> {
        match self.get(path)?.into_tensor() {
            Ok(t) => Ok(t),
            Err(v) => Err(Error::attribute(format!("`{path}` is not a tensor but a {}", v.type_name()))),
        }
    }
    /// Paths of modules, with those that only lead to others, as `named_modules` has them; the first is the graph itself.
    pub fn module_paths(&self) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut add = |p: &str| {
            if !all.iter().any(|q| q == p) {
                all.push(p.to_string());
            }
        };
        for (p, v) in &self.attributes {
            for (i, _) in p.match_indices('.') {
                add(&p[..i]);
            }
            if let Value::Object(_) = v {
                add(p);
            }
        }
        all
    }
    /// Takes away modules that no node calls or reads.
    pub fn delete_all_unused_submodules(&mut self) {
        let used: Vec<String> = self
            .graph
            .nodes()
            .filter_map(|n| {
                let d = self.graph.node(n);
                matches!(d.op, Op::CallModule | Op::GetAttr).then(|| d.target.clone())
            })
            .collect();
        let unused: Vec<String> = self
            .attributes
            .iter()
            .filter(|(p, v)| {
                let inside = format!("{p}.");
                matches!(v, Value::Object(_)) && !used.iter().any(|u| u == p || u.starts_with(&inside))
            })
            .map(|(p, _)| p.clone())
            .collect();
        for p in unused {
            self.remove(&p);
        }
    }
    /// Checks the graph, and that what its nodes name is there.
    ///
    /// # Errors
    /// Says which node is wrong.
    pub fn lint(&self) -> Result<()> {
        self.graph.lint()?;
        for n in self.graph.nodes() {
            let d = self.graph.node(n);
            match d.op {
                Op::CallModule => drop(self.submodule(&d.target)?),
                Op::GetAttr => drop(self.get(&d.target)?),
                _ => {}
            }
        }
        Ok(())
    }
    /// The Python program that does the same: PyTorch's `code`.
    pub fn code(&self) -> String {
        self.graph.python_code(&CodeOptions::new())
    }
    /// Training mode, of the graph and all modules in it.
    ///
    /// # Errors
    /// Those of a module.
    pub fn train(&self, on: bool) -> Result<()> {
        self.training.store(on, Ordering::Relaxed);
        for (_, v) in &self.attributes {
            if let Value::Object(o) = v {
                match o.downcast::<GraphModule>() {
                    Some(inner) => inner.train(on)?,
                    None => drop(o.method("train", &[Value::Bool(on)], &[])?),
                }
            }
        }
        Ok(())
    }
    /// Whether it is in training mode.
    pub fn is_training(&self) -> bool {
        self.training.load(Ordering::Relaxed)
    }
    /// Parameters of the modules inside, by their dotted paths, each once: what an optimizer is given. They are the parameters of
    /// the model that was captured.
    pub fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let mut all: Vec<(String, Parameter)> = Vec::new();
        for (path, v) in &self.attributes {
            let Value::Object(o) = v else { continue };
            let inside = match (o.downcast::<ModuleObject>(), o.downcast::<GraphModule>()) {
                (Some(m), _) => m.with(|m| Ok(m.named_parameters())).unwrap_or_default(),
                (_, Some(g)) => g.named_parameters(),
                _ => Vec::new(),
            };
            for (name, p) in inside {
                if !all.iter().any(|(_, q)| q.tensor().is_same(p.tensor())) {
                    all.push((format!("{path}.{name}"), p));
                }
            }
        }
        all
    }
    /// The parameters of [`named_parameters`](GraphModule::named_parameters).
    pub fn parameters(&self) -> Vec<Parameter> {
        self.named_parameters().into_iter().map(|(_, p)| p).collect()
    }
    fn placeholders(&self) -> Vec<Node> {
        self.graph.nodes().filter(|n| self.graph.node(*n).op == Op::Placeholder).collect()
    }
    /// The inputs of the graph for arguments of a call.
    fn inputs(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let nodes = self.placeholders();
        let (mut all, mut used, mut position) = (Vec::new(), vec![false; kwargs.len()], 0);
        let mut missing = Vec::new();
        for n in nodes {
            let d = self.graph.node(n);
            if let Some(name) = d.target.strip_prefix("**") {
                let _ = name;
                let rest: Vec<(String, Value)> = kwargs
                    .iter()
                    .zip(&mut used)
                    .filter(|(_, u)| !**u)
                    .map(|(kv, u)| {
                        *u = true;
                        kv.clone()
                    })
                    .collect();
                all.push(Value::Dict(rest));
                continue;
            }
            if d.target.starts_with('*') {
                all.push(Value::Tuple(args.get(position..).unwrap_or(&[]).to_vec()));
                position = args.len();
                continue;
            }
            if let Some(v) = args.get(position) {
                position += 1;
                all.push(v.clone());
                continue;
            }
            if let Some(i) = kwargs.iter().position(|(k, _)| *k == d.target) {
                used[i] = true;
                all.push(kwargs[i].1.clone());
                continue;
            }
            match d.args().first() {
                Some(default) => {
                    all.push(default.evaluate(&mut |_| Err(Error::runtime("a default that is a node")))?)
                }
                None => missing.push(format!("'{}'", d.target)),
            }
        }
        if !missing.is_empty() {
            let s = if missing.len() == 1 { "" } else { "s" };
            return Err(Error::type_(format!(
                "forward() missing {} required positional argument{s}: {}",
                missing.len(),
                missing.join(" and ")
            )));
        }
        if position < args.len() {
            let n = all.len() + 1;
            return Err(Error::type_(format!(
                "forward() takes {n} positional argument{} but {} were given",
                if n == 1 { "" } else { "s" },
                args.len() + 1
            )));
        }
        if let Some(i) = used.iter().position(|u| !u) {
            return Err(Error::type_(format!(
                "forward() got an unexpected keyword argument '{}'",
                kwargs[i].0
            )));
        }
        Ok(all)
    }
    /// Runs the program.
    ///
    /// # Errors
    /// Arguments that do not fit, and those of the nodes.
    pub fn run(&self, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        self.called(args, kwargs, |inputs| Interpreter::new(self).run(inputs))
    }
    /// Makes inputs of the graph of arguments, and what the call gives of its output.
    pub(crate) fn called(
        &self,
        args: &[Value],
        kwargs: &Kwargs,
        run: impl FnOnce(&[Value]) -> Result<Value>,
    ) -> Result<Value> {
        let CodeGen::Trees { names, output, .. } = &self.graph.codegen else {
            return run(&self.inputs(args, kwargs)?);
        };
        let mut given: Vec<Value> = args.to_vec();
        for name in names.iter().filter(|n| *n != "self").skip(args.len()) {
            match kwargs.iter().find(|(k, _)| k == name) {
                Some((_, v)) => given.push(v.clone()),
                None => {
                    return Err(Error::type_(format!(
                        "forward() missing 1 required positional argument: '{name}'"
                    )));
                }
            }
        }
        pytree::check(&given)?;
        let leaves = pytree::leaves(&Value::List(given));
        let out = run(&leaves)?;
        match output {
            Some(spec) => spec.unflatten(out.items().unwrap_or(std::slice::from_ref(&out))),
            None => Ok(out),
        }
    }
    /// Runs the program on tensors, for one tensor.
    ///
    /// # Errors
    /// As [`run`](GraphModule::run); a result that is no tensor.
    pub fn try_forward(&self, inputs: &[&Tensor]) -> Result<Tensor> {
        let args: Vec<Value> = inputs.iter().map(|t| Value::Tensor((*t).clone())).collect();
        match self.run(&args, &[])?.into_tensor() {
            Ok(t) => Ok(t),
            Err(v) => Err(Error::type_(format!("the graph gives a {}, not a tensor", v.type_name()))),
        }
    }
}

impl Object for GraphModule {
    fn type_name(&self) -> &'static str {
        "GraphModule"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        Ok(vec![self.run(args, kwargs)?])
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        match name {
            "training" => Ok(Value::Bool(self.is_training())),
            "code" => Ok(Value::Str(self.code())),
            _ => self.get(name).map_err(|_| no_attribute("GraphModule", name)),
        }
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        match (name, args) {
            ("forward", _) => self.call(args, kwargs),
            ("train" | "eval", [] | [Value::Bool(_)]) => {
                self.train(name == "train" && !matches!(args, [Value::Bool(false)]))?;
                Ok(Vec::new())
            }
            ("parameters", []) => {
                let all = self.parameters().into_iter().map(|p| Value::Tensor(p.tensor().clone()));
                Ok(vec![Value::List(all.collect())])
            }
            ("named_parameters", []) => {
                let pair = |(n, p): (String, Parameter)| {
                    Value::Tuple(vec![Value::Str(n), Value::Tensor(p.tensor().clone())])
                };
                Ok(vec![Value::List(self.named_parameters().into_iter().map(pair).collect())])
            }
            // what is called may be a module within
            _ => match self.get(name) {
                Ok(Value::Object(ref o)) => o.call(args, kwargs),
                _ => Err(no_attribute("GraphModule", name)),
            },
        }
    }
    fn returns_self(&self, name: &str) -> bool {
        matches!(name, "train" | "eval")
    }
    fn repr(&self) -> String {
        format!("{}()\n\n{}", self.class, self.code())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
