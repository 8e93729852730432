//! Nodes of a program in the core set, with what they give at one choice of sizes.
//!
//! A program is decomposed at several choices of its dynamic sizes, and the results are merged as captures are: rules compute
//! with plain integers.

use crate::aten;
use flambeau_core::{DType, Error, Result, Tensor, Value};
use flambeau_fx::symbolic::Expr;
use flambeau_fx::{Argument, Graph, Meta, Op, TensorMeta, Val};
use flambeau_library as library;

/// A value of the program: how a node names it, and what it is.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub arg: Argument,
    pub value: Value,
}
impl Item {
    /// `None`.
    pub fn none() -> Item {
        Item { arg: Argument::NONE, value: Value::None }
    }
    /// Whether it is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self.value, Value::None)
    }
    pub fn tensor(&self) -> Result<&Tensor> {
        match &self.value {
            Value::Tensor(t) => Ok(t),
            v => Err(Error::type_(format!("a tensor was expected, not {}", v.type_name()))),
        }
    }
    pub fn sizes(&self) -> Result<Vec<i64>> {
        Ok(self.tensor()?.sizes().to_vec())
    }
    /// The size of a dimension, counted from the end where that is negative.
    pub fn size(&self, d: i64) -> Result<i64> {
        let t = self.tensor()?;
        let at = wrapped(d, t.dim())?;
        Ok(t.sizes()[at])
    }
    pub fn rank(&self) -> Result<usize> {
        Ok(self.tensor()?.dim())
    }
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.tensor()?.dtype())
    }
    pub fn int(&self) -> Option<i64> {
        match self.value {
            Value::Int(i) => Some(i),
            Value::Bool(b) => Some(i64::from(b)),
            _ => None,
        }
    }
    /// The items of a list or tuple.
    pub fn items(&self) -> Vec<Item> {
        let values = self.value.items().unwrap_or(&[]);
        match self.arg.items() {
            Some(args) => {
                args.iter().zip(values).map(|(a, v)| Item { arg: a.clone(), value: v.clone() }).collect()
            }
            None => Vec::new(),
        }
    }
    /// The integers of a list.
    pub fn ints(&self) -> Vec<i64> {
        match &self.value {
            Value::Int(i) => vec![*i],
            v => v
                .items()
                .unwrap_or(&[])
                .iter()
                .filter_map(|v| if let Value::Int(i) = v { Some(*i) } else { None })
                .collect(),
        }
    }
}
/// A dimension counted from the front.
pub(super) fn wrapped(d: i64, rank: usize) -> Result<usize> {
    let n = rank as i64;
    let at = if d < 0 { d + n.max(1) } else { d };
    if !(0..n.max(1)).contains(&at) {
        return Err(Error::index(format!("Dimension out of range: {d} of {rank}")));
    }
    Ok(at as usize)
}
impl From<&Item> for Item {
    fn from(i: &Item) -> Item {
        i.clone()
    }
}
impl From<Value> for Item {
    fn from(v: Value) -> Item {
        Item { arg: v.clone().into(), value: v }
    }
}
macro_rules! plain {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl From<$t> for Item {
            fn from($v: $t) -> Item {
                Item::from($e)
            }
        }
    )*};
}
plain! {
    i64 => |v| Value::Int(v),
    i32 => |v| Value::Int(v.into()),
    f64 => |v| Value::Float(v),
    bool => |v| Value::Bool(v),
    &str => |v| Value::Str(v.to_string()),
    DType => |v| Value::DType(v),
    Vec<i32> => |v| Value::List(v.into_iter().map(|i| Value::Int(i.into())).collect()),
    Vec<i64> => |v| Value::List(v.into_iter().map(Value::Int).collect()),
    &[i64] => |v| Value::List(v.iter().copied().map(Value::Int).collect()),
}
impl From<Vec<Item>> for Item {
    fn from(l: Vec<Item>) -> Item {
        let (args, values) = l.into_iter().map(|i| (i.arg.clone(), i.value.clone())).unzip();
        Item { arg: Argument::List(args), value: Value::List(values) }
    }
}

/// A call of an operator that is to be decomposed.
pub(super) struct Call {
    /// Name in ATen with the overload: `add.Tensor`.
    pub name: String,
    pub args: Vec<Item>,
    pub kwargs: Vec<(String, Item)>,
}
impl Call {
    /// An argument by its place or name; none where it is not given or `None`.
    pub fn get(&self, at: usize, name: &str) -> Option<Item> {
        let found = self.args.get(at).or_else(|| self.kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v));
        found.filter(|i| !i.is_none()).cloned()
    }
    /// An argument that must be there.
    pub fn need(&self, at: usize, name: &str) -> Result<Item> {
        self.get(at, name).ok_or_else(|| Error::type_(format!("{} without its argument '{name}'", self.name)))
    }
    pub fn int(&self, at: usize, name: &str, default: i64) -> i64 {
        self.get(at, name).and_then(|i| i.int()).unwrap_or(default)
    }
    pub fn flag(&self, at: usize, name: &str, default: bool) -> bool {
        self.get(at, name).and_then(|i| i.int()).map_or(default, |i| i != 0)
    }
    pub fn float(&self, at: usize, name: &str, default: f64) -> f64 {
        match self.get(at, name).map(|i| i.value.clone()) {
            Some(Value::Float(x)) => x,
            Some(Value::Int(i)) => i as f64,
            _ => default,
        }
    }
    pub fn ints(&self, at: usize, name: &str) -> Option<Vec<i64>> {
        self.get(at, name).map(|i| i.ints())
    }
}

