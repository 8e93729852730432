//! NVIDIA's library of collectives (NCCL), for the engine of `torch.distributed` that stands on it: the feature `nccl`. Work is queued on
//! the thread's stream of the tensors' device, in the order of the calls.

use crate::device::{here, ordinal};
pub use crate::driver::nccl::Reduction;
use crate::driver::nccl::{self as raw, Raw};
use crate::driver::{Address, driver};
use crate::kernels::{self, lists};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{DType, Device, Result, Tensor, ensure};
use std::sync::PoisonError;

/// Whether the library is there.
pub fn is_present() -> bool {
    raw::is_present()
}
/// Its version, as 10000 * major + 100 * minor + patch.
///
/// # Errors
/// It is not there.
pub fn version() -> Result<i64> {
    raw::version()
}
/// How many devices this process sees.
pub fn devices() -> usize {
    crate::device::count()
}
/// What the ranks of a new communicator agree on, made by one of them.
///
/// # Errors
/// The library is not there.
pub fn unique_id() -> Result<[u8; 128]> {
    raw::unique_id()
}

/// One device of one process among others.
pub struct Communicator {
    raw: Mutex<Raw>,
    device: usize,
    size: usize,
}
impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicator(device {}, {} ranks)", self.device, self.size)
    }
}
impl Communicator {
    /// Waits for the other ranks of this id.
    ///
    /// # Errors
    /// No library, no such device, ranks that cannot be reached.
    pub fn new(id: &[u8; 128], rank: usize, size: usize, device: Device) -> Result<Communicator> {
        let device = ordinal(device)?;
        // the thread's device becomes that one, which the library asks for
        driver()?.shared_stream(device, here(device)?)?;
        Ok(Communicator { raw: Mutex::new(Raw::new(id, rank, size)?), device, size })
    }
    fn begin(&self) -> Result<(MutexGuard<'_, Raw>, u64)> {
        lists::flush()?;
        let stream = driver()?.shared_stream(self.device, here(self.device)?)?;
        let raw = self.raw.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(!raw.is_over(), Runtime, "NCCL communicator was aborted");
        Ok((raw, stream))
    }
    fn at(&self, t: &Tensor) -> Result<Address> {
        ensure!(
            ordinal(t.device())? == self.device,
            Runtime,
            "a tensor on {} for a communicator of cuda:{}",
            t.device(),
            self.device
        );
        ensure!(t.is_contiguous() && !t.is_conj() && !t.is_neg(), Value, "Tensors must be contiguous");
        kernels::address(t)
    }
    fn elements(t: &Tensor) -> (usize, DType) {
        (t.numel() as usize, t.dtype())
    }
    /// The root's elements for all.
    ///
    /// # Errors
    /// Of the library; a tensor of another device or that is not contiguous. So are those of the other methods.
    pub fn broadcast(&self, t: &Tensor, root: usize) -> Result<()> {
        let (raw, on) = self.begin()?;
        raw.broadcast(self.at(t)?, Self::elements(t), root, on)?;
        t.storage().bump_version();
        Ok(())
    }
    /// All ranks' elements, reduced, for all.
    ///
    /// # Errors
    /// See [`Communicator::broadcast`]; elements that are only moved.
    pub fn all_reduce(&self, from: &Tensor, to: &Tensor, op: Reduction) -> Result<()> {
        let (raw, on) = self.begin()?;
        ensure!(from.numel() == to.numel() && from.dtype() == to.dtype(), Value, "tensors that differ");
        raw.all_reduce((self.at(from)?, self.at(to)?), Self::elements(to), op, on)?;
        to.storage().bump_version();
        Ok(())
    }
    /// All ranks' elements, reduced, for the root.
    ///
    /// # Errors
    /// See [`Communicator::all_reduce`].
    pub fn reduce(&self, t: &Tensor, root: usize, op: Reduction) -> Result<()> {
        let (raw, on) = self.begin()?;
        raw.reduce(self.at(t)?, Self::elements(t), op, root, on)?;
        t.storage().bump_version();
        Ok(())
    }
    /// All ranks' elements for all, in their order.
    ///
    /// # Errors
    /// See [`Communicator::broadcast`]; an output that is not as long as all of them.
    pub fn all_gather(&self, from: &Tensor, to: &Tensor) -> Result<()> {
        let (raw, on) = self.begin()?;
        self.times(from, to)?;
        raw.all_gather((self.at(from)?, self.at(to)?), Self::elements(from), on)?;
        to.storage().bump_version();
        Ok(())
    }
    /// All ranks' elements, reduced, a part for each.
    ///
    /// # Errors
    /// See [`Communicator::all_reduce`]; an input that is not as long as all outputs.
    pub fn reduce_scatter(&self, from: &Tensor, to: &Tensor, op: Reduction) -> Result<()> {
        let (raw, on) = self.begin()?;
        self.times(to, from)?;
        raw.reduce_scatter((self.at(from)?, self.at(to)?), Self::elements(to), op, on)?;
        to.storage().bump_version();
        Ok(())
    }
    fn times(&self, one: &Tensor, all: &Tensor) -> Result<()> {
        let fits = all.numel() == one.numel() * self.size as i64 && all.dtype() == one.dtype();
        ensure!(fits, Value, "output tensor size must be equal to world_size times input tensor size");
        Ok(())
    }
    /// Messages of both directions that go at once, each with its peer.
    ///
    /// # Errors
    /// See [`Communicator::broadcast`].
    pub fn exchange(&self, sends: &[(usize, Tensor)], recvs: &[(usize, Tensor)]) -> Result<()> {
        let (raw, on) = self.begin()?;
        let each = |all: &[(usize, Tensor)]| -> Result<Vec<_>> {
            all.iter()
                .filter(|x| x.1.numel() > 0)
                .map(|(p, t)| {
                    ensure!(*p < self.size, Value, "a peer {p} of {} ranks", self.size);
                    Ok((*p, self.at(t)?, Self::elements(t)))
                })
                .collect()
        };
        let (out, into) = (each(sends)?, each(recvs)?);
        raw::together(|| {
            out.iter().try_for_each(|(p, at, e)| raw.send(*at, *e, *p, on))?;
            into.iter().try_for_each(|(p, at, e)| raw.recv(*at, *e, *p, on))
        })?;
        recvs.iter().for_each(|(_, t)| t.storage().bump_version());
        Ok(())
    }
    /// Ends what is under way; calls fail from then on.
    pub fn abort(&self) {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner).abort();
    }
    /// Waits until all that was queued is done.
    ///
    /// # Errors
    /// Of the driver.
    pub fn wait(&self) -> Result<()> {
        lists::flush()?;
        driver()?.wait(self.device, here(self.device)?)
    }
}
