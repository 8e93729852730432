//! Covariances and correlation coefficients.

use crate::tensor::handle::Tensor;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};

fn number(s: impl Into<Scalar>) -> Result<Tensor> {
    wrapped_number(s.into())
}
fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sub(a, b, Scalar::Int(1))
}

fn weights(w: &Tensor, name: &str, observations: i64, kind: &str, fits: bool) -> Result<()> {
    ensure!(
        w.dim() <= 1,
        Runtime,
        "cov(): expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
        w.dim()
    );
    ensure!(
        fits,
        Runtime,
        "cov(): expected {name} to have {kind} dtype but got {name} with {} dtype",
        w.dtype().scalar_type_name()
    );
    ensure!(
        w.numel() == observations,
        Runtime,
        "cov(): expected {name} to have the same numel as there are observations in the input but got {} != {observations}",
        w.numel()
    );
    let least = if observations == 0 { 0.0 } else { ops::min(&w.alias_detached())?.try_item::<f64>()? };
    ensure!(least >= 0.0, Runtime, "cov(): {name} cannot be negative");
    Ok(())
}

/// `cov`
pub fn cov(
    self_: &Tensor,
    correction: i64,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    ensure!(self_.dtype() != DType::Bool, Unsupported, "cov(): bool dtype is not supported for input");
    let x = if self_.dim() < 2 { ops::reshape(self_, &[1, -1])? } else { self_.clone() };
    let n = x.sizes()[1];
    let mut w = None;
    if let Some(f) = fweights {
        weights(f, "fweights", n, "integral", f.dtype().is_integral(false))?;
        w = Some(f.clone());
    }
    if let Some(a) = aweights {
        weights(a, "aweights", n, "floating point", a.dtype().is_floating())?;
        w = Some(match w {
            Some(f) => ops::mul(&f, a)?,
            None => a.clone(),
        });
    }
    let total = match &w {
        Some(w) => ops::sum(w, None, false, None)?,
        None => number(n)?,
    };
    if w.is_some() {
        ensure!(total.try_item::<f64>()? != 0.0, Runtime, "cov(): weights sum to zero, can't be normalized");
    }
    let weighted = |x: &Tensor| w.as_ref().map_or_else(|| Ok(x.clone()), |w| ops::mul(x, w));
    let mean = ops::div(&ops::sum(&weighted(&x)?, Some(&[1]), false, None)?, &total)?;
    let mut factor = match (&w, aweights) {
        (Some(w), Some(a)) if correction != 0 => {
            let spread = ops::mul(&ops::sum(&ops::mul(w, a)?, None, false, None)?, &number(correction)?)?;
            sub(&total, &ops::div(&spread, &total)?)?
        }
        _ => sub(&total, &number(correction)?)?,
    };
    if factor.try_item::<f64>()? <= 0.0 {
        factor = ops::zeros_like(&factor, None, None, None, None, None)?;
    }
    let d = sub(&x, &ops::unsqueeze(&mean, 1)?)?;
    let c = ops::mm(&d, &ops::conj(&ops::t(&weighted(&d)?)?)?)?;
    ops::squeeze(&ops::div(&c, &factor)?)
}

/// `corrcoef`
pub fn corrcoef(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    let c = ops::cov(self_, 1, None, None)?;
    if c.dim() == 0 {
        // one variable: 1, or NaN
        return ops::div(&c, &c)?.try_to(c.dtype());
    }
    let d = ops::diagonal(&c, 0, 0, 1)?;
    let std = ops::sqrt(&if d.is_complex() { ops::real(&d)? } else { d })?;
    let r = ops::div(&ops::div(&c, &ops::reshape(&std, &[-1, 1])?)?, &ops::reshape(&std, &[1, -1])?)?;
    let clip = |t: &Tensor| ops::clamp(t, Some(Scalar::Int(-1)), Some(Scalar::Int(1)));
    if r.is_complex() {
        return ops::complex(&clip(&ops::real(&r)?)?, &clip(&ops::imag(&r)?)?);
    }
    clip(&r)
}
