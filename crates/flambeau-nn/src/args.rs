//! Argument types of the documented layers.

use flambeau_core::api::convert::Dim;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::text::PyText;
use flambeau_core::{Error, Result, Scalar, Value};

/// One integer for every dimension, or one for each: `3`, `(3, 5)`, `[3, 5]`. Prints as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ints<const N: usize> {
    /// The same for all.
    One(i64),
    /// One for each.
    Each([i64; N]),
}
impl<const N: usize> Ints<N> {
    /// One for each dimension.
    pub fn each(&self) -> [i64; N] {
        match self {
            Ints::One(n) => [*n; N],
            Ints::Each(l) => *l,
        }
    }
}
/// The same, and always prints as a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims<const N: usize>(pub [i64; N]);

fn tuple(l: &[i64]) -> String {
    l.to_vec().py_text()
}
impl<const N: usize> PyText for Ints<N> {
    fn py_text(&self) -> String {
        match self {
            Ints::One(n) => n.to_string(),
            Ints::Each(l) => tuple(l),
        }
    }
}
impl<const N: usize> PyText for Dims<N> {
    fn py_text(&self) -> String {
        tuple(&self.0)
    }
}
impl<const N: usize> FromValue for Ints<N> {
    fn from_value(v: &Value) -> Result<Self> {
        if let Value::Int(n) = v {
            return Ok(Ints::One(*n));
        }
        let l: Vec<i64> = FromValue::from_value(v)?;
        let each = <[i64; N]>::try_from(l.as_slice());
        each.map(Ints::Each).map_err(|_| {
            Error::value(format!("expected an int or a tuple of {N} ints, but got {}", tuple(&l)))
        })
    }
}
impl<const N: usize> FromValue for Dims<N> {
    fn from_value(v: &Value) -> Result<Self> {
        Ints::<N>::from_value(v).map(|i| Dims(i.each()))
    }
}

fn ints(l: &[i64]) -> Value {
    Value::Tuple(l.iter().map(|n| Value::Int(*n)).collect())
}
impl<const N: usize> IntoValue for Ints<N> {
    fn into_value(self) -> Value {
        match self {
            Ints::One(n) => Value::Int(n),
            Ints::Each(l) => ints(&l),
        }
    }
}
impl<const N: usize> IntoValue for Dims<N> {
    fn into_value(self) -> Value {
        ints(&self.0)
    }
}
impl<const N: usize> IntoValue for Padding<N> {
    fn into_value(self) -> Value {
        match self {
            Padding::Each(l) => ints(&l),
            Padding::Name(s) => Value::Str(s),
        }
    }
}
impl IntoValue for Shape {
    fn into_value(self) -> Value {
        ints(&self.0)
    }
}
impl<const N: usize> IntoValue for OwnInts<N> {
    fn into_value(self) -> Value {
        if self.one {
            return self.each[0].into_value();
        }
        Value::Tuple(self.each.into_iter().map(IntoValue::into_value).collect())
    }
}
impl<const N: usize> IntoValue for Sides<N> {
    fn into_value(self) -> Value {
        ints(&self.0)
    }
}
impl IntoValue for Factors {
    fn into_value(self) -> Value {
        match self {
            Factors::One(s) => s.into_value(),
            Factors::Each(l) => Value::Tuple(l.into_iter().map(IntoValue::into_value).collect()),
        }
    }
}
impl IntoValue for Sizes {
    fn into_value(self) -> Value {
        match self {
            Sizes::One(n) => Value::Int(n),
            Sizes::Each(l) => ints(&l),
        }
    }
}

