//! The little of linear algebra that core operators stand on: inverses (`matrix_power` with a negative exponent),
//! determinants by their logarithm, singular values (nuclear norm) and the matrix exponential. The other functions that
//! `torch.linalg` documents belong to a crate of their own.

use crate::backend::cpu::access::Access;
use crate::backend::matrices::{
    at_least_a_matrix, batch, by_columns, check_info, columns, computed, numbers, plain, sides, square,
};
use crate::backend::out::OutMeta;
use crate::backend::transfer::cast_to;
use crate::generated::args;
use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{DType, Device, Error, bail, ensure, ops};
use flambeau_cpu_linalg::{Vectors, erased};

/// `linalg_inv_ex`
pub fn linalg_inv_ex_shape(&args::LinalgInvEx { a, .. }: &args::LinalgInvEx) -> Result<[OutMeta; 2]> {
    square("linalg.inv", a, "A")?;
    numbers("linalg.inv", a.dtype(), false)?;
    let (m, n) = sides(a);
    Ok([by_columns(a, batch(a), m, n, a.dtype()), plain(a, batch(a), &[], DType::I32)])
}
/// `linalg_inv_ex`
pub fn linalg_inv_ex_cpu(
    &args::LinalgInvEx { a, check_errors }: &args::LinalgInvEx,
    [inverse, info]: [&Tensor; 2],
) -> Result<()> {
    let x = columns(a)?;
    let n = sides(a).0 as usize;
    {
        let held = Access::new(&[], &[&x, inverse, info])?;
        erased::inverse(held.any_mut(0)?, n, held.any_mut(1)?, held.slice_mut::<i32>(2)?)
            .ok_or_else(|| Error::not_implemented_for("linalg_inv_cpu", a.dtype()))?;
    }
    if check_errors { invertible("linalg.inv_ex", info) } else { Ok(()) }
}
/// Whether every inversion succeeded.
fn invertible(name: &str, info: &Tensor) -> Result<()> {
    check_info(
        name,
        info,
        |k| k > 0,
        |k| {
            format!(
                "The diagonal element {k} is zero, the inversion could not be completed because the input matrix is \
                 singular."
            )
        },
    )
}
/// `linalg_inv`
pub fn linalg_inv(a: &Tensor) -> Result<Tensor> {
    let (inverse, info) = ops::linalg_inv_ex(a, false)?;
    invertible("linalg.inv", &info)?;
    Ok(inverse)
}
/// `inverse`
pub fn inverse(self_: &Tensor) -> Result<Tensor> {
    linalg_inv(self_)
}

/// `linalg_slogdet`
pub fn linalg_slogdet_shape(&args::LinalgSlogdet { a }: &args::LinalgSlogdet) -> Result<[OutMeta; 2]> {
    slogdet_meta("linalg.slogdet", a)
}
fn slogdet_meta(name: &str, a: &Tensor) -> Result<[OutMeta; 2]> {
    square(name, a, "A")?;
    numbers(name, a.dtype(), false)?;
    Ok([plain(a, batch(a), &[], a.dtype()), plain(a, batch(a), &[], a.dtype().to_real())])
}
/// `linalg_slogdet`
pub fn linalg_slogdet_cpu(
    &args::LinalgSlogdet { a }: &args::LinalgSlogdet,
    [sign, logabsdet]: [&Tensor; 2],
) -> Result<()> {
    let x = columns(a)?;
    let n = sides(a).0 as usize;
    let held = Access::new(&[], &[&x, sign, logabsdet])?;
    let mut info = geometry::filled(0, sign.numel())?;
    let mut pivots = geometry::filled(0, geometry::size_mul(sign.numel(), n as i64)?)?;
    let mut lu = held.any_mut(0)?;
    erased::lu_factor(lu.reborrow(), n, n, &mut pivots, &mut info, true)
        .and_then(|()| {
            Some(erased::lu_slogdet(lu.shared(), n, &pivots, held.any_mut(1).ok()?, held.any_mut(2).ok()?))
        })
        .flatten()
        .ok_or_else(|| Error::not_implemented_for("linalg_slogdet_cpu", a.dtype()))
}
/// `slogdet`
pub fn slogdet(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    ops::linalg_slogdet(self_)
}
/// `logdet`
pub fn logdet(self_: &Tensor) -> Result<Tensor> {
    slogdet_meta("logdet", self_)?;
    let (sign, log) = ops::linalg_slogdet(self_)?;
    if self_.is_complex() {
        return ops::add(&log, &ops::log(&sign)?, Scalar::Int(1));
    }
    let number = crate::tensor::wrapped_number::wrapped_number;
    let negative = ops::eq(&sign, &number(Scalar::Int(-1))?)?;
    ops::where_(&negative, &number(Scalar::Float(f64::NAN))?, &log)
}

