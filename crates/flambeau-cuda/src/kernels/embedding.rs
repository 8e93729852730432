//! Rows of a table by index, and their gradients.

use super::dense::{address_of, dense, named, quotient, text, up};
use super::reduction::sum_type;
use super::{Args, Which, address, element, launch, opaque, shape};
use crate::device::ordinal;
use crate::fault;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};
use flambeau_nn_functional::generated::{args, embedding as rows};

const FILE: &str = "embedding/rows.cuh";
const OUT_OF_RANGE: &str = "index out of range in self";

fn lookup(a: &args::EmbeddingLookup, out: &Tensor) -> Result<()> {
    let (w, index) = (dense(a.weight)?, dense(a.indices)?);
    ensure!(
        w.sizes()[0] > 0 || index.numel() == 0,
        Runtime,
        "index_select(): self indexing axis dim should be positive"
    );
    if out.numel() == 0 {
        return Ok(());
    }
    let bytes = w.sizes()[1] * w.dtype().size() as i64;
    let places = [address(out)?, address(&w)?];
    let fits = |n: &i64| bytes % n == 0 && places.iter().all(|a| a % *n as u64 == 0);
    let piece = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1);
    let d = ordinal(out.device())?;
    let list = Args::new().word(places[0]).word(places[1]).word(address(&index)?);
    let list = list.int(index.numel()).int(bytes / piece).int(w.sizes()[0]).word(quotient(bytes / piece));
    let list = list.word(fault::place(d)?).word(fault::number(OUT_OF_RANGE));
    let (t, i) = (opaque(piece as usize), if index.dtype() == DType::I32 { "i32" } else { "i64" });
    let which = Which("lookup", 0, [piece as u8, index.dtype() as u8, 0, 0]);
    launch(
        d,
        which,
        || text(FILE, &format!("LOOKUP(k, {t}, {i})")),
        shape(index.numel() * bytes / piece),
        list,
    )
}
fn add_rows(a: &args::EmbeddingDenseBackward, out: &Tensor) -> Result<()> {
    let d = a.grad_output.dtype();
    if !d.is_floating() && !d.is_complex() {
        return Err(Error::not_implemented_for("embedding_backward", d));
    }
    ops::zero_(out)?;
    let g = dense(a.grad_output)?;
    if g.numel() == 0 {
        return Ok(());
    }
    let index = ops::view(&super::dense::cast(a.indices, DType::I64)?, &[-1])?;
    add_sorted(&index, &g, out, [out.sizes()[1], a.padding_idx], a.scale_grad_by_freq)
}
/// The rows of `g`, of `width` elements, are added to those of `out` that the indices name, in their order, so that sums are the
/// same each time; those at `padding` are left out.
///
/// # Errors
/// A dtype without sums; of the launch.
pub(super) fn add_sorted(
    index: &Tensor,
    g: &Tensor,
    out: &Tensor,
    [width, padding]: [i64; 2],
    by_frequency: bool,
) -> Result<()> {
    let d = g.dtype();
    let (Some(own), Some((sum, wide))) = (element(d), sum_type(d)) else {
        return Err(Error::not_implemented_for("embedding_backward", d));
    };
    let (keys, from) = ops::sort_stable(index, Some(true), 0, false)?;
    let (keys, from) = (dense(&keys)?, dense(&from)?);
    let (n, chunks) = (index.numel(), up(index.numel(), 32));
    let partial =
        (chunks > 1).then(|| Tensor::empty_raw(&[chunks, 2, width], wide, out.device())).transpose()?;
    let device = ordinal(out.device())?;
    let list = || -> Result<Args> {
        let list =
            Args::new().word(address(out)?).word(address(g)?).word(address(&keys)?).word(address(&from)?);
        let list = list.word(address_of(partial.as_ref())?).int(n).int(width).int(out.numel() / width.max(1));
        let list = list.int(padding).int(by_frequency.into());
        Ok(list.word(fault::place(device)?).word(fault::number(OUT_OF_RANGE)))
    };
    let text = |name: &str| named(FILE, &format!("SCATTER_ROWS(k, {own}, {sum})"), name);
    let which = |second: u8| Which("scatter_rows", 0, [d as u8, second, 0, 0]);
    launch(device, which(0), || text("k"), shape(chunks * width), list()?)?;
    if chunks > 1 {
        launch(device, which(1), || text("k_shared"), shape((chunks - 1) * width), list()?)?;
    }
    Ok(())
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::EMBEDDING_LOOKUP_KERNEL.register(Key::Cuda, lookup);
    rows::EMBEDDING_DENSE_BACKWARD_KERNEL.register(Key::Cuda, add_rows);
}
