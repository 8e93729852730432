//! Reductions and norms.

use super::super::build::{Builder, Call, Item, op, wrapped};
use super::creation::scalar_like;
use super::pointwise::converted;
use super::product::common;
use flambeau_core::{DType, Result, Value};

/// Sums over dimensions; all of them where there are none.
pub(super) fn summed(b: &mut Builder, x: &Item, dims: Vec<i64>, keep: bool) -> Result<Item> {
    Ok(if keep { op!(b, "sum.dim_IntList", x, dims, true) } else { op!(b, "sum.dim_IntList", x, dims) })
}
/// The root of the sum of squares.
pub(super) fn norm2(b: &mut Builder, x: &Item, dims: Vec<i64>, keep: bool) -> Result<Item> {
    let square = op!(b, "pow.Tensor_Scalar", x, 2);
    let sum = summed(b, &square, dims, keep)?;
    Ok(op!(b, "pow.Tensor_Scalar", &sum, 0.5))
}
/// The root of the sum of powers.
fn norm_of(b: &mut Builder, x: &Item, ord: f64, dims: Vec<i64>, keep: bool) -> Result<Item> {
    // PyTorch writes whole numbers as such
    let power = if ord.fract() == 0.0 { Item::from(ord as i64) } else { ord.into() };
    // powers of even numbers have no sign
    let size = if ord % 2.0 == 0.0 { x.clone() } else { op!(b, "abs.default", x) };
    let power = op!(b, "pow.Tensor_Scalar", &size, power);
    let sum = summed(b, &power, dims, keep)?;
    Ok(op!(b, "pow.Tensor_Scalar", &sum, 1.0 / ord))
}
/// The norm of a call that names dimensions.
fn norms(b: &mut Builder, c: &Call, x: &Item, ord: f64) -> Result<Item> {
    let rank = x.rank()?;
    let mut dims = Vec::new();
    for d in c.ints(2, "dim").unwrap_or_default() {
        dims.push(wrapped(d, rank)? as i64);
    }
    norm_of(b, x, ord, dims, c.flag(3, "keepdim", false))
}
/// `any`, of the opposite, the opposite of it: `all`.
fn none_of(b: &mut Builder, x: &Item, name: &str, args: Vec<Item>) -> Result<Item> {
    let not = op!(b, "logical_not.default", x);
    let args = [vec![not], args].concat();
    let any = b.op(name, args, Vec::new())?;
    Ok(op!(b, "logical_not.default", &any))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "sum.default" => match c.get(1, "dtype") {
            Some(d) => op!(b, "sum.dim_IntList", &x, Vec::<i64>::new(); dtype = d),
            None => summed(b, &x, Vec::new(), false)?,
        },
        "all.dim" => {
            let mut args = vec![c.need(1, "dim")?];
            if c.flag(2, "keepdim", false) {
                args.push(true.into());
            }
            none_of(b, &x, "any.dim", args)?
        }
        "all.default" => none_of(b, &x, "any.dims", Vec::new())?,
        "var.dim" => {
            let correction = i64::from(c.flag(2, "unbiased", true));
            let keep = c.flag(3, "keepdim", false);
            op!(b, "var.correction", &x, c.get(1, "dim").unwrap_or_else(Item::none); correction = correction, keepdim = keep)
        }
        "std.dim" | "std.correction" => {
            let unbiased = match c.name.ends_with("dim") {
                true => f64::from(u8::from(c.flag(2, "unbiased", true))),
                false => c.float(9, "correction", 1.0),
            };
            let keep = c.flag(3, "keepdim", false);
            let var = op!(b, "var.correction", &x, c.get(1, "dim").unwrap_or_else(Item::none); correction = unbiased, keepdim = keep);
            op!(b, "sqrt.default", &var)
        }
        "std.default" | "var.default" => {
            let unbiased = f64::from(u8::from(c.flag(1, "unbiased", true)));
            let var = op!(b, "var.correction", &x, Item::none(); correction = unbiased);
            if c.name.starts_with('v') { var } else { op!(b, "sqrt.default", &var) }
        }
        "var_mean.dim" | "std_mean.dim" | "std_mean.correction" => {
            let correction: Item = match c.name.ends_with("dim") {
                true => i64::from(c.flag(2, "unbiased", true)).into(),
                false => c.get(9, "correction").unwrap_or_else(|| 1.into()),
            };
            let keep = match c.name.ends_with("dim") {
                true => c.flag(3, "keepdim", false),
                false => c.flag(9, "keepdim", false),
            };
            let all = op!(b, "var_mean.correction", &x, c.get(1, "dim").unwrap_or_else(Item::none); correction = correction, keepdim = keep);
            let (var, mean) = (b.part(&all, 0)?, b.part(&all, 1)?);
            let spread = if c.name.starts_with('v') { var } else { op!(b, "sqrt.default", &var) };
            vec![spread, mean].into()
        }
        "renorm.default" => {
            let (p, d, most) = (c.float(1, "p", 2.0), c.int(2, "dim", 0), c.float(3, "maxnorm", 1.0));
            if !p.is_finite() || p == 0.0 || x.dtype()?.is_complex() {
                return Ok(None);
            }
            let d = wrapped(d, x.rank()?)? as i64;
            let others = (0..x.rank()? as i64).filter(|k| *k != d).collect();
            let norm = norm_of(b, &x, p, others, true)?;
            let above = op!(b, "gt.Scalar", &norm, most);
            let safe = op!(b, "add.Tensor", &norm, 1e-7);
            let scale = op!(b, "reciprocal.default", &safe);
            let scale = op!(b, "mul.Tensor", &scale, most);
            let one = scalar_like(b, &Item::from(1.0), &x)?;
            let scale = op!(b, "where.self", &above, &scale, &one);
            op!(b, "mul.Tensor", &x, &scale)
        }
        "linalg_norm.default" if c.get(1, "ord").is_none() && c.get(2, "dim").is_some() => {
            norms(b, c, &x, 2.0)?
        }
        "linalg_matrix_norm.default" if c.get(4, "dtype").is_none() && !x.dtype()?.is_complex() => {
            let (ord, rank) = (c.float(1, "ord", 0.0), x.rank()?);
            let dims = c.ints(2, "dim").unwrap_or_else(|| vec![-2, -1]);
            let &[i, j] = &dims[..] else { return Ok(None) };
            if ord.abs() != 1.0 && !ord.is_infinite() {
                return Ok(None);
            }
            let (mut i, mut j) = (wrapped(i, rank)? as i64, wrapped(j, rank)? as i64);
            if ord.is_infinite() {
                std::mem::swap(&mut i, &mut j);
            }
            let keep = c.flag(3, "keepdim", false);
            let size = op!(b, "abs.default", &x);
            let power = op!(b, "pow.Tensor_Scalar", &size, 1.0);
            let sum = summed(b, &power, vec![i], keep)?;
            let sum = op!(b, "pow.Tensor_Scalar", &sum, 1.0);
            let j = if !keep && j > i { j - 1 } else { j };
            let name = if ord > 0.0 { "amax.default" } else { "amin.default" };
            if keep { op!(b, name, &sum, vec![j], true) } else { op!(b, name, &sum, vec![j]) }
        }
        "linalg_vector_norm.default" => {
            let (ord, dims) = (c.float(1, "ord", 2.0), c.ints(2, "dim").unwrap_or_default());
            let keep = c.flag(3, "keepdim", false);
            if ord == 2.0 {
                norm2(b, &x, dims, keep)?
            } else if ord.is_finite() && ord != 0.0 && c.get(4, "dtype").is_none() && x.dtype()?.is_floating()
            {
                norm_of(b, &x, ord, dims, keep)?
            } else {
                return Ok(None);
            }
        }
        "norm.ScalarOpt_dim" => {
            if c.float(1, "p", 2.0) != 2.0 {
                return Ok(None);
            }
            norm2(b, &x, c.ints(2, "dim").unwrap_or_default(), c.flag(3, "keepdim", false))?
        }
        "logsumexp.default" => {
            let dims = c.ints(1, "dim").unwrap_or_default();
            let keep = c.flag(2, "keepdim", false);
            let top = op!(b, "amax.default", &x, &dims[..], true);
            let size = op!(b, "abs.default", &top);
            let infinite = op!(b, "eq.Scalar", &size, f64::INFINITY);
            let zero = scalar_like(b, &Item::from(0.0), &top)?;
            let top = op!(b, "where.self", &infinite, &zero, &top);
            let flat = if keep { top.clone() } else { op!(b, "squeeze.dims", &top, &dims[..]) };
            let less = op!(b, "sub.Tensor", &x, &top);
            let e = op!(b, "exp.default", &less);
            let sum = summed(b, &e, dims, keep)?;
            let log = op!(b, "log.default", &sum);
            op!(b, "add.Tensor", &log, &flat)
        }
        "cosine_similarity.default" => {
            let (y, d, eps) = (c.need(1, "x2")?, c.int(2, "dim", 1), c.float(3, "eps", 1e-8));
            let sizes = common(&x.sizes()?, &y.sizes()?);
            let d0 = wrapped(d, sizes.len())? as i64;
            let y = op!(b, "expand.default", &y, &sizes[..]);
            let x = op!(b, "expand.default", &x, &sizes[..]);
            let mut norms = Vec::new();
            for t in [&x, &y] {
                let n = norm2(b, t, vec![d0], true)?;
                norms.push(op!(b, "clone.default", &n));
            }
            let least = scalar_like(b, &Item::from(eps), &x)?;
            let [nx, ny] = &norms[..] else { return Ok(None) };
            let nx = op!(b, "clamp.Tensor", nx, &least);
            let ny = op!(b, "clamp.Tensor", ny, &least);
            let y = op!(b, "div.Tensor", &y, &ny);
            let x = op!(b, "div.Tensor", &x, &nx);
            let product = op!(b, "mul.Tensor", &x, &y);
            summed(b, &product, vec![d], false)?
        }
        "cdist.default" => {
            op!(
                b,
                "_cdist_forward.default",
                &x,
                c.need(1, "x2")?,
                c.float(2, "p", 2.0),
                c.get(3, "compute_mode").unwrap_or_else(Item::none)
            )
        }
        "trace.default" => {
            let diagonal = op!(b, "diagonal.default", &x);
            let copy = op!(b, "clone.default", &diagonal; memory_format = Value::MemoryFormat(flambeau_core::MemoryFormat::Contiguous));
            summed(b, &copy, Vec::new(), false)?
        }
        "count_nonzero.default" | "count_nonzero.dim_IntList" => {
            let dims = c.ints(1, "dim").unwrap_or_default();
            let there = op!(b, "ne.Scalar", &x, 0);
            let sum = summed(b, &there, dims, false)?;
            converted(b, &sum, DType::I64)?
        }
        "_weight_norm.default" => {
            let (v, g) = (x, c.need(1, "g")?);
            let d = wrapped(c.int(2, "dim", 0), v.rank()?)? as i64;
            let others = (0..v.rank()? as i64).filter(|k| *k != d).collect();
            let norm = norm2(b, &v, others, true)?;
            let scale = op!(b, "div.Tensor", &g, &norm);
            op!(b, "mul.Tensor", &v, &scale)
        }
        _ => return Ok(None),
    }))
}
