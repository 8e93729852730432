//! Special functions, and comparisons with a tolerance.

use super::super::build::{Builder, Call, Item, op};
use super::creation::scalar_like;
use super::pointwise::converted;
use flambeau_core::{DType, Result};
use std::f64::consts::PI;

/// A number where a condition holds, else the other.
fn number_where(b: &mut Builder, cond: &Item, number: Item, other: &Item) -> Result<Item> {
    let number = scalar_like(b, &number, other)?;
    Ok(op!(b, "where.self", cond, &number, other))
}
/// Whether elements are neither infinite nor NaN.
fn finite(b: &mut Builder, x: &Item) -> Result<Item> {
    let size = op!(b, "abs.default", x);
    let bounded = op!(b, "ne.Scalar", &size, f64::INFINITY);
    let number = op!(b, "eq.Tensor", x, x);
    Ok(op!(b, "mul.Tensor", &number, &bounded))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    if !matches!(&x.value, flambeau_core::Value::Tensor(t) if t.dtype().is_floating()) {
        return Ok(None);
    }
    Ok(Some(match c.name.as_str() {
        "special_expit.default" => op!(b, "sigmoid.default", &x),
        "special_i0.default" => op!(b, "i0.default", &x),
        "isfinite.default" => finite(b, &x)?,
        "sgn.default" => op!(b, "sign.default", &x),
        "logit.default" => {
            let eps = c.float(1, "eps", -1.0);
            let below = op!(b, "lt.Scalar", &x, eps);
            let above = op!(b, "gt.Scalar", &x, 1.0 - eps);
            let high = scalar_like(b, &(1.0 - eps).into(), &x)?;
            let y = op!(b, "where.self", &above, &high, &x);
            let low = scalar_like(b, &eps.into(), &x)?;
            let y = op!(b, "where.self", &below, &low, &y);
            let rest = op!(b, "sub.Tensor", 1, &y);
            let odds = op!(b, "div.Tensor", &y, &rest);
            op!(b, "log.default", &odds)
        }
        "special_log_ndtr.default" => {
            let t = op!(b, "mul.Tensor", &x, std::f64::consts::FRAC_1_SQRT_2);
            let low = op!(b, "lt.Scalar", &x, 1.0);
            let minus = op!(b, "neg.default", &t);
            let scaled = op!(b, "special_erfcx.default", &minus);
            let half = op!(b, "div.Tensor", &scaled, 2);
            let log = op!(b, "log.default", &half);
            let square = op!(b, "mul.Tensor", &t, &t);
            let log = op!(b, "sub.Tensor", &log, &square);
            let rest = op!(b, "erfc.default", &t);
            let rest = op!(b, "neg.default", &rest);
            let rest = op!(b, "div.Tensor", &rest, 2);
            let rest = op!(b, "log1p.default", &rest);
            op!(b, "where.self", &low, &log, &rest)
        }
        "mvlgamma.default" => {
            let p = c.int(1, "p", 1);
            let dtype = x.dtype()?;
            let all = op!(b, "arange.start_step", 1 - p, 1; dtype = dtype, device = flambeau_core::Value::Device(flambeau_core::Device::Cpu), pin_memory = false);
            let all = op!(b, "mul.Tensor", &all, 0.5);
            let wide = op!(b, "unsqueeze.default", &x, -1);
            let wide = op!(b, "add.Tensor", &wide, &all);
            let log = op!(b, "lgamma.default", &wide);
            let sum = op!(b, "sum.dim_IntList", &log, vec![-1]);
            let pairs = (p * (p - 1)) as f64;
            op!(b, "add.Tensor", &sum, pairs * PI.ln() / 4.0)
        }
        "rad2deg.default" => op!(b, "mul.Tensor", &x, 180.0 / PI),
        "deg2rad.default" => op!(b, "mul.Tensor", &x, PI / 180.0),
        "sinc.default" | "special_sinc.default" => {
            let angle = op!(b, "mul.Tensor", &x, PI);
            let zero = op!(b, "eq.Scalar", &angle, 0);
            let sine = op!(b, "sin.default", &angle);
            let ratio = op!(b, "div.Tensor", &sine, &angle);
            number_where(b, &zero, 1.into(), &ratio)?
        }
        "xlogy.Tensor" | "special_xlogy.default" => {
            let y = c.need(1, "other")?;
            let zero = op!(b, "eq.Scalar", &x, 0);
            let log = op!(b, "log.default", &y);
            let product = op!(b, "mul.Tensor", &x, &log);
            let out = number_where(b, &zero, 0.into(), &product)?;
            let nan = op!(b, "isnan.default", &y);
            number_where(b, &nan, f64::NAN.into(), &out)?
        }
        "special_entr.default" => {
            let nan = op!(b, "isnan.default", &x);
            let above = op!(b, "gt.Scalar", &x, 0);
            let minus = op!(b, "neg.default", &x);
            let log = op!(b, "log.default", &x);
            let product = op!(b, "mul.Tensor", &minus, &log);
            let zero = op!(b, "eq.Scalar", &x, 0);
            let lowest = scalar_like(b, &f64::NEG_INFINITY.into(), &x)?;
            let nothing = scalar_like(b, &0.into(), &x)?;
            let rest = op!(b, "where.self", &zero, &nothing, &lowest);
            let out = op!(b, "where.self", &above, &product, &rest);
            op!(b, "where.self", &nan, &x, &out)
        }
        "heaviside.default" => {
            let values = c.need(1, "values")?;
            let zero = op!(b, "eq.Scalar", &x, 0);
            let below = op!(b, "lt.Scalar", &x, 0);
            let nan = op!(b, "isnan.default", &x);
            let nothing = op!(b, "logical_or.default", &below, &nan);
            let one = op!(b, "scalar_tensor.default", 1; dtype = DType::I64);
            let none = op!(b, "scalar_tensor.default", 0; dtype = DType::I64);
            let step = op!(b, "where.self", &nothing, &none, &one);
            op!(b, "where.self", &zero, &values, &step)
        }
        "logaddexp.default" => {
            let y = c.need(1, "other")?;
            let order = op!(b, "ge.Tensor", &x, &y);
            let top = op!(b, "where.self", &order, &x, &y);
            let low = op!(b, "where.self", &order, &y, &x);
            let bounded = finite(b, &x)?;
            let infinite = op!(b, "logical_not.default", &bounded);
            let same = op!(b, "eq.Tensor", &x, &y);
            let same = op!(b, "logical_and.default", &infinite, &same);
            let way = op!(b, "sub.Tensor", &low, &top);
            let e = op!(b, "exp.default", &way);
            let log = op!(b, "log1p.default", &e);
            let sum = op!(b, "add.Tensor", &top, &log);
            op!(b, "where.self", &same, &x, &sum)
        }
        "isclose.default" if !c.flag(4, "equal_nan", false) => {
            let (y, rtol, atol) = (c.need(1, "other")?, c.float(2, "rtol", 1e-5), c.float(3, "atol", 1e-8));
            let same = op!(b, "eq.Tensor", &x, &y);
            let part = op!(b, "mul.Scalar", &y, rtol);
            let part = op!(b, "abs.default", &part);
            let allowed = op!(b, "add.Scalar", &part, atol);
            let way = op!(b, "sub.Tensor", &x, &y);
            let way = op!(b, "abs.default", &way);
            let bounded = finite(b, &way)?;
            let near = op!(b, "le.Tensor", &way, &allowed);
            let near = op!(b, "bitwise_and.Tensor", &bounded, &near);
            op!(b, "bitwise_or.Tensor", &same, &near)
        }
        "float_power.Tensor_Scalar" => {
            let wide = converted(b, &x, DType::F64)?;
            op!(b, "pow.Tensor_Scalar", &wide, c.float(1, "exponent", 1.0))
        }
        "argsort.default" | "argsort.stable" => {
            let stable = c.name.ends_with("stable");
            let (d, down) = if stable { (2, 3) } else { (1, 2) };
            let sorted = if stable {
                let stable = c.need(1, "stable")?;
                op!(b, "sort.stable", &x; stable = stable, dim = c.int(d, "dim", -1), descending = c.flag(down, "descending", false))
            } else {
                op!(b, "sort.default", &x, c.int(d, "dim", -1), c.flag(down, "descending", false))
            };
            b.part(&sorted, 1)?
        }
        "aminmax.default" => {
            let args: Vec<Item> = match c.get(8, "dim") {
                Some(d) => vec![vec![d.int().unwrap_or(0)].into(), c.flag(9, "keepdim", false).into()],
                None => Vec::new(),
            };
            let mut ends = Vec::new();
            for name in ["amin.default", "amax.default"] {
                let args = [vec![x.clone()], args.clone()].concat();
                ends.push(b.op(name, args, Vec::new())?);
            }
            ends.into()
        }
        "kl_div.default" => {
            let (target, log) = (c.need(1, "target")?, c.flag(3, "log_target", false));
            let point = if log {
                let way = op!(b, "sub.Tensor", &target, &x);
                let weight = op!(b, "exp.default", &target);
                op!(b, "mul.Tensor", &weight, &way)
            } else {
                let part = Call {
                    name: "xlogy.Tensor".into(),
                    args: vec![target.clone(), target.clone()],
                    kwargs: Vec::new(),
                };
                let Some(own) = rule(b, &part)? else { return Ok(None) };
                let product = op!(b, "mul.Tensor", &target, &x);
                op!(b, "sub.Tensor", &own, &product)
            };
            match c.int(2, "reduction", 1) {
                0 => point,
                2 => op!(b, "sum.dim_IntList", &point, Vec::<i64>::new()),
                _ => op!(b, "mean.default", &point),
            }
        }
        _ => return Ok(None),
    }))
}
