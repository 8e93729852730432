//! Activations.

mod adaptive;
mod softmax;

pub use adaptive::{AdaptiveLogSoftmaxWithLoss, AdaptiveLogSoftmaxWithLossOptions};
pub use softmax::*;

use crate::modules::layers;
use crate::modules::options::Inplace;
use flambeau_core::text::PyText;
use flambeau_core::{Result, Scalar, Tensor, ops};
use flambeau_nn_functional::ops as f;

/// Runs the in-place form where it is asked for.
fn either(
    x: &Tensor,
    inplace: bool,
    fresh: fn(&Tensor) -> Result<Tensor>,
    here: fn(&Tensor) -> Result<()>,
) -> Result<Tensor> {
    if inplace {
        here(x)?;
        return Ok(x.clone());
    }
    fresh(x)
}

/// A range of limits.
fn range(low: Scalar, high: Scalar) -> Result<()> {
    flambeau_core::ensure!(
        low.to_f64() < high.to_f64(),
        Assertion,
        "max_val ({}) must be greater than min_val ({})",
        high.py_text(),
        low.py_text()
    );
    Ok(())
}

layers! {
    /// `max(x, 0)`.
    ReLU ReLUOptions "torch.nn.ReLU" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| either(x, o.inplace, ops::relu, ops::relu_);
    /// `min(max(x, 0), 6)`.
    ReLU6 ReLU6Options "torch.nn.ReLU6" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| f::relu6(x, o.inplace);
    /// `1 / (1 + exp(-x))`.
    Sigmoid SigmoidOptions "torch.nn.Sigmoid" [] {}
        |m, o, x| ops::sigmoid(x);
    /// Hyperbolic tangent.
    Tanh TanhOptions "torch.nn.Tanh" [] {}
        |m, o, x| ops::tanh(x);
    /// `x` above 0, `negative_slope * x` below.
    LeakyReLU LeakyReLUOptions "torch.nn.LeakyReLU" [include(Inplace), repr(negative_slope=, inplace=?)]
        { /** Slope below 0. */ #[default(0.01)] #[positional] negative_slope: Scalar }
        |m, o, x| f::leaky_relu(x, o.negative_slope.to_f64(), o.inplace);
    /// `x` above 0, `alpha * (exp(x) - 1)` below.
    ELU ELUOptions "torch.nn.ELU" [include(Inplace), repr(alpha=, inplace=?)]
        { /** Scale below 0. */ #[default(1.0)] alpha: Scalar }
        |m, o, x| f::elu(x, o.alpha.to_f64(), o.inplace);
    /// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.
    CELU CELUOptions "torch.nn.CELU" [include(Inplace), repr(alpha=, inplace=?)]
        { /** Scale below 0. */ #[default(1.0)] alpha: Scalar }
        |m, o, x| f::celu(x, o.alpha.to_f64(), o.inplace);
    /// Scaled ELU (Klambauer et al. 2017).
    SELU SELUOptions "torch.nn.SELU" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| f::selu(x, o.inplace);
    /// `x` times the normal distribution function of `x` (Hendrycks and Gimpel 2016).
    GELU GELUOptions "torch.nn.GELU" [repr(approximate=!)]
        { /** `"none"` or `"tanh"`. */ #[default("none")] approximate: String }
        |m, o, x| f::gelu(x, &o.approximate);
    /// `x * sigmoid(x)`.
    SiLU SiLUOptions "torch.nn.SiLU" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| f::silu(x, o.inplace);
    /// `x * tanh(softplus(x))`.
    Mish MishOptions "torch.nn.Mish" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| f::mish(x, o.inplace);
    /// `x` limited to a range.
    Hardtanh HardtanhOptions "torch.nn.Hardtanh" [include(Inplace), repr(min_val=, max_val=, inplace=?)]
        { /** Lower limit. */ #[default(-1.0)] min_val: Scalar, /** Upper limit. */ #[default(1.0)] max_val: Scalar }
        check |o| range(o.min_val, o.max_val),
        |m, o, x| f::hardtanh(x, o.min_val, o.max_val, o.inplace);
    /// A piecewise linear sigmoid.
    Hardsigmoid HardsigmoidOptions "torch.nn.Hardsigmoid" [include(Inplace)] {}
        |m, o, x| f::hardsigmoid(x, o.inplace);
    /// `x * hardsigmoid(x)`.
    Hardswish HardswishOptions "torch.nn.Hardswish" [include(Inplace)] {}
        |m, o, x| f::hardswish(x, o.inplace);
    /// `log(sigmoid(x))`.
    LogSigmoid LogSigmoidOptions "torch.nn.LogSigmoid" [] {}
        |m, o, x| f::logsigmoid(x);
    /// `log(1 + exp(beta * x)) / beta`, and `x` above the threshold.
    Softplus SoftplusOptions "torch.nn.Softplus" [repr(beta=, threshold=)]
        { /** Steepness. */ #[default(1.0)] beta: Scalar,
          /** Where it becomes linear. */ #[default(20.0)] threshold: Scalar }
        |m, o, x| f::softplus(x, o.beta, o.threshold);
    /// 0 within `lambd`, `x` elsewhere.
    Hardshrink HardshrinkOptions "torch.nn.Hardshrink" [repr(lambd)]
        { /** Half the width of the zero part. */ #[default(0.5)] lambd: Scalar }
        |m, o, x| f::hardshrink(x, o.lambd);
    /// 0 within `lambd`, `x` moved by it towards 0 elsewhere.
    Softshrink SoftshrinkOptions "torch.nn.Softshrink" [repr(lambd)]
        { /** Half the width of the zero part. */ #[default(0.5)] lambd: Scalar }
        |m, o, x| f::softshrink(x, o.lambd);
    /// `x` above the threshold, a value elsewhere.
    Threshold ThresholdOptions "torch.nn.Threshold" [include(Inplace), repr(threshold=, value=, inplace=?)]
        { /** Threshold. */ threshold: Scalar, /** Value below it. */ value: Scalar }
        |m, o, x| f::threshold(x, o.threshold, o.value, o.inplace);
    /// The first half of a dimension times the sigmoid of the second.
    GLU GLUOptions "torch.nn.GLU" [repr(dim=)] { /** Dimension to halve. */ #[default(-1)] dim: i64 }
        |m, o, x| f::glu(x, o.dim);
    /// `x / (1 + |x|)`.
    Softsign SoftsignOptions "torch.nn.Softsign" [] {}
        |m, o, x| f::softsign(x);
    /// `x - tanh(x)`.
    Tanhshrink TanhshrinkOptions "torch.nn.Tanhshrink" [] {}
        |m, o, x| f::tanhshrink(x);
}
