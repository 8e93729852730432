//! Sorts, and what rests on them: order statistics, searches, counts.

mod search;
mod statistics;
mod unique;

use super::{Args, Which, address, dense, element, launch, scan, shape, wrapped};
use crate::device;
use crate::driver::Shape;
use flambeau_core::backend::{matrices, transfer};
use flambeau_core::generated::{args, sorting};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Tensor, ops};

fn text(file: &str, line: &str, name: &str) -> (String, String) {
    (format!("#include \"sorting/{file}.cuh\"\n{line}\n"), name.to_string())
}
/// Whether elements of a dtype have an order here.
fn ordered(d: DType) -> bool {
    !d.is_complex() && element(d).is_some()
}
/// Bits and bytes of a dtype's keys, as in kernels/sorting/key.cuh.
fn key(d: DType) -> (i64, i64) {
    match d {
        DType::Bool => (1, 4),
        DType::F8E4M3 | DType::F8E5M2 => (32, 4),
        _ => (8 * d.size() as i64, if d.size() == 8 { 8 } else { 4 }),
    }
}
/// As in kernels/sorting/sort.cuh.
const SHORT_ROW: i64 = 2048;

/// The dense rows along a dimension, which comes last.
fn rows(x: &Tensor, dim: usize) -> Result<Tensor> {
    let x = x.alias_detached();
    dense(&if x.dim() > 1 { ops::movedim_int(&x, dim as i64, -1)? } else { x })
}
/// A tensor to be written by rows as long as `m` along a dimension, and then copied where it is not `out` itself.
fn row_room(out: &Tensor, dim: usize) -> Result<Tensor> {
    let last = out.dim() < 2 || dim + 1 == out.dim();
    if last && out.is_contiguous() && !out.is_conj() && !out.is_neg() {
        return Ok(out.clone());
    }
    let view =
        if out.dim() > 1 { ops::movedim_int(&out.alias_detached(), dim as i64, -1)? } else { out.clone() };
    Tensor::empty_raw(view.sizes(), out.dtype(), out.device())
}
fn row_back(out: &Tensor, dim: usize, made: &Tensor) -> Result<()> {
    if made.storage().same(out.storage()) {
        return Ok(());
    }
    let n = out.dim();
    matrices::write(out, &if n > 1 { ops::movedim_int(made, -1, dim as i64)? } else { made.clone() })
}

