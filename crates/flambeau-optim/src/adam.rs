//! Adam and AdamW.

use crate::group::State;
use crate::kernel;
use crate::optimizer::{Algorithm, Optim, algorithm, build};
use flambeau_core::class::PyText;
use flambeau_core::{Result, Scalar, Tensor, Value, ensure};
use flambeau_macros::class;

/// Options of [`Adam`].
#[class("torch.optim.Adam", make = crate::by_name::optimizer::<AdamOptions>, values)]
pub struct AdamOptions {
    /// Learning rate.
    #[default(1e-3)]
    pub lr: f64,
    /// Decay rates of the two moments.
    #[default((0.9, 0.999))]
    pub betas: (f64, f64),
    /// Added to the denominator.
    #[default(1e-8)]
    pub eps: f64,
    /// L2 penalty.
    #[default(0)]
    pub weight_decay: Scalar,
    /// Uses the largest second moment so far (Reddi et al. 2018).
    #[default(false)]
    pub amsgrad: bool,
    /// Ascends instead of descending.
    #[default(false)]
    pub maximize: bool,
    /// Accepted for the sake of files; every step here works on all parameters.
    pub foreach: Option<bool>,
    /// Not available.
    #[default(false)]
    pub capturable: bool,
    /// Not available.
    #[default(false)]
    pub differentiable: bool,
    /// Accepted for the sake of files; every step here is one pass.
    pub fused: Option<bool>,
    /// Shrinks the parameter directly instead of adding the penalty to the gradient: AdamW.
    #[default(false)]
    pub decoupled_weight_decay: bool,
}

/// Options of [`AdamW`].
#[class("torch.optim.AdamW", make = crate::by_name::optimizer::<AdamWOptions>, values)]
pub struct AdamWOptions {
    /// Learning rate.
    #[default(1e-3)]
    pub lr: f64,
    /// Decay rates of the two moments.
    #[default((0.9, 0.999))]
    pub betas: (f64, f64),
    /// Added to the denominator.
    #[default(1e-8)]
    pub eps: f64,
    /// Part of the parameter that each step takes away, times the learning rate.
    #[default(0.01)]
    pub weight_decay: Scalar,
    /// Uses the largest second moment so far (Reddi et al. 2018).
    #[default(false)]
    pub amsgrad: bool,
    /// Ascends instead of descending.
    #[default(false)]
    pub maximize: bool,
    /// Accepted for the sake of files; every step here works on all parameters.
    pub foreach: Option<bool>,
    /// Not available.
    #[default(false)]
    pub capturable: bool,
    /// Not available.
    #[default(false)]
    pub differentiable: bool,
    /// Accepted for the sake of files; every step here is one pass.
    pub fused: Option<bool>,
}

/// Adam (Kingma and Ba 2015).
pub type Adam = Optim<AdamOptions>;
/// AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay.
pub type AdamW = Optim<AdamWOptions>;

const MOMENTS: &[&str] = &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

macro_rules! adam {
    ($options:ident, $alias:ident, $name:literal, |$o:ident| $decoupled:expr $(, $fixed:ident)?) => {
        impl Algorithm for $options {
            const NAME: &'static str = $name;
            const TENSORS: &'static [&'static str] = MOMENTS;
            const COUNTS: bool = true;
            fn check(&self) -> Result<()> {
                ensure!(self.lr >= 0.0, Value, "Invalid learning rate: {}", self.lr.py_text());
                ensure!(self.eps >= 0.0, Value, "Invalid epsilon value: {}", self.eps.py_text());
                for (i, b) in [self.betas.0, self.betas.1].into_iter().enumerate() {
                    ensure!(
                        (0.0..1.0).contains(&b),
                        Value,
                        "Invalid beta parameter at index {i}: {}",
                        b.py_text()
                    );
                }
                ensure!(
                    self.weight_decay.to_f64() >= 0.0,
                    Value,
                    "Invalid weight_decay value: {}",
                    self.weight_decay.py_text()
                );
                ensure!(!self.capturable, Missing, "{}: capturable=True", $name);
                ensure!(!self.differentiable, Missing, "{}: differentiable=True", $name);
                Ok(())
            }
            fn update(&self, p: &Tensor, grad: &Tensor, state: &mut State) -> Result<()> {
                let step = state.step.unwrap_or(0.0) + 1.0;
                let wanted = if self.amsgrad { MOMENTS } else { &MOMENTS[..2] };
                for name in wanted {
                    if state.get(name).is_none() {
                        state.set(name, kernel::zeros(p)?);
                    }
                }
                let $o = self;
                let o = flambeau_cpu::optim::Adam {
                    lr: self.lr,
                    betas: self.betas,
                    eps: self.eps,
                    weight_decay: self.weight_decay.to_f64(),
                    decoupled: $decoupled,
                    maximize: self.maximize,
                    step,
                };
                let kept: Vec<&Tensor> = wanted.iter().filter_map(|n| state.get(n)).collect();
                kernel::fused($name, p, grad, &kept, |g, p, kept| {
                    let mut kept = kept.into_iter();
                    let (m, v) = (kept.next()?, kept.next()?);
                    flambeau_cpu::optim::erased::adam(o, p, g, m, v, kept.next())
                })?;
                state.step = Some(step);
                Ok(())
            }
            algorithm!(momentum: |o| Some(o.betas.0), |o, v| o.betas.0 = v);
            $(fn $fixed() -> &'static [(&'static str, Value)] {
                &[("decoupled_weight_decay", Value::Bool(true))]
            })?
        }
        impl $options {
            build!($alias);
        }
    };
}
adam!(AdamOptions, Adam, "Adam", |o| o.decoupled_weight_decay);
adam!(
    AdamWOptions,
    AdamW,
    "AdamW",
    |o| {
        let _ = o;
        true
    },
    fixed
);
