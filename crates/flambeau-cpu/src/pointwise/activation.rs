//! Activations and their derivatives. A `*_BACKWARD` takes the upstream gradient `g` first.

use crate::num::real::{Cx, Real};
use crate::pointwise;

const SELU_ALPHA: f64 = 1.6732632423543772848170429916717;
const SELU_SCALE: f64 = 1.0507009873554804934193349852946;
const SQRT_2_PI: f64 = 0.79788456080286535587989211986876;
const GELU_CUBE: f64 = 0.044715;

#[inline(always)]
fn elu<V: Real>(x: V, alpha: V, scale: V, input_scale: V) -> V {
    V::pick(x < V::zero(), (x * input_scale).expm1() * (alpha * scale), x * scale)
}
/// max(x, 0) that keeps NaN.
#[inline(always)]
fn relu<V: Real>(x: V) -> V {
    x.at_least(V::zero())
}
#[inline(always)]
fn softplus<V: Real>(x: V, beta: V, threshold: V) -> V {
    V::pick(x * beta > threshold, x, (x * beta).exp().log1p() / beta)
}
/// `x + 3` within 0..=6.
#[inline(always)]
fn plus3_0_6<V: Real>(x: V) -> V {
    (x + V::c(3.0)).at_least(V::zero()).at_most(V::c(6.0))
}