/// The arguments of the kernels of a sort.
struct Sort<'a> {
    x: &'a Tensor,
    values: u64,
    places: u64,
    rows: i64,
    n: i64,
    m: i64,
    descending: bool,
}
impl Sort<'_> {
    fn args(&self, padded: i64, together: i64, rest: [u64; 5], tiles: i64, shift: i64) -> Result<Args> {
        let list = Args::new().word(address(self.x)?).word(self.values).word(self.places);
        let list = list.int(self.rows).int(self.n).int(self.m).int(self.descending.into());
        let list = rest.into_iter().fold(list.int(padded).int(together), Args::word);
        Ok(list.int(tiles).int(shift))
    }
    /// By blocks in shared memory.
    fn short(&self, own: &str) -> Result<()> {
        let d = self.x.dtype();
        let padded = (self.n.max(2) as u64).next_power_of_two() as i64;
        let together = (512 / padded).clamp(1, self.rows.max(1));
        let threads = ((padded * together / 2) as u64).next_multiple_of(32).clamp(32, 512) as u32;
        let blocks = (self.rows as u64).div_ceil(together as u64).clamp(1, 1 << 20) as u32;
        let which = Which("sort_short", 0, [d as u8, 0, 0, 0]);
        let text = || text("sort", &format!("SORT_SHORT(sort_k, {own})"), "sort_k");
        let list = self.args(padded, together, [0; 5], 0, 0)?;
        launch(device::ordinal(self.x.device())?, which, text, Shape { blocks, threads }, list)
    }
    /// By digits of keys that have no more than `bits`.
    fn long(&self, own: &str, bits: i64) -> Result<()> {
        let (d, x) = (device::ordinal(self.x.device())?, self.x);
        let (_, key_size) = key(x.dtype());
        let fresh = |bytes: i64| Tensor::empty_raw(&[bytes.max(1)], DType::U8, x.device());
        let all = self.rows * self.n;
        let tile = 256 * if key_size == 4 { 16 } else { 8 };
        let tiles = (self.n as u64).div_ceil(tile as u64) as i64;
        let room = [fresh(all * key_size)?, fresh(all * key_size)?, fresh(all * 4)?, fresh(all * 4)?];
        let counts = Tensor::empty_raw(&[self.rows, 256 * tiles], DType::I64, x.device())?;
        let sums = Tensor::empty_raw(&[self.rows, 256 * tiles], DType::I64, x.device())?;
        let [mut keys, mut next_keys, mut order, mut next_order] = {
            let a = room.iter().map(address).collect::<Result<Vec<_>>>()?;
            [a[0], a[1], a[2], a[3]]
        };
        let which = |k: u8| Which("sort_long", 0, [x.dtype() as u8, k, 0, 0]);
        let text = |name: &'static str| move || text("sort", &format!("SORT_LONG(sort_k, {own})"), name);
        let list = self.args(0, 0, [keys, order, 0, 0, 0], tiles, 0)?;
        launch(d, which(0), text("sort_k_keys"), shape(all), list)?;
        let blocks = Shape { blocks: (self.rows * tiles).clamp(1, 1 << 20) as u32, threads: 256 };
        for pass in 0..(bits as u64).div_ceil(8) as i64 {
            let list = self.args(0, 0, [keys, order, 0, 0, address(&counts)?], tiles, 8 * pass)?;
            launch(d, which(1), text("sort_k_count"), blocks, list)?;
            scan::running_sums_of_rows(&counts, &sums)?;
            let rest = [keys, order, next_keys, next_order, address(&sums)?];
            launch(d, which(2), text("sort_k_scatter"), blocks, self.args(0, 0, rest, tiles, 8 * pass)?)?;
            std::mem::swap(&mut keys, &mut next_keys);
            std::mem::swap(&mut order, &mut next_order);
        }
        let list = self.args(0, 0, [keys, order, 0, 0, 0], tiles, 0)?;
        launch(d, which(3), text("sort_k_take"), shape(self.rows * self.m), list)
    }
}
/// Sorts dense rows of `n` elements; writes the first `m` values and places of each where they are asked for. `bits`: of the
/// keys in use, where fewer are.
///
/// # Errors
/// Of the launch.
pub(super) fn sort_rows(
    x: &Tensor,
    [n, m]: [i64; 2],
    descending: bool,
    values: Option<&Tensor>,
    places: Option<&Tensor>,
    bits: Option<i64>,
) -> Result<bool> {
    let d = x.dtype();
    let Some(own) = element(d).filter(|_| ordered(d) && n <= i64::from(u32::MAX)) else { return Ok(false) };
    if m == 0 || x.numel() == 0 {
        return Ok(true);
    }
    let (of_values, of_places) = (values.map_or(Ok(0), address)?, places.map_or(Ok(0), address)?);
    let sort = Sort { x, values: of_values, places: of_places, rows: x.numel() / n, n, m, descending };
    if n <= SHORT_ROW && values.is_some() && places.is_some() {
        sort.short(own)?;
    } else {
        sort.long(own, bits.unwrap_or(key(d).0))?;
    }
    Ok(true)
}
/// Sorts along a dimension and gives the first `m`.
fn sorted(x: &Tensor, dim: i64, m: i64, descending: bool, [values, places]: [&Tensor; 2]) -> Result<bool> {
    if !ordered(x.dtype()) {
        return Ok(false);
    }
    let at = wrapped(dim, x.dim());
    let x = rows(x, at)?;
    let n = x.sizes().last().copied().unwrap_or(1);
    let (v, i) = (row_room(values, at)?, row_room(places, at)?);
    if !sort_rows(&x, [n, m], descending, Some(&v), Some(&i), None)? {
        return Ok(false);
    }
    row_back(values, at, &v)?;
    row_back(places, at, &i)?;
    Ok(true)
}
/// Both results of the CPU.
fn by_cpu(
    name: &'static str,
    x: &Tensor,
    [values, places]: [&Tensor; 2],
    compute: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<()> {
    crate::count(name);
    let (v, i) = compute(&transfer::on_host(x)?)?;
    matrices::write(values, &v)?;
    matrices::write(places, &i)
}
fn sort_stable(a: &args::SortStable, outs: [&Tensor; 2]) -> Result<()> {
    if a.self_.numel() == 0 {
        return Ok(());
    }
    let n = if a.self_.dim() == 0 { 1 } else { a.self_.sizes()[wrapped(a.dim, a.self_.dim())] };
    if sorted(a.self_, a.dim, n, a.descending, outs)? {
        return Ok(());
    }
    by_cpu("sort", a.self_, outs, |t| ops::sort_stable(t, a.stable, a.dim, a.descending))
}
fn topk(a: &args::Topk, outs: [&Tensor; 2]) -> Result<()> {
    if outs[0].numel() == 0 {
        return Ok(());
    }
    let known = ordered(a.self_.dtype()) && !a.self_.dtype().is_wide_unsigned();
    if known && statistics::top(a, outs)? {
        return Ok(());
    }
    by_cpu("topk", a.self_, outs, |t| ops::topk(t, a.k, a.dim, a.largest, a.sorted))
}

/// Fills the rows' tables.
pub(crate) fn register() {
    sorting::SORT_STABLE_KERNEL.register(Key::Cuda, sort_stable);
    sorting::TOPK_KERNEL.register(Key::Cuda, topk);
    statistics::register();
    search::register();
    unique::register();
}
