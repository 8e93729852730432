//! Cholesky decompositions, and solutions with them.

use super::util::{common_batch, computes, done, expanded, eye, lies_by_rows, mh, mt};
use crate::generated::args;
use crate::ops;
use flambeau_core::backend::matrices::{
    batch, by_columns, check_info, computed, numbers, plain, rows, sides, square, write,
};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::{DType, ErrorKind, Result, Tensor, bail, ensure, ops as core};
use flambeau_cpu_linalg::erased;

/// `linalg_cholesky_ex`
pub fn linalg_cholesky_ex_shape(x: &args::LinalgCholeskyEx) -> Result<[OutMeta; 2]> {
    let a = x.self_;
    square("linalg.cholesky", a, "A")?;
    numbers("linalg.cholesky", a.dtype(), true)?;
    computes("cholesky_cpu", a)?;
    let (m, n) = sides(a);
    Ok([by_columns(a, batch(a), m, n, a.dtype()), plain(a, batch(a), &[], DType::I32)])
}
/// `linalg_cholesky_ex`
pub fn linalg_cholesky_ex_cpu(x: &args::LinalgCholeskyEx, [l, info]: [&Tensor; 2]) -> Result<()> {
    let (a, n) = (x.self_, sides(x.self_).0 as usize);
    if a.numel() == 0 {
        return core::zero_(info);
    }
    if !x.upper && side_by_side(a, n, [l, info])? {
        return if x.check_errors { positive("linalg.cholesky_ex", info) } else { Ok(()) };
    }
    // the kernel reads the upper half by rows, which by columns is the lower one
    let upper = if x.upper { Some(rows(a)?) } else { None };
    let work = upper.as_ref().unwrap_or(l);
    if !x.upper {
        write(l, a)?;
    }
    {
        let held = Access::new(&[], &[work, info])?;
        done(erased::cholesky(held.any_mut(0)?, n, held.slice_mut(1)?), "cholesky_cpu", a.dtype())?;
    }
    if let Some(u) = &upper {
        write(l, u)?;
    }
    if x.check_errors { positive("linalg.cholesky_ex", info) } else { Ok(()) }
}
/// Batches of small matrices go from their memory to the result in one kernel. False if these are none, or the result does not
/// lie by columns.
fn side_by_side(a: &Tensor, n: usize, [l, info]: [&Tensor; 2]) -> Result<bool> {
    let Some(by_rows) = lies_by_rows(a)? else { return Ok(false) };
    if !mt(l)?.is_contiguous() || !info.is_contiguous() {
        return Ok(false);
    }
    let held = Access::new(&[a], &[l, info])?;
    Ok(erased::cholesky_of(held.any(0)?, by_rows, n, held.any_mut(0)?, held.slice_mut(1)?).is_some())
}
fn positive(name: &str, info: &Tensor) -> Result<()> {
    check_info(
        name,
        info,
        |k| k > 0,
        |k| {
            format!(
                "The factorization could not be completed because the input is not positive-definite (the leading minor of \
                 order {k} is not positive-definite)."
            )
        },
    )
}
/// `linalg_cholesky`
pub fn linalg_cholesky(self_: &Tensor, upper: bool) -> Result<Tensor> {
    let (l, info) = ops::linalg_cholesky_ex(self_, upper, false)?;
    positive("linalg.cholesky", &info)?;
    Ok(l)
}
/// `cholesky`
pub fn cholesky(self_: &Tensor, upper: bool) -> Result<Tensor> {
    let (l, info) = ops::linalg_cholesky_ex(self_, upper, false)?;
    positive("cholesky", &info)?;
    Ok(l)
}

/// `cholesky_inverse`
pub fn cholesky_inverse_shape(x: &args::CholeskyInverse) -> Result<OutMeta> {
    let l = x.self_;
    square("cholesky_inverse", l, "A")?;
    computed("cholesky_inverse_out_cpu", l.dtype())?;
    let (n, _) = sides(l);
    Ok(by_columns(l, batch(l), n, n, l.dtype()))
}
/// `cholesky_inverse`
pub fn cholesky_inverse_cpu(x: &args::CholeskyInverse, out: &Tensor) -> Result<()> {
    let (n, _) = sides(x.self_);
    no_zero(x.self_)?;
    write(out, &solve(&expanded(&eye(n, n, x.self_)?, batch(x.self_))?, x.self_, x.upper)?)
}
/// Of the diagonals of factors to invert.
fn no_zero(l: &Tensor) -> Result<()> {
    if l.device() == flambeau_core::Device::Meta || l.numel() == 0 {
        return Ok(());
    }
    let zero = core::eq(&core::diagonal(&core::detach(l)?, 0, -2, -1)?, &super::util::number(0)?)?;
    if !core::any(&zero)?.try_item::<bool>()? {
        return Ok(());
    }
    let n = sides(l).1;
    let all =
        core::reshape(&core::to_copy(&zero, Some(DType::I64), None, None, None, false, None)?, &[-1, n])?;
    let all = all.try_to_vec::<i64>()?;
    let Some(at) = all.iter().position(|v| *v != 0) else { return Ok(()) };
    let (i, k) = (at / n as usize, at % n as usize + 1);
    let place = if l.dim() == 2 { String::new() } else { format!("(Batch element {i}): ") };
    Err(flambeau_core::Error::new(
        ErrorKind::Linalg,
        format!(
            "cholesky_inverse: {place}The diagonal element {k} is zero, the inversion could not be completed because the \
             input matrix is singular."
        ),
    ))
}
/// Two triangular solutions.
fn solve(b: &Tensor, l: &Tensor, upper: bool) -> Result<Tensor> {
    let h = mh(l)?;
    let (lower, upper) = if upper { (&h, l) } else { (l, &h) };
    let y = ops::linalg_solve_triangular(lower, b, false, true, false)?;
    ops::linalg_solve_triangular(upper, &y, true, true, false)
}
/// `cholesky_solve`
pub fn cholesky_solve_shape(x: &args::CholeskySolve) -> Result<OutMeta> {
    let (b, l) = (x.self_, x.input2);
    ensure!(
        b.dim() >= 2,
        Runtime,
        "b should have at least 2 dimensions, but has {} dimensions instead",
        b.dim()
    );
    ensure!(
        l.dim() >= 2,
        Runtime,
        "u should have at least 2 dimensions, but has {} dimensions instead",
        l.dim()
    );
    compatible("cholesky_solve", b, l)?;
    computed("cholesky_solve_cpu", b.dtype())?;
    let (p, q) = sides(b);
    Ok(by_columns(b, &common_batch(l, b)?, p, q, b.dtype()))
}
/// `cholesky_solve`
pub fn cholesky_solve_cpu(x: &args::CholeskySolve, out: &Tensor) -> Result<()> {
    write(out, &solve(x.self_, x.input2, x.upper)?)
}
/// Of PyTorch's `linearSolveCheckInputs`.
pub(crate) fn compatible(name: &str, b: &Tensor, a: &Tensor) -> Result<()> {
    if a.device() != b.device() {
        bail!(
            Runtime,
            "Expected b and A to be on the same device, but found b on {} and A on {} instead.",
            b.device(),
            a.device()
        );
    }
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        b.dtype().scalar_type_name(),
        a.dtype().scalar_type_name()
    );
    let ((m, n), (p, q)) = (sides(a), sides(b));
    ensure!(m == n, Runtime, "A must be batches of square matrices, but they are {m} by {n} matrices");
    ensure!(
        n == p,
        Runtime,
        "Incompatible matrix sizes for {name}: each A matrix is {n} by {n} but each b matrix is {p} by {q}"
    );
    Ok(())
}
