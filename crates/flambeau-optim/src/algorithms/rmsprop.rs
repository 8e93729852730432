//! RMSprop.

use crate::ops::fused_rmsprop_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, State};
use crate::options::number_or_tensor::Number;
use crate::options::{Moments, Momentum, Switches, checks};
use crate::step::differentiable::{Num, Target, gradient, keep, kept, lerp, root, squares};
use crate::step::fused;
use flambeau_autograd::shorthand::{add, div, mul_scalar};
use flambeau_core::{Result, Scalar, Tensor, ops};
use flambeau_macros::class;

#[class("torch.optim.RMSprop", make = crate::by_name::optimizer::<RMSpropOptions>, values,
    include(Moments(lr = 1e-2), Momentum, Switches),
    order(lr, alpha, eps, weight_decay, momentum, centered, capturable, foreach, maximize, differentiable))]
pub struct RMSpropOptions {
    /// Decay rate of the mean square.
    #[default(0.99)]
    pub alpha: Number,
    /// Divides by an estimate of the standard deviation (Graves 2013) instead of the root of the mean square.
    #[default(false)]
    pub centered: bool,
}

/// RMSprop (Hinton 2012, lecture 6 of Neural Networks for Machine Learning): `v = alpha v + (1 - alpha) g^2; p -= lr * g
/// / (sqrt(v) + eps)`, with momentum if asked for.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Optimizer, RMSpropOptions};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = RMSpropOptions::new().lr(0.1).alpha(0.75).build([&w]);
/// w.set_grad(Some(Tensor::from_slice(&[4f32], 1)));
/// optimizer.step();
/// assert!((w.to_vec::<f32>()[0] - 0.8).abs() < 1e-6);
/// ```
#[doc(alias = "torch.optim.RMSprop.step")]
pub type RMSprop = Optim<RMSpropOptions>;
build!(RMSpropOptions => RMSprop);

const SQUARE: &str = "square_avg";
const BUFFER: &str = "momentum_buffer";
const MEAN: &str = "grad_avg";

impl RMSpropOptions {
    fn start(&self, p: &Tensor, state: &mut State) -> Result<()> {
        state.count();
        state.zeros(SQUARE, p)?;
        if self.momentum.value() > 0.0 {
            state.zeros(BUFFER, p)?;
        }
        if self.centered {
            state.zeros(MEAN, p)?;
        }
        Ok(())
    }
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        self.start(e.param, e.state)?;
        let (alpha, momentum, eps) = (Num::of(&self.alpha)?, self.momentum.value(), self.eps.value());
        let g = gradient(e, self.maximize, &Num::of(&self.weight_decay)?)?;
        let square = squares(&kept(e.state, SQUARE)?, &g, &alpha)?;
        keep(e.state, SQUARE, &square)?;
        let mut spread = square;
        if self.centered {
            let mean = lerp(&kept(e.state, MEAN)?, &g, &alpha.rest()?)?;
            keep(e.state, MEAN, &mean)?;
            spread = ops::addcmul(&spread, &mean, &mean, Scalar::Int(-1))?;
        }
        let mut by = div(&g, &root(&spread, eps)?)?;
        if momentum > 0.0 {
            by = add(&mul_scalar(&kept(e.state, BUFFER)?, momentum)?, &by)?;
            keep(e.state, BUFFER, &by)?;
        }
        Target::of(e).add_scaled(&by, &Num::of(&self.lr)?.neg()?)
    }
}
impl Algorithm for RMSpropOptions {
    const NAME: &'static str = "RMSprop";
    const ORDER: &'static [&'static str] = &[
        "lr",
        "momentum",
        "alpha",
        "eps",
        "centered",
        "weight_decay",
        "capturable",
        "foreach",
        "maximize",
        "differentiable",
    ];
    fn check(&self) -> Result<()> {
        checks::lr(&self.lr)?;
        checks::value("epsilon", &self.eps)?;
        checks::value("momentum", &self.momentum)?;
        checks::value("weight_decay", &self.weight_decay)?;
        checks::value("alpha", &self.alpha)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::not_both(self.foreach, self.differentiable)?;
        checks::not_capturable(self.capturable, "params and state_steps", true)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let (lr, alpha, eps) = (self.lr.value(), self.alpha.value(), self.eps.value());
        let (decay, momentum) = (self.weight_decay.value(), self.momentum.value());
        let kept = [SQUARE, if self.centered { MEAN } else { BUFFER }, BUFFER];
        let kept = &kept[..1 + self.centered as usize + (momentum > 0.0) as usize];
        fused::step(
            entries,
            kept,
            |p, state| self.start(p, state),
            |(), l| {
                let [squares, second, third] = &l.kept;
                let (means, buffers) = if self.centered { (second, third) } else { (third, second) };
                let (centered, maximize) = (self.centered, self.maximize);
                fused_rmsprop_(
                    &l.params, &l.grads, squares, means, buffers, lr, alpha, eps, decay, momentum, centered,
                    maximize,
                )
            },
        )
    }
    algorithm!(differentiable);
}
