//! Arithmetic on elements.

use super::{Table, other, promoted, unary_float};
use crate::build::{Arg, Builder, Call, Var, result_type};
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.add", |b, c| add(b, c, false)),
    ("aten.__add__", |b, c| add(b, c, false)),
    ("aten.sub", |b, c| add(b, c, true)),
    ("aten.subtract", |b, c| add(b, c, true)),
    ("aten.rsub", rsub),
    ("aten.mul", |b, c| logical_or(b, c, "Mul", "And")),
    ("aten.multiply", |b, c| logical_or(b, c, "Mul", "And")),
    ("aten.div", div),
    ("aten.divide", div),
    ("aten.true_divide", div),
    ("aten.floor_divide", |b, c| {
        let (x, y) = promoted(b, c)?;
        Ok(floor_divide(b, &x, &y)?.into())
    }),
    ("aten.remainder", |b, c| {
        let (x, y) = promoted(b, c)?;
        Ok(remainder(b, &x, &y)?.into())
    }),
    ("aten.fmod", |b, c| {
        let (x, y) = promoted(b, c)?;
        Ok(fmod(b, &x, &y)?.into())
    }),
    ("aten.pow", pow),
    ("aten.float_power", pow),
    ("aten.maximum", |b, c| logical_or(b, c, "Max", "Or")),
    ("aten.minimum", |b, c| logical_or(b, c, "Min", "And")),
    ("aten.fmax", |b, c| skip_nan(b, c, "Max")),
    ("aten.fmin", |b, c| skip_nan(b, c, "Min")),
    ("aten.neg", |b, c| same(b, c, "Neg")),
    ("aten.negative", |b, c| same(b, c, "Neg")),
    ("aten.positive", |_, c| Ok(c.tensor(0, "self")?.into())),
    ("aten.abs", abs),
    ("aten.absolute", abs),
    ("aten.sign", sign),
    ("aten.sgn", sign),
    ("aten.reciprocal", |b, c| unary_float(b, c, "Reciprocal")),
    ("aten.square", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(b.mul(&x, &x)?.into())
    }),
    ("aten.addcmul", |b, c| addc(b, c, "Mul")),
    ("aten.addcdiv", |b, c| addc(b, c, "Div")),
    ("aten.lerp", lerp),
    ("aten.clamp", |b, c| clamp(b, c, 1, Some(2))),
    ("aten.clip", |b, c| clamp(b, c, 1, Some(2))),
    ("aten.clamp_min", |b, c| clamp(b, c, 1, None)),
    ("aten.clamp_max", clamp_max),
    ("aten.ceil", |b, c| rounding(b, c, "Ceil")),
    ("aten.floor", |b, c| rounding(b, c, "Floor")),
    ("aten.round", round),
    ("aten.trunc", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(trunc(b, &x)?.into())
    }),
    ("aten.fix", |b, c| {
        let x = c.tensor(0, "self")?;
        Ok(trunc(b, &x)?.into())
    }),
    ("aten.frac", |b, c| {
        let x = c.tensor(0, "self")?;
        let t = trunc(b, &x)?;
        Ok(b.sub(&x, &t)?.into())
    }),
    ("aten.nan_to_num", nan_to_num),
    ("aten.copysign", copysign),
    ("aten.heaviside", heaviside),
    ("aten.hypot", |b, c| {
        let (x, y) = promoted(b, c)?;
        let (x, y) = (b.mul(&x, &x)?, b.mul(&y, &y)?);
        let sum = b.add(&x, &y)?;
        Ok(b.unary("Sqrt", &sum)?.into())
    }),
    ("aten.bitwise_left_shift", |b, c| shift(b, c, true)),
    ("aten.__lshift__", |b, c| shift(b, c, true)),
    ("aten.bitwise_right_shift", |b, c| shift(b, c, false)),
    ("aten.__rshift__", |b, c| shift(b, c, false)),
    ("aten.gcd", gcd_missing),
    ("aten.lcm", gcd_missing),
    ("prims.convert_element_type", |b, c| {
        let x = c.tensor(0, "a")?;
        let to = c.dtype(1, "dtype")?.unwrap_or(x.dtype());
        Ok(b.cast(&x, to)?.into())
    }),
];

