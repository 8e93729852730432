//! Losses that are one function of a prediction and a target.

use crate::args::Checked;
use crate::module::base::Base;
use crate::modules::{layer_of, plain};
use crate::parameter::Buffer;
use flambeau_core::{Result, Tensor, ensure};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

/// One row per loss: its class, its arguments before and after the common ones, what it computes.
macro_rules! losses {
    ($(
        $(#[$doc:meta])*
        $t:ident $options:ident $path:literal
        ($($(#[$fm:meta])* $field:ident: $ty:ty),*) ($($(#[$lm:meta])* $last:ident: $lty:ty),*)
        |$o:ident, $a:ident, $b:ident| $e:expr;
    )*) => {$(
        #[class($path, build = $t)]
        pub struct $options {
            $($(#[$fm])* pub $field: $ty,)*
            /// Former name of a part of `reduction`.
            pub size_average: Option<bool>,
            /// Former name of a part of `reduction`.
            pub reduce: Option<bool>,
            /// `"none"`, `"mean"` or `"sum"`.
            #[default("mean")]
            pub reduction: String,
            $($(#[$lm])* pub $last: $lty,)*
        }
        plain!($(#[$doc])* $t, $options);
        layer_of!($t, |m, $a, $b| {
            let $o = &m.options;
            $e
        });
    )*};
}
losses! {
    /// Mean squared difference.
    MSELoss MSELossOptions "torch.nn.MSELoss" () () |o, a, b| f::mse_loss(a, b, o.size_average, o.reduce, &o.reduction, None);
    /// Mean absolute difference.
    L1Loss L1LossOptions "torch.nn.L1Loss" () () |o, a, b| f::l1_loss(a, b, o.size_average, o.reduce, &o.reduction, None);
    /// Squared differences below `beta`, absolute ones above.
    SmoothL1Loss SmoothL1LossOptions "torch.nn.SmoothL1Loss" () (/** Where it becomes linear. */ #[default(1.0)] beta: f64) |o, a, b| f::smooth_l1_loss(a, b, o.size_average, o.reduce, &o.reduction, o.beta);
    /// Divergence of Kullback and Leibler of log-probabilities from a target.
    KLDivLoss KLDivLossOptions "torch.nn.KLDivLoss" () (/** Whether the target holds log-probabilities. */ #[default(false)] log_target: bool) |o, a, b| f::kl_div(a, b, o.size_average, o.reduce, &o.reduction, o.log_target);
    /// Logistic loss for targets of 1 and -1.
    SoftMarginLoss SoftMarginLossOptions "torch.nn.SoftMarginLoss" () () |o, a, b| f::soft_margin_loss(a, b, o.size_average, o.reduce, &o.reduction);
    /// Margins between all target classes and all others.
    MultiLabelMarginLoss MultiLabelMarginLossOptions "torch.nn.MultiLabelMarginLoss" () () |o, a, b| f::multilabel_margin_loss(a, b, o.size_average, o.reduce, &o.reduction);
    /// The distance itself for targets of 1, what it lacks of the margin for those of -1.
    HingeEmbeddingLoss HingeEmbeddingLossOptions "torch.nn.HingeEmbeddingLoss" (/** Margin for targets of -1. */ #[default(1.0)] margin: f64) () |o, a, b| f::hinge_embedding_loss(a, b, o.margin, o.size_average, o.reduce, &o.reduction);
}

/// Losses whose weight is a buffer: arguments before it and after the common ones.
macro_rules! weighted_losses {
    ($(
        $(#[$doc:meta])*
        $t:ident $options:ident $path:literal
        ($($(#[$fm:meta])* $field:ident: $ty:ty),*)
        |$o:ident, $w:ident, $a:ident, $b:ident| $e:expr $(, check $check:path)?;
    )*) => {$(
        #[class($path, build = $t)]
        pub struct $options {
            $($(#[$fm])* pub $field: $ty,)*
            /// Weight of each element or class.
            pub weight: Option<Tensor>,
            /// Former name of a part of `reduction`.
            pub size_average: Option<bool>,
            /// Former name of a part of `reduction`.
            pub reduce: Option<bool>,
            /// `"none"`, `"mean"` or `"sum"`.
            #[default("mean")]
            pub reduction: String,
        }
        $(#[$doc])*
        #[derive(Debug, Module)]
        pub struct $t {
            base: Base,
            /// The arguments.
            pub options: $options,
            /// Weight of each element or class.
            pub weight: Option<Buffer>,
        }
        impl $t {
            fn from_options(options: $options) -> Result<Self> {
                $($check(&options)?;)?
                let weight = options.weight.clone().map(Buffer::new);
                Ok($t { base: Base::new(), options, weight })
            }
        }
        layer_of!($t, |m, $a, $b| {
            let ($o, $w) = (&m.options, m.weight.as_deref());
            $e
        });
    )*};
}
fn multi_margin(o: &MultiMarginLossOptions) -> Result<()> {
    ensure!(matches!(o.p, 1 | 2), Value, "only p == 1 and p == 2 supported");
    let rank = o.weight.as_ref().map_or(1, Tensor::dim);
    ensure!(
        rank == 1,
        Value,
        "MultiMarginLoss: expected weight to be None or 1D tensor, got {rank}D instead"
    );
    Ok(())
}
weighted_losses! {
    /// Cross-entropy of probabilities of two classes.
    BCELoss BCELossOptions "torch.nn.BCELoss" ()
        |o, w, a, b| f::binary_cross_entropy(a, b, w, o.size_average, o.reduce, &o.reduction);
    /// Margins between the target class and all others.
    MultiMarginLoss MultiMarginLossOptions "torch.nn.MultiMarginLoss"
        (/** Power of a margin, 1 or 2. */ #[default(1)] p: i64, /** The margin. */ #[default(1.0)] margin: f64)
        |o, w, a, b| f::multi_margin_loss(a, b, o.p, o.margin, w, o.size_average, o.reduce, &o.reduction),
        check multi_margin;
    /// Logistic losses of independent classes.
    MultiLabelSoftMarginLoss MultiLabelSoftMarginLossOptions "torch.nn.MultiLabelSoftMarginLoss" ()
        |o, w, a, b| f::multilabel_soft_margin_loss(a, b, w, o.size_average, o.reduce, &o.reduction);
}

#[class("torch.nn.BCEWithLogitsLoss", build = BCEWithLogitsLoss)]
pub struct BCEWithLogitsLossOptions {
    /// Weight of each element.
    pub weight: Option<Tensor>,
    /// Former name of a part of `reduction`.
    pub size_average: Option<bool>,
    /// Former name of a part of `reduction`.
    pub reduce: Option<bool>,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
    /// Weight of positive targets.
    pub pos_weight: Option<Tensor>,
}
/// Cross-entropy of logits of two classes.
#[derive(Debug, Module)]
pub struct BCEWithLogitsLoss {
    base: Base,
    /// The arguments.
    pub options: BCEWithLogitsLossOptions,
    /// Weight of each element.
    pub weight: Option<Buffer>,
    /// Weight of positive targets.
    pub pos_weight: Option<Buffer>,
}
impl BCEWithLogitsLoss {
    fn from_options(options: BCEWithLogitsLossOptions) -> Result<Self> {
        let weight = options.weight.clone().map(Buffer::new);
        let pos_weight = options.pos_weight.clone().map(Buffer::new);
        Ok(BCEWithLogitsLoss { base: Base::new(), options, weight, pos_weight })
    }
}
layer_of!(BCEWithLogitsLoss, |m, input, target| {
    let (o, w, p) = (&m.options, m.weight.as_deref(), m.pos_weight.as_deref());
    f::binary_cross_entropy_with_logits(input, target, w, o.size_average, o.reduce, &o.reduction, p)
});

#[class("torch.nn.HuberLoss", build = HuberLoss)]
pub struct HuberLossOptions {
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
    /// Where it becomes linear.
    #[default(1.0)]
    pub delta: Checked<f64>,
}
const DELTA: &str = "delta must be a float or int, got:";
plain!(
    /// Squared differences up to `delta`, absolute ones above.
    HuberLoss, HuberLossOptions, |o| o.delta.get(DELTA).map(|_| o)
);
layer_of!(HuberLoss, |m, input, target| f::huber_loss(
    input,
    target,
    &m.options.reduction,
    m.options.delta.get(DELTA)?,
    None
));

#[class("torch.nn.PoissonNLLLoss", build = PoissonNLLLoss)]
pub struct PoissonNLLLossOptions {
    /// Whether the input is the logarithm of the rate.
    #[default(true)]
    pub log_input: bool,
    /// Whether Stirling's approximation is added.
    #[default(false)]
    pub full: bool,
    /// Former name of a part of `reduction`.
    pub size_average: Option<bool>,
    /// Added to a rate before its logarithm is taken.
    #[default(1e-8)]
    pub eps: f64,
    /// Former name of a part of `reduction`.
    pub reduce: Option<bool>,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
}
plain!(
    /// Negative log likelihood of counts.
    PoissonNLLLoss, PoissonNLLLossOptions
);
layer_of!(PoissonNLLLoss, |m, input, target| {
    let o = &m.options;
    f::poisson_nll_loss(input, target, o.log_input, o.full, o.size_average, o.eps, o.reduce, &o.reduction)
});

#[class("torch.nn.GaussianNLLLoss", build = GaussianNLLLoss)]
pub struct GaussianNLLLossOptions {
    /// Whether the constant is added.
    #[default(false)]
    pub full: bool,
    /// Least variance.
    #[default(1e-6)]
    pub eps: f64,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
}
plain!(
    /// Negative log likelihood of normal distributions of given means and variances.
    GaussianNLLLoss, GaussianNLLLossOptions
);
layer_of!(GaussianNLLLoss, |m, input, target, var| {
    f::gaussian_nll_loss(input, target, var, m.options.full, m.options.eps, &m.options.reduction)
});

/// Losses of three tensors: arguments before the common ones.
macro_rules! losses_of_three {
    ($(
        $(#[$doc:meta])*
        $t:ident $options:ident $path:literal ($($(#[$fm:meta])* $field:ident: $ty:ty),*)
        |$o:ident, $a:ident, $b:ident, $c:ident| $e:expr $(, |$given:ident| $check:expr)?;
    )*) => {$(
        #[class($path, build = $t)]
        pub struct $options {
            $($(#[$fm])* pub $field: $ty,)*
            /// Former name of a part of `reduction`.
            pub size_average: Option<bool>,
            /// Former name of a part of `reduction`.
            pub reduce: Option<bool>,
            /// `"none"`, `"mean"` or `"sum"`.
            #[default("mean")]
            pub reduction: String,
        }
        plain!($(#[$doc])* $t, $options $(, |$given| $check)?);
        layer_of!($t, |m, $a, $b, $c| {
            let $o = &m.options;
            $e
        });
    )*};
}
losses_of_three! {
    /// What the difference of two inputs lacks of a margin, in the direction of the target.
    MarginRankingLoss MarginRankingLossOptions "torch.nn.MarginRankingLoss"
        (/** The margin. */ #[default(0.0)] margin: f64)
        |o, a, b, c| f::margin_ranking_loss(a, b, c, o.margin, o.size_average, o.reduce, &o.reduction);
    /// The cosine of two inputs, towards 1 or below a margin.
    CosineEmbeddingLoss CosineEmbeddingLossOptions "torch.nn.CosineEmbeddingLoss"
        (/** The margin. */ #[default(0.0)] margin: f64)
        |o, a, b, c| f::cosine_embedding_loss(a, b, c, o.margin, o.size_average, o.reduce, &o.reduction);
    /// By how much an anchor is nearer to the positive than to the negative, up to a margin.
    TripletMarginLoss TripletMarginLossOptions "torch.nn.TripletMarginLoss"
        (/** The margin. */ #[default(1.0)] margin: f64, /** Power of the norm. */ #[default(2.0)] p: f64,
         /** Added to differences. */ #[default(1e-6)] eps: f64,
         /** Whether the positive's distance to the negative counts where it is less. */ #[default(false)] swap: bool)
        |o, a, b, c| {
            f::triplet_margin_loss(a, b, c, o.margin, o.p, o.eps, o.swap, o.size_average, o.reduce, &o.reduction)
        },
        |given| {
            ensure!(
                given.margin > 0.0,
                Value,
                "TripletMarginLoss: expected margin to be greater than 0, got {:?} instead",
                given.margin
            );
            Ok::<_, flambeau_core::Error>(given)
        };
}
