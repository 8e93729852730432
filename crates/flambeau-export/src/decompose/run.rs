//! A program walked at one choice of sizes.

use super::build::{Builder, Call, Item, computed, op, val, wrapped};
use super::{CustomDecompTable, kind_of, rules};
use crate::graph_signature::{InputKind, OutputKind};
use crate::program::ExportedProgram;
use flambeau_core::{DType, Error, Result, Tensor, Value};
use flambeau_fx::symbolic::{Bindings, Expr, Number};
use flambeau_fx::{Argument, GraphModule, Node, NodeData, Op, TensorMeta, Val};
use flambeau_library as library;
use std::collections::HashMap;

/// A write to an input.
#[derive(Clone)]
pub(super) struct Written {
    pub kind: OutputKind,
    pub target: String,
}
/// A graph in a graph by its name.
pub(super) fn child(m: &GraphModule, name: &str) -> Result<GraphModule> {
    let found = m.get(name)?;
    let graph = match &found {
        Value::Object(o) => o.downcast::<GraphModule>(),
        _ => None,
    };
    graph.cloned().ok_or_else(|| Error::type_(format!("'{name}' is no graph")))
}
/// A tensor of zeros with these sizes.
fn zeros(t: &TensorMeta, at: &Bindings) -> Result<Tensor> {
    let number = |e: &Expr| match e.evaluate(at).and_then(Number::int) {
        Some(n) if n >= 0 => Ok(n),
        _ => Err(Error::value(format!("the size {e} has no value"))),
    };
    let sizes = t.shape.iter().map(number).collect::<Result<Vec<_>>>()?;
    let strides = t.stride.iter().map(number).collect::<Result<Vec<_>>>()?;
    let mut need = i64::from(sizes.iter().all(|n| *n > 0));
    for (n, s) in sizes.iter().zip(&strides) {
        need = (n - 1)
            .checked_mul(*s)
            .and_then(|m| need.checked_add(m))
            .ok_or_else(|| Error::value("a tensor that is too large"))?;
    }
    let list = |l: &[i64]| Value::List(l.iter().copied().map(Value::Int).collect());
    let dtype = [("dtype".to_string(), Value::DType(t.dtype))];
    let flat = library::call_value("torch.zeros", &[list(&[need.max(0)])], &dtype)?;
    let viewed = library::method(&flat, "as_strided", &[list(&sizes), list(&strides)], &[])?;
    viewed.into_tensor().map_err(|_| Error::runtime("no tensor"))
}
fn value_of(v: &Val, at: &Bindings) -> Result<Value> {
    Ok(match v {
        Val::None => Value::None,
        Val::Tensor(t) => Value::Tensor(zeros(t, at)?),
        Val::Sym(s) => match Expr::read(s)?.evaluate(at) {
            Some(Number::Int(i)) => Value::Int(i),
            Some(Number::Float(x)) => Value::Float(x),
            Some(Number::Bool(b)) => Value::Bool(b),
            None => return Err(Error::value(format!("the number {s} has no value"))),
        },
        Val::List(l) => Value::Tuple(l.iter().map(|v| value_of(v, at)).collect::<Result<_>>()?),
    })
}

/// Operators of the core set that are views: their results share memory, which writes need to know.
pub(super) fn is_view(name: &str) -> bool {
    matches!(
        name,
        "view.default"
            | "slice.Tensor"
            | "select.int"
            | "permute.default"
            | "unsqueeze.default"
            | "squeeze.dims"
            | "expand.default"
            | "diagonal.default"
            | "alias.default"
            | "as_strided.default"
            | "split_with_sizes.default"
            | "_conj.default"
    )
}

