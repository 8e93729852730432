//! Least squares, and decompositions of symmetric matrices that may be indefinite.

use super::lu::all_zero;
use super::util::{cast, common_batch, computes, count, done, expanded, is_vector, mh, number, zeros};
use crate::generated::args;
use crate::ops;
use flambeau_core::backend::matrices::{
    batch, by_columns, check_info, columns, numbers, plain, rows, sides, sized, square, write,
};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::{self, fmt_sizes};
use flambeau_core::types::type_info::finfo;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops as core};
use flambeau_cpu_linalg::erased;

type Four = (Tensor, Tensor, Tensor, Tensor);

/// `linalg_lstsq`
pub fn linalg_lstsq(a: &Tensor, b: &Tensor, rcond: Option<f64>, driver: Option<&str>) -> Result<Four> {
    let name = "torch.linalg.lstsq";
    ensure!(a.dim() >= 2, Runtime, "{name}: input must have at least 2 dimensions.");
    ensure!(b.dim() >= 1, Runtime, "{name}: other must have at least 1 dimension.");
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "{name}: Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    ensure!(
        a.dim() >= b.dim() && a.dim() - b.dim() <= 1,
        Runtime,
        "{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
    );
    let vector = is_vector(a, b);
    let (m, n) = sides(a);
    if vector {
        ensure!(m == b.sizes()[b.dim() - 1], Runtime, "{name}: input.size(-2) should match other.size(-1)");
    }
    let b = &if vector { core::unsqueeze(b, -1)? } else { b.clone() };
    ensure!(m == sides(b).0, Runtime, "{name}: input.size(-2) should match other.size(-2)");
    let driver = driver.unwrap_or("gelsy");
    ensure!(
        matches!(driver, "gels" | "gelsy" | "gelsd" | "gelss"),
        Runtime,
        "{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
    );
    ensure!(
        a.dtype().is_floating() || a.dtype().is_complex(),
        Runtime,
        "This function doesn't handle types other than float and double"
    );
    ensure!(
        matches!(a.dtype().to_real(), DType::F32 | DType::F64),
        Runtime,
        "This function doesn't handle types other than float and double"
    );
    let real = a.dtype().to_real();
    let all = common_batch(a, b)?;
    let (a, b) = (expanded(a, &all)?, expanded(b, &all)?);
    let (k, width) = (m.min(n), sides(&b).1);
    let by_values = matches!(driver, "gelsd" | "gelss");
    let none = |d: DType| zeros(&[0], d, &a);
    let rcond = rcond.filter(|r| *r >= 0.0).unwrap_or(finfo(real)?.eps * m.max(n) as f64);
    let (solution, rank, values) = if a.numel() == 0 || b.numel() == 0 {
        let rank = if driver == "gels" { none(DType::I64)? } else { zeros(&all, DType::I64, &a)? };
        let values = if by_values { zeros(&sized(&all, &[k]), real, &a)? } else { none(real)? };
        (zeros(&sized(&all, &[n, width]), a.dtype(), &a)?, rank, values)
    } else if driver == "gels" {
        (by_qr(&a, &b)?, none(DType::I64)?, none(real)?)
    } else if !core::all(&core::isfinite(&a)?)?.try_item::<bool>()? {
        // LAPACK's answer to what is not finite is NaN here and there
        let x = core::full_like(
            &zeros(&sized(&all, &[n, width]), a.dtype(), &a)?,
            f64::NAN.into(),
            None,
            None,
            None,
            None,
            None,
        )?;
        let values = if by_values { zeros(&sized(&all, &[k]), real, &a)? } else { none(real)? };
        (x, zeros(&all, DType::I64, &a)?, values)
    } else {
        let (u, s, vh) = core::linalg_svd_reduced(&a)?;
        let bound = core::mul(&core::narrow(&s, -1, 0, 1)?, &number(rcond)?)?;
        let counts = core::gt(&s, &bound)?;
        let inverse = core::where_(&counts, &core::div(&number(1.0)?, &s)?, &number(0.0)?)?;
        let inner = core::mul(&core::matmul(&mh(&u)?, &b)?, &core::unsqueeze(&inverse, -1)?)?;
        let rank = core::sum(&counts, Some(&[-1]), false, None)?;
        (core::matmul(&mh(&vh)?, &inner)?, rank, if by_values { s } else { none(real)? })
    };
    let full =
        driver == "gels" || (by_values && core::all(&core::eq(&rank, &number(n)?)?)?.try_item::<bool>()?);
    let residuals = if m > n && full && driver != "gelsy" {
        let left = core::abs(&core::sub(&core::matmul(&a, &solution)?, &b, 1.into())?)?;
        core::sum(&core::mul(&left, &left)?, Some(&[-2]), false, None)?
    } else {
        none(real)?
    };
    let solution = columns(&solution)?;
    let solution = if vector { core::squeeze_dim(&solution, -1)? } else { solution };
    Ok((rows_of_vector(solution, vector)?, residuals, rank, values))
}
/// A vector's solution is its own tensor.
fn rows_of_vector(x: Tensor, vector: bool) -> Result<Tensor> {
    if vector { rows(&x) } else { Ok(x) }
}
/// Of matrices of full rank.
fn by_qr(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (m, n) = sides(a);
    if all_zero(a)? {
        return zeros(&sized(batch(a), &[n, sides(b).1]), a.dtype(), a);
    }
    if m >= n {
        let (q, r) = ops::linalg_qr(a, "reduced")?;
        let x = ops::linalg_solve_triangular(&r, &core::matmul(&mh(&q)?, b)?, true, true, false)?;
        return Ok(x);
    }
    let (q, r) = ops::linalg_qr(&mh(a)?, "reduced")?;
    core::matmul(&q, &ops::linalg_solve_triangular(&mh(&r)?, b, false, true, false)?)
}

