//! Pointwise calls whose formula, dtype or operands follow from their arguments: rows with `plan`.

use super::pointwise;
use crate::DType;
use crate::dispatch::op::Kernels;
use crate::iter::PointwiseSpec;
use crate::iter::spec::PointwiseKernel;
use crate::tensor::geometry::has_internal_overlap;
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
    kernels: &'static Kernels<PointwiseKernel>,
    overlapping: Option<Overlapping>,
}

/// What the in-place form does where elements of its tensor share memory: inputs, and the tensor.
pub type Overlapping = fn(&[&Tensor], &Tensor) -> Result<()>;

impl<'a> Planned<'a> {
    /// The operator on these inputs, in the dtype of its own promotion rule.
    pub fn new(spec: &'static PointwiseSpec, inputs: &[&'a Tensor]) -> Self {
        Planned {
            spec,
            compute: None,
            rule: None,
            inputs: inputs.iter().map(|t| Cow::Borrowed(*t)).collect(),
            params: SmallVec::new(),
            kernels: &spec.kernels,
            overlapping: None,
        }
    }
    /// With a further input that the plan made itself.
    pub fn owned(mut self, t: Tensor) -> Self {
        self.inputs.push(Cow::Owned(t));
        self
    }
    /// With a further input.
    pub fn input(mut self, t: &'a Tensor) -> Self {
        self.inputs.push(Cow::Borrowed(t));
        self
    }
    /// With a meaning in place where elements share memory, which is an error otherwise.
    pub fn overlapping(mut self, f: Overlapping) -> Self {
        self.overlapping = Some(f);
        self
    }
    /// With these kernels for devices that are not built in.
    pub fn on(mut self, kernels: &'static Kernels<PointwiseKernel>) -> Self {
        self.kernels = kernels;
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
        self.with(|inputs| {
            if self.compute.is_none()
                && let Some(t) = match (inputs, &*self.params) {
                    // the numbers that have a short way
                    (&[a], []) => pointwise::small_fresh(self.spec, &[a], &[])?,
                    (&[a], &[p]) => pointwise::small_fresh(self.spec, &[a], &[p])?,
                    (&[a, b], []) => pointwise::small_fresh(self.spec, &[a, b], &[])?,
                    (&[a, b], &[p]) => pointwise::small_fresh(self.spec, &[a, b], &[p])?,
                    (&[a, b, c], []) => pointwise::small_fresh(self.spec, &[a, b, c], &[])?,
                    _ => None,
                }
            {
                return Ok(t);
            }
            pointwise::planned(self.spec, self.kernels, self.compute, inputs, &self.params)
        })
    }
    /// Into `self_`, whether it is among the inputs or not.
    ///
    /// # Errors
    /// As [`pointwise::pointwise_inplace`].
    pub fn run_inplace(&self, self_: &Tensor) -> Result<()> {
        self.with(|inputs| {
            if let Some(f) = self.overlapping
                && has_internal_overlap(self_.sizes(), self_.strides())
            {
                return f(inputs, self_);
            }
            pointwise::planned_into(self.spec, self.kernels, self.compute, inputs, &self.params, self_)
        })
    }
    /// Into `out`, which is resized to fit.
    ///
    /// # Errors
    /// As [`pointwise::pointwise_out`].
    pub fn run_out(&self, rule: &OutDtype, out: &mut Tensor) -> Result<()> {
        let rule = self.rule.as_ref().unwrap_or(rule);
        self.with(|inputs| {
            pointwise::planned_out(self.spec, self.kernels, rule, self.compute, inputs, &self.params, out)
        })
    }
}
