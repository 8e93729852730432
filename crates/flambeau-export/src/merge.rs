//! Several captures of a program as one, whose numbers are expressions of the dynamic sizes.

use crate::capture::Captured;
use crate::solve::Points;
use flambeau_core::{Error, Result, Value};
use flambeau_fx::symbolic::{Bindings, Expr};
use flambeau_fx::{Argument, Graph, GraphModule, Node, Op, TensorMeta, Val};
use std::collections::HashMap;

pub(crate) struct Merged {
    pub module: GraphModule,
    pub output: Vec<Argument>,
}

type Order = HashMap<Node, usize>;
fn order(g: &Graph) -> Order {
    g.nodes().enumerate().map(|(i, n)| (n, i)).collect()
}
fn alike(a: &Argument, b: &Argument, oa: &Order, ob: &Order) -> bool {
    let all = |a: &[Argument], b: &[Argument]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b, oa, ob))
    };
    match (a, b) {
        (Argument::Node(a), Argument::Node(b)) => oa.get(a) == ob.get(b),
        (Argument::Value(Value::Int(_)), Argument::Value(Value::Int(_))) => true,
        (Argument::Value(_), Argument::Value(_)) => a.same(b),
        (Argument::List(a), Argument::List(b)) | (Argument::Tuple(a), Argument::Tuple(b)) => all(a, b),
        (Argument::Dict(a), Argument::Dict(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && alike(&a.1, &b.1, oa, ob))
        }
        (Argument::Slice(a), Argument::Slice(b)) => all(&a[..], &b[..]),
        _ => false,
    }
}
/// Where two captures go different ways; none if they differ in numbers alone.
pub(crate) fn same_way(a: &Captured, b: &Captured) -> Option<String> {
    let (ga, gb) = (&a.module.graph, &b.module.graph);
    let (oa, ob) = (order(ga), order(gb));
    let mut others = gb.nodes();
    for n in ga.nodes() {
        let d = ga.node(n);
        let Some(m) = others.next() else { return Some(format!("'{}' is not there at other sizes", d.name)) };
        let e = gb.node(m);
        let same = d.op == e.op
            && d.target == e.target
            && d.args().len() == e.args().len()
            && d.kwargs().len() == e.kwargs().len()
            && d.args().iter().zip(e.args()).all(|(a, b)| alike(a, b, &oa, &ob))
            && d.kwargs().iter().zip(e.kwargs()).all(|(a, b)| a.0 == b.0 && alike(&a.1, &b.1, &oa, &ob))
            && ranks(&d.meta.val) == ranks(&e.meta.val);
        if !same {
            return Some(format!("'{}' is '{}' at other sizes", ga.format_node(n), gb.format_node(m)));
        }
    }
    let more = others.next().map(|m| format!("'{}' is added at other sizes", gb.node(m).name));
    more.or_else(|| {
        (a.out_spec != b.out_spec).then(|| "the result is built differently at other sizes".to_string())
    })
}
fn ranks(v: &Option<Val>) -> Option<usize> {
    match v {
        Some(Val::Tensor(t)) => Some(t.shape.len()),
        _ => None,
    }
}

