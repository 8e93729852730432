//! Argument types of the documented layers.

use flambeau_core::api::convert::Dim;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::FromValue;
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

macro_rules! from_numbers {
    ($($t:ty),*) => {$(
        impl<const N: usize> IntoArg<Ints<N>> for $t {
            fn into_arg(self) -> Ints<N> {
                Ints::One(self.dim())
            }
        }
        impl<const N: usize> IntoArg<Dims<N>> for $t {
            fn into_arg(self) -> Dims<N> {
                Dims([self.dim(); N])
            }
        }
        impl<const N: usize> IntoArg<OwnInts<N>> for $t {
            fn into_arg(self) -> OwnInts<N> {
                Ints::One(self.dim()).into()
            }
        }
        impl<const N: usize> IntoArg<Padding<N>> for $t {
            fn into_arg(self) -> Padding<N> {
                Padding::Each([self.dim(); N])
            }
        }
    )*};
}
from_numbers!(i32, i64, usize);
macro_rules! from_lists {
    ($([$($generics:tt)*] $from:ty, $n:expr, |$s:ident| $e:expr);* $(;)?) => {$(
        impl<$($generics)*> IntoArg<Ints<$n>> for $from {
            fn into_arg(self) -> Ints<$n> {
                let $s = self;
                Ints::Each($e)
            }
        }
        impl<$($generics)*> IntoArg<OwnInts<$n>> for $from {
            fn into_arg(self) -> OwnInts<$n> {
                let $s = self;
                Ints::Each($e).into()
            }
        }
        impl<$($generics)*> IntoArg<Dims<$n>> for $from {
            fn into_arg(self) -> Dims<$n> {
                let $s = self;
                Dims($e)
            }
        }
        impl<$($generics)*> IntoArg<Padding<$n>> for $from {
            fn into_arg(self) -> Padding<$n> {
                let $s = self;
                Padding::Each($e)
            }
        }
    )*};
}
from_lists! {
    [D: Dim, const N: usize] [D; N], N, |s| s.map(|d| d.dim());
    [A: Dim] (A,), 1, |s| [s.0.dim()];
    [A: Dim, B: Dim] (A, B), 2, |s| [s.0.dim(), s.1.dim()];
    [A: Dim, B: Dim, C: Dim] (A, B, C), 3, |s| [s.0.dim(), s.1.dim(), s.2.dim()];
}
impl<const N: usize> IntoArg<Dims<N>> for Dims<N> {
    fn into_arg(self) -> Dims<N> {
        self
    }
}
impl<const N: usize> IntoArg<Ints<N>> for Ints<N> {
    fn into_arg(self) -> Ints<N> {
        self
    }
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
impl<const N: usize> IntoArg<Padding<N>> for &str {
    fn into_arg(self) -> Padding<N> {
        Padding::Name(self.to_owned())
    }
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
macro_rules! shapes {
    ($([$($generics:tt)*] $from:ty),* $(,)?) => {$(
        impl<$($generics)*> IntoArg<Shape> for $from {
            fn into_arg(self) -> Shape {
                Shape(self.into_arg())
            }
        }
    )*};
}
shapes!([] i32, [] i64, [] usize, [] Vec<i64>, [D: Dim, const N: usize] [D; N], [D: Dim] &[D]);

/// One size for every dimension, or one for each, where `None` stands for the input's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnInts<const N: usize> {
    each: [Option<i64>; N],
    one: bool,
}
impl<const N: usize> OwnInts<N> {
    /// Sizes with gaps, which the input's own fill.
    pub fn new(each: [Option<i64>; N]) -> Self {
        OwnInts { each, one: false }
    }
    /// The sizes for an input: one for all, or one for each dimension.
    ///
    /// # Errors
    /// For an input with too few dimensions, where its own sizes are wanted.
    pub fn of(&self, input: &[i64]) -> Result<Vec<i64>> {
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
            return Ok(OwnInts { each: [Some(*n); N], one: true });
        }
        let l: Vec<Option<i64>> = FromValue::from_value(v)?;
        let each = <[Option<i64>; N]>::try_from(l.as_slice());
        each.map(|each| OwnInts { each, one: false })
            .map_err(|_| Error::value(format!("expected an int or a tuple of {N} ints or None")))
    }
}
impl<const N: usize> From<Ints<N>> for OwnInts<N> {
    fn from(sizes: Ints<N>) -> Self {
        match sizes {
            Ints::One(n) => OwnInts { each: [Some(n); N], one: true },
            Ints::Each(l) => OwnInts { each: l.map(Some), one: false },
        }
    }
}
impl<const N: usize> IntoArg<OwnInts<N>> for OwnInts<N> {
    fn into_arg(self) -> OwnInts<N> {
        self
    }
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
macro_rules! sides {
    ($($t:ty),*) => {$(
        impl<const N: usize> IntoArg<Sides<N>> for $t {
            fn into_arg(self) -> Sides<N> {
                Sides(vec![self.dim(); N])
            }
        }
    )*};
}
sides!(i32, i64, usize);
impl<D: Dim, const N: usize> IntoArg<Sides<N>> for [D; N] {
    fn into_arg(self) -> Sides<N> {
        Sides(self.iter().map(|d| d.dim()).collect())
    }
}
macro_rules! side_tuples {
    ($($n:literal ($($d:ident: $i:tt),+);)*) => {$(
        impl<$($d: Dim),+> IntoArg<Sides<$n>> for ($($d),+) {
            fn into_arg(self) -> Sides<$n> {
                Sides(vec![$(self.$i.dim()),+])
            }
        }
    )*};
}
side_tuples! {
    2 (A: 0, B: 1);
    4 (A: 0, B: 1, C: 2, D: 3);
    6 (A: 0, B: 1, C: 2, D: 3, E: 4, F: 5);
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
macro_rules! factors {
    ($($t:ty),*) => {$(
        impl IntoArg<Factors> for $t {
            fn into_arg(self) -> Factors {
                Factors::One(Scalar::from(self))
            }
        }
        impl<const N: usize> IntoArg<Factors> for [$t; N] {
            fn into_arg(self) -> Factors {
                Factors::Each(self.map(Scalar::from).to_vec())
            }
        }
    )*};
}
factors!(i32, i64, f64);
impl IntoArg<Factors> for (f64, f64) {
    fn into_arg(self) -> Factors {
        [self.0, self.1].into_arg()
    }
}
impl IntoArg<Factors> for (f64, f64, f64) {
    fn into_arg(self) -> Factors {
        [self.0, self.1, self.2].into_arg()
    }
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
macro_rules! sizes {
    ($($t:ty),*) => {$(
        impl IntoArg<Sizes> for $t {
            fn into_arg(self) -> Sizes {
                Sizes::One(self.dim())
            }
        }
    )*};
}
sizes!(i32, i64, usize);
impl<D: Dim, const N: usize> IntoArg<Sizes> for [D; N] {
    fn into_arg(self) -> Sizes {
        Sizes::Each(self.iter().map(|d| d.dim()).collect())
    }
}
impl<A: Dim, B: Dim> IntoArg<Sizes> for (A, B) {
    fn into_arg(self) -> Sizes {
        [self.0.dim(), self.1.dim()].into_arg()
    }
}
impl<A: Dim, B: Dim, C: Dim> IntoArg<Sizes> for (A, B, C) {
    fn into_arg(self) -> Sizes {
        [self.0.dim(), self.1.dim(), self.2.dim()].into_arg()
    }
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
macro_rules! checked {
    ($($t:ty => $to:ty),*) => {$(
        impl IntoArg<Checked<$to>> for $t {
            fn into_arg(self) -> Checked<$to> {
                Checked::Right(IntoArg::<$to>::into_arg(self))
            }
        }
    )*};
}
checked!(i32 => i64, i64 => i64, f64 => f64, i32 => f64);
