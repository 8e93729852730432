//! Orthogonal (unitary) weights.

use super::dense::{geqrf, householder_product, make_orthogonal, matrix_exp, solve};
use crate::module::Module;
use crate::parameter::Buffer;
use crate::utils::parametrize::{Inverse, Parametrization, register};
use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{DType, Error, MemoryFormat, Result, Tensor, ensure, finfo, ops};
use flambeau_macros::Module;
use std::sync::Arc;

/// How an orthogonal matrix is made of any matrix.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::parametrizations::{OrthogonalMap, OrthogonalOptions, orthogonal_with};
/// let mut layer = nn::Linear::new(3, 3);
/// let options = OrthogonalOptions::new().orthogonal_map(OrthogonalMap::Cayley);
/// orthogonal_with(&mut layer, "weight", options);
/// let w = layer.weight.value();
/// assert!((w.matmul(&w.t()) - torch::eye(3)).abs().max().item::<f32>() < 1e-5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrthogonalMap {
    /// The exponential of a skew matrix.
    MatrixExp,
    /// `(I - A/2)^-1 (I + A/2)` of a skew matrix.
    Cayley,
    /// A product of reflections; not for complex weights.
    Householder,
}
impl OrthogonalMap {
    /// The map of that documented name.
    ///
    /// # Errors
    /// No such map.
    pub fn from_name(name: &str) -> Result<OrthogonalMap> {
        match name {
            "matrix_exp" => Ok(OrthogonalMap::MatrixExp),
            "cayley" => Ok(OrthogonalMap::Cayley),
            "householder" => Ok(OrthogonalMap::Householder),
            _ => Err(Error::value(format!(
                "orthogonal_map has to be one of \"matrix_exp\", \"cayley\", \"householder\". Got: {name}"
            ))),
        }
    }
}

/// Options of [`orthogonal_with`].
#[derive(Clone, Copy, Debug)]
pub struct OrthogonalOptions {
    map: Option<OrthogonalMap>,
    use_trivialization: bool,
}
impl Default for OrthogonalOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl OrthogonalOptions {
    /// The documented defaults: the map by the weight's shape, relative to the weight's first value.
    pub fn new() -> Self {
        OrthogonalOptions { map: None, use_trivialization: true }
    }
    /// How the matrix is made.
    pub fn orthogonal_map(mut self, map: OrthogonalMap) -> Self {
        self.map = Some(map);
        self
    }
    /// Whether the weight is the map's result times a fixed orthogonal matrix, so that it can be given any orthogonal value.
    pub fn use_trivialization(mut self, on: bool) -> Self {
        self.use_trivialization = on;
        self
    }
}

