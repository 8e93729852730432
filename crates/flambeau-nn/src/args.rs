//! Argument types of the documented layers.

use flambeau_core::class::{IntoArg, PyText};
use flambeau_core::convert::Dim;
use flambeau_core::value::FromValue;
use flambeau_core::{Error, Result, Value};

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
