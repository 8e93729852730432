//! Activations, softmax, dropout.

use super::Table;
use super::functions::float;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.relu", |b, c| {
        let x = c.tensor(0, "self")?;
        if x.dtype().is_floating() {
            return Ok(b.unary("Relu", &x)?.into());
        }
        let zero = b.scalar(0.0, x.dtype())?;
        Ok(b.max(&x, &zero)?.into())
    }),
    ("aten.relu6", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(clip(b, &x, 0.0, 6.0)?.into())
    }),
    ("aten.hardtanh", |b, c| {
        let x = c.tensor(0, "self")?;
        let (lo, hi) = (c.float_or(1, "min_val", -1.0)?, c.float_or(2, "max_val", 1.0)?);
        Ok(clip(b, &x, lo, hi)?.into())
    }),
    ("aten.leaky_relu", |b, c| {
        let x = c.tensor(0, "self")?;
        let slope = c.float_or(1, "negative_slope", 0.01)?;
        if x.dtype() != DType::F64 {
            return Ok(b.unary_with("LeakyRelu", &x, vec![Attribute::float("alpha", slope)])?.into());
        }
        let low = b.mul_number(&x, slope)?;
        negative_or(b, &x, &low, &x)
    }),
    ("aten.rrelu", |b, c| {
        let x = c.tensor(0, "self")?;
        if c.bool_or(3, "training", false)? {
            return Err(Error::missing("rrelu in training as ONNX"));
        }
        let slope = (c.float_or(1, "lower", 0.125)? + c.float_or(2, "upper", 1.0 / 3.0)?) / 2.0;
        let low = b.mul_number(&x, slope)?;
        negative_or(b, &x, &low, &x)
    }),
    ("aten.prelu", |b, c| {
        let (x, w) = (c.tensor(0, "self")?, c.tensor(1, "weight")?);
        // weights are of channels, the second dimension
        let w = if w.numel() == Some(1) {
            b.reshape_to(&w, &[])?
        } else if x.rank() > 2 {
            b.unsqueeze(&w, &(1..x.rank() as i64 - 1).collect::<Vec<_>>())?
        } else {
            w
        };
        let low = b.mul(&x, &w)?;
        negative_or(b, &x, &low, &x)
    }),
    ("aten.elu", |b, c| {
        let x = c.tensor(0, "self")?;
        elu(
            b,
            &x,
            c.float_or(1, "alpha", 1.0)?,
            c.float_or(2, "scale", 1.0)?,
            c.float_or(3, "input_scale", 1.0)?,
        )
    }),
    ("aten.selu", |b, c| {
        let x = c.tensor(0, "self")?;
        elu(b, &x, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0)
    }),
    ("aten.celu", |b, c| {
        let x = c.tensor(0, "self")?;
        let a = c.float_or(1, "alpha", 1.0)?;
        elu(b, &x, a, 1.0, 1.0 / a)
    }),
    ("aten.gelu", gelu),
    ("aten.silu", |b, c| {
        let x = float(b, c)?;
        let s = b.unary("Sigmoid", &x)?;
        Ok(b.mul(&x, &s)?.into())
    }),
    ("aten.mish", |b, c| {
        let x = float(b, c)?;
        let s = softplus(b, &x, 1.0, 20.0)?;
        let t = b.unary("Tanh", &s)?;
        Ok(b.mul(&x, &t)?.into())
    }),
    ("aten.softplus", |b, c| {
        let x = float(b, c)?;
        Ok(softplus(b, &x, c.float_or(1, "beta", 1.0)?, c.float_or(2, "threshold", 20.0)?)?.into())
    }),
    ("aten.softshrink", |b, c| {
        let x = c.tensor(0, "self")?;
        let l = c.float_or(1, "lambd", 0.5)?;
        let (lo, hi, zero) = (b.scalar(-l, x.dtype())?, b.scalar(l, x.dtype())?, b.scalar(0.0, x.dtype())?);
        let (down, up) = (b.sub(&x, &hi)?, b.add(&x, &hi)?);
        let (above, below) = (b.gt(&x, &hi)?, b.lt(&x, &lo)?);
        let rest = b.choose(&below, &up, &zero)?;
        Ok(b.choose(&above, &down, &rest)?.into())
    }),
    ("aten.hardshrink", |b, c| {
        let x = c.tensor(0, "self")?;
        let l = b.scalar(c.float_or(1, "lambd", 0.5)?, x.dtype())?;
        let (a, zero) = (b.unary("Abs", &x)?, b.scalar(0.0, x.dtype())?);
        let near = b.le(&a, &l)?;
        Ok(b.choose(&near, &zero, &x)?.into())
    }),
    ("aten.hardsigmoid", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(hardsigmoid(b, &x)?.into())
    }),
    ("aten.hardswish", |b, c| {
        let x = c.tensor(0, "self")?;
        let h = hardsigmoid(b, &x)?;
        Ok(b.mul(&x, &h)?.into())
    }),
    ("aten.threshold", |b, c| {
        let x = c.tensor(0, "self")?;
        let (t, v) = (
            b.value(&c.arg(1, "threshold").clone(), x.dtype())?,
            b.value(&c.arg(2, "value").clone(), x.dtype())?,
        );
        let above = b.gt(&x, &t)?;
        Ok(b.choose(&above, &x, &v)?.into())
    }),
    ("aten.glu", |b, c| {
        let x = c.tensor(0, "self")?;
        let d = c.axis(1, "dim", Some(-1), x.rank())?;
        let whole = b.size(&x, d)?;
        let half = b.dim_div(&whole, &Dim::Int(2))?;
        let parts = b.split(&x, &[half.clone(), half], d)?;
        let g = b.unary("Sigmoid", &parts[1])?;
        Ok(b.mul(&parts[0], &g)?.into())
    }),
    ("aten.log_sigmoid", |b, c| {
        let x = float(b, c)?;
        Ok(log_sigmoid(b, &x)?.into())
    }),
    ("aten.log_sigmoid_forward", |b, c| {
        let x = float(b, c)?;
        Ok(Arg::List(vec![log_sigmoid(b, &x)?.into(), Arg::None]))
    }),
    ("aten.softmax", |b, c| softmax(b, c, "Softmax")),
    ("aten._softmax", |b, c| softmax(b, c, "Softmax")),
    ("aten._safe_softmax", |b, c| {
        let Arg::Var(y) = softmax(b, c, "Softmax")? else {
            return Err(Error::runtime("softmax gives a tensor"));
        };
        // rows of nothing but minus infinity are zeros
        let (nan, zero) = (b.unary_bool("IsNaN", &y)?, b.scalar(0.0, y.dtype())?);
        Ok(b.choose(&nan, &zero, &y)?.into())
    }),
    ("aten.log_softmax", |b, c| softmax(b, c, "LogSoftmax")),
    ("aten._log_softmax", |b, c| softmax(b, c, "LogSoftmax")),
    ("aten.special_softmax", |b, c| softmax(b, c, "Softmax")),
    ("aten.special_log_softmax", |b, c| softmax(b, c, "LogSoftmax")),
    ("aten.dropout", |b, c| dropout(b, c, false)),
    ("aten.feature_dropout", |b, c| dropout(b, c, true)),
    ("aten.alpha_dropout", alpha_dropout),
    ("aten.feature_alpha_dropout", alpha_dropout),
    ("aten.native_dropout", |b, c| {
        let x = c.tensor(0, "input")?;
        let p = c.float_or(1, "p", 0.5)?;
        if !c.bool_or(2, "train", true)? {
            let one = b.scalar(1.0, DType::Bool)?;
            let to = b.sizes(&x)?;
            return Ok(vec![x, b.expand(&one, &to)?].into());
        }
        let (y, m) = dropped(b, &x, p)?;
        Ok(vec![y, m].into())
    }),
];

