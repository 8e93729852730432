//! The Dirichlet distribution and its case of two numbers.

use crate::argument::{Param, broadcast_all};
use crate::constraints::{Constraint, independent, positive, simplex, unit_interval};
use crate::distribution::{Argument, Distribution, ExponentialFamily, Held, Shapes, check_value, checked};
use crate::formula::{Expr, e};
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::shorthand as s;
use flambeau_core::{Result, Tensor, ensure, ops};
use flambeau_nn_functional::ops as nn;
use std::borrow::Cow;
use std::sync::Arc;

/// Samples whose gradient is that of the implicit reparameterization.
struct Sample;
impl Function for Sample {
    const ONCE_DIFFERENTIABLE: bool = true;
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("_Dirichlet")
    }
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = ops::sample_dirichlet(&inputs[0], None)?;
        ctx.save_for_backward(&[&x, &inputs[0]]);
        Ok(vec![x])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = ctx.saved_tensors()?;
        let (x, concentration) = (&saved[0], &saved[1]);
        let Some(grad) = &grads[0] else { return Ok(vec![None]) };
        let total = e(concentration).sum_keep(-1).expand(concentration.sizes()).0?;
        let d = e(&ops::dirichlet_grad(x, concentration, &total)?);
        let inner = (e(x) * e(grad)).sum_keep(-1);
        (d * (e(grad) - inner)).0.map(|g| vec![Some(g)])
    }
}

#[flambeau_macros::class("torch.distributions.Dirichlet", build = Dirichlet)]
pub struct DirichletOptions {
    /// Concentrations, along the last dimension.
    pub concentration: Tensor,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// The Dirichlet distribution over the simplex, with density in proportion to the product of `x_i^(c_i - 1)`.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{Dirichlet, DistributionExt};
/// let d = Dirichlet::new(tensor([1.0, 2.0, 5.0]));
/// assert_eq!(d.mean().to_vec::<f32>(), [0.125, 0.25, 0.625]);
/// assert!((d.sample().sum().item::<f64>() - 1.0).abs() < 1e-6);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.Dirichlet")]
pub struct Dirichlet {
    shapes: Shapes,
    concentration: Tensor,
}
object!(Dirichlet);
impl Dirichlet {
    fn from_options(o: DirichletOptions) -> Result<Self> {
        let c = o.concentration;
        ensure!(c.dim() >= 1, Value, "`concentration` parameter must be at least one-dimensional.");
        let (batch, event) = c.sizes().split_at(c.dim() - 1);
        let shapes = Shapes::new(batch, event, o.validate_args);
        checked(Dirichlet { shapes, concentration: c })
    }
    fn expanded(&self, batch: &[i64]) -> Result<Self> {
        let sizes = [batch, self.shapes.event()].concat();
        Ok(Dirichlet {
            shapes: self.shapes.expanded(batch),
            concentration: s::expand(&self.concentration, &sizes)?,
        })
    }
    /// Concentrations.
    pub fn concentration(&self) -> &Tensor {
        &self.concentration
    }
}
impl Distribution for Dirichlet {
    named!(Dirichlet);
    fn arguments(&self) -> Result<Vec<Argument>> {
        let here = Held::Here(self.concentration.clone());
        Ok(vec![Argument::new("concentration", independent(positive(), 1), here)])
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(simplex())
    }
    fn try_mean(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        (&c / c.sum_keep(-1)).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        let less = (&c - 1.0).at_least(0.0);
        let mode = &less / less.sum_keep(-1);
        // where every concentration is below 1 the density peaks in corners, of which PyTorch names one
        let corner = mode.map(|m| {
            let at = ops::argmax(m, Some(-1), false)?;
            s::to_dtype(&nn::one_hot(&at, *self.shapes.event().first().unwrap_or(&1))?, m.dtype())
        });
        c.lt(1.0).all_last().unsqueeze(-1).choose(&corner, &mode).0
    }
    fn try_variance(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        let total = c.sum_keep(-1);
        (&c * (&total - &c) / (total.pow(2.0) * (&total + 1.0))).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        let wide = s::expand(&self.concentration, &self.shapes.extended(shape))?;
        let mut out = function::apply(Sample, &[wide])?;
        Ok(out.remove(0))
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let c = e(&self.concentration);
        ((&c - 1.0).xlogy(e(value)).sum(-1) + c.sum(-1).lgamma() - c.lgamma().sum(-1)).0
    }
    fn try_entropy(&self) -> Result<Tensor> {
        let c = e(&self.concentration);
        let k = *self.shapes.event().first().unwrap_or(&0) as f64;
        let total = c.sum(-1);
        (c.lgamma().sum(-1)
            - total.lgamma()
            - (k - &total) * total.digamma()
            - ((&c - 1.0) * c.digamma()).sum(-1))
        .0
    }
}
impl ExponentialFamily for Dirichlet {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        Ok(vec![self.concentration.clone()])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        (e(&p[0]).lgamma().sum(-1) - e(&p[0]).sum(-1).lgamma()).0
    }
}

