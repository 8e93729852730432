//! A shared library that other languages load: takes a tensor, and gives another one.

use flambeau_dlpack::{DLManagedTensorVersioned, from_dlpack, to_dlpack};

/// Adds one to the elements, in their memory, and gives the transposed tensor; null where there is an error.
///
/// # Safety
/// As for `from_dlpack`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flambeau_add_one(m: *mut DLManagedTensorVersioned) -> *mut DLManagedTensorVersioned {
    let done = || {
        // SAFETY: the caller's promise.
        let x = unsafe { from_dlpack(m)? };
        flambeau_core::ops::add_(&x, &flambeau_core::functions::ones([1]).to(x.dtype()), 1.into())?;
        let last = x.dim() as i64 - 1;
        Ok(to_dlpack(&flambeau_core::ops::transpose(&x, 0, last)?)?.into_raw())
    };
    let done: flambeau_core::Result<_> = done();
    done.unwrap_or(std::ptr::null_mut())
}
