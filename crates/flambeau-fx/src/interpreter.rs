//! Runs graphs node by node.

use crate::argument::Argument;
use crate::graph::Graph;
use crate::module::GraphModule;
use crate::node::{Node, NodeData, Op};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Error, Result, Value};
use flambeau_library as library;

/// What nodes do. Each method does what the graph says; who wants something else writes it in its place.
///
/// ```
/// use torch::Tensor;
/// use torch::fx::{self, Calls, GraphModule, Interpreter, Node};
/// use torch::library::Value;
/// /// Names of the nodes whose values are not finite.
/// struct Finite<'a>(&'a GraphModule, Vec<String>);
/// impl Calls for Finite<'_> {
///     fn module(&self) -> &GraphModule {
///         self.0
///     }
///     fn saw(&mut self, node: Node, value: &Value) -> torch::Result<()> {
///         if let Value::Tensor(t) = value
///             && !t.isfinite().all().item::<bool>()
///         {
///             self.1.push(self.0.graph.node(node).name.clone());
///         }
///         Ok(())
///     }
/// }
/// let m = fx::make_fx(|x: &[Tensor]| x[0].log().exp())(&[&torch::ones([2])]);
/// let mut watch = Finite(&m, Vec::new());
/// Interpreter::new(&m).run_with(&[torch::zeros([2]).into()], &mut watch)?;
/// assert_eq!(watch.1, ["log"]);
/// # Ok::<(), torch::Error>(())
/// ```
pub trait Calls {
    /// The graph with its modules.
    fn module(&self) -> &GraphModule;
    /// A call of a function.
    ///
    /// # Errors
    /// Those of the function.
    fn call_function(&mut self, target: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        crate::python::call(target, args, kwargs)
    }
    /// A call of a method.
    ///
    /// # Errors
    /// Those of the method.
    fn call_method(&mut self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        call_method(name, args, kwargs)
    }
    /// A call of a module.
    ///
    /// # Errors
    /// Those of the module.
    fn call_module(&mut self, path: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        let m = self.module().submodule(path)?;
        Ok(one(m.call(args, kwargs)?))
    }
    /// What stands at a path.
    ///
    /// # Errors
    /// Nothing stands there.
    fn get_attr(&mut self, path: &str) -> Result<Value> {
        self.module().get(path)
    }
    /// Sees each node's value.
    ///
    /// # Errors
    /// An error ends the run.
    fn saw(&mut self, node: Node, value: &Value) -> Result<()> {
        let _ = (node, value);
        Ok(())
    }
}
fn one(mut all: Vec<Value>) -> Value {
    match all.len() {
        0 => Value::None,
        1 => all.remove(0),
        _ => Value::Tuple(all),
    }
}
fn call_method(name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    match args {
        [of, rest @ ..] => Ok(crate::python::several(library::method(of, name, rest, kwargs)?)),
        [] => Err(Error::type_(format!("a call of the method {name} without an object"))),
    }
}

/// What a graph says, done.
pub(crate) struct Plain<'a>(pub(crate) &'a GraphModule);
impl Calls for Plain<'_> {
    fn module(&self) -> &GraphModule {
        self.0
    }
}

