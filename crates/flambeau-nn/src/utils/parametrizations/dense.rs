//! Small dense linear algebra for orthogonal weights: solving, the matrix exponential, Householder products and QR.
//! Plain loops in double precision: it runs once per forward pass, on matrices of the size of a layer.

use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Device, Error, Result, Tensor, ensure, ops};
use num_complex::Complex;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// The numbers that the loops run on.
trait Number:
    flambeau_core::Element
    + Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    fn real(v: f64) -> Self;
    fn re(self) -> f64;
    fn im(self) -> f64;
    fn conj(self) -> Self;
    fn square(self) -> f64 {
        self.re() * self.re() + self.im() * self.im()
    }
}
impl Number for f64 {
    fn real(v: f64) -> f64 {
        v
    }
    fn re(self) -> f64 {
        self
    }
    fn im(self) -> f64 {
        0.0
    }
    fn conj(self) -> f64 {
        self
    }
}
impl Number for Complex<f64> {
    fn real(v: f64) -> Self {
        Complex::new(v, 0.0)
    }
    fn re(self) -> f64 {
        self.re
    }
    fn im(self) -> f64 {
        self.im
    }
    fn conj(self) -> Self {
        Complex::conj(&self)
    }
}

/// Rows and columns of the matrices in a tensor, and how many there are.
fn extent(t: &Tensor) -> Result<(usize, usize, usize)> {
    ensure!(
        t.dim() >= 2,
        Value,
        "Expected a matrix or batch of matrices. Got a tensor of {} dimensions.",
        t.dim()
    );
    ensure!(
        t.device() == Device::Cpu,
        Device,
        "orthogonal weights are computed on the CPU, not on {}",
        t.device()
    );
    let s = &t.sizes()[t.dim() - 2..];
    let (n, k) = (s[0] as usize, s[1] as usize);
    Ok((n, k, (t.numel() as usize).checked_div(n * k).unwrap_or(0)))
}
/// Elements in row-major order as a tensor of `like`'s dtype.
fn back<T: Number>(v: Vec<T>, sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    Tensor::from_vec_raw(v, sizes)?.try_to(like.dtype())
}

/// `A X = B` by elimination with row exchange.
fn eliminate<T: Number>(a: &mut [T], b: &mut [T], n: usize, m: usize) -> Result<()> {
    for c in 0..n {
        let best = (c..n).max_by(|i, j| a[i * n + c].square().total_cmp(&a[j * n + c].square())).unwrap_or(c);
        if a[best * n + c].square() == 0.0 {
            return Err(Error::linalg(
                "torch.linalg.solve: The solver failed because the input matrix is singular.",
            ));
        }
        if best != c {
            (0..n).for_each(|j| a.swap(c * n + j, best * n + j));
            (0..m).for_each(|j| b.swap(c * m + j, best * m + j));
        }
        let (upper, lower) = a.split_at_mut((c + 1) * n);
        let row = &upper[c * n..];
        let (b_upper, b_lower) = b.split_at_mut((c + 1) * m);
        let b_row = &b_upper[c * m..];
        for (r, b_r) in lower.chunks_exact_mut(n).zip(b_lower.chunks_exact_mut(m)) {
            let factor = r[c] / row[c];
            r[c..].iter_mut().zip(&row[c..]).for_each(|(x, y)| *x = *x - factor * *y);
            b_r.iter_mut().zip(b_row).for_each(|(x, y)| *x = *x - factor * *y);
        }
    }
    for c in (0..n).rev() {
        let (above, here) = b.split_at_mut(c * m);
        let here = &mut here[..m];
        here.iter_mut().for_each(|x| *x = *x / a[c * n + c]);
        for (r, b_r) in above.chunks_exact_mut(m).enumerate() {
            let factor = a[r * n + c];
            b_r.iter_mut().zip(here.iter()).for_each(|(x, y)| *x = *x - factor * *y);
        }
    }
    Ok(())
}
fn solved<T: Number>(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ((n, _, count), (_, m, _)) = (extent(a)?, extent(b)?);
    let (mut left, mut right) = (a.try_to_vec::<T>()?, b.try_to_vec::<T>()?);
    for i in 0..count {
        eliminate(&mut left[i * n * n..(i + 1) * n * n], &mut right[i * n * m..(i + 1) * n * m], n, m)?;
    }
    back(right, b.sizes(), b)
}

