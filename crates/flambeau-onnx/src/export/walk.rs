//! Walks through a program and writes each call.

use super::registry::Registry;
use crate::build::value::known_shape;
use crate::build::{Arg, Builder, Call, Fault, Var};
use crate::ops::views::{is_view, write_back};
use flambeau_core::{DType, Error, Result, Value};
use flambeau_fx::{Argument, GraphModule, Node, NodeData, Op, Val};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What became of a node of the program.
struct Slot {
    value: Arg,
    /// The node whose memory it shares.
    base: Option<Node>,
    /// How often the memory had been written when the value was made.
    seen: u64,
}
/// A graph on its way.
struct Frame<'m> {
    m: &'m GraphModule,
    slots: HashMap<Node, Slot>,
    /// By owner of memory: how often it was written.
    writes: HashMap<Node, u64>,
    /// Values with a dimension in front that the program does not see.
    batched: HashSet<Node>,
}
/// Writes a program's calls with a builder.
pub(super) struct Walk<'r> {
    pub(super) b: Builder,
    registry: &'r Registry,
    /// The operator whose translation failed.
    pub(super) stuck: Option<String>,
}
/// The operator's name without the front that all have.
pub(super) fn plain(target: &str) -> &str {
    target.strip_prefix("torch.ops.").unwrap_or(target)
}
/// What a call that changes its first argument would give as a new value: `aten.add.Tensor` for `aten.add_.Tensor`.
fn functional(target: &str) -> Option<String> {
    let (base, overload) = target.strip_prefix("aten.")?.rsplit_once('.')?;
    if base == "detach_" {
        return None;
    }
    if let Some(inner) = base.strip_prefix("__i").and_then(|b| b.strip_suffix("__")) {
        return Some(format!("aten.__{inner}__.{overload}"));
    }
    let name = base.strip_suffix('_').filter(|b| !b.ends_with('_'))?;
    Some(format!("aten.{name}.{overload}"))
}
/// What is checked while PyTorch traces or runs, and has no result.
fn is_check(target: &str) -> bool {
    let checks = [
        "aten._assert",
        "aten.sym_constrain_range",
        "aten._functional_assert",
        "aten._functional_sym",
        "aten._check",
        "torch._check",
        "torch._functorch.predispatch.lazy_load_decompositions",
        "torch._functorch.predispatch._vmap_increment_nesting",
        "torch._functorch.predispatch._vmap_decrement_nesting",
        "torch._C._set_grad_enabled",
    ];
    checks.iter().any(|c| target.starts_with(c))
}

