//! What the list forms `_foreach_*` ask of their arguments. Their bodies are generated: a call of the base row per tensor.

use crate::backend::lists;
use crate::ensure;
use crate::ops;
use crate::tensor::handle::Tensor;
use crate::types::call::Call;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;

pub use crate::tensor::wrapped_number::wrapped_number as number;

/// A list to go over has tensors.
pub fn some(list: &[Tensor], text: Option<&str>) -> Result<()> {
    ensure!(!list.is_empty(), Runtime, "{}", text.unwrap_or("Tensor list must have at least one tensor."));
    Ok(())
}

/// Makes the calls of a list form, one for each place of the list; the first tensor's back end may put their work together.
pub fn each(list: &[Tensor], call: &mut dyn Call<usize, Result<Tensor>>) -> Result<Vec<Tensor>> {
    let mut results = Vec::with_capacity(list.len());
    each_(list, &mut |i: usize| -> Result<()> {
        results.push(call.call(i)?);
        Ok(())
    })?;
    Ok(results)
}
/// [`each`] of a form that writes to the list's tensors.
pub fn each_(list: &[Tensor], call: &mut dyn Call<usize, Result<()>>) -> Result<()> {
    let (mut begun, mut made) = (false, false);
    let mut calls = || {
        // once, however often the back end calls
        if !std::mem::replace(&mut begun, true) {
            for i in 0..list.len() {
                call.call(i)?;
            }
            made = true;
        }
        Ok(())
    };
    let Some(lists) = list.first().and_then(|t| lists::of(t.device())) else { return calls() };
    lists.together(&mut calls)?;
    ensure!(made, Runtime, "the calls of a list form were not made");
    Ok(())
}

/// All tensors of the list have elements.
pub fn with_elements(list: &[Tensor], text: &str) -> Result<()> {
    ensure!(list.iter().all(|t| t.numel() > 0), Runtime, "{text}");
    Ok(())
}

/// Lists that are gone over together are equally long.
pub fn same_lengths(a: &[Tensor], b: &[Tensor], text: Option<&str>) -> Result<()> {
    if a.len() == b.len() {
        return Ok(());
    }
    Err(Error::runtime(match text {
        Some(text) => text.to_owned(),
        None => format!("Tensor lists must have the same number of tensors, got {} and {}", a.len(), b.len()),
    }))
}

/// There is a number for each tensor.
pub fn as_many_numbers(list: &[Tensor], numbers: usize) -> Result<()> {
    ensure!(list.len() == numbers, Runtime, "Tensor list must have same number of elements as scalar list.");
    Ok(())
}

/// A tensor that stands for one number.
pub fn one_number(t: &Tensor) -> Result<()> {
    ensure!(
        t.dim() == 0 && t.numel() == 1,
        Runtime,
        "scalar tensor expected to be 0 dim but it has {} dimensions and {} elements.",
        t.dim(),
        t.numel()
    );
    Ok(())
}

/// A tensor that holds a number for each tensor of the list.
pub fn unpacked(list: &[Tensor], t: &Tensor) -> Result<Vec<Scalar>> {
    ensure!(
        t.dim() == 1,
        Runtime,
        "Expected packed scalar Tensor to be of dimension 1. Got {} instead.",
        t.dim()
    );
    ensure!(t.is_contiguous(), Runtime, "Expected scalars to be contiguous.");
    ensure!(
        t.numel() == list.len() as i64,
        Runtime,
        "Expected length of scalars to match input of length {} but got {} instead.",
        list.len(),
        t.numel()
    );
    (0..t.numel()).map(|i| ops::select(t, 0, i)?.try_item::<Scalar>()).collect()
}
