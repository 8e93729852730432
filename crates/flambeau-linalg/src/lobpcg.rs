//! A few of the largest or smallest eigenvalues of a symmetric matrix (`torch.lobpcg`).

use crate::ops;
use crate::ops::util::{mt, number};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, ErrorKind, Result, Scalar, Tensor, ensure, ops as core};

/// Keywords of [`lobpcg_with`]; what is left out is as in PyTorch.
#[flambeau_macros::options]
pub struct LobpcgOptions {
    /// How many eigenvalues; as many as X has columns, else 1.
    pub(crate) k: Option<i64>,
    /// Of `A x = e B x`.
    pub(crate) b: Option<Tensor>,
    /// First guesses, `(*, m, n)`.
    pub(crate) x: Option<Tensor>,
    /// How many columns are iterated; `k` if left out.
    pub(crate) n: Option<i64>,
    /// A preconditioner: residuals are multiplied by it.
    pub(crate) ik: Option<Tensor>,
    /// Steps at most; 1000 if left out.
    pub(crate) niter: Option<i64>,
    /// Residuals below this end the iteration; the root of the dtype's epsilon if left out.
    pub(crate) tol: Option<f64>,
    /// The largest (default) or smallest eigenvalues.
    pub(crate) largest: Option<bool>,
    /// `basic` or `ortho`: PyTorch's two ways to the same result, which are one here.
    pub(crate) method: Option<String>,
}

fn times(a: Option<&Tensor>, x: &Tensor) -> Result<Tensor> {
    match a {
        None => Ok(x.clone()),
        Some(a) if a.is_sparse() => core::mm(a, x),
        Some(a) => core::matmul(a, x),
    }
}
fn form(a: Option<&Tensor>, x: &Tensor) -> Result<Tensor> {
    core::matmul(&mt(x)?, &times(a, x)?)
}
fn minus(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    core::sub(a, b, 1.into())
}
/// A basis of the columns of `u` that is orthonormal for B; what others span already is left out.
fn orthonormal(u: &Tensor, b: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let gram = form(b, u)?;
    let d = core::diagonal(&gram, 0, -2, -1)?;
    let keep = core::reshape(&core::nonzero(&core::gt(&d, &number(0)?)?)?, &[-1])?;
    let (u, d) = (core::index_select(u, -1, &keep)?, core::index_select(&d, 0, &keep)?);
    let gram = form(b, &u)?;
    let scale = core::rsqrt(&d)?;
    let scaled = core::mul(&core::mul(&gram, &core::unsqueeze(&scale, -1)?)?, &core::unsqueeze(&scale, 0)?)?;
    let (e, z) = ops::linalg_eigh(&scaled, "L")?;
    let bound = core::mul(&core::amax(&e, &[], false)?, &number(eps)?)?;
    let keep = core::reshape(&core::nonzero(&core::gt(&e, &bound)?)?, &[-1])?;
    let (e, z) = (core::index_select(&e, 0, &keep)?, core::index_select(&z, -1, &keep)?);
    let turn = core::mul(&z, &core::unsqueeze(&core::rsqrt(&e)?, 0)?)?;
    core::matmul(&core::mul(&u, &core::unsqueeze(&scale, 0)?)?, &turn)
}
/// Eigenvalues and vectors of the small problem, in the order that is asked for.
fn ritz(a: &Tensor, s: &Tensor, largest: bool) -> Result<(Tensor, Tensor)> {
    let (e, z) = ops::linalg_eigh(&form(Some(a), s)?, "L")?;
    if largest { Ok((core::flip(&e, &[-1])?, core::flip(&z, &[-1])?)) } else { Ok((e, z)) }
}
fn length(x: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    core::linalg_vector_norm(x, Scalar::Int(2), dim, false, None)
}

/// Steps after which nothing more comes, whatever the tolerance.
const MOST: i64 = 10_000;

