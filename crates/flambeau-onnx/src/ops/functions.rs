//! Functions of single numbers: exponentials, logarithms, trigonometry, special functions.

use super::{Table, promoted, unary_float};
use crate::build::{Arg, Builder, Call, Var};
use flambeau_core::{DType, Result};
use std::f64::consts::{LN_2, LN_10, PI};

pub(super) const TABLE: Table = &[
    ("aten.exp", |b, c| unary_float(b, c, "Exp")),
    ("aten.log", |b, c| unary_float(b, c, "Log")),
    ("aten.sqrt", |b, c| unary_float(b, c, "Sqrt")),
    ("aten.sin", |b, c| unary_float(b, c, "Sin")),
    ("aten.cos", |b, c| unary_float(b, c, "Cos")),
    ("aten.tan", |b, c| quotient_of(b, c, "Tan", "Sin", "Cos")),
    ("aten.asin", |b, c| unary_float(b, c, "Asin")),
    ("aten.arcsin", |b, c| unary_float(b, c, "Asin")),
    ("aten.acos", |b, c| unary_float(b, c, "Acos")),
    ("aten.arccos", |b, c| unary_float(b, c, "Acos")),
    ("aten.atan", |b, c| unary_float(b, c, "Atan")),
    ("aten.arctan", |b, c| unary_float(b, c, "Atan")),
    ("aten.sinh", |b, c| hyperbolic(b, c, "Sinh")),
    ("aten.cosh", |b, c| hyperbolic(b, c, "Cosh")),
    ("aten.tanh", |b, c| unary_float(b, c, "Tanh")),
    ("aten.asinh", |b, c| unary_float(b, c, "Asinh")),
    ("aten.arcsinh", |b, c| unary_float(b, c, "Asinh")),
    ("aten.acosh", |b, c| unary_float(b, c, "Acosh")),
    ("aten.arccosh", |b, c| unary_float(b, c, "Acosh")),
    ("aten.atanh", |b, c| unary_float(b, c, "Atanh")),
    ("aten.arctanh", |b, c| unary_float(b, c, "Atanh")),
    ("aten.erf", |b, c| unary_float(b, c, "Erf")),
    ("aten.special_erf", |b, c| unary_float(b, c, "Erf")),
    ("aten.erfc", erfc),
    ("aten.special_erfc", erfc),
    ("aten.special_erfcx", |b, c| {
        let x = float(b, c)?;
        let (e, sq) = (b.unary("Erf", &x)?, b.mul(&x, &x)?);
        let one = b.scalar(1.0, x.dtype())?;
        let (e, sq) = (b.sub(&one, &e)?, b.unary("Exp", &sq)?);
        Ok(b.mul(&e, &sq)?.into())
    }),
    ("aten.sigmoid", |b, c| unary_float(b, c, "Sigmoid")),
    ("aten.special_expit", |b, c| unary_float(b, c, "Sigmoid")),
    ("aten.exp2", |b, c| {
        let x = float(b, c)?;
        let two = b.scalar(2.0, x.dtype())?;
        Ok(b.pow(&two, &x)?.into())
    }),
    ("aten.special_exp2", |b, c| {
        let x = float(b, c)?;
        let two = b.scalar(2.0, x.dtype())?;
        Ok(b.pow(&two, &x)?.into())
    }),
    ("aten.expm1", expm1),
    ("aten.special_expm1", expm1),
    ("aten.log2", |b, c| log_base(b, c, LN_2)),
    ("aten.log10", |b, c| log_base(b, c, LN_10)),
    ("aten.log1p", log1p),
    ("aten.special_log1p", log1p),
    ("aten.rsqrt", |b, c| {
        let x = float(b, c)?;
        let r = b.unary("Sqrt", &x)?;
        Ok(b.unary("Reciprocal", &r)?.into())
    }),
    ("aten.atan2", atan2),
    ("aten.arctan2", atan2),
    ("aten.deg2rad", |b, c| scale(b, c, PI / 180.0)),
    ("aten.rad2deg", |b, c| scale(b, c, 180.0 / PI)),
    ("aten.sinc", sinc),
    ("aten.special_sinc", sinc),
    ("aten.logit", logit),
    ("aten.special_logit", logit),
    ("aten.xlogy", |b, c| xlogy(b, c, false)),
    ("aten.special_xlogy", |b, c| xlogy(b, c, false)),
    ("aten.special_xlog1py", |b, c| xlogy(b, c, true)),
    ("aten.special_entr", |b, c| {
        let x = float(b, c)?;
        let (zero, minus) = (b.scalar(0.0, x.dtype())?, b.scalar(f64::NEG_INFINITY, x.dtype())?);
        let l = b.unary("Log", &x)?;
        let p = b.mul(&x, &l)?;
        let p = b.neg(&p)?;
        let (is_zero, below) = (b.eq(&x, &zero)?, b.lt(&x, &zero)?);
        let y = b.choose(&is_zero, &zero, &p)?;
        Ok(b.choose(&below, &minus, &y)?.into())
    }),
    ("aten.special_ndtr", |b, c| {
        let x = float(b, c)?;
        let y = b.mul_number(&x, std::f64::consts::FRAC_1_SQRT_2)?;
        let e = b.unary("Erf", &y)?;
        let e = b.add_number(&e, 1.0)?;
        Ok(b.mul_number(&e, 0.5)?.into())
    }),
    ("aten.logaddexp", |b, c| {
        let (x, y) = promoted(b, c)?;
        Ok(logaddexp(b, &x, &y)?.into())
    }),
    ("aten.logaddexp2", |b, c| {
        let (x, y) = promoted(b, c)?;
        let (x, y) = (b.mul_number(&x, LN_2)?, b.mul_number(&y, LN_2)?);
        let s = logaddexp(b, &x, &y)?;
        Ok(b.div_number(&s, LN_2)?.into())
    }),
    ("aten.lgamma", lgamma),
    ("aten.special_gammaln", lgamma),
    ("aten.erfinv", erfinv),
    ("aten.special_erfinv", erfinv),
];

