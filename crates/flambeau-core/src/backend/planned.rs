//! Pointwise calls whose formula, dtype or operands follow from their arguments: rows with `plan`.

use super::pointwise;
use crate::DType;
use crate::iter::PointwiseSpec;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::types::schema::OutDtype;
use flambeau_cpu::pointwise::Param;
use smallvec::SmallVec;
use std::borrow::Cow;

/// A pointwise call that is ready to run, whichever form of the operator asked for it.
pub struct Planned<'a> {
    spec: &'static PointwiseSpec,
    compute: Option<DType>,
    rule: Option<OutDtype>,
    inputs: SmallVec<[Cow<'a, Tensor>; 3]>,
    params: SmallVec<[Param; 3]>,
}

impl<'a> Planned<'a> {
    /// The operator on these inputs, in the dtype of its own promotion rule.
    pub fn new(spec: &'static PointwiseSpec, inputs: &[&'a Tensor]) -> Self {
        Planned {
            spec,
            compute: None,
            rule: None,
            inputs: inputs.iter().map(|t| Cow::Borrowed(*t)).collect(),
            params: SmallVec::new(),
        }
    }
    /// With a further input that the plan made itself.
    pub fn owned(mut self, t: Tensor) -> Self {
        self.inputs.push(Cow::Owned(t));
        self
    }
    /// With one more scalar argument.
    pub fn param(mut self, s: impl Into<Scalar>) -> Self {
        self.params.push(s.into().param());
        self
    }
    /// With another rule for the dtype of `out=` than the row's.
    pub fn out_dtype(mut self, rule: OutDtype) -> Self {
        self.rule = Some(rule);
        self
    }
    /// In this dtype.
    pub fn compute(mut self, d: DType) -> Self {
        self.compute = Some(d);
        self
    }
    fn with<R>(&self, f: impl FnOnce(&[&Tensor]) -> R) -> R {
        let inputs: SmallVec<[&Tensor; 3]> = self.inputs.iter().map(|t| &**t).collect();
        f(&inputs)
    }
    /// Into a fresh tensor.
    ///
    /// # Errors
    /// As [`pointwise::pointwise`].
    pub fn run(&self) -> Result<Tensor> {
        self.with(|inputs| match self.compute {
            None => match (inputs, &*self.params) {
                // the numbers that have a short way
                (&[a], []) => pointwise::pointwise(self.spec, &[a], &[]),
                (&[a], &[p]) => pointwise::pointwise(self.spec, &[a], &[p]),
                (&[a, b], []) => pointwise::pointwise(self.spec, &[a, b], &[]),
                (&[a, b], &[p]) => pointwise::pointwise(self.spec, &[a, b], &[p]),
                _ => pointwise::pointwise_typed(self.spec, None, inputs, &self.params),
            },
            d => pointwise::pointwise_typed(self.spec, d, inputs, &self.params),
        })
    }
    /// Into `self_`, whether it is among the inputs or not.
    ///
    /// # Errors
    /// As [`pointwise::pointwise_inplace`].
    pub fn run_inplace(&self, self_: &Tensor) -> Result<()> {
        self.with(|inputs| pointwise::pointwise_into(self.spec, self.compute, inputs, &self.params, self_))
    }
    /// Into `out`, which is resized to fit.
    ///
    /// # Errors
    /// As [`pointwise::pointwise_out`].
    pub fn run_out(&self, rule: &OutDtype, out: &mut Tensor) -> Result<()> {
        self.with(|inputs| {
            pointwise::pointwise_out_typed(
                self.spec,
                self.rule.as_ref().unwrap_or(rule),
                self.compute,
                inputs,
                &self.params,
                out,
            )
        })
    }
}
