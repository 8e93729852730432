//! What the back end asks of a driver, and the two that there are: NVIDIA's, and an emulated one that runs the same sources
//! on the CPU.

pub(crate) mod captured;
pub(crate) mod compiler;
pub(crate) mod convolutions;
mod cupti;
pub(crate) mod emulated;
pub(crate) mod library;
pub(crate) mod mapped;
#[cfg(feature = "nccl")]
pub(crate) mod nccl;
pub(crate) mod pinned;
pub(crate) mod products;
pub(crate) mod real;
pub(crate) mod recorded;
pub(crate) mod shared;

use crate::allocator::config::Config;
use crate::ipc::Name;
use flambeau_core::{Error, Result};
use flambeau_devices::cuda::external::Live;
pub(crate) use flambeau_devices::cuda::runtime::CaptureMode;
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

/// Memory comes behind reserved addresses in pieces of this size, which every device takes.
pub(crate) const PAGE: usize = 2 << 20;
/// Work that a stream recorded instead of doing it.
pub(crate) enum Graph {
    Host(Arc<recorded::Recorded>),
    Device(captured::Captured),
}

/// Bytes in pinned memory of the host, which stay there until the copies from them are done: the allocator of such memory waits for
/// events behind them, and graphs keep what they read. Who hands them to a driver holds their storage for reading during the
/// call, and who launches a graph holds those of all its copies. A device reads them later too, by itself: a program that writes
/// meanwhile gets the old bytes or the new ones there.
#[derive(Clone, Copy)]
pub(crate) struct Pinned {
    pub(crate) address: usize,
    pub(crate) nbytes: usize,
}

