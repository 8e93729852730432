//! Normal distributions of vectors.

use super::standard_normal;
use crate::constraints::{
    Constraint, independent, lower_cholesky, positive, positive_definite, real, real_vector,
};
use crate::distribution::{Argument, Distribution, Held, Shapes, check_value, checked, size};
use crate::formula::{Expr, e};
use crate::lapack;
use flambeau_autograd::{grad_mode, shorthand as s};
use flambeau_core::tensor::geometry;
use flambeau_core::{Error, Result, Tensor, ensure, ops};
use std::f64::consts::PI;
use std::sync::{Arc, OnceLock};

/// Matrices times vectors, batch by batch.
fn matrix_vector(m: &Expr, v: &Expr) -> Expr {
    m.matmul(&v.unsqueeze(-1)).squeeze(-1)
}
/// Solves with a lower-triangular matrix.
pub(crate) fn solve_lower(l: &Expr, b: &Expr) -> Expr {
    l.with(b, lapack::solve_lower)
}
/// `x^T (L L^T)^-1 x` for lower-triangular `l` whose batch divides that of `x`.
pub(crate) fn batch_mahalanobis(l: &Expr, x: &Expr) -> Expr {
    l.with(x, |l, x| {
        let n = x.sizes()[x.dim() - 1];
        let batch = &x.sizes()[..x.dim() - 1];
        let own = l.dim() - 2;
        let outer = batch.len() - own;
        // each batch dimension of x becomes one that l lacks and one that it has
        let mut split = batch[..outer].to_vec();
        for (sl, sx) in l.sizes()[..own].iter().zip(&batch[outer..]) {
            split.extend([sx / (*sl).max(1), *sl]);
        }
        split.push(n);
        let (outer, own) = (outer as i64, own as i64);
        let mut order: Vec<i64> = (0..outer).collect();
        order.extend((0..own).map(|i| outer + 2 * i));
        order.extend((0..own).map(|i| outer + 2 * i + 1));
        order.push(outer + 2 * own);
        let moved = s::permute(&s::reshape(x, &split)?, &order)?;
        let flat_l = s::reshape(l, &[-1, n, n])?;
        let flat_x = s::reshape(&moved, &[-1, flat_l.sizes()[0], n])?;
        let swapped = s::permute(&flat_x, &[1, 2, 0])?;
        let solved = e(&lapack::solve_lower(&flat_l, &swapped)?).pow(2.0).sum(-2).0?;
        let back = s::reshape(&s::transpose(&solved, 0, 1)?, &moved.sizes()[..moved.dim() - 1])?;
        let mut order: Vec<i64> = (0..outer).collect();
        order.extend((0..own).flat_map(|i| [outer + i, outer + own + i]));
        s::reshape(&s::permute(&back, &order)?, batch)
    })
}
/// Lower-triangular factor of the inverse of a precision matrix.
pub(crate) fn precision_to_scale_tril(p: &Tensor) -> Result<Tensor> {
    let factor = lapack::cholesky(&ops::flip(p, &[-2, -1])?)?;
    let inverse = s::transpose(&ops::flip(&factor, &[-2, -1])?, -2, -1)?;
    let n = p.sizes()[p.dim() - 1];
    lapack::solve_lower(&inverse, &ops::eye(n, Some(p.dtype()), None, Some(p.device()), None)?)
}
/// `log |det L|` of triangular matrices.
pub(crate) fn half_log_det(l: &Expr) -> Expr {
    l.diagonal().log().sum(-1)
}
/// What is computed when it is asked for, and then kept.
pub(crate) fn kept(slot: &OnceLock<Tensor>, make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    if let Some(t) = slot.get() {
        return Ok(t.clone());
    }
    let made = grad_mode::enable_grad(make)?;
    Ok(slot.get_or_init(|| made).clone())
}
pub(crate) fn wide(slot: &OnceLock<Tensor>, sizes: &[i64]) -> Result<OnceLock<Tensor>> {
    match slot.get() {
        Some(t) => s::expand(t, sizes).map(OnceLock::from),
        None => Ok(OnceLock::new()),
    }
}
fn held(slot: &OnceLock<Tensor>) -> Held {
    slot.get().map_or(Held::Later, |t| Held::Here(t.clone()))
}

