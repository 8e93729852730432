//! What kernels over dense memory share: tensors as they take them, texts, and threads of rows.

use super::{Quick, address};
use crate::driver::{Shape, driver};
use flambeau_core::backend::matrices;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Tensor};
use std::cell::RefCell;

/// The same values row by row, without lazy bits: the tensor itself if it is so already.
pub(super) fn dense(t: &Tensor) -> Result<Tensor> {
    if t.is_contiguous() && !t.is_conj() && !t.is_neg() { Ok(t.clone()) } else { matrices::rows(t) }
}
/// [`dense`] of an optional tensor.
pub(super) fn dense_opt(t: Option<&Tensor>) -> Result<Option<Tensor>> {
    t.map(dense).transpose()
}
/// The same values in another dtype, dense.
pub(super) fn cast(t: &Tensor, d: DType) -> Result<Tensor> {
    if t.dtype() == d {
        return dense(t);
    }
    let own = Tensor::empty_raw(t.sizes(), d, t.device())?;
    matrices::write(&own, t)?;
    Ok(own)
}
/// The address; 0 where there is no tensor.
pub(super) fn address_of(t: Option<&Tensor>) -> Result<u64> {
    t.map_or(Ok(0), address)
}
/// Float16, bfloat16, float32 and float64.
pub(super) fn is_float(d: DType) -> bool {
    matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}
/// What halves are computed in.
pub(super) fn wide(d: DType) -> DType {
    if matches!(d, DType::F16 | DType::BF16) { DType::F32 } else { d }
}
/// What a kernel of floats says of other dtypes, which the CPU's says too.
///
/// # Errors
/// The dtype is not a float.
pub(super) fn floats(label: &str, d: DType) -> Result<&'static str> {
    match super::element(d) {
        Some(e) if is_float(d) => Ok(e),
        _ => Err(Error::not_implemented_for(label, d)),
    }
}
/// A source of one file and one instance, whose name is `k`.
pub(super) fn text(file: &str, instance: &str) -> (String, String) {
    named(file, instance, "k")
}
/// [`text`] with several kernels, of which one has this name.
pub(super) fn named(file: &str, instance: &str, name: &str) -> (String, String) {
    (format!("#include \"{file}\"\n{instance}\n"), name.into())
}
/// Room for numbers of a kernel's own.
///
/// # Errors
/// No memory.
pub(super) fn room(n: i64, d: DType, like: &Tensor) -> Result<Tensor> {
    Tensor::empty_raw(&[n.max(1)], d, like.device())
}
/// Factor and shift of a division by `n`, for kernels' `Quotient`.
pub(super) fn quotient(n: i64) -> u64 {
    let (factor, shift) = super::division(n);
    u64::from(factor) | u64::from(shift) << 32
}
/// Least integer that is not below `a / b`, of numbers that are not negative.
pub(super) fn up(a: i64, b: i64) -> i64 {
    (a.max(0) as u64).div_ceil(b.max(1) as u64) as i64
}
/// The next power of two within bounds that are powers themselves.
pub(super) fn power(n: i64, low: i64, high: i64) -> i64 {
    (n.max(1) as u64).next_power_of_two().clamp(low as u64, high as u64) as i64
}
/// Threads of a row of `n` elements of `size` bytes, and the most packs of 16 bytes that one of them holds (`Part` of
/// kernels/device/block.cuh), of which kernels bear `most`; 0 where a row is not held.
pub(super) fn row_threads(n: i64, size: usize, most: i64, addresses: &[u64]) -> (i64, i64) {
    let pack = 16 / size.min(16) as i64;
    // doubles want more registers each
    let largest = if size == 8 { 512 } else { 1024 };
    let (packs, aligned) = (up(n, pack), n % pack == 0 && addresses.iter().all(|a| a % 16 == 0));
    // many packs of few threads leave room for a second block, which computes while the first one waits for memory
    let held = if packs > 1024 { most } else { most.min(4) };
    let threads = power(up(packs, held), 32, largest);
    match aligned && packs <= largest * held {
        true => (threads, held),
        false => (if n <= 1024 { 32 } else { threads.max(256) }, 0),
    }
}
/// Blocks for `rows` of so many threads each.
pub(super) fn row_shape(rows: i64, threads: i64) -> Shape {
    match threads {
        32 => Shape { blocks: up(rows, 4).clamp(1, 1 << 20) as u32, threads: 128 },
        _ => Shape { blocks: rows.clamp(1, 1 << 20) as u32, threads: threads as u32 },
    }
}
/// How a device multiplies tiles of halves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Units {
    /// Not at all.
    None,
    /// By warps (kernels/device/matrix.cuh), on architectures from 8.0 on.
    Warps,
    /// Also by groups of four warps (kernels/device/groups.cuh), on 9.0 alone.
    Groups,
}
/// Whether products of a dtype go by a device's matrix units.
///
/// # Errors
/// Of the driver.
pub(super) fn matrix_units(d: DType, device: usize) -> Result<bool> {
    Ok(units(d, device)? != Units::None)
}
/// How a device multiplies tiles of a dtype.
///
/// # Errors
/// Of the driver.
pub(super) fn units(d: DType, device: usize) -> Result<Units> {
    if !matches!(d, DType::F16 | DType::BF16) {
        return Ok(Units::None);
    }
    all_units(device)
}
/// Whether a device multiplies tiles of float32 by TensorFloat-32 in parts, which keeps the digits.
///
/// # Errors
/// Of the driver.
pub(super) fn float_units(d: DType, device: usize) -> Result<bool> {
    Ok(d == DType::F32 && all_units(device)? != Units::None)
}
fn all_units(device: usize) -> Result<Units> {
    thread_local! {
        static KNOWN: RefCell<Quick<usize, Units>> = RefCell::default();
    }
    if let Some(known) = KNOWN.try_with(|k| k.borrow().get(&device).copied()).ok().flatten() {
        return Ok(known);
    }
    let p = driver()?.properties(device)?;
    let new = match (p.major, p.minor) {
        (9, 0) => Units::Groups,
        (8.., _) => Units::Warps,
        _ => Units::None,
    };
    // a thread that ends keeps nothing
    let _ = KNOWN.try_with(|k| k.borrow_mut().insert(device, new));
    Ok(new)
}
/// Copies back what a kernel wrote to a dense copy, and notes the write for the gradients' checks.
///
/// # Errors
/// Of the copy.
pub(super) fn written(given: Option<&Tensor>, used: Option<&Tensor>) -> Result<()> {
    let (Some(given), Some(used)) = (given, used) else { return Ok(()) };
    if given.is_same(used) {
        given.storage().bump_version();
        return Ok(());
    }
    matrices::write(given, used)
}