/// `_linalg_svd_reduced`
pub fn linalg_svd_reduced_shape(
    &args::LinalgSvdReduced { a }: &args::LinalgSvdReduced,
) -> Result<[OutMeta; 3]> {
    at_least_a_matrix("linalg.svd", a, "A")?;
    numbers("linalg.svd", a.dtype(), true)?;
    computed("linalg_svd_cpu", a.dtype())?;
    let (m, n) = sides(a);
    let (k, d) = (m.min(n), a.dtype());
    Ok([
        by_columns(a, batch(a), m, k, d),
        plain(a, batch(a), &[k], d.to_real()),
        by_columns(a, batch(a), k, n, d),
    ])
}
/// `_linalg_svd_reduced`
pub fn linalg_svd_reduced_cpu(
    &args::LinalgSvdReduced { a }: &args::LinalgSvdReduced,
    [u, s, vh]: [&Tensor; 3],
) -> Result<()> {
    svd_into(a, Some((u, vh)), s, Vectors::Reduced)
}
/// Singular values of `a`, and the vectors that are wanted, into tensors of the right sizes, by columns.
///
/// # Errors
/// NaN, or no convergence.
pub fn svd_into(a: &Tensor, vectors: Option<(&Tensor, &Tensor)>, s: &Tensor, want: Vectors) -> Result<()> {
    let x = columns(a)?;
    let (m, n) = sides(a);
    let info = Tensor::empty_raw(batch(a), DType::I32, a.device())?;
    {
        let mut outs = vec![&x, s, &info];
        outs.extend(vectors.iter().flat_map(|(u, vh)| [*u, *vh]));
        let held = Access::new(&[], &outs)?;
        let (u, vh) = match vectors {
            Some(_) => (Some(held.any_mut(3)?), Some(held.any_mut(4)?)),
            None => (None, None),
        };
        let sizes = [m as usize, n as usize];
        erased::svd(held.any_mut(0)?, sizes, u, held.any_mut(1)?, vh, want, held.slice_mut::<i32>(2)?)
            .ok_or_else(|| Error::not_implemented_for("linalg_svd_cpu", a.dtype()))?;
    }
    check_info(
        "linalg.svd",
        &info,
        |k| k != 0,
        |k| {
            if k == erased::UNDEFINED {
                "The algorithm failed to converge because the input matrix contained non-finite values."
                    .into()
            } else {
                format!(
                    "The algorithm failed to converge because the input matrix is ill-conditioned or has too many \
                     repeated singular values (error code: {k})."
                )
            }
        },
    )
}
/// `nuclear_norm`
pub fn nuclear_norm(self_: &Tensor, keepdim: bool) -> Result<Tensor> {
    nuclear_norm_dim(self_, &[-2, -1], keepdim)
}
/// `nuclear_norm.dim`
pub fn nuclear_norm_dim(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let name = "linalg.matrix_norm";
    at_least_a_matrix(name, self_, "A")?;
    numbers(name, self_.dtype(), false)?;
    if dim.len() != 2 {
        let given: Vec<String> = dim.iter().map(i64::to_string).collect();
        bail!(Runtime, "{name}: dim must be a 2-tuple. Got {}", given.join(" "));
    }
    let (r, c) = (geometry::wrap_dim(dim[0], self_.dim())?, geometry::wrap_dim(dim[1], self_.dim())?);
    ensure!(r != c, Runtime, "{name}: dims must be different. Got ({}, {})", dim[0], dim[1]);
    let last = ops::movedim(self_, &[r as i64, c as i64], &[-2, -1])?;
    let (_, s, _) = ops::linalg_svd_reduced(&last)?;
    let sum = ops::sum(&s, Some(&[-1]), false, None)?;
    if !keepdim {
        return Ok(sum);
    }
    let (low, high) = (r.min(c) as i64, r.max(c) as i64);
    ops::unsqueeze(&ops::unsqueeze(&sum, low)?, high)
}