struct Merger<'a> {
    graph: Graph,
    points: &'a Points,
    /// By the node's place in all captures.
    new: Vec<Node>,
    orders: Vec<Order>,
    /// Nodes of numbers, by expression.
    numbers: HashMap<String, Node>,
    sizes: &'a [(String, Option<usize>, Expr)],
}
fn integer(a: &Argument) -> Option<i64> {
    match a {
        Argument::Value(Value::Int(i)) => Some(*i),
        _ => None,
    }
}
/// A term that is taken away, as what is taken away.
fn opposite(e: &Expr) -> Option<Expr> {
    match e {
        Expr::Int(i) if *i < 0 => i.checked_neg().map(Expr::Int),
        Expr::Mul(l) => match l.split_first() {
            Some((Expr::Int(i), rest)) if *i < 0 => {
                Some(crate::solve::product(i.checked_neg()?, rest.to_vec()))
            }
            _ => None,
        },
        _ => None,
    }
}
/// The name that a node wishes for.
fn wish(target: &str) -> &str {
    let name = target.strip_prefix("torch.ops.").and_then(|t| t.split('.').nth(1));
    name.unwrap_or_else(|| target.rsplit('.').next().unwrap_or(target))
}
impl Merger<'_> {
    fn function(&mut self, target: &str, args: Vec<Argument>, name: &str, e: &Expr) -> Node {
        let n = self.graph.create_node(Op::CallFunction, target, args, Vec::new(), Some(name));
        self.graph.meta_mut(n).val = Some(Val::Sym(e.to_string()));
        self.numbers.insert(e.to_string(), n);
        n
    }
    /// An expression as an argument: nodes that compute it.
    fn number(&mut self, e: &Expr) -> Result<Argument> {
        if let Expr::Int(i) = e {
            return Ok(Argument::from(*i));
        }
        if let Some(n) = self.numbers.get(&e.to_string()) {
            return Ok(Argument::Node(*n));
        }
        if let Some((input, dim, _)) = self.sizes.iter().find(|(_, _, s)| s == e) {
            let Some(n) = self.graph.named(input) else {
                return Err(Error::runtime(format!("no input '{input}'")));
            };
            let Some(d) = dim else { return Ok(Argument::Node(n)) };
            let args = vec![Argument::Node(n), Argument::from(*d as i64)];
            return Ok(self.function("torch.ops.aten.sym_size.int", args, "sym_size_int", e).into());
        }
        let fold = |m: &mut Self, l: &[Expr], target: &str| -> Result<Argument> {
            let mut it = l.iter();
            let mut so_far = match it.next() {
                Some(first) => (first.clone(), m.number(first)?),
                None => return Err(Error::runtime("an empty expression")),
            };
            let mut done: Vec<Expr> = vec![so_far.0.clone()];
            for next in it {
                done.push(next.clone());
                let whole = if done.len() == l.len() {
                    e.clone()
                } else {
                    match e {
                        Expr::Add(_) => Expr::Add(done.clone()),
                        Expr::Mul(_) => Expr::Mul(done.clone()),
                        Expr::Max(_) => Expr::Max(done.clone()),
                        _ => Expr::Min(done.clone()),
                    }
                };
                // what is taken away is subtracted
                let less = if target == "operator.add" { opposite(next) } else { None };
                let n = match (next, less) {
                    (_, Some(less)) => {
                        let args = vec![so_far.1, m.number(&less)?];
                        m.function("operator.sub", args, "sub", &whole)
                    }
                    _ => {
                        let right = m.number(next)?;
                        let args = match so_far.1 {
                            number @ Argument::Value(_) => vec![right, number],
                            left => vec![left, right],
                        };
                        m.function(target, args, wish(target), &whole)
                    }
                };
                so_far = (whole, n.into());
            }
            Ok(so_far.1)
        };
        let pair = |m: &mut Self, p: &(Expr, Expr), target: &str| -> Result<Argument> {
            let args = vec![m.number(&p.0)?, m.number(&p.1)?];
            Ok(m.function(target, args, wish(target), e).into())
        };
        // what is taken away is subtracted, of something that is there
        if let Expr::Add(l) = e
            && let Some(at) = l.iter().position(|t| opposite(t).is_none())
            && at > 0
        {
            let mut turned = l.clone();
            let first = turned.remove(at);
            turned.insert(0, first);
            return fold(self, &turned, "operator.add");
        }
        match e {
            Expr::Symbol { name, .. } => {
                // a symbol that no size is as it is: from one that follows from it
                let found = self.sizes.iter().find(|(_, _, s)| s.symbols() == [name.clone()]).cloned();
                let Some((_, _, size)) = found else {
                    return Err(Error::runtime(format!("no input says '{name}'")));
                };
                let zero: Bindings = [(name.clone(), 0)].into_iter().collect();
                let one: Bindings = [(name.clone(), 1)].into_iter().collect();
                let at = |b: &Bindings| size.evaluate(b).and_then(|n| n.int()).unwrap_or(0);
                let (offset, factor) = (at(&zero), at(&one) - at(&zero));
                let mut n = self.number(&size)?;
                if offset != 0 {
                    let less = crate::solve::sum(vec![size.clone(), Expr::Int(-offset)]);
                    n = self.function("operator.sub", vec![n, Argument::from(offset)], "sub", &less).into();
                }
                Ok(self.function("operator.floordiv", vec![n, Argument::from(factor)], "floordiv", e).into())
            }
            Expr::Add(l) => fold(self, l, "operator.add"),
            Expr::Mul(l) => fold(self, l, "operator.mul"),
            Expr::Max(l) => {
                let l: Vec<Expr> = l.iter().rev().cloned().collect();
                fold(self, &l, "torch.sym_max")
            }
            Expr::Min(l) => {
                let l: Vec<Expr> = l.iter().rev().cloned().collect();
                fold(self, &l, "torch.sym_min")
            }
            Expr::FloorDiv(p) => pair(self, p, "operator.floordiv"),
            Expr::Mod(p) => pair(self, p, "operator.mod"),
            Expr::Pow(p) => pair(self, p, "operator.pow"),
            other => Err(Error::missing(format!("the expression {other} in a captured program"))),
        }
    }
    fn solved(&self, y: &[i64], what: &dyn Fn() -> String) -> Result<Expr> {
        self.points.solve(y).ok_or_else(|| {
            Error::runtime(format!(
                "{} was {} at the sizes {}: no expression of them fits",
                what(),
                y.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
                self.points.all.iter().map(|p| format!("{p:?}")).collect::<Vec<_>>().join(", ")
            ))
        })
    }
    fn argument(&mut self, all: &[&Argument], of: &str) -> Result<Argument> {
        let parts = |i: usize| -> Vec<&Argument> {
            all.iter()
                .filter_map(|a| match a {
                    Argument::Slice(s) => s.get(i),
                    Argument::Dict(d) => d.get(i).map(|(_, v)| v),
                    a => a.items().and_then(|l| l.get(i)),
                })
                .collect()
        };
        Ok(match all[0] {
            Argument::Node(n) => match self.orders[0].get(n) {
                Some(i) => Argument::Node(self.new[*i]),
                None => return Err(Error::runtime(format!("'{of}' uses a node that is not there"))),
            },
            Argument::Value(Value::Int(_)) => {
                let y: Vec<i64> = all.iter().filter_map(|a| integer(a)).collect();
                let e = self.solved(&y, &|| format!("a number in '{of}'"))?;
                self.number(&e)?
            }
            Argument::Value(Value::Float(x))
                if all
                    .iter()
                    .any(|a| matches!(a.value(), Some(Value::Float(y)) if y.to_bits() != x.to_bits())) =>
            {
                return Err(Error::missing(format!("a fraction in '{of}' that follows from the sizes")));
            }
            a @ Argument::Value(_) => a.clone(),
            Argument::List(l) => {
                Argument::List((0..l.len()).map(|i| self.argument(&parts(i), of)).collect::<Result<_>>()?)
            }
            Argument::Tuple(l) => {
                Argument::Tuple((0..l.len()).map(|i| self.argument(&parts(i), of)).collect::<Result<_>>()?)
            }
            Argument::Dict(d) => Argument::Dict(
                d.iter()
                    .enumerate()
                    .map(|(i, (k, _))| Ok((k.clone(), self.argument(&parts(i), of)?)))
                    .collect::<Result<_>>()?,
            ),
            Argument::Slice(_) => {
                let mut all = [Argument::NONE, Argument::NONE, Argument::NONE];
                for (i, a) in all.iter_mut().enumerate() {
                    *a = self.argument(&parts(i), of)?;
                }
                Argument::Slice(Box::new(all))
            }
        })
    }
    fn meta(&self, all: &[&Val], of: &str) -> Result<Val> {
        match all[0] {
            Val::Tensor(first) => {
                let tensors: Vec<&TensorMeta> =
                    all.iter().filter_map(|v| if let Val::Tensor(t) = v { Some(t) } else { None }).collect();
                let series = |f: &dyn Fn(&TensorMeta) -> Option<i64>| -> Vec<i64> {
                    tensors.iter().filter_map(|t| f(t)).collect()
                };
                let mut t = first.clone();
                for d in 0..first.shape.len() {
                    let y = series(&|t| t.shape.get(d)?.as_int());
                    t.shape[d] = self.solved(&y, &|| format!("size {d} of '{of}'"))?;
                }
                let mut dense = Expr::Int(1);
                for d in (0..first.stride.len()).rev() {
                    let y = series(&|t| t.stride.get(d)?.as_int());
                    // strides of dense tensors follow from the sizes
                    t.stride[d] = self.points.solve(&y).unwrap_or_else(|| dense.clone());
                    dense = crate::solve::product(1, vec![t.shape[d].clone(), t.stride[d].clone()]);
                }
                let y = series(&|t| t.storage_offset.as_int());
                t.storage_offset = self.points.solve(&y).unwrap_or(first.storage_offset.clone());
                Ok(Val::Tensor(t))
            }
            Val::List(l) => {
                let at = |i: usize| -> Vec<&Val> {
                    all.iter().filter_map(|v| if let Val::List(l) = v { l.get(i) } else { None }).collect()
                };
                Ok(Val::List((0..l.len()).map(|i| self.meta(&at(i), of)).collect::<Result<_>>()?))
            }
            v => Ok(v.clone()),
        }
    }
}
/// All captures as one.
pub(crate) fn merge(
    all: &[Captured],
    points: &Points,
    sizes: &[(String, Option<usize>, Expr)],
) -> Result<Merged> {
    let graphs: Vec<&Graph> = all.iter().map(|c| &c.module.graph).collect();
    let nodes: Vec<Vec<Node>> = graphs.iter().map(|g| g.nodes().collect()).collect();
    let mut m = Merger {
        graph: Graph::new(),
        points,
        new: Vec::new(),
        orders: graphs.iter().map(|g| order(g)).collect(),
        numbers: HashMap::new(),
        sizes,
    };
    let mut output = Vec::new();
    for (i, first) in nodes[0].iter().enumerate() {
        let each: Vec<_> = graphs.iter().zip(&nodes).map(|(g, l)| g.node(l[i])).collect();
        let d = graphs[0].node(*first);
        let args = (0..d.args().len())
            .map(|a| m.argument(&each.iter().map(|e| &e.args()[a]).collect::<Vec<_>>(), &d.name))
            .collect::<Result<Vec<_>>>()?;
        let mut kwargs = Vec::new();
        for (k, (name, _)) in d.kwargs().iter().enumerate() {
            let a = m.argument(&each.iter().map(|e| &e.kwargs()[k].1).collect::<Vec<_>>(), &d.name)?;
            kwargs.push((name.clone(), a));
        }
        let name = match d.op {
            Op::CallFunction => wish(&d.target),
            _ => &d.name,
        };
        if d.op == Op::Output {
            output = match args.first() {
                Some(a) => a.items().map_or_else(|| vec![a.clone()], <[Argument]>::to_vec),
                None => Vec::new(),
            };
        }
        let n = m.graph.create_node(d.op, &d.target, args, kwargs, Some(name));
        m.new.push(n);
        let mut meta = d.meta.clone();
        let vals: Vec<&Val> = each.iter().filter_map(|e| e.meta.val.as_ref()).collect();
        if vals.len() == each.len() {
            meta.val = Some(m.meta(&vals, &d.name)?);
        }
        // a number that the caller gives
        if d.op == Op::Placeholder
            && let Some((_, _, e)) = sizes.iter().find(|(input, dim, _)| *input == d.name && dim.is_none())
        {
            meta.val = Some(Val::Sym(e.to_string()));
            m.numbers.insert(e.to_string(), n);
        }
        // a number that the program found out before
        if let Some(Val::Sym(e)) = &meta.val {
            m.numbers.entry(e.clone()).or_insert(n);
        }
        *m.graph.meta_mut(n) = meta;
    }
    let mut graph = m.graph;
    graph.eliminate_dead_code(&|_| false);
    let mut module = GraphModule::new(graph);
    for (path, v) in all[0].module.attributes() {
        match child(v) {
            Some(_) => module.set_graph(path, branches(all, path, points)?),
            None => module.set_value(path, v.clone()),
        }
    }
    Ok(Merged { module, output })
}
fn child(v: &Value) -> Option<&GraphModule> {
    match v {
        Value::Object(o) => o.downcast::<GraphModule>(),
        _ => None,
    }
}
/// A graph of a branch or loop in all captures as one.
fn branches(all: &[Captured], path: &str, points: &Points) -> Result<GraphModule> {
    let mut parts = Vec::new();
    for c in all {
        let found = c.module.attributes().iter().find(|(p, _)| p == path).and_then(|(_, v)| child(v));
        let Some(m) = found else {
            return Err(Error::runtime(format!("'{path}' is not there at other sizes")));
        };
        parts.push(Captured::of(m.clone()));
    }
    if let Some(why) = parts.iter().skip(1).find_map(|c| same_way(&parts[0], c)) {
        return Err(Error::runtime(format!("'{path}' goes another way at other sizes: {why}")));
    }
    let sizes = inputs(&parts, points)?;
    let merged = merge(&parts, points, &sizes)?;
    let (mut m, single) = (merged.module, single(&parts[0].module));
    if let Some(n) = m.graph.output_node() {
        let result = match (single, merged.output.first()) {
            (true, Some(one)) => one.clone(),
            _ => Argument::Tuple(merged.output),
        };
        m.graph.set_args(n, vec![result]);
    }
    Ok(m)
}
/// Whether a graph gives one result that is no tuple.
fn single(m: &GraphModule) -> bool {
    let out = m.graph.output_node().and_then(|n| m.graph.node(n).args().first());
    matches!(out, Some(Argument::Node(_) | Argument::Value(_)))
}
/// The expressions of the sizes of a graph's inputs.
fn inputs(all: &[Captured], points: &Points) -> Result<Vec<(String, Option<usize>, Expr)>> {
    let each: Vec<Vec<Node>> = all.iter().map(|c| c.module.graph.find_nodes(Op::Placeholder, None)).collect();
    let mut out = Vec::new();
    for (i, first) in each[0].iter().enumerate() {
        let d = all[0].module.graph.node(*first);
        match &d.meta.val {
            Some(Val::Tensor(t)) => {
                for k in 0..t.shape.len() {
                    let y: Vec<i64> = all
                        .iter()
                        .zip(&each)
                        .filter_map(|(c, l)| match &c.module.graph.node(*l.get(i)?).meta.val {
                            Some(Val::Tensor(t)) => t.shape.get(k)?.as_int(),
                            _ => None,
                        })
                        .collect();
                    match points.solve(&y) {
                        Some(Expr::Int(_)) => {}
                        Some(e) => out.push((d.name.clone(), Some(k), e)),
                        None => {
                            return Err(Error::runtime(format!(
                                "size {k} of '{}': no expression fits",
                                d.name
                            )));
                        }
                    }
                }
            }
            Some(Val::Sym(s)) => out.extend(Expr::read(s).ok().map(|e| (d.name.clone(), None, e))),
            _ => {}
        }
    }
    Ok(out)
}
