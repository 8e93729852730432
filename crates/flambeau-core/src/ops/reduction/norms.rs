//! Vector norms, rows of at most some norm, logsumexp.

use super::{as_geo, reduce_into, reduced_dims, reduced_sizes};
use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::cast_to;
use crate::generated::args;
use crate::iter::promotion::default_dtype;
use crate::tensor::geometry::{self, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{DType, Error, bail, ensure, ops};
use flambeau_cpu::reduction::erased;

/// `linalg_vector_norm`
pub fn linalg_vector_norm_shape(
    &args::LinalgVectorNorm { self_, ord, dim, keepdim, dtype }: &args::LinalgVectorNorm,
) -> Result<OutMeta> {
    let d = dtype.unwrap_or(self_.dtype());
    ensure!(
        self_.dtype().is_floating() || self_.is_complex(),
        Unsupported,
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        self_.dtype().scalar_type_name()
    );
    ensure!(
        !ord.is_complex(),
        Runtime,
        "linalg.vector_norm: Expected a non-complex scalar as the order of norm."
    );
    ensure!(
        d.is_floating() || d.is_complex(),
        Runtime,
        "linalg.vector_norm: dtype should be floating point or complex, but got {}",
        d.scalar_type_name()
    );
    let kind = if self_.is_complex() { "complex" } else { "real" };
    ensure!(
        d.is_complex() == self_.is_complex(),
        Runtime,
        "linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {}",
        d.scalar_type_name()
    );
    let dims = reduced_dims(self_.dim(), dim)?;
    let o = ord.to_f64();
    if o < 0.0 || o == f64::INFINITY {
        if let Some(given) = dim.filter(|d| !d.is_empty()) {
            let empty = given.iter().zip(&dims).find(|(_, d)| self_.sizes()[**d] == 0);
            // the missing space is PyTorch's
            ensure!(
                empty.is_none(),
                Runtime,
                "linalg.vector_norm cannot compute the {o} norm on the dimension {}because this dimension is empty and the \
                 operation does not have an identity",
                empty.map_or(0, |(d, _)| *d)
            );
        }
        let n: i64 = dims.iter().map(|d| self_.sizes()[*d]).product();
        ensure!(
            n > 0,
            Runtime,
            "linalg.vector_norm cannot compute the {o} norm on an empty tensor because the operation does not have an identity"
        );
    }
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), d.to_real(), self_.device()))
}
/// `linalg_vector_norm`
pub fn linalg_vector_norm_cpu(
    &args::LinalgVectorNorm { self_, ord, dim, dtype, .. }: &args::LinalgVectorNorm,
    out: &Tensor,
) -> Result<()> {
    let x = match dtype {
        Some(d) if d != self_.dtype() => cast_to(self_, d)?,
        _ => self_.clone(),
    };
    let (x, g) = as_geo(&x, &reduced_dims(self_.dim(), dim)?)?;
    let a = Access::new(&[&x], &[out])?;
    erased::norm(a.any(0)?, g, ord.to_f64(), a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for("linalg_vector_norm_cpu", x.dtype()))
}

/// `norm.ScalarOpt_dim_dtype` and its short forms.
pub fn norm(
    self_: &Tensor,
    p: Option<Scalar>,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ops::linalg_vector_norm(self_, p.unwrap_or(Scalar::Int(2)), dim, keepdim, dtype)
}

/// `logsumexp`
pub fn logsumexp_shape(&args::Logsumexp { self_, dim, keepdim }: &args::Logsumexp) -> Result<OutMeta> {
    let dims = reduced_dims(self_.dim(), Some(dim))?;
    // no dimension stands for all, but then the largest elements, which are added at last, keep theirs
    ensure!(
        keepdim || !dim.is_empty() || self_.dim() == 0 || self_.numel() == 0,
        Runtime,
        "output with shape [] doesn't match the broadcast shape {}",
        geometry::fmt_sizes(&vec![1; self_.dim()])
    );
    let d = if self_.dtype().is_integral(true) { default_dtype() } else { self_.dtype() };
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), d, self_.device()))
}
/// `logsumexp`
pub fn logsumexp_cpu(&args::Logsumexp { self_, dim, keepdim }: &args::Logsumexp, out: &Tensor) -> Result<()> {
    let x = if self_.dtype() == out.dtype() { self_.clone() } else { cast_to(self_, out.dtype())? };
    let dims = reduced_dims(self_.dim(), Some(dim))?;
    if x.is_complex() {
        // no order on complex numbers: the shift is the largest real part
        let shift = if x.numel() == 0 {
            None
        } else {
            let m = ops::amax(&ops::real(&x)?, dim, true)?;
            let finite = ops::eq(
                &ops::abs(&m)?,
                &crate::tensor::wrapped_number::wrapped_number(f64::INFINITY.into())?,
            )?;
            Some(ops::masked_fill(&m, &finite, Scalar::Int(0))?)
        };
        let (shifted, back) = match &shift {
            Some(m) => (ops::sub(&x, m, Scalar::Int(1))?, Some(ops::reshape(m, out.sizes())?)),
            None => (x.clone(), None),
        };
        let _ = keepdim;
        let s =
            ops::log(&ops::reshape(&ops::sum(&ops::exp(&shifted)?, Some(dim), true, None)?, out.sizes())?)?;
        let r = match back {
            Some(m) => ops::add(&s, &m, Scalar::Int(1))?,
            None => s,
        };
        return crate::backend::transfer::copy_into(out, &r);
    }
    reduce_into("max_values_cpu", &x, &dims, out, erased::logsumexp)
}

