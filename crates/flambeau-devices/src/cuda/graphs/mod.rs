//! Recorded work (`torch.cuda.graphs`): a stream notes what it is given instead of doing it, and runs all of it again as one
//! piece.

mod callables;
mod pools;

use super::runtime::{CaptureMode, PoolId, Recorded, of_runtime};
use super::streams::{Stream, set_stream};
use crate::table::dummy;
pub use callables::{Graphed, GraphedOptions, make_graphed_callables, try_make_graphed_callables};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::settings::determinism::warn;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Error, Result, ensure};
pub use pools::{MemPool, graph_pool_handle, try_use_mem_pool, use_mem_pool};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

/// Whether graphs keep what [`CUDAGraph::debug_dump`] draws.
static DEBUG: AtomicBool = AtomicBool::new(false);

/// Recorded work that runs again as a whole. Clones are the same graph.
///
/// What is recorded reads and writes the same memory at every run: inputs are copied into tensors that it read while it was
/// recorded. Tensors that were made meanwhile lie in a pool of the graph's own; all other memory that it touches stays as long as
/// the graph. Calls that wait for the device (reading a value, `synchronize`) are refused while a stream records. Each run draws
/// new random numbers, as if its kernels had been called.
///
/// ```no_run
/// use torch::prelude::*;
/// use torch::{cuda, Device};
/// let x = torch::zeros([4]).to(Device::cuda(0));
/// let g = cuda::CUDAGraph::new();
/// let y = cuda::graph(&g, || &x * 2.0);
/// x.fill_(3.0);
/// g.replay();
/// assert_eq!(y.to_vec::<f32>(), [6.0; 4]);
/// ```
#[derive(Clone)]
pub struct CUDAGraph(Arc<Mutex<State>>);
impl std::fmt::Debug for CUDAGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<torch.cuda.graphs.CUDAGraph>")
    }
}
#[derive(Default)]
struct State {
    /// Whether what was recorded can still be changed by those who want to, and is made ready at the first run.
    keep_graph: bool,
    began: Option<(i64, u64)>,
    pool: PoolId,
    recorded: Option<Arc<dyn Recorded>>,
    ready: bool,
    hooks: Vec<Hook>,
}
type Hook = Arc<dyn Fn(&CUDAGraph) -> Result<()> + Send + Sync>;
impl CUDAGraph {
    /// A graph without work. Panics with the text of [`CUDAGraph::try_new`]'s error.
    #[track_caller]
    #[allow(clippy::new_without_default)]
    pub fn new() -> CUDAGraph {
        expect(CUDAGraph::try_new(false))
    }
    /// A graph without work; with `keep_graph` it is made ready by [`CUDAGraph::try_instantiate`] or at its first run.
    ///
    /// # Errors
    /// There is no device.
    pub fn try_new(keep_graph: bool) -> Result<CUDAGraph> {
        of_runtime(|r| r.current_device()).map_err(|e| {
            if e.message() == "Torch not compiled with CUDA enabled" { dummy("CUDAGraph") } else { e }
        })?;
        Ok(CUDAGraph(Arc::new(Mutex::new(State { keep_graph, ..State::default() }))))
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Lets the current stream record. Panics with the text of [`CUDAGraph::try_capture_begin`]'s error.
    #[track_caller]
    pub fn capture_begin(&self) {
        expect(self.try_capture_begin(None, CaptureMode::Global));
    }
    /// Lets the current stream record, with memory of a pool that graphs share, or of one of its own.
    ///
    /// # Errors
    /// It has recorded already; the current stream is the default one, or records.
    pub fn try_capture_begin(&self, pool: Option<PoolId>, mode: CaptureMode) -> Result<()> {
        ensure!(
            !self.state().ready,
            Runtime,
            "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
        );
        of_runtime(|r| {
            let device = r.current_device()?;
            let stream = r.current_stream(device)?;
            ensure!(
                stream != 0,
                Runtime,
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the \
                 default stream.)"
            );
            let pool = pool.filter(|p| *p != (0, 0)).unwrap_or_else(|| pools::handle(false));
            r.capture_begin(device, stream, pool, mode)?;
            let mut s = self.state();
            (s.began, s.pool) = (Some((device, stream)), pool);
            Ok(())
        })
    }
    /// Ends recording. Panics with the text of [`CUDAGraph::try_capture_end`]'s error.
    #[track_caller]
    pub fn capture_end(&self) {
        expect(self.try_capture_end());
    }
    /// Ends recording.
    ///
    /// # Errors
    /// The current stream is another one; something that is not allowed broke the recording; it did not begin.
    pub fn try_capture_end(&self) -> Result<()> {
        let began = self.state().began;
        let (device, stream) =
            began.ok_or_else(|| Error::runtime("capture_end() called before capture_begin()."))?;
        let (recorded, nodes) = of_runtime(|r| {
            ensure!(
                r.current_device()? == device && r.current_stream(device)? == stream,
                Runtime,
                "Capture must end on the same stream it began on."
            );
            let ended = r.capture_end(device, stream);
            self.state().began = None;
            let recorded = ended?;
            let nodes = recorded.nodes()?;
            Ok((recorded, nodes))
        })?;
        if nodes == 0 {
            warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or \
                 stream.",
            );
        }
        let (keep, hooks) = {
            let mut s = self.state();
            s.recorded = Some(recorded);
            (s.keep_graph, s.hooks.clone())
        };
        for hook in hooks {
            hook(self)?;
        }
        if keep { Ok(()) } else { self.ready() }
    }
    /// Calls a function whenever a recording has ended.
    #[doc(alias = "torch.cuda.CUDAGraph.register_capture_end_hook")]
    pub fn register_capture_end_hook(&self, hook: impl Fn(&CUDAGraph) -> Result<()> + Send + Sync + 'static) {
        self.state().hooks.push(Arc::new(hook));
    }
    fn recorded(&self, without: &str) -> Result<Arc<dyn Recorded>> {
        self.state().recorded.clone().ok_or_else(|| Error::runtime(without))
    }
    fn ready(&self) -> Result<()> {
        self.recorded("capture_end() must have been called before calling instantiate")?.instantiate()?;
        self.state().ready = true;
        Ok(())
    }
    /// Makes what was recorded ready to run, of graphs that keep it.
    ///
    /// # Errors
    /// Nothing was recorded; the graph does not keep it.
    pub fn try_instantiate(&self) -> Result<()> {
        let (ready, keep) = {
            let s = self.state();
            (s.ready, s.keep_graph)
        };
        ensure!(
            keep || !ready,
            Runtime,
            "instantiate() is intended to be called by the user only when keep_graph=true"
        );
        self.ready()
    }
    /// Queues what was recorded on the current stream. Panics with the text of [`CUDAGraph::try_replay`]'s error.
    #[track_caller]
    pub fn replay(&self) {
        expect(self.try_replay());
    }
    /// Queues what was recorded on the current stream.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub fn try_replay(&self) -> Result<()> {
        let recorded = self.recorded("Called CUDAGraph::replay without a preceding successful capture.")?;
        if !self.state().ready {
            self.ready()?;
        }
        recorded.replay()
    }
    /// Forgets what was recorded; its memory goes back.
    pub fn reset(&self) {
        let before = {
            let mut s = self.state();
            s.ready = false;
            s.recorded.take()
        };
        // what it held is freed under no lock
        drop(before);
    }
    /// The pool that the graph's memory comes from, for another one's [`CUDAGraph::try_capture_begin`]. Panics with the text of
    /// [`CUDAGraph::try_pool`]'s error.
    #[track_caller]
    pub fn pool(&self) -> PoolId {
        expect(self.try_pool())
    }
    /// The pool that the graph's memory comes from.
    ///
    /// # Errors
    /// Nothing was recorded.
    pub fn try_pool(&self) -> Result<PoolId> {
        self.recorded("Called CUDAGraph::pool() without a preceding successful capture.")?;
        Ok(self.state().pool)
    }
    /// Lets all graphs keep what [`CUDAGraph::try_debug_dump`] draws.
    pub fn enable_debug_mode(&self) {
        DEBUG.store(true, Ordering::Relaxed);
    }
    /// Draws what was recorded, in Graphviz' language, where [`CUDAGraph::enable_debug_mode`] was called or the graph keeps it.
    ///
    /// # Errors
    /// Of the disk.
    pub fn try_debug_dump(&self, path: &Path, verbose: bool) -> Result<()> {
        let (keep, recorded) = {
            let s = self.state();
            (s.keep_graph, s.recorded.clone())
        };
        if !keep && !DEBUG.load(Ordering::Relaxed) {
            warn("CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()");
            return Ok(());
        }
        recorded.map_or(Ok(()), |r| r.draw(path, verbose))
    }
}