/// A covariance in one of three forms, the others computed when they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Covariance {
    pub covariance: OnceLock<Tensor>,
    pub precision: OnceLock<Tensor>,
    pub scale_tril: OnceLock<Tensor>,
}
/// What was given of a covariance.
pub(crate) enum Given {
    Covariance(Tensor),
    Precision(Tensor),
    ScaleTril(Tensor),
}
impl Given {
    pub fn of(covariance: Option<Tensor>, precision: Option<Tensor>, tril: Option<Tensor>) -> Option<Given> {
        match (covariance, precision, tril) {
            (Some(t), None, None) => Some(Given::Covariance(t)),
            (None, Some(t), None) => Some(Given::Precision(t)),
            (None, None, Some(t)) => Some(Given::ScaleTril(t)),
            _ => None,
        }
    }
    pub fn tensor(&self) -> (&Tensor, &'static str) {
        match self {
            Given::Covariance(t) => (t, "covariance_matrix"),
            Given::Precision(t) => (t, "precision_matrix"),
            Given::ScaleTril(t) => (t, "scale_tril"),
        }
    }
    pub fn expanded(&self, sizes: &[i64]) -> Result<Covariance> {
        let (covariance, precision, scale_tril) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let slot = match self {
            Given::Covariance(_) => &covariance,
            Given::Precision(_) => &precision,
            Given::ScaleTril(_) => &scale_tril,
        };
        // the slot is new, so this is its first value
        let _ = slot.set(s::expand(self.tensor().0, sizes)?);
        Ok(Covariance { covariance, precision, scale_tril })
    }
    /// The lower-triangular factor, not yet over the batch.
    pub fn factor(&self) -> Result<Tensor> {
        match self {
            Given::Covariance(t) => lapack::cholesky(t),
            Given::Precision(t) => precision_to_scale_tril(t),
            Given::ScaleTril(t) => Ok(t.clone()),
        }
    }
}
impl Covariance {
    pub fn expanded(&self, sizes: &[i64]) -> Result<Covariance> {
        Ok(Covariance {
            covariance: wide(&self.covariance, sizes)?,
            precision: wide(&self.precision, sizes)?,
            scale_tril: wide(&self.scale_tril, sizes)?,
        })
    }
    pub fn arguments(&self) -> Vec<Argument> {
        vec![
            Argument::new("covariance_matrix", positive_definite(), held(&self.covariance)),
            Argument::new("precision_matrix", positive_definite(), held(&self.precision)),
            Argument::new("scale_tril", lower_cholesky(), held(&self.scale_tril)),
        ]
    }
}

