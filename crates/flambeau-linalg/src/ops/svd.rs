//! Singular values and vectors, and what follows from them.

use super::util::{cast, computes, mh, number, zeros};
use crate::generated::args;
use crate::ops;
use flambeau_core::backend::matrices::{
    at_least_a_matrix, batch, by_columns, numbers, plain, sides, sized, square, write,
};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::ops::linalg::svd_into;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::types::type_info::finfo;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, ops as core};
use flambeau_cpu_linalg::Vectors;

fn checks(a: &Tensor, driver: Option<&str>) -> Result<()> {
    numbers("linalg.svd", a.dtype(), true)?;
    at_least_a_matrix("linalg.svd", a, "A")?;
    ensure!(
        driver.is_none(),
        Runtime,
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    );
    computes("linalg_svd_cpu", a)
}
/// `linalg_svd`
pub fn linalg_svd_shape(x: &args::LinalgSvd) -> Result<[OutMeta; 3]> {
    let a = x.a;
    checks(a, x.driver)?;
    let (m, n) = sides(a);
    let (k, d, b) = (m.min(n), a.dtype(), batch(a));
    let (left, right) = if x.full_matrices { (m, n) } else { (k, k) };
    Ok([by_columns(a, b, m, left, d), plain(a, b, &[k], d.to_real()), by_columns(a, b, right, n, d)])
}
/// The vectors of nothing are the axes.
fn unit(t: &Tensor) -> Result<()> {
    core::zero_(t)?;
    core::fill_(&core::diagonal(t, 0, -2, -1)?, Scalar::Int(1))
}
/// `linalg_svd`
pub fn linalg_svd_cpu(x: &args::LinalgSvd, [u, s, vh]: [&Tensor; 3]) -> Result<()> {
    if x.a.numel() == 0 {
        return [u, vh].into_iter().try_for_each(unit);
    }
    svd_into(x.a, Some((u, vh)), s, if x.full_matrices { Vectors::Full } else { Vectors::Reduced })
}
/// `linalg_svdvals`
pub fn linalg_svdvals_shape(x: &args::LinalgSvdvals) -> Result<OutMeta> {
    checks(x.a, x.driver)?;
    let (m, n) = sides(x.a);
    Ok(plain(x.a, batch(x.a), &[m.min(n)], x.a.dtype().to_real()))
}
/// `linalg_svdvals`
pub fn linalg_svdvals_cpu(x: &args::LinalgSvdvals, out: &Tensor) -> Result<()> {
    if x.a.numel() == 0 { Ok(()) } else { svd_into(x.a, None, out, Vectors::None) }
}
/// `svd`
pub fn svd(self_: &Tensor, some: bool, compute_uv: bool) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(
        self_.dim() >= 2,
        Runtime,
        "linalg.svd: input should have at least 2 dimensions, but has {} dimensions instead",
        self_.dim()
    );
    if !compute_uv {
        let s = ops::linalg_svdvals(self_, None)?;
        let (m, n) = sides(self_);
        let square = |n: i64| zeros(&sized(batch(self_), &[n, n]), self_.dtype(), self_);
        return Ok((square(m)?, s, square(n)?));
    }
    let (u, s, vh) = ops::linalg_svd(self_, !some, None)?;
    Ok((u, s, mh(&vh)?))
}

/// `linalg_polar`
pub fn linalg_polar_shape(x: &args::LinalgPolar) -> Result<[OutMeta; 2]> {
    let a = x.a;
    at_least_a_matrix("linalg.polar", a, "A")?;
    numbers("linalg.polar", a.dtype(), true)?;
    let (m, n) = sides(a);
    ensure!(
        m >= n,
        Runtime,
        "linalg.polar: input must have at least as many rows as columns, but got {m} by {n} matrices"
    );
    computes("linalg_svd_cpu", a)?;
    Ok([plain(a, batch(a), &[m, n], a.dtype()), plain(a, batch(a), &[n, n], a.dtype())])
}
/// `linalg_polar`
pub fn linalg_polar_cpu(x: &args::LinalgPolar, [u, h]: [&Tensor; 2]) -> Result<()> {
    if x.a.numel() == 0 {
        return Ok(());
    }
    let (p, s, vh) = core::linalg_svd_reduced(x.a)?;
    write(u, &core::matmul(&p, &vh)?)?;
    write(h, &core::matmul(&core::mul(&mh(&vh)?, &core::unsqueeze(&s, -2)?)?, &vh)?)
}

