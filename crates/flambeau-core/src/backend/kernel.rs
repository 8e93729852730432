//! The kernels of a structured row, one per back end, which its operators find by the device of their output.

use crate::dispatch::op::{AnyOp, Kernels};
use crate::tensor::geometry::too_large;
use crate::tensor::handle::Tensor;
use crate::types::call::Call;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::keys::Key;
use flambeau_cpu::engine::room::{NoRoom, attempt};

/// The kernels of a row: functions of one type `F`, one per back end. The row's operators, which check and allocate, find
/// theirs here by the device of the output.
pub struct Kernel<F: Copy> {
    cpu: F,
    others: Kernels<F>,
}

impl<F: Copy> Kernel<F> {
    /// The CPU's kernel and the operators that run it.
    pub const fn new(cpu: F, forms: &'static [&'static dyn AnyOp]) -> Self {
        Kernel { cpu, others: Kernels::new(forms) }
    }
    /// Brings the kernel of the back end `key`: from now on all forms of the row (functional, in place, `out=`) run on its
    /// devices. The first kernel stays; later ones return `false`.
    pub fn register(&self, key: Key, kernel: F) -> bool {
        self.others.register(key, kernel)
    }
    /// Lets the CPU's kernel serve the back end `key` as well: one that calls rows alone, which have kernels there.
    pub fn share(&self, key: Key) -> bool {
        self.register(key, self.cpu)
    }
    /// The kernel for outputs on `device`; none on the meta device, where sizes are all there is.
    ///
    /// # Errors
    /// The device's back end has none.
    #[inline(always)]
    pub fn of(&self, device: Device) -> Result<Option<F>> {
        if device == Device::Cpu { Ok(Some(self.cpu)) } else { self.others.find(device) }
    }
    /// Runs the kernel for outputs on `device`, if there is one, by `call` ([`soft`]).
    ///
    /// # Errors
    /// Those of [`Kernel::of`] and of the kernel; no memory.
    #[inline(never)]
    pub fn run(&self, device: Device, call: &mut dyn Call<F, Result<()>>) -> Result<()> {
        match self.of(device)? {
            Some(kernel) => soft_one(&mut |()| call.call(kernel)),
            None => Ok(()),
        }
    }
    /// Whether there is a kernel for `device`: not on the meta device, where a composition says the same.
    pub fn serves(&self, device: Device) -> bool {
        device == Device::Cpu || self.others.get(device).is_some()
    }
    /// The kernel of a row whose results' sizes depend on data, for inputs on `device`.
    ///
    /// # Errors
    /// The device's back end has none; the meta device, where there is no data.
    pub fn here(&self, device: Device) -> Result<F> {
        self.of(device)?
            .ok_or_else(|| Error::unsupported("results whose size depends on data have no meta form"))
    }
}

/// Runs a kernel, and makes an error of its want of work memory (`flambeau_cpu::engine::room`): what a kernel needs beside
/// its tensors follows from their sizes, and a list without memory would end the process.
///
/// # Errors
/// The kernel's own; no memory.
#[inline]
pub fn soft<R>(kernel: impl FnOnce() -> Result<R>) -> Result<R> {
    attempt(kernel).unwrap_or_else(|NoRoom(bytes)| Err(too_large(bytes)))
}

/// [`soft`] for what gives nothing: there is one of it.
#[inline(never)]
fn soft_one(kernel: &mut dyn Call<(), Result<()>>) -> Result<()> {
    soft(|| kernel.call(()))
}

/// What a kernel outside the CPU wrote counts as a write. The CPU's kernels count theirs by their holds.
pub fn written(t: &Tensor) {
    if t.device() != Device::Cpu {
        t.storage().bump_version();
    }
}
