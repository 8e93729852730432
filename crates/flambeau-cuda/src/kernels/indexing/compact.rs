//! Elements that masks choose, and the places of what is not zero.

use super::*;
use crate::driver::Shape;
use crate::kernels::scan;
use flambeau_core::ensure;

/// Elements of a block, as in kernels/indexing/compact.cuh: 256 threads with 8 each.
const TILE: i64 = 2048;
/// Numbers of true elements by block, summed up, and of all.
struct Counts {
    sums: Tensor,
    total: i64,
}
fn blocks(n: i64) -> Shape {
    Shape { blocks: (n as u64).div_ceil(TILE as u64).clamp(1, 1 << 20) as u32, threads: 256 }
}
/// Geometry, where counts are, what is written, coordinates' sizes, and how many at most.
fn list(g: &Geometry, counts: u64, out: u64, sizes: &[i64], most: i64) -> Args {
    let head = Args::new().geometry(g).word(counts).word(out).int(sizes.len() as i64);
    (0..super::super::DIMS).fold(head, |l, d| l.int(sizes.get(d).copied().unwrap_or(1))).int(most)
}
fn count(g: &Geometry, mask: &Tensor, own: &str) -> Result<Counts> {
    let d = device::ordinal(mask.device())?;
    let tiles = (g.n as u64).div_ceil(TILE as u64) as i64;
    let counts = Tensor::empty_raw(&[tiles], DType::I64, mask.device())?;
    let text = || text("compact", &format!("COMPACT_COUNT(compact_k, {own})"), "compact_k");
    let which = Which("compact_count", 0, [mask.dtype() as u8, 0, 0, 0]);
    launch(d, which, text, blocks(g.n), list(g, address(&counts)?, 0, &[], 0))?;
    let sums = scan::running_sums(&counts)?;
    let total = ops::select(&sums, 0, -1)?.try_item()?;
    Ok(Counts { sums, total })
}
/// The places of what is not zero: `size` of them where that is said, and else all.
fn places(x: &Tensor, size: Option<i64>) -> Result<Option<(Tensor, i64)>> {
    let d = x.dtype();
    let Some(own) = element(d).filter(|_| !d.is_wide_unsigned()) else { return Ok(None) };
    let x = resolved(x)?;
    let rank = x.dim() as i64;
    let room = |n: i64| Tensor::empty_raw(&[n, rank], DType::I64, x.device());
    if x.numel() == 0 {
        return Ok(Some((room(size.unwrap_or(0))?, 0)));
    }
    let Some(g) = Geometry::of(x.sizes(), &[&x])?.filter(|_| x.dim() <= super::super::DIMS) else {
        return Ok(None);
    };
    let c = count(&g, &x, own)?;
    let out = room(size.unwrap_or(c.total))?;
    if out.numel() > 0 {
        let which = Which("nonzero", 0, [d as u8, 0, 0, 0]);
        let text = || text("compact", &format!("NONZERO(nonzero_k, {own})"), "nonzero_k");
        let list = list(&g, address(&c.sums)?, address(&out)?, x.sizes(), out.sizes()[0]);
        launch(device::ordinal(x.device())?, which, text, blocks(g.n), list)?;
    }
    Ok(Some((out, c.total)))
}
fn nonzero(a: &args::Nonzero) -> Result<Tensor> {
    if let Some((out, _)) = places(a.self_, None)? {
        return Ok(out);
    }
    crate::count("nonzero");
    transfer::to_device(ops::nonzero(&transfer::on_host(a.self_)?)?, a.self_.device())
}
fn nonzero_static(a: &args::NonzeroStatic, out: &Tensor) -> Result<()> {
    let Some((found, total)) = places(a.self_, Some(a.size))? else {
        return by_the_cpu("nonzero_static", &[a.self_], out, |t| {
            ops::nonzero_static(&t[0], a.size, a.fill_value)
        });
    };
    if total < a.size && found.numel() > 0 {
        let rest = ops::narrow(&found, 0, total, a.size - total)?;
        ops::fill_(&rest, Scalar::Int(a.fill_value))?;
    }
    matrices::write(out, &found)
}
fn masked_select(a: &args::MaskedSelect) -> Result<Tensor> {
    let (x, mask) = (resolved(a.self_)?.alias_detached(), a.mask.alias_detached());
    let all = ops::broadcast_tensors(&[x.clone(), mask.clone()])?;
    let (x, mask) = (&all[0], &all[1]);
    if x.numel() == 0 {
        return Tensor::empty_raw(&[0], x.dtype(), x.device());
    }
    let Some(g) = Geometry::of(x.sizes(), &[mask, x])? else {
        crate::count("masked_select");
        let host = ops::masked_select(&transfer::on_host(x)?, &transfer::on_host(mask)?)?;
        return transfer::to_device(host, x.device());
    };
    let c = count(&g, mask, "b8")?;
    let out = Tensor::empty_raw(&[c.total], x.dtype(), x.device())?;
    if c.total > 0 {
        let size = x.dtype().size();
        let which = Which("masked_select", 0, [size as u8, 0, 0, 0]);
        let line = format!("MASKED_SELECT(select_k, b8, {})", opaque(size));
        let text = || text("compact", &line, "select_k");
        let list = list(&g, address(&c.sums)?, address(&out)?, &[], c.total);
        launch(device::ordinal(x.device())?, which, text, blocks(g.n), list)?;
    }
    Ok(out)
}
fn masked_scatter(a: &args::MaskedScatter, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let source = dense(a.source)?;
    let mask = ops::expand(&a.mask.alias_detached(), out.sizes(), false)?;
    let Some(g) = Geometry::of(out.sizes(), &[&mask, out])? else {
        return by_the_cpu("masked_scatter", &[a.self_, a.mask, a.source], out, |t| {
            ops::masked_scatter(&t[0], &t[1], &t[2])
        });
    };
    let c = count(&g, &mask, "b8")?;
    ensure!(c.total <= source.numel(), Runtime, "Number of elements of source < number of ones in mask");
    if c.total == 0 {
        return Ok(());
    }
    let size = out.dtype().size();
    let which = Which("masked_scatter", 0, [size as u8, 0, 0, 0]);
    let line = format!("MASKED_SCATTER(scatter_k, b8, {})", opaque(size));
    let text = || text("compact", &line, "scatter_k");
    let list = list(&g, address(&c.sums)?, address(&source)?, &[], source.numel());
    launch(device::ordinal(out.device())?, which, text, blocks(g.n), list)
}

/// Fills the rows' tables.
pub(super) fn register() {
    indexing::NONZERO_KERNEL.register(Key::Cuda, nonzero);
    indexing::NONZERO_STATIC_KERNEL.register(Key::Cuda, nonzero_static);
    indexing::MASKED_SELECT_KERNEL.register(Key::Cuda, masked_select);
    indexing::MASKED_SCATTER_KERNEL.register(Key::Cuda, masked_scatter);
}
