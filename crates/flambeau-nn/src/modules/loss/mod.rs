//! Losses: modules of a prediction and a target. `criterion.forward(&output, &target)`, or with hooks
//! `criterion.call((&output, &target))`.

mod linear_cross_entropy;
mod pairwise;
mod triplet;

pub use linear_cross_entropy::{
    LinearCrossEntropyLoss, LinearCrossEntropyLossOptions, LinearCrossEntropyOptions,
};
pub use pairwise::*;
pub use triplet::{Distance, TripletMarginWithDistanceLoss, TripletMarginWithDistanceLossOptions};

use crate::module::base::Base;
use crate::modules::{layer_of, plain};
use crate::parameter::Buffer;
use flambeau_core::api::ergonomic::expect;
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

macro_rules! nll {
    ($t:ident, $options:ident, $path:literal, $doc:literal) => {
        #[doc = concat!("Options of [`", stringify!($t), "`].")]
        #[class($path, build = $t)]
        pub struct $options {
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
        #[doc = $doc]
        #[derive(Debug, Module)]
        pub struct $t {
            base: Base,
            /// The arguments.
            pub options: $options,
            /// Weight of each class.
            pub weight: Option<Buffer>,
        }
        impl $t {
            fn from_options(options: $options) -> Result<Self> {
                let weight = options.weight.clone().map(Buffer::new);
                Ok($t { base: Base::new(), options, weight })
            }
        }
        layer_of!($t, |m, input, target| {
            let (o, w) = (&m.options, m.weight.as_deref());
            f::nll_loss(input, target, w, o.size_average, o.ignore_index, o.reduce, &o.reduction)
        });
    };
}
nll!(
    NLLLoss,
    NLLLossOptions,
    "torch.nn.NLLLoss",
    "Negative log likelihood of log-probabilities `(N, C, *)` for targets of class indices `(N, *)`."
);
nll!(NLLLoss2d, NLLLoss2dOptions, "torch.nn.NLLLoss2d", "The former name of [`NLLLoss`].");

/// Options of [`CTCLoss`].
#[class("torch.nn.CTCLoss", build = CTCLoss)]
pub struct CTCLossOptions {
    /// Class of the blank.
    #[default(0)]
    pub blank: i64,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
    /// Whether targets that do not fit into their input cost nothing, instead of infinity.
    #[default(false)]
    pub zero_infinity: bool,
}
plain!(
    /// Connectionist temporal classification (Graves et al. 2006): log-probabilities `(T, N, C)` or `(T, C)`; targets
    /// `(N, S)`, or all in one row; lengths `(N)` of inputs and targets.
    CTCLoss, CTCLossOptions
);
impl CTCLoss {
    /// `forward` with an error instead of a panic.
    ///
    /// # Errors
    /// Inputs that do not fit.
    pub fn try_forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &[i64],
        target_lengths: &[i64],
    ) -> Result<Tensor> {
        let o = &self.options;
        let zero = o.zero_infinity;
        f::ctc_loss_of(log_probs, targets, input_lengths, target_lengths, o.blank, &o.reduction, zero)
    }
    /// The loss, without hooks; panics with the error's text.
    #[track_caller]
    pub fn forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &[i64],
        target_lengths: &[i64],
    ) -> Tensor {
        expect(self.try_forward(log_probs, targets, input_lengths, target_lengths))
    }
}
// lengths may be lists or tensors, which the function by name tells apart
#[cfg(feature = "by-name")]
crate::modules::by_values!(
    CTCLoss,
    ["log_probs", "targets", "input_lengths", "target_lengths"],
    4,
    |m, a| {
        let o = &m.options;
        let args = [a.value(0), a.value(1), a.value(2), a.value(3)].map(Clone::clone);
        let options = [
            ("blank".to_owned(), flambeau_core::Value::Int(o.blank)),
            ("reduction".to_owned(), flambeau_core::Value::Str(o.reduction.clone())),
            ("zero_infinity".to_owned(), flambeau_core::Value::Bool(o.zero_infinity)),
        ];
        let out = flambeau_library::call("torch.nn.functional.ctc_loss", &args, &options)?;
        (0..out.len())
            .map(|i| flambeau_core::dispatch::value::arg::<Tensor>(&out, i))
            .collect::<Result<Vec<_>>>()
    }
);
