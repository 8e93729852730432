//! QR decompositions, and products with Householder reflectors.

use super::util::{count, done, lies_by_rows, mh, mt};
use crate::generated::args;
use crate::ops;
use flambeau_core::backend::matrices::{
    at_least_a_matrix, batch, by_columns, columns, computed, numbers, plain, sides, write,
};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::{Access, RawTensor as _};
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{DType, Device, Error, Result, Tensor, bail, ensure, ops as core};
use flambeau_cpu_linalg::erased;

/// `linalg_qr`
pub fn linalg_qr_shape(x: &args::LinalgQr) -> Result<[OutMeta; 2]> {
    let a = x.a;
    at_least_a_matrix("linalg.qr", a, "A")?;
    numbers("linalg.qr", a.dtype(), true)?;
    let (m, n) = sides(a);
    let (d, b, k) = (a.dtype(), batch(a), m.min(n));
    let shapes = match x.mode {
        "reduced" => [by_columns(a, b, m, k, d), by_columns(a, b, k, n, d)],
        "complete" => [by_columns(a, b, m, m, d), by_columns(a, b, m, n, d)],
        "r" => [plain(a, &[], &[0], d), by_columns(a, b, k, n, d)],
        mode => {
            bail!(
                Runtime,
                "qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
            )
        }
    };
    computed("geqrf_cpu", d)?;
    Ok(shapes)
}
/// `linalg_qr`
pub fn linalg_qr_cpu(x: &args::LinalgQr, [q, r]: [&Tensor; 2]) -> Result<()> {
    let (m, n) = sides(x.a);
    let (k, d) = (m.min(n), x.a.dtype());
    if x.mode == "reduced" && side_by_side(x.a, [q, r])? {
        return Ok(());
    }
    let work = columns(x.a)?;
    let tau = factored(&work)?;
    let top = if x.mode == "complete" { m } else { k };
    write(r, &core::triu(&core::narrow(&work, -2, 0, top)?, 0)?)?;
    if x.mode == "r" || q.numel() == 0 {
        return Ok(());
    }
    let sizes = [m, n, k, sides(q).1].map(|s| s as usize);
    let held = Access::new(&[&work, &tau], &[q])?;
    done(
        erased::orgqr(held.any(0)?, sizes, held.any(1)?, held.any_mut(0)?, count(x.a.sizes())),
        "geqrf_cpu",
        d,
    )
}
/// Batches of small matrices go from their memory to the results in one kernel. False if these are none, or the results do not
/// lie by columns.
fn side_by_side(a: &Tensor, [q, r]: [&Tensor; 2]) -> Result<bool> {
    let Some(by_rows) = lies_by_rows(a)? else { return Ok(false) };
    if !mt(q)?.is_contiguous() || !mt(r)?.is_contiguous() {
        return Ok(false);
    }
    let (m, n) = sides(a);
    let held = Access::new(&[a], &[q, r])?;
    let sizes = [m, n].map(|s| s as usize);
    let many = count(a.sizes());
    Ok(erased::reduced_qr(held.any(0)?, by_rows, sizes, held.any_mut(0)?, held.any_mut(1)?, many).is_some())
}
/// Decomposes in place a tensor that lies by columns.
fn factored(work: &Tensor) -> Result<Tensor> {
    let (m, n) = sides(work);
    let sizes: Vec<i64> = batch(work).iter().copied().chain([m.min(n)]).collect();
    let tau = Tensor::empty_raw(&sizes, work.dtype(), Device::Cpu)?;
    if work.numel() == 0 {
        return Ok(tau);
    }
    let held = Access::new(&[], &[work, &tau])?;
    let r = erased::geqrf(held.any_mut(0)?, m as usize, n as usize, held.any_mut(1)?, count(work.sizes()));
    done(r, "geqrf_cpu", work.dtype())?;
    drop(held);
    Ok(tau)
}
/// `qr`
pub fn qr(self_: &Tensor, some: bool) -> Result<(Tensor, Tensor)> {
    ops::linalg_qr(self_, if some { "reduced" } else { "complete" })
}

/// `geqrf`
pub fn geqrf_shape(x: &args::Geqrf) -> Result<[OutMeta; 2]> {
    let a = x.self_;
    ensure!(a.dim() >= 2, Runtime, "torch.geqrf: input must have at least 2 dimensions.");
    computed("geqrf_cpu", a.dtype())?;
    let (m, n) = sides(a);
    Ok([by_columns(a, batch(a), m, n, a.dtype()), plain(a, batch(a), &[m.min(n)], a.dtype())])
}
/// `geqrf`
pub fn geqrf_cpu(x: &args::Geqrf, [a, tau]: [&Tensor; 2]) -> Result<()> {
    write(a, x.self_)?;
    write(tau, &factored(a)?)
}

