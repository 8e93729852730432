//! Rows of the table by index, and the sums that their gradients are.

use flambeau_cpu::indexing::IndexError;
use flambeau_cpu::indexing::erased::{embedding_backward, index_select};
use flambeau_cpu::reduction::Geo;
use flambeau_cpu::{Any, AnyMut};

/// `out[i] = x[idx[i]]` over rows of `width`.
pub fn rows(x: Any, n: usize, width: usize, idx: &[i64], out: AnyMut) -> Option<Result<(), IndexError>> {
    index_select(x, Geo::contiguous(1, n, width), idx, out)
}
/// The gradient of [`rows`]; rows at `padding` get none.
pub fn add_rows(
    grad: Any,
    width: usize,
    idx: &[i64],
    padding: i64,
    by_frequency: bool,
    out: AnyMut,
) -> Option<Result<(), IndexError>> {
    embedding_backward(grad, idx, width, usize::try_from(padding).ok(), by_frequency, out)
}
