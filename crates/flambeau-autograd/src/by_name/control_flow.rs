//! `torch.cond`, `while_loop`, `map`, `scan` and `associative_scan` by name, over trees of tensors; `torch.autograd.graph`'s tools.

use super::function;
use crate::control_flow::{ScanOptions, try_associative_scan, try_cond, try_map, try_scan, try_while_loop};
use crate::graph;
use flambeau_core::dispatch::object::{Constructor, Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::{FromValue, NamedTuple};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_library::slots::Slots;
use flambeau_library::{NativeFn, object, register_function};
use std::any::Any;

fn flat(v: &Value, to: &mut Vec<Tensor>) -> Result<()> {
    match v {
        Value::Tensor(t) => to.push(t.clone()),
        Value::Dict(d) => d.iter().try_for_each(|(_, v)| flat(v, to))?,
        Value::None => {}
        v => match v.items() {
            Some(l) => l.iter().try_for_each(|v| flat(v, to))?,
            None => return Err(Error::runtime(format!("expected tensors, got {}", v.type_name()))),
        },
    }
    Ok(())
}
fn leaves(v: &Value) -> Result<Vec<Tensor>> {
    let mut all = Vec::new();
    flat(v, &mut all)?;
    Ok(all)
}
/// The tree with other tensors at its leaves.
fn filled(v: &Value, from: &mut dyn Iterator<Item = Tensor>) -> Value {
    let mut all = |l: &[Value]| l.iter().map(|v| filled(v, from)).collect::<Vec<_>>();
    match v {
        Value::List(l) => Value::List(all(l)),
        Value::Tuple(l) => Value::Tuple(all(l)),
        Value::Named(t) => {
            let (class, fields) = (t.class.clone(), t.fields.clone());
            Value::Named(NamedTuple { class, fields, items: all(&t.items) })
        }
        Value::Dict(d) => Value::Dict(d.iter().map(|(k, v)| (k.clone(), filled(v, from))).collect()),
        Value::Tensor(_) => from.next().map_or(Value::None, Value::Tensor),
        v => v.clone(),
    }
}
fn with(v: &Value, tensors: &[Tensor]) -> Value {
    filled(v, &mut tensors.iter().cloned())
}
fn called(f: &ObjectRef, args: &[Value]) -> Result<Value> {
    let mut all = f.call(args, &[])?;
    Ok(match all.len() {
        0 => Value::None,
        1 => all.remove(0),
        _ => Value::Tuple(all),
    })
}
fn list(v: &Value) -> Vec<Value> {
    v.items().map_or_else(|| vec![v.clone()], <[Value]>::to_vec)
}

fn cond(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("cond", &["pred", "true_fn", "false_fn", "operands"], a, k)?;
    let pred = match s.must(0)? {
        Value::Tensor(t) => t.clone(),
        Value::Bool(b) => crate::shorthand::number(f64::from(u8::from(*b)))?,
        v => {
            let shown = flambeau_library::repr(v)?;
            return Err(Error::runtime(format!("Expected pred to be bool or tensor, but got {shown}.")));
        }
    };
    let none = Value::Tuple(Vec::new());
    let operands = s.values[3].unwrap_or(&none);
    let args = list(operands);
    let (yes, no) = (function(s.must(1)?)?, function(s.must(2)?)?);
    leaves(operands).map_err(|_| {
        Error::runtime(format!(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but got {}.",
            flambeau_library::repr(operands).unwrap_or_default()
        ))
    })?;
    Ok(vec![try_cond(&pred, |a: &[Value]| called(yes, a), |a| called(no, a), &args[..])?])
}
fn while_loop(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("while_loop", &["cond_fn", "body_fn", "carried_inputs"], a, k)?;
    let (cond, body, carried) = (function(s.must(0)?)?, function(s.must(1)?)?, s.must(2)?);
    let test = |c: &[Tensor]| match called(cond, &list(&with(carried, c)))?.into_tensor() {
        Ok(t) => Ok(t),
        Err(v) => crate::shorthand::number(f64::from(u8::from(bool::from_value(&v)?))),
    };
    let step = |c: &[Tensor]| leaves(&called(body, &list(&with(carried, c)))?);
    let done = try_while_loop(test, step, &leaves(carried)?[..])?;
    Ok(vec![with(carried, &done)])
}
/// A function of trees as one of lists, which remembers the tree that it gave.
fn stepping<'a>(f: &'a ObjectRef, shape: &'a Mutex<Value>) -> impl Fn(&[Value]) -> Result<Vec<Tensor>> + 'a {
    move |args| {
        let out = called(f, args)?;
        let all = leaves(&out)?;
        *shape.lock().unwrap_or_else(|e| e.into_inner()) = out;
        Ok(all)
    }
}
fn map(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    ensure!(k.is_empty() && a.len() >= 2, Type, "map() takes a function, tensors, and arguments by position");
    let (f, xs, rest) = (function(&a[0])?, &a[1], &a[2..]);
    let shape = Mutex::new(Value::None);
    let step = stepping(f, &shape);
    let one = |x: &[Tensor]| step(&[&[with(xs, x)], rest].concat());
    let all = try_map(one, &leaves(xs)?[..])?;
    drop(step);
    Ok(vec![with(&shape.into_inner().unwrap_or_else(|e| e.into_inner()), &all)])
}
fn scan(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("scan", &["combine_fn", "init", "xs", "dim", "reverse", "length"], a, k)?;
    let (f, init, xs) = (function(s.must(0)?)?, s.must(1)?, s.must(2)?);
    ensure!(s.get::<i64>(5)?.is_none(), Missing, "scan with length");
    let o = ScanOptions::new().dim(s.get(3)?.unwrap_or(0)).reverse(s.get(4)?.unwrap_or(false));
    let shape = Mutex::new(Value::None);
    let step = |c: &[Tensor], x: &[Tensor]| match &list(&called(f, &[with(init, c), with(xs, x)])?)[..] {
        [next, y] => {
            *shape.lock().unwrap_or_else(|e| e.into_inner()) = y.clone();
            Ok((leaves(next)?, leaves(y)?))
        }
        _ => Err(Error::runtime("scan: combine_fn must give the next carry and an output")),
    };
    let (carry, all) = try_scan(step, &leaves(init)?[..], &leaves(xs)?[..], o)?;
    let shape = shape.into_inner().unwrap_or_else(|e| e.into_inner());
    Ok(vec![Value::Tuple(vec![with(init, &carry), with(&shape, &all)])])
}
fn associative_scan(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("associative_scan", &["combine_fn", "xs", "dim", "reverse", "combine_mode"], a, k)?;
    let (f, xs) = (function(s.must(0)?)?, s.must(1)?);
    let mode: String = s.get(4)?.unwrap_or_else(|| "pointwise".into());
    ensure!(
        mode == "pointwise" || mode == "generic",
        Value,
        "Combine_mode must either 'pointwise' or 'generic', but got {mode}"
    );
    let o = ScanOptions::new().dim(s.get(2)?.unwrap_or(0)).reverse(s.get(3)?.unwrap_or(false));
    let tensors = leaves(xs)?;
    let joined = |a: &[Tensor], b: &[Tensor]| leaves(&called(f, &[with(xs, a), with(xs, b)])?);
    if mode == "pointwise" {
        return Ok(vec![with(xs, &try_associative_scan(joined, &tensors[..], o)?)]);
    }
    // a function that looks at whole slices is called slice by slice
    let first = std::cell::Cell::new(true);
    let step = |c: &[Tensor], x: &[Tensor]| {
        let next = if first.replace(false) { x.to_vec() } else { joined(c, x)? };
        Ok((next.clone(), next))
    };
    let at = if s.get(3)?.unwrap_or(false) { -1 } else { 0 };
    let dim = s.get::<i64>(2)?.unwrap_or(0);
    let begin = tensors.iter().map(|t| flambeau_core::ops::select(t, dim, at)).collect::<Result<Vec<_>>>()?;
    Ok(vec![with(xs, &try_scan(step, &begin[..], &tensors[..], o)?.1)])
}

/// `allow_mutation_on_saved_tensors` as a context manager. The guard belongs to its thread, so it stands in a list of the
/// thread's.
struct Allow;
thread_local! {
    static ALLOWED: std::cell::RefCell<Vec<graph::MutationGuard>> = const { std::cell::RefCell::new(Vec::new()) };
}
impl Object for Allow {
    fn type_name(&self) -> &'static str {
        "_AllowMutationOnSavedContext"
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "__enter__" => {
                let guard = graph::allow_mutation_on_saved_tensors();
                // a thread that ends has no list any more, and lets the guard go
                let _ = ALLOWED.try_with(|a| a.borrow_mut().push(guard));
            }
            "__exit__" => drop(ALLOWED.try_with(|a| a.borrow_mut().pop())),
            _ => return Err(no_attribute("_AllowMutationOnSavedContext", name)),
        }
        Ok(vec![Value::None])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// `set_multithreading_enabled`: at once, and undone where it is a context manager.
struct Threads {
    before: bool,
    inside: bool,
}
impl Object for Threads {
    fn type_name(&self) -> &'static str {
        "set_multithreading_enabled"
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "__enter__" => graph::set_multithreading_enabled(self.inside),
            "__exit__" => graph::set_multithreading_enabled(self.before),
            _ => return Err(no_attribute("set_multithreading_enabled", name)),
        }
        Ok(vec![Value::None])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
const CLASSES: &[(&str, Constructor)] = &[
    ("torch.autograd.graph.allow_mutation_on_saved_tensors", |a, k| {
        Slots::new("allow_mutation_on_saved_tensors", &[], a, k)?;
        Ok(ObjectRef::new(Allow))
    }),
    ("torch.autograd.grad_mode.set_multithreading_enabled", |a, k| {
        let s = Slots::new("set_multithreading_enabled.__init__", &["mode"], a, k)?;
        let (before, inside) = (graph::is_multithreading_enabled(), bool::from_value(s.must(0)?)?);
        graph::set_multithreading_enabled(inside);
        Ok(ObjectRef::new(Threads { before, inside }))
    }),
];
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.cond", cond),
    ("torch._higher_order_ops.cond", cond),
    ("torch.while_loop", while_loop),
    ("torch._higher_order_ops.while_loop", while_loop),
    ("torch._higher_order_ops.map", map),
    ("torch._higher_order_ops.scan", scan),
    ("torch._higher_order_ops.associative_scan", associative_scan),
    ("torch.autograd.graph.increment_version", |a, k| {
        let s = Slots::new("increment_version", &["tensor"], a, k)?;
        graph::try_increment_version(&leaves(s.must(0)?)?[..])?;
        Ok(vec![Value::None])
    }),
    ("torch.autograd.Variable", |a, k| {
        let s = Slots::new("Variable", &["data", "requires_grad", "volatile"], a, k)?;
        let t = s.tensor()?;
        if let Some(on) = s.get(1)? {
            crate::state::set_requires_grad(&t, on)?;
        }
        Ok(vec![Value::Tensor(t)])
    }),
];

pub(super) fn install() {
    for (path, f) in FUNCTIONS {
        register_function(path, *f);
    }
    for (path, make) in CLASSES {
        object::register_class(path, *make);
    }
}