impl<'r> Walk<'r> {
    pub(super) fn new(opset: i64, registry: &'r Registry) -> Walk<'r> {
        Walk { b: Builder::new(opset), registry, stuck: None }
    }
    /// Writes a graph over these inputs; gives what comes out.
    pub(super) fn run(&mut self, m: &GraphModule, inputs: &[Arg]) -> Result<Vec<Arg>> {
        let mut f = Frame { m, slots: HashMap::new(), writes: HashMap::new(), batched: HashSet::new() };
        let mut given = inputs.iter();
        for n in m.graph.nodes() {
            let d = m.graph.node(n);
            let value = match d.op {
                Op::Placeholder => given
                    .next()
                    .cloned()
                    .ok_or_else(|| Error::runtime(format!("the graph's input '{}' is not given", d.name)))?,
                Op::GetAttr => self.attribute(m, &d.target)?,
                Op::CallFunction => {
                    let outer = (self.b.origin.clone(), self.b.current.clone());
                    self.note(d);
                    let made = self.call(&mut f, n).map_err(|e| at_node(e, d));
                    (self.b.origin, self.b.current) = outer;
                    made?;
                    continue;
                }
                Op::Output => {
                    let all = self.argument(&mut f, d.args().first().unwrap_or(&Argument::NONE))?;
                    return Ok(match all {
                        Arg::List(l) => l,
                        one => vec![one],
                    });
                }
                Op::CallMethod | Op::CallModule => {
                    return Err(Error::missing(format!(
                        "node '{}': calls of methods and modules have no translation: export the module first",
                        d.name
                    )));
                }
            };
            f.slots.insert(n, Slot { value, base: None, seen: 0 });
        }
        Ok(Vec::new())
    }
    /// Notes of the node that its ONNX nodes bear.
    fn note(&mut self, d: &NodeData) {
        self.b.current = d.name.clone();
        let mut notes = vec![("pkg.torch.onnx.fx_node".to_string(), format!("%{} = {}", d.name, d.target))];
        let scopes: Vec<String> = d
            .meta
            .nn_module_stack
            .iter()
            .map(|(_, path, _)| path.clone())
            .filter(|p| !p.is_empty())
            .collect();
        if !scopes.is_empty() {
            notes.push(("pkg.torch.onnx.name_scopes".into(), scopes.join("/")));
        }
        if let Some(s) = &d.meta.stack_trace {
            notes.push(("pkg.torch.onnx.stack_trace".into(), s.clone()));
        }
        self.b.origin = notes;
    }
    fn attribute(&mut self, m: &GraphModule, path: &str) -> Result<Arg> {
        let v = m.get(path)?;
        Ok(match &v {
            Value::Tensor(t) => Arg::Var(self.b.weight(path, t)?),
            Value::Object(o) => match o.downcast::<GraphModule>() {
                Some(g) => Arg::Graph(Rc::new(g.clone())),
                None => {
                    return Err(Error::missing(format!(
                        "'{path}' is a {}, of which ONNX has none",
                        o.type_name()
                    )));
                }
            },
            v => self.constant(v)?,
        })
    }
    fn constant(&mut self, v: &Value) -> Result<Arg> {
        Ok(match v {
            Value::None => Arg::None,
            Value::Bool(x) => Arg::Bool(*x),
            Value::Int(n) => Arg::Int(*n),
            Value::Float(x) => Arg::Float(*x),
            Value::Complex(z) => Arg::Complex(z.re, z.im),
            Value::Str(s) => Arg::Str(s.clone()),
            Value::DType(d) => Arg::DType(*d),
            Value::Tensor(t) => Arg::Var(self.b.constant(t)?),
            Value::List(l) | Value::Tuple(l) => {
                Arg::List(l.iter().map(|v| self.constant(v)).collect::<Result<_>>()?)
            }
            Value::Object(o) if o.type_name() == "OpOverload" => Arg::Operator(o.repr()),
            _ => Arg::Ignored,
        })
    }
    fn argument(&mut self, f: &mut Frame, a: &Argument) -> Result<Arg> {
        Ok(match a {
            Argument::Node(n) => self.read(f, *n)?,
            Argument::Value(v) => self.constant(v)?,
            Argument::List(l) | Argument::Tuple(l) => {
                Arg::List(l.iter().map(|a| self.argument(f, a)).collect::<Result<_>>()?)
            }
            Argument::Dict(d) => {
                Arg::List(d.iter().map(|(_, a)| self.argument(f, a)).collect::<Result<_>>()?)
            }
            Argument::Slice(_) => return Err(Error::missing("slices as arguments")),
        })
    }
    /// The owner of the memory that a node's value lies in.
    fn owner(f: &Frame, n: Node) -> Node {
        let mut at = n;
        while let Some(base) = f.slots.get(&at).and_then(|s| s.base) {
            at = base;
        }
        at
    }
    /// A node's value; of a view, made again if its tensor was written since.
    fn read(&mut self, f: &mut Frame, n: Node) -> Result<Arg> {
        let owner = Walk::owner(f, n);
        let now = f.writes.get(&owner).copied().unwrap_or(0);
        match f.slots.get(&n) {
            None => Err(Error::runtime("a node is used before it is there")),
            Some(s) if s.base.is_none() || s.seen == now => Ok(s.value.clone()),
            Some(_) => {
                let value = self.compute(f, n)?;
                if let Some(s) = f.slots.get_mut(&n) {
                    (s.value, s.seen) = (value.clone(), now);
                }
                Ok(value)
            }
        }
    }
    /// The value becomes another; so does what shares its memory.
    fn write(&mut self, f: &mut Frame, n: Node, value: Arg) -> Result<()> {
        let base = f.slots.get(&n).and_then(|s| s.base);
        match base {
            None => {
                *f.writes.entry(n).or_insert(0) += 1;
            }
            Some(base) => {
                let d = f.m.graph.node(n);
                let new = if d.target == "operator.getitem" {
                    let Arg::List(mut l) = self.read(f, base)? else {
                        return Err(Error::runtime("an item of what is no list"));
                    };
                    let i = d.args().get(1).and_then(Argument::value).and_then(|v| match v {
                        Value::Int(i) => usize::try_from(*i).ok(),
                        _ => None,
                    });
                    match i.and_then(|i| l.get_mut(i)) {
                        Some(slot) => *slot = value.clone(),
                        None => return Err(Error::runtime("an item that is not there")),
                    }
                    Arg::List(l)
                } else if functional(plain(&d.target)).is_some() {
                    // the result of a write is its first argument
                    value.clone()
                } else {
                    let c = self.prepare(f, n)?;
                    write_back(&mut self.b, &c, &value)?
                };
                self.write(f, base, new)?;
            }
        }
        let owner = Walk::owner(f, n);
        let now = f.writes.get(&owner).copied().unwrap_or(0);
        if let Some(s) = f.slots.get_mut(&n) {
            (s.value, s.seen) = (value, now);
        }
        Ok(())
    }
    /// A node's call with its arguments.
    fn prepare(&mut self, f: &mut Frame, n: Node) -> Result<Call> {
        let m = f.m;
        let d = m.graph.node(n);
        let args = d.args().iter().map(|a| self.argument(f, a)).collect::<Result<_>>()?;
        let kwargs =
            d.kwargs().iter().map(|(k, a)| Ok((k.clone(), self.argument(f, a)?))).collect::<Result<_>>()?;
        Ok(Call { target: plain(&d.target).to_string(), args, kwargs, result: result(m, n) })
    }
    /// What a node's call gives, written anew.
    fn compute(&mut self, f: &mut Frame, n: Node) -> Result<Arg> {
        let c = self.prepare(f, n)?;
        if c.target == "operator.getitem" {
            return item(&c);
        }
        if functional(&c.target).is_some() || c.target.starts_with("aten.detach_.") {
            return Ok(c.args.first().cloned().unwrap_or(Arg::None));
        }
        let made = self.translate(&c)?;
        fit(&mut self.b, made, c.result.as_ref())
    }
    fn translate(&mut self, c: &Call) -> Result<Arg> {
        let made = self.translated(c);
        if made.is_err() {
            self.stuck = Some(c.target.clone());
        }
        made
    }
    fn translated(&mut self, c: &Call) -> Result<Arg> {
        if let Some(own) = self.registry.find(&c.target) {
            return own(&mut self.b, c);
        }
        if let Some(t) = crate::ops::find(&c.target) {
            return t(&mut self.b, c);
        }
        let ours = ["aten.", "prims.", "operator.", "torch.", "math.", "builtins."]
            .iter()
            .any(|p| c.target.starts_with(p));
        let fault = if ours { Fault::NoStandard } else { Fault::NoCustom };
        self.b.faults.push((fault, c.target.clone()));
        Err(Error::missing(format!(
            "the operator {0} has no translation to ONNX: register one, `Registry::new().register(\"{0}\", |builder, call| ..)`, \
             and export with `ExportOptions::new().custom_translation_table(registry)`",
            c.target
        )))
    }
    /// Writes a call, and keeps what it gives.
    fn call(&mut self, f: &mut Frame, n: Node) -> Result<()> {
        let m = f.m;
        let d = m.graph.node(n);
        let target = plain(&d.target);
        let mut slot = Slot { value: Arg::None, base: None, seen: 0 };
        if is_check(target) {
            f.slots.insert(n, slot);
            return Ok(());
        }
        if let Some(step) = target.strip_prefix("torch._functorch.predispatch.") {
            slot.value = self.batch(f, n, step)?;
            f.slots.insert(n, slot);
            return Ok(());
        }
        let batched: Vec<Node> = d.input_nodes().into_iter().filter(|i| f.batched.contains(i)).collect();
        if !batched.is_empty() {
            slot.value = self.call_batched(f, n)?;
            f.batched.insert(n);
            f.slots.insert(n, slot);
            return Ok(());
        }
        if let Some(name) = target.strip_prefix("higher_order.") {
            let c = self.prepare(f, n)?;
            slot.value = self.higher(name, &c)?;
            if let Arg::Var(v) = slot.value {
                slot.value = fit(&mut self.b, Arg::Var(v), c.result.as_ref())?;
            }
            self.name_results(f.m, n, &mut slot.value);
            f.slots.insert(n, slot);
            return Ok(());
        }
        let first = d
            .args()
            .first()
            .and_then(Argument::node)
            .or_else(|| d.kwargs().iter().find(|(k, _)| k == "self").and_then(|(_, a)| a.node()));
        if let Some(name) = functional(target) {
            let Some(of) = first else { return Err(Error::runtime(format!("{target} changes nothing"))) };
            let mut c = self.prepare(f, n)?;
            c.target = name;
            let made = self.translate(&c)?;
            let value = match (made, c.args.first()) {
                // what is written has the sizes and dtype of what it is written to
                (Arg::Var(v), Some(Arg::Var(old))) => Arg::Var(self.like(&v, old)?),
                (made, _) => made,
            };
            let mut value = fit(&mut self.b, value, c.result.as_ref())?;
            self.name_results(f.m, n, &mut value);
            self.write(f, of, value.clone())?;
            let owner = Walk::owner(f, of);
            slot = Slot { value, base: Some(of), seen: f.writes.get(&owner).copied().unwrap_or(0) };
            f.slots.insert(n, slot);
            return Ok(());
        }
        slot.value = self.compute(f, n)?;
        self.name_results(f.m, n, &mut slot.value);
        if let (Arg::Var(v), None, true) = (&slot.value, &d.meta.val, target.starts_with("aten."))
            && !v.number
        {
            self.b.faults.push((Fault::NoShape, format!("node '{}'", d.name)));
        }
        let shares = target == "operator.getitem" || (is_view(target) && shares_memory(f.m, n, first));
        if let (true, Some(of)) = (shares, first) {
            let owner = Walk::owner(f, of);
            slot.base = Some(of);
            slot.seen = f.writes.get(&owner).copied().unwrap_or(0);
        }
        f.slots.insert(n, slot);
        Ok(())
    }
    /// A value in the sizes and element type of another.
    fn like(&mut self, v: &Var, old: &Var) -> Result<Var> {
        let v = self.b.cast(v, old.dtype)?;
        if v.shape == old.shape && (v.sizes().is_some() || v.rank() == old.rank()) {
            return Ok(v);
        }
        let to = self.b.sizes(old)?;
        self.b.expand(&v, &to)
    }
    /// Names of the program for what a node gives.
    fn name_results(&mut self, m: &GraphModule, n: Node, value: &mut Arg) {
        let d = m.graph.node(n);
        match value {
            Arg::Var(v) => {
                self.b.rename(v, &d.name);
                self.inform(v, d);
            }
            Arg::List(l) => {
                for u in d.users() {
                    let user = m.graph.node(*u);
                    let i = match (user.target.as_str(), user.args().get(1)) {
                        ("operator.getitem", Some(Argument::Value(Value::Int(i)))) => {
                            usize::try_from(*i).ok()
                        }
                        _ => None,
                    };
                    if let Some(Arg::Var(v)) = i.and_then(|i| l.get_mut(i)) {
                        self.b.rename(v, &user.name);
                    }
                }
            }
            _ => {}
        }
    }
    /// What the program knows of a value, for readers of the file.
    fn inform(&mut self, v: &Var, d: &NodeData) {
        let Some(Val::Tensor(t)) = &d.meta.val else { return };
        let outermost = self.b.scopes.len() == 1;
        if !outermost || v.name != d.name || t.dtype != v.dtype || t.shape.len() != v.rank() {
            return;
        }
        if let Ok(info) = crate::types::value_info(&v.name, v.dtype, &t.shape, &str::to_string) {
            self.b.scopes[0].value_info.push(info);
        }
    }
    /// Steps of `vmap`: the dimension that calls in between do not see comes first.
    fn batch(&mut self, f: &mut Frame, n: Node, step: &str) -> Result<Arg> {
        let c = self.prepare(f, n)?;
        let x = c.tensor(0, "x")?;
        match step {
            "_add_batch_dim" => {
                let d = c.axis(1, "dim", None, x.rank())?;
                f.batched.insert(n);
                let mut order: Vec<i64> = (0..x.rank() as i64).filter(|i| *i != d).collect();
                order.insert(0, d);
                Ok(self.b.transpose(&x, &order)?.into())
            }
            "_remove_batch_dim" => {
                let of = f.m.graph.node(n).args().first().and_then(Argument::node);
                let is_batched = of.is_some_and(|of| f.batched.contains(&of));
                if !is_batched {
                    let size = c.dim(2, "batch_size")?;
                    let x = self.b.unsqueeze(&x, &[0])?;
                    let mut to = self.b.sizes(&x)?;
                    to[0] = size;
                    return Ok(self.b.expand(&x, &to)?.into());
                }
                let out = c.axis(3, "out_dim", Some(0), x.rank())?;
                let mut order: Vec<i64> = (1..x.rank() as i64).collect();
                order.insert(out as usize, 0);
                let moved = self.b.transpose(&x, &order)?;
                let mut value = Arg::Var(moved);
                self.name_results(f.m, n, &mut value);
                Ok(value)
            }
            other => Err(Error::missing(format!("the step {other} of vmap as ONNX"))),
        }
    }
    /// A call on values with a dimension in front that it does not see: of functions of single elements alone.
    fn call_batched(&mut self, f: &mut Frame, n: Node) -> Result<Arg> {
        let m = f.m;
        let d = m.graph.node(n);
        let target = plain(&d.target).to_string();
        if !crate::ops::is_pointwise(&target) {
            return Err(Error::missing(format!(
                "{target} under vmap as ONNX: its dimensions are those that vmap hides"
            )));
        }
        let mut c = self.prepare(f, n)?;
        c.result = None;
        // dimensions that all have, behind the first
        let own = |a: &Argument| a.node().is_some_and(|n| f.batched.contains(&n));
        let rank = |a: &Arg, own: bool| a.var().map_or(0, |v| v.rank() - usize::from(own));
        let most = d.args().iter().zip(&c.args).map(|(a, v)| rank(v, own(a))).max().unwrap_or(0);
        for (a, v) in d.args().iter().zip(&mut c.args) {
            if let (true, Arg::Var(x)) = (own(a), &*v) {
                let more: Vec<i64> = (1..=(most + 1 - x.rank()) as i64).collect();
                *v = Arg::Var(self.b.unsqueeze(x, &more)?);
            }
        }
        let value = self.translate(&c)?;
        match (value, &d.meta.val) {
            (Arg::Var(v), Some(Val::Tensor(t))) => Ok(Arg::Var(self.b.cast(&v, t.dtype)?)),
            (value, _) => Ok(value),
        }
    }
}
/// The error with the node where it was found.
fn at_node(e: Error, d: &NodeData) -> Error {
    if e.message().starts_with("node '") {
        return e;
    }
    Error::new(e.kind(), format!("node '{}' ({}): {}", d.name, plain(&d.target), e.message()))
}
fn item(c: &Call) -> Result<Arg> {
    let i = c.int(1, "index")?;
    match c.arg(0, "list") {
        Arg::List(l) => usize::try_from(i)
            .ok()
            .and_then(|i| l.get(i))
            .cloned()
            .ok_or_else(|| Error::index(format!("item {i} of {}", l.len()))),
        // a list of one
        one if i == 0 => Ok(one.clone()),
        other => Err(Error::type_(format!("item {i} of {}", other.kind()))),
    }
}
/// What is known of a node's result; of several, by the nodes that take them.
fn result(m: &GraphModule, n: Node) -> Option<Val> {
    let d = m.graph.node(n);
    if d.meta.val.is_some() {
        return d.meta.val.clone();
    }
    let mut all: Vec<Val> = Vec::new();
    for u in d.users() {
        let user = m.graph.node(*u);
        let i = match (user.target.as_str(), user.args().get(1)) {
            ("operator.getitem", Some(Argument::Value(Value::Int(i)))) => usize::try_from(*i).ok()?,
            _ => continue,
        };
        // no operator has so many results: a forged number makes no list
        if i > 100_000 {
            return None;
        }
        if all.len() <= i {
            all.resize(i + 1, Val::None);
        }
        all[i] = user.meta.val.clone().unwrap_or(Val::None);
    }
    (!all.is_empty()).then_some(Val::List(all))
}
/// Whether a view shares memory: `contiguous` and `reshape` copy what does not lie row by row, `to` what it converts.
fn shares_memory(m: &GraphModule, n: Node, first: Option<Node>) -> bool {
    let d = m.graph.node(n);
    let base = plain(&d.target).trim_start_matches("aten.").split('.').next().unwrap_or("");
    let (Some(Val::Tensor(out)), Some(Some(Val::Tensor(of)))) =
        (&d.meta.val, first.map(|f| m.graph.node(f).meta.val.clone()))
    else {
        return base != "to";
    };
    match base {
        "to" => out.dtype == of.dtype,
        "contiguous" => out.stride == of.stride,
        "reshape" | "flatten" | "ravel" | "reshape_as" => {
            // rows one after the other
            let mut step = Some(1i64);
            of.shape.iter().zip(&of.stride).rev().all(|(n, s)| {
                use flambeau_fx::symbolic::Expr;
                let fits = match (n, s, step) {
                    (Expr::Int(1), _, _) => true,
                    (_, Expr::Int(s), Some(k)) => *s == k,
                    (_, _, None) => true,
                    _ => false,
                };
                step = match (n, step) {
                    (Expr::Int(n), Some(k)) => k.checked_mul(*n),
                    _ => None,
                };
                fits
            })
        }
        _ => true,
    }
}
/// What a translation gave, with the element types and sizes that the program knows.
fn fit(b: &mut Builder, made: Arg, known: Option<&Val>) -> Result<Arg> {
    Ok(match (made, known) {
        (Arg::Var(v), Some(Val::Tensor(t))) => {
            let mut v = b.cast(&v, t.dtype)?;
            if v.rank() == t.shape.len() {
                let shape = known_shape(t);
                v.shape.iter_mut().zip(shape).for_each(|(own, known)| *own = known.or(*own));
            }
            v.number = false;
            Arg::Var(v)
        }
        (Arg::Int(n), Some(Val::Tensor(t))) => Arg::Var(b.value(&Arg::Int(n), t.dtype)?),
        (Arg::Float(x), Some(Val::Tensor(t))) => Arg::Var(b.value(&Arg::Float(x), t.dtype)?),
        (Arg::List(l), Some(Val::List(all))) => {
            let one = |(i, a): (usize, Arg)| fit(b, a, all.get(i));
            Arg::List(l.into_iter().enumerate().map(one).collect::<Result<_>>()?)
        }
        // a list of one that the program takes as a tensor
        (Arg::List(mut l), Some(Val::Tensor(t))) if !l.is_empty() => {
            fit(b, l.swap_remove(0), Some(&Val::Tensor(t.clone())))?
        }
        (made, _) => made,
    })
}
/// A value as a tensor that may go into or out of a graph.
pub(super) fn as_value(b: &mut Builder, a: &Arg) -> Result<Option<Var>> {
    Ok(match a {
        Arg::None | Arg::Ignored | Arg::Str(_) | Arg::DType(_) => None,
        Arg::Var(v) => Some(v.clone()),
        Arg::Int(_) => Some(b.value(a, DType::I64)?),
        Arg::Bool(_) => Some(b.value(a, DType::Bool)?),
        Arg::Float(_) => Some(b.value(a, DType::F32)?),
        other => return Err(Error::type_(format!("{} goes through no graph of ONNX", other.kind()))),
    })
}
