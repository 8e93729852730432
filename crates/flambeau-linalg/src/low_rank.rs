//! Decompositions of matrices of low rank, by random projections.

use crate::ops;
use crate::ops::util::mh;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops as core};

type Three = (Tensor, Tensor, Tensor);

fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.is_sparse() { core::mm(a, b) } else { core::matmul(a, b) }
}
fn adjoint(a: &Tensor) -> Result<Tensor> {
    if a.is_sparse() { core::transpose(a, -2, -1) } else { mh(a) }
}
/// Orthonormal columns that span nearly what `A - M` does.
fn basis(a: &Tensor, q: i64, niter: i64, m: Option<&Tensor>) -> Result<Tensor> {
    let n = a.sizes()[a.dim() - 1];
    let floating = a.dtype().is_floating() || a.is_complex();
    let d = if floating { a.dtype() } else { DType::F32 };
    let r = core::randn(&[n, q], None, Some(d), None, Some(a.device()), None)?;
    let times = |a: &Tensor, m: Option<&Tensor>, x: &Tensor| -> Result<Tensor> {
        let y = matmul(a, x)?;
        match m {
            Some(m) => core::sub(&y, &matmul(m, x)?, 1.into()),
            None => Ok(y),
        }
    };
    let (ah, mh_) = (adjoint(a)?, m.map(mh).transpose()?);
    let mut q = ops::linalg_qr(&times(a, m, &r)?, "reduced")?.0;
    // the basis does not change any more long before
    for _ in 0..niter.min(1000) {
        q = ops::linalg_qr(&times(&ah, mh_.as_ref(), &q)?, "reduced")?.0;
        q = ops::linalg_qr(&times(a, m, &q)?, "reduced")?.0;
    }
    Ok(q)
}
/// [`svd_lowrank_with`] with an error instead of a panic.
///
/// # Errors
/// Fewer than two dimensions; more values than A has; an `m` that does not fit.
pub fn try_svd_lowrank(a: &Tensor, options: SvdLowrankOptions) -> Result<Three> {
    svd(a, options.q, options.niter, options.m.as_ref())
}
fn svd(a: &Tensor, q: i64, niter: i64, m: Option<&Tensor>) -> Result<Three> {
    ensure!(a.dim() >= 2, Value, "not enough values to unpack (expected 2, got {})", a.dim());
    let wide = a.sizes()[a.dim() - 2] < a.sizes()[a.dim() - 1];
    let mean = m.map(|m| core::broadcast_to(m, a.sizes())).transpose()?;
    let (a, mean) = if wide { (adjoint(a)?, mean.as_ref().map(mh).transpose()?) } else { (a.clone(), mean) };
    let basis = basis(&a, q, niter, mean.as_ref())?;
    let h = mh(&basis)?;
    let mut b = if a.is_sparse() { mh(&matmul(&adjoint(&a)?, &basis)?)? } else { matmul(&h, &a)? };
    if let Some(m) = &mean {
        b = core::sub(&b, &matmul(&h, m)?, 1.into())?;
    }
    let (u, s, vh) = ops::linalg_svd(&b, false, None)?;
    let (u, v) = (core::matmul(&basis, &u)?, mh(&vh)?);
    Ok(if wide { (v, s, u) } else { (u, s, v) })
}
/// [`pca_lowrank_with`] with an error instead of a panic.
///
/// # Errors
/// Fewer than two dimensions; a number of components that A has not.
pub fn try_pca_lowrank(a: &Tensor, options: PcaLowrankOptions) -> Result<Three> {
    let PcaLowrankOptions { q, center, niter } = options;
    ensure!(a.dim() >= 2, Value, "not enough values to unpack (expected 2, got {})", a.dim());
    let (m, n) = (a.sizes()[a.dim() - 2], a.sizes()[a.dim() - 1]);
    let least = m.min(n);
    let q = q.unwrap_or(least.min(6));
    if q < 0 || q > least {
        return Err(Error::value(format!(
            "q(={q}) must be non-negative integer and not greater than min(m, n)={least}"
        )));
    }
    if niter < 0 {
        return Err(Error::value(format!("niter(={niter}) must be non-negative integer")));
    }
    if !center {
        return svd(a, q, niter, None);
    }
    if a.is_sparse() {
        let by = crate::ops::util::number(m)?;
        let ones = core::ones(&[1, m], Some(a.dtype()), None, Some(a.device()), None)?;
        let mean =
            core::div(&mh(&core::mm(&core::transpose(a, 0, 1)?, &core::transpose(&ones, 0, 1)?)?)?, &by)?;
        return svd(a, q, niter, Some(&core::expand(&mean, a.sizes(), false)?));
    }
    let mean = core::mean(a, Some(&[-2]), true, None)?;
    svd(&core::sub(a, &mean, 1.into())?, q, niter, None)
}