/// Writes nodes.
pub(super) struct Builder {
    pub graph: Graph,
    /// What is known of the node that is being decomposed: its parts stand where it stood.
    pub meta: Meta,
    /// New values of arguments that a call writes to, by their places.
    pub writes: Vec<(usize, Item)>,
    /// The dtype of autocast, in a region that has it.
    pub autocast: Option<DType>,
    /// Which sizes of the decomposed call's first argument, or of the tensors in it, are no numbers.
    pub symbolic: Vec<bool>,
}
/// What a value is like.
pub(super) fn val(v: &Value) -> Option<Val> {
    match v {
        Value::Tensor(t) => Some(Val::Tensor(TensorMeta::of(t))),
        Value::List(l) | Value::Tuple(l) => {
            Some(Val::List(l.iter().map(|v| val(v).unwrap_or(Val::None)).collect()))
        }
        _ => None,
    }
}
impl Builder {
    pub fn new() -> Builder {
        Builder {
            graph: Graph::new(),
            meta: Meta::default(),
            writes: Vec::new(),
            autocast: None,
            symbolic: Vec::new(),
        }
    }
    /// Whether a number is one that the data says.
    pub fn is_unbacked(&self, i: &Item) -> bool {
        let Argument::Node(n) = i.arg else { return false };
        if self.graph.node(n).target == "torch.ops.aten._local_scalar_dense.default" {
            return true;
        }
        let text = match &self.graph.node(n).meta.val {
            Some(Val::Sym(s)) => s,
            _ => return false,
        };
        Expr::read(text).is_ok_and(|e| e.symbols().iter().any(|s| s.starts_with('u')))
    }
    /// A node of a call whose result is known.
    pub fn node(&mut self, target: &str, args: &[Item], kwargs: &[(String, Item)], value: Value) -> Item {
        let args: Vec<Argument> = args.iter().map(|i| i.arg.clone()).collect();
        let kwargs: Vec<_> = kwargs.iter().map(|(k, i)| (k.clone(), i.arg.clone())).collect();
        let n = self.graph.create_node(Op::CallFunction, target, args, kwargs, None);
        let meta = self.graph.meta_mut(n);
        *meta = self.meta.clone();
        meta.val = val(&value);
        Item { arg: n.into(), value }
    }
    /// A call of an operator of ATen.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn op(&mut self, name: &str, args: Vec<Item>, kwargs: Vec<(&str, Item)>) -> Result<Item> {
        let mut args = args;
        let mut kwargs: Vec<(String, Item)> = kwargs.into_iter().map(|(k, i)| (k.to_string(), i)).collect();
        if let Some(lower) = self.autocast.take() {
            let cast = super::autocast::applied(self, lower, name, args, kwargs);
            self.autocast = Some(lower);
            (args, kwargs, _) = cast?;
        }
        self.plain(name, &mut args)?;
        let value = computed(name, &args, &kwargs)?;
        Ok(self.node(&format!("torch.ops.aten.{name}"), &args, &kwargs, value))
    }
    /// Copies arguments that are views of conjugates: only views take these as they are.
    ///
    /// # Errors
    /// Those of the copies.
    pub fn plain(&mut self, name: &str, args: &mut [Item]) -> Result<()> {
        if super::run::is_view(name) || matches!(name, "clone.default" | "_conj.default") {
            return Ok(());
        }
        for a in args {
            if let Value::Tensor(t) = &a.value
                && t.is_conj()
            {
                let copy = self.op("clone.default", vec![a.clone()], Vec::new())?;
                let value = library::method(&copy.value, "resolve_conj", &[], &[])?;
                *a = Item { arg: copy.arg, value };
            }
        }
        Ok(())
    }
    /// A part of a result.
    ///
    /// # Errors
    /// There is no such part.
    pub fn part(&mut self, of: &Item, i: usize) -> Result<Item> {
        if let Some(item) = of.items().get(i) {
            return Ok(item.clone());
        }
        let Some(v) = of.value.items().and_then(|l| l.get(i)).cloned() else {
            return Err(Error::index(format!("a result without part {i}")));
        };
        Ok(self.node("operator.getitem", &[of.clone(), (i as i64).into()], &[], v))
    }
}
/// What an operator gives.
pub(super) fn computed(name: &str, args: &[Item], kwargs: &[(String, Item)]) -> Result<Value> {
    let values: Vec<Value> = args.iter().map(|i| i.value.clone()).collect();
    let named: Vec<(String, Value)> = kwargs.iter().map(|(k, i)| (k.clone(), i.value.clone())).collect();
    let out = flambeau_autograd::no_grad(|| aten::call(name, &values, &named));
    match out {
        // elements are zeros, by which integers are not divided
        Err(e) if e.message().contains("ZeroDivisionError") => {
            let one = |v: &Value| match v {
                Value::Tensor(_) => library::call_value("torch.ones_like", std::slice::from_ref(v), &[]),
                v => Ok(v.clone()),
            };
            let values = values.iter().map(one).collect::<Result<Vec<_>>>()?;
            flambeau_autograd::no_grad(|| aten::call(name, &values, &named))
        }
        out => out,
    }
}
/// A call of an operator: `op!(b, "mul.Tensor", &x, 2.0)`, keywords behind a semicolon.
macro_rules! op {
    ($b:ident, $name:expr $(, $a:expr)* $(; $($k:ident = $v:expr),*)?) => {
        $b.op(
            $name,
            vec![$($crate::decompose::build::Item::from($a)),*],
            vec![$($((stringify!($k), $crate::decompose::build::Item::from($v))),*)?],
        )?
    };
}
pub(super) use op;