/// What an argument is made from, by any of some types: `[generics] from, ... => to: |s| value;`.
macro_rules! into_arg {
    (@ [$($g:tt)*] $from:ty, $to:ty, $s:ident, $e:expr) => {
        impl<$($g)*> IntoArg<$to> for $from {
            fn into_arg(self) -> $to {
                let $s = self;
                $e
            }
        }
    };
    ($($g:tt $($from:ty),+ => $to:ty: |$s:ident| $e:expr;)*) => {
        $($(into_arg!(@ $g $from, $to, $s, $e);)+)*
    };
}
into_arg! {
    [const N: usize] i32, i64, usize => Ints<N>: |s| Ints::One(s.dim());
    [D: Dim, const N: usize] [D; N] => Ints<N>: |s| Ints::Each(s.map(|d| d.dim()));
    [A: Dim] (A,) => Ints<1>: |s| Ints::Each([s.0.dim()]);
    [A: Dim, B: Dim] (A, B) => Ints<2>: |s| Ints::Each([s.0.dim(), s.1.dim()]);
    [A: Dim, B: Dim, C: Dim] (A, B, C) => Ints<3>: |s| Ints::Each([s.0.dim(), s.1.dim(), s.2.dim()]);
    [const N: usize] Ints<N> => Ints<N>: |s| s;

    [const N: usize] i32, i64, usize => Dims<N>: |s| Dims([s.dim(); N]);
    [D: Dim, const N: usize] [D; N] => Dims<N>: |s| Dims(s.map(|d| d.dim()));
    [A: Dim] (A,) => Dims<1>: |s| Dims([s.0.dim()]);
    [A: Dim, B: Dim] (A, B) => Dims<2>: |s| Dims([s.0.dim(), s.1.dim()]);
    [A: Dim, B: Dim, C: Dim] (A, B, C) => Dims<3>: |s| Dims([s.0.dim(), s.1.dim(), s.2.dim()]);
    [const N: usize] Dims<N> => Dims<N>: |s| s;
}

/// Padding of a convolution: numbers, or `"same"`, or `"valid"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding<const N: usize> {
    /// On both sides of each dimension.
    Each([i64; N]),
    /// By a name, which the constructor checks.
    Name(String),
}
impl<const N: usize> PyText for Padding<N> {
    fn py_text(&self) -> String {
        match self {
            Padding::Each(l) => tuple(l),
            Padding::Name(s) => s.clone(),
        }
    }
}
into_arg! {
    [const N: usize] i32, i64, usize => Padding<N>: |s| Padding::Each([s.dim(); N]);
    [D: Dim, const N: usize] [D; N] => Padding<N>: |s| Padding::Each(s.map(|d| d.dim()));
    [A: Dim] (A,) => Padding<1>: |s| Padding::Each([s.0.dim()]);
    [A: Dim, B: Dim] (A, B) => Padding<2>: |s| Padding::Each([s.0.dim(), s.1.dim()]);
    [A: Dim, B: Dim, C: Dim] (A, B, C) => Padding<3>: |s| Padding::Each([s.0.dim(), s.1.dim(), s.2.dim()]);
    [const N: usize] &str => Padding<N>: |s| Padding::Name(s.to_owned());
}
impl<const N: usize> FromValue for Padding<N> {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::Str(s) => Ok(Padding::Name(s.clone())),
            other => Dims::<N>::from_value(other).map(|d| Padding::Each(d.0)),
        }
    }
}

/// Sizes of the dimensions that a layer works on: `5`, `(2, 3)`. Prints as a tuple.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(pub Vec<i64>);
impl std::ops::Deref for Shape {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        &self.0
    }
}
impl PyText for Shape {
    fn py_text(&self) -> String {
        self.0.py_text()
    }
}
impl FromValue for Shape {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::Int(n) => Ok(Shape(vec![*n])),
            other => Vec::from_value(other).map(Shape),
        }
    }
}
into_arg! {
    [] i32, i64, usize, Vec<i64> => Shape: |s| Shape(s.into_arg());
    [D: Dim, const N: usize] [D; N] => Shape: |s| Shape(s.into_arg());
    [D: Dim] &[D] => Shape: |s| Shape(s.into_arg());
}

