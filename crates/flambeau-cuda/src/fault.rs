//! What went wrong on a device: kernels write the first fault into a piece of memory that the host reads when it waits. The
//! context stays usable.

use crate::driver::{Address, driver};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result};
use std::sync::PoisonError;

/// Bytes of `Fault` in kernels/device/base.cuh.
const SIZE: usize = 32;
static PLACES: Mutex<Vec<Option<Address>>> = Mutex::new(Vec::new());
/// Operators whose kernels look for faults; kernels know them by their place here, from 1 on.
static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Where the kernels of a device write their faults.
///
/// # Errors
/// No memory.
pub(crate) fn place(device: usize) -> Result<Address> {
    let mut all = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let n = all.len().max(device + 1);
    all.resize(n, None);
    if let Some(a) = all[device] {
        return Ok(a);
    }
    let driver = driver()?;
    let a = driver.allocate(device, SIZE)?.ok_or_else(|| Error::memory("CUDA out of memory."))?;
    driver.fill(device, 0, a, 0, SIZE)?;
    driver.wait(device, 0)?;
    all[device] = Some(a);
    Ok(a)
}
/// The number of a text about an index, which is no error of the kind `Index` but of `Runtime`: `{index}`, `{dim}` and `{size}` are
/// put in, also `{high}` and `{low}`, the halves of the last.
pub(crate) fn refusal(text: &'static str) -> u64 {
    number(text) | REFUSAL
}
const REFUSAL: u64 = 1 << 32;
/// The number of an operator, or of a text as [`refusal`] takes it for errors of the kind `Index`.
pub(crate) fn number(name: &'static str) -> u64 {
    let mut all = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = all.iter().position(|n| *n == name).unwrap_or_else(|| {
        all.push(name);
        all.len() - 1
    });
    at as u64 + 1
}
/// The fault of a device, once.
///
/// # Errors
/// The fault: an index that is out of bounds.
pub(crate) fn check(device: usize) -> Result<()> {
    let place = PLACES.lock().unwrap_or_else(PoisonError::into_inner).get(device).copied().flatten();
    let Some(a) = place else { return Ok(()) };
    let driver = driver()?;
    let mut bytes = [0u8; SIZE];
    driver.download(device, 0, a, &mut bytes)?;
    let mut words = bytes.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().unwrap_or_default()));
    let mut next = || words.next().unwrap_or(0);
    let (kind, index, dim, size) = (next(), next(), next(), next());
    if kind == 0 {
        return Ok(());
    }
    driver.fill(device, 0, a, 0, SIZE)?;
    driver.wait(device, 0)?;
    let at = (kind as u64 & (REFUSAL - 1)) as usize;
    let name = NAMES.lock().unwrap_or_else(PoisonError::into_inner).get(at.saturating_sub(1)).copied();
    let name = name.unwrap_or("a kernel");
    // an operator with words of its own is known by them
    let text = match name.contains(' ') {
        true => [
            ("{index}", index),
            ("{dim}", dim),
            ("{size}", size),
            ("{high}", size >> 32),
            ("{low}", size & 0xffff_ffff),
        ]
        .iter()
        .fold(name.to_string(), |text, (what, v)| text.replace(what, &v.to_string())),
        false => format!("{name}(): index {index} is out of bounds for dimension {dim} with size {size}"),
    };
    if kind as u64 & REFUSAL != 0 {
        return Err(Error::runtime(text));
    }
    Err(Error::index(text))
}