/// `frobenius_norm`
pub fn frobenius_norm(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    ensure!(
        dim.len() <= 2,
        Runtime,
        "Expected at most 2 dimensions, but got {} dimensions instead.",
        dim.len()
    );
    if !self_.dtype().is_floating() && !self_.is_complex() {
        bail!(
            Unsupported,
            "norm(): input dtype should be either floating point or complex. Got {} instead.",
            self_.dtype().scalar_type_name()
        );
    }
    ops::linalg_vector_norm(self_, Scalar::Int(2), Some(dim), keepdim, None)
}
/// `norm_except_dim`
pub fn norm_except_dim(v: &Tensor, pow: i64, dim: i64) -> Result<Tensor> {
    if dim == -1 {
        return ops::norm(v, Some(Scalar::Int(pow)), None, false, None);
    }
    let d = crate::tensor::geometry::wrap_dim(dim, v.dim())?;
    let others: Vec<i64> = (0..v.dim()).filter(|i| *i != d).map(|i| i as i64).collect();
    if others.is_empty() {
        // nothing to sum over: an empty list of dims would mean all
        return ops::norm(&ops::unsqueeze(v, -1)?, Some(Scalar::Int(pow)), Some(&[-1]), false, None);
    }
    ops::norm(v, Some(Scalar::Int(pow)), Some(&others), true, None)
}
/// `linalg__powsum`
pub fn linalg_powsum(
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let d = dtype.unwrap_or(self_.dtype());
    if !(d.is_floating() || d.is_complex()) {
        return Err(Error::not_implemented_for("powsum_cpu", d));
    }
    let x = match dtype {
        Some(d) => ops::to(self_, Some(d), None, None, None, false, false, None)?,
        None => self_.clone(),
    };
    let power = ops::pow(&ops::abs(&x)?, &crate::tensor::wrapped_number::wrapped_number(ord)?)?;
    ops::sum(&power, dim, keepdim, None)
}

fn wrapped(v: impl Into<Scalar>) -> Result<Tensor> {
    wrapped_number(v.into())
}
/// `renorm`
pub fn renorm(self_: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    ensure!(!p.is_complex(), Runtime, "renorm: p must be real-valued");
    ensure!(p.to_f64() > 0.0, Runtime, "renorm: non-positive-norm not supported");
    ensure!(!maxnorm.is_complex(), Runtime, "renorm: maxnorm must be real-valued");
    let most = maxnorm.to_f64();
    ensure!(
        most >= 0.0,
        Runtime,
        "renorm: expected maxnorm to be >= 0 but got {}",
        crate::types::type_info::c_number(most)
    );
    ensure!(
        self_.dim() > 1,
        Runtime,
        "renorm: input needs at least 2 dimensions, got {} dimensions",
        self_.dim()
    );
    let d = wrap_dim(dim, self_.dim())?;
    let others: Vec<i64> = (0..self_.dim() as i64).filter(|i| *i != d as i64).collect();
    let norm = |x: &Tensor| ops::linalg_vector_norm(x, p, Some(&others), true, None);
    let mut norms = norm(self_)?;
    let above = ops::gt(&norms, &wrapped(most)?)?;
    if self_.requires_grad() {
        // slices that stay as they are have no part in the norms' gradient, which NaN would get out of
        norms = norm(&ops::where_(&above, self_, &wrapped(1)?)?)?;
    }
    let down = ops::div(&wrapped(most)?, &ops::add(&norms, &wrapped(1e-7)?, Scalar::Int(1))?)?;
    ops::mul(self_, &ops::where_(&above, &down, &wrapped(1)?)?)
}
