//! Losses: modules of a prediction and a target. `criterion.forward(&output, &target)`, or with hooks
//! `criterion.call((&output, &target))`.

use super::layer_of;
use crate::base::Base;
use crate::parameter::Buffer;
use flambeau_core::{Result, Tensor};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

/// Options of [`CrossEntropyLoss`].
#[class("torch.nn.CrossEntropyLoss", build = CrossEntropyLoss)]
pub struct CrossEntropyLossOptions {
    /// Weight of each class.
    pub weight: Option<Tensor>,
    /// Former name of a part of `reduction`.
    pub size_average: Option<bool>,
    /// Target that does not count.
    #[default(-100)]
    pub ignore_index: i64,
    /// Former name of a part of `reduction`.
    pub reduce: Option<bool>,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
    /// Part of the target that is spread over all classes.
    #[default(0.0)]
    pub label_smoothing: f64,
}
/// Negative log likelihood of the softmax of logits `(N, C, *)`, for targets of class indices `(N, *)` or of
/// probabilities of the logits' shape.
#[derive(Debug, Module)]
pub struct CrossEntropyLoss {
    base: Base,
    /// The arguments.
    pub options: CrossEntropyLossOptions,
    /// Weight of each class.
    pub weight: Option<Buffer>,
}
impl CrossEntropyLoss {
    fn from_options(options: CrossEntropyLossOptions) -> Result<Self> {
        let weight = options.weight.clone().map(Buffer::new);
        Ok(CrossEntropyLoss { base: Base::new(), options, weight })
    }
}
layer_of!(CrossEntropyLoss, |m, input, target| {
    let o = &m.options;
    f::cross_entropy(
        input,
        target,
        m.weight.as_deref(),
        o.size_average,
        o.ignore_index,
        o.reduce,
        &o.reduction,
        o.label_smoothing,
    )
});

/// Options of [`NLLLoss`].
#[class("torch.nn.NLLLoss", build = NLLLoss)]
pub struct NLLLossOptions {
    /// Weight of each class.
    pub weight: Option<Tensor>,
    /// Former name of a part of `reduction`.
    pub size_average: Option<bool>,
    /// Target that does not count.
    #[default(-100)]
    pub ignore_index: i64,
    /// Former name of a part of `reduction`.
    pub reduce: Option<bool>,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
}
/// Negative log likelihood of log-probabilities `(N, C, *)` for targets of class indices `(N, *)`.
#[derive(Debug, Module)]
pub struct NLLLoss {
    base: Base,
    /// The arguments.
    pub options: NLLLossOptions,
    /// Weight of each class.
    pub weight: Option<Buffer>,
}
impl NLLLoss {
    fn from_options(options: NLLLossOptions) -> Result<Self> {
        let weight = options.weight.clone().map(Buffer::new);
        Ok(NLLLoss { base: Base::new(), options, weight })
    }
}
layer_of!(NLLLoss, |m, input, target| {
    let o = &m.options;
    f::nll_loss(input, target, m.weight.as_deref(), o.size_average, o.ignore_index, o.reduce, &o.reduction)
});
