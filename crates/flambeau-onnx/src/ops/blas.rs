//! Products of matrices and vectors.

use super::Table;
use super::arithmetic::scaled;
use super::reduction::p_norm;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.mm", |b, c| product(b, c, "self", "mat2")),
    ("aten.bmm", |b, c| product(b, c, "self", "mat2")),
    ("aten.matmul", |b, c| product(b, c, "self", "other")),
    ("aten.linalg_matmul", |b, c| product(b, c, "self", "other")),
    ("aten.mv", |b, c| product(b, c, "self", "vec")),
    ("aten.dot", |b, c| product(b, c, "self", "tensor")),
    ("aten.vdot", |b, c| product(b, c, "self", "other")),
    ("aten.inner", |b, c| {
        let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "other")?);
        if x.rank() == 0 || y.rank() == 0 {
            return Ok(b.mul(&x, &y)?.into());
        }
        if y.rank() < 2 {
            return Ok(b.matmul(&x, &y)?.into());
        }
        // every last dimension of one with every one of the other
        let (xs, ys) = (b.sizes(&x)?, b.sizes(&y)?);
        let k = xs[xs.len() - 1].clone();
        let (x2, y2) = (b.reshape(&x, &[Dim::Int(-1), k.clone()])?, b.reshape(&y, &[Dim::Int(-1), k])?);
        let y2 = b.transpose(&y2, &[1, 0])?;
        let p = b.matmul(&x2, &y2)?;
        let to: Vec<Dim> = xs[..xs.len() - 1].iter().chain(&ys[..ys.len() - 1]).cloned().collect();
        Ok(b.reshape(&p, &to)?.into())
    }),
    ("aten.outer", outer),
    ("aten.ger", outer),
    ("aten.addmm", |b, c| {
        let (x, m, n) = (c.tensor(0, "self")?, c.tensor(1, "mat1")?, c.tensor(2, "mat2")?);
        let (beta, alpha) = (c.arg(3, "beta").clone(), c.arg(4, "alpha").clone());
        if x.dtype().is_floating() && x.dtype() != DType::BF16 {
            let attr = vec![
                Attribute::float("alpha", c.float_or(4, "alpha", 1.0)?),
                Attribute::float("beta", c.float_or(3, "beta", 1.0)?),
            ];
            let x = if x.rank() > 2 { b.reshape_to(&x, &[])? } else { x };
            return Ok(b.node("Gemm", &[&m, &n, &x], attr, x.dtype(), vec![m.shape[0], n.shape[1]])?.into());
        }
        let p = b.matmul(&m, &n)?;
        sum(b, &x, &beta, &p, &alpha)
    }),
    ("aten.addmv", |b, c| {
        let (x, m, v) = (c.tensor(0, "self")?, c.tensor(1, "mat")?, c.tensor(2, "vec")?);
        let p = b.matmul(&m, &v)?;
        sum(b, &x, &c.arg(3, "beta").clone(), &p, &c.arg(4, "alpha").clone())
    }),
    ("aten.addr", |b, c| {
        let (x, u, v) = (c.tensor(0, "self")?, c.tensor(1, "vec1")?, c.tensor(2, "vec2")?);
        let u = b.unsqueeze(&u, &[1])?;
        let p = b.mul(&u, &v)?;
        sum(b, &x, &c.arg(3, "beta").clone(), &p, &c.arg(4, "alpha").clone())
    }),
    ("aten.baddbmm", |b, c| {
        let (x, m, n) = (c.tensor(0, "self")?, c.tensor(1, "batch1")?, c.tensor(2, "batch2")?);
        let p = b.matmul(&m, &n)?;
        sum(b, &x, &c.arg(3, "beta").clone(), &p, &c.arg(4, "alpha").clone())
    }),
    ("aten.addbmm", |b, c| {
        let (x, m, n) = (c.tensor(0, "self")?, c.tensor(1, "batch1")?, c.tensor(2, "batch2")?);
        let p = b.matmul(&m, &n)?;
        let p = b.reduce("ReduceSum", &p, &[0], false)?;
        sum(b, &x, &c.arg(3, "beta").clone(), &p, &c.arg(4, "alpha").clone())
    }),
    ("aten.linear", linear),
    ("aten.bilinear", |b, c| {
        let (x, y, w) = (c.tensor(0, "input1")?, c.tensor(1, "input2")?, c.tensor(2, "weight")?);
        // x W_o y for every output o
        let eq = Attribute::text("equation", "...i,oij,...j->...o");
        let mut shape = x.shape[..x.rank() - 1].to_vec();
        shape.push(w.shape[0]);
        let p = b.node("Einsum", &[&x, &w, &y], vec![eq], x.dtype(), shape)?;
        Ok(match c.optional(3, "bias")? {
            Some(v) => b.add(&p, &v)?,
            None => p,
        }
        .into())
    }),
    ("aten._trilinear", |b, c| {
        let mut product: Option<Var> = None;
        for (i, name) in ["i1", "i2", "i3"].iter().enumerate() {
            let mut v = c.tensor(i, name)?;
            for d in c.ints(3 + i, "expand")? {
                v = b.unsqueeze(&v, &[d])?;
            }
            product = Some(match product {
                None => v,
                Some(p) => b.mul(&p, &v)?,
            });
        }
        let p = product.unwrap_or_else(Var::none);
        let dims = c.ints(6, "sumdim")?;
        Ok(b.reduce("ReduceSum", &p, &dims, false)?.into())
    }),
    ("aten.einsum", |b, c| {
        let eq = c.text_or(0, "equation", "")?.to_string();
        let all = c.tensors(1, "tensors")?;
        let refs: Vec<&Var> = all.iter().collect();
        let d = all.first().map_or(DType::F32, Var::dtype);
        let shape = match c.result_shape() {
            Some(s) => s,
            None => return Err(Error::missing("einsum of a program that does not say the result's sizes")),
        };
        Ok(b.node("Einsum", &refs, vec![Attribute::text("equation", &eq.replace(' ', ""))], d, shape)?.into())
    }),
    ("aten.chain_matmul", chain),
    ("aten.linalg_multi_dot", chain),
    ("aten.tensordot", tensordot),
    ("aten.kron", |b, c| {
        let (x, y) = super::promoted(b, c)?;
        let n = x.rank().max(y.rank()) as i64;
        let (x, y) = (
            b.unsqueeze(&x, &(0..n - x.rank() as i64).collect::<Vec<_>>())?,
            b.unsqueeze(&y, &(0..n - y.rank() as i64).collect::<Vec<_>>())?,
        );
        let (xs, ys) = (b.sizes(&x)?, b.sizes(&y)?);
        let mut to = Vec::new();
        for (p, q) in xs.iter().zip(&ys) {
            to.push(b.dim_mul(p, q)?);
        }
        let x = b.unsqueeze(&x, &(0..n).map(|i| 2 * i + 1).collect::<Vec<_>>())?;
        let y = b.unsqueeze(&y, &(0..n).map(|i| 2 * i).collect::<Vec<_>>())?;
        let p = b.mul(&x, &y)?;
        Ok(b.reshape(&p, &to)?.into())
    }),
    ("aten.cross", |b, c| {
        let default = c.tensor(0, "self")?.shape.iter().position(|n| *n == Some(3)).unwrap_or(0) as i64;
        cross(b, c, default)
    }),
    ("aten.linalg_cross", |b, c| cross(b, c, -1)),
    ("aten.linalg_vecdot", |b, c| {
        let (x, y) = super::promoted(b, c)?;
        let p = b.mul(&x, &y)?;
        let d = c.axis(2, "dim", Some(-1), p.rank())?;
        Ok(b.reduce("ReduceSum", &p, &[d], false)?.into())
    }),
    ("aten.cdist", cdist),
    ("aten._cdist_forward", cdist),
    ("aten._euclidean_dist", cdist),
    ("aten.det", det),
    ("aten.linalg_det", det),
    ("aten._linalg_det", |b, c| {
        let d = det(b, c)?;
        Ok(Arg::List(vec![d, Arg::None, Arg::None]))
    }),
    ("aten.logdet", |b, c| {
        let Arg::Var(d) = det(b, c)? else { return Err(Error::runtime("a determinant is a tensor")) };
        Ok(b.unary("Log", &d)?.into())
    }),
    ("aten.slogdet", slogdet),
    ("aten.linalg_slogdet", slogdet),
    ("aten._linalg_slogdet", slogdet),
    ("aten.matrix_power", power),
    ("aten.linalg_matrix_power", power),
];

