//! Adamax.

use crate::ops::fused_adamax_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::Entry;
use crate::options::{Moments, Switches, checks};
use crate::step::differentiable::{Num, Target, gradient, keep, kept, lerp};
use crate::step::fused;
use flambeau_autograd::shorthand::{add_scalar, div};
use flambeau_core::{Result, ops};
use flambeau_macros::class;

#[class("torch.optim.Adamax", make = crate::by_name::optimizer::<AdamaxOptions>, values,
    include(Moments(lr = 2e-3), Switches),
    order(Moments, foreach, maximize, differentiable, capturable))]
pub struct AdamaxOptions {}

/// Adamax (Kingma and Ba 2015, section 7.1): Adam with the infinity norm, `u = max(b2 u, |g| + eps); p -= lr / (1 -
/// b1^t) * m / u`.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Adamax, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = Adamax::new([&w], 0.1);
/// w.set_grad(Some(Tensor::from_slice(&[-4f32], 1)));
/// optimizer.step();
/// assert!((w.to_vec::<f32>()[0] - 1.1).abs() < 1e-6);
/// ```
#[doc(alias = "torch.optim.Adamax.step")]
pub type Adamax = Optim<AdamaxOptions>;
build!(AdamaxOptions => Adamax);

const KEPT: [&str; 2] = ["exp_avg", "exp_inf"];

impl AdamaxOptions {
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        let step = e.state.count();
        KEPT.iter().try_for_each(|n| e.state.zeros(n, e.param))?;
        let (b1, b2) = (Num::of(&self.betas.0)?, Num::of(&self.betas.1)?);
        let g = gradient(e, self.maximize, &Num::of(&self.weight_decay)?)?;
        let m = lerp(&kept(e.state, KEPT[0])?, &g, &b1.rest()?)?;
        // the larger of two, whose gradients are halved where they are equal
        let old = ops::unsqueeze(&b2.times(&kept(e.state, KEPT[1])?)?, 0)?;
        let new = ops::unsqueeze(&add_scalar(&ops::abs(&g)?, self.eps.value())?, 0)?;
        let norm = ops::amax(&ops::cat(&[old, new], 0)?, &[0], false)?;
        keep(e.state, KEPT[0], &m)?;
        keep(e.state, KEPT[1], &norm)?;
        let size = Num::of(&self.lr)?.div(&b1.pow(step)?.rest()?)?;
        Target::of(e).add_scaled(&div(&m, &norm)?, &size.neg()?)
    }
}
impl Algorithm for AdamaxOptions {
    const NAME: &'static str = "Adamax";
    const POSITIONAL: usize = 5;
    fn check(&self) -> Result<()> {
        Moments::from(self).check()
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::not_both(self.foreach, self.differentiable)?;
        checks::not_capturable(self.capturable, "params and state_steps", true)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let ((b1, b2), eps, decay) = (self.betas.values(), self.eps.value(), self.weight_decay.value());
        fused::step(
            entries,
            &KEPT,
            |_, state| Ok(state.count()),
            |step, l| {
                let [averages, norms, _] = &l.kept;
                let size = self.lr.over(1.0 - b1.powf(*step));
                fused_adamax_(&l.params, &l.grads, averages, norms, size, b1, b2, eps, decay, self.maximize)
            },
        )
    }
    algorithm!(differentiable);
}
