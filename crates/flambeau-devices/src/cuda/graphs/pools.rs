//! Pools of device memory (`torch.cuda.MemPool`).

use crate::cuda::pluggable::CUDAPluggableAllocator;
use crate::cuda::runtime::{PoolId, Segment, answer, of_runtime};
use flambeau_core::Result;
use flambeau_core::api::ergonomic::expect;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number for a pool: the second of the two of those that somebody asked for.
pub(crate) fn handle(by_user: bool) -> PoolId {
    static BY_USERS: AtomicU64 = AtomicU64::new(1);
    static OF_GRAPHS: AtomicU64 = AtomicU64::new(1);
    match by_user {
        true => (0, BY_USERS.fetch_add(1, Ordering::Relaxed)),
        false => (OF_GRAPHS.fetch_add(1, Ordering::Relaxed), 0),
    }
}
/// A number that graphs share memory by.
#[doc(alias = "torch.cuda.graph_pool_handle")]
pub fn graph_pool_handle() -> PoolId {
    handle(true)
}

/// A pool of memory of its own: what is allocated while [`use_mem_pool`] names it comes from it, and goes back to it. Its memory
/// goes back to the driver when nobody uses the pool any more. Clones are the same pool.
///
/// ```no_run
/// use torch::cuda;
/// let pool = cuda::MemPool::new();
/// let x = cuda::use_mem_pool(&pool, || torch::zeros([1 << 20]).to(torch::Device::cuda(0)));
/// assert!(pool.snapshot().iter().map(|s| s.total_size).sum::<i64>() >= 4 << 20);
/// # drop(x);
/// ```
#[derive(Clone, Debug)]
pub struct MemPool(Arc<Own>);
#[derive(Debug)]
struct Own {
    device: i64,
    id: PoolId,
}
impl Drop for Own {
    fn drop(&mut self) {
        answer(|r| r.pool_release(self.device, self.id));
    }
}
impl MemPool {
    /// A pool of the current device. Panics with the text of [`MemPool::try_new`]'s error.
    #[track_caller]
    #[allow(clippy::new_without_default)]
    pub fn new() -> MemPool {
        expect(MemPool::try_new(false, false))
    }
    /// A pool of the current device. `use_on_oom`: others may have its free blocks before they are told that there is no memory.
    /// `no_split`: its segments are never cut into blocks.
    ///
    /// # Errors
    /// There is no device.
    pub fn try_new(use_on_oom: bool, no_split: bool) -> Result<MemPool> {
        let id = handle(true);
        let device = of_runtime(|r| {
            let device = r.current_device()?;
            r.pool_retain(device, id, Some((use_on_oom, no_split)))?;
            Ok(device)
        })?;
        Ok(MemPool(Arc::new(Own { device, id })))
    }
    /// A pool of the current device whose memory an allocator of somebody's gives ([`super::super::CUDAPluggableAllocator`]).
    ///
    /// # Errors
    /// There is no device.
    pub fn with_allocator(
        allocator: &CUDAPluggableAllocator,
        use_on_oom: bool,
        no_split: bool,
    ) -> Result<MemPool> {
        let pool = MemPool::try_new(use_on_oom, no_split)?;
        of_runtime(|r| r.pool_source(pool.0.device, pool.0.id, allocator.0.clone()))?;
        Ok(pool)
    }
    /// Its number.
    pub fn id(&self) -> PoolId {
        self.0.id
    }
    /// How many use it: this object, those who allocate from it now, and graphs.
    pub fn use_count(&self) -> i64 {
        answer(|r| r.pool_uses(self.0.device, self.0.id)).unwrap_or(0)
    }
    /// Its segments.
    pub fn snapshot(&self) -> Vec<Segment> {
        let all = answer(|r| r.segments(self.0.device)).unwrap_or_default();
        all.into_iter().filter(|s| s.pool == self.0.id).collect()
    }
}

/// Until it is dropped, the thread's allocations come from a pool.
pub(crate) struct Routed {
    device: i64,
    pool: MemPool,
}
impl Routed {
    pub(crate) fn to(pool: &MemPool, device: Option<i64>) -> Result<Routed> {
        of_runtime(|r| {
            let device = device.map_or_else(|| r.current_device(), Ok)?;
            r.pool_route(device, pool.0.id, true)?;
            Ok(Routed { device, pool: pool.clone() })
        })
    }
}
impl Drop for Routed {
    fn drop(&mut self) {
        let _ = answer(|r| r.pool_route(self.device, self.pool.0.id, false));
    }
}
/// Lets the allocations of a closure, on this thread and the current device, come from a pool. Panics with the text of
/// [`try_use_mem_pool`]'s error.
#[track_caller]
pub fn use_mem_pool<R>(pool: &MemPool, f: impl FnOnce() -> R) -> R {
    expect(try_use_mem_pool(pool, None, f))
}
/// Lets the allocations of a closure, on this thread and one device, come from a pool.
///
/// # Errors
/// There is no such device.
pub fn try_use_mem_pool<R>(pool: &MemPool, device: Option<i64>, f: impl FnOnce() -> R) -> Result<R> {
    let _routed = Routed::to(pool, device)?;
    Ok(f())
}