/// Whether work of the current stream is recorded.
pub fn is_current_stream_capturing() -> bool {
    let current = |r: &dyn super::runtime::Runtime| {
        let d = r.current_device()?;
        r.capture_of(d, r.current_stream(d)?)
    };
    super::runtime::answer(current).is_some_and(|c| c.is_ok_and(|c| c.is_some()))
}

/// How [`graph_with`] records.
#[derive(Clone, Debug)]
pub struct GraphOptions {
    pub(crate) pool: Option<PoolId>,
    pub(crate) stream: Option<Stream>,
    pub(crate) capture_error_mode: CaptureMode,
}
impl Default for GraphOptions {
    fn default() -> GraphOptions {
        GraphOptions { pool: None, stream: None, capture_error_mode: CaptureMode::Global }
    }
}
impl GraphOptions {
    /// The documented defaults.
    pub fn new() -> GraphOptions {
        GraphOptions::default()
    }
    /// The pool of memory, by [`graph_pool_handle`], [`CUDAGraph::pool`] or [`MemPool::id`]; one of its own by default.
    pub fn pool(mut self, pool: Option<PoolId>) -> GraphOptions {
        self.pool = pool;
        self
    }
    /// The stream that records; one that is there for that by default.
    pub fn stream(mut self, stream: Option<Stream>) -> GraphOptions {
        self.stream = stream;
        self
    }
    /// What threads may do meanwhile.
    pub fn capture_error_mode(mut self, capture_error_mode: CaptureMode) -> GraphOptions {
        self.capture_error_mode = capture_error_mode;
        self
    }
}
/// The stream that records where none is given.
fn usual() -> Result<Stream> {
    static ALL: Mutex<Vec<Stream>> = Mutex::new(Vec::new());
    let device = of_runtime(|r| r.current_device())?;
    let known = |all: &[Stream]| all.iter().find(|s| s.device_index() == device).cloned();
    if let Some(s) = known(&ALL.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(s);
    }
    let made = Stream::try_new()?;
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known(&all);
    Ok(known.unwrap_or_else(|| {
        all.push(made.clone());
        made
    }))
}
/// A stream that records into a graph until it is left, and is the current one meanwhile.
pub(crate) struct Recording {
    graph: CUDAGraph,
    before: Stream,
    ended: bool,
}
impl Recording {
    pub(crate) fn begin(graph: &CUDAGraph, options: GraphOptions) -> Result<Recording> {
        let stream = options.stream.map_or_else(usual, Ok)?;
        super::try_synchronize()?;
        super::empty_cache();
        super::host::empty_host_cache();
        let before = super::try_current_stream()?;
        set_stream(Some(&stream));
        let recording = Recording { graph: graph.clone(), before, ended: false };
        if let Err(e) = graph.try_capture_begin(options.pool, options.capture_error_mode) {
            let mut recording = recording;
            recording.ended = true;
            return Err(e);
        }
        Ok(recording)
    }
    pub(crate) fn end(mut self) -> Result<()> {
        self.ended = true;
        self.graph.try_capture_end()
    }
}
impl Drop for Recording {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.graph.try_capture_end();
        }
        set_stream(Some(&self.before));
    }
}
/// Records the work of a closure. Panics with the text of [`try_graph`]'s error.
#[track_caller]
pub fn graph<R>(graph: &CUDAGraph, f: impl FnOnce() -> R) -> R {
    expect(try_graph(graph, GraphOptions::new(), f))
}
/// [`graph`] with its options.
#[track_caller]
pub fn graph_with<R>(graph: &CUDAGraph, options: GraphOptions, f: impl FnOnce() -> R) -> R {
    expect(try_graph(graph, options, f))
}
/// Waits for the device, gives cached memory back, and records the work of a closure on a stream of its own. The tensors that it
/// gives lie in the graph's memory: they have values once it ran.
///
/// # Errors
/// As [`CUDAGraph::try_capture_begin`] and [`CUDAGraph::try_capture_end`].
pub fn try_graph<R>(graph: &CUDAGraph, options: GraphOptions, f: impl FnOnce() -> R) -> Result<R> {
    let recording = Recording::begin(graph, options)?;
    let done = f();
    recording.end()?;
    Ok(done)
}

