//! What the list forms `_foreach_*` ask of their arguments. Their bodies are generated: a call of the base row per tensor.

use crate::ensure;
use crate::ops;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::scalar::Scalar;

pub use crate::tensor::number::wrapped_number as number;

/// A list to go over has tensors, with whatever the operator `name` asks of each.
pub fn some(name: &str, list: &[Tensor]) -> Result<()> {
    match name {
        "_foreach_mm" => ensure!(!list.is_empty(), Runtime, "_foreach_mm requires non-empty tensor lists"),
        _ => ensure!(!list.is_empty(), Runtime, "Tensor list must have at least one tensor."),
    }
    if name == "_foreach_max" {
        ensure!(
            list.iter().all(|t| t.numel() > 0),
            Runtime,
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
        );
    }
    Ok(())
}

/// Lists that are gone over together are equally long.
pub fn same_lengths(name: &str, a: &[Tensor], b: &[Tensor]) -> Result<()> {
    match name {
        "_foreach_mm" => {
            ensure!(
                a.len() == b.len(),
                Runtime,
                "_foreach_mm: self and mat2 must have the same number of tensors"
            )
        }
        _ => ensure!(
            a.len() == b.len(),
            Runtime,
            "Tensor lists must have the same number of tensors, got {} and {}",
            a.len(),
            b.len()
        ),
    }
    Ok(())
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
