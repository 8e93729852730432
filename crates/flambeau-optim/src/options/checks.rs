//! Checks of options, with PyTorch's texts.

use super::Moments;
use super::number_or_tensor::{Number, Pair};
use crate::optimizer::group::Entry;
use flambeau_core::text::PyText;
use flambeau_core::{Error, Result, ensure};

/// The learning rate.
pub(crate) fn lr(lr: &Number) -> Result<()> {
    lr.check("lr")?;
    not_negative(lr, "Invalid learning rate: ")
}
/// Any other number that must not be negative, under its name in PyTorch's text.
pub(crate) fn value(name: &str, v: &Number) -> Result<()> {
    not_negative(v, &format!("Invalid {name} value: "))
}
fn not_negative(v: &Number, what: &str) -> Result<()> {
    ensure!(v.value() >= 0.0, Value, "{what}{}", v.py_text());
    Ok(())
}
/// Decay rates.
pub(crate) fn betas(b: &Pair) -> Result<()> {
    for (i, b) in [&b.0, &b.1].into_iter().enumerate() {
        let text = b.py_text();
        ensure!((0.0..1.0).contains(&b.value()), Value, "Invalid beta parameter at index {i}: {text}");
    }
    Ok(())
}
impl Moments {
    pub fn check(&self) -> Result<()> {
        lr(&self.lr)?;
        value("epsilon", &self.eps)?;
        betas(&self.betas)?;
        value("weight_decay", &self.weight_decay)
    }
}

/// `capturable` is for graphs of accelerators; on the CPU PyTorch refuses it in the step.
pub(crate) fn not_capturable(on: bool, what: &str, xla: bool) -> Result<()> {
    let xla = if xla { ", 'xla'" } else { "" };
    ensure!(
        !on,
        Assertion,
        "If capturable=True, {what} must be on supported devices: ['cuda', 'xpu', 'hpu', 'privateuseone'{xla}]."
    );
    Ok(())
}
/// The multi-tensor form does not record.
pub(crate) fn not_both(foreach: Option<bool>, differentiable: bool) -> Result<()> {
    ensure!(!(foreach == Some(true) && differentiable), Assertion, "_foreach ops don't support autograd");
    Ok(())
}
/// What `fused=True` excludes.
pub(crate) fn fused_flags(fused: Option<bool>, foreach: Option<bool>, differentiable: bool) -> Result<()> {
    if fused == Some(true) {
        ensure!(!differentiable, Runtime, "`fused` does not support `differentiable`");
        ensure!(foreach != Some(true), Runtime, "`fused` and `foreach` cannot be `True` together.");
    }
    Ok(())
}
/// `fused=True` is for floating parameters.
pub(crate) fn fused_params(fused: Option<bool>, entries: &[Entry<'_>]) -> Result<()> {
    match entries.iter().find(|e| fused == Some(true) && !e.param.dtype().is_floating()) {
        Some(e) => Err(Error::runtime(format!(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: ['mps', 'cuda', \
             'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but {} and {}",
            e.param.dtype(),
            e.param.device()
        ))),
        None => Ok(()),
    }
}
