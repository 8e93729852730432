//! RAdam.

use crate::ops::fused_radam_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::Entry;
use crate::options::{Decoupled, Moments, Switches, checks, decay};
use crate::step::differentiable::{Averages, averages, root};
use crate::step::fused;
use flambeau_autograd::shorthand::{div, mul_scalar};
use flambeau_core::Result;
use flambeau_macros::class;

#[class("torch.optim.RAdam", make = crate::by_name::optimizer::<RAdamOptions>, values,
    include(Moments, Decoupled, Switches),
    order(Moments, decoupled_weight_decay, foreach, maximize, capturable, differentiable))]
pub struct RAdamOptions {}

/// RAdam (Liu et al. 2019): Adam whose adaptive rate waits until the variance of the second moment can be told, and is
/// rectified then; plain momentum before.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Optimizer, RAdam};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = RAdam::new([&w], 0.1);
/// w.set_grad(Some(Tensor::from_slice(&[2f32], 1)));
/// optimizer.step();
/// assert!((w.to_vec::<f32>()[0] - 0.8).abs() < 1e-6);
/// ```
#[doc(alias = "torch.optim.RAdam.step")]
pub type RAdam = Optim<RAdamOptions>;
build!(RAdamOptions => RAdam);

const KEPT: [&str; 2] = ["exp_avg", "exp_avg_sq"];

/// `sqrt(1 - b2^t)` and the rectification (section 4 of the paper), once the length of the moving average is above 5.
fn adaptive(b2: f64, step: f64) -> Option<(f64, f64)> {
    let correction = 1.0 - b2.powf(step);
    let most = 2.0 / (1.0 - b2) - 1.0;
    let length = most - 2.0 * step * b2.powf(step) / correction;
    let rectification = (length - 4.0) * (length - 2.0) * most / ((most - 4.0) * (most - 2.0) * length);
    (length > 5.0).then(|| (correction.sqrt(), rectification.sqrt()))
}

impl RAdamOptions {
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        let step = e.state.count();
        KEPT.iter().try_for_each(|k| e.state.zeros(k, e.param))?;
        let (moments, decoupled) = (Moments::from(self), self.decoupled_weight_decay);
        let Averages { target, lr, b1, m, v, .. } = averages(e, &moments, decoupled, self.maximize, KEPT)?;
        let mut by = b1.pow(step)?.rest()?.under(&m)?;
        if let Some((root2, rectification)) = adaptive(self.betas.1.value(), step) {
            by = mul_scalar(&div(&by, &root(&v, self.eps.value())?)?, root2 * rectification)?;
        }
        target.add_scaled(&by, &lr.neg()?)
    }
}
impl Algorithm for RAdamOptions {
    const NAME: &'static str = "RAdam";
    const POSITIONAL: usize = 5;
    const ORDER: &'static [&'static str] = &[
        "lr",
        "betas",
        "eps",
        "weight_decay",
        "maximize",
        "foreach",
        "capturable",
        "decoupled_weight_decay",
        "differentiable",
    ];
    fn check(&self) -> Result<()> {
        Moments::from(self).check()
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::not_both(self.foreach, self.differentiable)?;
        checks::not_capturable(self.capturable, "params and state_steps", true)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let ((b1, b2), lr, eps) = (self.betas.values(), self.lr.value(), self.eps.value());
        let (decay, shrink) = decay(&self.lr, self.weight_decay.value(), self.decoupled_weight_decay);
        fused::step(
            entries,
            &KEPT,
            |_, state| Ok(state.count()),
            |&step, l| {
                let ([m, v, _], maximize) = (&l.kept, self.maximize);
                let correction1 = 1.0 - b1.powf(step);
                let (root2, by) = adaptive(b2, step).unzip();
                let by = by.unwrap_or(1.0);
                fused_radam_(
                    &l.params,
                    &l.grads,
                    m,
                    v,
                    lr,
                    correction1,
                    root2,
                    by,
                    shrink,
                    b1,
                    b2,
                    eps,
                    decay,
                    maximize,
                )
            },
        )
    }
    algorithm!(differentiable);
}
