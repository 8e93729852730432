//! Adam and AdamW.

use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, ParamGroup};
use crate::options::number_or_tensor::Number;
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
#[doc(alias = "torch.optim.AdamW.step")]
pub type AdamW = Optim<AdamWOptions>;
build!(AdamOptions => Adam);
build!(AdamWOptions => AdamW);

/// What both have in common.
struct Rule {
    name: &'static str,
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
        let Moments { lr, betas, eps, weight_decay } = &self.moments;
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
        let (b1, b2) = betas.values();
        let rule = flambeau_cpu::optim::Adam {
            lr: lr.value(),
            betas: (b1, b2),
            eps: eps.value(),
            weight_decay: weight_decay.value(),
            decoupled: self.decoupled,
            amsgrad: self.amsgrad,
            maximize,
            correction1: 1.0,
            root2: 1.0,
        };
        let names = MOMENTS[..2 + self.amsgrad as usize].to_vec();
        fused::step(self.name, entries, |p, state| {
            let step = state.count();
            for n in &names {
                state.zeros(n, p)?;
            }
            let (n1, n2) = (&betas.0, &betas.1);
            let correction1 = n1.round(1.0 - n1.round(b1.powf(step)));
            let root2 = n2.round(n2.round(1.0 - n2.round(b2.powf(step))).sqrt());
            let mut rule = flambeau_cpu::optim::Adam { correction1, root2, ..rule };
            let size = n1.round(lr.over(correction1));
            if size != rule.lr / correction1 && size != 0.0 {
                // numbers that are tensors of float32: the same size and decay in other words
                let rest = lr.shrink(rule.weight_decay);
                rule.weight_decay = if self.decoupled { (1.0 - rest) / size } else { rule.weight_decay };
                (rule.lr, rule.correction1) = (size, 1.0);
            }
            Ok((rule, names.clone()))
        })
    }
}
impl AdamOptions {
    fn rule(&self) -> Rule {
        let decoupled = self.decoupled_weight_decay;
        Rule { name: "Adam", moments: self.into(), switches: self.into(), amsgrad: self.amsgrad, decoupled }
    }
}
impl AdamWOptions {
    fn rule(&self) -> Rule {
        let (moments, switches) = (self.into(), self.into());
        Rule { name: "AdamW", moments, switches, amsgrad: self.amsgrad, decoupled: true }
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
        &[("decoupled_weight_decay", Value::Bool(true))]
    }
    algorithm!(differentiable);
}
