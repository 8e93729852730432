//! Fourier transforms.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Result, Tensor};

pub(super) const TABLE: Table = &[
    ("aten.fft_fftfreq", |b, c| frequencies(b, c, false)),
    ("aten.fft_rfftfreq", |b, c| frequencies(b, c, true)),
    ("aten.fft_fft", |b, c| one(b, c, false)),
    ("aten.fft_ifft", |b, c| one(b, c, true)),
    ("aten.fft_rfft", |b, c| real(b, c)),
    ("aten.fft_irfft", |b, c| back_to_real(b, c)),
    ("aten.fft_fft2", |b, c| several(b, c, false, true)),
    ("aten.fft_ifft2", |b, c| several(b, c, true, true)),
    ("aten.fft_fftn", |b, c| several(b, c, false, false)),
    ("aten.fft_ifftn", |b, c| several(b, c, true, false)),
    ("aten._fft_c2c", |b, c| {
        let mut x = c.tensor(0, "self")?;
        let dims = c.axes(1, "dim", x.rank())?;
        let forward = c.bool_or(3, "forward", true)?;
        for d in &dims {
            x = transform(b, &x, *d, !forward)?;
            if !forward {
                // the inverse divides already: PyTorch says apart what it wants
                let n = b.size(&x, *d)?;
                x = scaled(b, &x, &n, 1.0)?;
            }
        }
        by_number(b, &x, &dims, c.int_or(2, "normalization", 0)?)
    }),
    ("aten._fft_r2c", |b, c| {
        let x = c.tensor(0, "self")?;
        let dims = c.axes(1, "dim", x.rank())?;
        let last = dims.last().copied().unwrap_or(0);
        let d = if x.dtype() == DType::F64 { DType::C128 } else { DType::C64 };
        let mut y = b.cast(&x, d)?;
        for d in dims.iter().rev() {
            y = transform(b, &y, *d, false)?;
        }
        let of = y.clone();
        if c.bool_or(3, "onesided", true)? {
            y = half(b, &y, last)?;
        }
        normalised(b, &y, &of, &dims, c.int_or(2, "normalization", 0)?)
    }),
    ("aten._fft_c2r", |b, c| {
        let mut x = c.tensor(0, "self")?;
        let dims = c.axes(1, "dim", x.rank())?;
        let n = c.dim(3, "last_dim_size")?;
        let (last, front) = match dims.split_last() {
            Some((l, f)) => (*l, f.to_vec()),
            None => return Ok(x.into()),
        };
        for d in front {
            x = transform(b, &x, d, true)?;
            let size = b.size(&x, d)?;
            x = scaled(b, &x, &size, 1.0)?;
        }
        let whole = mirrored(b, &x, last, &n)?;
        let y = transform(b, &whole, last, true)?;
        let y = scaled(b, &y, &n, 1.0)?;
        let y = b.real_part(&y)?;
        by_number(b, &y, &dims, c.int_or(2, "normalization", 0)?)
    }),
];