/// One size for every dimension, or one for each, where `None` stands for the input's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnInts<const N: usize> {
    each: [Option<i64>; N],
    one: bool,
    /// How many were given.
    length: usize,
}
impl<const N: usize> OwnInts<N> {
    /// Sizes with gaps, which the input's own fill.
    pub fn new(each: [Option<i64>; N]) -> Self {
        OwnInts { each, one: false, length: N }
    }
    /// The sizes for an input: one for all, or one for each dimension.
    ///
    /// # Errors
    /// For an input with too few dimensions, where its own sizes are wanted; another number of sizes, in the words of `function`.
    pub fn of(&self, function: &str, input: &[i64]) -> Result<Vec<i64>> {
        if self.length != N {
            let (n, least) = (self.length, self.length + 1);
            flambeau_core::ensure!(
                N == 1 || input.len() > n,
                Value,
                "Input dimension should be at least {least}"
            );
            return Err(Error::runtime(match N {
                1 => format!("{function}() argument 'output_size' should contain one int (got {n})"),
                _ if function.contains("avg") => format!("{function}: output_size must be {N}"),
                _ => format!("{function}(): internal error: output_size.size() must be {N}"),
            }));
        }
        if self.one {
            return Ok(self.each[..1].iter().flatten().copied().collect());
        }
        // one dimension's size is the operator's own business
        if N == 1 && self.each[0].is_some() {
            return Ok(self.given().collect());
        }
        flambeau_core::ensure!(input.len() > N, Value, "Input dimension should be at least {}", N + 1);
        let own = &input[input.len() - N..];
        Ok(self.each.iter().zip(own).map(|(s, n)| s.unwrap_or(*n)).collect())
    }
    /// The sizes that were given.
    pub fn given(&self) -> impl Iterator<Item = i64> + '_ {
        self.each.iter().flatten().copied()
    }
}
impl<const N: usize> PyText for OwnInts<N> {
    fn py_text(&self) -> String {
        if self.one {
            return self.each[0].py_text();
        }
        let all: Vec<String> = self.each.iter().map(PyText::py_text).collect();
        if N == 1 { format!("({},)", all[0]) } else { format!("({})", all.join(", ")) }
    }
}
impl<const N: usize> FromValue for OwnInts<N> {
    fn from_value(v: &Value) -> Result<Self> {
        if let Value::Int(n) = v {
            return Ok(OwnInts { each: [Some(*n); N], one: true, length: N });
        }
        let l: Vec<Option<i64>> = FromValue::from_value(v)?;
        // a wrong number of sizes is what the call says, as in PyTorch
        let mut each = [None; N];
        each.iter_mut().zip(&l).for_each(|(to, from)| *to = *from);
        Ok(OwnInts { each, one: false, length: l.len() })
    }
}
impl<const N: usize> From<Ints<N>> for OwnInts<N> {
    fn from(sizes: Ints<N>) -> Self {
        match sizes {
            Ints::One(n) => OwnInts { each: [Some(n); N], one: true, length: N },
            Ints::Each(l) => OwnInts { each: l.map(Some), one: false, length: N },
        }
    }
}
into_arg! {
    [const N: usize] i32, i64, usize => OwnInts<N>: |s| Ints::One(s.dim()).into();
    [D: Dim, const N: usize] [D; N] => OwnInts<N>: |s| Ints::Each(s.map(|d| d.dim())).into();
    [A: Dim] (A,) => OwnInts<1>: |s| Ints::Each([s.0.dim()]).into();
    [A: Dim, B: Dim] (A, B) => OwnInts<2>: |s| Ints::Each([s.0.dim(), s.1.dim()]).into();
    [A: Dim, B: Dim, C: Dim] (A, B, C) => OwnInts<3>: |s| Ints::Each([s.0.dim(), s.1.dim(), s.2.dim()]).into();
    [const N: usize] OwnInts<N> => OwnInts<N>: |s| s;
}

/// Sizes of the sides of a padding, last dimension first: one number for all, or a list. Prints as a tuple.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides<const N: usize>(pub Vec<i64>);
impl<const N: usize> PyText for Sides<N> {
    fn py_text(&self) -> String {
        tuple(&self.0)
    }
}
impl<const N: usize> FromValue for Sides<N> {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::Int(n) => Ok(Sides(vec![*n; N])),
            other => Vec::from_value(other).map(Sides),
        }
    }
}
into_arg! {
    [const N: usize] i32, i64, usize => Sides<N>: |s| Sides(vec![s.dim(); N]);
    [D: Dim, const N: usize] [D; N] => Sides<N>: |s| Sides(s.iter().map(|d| d.dim()).collect());
    [A: Dim, B: Dim] (A, B) => Sides<2>: |s| Sides(vec![s.0.dim(), s.1.dim()]);
    [A: Dim, B: Dim, C: Dim, D: Dim] (A, B, C, D) => Sides<4>: |s| {
        Sides(vec![s.0.dim(), s.1.dim(), s.2.dim(), s.3.dim()])
    };
    [A: Dim, B: Dim, C: Dim, D: Dim, E: Dim, F: Dim] (A, B, C, D, E, F) => Sides<6>: |s| {
        Sides(vec![s.0.dim(), s.1.dim(), s.2.dim(), s.3.dim(), s.4.dim(), s.5.dim()])
    };
}

