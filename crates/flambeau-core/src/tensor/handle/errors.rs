//! What is said of geometries that do not fit.

use crate::DType;
use crate::tensor::geometry;
use crate::tensor::storage::Storage;
use crate::types::error::Error;

#[cold]
pub(super) fn lengths_differ() -> Error {
    Error::shape("mismatch in length of strides and shape")
}
#[cold]
pub(super) fn span_overflows(sizes: &[i64], strides: &[i64]) -> Error {
    Error::memory(format!(
        "Storage size calculation overflowed with sizes={} and strides={}",
        geometry::fmt_sizes(sizes),
        geometry::fmt_sizes(strides)
    ))
}
#[cold]
pub(super) fn out_of_bounds(
    s: &Storage,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
    dtype: DType,
    need: i128,
) -> Error {
    let (n, st) = (geometry::fmt_sizes(sizes), geometry::fmt_sizes(strides));
    if sizes.len() != strides.len() {
        return lengths_differ();
    }
    if offset < 0 {
        return Error::storage(format!("Tensor: invalid storage offset {offset}"));
    }
    if strides.iter().any(|s| *s < 0) {
        return Error::shape(format!(
            "as_strided: Negative strides are not supported at the moment, got strides: {st}"
        ));
    }
    // PyTorch takes a negative size for a huge one
    if need > i64::MAX as i128 || sizes.iter().any(|s| *s < 0) {
        return span_overflows(sizes, strides);
    }
    Error::storage(format!(
        "setStorage: sizes {n}, strides {st}, storage offset {offset}, and itemsize {} requiring a storage size of {need} \
         are out of bounds for storage of size {}",
        dtype.size(),
        s.nbytes()
    ))
}
