//! What nodes of a graph call, and changes of graphs with their modules.

use super::own::{self, Own, Standalone};
use crate::fake_quantize::FakeQuantize;
use crate::nn::qat::Qat;
use crate::nn::reference::Reference;
use crate::observers::Observer;
use crate::qconfig::Make;
use crate::stubs::Fused;
use flambeau_core::dispatch::object::ObjectRef;
use flambeau_core::{DType, Error, Result, Tensor, Value};
use flambeau_fx::{Argument, GraphModule, Node, Op};
use flambeau_nn::Module;
use flambeau_nn::internal::{ModuleObject, Run};

/// Looks at the module that a node calls.
pub(super) fn module<R>(
    m: &GraphModule,
    n: Node,
    f: impl FnOnce(&dyn Run) -> Result<R>,
) -> Result<Option<R>> {
    let d = m.graph.node(n);
    if d.op != Op::CallModule {
        return Ok(None);
    }
    let Ok(o) = m.submodule(&d.target) else { return Ok(None) };
    match o.downcast::<ModuleObject>() {
        Some(o) => o.with(f).map(Some),
        None => Ok(None),
    }
}
/// The documented name of a module's class.
pub(super) fn class_of(m: &dyn Module) -> String {
    let name = m.as_run().map_or_else(|| m.type_name().into_owned(), |r| r.class().to_string());
    if m.is::<Fused>() {
        return format!("torch.ao.nn.intrinsic.{name}");
    }
    if let Some(q) = m.downcast_ref::<Qat>() {
        let room = if q.bn().is_some() || q.relu() { "intrinsic.qat" } else { "qat" };
        return format!("torch.ao.nn.{room}.{name}");
    }
    if m.is::<Reference>() {
        return format!("torch.ao.nn.quantized.reference.{name}");
    }
    if m.is::<Observer>() || m.is::<FakeQuantize>() {
        return format!("torch.ao.quantization.{name}");
    }
    format!("torch.nn.{name}")
}
/// The documented name of the class, function or method that a node calls; nothing of inputs, outputs and attributes.
pub(super) fn object_type(m: &GraphModule, n: Node) -> Option<String> {
    let d = m.graph.node(n);
    match d.op {
        Op::CallModule => module(m, n, |r| Ok(class_of(r.as_module())))
            .ok()
            .flatten()
            .or_else(|| own::object(m, n, |o: &Own| class_of(o.module())))
            .or_else(|| own::object(m, n, |o: &Standalone| o.class.clone())),
        Op::CallFunction | Op::CallMethod => Some(d.target.clone()),
        _ => None,
    }
}
/// What an observer or a fake quantization in a graph is.
#[derive(Clone)]
pub(super) struct Watcher {
    pub dtype: DType,
    pub dynamic: bool,
    pub per_channel: Option<i64>,
    class: &'static str,
}
impl Watcher {
    /// Whether the configuration would make the same kind.
    pub fn is_like(&self, make: &Make) -> bool {
        Some(self.dtype) == make.dtype() && Some(self.class) == class_name(make)
    }
}
fn class_name(make: &Make) -> Option<&'static str> {
    match make {
        Make::Observer(o) => Some(o.class.name()),
        Make::FakeQuantize(f) => Some(f.class.name()),
        Make::Identity => None,
    }
}
/// What a node observes by, if it is one that does.
pub(super) fn watcher(m: &GraphModule, n: Node) -> Option<Watcher> {
    let of = |r: &dyn Run| {
        let m = r.as_module();
        let spec = m
            .downcast_ref::<Observer>()
            .map(|o| &o.spec)
            .or_else(|| m.downcast_ref::<FakeQuantize>().map(|f| &f.spec.observer));
        Ok(spec.map(|s| Watcher {
            dtype: s.dtype,
            dynamic: s.is_dynamic,
            per_channel: (!s.qscheme.is_per_tensor()).then_some(s.ch_axis),
            class: r.class(),
        }))
    };
    module(m, n, of).ok().flatten().flatten()
}
/// Scale and zero point that an observer found.
pub(super) fn qparams(m: &dyn Module) -> Result<(Tensor, Tensor)> {
    if let Some(o) = m.downcast_ref::<Observer>() {
        return o.try_calculate_qparams();
    }
    match m.downcast_ref::<FakeQuantize>() {
        Some(f) => f.try_calculate_qparams(),
        None => Err(Error::type_(format!("{} observes nothing", m.type_name()))),
    }
}
/// A path at the top that nothing stands at, with a number at its end.
pub(super) fn free_path(m: &GraphModule, prefix: &str) -> String {
    let prefix = prefix.replace('.', "_");
    let taken = |p: &str| m.attributes().iter().any(|(q, _)| q == p || q.starts_with(&format!("{p}.")));
    (0..).map(|i| format!("{prefix}{i}")).find(|p| !taken(p)).unwrap_or(prefix)
}
/// Puts an observer behind a node.
pub(super) fn observe(m: &mut GraphModule, n: Node, make: &Make) -> Result<Node> {
    let path = free_path(m, "activation_post_process_");
    m.set_module(&path, crate::objects::made(make.build()?));
    m.graph.inserting_after(n);
    let new = m.graph.create_node(Op::CallModule, &path, vec![n.into()], Vec::new(), None);
    m.graph.inserting_at_end();
    Ok(new)
}
/// A value at a path of its own, read before a node.
pub(super) fn attribute_before(m: &mut GraphModule, at: Node, prefix: &str, v: Tensor) -> Node {
    let path = free_path(m, prefix);
    m.set(&path, v);
    m.graph.inserting_before(at);
    let n = m.graph.create_node(Op::GetAttr, &path, Vec::new(), Vec::new(), None);
    m.graph.inserting_at_end();
    n
}
/// The node that an argument is, of positional ones.
pub(super) fn argument(m: &GraphModule, n: Node, i: usize) -> Option<Node> {
    m.graph.node(n).args().get(i).and_then(Argument::node)
}
/// Whether a node calls that method.
pub(super) fn is_method(m: &GraphModule, n: Node, name: &str) -> bool {
    let d = m.graph.node(n);
    d.op == Op::CallMethod && d.target == name
}
/// Whether a node calls that function.
pub(super) fn is_function(m: &GraphModule, n: Node, name: &str) -> bool {
    let d = m.graph.node(n);
    d.op == Op::CallFunction && d.target == name
}
/// The weight and the bias of a function's call, where it has them at these places.
pub(super) fn weight_and_bias(
    m: &GraphModule,
    n: Node,
    places: Option<(usize, usize)>,
) -> (Option<Node>, Option<Node>) {
    let d = m.graph.node(n);
    if d.op != Op::CallFunction {
        return (None, None);
    }
    let named = |name: &str| d.kwargs().iter().find(|(k, _)| k == name).and_then(|(_, a)| a.node());
    let at = |i: Option<usize>| i.and_then(|i| d.args().get(i)).and_then(Argument::node);
    (at(places.map(|p| p.0)).or_else(|| named("weight")), at(places.map(|p| p.1)).or_else(|| named("bias")))
}
/// Whether nothing that a node is given is a tensor, as far as the graph says.
pub(super) fn without_tensors(m: &GraphModule, n: Node) -> bool {
    let d = m.graph.node(n);
    let first = |i: usize| d.args().get(i).and_then(Argument::node);
    match d.op {
        Op::Placeholder | Op::GetAttr | Op::Output => false,
        Op::CallModule => watcher(m, n).is_some() && first(0).is_some_and(|a| without_tensors(m, a)),
        Op::CallFunction if d.target.ends_with("operator.getitem") => {
            first(0).is_none_or(|a| without_tensors(m, a))
        }
        Op::CallFunction if d.target == "getattr" => {
            matches!(d.args().get(1), Some(Argument::Value(Value::Str(s))) if s == "shape" || s == "ndim")
        }
        Op::CallMethod if d.target == "size" => true,
        // the first tensor that is found is enough: graphs branch and join again
        _ => !d.args().iter().any(|a| match a {
            Argument::Node(n) => !without_tensors(m, *n),
            Argument::List(l) => l.iter().filter_map(Argument::node).any(|n| !without_tensors(m, n)),
            Argument::Value(Value::Int(_) | Value::Bool(_)) => false,
            _ => true,
        }),
    }
}
/// The value of a node that follows from attributes and constants alone.
pub(super) fn constant(m: &GraphModule, n: Node) -> Result<Option<Value>> {
    let d = m.graph.node(n);
    if d.op == Op::GetAttr {
        return m.get(&d.target).map(Some);
    }
    if !matches!(d.op, Op::CallFunction | Op::CallMethod | Op::CallModule) || m.graph.is_impure(n) {
        return Ok(None);
    }
    let mut known = Vec::new();
    for i in d.input_nodes() {
        match constant(m, i)? {
            Some(v) => known.push((i, v)),
            None => return Ok(None),
        }
    }
    let mut value = |n: Node| {
        let v = known.iter().find(|(k, _)| *k == n).map(|(_, v)| v.clone());
        v.ok_or_else(|| Error::runtime("a node without a value"))
    };
    let args = d.args().iter().map(|a| a.evaluate(&mut value)).collect::<Result<Vec<_>>>()?;
    let kwargs = d.kwargs().iter().map(|(k, a)| Ok((k.clone(), a.evaluate(&mut value)?)));
    let kwargs = kwargs.collect::<Result<Vec<_>>>()?;
    let v = match d.op {
        Op::CallFunction => flambeau_fx::python::call(&d.target, &args, &kwargs)?,
        Op::CallMethod => match &args[..] {
            [of, rest @ ..] => flambeau_library::method(of, &d.target, rest, &kwargs)?,
            [] => return Ok(None),
        },
        _ => {
            let out = m.submodule(&d.target)?.call(&args, &kwargs)?;
            out.into_iter().next().unwrap_or(Value::None)
        }
    };
    Ok(Some(v))
}
/// The modules that take part are objects of this library's modules, so that they can be exchanged.
pub(super) fn object(m: Box<dyn Run>) -> ObjectRef {
    ModuleObject::of(m)
}
/// Takes away tensors that no node reads.
pub(super) fn drop_unused(m: &mut GraphModule) {
    m.delete_all_unused_submodules();
    let unread: Vec<String> = m
        .attributes()
        .iter()
        .filter(|(p, v)| matches!(v, Value::Tensor(_)) && m.graph.find_nodes(Op::GetAttr, Some(p)).is_empty())
        .map(|(p, _)| p.clone())
        .collect();
    for p in unread {
        m.remove(&p);
    }
}
