//! What a program may ask of devices and engines, whether they are there or not: `torch.cuda`, `torch.xpu`, `torch.mps`,
//! `torch.mtia`, `torch.cpu`, `torch.accelerator`, `torch.Stream`, `torch.Event` and `torch.backends`.
//!
//! Of an accelerator that the library was built without, these names answer as a PyTorch does that was built without it: no device,
//! nothing allocated, empty statistics, and an error where a device would have to work. Switches of engines that are not there
//! can be set and read; those with a meaning on the CPU have it.
//!
//! ```
//! // the usual choice of a device compiles and runs everywhere
//! let device = if torch::cuda::is_available() { torch::Device::cuda(0) } else { torch::Device::Cpu };
//! assert_eq!(torch::ones([2]).to(device).device(), device);
//! assert_eq!(torch::cuda::device_count(), 0);
//! assert_eq!(torch::cuda::memory_allocated(), 0);
//! let e = torch::cuda::try_synchronize().unwrap_err();
//! assert_eq!(e.message(), "Torch not compiled with CUDA enabled");
//! ```
#![deny(unsafe_code)]
#![recursion_limit = "1024"]

mod table;

pub mod accelerator;
pub mod backends;
#[cfg(feature = "by-name")]
mod by_name;
pub mod cpu;
pub mod cuda;
pub mod mps;
pub mod mtia;
pub mod stream;
mod switches;
pub mod xpu;

use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::{Device, Error, Result};
use std::collections::BTreeMap;

/// Statistics by name.
pub type Stats = BTreeMap<String, i64>;

/// A device of a kind by its number; by name also as text (`"cuda:1"`) or as a device. The current one is -1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ordinal(pub i64);
impl From<i64> for Ordinal {
    fn from(i: i64) -> Ordinal {
        Ordinal(i)
    }
}
impl From<Device> for Ordinal {
    fn from(d: Device) -> Ordinal {
        match d {
            Device::Cuda(i) | Device::Private(i) => Ordinal(i64::from(i)),
            _ => Ordinal(-1),
        }
    }
}
impl FromValue for Ordinal {
    fn from_value(v: &Value) -> Result<Ordinal> {
        match v {
            Value::None => Ok(Ordinal(-1)),
            Value::Int(i) => Ok(Ordinal(*i)),
            Value::Device(d) => Ok((*d).into()),
            Value::Str(s) => match s.split_once(':') {
                None => Ok(Ordinal(-1)),
                Some((_, n)) => n
                    .parse()
                    .map(Ordinal)
                    .map_err(|_| Error::runtime(format!("Invalid device string: '{s}'"))),
            },
            v => Err(Error::type_(format!(
                "device(): argument 'device' must be torch.device, not {}",
                v.type_name()
            ))),
        }
    }
}

/// A value of any type, where nothing depends on it.
#[derive(Clone, Debug)]
pub struct Anything(pub Value);
impl FromValue for Anything {
    fn from_value(v: &Value) -> Result<Anything> {
        Ok(Anything(v.clone()))
    }
}

#[cfg(feature = "by-name")]
const ROWS: &[&[by_name::Row]] = &[
    accelerator::NAMES,
    accelerator::BY_HAND,
    accelerator::GRAPH,
    backends::NAMES_CPU,
    backends::NAMES_MKL,
    backends::NAMES_MPS,
    backends::NAMES_NNPACK,
    backends::NAMES_OPENMP,
    backends::NAMES_KLEIDIAI,
    backends::NAMES_EINSUM,
    backends::NAMES_MKLDNN,
    backends::NAMES_CUDNN,
    backends::NAMES_CUSPARSELT,
    backends::NAMES_MHA,
    backends::cuda::NAMES,
    backends::cuda::BY_HAND,
    backends::cuda::cufft_plan_cache::NAMES,
    cpu::NAMES,
    cpu::BY_HAND,
    cuda::NAMES,
    cuda::BY_HAND,
    cuda::STREAM,
    cuda::EXTERNAL_STREAM,
    cuda::EVENT,
    cuda::graphs::GRAPH,
    cuda::comm::NAMES,
    cuda::gds::NAMES,
    cuda::gds::FILE,
    cuda::memory::NAMES,
    cuda::pluggable::ROWS,
    cuda::history::ROWS,
    cuda::graphs::POOL,
    cuda::host::NAMES,
    cuda::nvtx::NAMES,
    cuda::profiler::NAMES,
    cuda::tunable::NAMES,
    cuda::tunable::BY_HAND,
    mps::NAMES,
    mps::BY_HAND,
    mps::EVENT,
    mps::STREAM,
    mps::profiler::NAMES,
    mtia::NAMES,
    mtia::BY_HAND,
    mtia::GRAPH,
    stream::ROWS,
    xpu::NAMES,
    xpu::BY_HAND,
    xpu::STREAM,
    xpu::EVENT,
    xpu::GRAPH,
    xpu::POOL,
    xpu::ALLOCATOR,
];
