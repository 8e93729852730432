//! Calls of operators whose names and arguments were bound once.

use super::value;
use crate::node::Node;
use flambeau_core::dispatch::op::{AnyOp, OpInfo};
use flambeau_core::dispatch::registry;
use flambeau_core::dispatch::value::NamedTuple;
use flambeau_core::tensor::arena::Arena;
use flambeau_core::{Error, Result, Value};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Where an argument comes from: a node's value, or an item of it.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) node: Node,
    pub(super) item: Option<usize>,
}
/// A tensor among the arguments that is another one in each run: its place, and that in a list there.
pub(super) struct Slot {
    pub(super) arg: usize,
    pub(super) item: Option<usize>,
    pub(super) from: Source,
}
/// How results become the one value of the node.
pub(super) enum Form {
    /// There is none.
    Nothing,
    /// The one result.
    One,
    /// The items of the one result, which is a list, as a tuple.
    Items,
    /// All, as a tuple, of a class where it has one.
    Many(Option<(String, Vec<&'static str>)>),
}
/// The form of an operator that writes its first argument.
pub(super) enum Over {
    Op(&'static dyn AnyOp),
    /// The argument that says so.
    Flag(usize),
}
pub(super) struct Call {
    pub(super) op: &'static dyn AnyOp,
    /// The arguments, without those of the slots.
    pub(super) args: Vec<Value>,
    pub(super) slots: Vec<Slot>,
    pub(super) form: Form,
    pub(super) view: Option<View>,
    /// The first argument is this tensor of the arena, and may be written over.
    pub(super) over: Option<(Over, usize)>,
}
/// Results that are views of a tensor of the arena, kept from this place on: one, or a list of so many.
pub(super) struct View {
    pub(super) piece: usize,
    pub(super) place: usize,
    pub(super) list: Option<usize>,
}
impl Call {
    pub(super) fn run(
        &self,
        arena: Option<&Arena>,
        values: &[Option<Value>],
        args: &mut [Value],
    ) -> Result<Value> {
        if let (Some(view), Some(arena)) = (&self.view, arena)
            && let Some(v) = self.kept(arena, view)
        {
            return Ok(v);
        }
        let over = self.over.as_ref().filter(|(_, piece)| {
            let first = self.slots.first().map(|s| values.get(s.from.node.index as usize));
            matches!((first, arena), (Some(Some(Some(Value::Tensor(t)))), Some(a)) if a.has_only(*piece, t, 1))
        });
        let filled = self.fill(values, args);
        let results = filled.and_then(|()| match over {
            Some((Over::Op(op), _)) => op.call_boxed(args),
            Some((Over::Flag(at), _)) => {
                args[*at] = Value::Bool(true);
                let r = self.op.call_boxed(args);
                args[*at] = Value::Bool(false);
                r
            }
            None => self.op.call_boxed(args),
        });
        for s in &self.slots {
            if let Some(place) = place(args, s) {
                *place = Value::None;
            }
        }
        let v = self.form.value(results?)?;
        if let (Some(view), Some(arena)) = (&self.view, arena) {
            let all = std::slice::from_ref(&v);
            for (i, v) in v.items().unwrap_or(all).iter().enumerate() {
                if let Value::Tensor(t) = v {
                    arena.keep_view(view.place + i, view.piece, t);
                }
            }
        }
        Ok(v)
    }
    fn fill(&self, values: &[Option<Value>], args: &mut [Value]) -> Result<()> {
        for s in &self.slots {
            let v = value(values, s.from.node)?;
            let v = match s.from.item {
                None => Some(v),
                Some(i) => v.items().and_then(|l| l.get(i)),
            };
            match (place(args, s), v) {
                (Some(place), Some(v)) => *place = v.clone(),
                _ => return Err(Error::runtime("an argument of a step of a plan is not there")),
            }
        }
        Ok(())
    }
    /// The views that were kept.
    fn kept(&self, arena: &Arena, view: &View) -> Option<Value> {
        let of = |i: usize| arena.view(view.place + i).map(Value::Tensor);
        match (&self.form, view.list) {
            (Form::One, None) => of(0),
            (Form::One, Some(n)) => (0..n).map(of).collect::<Option<_>>().map(Value::List),
            (Form::Items | Form::Many(None), Some(n)) => {
                (0..n).map(of).collect::<Option<_>>().map(Value::Tuple)
            }
            _ => None,
        }
    }
}
fn place<'a>(args: &'a mut [Value], s: &Slot) -> Option<&'a mut Value> {
    let arg = args.get_mut(s.arg)?;
    match (s.item, arg) {
        (None, arg) => Some(arg),
        (Some(i), Value::List(l) | Value::Tuple(l)) => l.get_mut(i),
        _ => None,
    }
}
impl Form {
    /// The form in which results are a value.
    pub(super) fn of(results: &[Value], v: &Value) -> Option<Form> {
        let same = |a: &[Value], b: &[Value]| {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| match (a, b) {
                    (Value::Tensor(a), Value::Tensor(b)) => a.is_same(b),
                    (Value::None, Value::None) => true,
                    _ => false,
                })
        };
        match (results, v) {
            ([], Value::None) => Some(Form::Nothing),
            ([one], v) if same(std::slice::from_ref(one), std::slice::from_ref(v)) => Some(Form::One),
            ([Value::List(a)], Value::List(b)) if same(a, b) => Some(Form::One),
            ([Value::List(a)], Value::Tuple(b)) if same(a, b) => Some(Form::Items),
            (all, Value::Tuple(b)) if same(all, b) => Some(Form::Many(None)),
            (all, Value::Named(t)) if same(all, &t.items) => {
                Some(Form::Many(Some((t.class.clone(), t.fields.clone()))))
            }
            _ => None,
        }
    }
    fn value(&self, mut results: Vec<Value>) -> Result<Value> {
        let other = || Error::runtime("an operator gives another number of results than before");
        Ok(match self {
            Form::Nothing => Value::None,
            Form::One => results.pop().ok_or_else(other)?,
            Form::Items => Value::Tuple(results.pop().and_then(|v| v.into_items().ok()).ok_or_else(other)?),
            Form::Many(None) => Value::Tuple(results),
            Form::Many(Some((class, fields))) => {
                Value::Named(NamedTuple { class: class.clone(), fields: fields.clone(), items: results })
            }
        })
    }
}

/// The operators by element that write their first argument, by the one that gives the result instead.
fn in_place() -> &'static HashMap<usize, &'static dyn AnyOp> {
    static ALL: OnceLock<HashMap<usize, &'static dyn AnyOp>> = OnceLock::new();
    ALL.get_or_init(|| {
        let ops = registry::crates().into_iter().flat_map(|c| c.ops.iter().copied());
        let writes = ops.filter_map(|op| {
            let plain = op.info().functional?;
            let (a, b) = (op.info().schema.args, plain.schema.args);
            let first = a.first().is_some_and(|a| a.mutated) && a.len() == b.len();
            (first && plain.pointwise).then(|| (address(plain), op))
        });
        writes.collect()
    })
}
fn address(info: &'static OpInfo) -> usize {
    std::ptr::from_ref(info).addr()
}
impl Over {
    /// How an operator can write its result over its first argument.
    pub(super) fn of(op: &'static dyn AnyOp, args: &[Value]) -> Option<Over> {
        if let Some(op) = in_place().get(&address(op.info())) {
            return Some(Over::Op(*op));
        }
        let at = op.info().schema.args.iter().position(|a| a.name == "inplace")?;
        matches!(args.get(at), Some(Value::Bool(false))).then_some(Over::Flag(at))
    }
}
