//! Groups of processes, and the engine under them.

use crate::backend::{self, BackendArguments, CollectiveBackend};
use crate::calls::{Log, Status, What};
use crate::detail::Detail;
use crate::gloo::algorithms::Call;
use crate::gloo::mesh::{Mesh, Wires};
use crate::simulation;
use crate::store::{PrefixStore, Store};
use crate::sync::{self, Monitor, Timeout};
use crate::work::Work;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::{Error, Result, Tensor, bail};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Some of a job's processes, which compute together.
///
/// It is a handle: clones are the same group. A process that is no member has a handle too, with rank -1, and collectives with it do
/// nothing.
///
/// ```
/// use torch::distributed::{ProcessGroup, new_group, run_in_threads};
/// let seen = run_in_threads(3, |_| {
///     let odd: ProcessGroup = new_group(&[1]);
///     (odd.is_member(), odd.rank(), odd.size())
/// });
/// assert_eq!(seen, [(false, -1, -1), (true, 0, 1), (false, -1, -1)]);
/// ```
#[derive(Clone)]
#[doc(alias = "torch.distributed.ProcessGroup")]
#[doc(alias = "torch.distributed.GroupMember")]
pub struct ProcessGroup(Arc<Inner>);

struct Inner {
    name: String,
    desc: String,
    ranks: Vec<i64>,
    rank: i64,
    world: bool,
    backend: Backend,
    store: Option<Arc<dyn Store>>,
    engine: Option<Engine>,
    /// engines of the program's own, by type of device
    own: Vec<(String, Arc<dyn CollectiveBackend>)>,
    /// how long those may take
    timeout: Timeout,
    /// how often it has been split
    splits: AtomicUsize,
    log: Arc<Log>,
}

