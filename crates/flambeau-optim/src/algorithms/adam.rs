//! Adam and AdamW.

use crate::optimizer::Optim;
use crate::optimizer::algorithm::{
    Algorithm, algorithm, betas, build, fused_flags, fused_params, not_both, not_capturable, not_negative,
};
use crate::optimizer::group::{Entry, ParamGroup};
use crate::options::number_or_tensor::{Number, Pair};
use crate::step::differentiable::{Averages, Moments, keep, kept, root};
use crate::step::fused;
use flambeau_autograd::formula::div;
use flambeau_core::{Error, Result, Value, ensure, ops};
use flambeau_macros::class;

#[class("torch.optim.Adam", make = crate::by_name::optimizer::<AdamOptions>, values)]
pub struct AdamOptions {
    /// Learning rate.
    #[default(1e-3)]
    pub lr: Number,
    /// Decay rates of the two moments.
    #[default((0.9, 0.999))]
    pub betas: Pair,
    /// Added to the denominator.
    #[default(1e-8)]
    pub eps: Number,
    /// L2 penalty.
    #[default(0)]
    pub weight_decay: Number,
    /// Uses the largest second moment so far (Reddi et al. 2018).
    #[default(false)]
    pub amsgrad: bool,
    /// Ascends instead of descending.
    #[default(false)]
    pub maximize: bool,
    /// The same step either way: one pass over all parameters. `true` refuses a learning rate that is a tensor.
    pub foreach: Option<bool>,
    /// For graphs of accelerators: the step refuses it on the CPU.
    #[default(false)]
    pub capturable: bool,
    /// Records the step for gradients through it.
    #[default(false)]
    pub differentiable: bool,
    /// The same step either way; `true` refuses complex parameters as PyTorch does.
    pub fused: Option<bool>,
    /// Shrinks the parameter directly instead of adding the penalty to the gradient: AdamW.
    #[default(false)]
    pub decoupled_weight_decay: bool,
}

#[class("torch.optim.AdamW", make = crate::by_name::optimizer::<AdamWOptions>, values)]
pub struct AdamWOptions {
    /// Learning rate.
    #[default(1e-3)]
    pub lr: Number,
    /// Decay rates of the two moments.
    #[default((0.9, 0.999))]
    pub betas: Pair,
    /// Added to the denominator.
    #[default(1e-8)]
    pub eps: Number,
    /// Part of the parameter that each step takes away, times the learning rate.
    #[default(0.01)]
    pub weight_decay: Number,
    /// Uses the largest second moment so far (Reddi et al. 2018).
    #[default(false)]
    pub amsgrad: bool,
    /// Ascends instead of descending.
    #[default(false)]
    pub maximize: bool,
    /// The same step either way: one pass over all parameters. `true` refuses a learning rate that is a tensor.
    pub foreach: Option<bool>,
    /// For graphs of accelerators: the step refuses it on the CPU.
    #[default(false)]
    pub capturable: bool,
    /// Records the step for gradients through it.
    #[default(false)]
    pub differentiable: bool,
    /// The same step either way; `true` refuses complex parameters as PyTorch does.
    pub fused: Option<bool>,
}

/// Adam (Kingma and Ba 2015): `m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr * m' / (sqrt(v') + eps)` with `m'
/// = m / (1 - b1^t)`, `v' = v / (1 - b2^t)`.
///
/// ```
/// use flambeau_core::Tensor;
/// use flambeau_nn::Parameter;
/// use flambeau_optim::{Adam, Optimizer};
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
struct Shared<'a> {
    name: &'static str,
    lr: &'a Number,
    betas: &'a Pair,
    eps: &'a Number,
    weight_decay: &'a Number,
    amsgrad: bool,
    maximize: bool,
    foreach: Option<bool>,
    capturable: bool,
    differentiable: bool,
    fused: Option<bool>,
    decoupled: bool,
}
const MOMENTS: [&str; 3] = ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

