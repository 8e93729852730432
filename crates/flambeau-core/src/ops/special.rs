//! Special functions: plans where an argument decides, and what is made of others.

use super::pointwise::specs;
use crate::error::Result;
use crate::iter::{PointwiseSpec, Promote};
use crate::planned::Planned;
use crate::scalar::Scalar;
use crate::tensor::Tensor;
use crate::{ensure, ops};
use flambeau_cpu::pointwise as k;

specs! {
    LOGIT = "logit" "logit_cpu" LOGIT IntToFloat;
    DIGAMMA = "polygamma" "digamma" DIGAMMA IntToFloat;
    TRIGAMMA = "polygamma" "trigamma" POLYGAMMA IntToFloat;
    POLYGAMMA = "polygamma" "polygamma" POLYGAMMA IntToFloat;
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
        1 => Planned::new(&TRIGAMMA, &[self_]).param(1),
        _ => Planned::new(&POLYGAMMA, &[self_]).param(n),
    })
}

/// `mvlgamma`: the sum of `lgamma(x - i / 2)` for i below p, and a constant.
pub fn mvlgamma(self_: &Tensor, p: i64) -> Result<Tensor> {
    ensure!(p >= 1, Runtime, "p has to be greater than or equal to 1");
    let one = Scalar::Int(1);
    let pi_part = (p * (p - 1)) as f64 / 4.0 * std::f64::consts::PI.ln();
    let mut sum = ops::lgamma(self_)?;
    for i in 1..p {
        let half = crate::ergonomic::wrapped_number(Scalar::Float(i as f64 / 2.0))?;
        sum = ops::add(&sum, &ops::lgamma(&ops::sub(self_, &half, one)?)?, one)?;
    }
    ops::add(&sum, &crate::ergonomic::wrapped_number(Scalar::Float(pi_part))?, one)
}