/// The frequencies of a transform's results.
fn frequencies(b: &mut Builder, c: &Call, half: bool) -> Result<Arg> {
    let (n, d) = (c.int(0, "n")?, c.float_or(1, "d", 1.0)?);
    let count = if half { n / 2 + 1 } else { n };
    let all: Vec<f64> = (0..count)
        .map(|i| {
            let k = if half || i < (n + 1) / 2 { i } else { i - n };
            k as f64 / (n as f64 * d)
        })
        .collect();
    let count = all.len() as i64;
    let all = b.constant(&Tensor::from_vec(all, [count]))?;
    let to = c.result_dtype().unwrap_or(DType::F32);
    Ok(b.cast(&all, to)?.into())
}
/// The transform over a dimension; the inverse divides by its size.
fn transform(b: &mut Builder, x: &Var, d: i64, inverse: bool) -> Result<Var> {
    let parts = b.parts(x);
    let mut attr = vec![Attribute::int("inverse", i64::from(inverse))];
    // the operator wants batch, signal and parts
    let rank = x.rank() as i64;
    let mut order: Vec<i64> = (0..rank).filter(|i| *i != d).collect();
    order.extend([d, rank]);
    let t = b.transpose(&parts, &order)?;
    let to = b.sizes(&t)?;
    let n = to[to.len() - 2].clone();
    let flat = b.reshape(&t, &[Dim::Int(-1), n, Dim::Int(2)])?;
    let shape = flat.shape.clone();
    let y = if b.opset() >= 20 {
        let axis = b.int(1)?;
        b.node("DFT", &[&flat, &Var::none(), &axis], attr, flat.dtype(), shape)?
    } else {
        attr.push(Attribute::int("axis", 1));
        b.node("DFT", &[&flat], attr, flat.dtype(), shape)?
    };
    let y = b.reshape(&y, &to)?;
    let mut back = vec![0i64; order.len()];
    order.iter().enumerate().for_each(|(i, d)| back[*d as usize] = i as i64);
    let y = b.transpose(&y, &back)?;
    b.join_parts(&y)
}
/// A value times a size to a power.
fn scaled(b: &mut Builder, x: &Var, n: &Dim, power: f64) -> Result<Var> {
    let complex = x.dtype().is_complex();
    let parts = if complex { b.parts(x) } else { x.clone() };
    let f = match n {
        Dim::Int(n) => b.scalar((*n as f64).powf(power), parts.dtype())?,
        Dim::Var(v) => {
            let v = b.cast(v, parts.dtype())?;
            b.pow_number(&v, power)?
        }
    };
    let y = b.mul(&parts, &f)?;
    if complex { b.join_parts(&y) } else { Ok(y) }
}
/// By PyTorch's number: 0 nothing, 1 by the root of the size, 2 by the size.
fn by_number(b: &mut Builder, x: &Var, dims: &[i64], number: i64) -> Result<Arg> {
    normalised(b, x, x, dims, number)
}
fn normalised(b: &mut Builder, x: &Var, of: &Var, dims: &[i64], number: i64) -> Result<Arg> {
    if number == 0 {
        return Ok(x.clone().into());
    }
    let n = b.count(of, dims)?;
    Ok(scaled(b, x, &n, if number == 1 { -0.5 } else { -1.0 })?.into())
}
/// What `norm` asks beside the plain transform (the inverse of which divides by the size).
fn by_name(b: &mut Builder, x: &Var, n: &Dim, norm: &str, inverse: bool) -> Result<Var> {
    match (norm, inverse) {
        ("ortho", false) => scaled(b, x, n, -0.5),
        ("ortho", true) => scaled(b, x, n, 0.5),
        ("forward", false) => scaled(b, x, n, -1.0),
        ("forward", true) => scaled(b, x, n, 1.0),
        _ => Ok(x.clone()),
    }
}
/// A signal cut or filled up with zeros.
fn resized(b: &mut Builder, x: &Var, d: i64, n: &Dim) -> Result<Var> {
    if let (Some(Some(m)), Some(n)) = (x.shape.get(d as usize), n.known()) {
        if *m == n {
            return Ok(x.clone());
        }
        if *m > n {
            return b.narrow(x, d, 0, n);
        }
    }
    let m = b.size(x, d)?;
    let more = b.dim_sub(n, &m)?;
    let more = b.dim_max(&more, &Dim::Int(0))?;
    let mut shape = b.sizes(x)?;
    shape[d as usize] = more;
    let complex = x.dtype().is_complex();
    let parts = if complex { b.parts(x) } else { x.clone() };
    if complex {
        shape.push(Dim::Int(2));
    }
    let zero = b.scalar(0.0, parts.dtype())?;
    let zeros = b.full(&shape, &zero)?;
    let y = b.concat(&[parts, zeros], d)?;
    let y = b.slice(&y, d, &Dim::Int(0), n, 1)?;
    if complex { b.join_parts(&y) } else { Ok(y) }
}
fn half(b: &mut Builder, x: &Var, d: i64) -> Result<Var> {
    let n = b.size(x, d)?;
    let h = b.dim_div(&n, &Dim::Int(2))?;
    let h = b.dim_add(&h, &Dim::Int(1))?;
    b.slice(x, d, &Dim::Int(0), &h, 1)
}
/// The whole spectrum of a real signal of `n` elements from its first half.
fn mirrored(b: &mut Builder, x: &Var, d: i64, n: &Dim) -> Result<Var> {
    let h = b.dim_div(n, &Dim::Int(2))?;
    let h = b.dim_add(&h, &Dim::Int(1))?;
    let x = resized(b, x, d, &h)?;
    // elements 1 to n - h, reversed and conjugated
    let rest = b.dim_sub(n, &h)?;
    let end = b.dim_add(&rest, &Dim::Int(1))?;
    let tail = b.slice(&x, d, &Dim::Int(1), &end, 1)?;
    let tail = b.flip(&tail, d)?;
    let tail = b.complex_conj(&tail)?;
    let (p, q) = (b.parts(&x), b.parts(&tail));
    let y = b.concat(&[p, q], d)?;
    let mut y = b.join_parts(&y)?;
    y.shape[d as usize] = n.known();
    Ok(y)
}
fn complex(b: &mut Builder, x: &Var) -> Result<Var> {
    if x.dtype().is_complex() {
        return Ok(x.clone());
    }
    b.cast(x, if x.dtype() == DType::F64 { DType::C128 } else { DType::C64 })
}
fn one(b: &mut Builder, c: &Call, inverse: bool) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(2, "dim", Some(-1), x.rank())?;
    let x = complex(b, &x)?;
    let n = if c.arg(1, "n").is_none() { b.size(&x, d)? } else { c.dim(1, "n")? };
    let x = resized(b, &x, d, &n)?;
    let y = transform(b, &x, d, inverse)?;
    Ok(by_name(b, &y, &n, c.text_or(3, "norm", "")?, inverse)?.into())
}
fn real(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(2, "dim", Some(-1), x.rank())?;
    let n = if c.arg(1, "n").is_none() { b.size(&x, d)? } else { c.dim(1, "n")? };
    let x = if x.dtype().is_floating() { x } else { b.cast(&x, DType::F32)? };
    let x = resized(b, &x, d, &n)?;
    let x = complex(b, &x)?;
    let y = transform(b, &x, d, false)?;
    let y = half(b, &y, d)?;
    Ok(by_name(b, &y, &n, c.text_or(3, "norm", "")?, false)?.into())
}
fn back_to_real(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let d = c.axis(2, "dim", Some(-1), x.rank())?;
    let x = complex(b, &x)?;
    let n = if c.arg(1, "n").is_none() {
        let h = b.size(&x, d)?;
        let h = b.dim_sub(&h, &Dim::Int(1))?;
        b.dim_mul(&h, &Dim::Int(2))?
    } else {
        c.dim(1, "n")?
    };
    let whole = mirrored(b, &x, d, &n)?;
    let y = transform(b, &whole, d, true)?;
    let y = b.real_part(&y)?;
    Ok(by_name(b, &y, &n, c.text_or(3, "norm", "")?, true)?.into())
}
fn several(b: &mut Builder, c: &Call, inverse: bool, two: bool) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let rank = x.rank();
    let sizes = c.dims(1, "s")?;
    let dims = if c.arg(2, "dim").is_none() {
        let n = if two {
            2
        } else if sizes.is_empty() {
            rank
        } else {
            sizes.len()
        };
        (rank as i64 - n as i64..rank as i64).collect()
    } else {
        c.axes(2, "dim", rank)?
    };
    let norm = c.text_or(3, "norm", "")?.to_string();
    let mut y = complex(b, &x)?;
    for (i, d) in dims.iter().enumerate() {
        let n = match sizes.get(i) {
            Some(n) => n.clone(),
            None => b.size(&y, *d)?,
        };
        y = resized(b, &y, *d, &n)?;
        y = transform(b, &y, *d, inverse)?;
        y = by_name(b, &y, &n, &norm, inverse)?;
    }
    Ok(y.into())
}
