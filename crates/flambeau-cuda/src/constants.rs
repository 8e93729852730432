//! Numbers of the host that kernels read (`x * 1.5`): each is copied to the device once for each thread and stream, and kept.

use crate::device::{self, here};
use crate::driver::Stream;
use crate::kernels::Quick;
use flambeau_core::backend::transfer;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Result, Tensor};
use std::cell::RefCell;

/// More numbers than this are not kept.
const MOST: usize = 1024;
type Kept = Quick<(usize, Stream, DType, [u8; 16]), Tensor>;
thread_local! {
    // A stream's own: another one would have to wait for the copy. A thread's own: nobody else empties it.
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The number (a tensor of no dimensions on the CPU) on the device. Nobody may write to it.
///
/// # Errors
/// No memory.
pub(crate) fn of(number: &Tensor, device: Device) -> Result<Tensor> {
    let d = device::ordinal(device)?;
    let mut bits = [0u8; 16];
    let (size, at) = (number.dtype().size(), number.storage_offset() as usize);
    number.storage().with_bytes(|b| {
        let own = b.get(at * size..(at + 1) * size).unwrap_or_default();
        bits.iter_mut().zip(own).for_each(|(to, from)| *to = *from);
    })?;
    let key = (d, here(d)?, number.dtype(), bits);
    if let Some(id) = crate::graph::of(d, here(d)?)? {
        // what is kept here may be forgotten while the graph still reads it
        return crate::graph::constant(id, (number.dtype(), bits), number, device);
    }
    // a thread that ends keeps nothing
    let known = KEPT.try_with(|k| k.borrow().get(&key).cloned()).ok().flatten();
    if let Some(t) = known {
        return Ok(t);
    }
    let made = transfer::to_device(number.clone(), device)?;
    let _ = KEPT.try_with(|k| {
        let old = match k.try_borrow_mut() {
            Ok(mut all) => {
                let old = (all.len() >= MOST).then(|| std::mem::take(&mut *all));
                all.insert(key, made.clone());
                old
            }
            Err(_) => None,
        };
        // memory goes back when nothing is borrowed
        drop(old);
    });
    Ok(made)
}
