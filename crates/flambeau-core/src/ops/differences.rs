//! Differences of neighbours, and the slopes that they give (`torch.diff`, `torch.gradient`).

use crate::tensor::geometry::{SizeVec, wrap_dim, wrap_dims};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};

fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sub(a, b, Scalar::Int(1))
}
fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::add(a, b, Scalar::Int(1))
}
fn times(a: &Tensor, s: f64) -> Result<Tensor> {
    ops::mul(a, &wrapped_number(Scalar::Float(s))?)
}
/// A range of a dimension, from its end where negative.
fn part(x: &Tensor, d: i64, from: Option<i64>, to: Option<i64>) -> Result<Tensor> {
    ops::slice(x, d, from, to, 1)
}

/// The dimensions meant, after the checks that all forms share. `given`: how many spacings there are, unless one stands
/// for all.
fn dims(self_: &Tensor, given: Option<usize>, dim: Option<&[i64]>, edge_order: i64) -> Result<SizeVec> {
    let rank = self_.dim();
    ensure!(self_.dtype() != DType::U8, Unsupported, "torch.gradient does not support uint8 input.");
    match (given, dim) {
        (Some(n), None) => ensure!(
            n == rank,
            Runtime,
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = {rank}', \
             since dim argument was not given, but got a list of length {n}"
        ),
        (Some(n), Some(d)) => ensure!(
            n == d.len(),
            Runtime,
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the \
             same length, but got a spacing argument of length {n} and a dim argument of length {}.",
            d.len()
        ),
        _ => {}
    }
    ensure!(
        matches!(edge_order, 1 | 2),
        Runtime,
        "torch.gradient only supports edge_order=1 and edge_order=2."
    );
    let all: SizeVec = match dim {
        Some(d) => wrap_dims(d, rank)?.into_iter().map(|d| d as i64).collect(),
        None => (0..rank as i64).collect(),
    };
    for d in &all {
        ensure!(
            self_.sizes().get(*d as usize).is_some_and(|n| *n > edge_order),
            Runtime,
            "torch.gradient expected each dimension size to be at least edge_order+1"
        );
    }
    Ok(all)
}

/// Slopes along `d` with neighbours at one distance.
fn even(x: &Tensor, spacing: Scalar, d: i64, edge_order: i64) -> Result<Tensor> {
    let h = wrapped_number(spacing)?;
    let slope = |t: Tensor| ops::div(&t, &h);
    let at = |from: i64, to: Option<i64>| part(x, d, Some(from), to);
    let center = slope(sub(&part(x, d, Some(2), None)?, &part(x, d, Some(0), Some(-2))?)?)?;
    let (first, last) = if edge_order == 1 {
        (slope(sub(&at(1, Some(2))?, &at(0, Some(1))?)?)?, slope(sub(&at(-1, None)?, &at(-2, Some(-1))?)?)?)
    } else {
        let three = |p: [&Tensor; 3], c: [f64; 3]| {
            add(&add(&times(p[0], c[0])?, &times(p[1], c[1])?)?, &times(p[2], c[2])?)
        };
        let (a, b, c) = (at(0, Some(1))?, at(1, Some(2))?, at(2, Some(3))?);
        let (p, q, r) = (at(-3, Some(-2))?, at(-2, Some(-1))?, at(-1, None)?);
        (slope(three([&a, &b, &c], [-1.5, 2.0, -0.5])?)?, slope(three([&p, &q, &r], [0.5, -2.0, 1.5])?)?)
    };
    let center = ops::div(&center, &wrapped_number(Scalar::Int(2))?)?;
    ops::cat(&[first, center, last], d)
}

/// Slopes along `d` over points at `coordinates`: those of the parabola through three neighbours.
fn uneven(x: &Tensor, coordinates: &Tensor, d: i64, edge_order: i64) -> Result<Tensor> {
    let mut shape = SizeVec::from_elem(1, x.dim());
    shape[d as usize] = -1;
    let dx = ops::diff(coordinates, 1, 0, None, None)?;
    let (h1, h2) = (part(&dx, 0, Some(0), Some(-1))?, part(&dx, 0, Some(1), None)?);
    let both = add(&h1, &h2)?;
    let along = |t: Tensor| ops::reshape(&t, &shape);
    let a = along(ops::div(&ops::neg(&h2)?, &ops::mul(&h1, &both)?)?)?;
    let b = along(ops::div(&sub(&h2, &h1)?, &ops::mul(&h1, &h2)?)?)?;
    let c = along(ops::div(&h1, &ops::mul(&h2, &both)?)?)?;
    let three = |w: [&Tensor; 3], p: [Tensor; 3]| {
        let two = add(&ops::mul(w[0], &p[0])?, &ops::mul(w[1], &p[1])?)?;
        add(&two, &ops::mul(w[2], &p[2])?)
    };
    let center = three(
        [&a, &b, &c],
        [part(x, d, Some(0), Some(-2))?, part(x, d, Some(1), Some(-1))?, part(x, d, Some(2), None)?],
    )?;
    let step = |i: i64| ops::select(&dx, 0, i);
    let at = |from: i64, to: Option<i64>| part(x, d, Some(from), to);
    let (first, last) = if edge_order == 1 {
        (
            ops::div(&sub(&at(1, Some(2))?, &at(0, Some(1))?)?, &step(0)?)?,
            ops::div(&sub(&at(-1, None)?, &at(-2, Some(-1))?)?, &step(-1)?)?,
        )
    } else {
        // weights of an edge and its two neighbours, from the edge inwards
        let weights = |h: &Tensor, k: &Tensor| -> Result<[Tensor; 3]> {
            let s = add(h, k)?;
            Ok([
                ops::div(&add(&times(h, 2.0)?, k)?, &ops::mul(h, &s)?)?,
                ops::neg(&ops::div(&s, &ops::mul(h, k)?)?)?,
                ops::div(h, &ops::mul(k, &s)?)?,
            ])
        };
        let low = weights(&step(0)?, &step(1)?)?;
        let high = weights(&step(-1)?, &step(-2)?)?;
        (
            ops::neg(&three(
                [&low[0], &low[1], &low[2]],
                [at(0, Some(1))?, at(1, Some(2))?, at(2, Some(3))?],
            )?)?,
            three([&high[2], &high[1], &high[0]], [at(-3, Some(-2))?, at(-2, Some(-1))?, at(-1, None)?])?,
        )
    };
    ops::cat(&[first, center, last], d)
}

