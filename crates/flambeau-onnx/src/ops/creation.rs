//! Tensors of numbers, ranges, triangles, random numbers.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::{Attribute, element_type};
use flambeau_core::{DType, Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.full", |b, c| filled(b, c, 1)),
    ("aten.full_like", |b, c| like(b, c, 1)),
    ("aten.fill", |b, c| like(b, c, 1)),
    ("aten.new_full", |b, c| new_of(b, c, None)),
    ("aten.zeros", |b, c| number(b, c, 0.0)),
    ("aten.ones", |b, c| number(b, c, 1.0)),
    ("aten.empty", |b, c| number(b, c, 0.0)),
    ("aten.empty_permuted", |b, c| number(b, c, 0.0)),
    ("aten.empty_strided", |b, c| number(b, c, 0.0)),
    ("aten.zeros_like", |b, c| number_like(b, c, 0.0)),
    ("aten.ones_like", |b, c| number_like(b, c, 1.0)),
    ("aten.empty_like", |b, c| number_like(b, c, 0.0)),
    ("aten.copy", |b, c| {
        let (x, v) = (c.tensor(0, "self")?, c.tensor(1, "src")?);
        let (v, to) = (b.cast(&v, x.dtype())?, b.sizes(&x)?);
        Ok(b.expand(&v, &to)?.into())
    }),
    ("aten.zero", |b, c| number_like(b, c, 0.0)),
    ("aten.new_zeros", |b, c| new_of(b, c, Some(0.0))),
    ("aten.new_ones", |b, c| new_of(b, c, Some(1.0))),
    ("aten.new_empty", |b, c| new_of(b, c, Some(0.0))),
    ("aten.new_empty_strided", |b, c| new_of(b, c, Some(0.0))),
    ("aten.scalar_tensor", |b, c| {
        let d = c.result_dtype().or(c.dtype(usize::MAX, "dtype")?).unwrap_or(DType::F32);
        let mut v = b.value(&c.arg(0, "s").clone(), d)?;
        v.number = false;
        Ok(v.into())
    }),
    ("aten.tensor", |b, c| {
        let d = c.result_dtype().unwrap_or(DType::F32);
        Ok(b.value(&c.arg(0, "s").clone(), d)?.into())
    }),
    ("aten.arange", arange),
    ("prims.iota", |b, c| {
        let (n, start, step) = (c.dim(0, "length")?, c.dim(usize::MAX, "start")?, c.int(usize::MAX, "step")?);
        let all = b.range(&Dim::Int(0), &n)?;
        let (step, start) = (b.int(step)?, b.dim_scalar(&start)?);
        let all = b.mul(&all, &step)?;
        let all = b.add(&all, &start)?;
        Ok(b.cast(&all, c.result_dtype().unwrap_or(DType::I64))?.into())
    }),
    ("aten.linspace", |b, c| linspace(b, c, false)),
    ("aten.logspace", |b, c| linspace(b, c, true)),
    ("aten.hann_window", hann),
    ("aten.eye", eye),
    ("aten.tril", |b, c| triangle(b, c, false)),
    ("aten.triu", |b, c| triangle(b, c, true)),
    ("aten.tril_indices", |b, c| triangle_indices(b, c, false)),
    ("aten.triu_indices", |b, c| triangle_indices(b, c, true)),
    ("aten.diag_embed", diag_embed),
    ("aten.diagflat", |b, c| {
        let x = c.tensor(0, "self")?;
        let x = b.reshape_to(&x, &[-1])?;
        Ok(on_diagonal(b, &x, c.int_or(1, "offset", 0)?)?.into())
    }),
    ("aten.diag", |b, c| {
        let x = c.tensor(0, "self")?;
        let k = c.int_or(1, "diagonal", 0)?;
        if x.rank() == 1 {
            return Ok(on_diagonal(b, &x, k)?.into());
        }
        let call = Call {
            target: "aten.diagonal.default".into(),
            args: vec![x.into(), Arg::Int(k)],
            kwargs: Vec::new(),
            result: None,
        };
        match super::find("aten.diagonal") {
            Some(f) => f(b, &call),
            None => Err(Error::runtime("no diagonal")),
        }
    }),
    ("aten.vander", |b, c| {
        let x = c.tensor(0, "x")?;
        let n = if c.arg(1, "N").is_none() { b.size(&x, 0)? } else { c.dim(1, "N")? };
        let e = b.range(&Dim::Int(0), &n)?;
        let e = if c.bool_or(2, "increasing", false)? { e } else { b.flip(&e, 0)? };
        let d = c.result_dtype().unwrap_or(x.dtype());
        let (e, x) = (b.cast(&e, d)?, b.unsqueeze(&x, &[1])?);
        let x = b.cast(&x, d)?;
        Ok(b.pow(&x, &e)?.into())
    }),
    ("aten.rand", |b, c| random(b, c, "RandomUniformLike", None)),
    ("aten.rand_like", |b, c| random(b, c, "RandomUniformLike", Some(0))),
    ("aten.randn", |b, c| random(b, c, "RandomNormalLike", None)),
    ("aten.randn_like", |b, c| random(b, c, "RandomNormalLike", Some(0))),
    ("aten.randint", randint),
    ("aten.randint_like", randint),
    ("aten.randperm", |b, c| {
        let n = c.dim(0, "n")?;
        let d = c.result_dtype().unwrap_or(DType::I64);
        let zero = b.scalar(0.0, DType::F32)?;
        let shape = b.full(std::slice::from_ref(&n), &zero)?;
        let keys = b.unary_with("RandomUniformLike", &shape, Vec::new())?;
        let (_, order) = super::sorting::sorted(b, &keys, 0, false)?;
        Ok(b.cast(&order, d)?.into())
    }),
    ("aten.bernoulli", |b, c| {
        let x = c.tensor(0, "self")?;
        let p = match c.arg(1, "p") {
            Arg::Float(_) | Arg::Int(_) => {
                let p = b.scalar(c.float_or(1, "p", 0.5)?, DType::F32)?;
                let to = b.sizes(&x)?;
                b.full(&to, &p)?
            }
            _ => b.cast(&x, DType::F32)?,
        };
        let out = b.unary("Bernoulli", &p)?;
        Ok(b.cast(&out, c.result_dtype().unwrap_or(x.dtype()))?.into())
    }),
    ("aten.normal", |b, c| {
        let (m, s) = (c.arg(0, "mean").clone(), c.arg(1, "std").clone());
        let d = c.result_dtype().unwrap_or(DType::F32);
        let (mv, sv) = (b.value(&m, d)?, if s.is_none() { b.scalar(1.0, d)? } else { b.value(&s, d)? });
        let both = if c.arg(2, "size").is_none() {
            b.add(&mv, &sv)?
        } else {
            let to = c.dims(2, "size")?;
            b.full(&to, &mv)?
        };
        let noise = b.unary_with("RandomNormalLike", &both, Vec::new())?;
        let noise = b.mul(&noise, &sv)?;
        Ok(b.add(&noise, &mv)?.into())
    }),
    ("aten.uniform", |b, c| {
        let x = c.tensor(0, "self")?;
        let (lo, hi) = (c.float_or(1, "from", 0.0)?, c.float_or(2, "to", 1.0)?);
        let attr = vec![Attribute::float("low", lo), Attribute::float("high", hi)];
        Ok(b.unary_with("RandomUniformLike", &x, attr)?.into())
    }),
    ("aten.multinomial", |b, c| {
        let x = c.tensor(0, "self")?;
        let n = c.int(1, "num_samples")?;
        if !c.bool_or(2, "replacement", false)? && n != 1 {
            return Err(Error::missing("multinomial without replacement as ONNX"));
        }
        let p = if x.rank() == 1 { b.unsqueeze(&x, &[0])? } else { x.clone() };
        let l = b.unary("Log", &p)?;
        let l = b.cast(&l, DType::F32)?;
        let attr = vec![Attribute::int("dtype", 7), Attribute::int("sample_size", n)];
        let out = b.node("Multinomial", &[&l], attr, DType::I64, vec![p.shape[0], Some(n)])?;
        Ok(if x.rank() == 1 { b.squeeze(&out, &[0])? } else { out }.into())
    }),
];

