//! What a back end may do with elements beside the kernels of rows: copies on its device, and formulas that the library asks
//! for itself. It stands apart from the table of memory, which storages use and which knows no tensor.

use crate::iter::spec::{PointwiseKernel, PointwiseSpec};
use crate::tensor::handle::Tensor;
use crate::tensor::storage::{HostMemory, Storage};
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::keys::Key;
use crate::types::scalar::Scalar;
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
    /// Writes one element, given by its bytes, to all places of `out`, which has no lazy bits. `false`, with nothing done, if
    /// it has no kernel for that.
    ///
    /// # Errors
    /// Of the launch.
    fn fill(&self, _out: &Tensor, _element: &[u8]) -> Result<bool> {
        Ok(false)
    }
    /// Writes a sequence of numbers into a fresh vector. `false`, with nothing done, if it has no kernel for that.
    ///
    /// # Errors
    /// Of the launch.
    fn sequence(&self, _out: &Tensor, _sequence: &Sequence) -> Result<bool> {
        Ok(false)
    }
    /// Memory of the host that the devices read by themselves.
    ///
    /// # Errors
    /// There is none, or no more.
    fn pin(&self, _nbytes: usize) -> Result<Box<dyn HostMemory>> {
        Err(Error::missing("pinned memory of this back end"))
    }
    /// Whether a storage of the host has such memory.
    fn is_pinned(&self, _storage: &Storage) -> bool {
        false
    }
    /// Asked before a copy that a program wants between the host, of pinned memory or not, and a device.
    ///
    /// # Errors
    /// The device takes none now.
    fn may_copy(&self, _device: Device, _pinned: bool) -> Result<()> {
        Ok(())
    }
    /// Copies all bytes of `src`, which lies dense in pinned memory, to `dst`, which lies likewise on a device. The copy may happen
    /// after the call. `false`, with nothing done, if it has no such copies.
    ///
    /// # Errors
    /// Of the transfer.
    fn copy_pinned(&self, _dst: &Tensor, _src: &Tensor) -> Result<bool> {
        Ok(false)
    }
}

/// Numbers that follow from their places.
#[derive(Clone, Copy, Debug)]
pub enum Sequence {
    /// `start + i step`, wrapped.
    Whole {
        /// The first number.
        start: i64,
        /// From one to the next.
        step: i64,
    },
    /// `start + i step` in float64.
    Steps {
        /// The first number.
        start: f64,
        /// From one to the next.
        step: f64,
    },
    /// `n` numbers between two ends, the second half counted from the end.
    Ends {
        /// The first number.
        start: f64,
        /// The last one.
        end: f64,
        /// How many.
        n: i64,
        /// Computed in float32, with one rounding for product and sum.
        single: bool,
        /// Cut to integers.
        whole: bool,
    },
}
impl Sequence {
    /// From one number to the next.
    pub fn step(&self) -> f64 {
        match *self {
            Sequence::Whole { step, .. } => step as f64,
            Sequence::Steps { step, .. } => step,
            Sequence::Ends { start, end, n, single: false, .. } => (end - start) / (n - 1).max(1) as f64,
            Sequence::Ends { start, end, n, .. } => {
                f64::from((end as f32 - start as f32) / (n - 1).max(1) as f32)
            }
        }
    }
    /// The number at a place.
    pub fn at(&self, i: i64) -> Scalar {
        match *self {
            Sequence::Whole { start, step } => Scalar::Int(start.wrapping_add(i.wrapping_mul(step))),
            Sequence::Steps { start, step } => Scalar::Float(start + i as f64 * step),
            Sequence::Ends { start, end, n, single: true, .. } => {
                let (s, e, d) = (start as f32, end as f32, self.step() as f32);
                let v = match i {
                    _ if n == 1 => s,
                    _ if i < n / 2 => d.mul_add(i as f32, s),
                    _ => (-d).mul_add((n - i - 1) as f32, e),
                };
                Scalar::Float(f64::from(v))
            }
            Sequence::Ends { start, end, n, whole, .. } => {
                let d = self.step();
                let front = i < n / 2 || n == 1;
                let v = if front { start + d * i as f64 } else { end - d * (n - i - 1) as f64 };
                if whole { Scalar::Int(v as i64) } else { Scalar::Float(v) }
            }
        }
    }
    /// Whether the numbers are integers.
    pub fn whole(&self) -> bool {
        matches!(self, Sequence::Whole { .. } | Sequence::Ends { whole: true, .. })
    }
}

static ALL: [OnceLock<&'static dyn Elements>; Key::LINKED] = [const { OnceLock::new() }; Key::LINKED];

/// Brings what a back end does with elements; the first one stays. Without it elements go by way of the host.
pub fn bring(key: Key, elements: &'static dyn Elements) -> bool {
    key.linked().is_some_and(|i| ALL[i].set(elements).is_ok())
}
pub(crate) fn of(device: Device) -> Option<&'static dyn Elements> {
    ALL[device.key_set().highest()?.linked()?].get().copied()
}
