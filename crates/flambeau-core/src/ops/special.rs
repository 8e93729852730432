//! Special functions: plans where an argument decides, and what is made of others.

use super::arithmetic::specs;
use crate::backend::planned::Planned;
use crate::iter::spec::Label;
use crate::iter::{PointwiseSpec, Promote, Rare};
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{ensure, ops};
use flambeau_cpu::pointwise as k;

specs! {
    LOGIT = "logit" Label::plain("logit_cpu"), LOGIT IntToFloat UNSIGNED;
    DIGAMMA = "polygamma" Label::plain("digamma"), DIGAMMA IntToFloat UNSIGNED;
    TRIGAMMA = "polygamma" Label::plain("trigamma"), POLYGAMMA IntToFloat UNSIGNED;
    POLYGAMMA = "polygamma" Label::plain("polygamma"), POLYGAMMA IntToFloat UNSIGNED;
}

/// `logit`: no bound is a negative one to the formula.
pub fn logit_plan(self_: &Tensor, eps: Option<f64>) -> Result<Planned<'_>> {
    Ok(Planned::new(&LOGIT, &[self_]).param(eps.unwrap_or(-1.0)))
}
/// `polygamma`
pub fn polygamma_plan(n: i64, self_: &Tensor) -> Result<Planned<'_>> {
    ensure!(n >= 0, Runtime, "polygamma(n, x) does not support negative n.");
    Ok(match n {
        0 => Planned::new(&DIGAMMA, &[self_]),
        // everything but float64 is float32 at the poles
        1 if self_.dtype() == crate::DType::F64 => Planned::new(&TRIGAMMA, &[self_]).param(1),
        1 => Planned::new(&TRIGAMMA, &[self_]).param(-1),
        _ => Planned::new(&POLYGAMMA, &[self_]).param(n),
    })
}

/// `mvlgamma`: the sum of `lgamma(x - i / 2)` for i below p, and a constant.
pub fn mvlgamma(self_: &Tensor, p: i64) -> Result<Tensor> {
    ensure!(p >= 1, Runtime, "p has to be greater than or equal to 1");
    let one = Scalar::Int(1);
    let pi_part = p as f64 * (p - 1) as f64 / 4.0 * std::f64::consts::PI.ln();
    // all terms in one dimension more, as PyTorch has them: a p beyond the memory is an error and no endless loop
    if self_.is_complex() {
        // PyTorch starts with a range in the input's dtype
        return Err(crate::Error::not_implemented_for("arange_cpu", self_.dtype()));
    }
    ensure!(self_.dtype() != crate::DType::Bool, Runtime, "The input tensor may not be a boolean tensor.");
    let dtype =
        if self_.dtype().is_floating() { self_.dtype() } else { crate::iter::promotion::default_dtype() };
    let (from, half) = (Scalar::Float(0.5 - p as f64 / 2.0), Scalar::Float(0.5));
    let shifts = ops::arange_step(from, half, half, Some(dtype), None, Some(self_.device()), None)?;
    let terms = ops::lgamma(&ops::add(&ops::unsqueeze(self_, -1)?, &shifts, one)?)?;
    let sum = ops::sum(&terms, Some(&[-1]), false, None)?;
    ops::add(&sum, &crate::tensor::wrapped_number::wrapped_number(Scalar::Float(pi_part))?, one)
}

/// `mvlgamma_` computes nothing for integers, after the checks of all forms.
pub fn mvlgamma_inplace_check(self_: &Tensor, p: i64) -> Result<()> {
    let d = self_.dtype();
    ensure!(
        p < 1 || !d.is_integral(false),
        Runtime,
        "mvlgamma: result type {} can't be cast to the desired output type {}",
        d.scalar_type_name(),
        crate::iter::promotion::default_dtype().scalar_type_name()
    );
    Ok(())
}

/// Degrees up to which the recurrences of Laguerre and Legendre polynomials are followed: they take as many steps.
const MAX_DEGREE: f64 = 16_777_216.0;
/// PyTorch runs a recurrence as long as the degree says, for years if need be; here that is an error.
pub fn degree_check(_x: &Tensor, n: &Tensor) -> Result<()> {
    if n.device() != crate::Device::Cpu || n.numel() == 0 || n.dtype() == crate::DType::Bool || n.is_complex()
    {
        return Ok(());
    }
    // a NaN among the degrees hides none of the others
    let n = ops::nan_to_num(&ops::detach(n)?, Some(0.0), None, None)?;
    // no integer holds these: they count as negative
    let vast = ops::ge(&n, &crate::tensor::wrapped_number::wrapped_number(Scalar::Float(9.2e18))?)?;
    let n = ops::masked_fill(&n, &vast, Scalar::Int(0))?;
    let top: f64 = ops::amax(&n, &[], false)?.try_item()?;
    ensure!(top <= MAX_DEGREE, Missing, "polynomials of a degree above {MAX_DEGREE}");
    Ok(())
}