fn made_of(c: &Call, default: DType) -> Result<DType> {
    Ok(c.result_dtype().or(c.dtype(usize::MAX, "dtype")?).unwrap_or(default))
}
fn filled(b: &mut Builder, c: &Call, at: usize) -> Result<Arg> {
    let to = c.dims(0, "size")?;
    let d = made_of(c, DType::F32)?;
    let v = b.value(&c.arg(at, "fill_value").clone(), d)?;
    let v = b.reshape_to(&v, &[])?;
    Ok(expanded(b, &to, &v)?.into())
}
/// A tensor of one number, which is none of the program's numbers any more.
fn expanded(b: &mut Builder, to: &[Dim], v: &Var) -> Result<Var> {
    let mut v = v.clone();
    v.number = false;
    b.full(to, &v)
}
fn like(b: &mut Builder, c: &Call, at: usize) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = made_of(c, x.dtype())?;
    let name = if c.arg(at, "fill_value").is_none() { "value" } else { "fill_value" };
    let v = b.value(&c.arg(at, name).clone(), d)?;
    let v = b.reshape_to(&v, &[])?;
    let to = b.sizes(&x)?;
    Ok(expanded(b, &to, &v)?.into())
}
fn number(b: &mut Builder, c: &Call, x: f64) -> Result<Arg> {
    let to = c.dims(0, "size")?;
    let d = made_of(c, DType::F32)?;
    let v = b.scalar(x, d)?;
    Ok(expanded(b, &to, &v)?.into())
}
fn number_like(b: &mut Builder, c: &Call, x: f64) -> Result<Arg> {
    let of = c.tensor(0, "self")?;
    let d = made_of(c, of.dtype())?;
    let v = b.scalar(x, d)?;
    let to = b.sizes(&of)?;
    Ok(expanded(b, &to, &v)?.into())
}
fn new_of(b: &mut Builder, c: &Call, x: Option<f64>) -> Result<Arg> {
    let of = c.tensor(0, "self")?;
    let to = c.dims(1, "size")?;
    let d = made_of(c, of.dtype())?;
    let v = match x {
        Some(x) => b.scalar(x, d)?,
        None => b.value(&c.arg(2, "fill_value").clone(), d)?,
    };
    Ok(expanded(b, &to, &v)?.into())
}
fn arange(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (start, end, step) = match c.overload() {
        "default" => (Arg::Int(0), c.arg(0, "end").clone(), Arg::Int(1)),
        _ => {
            let step = c.arg(2, "step").clone();
            (
                c.arg(0, "start").clone(),
                c.arg(1, "end").clone(),
                if step.is_none() { Arg::Int(1) } else { step },
            )
        }
    };
    let whole = |a: &Arg| match a {
        Arg::Int(_) => true,
        Arg::Var(v) => !v.dtype().is_floating(),
        _ => false,
    };
    let ints = whole(&start) && whole(&end) && whole(&step);
    let d = c.result_dtype().unwrap_or(if ints { DType::I64 } else { DType::F32 });
    // counted in integers, so that rounding takes no element away
    let wide = if ints { DType::I64 } else { DType::F64 };
    let (s, e, t) = (b.value(&start, wide)?, b.value(&end, wide)?, b.value(&step, wide)?);
    let shape = c.result_shape().unwrap_or_else(|| vec![None]);
    if ints {
        let r = b.node("Range", &[&s, &e, &t], Vec::new(), wide, shape)?;
        return Ok(b.cast(&r, d)?.into());
    }
    let gap = b.sub(&e, &s)?;
    let n = b.div(&gap, &t)?;
    let n = b.unary("Ceil", &n)?;
    let n = b.cast(&n, DType::I64)?;
    let i = b.range(&Dim::Int(0), &Dim::Var(n))?;
    let i = b.cast(&i, wide)?;
    let i = b.mul(&i, &t)?;
    let mut r = b.add(&i, &s)?;
    r.shape = shape;
    Ok(b.cast(&r, d)?.into())
}
fn linspace(b: &mut Builder, c: &Call, log: bool) -> Result<Arg> {
    let d = made_of(c, DType::F32)?;
    let wide = DType::F64;
    let (s, e) = (b.value(&c.arg(0, "start").clone(), wide)?, b.value(&c.arg(1, "end").clone(), wide)?);
    let n = c.dim(2, "steps")?;
    let i = b.range(&Dim::Int(0), &n)?;
    let last = b.dim_sub(&n, &Dim::Int(1))?;
    let last = b.dim_max(&last, &Dim::Int(1))?;
    let last = b.dim_scalar(&last)?;
    let (i, last) = (b.cast(&i, wide)?, b.cast(&last, wide)?);
    let gap = b.sub(&e, &s)?;
    let step = b.div(&gap, &last)?;
    let r = b.mul(&i, &step)?;
    let r = b.add(&r, &s)?;
    let r = if log {
        let base = b.scalar(c.float_or(3, "base", 10.0)?, wide)?;
        b.pow(&base, &r)?
    } else {
        r
    };
    Ok(b.cast(&r, d)?.into())
}
/// `0.5 - 0.5 cos(2 pi i / n)`, with `n - 1` below the line where the window is not periodic.
fn hann(b: &mut Builder, c: &Call) -> Result<Arg> {
    let n = c.int(0, "window_length")?;
    let periodic = c.overload() != "periodic" || c.bool_or(1, "periodic", true)?;
    let d = made_of(c, DType::F32)?;
    if n < 2 {
        let one = b.scalar(1.0, d)?;
        return Ok(expanded(b, &[Dim::Int(n)], &one)?.into());
    }
    let around = if periodic { n } else { n - 1 };
    let i = b.range(&Dim::Int(0), &Dim::Int(n))?;
    let i = b.cast(&i, DType::F32)?;
    let step = b.scalar(2.0 * std::f64::consts::PI / around as f64, DType::F32)?;
    let angle = b.mul(&i, &step)?;
    let wave = b.unary("Cos", &angle)?;
    let half = b.scalar(0.5, DType::F32)?;
    let wave = b.mul(&wave, &half)?;
    let out = b.sub(&half, &wave)?;
    Ok(b.cast(&out, d)?.into())
}
fn eye(b: &mut Builder, c: &Call) -> Result<Arg> {
    let n = c.dim(0, "n")?;
    let m = if c.arg(1, "m").is_none() { n.clone() } else { c.dim(1, "m")? };
    let d = made_of(c, DType::F32)?;
    let (rows, cols) = (b.range(&Dim::Int(0), &n)?, b.range(&Dim::Int(0), &m)?);
    let rows = b.unsqueeze(&rows, &[1])?;
    let e = b.eq(&rows, &cols)?;
    Ok(b.cast(&e, d)?.into())
}
fn triangle(b: &mut Builder, c: &Call, upper: bool) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let k = c.dim(1, "diagonal").unwrap_or(Dim::Int(0));
    let k = b.dim_scalar(&k)?;
    let attr = vec![Attribute::int("upper", i64::from(upper))];
    // no runtime has it for bools
    let of = x.dtype();
    let x = if of == DType::Bool { b.cast(&x, DType::I64)? } else { x };
    let shape = x.shape.clone();
    let out = b.node("Trilu", &[&x, &k], attr, x.dtype(), shape)?;
    Ok(b.cast(&out, of)?.into())
}
fn triangle_indices(b: &mut Builder, c: &Call, upper: bool) -> Result<Arg> {
    let (n, m, k) = (c.int(0, "row")?, c.int(1, "col")?, c.int_or(2, "offset", 0)?);
    let inside = |(i, j): &(i64, i64)| if upper { j - i >= k } else { j - i <= k };
    let all: Vec<(i64, i64)> = (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).filter(inside).collect();
    let flat: Vec<i64> = all.iter().map(|p| p.0).chain(all.iter().map(|p| p.1)).collect();
    let v = b.ints(&flat)?;
    let v = b.reshape_to(&v, &[2, all.len() as i64])?;
    Ok(b.cast(&v, made_of(c, DType::I64)?)?.into())
}
/// A matrix with the last dimension on a diagonal.
fn on_diagonal(b: &mut Builder, x: &Var, k: i64) -> Result<Var> {
    let last = x.rank() as i64 - 1;
    let n = b.size(x, last)?;
    let size = b.dim_add(&n, &Dim::Int(k.abs()))?;
    let all = b.range(&Dim::Int(0), &size)?;
    let (down, right) = ((-k).max(0), k.max(0));
    let shift = b.int(k)?;
    let rows = b.unsqueeze(&all, &[1])?;
    let on = b.add(&rows, &shift)?;
    let on = b.eq(&on, &all)?;
    // the row holds its element in every column
    let zero = b.scalar(0.0, x.dtype())?;
    let mut pads = vec![(Dim::Int(0), Dim::Int(0)); x.rank()];
    pads[last as usize] = (Dim::Int(down), Dim::Int(right));
    let long = b.pad(x, &pads, "constant", &zero)?;
    let wide = b.unsqueeze(&long, &[last + 1])?;
    b.choose(&on, &wide, &zero)
}
fn diag_embed(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let rank = x.rank() + 1;
    let (d1, d2) = (c.axis(2, "dim1", Some(-2), rank)?, c.axis(3, "dim2", Some(-1), rank)?);
    let m = on_diagonal(b, &x, c.int_or(1, "offset", 0)?)?;
    let n = rank as i64;
    let mut rest = 0..n - 2;
    let order: Vec<i64> = (0..n)
        .map(|i| {
            if i == d1 {
                n - 2
            } else if i == d2 {
                n - 1
            } else {
                rest.next().unwrap_or(0)
            }
        })
        .collect();
    Ok(b.transpose(&m, &order)?.into())
}
fn random(b: &mut Builder, c: &Call, op: &str, of: Option<usize>) -> Result<Arg> {
    let to = match of {
        Some(at) => {
            let x = c.tensor(at, "self")?;
            b.sizes(&x)?
        }
        None => c.dims(0, "size")?,
    };
    let d = made_of(c, DType::F32)?;
    let zero = b.scalar(0.0, if d == DType::F64 { d } else { DType::F32 })?;
    let shape = b.full(&to, &zero)?;
    let out =
        b.unary_with(op, &shape, vec![Attribute::int("dtype", i64::from(element_type(shape.dtype())?))])?;
    Ok(b.cast(&out, d)?.into())
}
fn randint(b: &mut Builder, c: &Call) -> Result<Arg> {
    let of = c.target().contains("_like");
    let low = c.overload().starts_with("low");
    let at = usize::from(of);
    let (lo, hi) =
        if low { (c.dim(at, "low")?, c.dim(at + 1, "high")?) } else { (Dim::Int(0), c.dim(at, "high")?) };
    let to = if of {
        let x = c.tensor(0, "self")?;
        b.sizes(&x)?
    } else {
        c.dims(at + 1 + usize::from(low), "size")?
    };
    let d = made_of(c, DType::I64)?;
    let zero = b.scalar(0.0, DType::F32)?;
    let shape = b.full(&to, &zero)?;
    let u = b.unary_with("RandomUniformLike", &shape, Vec::new())?;
    let gap = b.dim_sub(&hi, &lo)?;
    let (gap, lo) = (b.dim_scalar(&gap)?, b.dim_scalar(&lo)?);
    let gap = b.cast(&gap, DType::F32)?;
    let x = b.mul(&u, &gap)?;
    let x = b.unary("Floor", &x)?;
    let x = b.cast(&x, DType::I64)?;
    let x = b.add(&x, &lo)?;
    Ok(b.cast(&x, d)?.into())
}
