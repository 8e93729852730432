//! The first run, and the plan that is made of it.

use super::call::{Call, Form, Over, Slot, Source, View};
use super::seen::{Given, Seen, holds};
use super::{Action, Plan, PlanReport, Step};
use crate::argument::Argument;
use crate::interpreter::{Calls, arguments, input, perform};
use crate::module::GraphModule;
use crate::node::{Node, NodeData, Op};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::arena::{Piece, Record};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Result, Tensor, Value};
use flambeau_library::observe::{self, Called};
use std::ops::Range;

/// Runs a graph, and makes a plan of what it did; one without memory only says which operators are called with what.
pub(super) fn run(
    m: &GraphModule,
    inputs: &[Value],
    calls: &mut dyn Calls,
    memory: bool,
) -> Result<(Value, Plan)> {
    let record = Record::new();
    let mut r = Recording {
        m,
        memory,
        record: &record,
        facts: (0..m.graph.capacity()).map(|_| Fact::default()).collect(),
        drafts: Vec::new(),
        gone: Vec::new(),
        alive: Vec::new(),
        views: 0,
    };
    let value = if memory { record.during(|| r.run(inputs, calls))? } else { r.run(inputs, calls)? };
    let Recording { drafts, gone, views, .. } = r;
    let given = inputs.iter().map(Given::of).collect();
    Ok((value, planned(&record, drafts, &gone, views, given)))
}

