//! What the options of optimizers and schedules consist of: their types, and the fields that many of them have.

pub(crate) mod checks;
pub(crate) mod number_or_tensor;

use flambeau_macros::fields;

/// Of optimizers in the family of Adam.
#[fields]
pub(crate) struct Moments {
    /// Learning rate.
    #[default(1e-3)]
    pub lr: crate::Number,
    /// Decay rates of the two moments.
    #[default((0.9, 0.999))]
    pub betas: crate::Pair,
    /// Added to the denominator.
    #[default(1e-8)]
    pub eps: crate::Number,
    /// L2 penalty; where the decay is decoupled, the part of the parameter that each step takes away, times the learning
    /// rate.
    #[default(0)]
    pub weight_decay: crate::Number,
}

/// Of optimizers that can decay the parameters apart from their gradients.
#[fields]
pub(crate) struct Decoupled {
    /// Shrinks the parameter directly instead of adding the penalty to the gradient, as AdamW does.
    #[default(false)]
    pub decoupled_weight_decay: bool,
}

/// The penalty on the gradient and the factor of the parameter that a decay amounts to.
pub(crate) fn decay(lr: &crate::Number, weight_decay: f64, decoupled: bool) -> (f64, f64) {
    if decoupled { (0.0, lr.shrink(weight_decay)) } else { (weight_decay, 1.0) }
}

/// Of optimizers with momentum.
#[fields]
pub(crate) struct Momentum {
    /// Momentum factor.
    #[default(0)]
    pub momentum: crate::Number,
    /// Nesterov momentum.
    #[default(false)]
    pub nesterov: bool,
}

/// How a step is made; each optimizer has those that PyTorch's has.
#[fields]
pub(crate) struct Switches {
    /// The same step either way: one pass over all parameters. With Adam and AdamW `true` refuses a learning rate that is
    /// a tensor.
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
    /// The same step either way; `true` refuses complex parameters as PyTorch does.
    pub fused: Option<bool>,
}

/// Of schedules.
#[fields]
pub(crate) struct Resumed {
    /// Epoch to go on from.
    #[default(-1)]
    pub last_epoch: i64,
}
