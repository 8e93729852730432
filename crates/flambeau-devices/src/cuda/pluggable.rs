//! Allocators of others (`torch.cuda.CUDAPluggableAllocator`): two C functions of a shared library that give device memory and take it
//! back; and the switch of the cache.

use super::absent;
use super::runtime::{answer, installed};
use flambeau_core::Result;
use flambeau_core::api::ergonomic::expect;
use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An allocator of a shared library, for [`change_current_allocator`] or a pool of its own ([`super::MemPool::with_allocator`]). Its
/// functions are, in C,
///
/// ```c
/// void *NAME(ssize_t size, int device, cudaStream_t stream); // null where there is no memory
/// void NAME(void *ptr, ssize_t size, int device, cudaStream_t stream);
/// ```
///
/// The library becomes part of the program, and is trusted as the program is: what it gives must be memory of that device of at least
/// `size` bytes, aligned to 16, that nobody else uses until it is taken back. On emulated devices it gives memory of the host.
#[derive(Clone)]
pub struct CUDAPluggableAllocator(pub(crate) Arc<dyn Any + Send + Sync>);
impl fmt::Debug for CUDAPluggableAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CUDAPluggableAllocator")
    }
}
impl CUDAPluggableAllocator {
    /// Loads a library. Panics with the text of [`CUDAPluggableAllocator::try_new`]'s error.
    #[track_caller]
    pub fn new(path_to_so_file: impl AsRef<Path>, alloc_fn_name: &str, free_fn_name: &str) -> Self {
        expect(Self::try_new(path_to_so_file, alloc_fn_name, free_fn_name))
    }
    /// Loads a library. No device is started.
    ///
    /// # Errors
    /// The system refuses the file, or it has no such function; the library was built without CUDA.
    pub fn try_new(
        path_to_so_file: impl AsRef<Path>,
        alloc_fn_name: &str,
        free_fn_name: &str,
    ) -> Result<Self> {
        match installed() {
            Some(r) => r
                .load_allocator(path_to_so_file.as_ref(), alloc_fn_name, free_fn_name)
                .map(CUDAPluggableAllocator),
            None => absent(),
        }
    }
}
/// Lets all memory of devices come from another allocator from here on. Panics with the text of
/// [`try_change_current_allocator`]'s error.
#[track_caller]
pub fn change_current_allocator(allocator: &CUDAPluggableAllocator) {
    expect(try_change_current_allocator(allocator));
}
/// Lets all memory of devices come from another allocator from here on: each tensor's is asked for and given back at once, nothing is
/// cut, kept or counted.
///
/// # Errors
/// A device was used already; the library was built without CUDA.
#[doc(alias = "torch.cuda.memory.change_current_allocator")]
pub fn try_change_current_allocator(allocator: &CUDAPluggableAllocator) -> Result<()> {
    match installed() {
        Some(r) => r.change_allocator(allocator.0.clone()),
        None => absent(),
    }
}

/// Turns the allocator's cache on or off: without it each tensor's memory comes from the driver and goes back to it. What is cached stays
/// so. `PYTORCH_NO_CUDA_MEMORY_CACHING` in the environment turns it off for good.
pub fn caching_allocator_enable(value: bool) {
    answer(|r| r.enable_cache(value));
}
/// Runs a closure without the allocator's cache.
pub fn caching_allocator_disabled<R>(f: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            caching_allocator_enable(self.0);
        }
    }
    let _back = Back(enabled());
    caching_allocator_enable(false);
    f()
}
fn enabled() -> bool {
    answer(|r| r.is_cache_enabled()).unwrap_or(true)
}

#[cfg(feature = "by-name")]
pub(crate) use by_name::ROWS;
#[cfg(feature = "by-name")]
mod by_name {
    use super::{CUDAPluggableAllocator, caching_allocator_enable, enabled, try_change_current_allocator};
    use crate::Anything;
    use crate::by_name::{Answer as _, Bound, Row, Shown, given, object};
    use flambeau_core::types::order::Mutex;
    use flambeau_core::{Error, Result, Value};
    use std::sync::PoisonError;

    impl Shown for CUDAPluggableAllocator {
        const CLASS: &'static str = "CUDAPluggableAllocator";
        fn attribute(&self, _: &str) -> Option<Value> {
            None
        }
        fn method(&self, name: &str, _: &[Value]) -> Option<Result<Vec<Value>>> {
            // what it wraps is itself here
            (name == "allocator").then(|| Ok(vec![object(self.clone())]))
        }
        fn repr(&self) -> String {
            "<torch.cuda.memory.CUDAPluggableAllocator object>".into()
        }
    }
    pub(crate) const ROWS: &[Row] = &[
        ("torch.cuda", "CUDAPluggableAllocator", |a, k| {
            let names = &["path_to_so_file", "alloc_fn_name", "free_fn_name"];
            let mut b = Bound::new("CUDAPluggableAllocator", names, a, k)?;
            let (path, alloc, free): (String, String, String) = (b.required()?, b.required()?, b.required()?);
            CUDAPluggableAllocator::try_new(path, &alloc, &free).map(|a| vec![object(a)])
        }),
        ("torch.cuda", "change_current_allocator", |a, k| {
            let mut b = Bound::new("change_current_allocator", &["allocator"], a, k)?;
            let v = b.required::<Anything>()?.0;
            match given::<CUDAPluggableAllocator>(&v) {
                Some(a) => try_change_current_allocator(&a)?.answer(),
                None if super::installed().is_none() => super::absent(),
                None => {
                    Err(Error::attribute(format!("'{}' object has no attribute 'allocator'", v.type_name())))
                }
            }
        }),
        ("torch.cuda", "caching_allocator_enable", |a, k| {
            let mut b = Bound::new("caching_allocator_enable", &["value"], a, k)?;
            caching_allocator_enable(b.optional()?.unwrap_or(true));
            ().answer()
        }),
        ("torch.cuda", "caching_allocator_disabled", |a, k| {
            static BEFORE: Mutex<Vec<bool>> = Mutex::new(Vec::new());
            Bound::new("caching_allocator_disabled", &[], a, k)?.end();
            let enter = || {
                BEFORE.lock().unwrap_or_else(PoisonError::into_inner).push(enabled());
                caching_allocator_enable(false);
                Ok(())
            };
            let exit = || {
                let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).pop();
                caching_allocator_enable(before.unwrap_or(true));
            };
            Ok(vec![crate::stream::scope("caching_allocator_disabled", enter, exit)])
        }),
    ];
}