/// What is known of a node's value.
#[derive(Clone, Default)]
struct Fact {
    /// It follows from the sizes of the inputs.
    settled: bool,
    /// A tensor that is the same in every run.
    constant: bool,
    /// The tensor of the record that it is itself.
    root: Option<usize>,
    /// The handle is the same in every run as long as that tensor of the record is.
    steady: Option<usize>,
}
struct Draft {
    step: Step,
    /// The tensor of the record that the call may write over, and the one that is its result.
    over: Option<(Over, usize, usize)>,
}
struct Recording<'a> {
    m: &'a GraphModule,
    /// Whether tensors are to lie in an arena. Where they do not, gradients may be recorded, so nothing is kept that has a history.
    memory: bool,
    record: &'a Record,
    facts: Vec<Fact>,
    drafts: Vec<Draft>,
    /// By tensor of the record: when it was made, and after which step nobody had a handle on it; none if somebody had at the end.
    gone: Vec<(usize, Option<usize>)>,
    alive: Vec<usize>,
    views: usize,
}
impl Recording<'_> {
    fn run(&mut self, inputs: &[Value], calls: &mut dyn Calls) -> Result<Value> {
        let g = &self.m.graph;
        let mut values: Vec<Option<Value>> = (0..g.capacity()).map(|_| None).collect();
        let mut left: Vec<usize> = vec![0; g.capacity()];
        let mut given = inputs.iter();
        for (at, n) in g.nodes().enumerate() {
            let d = g.node(n);
            let before = self.record.len();
            let (v, action, over) = self.step(n, d, &values, &mut given, calls, before)?;
            let pieces = before..self.record.len();
            let mut last: Vec<Node> = Vec::new();
            for used in d.input_nodes() {
                let left = &mut left[used.index as usize];
                *left = left.saturating_sub(1);
                if *left == 0 {
                    last.push(used);
                    values[used.index as usize] = None;
                }
            }
            left[n.index as usize] = d.users().len();
            if d.users().is_empty() {
                last.push(n);
            }
            let seen = match action {
                Action::Call(_) | Action::Other => Seen::of(&v),
                _ => Seen::Any,
            };
            self.drafts.push(Draft { step: Step { node: n, action, pieces, seen, last }, over });
            calls.saw(n, &v)?;
            // what `calls` made is here too, and asked for by no step
            let made = self.gone.len()..self.record.len();
            self.gone.extend(made.clone().map(|_| (at, None)));
            self.alive.extend(made);
            if d.op == Op::Output {
                return Ok(v);
            }
            values[n.index as usize] = (!d.users().is_empty()).then_some(v);
            let (record, gone) = (self.record, &mut self.gone);
            self.alive.retain(|i| {
                let alive = record.is_alive(*i);
                if !alive {
                    gone[*i].1 = Some(at);
                }
                alive
            });
        }
        Ok(Value::None)
    }
    /// Does a step, and says how it is done again.
    fn step(
        &mut self,
        n: Node,
        d: &NodeData,
        values: &[Option<Value>],
        given: &mut std::slice::Iter<'_, Value>,
        calls: &mut dyn Calls,
        before: usize,
    ) -> Result<(Value, Action, Option<(Over, usize, usize)>)> {
        let g = &self.m.graph;
        let at = n.index as usize;
        if d.op == Op::Placeholder {
            let v = input(g, n, given.next())?;
            self.facts[at].settled = !holds(&v, |v| matches!(v, Value::Object(_)));
            return Ok((v, Action::Input, None));
        }
        let (args, kwargs) = arguments(g, d, values)?;
        let (v, called) = observe::during(|| perform(d, &args, &kwargs, calls));
        let v = v?;
        let fresh = before..self.record.len();
        if d.op == Op::Output {
            return Ok((v, Action::Output, None));
        }
        if d.op == Op::GetAttr {
            let own = self.m.own(&d.target).is_some();
            self.facts[at] = Fact {
                settled: own && !holds(&v, |v| matches!(v, Value::Object(_))),
                constant: self.memory && own && matches!(v, Value::Tensor(_)),
                ..Fact::default()
            };
            let action = if own { Action::Known(v.clone()) } else { Action::Other };
            return Ok((v, action, None));
        }
        let host = !holds(&v, |v| matches!(v, Value::Tensor(_) | Value::Object(_)));
        if host && self.follows(d, values) {
            self.facts[at].settled = true;
            return Ok((v.clone(), Action::Known(v), None));
        }
        // what is looked at again in each run is settled from there on
        self.facts[at].settled = !holds(&v, |v| matches!(v, Value::Object(_)));
        if let Some((of, i)) = item(d, &v, values) {
            self.facts[at].steady = self.facts[of.index as usize].steady;
            self.rooted(at, &v);
            return Ok((v, Action::Item(of, i), None));
        }
        // a module may be changed behind the graph's back
        if !self.memory && d.op == Op::CallModule {
            return Ok((v, Action::Other, None));
        }
        let (action, over) = self.call(at, d, values, called, &v, &fresh);
        if let Action::Known(_) = action {
            return Ok((v, action, over));
        }
        self.rooted(at, &v);
        Ok((v, action, over))
    }
    /// Notes which tensor of the record a value is itself.
    fn rooted(&mut self, at: usize, v: &Value) {
        if let Value::Tensor(t) = v
            && t.view_base().is_none()
            && let Some(made) = self.record.find(t)
        {
            self.facts[at].root = Some(made);
            self.facts[at].steady = Some(made);
        }
    }
    /// Whether a node's value without tensors follows from the sizes and numbers that it is given.
    fn follows(&self, d: &NodeData, values: &[Option<Value>]) -> bool {
        const GEOMETRY: [&str; 16] = [
            "size",
            "dim",
            "numel",
            "nelement",
            "stride",
            "ndimension",
            "element_size",
            "is_floating_point",
            "is_complex",
            "torch.ops.aten.sym_size.int",
            "torch.ops.aten.sym_stride.int",
            "torch.ops.aten.sym_numel.default",
            "torch.ops.aten.sym_size.default",
            "torch.ops.aten.sym_stride.default",
            "len",
            "torch.numel",
        ];
        const ATTRIBUTES: [&str; 7] = ["shape", "ndim", "dtype", "device", "is_cuda", "itemsize", "layout"];
        let target = d.target.as_str();
        let attribute = || match (target, d.args().get(1).and_then(Argument::value)) {
            ("getattr", Some(Value::Str(name))) => ATTRIBUTES.contains(&name.as_str()),
            _ => false,
        };
        let reads =
            matches!(d.op, Op::CallFunction | Op::CallMethod) && GEOMETRY.contains(&target) || attribute();
        let plain = d.op == Op::CallFunction
            && (!target.contains('.')
                || ["operator.", "_operator.", "math.", "torch.sym_", "torch._assert"]
                    .iter()
                    .any(|p| target.starts_with(p))
                || ["torch.ops.aten._assert_scalar.", "torch.ops.aten.sym_constrain_range"]
                    .iter()
                    .any(|p| target.starts_with(p)));
        if !reads && !plain {
            return false;
        }
        d.input_nodes().iter().all(|n| {
            let fact = self.facts.get(n.index as usize);
            let tensor = match values.get(n.index as usize) {
                Some(Some(v)) => holds(v, |v| matches!(v, Value::Tensor(_) | Value::Object(_))),
                _ => true,
            };
            fact.is_some_and(|f| f.settled) && (!tensor || reads)
        })
    }
    /// How the operator that a node called is called again.
    fn call(
        &mut self,
        at: usize,
        d: &NodeData,
        values: &[Option<Value>],
        called: Vec<Called>,
        v: &Value,
        fresh: &Range<usize>,
    ) -> (Action, Option<(Over, usize, usize)>) {
        let bound = || -> Option<(Called, Vec<Slot>, Form)> {
            let Ok([one]) = <[Called; 1]>::try_from(called) else { return None };
            if !one.alone {
                return None;
            }
            let form = Form::of(&one.results, v)?;
            let slots = slots(d, values, &one.args)?;
            Some((one, slots, form))
        };
        let Some((one, slots, form)) = bound() else { return (Action::Other, None) };
        let pure = !one.op.info().schema.mutates();
        let mut view = None;
        if self.memory && pure && fresh.is_empty() {
            if let Value::Tensor(t) = v
                && let Some(s) =
                    slots.iter().find(|s| s.from.item.is_none() && is_value(values, s.from.node, t))
            {
                self.facts[at] = self.facts[s.from.node.index as usize].clone();
                return (Action::Same(s.from.node), None);
            }
            if let [s] = &slots[..]
                && let Some(of) = tensor(values, s.from)
                && views_of(v, of)
            {
                let fact = &self.facts[s.from.node.index as usize];
                if fact.constant && s.from.item.is_none() {
                    self.facts[at].constant = true;
                    return (Action::Known(v.clone()), None);
                }
                if let Some(piece) = fact.steady {
                    let list = v.items().map(<[Value]>::len);
                    view = Some(View { piece, place: self.views, list });
                    self.views += list.unwrap_or(1);
                    self.facts[at].steady = Some(piece);
                }
            }
        }
        let over = if pure { self.over(values, &one, &slots, v, fresh) } else { None };
        let mut args = one.args;
        for s in &slots {
            if let Some(place) = match (s.item, args.get_mut(s.arg)) {
                (None, place) => place,
                (Some(i), Some(Value::List(l) | Value::Tuple(l))) => l.get_mut(i),
                _ => None,
            } {
                *place = Value::None;
            }
        }
        (Action::Call(Box::new(Call { op: one.op, args, slots, form, view, over: None })), over)
    }
    /// How the call could write over its first argument, as far as that is known before the run has ended.
    fn over(
        &self,
        values: &[Option<Value>],
        one: &Called,
        slots: &[Slot],
        v: &Value,
        fresh: &Range<usize>,
    ) -> Option<(Over, usize, usize)> {
        let (Value::Tensor(result), [first, rest @ ..]) = (v, slots) else { return None };
        if first.arg != 0 || first.item.is_some() || first.from.item.is_some() {
            return None;
        }
        let made = self.record.find(result).filter(|i| fresh.contains(i) && result.view_base().is_none())?;
        let piece = self.facts[first.from.node.index as usize].root?;
        let before = tensor(values, first.from)?;
        let apart = |s: &Slot| tensor(values, s.from).is_some_and(|t| !t.storage().same(before.storage()));
        (Piece::of(before) == Piece::of(result) && rest.iter().all(apart))
            .then(|| Over::of(one.op, &one.args).map(|over| (over, piece, made)))
            .flatten()
    }
}
fn tensor(values: &[Option<Value>], from: Source) -> Option<&Tensor> {
    let v = values.get(from.node.index as usize)?.as_ref()?;
    match (from.item, v) {
        (None, Value::Tensor(t)) => Some(t),
        (Some(i), v) => match v.items()?.get(i)? {
            Value::Tensor(t) => Some(t),
            _ => None,
        },
        _ => None,
    }
}
fn is_value(values: &[Option<Value>], n: Node, t: &Tensor) -> bool {
    tensor(values, Source { node: n, item: None }).is_some_and(|v| v.is_same(t))
}
/// Whether a value is views of a tensor, and nothing else.
fn views_of(v: &Value, of: &Tensor) -> bool {
    let one =
        |v: &Value| matches!(v, Value::Tensor(t) if t.view_base().is_some_and(|b| b.is_same(of.root())));
    match v {
        Value::List(l) | Value::Tuple(l) => !l.is_empty() && l.iter().all(one),
        v => one(v),
    }
}
/// The item of another node's value that a node is.
fn item(d: &NodeData, v: &Value, values: &[Option<Value>]) -> Option<(Node, usize)> {
    let (Op::CallFunction, "operator.getitem" | "_operator.getitem") = (d.op, d.target.as_str()) else {
        return None;
    };
    let [Argument::Node(of), Argument::Value(Value::Int(i))] = d.args() else { return None };
    let source = values.get(of.index as usize)?.as_ref()?;
    let n = source.items()?.len();
    let i = usize::try_from(if *i < 0 { i.checked_add(n as i64)? } else { *i }).ok()?;
    let same = match (source.items()?.get(i)?, v) {
        (Value::Tensor(a), Value::Tensor(b)) => a.is_same(b),
        _ => false,
    };
    same.then_some((*of, i))
}
/// The places of tensors among an operator's arguments; none if it is given something that no node's value is, or a tensor was
/// read on the way.
fn slots(d: &NodeData, values: &[Option<Value>], args: &[Value]) -> Option<Vec<Slot>> {
    let mut sources: Vec<(Source, &Tensor, bool)> = Vec::new();
    for n in d.input_nodes() {
        match values.get(n.index as usize)?.as_ref()? {
            Value::Tensor(t) => sources.push((Source { node: n, item: None }, t, false)),
            v => {
                for (i, v) in v.items().unwrap_or(&[]).iter().enumerate() {
                    match v {
                        Value::Tensor(t) => sources.push((Source { node: n, item: Some(i) }, t, false)),
                        v if holds(v, |v| matches!(v, Value::Tensor(_) | Value::Object(_))) => return None,
                        _ => {}
                    }
                }
            }
        }
    }
    let mut all = Vec::new();
    let mut fits = |arg: usize, item: Option<usize>, v: &Value| match v {
        Value::Tensor(t) => match sources.iter_mut().find(|s| s.1.is_same(t)) {
            Some(s) => {
                s.2 = true;
                all.push(Slot { arg, item, from: s.0 });
                true
            }
            None => t.is_wrapped_number(),
        },
        v => !holds(v, |v| matches!(v, Value::Tensor(_) | Value::Object(_) | Value::Generator(_))),
    };
    for (arg, v) in args.iter().enumerate() {
        let ok = match v {
            Value::List(l) | Value::Tuple(l) => l.iter().enumerate().all(|(i, v)| fits(arg, Some(i), v)),
            v => fits(arg, None, v),
        };
        if !ok {
            return None;
        }
    }
    // one tensor may come by two nodes
    let used: Vec<usize> = sources.iter().filter(|s| s.2).map(|s| s.1.id()).collect();
    sources.iter().all(|s| used.contains(&s.1.id())).then_some(all)
}

