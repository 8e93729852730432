//! The emulated driver: memory that the host cannot follow, and streams that run as late as they may. What was queued runs
//! when somebody waits; of several streams any may go first, by an order that is drawn.

use super::library::{Kernel, Memory};
use super::recorded::{Captures, Node, Recorded};
use super::{
    Address, CaptureMode, Driver, Function, Graph, Module, PAGE, Pinned, Shape, Stream, compiler, library,
    products,
};
use crate::activity::{self, Activity, What};
use crate::allocator::config::Config;
use crate::archive;
use crate::ipc::Name;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{Error, Result};
use flambeau_devices::cuda::external::Live;
use flambeau_devices::cuda::runtime::Properties;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io::Write as _;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Bytes that an emulated device says it has.
const ROOM: usize = 16 << 30;
/// More than this many jobs are not kept back.
const LATE: usize = 256;

pub(super) enum Job {
    Launch {
        kernel: Kernel,
        shape: Shape,
        params: Vec<u8>,
    },
    Upload {
        to: Address,
        bytes: Vec<u8>,
    },
    UploadPinned {
        to: Address,
        from: Pinned,
    },
    Copy {
        from: Address,
        to: Address,
        nbytes: usize,
    },
    Fill {
        to: Address,
        byte: u8,
        nbytes: usize,
    },
    Record(u64),
    Wait(u64),
    /// With what its copies of pinned memory read.
    Graph(Arc<Recorded>, Vec<Option<Vec<u8>>>),
    /// A job that somebody watches.
    Watched(Call, Box<Job>),
}
/// The call that queued a job.
#[derive(Clone, Copy)]
pub(super) struct Call {
    stream: Stream,
    correlation: u64,
    operator: Option<u64>,
}
impl Job {
    /// What it is for a profiler, its name, and that of the call which queues it.
    fn shown(&self) -> Option<(What, String, &'static str)> {
        let copy =
            |nbytes: usize, name: &str, call| Some((What::Copy(nbytes as u64), name.to_string(), call));
        match self {
            Job::Launch { kernel, shape, .. } => {
                let (grid, block) = ([shape.blocks, 1, 1], [shape.threads, 1, 1]);
                let what = What::Kernel { grid, block, registers: 0, shared: 0 };
                Some((what, kernel.name().to_string(), "cuLaunchKernel"))
            }
            Job::Upload { bytes, .. } => {
                copy(bytes.len(), "Memcpy HtoD (Pageable -> Device)", "cuMemcpyHtoDAsync")
            }
            Job::UploadPinned { from, .. } => {
                copy(from.nbytes, "Memcpy HtoD (Pinned -> Device)", "cuMemcpyHtoDAsync")
            }
            Job::Copy { nbytes, .. } => copy(*nbytes, "Memcpy DtoD (Device -> Device)", "cuMemcpyDtoDAsync"),
            Job::Fill { nbytes, .. } => {
                Some((What::Fill(*nbytes as u64), "Memset (Device)".into(), "cuMemsetD8Async"))
            }
            Job::Graph(..) | Job::Watched(..) | Job::Record(_) | Job::Wait(_) => None,
        }
    }
    /// What a picture of a graph calls it.
    pub(super) fn label(&self, verbose: bool) -> String {
        match self {
            Job::Launch { shape, params, .. } if verbose => {
                format!("KERNEL|{}x{}|{} bytes of arguments", shape.blocks, shape.threads, params.len())
            }
            Job::Launch { .. } => "KERNEL".into(),
            Job::Upload { bytes, .. } => format!("MEMCPY HtoD|{} bytes", bytes.len()),
            Job::UploadPinned { from, .. } => format!("MEMCPY HtoD pinned|{} bytes", from.nbytes),
            Job::Copy { nbytes, .. } => format!("MEMCPY DtoD|{nbytes} bytes"),
            Job::Fill { nbytes, .. } => format!("MEMSET|{nbytes} bytes"),
            Job::Record(_) | Job::Wait(_) => "EVENT".into(),
            Job::Watched(_, job) => job.label(verbose),
            Job::Graph(g, _) => format!("GRAPH|{} nodes", g.nodes()),
        }
    }
}