pub(super) struct Run<'a> {
    source: &'a GraphModule,
    table: &'a CustomDecompTable,
    at: &'a Bindings,
    b: Builder,
    items: HashMap<Node, Item>,
    /// What a node is a view of.
    views: HashMap<Node, Node>,
    /// Results of writes are what was written to.
    same: HashMap<Node, Node>,
    /// How often what stands behind a node was written to, and when the node's value was made.
    versions: HashMap<Node, usize>,
    made: HashMap<Node, usize>,
    /// Graphs of branches and loops, by name.
    children: Vec<(String, GraphModule)>,
}
impl<'a> Run<'a> {
    pub fn new(source: &'a GraphModule, table: &'a CustomDecompTable, at: &'a Bindings) -> Run<'a> {
        Run {
            source,
            table,
            at,
            b: Builder::new(),
            items: HashMap::new(),
            views: HashMap::new(),
            same: HashMap::new(),
            versions: HashMap::new(),
            made: HashMap::new(),
            children: Vec::new(),
        }
    }
    fn root(&self, n: Node) -> Node {
        let mut at = n;
        while let Some(p) = self.views.get(&at).or_else(|| self.same.get(&at)) {
            at = *p;
        }
        at
    }
    /// What the result of a write is.
    fn itself(&self, n: Node) -> Node {
        let mut at = n;
        while let Some(p) = self.same.get(&at) {
            at = *p;
        }
        at
    }
    /// The value of a node as it is now: views of what was written to are made again.
    fn read(&mut self, n: Node) -> Result<Item> {
        let n = self.itself(n);
        let now = self.versions.get(&self.root(n)).copied().unwrap_or(0);
        if self.views.contains_key(&n) && self.made.get(&n).copied().unwrap_or(0) < now {
            let d = self.source.graph.node(n).clone();
            let new = self.called(n, &d)?;
            self.items.insert(n, new);
            self.made.insert(n, now);
        }
        match self.items.get(&n) {
            Some(i) => Ok(i.clone()),
            None => Err(Error::runtime(format!(
                "'{}' is used before it is there",
                self.source.graph.node(n).name
            ))),
        }
    }
    fn item(&mut self, a: &Argument) -> Result<Item> {
        let all = |r: &mut Self, l: &[Argument]| l.iter().map(|a| r.item(a)).collect::<Result<Vec<Item>>>();
        Ok(match a {
            Argument::Node(n) => self.read(*n)?,
            Argument::Value(v) => Item { arg: a.clone(), value: v.clone() },
            Argument::List(l) => all(self, l)?.into(),
            Argument::Tuple(l) => {
                let l = all(self, l)?;
                let (args, values) = l.iter().map(|i| (i.arg.clone(), i.value.clone())).unzip();
                Item { arg: Argument::Tuple(args), value: Value::Tuple(values) }
            }
            Argument::Dict(d) => {
                let (mut args, mut values) = (Vec::new(), Vec::new());
                for (k, a) in d {
                    let i = self.item(a)?;
                    args.push((k.clone(), i.arg.clone()));
                    values.push((k.clone(), i.value.clone()));
                }
                Item { arg: Argument::Dict(args), value: Value::Dict(values) }
            }
            Argument::Slice(s) => {
                let l = all(self, &s[..])?;
                let [x, y, z] = &l[..] else {
                    return Err(Error::runtime("a slice of other than three numbers"));
                };
                Item {
                    arg: Argument::Slice(Box::new([x.arg.clone(), y.arg.clone(), z.arg.clone()])),
                    value: Value::Slice([x.int(), y.int(), z.int()]),
                }
            }
        })
    }
    /// New values of a node, and so of what it is a view of.
    fn write(&mut self, n: Node, new: Item) -> Result<()> {
        let n = self.itself(n);
        if let Some(p) = self.views.get(&n).copied() {
            let whole = self.read(p)?;
            let d = self.source.graph.node(n).clone();
            let whole = self.put(&d, &whole, &new)?;
            self.write(p, whole)?;
        } else {
            *self.versions.entry(n).or_insert(0) += 1;
        }
        let now = self.versions.get(&self.root(n)).copied().unwrap_or(0);
        self.items.insert(n, new);
        self.made.insert(n, now);
        Ok(())
    }
    /// What a view was made of, with other elements in the place of the view.
    fn put(&mut self, d: &NodeData, whole: &Item, new: &Item) -> Result<Item> {
        let name = d.target.strip_prefix("torch.ops.aten.").unwrap_or(&d.target).to_string();
        let args = d.args().iter().skip(1).map(|a| self.item(a)).collect::<Result<Vec<Item>>>()?;
        let int = |at: usize, default: i64| args.get(at).and_then(Item::int).unwrap_or(default);
        let b = &mut self.b;
        let sizes = whole.sizes()?;
        Ok(match name.as_str() {
            "slice.Tensor" => {
                let all = [vec![whole.clone(), new.clone()], args].concat();
                b.op("slice_scatter.default", all, Vec::new())?
            }
            "select.int" => {
                // where a dimension's number is the selected one
                let at = wrapped(int(0, 0), sizes.len())?;
                let n = sizes[at];
                let index = if int(1, 0) < 0 { int(1, 0) + n } else { int(1, 0) };
                let places = op!(b, "arange.start_step", 0, n);
                let mut shape = vec![1i64; sizes.len()];
                shape[at] = -1;
                let places = op!(b, "view.default", &places, shape);
                let here = op!(b, "eq.Scalar", &places, index);
                let wide = op!(b, "unsqueeze.default", new, at as i64);
                let wide = op!(b, "expand.default", &wide, &sizes[..]);
                op!(b, "where.self", &here, &wide, whole)
            }
            "permute.default" | "transpose.int" | "t.default" | "mT.default" | "numpy_T.default"
            | "movedim.int" => {
                // where each dimension of the whole went
                let strides: Vec<i64> = (0..sizes.len() as i64).collect();
                let marked = marked(&sizes, &strides)?;
                let call =
                    Call { name: name.clone(), args: [vec![marked], args].concat(), kwargs: Vec::new() };
                let order = computed(&call.name, &call.args, &[])?;
                let Value::Tensor(ref order) = order else { return Err(Error::runtime("no tensor")) };
                let back: Vec<i64> = (0..sizes.len() as i64)
                    .map(|d| order.strides().iter().position(|s| *s == d).map_or(0, |p| p as i64))
                    .collect();
                op!(b, "permute.default", new, back)
            }
            "_conj.default" => op!(b, "_conj.default", new),
            "detach.default" | "detach_.default" | "alias.default" => new.clone(),
            _ if new.tensor()?.numel() == whole.tensor()?.numel() => op!(b, "view.default", new, sizes),
            other => {
                return Err(Error::missing(format!(
                    "a write through aten::{other} in a program that is decomposed"
                )));
            }
        })
    }
    /// Which sizes of a call's first argument, or of the tensors in it, are no numbers.
    fn symbolic(&self, d: &NodeData) -> Vec<bool> {
        let Some(first) = d.args().first() else { return Vec::new() };
        let mut out = Vec::new();
        for a in first.items().unwrap_or(std::slice::from_ref(first)) {
            if let Some(Val::Tensor(t)) = a.node().and_then(|n| self.source.graph.node(n).meta.val.as_ref()) {
                out.extend(t.shape.iter().map(|e| e.as_int().is_none()));
            }
        }
        out
    }
    /// The value of a call, in operators of the core set.
    fn called(&mut self, n: Node, d: &NodeData) -> Result<Item> {
        let mut meta = d.meta.clone();
        meta.val = None;
        self.b.meta = meta;
        self.b.symbolic = self.symbolic(d);
        let mut args = d.args().iter().map(|a| self.item(a)).collect::<Result<Vec<_>>>()?;
        let mut kwargs = Vec::new();
        for (k, a) in d.kwargs() {
            kwargs.push((k.clone(), self.item(a)?));
        }
        if d.target == "operator.getitem"
            && let [of, at] = &args[..]
            && let Some(i) = at.int()
            && let Some(part) = of.items().get(usize::try_from(i).unwrap_or(usize::MAX))
        {
            return Ok(part.clone());
        }
        let Some(name) = d.target.strip_prefix("torch.ops.aten.") else {
            return self.kept(&d.target, args, kwargs, d);
        };
        let base = name.split('.').next().unwrap_or(name);
        let in_place = base.ends_with('_') && !base.ends_with("__") && base != "detach_";
        let region = self.b.autocast;
        if let Some(lower) = self.b.autocast.take() {
            let alone;
            (args, kwargs, alone) = super::autocast::applied(&mut self.b, lower, name, args, kwargs)?;
            self.b.autocast = region.filter(|_| !alone);
        }
        let functional = match (in_place, name.split_once('.')) {
            (true, Some((base, overload))) => format!("{}.{overload}", base.trim_end_matches('_')),
            _ => name.to_string(),
        };
        let known = self.table.contains(&format!("aten.{functional}"));
        let c = Call { name: functional, args, kwargs };
        let done = match known {
            true => rules::decomposed(&mut self.b, &c)?,
            false => None,
        };
        let out = match done {
            Some(out) => out,
            None => {
                let target = format!("torch.ops.aten.{}", c.name);
                if in_place || is_view(&c.name) {
                    let value = computed(&c.name, &c.args, &c.kwargs)?;
                    self.b.node(&target, &c.args, &c.kwargs, value)
                } else {
                    self.kept(&target, c.args, c.kwargs, d)?
                }
            }
        };
        self.b.autocast = region;
        let writes = std::mem::take(&mut self.b.writes);
        for (at, new) in writes {
            if let Some(of) = d.args().get(at).and_then(Argument::node) {
                self.write(of, new)?;
            }
        }
        if in_place && let Some(of) = d.args().first().and_then(Argument::node) {
            // the result has the written tensor's dtype
            let dtype = self.read(of)?.dtype()?;
            let b = &mut self.b;
            let out =
                if out.dtype()? == dtype { out } else { op!(b, "_to_copy.default", &out; dtype = dtype) };
            self.write(of, out)?;
            self.same.insert(n, of);
            return self.read(of);
        }
        Ok(out)
    }
    /// A call that stays as it is.
    fn kept(
        &mut self,
        target: &str,
        mut args: Vec<Item>,
        kwargs: Vec<(String, Item)>,
        d: &NodeData,
    ) -> Result<Item> {
        let value = match &d.meta.val {
            Some(v) => value_of(v, self.at)?,
            None => Value::None,
        };
        if let Some(name) = target.strip_prefix("torch.ops.aten.") {
            self.b.plain(name, &mut args)?;
        }
        let item = self.b.node(target, &args, &kwargs, value);
        if let (Some(Val::Sym(_)), Argument::Node(n)) = (&d.meta.val, &item.arg) {
            self.b.graph.meta_mut(*n).val = d.meta.val.clone();
        }
        Ok(item)
    }
    /// A region whose graph takes its place, with autocast of a dtype or without.
    fn inlined(
        &mut self,
        n: Node,
        d: &NodeData,
        f: &Argument,
        inputs: &[Argument],
        autocast: Option<DType>,
    ) -> Result<()> {
        let outer = self.b.autocast;
        let graph = f.node().map(|f| self.source.graph.node(f).target.clone()).unwrap_or_default();
        let graph = graph.as_str();
        let body = child(self.source, graph)?;
        let given = inputs.iter().map(|a| self.item(a)).collect::<Result<Vec<_>>>()?;
        let mut inner = Run::new(&body, self.table, self.at);
        std::mem::swap(&mut inner.b, &mut self.b);
        let mut given = given.into_iter();
        inner.b.autocast = autocast;
        let result = inner.walk(&mut |_, _| given.next());
        std::mem::swap(&mut inner.b, &mut self.b);
        self.b.autocast = outer;
        let mut children = std::mem::take(&mut inner.children);
        let out = result?;
        if !children.is_empty() || !inner.versions.is_empty() {
            return Err(Error::missing(format!(
                "'{}': branches or writes in a region that is decomposed",
                d.name
            )));
        }
        self.children.append(&mut children);
        self.items.insert(n, out);
        Ok(())
    }
    /// All nodes but inputs and the output; gives what the output says.
    fn walk(&mut self, input: &mut dyn FnMut(&mut Run<'a>, Node) -> Option<Item>) -> Result<Item> {
        let nodes: Vec<Node> = self.source.graph.nodes().collect();
        for n in nodes {
            let d = self.source.graph.node(n).clone();
            let stop = |e: Error| Error::new(e.kind(), format!("node '{}': {}", d.name, e.message()));
            match d.op {
                Op::Placeholder => {
                    let Some(i) = input(self, n) else {
                        return Err(Error::runtime(format!("no value for the input '{}'", d.name)));
                    };
                    self.items.insert(n, i);
                }
                Op::GetAttr => {
                    let v = self.source.get(&d.target)?;
                    let new = self.b.graph.create_node(
                        Op::GetAttr,
                        &d.target,
                        Vec::new(),
                        Vec::new(),
                        Some(&d.name),
                    );
                    *self.b.graph.meta_mut(new) = d.meta.clone();
                    self.items.insert(n, Item { arg: new.into(), value: v });
                }
                Op::Output => {
                    let result = d.args().first().cloned().unwrap_or(Argument::NONE);
                    return self.item(&result);
                }
                _ => match d.target.as_str() {
                    "torch.ops.higher_order.wrap_with_set_grad_enabled" => {
                        let [_, f, inputs @ ..] = d.args() else {
                            return Err(stop(Error::serialization("a region without a graph")));
                        };
                        let outer = self.b.autocast;
                        self.inlined(n, &d, f, inputs, outer).map_err(stop)?;
                    }
                    "torch.ops.higher_order.wrap_with_autocast" => {
                        let [device, dtype, on, _, f, inputs @ ..] = d.args() else {
                            return Err(stop(Error::serialization("a region without a graph")));
                        };
                        let inner = region(device, dtype, on, self.b.autocast);
                        self.inlined(n, &d, f, inputs, inner).map_err(stop)?;
                    }
                    t if crate::regions::is_step(&d) => {
                        return Err(stop(Error::missing(format!("decomposition of a vmap ({t})"))));
                    }
                    t => {
                        if t.starts_with("torch.ops.higher_order.") {
                            self.bodies(&d).map_err(stop)?;
                        }
                        let out = self.called(n, &d).map_err(stop)?;
                        self.view(n, &d, &out);
                        self.items.insert(n, out);
                    }
                },
            }
        }
        Err(Error::serialization("the graph has no output"))
    }
    /// Notes what a node is a view of.
    fn view(&mut self, n: Node, d: &NodeData, out: &Item) {
        let Value::Tensor(new) = &out.value else { return };
        if self.views.contains_key(&n) || self.same.contains_key(&n) {
            return;
        }
        for a in d.args() {
            if let Argument::Node(of) = a
                && let Some(Value::Tensor(t)) = self.items.get(of).map(|i| &i.value)
                && shares(new, t)
            {
                self.views.insert(n, *of);
                let now = self.versions.get(&self.root(*of)).copied().unwrap_or(0);
                self.made.insert(n, now);
                return;
            }
        }
    }
    /// The graphs that a call of branches or loops names.
    fn bodies(&mut self, d: &NodeData) -> Result<()> {
        for a in d.args() {
            let Some(f) = a.node().map(|n| self.source.graph.node(n)) else { continue };
            if f.op != Op::GetAttr || self.children.iter().any(|(n, _)| *n == f.target) {
                continue;
            }
            let body = child(self.source, &f.target)?;
            let inner = Run::new(&body, self.table, self.at).graph_alone()?;
            self.children.push((f.target.clone(), inner));
        }
        Ok(())
    }
    /// An input of the graph, as it was.
    fn input(&mut self, n: Node) -> Result<Item> {
        let d = self.source.graph.node(n).clone();
        let value = match &d.meta.val {
            Some(v) => value_of(v, self.at)?,
            None => Value::None,
        };
        let new = self.b.graph.create_node(
            Op::Placeholder,
            &d.target,
            d.args().to_vec(),
            Vec::new(),
            Some(&d.name),
        );
        let mut meta = d.meta.clone();
        if let Some(Val::Tensor(t)) = &d.meta.val {
            // the sizes are solved again; what else is known stays
            meta.val = val(&value);
            if let Some(Val::Tensor(m)) = &mut meta.val {
                m.requires_grad = t.requires_grad;
            }
        }
        *self.b.graph.meta_mut(new) = meta;
        Ok(Item { arg: new.into(), value })
    }
    fn finished(mut self, results: Item, first: Vec<Item>) -> GraphModule {
        let mut all: Vec<Argument> = first.into_iter().map(|i| i.arg.clone()).collect();
        let single = all.is_empty() && results.arg.items().is_none();
        match results.arg.items() {
            Some(l) => all.extend(l.iter().cloned()),
            None => all.push(results.arg.clone()),
        }
        match (single, all.first()) {
            (true, Some(one)) => self.b.graph.output(one.clone()),
            _ => self.b.graph.output(Argument::Tuple(all)),
        };
        let mut m = GraphModule::new(self.b.graph);
        // graphs come below, as they are now; those whose nodes took their place are gone
        let is_graph = |v: &Value| matches!(v, Value::Object(o) if o.downcast::<GraphModule>().is_some());
        for (path, v) in self.source.attributes().iter().filter(|(_, v)| !is_graph(v)) {
            m.set_value(path, v.clone());
        }
        for (name, child) in self.children {
            m.set_graph(&name, child);
        }
        m
    }
    /// A body: it may not write to its inputs.
    fn graph_alone(mut self) -> Result<GraphModule> {
        let mut error = None;
        let out = self.walk(&mut |r, n| r.input(n).map_err(|e| error = Some(e)).ok());
        if let Some(e) = error {
            return Err(e);
        }
        let out = out?;
        if !self.versions.is_empty() {
            return Err(Error::missing("writes in a branch or loop that is decomposed"));
        }
        Ok(self.finished(out, Vec::new()))
    }
    /// The whole program: what it writes to inputs comes first among the results.
    pub fn whole(mut self, p: &ExportedProgram) -> Result<(GraphModule, Vec<Written>)> {
        let mut error = None;
        let out = self.walk(&mut |r, n| r.input(n).map_err(|e| error = Some(e)).ok());
        if let Some(e) = error {
            return Err(e);
        }
        let mut out = out?;
        let (mut first, mut written) = (Vec::new(), Vec::new());
        let inputs = self.source.graph.find_nodes(Op::Placeholder, None);
        for user in [false, true] {
            for (n, s) in inputs.iter().zip(&p.graph_signature.input_specs) {
                if self.versions.get(n).copied().unwrap_or(0) == 0 || (s.kind == InputKind::UserInput) != user
                {
                    continue;
                }
                let target = match &s.target {
                    Some(t) => t.clone(),
                    None => self.source.graph.node(*n).name.clone(),
                };
                first.push(self.read(*n)?);
                written.push(Written { kind: kind_of(s.kind), target });
            }
        }
        // results are read last: views of what was written to come out as they are then
        if let Some(n) = self.source.graph.output_node() {
            let result = self.source.graph.node(n).args().first().cloned().unwrap_or(Argument::NONE);
            out = self.item(&result)?;
        }
        Ok((self.finished(out, first), written))
    }
}
/// Whether two tensors have one memory.
fn shares(a: &Tensor, b: &Tensor) -> bool {
    use flambeau_core::internal::RawTensor as _;
    a.numel() > 0 && a.storage().id() == b.storage().id()
}
/// A tensor whose strides say which dimension is which.
fn marked(sizes: &[i64], strides: &[i64]) -> Result<Item> {
    let list = |l: &[i64]| Value::List(l.iter().copied().map(Value::Int).collect());
    let need: i64 = 1 + sizes.iter().zip(strides).map(|(n, s)| (n - 1).max(0) * s).sum::<i64>();
    let flat = library::call_value("torch.zeros", &[list(&[need])], &[])?;
    let viewed = library::method(&flat, "as_strided", &[list(sizes), list(strides)], &[])?;
    Ok(viewed.into())
}
/// The dtype of autocast on the CPU in a region, within one that has it or not.
fn region(device: &Argument, dtype: &Argument, on: &Argument, outer: Option<DType>) -> Option<DType> {
    match (device.value(), dtype.value(), on.value()) {
        (Some(Value::Str(device)), _, _) if device != "cpu" => outer,
        (_, Some(Value::DType(d)), Some(Value::Bool(true))) => Some(*d),
        (_, _, Some(Value::Bool(true))) => Some(outer.unwrap_or(DType::BF16)),
        _ => None,
    }
}
