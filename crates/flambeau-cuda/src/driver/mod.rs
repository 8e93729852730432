//! What the back end asks of a driver, and the two that there are: NVIDIA's, and an emulated one that runs the same sources
//! on the CPU.

pub(crate) mod compiler;
pub(crate) mod emulated;
pub(crate) mod library;
pub(crate) mod products;
pub(crate) mod real;

use flambeau_core::{Error, Result};
use flambeau_devices::cuda::runtime::Properties;
use std::sync::{Arc, OnceLock};

/// An address of device memory. Only kernels follow it.
pub(crate) type Address = u64;
/// A stream's number on its device; 0 is the default one.
pub(crate) type Stream = u64;

/// Threads of a launch: blocks, and threads of a block, in one dimension each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
}

/// A compiled source.
pub(crate) enum Module {
    /// A library of the host.
    Host(library::Library),
    /// One of the real driver, by its handle, with the device that it was loaded on.
    Device(real::Loaded),
}

/// A kernel of a module.
pub(crate) enum Function {
    Host(library::Kernel),
    Device(real::Entry),
}

/// A driver. Work of one stream runs in the order of the calls, and of several in any.
pub(crate) trait Driver: Send + Sync {
    fn device_count(&self) -> usize;
    fn properties(&self, device: usize) -> Result<Properties>;
    /// Memory; `None` where the device has no more.
    fn allocate(&self, device: usize, nbytes: usize) -> Result<Option<Address>>;
    fn free(&self, device: usize, address: Address);
    /// Free and all bytes.
    fn memory(&self, device: usize) -> Result<(u64, u64)>;
    fn upload(&self, device: usize, stream: Stream, to: Address, from: &[u8]) -> Result<()>;
    /// Waits for what the stream had to do before.
    fn download(&self, device: usize, stream: Stream, from: Address, to: &mut [u8]) -> Result<()>;
    fn copy(&self, device: usize, stream: Stream, from: Address, to: Address, nbytes: usize) -> Result<()>;
    fn fill(&self, device: usize, stream: Stream, to: Address, byte: u8, nbytes: usize) -> Result<()>;
    /// Compiles a source, or finds it compiled.
    fn load(&self, device: usize, source: &str) -> Result<Module>;
    /// The kernel of that name.
    fn find(&self, device: usize, module: &Arc<Module>, name: &str) -> Result<Function>;
    fn launch(
        &self,
        device: usize,
        stream: Stream,
        function: &Function,
        shape: Shape,
        params: &[u8],
    ) -> Result<()>;
    /// Whether compiling all kernels of a family takes hardly longer than one, so that they are best compiled together.
    fn compiles_families(&self) -> bool;
    /// Queues a product by a library of the device's maker; `false` where there is none for it.
    fn product(&self, device: usize, stream: Stream, product: &products::Product) -> Result<bool>;
    fn new_stream(&self, device: usize) -> Result<Stream>;
    fn done(&self, device: usize, stream: Stream) -> Result<bool>;
    fn wait(&self, device: usize, stream: Stream) -> Result<()>;
    fn wait_all(&self, device: usize) -> Result<()>;
    /// An event behind the work of a stream.
    fn record(&self, device: usize, stream: Stream) -> Result<u64>;
    fn passed(&self, device: usize, event: u64) -> Result<bool>;
    fn wait_event(&self, device: usize, event: u64) -> Result<()>;
    /// Lets what comes later in a stream wait for an event.
    fn order(&self, device: usize, stream: Stream, event: u64) -> Result<()>;
    fn elapsed(&self, device: usize, start: u64, end: u64) -> Result<f64>;
}

/// The driver of this program, chosen at the first question: `FLAMBEAU_CUDA=emulated[:N]`, or NVIDIA's.
///
/// # Errors
/// There is none: what to install.
pub(crate) fn driver() -> Result<&'static dyn Driver> {
    static DRIVER: OnceLock<std::result::Result<Box<dyn Driver>, Error>> = OnceLock::new();
    let found = DRIVER.get_or_init(|| {
        let asked = std::env::var("FLAMBEAU_CUDA").unwrap_or_default();
        match asked.split_once(':').map_or((asked.as_str(), None), |(kind, n)| (kind, Some(n))) {
            ("emulated", n) => {
                let n = n.map_or(Ok(1), str::parse::<usize>);
                let n = n.ok().filter(|n| (1..=64).contains(n)).ok_or_else(|| {
                    Error::value(format!("FLAMBEAU_CUDA={asked}: a number of devices from 1 to 64"))
                })?;
                Ok(Box::new(emulated::Emulated::new(n)?) as Box<dyn Driver>)
            }
            ("", None) => Ok(Box::new(real::Real::new()?) as Box<dyn Driver>),
            _ => Err(Error::value(format!("FLAMBEAU_CUDA={asked}: only emulated or emulated:N is known"))),
        }
    });
    match found {
        Ok(d) => Ok(&**d),
        Err(e) => Err(e.clone()),
    }
}
