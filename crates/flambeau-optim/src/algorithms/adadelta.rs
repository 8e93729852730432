//! Adadelta.

use crate::ops::fused_adadelta_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, State};
use crate::options::number_or_tensor::Number;
use crate::options::{Moments, Switches, checks};
use crate::step::differentiable::{Num, Target, gradient, keep, kept, squares};
use crate::step::fused;
use flambeau_autograd::shorthand::{add_scalar, div, mul};
use flambeau_core::text::PyText;
use flambeau_core::{Result, Tensor, ensure, ops};
use flambeau_macros::class;

#[class("torch.optim.Adadelta", make = crate::by_name::optimizer::<AdadeltaOptions>, values,
    include(Moments(lr = 1.0, eps = 1e-6), Switches),
    order(lr, rho, eps, weight_decay, foreach, capturable, maximize, differentiable))]
pub struct AdadeltaOptions {
    /// Decay rate of the running means.
    #[default(0.9)]
    pub rho: Number,
}

/// Adadelta (Zeiler 2012): steps in the units of the parameter, `d = sqrt(u + eps) / sqrt(v + eps) * g; p -= lr * d`
/// with running means `v` of `g^2` and `u` of `d^2`.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Adadelta, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = Adadelta::new([&w], 1.0);
/// w.set_grad(Some(Tensor::from_slice(&[2f32], 1)));
/// optimizer.step();
/// assert!(w.to_vec::<f32>()[0] < 1.0);
/// ```
#[doc(alias = "torch.optim.Adadelta.step")]
pub type Adadelta = Optim<AdadeltaOptions>;
build!(AdadeltaOptions => Adadelta);

const KEPT: [&str; 2] = ["square_avg", "acc_delta"];

impl AdadeltaOptions {
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        e.state.count();
        KEPT.iter().try_for_each(|k| e.state.zeros(k, e.param))?;
        let (rho, eps) = (Num::of(&self.rho)?, self.eps.value());
        let g = gradient(e, self.maximize, &Num::of(&self.weight_decay)?)?;
        let v = squares(&kept(e.state, KEPT[0])?, &g, &rho)?;
        let old = kept(e.state, KEPT[1])?;
        let size = div(&ops::sqrt(&add_scalar(&old, eps)?)?, &ops::sqrt(&add_scalar(&v, eps)?)?)?;
        let delta = mul(&size, &g)?;
        keep(e.state, KEPT[0], &v)?;
        keep(e.state, KEPT[1], &squares(&old, &delta, &rho)?)?;
        Target::of(e).add_scaled(&delta, &Num::of(&self.lr)?.neg()?)
    }
}
impl Algorithm for AdadeltaOptions {
    const NAME: &'static str = "Adadelta";
    const POSITIONAL: usize = 5;
    const ORDER: &'static [&'static str] =
        &["lr", "rho", "eps", "weight_decay", "maximize", "capturable", "foreach", "differentiable"];
    fn check(&self) -> Result<()> {
        checks::lr(&self.lr)?;
        ensure!((0.0..=1.0).contains(&self.rho.value()), Value, "Invalid rho value: {}", self.rho.py_text());
        checks::value("epsilon", &self.eps)?;
        checks::value("weight_decay", &self.weight_decay)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::not_both(self.foreach, self.differentiable)?;
        checks::not_capturable(self.capturable, "params and state_steps", false)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let (lr, rho) = (self.lr.value(), self.rho.value());
        let (eps, decay) = (self.eps.value(), self.weight_decay.value());
        let count = |_: &Tensor, state: &mut State| {
            state.count();
            Ok(())
        };
        fused::step(entries, &KEPT, count, |(), l| {
            let [squares, deltas, _] = &l.kept;
            fused_adadelta_(&l.params, &l.grads, squares, deltas, lr, rho, eps, decay, self.maximize)
        })
    }
    algorithm!(differentiable);
}