/// Which engine a group has.
///
/// ```
/// use torch::distributed::Backend;
///
/// assert_eq!("GLOO".parse::<Backend>()?.to_string(), "gloo");
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[doc(alias = "torch.distributed.Backend")]
pub struct Backend(String);
impl Backend {
    /// Gloo: processors, over the network.
    #[doc(alias = "torch.distributed.Backend.GLOO")]
    pub const GLOO: &'static str = "gloo";
    /// NVIDIA's library.
    #[doc(alias = "torch.distributed.Backend.NCCL")]
    pub const NCCL: &'static str = "nccl";
    /// MPI.
    #[doc(alias = "torch.distributed.Backend.MPI")]
    pub const MPI: &'static str = "mpi";
    /// UCC.
    #[doc(alias = "torch.distributed.Backend.UCC")]
    pub const UCC: &'static str = "ucc";
    /// Intel's library.
    #[doc(alias = "torch.distributed.Backend.XCCL")]
    pub const XCCL: &'static str = "xccl";
    /// Whatever fits the devices.
    #[doc(alias = "torch.distributed.Backend.UNDEFINED")]
    pub const UNDEFINED: &'static str = "undefined";

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The engine for tensors of this type of device.
    pub fn for_device(&self, device: &str) -> Option<String> {
        self.pairs().into_iter().find(|(d, _)| d == device).map(|(_, b)| b)
    }
    /// Devices with their engines.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        if self.0.contains(':') {
            return self
                .0
                .split(',')
                .filter_map(|p| p.split_once(':'))
                .map(|(d, b)| (d.to_lowercase(), b.to_lowercase()))
                .collect();
        }
        if let Some(devices) = backend::devices_of(&self.0) {
            return devices.into_iter().map(|d| (d, self.0.clone())).collect();
        }
        let all: &[&str] = match self.0.as_str() {
            "undefined" => {
                let mut all: Vec<(String, String)> =
                    [("cpu", "gloo"), ("cuda", "nccl")].map(|(d, b)| (d.into(), b.into())).into();
                all.extend(backend::defaults());
                return all;
            }
            "gloo" | "ucc" => &["cpu", "cuda"],
            "nccl" => &["cuda"],
            "xccl" => &["xpu"],
            _ => &["cpu", "cuda"],
        };
        all.iter().map(|d| ((*d).to_owned(), self.0.clone())).collect()
    }
}
impl std::str::FromStr for Backend {
    type Err = Error;
    fn from_str(name: &str) -> Result<Backend> {
        Ok(Backend(name.to_lowercase()))
    }
}
impl Backend {
    /// Devices with their engines, as `cpu:gloo,cuda:nccl`.
    ///
    /// # Errors
    /// Parts that are no pairs, a device that comes twice.
    pub fn config(&self) -> Result<String> {
        let name = &self.0;
        if name.contains(':') {
            for part in name.split(',') {
                if part.split(':').count() != 2 || part.starts_with(':') || part.ends_with(':') {
                    bail!(
                        Value,
                        "Invalid device:backend pairing:                                      {part}. The custom backend string argument is invalid: {name}.\n                Custom backend string is an experimental feature where the backend string must be in the format:\n                \"<device_type1>:<backend1>,<device_type2>:<backend2>...\". e.g. 'cpu:gloo,cuda:nccl,xpu:xccl'"
                    );
                }
            }
            let devices: Vec<&str> = name.split(',').filter_map(|p| p.split(':').next()).collect();
            for (i, d) in devices.iter().enumerate() {
                if devices[..i].contains(d) {
                    bail!(Value, "Duplicate device type {d} in backend string: {name}.");
                }
            }
        }
        Ok(self.pairs().iter().map(|(d, b)| format!("{d}:{b}")).collect::<Vec<_>>().join(","))
    }
}
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The rank of one process: in the whole job, or in the group.
///
/// ```
/// use torch::distributed::{Peer, CollectiveOptions, broadcast_with, new_group, run_in_threads};
///
/// let got = run_in_threads(3, |rank| {
///     let last_two = new_group(&[1, 2]);
///     let t = torch::tensor([rank as f32]);
///     if rank > 0 {
///         // rank 2 of the job
///         broadcast_with(&t, Peer::InGroup(1), CollectiveOptions::new().group(&last_two));
///     }
///     t.item::<f32>()
/// });
/// assert_eq!(got, [0.0, 2.0, 2.0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Peer {
    /// In the job, as PyTorch's `src` and `dst`.
    Global(i64),
    /// In the group, as PyTorch's `group_src` and `group_dst`.
    InGroup(i64),
}
impl From<i64> for Peer {
    fn from(r: i64) -> Peer {
        Peer::Global(r)
    }
}
impl From<i32> for Peer {
    fn from(r: i32) -> Peer {
        Peer::Global(r.into())
    }
}
impl From<usize> for Peer {
    fn from(r: usize) -> Peer {
        Peer::Global(r as i64)
    }
}
impl IntoArg<Peer> for Peer {
    fn into_arg(self) -> Peer {
        self
    }
}
impl IntoArg<Peer> for i64 {
    fn into_arg(self) -> Peer {
        self.into()
    }
}
impl IntoArg<Peer> for i32 {
    fn into_arg(self) -> Peer {
        self.into()
    }
}
impl IntoArg<Peer> for usize {
    fn into_arg(self) -> Peer {
        self.into()
    }
}
impl IntoArg<ProcessGroup> for ProcessGroup {
    fn into_arg(self) -> ProcessGroup {
        self
    }
}
impl IntoArg<ProcessGroup> for &ProcessGroup {
    fn into_arg(self) -> ProcessGroup {
        self.clone()
    }
}