/// `A^-1 B` as one step of the graph: without it, every row operation would be one.
struct Solve;
impl Function for Solve {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [a, b] = inputs else { return Err(Error::type_("solve takes two matrices")) };
        let x = if b.is_complex() { solved::<Complex<f64>>(a, b)? } else { solved::<f64>(a, b)? };
        ctx.save_for_backward(&[a, &x]);
        Ok(vec![x])
    }
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = ctx.saved_tensors()?;
        let ([a, x], [Some(g)]) = (saved.as_slice(), grads) else { return Ok(vec![None, None]) };
        let gb = solve(&ops::adjoint(a)?, g)?;
        let ga = ops::neg(&ops::matmul(&gb, &ops::adjoint(x)?)?)?;
        Ok(vec![Some(ga), Some(gb)])
    }
}
/// `A^-1 B` for (batches of) square matrices; differentiable any number of times.
pub fn solve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let mut out = function::apply(Solve, &[a.clone(), b.clone()])?;
    out.pop().ok_or_else(|| Error::runtime("solve gave nothing"))
}

/// `exp(A)` by scaling and squaring: a Taylor polynomial where the norm is below one half, squared until it is the whole.
/// Made of products, so differentiable any number of times.
pub fn matrix_exp(a: &Tensor) -> Result<Tensor> {
    let (n, ..) = extent(a)?;
    let norm = flambeau_autograd::no_grad(|| -> Result<f64> {
        let columns = ops::sum(&ops::abs(a)?, Some(&[-2]), false, None)?;
        if columns.numel() == 0 { Ok(0.0) } else { ops::max(&columns)?.try_item::<f64>() }
    })?;
    ensure!(norm.is_finite(), Value, "matrix_exp: the matrix has elements that are not finite");
    let squarings = if norm > 0.5 { (norm / 0.5).log2().ceil() as i32 } else { 0 };
    let small = ops::mul(a, &Tensor::wrapped_raw(0.5f64.powi(squarings))?)?;
    let one = ops::eye(n as i64, Some(a.dtype()), None, Some(a.device()), None)?;
    // 0.5^k / k! is below the precision of doubles from k = 14 on, and of floats from 8 on
    let terms = if matches!(a.element_size(), 8 | 16) && !matches!(a.dtype(), flambeau_core::DType::C64) {
        14
    } else {
        9
    };
    let mut sum = one.clone();
    for k in (1..=terms).rev() {
        let step = ops::mul(&ops::matmul(&small, &sum)?, &Tensor::wrapped_raw(1.0 / f64::from(k))?)?;
        sum = ops::add(&step, &one, 1.into())?;
    }
    for _ in 0..squarings {
        sum = ops::matmul(&sum, &sum)?;
    }
    Ok(sum)
}

/// The first columns of `H_1 H_2 ... H_k` with `H_i = I - tau_i v_i v_i^H`, where `v_i` is column `i` of `a` below its
/// diagonal, which is one: in the compact form `I - V T V^H`, whose `T` is the inverse of the upper part of `V^H V` with
/// `1 / tau` on the diagonal (Schreiber and Van Loan, 1989). No `tau` may be zero. Differentiable.
pub fn householder_product(a: &Tensor, tau: &Tensor) -> Result<Tensor> {
    let (n, k, _) = extent(a)?;
    let one = ops::eye(n as i64, Some(a.dtype()), None, Some(a.device()), None)?;
    let one = ops::narrow(&one, 1, 0, k as i64)?;
    let v = ops::add(&ops::tril(a, -1)?, &one, 1.into())?;
    let gram = ops::matmul(&ops::adjoint(&v)?, &v)?;
    let diagonal = ops::diag_embed(&ops::reciprocal(tau)?, 0, -2, -1)?;
    let upper = ops::add(&ops::triu(&gram, 1)?, &diagonal, 1.into())?;
    let top = ops::adjoint(&ops::narrow(&v, -2, 0, k as i64)?)?;
    ops::sub(&one, &ops::matmul(&v, &solve(&upper, &top)?)?, 1.into())
}