/// A driver. Work of one stream runs in the order of the calls, and of several in any.
pub(crate) trait Driver: Send + Sync {
    fn device_count(&self) -> usize;
    fn properties(&self, device: usize) -> Result<Properties>;
    /// Memory; `None` where the device has no more.
    fn allocate(&self, device: usize, nbytes: usize) -> Result<Option<Address>>;
    fn free(&self, device: usize, address: Address);
    /// Memory that an allocator of the program's gave, as kernels know it.
    ///
    /// # Errors
    /// No such device.
    fn adopt(&self, _device: usize, address: u64, _nbytes: usize) -> Result<Address> {
        Ok(address)
    }
    /// Before it goes back there: its address as the allocator knows it. What was queued on it is done, or will be before the
    /// device takes what is queued later.
    fn disown(&self, _device: usize, address: Address) -> u64 {
        address
    }
    /// Addresses without memory behind them; `None` where there are no more.
    fn reserve(&self, device: usize, nbytes: usize) -> Result<Option<Address>>;
    /// Gives them back; no memory is behind them any more.
    fn unreserve(&self, device: usize, address: Address, nbytes: usize);
    /// Puts memory behind reserved addresses, in pages of [`PAGE`]; `false` where the device has no more.
    fn map(&self, device: usize, address: Address, nbytes: usize) -> Result<bool>;
    /// Takes it away, when all work that was queued is done.
    fn unmap(&self, device: usize, address: Address, nbytes: usize) -> Result<()>;
    /// Free and all bytes.
    fn memory(&self, device: usize) -> Result<(u64, u64)>;
    fn upload(&self, device: usize, stream: Stream, to: Address, from: &[u8]) -> Result<()>;
    /// Waits for what the stream had to do before.
    fn download(&self, device: usize, stream: Stream, from: Address, to: &mut [u8]) -> Result<()>;
    /// Pinned memory of the host: its address; `None` where there is no more. Its bytes are some valid ones.
    fn host_allocate(&self, nbytes: usize, how: &Config) -> Result<Option<usize>>;
    fn host_free(&self, address: usize, nbytes: usize);
    /// Copies bytes of pinned memory later, when the stream gets there.
    fn upload_pinned(&self, device: usize, stream: Stream, to: Address, from: Pinned) -> Result<()>;
    fn copy(&self, device: usize, stream: Stream, from: Address, to: Address, nbytes: usize) -> Result<()>;
    fn fill(&self, device: usize, stream: Stream, to: Address, byte: u8, nbytes: usize) -> Result<()>;
    /// Compiles a source, or finds it compiled.
    fn load(&self, device: usize, source: &str) -> Result<Module>;
    /// The kernel of that name.
    fn find(&self, device: usize, module: &Arc<Module>, name: &str) -> Result<Function>;
    /// Gives each block of a kernel so much shared memory, as `shared_bytes` of kernels/device/groups.cuh finds it.
    fn grant_shared(&self, function: &mut Function, nbytes: u32) -> Result<()>;
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
    /// Queues a convolution by a library of the device's maker, which works in what `room` gives; `false` where there is none
    /// for it.
    ///
    /// # Errors
    /// Of the driver.
    fn convolution(
        &self,
        _device: usize,
        _stream: Stream,
        _c: &convolutions::Convolution,
        _at: convolutions::Places,
        _room: &mut dyn FnMut(usize) -> Result<Address>,
    ) -> Result<bool> {
        Ok(false)
    }
    /// The version of that library; `None` where there is none.
    fn convolutions(&self) -> Option<i64> {
        None
    }
    fn new_stream(&self, device: usize) -> Result<Stream>;
    /// Whether there is such a stream.
    fn has_stream(&self, device: usize, stream: Stream) -> Result<bool>;
    /// The handle by which other libraries know a stream.
    fn stream_handle(&self, device: usize, stream: Stream) -> Result<u64>;
    /// The same for a library that queues work there: behind what was queued before, and before what will be.
    #[cfg(feature = "nccl")]
    fn shared_stream(&self, device: usize, stream: Stream) -> Result<u64> {
        self.stream_handle(device, stream)
    }
    /// The stream of a handle that [`Driver::stream_handle`] gave.
    fn adopt_stream(&self, device: usize, handle: u64) -> Result<Stream>;
    /// A stream that another library made; the same for the same handle.
    fn external_stream(&self, device: usize, live: Live) -> Result<Stream>;
    /// Whether what devices do can be watched.
    fn can_watch(&self) -> Result<()> {
        Ok(())
    }
    /// Begins to note what devices do (`crate::activity`).
    fn watch(&self) -> Result<()> {
        Ok(())
    }
    /// Ends it, when all work is done.
    fn watched(&self) -> Result<()> {
        Ok(())
    }
    /// The thread's work belongs to an operator, or to the one before again.
    fn operator(&self, _entered: Option<u64>) {}
    /// The device's address on its bus, for NVIDIA's management library; `None` where it has none.
    fn bus(&self, device: usize) -> Result<Option<std::ffi::CString>>;
    fn done(&self, device: usize, stream: Stream) -> Result<bool>;
    fn wait(&self, device: usize, stream: Stream) -> Result<()>;
    fn wait_all(&self, device: usize) -> Result<()>;
    /// An event behind the work of a stream.
    fn record(&self, device: usize, stream: Stream) -> Result<u64>;
    fn passed(&self, device: usize, event: u64) -> Result<bool>;
    fn wait_event(&self, device: usize, event: u64) -> Result<()>;
    /// Runs what must not be recorded, on a stream that does not record, while this thread's other streams may.
    ///
    /// # Errors
    /// Of the closure.
    fn unrecorded(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        f()
    }
    /// Lets what comes later in a stream wait for an event.
    fn order(&self, device: usize, stream: Stream, event: u64) -> Result<()>;
    fn elapsed(&self, device: usize, start: u64, end: u64) -> Result<f64>;
    /// Nobody asks for an event any more; its number may be given again.
    fn forget(&self, device: usize, event: u64);
    /// From here on a stream, and those that wait for its events, record their work.
    fn begin_capture(&self, device: usize, stream: Stream, mode: CaptureMode) -> Result<()>;
    /// The capture that a stream takes part in, by a number that no other one has.
    fn capturing(&self, device: usize, stream: Stream) -> Result<Option<u64>>;
    /// What the streams of a capture recorded. The capture is over, also where this is an error.
    fn end_capture(&self, device: usize, stream: Stream) -> Result<Graph>;
    /// The allocation that an address lies in, by a name for other processes, and how far behind its start.
    fn memory_name(&self, device: usize, address: Address) -> Result<(Name, u64)>;
    /// An allocation of another process by its name: where it begins here.
    fn open_memory(&self, device: usize, name: &Name) -> Result<Address>;
    fn close_memory(&self, device: usize, address: Address);
    /// An event that other processes can have, in front of all work.
    fn shared_event(&self, device: usize) -> Result<u64>;
    /// Puts such an event behind the work of a stream.
    fn record_again(&self, device: usize, stream: Stream, event: u64) -> Result<()>;
    /// Such an event by a name for other processes.
    fn event_name(&self, device: usize, event: u64) -> Result<Name>;
    /// An event of another process by its name.
    fn open_event(&self, device: usize, name: &Name) -> Result<u64>;
    /// Makes recorded work ready to run.
    fn instantiate(&self, device: usize, graph: &Graph) -> Result<()>;
    /// Queues all of it as one piece.
    fn launch_graph(&self, device: usize, stream: Stream, graph: &Graph) -> Result<()>;
    /// How many pieces of work were recorded.
    fn nodes(&self, graph: &Graph) -> Result<usize>;
    /// Writes a picture of them in Graphviz' language.
    fn draw(&self, graph: &Graph, path: &std::path::Path, verbose: bool) -> Result<()>;
}

/// What follows `emulated:`: how many devices, and of which capability.
fn emulated(asked: &str) -> Option<(usize, (i64, i64))> {
    let (n, capability) = asked.split_once(':').unwrap_or((asked, "9.0"));
    let (major, minor) = capability.split_once('.')?;
    let n = n.parse().ok().filter(|n| (1..=64).contains(n))?;
    Some((
        n,
        (
            major.parse().ok().filter(|m| (8..=99).contains(m))?,
            minor.parse().ok().filter(|m| (0..10).contains(m))?,
        ),
    ))
}
/// The driver of this program, chosen at the first question: `FLAMBEAU_CUDA=emulated[:N[:MAJOR.MINOR]]`, or NVIDIA's.
///
/// # Errors
/// There is none: what to install.
pub(crate) fn driver() -> Result<&'static dyn Driver> {
    static DRIVER: OnceLock<std::result::Result<Box<dyn Driver>, Error>> = OnceLock::new();
    let found = DRIVER.get_or_init(|| {
        let asked = std::env::var("FLAMBEAU_CUDA").unwrap_or_default();
        match asked.split_once(':').map_or((asked.as_str(), None), |(kind, n)| (kind, Some(n))) {
            ("emulated", n) => {
                let (n, capability) = emulated(n.unwrap_or("1")).ok_or_else(|| {
                    Error::value(format!(
                        "FLAMBEAU_CUDA={asked}: a number of devices from 1 to 64, and a capability from 8.0 on"
                    ))
                })?;
                Ok(Box::new(emulated::Emulated::new(n, capability)?) as Box<dyn Driver>)
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
