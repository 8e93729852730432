//! Activations.

mod adaptive;
mod softmax;

pub use adaptive::{AdaptiveLogSoftmaxWithLoss, AdaptiveLogSoftmaxWithLossOptions};
pub use softmax::*;

use crate::modules::{layer, plain};
use flambeau_core::text::PyText;
use flambeau_core::{Result, Scalar, Tensor, ops};
use flambeau_macros::class;
use flambeau_nn_functional::ops as f;

/// One row per activation: its class, its arguments with their defaults, what is printed, what it computes.
macro_rules! activations {
    ($(
        $(#[$doc:meta])*
        $t:ident $options:ident $path:literal ($($(#[$fm:meta])* $field:ident: $ty:ty),*) repr($($repr:tt)*)
        $(check |$c:ident| $check:expr,)?
        |$o:ident, $x:ident| $e:expr;
    )*) => {$(
        #[doc = concat!("Options of [`", stringify!($t), "`].")]
        #[class($path, build = $t, repr($($repr)*))]
        pub struct $options {
            $($(#[$fm])* pub $field: $ty),*
        }
        plain!($(#[$doc])* $t, $options, |o| {
            $({
                let $c = &o;
                $check?;
            })?
            Ok::<_, flambeau_core::Error>(o)
        });
        layer!($t, |m, $x| {
            #[allow(unused_variables)]
            let $o = &m.options;
            $e
        });
    )*};
}
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
fn range(low: f64, high: f64) -> Result<()> {
    flambeau_core::ensure!(
        low < high,
        Assertion,
        "max_val ({}) must be greater than min_val ({})",
        high.py_text(),
        low.py_text()
    );
    Ok(())
}

activations! {
    /// `max(x, 0)`.
    ReLU ReLUOptions "torch.nn.ReLU"
        (/** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(inplace=?) |o, x| either(x, o.inplace, ops::relu, ops::relu_);
    /// `min(max(x, 0), 6)`.
    ReLU6 ReLU6Options "torch.nn.ReLU6"
        (/** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(inplace=?) |o, x| f::relu6(x, o.inplace);
    /// `1 / (1 + exp(-x))`.
    Sigmoid SigmoidOptions "torch.nn.Sigmoid" () repr() |o, x| ops::sigmoid(x);
    /// Hyperbolic tangent.
    Tanh TanhOptions "torch.nn.Tanh" () repr() |o, x| ops::tanh(x);
    /// `x` above 0, `negative_slope * x` below.
    LeakyReLU LeakyReLUOptions "torch.nn.LeakyReLU"
        (/** Slope below 0. */ #[default(0.01)] #[positional] negative_slope: f64,
         /** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(negative_slope=, inplace=?) |o, x| f::leaky_relu(x, o.negative_slope, o.inplace);
    /// `x` above 0, `alpha * (exp(x) - 1)` below.
    ELU ELUOptions "torch.nn.ELU"
        (/** Scale below 0. */ #[default(1.0)] alpha: f64,
         /** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(alpha=, inplace=?) |o, x| f::elu(x, o.alpha, o.inplace);
    /// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.
    CELU CELUOptions "torch.nn.CELU"
        (/** Scale below 0. */ #[default(1.0)] alpha: f64,
         /** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(alpha=, inplace=?) |o, x| f::celu(x, o.alpha, o.inplace);
    /// Scaled ELU (Klambauer et al. 2017).
    SELU SELUOptions "torch.nn.SELU"
        (/** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(inplace=?) |o, x| f::selu(x, o.inplace);
    /// `x` times the normal distribution function of `x` (Hendrycks and Gimpel 2016).
    GELU GELUOptions "torch.nn.GELU"
        (/** `"none"` or `"tanh"`. */ #[default("none")] approximate: String)
        repr(approximate=!) |o, x| f::gelu(x, &o.approximate);
    /// `x * sigmoid(x)`.
    SiLU SiLUOptions "torch.nn.SiLU"
        (/** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(inplace=?) |o, x| f::silu(x, o.inplace);
    /// `x * tanh(softplus(x))`.
    Mish MishOptions "torch.nn.Mish"
        (/** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(inplace=?) |o, x| f::mish(x, o.inplace);
    /// `x` limited to a range.
    Hardtanh HardtanhOptions "torch.nn.Hardtanh"
        (/** Lower limit. */ #[default(-1.0)] min_val: f64, /** Upper limit. */ #[default(1.0)] max_val: f64,
         /** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(min_val=, max_val=, inplace=?)
        check |o| range(o.min_val, o.max_val),
        |o, x| f::hardtanh(x, Scalar::Float(o.min_val), Scalar::Float(o.max_val), o.inplace);
    /// A piecewise linear sigmoid.
    Hardsigmoid HardsigmoidOptions "torch.nn.Hardsigmoid"
        (/** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr() |o, x| f::hardsigmoid(x, o.inplace);
    /// `x * hardsigmoid(x)`.
    Hardswish HardswishOptions "torch.nn.Hardswish"
        (/** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr() |o, x| f::hardswish(x, o.inplace);
    /// `log(sigmoid(x))`.
    LogSigmoid LogSigmoidOptions "torch.nn.LogSigmoid" () repr() |o, x| f::logsigmoid(x);
    /// `log(1 + exp(beta * x)) / beta`, and `x` above the threshold.
    Softplus SoftplusOptions "torch.nn.Softplus"
        (/** Steepness. */ #[default(1.0)] beta: Scalar, /** Where it becomes linear. */ #[default(20.0)] threshold: Scalar)
        repr(beta=, threshold=) |o, x| f::softplus(x, o.beta, o.threshold);
    /// 0 within `lambd`, `x` elsewhere.
    Hardshrink HardshrinkOptions "torch.nn.Hardshrink"
        (/** Half the width of the zero part. */ #[default(0.5)] lambd: f64)
        repr(lambd) |o, x| f::hardshrink(x, Scalar::Float(o.lambd));
    /// 0 within `lambd`, `x` moved by it towards 0 elsewhere.
    Softshrink SoftshrinkOptions "torch.nn.Softshrink"
        (/** Half the width of the zero part. */ #[default(0.5)] lambd: f64)
        repr(lambd) |o, x| f::softshrink(x, Scalar::Float(o.lambd));
    /// `x` above the threshold, a value elsewhere.
    Threshold ThresholdOptions "torch.nn.Threshold"
        (/** Threshold. */ threshold: Scalar, /** Value below it. */ value: Scalar,
         /** Writes the result to the input. */ #[default(false)] inplace: bool)
        repr(threshold=, value=, inplace=?) |o, x| f::threshold(x, o.threshold, o.value, o.inplace);
    /// The first half of a dimension times the sigmoid of the second.
    GLU GLUOptions "torch.nn.GLU"
        (/** Dimension to halve. */ #[default(-1)] dim: i64)
        repr(dim=) |o, x| f::glu(x, o.dim);
    /// `x / (1 + |x|)`.
    Softsign SoftsignOptions "torch.nn.Softsign" () repr() |o, x| f::softsign(x);
    /// `x - tanh(x)`.
    Tanhshrink TanhshrinkOptions "torch.nn.Tanhshrink" () repr() |o, x| f::tanhshrink(x);
}