/// The value of an input: what is given, or its default.
pub(crate) fn input(g: &Graph, n: Node, given: Option<&Value>) -> Result<Value> {
    let d = g.node(n);
    match (given, d.args().first()) {
        (Some(v), _) | (None, Some(Argument::Value(v))) => Ok(v.clone()),
        _ if d.target.starts_with('*') => Ok(Value::Tuple(Vec::new())),
        _ => Err(Error::runtime(format!(
            "Expected positional argument for parameter {}, but one was not passed in!\n\nWhile executing {}",
            d.target,
            g.format_node(n)
        ))),
    }
}
/// What a node is called with, once the nodes before it have values.
pub(crate) fn arguments(
    g: &Graph,
    d: &NodeData,
    values: &[Option<Value>],
) -> Result<(Vec<Value>, Vec<(String, Value)>)> {
    let mut known = |n: Node| {
        let v = if g.has(n) { values.get(n.index as usize).and_then(Option::as_ref) } else { None };
        v.cloned().ok_or_else(|| {
            Error::runtime(format!("node '{}' uses '{}' before it has a value", d.name, g.shown(n)))
        })
    };
    let args = d.args().iter().map(|a| a.evaluate(&mut known)).collect::<Result<Vec<_>>>()?;
    let kwargs = d
        .kwargs()
        .iter()
        .map(|(k, a)| Ok((k.clone(), a.evaluate(&mut known)?)))
        .collect::<Result<Vec<_>>>()?;
    Ok((args, kwargs))
}
/// What a node does.
pub(crate) fn perform(d: &NodeData, args: &[Value], kwargs: &Kwargs, calls: &mut dyn Calls) -> Result<Value> {
    match d.op {
        Op::CallFunction => calls.call_function(&d.target, args, kwargs),
        Op::CallMethod => calls.call_method(&d.target, args, kwargs),
        Op::CallModule => calls.call_module(&d.target, args, kwargs),
        Op::GetAttr => calls.get_attr(&d.target),
        _ => Ok(args.first().cloned().unwrap_or(Value::None)),
    }
}

/// Runs a graph node by node. A value is dropped when no later node uses it.
///
/// ```
/// use torch::Tensor;
/// use torch::fx::{self, Interpreter};
/// use torch::library::{Value, arg};
/// let m = fx::make_fx(|x: &[Tensor]| x[0].relu() + 1.0)(&[&torch::zeros([2])]);
/// let y: Value = Interpreter::new(&m).run(&[torch::tensor([-1.0, 2.0]).into()])?;
/// assert_eq!(arg::<Tensor>(&[y], 0)?.to_vec::<f32>(), [1.0, 3.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.fx.Interpreter")]
pub struct Interpreter<'a> {
    module: &'a GraphModule,
}
impl<'a> Interpreter<'a> {
    /// Of a graph with its modules.
    pub fn new(module: &'a GraphModule) -> Interpreter<'a> {
        Interpreter { module }
    }
    pub(crate) fn module(&self) -> &'a GraphModule {
        self.module
    }
    /// As [`run`](Interpreter::run), with other calls.
    ///
    /// # Errors
    /// As [`run`](Interpreter::run).
    pub fn run_with(&self, inputs: &[Value], calls: &mut dyn Calls) -> Result<Value> {
        let g = &self.module.graph;
        let mut values: Vec<Option<Value>> = Vec::new();
        values.resize_with(g.capacity(), || None);
        let mut uses: Vec<u32> = vec![0; g.capacity()];
        let mut given = inputs.iter();
        for n in g.nodes() {
            let d = g.node(n);
            uses[n.index as usize] = d.users().len() as u32;
            let v = match d.op {
                Op::Placeholder => input(g, n, given.next())?,
                _ => {
                    let (args, kwargs) = arguments(g, d, &values)?;
                    perform(d, &args, &kwargs, calls)?
                }
            };
            for input in d.input_nodes() {
                let left = &mut uses[input.index as usize];
                *left = left.saturating_sub(1);
                if *left == 0 {
                    values[input.index as usize] = None;
                }
            }
            calls.saw(n, &v)?;
            if d.op == Op::Output {
                return Ok(v);
            }
            if !d.users().is_empty() {
                values[n.index as usize] = Some(v);
            }
        }
        Ok(Value::None)
    }
    /// The values of all nodes, by name.
    ///
    /// # Errors
    /// As [`run`](Interpreter::run).
    pub fn intermediate(&self, inputs: &[Value]) -> Result<Vec<(String, Value)>> {
        struct All<'a>(&'a GraphModule, Vec<(String, Value)>);
        impl Calls for All<'_> {
            fn module(&self) -> &GraphModule {
                self.0
            }
            fn saw(&mut self, node: Node, value: &Value) -> Result<()> {
                self.1.push((self.0.graph.node(node).name.clone(), value.clone()));
                Ok(())
            }
        }
        let mut all = All(self.module, Vec::new());
        self.run_with(inputs, &mut all)?;
        Ok(all.1)
    }
}
