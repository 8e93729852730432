//! RAdam.

use crate::optimizer::Optim;
use crate::optimizer::algorithm::{
    Algorithm, algorithm, betas, build, not_both, not_capturable, not_negative,
};
use crate::optimizer::group::Entry;
use crate::options::number_or_tensor::{Number, Pair};
use crate::step::differentiable::{Averages, Moments, root};
use crate::step::fused;
use flambeau_autograd::formula::{div, mul_scalar};
use flambeau_core::Result;
use flambeau_macros::class;

#[class("torch.optim.RAdam", make = crate::by_name::optimizer::<RAdamOptions>, values)]
pub struct RAdamOptions {
    /// Learning rate.
    #[default(1e-3)]
    pub lr: Number,
    /// Decay rates of the two moments.
    #[default((0.9, 0.999))]
    pub betas: Pair,
    /// Added to the denominator.
    #[default(1e-8)]
    pub eps: Number,
    /// L2 penalty, or the part that is taken away with `decoupled_weight_decay`.
    #[default(0)]
    pub weight_decay: Number,
    /// Shrinks the parameter directly instead of adding the penalty to the gradient.
    #[default(false)]
    pub decoupled_weight_decay: bool,
    /// The same step either way: one pass over all parameters.
    pub foreach: Option<bool>,
    /// Ascends instead of descending.
    #[default(false)]
    pub maximize: bool,
    /// For graphs of accelerators: the step refuses it on the CPU.
    #[default(false)]
    pub capturable: bool,
    /// Records the step for gradients through it.
    #[default(false)]
    pub differentiable: bool,
}

/// RAdam (Liu et al. 2019): Adam whose adaptive rate waits until the variance of the second moment can be told, and is
/// rectified then; plain momentum before.
///
/// ```
/// use flambeau_core::Tensor;
/// use flambeau_nn::Parameter;
/// use flambeau_optim::{Optimizer, RAdam};
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
        let moments = Moments {
            lr: &self.lr,
            betas: &self.betas,
            weight_decay: &self.weight_decay,
            decoupled: self.decoupled_weight_decay,
            maximize: self.maximize,
            names: KEPT,
        };
        let Averages { target, lr, b1, m, v, .. } = moments.step(e)?;
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
        self.lr.check("lr")?;
        not_negative(&self.lr, "Invalid learning rate: ")?;
        not_negative(&self.eps, "Invalid epsilon value: ")?;
        betas(&self.betas)?;
        not_negative(&self.weight_decay, "Invalid weight_decay value: ")
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        not_both(self.foreach, self.differentiable)?;
        not_capturable(self.capturable, "params and state_steps", true)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let (betas, lr, decay) = (self.betas.values(), self.lr.value(), self.weight_decay.value());
        let decoupled = self.decoupled_weight_decay;
        fused::step("RAdam", entries, |p, state| {
            let step = state.count();
            KEPT.iter().try_for_each(|k| state.zeros(k, p))?;
            let rule = flambeau_cpu::optim::RAdam {
                lr,
                betas,
                eps: self.eps.value(),
                weight_decay: if decoupled { 0.0 } else { decay },
                shrink: (decoupled && decay != 0.0).then_some(self.lr.shrink(decay)),
                maximize: self.maximize,
                correction1: 1.0 - betas.0.powf(step),
                adaptive: adaptive(betas.1, step),
            };
            Ok((rule, KEPT.to_vec()))
        })
    }
    algorithm!(differentiable);
}
