//! Order statistics: the largest, the k-th, medians, and the most frequent element.

use super::{by_cpu, key, ordered, row_back, row_room, rows, sort_rows, sorted, text};
use crate::device;
use crate::driver::Shape;
use crate::kernels::{Args, Which, address, element, launch, wrapped};
use flambeau_core::generated::{args, reduction};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Tensor, ops};

/// As in kernels/sorting/select.cuh.
const MOST_SELECTED: i64 = 1024;
/// Rows from this length on are sorted by the whole device where they are few.
const GIANT: i64 = 1 << 18;

/// What is sought in each row.
#[derive(Clone, Copy)]
struct Select {
    k: i64,
    many: bool,
    sorted: bool,
    descending: bool,
    median: i64,
}
/// Finds it by one block for each row.
fn select(how: Select, x: &Tensor, dim: i64, [values, places]: [&Tensor; 2]) -> Result<()> {
    let at = wrapped(dim, x.dim());
    let x = rows(x, at)?;
    let n = x.sizes().last().copied().unwrap_or(1);
    let count = x.numel() / n.max(1);
    // results without the dimension lie as the rows do
    let (v, i) = match how.many {
        true => (row_room(values, at)?, row_room(places, at)?),
        false => {
            let own = |t: &Tensor| match t.is_contiguous() {
                true => Ok(t.clone()),
                false => Tensor::empty_raw(t.sizes(), t.dtype(), t.device()),
            };
            (own(values)?, own(places)?)
        }
    };
    let list = Args::new().word(address(&x)?).word(address(&v)?).word(address(&i)?).int(count).int(n);
    let list = list.int(how.k).int(how.many.into()).int(how.sorted.into()).int(how.descending.into());
    let list = list.int(how.median);
    let threads = match n {
        _ if n <= 128 => 32,
        _ if n <= 4096 => 128,
        _ => 512,
    };
    let own = element(x.dtype()).unwrap_or("float");
    let text = || text("select", &format!("SELECT(select_k, {own})"), "select_k");
    let shape = Shape { blocks: count.clamp(1, 1 << 20) as u32, threads };
    let d = device::ordinal(x.device())?;
    launch(d, Which("select", 0, [x.dtype() as u8, 0, 0, 0]), text, shape, list)?;
    let back = |out: &Tensor, made: &Tensor| match how.many {
        true => row_back(out, at, made),
        false if made.storage().same(out.storage()) => Ok(()),
        false => flambeau_core::backend::matrices::write(out, made),
    };
    back(values, &v)?;
    back(places, &i)
}
/// Elements of a row, and whether few rows are so long that the device sorts them.
fn length(x: &Tensor, dim: i64) -> Result<(i64, bool)> {
    let n = if x.dim() == 0 { 1 } else { x.sizes()[wrapped(dim, x.dim())] };
    let few = x.numel() / n.max(1) < device::processors(device::ordinal(x.device())?)? / 4;
    Ok((n, n >= GIANT && few))
}
/// `topk` of ordered elements.
///
/// # Errors
/// Of the launch.
pub(super) fn top(a: &args::Topk, outs: [&Tensor; 2]) -> Result<bool> {
    let (n, giant) = length(a.self_, a.dim)?;
    if n > i64::from(u32::MAX) {
        return Ok(false);
    }
    if n <= super::SHORT_ROW || a.k > MOST_SELECTED || giant {
        return sorted(a.self_, a.dim, a.k, a.largest, outs);
    }
    let how = Select { k: a.k, many: true, sorted: a.sorted, descending: a.largest, median: 0 };
    select(how, a.self_, a.dim, outs)?;
    Ok(true)
}
/// The k-th of each row. `false` where there is no kernel for it.
fn kth(how: Select, x: &Tensor, dim: i64, outs: [&Tensor; 2]) -> Result<bool> {
    let d = x.dtype();
    let (n, giant) = length(x, dim)?;
    let known = ordered(d) && !d.is_wide_unsigned() && n <= i64::from(u32::MAX);
    if !known || matches!(d, DType::Bool | DType::F8E4M3 | DType::F8E5M2) {
        return Ok(false);
    }
    if outs[0].numel() == 0 {
        return Ok(true);
    }
    if giant && (how.median == 0 || !d.is_floating()) {
        let x = rows(x, wrapped(dim, x.dim()))?;
        let k = if how.median == 0 { how.k } else { (n - 1) / 2 + 1 };
        let (v, i) = (
            Tensor::empty_raw(x.sizes(), d, x.device())?,
            Tensor::empty_raw(x.sizes(), DType::I64, x.device())?,
        );
        sort_rows(&x, [n, n], false, Some(&v), Some(&i), Some(key(d).0))?;
        for (out, all) in outs.into_iter().zip([v, i]) {
            let one = ops::reshape(&ops::select(&all, -1, k - 1)?, out.sizes())?;
            flambeau_core::backend::matrices::write(out, &one)?;
        }
        return Ok(true);
    }
    select(how, x, dim, outs)?;
    Ok(true)
}
fn one(k: i64, median: i64) -> Select {
    Select { k, many: false, sorted: false, descending: false, median }
}
fn kthvalue(a: &args::Kthvalue, outs: [&Tensor; 2]) -> Result<()> {
    if kth(one(a.k, 0), a.self_, a.dim, outs)? {
        return Ok(());
    }
    by_cpu("kthvalue", a.self_, outs, |t| ops::kthvalue(t, a.k, a.dim, a.keepdim))
}
fn median_dim(a: &args::MedianDim, outs: [&Tensor; 2]) -> Result<()> {
    if kth(one(1, 1), a.self_, a.dim, outs)? {
        return Ok(());
    }
    by_cpu("median", a.self_, outs, |t| ops::median_dim(t, a.dim, a.keepdim))
}
fn nanmedian_dim(a: &args::NanmedianDim, outs: [&Tensor; 2]) -> Result<()> {
    if kth(one(1, 2), a.self_, a.dim, outs)? {
        return Ok(());
    }
    by_cpu("nanmedian", a.self_, outs, |t| ops::nanmedian_dim(t, a.dim, a.keepdim))
}
/// The most frequent element of each row, from the sorted rows.
fn most_frequent(x: &Tensor, dim: i64, [values, places]: [&Tensor; 2]) -> Result<bool> {
    let d = x.dtype();
    if !ordered(d) || d.is_wide_unsigned() {
        return Ok(false);
    }
    if values.numel() == 0 {
        return Ok(true);
    }
    let x = rows(x, wrapped(dim, x.dim()))?;
    let n = x.sizes().last().copied().unwrap_or(1);
    let (v, i) =
        (Tensor::empty_raw(x.sizes(), d, x.device())?, Tensor::empty_raw(x.sizes(), DType::I64, x.device())?);
    if !sort_rows(&x, [n, n], false, Some(&v), Some(&i), None)? {
        return Ok(false);
    }
    let (count, device) = (x.numel() / n, device::ordinal(x.device())?);
    let (to, at) = (
        Tensor::empty_raw(values.sizes(), d, x.device())?,
        Tensor::empty_raw(places.sizes(), DType::I64, x.device())?,
    );
    let list = Args::new().word(address(&v)?).word(address(&i)?).word(address(&to)?).word(address(&at)?);
    let shape = Shape { blocks: count.clamp(1, 1 << 20) as u32, threads: if n <= 128 { 32 } else { 256 } };
    let own = element(d).unwrap_or("float");
    let text = || text("select", &format!("MODE(mode_k, {own})"), "mode_k");
    launch(device, Which("mode", 0, [d as u8, 0, 0, 0]), text, shape, list.int(count).int(n))?;
    flambeau_core::backend::matrices::write(values, &to)?;
    flambeau_core::backend::matrices::write(places, &at)?;
    Ok(true)
}
fn mode(a: &args::Mode, outs: [&Tensor; 2]) -> Result<()> {
    if most_frequent(a.self_, a.dim, outs)? {
        return Ok(());
    }
    by_cpu("mode", a.self_, outs, |t| ops::mode(t, a.dim, a.keepdim))
}

/// Fills the rows' tables.
pub(super) fn register() {
    reduction::KTHVALUE_KERNEL.register(Key::Cuda, kthvalue);
    reduction::MEDIAN_DIM_KERNEL.register(Key::Cuda, median_dim);
    reduction::NANMEDIAN_DIM_KERNEL.register(Key::Cuda, nanmedian_dim);
    reduction::MODE_KERNEL.register(Key::Cuda, mode);
}
