//! Scans: one kernel for all of them, with a state each (`kernels/scan/scan.cuh`).

use super::reduction::sum_type;
use super::{Args, Which, address, by_the_cpu, cast, dense, element, launch, shape, wrapped};
use crate::device;
use crate::driver::Shape;
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, scan};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Tensor, ops};

/// Bytes of a state, as in kernels/scan/scan.cuh.
const STATE: i64 = 32;
/// Scans the dense `x` along a dimension into the dense `out`, and `places` where the scan gives them.
fn run(
    how: &'static str,
    state: &str,
    x: &Tensor,
    dim: usize,
    out: &Tensor,
    places: Option<&Tensor>,
) -> Result<bool> {
    let (Some(own), Some(to)) = (element(x.dtype()), element(out.dtype())) else { return Ok(false) };
    let sizes = x.sizes();
    let (outer, n, inner) = match sizes.len() {
        0 => (1, 1, 1),
        _ => (sizes[..dim].iter().product::<i64>(), sizes[dim], sizes[dim + 1..].iter().product::<i64>()),
    };
    let d = device::ordinal(x.device())?;
    let processors = device::processors(d)?;
    let threads: i64 = if n <= 512 { 32 } else { 256 };
    // rows are cut where there are too few for the device
    let parts = match inner {
        1 => (processors * 8 / outer.max(1)).min(n / 4096),
        _ => (processors * 1024 / (outer * inner).max(1)).min(n / 64),
    };
    let parts = parts.clamp(1, 1024);
    let length = (n as u64).div_ceil(parts as u64) as i64;
    let length = if parts > 1 { (length as u64).next_multiple_of(8) as i64 } else { length };
    let parts = (n as u64).div_ceil(length.max(1) as u64).max(1) as i64;
    let room = match parts {
        1 => None,
        _ => Some(Tensor::empty_raw(&[outer * inner * parts * STATE], DType::U8, x.device())?),
    };
    let states = room.as_ref().map_or(Ok(0), address)?;
    let second = places.map_or(Ok(0), address)?;
    let args = || -> Result<Args> {
        let list = Args::new().word(address(x)?).word(address(out)?).word(second);
        let list = list.int(outer).int(n).int(inner).int(threads);
        Ok(list.int(parts).int(length).word(states))
    };
    let text = |name: &str| {
        let kernel = format!("SCAN(scan_k, {how}, {own}, {state}, {to})");
        let file = if how.ends_with("Complex") { "complex" } else { "scan" };
        (format!("#include \"scan/{file}.cuh\"\n{kernel}\n"), name.to_string())
    };
    let which = |k: u8| Which(how, 1, [x.dtype() as u8, out.dtype() as u8, k, 0]);
    let all = match inner {
        1 if threads == 32 => {
            Shape { blocks: (outer as u64).div_ceil(8).clamp(1, 1 << 20) as u32, threads: 256 }
        }
        1 => Shape { blocks: (outer * parts).clamp(1, 1 << 20) as u32, threads: threads as u32 },
        _ => shape(outer * inner * parts),
    };
    if parts > 1 {
        launch(d, which(1), || text("scan_k_parts"), all, args()?)?;
        let rows = outer * inner;
        let shape =
            Shape { blocks: rows.clamp(1, 1 << 16) as u32, threads: if parts <= 32 { 32 } else { 256 } };
        launch(d, which(2), || text("scan_k_states"), shape, args()?)?;
    }
    launch(d, which(0), || text("scan_k"), all, args()?)?;
    Ok(true)
}
/// The running sums of a dense vector of int64.
///
/// # Errors
/// Of the launch.
pub(super) fn running_sums(x: &Tensor) -> Result<Tensor> {
    let out = Tensor::empty_raw(x.sizes(), DType::I64, x.device())?;
    if x.numel() > 0 {
        run("Cumsum", "i64", x, 0, &out, None)?;
    }
    Ok(out)
}
/// The running sums of each row of dense int64, into `out`.
///
/// # Errors
/// Of the launch.
pub(super) fn running_sums_of_rows(x: &Tensor, out: &Tensor) -> Result<()> {
    run("Cumsum", "i64", x, x.dim() - 1, out, None).map(drop)
}
/// Scans along a dimension, through dense tensors.
fn scanned(
    how: &'static str,
    state: &str,
    x: &Tensor,
    dim: i64,
    out: &Tensor,
    places: Option<&Tensor>,
) -> Result<bool> {
    if out.numel() == 0 {
        return Ok(true);
    }
    let x = dense(x)?;
    let direct = |t: &Tensor| t.is_contiguous() && !t.is_conj() && !t.is_neg();
    let own = |t: &Tensor| match direct(t) {
        true => Ok(t.clone()),
        false => Tensor::empty_raw(t.sizes(), t.dtype(), t.device()),
    };
    let (to, second) = (own(out)?, places.map(own).transpose()?);
    if !run(how, state, &x, wrapped(dim, x.dim()), &to, second.as_ref())? {
        return Ok(false);
    }
    if !direct(out) {
        matrices::write(out, &to)?;
    }
    match (places, second) {
        (Some(p), Some(own)) if !direct(p) => matrices::write(p, &own)?,
        _ => {}
    }
    Ok(true)
}
/// Running sums and products: of integers in int64, of others in the result's dtype.
fn accumulate(how: &'static str, x: &Tensor, dim: i64, out: &Tensor) -> Result<bool> {
    let d = out.dtype();
    // the CPU refuses them
    if matches!(d, DType::C32 | DType::BC32 | DType::F8E4M3 | DType::F8E5M2)
        || d == DType::Bool && x.dim() > 0
        || d.is_wide_unsigned() && !x.dtype().is_integral(true)
    {
        return Ok(false);
    }
    let Some((state, _)) = sum_type(d) else { return Ok(false) };
    let x = match d.is_integral(true) && x.dtype().is_integral(true) {
        true => x.clone(),
        false => cast(x, if d.is_integral(true) { DType::I64 } else { d })?,
    };
    scanned(how, state, &x, dim, out, None)
}
fn cumsum(a: &args::Cumsum, out: &Tensor) -> Result<()> {
    if accumulate("Cumsum", a.self_, a.dim, out)? {
        return Ok(());
    }
    by_the_cpu("cumsum", &[a.self_], out, |t| ops::cumsum(&t[0], a.dim, a.dtype))
}
fn cumprod(a: &args::Cumprod, out: &Tensor) -> Result<()> {
    if accumulate("Cumprod", a.self_, a.dim, out)? {
        return Ok(());
    }
    by_the_cpu("cumprod", &[a.self_], out, |t| ops::cumprod(&t[0], a.dim, a.dtype))
}
fn logcumsumexp(a: &args::Logcumsumexp, out: &Tensor) -> Result<()> {
    let found = match a.self_.dtype() {
        DType::F16 | DType::BF16 | DType::F32 => Some(("Logcumsumexp", "float")),
        DType::F64 => Some(("Logcumsumexp", "double")),
        DType::C64 | DType::C128 => Some(("LogcumsumexpComplex", "double")),
        _ => None,
    };
    if let Some((how, state)) = found
        && scanned(how, state, a.self_, a.dim, out, None)?
    {
        return Ok(());
    }
    by_the_cpu("logcumsumexp", &[a.self_], out, |t| ops::logcumsumexp(&t[0], a.dim))
}
fn extreme(
    how: &'static str,
    x: &Tensor,
    dim: i64,
    [values, places]: [&Tensor; 2],
    by_cpu: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<()> {
    let d = x.dtype();
    let known = !d.is_complex() && !d.is_wide_unsigned() && !matches!(d, DType::F8E4M3 | DType::F8E5M2);
    if known && scanned(how, "i64", x, dim, values, Some(places))? {
        return Ok(());
    }
    crate::count(how);
    let (v, i) = by_cpu(&flambeau_core::backend::transfer::on_host(x)?)?;
    matrices::write(values, &v)?;
    matrices::write(places, &i)
}
fn cummax(a: &args::Cummax, outs: [&Tensor; 2]) -> Result<()> {
    extreme("Cummax", a.self_, a.dim, outs, |t| ops::cummax(t, a.dim))
}
fn cummin(a: &args::Cummin, outs: [&Tensor; 2]) -> Result<()> {
    extreme("Cummin", a.self_, a.dim, outs, |t| ops::cummin(t, a.dim))
}

/// Fills the rows' tables.
pub(crate) fn register() {
    scan::CUMSUM_KERNEL.register(Key::Cuda, cumsum);
    scan::CUMPROD_KERNEL.register(Key::Cuda, cumprod);
    scan::LOGCUMSUMEXP_KERNEL.register(Key::Cuda, logcumsumexp);
    scan::CUMMAX_KERNEL.register(Key::Cuda, cummax);
    scan::CUMMIN_KERNEL.register(Key::Cuda, cummin);
}
