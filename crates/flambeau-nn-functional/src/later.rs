//! Operators of the core that are not there yet.

use flambeau_core::{DType, Error, Result, Tensor};

pub(crate) fn log_softmax(_: &Tensor, _: i64, _: Option<DType>) -> Result<Tensor> {
    Err(Error::missing("log_softmax"))
}
pub(crate) fn mean(_: &Tensor, _: Option<&[i64]>, _: bool, _: Option<DType>) -> Result<Tensor> {
    Err(Error::missing("mean"))
}
pub(crate) fn softmax(_: &Tensor, _: i64, _: Option<DType>) -> Result<Tensor> {
    Err(Error::missing("softmax"))
}