/// The operand in a floating type.
pub(super) fn float(b: &mut Builder, c: &Call) -> Result<Var> {
    let x = c.tensor(0, "self")?;
    let d = c.result_dtype().unwrap_or(if x.dtype().is_floating() { x.dtype() } else { DType::F32 });
    b.cast(&x, d)
}
fn scale(b: &mut Builder, c: &Call, by: f64) -> Result<Arg> {
    let x = float(b, c)?;
    Ok(b.mul_number(&x, by)?.into())
}
/// In double precision, for which runtimes have no tangent: a quotient.
fn quotient_of(b: &mut Builder, c: &Call, op: &str, over: &str, under: &str) -> Result<Arg> {
    let x = float(b, c)?;
    if x.dtype() != DType::F64 {
        return Ok(b.unary(op, &x)?.into());
    }
    let (s, t) = (b.unary(over, &x)?, b.unary(under, &x)?);
    Ok(b.div(&s, &t)?.into())
}
fn hyperbolic(b: &mut Builder, c: &Call, op: &str) -> Result<Arg> {
    let x = float(b, c)?;
    if x.dtype() != DType::F64 {
        return Ok(b.unary(op, &x)?.into());
    }
    let n = b.neg(&x)?;
    let (up, down) = (b.unary("Exp", &x)?, b.unary("Exp", &n)?);
    let both = if op == "Sinh" { b.sub(&up, &down)? } else { b.add(&up, &down)? };
    Ok(b.mul_number(&both, 0.5)?.into())
}
fn erfc(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = float(b, c)?;
    let (e, one) = (b.unary("Erf", &x)?, b.scalar(1.0, x.dtype())?);
    Ok(b.sub(&one, &e)?.into())
}
/// Without the loss of digits near zero: a series there.
fn expm1(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = float(b, c)?;
    let e = b.unary("Exp", &x)?;
    let plain = b.add_number(&e, -1.0)?;
    // x + x^2/2 + x^3/6 + x^4/24
    let mut series = b.mul_number(&x, 1.0 / 24.0)?;
    for k in [1.0 / 6.0, 0.5, 1.0] {
        series = b.add_number(&series, k)?;
        series = b.mul(&series, &x)?;
    }
    let a = b.unary("Abs", &x)?;
    let near = b.scalar(0.01, x.dtype())?;
    let near = b.lt(&a, &near)?;
    Ok(b.choose(&near, &series, &plain)?.into())
}
fn log1p(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = float(b, c)?;
    let y = b.add_number(&x, 1.0)?;
    let plain = b.unary("Log", &y)?;
    // x - x^2/2 + x^3/3 - x^4/4
    let mut series = b.mul_number(&x, -0.25)?;
    for k in [1.0 / 3.0, -0.5, 1.0] {
        series = b.add_number(&series, k)?;
        series = b.mul(&series, &x)?;
    }
    let a = b.unary("Abs", &x)?;
    let near = b.scalar(0.01, x.dtype())?;
    let near = b.lt(&a, &near)?;
    Ok(b.choose(&near, &series, &plain)?.into())
}
fn log_base(b: &mut Builder, c: &Call, ln: f64) -> Result<Arg> {
    let x = float(b, c)?;
    let l = b.unary("Log", &x)?;
    Ok(b.div_number(&l, ln)?.into())
}
fn atan2(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (y, x) = promoted(b, c)?;
    Ok(angle(b, &y, &x)?.into())
}
/// The angle of a point.
pub(super) fn angle(b: &mut Builder, y: &Var, x: &Var) -> Result<Var> {
    let d = x.dtype();
    let (zero, pi) = (b.scalar(0.0, d)?, b.scalar(PI, d)?);
    let q = b.div(y, x)?;
    let a = b.unary("Atan", &q)?;
    let (left, below) = (b.lt(x, &zero)?, b.lt(y, &zero)?);
    let (more, less) = (b.add(&a, &pi)?, b.sub(&a, &pi)?);
    let turned = b.choose(&below, &less, &more)?;
    let a = b.choose(&left, &turned, &a)?;
    // 0/0
    let (x0, y0) = (b.eq(x, &zero)?, b.eq(y, &zero)?);
    let origin = b.and(&x0, &y0)?;
    b.choose(&origin, &zero, &a)
}
fn sinc(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = float(b, c)?;
    let (zero, one) = (b.scalar(0.0, x.dtype())?, b.scalar(1.0, x.dtype())?);
    let y = b.mul_number(&x, PI)?;
    let s = b.unary("Sin", &y)?;
    let q = b.div(&s, &y)?;
    let at0 = b.eq(&x, &zero)?;
    Ok(b.choose(&at0, &one, &q)?.into())
}
fn logit(b: &mut Builder, c: &Call) -> Result<Arg> {
    let mut x = float(b, c)?;
    let d = x.dtype();
    if !c.arg(1, "eps").is_none() {
        let eps = c.float_or(1, "eps", 0.0)?;
        let (lo, hi) = (b.scalar(eps, d)?, b.scalar(1.0 - eps, d)?);
        let shape = x.shape.clone();
        x = b.node("Clip", &[&x, &lo, &hi], Vec::new(), d, shape)?;
    }
    let one = b.scalar(1.0, d)?;
    let rest = b.sub(&one, &x)?;
    let q = b.div(&x, &rest)?;
    Ok(b.unary("Log", &q)?.into())
}
fn xlogy(b: &mut Builder, c: &Call, plus_one: bool) -> Result<Arg> {
    let (x, y) = promoted(b, c)?;
    let d = x.dtype();
    let zero = b.scalar(0.0, d)?;
    let z = if plus_one { b.add_number(&y, 1.0)? } else { y.clone() };
    let l = b.unary("Log", &z)?;
    let p = b.mul(&x, &l)?;
    let (at0, is_nan) = (b.eq(&x, &zero)?, b.unary_bool("IsNaN", &y)?);
    let real = b.not(&is_nan)?;
    let none = b.and(&at0, &real)?;
    Ok(b.choose(&none, &zero, &p)?.into())
}
fn logaddexp(b: &mut Builder, x: &Var, y: &Var) -> Result<Var> {
    let (m, d) = (b.max(x, y)?, b.sub(x, y)?);
    let a = b.unary("Abs", &d)?;
    let n = b.neg(&a)?;
    let e = b.unary("Exp", &n)?;
    let e = b.add_number(&e, 1.0)?;
    let l = b.unary("Log", &e)?;
    let s = b.add(&m, &l)?;
    // equal infinities differ by NaN
    let same = b.eq(x, y)?;
    let twice = b.add_number(x, LN_2)?;
    b.choose(&same, &twice, &s)
}
/// Winitzki's approximation, made exact by two steps of Newton's.
fn erfinv(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = float(b, c)?;
    let d = x.dtype();
    let one = b.scalar(1.0, d)?;
    let sq = b.mul(&x, &x)?;
    let rest = b.sub(&one, &sq)?;
    let l = b.unary("Log", &rest)?;
    let a = 0.147;
    let half = b.mul_number(&l, 0.5)?;
    let t = b.add_number(&half, 2.0 / (PI * a))?;
    let (t2, la) = (b.mul(&t, &t)?, b.div_number(&l, a)?);
    let r = b.sub(&t2, &la)?;
    let r = b.unary("Sqrt", &r)?;
    let r = b.sub(&r, &t)?;
    let r = b.unary("Sqrt", &r)?;
    let s = b.unary("Sign", &x)?;
    let mut y = b.mul(&s, &r)?;
    for _ in 0..2 {
        let e = b.unary("Erf", &y)?;
        let miss = b.sub(&e, &x)?;
        let y2 = b.mul(&y, &y)?;
        let grow = b.unary("Exp", &y2)?;
        let step = b.mul(&miss, &grow)?;
        let step = b.mul_number(&step, PI.sqrt() / 2.0)?;
        y = b.sub(&y, &step)?;
    }
    let inf = b.scalar(f64::INFINITY, d)?;
    let size = b.unary("Abs", &x)?;
    let end = b.eq(&size, &one)?;
    let far = b.mul(&s, &inf)?;
    Ok(b.choose(&end, &far, &y)?.into())
}
/// The logarithm of the gamma function above 1/2, by Stirling's series; below 7, of the number 7 higher, less the factors between.
fn lgamma_above(b: &mut Builder, x: &Var) -> Result<Var> {
    let d = x.dtype();
    let (one, seven) = (b.scalar(1.0, d)?, b.scalar(7.0, d)?);
    let mut factors = x.clone();
    for i in 1..7 {
        let next = b.add_number(x, f64::from(i))?;
        factors = b.mul(&factors, &next)?;
    }
    let low = b.lt(x, &seven)?;
    let higher = b.add(x, &seven)?;
    let (y, factors) = (b.choose(&low, &higher, x)?, b.choose(&low, &factors, &one)?);
    let log = b.unary("Log", &y)?;
    let half = b.add_number(&y, -0.5)?;
    let main = b.mul(&half, &log)?;
    let main = b.sub(&main, &y)?;
    let main = b.add_number(&main, 0.5 * (2.0 * PI).ln())?;
    // the series in 1/y
    let inverse = b.div(&one, &y)?;
    let square = b.mul(&inverse, &inverse)?;
    let rest = b.mul_number(&square, 1.0 / 1260.0)?;
    let rest = b.add_number(&rest, -1.0 / 360.0)?;
    let rest = b.mul(&rest, &square)?;
    let rest = b.add_number(&rest, 1.0 / 12.0)?;
    let rest = b.mul(&rest, &inverse)?;
    let sum = b.add(&main, &rest)?;
    let log = b.unary("Log", &factors)?;
    b.sub(&sum, &log)
}
fn lgamma(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = float(b, c)?;
    let d = x.dtype();
    let (one, middle) = (b.scalar(1.0, d)?, b.scalar(0.5, d)?);
    let low = b.lt(&x, &middle)?;
    let mirrored = b.sub(&one, &x)?;
    let y = b.choose(&low, &mirrored, &x)?;
    let above = lgamma_above(b, &y)?;
    // Euler's reflection, with the sine of what is behind the point
    let whole = b.unary("Floor", &x)?;
    let part = b.sub(&x, &whole)?;
    let angle = b.mul_number(&part, PI)?;
    let sine = b.unary("Sin", &angle)?;
    let log = b.unary("Log", &sine)?;
    let below = b.add(&log, &above)?;
    let below = b.neg(&below)?;
    let below = b.add_number(&below, PI.ln())?;
    Ok(b.choose(&low, &below, &above)?.into())
}