struct Task<'a> {
    a: &'a Tensor,
    b: Option<&'a Tensor>,
    ik: Option<&'a Tensor>,
    k: i64,
    niter: i64,
    tol: f64,
    largest: bool,
}
impl Task<'_> {
    fn run(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let eps = if x.dtype() == DType::F64 { 1e-14 } else { 1e-6 };
        let n = x.sizes()[1];
        let size = length(x, None)?.try_item::<f64>()?;
        let a_norm = length(&times(Some(self.a), x)?, None)?.try_item::<f64>()? / size;
        let b_norm = length(&times(self.b, x)?, None)?.try_item::<f64>()? / size;
        let mut s = orthonormal(x, self.b, eps)?;
        ensure!(s.sizes()[1] == n, Runtime, "lobpcg: the columns of X are not independent");
        let mut p: Option<Tensor> = None;
        let mut left = self.niter;
        loop {
            let (e, z) = ritz(self.a, &s, self.largest)?;
            let (e, z) = (core::narrow(&e, 0, 0, n)?, core::narrow(&z, 1, 0, n)?);
            let x = core::matmul(&s, &z)?;
            if s.sizes()[1] > n {
                // the step, without its part along the vectors before
                let rest = s.sizes()[1] - n;
                p = Some(core::matmul(&core::narrow(&s, 1, n, rest)?, &core::narrow(&z, 0, n, rest)?)?);
            }
            let r = minus(&times(Some(self.a), &x)?, &core::mul(&times(self.b, &x)?, &e)?)?;
            let scale =
                core::add(&core::mul(&core::abs(&e)?, &number(b_norm)?)?, &number(a_norm)?, 1.into())?;
            let error = core::div(&length(&r, Some(&[0]))?, &core::mul(&length(&x, Some(&[0]))?, &scale)?)?;
            let done = core::all(&core::lt(&core::narrow(&error, 0, 0, self.k)?, &number(self.tol)?)?)?;
            left = left.saturating_sub(1);
            if left < 0 || done.try_item::<bool>()? {
                return Ok((core::narrow(&e, 0, 0, self.k)?, core::narrow(&x, 1, 0, self.k)?));
            }
            let w = times(self.ik, &r)?;
            let more = match &p {
                Some(p) => core::cat(&[p.clone(), w], 1)?,
                None => w,
            };
            // twice is enough
            let mut more = more;
            for _ in 0..2 {
                let along = core::matmul(&mt(&x)?, &times(self.b, &more)?)?;
                more = minus(&more, &core::matmul(&x, &along)?)?;
                if more.numel() > 0 {
                    more = orthonormal(&more, self.b, eps)?;
                }
            }
            if more.numel() == 0 {
                return Ok((core::narrow(&e, 0, 0, self.k)?, core::narrow(&x, 1, 0, self.k)?));
            }
            s = core::cat(&[x, more], 1)?;
        }
    }
}
/// Differentiable, by all eigenvalues.
fn with_gradient(a: &Tensor, b: Option<&Tensor>, k: i64, largest: bool) -> Result<(Tensor, Tensor)> {
    let symmetric =
        |a: &Tensor| -> Result<Tensor> { core::div(&core::add(a, &mt(a)?, 1.into())?, &number(2)?) };
    let a = symmetric(a)?;
    let (e, v) = match b {
        None => ops::linalg_eigh(&a, "L")?,
        Some(b) => {
            let l = ops::linalg_cholesky(&symmetric(b)?, false)?;
            let inner = ops::linalg_solve_triangular(&l, &a, false, true, false)?;
            let inner = ops::linalg_solve_triangular(&mt(&l)?, &inner, true, false, false)?;
            let (e, v) = ops::linalg_eigh(&inner, "L")?;
            (e, ops::linalg_solve_triangular(&mt(&l)?, &v, true, true, false)?)
        }
    };
    let (e, v) = if largest { (core::flip(&e, &[-1])?, core::flip(&v, &[-1])?) } else { (e, v) };
    Ok((core::narrow(&e, -1, 0, k)?, core::narrow(&v, -1, 0, k)?))
}
/// [`lobpcg_with`] with an error instead of a panic.
///
/// # Errors
/// Matrices that are not square or not of equal sizes; more values than a third of the rows.
pub fn try_lobpcg(a: &Tensor, options: LobpcgOptions) -> Result<(Tensor, Tensor)> {
    let o = &options;
    ensure!(a.dim() >= 2, Index, "tuple index out of range");
    let (m, other) = (a.sizes()[a.dim() - 2], a.sizes()[a.dim() - 1]);
    let assertion = |text: String| Error::new(ErrorKind::Assertion, text);
    let size = |t: &Tensor| format!("torch.Size({})", flambeau_core::tensor::geometry::fmt_sizes(t.sizes()));
    if m != other {
        return Err(assertion(format!("A must be square, got shape {}", size(a))));
    }
    if let Some(b) = o.b.as_ref().filter(|b| b.sizes() != a.sizes()) {
        return Err(assertion(format!("A and B must have same shape, got {} vs {}", size(a), size(b))));
    }
    let d = if a.dtype().is_floating() { a.dtype() } else { DType::F32 };
    ensure!(o.x.as_ref().is_none_or(|x| x.dim() >= 2), Index, "tuple index out of range");
    let columns = o.x.as_ref().map(|x| x.sizes()[x.dim() - 1]);
    let k = o.k.or(columns).unwrap_or(1);
    let n = columns.unwrap_or(o.n.unwrap_or(k));
    if n > m / 3 {
        return Err(Error::value(format!(
            "LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of requested \
             eigenpairs (={n})"
        )));
    }
    ensure!(k <= n, Value, "lobpcg: k (={k}) is larger than the number of columns (={n})");
    if let Some(method) = &o.method
        && method != "basic"
        && method != "ortho"
    {
        return Err(Error::value(format!("lobpcg: unknown method `{method}`")));
    }
    let largest = o.largest.unwrap_or(true);
    let recorded = |t: &Tensor| t.requires_grad();
    if flambeau_autograd::is_grad_enabled() && (recorded(a) || o.b.as_ref().is_some_and(recorded)) {
        return with_gradient(a, o.b.as_ref(), k, largest);
    }
    let eps = if d == DType::F64 { 2.23e-16f64 } else { 1.2e-7 };
    let tol = o.tol.unwrap_or(eps.sqrt());
    let one = |a: &Tensor, b: Option<&Tensor>, x: Option<Tensor>| {
        let x = match x {
            Some(x) => x,
            None => core::randn(&[m, n], None, Some(d), None, Some(a.device()), None)?,
        };
        if x.sizes() != [m, n] {
            return Err(assertion(format!("X shape mismatch: got {}, expected ({m}, {n})", size(&x))));
        }
        let task =
            Task { a, b, ik: o.ik.as_ref(), k, niter: o.niter.unwrap_or(1000).min(MOST), tol, largest };
        task.run(&x)
    };
    if a.dim() == 2 {
        return one(a, o.b.as_ref(), o.x.clone());
    }
    let flat = |t: &Tensor| {
        let s = t.sizes();
        core::reshape(t, &[-1, s[s.len() - 2], s[s.len() - 1]])
    };
    let (fa, fb, fx) = (flat(a)?, o.b.as_ref().map(flat).transpose()?, o.x.as_ref().map(flat).transpose()?);
    let (mut es, mut xs) = (Vec::new(), Vec::new());
    for i in 0..fa.sizes()[0] {
        let at = |t: &Option<Tensor>| t.as_ref().map(|t| core::select(t, 0, i)).transpose();
        let (e, x) = one(&core::select(&fa, 0, i)?, at(&fb)?.as_ref(), at(&fx)?)?;
        es.push(e);
        xs.push(x);
    }
    let shape = |last: &[i64]| -> Vec<i64> { a.sizes()[..a.dim() - 2].iter().chain(last).copied().collect() };
    if es.is_empty() {
        return Ok((
            Tensor::zeros_raw(&shape(&[k]), d, a.device())?,
            Tensor::zeros_raw(&shape(&[m, k]), d, a.device())?,
        ));
    }
    Ok((
        core::reshape(&core::stack(&es, 0)?, &shape(&[k]))?,
        core::reshape(&core::stack(&xs, 0)?, &shape(&[m, k]))?,
    ))
}

