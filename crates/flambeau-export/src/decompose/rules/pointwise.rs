//! Operators element by element, conversions, comparisons.

use super::super::build::{Builder, Call, Item, op};
use super::creation::{filled, scalar_like};
use flambeau_core::{DType, Result, Value};

/// `x * n`, which is `x` where `n` is 1.
fn scaled(b: &mut Builder, x: &Item, n: Option<Item>) -> Result<Item> {
    match n {
        Some(n) if !matches!(n.value, Value::Int(1)) && !matches!(n.value, Value::Float(1.0)) => {
            Ok(op!(b, "mul.Tensor", x, n))
        }
        _ => Ok(x.clone()),
    }
}
/// A copy in another dtype; the tensor itself where it has it.
pub(super) fn converted(b: &mut Builder, x: &Item, to: DType) -> Result<Item> {
    if x.dtype()? == to {
        return Ok(x.clone());
    }
    Ok(op!(b, "_to_copy.default", x; dtype = to))
}
/// Where a condition holds one, else the other; numbers become tensors.
pub(super) fn chosen(b: &mut Builder, cond: &Item, x: &Item, y: &Item) -> Result<Item> {
    let like = if x.tensor().is_ok() { x.clone() } else { y.clone() };
    let number = |b: &mut Builder, v: &Item| -> Result<Item> {
        match &v.value {
            Value::Tensor(_) => Ok(v.clone()),
            _ if like.tensor().is_ok() => scalar_like(b, v, &like),
            _ => Ok(op!(b, "scalar_tensor.default", v)),
        }
    };
    let (x, y) = (number(b, x)?, number(b, y)?);
    Ok(op!(b, "where.self", cond, &x, &y))
}
/// The places above or below a diagonal.
pub(super) fn triangle(b: &mut Builder, x: &Item, diagonal: i64, upper: bool) -> Result<Item> {
    let (rows, columns) = (x.size(-2)?, x.size(-1)?);
    let column = op!(b, "arange.start_step", 0, columns);
    let column = op!(b, "unsqueeze.default", &column, -2);
    let row = op!(b, "arange.start_step", 0, rows);
    let row = op!(b, "unsqueeze.default", &row, -1);
    let difference = op!(b, "sub.Tensor", &column, &row);
    let inside = op!(b, if upper { "ge.Scalar" } else { "le.Scalar" }, &difference, diagonal);
    if x.dtype()? == DType::Bool {
        return Ok(op!(b, "logical_and.default", &inside, x));
    }
    let zero = scalar_like(b, &Item::from(0), x)?;
    Ok(op!(b, "where.self", &inside, x, &zero))
}

pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "lift_fresh_copy.default" => op!(b, "clone.default", &x),
        "resolve_conj.default" if x.tensor()?.is_conj() => op!(b, "clone.default", &x),
        "item.default" => return Ok(Some(b.op("_local_scalar_dense.default", vec![x], Vec::new())?)),
        "to.dtype" | "to.dtype_layout" | "type_as.default" | "to.other" => {
            let to = match c.get(1, "dtype").or_else(|| c.get(1, "other")).map(|i| i.value.clone()) {
                Some(Value::DType(d)) => d,
                Some(Value::Tensor(ref t)) => t.dtype(),
                _ => return Ok(None),
            };
            if c.flag(3, "copy", false) && x.dtype()? == to {
                return Ok(Some(op!(b, "clone.default", &x)));
            }
            converted(b, &x, to)?
        }
        "rsub.Scalar" | "rsub.Tensor" => {
            let scaled_x = scaled(b, &x, c.get(2, "alpha"))?;
            op!(b, "sub.Tensor", c.need(1, "other")?, &scaled_x)
        }
        "addcmul.default" => {
            let part = scaled(b, &c.need(1, "tensor1")?, c.get(3, "value"))?;
            let product = op!(b, "mul.Tensor", &part, c.need(2, "tensor2")?);
            op!(b, "add.Tensor", &x, &product)
        }
        "addcdiv.default" => {
            let part = scaled(b, &c.need(1, "tensor1")?, c.get(3, "value"))?;
            let quotient = op!(b, "div.Tensor", &part, c.need(2, "tensor2")?);
            op!(b, "add.Tensor", &x, &quotient)
        }
        "lerp.Scalar" | "lerp.Tensor" => {
            let (end, weight) = (c.need(1, "end")?, c.need(2, "weight")?);
            let weight = match weight.value {
                Value::Tensor(_) => weight,
                _ => {
                    let dtype = x.dtype()?;
                    filled(b, Vec::new(), weight, Some(dtype))?
                }
            };
            let size = op!(b, "abs.default", &weight);
            let far = op!(b, "ge.Scalar", &size, 0.5);
            let less = op!(b, "sub.Tensor", &weight, 1);
            let factor = op!(b, "where.self", &far, &less, &weight);
            let base = op!(b, "where.self", &far, &end, &x);
            let way = op!(b, "sub.Tensor", &end, &x);
            let part = op!(b, "mul.Tensor", &factor, &way);
            op!(b, "add.Tensor", &part, &base)
        }
        "floor_divide.default" | "floor_divide.Scalar" => {
            op!(b, "div.Tensor_mode", &x, c.need(1, "other")?; rounding_mode = "floor")
        }
        "square.default" => op!(b, "pow.Tensor_Scalar", &x, 2),
        "frac.default" => {
            let whole = op!(b, "trunc.default", &x);
            op!(b, "sub.Tensor", &x, &whole)
        }
        "nan_to_num.default" => {
            let (least, most) = limits(x.dtype()?);
            let of = |name, at, default: f64| c.get(at, name).unwrap_or_else(|| default.into());
            let (nan, high, low) = (of("nan", 1, 0.0), of("posinf", 2, most), of("neginf", 3, least));
            let is = op!(b, "isnan.default", &x);
            let nan = scalar_like(b, &nan, &x)?;
            let mut out = op!(b, "where.self", &is, &nan, &x);
            for (at, to) in [(f64::NEG_INFINITY, low), (f64::INFINITY, high)] {
                let is = op!(b, "eq.Scalar", &x, at);
                let to = scalar_like(b, &to, &x)?;
                out = op!(b, "where.self", &is, &to, &out);
            }
            out
        }
        "clamp_min.default" => op!(b, "clamp.default", &x, c.need(1, "min")?),
        "clamp_max.default" => op!(b, "clamp.default", &x, Item::none(), c.need(1, "max")?),
        "clamp_min.Tensor" => op!(b, "maximum.default", &x, c.need(1, "min")?),
        "clamp_max.Tensor" => op!(b, "minimum.default", &x, c.need(1, "max")?),
        "masked_fill.Scalar" => {
            let v = scalar_like(b, &c.need(2, "value")?, &x)?;
            op!(b, "where.self", c.need(1, "mask")?, &v, &x)
        }
        "masked_fill.Tensor" => op!(b, "where.self", c.need(1, "mask")?, c.need(2, "value")?, &x),
        "where.ScalarOther" | "where.ScalarSelf" | "where.Scalar" => {
            chosen(b, &x, &c.need(1, "self")?, &c.need(2, "other")?)?
        }
        "__and__.Tensor" | "__or__.Tensor" | "__xor__.Tensor" | "__and__.Scalar" | "__or__.Scalar"
        | "__xor__.Scalar" => {
            let name = format!("bitwise_{}", c.name.replace("__", ""));
            op!(b, &name, &x, c.need(1, "other")?)
        }
        "triu.default" => triangle(b, &x, c.int(1, "diagonal", 0), true)?,
        "tril.default" => triangle(b, &x, c.int(1, "diagonal", 0), false)?,
        "softplus.default" => softplus(b, &x, c.float(1, "beta", 1.0), c.float(2, "threshold", 20.0))?,
        _ => return Ok(None),
    }))
}
/// The smallest and the largest number of a dtype.
fn limits(d: DType) -> (f64, f64) {
    let most = match d {
        DType::F16 => 65504.0,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    };
    (-most, most)
}
/// `log(1 + exp(beta x)) / beta`, and the number itself above a threshold.
pub(super) fn softplus(b: &mut Builder, x: &Item, beta: f64, threshold: f64) -> Result<Item> {
    let one = beta == 1.0;
    let scaled = if one { x.clone() } else { op!(b, "mul.Tensor", x, beta) };
    let e = op!(b, "exp.default", &scaled);
    let log = op!(b, "log1p.default", &e);
    let log = if one { log } else { op!(b, "div.Tensor", &log, beta) };
    // PyTorch writes whole numbers as such
    let limit = if threshold.fract() == 0.0 { Item::from(threshold as i64) } else { threshold.into() };
    let above = op!(b, "gt.Scalar", &scaled, limit);
    Ok(op!(b, "where.self", &above, x, &log))
}
