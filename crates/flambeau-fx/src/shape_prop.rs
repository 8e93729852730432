//! What each node's result is like, seen in a run.

use crate::interpreter::{Calls, Interpreter};
use crate::meta::{TensorMeta, Val};
use crate::module::GraphModule;
use crate::node::Node;
use flambeau_core::{Result, Value};

fn seen(v: &Value) -> Option<Val> {
    match v {
        Value::Tensor(t) => Some(Val::Tensor(TensorMeta::of(t))),
        Value::Dict(d) => {
            let all: Vec<Val> = d.iter().filter_map(|(_, v)| seen(v)).collect();
            (!all.is_empty()).then_some(Val::List(all))
        }
        v => {
            let items = v.items()?;
            let all: Vec<Val> = items.iter().map(|v| seen(v).unwrap_or(Val::None)).collect();
            all.iter().any(|v| *v != Val::None).then_some(Val::List(all))
        }
    }
}

/// Runs a graph, and notes at each node element type, sizes, strides and memory format of its result.
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
