//! Different elements, and different rows.

use super::{ordered, sort_rows, text};
use crate::device;
use crate::kernels::{Args, Which, address, dense, element, launch, scan, shape, wrapped};
use flambeau_core::backend::transfer;
use flambeau_core::generated::{args, sorting};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Tensor, ensure, ops};

type Three = (Tensor, Tensor, Tensor);

/// Runs of equal elements: the place of the first of each, the run of each place, and how long they are.
struct Runs {
    first: Tensor,
    inverse: Tensor,
    lengths: Tensor,
}
fn none(x: &Tensor) -> Result<Tensor> {
    Tensor::empty_raw(&[0], DType::I64, x.device())
}
/// Runs of `n` elements or rows that lie in order: `x`, or that of `order`. `kernel` marks the heads.
fn runs(
    x: &Tensor,
    order: Option<&Tensor>,
    n: i64,
    width: i64,
    which: Which,
    kernel: &str,
    name: &str,
) -> Result<Runs> {
    let fresh = |n: i64| Tensor::empty_raw(&[n], DType::I64, x.device());
    let (heads, inverse) = (fresh(n)?, fresh(n)?);
    let d = device::ordinal(x.device())?;
    let (at, places) = (address(x)?, order.map_or(Ok(0), address)?);
    let args = |sums: u64, rest: [u64; 3]| -> Result<Args> {
        let list = Args::new().word(at).word(places).int(n).word(address(&heads)?).word(sums).word(0);
        Ok(rest.into_iter().fold(list, Args::word).int(0).int(width))
    };
    launch(d, which, || text("unique", kernel, name), shape(n), args(0, [0; 3])?)?;
    let sums = scan::running_sums(&heads)?;
    let count: i64 = ops::select(&sums, 0, -1)?.try_item()?;
    let (first, starts, lengths) = (fresh(count)?, fresh(count)?, fresh(count)?);
    let rows = |name: &'static str| move || text("unique", "UNIQUE_ROWS(unique_k)", name);
    let rest = [address(&first)?, address(&inverse)?, address(&starts)?];
    let list = args(address(&sums)?, rest)?;
    launch(d, Which("unique_rows", 0, [1, 0, 0, 0]), rows("unique_k_runs"), shape(n), list)?;
    let list = Args::new().word(address(&starts)?).word(address(&lengths)?).int(count).int(n);
    launch(d, Which("unique_rows", 0, [2, 0, 0, 0]), rows("unique_k_lengths"), shape(count), list)?;
    Ok(Runs { first, inverse, lengths })
}
/// Runs of equal elements of a dense tensor, sorted before or as they lie.
fn elements(x: &Tensor, sort: bool) -> Result<Option<Runs>> {
    let (d, n) = (x.dtype(), x.numel());
    let Some(own) = element(d).filter(|_| ordered(d) && n <= i64::from(u32::MAX)) else { return Ok(None) };
    if n == 0 {
        return Ok(Some(Runs { first: none(x)?, inverse: none(x)?, lengths: none(x)? }));
    }
    let which = Which("unique", 0, [d as u8, 0, 0, 0]);
    let kernel = format!("UNIQUE_HEADS(unique_k, {own})");
    if !sort {
        return runs(x, None, n, 0, which, &kernel, "unique_k").map(Some);
    }
    let (values, order) =
        (Tensor::empty_raw(&[n], d, x.device())?, Tensor::empty_raw(&[n], DType::I64, x.device())?);
    if !sort_rows(x, [n, n], false, Some(&values), Some(&order), None)? {
        return Ok(None);
    }
    runs(&values, Some(&order), n, 0, which, &kernel, "unique_k").map(Some)
}
fn results(values: Tensor, r: Runs, sizes: &[i64], inverse: bool, counts: bool) -> Result<Three> {
    let inverse = if inverse { ops::view(&r.inverse, sizes)? } else { none(&values)? };
    let counts = if counts { r.lengths } else { none(&values)? };
    Ok((values, inverse, counts))
}
/// By way of the CPU, whose errors are the row's.
fn by_cpu(name: &'static str, x: &Tensor, compute: impl FnOnce(&Tensor) -> Result<Three>) -> Result<Three> {
    crate::count(name);
    let (a, b, c) = compute(&transfer::on_host(x)?)?;
    let there = |t: Tensor| transfer::to_device(t, x.device());
    Ok((there(a)?, there(b)?, there(c)?))
}
fn unique(a: &args::Unique) -> Result<Three> {
    let x = dense(&a.self_.alias_detached())?;
    match elements(&x, true)? {
        Some(r) => {
            let values = ops::take(&x, &r.first)?;
            results(values, r, a.self_.sizes(), a.return_inverse, a.return_counts)
        }
        None => by_cpu("_unique2", a.self_, |t| ops::unique(t, a.sorted, a.return_inverse, a.return_counts)),
    }
}
/// The slices along a dimension as rows of numbers in the order of the elements.
fn ranks(x: &Tensor, dim: i64) -> Result<Option<(Tensor, i64, i64)>> {
    let n = x.sizes()[dim as usize];
    let flat = dense(&ops::reshape(&ops::movedim_int(&x.alias_detached(), dim, 0)?, &[n, -1])?)?;
    let width = flat.numel() / n.max(1);
    Ok(elements(&flat, true)?.map(|r| (r.inverse, n, width)))
}
/// The order of rows of numbers.
fn row_order(rows: &Tensor, n: i64, width: i64) -> Result<Tensor> {
    let padded = (n.max(2) as u64).next_power_of_two() as i64;
    let order = ops::arange(padded.into(), Some(DType::I64), None, Some(rows.device()), None)?;
    let d = device::ordinal(rows.device())?;
    let (mut k, from) = (2, [address(rows)?, address(&order)?]);
    while k <= padded {
        let mut j = k / 2;
        while j > 0 {
            let list = Args::new().word(from[0]).word(from[1]).int(n).int(width).int(padded).int(k).int(j);
            let text = || text("unique", "ROW_SORT(sort_k)", "sort_k");
            launch(d, Which("row_sort", 0, [0; 4]), text, shape(padded / 2), list)?;
            j /= 2;
        }
        k *= 2;
    }
    ops::narrow(&order, 0, 0, n)
}
fn row_runs(rows: &Tensor, order: Option<&Tensor>, n: i64, width: i64) -> Result<Runs> {
    let which = Which("unique_rows", 0, [0; 4]);
    runs(rows, order, n, width, which, "UNIQUE_ROWS(unique_k)", "unique_k_heads")
}
fn nonempty(x: &Tensor, d: usize) -> Result<()> {
    let others = x.sizes().iter().enumerate().any(|(i, s)| i != d && *s == 0);
    ensure!(
        !others || x.sizes()[d] == 0,
        Runtime,
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
    );
    Ok(())
}
/// Runs of equal slices along a dimension.
fn slices(x: &Tensor, dim: i64, sort: bool, inverse: bool, counts: bool) -> Result<Option<Three>> {
    let d = wrapped(dim, x.dim());
    if x.dim() == 0 || d >= x.dim() || x.is_complex() {
        return Ok(None);
    }
    nonempty(x, d)?;
    let n = x.sizes()[d];
    let r = match n {
        0 => Runs { first: none(x)?, inverse: none(x)?, lengths: none(x)? },
        _ => {
            let Some((rows, n, width)) = ranks(x, d as i64)? else { return Ok(None) };
            let order = if sort { Some(row_order(&rows, n, width)?) } else { None };
            row_runs(&rows, order.as_ref(), n, width)?
        }
    };
    let values = ops::index_select(&x.alias_detached(), d as i64, &r.first)?;
    results(values, r, &[n], inverse, counts).map(Some)
}
fn unique_dim(a: &args::UniqueDim) -> Result<Three> {
    match slices(a.self_, a.dim, true, a.return_inverse, a.return_counts)? {
        Some(three) => Ok(three),
        None => by_cpu("unique_dim", a.self_, |t| {
            ops::unique_dim(t, a.dim, a.sorted, a.return_inverse, a.return_counts)
        }),
    }
}
fn unique_consecutive(a: &args::UniqueConsecutive) -> Result<Three> {
    let found = match a.dim {
        Some(d) => slices(a.self_, d, false, a.return_inverse, a.return_counts)?,
        None => {
            let x = dense(&a.self_.alias_detached())?;
            match elements(&x, false)? {
                Some(r) => {
                    let values = ops::take(&x, &r.first)?;
                    Some(results(values, r, a.self_.sizes(), a.return_inverse, a.return_counts)?)
                }
                None => None,
            }
        }
    };
    match found {
        Some(three) => Ok(three),
        None => by_cpu("unique_consecutive", a.self_, |t| {
            ops::unique_consecutive(t, a.return_inverse, a.return_counts, a.dim)
        }),
    }
}

/// Fills the rows' tables.
pub(super) fn register() {
    sorting::UNIQUE_KERNEL.register(Key::Cuda, unique);
    sorting::UNIQUE_DIM_KERNEL.register(Key::Cuda, unique_dim);
    sorting::UNIQUE_CONSECUTIVE_KERNEL.register(Key::Cuda, unique_consecutive);
}
