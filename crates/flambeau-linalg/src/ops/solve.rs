//! Solutions of linear equations, determinants, inverses of tensors.

use super::lu::{factor, solve_into};
use super::util::{common_batch, computes, count, done, expanded, fits, is_vector, lies_by_rows, mt};
use crate::generated::args;
use crate::ops;
use flambeau_core::backend::matrices::{
    batch, by_columns, check_info, columns, computed, numbers, plain, rows, sides, sized, square, write,
};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, ops as core};
use flambeau_cpu::engine::room::filled;
use flambeau_cpu_linalg::erased::{self, Turned};

/// `_linalg_solve_ex`
pub fn linalg_solve_with_factors_shape(x: &args::LinalgSolveWithFactors) -> Result<[OutMeta; 4]> {
    let (a, b) = (x.a, x.b);
    numbers("linalg.solve", a.dtype(), true)?;
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "linalg.solve: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    let vector = a.dim() >= 2 && is_vector(a, b);
    let b = &if vector { core::unsqueeze(b, -1)? } else { b.clone() };
    fits("linalg.solve", a, b, x.left)?;
    ensure!(
        x.left || !vector,
        Runtime,
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve \
         is equivalent to B / A.squeeze(-1)"
    );
    computes("lu_cpu", a)?;
    let all = common_batch(a, b)?;
    let (p, q) = sides(b);
    let result = if vector { plain(b, &all, &[p], b.dtype()) } else { by_columns(b, &all, p, q, b.dtype()) };
    let (n, own) = (sides(a).0, batch(a));
    Ok([
        result,
        by_columns(a, own, n, n, a.dtype()),
        plain(a, own, &[n], DType::I32),
        plain(a, own, &[], DType::I32),
    ])
}
/// `_linalg_solve_ex`
pub fn linalg_solve_with_factors_cpu(
    x: &args::LinalgSolveWithFactors,
    [result, lu, pivots, info]: [&Tensor; 4],
) -> Result<()> {
    if x.a.numel() == 0 {
        return core::zero_(info);
    }
    let n = sides(x.a).0;
    if x.left && side_by_side(x, [result, lu, pivots, info])? {
        return if x.check_errors { solvable("torch.linalg.solve_ex", info) } else { Ok(()) };
    }
    write(lu, x.a)?;
    factor(lu, (n as usize, n as usize), pivots, info)?;
    let vector = is_vector(x.a, x.b);
    let b = if vector { core::unsqueeze(x.b, -1)? } else { x.b.clone() };
    let out = if vector { core::unsqueeze(result, -1)? } else { result.clone() };
    let all = common_batch(x.a, &b)?;
    if batch(x.a) == &all[..] {
        solve_into(lu, pivots, &expanded(&b, &all)?, x.left, false, &out)?;
    } else {
        let pivots = rows(&core::expand(pivots, &sized(&all, &[n]), false)?)?;
        solve_into(&columns(&expanded(lu, &all)?)?, &pivots, &expanded(&b, &all)?, x.left, false, &out)?;
    }
    if x.check_errors { solvable("torch.linalg.solve_ex", info) } else { Ok(()) }
}
/// Batches of small matrices, each with a right-hand side of its own, go from their memory to the results in one kernel. False
/// if these are none, or the results do not lie by columns.
fn side_by_side(x: &args::LinalgSolveWithFactors, [result, lu, pivots, info]: [&Tensor; 4]) -> Result<bool> {
    let vector = is_vector(x.a, x.b);
    let b = if vector { core::unsqueeze(x.b, -1)? } else { x.b.clone() };
    let out = if vector { core::unsqueeze(result, -1)? } else { result.clone() };
    let Some(by_rows) = lies_by_rows(x.a)? else { return Ok(false) };
    let fits = batch(&b) == batch(x.a) && mt(lu)?.is_contiguous() && mt(&out)?.is_contiguous();
    if !fits || !pivots.is_contiguous() || !info.is_contiguous() {
        return Ok(false);
    }
    let b = rows(&b)?;
    let (n, k) = sides(&b);
    let held = Access::new(&[x.a, &b], &[&out, lu, pivots, info])?;
    let done = erased::solve(
        held.any(0)?,
        by_rows,
        n as usize,
        (held.any(1)?, k as usize),
        (held.any_mut(1)?, held.slice_mut(2)?, held.slice_mut(3)?),
        held.any_mut(0)?,
    );
    Ok(done.is_some())
}
fn solvable(name: &str, info: &Tensor) -> Result<()> {
    check_info(name, info, |k| k > 0, |_| "The solver failed because the input matrix is singular.".into())
}
/// `linalg_solve_ex`
pub fn linalg_solve_ex(a: &Tensor, b: &Tensor, left: bool, check_errors: bool) -> Result<(Tensor, Tensor)> {
    let (x, _, _, info) = ops::linalg_solve_with_factors(a, b, left, check_errors)?;
    Ok((x, info))
}
/// `linalg_solve`
pub fn linalg_solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    let (x, _, _, info) = ops::linalg_solve_with_factors(a, b, left, false)?;
    solvable("torch.linalg.solve", &info)?;
    Ok(x)
}

