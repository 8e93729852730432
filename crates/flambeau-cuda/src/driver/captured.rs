//! Captures of NVIDIA's driver.
#![allow(unsafe_code)]

use super::real::{Handle, Real, check, lock};
use super::{CaptureMode, Graph, Stream};
use cudarc::driver::sys as cu;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Captures that are under way, of all devices: without one nobody has to ask.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Memory of the host that a recorded copy reads from each time it runs.
pub(super) struct Staged(pub(super) Handle<std::ffi::c_void>);
impl Drop for Staged {
    fn drop(&mut self) {
        let _relaxed = Relaxed::now();
        // SAFETY: the block was allocated by the driver and is freed once, with the graph whose copies read it, which waits
        // for its runs before.
        unsafe { cu::cuMemFreeHost(self.0.0) };
    }
}
/// Recorded work and what it reads.
pub(crate) struct Captured {
    device: usize,
    graph: Handle<cu::CUgraph_st>,
    ready: Mutex<Option<Handle<cu::CUgraphExec_st>>>,
    _staged: Vec<Staged>,
}
impl Drop for Captured {
    fn drop(&mut self) {
        let _relaxed = Relaxed::now();
        // SAFETY: both handles are this value's alone. A graph that runs is destroyed when it is done; what its copies read
        // must stay until then, so the device is waited for where there is such memory.
        unsafe {
            if let Some(ready) = lock(&self.ready).take() {
                if !self._staged.is_empty() {
                    cu::cuCtxSynchronize();
                }
                cu::cuGraphExecDestroy(ready.0);
            }
            cu::cuGraphDestroy(self.graph.0);
        }
    }
}

/// Until it is dropped, this thread may do what a capture of the mode `Global` or `ThreadLocal` does not allow: allocate, load
/// modules, make events. None of it is recorded.
pub(super) struct Relaxed(Option<cu::CUstreamCaptureMode>);
impl Relaxed {
    pub(super) fn now() -> Relaxed {
        if UNDER_WAY.load(Ordering::Acquire) == 0 {
            return Relaxed(None);
        }
        let mut mode = cu::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: exchanges one value of the thread.
        let ok = unsafe { cu::cuThreadExchangeStreamCaptureMode(&mut mode) };
        Relaxed((ok == cu::CUresult::CUDA_SUCCESS).then_some(mode))
    }
}
impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mut before) = self.0 {
            // SAFETY: as above.
            unsafe { cu::cuThreadExchangeStreamCaptureMode(&mut before) };
        }
    }
}

/// What captures that are under way will need.
pub(super) type Staging = Mutex<HashMap<u64, Vec<Staged>>>;

type Info = unsafe extern "C" fn(
    cu::CUstream,
    *mut cu::CUstreamCaptureStatus,
    *mut u64,
    *mut cu::CUgraph,
    *mut *const cu::CUgraphNode,
    *mut usize,
) -> cu::CUresult;

