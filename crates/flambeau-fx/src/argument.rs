//! Arguments of nodes.

use crate::nested::same_shell;
use crate::node::Node;
use flambeau_core::Value;
use flambeau_core::types::deep;

/// An argument of a node: a constant, another node's result, or a container of such.
///
/// ```
/// use torch::fx::{Argument, Graph};
/// let mut g = Graph::new();
/// let x = g.placeholder("x");
/// let sum = g.call_function("operator.add", [Argument::from(x), 2.into()], []);
/// assert_eq!(g.node(sum).args()[0].node(), Some(x));
/// assert!(matches!(g.node(sum).args()[1], Argument::Value(_)));
/// ```
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
        deep::leaves(self, |a| {
            if let Argument::Node(n) = a {
                f(*n);
            }
        });
    }
    /// The same with other arguments in place of its nodes.
    pub fn map(&self, f: &mut dyn FnMut(Node) -> Argument) -> Argument {
        let mut new = self.clone();
        let placed = deep::leaves_mut(&mut new, |a| {
            if let Argument::Node(n) = a {
                *a = f(*n);
            }
            Ok(())
        });
        debug_assert!(placed.is_ok());
        new
    }
    /// The value that it is once nodes have values.
    ///
    /// # Errors
    /// Those of the function; bounds of slices that are no integers; arguments that are nested too deeply for a call.
    pub fn evaluate(
        &self,
        f: &mut dyn FnMut(Node) -> flambeau_core::Result<Value>,
    ) -> flambeau_core::Result<Value> {
        deep::check([self])?;
        self.value_of(f)
    }
    fn value_of(
        &self,
        f: &mut dyn FnMut(Node) -> flambeau_core::Result<Value>,
    ) -> flambeau_core::Result<Value> {
        Ok(match self {
            Argument::Node(n) => f(*n)?,
            Argument::Value(v) => v.clone(),
            Argument::List(l) => Value::List(l.iter().map(|a| a.value_of(f)).collect::<Result<_, _>>()?),
            Argument::Tuple(l) => Value::Tuple(l.iter().map(|a| a.value_of(f)).collect::<Result<_, _>>()?),
            Argument::Dict(d) => Value::Dict(
                d.iter()
                    .map(|(k, a)| Ok((k.clone(), a.value_of(f)?)))
                    .collect::<flambeau_core::Result<_>>()?,
            ),
            Argument::Slice(s) => {
                let mut parts = [None; 3];
                for (p, a) in parts.iter_mut().zip(s.iter()) {
                    *p = crate::python::index(&a.value_of(f)?)?;
                }
                Value::Slice(parts)
            }
        })
    }
    /// Whether two arguments say the same: the same nodes, equal constants.
    pub fn same(&self, other: &Argument) -> bool {
        deep::equal(self, other, same_shell)
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
/// Containers become containers of arguments, so that a program may put nodes into them; those that are nested more deeply than
/// calls take stay as they are.
impl From<Value> for Argument {
    fn from(v: Value) -> Argument {
        if deep::check([&v]).is_err() {
            return Argument::Value(v);
        }
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
