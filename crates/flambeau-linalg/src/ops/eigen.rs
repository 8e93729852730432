//! Eigenvalues and eigenvectors.

use super::util::{computes, done, mh, mt, number};
use crate::generated::args;
use flambeau_core::backend::matrices::{
    batch, by_columns, check_info, columns, numbers, plain, sides, square, write,
};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::{Access, RawTensor as _};
use flambeau_core::{DType, Device, Error, Result, Tensor, ensure, ops as core};
use flambeau_cpu_linalg::erased;

fn half(uplo: &str) -> Result<bool> {
    match uplo {
        "L" | "l" => Ok(false),
        "U" | "u" => Ok(true),
        other => Err(Error::runtime(format!("Expected UPLO argument to be 'L' or 'U', but got {other}"))),
    }
}
fn hermitian(a: &Tensor, uplo: &str) -> Result<()> {
    square("linalg.eigh", a, "A")?;
    half(uplo)?;
    computes("linalg_eigh_cpu", a)
}
/// Eigenvalues into `values`, vectors into `work`, which is filled here and lies by columns.
fn eigh_into(a: &Tensor, uplo: &str, values: &Tensor, work: &Tensor, vectors: bool) -> Result<()> {
    if a.numel() == 0 {
        return Ok(());
    }
    write(work, &if half(uplo)? { mh(a)? } else { a.clone() })?;
    let info = Tensor::empty_raw(batch(a), DType::I32, Device::Cpu)?;
    {
        let held = Access::new(&[], &[work, values, &info])?;
        let n = sides(a).0 as usize;
        let r = erased::eigh(held.any_mut(0)?, n, held.any_mut(1)?, held.slice_mut(2)?, vectors);
        done(r, "linalg_eigh_cpu", a.dtype())?;
    }
    check_info(
        "linalg.eigh",
        &info,
        |k| k != 0,
        |k| {
            format!(
                "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated \
             eigenvalues (error code: {k})."
            )
        },
    )
}
/// `linalg_eigh`
pub fn linalg_eigh_shape(x: &args::LinalgEigh) -> Result<[OutMeta; 2]> {
    let a = x.self_;
    hermitian(a, x.uplo)?;
    let n = sides(a).0;
    Ok([plain(a, batch(a), &[n], a.dtype().to_real()), by_columns(a, batch(a), n, n, a.dtype())])
}
/// `linalg_eigh`
pub fn linalg_eigh_cpu(x: &args::LinalgEigh, [values, vectors]: [&Tensor; 2]) -> Result<()> {
    eigh_into(x.self_, x.uplo, values, vectors, true)
}
/// `linalg_eigvalsh`
pub fn linalg_eigvalsh_shape(x: &args::LinalgEigvalsh) -> Result<OutMeta> {
    let a = x.self_;
    hermitian(a, x.uplo)?;
    Ok(plain(a, batch(a), &[sides(a).0], a.dtype().to_real()))
}
/// `linalg_eigvalsh`
pub fn linalg_eigvalsh_cpu(x: &args::LinalgEigvalsh, out: &Tensor) -> Result<()> {
    let work = Tensor::empty_raw(x.self_.sizes(), x.self_.dtype(), Device::Cpu)?;
    eigh_into(x.self_, x.uplo, out, &mt(&work)?, false)
}

fn complex_of(d: DType) -> Result<DType> {
    match d {
        DType::F32 | DType::C64 => Ok(DType::C64),
        DType::F64 | DType::C128 => Ok(DType::C128),
        DType::F16 | DType::BF16 => Err(Error::not_implemented_for("linalg_eig_out_cpu", d)),
        other => Err(Error::runtime(format!("Unknown Complex ScalarType for {}", other.scalar_type_name()))),
    }
}
/// `linalg_eig`
pub fn linalg_eig_shape(x: &args::LinalgEig) -> Result<[OutMeta; 2]> {
    let a = x.self_;
    square("linalg.eig", a, "A")?;
    let (d, n) = (complex_of(a.dtype())?, sides(a).0);
    Ok([plain(a, batch(a), &[n], d), by_columns(a, batch(a), n, n, d)])
}
/// Whether all elements are finite.
fn finite(a: &Tensor) -> Result<bool> {
    core::all(&core::isfinite(a)?)?.try_item::<bool>()
}
/// `linalg_eig`
pub fn linalg_eig_cpu(x: &args::LinalgEig, [values, vectors]: [&Tensor; 2]) -> Result<()> {
    ensure!(finite(x.self_)?, Runtime, "torch.linalg.eig: input tensor should not contain infs or NaNs.");
    eig_into(x.self_, values, Some(vectors))
}
fn eig_into(a: &Tensor, values: &Tensor, vectors: Option<&Tensor>) -> Result<()> {
    let work = columns(a)?;
    let info = Tensor::empty_raw(batch(a), DType::I32, Device::Cpu)?;
    {
        let mut outs = vec![values, &info];
        outs.extend(vectors);
        let held = Access::new(&[&work], &outs)?;
        let v = vectors.map(|_| held.any_mut(2)).transpose()?;
        let r = erased::eig(held.any(0)?, sides(a).0 as usize, held.any_mut(0)?, v, held.slice_mut(1)?);
        done(r, "linalg_eig_out_cpu", a.dtype())?;
    }
    check_info(
        "torch.linalg.eig",
        &info,
        |k| k != 0,
        |k| {
            format!(
                "The algorithm failed to converge; {k} off-diagonal elements of an intermediate tridiagonal form did not converge to zero."
            )
        },
    )
}
/// `linalg_eigvals`
pub fn linalg_eigvals_shape(x: &args::LinalgEigvals) -> Result<OutMeta> {
    let a = x.self_;
    square("linalg.eigvals", a, "A")?;
    Ok(plain(a, batch(a), &[sides(a).0], complex_of(a.dtype())?))
}
/// `linalg_eigvals`
pub fn linalg_eigvals_cpu(x: &args::LinalgEigvals, out: &Tensor) -> Result<()> {
    if !finite(x.self_)? {
        // LAPACK's answer
        let nan = core::complex(&number(f64::NAN)?, &number(f64::NAN)?)?;
        return write(out, &nan);
    }
    eig_into(x.self_, out, None)
}

/// `linalg_matrix_sqrth`
pub fn linalg_matrix_sqrth_shape(x: &args::LinalgMatrixSqrth) -> Result<OutMeta> {
    let a = x.self_;
    square("linalg.matrix_sqrth", a, "A")?;
    numbers("linalg.matrix_sqrth", a.dtype(), false)?;
    Ok(plain(a, batch(a), &[sides(a).0, sides(a).0], a.dtype()))
}
/// `linalg_matrix_sqrth`
pub fn linalg_matrix_sqrth_cpu(x: &args::LinalgMatrixSqrth, out: &Tensor) -> Result<()> {
    let (l, q) = crate::ops::linalg_eigh(x.self_, "L")?;
    let root = core::sqrt(&core::clamp(&l, Some(0.into()), None)?)?;
    write(out, &core::matmul(&core::mul(&q, &core::unsqueeze(&root, -2)?)?, &mh(&q)?)?)
}