fn by_steps(
    x: &Tensor,
    dims: &[i64],
    spacing: impl Fn(usize) -> Scalar,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    dims.iter().enumerate().map(|(i, d)| even(x, spacing(i), *d, edge_order)).collect()
}
fn by_coordinates(x: &Tensor, points: &[Tensor], dims: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    for p in points {
        ensure!(
            p.dim() == 1,
            Runtime,
            "torch.gradient expected each element of spacing to have one dimension, but got an element with {} dimensions!",
            p.dim()
        );
    }
    dims.iter().zip(points).map(|(d, p)| uneven(x, p, *d, edge_order)).collect()
}
/// One dimension as a list.
fn one(self_: &Tensor, dim: Option<i64>) -> Result<Option<SizeVec>> {
    dim.map(|d| Ok(SizeVec::from_slice(&[wrap_dim(d, self_.dim())? as i64]))).transpose()
}

/// `gradient.scalarint`
pub fn gradient(
    self_: &Tensor,
    spacing: Option<Scalar>,
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let d = one(self_, dim)?;
    let d = dims(self_, None, d.as_deref(), edge_order)?;
    by_steps(self_, &d, |_| spacing.unwrap_or(Scalar::Int(1)), edge_order)
}
/// `gradient.scalararray`
pub fn gradient_spacing_dims(
    self_: &Tensor,
    spacing: Scalar,
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    by_steps(self_, &dims(self_, None, Some(dim), edge_order)?, |_| spacing, edge_order)
}
/// `gradient.array`
pub fn gradient_dims(self_: &Tensor, dim: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    gradient_spacing_dims(self_, Scalar::Int(1), dim, edge_order)
}
/// `gradient.scalarrayint`
pub fn gradient_spacings(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let d = one(self_, dim)?;
    let d = dims(self_, Some(spacing.len()), d.as_deref(), edge_order)?;
    by_steps(self_, &d, |i| spacing[i], edge_order)
}
/// `gradient.scalarrayarray`
pub fn gradient_spacings_dims(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let d = dims(self_, Some(spacing.len()), Some(dim), edge_order)?;
    by_steps(self_, &d, |i| spacing[i], edge_order)
}
/// `gradient.tensorarrayint`
pub fn gradient_coordinates(
    self_: &Tensor,
    spacing: &[Tensor],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let d = one(self_, dim)?;
    let d = dims(self_, Some(spacing.len()), d.as_deref(), edge_order)?;
    by_coordinates(self_, spacing, &d, edge_order)
}
/// `gradient.tensorarray`
pub fn gradient_coordinates_dims(
    self_: &Tensor,
    spacing: &[Tensor],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let d = dims(self_, Some(spacing.len()), Some(dim), edge_order)?;
    by_coordinates(self_, spacing, &d, edge_order)
}

/// `diff`
pub fn diff(
    self_: &Tensor,
    n: i64,
    dim: i64,
    prepend: Option<&Tensor>,
    append: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Runtime, "diff expects input to be at least one-dimensional");
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(n >= 0, Runtime, "order must be non-negative but got {n}");
    for t in [prepend, append].into_iter().flatten() {
        ensure!(
            t.dim() == self_.dim(),
            Runtime,
            "diff expects prepend or append to be the same dimension as input"
        );
        for i in 0..t.dim() {
            ensure!(
                i == d || t.sizes()[i] == self_.sizes()[i],
                Runtime,
                "diff expects the shape of tensor to prepend or append to match that of input except along the \
                 differencing dimension; input.size({i}) = {}, but got tensor.size({i}) = {}",
                self_.sizes()[i],
                t.sizes()[i]
            );
        }
    }
    if n == 0 {
        return ops::clone(self_, None);
    }
    let parts: Vec<Tensor> =
        [prepend, Some(self_), append].into_iter().flatten().map(Tensor::clone).collect();
    let mut x = if parts.len() == 1 { self_.clone() } else { ops::cat(&parts, d as i64)? };
    let size = x.sizes()[d];
    if n > 0 && (x.dtype().is_wide_unsigned() || matches!(x.dtype(), DType::F8E4M3 | DType::F8E5M2)) {
        return Err(Error::not_implemented_for("add_stub", x.dtype()));
    }
    if n >= size || x.device() == Device::Meta {
        // nothing is left, or only the size is asked for
        let format = (size <= n).then_some(crate::MemoryFormat::Contiguous);
        return ops::clone(&ops::narrow(&x, d as i64, 0, (size - n).max(0))?, format);
    }
    for _ in 0..n {
        let rest = x.sizes()[d] - 1;
        let (low, high) = (ops::narrow(&x, d as i64, 0, rest)?, ops::narrow(&x, d as i64, 1, rest)?);
        x = if x.dtype() == DType::Bool { ops::logical_xor(&high, &low)? } else { sub(&high, &low)? };
    }
    Ok(x)
}
