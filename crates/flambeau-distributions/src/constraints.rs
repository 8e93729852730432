//! `torch.distributions.constraints`: regions over which a variable is valid.
//!
//! ```
//! use torch::tensor;
//! use torch::distributions::constraints;
//! let inside = constraints::interval(0.0, 1.0).check(&tensor([-1.0, 0.5]));
//! assert_eq!(inside.sum().item::<i64>(), 1);
//! assert_eq!(constraints::positive().to_string(), "GreaterThan(lower_bound=0.0)");
//! ```
//!
//! Of numbers:
//!
//! ```
//! use torch::{nan, tensor};
//! use torch::distributions::Constraint;
//! use torch::distributions::constraints::*;
//! let x = tensor([-1.0, 0.0, 0.5, 1.0, 2.0]);
//! let inside = |c: Constraint| x.masked_select(&c.check(&x)).to_vec::<f32>();
//! assert_eq!(inside(boolean()), [0.0, 1.0]);
//! assert_eq!(inside(positive()), [0.5, 1.0, 2.0]);
//! assert_eq!(inside(nonnegative()), [0.0, 0.5, 1.0, 2.0]);
//! assert_eq!(inside(unit_interval()), [0.0, 0.5, 1.0]);
//! assert_eq!(inside(nonnegative_integer()), [0.0, 1.0, 2.0]);
//! assert_eq!(inside(positive_integer()), [1.0, 2.0]);
//! assert_eq!(inside(integer_interval(-1, 1)), [-1.0, 0.0, 1.0]);
//! assert_eq!(inside(greater_than(0.5)), [1.0, 2.0]);
//! assert_eq!(inside(greater_than_eq(0.5)), [0.5, 1.0, 2.0]);
//! assert_eq!(inside(less_than(0.0)), [-1.0]);
//! assert_eq!(inside(interval(0.0, 0.5)), [0.0, 0.5]);
//! assert_eq!(inside(half_open_interval(0.0, 0.5)), [0.0]);
//! assert!(!real().check(&tensor(nan)).item::<bool>());
//! ```
//!
//! Of vectors, which answer once for each:
//!
//! ```
//! use torch::tensor;
//! use torch::distributions::constraints::*;
//! assert!(simplex().check(&tensor([0.25, 0.75])).item::<bool>());
//! assert!(one_hot().check(&tensor([0.0, 1.0, 0.0])).item::<bool>());
//! assert!(real_vector().check(&tensor([0.5, -2.0])).item::<bool>());
//! assert!(multinomial(3).check(&tensor([1.0, 2.0])).item::<bool>());
//! assert!(!independent(positive(), 1).check(&tensor([1.0, -2.0])).item::<bool>());
//! let each = stack(vec![positive(), boolean()], 0);
//! assert!(each.check(&tensor([0.5, 0.5])).equal(&tensor([true, false])));
//! let parts = try_cat(vec![positive(), boolean()], 0, Some(vec![1, 2]))?;
//! assert!(parts.check(&tensor([0.5, 0.5, 1.0])).equal(&tensor([true, false, true])));
//! # Ok::<(), torch::Error>(())
//! ```
//!
//! Of matrices:
//!
//! ```
//! use torch::tensor;
//! use torch::distributions::constraints::*;
//! let factor = tensor([[1.0, 0.0], [0.6, 0.8]]);
//! for c in [square(), lower_triangular(), lower_cholesky(), corr_cholesky()] {
//!     assert!(c.check(&factor).item::<bool>(), "{c}");
//! }
//! let product = factor.matmul(&factor.t());
//! for c in [symmetric(), positive_semidefinite(), positive_definite()] {
//!     assert!(c.check(&product).item::<bool>() && !c.check(&factor).item::<bool>(), "{c}");
//! }
//! ```

use crate::argument::Param;
use crate::formula::{Expr, e};
use crate::lapack;
use flambeau_autograd::shorthand as s;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, finfo, ops};
use std::fmt;
use std::sync::Arc;