pointwise! {
    /// 1 / (1 + e^-x).
    SIGMOID = "sigmoid"(x) cost 400 { float_sigmoid => x.sigmoid(), complex => Cx::c(1.0) / (Cx::c(1.0) + super::complex_math::complex_exp(-x)) }
    /// log(sigmoid(x)).
    LOG_SIGMOID = "log_sigmoid"(x) cost 900 { float => x.minimum(V::zero()) - (-x.abs()).exp().log1p() }
    /// log(1 + exp(beta x)) / beta, and x where beta x > threshold.
    SOFTPLUS = "softplus"(x; beta, threshold) cost 900 { float => softplus(x, beta, threshold) }
    /// max(x, 0).
    RELU = "relu"(x) cost 50 { float => relu(x), int => if x < V::ZERO { V::ZERO } else { x } }
    /// x, or slope * x below 0.
    LEAKY_RELU = "leaky_relu"(x; slope) cost 60 { float => V::pick(x > V::zero(), x, x * slope) }
    /// scale * x, and scale * alpha * (exp(input_scale x) - 1) below 0.
    ELU = "elu"(x; alpha, scale, input_scale) cost 600 { float => elu(x, alpha, scale, input_scale) }
    /// Scaled elu with the self-normalising constants.
    SELU = "selu"(x) cost 600 { float => elu(x, V::c(SELU_ALPHA), V::c(SELU_SCALE), V::one()) }
    /// Elu that is smooth for every alpha: alpha * (exp(x / alpha) - 1) below 0.
    CELU = "celu"(x; alpha) cost 600 { float => elu(x, alpha, V::one(), alpha.recip()) }
    /// x times the normal distribution function.
    GELU = "gelu"(x) cost 350 { float_gelu => x * x.normal_cdf() }
    /// Gelu by a tanh, written as a sigmoid: half of 1 + tanh(y) is sigmoid(2 y), which is cheaper and loses no digits below 0.
    GELU_TANH = "gelu_tanh"(x) cost 450 {
        float_gelu_tanh => x * (V::c(2.0 * SQRT_2_PI) * (x + V::c(GELU_CUBE) * x * x * x)).sigmoid(),
    }
    /// x sigmoid(x).
    SILU = "silu"(x) cost 450 {
        float_silu => x / (V::one() + (-x).exp()),
        complex => x / (Cx::c(1.0) + super::complex_math::complex_exp(-x)),
    }
    /// x tanh(softplus(x)).
    MISH = "mish"(x) cost 1300 { float => x * x.exp().log1p().tanh() }
    /// x within lo..=hi.
    HARDTANH = "hardtanh"(x; lo, hi) cost 60 { float => x.maximum(lo).minimum(hi), int => x.max(lo).min(hi) }
    /// (x + 3) / 6 within 0..=1.
    HARDSIGMOID = "hardsigmoid"(x) cost 60 { float => plus3_0_6(x) * V::c(1.0 / 6.0) }
    /// x times hardsigmoid.
    HARDSWISH = "hardswish"(x) cost 60 { float => x * plus3_0_6(x) * V::c(1.0 / 6.0) }
    /// x, and 0 within -lambda..=lambda.
    HARDSHRINK = "hardshrink"(x; lambda) cost 60 {
        float => V::pick(x >= -lambda && x <= lambda, V::zero(), x),
    }
    /// x moved towards 0 by lambda.
    SOFTSHRINK = "softshrink"(x; lambda) cost 60 {
        float => V::pick(x > lambda, x - lambda, V::pick(x < -lambda, x + lambda, x * V::zero())),
    }
    /// x where x > threshold, else value.
    THRESHOLD = "threshold"(x; threshold, value) cost 60 {
        float => V::pick(x <= threshold, value, x), int => if x <= threshold { value } else { x },
    }

    /// Of gelu, from x.
    GELU_BACKWARD = "gelu_backward"(g, x) cost 700 {
        float => {
            let pdf = (V::c(-0.5) * x * x).exp() * V::c(SQRT_2_PI * 0.5);
            g * (x.normal_cdf() + x * pdf)
        },
    }
    /// Of tanh gelu, from x.
    GELU_TANH_BACKWARD = "gelu_tanh_backward"(g, x) cost 600 {
        float => {
            let s = (V::c(2.0 * SQRT_2_PI) * (x + V::c(GELU_CUBE) * x * x * x)).sigmoid();
            let slope = V::c(2.0 * SQRT_2_PI) * (V::one() + V::c(3.0 * GELU_CUBE) * x * x);
            g * (s + x * s * (V::one() - s) * slope)
        },
    }
    /// Of silu, from x.
    SILU_BACKWARD = "silu_backward"(g, x) cost 500 {
        float => { let s = x.sigmoid(); g * s * (V::one() + x * (V::one() - s)) },
    }
    /// Of mish, from x.
    MISH_BACKWARD = "mish_backward"(g, x) cost 1600 {
        float => {
            let (s, t) = (x.sigmoid(), x.exp().log1p().tanh());
            g * (t + x * s * (V::one() - t * t))
        },
    }
    /// Of elu, from x.
    ELU_BACKWARD = "elu_backward"(g, x; alpha, scale, input_scale) cost 500 {
        float => V::pick(x <= V::zero(), g * input_scale * alpha * scale * (x * input_scale).exp(), g * scale),
    }
    /// Of leaky relu.
    LEAKY_RELU_BACKWARD = "leaky_relu_backward"(g, x; slope) cost 80 {
        float => V::pick(x > V::zero(), g, g * slope),
    }
    /// g where x > threshold, else 0; the derivative of relu too.
    THRESHOLD_BACKWARD = "threshold_backward"(g, x; threshold) cost 80 {
        float => V::pick(x <= threshold, V::zero(), g), int => if x <= threshold { V::ZERO } else { g },
    }
    /// g strictly within lo..hi, else 0.
    HARDTANH_BACKWARD = "hardtanh_backward"(g, x; lo, hi) cost 80 {
        float => V::pick(x <= lo || x >= hi, V::zero(), g),
    }
    /// Of hardsigmoid.
    HARDSIGMOID_BACKWARD = "hardsigmoid_backward"(g, x) cost 80 {
        float => V::pick(x > V::c(-3.0) && x < V::c(3.0), g * V::c(1.0 / 6.0), V::zero()),
    }
    /// Of hardswish.
    HARDSWISH_BACKWARD = "hardswish_backward"(g, x) cost 80 {
        float => V::pick(x <= V::c(-3.0), V::zero(), V::pick(x < V::c(3.0), g * (x / V::c(3.0) + V::c(0.5)), g)),
    }
    /// Of hardshrink and softshrink: 0 within -lambda..=lambda, else g.
    SHRINK_BACKWARD = "shrink_backward"(g, x; lambda) cost 80 {
        float => V::pick(x >= -lambda && x <= lambda, V::zero(), g),
    }
    /// Of log sigmoid, from x.
    LOG_SIGMOID_BACKWARD = "log_sigmoid_backward"(g, x) cost 500 {
        float => {
            let z = (-x.abs()).exp();
            let down = x < V::zero();
            let (deriv, sign) = (V::pick(down, V::one(), V::zero()), V::pick(down, V::one(), V::c(-1.0)));
            g * (deriv - sign * (z / (V::one() + z)))
        },
    }
}
