//! Steps as chains of operators, for `differentiable=True`: nothing that a gradient may need is written to. Kept
//! tensors are replaced, parameters are added to.

use crate::optimizer::group::{Entry, State};
use crate::options::Moments;
use crate::options::number_or_tensor::Number;
use flambeau_autograd::shorthand::{
    add_scalar, div, mul, mul_scalar, neg, number, scalar_sub, sub, view_as_complex, view_as_real,
};
use flambeau_core::{Result, Scalar, Tensor, ops};

const ONE: Scalar = Scalar::Int(1);

/// A number in a formula: plain, or a tensor whose gradient is wanted.
#[derive(Clone, Debug)]
pub(crate) enum Num {
    Plain(f64),
    Recorded(Tensor),
}
impl Num {
    pub fn of(n: &Number) -> Result<Num> {
        Ok(n.recorded()?.map_or_else(|| Num::Plain(n.value()), Num::Recorded))
    }
    fn tensor(&self) -> Result<Tensor> {
        match self {
            Num::Plain(v) => number(*v),
            Num::Recorded(t) => Ok(t.clone()),
        }
    }
    fn with(
        &self,
        o: &Num,
        plain: fn(f64, f64) -> f64,
        recorded: fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Num> {
        Ok(match (self, o) {
            (Num::Plain(a), Num::Plain(b)) => Num::Plain(plain(*a, *b)),
            _ => Num::Recorded(recorded(&self.tensor()?, &o.tensor()?)?),
        })
    }
    pub fn mul(&self, o: &Num) -> Result<Num> {
        self.with(o, |a, b| a * b, mul)
    }
    pub fn div(&self, o: &Num) -> Result<Num> {
        self.with(o, |a, b| a / b, div)
    }
    pub fn neg(&self) -> Result<Num> {
        self.mul(&Num::Plain(-1.0))
    }
    /// `1 - self`
    pub fn rest(&self) -> Result<Num> {
        Ok(match self {
            Num::Plain(v) => Num::Plain(1.0 - v),
            Num::Recorded(t) => Num::Recorded(scalar_sub(1.0, t)?),
        })
    }
    pub fn pow(&self, e: f64) -> Result<Num> {
        self.with(&Num::Plain(e), f64::powf, ops::pow)
    }
    /// `x * self`
    pub fn times(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Num::Plain(v) => mul_scalar(x, *v),
            Num::Recorded(t) => mul(x, t),
        }
    }
    /// `x / self`
    pub fn under(&self, x: &Tensor) -> Result<Tensor> {
        div(x, &self.tensor()?)
    }
}

