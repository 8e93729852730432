//! Values of ONNX graphs, and arguments of operators.

use flambeau_core::{DType, Tensor};
use flambeau_fx::{GraphModule, TensorMeta};
use std::rc::Rc;

/// A value of the ONNX graph: its name, element type and sizes as far as they are known.
///
/// ```
/// use torch::onnx::Var;
/// // an optional input that is left out
/// assert_eq!((Var::none().name(), Var::none().rank()), ("", 0));
/// ```
#[derive(Clone, Debug)]
pub struct Var {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// A size that is not known before the program runs is `None`.
    pub(crate) shape: Vec<Option<i64>>,
    /// The elements, where they are a constant of the exporter's own.
    pub(crate) constant: Option<Tensor>,
    /// A number of the program, not a tensor: it takes part in promotion as Python's numbers do.
    pub(crate) number: bool,
}
impl Var {
    pub(crate) fn new(name: impl Into<String>, dtype: DType, shape: Vec<Option<i64>>) -> Var {
        Var { name: name.into(), dtype, shape, constant: None, number: false }
    }
    /// No value: an optional input that is left out.
    pub fn none() -> Var {
        Var::new("", DType::F32, Vec::new())
    }
    /// Its name in the graph.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Sizes; `None` for one that is not known before the program runs.
    pub fn shape(&self) -> &[Option<i64>] {
        &self.shape
    }
    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
    /// All sizes, if they are known.
    pub(crate) fn sizes(&self) -> Option<Vec<i64>> {
        self.shape.iter().copied().collect()
    }
    pub(crate) fn numel(&self) -> Option<i64> {
        self.sizes()?.into_iter().try_fold(1i64, i64::checked_mul)
    }
    pub(crate) fn is_none(&self) -> bool {
        self.name.is_empty()
    }
    /// The integers that it holds, if it is a constant of integers.
    pub(crate) fn known_ints(&self) -> Option<Vec<i64>> {
        let c = self.constant.as_ref()?;
        if c.dtype() == DType::I64 { c.try_to_vec::<i64>().ok() } else { None }
    }
}

/// A size: a number, or a scalar of the graph that holds one.
///
/// ```
/// use torch::onnx::{Dim, Var};
/// let sizes = [Dim::Int(3), Dim::Var(Var::none())];
/// assert!(matches!(sizes[0], Dim::Int(3)));
/// ```
#[derive(Clone, Debug)]
pub enum Dim {
    /// A number.
    Int(i64),
    /// An int64 scalar.
    Var(Var),
}
impl Dim {
    pub(crate) fn known(&self) -> Option<i64> {
        match self {
            Dim::Int(n) => Some(*n),
            Dim::Var(_) => None,
        }
    }
}

/// An argument of an operator, and what a translation gives.
///
/// ```
/// use torch::onnx::Arg;
/// let both = Arg::List(vec![Arg::Int(1), Arg::Float(0.5)]);
/// assert!(matches!(both, Arg::List(l) if l.len() == 2));
/// ```
#[derive(Clone, Debug)]
pub enum Arg {
    /// `None`, or an argument that is not given.
    None,
    /// A value of the ONNX graph.
    Var(Var),
    /// An integer.
    Int(i64),
    /// A floating number.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// A complex number.
    Complex(f64, f64),
    /// A text.
    Str(String),
    /// An element type.
    DType(DType),
    /// Several.
    List(Vec<Arg>),
    /// A graph: a branch or the body of a loop.
    Graph(Rc<GraphModule>),
    /// The name of an operator.
    Operator(String),
    /// What exporting has no use for: a device, a layout, a memory format.
    Ignored,
}
impl Arg {
    /// The value, if it is one.
    pub fn var(&self) -> Option<&Var> {
        match self {
            Arg::Var(v) => Some(v),
            _ => None,
        }
    }
    /// The items of a list.
    pub fn items(&self) -> Option<&[Arg]> {
        match self {
            Arg::List(l) => Some(l),
            _ => None,
        }
    }
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Arg::None)
    }
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Arg::None => "None",
            Arg::Var(_) => "a tensor",
            Arg::Int(_) => "an int",
            Arg::Float(_) => "a float",
            Arg::Bool(_) => "a bool",
            Arg::Complex(..) => "a complex number",
            Arg::Str(_) => "a text",
            Arg::DType(_) => "a dtype",
            Arg::List(_) => "a list",
            Arg::Graph(_) => "a graph",
            Arg::Operator(_) => "an operator",
            Arg::Ignored => "an option",
        }
    }
}
impl From<Var> for Arg {
    fn from(v: Var) -> Arg {
        Arg::Var(v)
    }
}
impl From<Vec<Var>> for Arg {
    fn from(l: Vec<Var>) -> Arg {
        Arg::List(l.into_iter().map(Arg::Var).collect())
    }
}
impl From<Dim> for Arg {
    fn from(d: Dim) -> Arg {
        match d {
            Dim::Int(n) => Arg::Int(n),
            Dim::Var(v) => Arg::Var(v),
        }
    }
}
/// Sizes as far as they are known.
pub(crate) fn known_shape(m: &TensorMeta) -> Vec<Option<i64>> {
    m.shape
        .iter()
        .map(|e| match e {
            flambeau_fx::symbolic::Expr::Int(n) => Some(*n),
            _ => None,
        })
        .collect()
}