/// Lays out the arena.
fn planned(
    record: &Record,
    mut drafts: Vec<Draft>,
    gone: &[(usize, Option<usize>)],
    views: usize,
    given: Vec<Given>,
) -> Plan {
    // a tensor that is written over lives as long as the result in its place
    let mut place: Vec<usize> = (0..gone.len()).collect();
    let mut gone = gone.to_vec();
    let mut in_place = 0;
    for (at, d) in drafts.iter_mut().enumerate() {
        let Some((over, piece, made)) = d.over.take() else { continue };
        let piece = place[piece];
        let Action::Call(call) = &mut d.step.action else { continue };
        if gone[piece].1 != Some(at) {
            continue;
        }
        gone[piece].1 = gone[made].1;
        place[made] = piece;
        call.over = Some((over, piece));
        in_place += 1;
    }
    let mut asked = vec![false; place.len()];
    for d in &drafts {
        asked[d.step.pieces.clone()].fill(true);
    }
    let mut number = vec![0; place.len()];
    let mut kept: Vec<(usize, Piece)> = Vec::new();
    for i in 0..place.len() {
        number[i] = kept.len();
        if place[i] == i
            && asked[i]
            && let Some(piece) = record.piece(i)
        {
            kept.push((i, piece));
        }
    }
    let count = kept.len();
    let mut report = PlanReport { steps: drafts.len(), in_place, ..PlanReport::default() };
    report.made =
        (0..place.len()).filter(|i| asked[*i]).filter_map(|i| record.piece(i)).map(|p| p.bytes()).sum();
    let mut steps = Vec::with_capacity(drafts.len());
    for d in drafts {
        let mut step = d.step;
        let at = |i: usize| number.get(i).copied().unwrap_or(count);
        step.pieces = at(step.pieces.start)..at(step.pieces.end);
        if let Action::Call(call) = &mut step.action {
            report.calls += 1;
            if let Some(v) = &mut call.view {
                v.piece = number[place[v.piece]];
            }
            if let Some((_, piece)) = &mut call.over {
                *piece = number[*piece];
            }
        }
        steps.push(step);
    }
    // the largest first, each to the smallest part that is free meanwhile
    let mut order: Vec<usize> = (0..count).filter(|k| gone[kept[*k].0].1.is_some()).collect();
    order.sort_by_key(|k| std::cmp::Reverse(kept[*k].1.bytes()));
    let mut part_of: Vec<Option<usize>> = vec![None; count];
    let mut parts: Vec<(usize, Vec<(usize, usize)>)> = Vec::new();
    for k in order {
        let (from, to) = (gone[kept[k].0].0, gone[kept[k].0].1.unwrap_or(usize::MAX));
        let free = |p: &(usize, Vec<(usize, usize)>)| p.1.iter().all(|(a, b)| to < *a || *b < from);
        let i = match parts.iter().rposition(free) {
            Some(i) => i,
            None => {
                parts.push((kept[k].1.bytes(), Vec::new()));
                parts.len() - 1
            }
        };
        parts[i].1.push((from, to));
        part_of[k] = Some(i);
    }
    let pieces: Vec<(Piece, Option<usize>)> = kept.into_iter().map(|(_, p)| p).zip(part_of).collect();
    report.results = pieces.iter().filter(|p| p.1.is_none()).map(|p| p.0.bytes()).sum();
    let parts: Vec<usize> = parts.into_iter().map(|p| p.0).collect();
    report.arena = parts.iter().sum();
    Plan { given, steps, parts, pieces, views, lanes: Mutex::default(), report }
}
