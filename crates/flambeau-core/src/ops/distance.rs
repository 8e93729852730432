//! Distances between tensors, and between the rows of matrices.

use crate::backend::transfer::to_device;
use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, bail, ensure, ops};

const ONE: Scalar = Scalar::Int(1);

fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sub(a, b, ONE)
}
/// Indices on a device.
fn vector(v: Vec<i64>, device: Device) -> Result<Tensor> {
    let n = v.len() as i64;
    to_device(Tensor::from_vec_raw(v, &[n])?, device)
}

/// `dist`
pub fn dist(self_: &Tensor, other: &Tensor, p: Scalar) -> Result<Tensor> {
    let d = sub(self_, other)?;
    ensure!(
        d.dtype().is_floating() || d.is_complex(),
        Unsupported,
        "norm(): input dtype should be either floating point or complex. Got {} instead.",
        d.dtype().scalar_type_name()
    );
    ops::linalg_vector_norm(&d, p, None, false, None)
}

/// `cdist`
pub fn cdist(x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<&str>) -> Result<Tensor> {
    for (t, name) in [(x1, "X1"), (x2, "X2")] {
        ensure!(t.dim() >= 2, Runtime, "cdist only supports at least 2D tensors, {name} got: {}D", t.dim());
    }
    let (a, b) = (x1.sizes()[x1.dim() - 1], x2.sizes()[x2.dim() - 1]);
    ensure!(a == b, Runtime, "X1 and X2 must have the same number of columns. X1: {a} X2: {b}");
    for (t, name) in [(x1, "X1"), (x2, "X2")] {
        ensure!(
            t.dtype().is_floating(),
            Runtime,
            "cdist only supports floating-point dtypes, {name} got: {}",
            t.dtype().scalar_type_name()
        );
    }
    ensure!(p >= 0.0, Runtime, "cdist only supports non-negative p values");
    if let Some(m) = compute_mode {
        ensure!(
            matches!(
                m,
                "use_mm_for_euclid_dist_if_necessary"
                    | "use_mm_for_euclid_dist"
                    | "donot_use_mm_for_euclid_dist"
            ),
            Value,
            "{m} is not a valid value for compute_mode"
        );
    }
    // halves have the way over a matrix product only
    let large = x1.sizes()[x1.dim() - 2] > 25 || x2.sizes()[x2.dim() - 2] > 25;
    let by_product = p == 2.0
        && match compute_mode {
            Some("use_mm_for_euclid_dist") => true,
            Some("donot_use_mm_for_euclid_dist") => false,
            _ => large,
        };
    let half = matches!(x1.dtype(), DType::F16 | DType::BF16);
    if half && !by_product && a > 0 && x1.numel() > 0 && x2.numel() > 0 {
        return Err(Error::not_implemented_for("cdist", x1.dtype()));
    }
    if x1.dtype() != x2.dtype() && a > 0 && x1.numel() > 0 && x2.numel() > 0 {
        let (x, y) = (x1.dtype(), x2.dtype());
        if by_product && x1.dim() == 2 && x2.dim() == 2 {
            bail!(
                Runtime,
                "expected m1 and m2 to have the same dtype, but got: {} != {}",
                x.c_name(),
                y.c_name()
            );
        }
        bail!(Runtime, "expected scalar type {} but found {}", x.scalar_type_name(), y.scalar_type_name());
    }
    let d = sub(&ops::unsqueeze(x1, -2)?, &ops::unsqueeze(x2, -3)?)?;
    if a == 0 {
        return ops::sum(&d, Some(&[-1]), false, None);
    }
    distance(&d, p)
}
/// The length of differences. Its gradient is a distance's, not that of a norm: a count's is zero and not none, and of
/// several largest differences each has all of it.
fn distance(d: &Tensor, p: f64) -> Result<Tensor> {
    let n = ops::linalg_vector_norm(d, Scalar::Float(p), Some(&[-1]), false, None)?;
    if !d.requires_grad() || (p != 0.0 && p != f64::INFINITY) {
        return Ok(n);
    }
    let n = ops::detach(&n)?;
    let size = ops::abs(d)?;
    let others = match p == 0.0 {
        true => ops::ones_like(&ops::detach(&size)?, Some(DType::Bool), None, None, None, None)?,
        false => ops::ne(&ops::detach(&size)?, &ops::unsqueeze(&n, -1)?)?,
    };
    let parts = ops::sum(&ops::masked_fill(&size, &others, Scalar::Int(0))?, Some(&[-1]), false, None)?;
    let change = sub(&parts, &ops::detach(&parts)?)?;
    // infinite lengths have no difference
    let change = ops::masked_fill(&change, &ops::isnan(&ops::detach(&change)?)?, Scalar::Int(0))?;
    ops::add(&n, &change, ONE)
}

/// `pdist`
pub fn pdist(self_: &Tensor, p: f64) -> Result<Tensor> {
    ensure!(self_.dim() == 2, Runtime, "pdist only supports 2D tensors, got: {}D", self_.dim());
    ensure!(self_.dtype().is_floating(), Runtime, "pdist only supports floating-point dtypes");
    if !matches!(self_.dtype(), DType::F32 | DType::F64) {
        return Err(Error::not_implemented_for("pdist", self_.dtype()));
    }
    ensure!(p >= 0.0, Runtime, "pdist only supports non-negative p values");
    let n = self_.sizes()[0];
    let pairs = (n as i128 * (n as i128 - 1) / 2).clamp(0, i64::MAX as i128) as i64;
    let (mut a, mut b) = (geometry::room(pairs)?, geometry::room(pairs)?);
    for i in 0..n {
        for j in i + 1..n {
            a.push(i);
            b.push(j);
        }
    }
    let rows = |v: Vec<i64>| ops::index_select(self_, 0, &vector(v, self_.device())?);
    let d = sub(&rows(a)?, &rows(b)?)?;
    if self_.sizes()[1] == 0 {
        return ops::sum(&d, Some(&[-1]), false, None);
    }
    distance(&d, p)
}
