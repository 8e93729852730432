//! Devices.

use crate::ensure;
use crate::types::error::{Error, Result, expect};
use crate::types::keys::{Key, KeySet};
use std::fmt;
use std::sync::OnceLock;

/// Where a tensor's data lives (`torch.device`).
#[doc(alias = "torch.device")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Device {
    /// The CPU.
    Cpu,
    /// A CUDA device by ordinal.
    Cuda(u16),
    /// No data, only shapes.
    #[doc(alias = "meta-device")]
    Meta,
    /// A back end from outside the project, by ordinal.
    Private(u16),
}

impl Device {
    /// A CUDA device by ordinal.
    pub const fn cuda(index: u16) -> Device {
        Device::Cuda(index)
    }
    /// `cpu`, `cuda:0`, `meta`.
    pub fn parse(s: &str) -> Result<Device> {
        let (kind, index) = match s.split_once(':') {
            Some((k, i)) => (k, Some(i)),
            None => (s, None),
        };
        let ordinal = || match index {
            None => Ok(0),
            // one spelling per ordinal: no sign, no leading zeros
            Some(i) => match i.parse::<u16>() {
                Ok(n) if n.to_string() == i => Ok(n),
                _ => Err(Error::runtime(format!("Invalid device string: '{s}'"))),
            },
        };
        ensure!(!s.is_empty(), Runtime, "Device string must not be empty");
        match kind {
            "cpu" => ordinal().map(|_| Device::Cpu),
            "meta" => ordinal().map(|_| Device::Meta),
            "cuda" => ordinal().map(Device::Cuda),
            k if k == private_name() || k == "privateuseone" => ordinal().map(Device::Private),
            _ => Err(Error::runtime(format!(
                "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, \
                 vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: {kind}"
            ))),
        }
    }
    /// `cpu`, `cuda`, `meta`, and `privateuseone` or what [`rename_privateuse1_backend`] made of it.
    pub fn kind(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda",
            Device::Meta => "meta",
            Device::Private(_) => private_name(),
        }
    }
    /// The ordinal, for devices that have one.
    pub fn index(self) -> Option<u16> {
        match self {
            Device::Cuda(i) | Device::Private(i) => Some(i),
            _ => None,
        }
    }
    /// The dispatch key of strided tensors on this device.
    #[inline]
    pub const fn key_set(self) -> KeySet {
        KeySet::of(match self {
            Device::Cpu => Key::Cpu,
            Device::Cuda(_) => Key::Cuda,
            Device::Meta => Key::Meta,
            Device::Private(_) => Key::Private,
        })
    }
}
/// The link-time list of names for devices of a back end from outside the project; the first one counts. A crate adds its
/// own with `#[linkme::distributed_slice(flambeau_core::types::device::PRIVATE_NAMES)] static MINE: &str = "name";`
#[cfg(not(miri))]
#[allow(unsafe_code)]
#[linkme::distributed_slice]
pub static PRIVATE_NAMES: [&'static str];

static PRIVATE: OnceLock<&'static str> = OnceLock::new();
fn private_name() -> &'static str {
    #[cfg(not(miri))]
    let linked = PRIVATE_NAMES.iter().next().copied();
    #[cfg(miri)]
    let linked = None;
    PRIVATE.get().copied().or(linked).unwrap_or("privateuseone")
}
/// Gives devices of a back end from outside the project ([`Device::Private`]) a name of their own: once in a program.
///
/// # Errors
/// They have another name already, or the name is one of PyTorch's devices.
#[doc(alias = "torch.utils.rename_privateuse1_backend")]
pub fn rename_privateuse1_backend(name: &'static str) -> Result<()> {
    if matches!(name, "cpu" | "cuda" | "meta") {
        return Err(Error::runtime(format!("Cannot register foreign backend with reserved name {name}")));
    }
    if *PRIVATE.get_or_init(|| name) != name {
        return Err(Error::runtime(format!(
            "torch.register_privateuse1_backend() has already been set! Current backend: {}",
            private_name()
        )));
    }
    Ok(())
}
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index() {
            Some(i) => write!(f, "{}:{i}", self.kind()),
            None => f.write_str(self.kind()),
        }
    }
}
/// A device by its name, for functions that take either: `TensorOptions::new().device("cuda:0")`. A text that names no device
/// panics with PyTorch's words; [`Device::parse`] and `"cuda:0".parse()` give the error.
impl From<&str> for Device {
    #[track_caller]
    fn from(s: &str) -> Device {
        expect(Device::parse(s))
    }
}
/// The device of this name: `torch::device("cuda:0")`. Panics with PyTorch's words where it names none.
///
/// ```
/// let device = torch::device("meta");
/// assert_eq!(torch::zeros_with([2, 3], device).device(), torch::Device::Meta);
/// ```
#[track_caller]
#[doc(alias = "torch.device")]
pub fn device(name: &str) -> Device {
    name.into()
}
/// [`device`] with an error instead of a panic.
///
/// # Errors
/// A text that names no device.
pub fn try_device(name: &str) -> Result<Device> {
    Device::parse(name)
}
impl std::str::FromStr for Device {
    type Err = Error;
    fn from_str(s: &str) -> Result<Device> {
        Device::parse(s)
    }
}