/// `linalg_matrix_exp`: a Taylor polynomial of degree 18 of the matrix scaled to norm 1, squared as often as it was halved;
/// each matrix of a batch by its own norm. The body is made of products, and so are its gradients.
pub fn linalg_matrix_exp(self_: &Tensor) -> Result<Tensor> {
    square("linalg.matrix_exp", self_, "A")?;
    numbers("linalg.matrix_exp", self_.dtype(), true)?;
    if self_.numel() == 0 || self_.device() == Device::Meta {
        return ops::clone(self_, None);
    }
    let d = self_.dtype();
    if matches!(d, DType::F16 | DType::BF16) {
        let wide =
            linalg_matrix_exp(&ops::to(self_, Some(DType::F32), None, None, None, false, false, None)?)?;
        return ops::to(&wide, Some(d), None, None, None, false, false, None);
    }
    let number = crate::tensor::wrapped_number::wrapped_number;
    let times = |x: &Tensor, s: f64| ops::mul(x, &number(Scalar::Float(s))?);
    let plus = |x: &Tensor, y: &Tensor| ops::add(x, y, Scalar::Int(1));
    // how often each matrix is halved
    let size = ops::amax(&ops::sum(&ops::abs(&ops::detach(self_)?)?, Some(&[-2]), true, None)?, &[-1], true)?;
    let halvings = ops::clamp(
        &ops::ceil(&ops::log2(&cast_to(&size, DType::F64)?)?)?,
        Some(Scalar::Int(0)),
        Some(Scalar::Int(1100)),
    )?;
    let halvings = ops::nan_to_num(&halvings, Some(0.0), None, None)?;
    let most: f64 = ops::amax(&halvings, &[], false)?.try_item()?;
    let scale = cast_to(&ops::exp2(&ops::neg(&halvings)?)?, d.to_real())?;
    let x = ops::mul(self_, &scale)?;
    let x2 = ops::matmul(&x, &x)?;
    let x3 = ops::matmul(&x2, &x)?;
    let x4 = ops::matmul(&x2, &x2)?;
    let eye = ops::eye(self_.sizes()[self_.dim() - 1], Some(d), None, Some(self_.device()), None)?;
    let inverse_factorial = |k: usize| 1.0 / (1..=k).map(|i| i as f64).product::<f64>();
    // four terms of the series, without the power that they share
    let block = |k: usize| -> Result<Tensor> {
        let mut sum = times(&eye, inverse_factorial(k))?;
        for (j, power) in [&x, &x2, &x3].into_iter().enumerate() {
            sum = plus(&times(power, inverse_factorial(k + j + 1))?, &sum)?;
        }
        Ok(sum)
    };
    let mut sum = block(16)?;
    for k in [12, 8, 4, 0] {
        sum = plus(&ops::matmul(&sum, &x4)?, &block(k)?)?;
    }
    for k in 0..most as i64 {
        let more = ops::gt(&halvings, &number(Scalar::Int(k))?)?;
        sum = ops::where_(&more, &ops::matmul(&sum, &sum)?, &sum)?;
    }
    Ok(sum)
}
/// `matrix_exp`
pub fn matrix_exp(self_: &Tensor) -> Result<Tensor> {
    linalg_matrix_exp(self_)
}