fn last_size(t: &Tensor) -> Result<i64> {
    let n = t.sizes().last().copied();
    n.ok_or_else(|| Error::index("Dimension specified as -1 but tensor has no dimensions"))
}
fn householder_checks(name: &str, a: &Tensor, tau: &Tensor) -> Result<()> {
    ensure!(a.dim() >= 2, Runtime, "{name}: input must have at least 2 dimensions.");
    let (m, n) = sides(a);
    let householder = name.ends_with("householder_product");
    if householder {
        let k = last_size(tau)?;
        ensure!(m >= n, Runtime, "{name}: input.shape[-2] must be greater than or equal to input.shape[-1]");
        ensure!(n >= k, Runtime, "{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]");
    }
    ensure!(
        tau.dim() + 1 == a.dim(),
        Runtime,
        "{}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim is equal to {}",
        name,
        tau.dim(),
        a.dim()
    );
    ensure!(
        batch(a) == &tau.sizes()[..tau.dim() - 1],
        Runtime,
        "{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}",
        fmt_sizes(&tau.sizes()[..tau.dim() - 1])
    );
    Ok(())
}
/// `linalg_householder_product`
pub fn linalg_householder_product_shape(x: &args::LinalgHouseholderProduct) -> Result<OutMeta> {
    let (a, tau) = (x.input, x.tau);
    let name = "torch.linalg.householder_product";
    householder_checks(name, a, tau)?;
    ensure!(
        a.dtype() == tau.dtype(),
        Runtime,
        "{name}: tau dtype {} does not match input dtype {}",
        tau.dtype().scalar_type_name(),
        a.dtype().scalar_type_name()
    );
    computed("orgqr_cpu", a.dtype())?;
    let (m, n) = sides(a);
    Ok(by_columns(a, batch(a), m, n, a.dtype()))
}
/// `linalg_householder_product`
pub fn linalg_householder_product_cpu(x: &args::LinalgHouseholderProduct, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let a = columns(x.input)?;
    let tau = flambeau_core::backend::matrices::rows(x.tau)?;
    let (m, n) = sides(x.input);
    let k = tau.sizes()[tau.dim() - 1];
    let held = Access::new(&[&a, &tau], &[out])?;
    let sizes = [m, n, k, n].map(|s| s as usize);
    done(
        erased::orgqr(held.any(0)?, sizes, held.any(1)?, held.any_mut(0)?, count(a.sizes())),
        "orgqr_cpu",
        a.dtype(),
    )
}
/// `orgqr`
pub fn orgqr(self_: &Tensor, input2: &Tensor) -> Result<Tensor> {
    ops::linalg_householder_product(self_, input2)
}

/// `ormqr`
pub fn ormqr_shape(x: &args::Ormqr) -> Result<OutMeta> {
    let (a, tau, c) = (x.self_, x.input2, x.input3);
    let name = "torch.ormqr";
    ensure!(a.dim() >= 2, Runtime, "{name}: input must have at least 2 dimensions.");
    ensure!(c.dim() >= 2, Runtime, "{name}: other must have at least 2 dimensions.");
    let (m, n) = sides(a);
    let (p, q) = sides(c);
    let (side, at) = if x.left { (p, -2) } else { (q, -1) };
    let k = last_size(tau)?;
    ensure!(side == m, Runtime, "{name}: other.shape[{at}] must be equal to input.shape[-2]");
    ensure!(
        k == m.min(n),
        Runtime,
        "{name}: tau.shape[-1] must be equal to min(other.shape[-2], input.shape[-1])"
    );
    householder_checks(name, a, tau)?;
    ensure!(
        a.dim() == c.dim(),
        Runtime,
        "{name}: Expected other to have the same number of dimensions as input, but got other.ndim equal to {} and \
         input.ndim is equal to {}",
        c.dim(),
        a.dim()
    );
    ensure!(
        batch(a) == batch(c),
        Runtime,
        "{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got {}",
        fmt_sizes(batch(c))
    );
    for (t, what) in [(tau, "tau"), (c, "other")] {
        ensure!(
            t.dtype() == a.dtype(),
            Runtime,
            "{name}: Expected input and {what} to have the same dtype, but input has dtype{} and {what} has dtype {}",
            a.dtype().scalar_type_name(),
            t.dtype().scalar_type_name()
        );
    }
    computed("ormqr_cpu", a.dtype())?;
    Ok(by_columns(c, batch(c), p, q, c.dtype()))
}
/// `ormqr`
pub fn ormqr_cpu(x: &args::Ormqr, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let a = columns(x.self_)?;
    let tau = flambeau_core::backend::matrices::rows(x.input2)?;
    let d: DType = a.dtype();
    // C Q is (Q^H C^H)^H
    let work = if x.left { columns(x.input3)? } else { columns(&mh(x.input3)?)? };
    let adjoint = x.transpose == x.left;
    let ((m, n), k, cols) = (sides(&a), tau.sizes()[tau.dim() - 1], sides(&work).1);
    {
        let held = Access::new(&[&a, &tau], &[&work])?;
        let sizes = [m, n, k, cols].map(|s| s as usize);
        let r = erased::ormqr(held.any(0)?, sizes, held.any(1)?, held.any_mut(0)?, adjoint, count(a.sizes()));
        done(r, "ormqr_cpu", d)?;
    }
    write(out, &if x.left { work } else { mh(&work)? })
}