#[derive(Default)]
struct State {
    memory: BTreeMap<Address, Memory>,
    /// Pages that have memory, of addresses that were reserved.
    mapped: BTreeSet<Address>,
    used: usize,
    streams: Vec<VecDeque<Job>>,
    /// Streams of others, by their handles.
    external: BTreeMap<u64, Stream>,
    /// When each event was passed; `None` before.
    events: HashMap<u64, Option<Instant>>,
    /// Events that nobody asks for, but that were not passed yet.
    forgotten: HashSet<u64>,
    next_event: u64,
    captures: Captures,
    /// Its own number.
    number: i64,
    /// What queued the job that runs, where somebody watches.
    watched: Option<Call>,
    /// The first error of a job, for who waits next.
    failed: Option<Error>,
    draw: u64,
}

/// See the module.
pub(crate) struct Emulated {
    devices: Vec<Mutex<State>>,
    capability: (i64, i64),
}
impl Emulated {
    /// # Errors
    /// No compiler.
    pub(crate) fn new(n: usize, capability: (i64, i64)) -> Result<Emulated> {
        compiler::host_compiler()?;
        let state = |i| {
            let s = State {
                streams: vec![VecDeque::new()],
                next_event: 1,
                draw: i + 1,
                number: i as i64,
                ..State::default()
            };
            Mutex::new(s)
        };
        Ok(Emulated { devices: (0..n as u64).map(state).collect(), capability })
    }
    fn state(&self, device: usize) -> Result<MutexGuard<'_, State>> {
        let s =
            self.devices.get(device).ok_or_else(|| Error::device("CUDA error: invalid device ordinal"))?;
        Ok(s.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
fn no_stream() -> Error {
    Error::runtime("CUDA error: invalid resource handle")
}
impl State {
    fn queue(&mut self, stream: Stream, job: Job) -> Result<()> {
        if self.streams.len() <= stream as usize {
            return Err(no_stream());
        }
        let Some(job) = self.captures.take(stream, job)? else { return Ok(()) };
        let job = if activity::on() { self.watch(stream, job) } else { job };
        let late = {
            let q = self.streams.get_mut(stream as usize).ok_or_else(no_stream)?;
            q.push_back(job);
            q.len() > LATE
        };
        if late { self.run(stream) } else { Ok(()) }
    }
    /// Notes the call that queues a job, with which the job is noted when it runs.
    fn watch(&self, stream: Stream, job: Job) -> Job {
        let name = match &job {
            Job::Graph(..) => "cuGraphLaunch",
            other => match other.shown() {
                Some((_, _, call)) => call,
                None => return job,
            },
        };
        let call = Call { stream, correlation: activity::correlation(), operator: activity::running() };
        let now = Instant::now();
        self.note(What::Call, name.to_string(), call, [now, now]);
        Job::Watched(call, Box::new(job))
    }
    fn note(&self, what: What, name: String, call: Call, times: [Instant; 2]) {
        let [start, end] = times.map(activity::since_begin);
        let Call { stream, correlation, operator } = call;
        activity::note(Activity {
            what,
            name,
            device: self.number,
            stream,
            start,
            end,
            correlation,
            operator,
            thread: 0,
        });
    }
    /// Runs a job; a watched one is noted.
    fn perform(&mut self, job: &Job) -> Result<()> {
        if let Job::Watched(call, job) = job {
            self.watched = Some(*call);
            let done = self.perform(job);
            self.watched = None;
            return done;
        }
        let Some((call, (what, name, _))) = self.watched.and_then(|c| Some((c, job.shown()?))) else {
            return self.run_job(job);
        };
        let begin = Instant::now();
        self.run_job(job)?;
        self.note(what, name, call, [begin, Instant::now()]);
        Ok(())
    }
    /// The bytes of one block from an address on.
    fn bytes(&mut self, address: Address, nbytes: usize) -> Result<&mut [u8]> {
        let outside = || Error::runtime("CUDA error: an illegal memory access was encountered");
        let (start, m) = self.memory.range_mut(..=address).next_back().ok_or_else(outside)?;
        let offset = (address - start) as usize;
        if m.nbytes() < offset.saturating_add(nbytes) {
            return Err(outside());
        }
        if m.is_reserved() {
            let first = offset / PAGE * PAGE;
            let mut pages = (first..offset + nbytes).step_by(PAGE);
            if !pages.all(|p| self.mapped.contains(&(start + p as u64))) {
                return Err(outside());
            }
        }
        Ok(&mut m.bytes()[offset..offset + nbytes])
    }
    fn run_job(&mut self, job: &Job) -> Result<()> {
        match job {
            Job::Watched(_, job) => self.run_job(job)?,
            Job::Launch { kernel, shape, params } => kernel.run(*shape, params)?,
            Job::Upload { to, bytes } => self.bytes(*to, bytes.len())?.copy_from_slice(bytes),
            // a graph's alone, which brings what it reads
            Job::UploadPinned { .. } => {
                return Err(Error::runtime("a copy that was recorded runs in its graph"));
            }
            Job::Copy { from, to, nbytes } => {
                let bytes = self.bytes(*from, *nbytes)?.to_vec();
                self.bytes(*to, *nbytes)?.copy_from_slice(&bytes);
            }
            Job::Fill { to, byte, nbytes } => self.bytes(*to, *nbytes)?.fill(*byte),
            Job::Record(e) => {
                if self.forgotten.remove(e) {
                    self.events.remove(e);
                } else {
                    self.events.insert(*e, Some(Instant::now()));
                }
            }
            Job::Wait(_) => {}
            Job::Graph(g, read) => {
                for i in g.order(|n| self.drawn(n)) {
                    match (&g.0[i].job, &read[i]) {
                        (Job::UploadPinned { to, .. }, Some(bytes)) => {
                            self.bytes(*to, bytes.len())?.copy_from_slice(bytes);
                        }
                        (job, _) => self.perform(job)?,
                    }
                }
            }
        }
        Ok(())
    }
    /// A number below `n`.
    fn drawn(&mut self, n: usize) -> usize {
        self.draw = self.draw.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.draw >> 33) as usize % n
    }
    /// Runs jobs until a stream has none left; other streams go on meanwhile, as they are drawn.
    fn run(&mut self, stream: Stream) -> Result<()> {
        while !self.streams.get(stream as usize).ok_or_else(no_stream)?.is_empty() {
            let may = |q: &VecDeque<Job>| match q.front() {
                Some(Job::Wait(e)) => self.events.get(e).is_none_or(Option::is_some),
                other => other.is_some(),
            };
            let ready: Vec<usize> = (0..self.streams.len()).filter(|s| may(&self.streams[*s])).collect();
            if ready.is_empty() {
                return Err(Error::runtime("CUDA error: streams wait for each other"));
            }
            let picked = ready[self.drawn(ready.len())];
            if let Some(job) = self.streams[picked].pop_front()
                && let Err(e) = self.perform(&job)
            {
                self.failed.get_or_insert(e);
            }
        }
        match self.failed.take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }
    fn run_all(&mut self) -> Result<()> {
        (0..self.streams.len() as u64).try_for_each(|s| self.run(s))
    }
}
impl Driver for Emulated {
    fn device_count(&self) -> usize {
        self.devices.len()
    }
    fn properties(&self, device: usize) -> Result<Properties> {
        drop(self.state(device)?);
        Ok(Properties {
            name: "Flambeau emulated device".into(),
            major: self.capability.0,
            minor: self.capability.1,
            total_memory: ROOM as i64,
            multi_processor_count: 16,
            warp_size: 32,
            max_threads_per_multi_processor: 2048,
        })
    }
    fn allocate(&self, device: usize, nbytes: usize) -> Result<Option<Address>> {
        let mut s = self.state(device)?;
        if s.used.saturating_add(nbytes) > ROOM {
            return Ok(None);
        }
        let Some(m) = Memory::new(nbytes) else { return Ok(None) };
        let address = m.address();
        s.used += m.nbytes();
        s.memory.insert(address, m);
        Ok(Some(address))
    }
    fn free(&self, device: usize, address: Address) {
        if let Ok(mut s) = self.state(device) {
            // what was queued may still use it
            let late = s.run_all();
            if let Err(e) = late {
                s.failed.get_or_insert(e);
            }
            if let Some(m) = s.memory.remove(&address) {
                s.used -= m.nbytes();
            }
        }
    }
    fn adopt(&self, device: usize, address: u64, nbytes: usize) -> Result<Address> {
        let m = Memory::lent(address, nbytes);
        let address = m.address();
        self.state(device)?.memory.insert(address, m);
        Ok(address)
    }
    fn disown(&self, device: usize, address: Address) -> u64 {
        if let Ok(mut s) = self.state(device) {
            let late = s.run_all();
            if let Err(e) = late {
                s.failed.get_or_insert(e);
            }
            s.memory.remove(&address);
        }
        library::unmarked(address)
    }
    fn memory_name(&self, device: usize, address: Address) -> Result<(Name, u64)> {
        let mut s = self.state(device)?;
        let outside = || Error::runtime("CUDA error: invalid argument");
        let (start, m) = s.memory.range_mut(..=address).next_back().ok_or_else(outside)?;
        Ok((m.name()?, address - start))
    }
    fn open_memory(&self, device: usize, name: &Name) -> Result<Address> {
        let m = Memory::open_shared(name)?;
        let address = m.address();
        self.state(device)?.memory.insert(address, m);
        Ok(address)
    }
    fn close_memory(&self, device: usize, address: Address) {
        if let Ok(mut s) = self.state(device) {
            let late = s.run_all();
            if let Err(e) = late {
                s.failed.get_or_insert(e);
            }
            s.memory.remove(&address);
        }
    }
    fn shared_event(&self, device: usize) -> Result<u64> {
        let mut s = self.state(device)?;
        let e = s.next_event;
        s.next_event += 1;
        s.events.insert(e, Some(Instant::now()));
        Ok(e)
    }
    fn record_again(&self, device: usize, stream: Stream, event: u64) -> Result<()> {
        let mut s = self.state(device)?;
        s.captures.refuse(stream)?;
        // nobody runs this process's jobs for another one that waits: they run now
        s.run(stream)?;
        s.events.insert(event, Some(Instant::now()));
        Ok(())
    }
    fn event_name(&self, device: usize, event: u64) -> Result<Name> {
        drop(self.state(device)?);
        Ok(library::name(event, 0))
    }
    fn open_event(&self, device: usize, name: &Name) -> Result<u64> {
        library::named(name)?;
        self.shared_event(device)
    }
    fn reserve(&self, device: usize, nbytes: usize) -> Result<Option<Address>> {
        let mut s = self.state(device)?;
        let Some(m) = Memory::reserve(nbytes) else { return Ok(None) };
        let address = m.address();
        s.memory.insert(address, m);
        Ok(Some(address))
    }
    fn unreserve(&self, device: usize, address: Address, _: usize) {
        if let Ok(mut s) = self.state(device) {
            s.memory.remove(&address);
        }
    }
    fn map(&self, device: usize, address: Address, nbytes: usize) -> Result<bool> {
        let mut s = self.state(device)?;
        if s.used.saturating_add(nbytes) > ROOM {
            return Ok(false);
        }
        s.used += nbytes;
        s.mapped.extend((0..nbytes as u64).step_by(PAGE).map(|p| address + p));
        s.bytes(address, nbytes)?.fill(0xa5);
        Ok(true)
    }
    fn unmap(&self, device: usize, address: Address, nbytes: usize) -> Result<()> {
        let mut s = self.state(device)?;
        let late = s.run_all();
        for p in (0..nbytes as u64).step_by(PAGE) {
            s.mapped.remove(&(address + p));
        }
        s.used -= nbytes;
        if let Some((start, m)) = s.memory.range_mut(..=address).next_back() {
            m.forget((address - start) as usize, nbytes);
        }
        late
    }
    fn memory(&self, device: usize) -> Result<(u64, u64)> {
        Ok(((ROOM - self.state(device)?.used) as u64, ROOM as u64))
    }
    fn upload(&self, device: usize, stream: Stream, to: Address, from: &[u8]) -> Result<()> {
        self.state(device)?.queue(stream, Job::Upload { to, bytes: from.to_vec() })
    }
    fn download(&self, device: usize, stream: Stream, from: Address, to: &mut [u8]) -> Result<()> {
        let mut s = self.state(device)?;
        s.captures.refuse(stream)?;
        let called = Instant::now();
        s.run(stream)?;
        let begin = Instant::now();
        to.copy_from_slice(s.bytes(from, to.len())?);
        if activity::on() {
            let call = Call { stream, correlation: activity::correlation(), operator: activity::running() };
            let now = Instant::now();
            let what = What::Copy(to.len() as u64);
            s.note(what, "Memcpy DtoH (Device -> Pageable)".into(), call, [begin, now]);
            s.note(What::Call, "cuMemcpyDtoHAsync".into(), call, [called, now]);
        }
        Ok(())
    }
    fn host_allocate(&self, nbytes: usize, _: &Config) -> Result<Option<usize>> {
        Ok(library::pin(nbytes))
    }
    fn host_free(&self, address: usize, nbytes: usize) {
        library::unpin(address, nbytes);
    }
    fn upload_pinned(&self, device: usize, stream: Stream, to: Address, from: Pinned) -> Result<()> {
        let mut s = self.state(device)?;
        let recorded = s.captures.id(stream).is_some();
        // read now, while the caller holds the memory: a thread of this process may not read it while another writes
        s.queue(
            stream,
            if recorded {
                Job::UploadPinned { to, from }
            } else {
                Job::Upload { to, bytes: library::read_pinned(from) }
            },
        )
    }
    fn copy(&self, device: usize, stream: Stream, from: Address, to: Address, nbytes: usize) -> Result<()> {
        self.state(device)?.queue(stream, Job::Copy { from, to, nbytes })
    }
    fn fill(&self, device: usize, stream: Stream, to: Address, byte: u8, nbytes: usize) -> Result<()> {
        self.state(device)?.queue(stream, Job::Fill { to, byte, nbytes })
    }
    fn load(&self, _: usize, source: &str) -> Result<Module> {
        let text = compiler::together(source)?;
        let Some(found) = archive::find(archive::Kind::Host, &text)? else {
            let path = compiler::for_host(&text)?;
            return library::Library::open(&path, String::new()).map(Module::Host);
        };
        let mut file = tempfile::NamedTempFile::new().map_err(compiler::disk)?;
        file.write_all(found.image()?).map_err(compiler::disk)?;
        archive::serves();
        // the system keeps what it loaded when the file is gone
        library::Library::open(&file.into_temp_path(), found.prefix).map(Module::Host)
    }
    fn find(&self, _: usize, module: &Arc<Module>, name: &str) -> Result<Function> {
        Kernel::of(module, name).map(Function::Host)
    }
    /// The emulation's blocks have as much as they declare.
    fn grant_shared(&self, _: &mut Function, _: u32) -> Result<()> {
        Ok(())
    }
    fn compiles_families(&self) -> bool {
        true
    }
    fn launch(
        &self,
        device: usize,
        stream: Stream,
        function: &Function,
        shape: Shape,
        params: &[u8],
    ) -> Result<()> {
        if shape.threads == 0 || shape.threads > 1024 || shape.blocks == 0 {
            return Err(Error::runtime("CUDA error: invalid configuration argument"));
        }
        let Function::Host(kernel) = function else {
            return Err(Error::runtime("a kernel of another driver"));
        };
        let job = Job::Launch { kernel: kernel.clone(), shape, params: params.to_vec() };
        self.state(device)?.queue(stream, job)
    }
    fn product(&self, _: usize, _: Stream, _: &products::Product) -> Result<bool> {
        Ok(false)
    }
    fn new_stream(&self, device: usize) -> Result<Stream> {
        let mut s = self.state(device)?;
        s.streams.push(VecDeque::new());
        Ok(s.streams.len() as u64 - 1)
    }
    fn has_stream(&self, device: usize, stream: Stream) -> Result<bool> {
        Ok(self.state(device)?.streams.len() > stream as usize)
    }
    fn stream_handle(&self, device: usize, stream: Stream) -> Result<u64> {
        let s = self.state(device)?;
        let external = s.external.iter().find(|e| *e.1 == stream).map(|e| *e.0);
        let known = (stream as usize) < s.streams.len();
        external.or_else(|| known.then_some(stream)).ok_or_else(no_stream)
    }
    #[cfg(feature = "nccl")]
    fn shared_stream(&self, device: usize, stream: Stream) -> Result<u64> {
        // another library cannot queue here: it works at once
        self.wait(device, stream)?;
        self.stream_handle(device, stream)
    }
    fn adopt_stream(&self, device: usize, handle: u64) -> Result<Stream> {
        let s = self.state(device)?;
        let own = (handle as usize) < s.streams.len() && !s.external.values().any(|e| *e == handle);
        s.external.get(&handle).copied().or_else(|| own.then_some(handle)).ok_or_else(no_stream)
    }
    fn external_stream(&self, device: usize, live: Live) -> Result<Stream> {
        if let Ok(known) = self.adopt_stream(device, live.handle()) {
            return Ok(known);
        }
        let stream = self.new_stream(device)?;
        self.state(device)?.external.insert(live.handle(), stream);
        Ok(stream)
    }
    fn bus(&self, _: usize) -> Result<Option<std::ffi::CString>> {
        Ok(None)
    }
    fn done(&self, device: usize, stream: Stream) -> Result<bool> {
        let mut s = self.state(device)?;
        s.captures.refuse(stream)?;
        Ok(s.streams.get(stream as usize).ok_or_else(no_stream)?.is_empty())
    }
    fn wait(&self, device: usize, stream: Stream) -> Result<()> {
        let mut s = self.state(device)?;
        s.captures.refuse(stream)?;
        s.run(stream)
    }
    fn wait_all(&self, device: usize) -> Result<()> {
        let mut s = self.state(device)?;
        s.captures.refuse_any()?;
        s.run_all()
    }
    fn record(&self, device: usize, stream: Stream) -> Result<u64> {
        let mut s = self.state(device)?;
        let e = s.next_event;
        s.next_event += 1;
        s.events.insert(e, None);
        s.queue(stream, Job::Record(e))?;
        Ok(e)
    }
    fn passed(&self, device: usize, event: u64) -> Result<bool> {
        let s = self.state(device)?;
        s.captures.refuse_event(event)?;
        Ok(s.events.get(&event).is_none_or(Option::is_some))
    }
    fn wait_event(&self, device: usize, event: u64) -> Result<()> {
        let mut s = self.state(device)?;
        s.captures.refuse_event(event)?;
        let holds = |q: &VecDeque<Job>| q.iter().any(|j| matches!(j, Job::Record(e) if *e == event));
        match s.streams.iter().position(holds) {
            Some(stream) => s.run(stream as u64),
            None => Ok(()),
        }
    }
    fn order(&self, device: usize, stream: Stream, event: u64) -> Result<()> {
        self.state(device)?.queue(stream, Job::Wait(event))
    }
    fn elapsed(&self, device: usize, start: u64, end: u64) -> Result<f64> {
        let s = self.state(device)?;
        match (s.events.get(&start), s.events.get(&end)) {
            (Some(Some(a)), Some(Some(b))) => Ok(match b.checked_duration_since(*a) {
                Some(d) => d.as_secs_f64() * 1e3,
                None => -a.duration_since(*b).as_secs_f64() * 1e3,
            }),
            _ => Err(Error::runtime("CUDA error: device not ready")),
        }
    }
    fn forget(&self, device: usize, event: u64) {
        let Ok(mut s) = self.state(device) else { return };
        if s.captures.forget(event) || s.events.get(&event).is_none_or(Option::is_some) {
            s.events.remove(&event);
        } else {
            // who waits for it still has to
            s.forgotten.insert(event);
        }
    }
    fn begin_capture(&self, device: usize, stream: Stream, mode: CaptureMode) -> Result<()> {
        let mut s = self.state(device)?;
        if s.streams.len() <= stream as usize {
            return Err(no_stream());
        }
        s.captures.begin(stream, mode)
    }
    fn capturing(&self, device: usize, stream: Stream) -> Result<Option<u64>> {
        Ok(self.state(device)?.captures.id(stream))
    }
    fn end_capture(&self, device: usize, stream: Stream) -> Result<Graph> {
        Ok(Graph::Host(Arc::new(self.state(device)?.captures.end(stream)?)))
    }
    fn instantiate(&self, _: usize, _: &Graph) -> Result<()> {
        Ok(())
    }
    fn launch_graph(&self, device: usize, stream: Stream, graph: &Graph) -> Result<()> {
        let g = own(graph)?.clone();
        let read = |n: &Node| match &n.job {
            Job::UploadPinned { from, .. } => Some(library::read_pinned(*from)),
            _ => None,
        };
        let read = g.0.iter().map(read).collect();
        self.state(device)?.queue(stream, Job::Graph(g, read))
    }
    fn nodes(&self, graph: &Graph) -> Result<usize> {
        Ok(own(graph)?.nodes())
    }
    fn draw(&self, graph: &Graph, path: &std::path::Path, verbose: bool) -> Result<()> {
        std::fs::write(path, own(graph)?.picture(verbose))
            .map_err(|e| Error::runtime(format!("{}: {e}", path.display())))
    }
}
fn own(graph: &Graph) -> Result<&Arc<Recorded>> {
    match graph {
        Graph::Host(g) => Ok(g),
        Graph::Device(_) => Err(Error::runtime("a graph of another driver")),
    }
}
