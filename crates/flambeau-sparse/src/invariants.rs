//! What holds for the indices of compressed layouts, with PyTorch's texts: `check_invariants=True`.

use crate::compressed::{by_rows, in_blocks};
use crate::coo::{cast, product};
use flambeau_core::{DType, Layout, Result, Tensor, ensure};

/// How error texts call the parts of a layout.
struct Names {
    compressed: &'static str,
    plain: &'static str,
    /// What is counted by lines, and across them.
    lines: &'static str,
    across: &'static str,
}
fn names(layout: Layout) -> Names {
    if by_rows(layout) {
        Names { compressed: "crow_indices", plain: "col_indices", lines: "rows", across: "cols" }
    } else {
        Names { compressed: "ccol_indices", plain: "row_indices", lines: "cols", across: "rows" }
    }
}

/// Checks parts against each other, against the size, and the indices.
///
/// # Errors
/// The first invariant that does not hold.
pub(crate) fn check(
    compressed: &Tensor,
    plain: &Tensor,
    values: &Tensor,
    size: &[i64],
    layout: Layout,
) -> Result<()> {
    let n = names(layout);
    let (cn, pn) = (n.compressed, n.plain);
    ensure!(
        compressed.dim() == plain.dim(),
        Runtime,
        "{cn} and {pn} dimensionalities must be equal but got {} and {}, respectively",
        compressed.dim(),
        plain.dim()
    );
    let batch = plain.dim() - 1;
    let block = if in_blocks(layout) { 2 } else { 0 };
    ensure!(
        values.dim() > batch + block,
        Runtime,
        "values must have dimensionality > sum of batch and block dimensionalities (={batch} + {block}) but got {}",
        values.dim()
    );
    let dense = values.dim() - batch - block - 1;
    ensure!(
        size.len() == batch + 2 + dense,
        Runtime,
        "tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch} + 2 + {dense}) but got {}",
        size.len()
    );
    let blocks = match in_blocks(layout) {
        true => [values.sizes()[batch + 1], values.sizes()[batch + 2]],
        false => [1, 1],
    };
    for (i, b) in blocks.iter().enumerate() {
        let at = size[batch + i];
        ensure!(
            *b > 0 && at % b == 0,
            Runtime,
            "tensor shape[{}] (={at}) must be divisible with blocksize[{i}] (={b}) as defined by values shape",
            batch + i
        );
    }
    let (rows, columns) = (size[batch] / blocks[0], size[batch + 1] / blocks[1]);
    let (lines, across) = if by_rows(layout) { (rows, columns) } else { (columns, rows) };
    let counted = if n.lines == "rows" { "rows" } else { "columns" };
    let last = |t: &Tensor| t.sizes().last().copied().unwrap_or(0);
    ensure!(
        last(compressed) == lines.saturating_add(1),
        Runtime,
        "{cn}.shape[-1] must be equal to the number of {counted} + 1 (={}), but got {}",
        lines.saturating_add(1),
        last(compressed)
    );
    let nnz = values.sizes()[batch];
    ensure!(
        last(plain) == nnz,
        Runtime,
        "{pn}.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[{batch}], but got {}",
        last(plain)
    );
    ensure!(
        compressed.dtype() == plain.dtype(),
        Runtime,
        "{cn} and {pn} must have the same dtype, bot got {} and {}, respectively",
        compressed.dtype().scalar_type_name(),
        plain.dtype().scalar_type_name()
    );
    ensure!(
        matches!(compressed.dtype(), DType::I32 | DType::I64),
        Runtime,
        "{cn} and {pn} dtype must be Int or Long, but got {}",
        compressed.dtype().scalar_type_name()
    );
    let batches = product(&size[..batch])?;
    let of = |t: &Tensor| cast(t, DType::I64)?.try_to_vec::<i64>();
    let (starts, places) = (of(compressed)?, of(plain)?);
    // sizes of the parts that do not agree are found when the tensor is made
    if starts.len() as i64 != batches.saturating_mul(lines + 1)
        || places.len() as i64 != batches.saturating_mul(nnz)
    {
        return Ok(());
    }
    for b in 0..batches as usize {
        let starts = &starts[b * (lines as usize + 1)..][..lines as usize + 1];
        let places = &places[b * nnz as usize..][..nnz as usize];
        ensure!(starts[0] == 0, Runtime, "`{cn}[..., 0] == 0` is not satisfied.");
        ensure!(starts[lines as usize] == nnz, Runtime, "`{cn}[..., -1] == nnz` is not satisfied.");
        ensure!(
            places.iter().all(|p| (0..across).contains(p)),
            Runtime,
            "`0 <= {pn} < n{}` is not satisfied.",
            n.across
        );
        for w in starts.windows(2) {
            let inside = |i: i64| usize::try_from(i).ok().filter(|i| *i <= places.len());
            let line = inside(w[0]).zip(inside(w[1])).and_then(|(a, b)| places.get(a..b));
            let sorted = line.is_some_and(|l| l.windows(2).all(|p| p[0] < p[1]));
            ensure!(
                sorted || (w[0]..=w[0].saturating_add(across)).contains(&w[1]),
                Runtime,
                "`0 <= {cn}[..., 1:] - {cn}[..., :-1] <= n{}` is not satisfied.",
                n.across
            );
            ensure!(
                sorted,
                Runtime,
                "`{pn}[..., {cn}[..., i - 1]:{cn}[..., i]] for all i = 1, ..., n{} are sorted and distinct along the last \
                 dimension values` is not satisfied.",
                n.lines
            );
        }
    }
    Ok(())
}