impl ProcessGroup {
    pub(crate) fn member(
        name: String,
        desc: String,
        ranks: Vec<i64>,
        rank: usize,
        backend: Backend,
        store: Arc<dyn Store>,
        timeout: Duration,
        wires: Wires,
        world: bool,
        split: bool,
        trace: Trace,
    ) -> Result<ProcessGroup> {
        let (mut engine, mut own) = (None, Vec::new());
        let mut made: Vec<(String, Arc<dyn CollectiveBackend>)> = Vec::new();
        for (device, kind) in backend.pairs() {
            // as PyTorch names keys: parts of a group have no word of the device
            let store: Arc<dyn Store> = if split {
                store.clone()
            } else {
                Arc::new(PrefixStore::new(format!("{device}/"), store.clone()))
            };
            if let Some((_, e)) = made.iter().find(|m| m.0 == kind) {
                own.push((device, e.clone()));
                continue;
            }
            #[cfg(feature = "nccl")]
            if kind == Backend::NCCL && backend.as_str() != Backend::UNDEFINED {
                crate::nccl::check()?;
            }
            let (size, global_ranks, group_name) = (ranks.len(), ranks.clone(), name.clone());
            let a = BackendArguments { store: store.clone(), rank, size, timeout, group_name, global_ranks };
            if let Some(e) = backend::make(&kind, &a)? {
                made.push((kind, e.clone()));
                own.push((device, e));
            } else if device == "cpu" {
                if kind != Backend::GLOO {
                    return Err(absent(&kind));
                }
                let mesh = Mesh::join(store.clone(), rank, ranks.len(), timeout, wires.clone())?;
                let mut e = Engine::new(mesh, trace.clone());
                if trace.detail {
                    let store = Arc::new(PrefixStore::new(format!("pg_wrapper:{name}"), store));
                    let wires = wires.clone();
                    e.detail = Some(Detail::new(Mesh::join(store, rank, ranks.len(), timeout, wires)?));
                }
                engine = Some(e);
            }
        }
        if engine.is_none() && own.is_empty() {
            return Err(absent(backend.pairs().first().map_or(backend.as_str(), |p| p.1.as_str())));
        }
        let (rank, store, timeout) = (rank as i64, Some(store), Timeout::new(timeout));
        let log = trace.log;
        Ok(ProcessGroup(Arc::new(Inner {
            name,
            desc,
            ranks,
            rank,
            world,
            backend,
            store,
            engine,
            own,
            timeout,
            splits: AtomicUsize::new(0),
            log,
        })))
    }
    /// A group with one engine of the program's own, which is there.
    pub(crate) fn of_own(
        name: String,
        desc: String,
        of: &ProcessGroup,
        ranks: Vec<i64>,
        rank: usize,
        engine: &Arc<dyn CollectiveBackend>,
    ) -> ProcessGroup {
        let store = of.store().map(|s| Arc::new(PrefixStore::new(format!("{name}/"), s)) as Arc<dyn Store>);
        ProcessGroup(Arc::new(Inner {
            name,
            desc,
            ranks,
            rank: rank as i64,
            world: of.0.world,
            backend: of.0.backend.clone(),
            store,
            engine: None,
            own: of.0.own.iter().map(|(d, _)| (d.clone(), engine.clone())).collect(),
            timeout: Timeout::new(of.timeout()),
            splits: AtomicUsize::new(0),
            log: of.0.log.clone(),
        }))
    }
    /// What those have that are not in it.
    pub(crate) fn apart(name: String, ranks: Vec<i64>, backend: Backend) -> ProcessGroup {
        let (desc, store, engine) = (String::new(), None, None);
        let log = Arc::default();
        ProcessGroup(Arc::new(Inner {
            name,
            desc,
            ranks,
            rank: -1,
            world: false,
            backend,
            store,
            engine,
            own: Vec::new(),
            timeout: Timeout::new(Duration::ZERO),
            splits: AtomicUsize::new(0),
            log,
        }))
    }
    /// This process's rank in the group, -1 outside of it.
    pub fn rank(&self) -> i64 {
        self.0.rank
    }
    /// The number of processes; -1 outside of it.
    pub fn size(&self) -> i64 {
        if self.is_member() { self.0.ranks.len() as i64 } else { -1 }
    }
    /// Whether this process is in the group.
    #[doc(alias = "torch.distributed.GroupMember.NON_GROUP_MEMBER")]
    pub fn is_member(&self) -> bool {
        self.0.rank >= 0
    }
    /// The group's name in the store.
    pub fn group_name(&self) -> &str {
        &self.0.name
    }
    /// What the program has called it.
    pub fn group_desc(&self) -> &str {
        &self.0.desc
    }
    /// The members' ranks in the job.
    pub fn ranks(&self) -> &[i64] {
        &self.0.ranks
    }
    /// Its engine.
    pub fn backend(&self) -> &Backend {
        &self.0.backend
    }
    /// How long its operations may take.
    pub fn timeout(&self) -> Duration {
        self.0.engine.as_ref().map_or_else(|| self.0.timeout.get(), |e| e.mesh.timeout())
    }
    /// Says how long its operations may take.
    pub fn set_timeout(&self, timeout: Duration) {
        if let Some(e) = &self.0.engine {
            e.mesh.set_timeout(timeout);
        }
        self.0.timeout.set(timeout);
        self.0.own.iter().for_each(|(_, b)| b.set_timeout(timeout));
    }
    /// Ends all that is under way, and the connections.
    pub fn abort(&self) {
        if let Some(e) = &self.0.engine {
            e.mesh.fail(&Error::runtime("the process group has been aborted"));
        }
        self.0.own.iter().for_each(|(_, b)| b.abort());
    }
    /// How often it has been split before.
    pub(crate) fn next_split(&self) -> usize {
        self.0.splits.fetch_add(1, Ordering::Relaxed)
    }
    pub(crate) fn is_world(&self) -> bool {
        self.0.world
    }
    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        self.0.store.clone()
    }
    /// Notes that an operation begins.
    pub(crate) fn begin(&self, what: What) -> Status {
        simulation::calls();
        self.0.log.begin(&self.0.name, what)
    }
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.0.engine.as_ref()
    }
    /// The program's own engine for a type of device, if that has one.
    pub(crate) fn own(&self, device: &str) -> Option<&Arc<dyn CollectiveBackend>> {
        self.0.own.iter().find(|(d, _)| d == device).map(|(_, b)| b)
    }
    /// The program's own engine, where there is no other: for operations without tensors.
    pub(crate) fn only_own(&self) -> Option<&Arc<dyn CollectiveBackend>> {
        let first = if self.0.engine.is_none() { self.0.own.first() } else { None };
        first.map(|(_, b)| b)
    }
    pub(crate) fn same(&self, o: &ProcessGroup) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
    }
    /// The rank in the group of whom a call names.
    pub(crate) fn peer(&self, p: Peer) -> Result<i64> {
        match p {
            Peer::InGroup(r) => Ok(r),
            Peer::Global(r) if self.0.world => Ok(r),
            Peer::Global(r) => self.group_rank(r),
        }
    }
    /// The rank in this group of a process of the job.
    ///
    /// # Errors
    /// It is no member.
    pub fn group_rank(&self, global: i64) -> Result<i64> {
        match self.0.ranks.iter().position(|r| *r == global) {
            Some(i) => Ok(i as i64),
            // what PyTorch has in a group's place where it is not this process's
            None if !self.is_member() => bail!(Value, "Global rank {global} is not part of group -100"),
            None => bail!(Value, "Global rank {global} is not part of group {self}"),
        }
    }
    /// The rank in the job of a member.
    ///
    /// # Errors
    /// The group has no such rank.
    pub fn global_rank(&self, in_group: i64) -> Result<i64> {
        match usize::try_from(in_group).ok().and_then(|i| self.0.ranks.get(i)) {
            Some(r) => Ok(*r),
            None if !self.is_member() => bail!(Value, "Group rank {in_group} is not part of group -100"),
            None => bail!(Value, "Group rank {in_group} is not part of group {self}"),
        }
    }
}
impl fmt::Display for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<torch.distributed.distributed_c10d.ProcessGroup object at {:p}>", Arc::as_ptr(&self.0))
    }
}
impl fmt::Debug for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessGroup({}, rank {} of {:?})", self.0.name, self.0.rank, self.0.ranks)
    }
}

