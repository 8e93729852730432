//! Arguments of nodes.

use crate::node::Node;
use flambeau_core::Value;

/// An argument of a node: a constant, another node's result, or a container of such.
#[derive(Clone, Debug)]
pub enum Argument {
    /// The result of a node.
    Node(Node),
    /// A constant.
    Value(Value),
    /// A list.
    List(Vec<Argument>),
    /// A tuple.
    Tuple(Vec<Argument>),
    /// A dictionary with texts as keys.
    Dict(Vec<(String, Argument)>),
    /// `slice(start, stop, step)`
    Slice(Box<[Argument; 3]>),
}

impl Argument {
    /// `None`.
    pub const NONE: Argument = Argument::Value(Value::None);

    /// The node, if it is one.
    pub fn node(&self) -> Option<Node> {
        match self {
            Argument::Node(n) => Some(*n),
            _ => None,
        }
    }
    /// The constant, if it is one.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Argument::Value(v) => Some(v),
            _ => None,
        }
    }
    /// The items of a list or tuple.
    pub fn items(&self) -> Option<&[Argument]> {
        match self {
            Argument::List(l) | Argument::Tuple(l) => Some(l),
            _ => None,
        }
    }
    /// Shows all nodes in it to a function, in order.
    pub fn each(&self, f: &mut dyn FnMut(Node)) {
        match self {
            Argument::Node(n) => f(*n),
            Argument::Value(_) => {}
            Argument::List(l) | Argument::Tuple(l) => l.iter().for_each(|a| a.each(f)),
            Argument::Dict(d) => d.iter().for_each(|(_, a)| a.each(f)),
            Argument::Slice(s) => s.iter().for_each(|a| a.each(f)),
        }
    }
    /// The same with other arguments in place of its nodes.
    pub fn map(&self, f: &mut dyn FnMut(Node) -> Argument) -> Argument {
        match self {
            Argument::Node(n) => f(*n),
            Argument::Value(v) => Argument::Value(v.clone()),
            Argument::List(l) => Argument::List(l.iter().map(|a| a.map(f)).collect()),
            Argument::Tuple(l) => Argument::Tuple(l.iter().map(|a| a.map(f)).collect()),
            Argument::Dict(d) => Argument::Dict(d.iter().map(|(k, a)| (k.clone(), a.map(f))).collect()),
            Argument::Slice(s) => Argument::Slice(Box::new([s[0].map(f), s[1].map(f), s[2].map(f)])),
        }
    }
    /// The value that it is once nodes have values.
    ///
    /// # Errors
    /// Those of the function; bounds of slices that are no integers.
    pub fn evaluate(
        &self,
        f: &mut dyn FnMut(Node) -> flambeau_core::Result<Value>,
    ) -> flambeau_core::Result<Value> {
        Ok(match self {
            Argument::Node(n) => f(*n)?,
            Argument::Value(v) => v.clone(),
            Argument::List(l) => Value::List(l.iter().map(|a| a.evaluate(f)).collect::<Result<_, _>>()?),
            Argument::Tuple(l) => Value::Tuple(l.iter().map(|a| a.evaluate(f)).collect::<Result<_, _>>()?),
            Argument::Dict(d) => Value::Dict(
                d.iter()
                    .map(|(k, a)| Ok((k.clone(), a.evaluate(f)?)))
                    .collect::<flambeau_core::Result<_>>()?,
            ),
            Argument::Slice(s) => {
                let mut parts = [None; 3];
                for (p, a) in parts.iter_mut().zip(s.iter()) {
                    *p = crate::python::index(&a.evaluate(f)?)?;
                }
                Value::Slice(parts)
            }
        })
    }
    /// Whether two arguments say the same: the same nodes, equal constants.
    pub fn same(&self, other: &Argument) -> bool {
        match (self, other) {
            (Argument::Node(a), Argument::Node(b)) => a == b,
            (Argument::Value(a), Argument::Value(b)) => same_value(a, b),
            (Argument::List(a), Argument::List(b)) | (Argument::Tuple(a), Argument::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Argument::Dict(a), Argument::Dict(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.same(&b.1))
            }
            (Argument::Slice(a), Argument::Slice(b)) => a.iter().zip(b.iter()).all(|(a, b)| a.same(b)),
            _ => false,
        }
    }
}
/// Equal constants, of the same type.
pub(crate) fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => a.is_same(b),
        (Value::Object(a), Value::Object(b)) => std::ptr::addr_eq(a.as_any(), b.as_any()),
        _ => {
            std::mem::discriminant(a) == std::mem::discriminant(b)
                && match (flambeau_library::repr(a), flambeau_library::repr(b)) {
                    (Ok(a), Ok(b)) => a == b,
                    _ => false,
                }
        }
    }
}

impl From<Node> for Argument {
    fn from(n: Node) -> Argument {
        Argument::Node(n)
    }
}
impl From<&Node> for Argument {
    fn from(n: &Node) -> Argument {
        Argument::Node(*n)
    }
}
/// Containers become containers of arguments, so that a program may put nodes into them.
impl From<Value> for Argument {
    fn from(v: Value) -> Argument {
        match &v {
            Value::List(l) => Argument::List(l.iter().cloned().map(Into::into).collect()),
            Value::Tuple(l) => Argument::Tuple(l.iter().cloned().map(Into::into).collect()),
            Value::Dict(d) => Argument::Dict(d.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect()),
            _ => Argument::Value(v),
        }
    }
}
macro_rules! constants {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl From<$t> for Argument {
            fn from($v: $t) -> Argument {
                Argument::Value($e)
            }
        }
    )*};
}
constants! {
    bool => |v| Value::Bool(v),
    i32 => |v| Value::Int(i64::from(v)),
    i64 => |v| Value::Int(v),
    f64 => |v| Value::Float(v),
    &str => |v| Value::Str(v.to_string()),
    String => |v| Value::Str(v),
    flambeau_core::DType => |v| Value::DType(v),
}
impl From<Vec<Argument>> for Argument {
    fn from(l: Vec<Argument>) -> Argument {
        Argument::List(l)
    }
}