/// `linalg_solve_triangular`
pub fn linalg_solve_triangular_shape(x: &args::LinalgSolveTriangular) -> Result<OutMeta> {
    let (a, b) = (x.self_, x.b);
    computed("triangular_solve_cpu", a.dtype())?;
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
        a.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    fits("linalg.solve_triangular", a, b, x.left)?;
    let (p, q) = sides(b);
    Ok(by_columns(b, &common_batch(a, b)?, p, q, b.dtype()))
}
/// `linalg_solve_triangular`
pub fn linalg_solve_triangular_cpu(x: &args::LinalgSolveTriangular, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let all = common_batch(x.self_, x.b)?;
    let (a, b) = (expanded(x.self_, &all)?, expanded(x.b, &all)?);
    // X A = B is A^T X^T = B^T
    let (a, b, upper) = if x.left { (a, b, x.upper) } else { (mt(&a)?, mt(&b)?, !x.upper) };
    // matrices by columns are taken as they lie
    let turn = mt(&a)?.is_contiguous() && !a.is_conj();
    let (a, upper, turned) = if turn {
        (mt(&a)?, !upper, Turned::Transposed)
    } else if a.is_contiguous() && !a.is_conj() && !a.is_neg() {
        (a, upper, Turned::No)
    } else {
        (rows(&a)?, upper, Turned::No)
    };
    let a = if a.is_neg() { rows(&a)? } else { a };
    let work = rows(&b)?;
    let (n, k) = sides(&work);
    {
        let held = Access::new(&[&a], &[&work])?;
        let many = count(work.sizes());
        let r = erased::solve_triangular(
            held.any(0)?,
            n as usize,
            held.any_mut(0)?,
            k as usize,
            many,
            upper,
            x.unitriangular,
            turned,
        );
        done(r, "triangular_solve_cpu", x.b.dtype())?;
    }
    write(out, &if x.left { work } else { mt(&work)? })
}
/// `triangular_solve`
pub fn triangular_solve(
    self_: &Tensor,
    a: &Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> Result<(Tensor, Tensor)> {
    let name = "torch.triangular_solve";
    ensure!(
        self_.dim() >= 2,
        Runtime,
        "{name}: Expected b to have at least 2 dimensions, but it has {} dimensions instead",
        self_.dim()
    );
    ensure!(
        a.dim() >= 2,
        Runtime,
        "{name}: Expected A to have at least 2 dimensions, but it has {} dimensions instead",
        a.dim()
    );
    super::cholesky::compatible("triangular_solve", self_, a)?;
    computed("triangular_solve_cpu", a.dtype())?;
    let copy = core::clone(&expanded(a, &common_batch(a, self_)?)?, None)?;
    let turned = if transpose { mt(a)? } else { a.clone() };
    Ok((ops::linalg_solve_triangular(&turned, self_, upper != transpose, true, unitriangular)?, copy))
}

/// `linalg_det`
pub fn linalg_det_shape(x: &args::LinalgDet) -> Result<OutMeta> {
    square("linalg.det", x.a, "A")?;
    numbers("linalg.det", x.a.dtype(), true)?;
    computes("lu_cpu", x.a)?;
    Ok(plain(x.a, batch(x.a), &[], x.a.dtype()))
}
/// `linalg_det`
pub fn linalg_det_cpu(x: &args::LinalgDet, out: &Tensor) -> Result<()> {
    if x.a.numel() == 0 {
        return core::fill_(out, Scalar::Int(1));
    }
    let lu = columns(x.a)?;
    let n = sides(x.a).0 as usize;
    let many = out.numel() as usize;
    let held = Access::new(&[], &[&lu, out])?;
    let (mut pivots, mut info) = (filled(0, many * n), filled(0, many));
    let mut m = held.any_mut(0)?;
    done(erased::lu_factor(m.reborrow(), n, n, &mut pivots, &mut info, true), "lu_cpu", x.a.dtype())?;
    done(erased::lu_det(m.shared(), n, &pivots, held.any_mut(1)?), "lu_cpu", x.a.dtype())
}
/// `det`
pub fn det(self_: &Tensor) -> Result<Tensor> {
    ops::linalg_det(self_)
}

fn product(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1, |n: i64, s| n.saturating_mul(*s))
}
/// `linalg_tensorinv`
pub fn linalg_tensorinv(self_: &Tensor, ind: i64) -> Result<Tensor> {
    ensure!(ind > 0, Runtime, "Expected a strictly positive integer for 'ind', but got {ind}");
    let sizes = self_.sizes();
    let at = usize::try_from(ind).unwrap_or(usize::MAX);
    ensure!(at <= sizes.len(), Runtime, "ArrayRef: invalid slice, N = {ind}; size = {}", sizes.len());
    let (front, back) = sizes.split_at(at);
    ensure!(
        product(front) == product(back),
        Runtime,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {} != {}",
        product(back),
        product(front)
    );
    let flat = core::reshape(self_, &[product(back), product(front)])?;
    let inverse = core::linalg_inv(&flat)?;
    let shape: Vec<i64> = back.iter().chain(front).copied().collect();
    core::reshape(&inverse, &shape)
}
/// `linalg_tensorsolve`
pub fn linalg_tensorsolve(self_: &Tensor, other: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    let n = self_.dim() as i64;
    let a = match dims {
        None => self_.clone(),
        Some(dims) => {
            let to: Vec<i64> = (0..dims.len() as i64).map(|i| n - dims.len() as i64 + i).collect();
            core::movedim(self_, dims, &to)?
        }
    };
    let sizes = a.sizes();
    ensure!(other.dim() <= sizes.len(), Runtime, "cannot create std::vector larger than max_size()");
    let (_, back) = sizes.split_at(other.dim());
    ensure!(
        product(other.sizes()) == product(back),
        Runtime,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got {} \
         != {}",
        product(back),
        product(other.sizes())
    );
    let flat = core::reshape(&a, &[product(back), product(back)])?;
    let x = ops::linalg_solve(&flat, &core::flatten(other, 0, -1)?, true)?;
    core::reshape(&x, back)
}
/// Of an operator that has no gradient in PyTorch either.
pub(crate) fn unknown_derivative(name: &str) -> Error {
    Error::runtime(format!("derivative for aten::{name} is not implemented"))
}
