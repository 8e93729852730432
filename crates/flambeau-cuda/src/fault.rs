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
/// The number of an operator.
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
    let name = NAMES.lock().unwrap_or_else(PoisonError::into_inner).get(kind as usize - 1).copied();
    Err(Error::index(format!(
        "{}(): index {index} is out of bounds for dimension {dim} with size {size}",
        name.unwrap_or("a kernel")
    )))
}