/// A constraint of one's own.
///
/// ```
/// use std::sync::Arc;
/// use torch::{Result, Tensor, tensor};
/// use torch::distributions::{Constraint, CustomConstraint};
/// #[derive(Debug)]
/// struct Even;
/// impl CustomConstraint for Even {
///     fn name(&self) -> String {
///         "Even".into()
///     }
///     fn check(&self, value: &Tensor) -> Result<Tensor> {
///         Ok((value % 2.0).eq(0.0))
///     }
/// }
/// let even = Constraint::Custom(Arc::new(Even));
/// assert!(even.check(&tensor([1.0, 2.0])).equal(&tensor([false, true])));
/// ```
pub trait CustomConstraint: Send + Sync + fmt::Debug {
    /// The name that printing shows.
    fn name(&self) -> String;
    /// Whether each event of `value` lies in the region.
    ///
    /// # Errors
    /// A value that cannot be checked.
    fn check(&self, value: &Tensor) -> Result<Tensor>;
    /// Whether the region is discrete.
    fn is_discrete(&self) -> bool {
        false
    }
    /// How many rightmost dimensions make one event.
    fn event_dim(&self) -> usize {
        0
    }
}

/// A region over which a variable is valid, within which it can be optimized (`torch.distributions.constraints`).
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{Constraint, DistributionExt, Exponential};
/// let support = Exponential::new(1.0).support();
/// assert!(matches!(support, Constraint::GreaterThanEq(_)));
/// assert!(support.check(&tensor([-1.0, 1.0])).equal(&tensor([false, true])));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributions.constraints.Constraint")]
pub enum Constraint {
    /// Follows from other variables: cannot be checked.
    Dependent {
        /// Whether it is discrete, if that is known.
        is_discrete: Option<bool>,
        /// How many dimensions make one event, if that is known.
        event_dim: Option<usize>,
    },
    /// Another constraint, which must hold over so many more rightmost dimensions at once.
    Independent(Box<Constraint>, usize),
    /// The support of a mixture's components.
    MixtureSameFamily(Box<Constraint>),
    /// 0 or 1.
    Boolean,
    /// One-hot vectors.
    OneHot,
    /// Integers from the first to the second bound.
    IntegerInterval(Param, Param),
    /// Integers up to the bound.
    IntegerLessThan(Param),
    /// Integers from the bound on.
    IntegerGreaterThan(Param),
    /// All but NaN.
    Real,
    /// Above the bound.
    GreaterThan(Param),
    /// The bound or above.
    GreaterThanEq(Param),
    /// Below the bound.
    LessThan(Param),
    /// Between the bounds, both included.
    Interval(Param, Param),
    /// Between the bounds, the upper one left out.
    HalfOpenInterval(Param, Param),
    /// Vectors of numbers from 0 on that sum to 1.
    Simplex,
    /// Vectors of counts that sum to at most the bound.
    Multinomial(Param),
    /// Lower-triangular square matrices.
    LowerTriangular,
    /// The same with a positive diagonal.
    LowerCholesky,
    /// The same with rows of length 1.
    CorrCholesky,
    /// Square matrices.
    Square,
    /// Symmetric matrices.
    Symmetric,
    /// Symmetric matrices without negative eigenvalues.
    PositiveSemidefinite,
    /// Symmetric matrices with positive eigenvalues.
    PositiveDefinite,
    /// Constraints one after the other along a dimension, each over so many entries.
    Cat(Vec<Constraint>, i64, Vec<i64>),
    /// One constraint for each entry along a dimension.
    Stack(Vec<Constraint>, i64),
    /// One of the user's own.
    Custom(Arc<dyn CustomConstraint>),
}
use Constraint as C;

