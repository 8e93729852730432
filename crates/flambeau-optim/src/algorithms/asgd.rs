//! Averaged stochastic gradient descent.

use crate::ops::fused_asgd_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, State};
use crate::options::number_or_tensor::Number;
use crate::options::{Moments, Switches, checks};
use crate::step::differentiable::{Num, Target, gradient, keep, kept, lerp};
use crate::step::fused;
use flambeau_core::{Result, ops};
use flambeau_macros::class;

#[class("torch.optim.ASGD", make = crate::by_name::optimizer::<ASGDOptions>, values,
    include(Moments(lr = 1e-2), Switches),
    order(lr, lambd, alpha, t0, weight_decay, foreach, maximize, differentiable, capturable))]
pub struct ASGDOptions {
    /// Decay term.
    #[default(1e-4)]
    pub lambd: Number,
    /// Power by which the step size falls.
    #[default(0.75)]
    pub alpha: Number,
    /// Step at which averaging starts.
    #[default(1e6)]
    pub t0: Number,
}

/// Averaged stochastic gradient descent (Polyak and Juditsky 1992): descent with a falling step size, and the average of
/// the parameters in the state as `ax`.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{ASGDOptions, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = ASGDOptions::new().lr(0.1).t0(0.0).build([&w]);
/// w.set_grad(Some(Tensor::from_slice(&[1f32], 1)));
/// optimizer.step();
/// let average = optimizer.param_groups[0].state(0).get("ax").unwrap();
/// assert_eq!(average.to_vec::<f32>(), w.to_vec::<f32>());
/// ```
#[doc(alias = "torch.optim.ASGD.step")]
pub type ASGD = Optim<ASGDOptions>;
build!(ASGDOptions => ASGD);

const AVERAGE: &str = "ax";

impl ASGDOptions {
    /// Step size and part of the average of this step; counts it, and leaves those of the next.
    fn count(&self, p: &flambeau_core::Tensor, state: &mut State) -> Result<(f64, f64)> {
        let lr = self.lr.value();
        if state.is_empty() {
            state.set_number("step", 0.0);
            // PyTorch keeps both as float32 tensors, whatever the parameter's dtype is
            state.set_number("eta", (lr as f32).into());
            state.set_number("mu", 1.0);
            state.zeros(AVERAGE, p)?;
        }
        let (eta, mu) = (state.number("eta").unwrap_or(lr), state.number("mu").unwrap_or(1.0));
        let step = state.count();
        let (slower, power) = (self.lambd.value() * lr, self.alpha.value());
        let eta_next = if self.foreach == Some(true) {
            // PyTorch's pass over lists computes with float32 tensors all the way
            let base = 1.0 + (slower as f32) * step as f32;
            (1.0 / base.powf(power as f32)) * lr as f32
        } else {
            (lr / (1.0 + slower * step).powf(power)) as f32
        };
        state.set_number("eta", eta_next.into());
        state.set_number("mu", ((1.0 / (step - self.t0.value()).max(1.0)) as f32).into());
        Ok((eta, mu))
    }
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        let (eta, mu) = self.count(e.param, e.state)?;
        let g = gradient(e, self.maximize, &Num::of(&self.weight_decay)?)?;
        let target = Target::of(e);
        target.shrink(&Num::Plain(self.lambd.value() * eta))?;
        target.add_scaled(&g, &Num::Plain(-eta))?;
        let now = target.now()?;
        let average = if mu == 1.0 {
            ops::clone(&now, None)?
        } else {
            lerp(&kept(e.state, AVERAGE)?, &now, &Num::Plain(mu))?
        };
        keep(e.state, AVERAGE, &average)
    }
}
impl Algorithm for ASGDOptions {
    const NAME: &'static str = "ASGD";
    const NUMBERS: &'static [&'static str] = &["step", "eta", "mu"];
    fn check(&self) -> Result<()> {
        checks::lr(&self.lr)?;
        checks::value("lambd", &self.lambd)?;
        checks::value("alpha", &self.alpha)?;
        checks::value("weight_decay", &self.weight_decay)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::not_both(self.foreach, self.differentiable)?;
        checks::not_capturable(self.capturable, "params, mus, etas, and state_steps", true)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let (lambd, decay) = (self.lambd.value(), self.weight_decay.value());
        fused::step(
            entries,
            &[AVERAGE],
            |p, state| self.count(p, state),
            |&(eta, mu), l| {
                fused_asgd_(&l.params, &l.grads, &l.kept[0], eta, mu, lambd, decay, self.maximize)
            },
        )
    }
    algorithm!(differentiable);
}
