//! Distributions over matrices.

use super::gaussian::{Covariance, Given, half_log_det, kept};
use crate::argument::{Param, broadcast_all, formatted};
use crate::constraints::{self, Constraint, corr_cholesky, positive, positive_definite};
use crate::distribution::{Argument, Distribution, ExponentialFamily, Held, Shapes, check_value, checked};
use crate::families::{Beta, Chi2};
use crate::formula::{Expr, e};
use crate::lapack;
use flambeau_autograd::{grad_mode, shorthand as s};
use flambeau_core::settings::determinism::warn;
use flambeau_core::tensor::geometry;
use flambeau_core::{Error, Result, Scalar, Tensor, ensure, finfo, ops};
use std::f64::consts::{LN_2, PI};
use std::sync::Arc;

#[flambeau_macros::class("torch.distributions.LKJCholesky", build = LKJCholesky)]
pub struct LKJCholeskyOptions {
    /// Size of the matrices.
    pub dim: i64,
    /// Shape: 1 is uniform over correlation matrices.
    #[default(1.0)]
    #[positional]
    pub concentration: Param,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// The LKJ distribution of Cholesky factors of correlation matrices, with density of the matrix in proportion to
/// `det(C)^(concentration - 1)` (Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines
/// and extended onion method", 2009; sampled by the onion method).
///
/// ```
/// use torch::ones;
/// use torch::distributions::{DistributionExt, LKJCholesky};
/// let l = LKJCholesky::new(3, 1.0).sample();
/// let correlations = l.matmul(&l.t());
/// assert!(torch::allclose(&correlations.diagonal(), &ones([3])));
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.LKJCholesky")]
pub struct LKJCholesky {
    shapes: Shapes,
    dim: i64,
    concentration: Tensor,
    beta: Beta,
}
object!(LKJCholesky);
impl LKJCholesky {
    fn from_options(o: LKJCholeskyOptions) -> Result<Self> {
        let n = o.dim;
        ensure!(n >= 2, Value, "Expected dim to be an integer greater than or equal to 2. Found dim={n}.");
        let [concentration] = broadcast_all([&o.concentration])?;
        let marginal = e(&concentration) + 0.5 * (n - 2) as f64;
        let count = super::count_to(n - 1, &concentration)?;
        let zero = super::constant(&concentration, &[1], 0.0)?;
        let offset = e(&ops::cat(&[zero, count], 0)?);
        let beta = Beta::of(&(&offset + 0.5).0?, &(marginal.unsqueeze(-1) - 0.5 * &offset).0?)?;
        let shapes = Shapes::new(concentration.sizes(), &[n, n], o.validate_args);
        checked(LKJCholesky { shapes, dim: n, concentration, beta })
    }
    /// Size of the matrices.
    pub fn dim(&self) -> i64 {
        self.dim
    }
    /// Shape, over the batch.
    pub fn concentration(&self) -> &Tensor {
        &self.concentration
    }
}
impl Distribution for LKJCholesky {
    named!(LKJCholesky);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(vec![Argument::new("concentration", positive(), Held::Here(self.concentration.clone()))])
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(LKJCholesky {
            shapes: self.shapes.expanded(batch),
            dim: self.dim,
            concentration: s::expand(&self.concentration, batch)?,
            beta: self.beta.expanded(&[batch, &[self.dim]].concat())?,
        }))
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(corr_cholesky())
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        let y = e(&self.beta.try_sample(shape)?).unsqueeze(-1);
        let like = y.0.clone()?;
        let sizes = self.shapes.extended(shape);
        let normal = ops::randn(&sizes, None, Some(like.dtype()), None, Some(like.device()), None)?;
        let normal = e(&normal).tril(-1);
        let norm = normal.map(|u| ops::linalg_vector_norm(u, Scalar::Int(2), Some(&[-1]), true, None));
        let sphere = (normal / norm).0?;
        // the first row has no direction
        ops::zero_(&s::select(&sphere, -2, 0)?)?;
        let w = y.sqrt() * e(&sphere);
        let tiny = finfo(like.dtype())?.tiny;
        let rest = (1.0 - w.pow(2.0).sum(-1)).at_least(tiny).sqrt();
        (&w + rest.diag_embed()).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let n = self.dim as f64;
        let diagonal = e(value).diagonal().slice(Some(1), None);
        let order = ops::arange_start(
            Scalar::Int(2),
            Scalar::Int(self.dim + 1),
            None,
            None,
            Some(self.concentration.device()),
            None,
        )?;
        let c = e(&self.concentration);
        let order = 2.0 * (&c - 1.0).unsqueeze(-1) + n - e(&order);
        let plain = (order * diagonal.log()).sum(-1);
        let m = n - 1.0;
        let alpha = &c + 0.5 * m;
        let above = (&alpha - 0.5).map(|a| ops::mvlgamma(a, self.dim - 1));
        let norm = 0.5 * m * PI.ln() + above - alpha.lgamma() * m;
        (plain - norm).0
    }
}