impl Constraint {
    /// Whether it follows from other variables.
    #[doc(alias = "torch.distributions.constraints.is_dependent")]
    pub fn is_dependent(&self) -> bool {
        matches!(self, C::Dependent { .. })
    }
    /// Whether the region is discrete.
    ///
    /// # Errors
    /// A dependent constraint of which that is not known.
    pub fn try_is_discrete(&self) -> Result<bool> {
        Ok(match self {
            C::Dependent { is_discrete, .. } => match is_discrete {
                Some(on) => *on,
                None => return Err(Error::unsupported(".is_discrete cannot be determined statically")),
            },
            C::Independent(base, _) | C::MixtureSameFamily(base) => base.try_is_discrete()?,
            C::Boolean
            | C::OneHot
            | C::IntegerInterval(..)
            | C::IntegerLessThan(_)
            | C::IntegerGreaterThan(_)
            | C::Multinomial(_) => true,
            C::Cat(all, ..) | C::Stack(all, _) => {
                for c in all {
                    if c.try_is_discrete()? {
                        return Ok(true);
                    }
                }
                false
            }
            C::Custom(c) => c.is_discrete(),
            _ => false,
        })
    }
    /// How many rightmost dimensions make one event.
    ///
    /// # Errors
    /// A dependent constraint of which that is not known.
    pub fn try_event_dim(&self) -> Result<usize> {
        let most = |all: &[Constraint]| {
            let mut most = 0;
            for c in all {
                most = most.max(c.try_event_dim()?);
            }
            Ok::<_, Error>(most)
        };
        Ok(match self {
            C::Dependent { event_dim, .. } => match event_dim {
                Some(n) => *n,
                None => return Err(Error::unsupported(".event_dim cannot be determined statically")),
            },
            C::Independent(base, n) => base.try_event_dim()? + n,
            C::MixtureSameFamily(base) => base.try_event_dim()?,
            C::OneHot | C::Simplex | C::Multinomial(_) => 1,
            C::LowerTriangular
            | C::LowerCholesky
            | C::CorrCholesky
            | C::Square
            | C::Symmetric
            | C::PositiveSemidefinite
            | C::PositiveDefinite => 2,
            C::Cat(all, ..) => most(all)?,
            C::Stack(all, dim) => {
                let n = most(all)?;
                if *dim + (n as i64) < 0 { n + 1 } else { n }
            }
            C::Custom(c) => c.event_dim(),
            _ => 0,
        })
    }
    /// See [`Constraint::try_event_dim`].
    #[track_caller]
    pub fn event_dim(&self) -> usize {
        expect(self.try_event_dim())
    }
    /// See [`Constraint::try_is_discrete`].
    #[track_caller]
    pub fn is_discrete(&self) -> bool {
        expect(self.try_is_discrete())
    }
    /// Whether each event of `value` lies in the region: bool, of the shape of `value` without its event dimensions.
    #[doc(alias = "torch.distributions.constraints.Constraint.check")]
    #[track_caller]
    pub fn check(&self, value: &Tensor) -> Tensor {
        expect(self.try_check(value))
    }
    /// See [`Constraint::check`].
    ///
    /// # Errors
    /// A dependent constraint; a value with too few dimensions.
    pub fn try_check(&self, value: &Tensor) -> Result<Tensor> {
        let x = e(value);
        let whole = || x.map(|t| ops::remainder(t, &s::number(1i64)?)).eq(0.0);
        // Python turns a comparison of a number with a tensor round, which its errors tell
        let from = |bound: &Param| match bound.is_number() {
            true => bound.operand().map(|b| x.ge(e(&b))),
            false => ops::le(&bound.operand()?, value).map(|t| e(&t)),
        };
        let above = |bound: &Param| match bound.is_number() {
            true => bound.operand().map(|b| x.gt(e(&b))),
            false => ops::lt(&bound.operand()?, value).map(|t| e(&t)),
        };
        let up_to = |bound: &Param| bound.operand().map(|b| x.le(e(&b)));
        let within = |mask: Expr| {
            mask.map(|m| {
                let mut sizes = m.sizes()[..m.dim().saturating_sub(2)].to_vec();
                sizes.push(-1);
                ops::all_dim(&s::reshape(m, &sizes)?, -1, false)
            })
        };
        match self {
            C::Dependent { .. } => {
                return Err(Error::value("Cannot determine validity of dependent constraint"));
            }
            C::Independent(base, n) => {
                let result = base.try_check(value)?;
                ensure!(
                    result.dim() >= *n,
                    Value,
                    "Expected value.dim() >= {} but got {}",
                    base.try_event_dim()? + n,
                    value.dim()
                );
                let mut sizes = result.sizes()[..result.dim() - n].to_vec();
                sizes.push(-1);
                return ops::all_dim(&s::reshape(&result, &sizes)?, -1, false);
            }
            C::MixtureSameFamily(base) => {
                let event = self.try_event_dim()?;
                let result = base.try_check(&s::unsqueeze(value, -1 - event as i64)?)?;
                ensure!(
                    value.dim() >= event,
                    Value,
                    "Expected value.dim() >= {event} but got {}",
                    value.dim()
                );
                let mut sizes = result.sizes()[..(value.dim() - event).min(result.dim())].to_vec();
                sizes.push(-1);
                return ops::all_dim(&s::reshape(&result, &sizes)?, -1, false);
            }
            C::Boolean => x.eq(0.0) | x.eq(1.0),
            C::OneHot => (x.eq(0.0) | x.eq(1.0)).all_last() & x.sum(-1).eq(1.0),
            C::IntegerInterval(low, high) => whole() & from(low)? & up_to(high)?,
            C::IntegerLessThan(high) => whole() & up_to(high)?,
            C::IntegerGreaterThan(low) => whole() & x.ge(e(&low.operand()?)),
            C::Real => x.eq(&x),
            C::GreaterThan(low) => above(low)?,
            C::GreaterThanEq(low) => from(low)?,
            C::LessThan(high) => x.lt(e(&high.operand()?)),
            C::Interval(low, high) => from(low)? & up_to(high)?,
            C::HalfOpenInterval(low, high) => from(low)? & x.lt(e(&high.operand()?)),
            C::Simplex => x.ge(0.0).all_last() & (x.sum(-1) - 1.0).abs().lt(1e-6),
            C::Multinomial(most) => x.ge(0.0).all_last() & x.sum(-1).le(e(&most.operand()?)),
            C::LowerTriangular => within(x.tril(0).eq(&x)),
            C::LowerCholesky => within(x.tril(0).eq(&x)) & x.diagonal().gt(0.0).all_last(),
            C::CorrCholesky => {
                let n = value.sizes().last().copied().unwrap_or(1);
                let tolerance = finfo(value.dtype())?.eps * n as f64 * 10.0;
                let norm =
                    x.detach().map(|t| ops::linalg_vector_norm(t, Scalar::Int(2), Some(&[-1]), false, None));
                let unit = (norm - 1.0).abs().le(tolerance).all_last();
                e(&C::LowerCholesky.try_check(value)?) & unit
            }
            C::Square => e(&is_square(value)?),
            C::Symmetric => e(&is_symmetric(value)?.0),
            C::PositiveSemidefinite => match is_symmetric(value)? {
                (mask, false) => e(&mask),
                _ => e(&lapack::eigvalsh(value)?).ge(0.0).all_last(),
            },
            C::PositiveDefinite => match is_symmetric(value)? {
                (mask, false) => e(&mask),
                _ => e(&lapack::cholesky_info(value)?).eq(0.0),
            },
            C::Cat(all, dim, lengths) => {
                in_range(*dim, value)?;
                let (mut start, mut checks) = (0, Vec::new());
                for (c, n) in all.iter().zip(lengths) {
                    checks.push(c.try_check(&ops::narrow(value, *dim, start, *n)?)?);
                    start += n;
                }
                return ops::cat(&checks, *dim);
            }
            C::Stack(all, dim) => {
                let at = in_range(*dim, value)?;
                let n = value.sizes()[at].min(all.len() as i64);
                let each = all.iter().zip(0..n);
                let each = each.map(|(c, i)| c.try_check(&s::select(value, *dim, i)?));
                return ops::stack(&each.collect::<Result<Vec<_>>>()?, *dim);
            }
            C::Custom(c) => return c.check(value),
        }
        .0
    }
    /// The class's name in PyTorch, without its underscore.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            C::Dependent { .. } => "Dependent",
            C::Independent(..) => "IndependentConstraint",
            C::MixtureSameFamily(_) => "MixtureSameFamilyConstraint",
            C::Boolean => "Boolean",
            C::OneHot => "OneHot",
            C::IntegerInterval(..) => "IntegerInterval",
            C::IntegerLessThan(_) => "IntegerLessThan",
            C::IntegerGreaterThan(_) => "IntegerGreaterThan",
            C::Real => "Real",
            C::GreaterThan(_) => "GreaterThan",
            C::GreaterThanEq(_) => "GreaterThanEq",
            C::LessThan(_) => "LessThan",
            C::Interval(..) => "Interval",
            C::HalfOpenInterval(..) => "HalfOpenInterval",
            C::Simplex => "Simplex",
            C::Multinomial(_) => "Multinomial",
            C::LowerTriangular => "LowerTriangular",
            C::LowerCholesky => "LowerCholesky",
            C::CorrCholesky => "CorrCholesky",
            C::Square => "Square",
            C::Symmetric => "Symmetric",
            C::PositiveSemidefinite => "PositiveSemidefinite",
            C::PositiveDefinite => "PositiveDefinite",
            C::Cat(..) => "Cat",
            C::Stack(..) => "Stack",
            C::Custom(_) => "Custom",
        }
    }
    /// Lower and upper bound, where there are such.
    pub fn bounds(&self) -> (Option<&Param>, Option<&Param>) {
        match self {
            C::IntegerInterval(l, u) | C::Interval(l, u) | C::HalfOpenInterval(l, u) => (Some(l), Some(u)),
            C::IntegerGreaterThan(l) | C::GreaterThan(l) | C::GreaterThanEq(l) => (Some(l), None),
            C::IntegerLessThan(u) | C::LessThan(u) | C::Multinomial(u) => (None, Some(u)),
            _ => (None, None),
        }
    }
}
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.class();
        match self {
            C::Independent(base, n) => write!(f, "{name}({base}, {n})"),
            C::MixtureSameFamily(base) => write!(f, "{name}({base})"),
            C::Multinomial(_) => write!(f, "{name}()"),
            C::Custom(c) => write!(f, "{}()", c.name()),
            _ => match self.bounds() {
                (Some(l), Some(u)) => write!(f, "{name}(lower_bound={l}, upper_bound={u})"),
                (Some(l), None) => write!(f, "{name}(lower_bound={l})"),
                (None, Some(u)) => write!(f, "{name}(upper_bound={u})"),
                (None, None) => write!(f, "{name}()"),
            },
        }
    }
}
/// The dimension from the front; PyTorch asserts that it is there.
fn in_range(dim: i64, value: &Tensor) -> Result<usize> {
    let n = value.dim() as i64;
    ensure!(-n <= dim && dim < n, Assertion, "dim {dim} out of range for value with {n} dimensions");
    Ok((if dim < 0 { dim + n } else { dim }) as usize)
}
fn is_square(value: &Tensor) -> Result<Tensor> {
    let [batch @ .., rows, columns] = value.sizes() else {
        return Err(Error::index("tuple index out of range"));
    };
    let is = Scalar::Bool(rows == columns);
    ops::full(batch, is, Some(DType::Bool), None, Some(value.device()), None)
}
/// Which matrices are symmetric, and whether all are square.
fn is_symmetric(value: &Tensor) -> Result<(Tensor, bool)> {
    let mask = is_square(value)?;
    if value.sizes()[value.dim() - 2] != value.sizes()[value.dim() - 1] {
        return Ok((mask, false));
    }
    let close = ops::isclose(value, &ops::mt(value)?, 1e-5, 1e-6, false)?;
    let mask = ops::all_dim(&ops::all_dim(&close, -2, false)?, -1, false)?;
    let all = ops::all(&mask)?.try_item::<bool>()?;
    Ok((mask, all))
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident => $value:expr;)*) => {
        $($(#[$doc])*
        pub fn $name() -> Constraint {
            $value
        })*
    };
}
constants! {
    /// 0 or 1.
    #[doc(alias = "torch.distributions.constraints.boolean")]
    boolean => C::Boolean;
    /// One-hot vectors.
    #[doc(alias = "torch.distributions.constraints.one_hot")]
    one_hot => C::OneHot;
    /// Integers from 0 on.
    #[doc(alias = "torch.distributions.constraints.nonnegative_integer")]
    nonnegative_integer => C::IntegerGreaterThan(0.into());
    /// Integers from 1 on.
    #[doc(alias = "torch.distributions.constraints.positive_integer")]
    positive_integer => C::IntegerGreaterThan(1.into());
    /// All numbers but NaN.
    #[doc(alias = "torch.distributions.constraints.real")]
    real => C::Real;
    /// Vectors of such.
    #[doc(alias = "torch.distributions.constraints.real_vector")]
    real_vector => independent(real(), 1);
    /// Above 0.
    #[doc(alias = "torch.distributions.constraints.positive")]
    positive => greater_than(0.0);
    /// 0 or above.
    #[doc(alias = "torch.distributions.constraints.nonnegative")]
    nonnegative => greater_than_eq(0.0);
    /// From 0 to 1, both included.
    #[doc(alias = "torch.distributions.constraints.unit_interval")]
    unit_interval => interval(0.0, 1.0);
    /// Vectors of numbers from 0 on that sum to 1.
    #[doc(alias = "torch.distributions.constraints.simplex")]
    simplex => C::Simplex;
    /// Lower-triangular square matrices.
    #[doc(alias = "torch.distributions.constraints.lower_triangular")]
    lower_triangular => C::LowerTriangular;
    /// Lower-triangular square matrices with a positive diagonal.
    #[doc(alias = "torch.distributions.constraints.lower_cholesky")]
    lower_cholesky => C::LowerCholesky;
    /// The same with rows of length 1: Cholesky factors of correlation matrices.
    #[doc(alias = "torch.distributions.constraints.corr_cholesky")]
    corr_cholesky => C::CorrCholesky;
    /// Square matrices.
    #[doc(alias = "torch.distributions.constraints.square")]
    square => C::Square;
    /// Symmetric square matrices.
    #[doc(alias = "torch.distributions.constraints.symmetric")]
    symmetric => C::Symmetric;
    /// Symmetric matrices without negative eigenvalues.
    #[doc(alias = "torch.distributions.constraints.positive_semidefinite")]
    positive_semidefinite => C::PositiveSemidefinite;
    /// Symmetric matrices with positive eigenvalues.
    #[doc(alias = "torch.distributions.constraints.positive_definite")]
    positive_definite => C::PositiveDefinite;
    /// A constraint that follows from other variables.
    ///
    /// ```
    /// use torch::distributions::constraints::dependent;
    /// assert!(dependent().is_dependent() && dependent().try_check(&torch::tensor(1.0)).is_err());
    /// ```
    #[doc(alias = "torch.distributions.constraints._DependentProperty")]
    #[doc(alias = "torch.distributions.constraints.dependent")]
    dependent => C::Dependent { is_discrete: None, event_dim: None };
}
/// Another constraint, over `reinterpreted_batch_ndims` more rightmost dimensions at once.
#[doc(alias = "torch.distributions.constraints.independent")]
pub fn independent(base: Constraint, reinterpreted_batch_ndims: usize) -> Constraint {
    C::Independent(Box::new(base), reinterpreted_batch_ndims)
}
/// Integers from `lower_bound` to `upper_bound`.
#[doc(alias = "torch.distributions.constraints._IntegerInterval")]
#[doc(alias = "torch.distributions.constraints.integer_interval")]
pub fn integer_interval(lower_bound: impl IntoArg<Param>, upper_bound: impl IntoArg<Param>) -> Constraint {
    C::IntegerInterval(lower_bound.into_arg(), upper_bound.into_arg())
}
/// Above `lower_bound`.
#[doc(alias = "torch.distributions.constraints._GreaterThan")]
#[doc(alias = "torch.distributions.constraints.greater_than")]
pub fn greater_than(lower_bound: impl IntoArg<Param>) -> Constraint {
    C::GreaterThan(lower_bound.into_arg())
}
/// `lower_bound` or above.
#[doc(alias = "torch.distributions.constraints._GreaterThanEq")]
#[doc(alias = "torch.distributions.constraints.greater_than_eq")]
pub fn greater_than_eq(lower_bound: impl IntoArg<Param>) -> Constraint {
    C::GreaterThanEq(lower_bound.into_arg())
}
/// Below `upper_bound`.
#[doc(alias = "torch.distributions.constraints._LessThan")]
#[doc(alias = "torch.distributions.constraints.less_than")]
pub fn less_than(upper_bound: impl IntoArg<Param>) -> Constraint {
    C::LessThan(upper_bound.into_arg())
}
/// From `lower_bound` to `upper_bound`.
#[doc(alias = "torch.distributions.constraints._Interval")]
#[doc(alias = "torch.distributions.constraints.interval")]
pub fn interval(lower_bound: impl IntoArg<Param>, upper_bound: impl IntoArg<Param>) -> Constraint {
    C::Interval(lower_bound.into_arg(), upper_bound.into_arg())
}
/// From `lower_bound` to below `upper_bound`.
#[doc(alias = "torch.distributions.constraints._HalfOpenInterval")]
#[doc(alias = "torch.distributions.constraints.half_open_interval")]
pub fn half_open_interval(lower_bound: impl IntoArg<Param>, upper_bound: impl IntoArg<Param>) -> Constraint {
    C::HalfOpenInterval(lower_bound.into_arg(), upper_bound.into_arg())
}
/// Vectors of counts that sum to at most `upper_bound`.
#[doc(alias = "torch.distributions.constraints.multinomial")]
pub fn multinomial(upper_bound: impl IntoArg<Param>) -> Constraint {
    C::Multinomial(upper_bound.into_arg())
}
/// Constraints one after the other along `dim`, over as many entries as `lengths` say (one each if `None`).
///
/// # Errors
/// Not as many lengths as constraints.
#[doc(alias = "torch.distributions.constraints.cat")]
#[flambeau_macros::short]
pub fn try_cat(all: Vec<Constraint>, dim: i64, lengths: Option<Vec<i64>>) -> Result<Constraint> {
    let lengths = lengths.unwrap_or_else(|| vec![1; all.len()]);
    ensure!(
        lengths.len() == all.len(),
        Assertion,
        "lengths ({}) must match cseq ({})",
        lengths.len(),
        all.len()
    );
    Ok(C::Cat(all, dim, lengths))
}
/// One constraint for each entry along `dim`.
#[doc(alias = "torch.distributions.constraints.stack")]
pub fn stack(all: Vec<Constraint>, dim: i64) -> Constraint {
    C::Stack(all, dim)
}
