//! LU decompositions, and solutions with them.

use super::util::{common_batch, computes, count, done, expanded, fits, mt, number, zeros};
use crate::generated::args;
use crate::ops;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::backend::matrices::{
    batch, by_columns, check_info, columns, numbers, plain, rows, sides, sized, square, write,
};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::{Access, RawTensor as _};
use flambeau_core::tensor::geometry::{self, fmt_sizes};
use flambeau_core::{DType, Device, Error, ErrorKind, Result, Tensor, bail, ensure, ops as core};
use flambeau_cpu_linalg::erased::{self, Turned};

fn matrix(name: &str, a: &Tensor) -> Result<()> {
    ensure!(
        a.dim() >= 2,
        Runtime,
        "{name}: Expected tensor with 2 or more dimensions. Got size: {} instead",
        fmt_sizes(a.sizes())
    );
    Ok(())
}
fn with_pivots(pivot: bool) -> Result<()> {
    ensure!(pivot, Runtime, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
    Ok(())
}

/// `linalg_lu_factor_ex`
pub fn linalg_lu_factor_ex_shape(x: &args::LinalgLuFactorEx) -> Result<[OutMeta; 3]> {
    let a = x.a;
    matrix("torch.lu_factor", a)?;
    let (m, n) = sides(a);
    if a.device() == Device::Cpu {
        computes("lu_cpu", a)?;
        with_pivots(x.pivot)?;
    }
    let b = batch(a);
    Ok([
        by_columns(a, b, m, n, a.dtype()),
        plain(a, b, &[m.min(n)], DType::I32),
        plain(a, b, &[], DType::I32),
    ])
}
/// `linalg_lu_factor_ex`
pub fn linalg_lu_factor_ex_cpu(x: &args::LinalgLuFactorEx, [lu, pivots, info]: [&Tensor; 3]) -> Result<()> {
    if x.a.numel() == 0 {
        return core::zero_(info);
    }
    let (m, n) = sides(x.a);
    write(lu, x.a)?;
    factor(lu, (m as usize, n as usize), pivots, info)?;
    if x.check_errors { regular("torch.linalg.lu_factor_ex", info) } else { Ok(()) }
}
/// Decomposes in place a tensor that lies by columns.
pub(crate) fn factor(lu: &Tensor, (m, n): (usize, usize), pivots: &Tensor, info: &Tensor) -> Result<()> {
    let held = Access::new(&[], &[lu, pivots, info])?;
    let r = erased::lu_factor(held.any_mut(0)?, m, n, held.slice_mut(1)?, held.slice_mut(2)?, true);
    done(r, "lu_cpu", lu.dtype())
}
fn regular(name: &str, info: &Tensor) -> Result<()> {
    check_info(name, info, |k| k > 0, |k| {
        format!(
            "U[{k},{k}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform \
             the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    })
    .map_err(|e| Error::new(ErrorKind::Runtime, e.message()))
}
/// `linalg_lu_factor`
pub fn linalg_lu_factor(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor)> {
    let (lu, pivots, info) = ops::linalg_lu_factor_ex(a, pivot, false)?;
    regular("torch.linalg.lu_factor", &info)?;
    Ok((lu, pivots))
}
/// `_lu_with_info`
pub fn lu_with_info(self_: &Tensor, pivot: bool, _check_errors: bool) -> Result<(Tensor, Tensor, Tensor)> {
    // PyTorch's does not look at the last argument either
    ops::linalg_lu_factor_ex(self_, pivot, false)
}
/// Keywords of [`lu_with`].
#[flambeau_macros::options]
pub struct LuOptions {
    /// Whether rows are exchanged. Default: true.
    #[default(true)]
    pub(crate) pivot: bool,
}
/// LU decompositions in compact form and the rows that were exchanged (`torch.lu`); singular matrices are no error. Panics
/// with the text of [`try_lu`]'s error.
///
/// ```
/// let a = torch::tensor([[4.0, 3.0], [2.0, 5.0]]);
/// let (compact, pivots) = torch::lu(&a);
/// assert_eq!(compact.to_vec2::<f32>(), [[4.0, 3.0], [0.5, 3.5]]);
/// assert_eq!(pivots.to_vec::<i32>(), [1, 2]);
/// ```
#[doc(alias = "torch.lu")]
#[track_caller]
pub fn lu(a: &Tensor) -> (Tensor, Tensor) {
    let (lu, pivots, _) = expect(try_lu(a, LuOptions::new()));
    (lu, pivots)
}
/// [`lu()`] with all keywords, and the places of zero pivots (`get_infos=True`) as third result.
#[track_caller]
pub fn lu_with(a: &Tensor, options: LuOptions) -> (Tensor, Tensor, Tensor) {
    expect(try_lu(a, options))
}
/// [`lu_with`] with an error instead of a panic.
///
/// # Errors
/// Fewer than two dimensions; dtypes that are not floating point.
pub fn try_lu(a: &Tensor, options: LuOptions) -> Result<(Tensor, Tensor, Tensor)> {
    ops::lu_with_info(a, options.pivot, false)
}

/// `linalg_lu`
pub fn linalg_lu(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    matrix("linalg.lu", a)?;
    let (lu, pivots, _) = ops::linalg_lu_factor_ex(a, pivot, false)?;
    ops::lu_unpack(&lu, &pivots, true, true)
}
/// `lu_unpack`
pub fn lu_unpack(
    lu: &Tensor,
    pivots: &Tensor,
    unpack_data: bool,
    unpack_pivots: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    matrix("torch.lu_unpack", lu)?;
    ensure!(
        !unpack_pivots || pivots.dtype() == DType::I32,
        Runtime,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is \
         intended to be used with the output produced by torch.linalg.lu_factor"
    );
    let (m, n) = sides(lu);
    let k = m.min(n);
    let want = sized(batch(lu), &[k]);
    if pivots.sizes() != &want[..] && unpack_pivots {
        return Err(Error::value(format!(
            "Expected LU_pivots to have shape {} but got {} instead.",
            fmt_sizes(&want),
            fmt_sizes(pivots.sizes())
        )));
    }
    let none = || zeros(&[0], lu.dtype(), lu);
    let (l, u) = if unpack_data {
        let low = core::tril(&core::narrow(lu, -1, 0, k)?, -1)?;
        let one = super::util::eye(m, k, lu)?;
        (core::add(&low, &one, 1.into())?, core::triu(&core::narrow(lu, -2, 0, k)?, 0)?)
    } else {
        (none()?, none()?)
    };
    if !unpack_pivots {
        return Ok((none()?, l, u));
    }
    Ok((permutation(lu, pivots, m)?, l, u))
}
/// The matrix P of pivots.
fn permutation(lu: &Tensor, pivots: &Tensor, m: i64) -> Result<Tensor> {
    let all = sized(batch(lu), &[m]);
    if lu.device() == Device::Meta {
        return Tensor::empty_raw(&sized(batch(lu), &[m, m]), lu.dtype(), lu.device());
    }
    let k = pivots.sizes()[pivots.dim() - 1] as usize;
    let given = core::reshape(pivots, &[-1])?.try_to_vec::<i32>()?;
    let mut order = geometry::room(geometry::checked_numel(&all)?)?;
    for i in 0..count(lu.sizes()) {
        let mut rows: Vec<i64> = geometry::listed(0..m)?;
        for (at, p) in given[i * k..(i + 1) * k].iter().enumerate() {
            let Some(p) = usize::try_from(*p).ok().filter(|p| (1..=m as usize).contains(p)) else {
                bail!(
                    Runtime,
                    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result \
                     of lu_factor?"
                )
            };
            rows.swap(at, p - 1);
        }
        order.extend(rows);
    }
    let order = core::to(
        &Tensor::from_vec_raw(order, &all)?,
        None,
        None,
        Some(lu.device()),
        None,
        false,
        false,
        None,
    )?;
    // column i of P has its one in row order[i]
    let lines = core::arange(m.into(), Some(DType::I64), None, Some(lu.device()), None)?;
    let p = core::eq(&core::unsqueeze(&order, -2)?, &core::unsqueeze(&lines, -1)?)?;
    super::util::cast(&p, lu.dtype())
}

/// `linalg_lu_solve`
pub fn linalg_lu_solve_shape(x: &args::LinalgLuSolve) -> Result<OutMeta> {
    let (lu, b) = (x.lu, x.b);
    numbers("torch.linalg.lu_solve", lu.dtype(), true)?;
    ensure!(
        lu.dtype() == b.dtype(),
        Runtime,
        "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {} and B of type {} instead",
        lu.dtype().scalar_type_name(),
        b.dtype().scalar_type_name()
    );
    ensure!(
        x.pivots.dtype() == DType::I32,
        Runtime,
        "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32"
    );
    square("torch.linalg.lu_solve", lu, "A")?;
    fits("linalg.lu_solve", lu, b, x.left)?;
    ensure!(x.pivots.dim() >= 1, Index, "Dimension specified as -1 but tensor has no dimensions");
    ensure!(
        sides(lu).0 == x.pivots.sizes()[x.pivots.dim() - 1],
        Runtime,
        "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix"
    );
    ensure!(
        batch(lu) == &x.pivots.sizes()[..x.pivots.dim() - 1],
        Runtime,
        "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} instead",
        fmt_sizes(x.pivots.sizes())
    );
    computes("linalg.lu_solve_cpu", lu)?;
    let (p, q) = sides(b);
    Ok(by_columns(b, &common_batch(lu, b)?, p, q, b.dtype()))
}
/// `linalg_lu_solve`
pub fn linalg_lu_solve_cpu(x: &args::LinalgLuSolve, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let all = common_batch(x.lu, x.b)?;
    let lu = columns(&expanded(x.lu, &all)?)?;
    let n = sides(x.lu).0;
    let pivots = rows(&core::expand(x.pivots, &sized(&all, &[n]), false)?)?;
    solve_into(&lu, &pivots, &expanded(x.b, &all)?, x.left, x.adjoint, out)
}
/// Solves for `b`, of the same batch, into `out`.
pub(crate) fn solve_into(
    lu: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    left: bool,
    adjoint: bool,
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    // X A = B is A^T X^T = B^T; X A^H = B is conj(A) X^T = B^T, so A conj(X^T) = conj(B^T)
    let work = match (left, adjoint) {
        (true, _) => rows(b)?,
        (false, false) => rows(&mt(b)?)?,
        (false, true) => rows(&super::util::mh(b)?)?,
    };
    let turned = match (left, adjoint) {
        (true, false) | (false, true) => Turned::No,
        (true, true) => Turned::Adjoint,
        (false, false) => Turned::Transposed,
    };
    let (n, k) = sides(&work);
    let fine = {
        let held = Access::new(&[lu, pivots], &[&work])?;
        let many = count(work.sizes());
        let r = erased::lu_solve(
            held.any(0)?,
            n as usize,
            held.slice(1)?,
            held.any_mut(0)?,
            k as usize,
            many,
            turned,
        );
        done(r, "linalg.lu_solve_cpu", lu.dtype())?
    };
    ensure!(
        fine,
        Runtime,
        "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the result of lu_factor?"
    );
    let x = match (left, adjoint) {
        (true, _) => work,
        (false, false) => mt(&work)?,
        (false, true) => super::util::mh(&work)?,
    };
    write(out, &x)
}
/// `lu_solve`
pub fn lu_solve(self_: &Tensor, lu_data: &Tensor, lu_pivots: &Tensor) -> Result<Tensor> {
    ops::linalg_lu_solve(lu_data, lu_pivots, self_, true, false)
}
/// Whether all of a tensor is zero.
pub(crate) fn all_zero(a: &Tensor) -> Result<bool> {
    core::all(&core::eq(a, &number(0)?)?)?.try_item::<bool>()
}