#[flambeau_macros::class("torch.distributions.Wishart", build = Wishart)]
pub struct WishartOptions {
    /// Degrees of freedom: more than the size of the matrices less 1.
    pub df: Param,
    /// Positive definite covariance matrix.
    #[positional]
    pub covariance_matrix: Option<Tensor>,
    /// Its inverse.
    pub precision_matrix: Option<Tensor>,
    /// Its lower-triangular factor with a positive diagonal.
    pub scale_tril: Option<Tensor>,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// The Wishart distribution: of the sum of `df` products `x x^T` of normal vectors with that covariance. Sampled by
/// Bartlett's decomposition.
///
/// ```
/// use torch::eye;
/// use torch::distributions::{DistributionExt, WishartOptions};
/// let d = WishartOptions::new(3.0).covariance_matrix(eye(2)).build();
/// assert!(torch::allclose(&d.mean(), &(eye(2) * 3.0)));
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.Wishart")]
pub struct Wishart {
    shapes: Shapes,
    df: Tensor,
    covariance: Covariance,
    factor: Tensor,
    chi2: Chi2,
}
object!(Wishart);
fn chi2_of(df: &Tensor, n: i64, like: &Tensor) -> Result<Chi2> {
    let down = super::count_to(n, like)?;
    Chi2::of(&(e(df).unsqueeze(-1) - e(&down)).0?, None)
}
impl Wishart {
    fn from_options(o: WishartOptions) -> Result<Self> {
        let given = Given::of(o.covariance_matrix, o.precision_matrix, o.scale_tril).ok_or_else(|| {
            Error::assertion(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
            )
        })?;
        let t = given.tensor().0;
        ensure!(
            t.dim() >= 2,
            Value,
            "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
        );
        let (own, event) = t.sizes().split_at(t.dim() - 2);
        let n = event[1];
        let (batch, df) = match &o.df {
            Param::Number(_) => (own.to_vec(), number_like(&o.df, t)?),
            Param::Tensor(df) => {
                let batch = geometry::broadcast_all(&[own, df.sizes()])?;
                (batch.clone(), s::expand(df, &batch)?)
            }
        };
        let any = |mask: Expr| mask.map(ops::any).0?.try_item::<bool>();
        ensure!(
            !any(e(&df).le((n - 1) as f64))?,
            Value,
            "Value of df={} expected to be greater than ndim - 1 = {}.",
            match &o.df {
                Param::Number(_) => o.df.to_string(),
                Param::Tensor(t) => formatted(t),
            },
            n - 1
        );
        let covariance = given.expanded(&[&batch[..], &[-1, -1]].concat())?;
        if any(e(&df).lt(n as f64))? {
            warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
            );
        }
        let shapes = Shapes::new(&batch, event, o.validate_args);
        let chi2 = chi2_of(&df, n, t)?;
        // arguments are checked before they are factorized, as in PyTorch
        let mut d = checked(Wishart { shapes, factor: df.clone(), df, covariance, chi2 })?;
        d.factor = given.factor()?;
        Ok(d)
    }
    fn n(&self) -> i64 {
        self.event_shape()[1]
    }
    fn matrix(&self) -> Vec<i64> {
        self.shapes.extended(&[])
    }
    fn bartlett(&self, sample: &[i64]) -> Result<Tensor> {
        let n = self.n();
        let root = e(&self.chi2.try_rsample(sample)?).sqrt();
        let root = root.map(|r| ops::clamp(r, Some(Scalar::Float(finfo(r.dtype())?.eps)), None));
        let diagonal = root.diag_embed().0?;
        let count = n * (n - 1) / 2;
        let sizes = [sample, self.batch_shape(), &[count]].concat();
        let below = ops::randn(&sizes, None, Some(diagonal.dtype()), None, Some(diagonal.device()), None)?;
        let below = crate::transforms::vector_to_tril(&e(&below), -1);
        let noise = if n > 1 { e(&diagonal) + below } else { e(&diagonal) };
        let factor = e(&self.factor).matmul(&noise);
        factor.matmul(&factor.mt()).0
    }
    /// The covariance matrix, over the batch.
    fn covariance(&self) -> Result<Tensor> {
        kept(&self.covariance.covariance, || {
            e(&self.factor).matmul(&e(&self.factor).mt()).expand(&self.matrix()).0
        })
    }
    /// Degrees of freedom with two more dimensions.
    fn df_matrix(&self) -> Expr {
        e(&self.df).reshape(&[self.batch_shape(), &[1, 1]].concat())
    }
    fn mvdigamma(&self, x: &Expr) -> Result<Expr> {
        let n = self.n();
        let least = x.gt((n - 1) as f64 / 2.0).map(ops::all).0?.try_item::<bool>()?;
        ensure!(least, Assertion, "Wrong domain for multivariate digamma function.");
        let halves = e(&super::count_to(n, &self.df)?) / 2.0;
        Ok((x.unsqueeze(-1) - halves).digamma().sum(-1))
    }
}
fn number_like(n: &Param, like: &Tensor) -> Result<Tensor> {
    super::constant(like, &[], n.number().unwrap_or(0.0))
}
impl Distribution for Wishart {
    named!(Wishart);
    fn arguments(&self) -> Result<Vec<Argument>> {
        let mut all = self.covariance.arguments();
        let more = constraints::greater_than(self.n() - 1);
        all.push(Argument::new("df", more, Held::Here(self.df.clone())));
        Ok(all)
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        let c = &self.covariance;
        Ok(Some(match name {
            "df" => self.df.clone(),
            "scale_tril" => kept(&c.scale_tril, || s::expand(&self.factor, &self.matrix()))?,
            "covariance_matrix" => self.covariance()?,
            "precision_matrix" => kept(&c.precision, || {
                let f = &self.factor;
                let eye = ops::eye(self.n(), Some(f.dtype()), None, Some(f.device()), None)?;
                s::expand(&lapack::cholesky_solve(&eye, f)?, &self.matrix())
            })?,
            _ => return Ok(None),
        }))
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        let sizes = [batch, self.event_shape()].concat();
        let (factor, df) = (s::expand(&self.factor, &sizes)?, s::expand(&self.df, batch)?);
        Ok(Arc::new(Wishart {
            shapes: self.shapes.expanded(batch),
            chi2: chi2_of(&df, self.n(), &factor)?,
            covariance: self.covariance.expanded(&sizes)?,
            df,
            factor,
        }))
    }
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(positive_definite())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (self.df_matrix() * e(&self.covariance()?)).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        let factor = self.df_matrix() - self.n() as f64 - 1.0;
        (factor.fill(&factor.le(0.0), f64::NAN) * e(&self.covariance()?)).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let v = e(&self.covariance()?);
        let d = v.diagonal();
        (self.df_matrix() * (v.pow(2.0) + d.unsqueeze(-1) * d.unsqueeze(-2))).0
    }
    fn try_sample(&self, shape: &[i64]) -> Result<Tensor> {
        grad_mode::no_grad(|| self.try_rsample(shape))
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let mut sample = self.bartlett(shape)?;

        // PyTorch takes the samples that pass for singular ones, and draws those anew up to ten times
        let over_batch = |mask: Tensor| -> Result<Tensor> {
            let dims: Vec<i64> = (1..=self.batch_shape().len() as i64).map(|d| -d).collect();
            if dims.is_empty() { Ok(mask) } else { ops::amax(&mask, &dims, false) }
        };
        let mut singular = over_batch(positive_definite().try_check(&sample)?)?;
        if !ops::any(&singular)?.try_item::<bool>()? {
            return Ok(sample);
        }

        for _ in 0..10 {
            let count = ops::masked_select(&singular, &singular)?.numel() as i64;
            let fresh = self.bartlett(&[count])?;
            let at = s::reshape(&ops::nonzero(&s::reshape(&singular, &[-1])?)?, &[-1])?;
            let rest = &sample.sizes()[singular.dim()..];
            let flat = s::reshape(&sample, &[&[-1], rest].concat())?;
            let sizes = sample.sizes().to_vec();
            sample = s::reshape(&ops::index_copy(&flat, 0, &at, &fresh)?, &sizes)?;
            let still = ops::bitwise_not(&positive_definite().try_check(&fresh)?)?;
            let still = over_batch(still)?;
            let marks = s::reshape(&singular, &[-1])?;
            let shape = singular.sizes().to_vec();
            singular = s::reshape(&ops::index_copy(&marks, 0, &at, &still)?, &shape)?;
            if !ops::any(&singular)?.try_item::<bool>()? {
                break;
            }
        }
        Ok(sample)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let (nu, p) = (e(&self.df), self.n());
        let n = p as f64;
        let first = -&nu * (n * LN_2 / 2.0 + half_log_det(&e(&self.factor)));
        let gamma = (&nu / 2.0).map(|x| ops::mvlgamma(x, p));
        let det = e(&lapack::logabsdet(value)?);
        let solved = e(&lapack::cholesky_solve(value, &self.factor)?);
        (first - gamma + (&nu - n - 1.0) / 2.0 * det - solved.diagonal().sum(-1) / 2.0).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let (nu, p) = (e(&self.df), self.n());
        let n = p as f64;
        let first = (n + 1.0) * (n * LN_2 / 2.0 + half_log_det(&e(&self.factor)));
        let half = &nu / 2.0;
        let gamma = half.map(|x| ops::mvlgamma(x, p));
        (first + gamma - (&nu - n - 1.0) / 2.0 * self.mvdigamma(&half)? + &nu * n / 2.0).0
    }
}
impl ExponentialFamily for Wishart {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        let precision = self.parameter("precision_matrix")?;
        let precision = precision.ok_or_else(|| Error::assertion("a Wishart has a precision matrix"))?;
        let n = self.n() as f64;
        Ok(vec![(-e(&precision) / 2.0).0?, ((e(&self.df) - n - 1.0) / 2.0).0?])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        let n = self.n() as f64;
        let y = e(&p[1]) + (n + 1.0) / 2.0;
        let det = (-2.0 * e(&p[0])).map(lapack::logabsdet);
        (&y * (-det + LN_2 * n) + y.map(|y| ops::mvlgamma(y, self.n()))).0
    }
    fn mean_carrier_measure(&self) -> Result<f64> {
        Ok(0.0)
    }
}
