//! Sums at places in the order of their sources: the same numbers from run to run.

use super::*;
use crate::kernels::sorting;
use flambeau_core::settings::determinism;

/// Whether sums of a dtype are made in order: sums of floats depend on it, and they are asked to be the same each time.
/// `always`: PyTorch makes them so in any case.
pub(super) fn in_order(d: DType, always: bool) -> bool {
    (d.is_floating() || d.is_complex()) && (always || determinism::are_deterministic_algorithms_enabled())
}
/// Adds elements of `from` to those at the places, in order.
///
/// # Errors
/// Of the launches.
pub(super) fn add_sorted(
    name: &'static str,
    sizes: &[i64],
    to: (&Tensor, &[i64]),
    from: (&Tensor, &[i64]),
    at: Places,
    alpha: Option<Scalar>,
) -> Result<bool> {
    let d = to.0.dtype();
    let (Some(own), Some(index)) = (element(d), index_type(at.index.dtype())) else { return Ok(false) };
    if sizes.contains(&0) {
        return Ok(true);
    }
    let device = device::ordinal(to.0.device())?;
    // dimensions that the index goes along are sorted; the others, of which each is by itself, are gone over
    let (along, others): (Vec<usize>, Vec<usize>) =
        (0..sizes.len()).partition(|d| sizes[*d] == 1 || at.steps[*d] != 0 || at.index.numel() == 1);
    let pick = |list: &[usize], s: &[i64]| list.iter().map(|d| s[*d]).collect::<Vec<i64>>();
    let both = |list: &[usize]| {
        let strides = [pick(list, to.1), pick(list, from.1)];
        Geometry::joined(&pick(list, sizes), &strides, vec![0, 0])
    };
    // places that differ by other dimensions than the index's are others
    let apart: Vec<usize> = along.iter().copied().filter(|d| to.1[*d] != 0 && sizes[*d] > 1).collect();
    if !apart.is_empty() {
        return apart_places(name, sizes, to, from, at, alpha);
    }
    let (Some(rows), Some(mut inner)) = (both(&along), both(&others)) else { return Ok(false) };
    inner.start = vec![address(to.0)?, address(from.0)?];
    let n = rows.n;
    let fresh = |d: DType| Tensor::empty_raw(&[n], d, to.0.device());
    let (keys, sorted, order) = (fresh(DType::I64)?, fresh(DType::I64)?, fresh(DType::I64)?);
    let sizes_along = pick(&along, sizes);
    let dense: Vec<i64> = {
        let mut st = vec![8; along.len()];
        for k in (1..along.len()).rev() {
            st[k - 1] = st[k] * sizes_along[k];
        }
        st
    };
    let strides = [dense, pick(&along, at.steps)];
    let start = vec![address(&keys)?, address(at.index)?];
    let Some(g) = Geometry::joined(&sizes_along, &strides, start) else { return Ok(false) };
    let list = Args::new().geometry(&g).int(at.size).int(1).int(at.dim).int(at.wraps.into());
    let list = list.word(fault::place(device)?).word(fault::number(name));
    let of_keys = || text("reduce", &format!("INDEX_KEYS(keys_k, {index})"), "keys_k");
    launch(device, Which("index_keys", 0, [u8::from(index == "i32"), 0, 0, 0]), of_keys, shape(n), list)?;
    // one bit more: faults are -1
    let bits = 64 - i64::from(at.size.leading_zeros());
    sorting::sort_rows(&keys, [n, n], false, Some(&sorted), Some(&order), Some(faulty(bits)))?;
    runs(device, own, d, (&rows, &inner), (&sorted, &order), at.stride, alpha)
}
/// Digits for keys of some bits: one more tells faults from others.
fn faulty(bits: i64) -> i64 {
    if bits % 8 == 0 { bits + 8 } else { bits }.min(64)
}
/// Sums of the runs of equal keys.
fn runs(
    device: usize,
    own: &str,
    d: DType,
    (rows, inner): (&Geometry, &Geometry),
    (sorted, order): (&Tensor, &Tensor),
    stride: i64,
    alpha: Option<Scalar>,
) -> Result<bool> {
    let n = rows.n * inner.n;
    // long runs of narrow rows are summed by pieces
    let pieces = match inner.n <= 32 && rows.n > 64 {
        true => Some(Tensor::empty_raw(&[n * 16], DType::U8, sorted.device())?),
        false => None,
    };
    let room = pieces.as_ref().map_or(Ok(0), address)?;
    let text = || text("reduce", &format!("ADD_RUNS(runs_k, {own})"), "runs_k");
    for step in if pieces.is_some() { &[1, 2][..] } else { &[0] } {
        let list = Args::new().geometry(rows).geometry(inner);
        let list = list.word(address(sorted)?).word(address(order)?).int(stride);
        let list = super::super::scalar(list, alpha).int(alpha.is_some().into()).word(room).int(*step);
        launch(device, Which("add_runs", 0, [d as u8, 0, 0, 0]), text, shape(n), list)?;
    }
    Ok(true)
}
/// The same where each element has a place of its own: by the offsets of all of them.
fn apart_places(
    name: &'static str,
    sizes: &[i64],
    to: (&Tensor, &[i64]),
    from: (&Tensor, &[i64]),
    at: Places,
    alpha: Option<Scalar>,
) -> Result<bool> {
    let size = to.0.dtype().size() as i64;
    let plain: Vec<i64> = {
        let mut st = vec![8; sizes.len()];
        for k in (1..sizes.len()).rev() {
            st[k - 1] = st[k] * sizes[k];
        }
        st
    };
    // offsets of what is along the other dimensions, in elements
    let mut places = ops::zeros(sizes, Some(DType::I64), None, Some(to.0.device()), None)?;
    for (d, s) in to.1.iter().enumerate().filter(|(_, s)| **s != 0) {
        let line = ops::arange(sizes[d].into(), Some(DType::I64), None, Some(to.0.device()), None)?;
        let mut shape = vec![1; sizes.len()];
        shape[d] = sizes[d];
        let line = ops::mul(
            &ops::view(&line, &shape)?,
            &flambeau_core::tensor::wrapped_number::wrapped_number((s / size).into())?,
        )?;
        places = ops::add(&places, &line, Scalar::Int(1))?;
    }
    let Some(index) = index_type(at.index.dtype()) else { return Ok(false) };
    let n: i64 = sizes.iter().product();
    let device = device::ordinal(to.0.device())?;
    let found = Tensor::empty_raw(sizes, DType::I64, to.0.device())?;
    let strides = [plain, at.steps.to_vec()];
    let Some(g) = Geometry::joined(sizes, &strides, vec![address(&found)?, address(at.index)?]) else {
        return Ok(false);
    };
    let list = Args::new().geometry(&g).int(at.size).int(1).int(at.dim).int(at.wraps.into());
    let list = list.word(fault::place(device)?).word(fault::number(name));
    let of_keys = || text("reduce", &format!("INDEX_KEYS(keys_k, {index})"), "keys_k");
    launch(device, Which("index_keys", 0, [u8::from(index == "i32"), 0, 0, 0]), of_keys, shape(n), list)?;
    let step = flambeau_core::tensor::wrapped_number::wrapped_number((at.stride / size).into())?;
    let keys = dense(&ops::add(&ops::mul(&found, &step)?, &places, Scalar::Int(1))?)?;
    let span: i64 = to.1.iter().zip(sizes).map(|(s, n)| s / size * (n - 1)).sum::<i64>()
        + at.stride / size * (at.size - 1)
        + 1;
    let bits = 64 - i64::from((span.max(1) * 2).leading_zeros());
    let (sorted, order) = (
        Tensor::empty_raw(&[n], DType::I64, to.0.device())?,
        Tensor::empty_raw(&[n], DType::I64, to.0.device())?,
    );
    let keys = ops::view(&keys, &[n])?;
    sorting::sort_rows(&keys, [n, n], false, Some(&sorted), Some(&order), Some(faulty(bits)))?;
    let strides = [vec![0; sizes.len()], from.1.to_vec()];
    let (Some(rows), Some(mut inner)) = (
        Geometry::joined(sizes, &strides, vec![0, 0]),
        Geometry::joined(&[], &[Vec::new(), Vec::new()], vec![0, 0]),
    ) else {
        return Ok(false);
    };
    inner.start = vec![address(to.0)?, address(from.0)?];
    let Some(own) = element(to.0.dtype()) else { return Ok(false) };
    runs(device, own, to.0.dtype(), (&rows, &inner), (&sorted, &order), size, alpha)
}