/// One number for every dimension, or one for each: a scale, a ratio. Prints as it was given.
#[derive(Clone, Debug, PartialEq)]
pub enum Factors {
    /// The same for all.
    One(Scalar),
    /// One for each.
    Each(Vec<Scalar>),
}
impl Factors {
    /// The numbers: one, or one for each dimension.
    pub fn list(&self) -> Vec<f64> {
        match self {
            Factors::One(s) => vec![s.to_f64()],
            Factors::Each(l) => l.iter().map(|s| s.to_f64()).collect(),
        }
    }
    /// One for each of `n` dimensions.
    pub fn each(&self, n: usize) -> Vec<f64> {
        match self {
            Factors::One(s) => vec![s.to_f64(); n],
            Factors::Each(_) => self.list(),
        }
    }
    /// The same as floating numbers.
    pub fn floats(&self) -> Factors {
        let float = |s: &Scalar| Scalar::Float(s.to_f64());
        match self {
            Factors::One(s) => Factors::One(float(s)),
            Factors::Each(l) => Factors::Each(l.iter().map(float).collect()),
        }
    }
}
impl PyText for Factors {
    fn py_text(&self) -> String {
        match self {
            Factors::One(s) => s.py_text(),
            Factors::Each(l) => {
                let all: Vec<String> = l.iter().map(PyText::py_text).collect();
                if let [one] = &all[..] { format!("({one},)") } else { format!("({})", all.join(", ")) }
            }
        }
    }
}
impl FromValue for Factors {
    fn from_value(v: &Value) -> Result<Self> {
        match v.items() {
            Some(l) => l.iter().map(Scalar::from_value).collect::<Result<_>>().map(Factors::Each),
            None => Scalar::from_value(v).map(Factors::One),
        }
    }
}
into_arg! {
    [] i32, i64, f64 => Factors: |s| Factors::One(Scalar::from(s));
    [const N: usize] [i32; N], [i64; N], [f64; N] => Factors: |s| Factors::Each(s.map(Scalar::from).to_vec());
    [] (f64, f64) => Factors: |s| [s.0, s.1].into_arg();
    [] (f64, f64, f64) => Factors: |s| [s.0, s.1, s.2].into_arg();
}

/// One size for every dimension, or any number of them. Prints as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The same for all.
    One(i64),
    /// One for each.
    Each(Vec<i64>),
}
impl std::ops::Deref for Sizes {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        match self {
            Sizes::One(n) => std::slice::from_ref(n),
            Sizes::Each(l) => l,
        }
    }
}
impl PyText for Sizes {
    fn py_text(&self) -> String {
        match self {
            Sizes::One(n) => n.to_string(),
            Sizes::Each(l) => tuple(l),
        }
    }
}
impl FromValue for Sizes {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::Int(n) => Ok(Sizes::One(*n)),
            other => Vec::from_value(other).map(Sizes::Each),
        }
    }
}
into_arg! {
    [] i32, i64, usize => Sizes: |s| Sizes::One(s.dim());
    [D: Dim, const N: usize] [D; N] => Sizes: |s| Sizes::Each(s.iter().map(|d| d.dim()).collect());
    [A: Dim, B: Dim] (A, B) => Sizes: |s| [s.0.dim(), s.1.dim()].into_arg();
    [A: Dim, B: Dim, C: Dim] (A, B, C) => Sizes: |s| [s.0.dim(), s.1.dim(), s.2.dim()].into_arg();
}

/// An argument whose type the class itself checks, with a text of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Checked<T> {
    /// A value of the type.
    Right(T),
    /// What Python calls the type that was given.
    Wrong(&'static str),
}
impl<T: Copy> Checked<T> {
    /// The value.
    ///
    /// # Errors
    /// `rule` with the type that was given.
    pub fn get(&self, rule: &str) -> Result<T> {
        match self {
            Checked::Right(v) => Ok(*v),
            Checked::Wrong(t) => Err(Error::type_(format!("{rule} <class '{t}'>"))),
        }
    }
}
impl<T: PyText> PyText for Checked<T> {
    fn py_text(&self) -> String {
        match self {
            Checked::Right(v) => v.py_text(),
            Checked::Wrong(t) => (*t).to_owned(),
        }
    }
}
impl FromValue for Checked<i64> {
    fn from_value(v: &Value) -> Result<Self> {
        Ok(if let Value::Int(n) = v { Checked::Right(*n) } else { Checked::Wrong(v.type_name()) })
    }
}
impl FromValue for Checked<f64> {
    fn from_value(v: &Value) -> Result<Self> {
        Ok(match v {
            Value::Int(_) | Value::Float(_) => Checked::Right(f64::from_value(v)?),
            _ => Checked::Wrong(v.type_name()),
        })
    }
}
into_arg! {
    [] i32, i64 => Checked<i64>: |s| Checked::Right(s.into_arg());
    [] i32, f64 => Checked<f64>: |s| Checked::Right(s.into_arg());
}
