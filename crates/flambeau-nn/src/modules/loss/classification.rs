//! Losses of predicted classes.

use crate::modules::options::Reduction;
use crate::modules::{layers, plain};
use flambeau_core::{Result, Tensor};
use flambeau_macros::{class, fields};
use flambeau_nn_functional::ops as f;

/// The options of losses of class indices.
#[fields]
pub(crate) struct Classes {
    /// Weight of each class.
    pub weight: Option<flambeau_core::Tensor>,
    /// Target that does not count.
    #[default(-100)]
    pub ignore_index: i64,
}
layers! {
    /// Negative log likelihood of the softmax of logits `(N, C, *)`, for targets of class indices `(N, *)` or of
    /// probabilities of the logits' shape.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (logits, classes) = (torch::zeros([3, 4]), torch::tensor([0, 2, 1]));
    /// let loss = nn::CrossEntropyLoss::new().call(&logits, &classes);
    /// assert!((loss.item::<f64>() - 4f64.ln()).abs() < 1e-6);
    /// let smooth = nn::CrossEntropyLossOptions::new().label_smoothing(0.1).weight(torch::ones(4)).build();
    /// assert!((smooth.call(&logits, &classes).item::<f64>() - 4f64.ln()).abs() < 1e-6);
    /// ```
    CrossEntropyLoss CrossEntropyLossOptions "torch.nn.CrossEntropyLoss"
        [include(Classes, Reduction), order(weight, size_average, ignore_index, Reduction, label_smoothing)]
        { /** Part of the target that is spread over all classes. */ #[default(0.0)] label_smoothing: f64 }
        buffers(/** Weight of each class. */ weight)
        |m, o, x, target| {
            let (weight, smoothing) = (m.weight.as_deref(), o.label_smoothing);
            f::cross_entropy(x, target, weight, o.size_average, o.ignore_index, o.reduce, &o.reduction, smoothing)
        };
    /// Negative log likelihood of log-probabilities `(N, C, *)` for targets of class indices `(N, *)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let log_probs = torch::tensor([[-1.0, -2.0], [-3.0, -4.0]]);
    /// let loss = nn::NLLLoss::new().call(&log_probs, &torch::tensor([1, 0]));
    /// assert_eq!(loss.item::<f32>(), 2.5);
    /// ```
    NLLLoss NLLLossOptions "torch.nn.NLLLoss"
        [include(Classes, Reduction), order(weight, size_average, ignore_index, Reduction)] {}
        buffers(/** Weight of each class. */ weight)
        |m, o, x, target| {
            let weight = m.weight.as_deref();
            f::nll_loss(x, target, weight, o.size_average, o.ignore_index, o.reduce, &o.reduction)
        };
    /// The former name of [`NLLLoss`].
    NLLLoss2d NLLLoss2dOptions "torch.nn.NLLLoss2d"
        [include(Classes, Reduction), order(weight, size_average, ignore_index, Reduction)] {}
        buffers(/** Weight of each class. */ weight)
        |m, o, x, target| {
            let weight = m.weight.as_deref();
            f::nll_loss(x, target, weight, o.size_average, o.ignore_index, o.reduce, &o.reduction)
        };
    /// Cross-entropy of probabilities of two classes.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::BCELoss::new();
    /// let value = loss.call(&torch::tensor([0.5, 0.5]), &torch::tensor([0.0, 1.0]));
    /// assert!((value.item::<f64>() - 2f64.ln()).abs() < 1e-6);
    /// ```
    BCELoss BCELossOptions "torch.nn.BCELoss" [include(Reduction)] { /** Weight of each element. */ weight: Option<Tensor> }
        buffers(/** Weight of each element. */ weight)
        |m, o, x, target| {
            f::binary_cross_entropy(x, target, m.weight.as_deref(), o.size_average, o.reduce, &o.reduction)
        };
    /// Cross-entropy of logits of two classes.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::BCEWithLogitsLoss::new();
    /// let value = loss.call(&torch::tensor([0.0, 0.0]), &torch::tensor([0.0, 1.0]));
    /// assert!((value.item::<f64>() - 2f64.ln()).abs() < 1e-6);
    /// ```
    BCEWithLogitsLoss BCEWithLogitsLossOptions "torch.nn.BCEWithLogitsLoss"
        [include(Reduction), order(weight, Reduction, pos_weight)]
        { /** Weight of each element. */ weight: Option<Tensor>, /** Weight of positive targets. */ pos_weight: Option<Tensor> }
        buffers(/** Weight of each element. */ weight, /** Weight of positive targets. */ pos_weight)
        |m, o, x, target| {
            let (weight, positive) = (m.weight.as_deref(), m.pos_weight.as_deref());
            f::binary_cross_entropy_with_logits(x, target, weight, o.size_average, o.reduce, &o.reduction, positive)
        };
    /// Logistic losses of independent classes.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::MultiLabelSoftMarginLoss::new();
    /// let value = loss.call(&torch::tensor([[0.0, 0.0]]), &torch::tensor([[0.0, 1.0]]));
    /// assert!((value.item::<f64>() - 2f64.ln()).abs() < 1e-6);
    /// ```
    MultiLabelSoftMarginLoss MultiLabelSoftMarginLossOptions "torch.nn.MultiLabelSoftMarginLoss" [include(Reduction)]
        { /** Weight of each class. */ weight: Option<Tensor> }
        buffers(/** Weight of each class. */ weight)
        |m, o, x, target| {
            f::multilabel_soft_margin_loss(x, target, m.weight.as_deref(), o.size_average, o.reduce, &o.reduction)
        };
    /// Logistic loss for targets of 1 and -1.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::SoftMarginLoss::new();
    /// let value = loss.call(&torch::tensor([0.0, 0.0]), &torch::tensor([-1.0, 1.0]));
    /// assert!((value.item::<f64>() - 2f64.ln()).abs() < 1e-6);
    /// ```
    SoftMarginLoss SoftMarginLossOptions "torch.nn.SoftMarginLoss" [include(Reduction)] {}
        |m, o, x, target| f::soft_margin_loss(x, target, o.size_average, o.reduce, &o.reduction);
}

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
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let log_probs = torch::zeros([5, 2, 4]).log_softmax(2);            // steps, batch, classes
    /// let targets = torch::tensor([[1, 2], [3, 3]]);
    /// let loss = nn::CTCLoss::new().call(&log_probs, &targets, &[5, 5], &[2, 2]);
    /// assert!(loss.item::<f32>() > 0.0);
    /// ```
    CTCLoss, CTCLossOptions
);
#[flambeau_macros::forward]
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
