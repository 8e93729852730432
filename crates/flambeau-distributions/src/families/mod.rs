//! The distributions themselves, by kind.

#[macro_use]
mod declared;
mod binary;
mod categorical;
mod circular;
mod composed;
mod derived;
mod gaussian;
mod given;
mod location;
mod matrices;
mod positive;
mod properties;
mod relaxed;
mod simplex;

pub use binary::{
    Bernoulli, BernoulliOptions, Binomial, BinomialOptions, ContinuousBernoulli, ContinuousBernoulliOptions,
    Geometric, GeometricOptions, NegativeBinomial, NegativeBinomialOptions,
};
pub use categorical::{
    Categorical, CategoricalOptions, Count, Multinomial, MultinomialOptions, OneHotCategorical,
    OneHotCategoricalOptions, OneHotCategoricalStraightThrough, OneHotCategoricalStraightThroughOptions,
};
pub use circular::{VonMises, VonMisesOptions};
pub use composed::{Independent, MixtureSameFamily, TransformedDistribution};
pub use derived::{
    Gumbel, GumbelOptions, HalfCauchy, HalfCauchyOptions, HalfNormal, HalfNormalOptions, InverseGamma,
    InverseGammaOptions, Kumaraswamy, KumaraswamyOptions, LogNormal, LogNormalOptions, LogisticNormal,
    LogisticNormalOptions, Pareto, ParetoOptions, Weibull, WeibullOptions,
};
pub use gaussian::{
    LowRankMultivariateNormal, LowRankMultivariateNormalOptions, MultivariateNormal,
    MultivariateNormalOptions,
};
pub use location::{
    Cauchy, CauchyOptions, GeneralizedPareto, GeneralizedParetoOptions, Laplace, LaplaceOptions, Normal,
    NormalOptions, StudentT, StudentTOptions, Uniform, UniformOptions,
};
pub use matrices::{LKJCholesky, LKJCholeskyOptions, Wishart, WishartOptions};
pub use positive::{
    Chi2, Chi2Options, Exponential, ExponentialOptions, FisherSnedecor, FisherSnedecorOptions, Gamma,
    GammaOptions, Poisson, PoissonOptions,
};
pub use relaxed::{
    ExpRelaxedCategorical, ExpRelaxedCategoricalOptions, LogitRelaxedBernoulli, LogitRelaxedBernoulliOptions,
    RelaxedBernoulli, RelaxedBernoulliOptions, RelaxedOneHotCategorical, RelaxedOneHotCategoricalOptions,
};
pub use simplex::{Beta, BetaOptions, Dirichlet, DirichletOptions};

pub(crate) use derived::EULER;
pub(crate) use gaussian::{
    batch_mahalanobis, half_log_det, lowrank_logdet, lowrank_mahalanobis, solve_lower,
};

use crate::formula::Expr;
use flambeau_core::{Result, Scalar, Tensor, ops};

/// Uniform numbers from 0 to 1, in the dtype of another tensor.
fn uniform(like: &Tensor, shape: &[i64]) -> Result<Tensor> {
    ops::rand(shape, None, Some(like.dtype()), None, Some(like.device()), None)
}
/// Memory of that shape that a random fill writes.
fn drawn(like: &Tensor, shape: &[i64], fill: impl FnOnce(&Tensor) -> Result<()>) -> Result<Tensor> {
    let out = ops::empty(shape, Some(like.dtype()), None, Some(like.device()), None, None)?;
    fill(&out)?;
    Ok(out)
}
fn standard_normal(like: &Tensor, shape: &[i64]) -> Result<Tensor> {
    drawn(like, shape, |t| ops::normal_(t, 0.0, 1.0, None))
}
/// One number everywhere.
fn constant(like: &Tensor, shape: &[i64], value: f64) -> Result<Tensor> {
    ops::full(shape, Scalar::Float(value), Some(like.dtype()), None, Some(like.device()), None)
}
/// `[0, 1, .., n - 1]` in the dtype of another tensor.
fn count_to(n: i64, like: &Tensor) -> Result<Tensor> {
    ops::arange(Scalar::Int(n), Some(like.dtype()), None, Some(like.device()), None)
}
/// Values along a new first dimension, over a batch shape or sizes of 1.
fn enumerated(values: Tensor, batch: &[i64], event: &[i64], expand: bool) -> Result<Tensor> {
    let ones = vec![1; batch.len()];
    let values = Expr(Ok(values)).reshape(&[&[-1][..], &ones, event].concat());
    if expand { values.expand(&[&[-1][..], batch, event].concat()).0 } else { values.0 }
}
