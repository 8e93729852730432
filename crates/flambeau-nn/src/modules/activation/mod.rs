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
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::ReLU::new().call(&torch::tensor([-1.0, 2.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 2.0]);
    /// ```
    ReLU ReLUOptions "torch.nn.ReLU" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| either(x, o.inplace, ops::relu, ops::relu_);
    /// `min(max(x, 0), 6)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::ReLU6::new().call(&torch::tensor([-1.0, 2.0, 9.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 2.0, 6.0]);
    /// ```
    ReLU6 ReLU6Options "torch.nn.ReLU6" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| f::relu6(x, o.inplace);
    /// `1 / (1 + exp(-x))`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Sigmoid::new().call(&torch::tensor([0.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.5]);
    /// ```
    Sigmoid SigmoidOptions "torch.nn.Sigmoid" [] {}
        |m, o, x| ops::sigmoid(x);
    /// Hyperbolic tangent.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Tanh::new().call(&torch::tensor([0.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0]);
    /// ```
    Tanh TanhOptions "torch.nn.Tanh" [] {}
        |m, o, x| ops::tanh(x);
    /// `x` above 0, `negative_slope * x` below.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::LeakyReLU::new(0.1).call(&torch::tensor([-10.0, 2.0]));
    /// assert_eq!(y.to_vec::<f32>(), [-1.0, 2.0]);
    /// ```
    LeakyReLU LeakyReLUOptions "torch.nn.LeakyReLU" [include(Inplace), repr(negative_slope=, inplace=?)]
        { /** Slope below 0. */ #[default(0.01)] #[positional] negative_slope: Scalar }
        |m, o, x| f::leaky_relu(x, o.negative_slope.to_f64(), o.inplace);
    /// `x` above 0, `alpha * (exp(x) - 1)` below.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::ELU::new().call(&torch::tensor([0.0, 2.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 2.0]);
    /// ```
    ELU ELUOptions "torch.nn.ELU" [include(Inplace), repr(alpha=, inplace=?)]
        { /** Scale below 0. */ #[default(1.0)] alpha: Scalar }
        |m, o, x| f::elu(x, o.alpha.to_f64(), o.inplace);
    /// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::CELU::new().call(&torch::tensor([0.0, 2.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 2.0]);
    /// ```
    CELU CELUOptions "torch.nn.CELU" [include(Inplace), repr(alpha=, inplace=?)]
        { /** Scale below 0. */ #[default(1.0)] alpha: Scalar }
        |m, o, x| f::celu(x, o.alpha.to_f64(), o.inplace);
    /// Scaled ELU (Klambauer et al. 2017).
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::SELU::new().call(&torch::tensor([0.0, 1.0]));
    /// assert!(torch::allclose(&y, &torch::tensor([0.0, 1.0507010])));
    /// ```
    SELU SELUOptions "torch.nn.SELU" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| f::selu(x, o.inplace);
    /// `x` times the normal distribution function of `x` (Hendrycks and Gimpel 2016).
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::GELU::new().call(&torch::tensor([0.0, 100.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 100.0]);
    /// ```
    GELU GELUOptions "torch.nn.GELU" [repr(approximate=!)]
        { /** `"none"` or `"tanh"`. */ #[default("none")] approximate: String }
        |m, o, x| f::gelu(x, &o.approximate);
    /// `x * sigmoid(x)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::SiLU::new().call(&torch::tensor([0.0, 100.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 100.0]);
    /// ```
    SiLU SiLUOptions "torch.nn.SiLU" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| f::silu(x, o.inplace);
    /// `x * tanh(softplus(x))`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Mish::new().call(&torch::tensor([0.0, 100.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 100.0]);
    /// ```
    Mish MishOptions "torch.nn.Mish" [include(Inplace), repr(inplace=?)] {}
        |m, o, x| f::mish(x, o.inplace);
    /// `x` limited to a range.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::HardtanhOptions::new().min_val(-2.0).build().call(&torch::tensor([-3.0, 0.5, 3.0]));
    /// assert_eq!(y.to_vec::<f32>(), [-2.0, 0.5, 1.0]);
    /// ```
    Hardtanh HardtanhOptions "torch.nn.Hardtanh" [include(Inplace), repr(min_val=, max_val=, inplace=?)]
        { /** Lower limit. */ #[default(-1.0)] min_val: Scalar, /** Upper limit. */ #[default(1.0)] max_val: Scalar }
        check |o| range(o.min_val, o.max_val),
        |m, o, x| f::hardtanh(x, o.min_val, o.max_val, o.inplace);
    /// A piecewise linear sigmoid.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Hardsigmoid::new().call(&torch::tensor([-3.0, 0.0, 3.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 0.5, 1.0]);
    /// ```
    Hardsigmoid HardsigmoidOptions "torch.nn.Hardsigmoid" [include(Inplace)] {}
        |m, o, x| f::hardsigmoid(x, o.inplace);
    /// `x * hardsigmoid(x)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Hardswish::new().call(&torch::tensor([-3.0, 0.0, 3.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 0.0, 3.0]);
    /// ```
    Hardswish HardswishOptions "torch.nn.Hardswish" [include(Inplace)] {}
        |m, o, x| f::hardswish(x, o.inplace);
    /// `log(sigmoid(x))`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::LogSigmoid::new().call(&torch::tensor([0.0]));
    /// assert!(torch::allclose(&y, &torch::tensor([-0.6931472])));
    /// ```
    LogSigmoid LogSigmoidOptions "torch.nn.LogSigmoid" [] {}
        |m, o, x| f::logsigmoid(x);
    /// `log(1 + exp(beta * x)) / beta`, and `x` above the threshold.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::SoftplusOptions::new().beta(2).build().call(&torch::tensor([30.0]));
    /// assert_eq!(y.to_vec::<f32>(), [30.0]);
    /// ```
    Softplus SoftplusOptions "torch.nn.Softplus" [repr(beta=, threshold=)]
        { /** Steepness. */ #[default(1.0)] beta: Scalar,
          /** Where it becomes linear. */ #[default(20.0)] threshold: Scalar }
        |m, o, x| f::softplus(x, o.beta, o.threshold);
    /// 0 within `lambd`, `x` elsewhere.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Hardshrink::new().call(&torch::tensor([-2.0, 0.4, 2.0]));
    /// assert_eq!(y.to_vec::<f32>(), [-2.0, 0.0, 2.0]);
    /// ```
    Hardshrink HardshrinkOptions "torch.nn.Hardshrink" [repr(lambd)]
        { /** Half the width of the zero part. */ #[default(0.5)] lambd: Scalar }
        |m, o, x| f::hardshrink(x, o.lambd);
    /// 0 within `lambd`, `x` moved by it towards 0 elsewhere.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Softshrink::new().call(&torch::tensor([-2.0, 0.4, 2.0]));
    /// assert_eq!(y.to_vec::<f32>(), [-1.5, 0.0, 1.5]);
    /// ```
    Softshrink SoftshrinkOptions "torch.nn.Softshrink" [repr(lambd)]
        { /** Half the width of the zero part. */ #[default(0.5)] lambd: Scalar }
        |m, o, x| f::softshrink(x, o.lambd);
    /// `x` above the threshold, a value elsewhere.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Threshold::new(1, 20).call(&torch::tensor([0.5, 2.0]));
    /// assert_eq!(y.to_vec::<f32>(), [20.0, 2.0]);
    /// ```
    Threshold ThresholdOptions "torch.nn.Threshold" [include(Inplace), repr(threshold=, value=, inplace=?)]
        { /** Threshold. */ threshold: Scalar, /** Value below it. */ value: Scalar }
        |m, o, x| f::threshold(x, o.threshold, o.value, o.inplace);
    /// The first half of a dimension times the sigmoid of the second.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::GLU::new().call(&torch::tensor([1.0, 2.0, 0.0, 0.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.5, 1.0]);
    /// ```
    GLU GLUOptions "torch.nn.GLU" [repr(dim=)] { /** Dimension to halve. */ #[default(-1)] dim: i64 }
        |m, o, x| f::glu(x, o.dim);
    /// `x / (1 + |x|)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Softsign::new().call(&torch::tensor([-1.0, 0.0, 3.0]));
    /// assert_eq!(y.to_vec::<f32>(), [-0.5, 0.0, 0.75]);
    /// ```
    Softsign SoftsignOptions "torch.nn.Softsign" [] {}
        |m, o, x| f::softsign(x);
    /// `x - tanh(x)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Tanhshrink::new().call(&torch::tensor([0.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0]);
    /// ```
    Tanhshrink TanhshrinkOptions "torch.nn.Tanhshrink" [] {}
        |m, o, x| f::tanhshrink(x);
}