impl Real {
    pub(super) fn begin(&self, device: usize, stream: Stream, mode: CaptureMode) -> Result<()> {
        use cu::CUstreamCaptureMode as M;
        let s = self.stream(device, stream)?;
        let mode = match mode {
            CaptureMode::Global => M::CU_STREAM_CAPTURE_MODE_GLOBAL,
            CaptureMode::ThreadLocal => M::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            CaptureMode::Relaxed => M::CU_STREAM_CAPTURE_MODE_RELAXED,
        };
        // SAFETY: the stream is never destroyed.
        check(unsafe { cu::cuStreamBeginCapture_v2(s, mode) })?;
        UNDER_WAY.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
    pub(super) fn capture_of(&self, s: cu::CUstream) -> Result<Option<u64>> {
        if UNDER_WAY.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        let mut status = cu::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut id, mut graph, mut after, mut n) = (0, std::ptr::null_mut(), std::ptr::null(), 0);
        // SAFETY: all drivers from 12 on have the function of this name and type. The stream is never destroyed; each pointer is
        // written once.
        unsafe {
            let info = cu::culib().get::<Info>(b"cuStreamGetCaptureInfo_v2\0");
            let info = info.map_err(|_| Error::runtime("the driver has no cuStreamGetCaptureInfo_v2"))?;
            check(info(s, &mut status, &mut id, &mut graph, &mut after, &mut n))?;
        }
        Ok((status == cu::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE).then_some(id))
    }
    /// Bytes that a copy recorded in a stream reads at every run; `None` where the stream does not record.
    pub(super) fn staged(&self, device: usize, s: cu::CUstream, from: &[u8]) -> Result<Option<*const u8>> {
        let Some(id) = self.capture_of(s)? else { return Ok(None) };
        let _relaxed = Relaxed::now();
        let mut at = std::ptr::null_mut();
        // SAFETY: the driver writes the address of as many bytes as are asked for, which nobody else has.
        unsafe {
            check(cu::cuMemHostAlloc(&mut at, from.len(), 0))?;
            std::ptr::copy_nonoverlapping(from.as_ptr(), at.cast::<u8>(), from.len());
        }
        let staging = self.staging(device)?;
        lock(staging).entry(id).or_default().push(Staged(Handle(at)));
        Ok(Some(at.cast_const().cast()))
    }
    pub(super) fn end(&self, device: usize, stream: Stream) -> Result<Graph> {
        let s = self.stream(device, stream)?;
        let id = self.capture_of(s)?;
        let recording = |s| {
            let mut status = cu::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
            // SAFETY: the stream is never destroyed; writes one value.
            let asked = unsafe { cu::cuStreamIsCapturing(s, &mut status) };
            asked == cu::CUresult::CUDA_SUCCESS
                && status != cu::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
        };
        let before = recording(s);
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is never destroyed; writes one handle.
        let ended = check(unsafe { cu::cuStreamEndCapture(s, &mut graph) });
        // a capture that broke is over as well
        if before && !recording(s) {
            let _ = UNDER_WAY.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        }
        let staging = self.staging(device)?;
        let staged = id.and_then(|id| lock(staging).remove(&id)).unwrap_or_default();
        ended?;
        if graph.is_null() {
            return Err(Error::runtime("Invalid capture."));
        }
        let (graph, ready) = (Handle(graph), Mutex::new(None));
        Ok(Graph::Device(Captured { device, graph, ready, _staged: staged }))
    }
    pub(super) fn make_ready(&self, graph: &Graph) -> Result<Handle<cu::CUgraphExec_st>> {
        let g = own(graph)?;
        self.on(g.device)?;
        let mut ready = lock(&g.ready);
        if let Some(r) = *ready {
            return Ok(r);
        }
        let _relaxed = Relaxed::now();
        let mut made = std::ptr::null_mut();
        // SAFETY: the graph is alive; writes one handle. 1: memory that the graph allocates is freed at the next launch.
        check(unsafe { cu::cuGraphInstantiateWithFlags(&mut made, g.graph.0, 1) })?;
        *ready = Some(Handle(made));
        Ok(Handle(made))
    }
    pub(super) fn run_graph(&self, device: usize, stream: Stream, graph: &Graph) -> Result<()> {
        let s = self.stream(device, stream)?;
        let ready = self.make_ready(graph)?;
        // SAFETY: both are alive; the memory that the graph works in is kept by who holds the graph.
        check(unsafe { cu::cuGraphLaunch(ready.0, s) })
    }
}
pub(super) fn count(graph: &Graph) -> Result<usize> {
    let mut n = 0;
    // SAFETY: the graph is alive; without room for nodes only their number is written.
    check(unsafe { cu::cuGraphGetNodes(own(graph)?.graph.0, std::ptr::null_mut(), &mut n) })?;
    Ok(n)
}
pub(super) fn draw(graph: &Graph, path: &Path, verbose: bool) -> Result<()> {
    let text = CString::new(path.to_string_lossy().as_bytes())
        .map_err(|_| Error::value("a path with a zero byte"))?;
    // SAFETY: the graph is alive, and the path ends with zero.
    check(unsafe { cu::cuGraphDebugDotPrint(own(graph)?.graph.0, text.as_ptr(), u32::from(verbose)) })
}
fn own(graph: &Graph) -> Result<&Captured> {
    match graph {
        Graph::Device(g) => Ok(g),
        Graph::Host(_) => Err(Error::runtime("a graph of another driver")),
    }
}