/// Epsilon of a dtype, times the longer side: what rounding alone does to singular values.
fn default_rtol(a: &Tensor) -> Result<f64> {
    let d = a.dtype();
    ensure!(
        d.is_floating() || d.is_complex(),
        Runtime,
        "This function doesn't handle types other than float and double"
    );
    ensure!(
        matches!(d.to_real(), DType::F32 | DType::F64),
        Runtime,
        "This function doesn't handle types other than float and double"
    );
    let (m, n) = sides(a);
    Ok(finfo(d.to_real())?.eps * m.max(n) as f64)
}
fn tolerance(v: f64, like: &Tensor) -> Result<Tensor> {
    let t = number(v)?;
    let t = cast(&t, DType::F64)?;
    core::to(&t, None, None, Some(like.device()), None, false, false, None)
}
/// The two tolerances, as PyTorch fills in what is left out.
fn both(a: &Tensor, atol: Option<&Tensor>, rtol: Option<&Tensor>, name: &str) -> Result<(Tensor, Tensor)> {
    real_tolerances(atol, rtol, name)?;
    let none = tolerance(0.0, a)?;
    let at = atol.cloned().unwrap_or_else(|| none.clone());
    let rt = match rtol {
        Some(r) => r.clone(),
        None => {
            let default = tolerance(default_rtol(a)?, a)?;
            match atol {
                Some(t) => core::where_(&core::gt(t, &none)?, &none, &default)?,
                None => default,
            }
        }
    };
    Ok((at, rt))
}
fn real_tolerances(atol: Option<&Tensor>, rtol: Option<&Tensor>, name: &str) -> Result<()> {
    for (t, what) in [(atol, "atol"), (rtol, "rtol")] {
        ensure!(
            t.is_none_or(|t| !t.is_complex()),
            Runtime,
            "{name}: {what} tensor of complex type is not supported. Got {}",
            t.map_or("", |t| t.dtype().scalar_type_name())
        );
    }
    Ok(())
}
fn both_numbers(a: &Tensor, atol: Option<f64>, rtol: Option<f64>) -> Result<(f64, f64)> {
    let at = atol.unwrap_or(0.0);
    Ok((
        at,
        match (rtol, default_rtol(a)) {
            (Some(r), _) => r,
            // the dtype is looked at in any case
            (None, default) => default.map(|d| if at > 0.0 { 0.0 } else { d })?,
        },
    ))
}
/// `max(atol, rtol * most)` for each matrix.
fn bound(atol: &Tensor, rtol: &Tensor, most: &Tensor) -> Result<Tensor> {
    let atol = core::unsqueeze(atol, -1)?;
    let by = core::mul(&cast(&core::unsqueeze(rtol, -1)?, most.dtype())?, most)?;
    core::maximum(&cast(&atol, most.dtype())?, &by)
}
fn inverted_check(a: &Tensor) -> Result<()> {
    let fine = matches!(a.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128);
    ensure!(
        fine && a.dim() >= 2,
        Runtime,
        "linalg.pinv({}{{{}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types",
        a.dtype().scalar_type_name(),
        fmt_sizes(a.sizes())
    );
    Ok(())
}
/// `linalg_pinv.atol_rtol_tensor`
pub fn linalg_pinv_tensors_shape(x: &args::LinalgPinvTensors) -> Result<OutMeta> {
    let a = x.self_;
    inverted_check(a)?;
    real_tolerances(x.atol, x.rtol, "torch.linalg.pinv")?;
    if x.hermitian && a.numel() > 0 {
        square("linalg.eigh", a, "A")?;
    }
    let (m, n) = sides(a);
    let mut all = flambeau_core::tensor::geometry::SizeVec::from_slice(batch(a));
    for t in [x.atol, x.rtol].into_iter().flatten() {
        all = flambeau_core::tensor::geometry::broadcast_shapes(&all, t.sizes())?;
    }
    Ok(plain(a, &all, &[n, m], a.dtype()))
}
/// `linalg_pinv.atol_rtol_tensor`
pub fn linalg_pinv_tensors_cpu(x: &args::LinalgPinvTensors, out: &Tensor) -> Result<()> {
    let a = x.self_;
    if a.numel() == 0 {
        return Ok(());
    }
    let (atol, rtol) = both(a, x.atol, x.rtol, "torch.linalg.pinv")?;
    let none = number(0.0)?;
    let one = number(1.0)?;
    if x.hermitian {
        let (l, q) = ops::linalg_eigh(a, "L")?;
        let size = core::abs(&l)?;
        let bound = bound(&atol, &rtol, &core::amax(&size, &[-1], true)?)?;
        let inverse = core::where_(&core::gt(&size, &bound)?, &core::div(&one, &l)?, &none)?;
        let scaled = core::mul(&q, &core::unsqueeze(&cast(&inverse, l.dtype())?, -2)?)?;
        return write(out, &finite(core::matmul(&scaled, &mh(&q)?)?, &l, &none)?);
    }
    let (u, s, vh) = core::linalg_svd_reduced(a)?;
    let bound = bound(&atol, &rtol, &core::narrow(&s, -1, 0, 1)?)?;
    let inverse = core::where_(&core::gt(&s, &bound)?, &core::div(&one, &s)?, &none)?;
    let scaled = core::mul(&mh(&u)?, &core::unsqueeze(&cast(&inverse, s.dtype())?, -1)?)?;
    write(out, &finite(core::matmul(&mh(&vh)?, &scaled)?, &s, &none)?)
}
/// Zeros where a matrix that is not finite has no singular values: none of them is above the tolerance.
fn finite(inverse: Tensor, values: &Tensor, none: &Tensor) -> Result<Tensor> {
    let bad = core::any(&core::isnan(values)?)?;
    if !bad.try_item::<bool>()? {
        return Ok(inverse);
    }
    let bad = core::any_dim(&core::isnan(values)?, -1, true)?;
    core::where_(&core::unsqueeze(&bad, -1)?, &cast(none, inverse.dtype())?, &inverse)
}
/// `linalg_pinv.atol_rtol_float`
pub fn linalg_pinv(self_: &Tensor, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Result<Tensor> {
    inverted_check(self_)?;
    let (at, rt) = both_numbers(self_, atol, rtol)?;
    let (at, rt) = (tolerance(at, self_)?, tolerance(rt, self_)?);
    ops::linalg_pinv_tensors(self_, Some(&at), Some(&rt), hermitian)
}
/// `linalg_pinv`
pub fn linalg_pinv_rcond(self_: &Tensor, rcond: f64, hermitian: bool) -> Result<Tensor> {
    ops::linalg_pinv(self_, Some(0.0), Some(rcond), hermitian)
}
/// `linalg_pinv.rcond_tensor`
pub fn linalg_pinv_rcond_tensor(self_: &Tensor, rcond: &Tensor, hermitian: bool) -> Result<Tensor> {
    inverted_check(self_)?;
    ensure!(
        !rcond.is_complex(),
        Runtime,
        "torch.linalg.pinv: rcond tensor of complex type is not supported. Got {}",
        rcond.dtype().scalar_type_name()
    );
    ops::linalg_pinv_tensors(self_, Some(&tolerance(0.0, self_)?), Some(rcond), hermitian)
}
/// `pinverse`
pub fn pinverse(self_: &Tensor, rcond: f64) -> Result<Tensor> {
    linalg_pinv_rcond(self_, rcond, false)
}

fn rank(a: &Tensor, atol: &Tensor, rtol: &Tensor, hermitian: bool) -> Result<Tensor> {
    let name = "torch.linalg.matrix_rank";
    at_least_a_matrix(name, a, "input")?;
    let a = &core::detach(a)?;
    if hermitian && a.numel() > 0 {
        square("linalg.eigh", a, "A")?;
    }
    let mut all = flambeau_core::tensor::geometry::SizeVec::from_slice(batch(a));
    for t in [atol, rtol] {
        all = flambeau_core::tensor::geometry::broadcast_shapes(&all, t.sizes())?;
    }
    if a.numel() == 0 {
        return zeros(&all, DType::I64, a);
    }
    let (s, most) = if hermitian {
        let s = core::abs(&ops::linalg_eigvalsh(a, "L")?)?;
        let most = core::amax(&s, &[-1], true)?;
        (s, most)
    } else {
        let s = ops::linalg_svdvals(a, None)?;
        let most = core::narrow(&s, -1, 0, 1)?;
        (s, most)
    };
    core::sum(&core::gt(&s, &bound(atol, rtol, &most)?)?, Some(&[-1]), false, None)
}
/// `linalg_matrix_rank.atol_rtol_tensor`
pub fn linalg_matrix_rank_tensors(
    input: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    at_least_a_matrix("torch.linalg.matrix_rank", input, "input")?;
    let (at, rt) = both(input, atol, rtol, "torch.linalg.matrix_rank")?;
    rank(input, &at, &rt, hermitian)
}
/// `linalg_matrix_rank.atol_rtol_float`
pub fn linalg_matrix_rank(
    self_: &Tensor,
    atol: Option<f64>,
    rtol: Option<f64>,
    hermitian: bool,
) -> Result<Tensor> {
    at_least_a_matrix("torch.linalg.matrix_rank", self_, "input")?;
    let (at, rt) = both_numbers(self_, atol, rtol)?;
    rank(self_, &tolerance(at, self_)?, &tolerance(rt, self_)?, hermitian)
}
/// `linalg_matrix_rank`
pub fn linalg_matrix_rank_tol(self_: &Tensor, tol: f64, hermitian: bool) -> Result<Tensor> {
    linalg_matrix_rank(self_, Some(tol), Some(0.0), hermitian)
}
/// `linalg_matrix_rank.tol_tensor`
pub fn linalg_matrix_rank_tol_tensor(input: &Tensor, tol: &Tensor, hermitian: bool) -> Result<Tensor> {
    linalg_matrix_rank_tensors(input, Some(tol), Some(&tolerance(0.0, input)?), hermitian)
}

/// A number as PyTorch's messages show it.
pub(crate) fn shown(s: Scalar) -> String {
    match s {
        Scalar::Float(f) => flambeau_core::types::type_info::c_number(f),
        Scalar::Int(i) => i.to_string(),
        other => format!("{:?}", other.to_f64()),
    }
}
/// `linalg_cond`
pub fn linalg_cond(self_: &Tensor, p: Option<Scalar>) -> Result<Tensor> {
    let a = self_;
    ensure!(a.dim() >= 2, Runtime, "linalg.cond: The input tensor must have at least 2 dimensions.");
    let order = p.map_or(2.0, Scalar::to_f64);
    if a.numel() == 0 && (order.abs() == 2.0 || order.abs() == 1.0 || order.is_infinite()) {
        numbers("linalg.svd", a.dtype(), true)?;
        return zeros(batch(a), a.dtype().to_real(), a);
    }
    if order.abs() == 2.0 {
        let s = ops::linalg_svdvals(a, None)?;
        let (first, last) = (core::select(&s, -1, 0)?, core::select(&s, -1, -1)?);
        return if order > 0.0 { core::div(&first, &last) } else { core::div(&last, &first) };
    }
    let p = p.unwrap_or(Scalar::Int(2));
    if !(order.abs() == 1.0 || order.is_infinite()) {
        return Err(Error::value(format!("linalg.cond got an invalid norm type: {}", shown(p))));
    }
    square(&format!("linalg.cond(ord={})", shown(p)), a, "A")?;
    by_inverse(a, &|m| ops::linalg_matrix_norm(m, p, &[-2, -1], false, None))
}
fn by_inverse(a: &Tensor, norm: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (inverse, info) = core::linalg_inv_ex(a, false)?;
    let none = core::gt(&core::unsqueeze(&core::unsqueeze(&info, -1)?, -1)?, &number(0)?)?;
    let inverse = core::masked_fill(&inverse, &none, Scalar::Float(f64::INFINITY))?;
    let product = core::mul(&norm(a)?, &norm(&inverse)?)?;
    // zero times infinity
    let inf = f64::INFINITY;
    core::nan_to_num(&product, Some(inf), Some(inf), Some(-inf))
}
/// `linalg_cond.p_str`
pub fn linalg_cond_named(self_: &Tensor, p: &str) -> Result<Tensor> {
    let a = self_;
    ensure!(a.dim() >= 2, Runtime, "linalg.cond: The input tensor must have at least 2 dimensions.");
    if p != "fro" && p != "nuc" {
        return Err(Error::value(format!("linalg.cond got an invalid norm type: {p}")));
    }
    square(&format!("linalg.cond(ord={p})"), a, "A")?;
    if a.numel() == 0 {
        return zeros(batch(a), a.dtype().to_real(), a);
    }
    if p == "nuc" {
        let s = ops::linalg_svdvals(a, None)?;
        let sum = |t: &Tensor| core::sum(t, Some(&[-1]), false, None);
        return core::mul(&sum(&s)?, &sum(&core::reciprocal(&s)?)?);
    }
    by_inverse(a, &|m| ops::linalg_matrix_norm_named(m, "fro", &[-2, -1], false, None))
}
/// An unknown name of a norm.
pub(crate) fn unsupported_order(p: &str) -> Error {
    Error::runtime(format!("linalg.matrix_norm: Order {p} not supported."))
}
