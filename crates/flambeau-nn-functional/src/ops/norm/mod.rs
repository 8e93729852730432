//! Normalisation: batch, instance, layer, RMS, group.

mod batch;
mod forms;
mod group;
mod instance;
pub(crate) mod local_response;
mod rows;

pub use batch::*;
pub use forms::*;
pub use group::*;
pub use instance::*;
pub use local_response::{group_norm, local_response_norm, native_group_norm, rms_norm};
pub use rows::*;

use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::{DType, Error, Result, Tensor, ensure};
use flambeau_cpu::norm::batch::NormShape;
use flambeau_cpu::{Any, AnyMut};
use smallvec::SmallVec;

/// Tensors under one hold, optional ones among them, by the order in which they were added.
#[derive(Default)]
pub(super) struct Operands<'a> {
    ins: SmallVec<[&'a Tensor; 8]>,
    outs: SmallVec<[&'a Tensor; 6]>,
}
impl<'a> Operands<'a> {
    pub(super) fn read(&mut self, t: &'a Tensor) -> usize {
        self.ins.push(t);
        self.ins.len() - 1
    }
    pub(super) fn read_opt(&mut self, t: &'a Option<Tensor>) -> Option<usize> {
        t.as_ref().map(|t| self.read(t))
    }
    pub(super) fn write(&mut self, t: &'a Tensor) -> usize {
        self.outs.push(t);
        self.outs.len() - 1
    }
    pub(super) fn write_opt(&mut self, t: &'a Option<Tensor>) -> Option<usize> {
        t.as_ref().map(|t| self.write(t))
    }
    pub(super) fn hold(&self) -> Result<Access<'a>> {
        Access::new(&self.ins, &self.outs)
    }
}
pub(super) fn opt<'b>(a: &'b Access<'_>, i: Option<usize>) -> Result<Option<Any<'b>>> {
    i.map(|i| a.any(i)).transpose()
}
pub(super) fn opt_mut<'b>(a: &'b Access<'_>, i: Option<usize>) -> Result<Option<AnyMut<'b>>> {
    i.map(|i| a.any_mut(i)).transpose()
}

/// An output like `t` in sizes, dtype and device, contiguous.
pub(super) fn like(t: &Tensor) -> OutMeta {
    OutMeta::of(t.sizes(), t.dtype(), t.device())
}
pub(super) fn mask_len(mask: &[bool], n: usize) -> Result<()> {
    ensure!(mask.len() == n, Runtime, "output_mask must have {n} entries, got {}", mask.len());
    Ok(())
}

/// `[N, C, *]` as batch, channels, positions.
pub(super) fn channels(x: &[i64]) -> NormShape {
    let l: i64 = x[2..].iter().product();
    NormShape { n: x[0] as usize, c: x[1] as usize, l: l as usize }
}
pub(super) fn check_channels(input: &Tensor, others: &[(Option<&Tensor>, &str)]) -> Result<i64> {
    ensure!(
        input.dim() >= 2,
        Index,
        "Dimension out of range (expected to be in range of [{}, {}], but got 1)",
        -(input.dim().max(1) as i64),
        input.dim().max(1) as i64 - 1
    );
    let c = input.sizes()[1];
    for (t, name) in others {
        if let Some(t) = t {
            ensure!(t.numel() == c, Runtime, "{name} should contain {c} elements not {}", t.numel());
        }
    }
    Ok(c)
}
pub(super) fn check_float(t: &Tensor, label: &str) -> Result<()> {
    if !t.dtype().is_floating() {
        return Err(Error::not_implemented_for(label, t.dtype()));
    }
    Ok(())
}
/// Dtype of statistics: that of the parameters, the input's where there are none.
pub(super) fn stat_dtype(input: &Tensor, given: Option<&Tensor>) -> DType {
    given.map_or(input.dtype(), Tensor::dtype)
}
