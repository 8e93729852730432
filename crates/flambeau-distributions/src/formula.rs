//! Formulas over tensors whose first error ends them, so that they read as in a textbook.

use flambeau_autograd::shorthand as s;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};
use flambeau_nn_functional::ops as nn;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// A tensor that a formula has come to, or its first error.
#[derive(Clone)]
pub(crate) struct Expr(pub Result<Tensor>);

/// A tensor at the beginning of a formula.
pub(crate) fn e(t: &Tensor) -> Expr {
    Expr(Ok(t.clone()))
}
impl From<Result<Tensor>> for Expr {
    fn from(r: Result<Tensor>) -> Expr {
        Expr(r)
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident: $both:path, |$a:ident, $n:ident| $right:expr, |$m:ident, $b:ident| $left:expr;)*) => {$(
        impl $trait<&Expr> for &Expr {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr {
                self.with(other, |a, b| $both(a, b))
            }
        }
        impl $trait<Expr> for Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                (&self).$method(&other)
            }
        }
        impl $trait<&Expr> for Expr {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr {
                (&self).$method(other)
            }
        }
        impl $trait<Expr> for &Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                self.$method(&other)
            }
        }
        impl $trait<f64> for &Expr {
            type Output = Expr;
            fn $method(self, $n: f64) -> Expr {
                self.map(|$a| $right)
            }
        }
        impl $trait<f64> for Expr {
            type Output = Expr;
            fn $method(self, other: f64) -> Expr {
                (&self).$method(other)
            }
        }
        impl $trait<&Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr {
                let $m = self;
                other.map(|$b| $left)
            }
        }
        impl $trait<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                self.$method(&other)
            }
        }
    )*};
}
operator! {
    Add add: s::add, |a, n| s::add_scalar(a, n), |n, b| s::add_scalar(b, n);
    Sub sub: s::sub, |a, n| s::sub_scalar(a, n), |n, b| s::scalar_sub(n, b);
    Mul mul: s::mul, |a, n| ops::mul(a, &s::number(n)?), |n, b| ops::mul(b, &s::number(n)?);
    Div div: s::div, |a, n| ops::div(a, &s::number(n)?), |n, b| s::scalar_div(n, b);
}
impl Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self.map(s::neg)
    }
}
impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        -&self
    }
}
impl Not for Expr {
    type Output = Expr;
    fn not(self) -> Expr {
        self.map(ops::bitwise_not)
    }
}
impl BitAnd for Expr {
    type Output = Expr;
    fn bitand(self, other: Expr) -> Expr {
        self.with(&other, ops::bitwise_and)
    }
}
impl BitOr for Expr {
    type Output = Expr;
    fn bitor(self, other: Expr) -> Expr {
        self.with(&other, ops::bitwise_or)
    }
}

/// What a formula compares with: a number or a tensor.
pub(crate) trait Operand {
    fn tensor(self) -> Result<Tensor>;
}
impl Operand for f64 {
    fn tensor(self) -> Result<Tensor> {
        s::number(self)
    }
}
impl Operand for &Expr {
    fn tensor(self) -> Result<Tensor> {
        self.0.clone()
    }
}
impl Operand for Expr {
    fn tensor(self) -> Result<Tensor> {
        self.0
    }
}