fn clip(b: &mut Builder, x: &Var, lo: f64, hi: f64) -> Result<Var> {
    let (lo, hi) = (b.scalar(lo, x.dtype())?, b.scalar(hi, x.dtype())?);
    b.node("Clip", &[x, &lo, &hi], Vec::new(), x.dtype(), x.shape.clone())
}
/// `low` where the operand is negative, `high` elsewhere.
fn negative_or(b: &mut Builder, x: &Var, low: &Var, high: &Var) -> Result<Arg> {
    let zero = b.scalar(0.0, x.dtype())?;
    let above = b.ge(x, &zero)?;
    Ok(b.choose(&above, high, low)?.into())
}
/// `scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))`
fn elu(b: &mut Builder, x: &Var, alpha: f64, scale: f64, input_scale: f64) -> Result<Arg> {
    if scale == 1.0 && input_scale == 1.0 && x.dtype() != DType::F64 {
        return Ok(b.unary_with("Elu", x, vec![Attribute::float("alpha", alpha)])?.into());
    }
    let zero = b.scalar(0.0, x.dtype())?;
    // the exponential of large numbers is not wanted: it would be infinite in the branch that is not taken
    let low = b.min(x, &zero)?;
    let low = if input_scale == 1.0 { low } else { b.mul_number(&low, input_scale)? };
    let e = b.unary("Exp", &low)?;
    let e = b.add_number(&e, -1.0)?;
    let e = b.mul_number(&e, alpha * scale)?;
    let high = if scale == 1.0 { x.clone() } else { b.mul_number(x, scale)? };
    let above = b.gt(x, &zero)?;
    Ok(b.choose(&above, &high, &e)?.into())
}
fn gelu(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = float(b, c)?;
    let tanh = c.text_or(1, "approximate", "none")? == "tanh";
    if b.opset() >= 20 && x.dtype() != DType::F64 {
        let way = if tanh { "tanh" } else { "none" };
        return Ok(b.unary_with("Gelu", &x, vec![Attribute::text("approximate", way)])?.into());
    }
    let inner = if tanh {
        let cube = b.mul(&x, &x)?;
        let cube = b.mul(&cube, &x)?;
        let t = b.mul_number(&cube, 0.044_715)?;
        let t = b.add(&x, &t)?;
        let t = b.mul_number(&t, (2.0 / std::f64::consts::PI).sqrt())?;
        b.unary("Tanh", &t)?
    } else {
        let y = b.mul_number(&x, std::f64::consts::FRAC_1_SQRT_2)?;
        b.unary("Erf", &y)?
    };
    let inner = b.add_number(&inner, 1.0)?;
    let half = b.mul_number(&x, 0.5)?;
    Ok(b.mul(&half, &inner)?.into())
}
/// `log(1 + exp(beta * x)) / beta`, without overflow; the operand itself above the threshold.
fn softplus(b: &mut Builder, x: &Var, beta: f64, threshold: f64) -> Result<Var> {
    let z = if beta == 1.0 { x.clone() } else { b.mul_number(x, beta)? };
    let zero = b.scalar(0.0, x.dtype())?;
    let a = b.unary("Abs", &z)?;
    let n = b.neg(&a)?;
    let e = b.unary("Exp", &n)?;
    let e = b.add_number(&e, 1.0)?;
    let l = b.unary("Log", &e)?;
    let top = b.max(&z, &zero)?;
    let s = b.add(&l, &top)?;
    let s = if beta == 1.0 { s } else { b.div_number(&s, beta)? };
    let t = b.scalar(threshold, x.dtype())?;
    let over = b.gt(&z, &t)?;
    b.choose(&over, x, &s)
}
pub(super) fn log_sigmoid(b: &mut Builder, x: &Var) -> Result<Var> {
    let n = b.neg(x)?;
    let s = softplus(b, &n, 1.0, f64::INFINITY)?;
    b.neg(&s)
}
fn hardsigmoid(b: &mut Builder, x: &Var) -> Result<Var> {
    let y = b.add_number(x, 3.0)?;
    let y = clip(b, &y, 0.0, 6.0)?;
    b.div_number(&y, 6.0)
}
fn softmax(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = float(b, c)?;
    let d = c.axis(1, "dim", None, x.rank())?;
    Ok(b.softmax(op, &x, d)?.into())
}
/// Elements dropped at random, the others scaled up; and which stay.
fn dropped(b: &mut Builder, x: &Var, p: f64) -> Result<(Var, Var)> {
    let (ratio, on) = (b.scalar(p, DType::F32)?, b.scalar(1.0, DType::Bool)?);
    let out = b.nodes(
        "Dropout",
        &[x, &ratio, &on],
        Vec::new(),
        &[(x.dtype(), x.shape.clone()), (DType::Bool, x.shape.clone())],
    )?;
    match <[Var; 2]>::try_from(out) {
        Ok([y, m]) => Ok((y, m)),
        Err(_) => Err(Error::runtime("Dropout has two results")),
    }
}
fn dropout(b: &mut Builder, c: &Call, channels: bool) -> Result<Arg> {
    let x = c.tensor(0, "input")?;
    let p = c.float_or(1, "p", 0.5)?;
    if !c.bool_or(2, "train", false)? || p == 0.0 {
        return Ok(x.into());
    }
    if !channels {
        return Ok(dropped(b, &x, p)?.0.into());
    }
    // one draw for a channel
    let mut to = b.sizes(&x)?;
    to.iter_mut().skip(2).for_each(|d| *d = Dim::Int(1));
    let one = b.scalar(1.0, x.dtype())?;
    let ones = b.full(&to, &one)?;
    let (keep, _) = dropped(b, &ones, p)?;
    Ok(b.mul(&x, &keep)?.into())
}
fn alpha_dropout(_: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "input")?;
    if c.bool_or(2, "train", false)? {
        return Err(Error::missing("alpha_dropout in training as ONNX"));
    }
    Ok(x.into())
}
