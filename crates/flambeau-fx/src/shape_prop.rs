//! What each node's result is like, seen in a run.

use crate::interpreter::{Calls, Interpreter};
use crate::meta::{TensorMeta, Val};
use crate::module::GraphModule;
use crate::node::Node;
use flambeau_core::{Result, Value};

/// What a value is like, if it holds a tensor; what is none stands as nothing, in containers of its own.
fn seen(v: &Value) -> Option<Val> {
    let mut found = false;
    let val = parts(v, &mut found);
    found.then_some(val)
}
fn parts(v: &Value, found: &mut bool) -> Val {
    match v {
        Value::Tensor(t) => {
            *found = true;
            Val::Tensor(TensorMeta::of(t))
        }
        Value::Dict(d) => Val::List(d.iter().map(|(_, v)| parts(v, found)).collect()),
        v => match v.items() {
            Some(items) => Val::List(items.iter().map(|v| parts(v, found)).collect()),
            None => Val::None,
        },
    }
}

/// Runs a graph, and notes at each node element type, sizes, strides and memory format of its result.
///
/// ```
/// use torch::fx::{Graph, GraphModule, Val, shape_prop};
/// let mut g = Graph::new();
/// let x = g.placeholder("x");
/// let sum = g.call_function("torch.sum", [x], []);
/// g.output(sum);
/// let mut m = GraphModule::new(g);
/// shape_prop(&mut m, &[torch::ones([2, 3]).into()])?;
/// let seen = |n| match &m.graph.node(n).meta.tensor_meta {
///     Some(Val::Tensor(t)) => t.shape.len(),
///     _ => panic!("a tensor"),
/// };
/// assert_eq!((seen(x), seen(sum)), (2, 0));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of the run.
pub fn shape_prop(m: &mut GraphModule, inputs: &[Value]) -> Result<Value> {
    struct Watch<'a>(&'a GraphModule, Vec<(Node, Val)>);
    impl Calls for Watch<'_> {
        fn module(&self) -> &GraphModule {
            self.0
        }
        fn saw(&mut self, node: Node, value: &Value) -> Result<()> {
            self.1.extend(seen(value).map(|v| (node, v)));
            Ok(())
        }
    }
    let mut w = Watch(m, Vec::new());
    let out = Interpreter::new(m).run_with(inputs, &mut w)?;
    for (n, v) in w.1 {
        m.graph.meta_mut(n).tensor_meta = Some(v);
    }
    Ok(out)
}
