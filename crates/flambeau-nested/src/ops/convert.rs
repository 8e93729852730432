//! Between nested and ordinary tensors.

use crate::structure::{Jagged, Nested, Strided, of};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Scalar, Tensor, bail, ensure, ops as core};
use flambeau_nn_functional::ops::constant_pad_nd;

/// `to_padded_tensor`
pub(crate) fn to_padded_tensor(t: &Tensor, padding: f64, output_size: Option<&[i64]>) -> Result<Tensor> {
    match of(t) {
        Some(Nested::Strided(s)) => strided(s, padding, output_size),
        Some(Nested::Jagged(j)) => {
            if let Some(size) = output_size {
                ensure!(size.len() > j.ragged, Index, "tuple index out of range");
            }
            jagged(j, padding, output_size.map(|s| s[j.ragged]))
        }
        None => Err(Error::unsupported(
            "Could not run 'aten::to_padded_tensor' with arguments from the 'CPU' backend.",
        )),
    }
}
/// The component with elements behind its own in some dimensions; negative numbers cut elements off.
fn pad(t: &Tensor, behind: &[i64], padding: f64) -> Result<Tensor> {
    if behind.iter().all(|n| *n == 0) {
        return Ok(t.clone());
    }
    let pairs: Vec<i64> = behind.iter().rev().flat_map(|n| [0, *n]).collect();
    if t.dtype() == flambeau_core::DType::Bool {
        return constant_pad_nd(t, &pairs, Scalar::Bool(padding != 0.0));
    }
    constant_pad_nd(
        t,
        &pairs,
        if t.dtype().is_integral(false) { Scalar::Int(padding as i64) } else { Scalar::Float(padding) },
    )
}
fn strided(s: &Strided, padding: f64, output_size: Option<&[i64]>) -> Result<Tensor> {
    ensure!(s.is_contiguous(), Runtime, "for now to_padded_tensor only supports contiguous nested tensor");
    let mut size = vec![s.parts.len() as i64];
    size.extend((0..s.rank).map(|d| s.parts.iter().map(|p| p.sizes[d]).max().unwrap_or(0)));
    if let Some(wanted) = output_size {
        ensure!(
            wanted.len() == size.len(),
            Runtime,
            "Length of output_size does not match NestedTensor dims. Broadcasting is not supported."
        );
        ensure!(
            wanted.iter().zip(&size).all(|(w, n)| w >= n),
            Runtime,
            "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
        );
        size = wanted.to_vec();
    }
    let mut all = Vec::with_capacity(s.parts.len());
    for t in s.components()? {
        let behind: Vec<i64> = t.sizes().iter().zip(&size[1..]).map(|(n, w)| w - n).collect();
        all.push(pad(&t, &behind, padding)?);
    }
    while (all.len() as i64) < size[0] {
        // more rows than components are padding alone
        let value = Scalar::Float(padding);
        all.push(core::full(&size[1..], value, Some(s.buffer.dtype()), None, Some(s.buffer.device()), None)?);
    }
    if all.is_empty() {
        return Tensor::empty_raw(&size, s.buffer.dtype(), s.buffer.device());
    }
    core::stack(&all, 0)
}
/// Components of `length` rows each (by default the longest known, or as many as there are rows at all).
pub(crate) fn jagged(j: &Jagged, padding: f64, length: Option<i64>) -> Result<Tensor> {
    ensure!(j.lengths.is_none(), Runtime, "to_padded_tensor(): not supported for nested tensors with holes");
    let length = length.or(j.longest).unwrap_or(j.values.sizes()[0]);
    ensure!(length >= 0, Value, "Value in output_size must not be negative, but got {length}");
    let mut all = Vec::new();
    for t in j.components()? {
        let mut behind = vec![0; t.dim()];
        behind[j.ragged - 1] = length - t.sizes()[j.ragged - 1];
        all.push(pad(&t, &behind, padding)?);
    }
    if all.is_empty() {
        let mut size = j.sizes();
        size[j.ragged] = length;
        return Tensor::empty_raw(&size, j.values.dtype(), j.values.device());
    }
    core::stack(&all, 0)
}
/// The rows of an ordinary tensor that a jagged structure has: what undoes [`jagged`].
pub(crate) fn from_padded(t: &Tensor, like: &Jagged) -> Result<Tensor> {
    let dim = like.ragged as i64 - 1;
    let mut all = Vec::new();
    for (i, (_, length)) in like.bounds()?.iter().enumerate() {
        let row = core::select(t, 0, i as i64)?;
        all.push(core::narrow(&row, dim, 0, *length)?);
    }
    if all.is_empty() {
        bail!(Runtime, "a batch without components");
    }
    core::cat(&all, dim)
}
