//! NAdam.

use crate::ops::fused_nadam_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, State};
use crate::options::number_or_tensor::Number;
use crate::options::{Decoupled, Moments, Switches, checks, decay};
use crate::step::differentiable::{Averages, Num, averages, root};
use crate::step::fused;
use flambeau_autograd::shorthand::div;
use flambeau_core::{Result, Tensor};
use flambeau_macros::class;

#[class("torch.optim.NAdam", make = crate::by_name::optimizer::<NAdamOptions>, values,
    include(Moments(lr = 2e-3), Decoupled, Switches),
    order(Moments, momentum_decay, decoupled_weight_decay, foreach, maximize, capturable, differentiable))]
pub struct NAdamOptions {
    /// How fast the momentum approaches its final value.
    #[default(4e-3)]
    pub momentum_decay: Number,
}

/// NAdam (Dozat 2016): Adam with Nesterov's momentum, `mu_t = b1 (1 - 0.96^(t momentum_decay) / 2)`.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{NAdam, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = NAdam::new([&w], 0.1);
/// w.set_grad(Some(Tensor::from_slice(&[2f32], 1)));
/// optimizer.step();
/// assert!(w.to_vec::<f32>()[0] < 0.9);
/// ```
#[doc(alias = "torch.optim.NAdam.step")]
pub type NAdam = Optim<NAdamOptions>;
build!(NAdamOptions => NAdam);

const KEPT: [&str; 2] = ["exp_avg", "exp_avg_sq"];

/// What follows from the number of the step.
#[derive(PartialEq)]
struct Numbers {
    step: f64,
    mu: f64,
    mu_next: f64,
    product: f64,
}
impl NAdamOptions {
    fn count(&self, state: &mut State) -> Numbers {
        let step = state.count();
        let (b1, decay) = (self.betas.0.value(), self.momentum_decay.value());
        let mu = |t: f64| b1 * (1.0 - 0.5 * 0.96f64.powf(t * decay));
        let (mu, mu_next) = (mu(step), mu(step + 1.0));
        // PyTorch keeps the product as a float32 tensor, whatever the parameter's dtype is
        let product = state.number("mu_product").unwrap_or(1.0) as f32 * mu as f32;
        state.set_number("mu_product", product.into());
        Numbers { step, mu, mu_next, product: state.number("mu_product").unwrap_or(mu) }
    }
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        let n = self.count(e.state);
        KEPT.iter().try_for_each(|k| e.state.zeros(k, e.param))?;
        let (moments, decoupled) = (Moments::from(self), self.decoupled_weight_decay);
        let Averages { target, lr, b2, g, m, v, .. } = averages(e, &moments, decoupled, self.maximize, KEPT)?;
        let denominator = root(&b2.pow(n.step)?.rest()?.under(&v)?, self.eps.value())?;
        let part = |x: f64| lr.mul(&Num::Plain(-x));
        target.add_scaled(&div(&g, &denominator)?, &part((1.0 - n.mu) / (1.0 - n.product))?)?;
        target.add_scaled(&div(&m, &denominator)?, &part(n.mu_next / (1.0 - n.product * n.mu_next))?)
    }
}
impl Algorithm for NAdamOptions {
    const NAME: &'static str = "NAdam";
    const NUMBERS: &'static [&'static str] = &["step", "mu_product"];
    const POSITIONAL: usize = 6;
    const ORDER: &'static [&'static str] = &[
        "lr",
        "betas",
        "eps",
        "weight_decay",
        "momentum_decay",
        "decoupled_weight_decay",
        "maximize",
        "foreach",
        "capturable",
        "differentiable",
    ];
    fn check(&self) -> Result<()> {
        Moments::from(self).check()?;
        checks::value("momentum_decay", &self.momentum_decay)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::not_both(self.foreach, self.differentiable)?;
        checks::not_capturable(self.capturable, "params, mu_products and state_steps", true)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let ((b1, b2), eps) = (self.betas.values(), self.eps.value());
        let (decay, shrink) = decay(&self.lr, self.weight_decay.value(), self.decoupled_weight_decay);
        let count = |_: &Tensor, state: &mut State| Ok(self.count(state));
        fused::step(entries, &KEPT, count, |n, l| {
            let ([m, v, _], maximize, lr) = (&l.kept, self.maximize, &self.lr);
            let by_grad = -lr.round(lr.times(1.0 - n.mu) / lr.round(1.0 - n.product));
            let by_moment = -lr.round(lr.times(n.mu_next) / lr.round(1.0 - n.product * n.mu_next));
            let correction2 = 1.0 - b2.powf(n.step);
            fused_nadam_(
                &l.params,
                &l.grads,
                m,
                v,
                by_grad,
                by_moment,
                correction2,
                shrink,
                b1,
                b2,
                eps,
                decay,
                maximize,
            )
        })
    }
    algorithm!(differentiable);
}