/// A parameter in a recorded step. Complex ones are seen as their real parts.
pub(crate) struct Target<'a> {
    p: &'a Tensor,
}
impl<'a> Target<'a> {
    pub fn of(e: &Entry<'a>) -> Self {
        Target { p: e.param }
    }
    /// What the parameter is now, apart from its memory.
    pub fn now(&self) -> Result<Tensor> {
        let now = ops::clone(self.p, None)?;
        if now.is_complex() { view_as_real(&now) } else { Ok(now) }
    }
    /// Adds to the parameter.
    pub fn add(&self, x: &Tensor) -> Result<()> {
        let x = if self.p.is_complex() { view_as_complex(x)? } else { x.clone() };
        ops::add_(self.p, &x, ONE)
    }
    /// Adds `by * x`.
    pub fn add_scaled(&self, x: &Tensor, by: &Num) -> Result<()> {
        self.add(&by.times(x)?)
    }
    /// Takes the part `by` of the parameter away.
    pub fn shrink(&self, by: &Num) -> Result<()> {
        match by {
            Num::Plain(v) => ops::mul_(self.p, &number(1.0 - v)?),
            by => self.add_scaled(&self.now()?, &by.neg()?),
        }
    }
}
/// The gradient with its sign and the L2 penalty, as real parts.
pub(crate) fn gradient(e: &Entry<'_>, maximize: bool, weight_decay: &Num) -> Result<Tensor> {
    let mut g = if maximize { neg(&e.grad)? } else { e.grad.clone() };
    match weight_decay {
        Num::Plain(0.0) => {}
        Num::Plain(v) => g = ops::add(&g, e.param, Scalar::Float(*v))?,
        Num::Recorded(t) => g = ops::add(&g, &mul(&ops::clone(e.param, None)?, t)?, ONE)?,
    }
    if g.is_complex() { view_as_real(&ops::resolve_conj(&g)?) } else { Ok(g) }
}
/// A kept tensor as real parts.
pub(crate) fn kept(state: &State, name: &str) -> Result<Tensor> {
    let t = state.get(name);
    let t =
        t.ok_or_else(|| flambeau_core::Error::runtime(format!("the state of a parameter has no {name}")))?;
    if t.is_complex() { view_as_real(t) } else { Ok(t.clone()) }
}
/// Replaces a kept tensor.
pub(crate) fn keep(state: &mut State, name: &str, t: &Tensor) -> Result<()> {
    let complex = state.get(name).is_some_and(Tensor::is_complex);
    state.set(name, if complex { view_as_complex(t)? } else { t.clone() });
    Ok(())
}
/// `m` moved towards `g` by the part `weight`.
pub(crate) fn lerp(m: &Tensor, g: &Tensor, weight: &Num) -> Result<Tensor> {
    match weight {
        Num::Plain(w) => ops::lerp(m, g, Scalar::Float(*w)),
        Num::Recorded(t) => ops::add(m, &mul(&sub(g, m)?, t)?, ONE),
    }
}
/// `keep * v + (1 - keep) * g * g`
pub(crate) fn squares(v: &Tensor, g: &Tensor, keep: &Num) -> Result<Tensor> {
    match keep {
        Num::Plain(k) => ops::addcmul(&mul_scalar(v, *k)?, g, g, Scalar::Float(1.0 - k)),
        keep => lerp(v, &mul(g, g)?, &keep.rest()?),
    }
}
/// `sqrt(x) + eps`
pub(crate) fn root(x: &Tensor, eps: f64) -> Result<Tensor> {
    add_scalar(&ops::sqrt(x)?, eps)
}

/// The numbers and tensors that the step goes on with.
pub(crate) struct Averages<'a> {
    pub target: Target<'a>,
    pub lr: Num,
    pub b1: Num,
    pub b2: Num,
    /// The gradient.
    pub g: Tensor,
    /// Its average.
    pub m: Tensor,
    /// That of its squares.
    pub v: Tensor,
}
/// The first half of a step of the family of Adam: takes the gradient into the averages of gradients and of their squares,
/// which stand under `names`. A `decoupled` decay shrinks the parameter instead of adding to the gradient.
pub(crate) fn averages<'a>(
    e: &mut Entry<'a>,
    moments: &Moments,
    decoupled: bool,
    maximize: bool,
    [first, second]: [&str; 2],
) -> Result<Averages<'a>> {
    let (lr, decay) = (Num::of(&moments.lr)?, Num::of(&moments.weight_decay)?);
    let (b1, b2) = (Num::of(&moments.betas.0)?, Num::of(&moments.betas.1)?);
    let target = Target::of(e);
    let g = if decoupled {
        if moments.weight_decay.value() != 0.0 {
            target.shrink(&lr.mul(&decay)?)?;
        }
        gradient(e, maximize, &Num::Plain(0.0))?
    } else {
        gradient(e, maximize, &decay)?
    };
    let m = lerp(&kept(e.state, first)?, &g, &b1.rest()?)?;
    let v = squares(&kept(e.state, second)?, &g, &b2)?;
    keep(e.state, first, &m)?;
    keep(e.state, second, &v)?;
    Ok(Averages { target, lr, b1, b2, g, m, v })
}