#[derive(Debug, Module)]
#[module(name = "_Orthogonal")]
struct Orthogonal {
    /// With the buffer `base` once a value was given.
    base: crate::Base,
    shape: Vec<i64>,
    map: OrthogonalMap,
    trivial: bool,
}
fn sides(t: &Tensor) -> (i64, i64) {
    let s = t.sizes();
    (s[s.len() - 2], s[s.len() - 1])
}
fn number(v: f64) -> Result<Tensor> {
    Tensor::wrapped_raw(v)
}
fn eye(n: i64, like: &Tensor) -> Result<Tensor> {
    ops::eye(n, Some(like.dtype()), None, Some(like.device()), None)
}
fn is_orthogonal(q: &Tensor) -> Result<bool> {
    let (n, k) = sides(q);
    let eps = 10.0 * n as f64 * finfo(q.dtype())?.eps;
    ops::allclose(&ops::matmul(&ops::adjoint(q)?, q)?, &eye(k, q)?, 1e-5, eps, false)
}
impl Orthogonal {
    fn right(&self, value: &Tensor) -> Result<Inverse> {
        ensure!(
            value.sizes() == self.shape,
            Value,
            "Expected a matrix or batch of matrices of shape torch.Size({}). Got a tensor of shape torch.Size({}).",
            fmt_sizes(&self.shape),
            fmt_sizes(value.sizes())
        );
        let (mut n, mut k) = sides(value);
        let transposed = n < k;
        let mut q = value.alias_detached();
        if transposed {
            q = ops::transpose(&q, -2, -1)?;
            (n, k) = (k, n);
        }
        if !self.trivial {
            if self.map != OrthogonalMap::Householder {
                return Err(Error::unsupported(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when \
                     use_trivialization=False.",
                ));
            }
            let (a, tau) = geqrf(&q)?;
            // the diagonal of R is +-1: its sign is kept, turned where there is no reflection
            let d = ops::diagonal(&a, 0, -2, -1)?;
            let sign = ops::sign(&d)?;
            let turned = ops::where_(&ops::eq(&tau, &number(0.0)?)?, &ops::neg(&sign)?, &sign)?;
            ops::copy_(&d, &turned, false)?;
            return Ok(Inverse::One(if transposed { ops::transpose(&a, -2, -1)? } else { a }));
        }
        let start = if n == k {
            if is_orthogonal(&q)? {
                ops::clone(&q, Some(MemoryFormat::Preserve))?
            } else {
                make_orthogonal(&q)?
            }
        } else {
            let mut sizes = q.sizes()[..q.dim() - 2].to_vec();
            sizes.extend([n, n - k]);
            let more = ops::randn(&sizes, None, Some(q.dtype()), None, Some(q.device()), None)?;
            make_orthogonal(&ops::cat(&[q, more], -1)?)?
        };
        self.base.register_buffer("base", Buffer::new(start))?;
        let zero = ops::zeros_like(value, None, None, None, None, None)?;
        ops::fill_(&ops::diagonal(&zero, 0, -2, -1)?, (-1.0).into())?;
        Ok(Inverse::One(zero))
    }
}
impl Parametrization for Orthogonal {
    fn compute(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [x] = originals else { return Err(Error::type_("_Orthogonal takes one tensor")) };
        let (mut n, mut k) = sides(x);
        let transposed = n < k;
        let mut x = x.clone();
        if transposed {
            x = ops::transpose(&x, -2, -1)?;
            (n, k) = (k, n);
        }
        let mut q = match self.map {
            OrthogonalMap::Householder => {
                let a = ops::tril(&x, -1)?;
                let squares = ops::sum(&ops::mul(&a, &a)?, Some(&[-2]), false, None)?;
                let tau = ops::div(&number(2.0)?, &ops::add(&squares, &number(1.0)?, 1.into())?)?;
                let q = householder_product(&a, &tau)?;
                let signs = ops::diagonal(&x, 0, -2, -1)?.alias_detached().try_to(DType::I32)?;
                ops::mul(&q, &ops::unsqueeze(&signs, -2)?)?
            }
            map => {
                let mut lower = ops::tril(&x, 0)?;
                if n != k {
                    let mut sizes = lower.sizes()[..lower.dim() - 2].to_vec();
                    sizes.extend([n, n - k]);
                    let zeros = Tensor::zeros_raw(&sizes, lower.dtype(), lower.device())?;
                    lower = ops::cat(&[lower, zeros], -1)?;
                }
                let a = ops::sub(&lower, &ops::adjoint(&lower)?, 1.into())?;
                let q = if map == OrthogonalMap::MatrixExp {
                    matrix_exp(&a)?
                } else {
                    let one = eye(n, &a)?;
                    let sum = |alpha: f64| ops::add(&one, &a, alpha.into());
                    solve(&sum(-0.5)?, &sum(0.5)?)?
                };
                if n != k { ops::narrow(&q, -1, 0, k)? } else { q }
            }
        };
        if let Some(start) = self.base.buffer("base") {
            q = ops::matmul(&start, &q)?;
        }
        if transposed { ops::transpose(&q, -2, -1) } else { Ok(q) }
    }
    fn right_inverse(&self, value: &Tensor) -> Result<Inverse> {
        no_grad(|| self.right(value))
    }
}

/// Makes a weight, or a batch of matrices in it, orthogonal (unitary): square, or with orthonormal rows or columns.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::parametrizations::orthogonal;
/// let mut layer = nn::Linear::new(4, 2);
/// orthogonal(&mut layer, "weight");
/// let w = layer.weight.value();
/// assert!((w.matmul(&w.t()) - torch::eye(2)).abs().max().item::<f32>() < 1e-5);
/// ```
///
/// Panics with the text of [`try_orthogonal`]'s error.
#[doc(alias = "torch.nn.utils.parametrizations.orthogonal")]
#[track_caller]
pub fn orthogonal(m: &mut (impl Module + ?Sized), name: &str) {
    expect(try_orthogonal(m, name, OrthogonalOptions::new()))
}
/// [`orthogonal`] with its options.
#[track_caller]
pub fn orthogonal_with(m: &mut (impl Module + ?Sized), name: &str, o: OrthogonalOptions) {
    expect(try_orthogonal(m, name, o))
}
/// [`orthogonal_with`] with an error instead of a panic.
///
/// # Errors
/// No such weight; fewer than two dimensions; a struct without a `base`; reflections of a complex weight.
pub fn try_orthogonal(m: &mut (impl Module + ?Sized), name: &str, o: OrthogonalOptions) -> Result<()> {
    let m = m.as_module_mut();
    let weight = super::weight(m, name)?;
    ensure!(
        weight.dim() >= 2,
        Value,
        "Expected a matrix or batch of matrices. Got a tensor of {} dimensions.",
        weight.dim()
    );
    let (n, k) = sides(&weight);
    let map = o.map.unwrap_or(if n == k || weight.is_complex() {
        OrthogonalMap::MatrixExp
    } else {
        OrthogonalMap::Householder
    });
    ensure!(
        !(weight.is_complex() && map == OrthogonalMap::Householder),
        Value,
        "The householder parametrization does not support complex tensors."
    );
    let shape = weight.sizes().to_vec();
    let map = Orthogonal { base: crate::Base::new(), shape, map, trivial: o.use_trivialization };
    register(m, name, Arc::new(map), true)
}