fn product(b: &mut Builder, c: &Call, first: &str, second: &str) -> Result<Arg> {
    let (x, y) = (c.tensor(0, first)?, c.tensor(1, second)?);
    let d = c.result_dtype().unwrap_or(x.dtype());
    let (x, y) = (b.cast(&x, d)?, b.cast(&y, d)?);
    Ok(b.matmul(&x, &y)?.into())
}
fn outer(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "vec2")?);
    let d = crate::build::result_type(&[&Arg::Var(x.clone()), &Arg::Var(y.clone())])?;
    let (x, y) = (b.cast(&x, d)?, b.cast(&y, d)?);
    let x = b.unsqueeze(&x, &[1])?;
    Ok(b.mul(&x, &y)?.into())
}
/// `beta * x + alpha * p`
fn sum(b: &mut Builder, x: &Var, beta: &Arg, p: &Var, alpha: &Arg) -> Result<Arg> {
    let p = scaled(b, p, alpha)?;
    if matches!(beta, Arg::Int(0)) || matches!(beta, Arg::Float(f) if *f == 0.0) {
        return Ok(p.into());
    }
    let x = scaled(b, x, beta)?;
    Ok(b.add(&x, &p)?.into())
}
fn linear(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, w, bias) = (c.tensor(0, "input")?, c.tensor(1, "weight")?, c.optional(2, "bias")?);
    let d = c.result_dtype().unwrap_or(x.dtype());
    let (x, w) = (b.cast(&x, d)?, b.cast(&w, d)?);
    let bias = bias.map(|v| b.cast(&v, d)).transpose()?;
    if let (2, 2, true) = (x.rank(), w.rank(), d.is_floating()) {
        let none = Var::none();
        let attr = vec![Attribute::int("transB", 1)];
        return Ok(b
            .node("Gemm", &[&x, &w, bias.as_ref().unwrap_or(&none)], attr, d, vec![x.shape[0], w.shape[0]])?
            .into());
    }
    let w = if w.rank() == 2 { b.transpose(&w, &[1, 0])? } else { w };
    let p = b.matmul(&x, &w)?;
    Ok(match bias {
        Some(v) => b.add(&p, &v)?,
        None => p,
    }
    .into())
}
fn chain(b: &mut Builder, c: &Call) -> Result<Arg> {
    let all = c.tensors(0, "tensors")?;
    let mut l = all.into_iter();
    let mut p = l.next().ok_or_else(|| Error::value("a product of nothing"))?;
    for m in l {
        p = b.matmul(&p, &m)?;
    }
    Ok(p.into())
}
fn tensordot(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, y) = (c.tensor(0, "self")?, c.tensor(1, "other")?);
    let (dx, dy) = (c.ints(2, "dims_self")?, c.ints(3, "dims_other")?);
    let norm =
        |l: &[i64], rank| l.iter().map(|d| crate::build::call::normal(*d, rank)).collect::<Result<Vec<_>>>();
    let (dx, dy) = (norm(&dx, x.rank())?, norm(&dy, y.rank())?);
    let rest = |rank: usize, l: &[i64]| (0..rank as i64).filter(|d| !l.contains(d)).collect::<Vec<_>>();
    let (rx, ry) = (rest(x.rank(), &dx), rest(y.rank(), &dy));
    let xt = b.transpose(&x, &rx.iter().chain(&dx).copied().collect::<Vec<_>>())?;
    let yt = b.transpose(&y, &dy.iter().chain(&ry).copied().collect::<Vec<_>>())?;
    let k = b.count(&x, &dx)?;
    let (xn, yn) = (b.count(&x, &rx)?, b.count(&y, &ry)?);
    let (x2, y2) = (b.reshape(&xt, &[xn, k.clone()])?, b.reshape(&yt, &[k, yn])?);
    let p = b.matmul(&x2, &y2)?;
    let mut to = Vec::new();
    for d in &rx {
        to.push(b.size(&x, *d)?);
    }
    for d in &ry {
        to.push(b.size(&y, *d)?);
    }
    Ok(b.reshape(&p, &to)?.into())
}
fn cross(b: &mut Builder, c: &Call, default: i64) -> Result<Arg> {
    let (x, y) = super::promoted(b, c)?;
    let rank = x.rank().max(y.rank());
    let d = c.axis(2, "dim", Some(default), rank)?;
    let mut turned = |v: &Var, by: [i64; 3]| {
        let i = b.ints(&by)?;
        b.gather(v, &i, d)
    };
    let (x1, x2) = (turned(&x, [1, 2, 0])?, turned(&x, [2, 0, 1])?);
    let (y1, y2) = (turned(&y, [1, 2, 0])?, turned(&y, [2, 0, 1])?);
    let (p, q) = (b.mul(&x1, &y2)?, b.mul(&x2, &y1)?);
    Ok(b.sub(&p, &q)?.into())
}
fn cdist(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, y) = (c.tensor(0, "x1")?, c.tensor(1, "x2")?);
    let p = c.float_or(2, "p", 2.0)?;
    let (xr, yr) = (x.rank() as i64, y.rank() as i64);
    let (x, y) = (b.unsqueeze(&x, &[xr - 1])?, b.unsqueeze(&y, &[yr - 2])?);
    let d = b.sub(&x, &y)?;
    let last = d.rank() as i64 - 1;
    Ok(p_norm(b, &d, p, &[last], false)?.into())
}
fn det(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let shape = x.shape[..x.rank() - 2].to_vec();
    Ok(b.node("Det", &[&x], Vec::new(), x.dtype(), shape)?.into())
}
fn slogdet(b: &mut Builder, c: &Call) -> Result<Arg> {
    let Arg::Var(d) = det(b, c)? else { return Err(Error::runtime("a determinant is a tensor")) };
    let (s, a) = (b.unary("Sign", &d)?, b.unary("Abs", &d)?);
    let l = b.unary("Log", &a)?;
    Ok(Arg::List(vec![s.into(), l.into(), Arg::None, Arg::None]))
}
fn power(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let n = c.int(1, "n")?;
    if n < 1 {
        return Err(Error::missing("matrix powers below 1 as ONNX: it has no inverse"));
    }
    let mut p = x.clone();
    for _ in 1..n.min(64) {
        p = b.matmul(&p, &x)?;
    }
    if n > 64 {
        return Err(Error::missing("matrix powers above 64 as ONNX"));
    }
    Ok(p.into())
}