/// A function for the end of a recording that writes the graph as a picture in Graphviz' language.
#[doc(alias = "torch.cuda.export_dot")]
pub fn export_dot(path: &str, verbose: bool) -> impl Fn(&CUDAGraph) -> Result<()> + Clone + 'static {
    let path = path.to_string();
    move |graph| {
        let recorded = graph.recorded("Called export_dot() without a preceding successful capture.")?;
        recorded.draw(Path::new(&path), verbose)
    }
}

/// A function for the end of a recording that writes the graph as data.
///
/// # Errors
/// Its calls: the data are those of a library of Python's, which is not here.
#[doc(alias = "torch.cuda.export_graph_data")]
pub fn export_graph_data(_path: &str) -> impl Fn(&CUDAGraph) -> Result<()> + Clone + 'static {
    |_| Err(Error::missing("data of graphs: export_dot draws them"))
}

static MODES: OnceLock<[(&str, CaptureMode); 3]> = OnceLock::new();
/// The mode of a word of PyTorch's.
///
/// # Errors
/// Another word.
pub fn capture_mode(word: &str) -> Result<CaptureMode> {
    let all = MODES.get_or_init(|| {
        [
            ("global", CaptureMode::Global),
            ("thread_local", CaptureMode::ThreadLocal),
            ("relaxed", CaptureMode::Relaxed),
        ]
    });
    all.iter().find(|(name, _)| *name == word).map(|(_, m)| *m).ok_or_else(|| {
        Error::runtime(format!(
            "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {word}"
        ))
    })
}

#[cfg(feature = "by-name")]
pub(crate) use by_name::{GRAPH, POOL};
#[cfg(feature = "by-name")]
mod by_name;
