//! Elements moved to other places: joins, flips, triangles, repeated places.

use super::{Args, Geometry, Which, address, by_the_cpu, launch, opaque, scan, shape, wrapped};
use crate::device;
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, joining};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Tensor, ensure, ops};

fn text(kernel: &str, size: usize) -> (String, String) {
    let line = format!("{kernel}(kernel_k, {})", opaque(size));
    (format!("#include \"joining/joining.cuh\"\n{line}\n"), "kernel_k".to_string())
}
/// Moves elements of `size` bytes between two geometries.
fn moved(device: usize, g: Geometry, size: usize) -> Result<()> {
    let (g, size) = g.widened(size, 2, &[]);
    let list = Args::new().geometry(&g);
    launch(device, Which("move", 0, [size as u8, 0, 0, 0]), || text("MOVE", size), shape(g.n), list)
}

/// As in kernels/joining/joining.cuh.
const PARTS: usize = 64;
fn cat(a: &args::Cat, out: &Tensor) -> Result<()> {
    let parts: Vec<&Tensor> = a.tensors.iter().filter(|t| !(t.dim() == 1 && t.numel() == 0)).collect();
    let Some(model) = parts.first() else { return Ok(()) };
    let at = wrapped(a.dim, model.dim());
    if out.numel() == 0 {
        return Ok(());
    }
    let plain = |t: &Tensor| t.is_contiguous() && !t.is_conj() && !t.is_neg() && t.dtype() == out.dtype();
    if !plain(out) || !parts.iter().all(|t| plain(t)) {
        let mut start = 0;
        for t in parts {
            let n = t.sizes()[at];
            if n > 0 {
                matrices::write(&ops::narrow(&out.alias_detached(), at as i64, start, n)?, t)?;
            }
            start += n;
        }
        return Ok(());
    }
    let size = out.dtype().size();
    let rows: i64 = out.sizes()[..at].iter().product();
    let inner: i64 = out.sizes()[at + 1..].iter().product::<i64>() * size as i64;
    let own = |t: &Tensor| t.sizes()[at] * inner;
    let parts: Vec<&Tensor> = parts.into_iter().filter(|t| own(t) > 0).collect();
    let places = parts.iter().map(|t| address(t)).collect::<Result<Vec<_>>>()?;
    let to = address(out)?;
    // the largest unit of which all parts are made
    let whole = |unit: i64| {
        to as i64 % unit == 0
            && places.iter().all(|p| *p as i64 % unit == 0)
            && parts.iter().all(|t| own(t) % unit == 0)
    };
    let unit = [16, 8, 4, 2].into_iter().find(|u| *u >= size as i64 && whole(*u)).unwrap_or(size as i64);
    let width = out.sizes()[at] * inner / unit;
    let d = device::ordinal(out.device())?;
    let mut from = 0;
    for (parts, places) in parts.chunks(PARTS).zip(places.chunks(PARTS)) {
        let mut ends = vec![from];
        for t in parts {
            from += own(t) / unit;
            ends.push(from);
        }
        let n = rows * (from - ends[0]);
        let mut list = Args::new().word(to).int(rows).int(width).int(parts.len() as i64);
        for k in 0..PARTS {
            list = list.word(places.get(k).copied().unwrap_or(0));
        }
        for k in 0..=PARTS {
            list = list.int(ends.get(k).copied().unwrap_or(0));
        }
        let which = Which("join", 0, [unit as u8, 0, 0, 0]);
        launch(d, which, || text("JOIN_PARTS", unit as usize), shape(n), list)?;
    }
    Ok(())
}
fn flip(a: &args::Flip, out: &Tensor) -> Result<()> {
    let x = super::resolved(a.self_)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let size = x.dtype().size() as i64;
    let mut strides = [out, &x].map(|t| t.strides().iter().map(|s| s * size).collect::<Vec<_>>());
    let mut start = address(&x)?;
    for dim in a.dims {
        let d = wrapped(*dim, x.dim());
        if d < x.dim() {
            start = start.wrapping_add(((x.sizes()[d] - 1) * strides[1][d]) as u64);
            strides[1][d] = -strides[1][d];
        }
    }
    match Geometry::joined(out.sizes(), &strides, vec![address(out)?, start]) {
        Some(g) => moved(device::ordinal(out.device())?, g, size as usize),
        None => by_the_cpu("flip", &[a.self_], out, |t| ops::flip(&t[0], a.dims)),
    }
}
/// One side of the diagonal of each matrix, zeros elsewhere. `false`: too many dimensions.
fn triangle(x: &Tensor, diagonal: i64, lower: bool, out: &Tensor) -> Result<bool> {
    if out.numel() == 0 {
        return Ok(true);
    }
    let x = super::resolved(x)?;
    let Some(g) = Geometry::of(out.sizes(), &[out, &x])? else { return Ok(false) };
    let (rows, columns) = matrices::sides(out);
    let list = Args::new().geometry(&g).int(rows).int(columns).int(diagonal).int(lower.into());
    let size = x.dtype().size();
    let which = Which("triangle", 0, [size as u8, 0, 0, 0]);
    launch(device::ordinal(out.device())?, which, || text("TRIANGLE", size), shape(g.n), list)?;
    Ok(true)
}
fn tril(a: &args::Tril, out: &Tensor) -> Result<()> {
    if triangle(a.self_, a.diagonal, true, out)? {
        return Ok(());
    }
    by_the_cpu("tril", &[a.self_], out, |t| ops::tril(&t[0], a.diagonal))
}
fn triu(a: &args::Triu, out: &Tensor) -> Result<()> {
    if triangle(a.self_, a.diagonal, false, out)? {
        return Ok(());
    }
    by_the_cpu("triu", &[a.self_], out, |t| ops::triu(&t[0], a.diagonal))
}
fn repeat_interleave(a: &args::RepeatInterleave) -> Result<Tensor> {
    let counts = a.repeats.numel();
    let sums = scan::running_sums(&super::dense(&super::cast(a.repeats, DType::I64)?)?)?;
    let mut total = 0;
    if counts > 0 {
        let least: i64 = ops::min(&a.repeats.alias_detached())?.try_item()?;
        ensure!(least >= 0, Runtime, "repeats can not be negative");
        total = ops::select(&sums, 0, -1)?.try_item()?;
    }
    if let Some(o) = a.output_size {
        ensure!(o == total, Runtime, "allocated size does not match required size");
    }
    let out = Tensor::empty_raw(&[total], DType::I64, a.repeats.device())?;
    if total > 0 {
        let list = Args::new().word(address(&sums)?).word(address(&out)?).int(counts).int(total);
        let text =
            || ("#include \"joining/joining.cuh\"\nREPEAT(repeat_k)\n".to_string(), "repeat_k".to_string());
        let d = device::ordinal(out.device())?;
        launch(d, Which("repeat", 0, [0; 4]), text, shape(total), list)?;
    }
    Ok(out)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    joining::CAT_KERNEL.register(Key::Cuda, cat);
    joining::FLIP_KERNEL.register(Key::Cuda, flip);
    joining::TRIL_KERNEL.register(Key::Cuda, tril);
    joining::TRIU_KERNEL.register(Key::Cuda, triu);
    joining::REPEAT_INTERLEAVE_KERNEL.register(Key::Cuda, repeat_interleave);
}