fn gcd_missing(_: &mut Builder, c: &Call) -> Result<Arg> {
    Err(Error::missing(format!("{} as ONNX: it has no operator to make it of", c.target())))
}
fn same(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    Ok(b.unary(op, &x)?.into())
}
fn abs(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    if x.dtype().is_complex() {
        return Ok(b.complex_abs(&x)?.into());
    }
    if x.dtype() == DType::Bool {
        return Ok(x.into());
    }
    Ok(b.unary("Abs", &x)?.into())
}
fn sign(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    if x.dtype() == DType::Bool {
        return Ok(x.into());
    }
    if x.dtype().is_complex() {
        return Ok(b.complex_sign(&x)?.into());
    }
    let s = b.unary("Sign", &x)?;
    if !x.dtype().is_floating() {
        return Ok(s.into());
    }
    // of NaN, PyTorch says 0 and ONNX NaN
    let (zero, ordered) = (b.scalar(0.0, x.dtype())?, b.eq(&x, &x)?);
    Ok(b.choose(&ordered, &s, &zero)?.into())
}
/// `op`; of bools, `logical`.
fn logical_or(b: &mut Builder, c: &Call, op: &str, logical: &str) -> Result<Arg> {
    let (x, y) = promoted(b, c)?;
    if x.dtype().is_complex() && op == "Mul" {
        return Ok(b.complex_mul(&x, &y)?.into());
    }
    let op = if x.dtype() == DType::Bool { logical } else { op };
    if op == "Max" || op == "Min" {
        return Ok(extremum(b, op, &x, &y)?.into());
    }
    Ok(b.pair(op, &x, &y)?.into())
}
/// The larger or smaller; NaN if one of them is.
pub(super) fn extremum(b: &mut Builder, op: &str, x: &Var, y: &Var) -> Result<Var> {
    b.pair(op, x, y)
}
fn skip_nan(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let (x, y) = promoted(b, c)?;
    let m = b.pair(op, &x, &y)?;
    if !x.dtype().is_floating() {
        return Ok(m.into());
    }
    let (xn, yn) = (b.unary_bool("IsNaN", &x)?, b.unary_bool("IsNaN", &y)?);
    let m = b.choose(&xn, &y, &m)?;
    Ok(b.choose(&yn, &x, &m)?.into())
}
fn add(b: &mut Builder, c: &Call, minus: bool) -> Result<Arg> {
    let (x, y) = promoted(b, c)?;
    let y = scaled(b, &y, c.arg(2, "alpha"))?;
    if x.dtype() == DType::Bool {
        return Ok(b.or(&x, &y)?.into());
    }
    if x.dtype().is_complex() {
        let (x, y) = b.complex_operands(&x, &y)?;
        let out = b.pair(if minus { "Sub" } else { "Add" }, &x, &y)?;
        return Ok(out.into());
    }
    Ok(b.pair(if minus { "Sub" } else { "Add" }, &x, &y)?.into())
}
/// The value times a number.
pub(super) fn scaled(b: &mut Builder, v: &Var, by: &Arg) -> Result<Var> {
    match by {
        Arg::None | Arg::Int(1) | Arg::Bool(true) => Ok(v.clone()),
        Arg::Float(x) if *x == 1.0 => Ok(v.clone()),
        by => {
            let by = b.value(by, v.dtype())?;
            b.mul(v, &by)
        }
    }
}
fn rsub(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, y) = promoted(b, c)?;
    let x = scaled(b, &x, c.arg(2, "alpha"))?;
    Ok(b.sub(&y, &x)?.into())
}
fn div(b: &mut Builder, c: &Call) -> Result<Arg> {
    let mode = c.text_or(2, "rounding_mode", "")?.to_string();
    let (x, y) = promoted(b, c)?;
    Ok(match mode.as_str() {
        "floor" => floor_divide(b, &x, &y)?,
        "trunc" if x.dtype().is_floating() => {
            let q = b.div(&x, &y)?;
            trunc(b, &q)?
        }
        "trunc" => b.div(&x, &y)?,
        _ if x.dtype().is_complex() => b.complex_div(&x, &y)?,
        _ => b.div(&x, &y)?,
    }
    .into())
}
/// Division towards minus infinity.
pub(super) fn floor_divide(b: &mut Builder, x: &Var, y: &Var) -> Result<Var> {
    let q = b.div(x, y)?;
    if x.dtype().is_floating() {
        return b.unary("Floor", &q);
    }
    if matches!(x.dtype(), DType::U8 | DType::U16 | DType::U32 | DType::U64) {
        return Ok(q);
    }
    // one less where it was cut off upwards
    let back = b.mul(&q, y)?;
    let exact = b.eq(&back, x)?;
    let inexact = b.not(&exact)?;
    let zero = b.scalar(0.0, x.dtype())?;
    let (xn, yn) = (b.lt(x, &zero)?, b.lt(y, &zero)?);
    let apart = b.xor(&xn, &yn)?;
    let less = b.and(&inexact, &apart)?;
    let less = b.cast(&less, x.dtype())?;
    b.sub(&q, &less)
}
fn fmod(b: &mut Builder, x: &Var, y: &Var) -> Result<Var> {
    let shape = crate::build::broadcast(&x.shape, &y.shape);
    b.node("Mod", &[x, y], vec![Attribute::int("fmod", 1)], x.dtype(), shape)
}
/// The remainder with the divisor's sign.
pub(super) fn remainder(b: &mut Builder, x: &Var, y: &Var) -> Result<Var> {
    if !x.dtype().is_floating() {
        return b.pair("Mod", x, y);
    }
    let r = fmod(b, x, y)?;
    let zero = b.scalar(0.0, x.dtype())?;
    let none = b.eq(&r, &zero)?;
    let some = b.not(&none)?;
    let (rn, yn) = (b.lt(&r, &zero)?, b.lt(y, &zero)?);
    let apart = b.xor(&rn, &yn)?;
    let wrong = b.and(&some, &apart)?;
    let other = b.add(&r, y)?;
    b.choose(&wrong, &other, &r)
}
fn pow(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (a0, a1) = (c.arg(0, "self").clone(), c.arg(1, "exponent").clone());
    let dtype = match c.result_dtype() {
        Some(d) => d,
        None => result_type(&[&a0, &a1])?,
    };
    let x = b.value(&a0, dtype)?;
    let number = match a1 {
        Arg::Int(n) => Some(n as f64),
        Arg::Float(x) => Some(x),
        _ => None,
    };
    match number {
        Some(2.0) => return Ok(b.mul(&x, &x)?.into()),
        Some(1.0) => return Ok(x.into()),
        Some(0.5) if dtype.is_floating() => return Ok(b.unary("Sqrt", &x)?.into()),
        Some(-1.0) if dtype.is_floating() => return Ok(b.unary("Reciprocal", &x)?.into()),
        _ => {}
    }
    let y = b.value(&a1, dtype)?;
    Ok(b.pow(&x, &y)?.into())
}
fn addc(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let dtype = c.result_dtype().unwrap_or(x.dtype());
    let (x, t1, t2) = (b.cast(&x, dtype)?, c.tensor(1, "tensor1")?, c.tensor(2, "tensor2")?);
    let (t1, t2) = (b.cast(&t1, dtype)?, b.cast(&t2, dtype)?);
    let p = b.pair(op, &t1, &t2)?;
    let p = scaled(b, &p, c.arg(3, "value"))?;
    Ok(b.add(&x, &p)?.into())
}
fn lerp(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "end")?);
    let w = b.value(c.arg(2, "weight"), x.dtype())?;
    let d = b.sub(&y, &x)?;
    let d = b.mul(&d, &w)?;
    Ok(b.add(&x, &d)?.into())
}
fn clamp(b: &mut Builder, c: &Call, low: usize, high: Option<usize>) -> Result<Arg> {
    let lo = c.arg(low, "min").clone();
    let hi = high.map_or(Arg::None, |h| c.arg(h, "max").clone());
    clamped(b, c, &lo, &hi)
}
fn clamp_max(b: &mut Builder, c: &Call) -> Result<Arg> {
    clamped(b, c, &Arg::None, &c.arg(1, "max").clone())
}
fn clamped(b: &mut Builder, c: &Call, lo: &Arg, hi: &Arg) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let dtype = match c.result_dtype() {
        Some(d) => d,
        None => result_type(&[&Arg::Var(x.clone()), lo, hi])?,
    };
    let mut x = b.cast(&x, dtype)?;
    let constants = |a: &Arg| matches!(a, Arg::None | Arg::Int(_) | Arg::Float(_));
    // ONNX's Clip does not say what it does with lower bounds above the upper: constants are in order here
    let in_order = match (lo, hi) {
        (Arg::Int(l), Arg::Int(h)) => l <= h,
        (Arg::Float(l), Arg::Float(h)) => l <= h,
        _ => constants(lo) && constants(hi),
    };
    if in_order && dtype.is_floating() {
        let mut bound = |a: &Arg| match a {
            Arg::None => Ok(Var::none()),
            a => b.value(a, dtype),
        };
        let (l, h) = (bound(lo)?, bound(hi)?);
        let shape = x.shape.clone();
        return Ok(b.node("Clip", &[&x, &l, &h], Vec::new(), dtype, shape)?.into());
    }
    if !lo.is_none() {
        let l = b.value(lo, dtype)?;
        x = extremum(b, "Max", &x, &l)?;
    }
    if !hi.is_none() {
        let h = b.value(hi, dtype)?;
        x = extremum(b, "Min", &x, &h)?;
    }
    Ok(x.into())
}
fn rounding(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    Ok(if x.dtype().is_floating() { b.unary(op, &x)? } else { x }.into())
}
fn round(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    if !x.dtype().is_floating() {
        return Ok(x.into());
    }
    let digits = c.int_or(1, "decimals", 0)?;
    if digits == 0 {
        return Ok(b.unary("Round", &x)?.into());
    }
    let scale = 10f64.powi(digits.unsigned_abs() as i32);
    let up = if digits > 0 { b.mul_number(&x, scale)? } else { b.div_number(&x, scale)? };
    let r = b.unary("Round", &up)?;
    Ok(if digits > 0 { b.div_number(&r, scale)? } else { b.mul_number(&r, scale)? }.into())
}
/// Towards zero.
pub(super) fn trunc(b: &mut Builder, x: &Var) -> Result<Var> {
    if !x.dtype().is_floating() {
        return Ok(x.clone());
    }
    let zero = b.scalar(0.0, x.dtype())?;
    let (down, up, minus) = (b.unary("Floor", x)?, b.unary("Ceil", x)?, b.lt(x, &zero)?);
    b.choose(&minus, &up, &down)
}
fn nan_to_num(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = x.dtype();
    if !d.is_floating() {
        return Ok(x.into());
    }
    let info = flambeau_core::finfo(d)?;
    let nan = c.float_or(1, "nan", 0.0)?;
    let (up, down) = (c.float_or(2, "posinf", info.max)?, c.float_or(3, "neginf", info.min)?);
    let (nan, up, down) = (b.scalar(nan, d)?, b.scalar(up, d)?, b.scalar(down, d)?);
    let is_nan = b.unary_bool("IsNaN", &x)?;
    let y = b.choose(&is_nan, &nan, &x)?;
    let (inf, minus) = (b.scalar(f64::INFINITY, d)?, b.scalar(f64::NEG_INFINITY, d)?);
    let (p, n) = (b.eq(&x, &inf)?, b.eq(&x, &minus)?);
    let y = b.choose(&p, &up, &y)?;
    Ok(b.choose(&n, &down, &y)?.into())
}
/// Whether the sign bit is set, for zeros too.
pub(super) fn signbit(b: &mut Builder, x: &Var) -> Result<Var> {
    let zero = b.scalar(0.0, x.dtype())?;
    let minus = b.lt(x, &zero)?;
    if !x.dtype().is_floating() {
        return Ok(minus);
    }
    let (r, is_zero) = (b.unary("Reciprocal", x)?, b.eq(x, &zero)?);
    let below = b.lt(&r, &zero)?;
    let minus_zero = b.and(&below, &is_zero)?;
    b.or(&minus, &minus_zero)
}
fn copysign(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, y) = promoted(b, c)?;
    let (a, s) = (b.unary("Abs", &x)?, signbit(b, &y)?);
    let n = b.neg(&a)?;
    Ok(b.choose(&s, &n, &a)?.into())
}
fn heaviside(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let v = other(b, c, 1, "values", x.dtype())?;
    let (zero, one) = (b.scalar(0.0, x.dtype())?, b.scalar(1.0, x.dtype())?);
    let (is_zero, minus) = (b.eq(&x, &zero)?, b.lt(&x, &zero)?);
    let y = b.choose(&minus, &zero, &one)?;
    Ok(b.choose(&is_zero, &v, &y)?.into())
}
fn shift(b: &mut Builder, c: &Call, left: bool) -> Result<Arg> {
    let (x, n) = promoted(b, c)?;
    let wide = DType::I64;
    let (wx, wn, two) = (b.cast(&x, wide)?, b.cast(&n, wide)?, b.int(2)?);
    let by = b.pow(&two, &wn)?;
    let y = if left { b.mul(&wx, &by)? } else { floor_divide(b, &wx, &by)? };
    Ok(b.cast(&y, x.dtype())?.into())
}