/// The largest eigenvalue of a symmetric matrix, dense or sparse, and its vector (`torch.lobpcg`), by locally optimal conjugate
/// gradients; `lobpcg_with(&a, LobpcgOptions::new().k(3))` gives several. A is `(*, m, m)` with m at least three times the number
/// of columns that are iterated. With a gradient to come all eigenvalues are computed instead. Panics with the text of
/// [`try_lobpcg`]'s error.
///
/// ```
/// let a = torch::diag(&torch::tensor([1.0, 2.0, 3.0, 9.0]), 0);
/// let (value, vector) = torch::lobpcg(&a);
/// assert!((value.item::<f64>() - 9.0).abs() < 1e-3);
/// assert_eq!(vector.sizes(), &[4, 1]);
/// ```
#[doc(alias = "torch.lobpcg")]
#[track_caller]
pub fn lobpcg(a: &Tensor) -> (Tensor, Tensor) {
    expect(try_lobpcg(a, LobpcgOptions::new()))
}
/// [`lobpcg`] with all keywords: how many values, the smallest, another matrix B, first guesses, a preconditioner.
#[track_caller]
pub fn lobpcg_with(a: &Tensor, options: LobpcgOptions) -> (Tensor, Tensor) {
    expect(try_lobpcg(a, options))
}
