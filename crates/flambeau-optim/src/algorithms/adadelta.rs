//! Adadelta.

use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build, not_both, not_capturable, not_negative};
use crate::optimizer::group::Entry;
use crate::options::number_or_tensor::Number;
use crate::step::differentiable::{Num, Target, gradient, keep, kept, squares};
use crate::step::fused;
use flambeau_autograd::shorthand::{add_scalar, div, mul};
use flambeau_core::text::PyText;
use flambeau_core::{Result, ensure, ops};
use flambeau_macros::class;

/// Options of [`Adadelta`].
#[class("torch.optim.Adadelta", make = crate::by_name::optimizer::<AdadeltaOptions>, values)]
pub struct AdadeltaOptions {
    /// Factor of the step.
    #[default(1.0)]
    pub lr: Number,
    /// Decay rate of the running means.
    #[default(0.9)]
    pub rho: Number,
    /// Added under the roots.
    #[default(1e-6)]
    pub eps: Number,
    /// L2 penalty.
    #[default(0)]
    pub weight_decay: Number,
    /// The same step either way: one pass over all parameters.
    pub foreach: Option<bool>,
    /// For graphs of accelerators: the step refuses it on the CPU.
    #[default(false)]
    pub capturable: bool,
    /// Ascends instead of descending.
    #[default(false)]
    pub maximize: bool,
    /// Records the step for gradients through it.
    #[default(false)]
    pub differentiable: bool,
}

/// Adadelta (Zeiler 2012): steps in the units of the parameter, `d = sqrt(u + eps) / sqrt(v + eps) * g; p -= lr * d`
/// with running means `v` of `g^2` and `u` of `d^2`.
///
/// ```
/// use flambeau_core::Tensor;
/// use flambeau_nn::Parameter;
/// use flambeau_optim::{Adadelta, Optimizer};
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
        self.lr.check("lr")?;
        not_negative(&self.lr, "Invalid learning rate: ")?;
        ensure!((0.0..=1.0).contains(&self.rho.value()), Value, "Invalid rho value: {}", self.rho.py_text());
        not_negative(&self.eps, "Invalid epsilon value: ")?;
        not_negative(&self.weight_decay, "Invalid weight_decay value: ")
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        not_both(self.foreach, self.differentiable)?;
        not_capturable(self.capturable, "params and state_steps", false)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let rule = flambeau_cpu::optim::Adadelta {
            lr: self.lr.value(),
            rho: self.rho.value(),
            eps: self.eps.value(),
            weight_decay: self.weight_decay.value(),
            maximize: self.maximize,
        };
        fused::step("Adadelta", entries, |p, state| {
            state.count();
            KEPT.iter().try_for_each(|k| state.zeros(k, p))?;
            Ok((rule, KEPT.to_vec()))
        })
    }
    algorithm!(differentiable);
}