/// `linalg_ldl_factor_ex`
pub fn linalg_ldl_factor_ex_shape(x: &args::LinalgLdlFactorEx) -> Result<[OutMeta; 3]> {
    let a = x.self_;
    square("torch.linalg.ldl_factor_ex", a, "A")?;
    numbers("torch.linalg.ldl_factor_ex", a.dtype(), true)?;
    computes("ldl_factor_kernel_cpu", a)?;
    let n = sides(a).0;
    let b = batch(a);
    Ok([by_columns(a, b, n, n, a.dtype()), plain(a, b, &[n], DType::I32), plain(a, b, &[], DType::I32)])
}
/// `linalg_ldl_factor_ex`
pub fn linalg_ldl_factor_ex_cpu(x: &args::LinalgLdlFactorEx, [ld, pivots, info]: [&Tensor; 3]) -> Result<()> {
    if x.self_.numel() == 0 {
        return core::zero_(info);
    }
    // the other half becomes zeros, as PyTorch's
    write(ld, &core::tril(x.self_, 0)?)?;
    {
        let held = Access::new(&[], &[ld, pivots, info])?;
        let n = sides(ld).0 as usize;
        let r = erased::ldl_factor(held.any_mut(0)?, n, held.slice_mut(1)?, held.slice_mut(2)?, x.hermitian);
        done(r, "ldl_factor_kernel_cpu", ld.dtype())?;
    }
    if x.check_errors { regular("torch.linalg.ldl_factor_ex", info) } else { Ok(()) }
}
fn regular(name: &str, info: &Tensor) -> Result<()> {
    check_info(name, info, |k| k > 0, |k| format!("D[{k},{k}] is zero: the matrix is singular."))
        .map_err(|e| Error::runtime(e.message()))
}
/// `linalg_ldl_factor`
pub fn linalg_ldl_factor(self_: &Tensor, hermitian: bool) -> Result<(Tensor, Tensor)> {
    let (ld, pivots, info) = ops::linalg_ldl_factor_ex(self_, hermitian, false)?;
    regular("torch.linalg.ldl_factor", &info)?;
    Ok((ld, pivots))
}
/// `linalg_ldl_solve`
pub fn linalg_ldl_solve_shape(x: &args::LinalgLdlSolve) -> Result<OutMeta> {
    let (ld, b, name) = (x.ld, x.b, "torch.linalg.ldl_solve");
    square(name, ld, "A")?;
    numbers(name, ld.dtype(), true)?;
    geometry::wrap_dim_strict(-2, b.dim())?;
    super::cholesky::compatible(name, b, ld)?;
    ensure!(
        x.pivots.sizes() == &ld.sizes()[..ld.dim() - 1],
        Runtime,
        "{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} instead",
        fmt_sizes(x.pivots.sizes())
    );
    ensure!(
        x.pivots.dtype().is_integral(false),
        Runtime,
        "{name}: Expected pivots to be integers. Got {}",
        x.pivots.dtype().scalar_type_name()
    );
    computes("ldl_solve_kernel_cpu", ld)?;
    let (p, q) = sides(b);
    Ok(by_columns(b, &common_batch(ld, b)?, p, q, b.dtype()))
}
/// `linalg_ldl_solve`
pub fn linalg_ldl_solve_cpu(x: &args::LinalgLdlSolve, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let all = common_batch(x.ld, x.b)?;
    let ld = columns(&expanded(x.ld, &all)?)?;
    let pivots = cast(&core::expand(x.pivots, &sized(&all, &[sides(x.ld).0]), false)?, DType::I32)?;
    let (pivots, work) = (rows(&pivots)?, rows(&expanded(x.b, &all)?)?);
    let (n, k) = sides(&work);
    let fine = {
        let held = Access::new(&[&ld, &pivots], &[&work])?;
        let many = count(work.sizes());
        let r = erased::ldl_solve(
            held.any(0)?,
            n as usize,
            held.slice(1)?,
            held.any_mut(0)?,
            k as usize,
            many,
            x.hermitian,
        );
        done(r, "ldl_solve_kernel_cpu", ld.dtype())?
    };
    ensure!(fine, Runtime, "torch.linalg.ldl_solve: pivots are none of a decomposition of such a matrix");
    write(out, &work)
}