/// LAPACK's `geqrf` of one matrix in place: R on and above the diagonal, the reflections below, and their factors.
fn reflect<T: Number>(a: &mut [T], n: usize, k: usize) -> Vec<T> {
    let mut taus = Vec::new();
    for c in 0..n.min(k) {
        let alpha = a[c * k + c];
        let below: f64 = (c + 1..n).map(|r| a[r * k + c].square()).sum();
        if below == 0.0 && alpha.im() == 0.0 {
            taus.push(T::real(0.0));
            continue;
        }
        let beta = -(alpha.square() + below).sqrt().copysign(alpha.re());
        let tau = (T::real(beta) - alpha) / T::real(beta);
        let scale = T::real(1.0) / (alpha - T::real(beta));
        (c + 1..n).for_each(|r| a[r * k + c] = a[r * k + c] * scale);
        a[c * k + c] = T::real(beta);
        for j in c + 1..k {
            let mut dot = a[c * k + j];
            (c + 1..n).for_each(|r| dot = dot + a[r * k + c].conj() * a[r * k + j]);
            let dot = tau.conj() * dot;
            a[c * k + j] = a[c * k + j] - dot;
            (c + 1..n).for_each(|r| a[r * k + j] = a[r * k + j] - a[r * k + c] * dot);
        }
        taus.push(tau);
    }
    taus
}
/// `H_1 H_2 ... H_k` of one matrix of reflections, its first columns.
fn accumulate<T: Number>(a: &[T], tau: &[T], n: usize, k: usize) -> Vec<T> {
    let mut q = vec![T::real(0.0); n * k];
    (0..k).for_each(|i| q[i * k + i] = T::real(1.0));
    for (c, tau) in tau.iter().enumerate().rev() {
        for j in 0..k {
            let mut dot = q[c * k + j];
            (c + 1..n).for_each(|r| dot = dot + a[r * k + c].conj() * q[r * k + j]);
            let dot = *tau * dot;
            q[c * k + j] = q[c * k + j] - dot;
            (c + 1..n).for_each(|r| q[r * k + j] = q[r * k + j] - a[r * k + c] * dot);
        }
    }
    q
}
fn factored<T: Number>(t: &Tensor) -> Result<(Tensor, Tensor)> {
    let (n, k, count) = extent(t)?;
    let mut a = t.try_to_vec::<T>()?;
    let taus: Vec<T> = (0..count).flat_map(|i| reflect(&mut a[i * n * k..(i + 1) * n * k], n, k)).collect();
    let mut sizes = t.sizes()[..t.dim() - 2].to_vec();
    sizes.push(n.min(k) as i64);
    Ok((back(a, t.sizes(), t)?, back(taus, &sizes, t)?))
}
/// LAPACK's `geqrf` of (a batch of) matrices: R with the reflections below it, and their factors. No gradient.
pub fn geqrf(t: &Tensor) -> Result<(Tensor, Tensor)> {
    if t.is_complex() { factored::<Complex<f64>>(t) } else { factored::<f64>(t) }
}
fn orthonormal<T: Number>(t: &Tensor) -> Result<Tensor> {
    let (n, k, count) = extent(t)?;
    let mut a = t.try_to_vec::<T>()?;
    let mut out = Vec::with_capacity(a.len());
    for m in (0..count).map(|i| i * n * k) {
        let m = &mut a[m..m + n * k];
        let tau = reflect(m, n, k);
        let mut q = accumulate(m, &tau, n, k);
        // the factorisation is unique with a positive diagonal
        for c in 0..k {
            let d = m[c * k + c];
            let sign = if d.square() == 0.0 { T::real(0.0) } else { d / T::real(d.square().sqrt()) };
            (0..n).for_each(|r| q[r * k + c] = q[r * k + c] * sign);
        }
        out.extend(q);
    }
    back(out, t.sizes(), t)
}
/// The orthogonal factor of QR with a positive diagonal of R. No gradient.
pub fn make_orthogonal(t: &Tensor) -> Result<Tensor> {
    if t.is_complex() { orthonormal::<Complex<f64>>(t) } else { orthonormal::<f64>(t) }
}