macro_rules! functions {
    ($($name:ident => $f:path),* $(,)?) => {$(
        pub fn $name(&self) -> Expr {
            self.map(|t| $f(t))
        }
    )*};
}
macro_rules! comparisons {
    ($($name:ident),*) => {$(
        pub fn $name(&self, other: impl Operand) -> Expr {
            self.with(&Expr(other.tensor()), ops::$name)
        }
    )*};
}
impl Expr {
    /// Another function of the tensor.
    pub fn map(&self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Expr {
        match &self.0 {
            Ok(t) => Expr(f(t)),
            Err(e) => Expr(Err(e.clone())),
        }
    }
    /// A function of two tensors.
    pub fn with(&self, other: &Expr, f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>) -> Expr {
        match (&self.0, &other.0) {
            (Ok(a), Ok(b)) => Expr(f(a, b)),
            (Err(e), _) | (_, Err(e)) => Expr(Err(e.clone())),
        }
    }
    functions! {
        log => ops::log,
        exp => ops::exp,
        log1p => ops::log1p,
        expm1 => ops::expm1,
        abs => ops::abs,
        sign => ops::sign,
        sqrt => ops::sqrt,
        rsqrt => ops::rsqrt,
        square => ops::square,
        lgamma => ops::lgamma,
        digamma => ops::digamma,
        erf => ops::erf,
        erfinv => ops::erfinv,
        tan => ops::tan,
        atan => ops::atan,
        cos => ops::cos,
        acos => ops::acos,
        tanh => ops::tanh,
        atanh => ops::atanh,
        sigmoid => ops::sigmoid,
        reciprocal => ops::reciprocal,
        floor => ops::floor,
        detach => ops::detach,
        zeros_like => s::zeros_like,
        ones_like => s::ones_like,
        logsigmoid => nn::logsigmoid,
        mt => ops::mt,
    }
    comparisons!(eq, lt, le, gt, ge);
    pub fn softplus(&self) -> Expr {
        self.map(|t| nn::softplus(t, Scalar::Int(1), Scalar::Int(20)))
    }
    pub fn pow(&self, exponent: impl Operand) -> Expr {
        self.with(&Expr(exponent.tensor()), ops::pow)
    }
    pub fn xlogy(&self, other: impl Operand) -> Expr {
        self.with(&Expr(other.tensor()), ops::xlogy)
    }
    /// Within bounds, of which either may be missing.
    pub fn clamp(&self, min: Option<f64>, max: Option<f64>) -> Expr {
        self.map(|t| ops::clamp(t, min.map(Scalar::Float), max.map(Scalar::Float)))
    }
    pub fn at_least(&self, min: f64) -> Expr {
        self.clamp(Some(min), None)
    }
    /// A number where the mask holds; the mask may be smaller.
    pub fn fill(&self, mask: &Expr, value: f64) -> Expr {
        self.with(mask, |t, m| ops::masked_fill(t, m, Scalar::Float(value)))
    }
    /// Where this mask holds the first, elsewhere the second.
    pub fn choose(&self, yes: impl Operand, no: impl Operand) -> Expr {
        self.map(|m| ops::where_(m, &yes.tensor()?, &no.tensor()?))
    }
    pub fn sum(&self, dim: i64) -> Expr {
        self.map(|t| s::sum_dims(t, &[dim], false))
    }
    pub fn sum_keep(&self, dim: i64) -> Expr {
        self.map(|t| s::sum_dims(t, &[dim], true))
    }
    /// Summed over the last `n` dimensions.
    pub fn sum_rightmost(&self, n: usize) -> Expr {
        if n == 0 {
            return self.clone();
        }
        self.map(|t| {
            let kept = t.dim().saturating_sub(n);
            let mut sizes = t.sizes()[..kept].to_vec();
            sizes.push(-1);
            s::sum_dims(&s::reshape(t, &sizes)?, &[-1], false)
        })
    }
    pub fn logsumexp_keep(&self) -> Expr {
        self.map(|t| ops::logsumexp(t, &[-1], true))
    }
    pub fn cumsum(&self) -> Expr {
        self.map(|t| ops::cumsum(t, -1, None))
    }
    pub fn cumprod(&self) -> Expr {
        self.map(|t| ops::cumprod(t, -1, None))
    }
    pub fn unsqueeze(&self, dim: i64) -> Expr {
        self.map(|t| s::unsqueeze(t, dim))
    }
    pub fn squeeze(&self, dim: i64) -> Expr {
        self.map(|t| s::squeeze_dim(t, dim))
    }
    pub fn expand(&self, sizes: &[i64]) -> Expr {
        self.map(|t| s::expand(t, sizes))
    }
    pub fn reshape(&self, sizes: &[i64]) -> Expr {
        self.map(|t| s::reshape(t, sizes))
    }
    pub fn select(&self, dim: i64, index: i64) -> Expr {
        self.map(|t| s::select(t, dim, index))
    }
    /// `[..., start:end]`
    pub fn slice(&self, start: Option<i64>, end: Option<i64>) -> Expr {
        self.map(|t| ops::slice(t, -1, start, end, 1))
    }
    pub fn tril(&self, diagonal: i64) -> Expr {
        self.map(|t| ops::tril(t, diagonal))
    }
    /// The diagonal of the last two dimensions.
    pub fn diagonal(&self) -> Expr {
        self.map(|t| ops::diagonal(t, 0, -2, -1))
    }
    pub fn diag_embed(&self) -> Expr {
        self.map(|t| ops::diag_embed(t, 0, -2, -1))
    }
    pub fn matmul(&self, other: &Expr) -> Expr {
        self.with(other, ops::matmul)
    }
    pub fn to(&self, dtype: DType) -> Expr {
        self.map(|t| s::to_dtype(t, dtype))
    }
    /// In the dtype of another.
    pub fn like(&self, other: &Tensor) -> Expr {
        self.to(other.dtype())
    }
    /// A constant of the same shape and dtype.
    pub fn full(&self, value: f64) -> Expr {
        self.map(|t| ops::full_like(t, Scalar::Float(value), None, None, None, None, None))
    }
    /// One more number before and after the last dimension.
    pub fn pad(&self, before: i64, after: i64, value: f64) -> Expr {
        self.map(|t| nn::pad(t, &[before, after], "constant", Some(value)))
    }
    /// Whether every element over the last dimension is true.
    pub fn all_last(&self) -> Expr {
        self.map(|t| ops::all_dim(t, -1, false))
    }
    pub fn sizes(&self) -> Result<Vec<i64>> {
        self.0.as_ref().map(|t| t.sizes().to_vec()).map_err(Clone::clone)
    }
}

/// `-target log sigmoid(logits) - (1 - target) log sigmoid(-logits)`, element by element.
pub(crate) fn cross_entropy(logits: &Expr, target: &Expr) -> Expr {
    logits.with(target, |l, t| nn::binary_cross_entropy_with_logits(l, t, None, None, None, "none", None))
}
/// Two expressions in one shape.
pub(crate) fn broadcast(a: &Expr, b: &Expr) -> (Expr, Expr) {
    let both = || {
        let all = [a.0.clone()?, b.0.clone()?];
        ops::broadcast_tensors(&all)
    };
    match both() {
        Ok(l) => (e(&l[0]), e(&l[1])),
        Err(x) => (Expr(Err(x.clone())), Expr(Err(x))),
    }
}