pub(crate) fn absent(name: &str) -> Error {
    match name {
        "mpi" => Error::runtime(
            "Distributed package doesn't have MPI built in. MPI is only included if you build PyTorch from source on a host that has MPI installed.",
        ),
        "nccl" => Error::runtime("Distributed package doesn't have NCCL built in"),
        "ucc" => Error::runtime("Distributed package doesn't have UCC built in"),
        "xccl" => Error::runtime("Distributed package doesn't have XCCL built in"),
        other => Error::runtime(format!("Unknown c10d backend type {}", other.to_uppercase())),
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Gloo for one group: its connections, and two threads for what runs meanwhile.
pub(crate) struct Engine {
    pub(crate) mesh: Arc<Mesh>,
    queue: Arc<Monitor<Queue>>,
    trace: Trace,
    pub(crate) detail: Option<Detail>,
}
/// Where a process's operations are noted, and where they are written if one fails.
#[derive(Clone)]
pub(crate) struct Trace {
    /// calls are compared before they run
    pub(crate) detail: bool,
    pub(crate) log: Arc<Log>,
    pub(crate) place: Option<String>,
    /// in the job
    pub(crate) rank: i64,
}
impl Trace {
    fn failed(&self, e: &Error) {
        self.log.write_once(self.place.as_deref(), self.rank, e);
    }
}
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    /// threads that wait for work
    idle: usize,
    ended: bool,
}
/// As many operations of a group run at once.
const THREADS: usize = 2;

impl Engine {
    fn new(mesh: Arc<Mesh>, trace: Trace) -> Engine {
        Engine { mesh, queue: Arc::new(Monitor::new(Queue::default())), trace, detail: None }
    }
    /// Runs a collective, here or on the group's threads.
    pub(crate) fn run(
        &self,
        async_op: bool,
        status: &Status,
        result: Vec<Tensor>,
        f: impl FnOnce(&Call<'_>) -> Result<()> + Send + 'static,
    ) -> Result<Work> {
        self.run_tags(1, async_op, status, result, f)
    }
    /// The same for one that takes several numbers.
    pub(crate) fn run_tags(
        &self,
        tags: u32,
        async_op: bool,
        status: &Status,
        result: Vec<Tensor>,
        f: impl FnOnce(&Call<'_>) -> Result<()> + Send + 'static,
    ) -> Result<Work> {
        let tag = self.mesh.next_tag();
        for _ in 1..tags {
            self.mesh.next_tag();
        }
        let timeout = self.mesh.timeout();
        if !async_op {
            if let Err(e) = f(&Call { mesh: &self.mesh, tag, timeout }) {
                self.trace.failed(&e);
                return Err(e);
            }
            return Ok(Work::ended(result));
        }
        let (work, mesh, trace) = (Work::open(result, status.clone()), self.mesh.clone(), self.trace.clone());
        let mine = work.clone();
        self.push(Box::new(move || {
            let done = f(&Call { mesh: &mesh, tag, timeout });
            if let Err(e) = &done {
                trace.failed(e);
            }
            mine.finish(done);
        }))?;
        Ok(work)
    }
    fn push(&self, job: Job) -> Result<()> {
        let start = {
            let mut q = self.queue.lock();
            q.jobs.push_back(job);
            let start = q.threads < THREADS && q.jobs.len() > q.idle;
            q.threads += usize::from(start);
            start
        };
        self.queue.notify();
        if start {
            let queue = self.queue.clone();
            sync::spawn("gloo collectives", move || {
                loop {
                    let job = {
                        let mut q = queue.lock();
                        loop {
                            if let Some(j) = q.jobs.pop_front() {
                                break j;
                            }
                            if q.ended {
                                return;
                            }
                            q.idle += 1;
                            q = queue.wait(q);
                            q.idle -= 1;
                        }
                    };
                    job();
                }
            })?;
        }
        Ok(())
    }
}
impl Drop for Engine {
    fn drop(&mut self) {
        self.queue.lock().ended = true;
        self.queue.notify();
    }
}
