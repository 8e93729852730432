//! Adam and AdamW.

use crate::ops::{fused_adam_, fused_adamw_};
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, ParamGroup};
use crate::options::number_or_tensor::{Number, Pair};
use crate::options::{Decoupled, Moments, Switches, checks};
use crate::step::differentiable::{Averages, averages, keep, kept, root};
use crate::step::fused;
use flambeau_autograd::shorthand::div;
use flambeau_core::{Error, Result, Value, ensure, ops};
use flambeau_macros::class;

#[class("torch.optim.Adam", make = crate::by_name::optimizer::<AdamOptions>, values,
    include(Moments, Decoupled, Switches),
    order(Moments, amsgrad, maximize, foreach, capturable, differentiable, fused, Decoupled))]
pub struct AdamOptions {
    /// Uses the largest second moment so far (Reddi et al. 2018).
    #[default(false)]
    pub amsgrad: bool,
}

#[class("torch.optim.AdamW", make = crate::by_name::optimizer::<AdamWOptions>, values,
    include(Moments(weight_decay = 0.01), Switches),
    order(Moments, amsgrad, maximize, foreach, capturable, differentiable, fused))]
pub struct AdamWOptions {
    /// Uses the largest second moment so far (Reddi et al. 2018).
    #[default(false)]
    pub amsgrad: bool,
}

/// Adam (Kingma and Ba 2015): `m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr * m' / (sqrt(v') + eps)` with `m'
/// = m / (1 - b1^t)`, `v' = v / (1 - b2^t)`.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Adam, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32, -2.0], 2));
/// let mut optimizer = Adam::new([&w], 0.1);
/// w.set_grad(Some(Tensor::from_slice(&[3f32, -0.5], 2)));
/// optimizer.step();
/// // the first step is the learning rate in each coordinate
/// assert!((w.to_vec::<f32>()[0] - 0.9).abs() < 1e-6 && (w.to_vec::<f32>()[1] + 1.9).abs() < 1e-6);
/// ```
#[doc(alias = "torch.optim.Adam.step")]
pub type Adam = Optim<AdamOptions>;
/// AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay, `p *= 1 - lr * weight_decay` before the step.
///
/// ```
/// use torch::optim::AdamWOptions;
/// use torch::{nn, prelude::*};
///
/// let w = nn::Parameter::new(torch::tensor([1.0, -2.0]));
/// let mut optimizer = AdamWOptions::new().lr(0.1).weight_decay(0.5).build([&w]);
/// // without a slope all that is left is the decay
/// w.set_grad(Some(torch::zeros([2])));
/// optimizer.step();
/// assert!(torch::allclose(&w, &torch::tensor([0.95, -1.9])));
/// ```
#[doc(alias = "torch.optim.AdamW.step")]
pub type AdamW = Optim<AdamWOptions>;
build!(AdamOptions => Adam);
build!(AdamWOptions => AdamW);

/// What both have in common.
struct Rule {
    moments: Moments,
    switches: Switches,
    amsgrad: bool,
    decoupled: bool,
}
const MOMENTS: [&str; 3] = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

