//! What a back end may do with elements beside the kernels of rows: copies on its device, and formulas that the library asks
//! for itself. It stands apart from the table of memory, which storages use and which knows no tensor.

use crate::iter::spec::{PointwiseKernel, PointwiseSpec};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::keys::Key;
use std::sync::OnceLock;

/// What a back end does with elements.
pub trait Elements: Send + Sync {
    /// Copies the elements of `src`, which broadcasts to `dst`, cast to its dtype and with lazy bits worked out: both lie on
    /// the same device of this back end and share no memory. `false`, with nothing done, if it has no kernel for that.
    ///
    /// # Errors
    /// Of the launch.
    fn copy_elements(&self, dst: &Tensor, src: &Tensor) -> Result<bool>;
    /// The kernel of a formula that the row has none of its own for here: of rows that the library asks for itself, like the
    /// negation of lazy bits. `None`: the CPU computes it.
    fn pointwise(&self, spec: &'static PointwiseSpec) -> Option<PointwiseKernel>;
    /// A number of the host (a tensor of no dimensions) that a kernel is about to read, on the device: a back end may keep
    /// those that it met before. Nobody writes to what it gives. `None`: it is copied.
    ///
    /// # Errors
    /// No memory on the device.
    fn constant(&self, _number: &Tensor, _device: Device) -> Result<Option<Tensor>> {
        Ok(None)
    }
}

static ALL: [OnceLock<&'static dyn Elements>; Key::LINKED] = [const { OnceLock::new() }; Key::LINKED];

/// Brings what a back end does with elements; the first one stays. Without it elements go by way of the host.
pub fn bring(key: Key, elements: &'static dyn Elements) -> bool {
    key.linked().is_some_and(|i| ALL[i].set(elements).is_ok())
}
pub(super) fn of(device: Device) -> Option<&'static dyn Elements> {
    ALL[device.key_set().highest()?.linked()?].get().copied()
}