#[flambeau_macros::class("torch.distributions.Beta", build = Beta)]
pub struct BetaOptions {
    /// First concentration, often called alpha.
    pub concentration1: Param,
    /// Second concentration, often called beta.
    pub concentration0: Param,
    /// Whether arguments and values are checked.
    pub validate_args: Option<bool>,
}
/// The beta distribution over numbers from 0 to 1, with density in proportion to `x^(a-1) (1-x)^(b-1)`.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::{Beta, DistributionExt};
/// let d = Beta::new(2.0, 2.0);
/// assert_eq!(d.mean().item::<f64>(), 0.5);
/// assert!((d.log_prob(&tensor(0.5)).exp().item::<f64>() - 1.5).abs() < 1e-6);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.Beta")]
pub struct Beta {
    shapes: Shapes,
    dirichlet: Dirichlet,
}
object!(Beta);
impl Beta {
    fn from_options(o: BetaOptions) -> Result<Self> {
        let both = broadcast_all([&o.concentration1, &o.concentration0])?;
        let concentration = ops::stack(&both, -1)?;
        let dirichlet =
            Dirichlet::from_options(DirichletOptions { concentration, validate_args: o.validate_args })?;
        let shapes = Shapes::new(dirichlet.batch_shape(), &[], o.validate_args);
        checked(Beta { shapes, dirichlet })
    }
    pub(crate) fn of(a: &Tensor, b: &Tensor) -> Result<Self> {
        Self::from_options(BetaOptions::new(a, b))
    }
    pub(crate) fn expanded(&self, batch: &[i64]) -> Result<Self> {
        Ok(Beta { shapes: self.shapes.expanded(batch), dirichlet: self.dirichlet.expanded(batch)? })
    }
    fn side(&self, i: i64) -> Expr {
        e(&self.dirichlet.concentration).select(-1, i)
    }
    /// First concentration.
    pub(crate) fn a(&self) -> Expr {
        self.side(0)
    }
    /// Second concentration.
    pub(crate) fn b(&self) -> Expr {
        self.side(1)
    }
}
impl Distribution for Beta {
    named!(Beta);
    fn arguments(&self) -> Result<Vec<Argument>> {
        Ok(vec![
            Argument::new("concentration1", positive(), Held::Derived),
            Argument::new("concentration0", positive(), Held::Derived),
        ])
    }
    fn parameter(&self, name: &str) -> Result<Option<Tensor>> {
        match name {
            "concentration1" => self.a().0.map(Some),
            "concentration0" => self.b().0.map(Some),
            _ => Ok(None),
        }
    }
    fn try_expand(&self, batch: &[i64]) -> Result<Arc<dyn Distribution>> {
        Ok(Arc::new(self.expanded(batch)?))
    }
    fn family(&self) -> Option<&dyn ExponentialFamily> {
        Some(self)
    }
    fn has_rsample(&self) -> bool {
        true
    }
    fn try_support(&self) -> Result<Constraint> {
        Ok(unit_interval())
    }
    fn try_mean(&self) -> Result<Tensor> {
        (self.a() / (self.a() + self.b())).0
    }
    fn try_mode(&self) -> Result<Tensor> {
        s::select(&self.dirichlet.try_mode()?, -1, 0)
    }
    fn try_variance(&self) -> Result<Tensor> {
        let total = self.a() + self.b();
        (self.a() * self.b() / (total.pow(2.0) * (&total + 1.0))).0
    }
    fn try_rsample(&self, shape: &[i64]) -> Result<Tensor> {
        s::select(&self.dirichlet.try_rsample(shape)?, -1, 0)
    }
    fn try_log_prob(&self, value: &Tensor) -> Result<Tensor> {
        check_value(self, value)?;
        let both = ops::stack(&[value.clone(), (1.0 - e(value)).0?], -1)?;
        self.dirichlet.try_log_prob(&both)
    }
    fn try_entropy(&self) -> Result<Tensor> {
        self.dirichlet.try_entropy()
    }
}
impl ExponentialFamily for Beta {
    fn natural_params(&self) -> Result<Vec<Tensor>> {
        Ok(vec![self.a().0?, self.b().0?])
    }
    fn log_normalizer(&self, p: &[Tensor]) -> Result<Tensor> {
        let (x, y) = (e(&p[0]), e(&p[1]));
        (x.lgamma() + y.lgamma() - (x + y).lgamma()).0
    }
}