impl Rule {
    fn check(&self) -> Result<()> {
        let Moments { lr, betas, .. } = &self.moments;
        let foreach = self.switches.foreach == Some(true) && !self.switches.capturable;
        if let Some(lr) = lr.tensor() {
            ensure!(!foreach, Value, "lr as a Tensor is not supported for capturable=False and foreach=True");
            ensure!(lr.numel() == 1, Value, "Tensor lr must be 1-element");
        }
        self.moments.check()?;
        let both = [&betas.0, &betas.1];
        let float = |n: &Number| matches!(n, Number::Plain(flambeau_core::Scalar::Float(_)));
        ensure!(
            both.iter().all(|b| float(b)) || both.iter().all(|b| b.tensor().is_some()),
            Value,
            "betas must be either both floats or both Tensors"
        );
        for (i, b) in both.iter().enumerate() {
            if b.tensor().is_some() {
                ensure!(
                    !foreach,
                    Value,
                    "betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                );
                b.check(&format!("betas[{i}]"))?;
            }
        }
        Ok(())
    }
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        for name in &MOMENTS[..2 + self.amsgrad as usize] {
            e.state.zeros(name, e.param)?;
        }
        let step = e.state.count();
        let names = [MOMENTS[0], MOMENTS[1]];
        let Averages { target, lr, b1, b2, m, v: mut second, .. } =
            averages(e, &self.moments, self.decoupled, self.switches.maximize, names)?;
        if self.amsgrad {
            second = ops::maximum(&kept(e.state, MOMENTS[2])?, &second)?;
            keep(e.state, MOMENTS[2], &second)?;
        }
        let correction2 = b2.pow(step)?.rest()?.pow(0.5)?;
        let eps = self.moments.eps.value();
        let denominator =
            flambeau_autograd::shorthand::add_scalar(&correction2.under(&root(&second, 0.0)?)?, eps)?;
        let size = lr.div(&b1.pow(step)?.rest()?)?;
        target.add_scaled(&div(&m, &denominator)?, &size.neg()?)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        let Switches { foreach, maximize, capturable, differentiable, .. } = self.switches;
        let Moments { lr, betas, .. } = &self.moments;
        checks::fused_params(self.switches.fused, entries)?;
        if foreach == Some(true) && lr.tensor().is_some() && !capturable {
            return Err(Error::runtime(
                "lr as a Tensor is not supported for capturable=False and foreach=True",
            ));
        }
        checks::not_both(foreach, differentiable)?;
        if self.switches.fused != Some(true) {
            checks::not_capturable(capturable, "params and state_steps", true)?;
        }
        if differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let (amsgrad, kept) = (self.amsgrad, &MOMENTS[..2 + self.amsgrad as usize]);
        let ((b1, b2), call) = (betas.values(), if self.decoupled { fused_adamw_ } else { fused_adam_ });
        fused::step(
            entries,
            kept,
            |_, state| Ok(state.count()),
            |&step, l| {
                let ([m, v, top], steps) = (&l.kept, l.all(step));
                let (lr, eps, decay) = self.numbers(step);
                call(
                    &l.params,
                    &l.grads,
                    m,
                    v,
                    top,
                    &steps,
                    lr,
                    b1,
                    b2,
                    decay,
                    eps,
                    amsgrad,
                    maximize,
                    l.scale.as_ref(),
                    None,
                )
            },
        )
    }
    /// Learning rate, eps and decay of a step. Formulas with tensors of float32 are rounded to float32, which the fused
    /// operators do not know: they get numbers of which they make the same size of the step, denominator and decay.
    fn numbers(&self, step: f64) -> (f64, f64, f64) {
        let Moments { lr, betas: Pair(b1, b2), eps, weight_decay } = &self.moments;
        let (eps, decay) = (eps.value(), weight_decay.value());
        if [lr, b1, b2].iter().all(|n| n.tensor().is_none()) {
            return (lr.value(), eps, decay);
        }
        let power = |b: &Number| b.value().powf(step);
        let correction1 = b1.round(1.0 - b1.round(power(b1)));
        let root2 = b2.round(b2.round(1.0 - b2.round(power(b2))).sqrt());
        let wider = root2 / (1.0 - power(b2)).sqrt();
        let size = b1.round(lr.over(correction1)) * (1.0 - power(b1)) * wider;
        let decay = if self.decoupled && size != 0.0 { (1.0 - lr.shrink(decay)) / size } else { decay };
        (size, eps * wider, decay)
    }
}
impl AdamOptions {
    fn rule(&self) -> Rule {
        let decoupled = self.decoupled_weight_decay;
        Rule { moments: self.into(), switches: self.into(), amsgrad: self.amsgrad, decoupled }
    }
}
impl AdamWOptions {
    fn rule(&self) -> Rule {
        let (moments, switches) = (self.into(), self.into());
        Rule { moments, switches, amsgrad: self.amsgrad, decoupled: true }
    }
}
/// AdamW says so too.
const REFUSES_SPARSE: &str = "Adam does not support sparse gradients, please consider SparseAdam instead";
impl Algorithm for AdamOptions {
    const NAME: &'static str = "Adam";
    const POSITIONAL: usize = 5;
    fn refuses_sparse() -> String {
        REFUSES_SPARSE.into()
    }
    fn check(&self) -> Result<()> {
        self.rule().check()
    }
    fn check_groups(&self, _: &[ParamGroup<Self>]) -> Result<()> {
        checks::fused_flags(self.fused, self.foreach, self.differentiable)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        self.rule().update(entries)
    }
    algorithm!(differentiable);
}
impl Algorithm for AdamWOptions {
    const NAME: &'static str = "AdamW";
    const POSITIONAL: usize = 5;
    fn refuses_sparse() -> String {
        REFUSES_SPARSE.into()
    }
    fn check(&self) -> Result<()> {
        self.rule().check()
    }
    fn check_groups(&self, _: &[ParamGroup<Self>]) -> Result<()> {
        checks::fused_flags(self.fused, self.foreach, self.differentiable)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        self.rule().update(entries)
    }
    fn fixed() -> &'static [(&'static str, Value)] {
        static FIXED: [(&str, Value); 1] = [("decoupled_weight_decay", Value::Bool(true))];
        &FIXED
    }
    algorithm!(differentiable);
}