/// Keywords of [`svd_lowrank_with`].
#[flambeau_macros::options]
pub struct SvdLowrankOptions {
    /// How many singular values. Default: 6.
    #[default(6)]
    pub(crate) q: i64,
    /// How many projections more, which make it more exact. Default: 2.
    #[default(2)]
    pub(crate) niter: i64,
    /// What is taken off A.
    pub(crate) m: Option<Tensor>,
}
/// Keywords of [`pca_lowrank_with`].
#[flambeau_macros::options]
pub struct PcaLowrankOptions {
    /// How many components; 6, or as many as there are, if left out.
    pub(crate) q: Option<i64>,
    /// Whether the mean of the rows is taken off. Default: true.
    #[default(true)]
    pub(crate) center: bool,
    /// How many projections more, which make it more exact. Default: 2.
    #[default(2)]
    pub(crate) niter: i64,
}

/// `(U, S, V)` with A nearly `U diag(S) V^H`, of 6 singular values (`torch.svd_lowrank`). A is `(*, m, n)`, dense or a sparse
/// matrix; the default generator is drawn from. Panics with the text of [`try_svd_lowrank`]'s error.
///
/// ```
/// use torch::options::SvdLowrankOptions;
/// use torch::{ones, svd_lowrank_with};
/// // a matrix of rank 1
/// let (u, s, v) = svd_lowrank_with(&ones([4, 4]), SvdLowrankOptions::new().q(2));
/// assert!((s.to_vec::<f32>()[0] - 4.0).abs() < 1e-4);
/// assert!((u.matmul(&torch::diag(&s, 0)).matmul(&v.t()) - ones([4, 4])).abs().max().item::<f32>() < 1e-4);
/// ```
#[doc(alias = "torch.svd_lowrank")]
#[track_caller]
pub fn svd_lowrank(a: &Tensor) -> Three {
    expect(try_svd_lowrank(a, SvdLowrankOptions::new()))
}
/// [`svd_lowrank`] with all keywords: another number of singular values, projections, what is taken off A.
#[track_caller]
pub fn svd_lowrank_with(a: &Tensor, options: SvdLowrankOptions) -> Three {
    expect(try_svd_lowrank(a, options))
}
/// Principal components: [`svd_lowrank`] of A less the mean of its rows (`torch.pca_lowrank`). Panics with the text of
/// [`try_pca_lowrank`]'s error.
///
/// ```
/// use torch::options::PcaLowrankOptions;
/// // along one line
/// let points = torch::tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]);
/// let (_, _, v) = torch::pca_lowrank_with(&points, PcaLowrankOptions::new().q(1));
/// assert!((v.abs() - torch::tensor([[0.6], [0.8]])).abs().max().item::<f32>() < 1e-4);
/// ```
#[doc(alias = "torch.pca_lowrank")]
#[track_caller]
pub fn pca_lowrank(a: &Tensor) -> Three {
    expect(try_pca_lowrank(a, PcaLowrankOptions::new()))
}
/// [`pca_lowrank`] with all keywords.
#[track_caller]
pub fn pca_lowrank_with(a: &Tensor, options: PcaLowrankOptions) -> Three {
    expect(try_pca_lowrank(a, options))
}