#[flambeau_macros::class("torch.distributions.MultivariateNormal", build = MultivariateNormal)]
pub struct MultivariateNormalOptions {
    /// Mean, along the last dimension.
    pub loc: Tensor,
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
/// The normal distribution of vectors, by a mean and a covariance matrix, its inverse or its Cholesky factor.
///
/// ```
/// use torch::{tensor, zeros};
/// use torch::distributions::{DistributionExt, MultivariateNormal};
/// let d = MultivariateNormal::by_covariance(&zeros([2]), &tensor([[2.0, 1.0], [1.0, 2.0]]));
/// // -log(2 pi) - log(det) / 2
/// let expected = -(2.0 * std::f64::consts::PI).ln() - 3f64.ln() / 2.0;
/// assert!((d.log_prob(&zeros([2])).item::<f64>() - expected).abs() < 1e-6);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.MultivariateNormal")]
pub struct MultivariateNormal {
    shapes: Shapes,
    loc: Tensor,
    covariance: Covariance,
    factor: Tensor,
}
object!(MultivariateNormal);
impl MultivariateNormal {
    fn from_options(o: MultivariateNormalOptions) -> Result<Self> {
        ensure!(o.loc.dim() >= 1, Value, "loc must be at least one-dimensional.");
        let given = Given::of(o.covariance_matrix, o.precision_matrix, o.scale_tril).ok_or_else(|| {
            Error::value(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
            )
        })?;
        let (t, name) = given.tensor();
        let matrix = if name == "scale_tril" { "scale_tril matrix" } else { name };
        ensure!(
            t.dim() >= 2,
            Value,
            "{matrix} must be at least two-dimensional, with optional leading batch dimensions"
        );
        let (own, batch) = (&t.sizes()[..t.dim() - 2], &o.loc.sizes()[..o.loc.dim() - 1]);
        let batch = geometry::broadcast_all(&[own, batch])?;
        let covariance = given.expanded(&[&batch[..], &[-1, -1]].concat())?;
        let loc = s::expand(&o.loc, &[&batch[..], &[-1]].concat())?;
        let shapes = Shapes::new(&batch, &loc.sizes()[loc.dim() - 1..], o.validate_args);
        // arguments are checked before they are factorized, as in PyTorch
        let mut d = checked(MultivariateNormal { shapes, factor: loc.clone(), loc, covariance })?;
        d.factor = given.factor()?;
        Ok(d)
    }
    /// By mean and covariance matrix.
    #[track_caller]
    pub fn by_covariance(loc: &Tensor, covariance_matrix: &Tensor) -> Self {
        MultivariateNormalOptions::new(loc).covariance_matrix(covariance_matrix).build()
    }
    /// By mean and the Cholesky factor of the covariance matrix.
    #[track_caller]
    pub fn by_scale_tril(loc: &Tensor, scale_tril: &Tensor) -> Self {
        MultivariateNormalOptions::new(loc).scale_tril(scale_tril).build()
    }
    fn matrix(&self) -> Vec<i64> {
        [self.batch_shape(), self.event_shape(), self.event_shape()].concat()
    }
    pub(crate) fn mean_of(&self) -> Expr {
        e(&self.loc)
    }
    /// The Cholesky factor as it was given or computed, without the batch's expansion.
    pub(crate) fn factor(&self) -> Expr {
        e(&self.factor)
    }
}
impl Distribution for MultivariateNormal {
    named!(MultivariateNormal);
    fn arguments(&self) -> Result<Vec<Argument>> {
        let mut all = vec![Argument::new("loc", real_vector(), Held::Here(self.loc.clone()))];
        all.extend(self.covariance.arguments());
        Ok(all)
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        let c = &self.covariance;
        Ok(Some(match name {
            "loc" => self.loc.clone(),
            "scale_tril" => kept(&c.scale_tril, || s::expand(&self.factor, &self.matrix()))?,
            "covariance_matrix" => {
                kept(&c.covariance, || self.factor().matmul(&self.factor().mt()).expand(&self.matrix()).0)?
            }
            "precision_matrix" => {
                kept(&c.precision, || s::expand(&lapack::cholesky_inverse(&self.factor)?, &self.matrix()))?
            }
            _ => return Ok(None),
        }))
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        let event = self.event_shape();
        Ok(Arc::new(MultivariateNormal {
            shapes: self.shapes.expanded(batch),
            loc: s::expand(&self.loc, &[batch, event].concat())?,
            covariance: self.covariance.expanded(&[batch, event, event].concat())?,
            factor: self.factor.clone(),
        }))
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(real_vector())
    }
    fn try_mean(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_variance(&self) -> Result<Tensor> {
        self.factor().pow(2.0).sum(-1).expand(&self.shapes.extended(&[])).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let eps = standard_normal(&self.loc, &self.shapes.extended(shape))?;
        (e(&self.loc) + matrix_vector(&self.factor(), &e(&eps))).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let n = self.event_shape()[0] as f64;
        let m = batch_mahalanobis(&self.factor(), &(e(value) - e(&self.loc)));
        (-0.5 * (n * (2.0 * PI).ln() + m) - half_log_det(&self.factor())).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let n = self.event_shape()[0] as f64;
        let h = 0.5 * n * (1.0 + (2.0 * PI).ln()) + half_log_det(&self.factor());
        if self.batch_shape().is_empty() { h.0 } else { h.expand(self.batch_shape()).0 }
    }
}

/// `chol(W^T D^-1 W + I)`
fn capacitance(w: &Tensor, d: &Tensor) -> Result<Tensor> {
    let m = w.sizes()[w.dim() - 1];
    let (w, d) = (e(w), e(d));
    let k = (w.mt() / d.unsqueeze(-2)).matmul(&w);
    let eye = k.map(|k| ops::eye(m, Some(k.dtype()), None, Some(k.device()), None));
    (k + eye).map(lapack::cholesky).0
}
pub(crate) fn lowrank_logdet(d: &LowRankMultivariateNormal) -> Expr {
    2.0 * half_log_det(&e(&d.capacitance)) + e(&d.own_diag).log().sum(-1)
}
/// `x^T (W W^T + D)^-1 x`, by the matrix determinant lemma's sibling of Woodbury.
pub(crate) fn lowrank_mahalanobis(d: &LowRankMultivariateNormal, x: &Expr) -> Expr {
    let (w, diag) = (e(&d.own_factor), e(&d.own_diag));
    let inner = matrix_vector(&(w.mt() / diag.unsqueeze(-2)), x);
    (x.pow(2.0) / &diag).sum(-1) - batch_mahalanobis(&e(&d.capacitance), &inner)
}

#[flambeau_macros::class("torch.distributions.LowRankMultivariateNormal", build = LowRankMultivariateNormal)]
pub struct LowRankMultivariateNormalOptions {
    /// Mean, along the last dimension.
    pub loc: Tensor,
    /// Factor of the low-rank part of the covariance: as many rows as the mean has elements.
    pub cov_factor: Tensor,
    /// Diagonal part of the covariance.
    pub cov_diag: Tensor,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// The normal distribution of vectors with the covariance `cov_factor cov_factor^T + diag(cov_diag)`.
///
/// ```
/// use torch::{ones, tensor, zeros};
/// use torch::distributions::{DistributionExt, LowRankMultivariateNormal};
/// let d = LowRankMultivariateNormal::new(zeros([2]), tensor([[1.0], [2.0]]), ones([2]));
/// assert_eq!(d.variance().to_vec::<f32>(), [2.0, 5.0]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.LowRankMultivariateNormal")]
pub struct LowRankMultivariateNormal {
    shapes: Shapes,
    loc: Tensor,
    cov_factor: Tensor,
    cov_diag: Tensor,
    pub(crate) own_factor: Tensor,
    pub(crate) own_diag: Tensor,
    pub(crate) capacitance: Tensor,
    scale_tril: OnceLock<Tensor>,
    covariance: OnceLock<Tensor>,
    precision: OnceLock<Tensor>,
    variance: OnceLock<Tensor>,
}
object!(LowRankMultivariateNormal);
impl LowRankMultivariateNormal {
    fn from_options(o: LowRankMultivariateNormalOptions) -> Result<Self> {
        let (loc, factor, diag) = (o.loc, o.cov_factor, o.cov_diag);
        ensure!(loc.dim() >= 1, Value, "loc must be at least one-dimensional.");
        let event = loc.sizes()[loc.dim() - 1..].to_vec();
        ensure!(
            factor.dim() >= 2,
            Value,
            "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
        );
        ensure!(
            factor.sizes()[factor.dim() - 2] == event[0],
            Value,
            "cov_factor must be a batch of matrices with shape {} x m",
            event[0]
        );
        ensure!(
            diag.sizes().ends_with(&event),
            Value,
            "cov_diag must be a batch of vectors with shape {}",
            size(&event)
        );
        let all = [s::unsqueeze(&loc, -1)?, factor.clone(), s::unsqueeze(&diag, -1)?];
        let all = ops::broadcast_tensors(&all).map_err(|_| {
            Error::value(format!(
                "Incompatible batch shapes: loc {}, cov_factor {}, cov_diag {}",
                size(loc.sizes()),
                size(factor.sizes()),
                size(diag.sizes())
            ))
        })?;
        let (loc, cov_diag) = (s::select(&all[0], -1, 0)?, s::select(&all[2], -1, 0)?);
        let shapes = Shapes::new(&loc.sizes()[..loc.dim() - 1], &event, o.validate_args);
        let capacitance = capacitance(&factor, &diag)?;
        checked(LowRankMultivariateNormal {
            shapes,
            loc,
            cov_factor: all[1].clone(),
            cov_diag,
            own_factor: factor,
            own_diag: diag,
            capacitance,
            scale_tril: OnceLock::new(),
            covariance: OnceLock::new(),
            precision: OnceLock::new(),
            variance: OnceLock::new(),
        })
    }
    fn matrix(&self) -> Vec<i64> {
        [self.batch_shape(), self.event_shape(), self.event_shape()].concat()
    }
    pub(crate) fn mean_of(&self) -> Expr {
        e(&self.loc)
    }
    /// The rank of the low-rank part.
    pub(crate) fn rank(&self) -> i64 {
        self.cov_factor.sizes()[self.cov_factor.dim() - 1]
    }
}
impl Distribution for LowRankMultivariateNormal {
    named!(LowRankMultivariateNormal);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(vec![
            Argument::new("loc", real_vector(), Held::Here(self.loc.clone())),
            Argument::new("cov_factor", independent(real(), 2), Held::Here(self.cov_factor.clone())),
            Argument::new("cov_diag", independent(positive(), 1), Held::Here(self.cov_diag.clone())),
        ])
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        let (w, d) = (e(&self.own_factor), e(&self.own_diag));
        let n = self.event_shape()[0];
        let eye = |k: &Expr| k.map(|k| ops::eye(n, Some(k.dtype()), None, Some(k.device()), None));
        Ok(Some(match name {
            "loc" => self.loc.clone(),
            "cov_factor" => self.cov_factor.clone(),
            "cov_diag" => self.cov_diag.clone(),
            "scale_tril" => kept(&self.scale_tril, || {
                let root = d.sqrt().unsqueeze(-1);
                let scaled = &w / &root;
                let k = scaled.matmul(&scaled.mt());
                let factor = (&k + eye(&k)).map(lapack::cholesky);
                (root * factor).expand(&self.matrix()).0
            })?,
            "covariance_matrix" => {
                kept(&self.covariance, || (w.matmul(&w.mt()) + d.diag_embed()).expand(&self.matrix()).0)?
            }
            "precision_matrix" => kept(&self.precision, || {
                let a = solve_lower(&e(&self.capacitance), &(w.mt() / d.unsqueeze(-2)));
                (d.reciprocal().diag_embed() - a.mt().matmul(&a)).expand(&self.matrix()).0
            })?,
            _ => return Ok(None),
        }))
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        let vector = [batch, self.event_shape()].concat();
        Ok(Arc::new(LowRankMultivariateNormal {
            shapes: self.shapes.expanded(batch),
            loc: s::expand(&self.loc, &vector)?,
            cov_diag: s::expand(&self.cov_diag, &vector)?,
            cov_factor: s::expand(&self.cov_factor, &[&vector[..], &[self.rank()]].concat())?,
            scale_tril: OnceLock::new(),
            covariance: OnceLock::new(),
            precision: OnceLock::new(),
            variance: OnceLock::new(),
            ..self.clone()
        }))
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(real_vector())
    }
    fn try_mean(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_mode(&self) -> Result<Tensor> {
        Ok(self.loc.clone())
    }
    fn try_variance(&self) -> Result<Tensor> {
        kept(&self.variance, || {
            let sum = e(&self.own_factor).pow(2.0).sum(-1) + e(&self.own_diag);
            sum.expand(&self.shapes.extended(&[])).0
        })
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let shape = self.shapes.extended(shape);
        let low = [&shape[..shape.len() - 1], &[self.rank()]].concat();
        let eps_w = standard_normal(&self.loc, &low)?;
        let eps_d = standard_normal(&self.loc, &shape)?;
        let low = matrix_vector(&e(&self.own_factor), &e(&eps_w));
        (e(&self.loc) + low + e(&self.own_diag).sqrt() * e(&eps_d)).0
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let n = self.event_shape()[0] as f64;
        let m = lowrank_mahalanobis(self, &(e(value) - e(&self.loc)));
        (-0.5 * (n * (2.0 * PI).ln() + lowrank_logdet(self) + m)).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let n = self.event_shape()[0] as f64;
        let h = 0.5 * (n * (1.0 + (2.0 * PI).ln()) + lowrank_logdet(self));
        if self.batch_shape().is_empty() { h.0 } else { h.expand(self.batch_shape()).0 }
    }
}