impl Shared<'_> {
    fn check(&self) -> Result<()> {
        let foreach = self.foreach == Some(true) && !self.capturable;
        if let Some(lr) = self.lr.tensor() {
            ensure!(!foreach, Value, "lr as a Tensor is not supported for capturable=False and foreach=True");
            ensure!(lr.numel() == 1, Value, "Tensor lr must be 1-element");
        }
        not_negative(self.lr, "Invalid learning rate: ")?;
        not_negative(self.eps, "Invalid epsilon value: ")?;
        betas(self.betas)?;
        not_negative(self.weight_decay, "Invalid weight_decay value: ")?;
        let both = [&self.betas.0, &self.betas.1];
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
        let moments = Moments {
            lr: self.lr,
            betas: self.betas,
            weight_decay: self.weight_decay,
            decoupled: self.decoupled,
            maximize: self.maximize,
            names: [MOMENTS[0], MOMENTS[1]],
        };
        let Averages { target, lr, b1, b2, m, v: mut second, .. } = moments.step(e)?;
        if self.amsgrad {
            second = ops::maximum(&kept(e.state, MOMENTS[2])?, &second)?;
            keep(e.state, MOMENTS[2], &second)?;
        }
        let correction2 = b2.pow(step)?.rest()?.pow(0.5)?;
        let eps = self.eps.value();
        let denominator =
            flambeau_autograd::formula::add_scalar(&correction2.under(&root(&second, 0.0)?)?, eps)?;
        let size = lr.div(&b1.pow(step)?.rest()?)?;
        target.add_scaled(&div(&m, &denominator)?, &size.neg()?)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        fused_params(self.fused, entries)?;
        if self.foreach == Some(true) && self.lr.tensor().is_some() && !self.capturable {
            return Err(Error::runtime(
                "lr as a Tensor is not supported for capturable=False and foreach=True",
            ));
        }
        not_both(self.foreach, self.differentiable)?;
        if self.fused != Some(true) {
            not_capturable(self.capturable, "params and state_steps", true)?;
        }
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let (b1, b2) = self.betas.values();
        let rule = flambeau_cpu::optim::Adam {
            lr: self.lr.value(),
            betas: (b1, b2),
            eps: self.eps.value(),
            weight_decay: self.weight_decay.value(),
            decoupled: self.decoupled,
            amsgrad: self.amsgrad,
            maximize: self.maximize,
            correction1: 1.0,
            root2: 1.0,
        };
        let names = MOMENTS[..2 + self.amsgrad as usize].to_vec();
        fused::step(self.name, entries, |p, state| {
            let step = state.count();
            for n in &names {
                state.zeros(n, p)?;
            }
            let (n1, n2, lr) = (&self.betas.0, &self.betas.1, self.lr);
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
macro_rules! shared {
    ($self:ident, $name:literal, $decoupled:expr) => {
        Shared {
            name: $name,
            lr: &$self.lr,
            betas: &$self.betas,
            eps: &$self.eps,
            weight_decay: &$self.weight_decay,
            amsgrad: $self.amsgrad,
            maximize: $self.maximize,
            foreach: $self.foreach,
            capturable: $self.capturable,
            differentiable: $self.differentiable,
            fused: $self.fused,
            decoupled: $decoupled,
        }
    };
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
        shared!(self, "Adam", self.decoupled_weight_decay).check()
    }
    fn check_groups(&self, _: &[ParamGroup<Self>]) -> Result<()> {
        fused_flags(self.fused, self.foreach, self.differentiable)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        shared!(self, "Adam", self.decoupled_weight_decay).update(entries)
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
        shared!(self, "AdamW", true).check()
    }
    fn check_groups(&self, _: &[ParamGroup<Self>]) -> Result<()> {
        fused_flags(self.fused, self.foreach, self.differentiable)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        shared!(self, "AdamW", true).update(entries)
    }
    fn fixed() -> &'static [(&'static str, Value)] {
        &[("decoupled_weight_decay", Value::Bool(true))]
    }
    algorithm!(differentiable);
}
