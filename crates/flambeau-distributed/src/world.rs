//! What a process knows of its job: the default group and the others. Ranks that are threads have one of these each.
//!
//! ```
//! use torch::distributed::{self as dist, run_in_threads};
//!
//! run_in_threads(4, |rank| {
//!     assert!(dist::is_available() && dist::is_gloo_available() && dist::is_initialized());
//!     assert_eq!((dist::get_rank(), dist::get_world_size()), (rank as i64, 4));
//!     assert_eq!((dist::get_backend().as_str(), dist::default_group().size()), ("gloo", 4));
//!     assert!(dist::get_backend_config().contains("cpu:gloo"));
//!     let odd = dist::new_group(&[1, 3]);
//!     assert_eq!(dist::get_process_group_ranks(&odd), [1, 3]);
//!     assert_eq!((dist::get_global_rank(&odd, 1), dist::get_group_rank(&odd, 3)), (3, 1));
//!     let (mine, all) = dist::new_subgroups(2);
//!     assert_eq!((mine.size(), all.len(), dist::get_pg_count()), (2, 2, 4));
//!     let (half, _) = dist::new_subgroups_by_enumeration(&[vec![0, 2], vec![1, 3]]);
//!     assert!(half.ranks().contains(&(rank as i64)) && dist::default_store().is_ok());
//!     dist::destroy_group(&odd)
//! });
//! assert!(!dist::is_initialized() && !dist::is_torchelastic_launched());
//! assert!(!dist::is_ucc_available() && !dist::is_xccl_available());
//! assert!(dist::is_mpi_available() == cfg!(feature = "mpi") && dist::get_debug_level() == dist::DebugLevel::Off);
//! assert_eq!(dist::get_node_local_rank(Some(0)), 0);
//! assert_eq!(dist::get_default_backend_for_device("cpu"), "gloo");
//! ```

use crate::calls::{Log, Recorded};
use crate::coalesce;
use crate::gloo::mesh::Wires;
use crate::group::{Backend, ProcessGroup, Trace};
use crate::rendezvous::{self, Setup};
use crate::sha1::sha1_hex;
use crate::store::{HashStore, PrefixStore, Store};
use crate::sync::Monitor;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, bail, ensure};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long collectives may take where nothing else is said: half an hour.
pub const DEFAULT_PG_TIMEOUT: Duration = Duration::from_secs(1800);

const UNINITIALIZED: &str =
    "Default process group has not been initialized, please make sure to call init_process_group.";

/// A job as one of its processes sees it. A process has one of its own; threads that stand for ranks get one each by
/// [`World::enter`].
///
/// ```
/// use torch::distributed::{World, get_node_local_rank, is_initialized};
/// let third = World::with_env([("LOCAL_RANK".to_string(), "2".to_string())]);
/// assert_eq!(third.enter(|| (get_node_local_rank(None), is_initialized())), (2, false));
/// ```
#[derive(Clone)]
pub struct World(pub(crate) Arc<Monitor<State>>);
#[derive(Default)]
pub(crate) struct State {
    default: Option<ProcessGroup>,
    groups: Vec<ProcessGroup>,
    /// how many groups have been made, here or elsewhere
    count: usize,
    /// those of them that their members alone have made
    local: usize,
    env: HashMap<String, String>,
    log: Arc<Log>,
    debug: Option<DebugLevel>,
    /// groups whose calls are put together, with what they have been asked for
    pub(crate) coalescing: Vec<(ProcessGroup, Vec<coalesce::Call>)>,
}

static PROCESS: Mutex<Option<World>> = Mutex::new(None);
thread_local! {
    static THREAD: RefCell<Option<World>> = const { RefCell::new(None) };
}

impl World {
    /// A job of which nothing is known yet.
    pub fn new() -> World {
        World(Arc::new(Monitor::new(State::default())))
    }
    /// With variables that count as the environment's.
    pub fn with_env(env: impl IntoIterator<Item = (String, String)>) -> World {
        let w = World::new();
        w.0.lock().env = env.into_iter().collect();
        w
    }
    /// This thread's, or the process's.
    pub fn current() -> World {
        let mine = THREAD.try_with(|t| t.borrow().clone()).ok().flatten();
        mine.unwrap_or_else(|| {
            PROCESS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(World::new).clone()
        })
    }
    /// Runs a function as this job's process: what it calls of this module is about this job.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Back(Option<World>);
        impl Drop for Back {
            fn drop(&mut self) {
                let before = self.0.take();
                let _ = THREAD.try_with(|t| *t.borrow_mut() = before);
            }
        }
        let before = THREAD.try_with(|t| t.borrow_mut().replace(self.clone())).ok().flatten();
        let _back = Back(before);
        f()
    }
    pub(crate) fn env(&self, name: &str) -> Option<String> {
        self.0.lock().env.get(name).cloned().or_else(|| std::env::var(name).ok())
    }
    pub(crate) fn default_group(&self) -> Result<ProcessGroup> {
        self.0.lock().default.clone().ok_or_else(|| Error::value(UNINITIALIZED))
    }
    /// The latest operations that this process has asked its groups for, the oldest first.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.log().all()
    }
    pub(crate) fn log(&self) -> Arc<Log> {
        self.0.lock().log.clone()
    }
    fn debug_level(&self) -> DebugLevel {
        let said = self.0.lock().debug;
        said.unwrap_or_else(|| {
            match self.env("TORCH_DISTRIBUTED_DEBUG").map(|v| v.to_uppercase()).as_deref() {
                Some("INFO") => DebugLevel::Info,
                Some("DETAIL") => DebugLevel::Detail,
                _ => DebugLevel::Off,
            }
        })
    }
    fn trace(&self, rank: i64) -> Trace {
        let log = self.log();
        let place =
            self.env("TORCH_FR_DUMP_TEMP_FILE").or_else(|| self.env("TORCH_NCCL_DEBUG_INFO_TEMP_FILE"));
        let detail = self.debug_level() == DebugLevel::Detail;
        Trace { detail, log, place, rank }
    }
    /// The number of the next group, which all processes that make it agree on.
    pub(crate) fn next_group(&self) -> usize {
        let mut s = self.0.lock();
        s.count += 1;
        s.count + s.local - 1
    }
    /// Joins a group of these ranks of the job, which is a part of another one or not, and keeps it.
    pub(crate) fn found(
        &self,
        of: &ProcessGroup,
        split: bool,
        name: String,
        desc: String,
        ranks: Vec<i64>,
        place: usize,
        backend: Backend,
        timeout: Duration,
    ) -> Result<ProcessGroup> {
        let store = of.store().ok_or_else(|| Error::value(UNINITIALIZED))?;
        let store: Arc<dyn Store> = Arc::new(PrefixStore::new(format!("{name}/"), store));
        let (trace, wires) = (self.trace(self.default_group()?.rank()), self.wires());
        let group = ProcessGroup::member(
            name, desc, ranks, place, backend, store, timeout, wires, false, split, trace,
        )?;
        self.0.lock().groups.push(group.clone());
        Ok(group)
    }
    /// Takes a group's place with another one.
    pub(crate) fn replace(&self, old: &ProcessGroup, new: &ProcessGroup) {
        let mut s = self.0.lock();
        let gone = if old.is_world() {
            s.default = Some(new.clone());
            std::mem::take(&mut s.groups)
        } else {
            let (gone, kept) = std::mem::take(&mut s.groups).into_iter().partition(|g| g.same(old));
            s.groups = kept;
            gone
        };
        s.groups.push(new.clone());
        drop(s);
        drop(gone);
    }
    fn wires(&self) -> Wires {
        let on =
            |n| self.env(n).is_some_and(|v| matches!(v.to_lowercase().as_str(), "1" | "true" | "y" | "yes"));
        Wires {
            interface: self.env("GLOO_SOCKET_IFNAME"),
            lazy: on("TORCH_GLOO_LAZY_INIT") || on("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER"),
        }
    }
}
impl Default for World {
    fn default() -> Self {
        World::new()
    }
}

/// Keywords of [`init_process_group_with`].
#[flambeau_macros::options]
pub struct InitProcessGroupOptions {
    /// `env://`, `tcp://host:port` or `file:///path`. Default: `env://`, where there is no store.
    pub(crate) init_method: Option<String>,
    /// How long collectives may take. Default: half an hour.
    #[default(DEFAULT_PG_TIMEOUT)]
    pub(crate) timeout: Duration,
    /// The number of processes, where the method does not say it.
    pub(crate) world_size: Option<i64>,
    /// This process's rank, where the method does not say it.
    pub(crate) rank: Option<i64>,
    /// A store that all processes see, instead of a method.
    pub(crate) store: Option<Arc<dyn Store>>,
}

/// Joins a job: waits for all its processes and makes the group of all of them, which is the default from then on.
///
/// The backend is `gloo`, for tensors of the CPU; pairs like `cpu:gloo,cuda:nccl` name one for each type of device. By `env://` the
/// rank and where to meet are in the variables `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`.
///
/// ```
/// use std::sync::Arc;
/// use torch::distributed::{self, HashStore, InitProcessGroupOptions, Store};
///
/// let store: Arc<dyn Store> = Arc::new(HashStore::new());
/// let alone = InitProcessGroupOptions::new().store(store).rank(0).world_size(1);
/// distributed::init_process_group_with("gloo", alone);
/// let t = torch::tensor([1.0, 2.0]);
/// distributed::all_reduce(&t);
/// assert_eq!(t.to_vec::<f32>(), [1.0, 2.0]);
/// distributed::destroy_process_group();
/// ```
///
/// # Errors
/// A job that has begun, a method or backend that is unknown, what a method lacks, and processes that do not come in time.
#[doc(alias = "torch.distributed.note:init-method:env")]
#[doc(alias = "torch.distributed.note:init-method:tcp")]
#[doc(alias = "torch.distributed.note:init-method:file")]
#[doc(alias = "torch.distributed.note:init:lazy-gloo")]
#[doc(alias = "GLOO_SOCKET_IFNAME")]
#[doc(alias = "TORCH_GLOO_LAZY_INIT")]
#[doc(alias = "torch.distributed.init_process_group")]
#[doc(alias = "torch.distributed.deprecated.init_process_group")]
#[doc(alias = "MASTER_ADDR")]
#[doc(alias = "MASTER_PORT")]
#[doc(alias = "RANK")]
#[doc(alias = "WORLD_SIZE")]
#[flambeau_macros::short(with)]
pub fn try_init_process_group(backend: &str, options: InitProcessGroupOptions) -> Result<()> {
    let (w, o) = (World::current(), options);
    if w.0.lock().default.is_some() {
        bail!(Value, "trying to initialize the default process group twice!");
    }
    ensure!(
        o.store.is_none() || o.init_method.is_none(),
        Assertion,
        "Cannot specify both init_method and store."
    );
    let backend: Backend = backend.parse()?;
    backend.config()?;
    // kept until the group has it
    #[cfg(feature = "mpi")]
    let _mpi;
    let setup = match o.store {
        Some(store) => {
            ensure!(
                o.world_size.is_some_and(|n| n > 0),
                Assertion,
                "world_size must be positive if using store"
            );
            ensure!(o.rank.is_some_and(|r| r >= 0), Assertion, "rank must be non-negative if using store");
            Setup { store, rank: o.rank.unwrap_or(0), size: o.world_size.unwrap_or(1) }
        }
        // ranks come from MPI, and nothing has to be agreed on
        #[cfg(feature = "mpi")]
        None if backend.as_str() == Backend::MPI => {
            let m = crate::mpi::Runtime::get()?;
            let setup = Setup { store: Arc::new(HashStore::new()), rank: m.rank, size: m.size };
            _mpi = m;
            setup
        }
        #[cfg(not(feature = "mpi"))]
        None if backend.as_str() == Backend::MPI => return Err(crate::group::absent(Backend::MPI)),
        None => rendezvous::find(&w, o.init_method.as_deref(), o.rank, o.world_size, o.timeout)?,
    };
    ensure!((0..setup.size).contains(&setup.rank), Runtime, "rank < size. {} vs {}", setup.rank, setup.size);
    let store: Arc<dyn Store> = Arc::new(PrefixStore::new("default_pg", setup.store));
    let name = {
        let mut s = w.0.lock();
        s.count += 1;
        (s.count - 1).to_string()
    };
    let store = Arc::new(PrefixStore::new(format!("{name}/"), store));
    let ranks = (0..setup.size).collect();
    let made = ProcessGroup::member(
        name,
        "default_pg".into(),
        ranks,
        setup.rank as usize,
        backend,
        store.clone(),
        o.timeout,
        w.wires(),
        true,
        false,
        w.trace(setup.rank),
    );
    let group = match made {
        Ok(g) => g,
        Err(e) => {
            w.0.lock().count = 0;
            return Err(e);
        }
    };
    if w.env("TORCH_DIST_INIT_BARRIER").as_deref() == Some("1") {
        let key = format!("store_based_barrier_key:{}", group.group_name());
        let come = store.add(&key, 1)?;
        let last = format!("{key}:last_worker");
        if come >= setup.size {
            store.set(&last, b"1")?;
        }
        store.wait_timeout(&[&last], o.timeout)?;
    }
    let mut s = w.0.lock();
    s.groups.push(group.clone());
    s.default = Some(group);
    Ok(())
}

/// Leaves the job: ends all groups.
///
/// # Errors
/// No job has begun.
#[doc(alias = "torch.distributed.note:shutdown")]
#[doc(alias = "torch.distributed.note:reinitialization")]
#[doc(alias = "torch.distributed.destroy_process_group")]
#[flambeau_macros::short]
pub fn try_destroy_process_group() -> Result<()> {
    let w = World::current();
    let all = {
        let mut s = w.0.lock();
        ensure!(s.default.is_some(), Assertion, "Process group cannot be None");
        s.count = 0;
        s.default = None;
        std::mem::take(&mut s.groups)
    };
    drop(all);
    Ok(())
}
/// Ends one group.
///
/// # Errors
/// It is none of the job's.
pub fn destroy_group(group: &ProcessGroup) -> Result<()> {
    if group.is_world() {
        return try_destroy_process_group();
    }
    let w = World::current();
    let mut s = w.0.lock();
    let Some(i) = s.groups.iter().position(|g| g.same(group)) else {
        bail!(Value, "Invalid process group specified")
    };
    let gone = s.groups.remove(i);
    drop(s);
    drop(gone);
    Ok(())
}

/// Keywords of [`new_group_with`].
#[flambeau_macros::options]
pub struct NewGroupOptions {
    /// How long its collectives may take; the default group's time if left out.
    pub(crate) timeout: Option<Duration>,
    /// Its engine; the default group's if left out.
    pub(crate) backend: Option<String>,
    /// Whether its members alone call this, instead of all processes. Default: false.
    #[default(false)]
    pub(crate) use_local_synchronization: bool,
    /// What to call it.
    pub(crate) group_desc: Option<String>,
}

/// A group of some processes. All processes of the job call this, in the same order of groups, whether they are in it or not.
///
/// # Errors
/// Ranks that are given twice or do not exist; processes that do not come in time.
#[doc(alias = "torch.distributed.new_group")]
#[doc(alias = "torch.distributed.deprecated.new_group")]
#[flambeau_macros::short(with)]
pub fn try_new_group(ranks: &[i64], options: NewGroupOptions) -> Result<ProcessGroup> {
    make(Some(ranks.to_vec()), options)
}
/// A group of all processes, with connections of its own.
///
/// ```
/// use torch::distributed::{NewGroupOptions, new_group_of_all, run_in_threads};
/// let sizes = run_in_threads(2, |_| new_group_of_all(NewGroupOptions::new()).map(|g| g.size()).unwrap());
/// assert_eq!(sizes, [2, 2]);
/// ```
///
/// # Errors
/// See [`try_new_group`].
pub fn new_group_of_all(options: NewGroupOptions) -> Result<ProcessGroup> {
    make(None, options)
}
fn make(ranks: Option<Vec<i64>>, o: NewGroupOptions) -> Result<ProcessGroup> {
    let w = World::current();
    let default = w.default_group()?;
    let (size, me) = (default.size(), default.rank());
    let backend: Backend = match &o.backend {
        Some(b) => b.parse()?,
        None => default.backend().clone(),
    };
    backend.config()?;
    let ranks = match ranks {
        None => (0..size).collect(),
        Some(mut r) => {
            let mut seen = r.clone();
            seen.sort_unstable();
            seen.dedup();
            ensure!(
                r.len() as i64 <= size,
                Value,
                "the new group's world size should be less or equal to the world size set by init_process_group"
            );
            ensure!(seen.len() == r.len(), Value, "ranks list must not contain duplicate entries, got {r:?}");
            for x in &r {
                ensure!(
                    (0..size).contains(x),
                    Value,
                    "Rank {x} is out of range. Valid ranks are 0 to {} (world_size={size})",
                    size - 1
                );
            }
            r.sort_unstable();
            r
        }
    };
    let place = ranks.iter().position(|r| *r == me);
    let name = if o.use_local_synchronization {
        if place.is_none() {
            return Ok(ProcessGroup::apart(String::new(), ranks, backend));
        }
        let joined: Vec<String> = ranks.iter().map(i64::to_string).collect();
        let known = {
            let mut s = w.0.lock();
            s.local += 1;
            s.count + s.local - 1
        };
        sha1_hex(format!("{}_{known}", joined.join("_")).as_bytes())
    } else {
        let mut s = w.0.lock();
        s.count += 1;
        (s.count - 1).to_string()
    };
    let Some(place) = place else { return Ok(ProcessGroup::apart(name, ranks, backend)) };
    let timeout = o.timeout.unwrap_or_else(|| default.timeout());
    let desc = o.group_desc.unwrap_or_else(|| "undefined".to_owned());
    w.found(&default, false, name, desc, ranks, place, backend, timeout)
}

/// Groups of as many neighbours each; gives this process's and all of them.
///
/// # Errors
/// A size that does not divide the number of processes.
#[doc(alias = "torch.distributed.new_subgroups")]
#[flambeau_macros::short(with)]
pub fn try_new_subgroups(
    group_size: i64,
    options: NewGroupOptions,
) -> Result<(ProcessGroup, Vec<ProcessGroup>)> {
    let all = World::current().default_group()?;
    try_new_subgroups_of(&all, group_size, options)
}
/// A group for each machine, as far as `LOCAL_WORLD_SIZE` says how many ranks each has; one of all ranks where it is not set.
///
/// # Errors
/// Numbers of ranks that differ between machines.
pub(crate) fn try_new_subgroups_of_machines() -> Result<(ProcessGroup, Vec<ProcessGroup>)> {
    let w = World::current();
    let size = w.default_group()?.size();
    let each = w.env("LOCAL_WORLD_SIZE").and_then(|v| v.parse().ok()).unwrap_or(size);
    try_new_subgroups(each, NewGroupOptions::new())
}
/// Groups of as many neighbours each among a group's ranks; gives this process's and all of them. All processes of the job call this.
///
/// # Errors
/// A size that does not divide the number of the group's ranks.
pub fn try_new_subgroups_of(
    group: &ProcessGroup,
    group_size: i64,
    options: NewGroupOptions,
) -> Result<(ProcessGroup, Vec<ProcessGroup>)> {
    let ranks = group.ranks().to_vec();
    let size = ranks.len() as i64;
    ensure!(group_size > 0, Value, "The arg 'group_size' ({group_size}) must be positive");
    ensure!(
        group_size <= size,
        Value,
        "The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
    );
    ensure!(
        size % group_size == 0,
        Value,
        "The world size ({size}) must be divisible by 'group_size={group_size}'"
    );
    let all: Vec<Vec<i64>> = ranks.chunks(group_size as usize).map(<[i64]>::to_vec).collect();
    try_new_subgroups_by_enumeration(&all, options)
}
/// Groups of these ranks, no rank in two of them; gives this process's and all of them. A process that is in none gets a handle
/// of the last.
///
/// # Errors
/// No group; a rank in two groups.
#[doc(alias = "torch.distributed.new_subgroups_by_enumeration")]
#[flambeau_macros::short(with)]
pub fn try_new_subgroups_by_enumeration(
    ranks_per_subgroup_list: &[Vec<i64>],
    options: NewGroupOptions,
) -> Result<(ProcessGroup, Vec<ProcessGroup>)> {
    ensure!(!ranks_per_subgroup_list.is_empty(), Value, "The arg 'ranks_per_subgroup_list' cannot be empty");
    let mut seen = HashMap::new();
    let mut all = Vec::new();
    for (i, ranks) in ranks_per_subgroup_list.iter().enumerate() {
        all.push(make(Some(ranks.clone()), options.clone())?);
        for r in ranks {
            if let Some(other) = seen.insert(*r, i) {
                bail!(
                    Value,
                    "Rank {r} has appeared in both subgroup {:?} and {ranks:?}",
                    ranks_per_subgroup_list[other]
                );
            }
        }
    }
    let mine = all.iter().find(|g| g.is_member()).or(all.last()).cloned();
    let mine = mine.ok_or_else(|| Error::value("The arg 'ranks_per_subgroup_list' cannot be empty"))?;
    Ok((mine, all))
}

/// The default group.
///
/// # Errors
/// No job has begun.
#[doc(alias = "torch.distributed.group.WORLD")]
#[flambeau_macros::short]
pub fn try_default_group() -> Result<ProcessGroup> {
    World::current().default_group()
}
/// Whether a job has begun.
#[doc(alias = "torch.distributed.is_initialized")]
pub fn is_initialized() -> bool {
    World::current().0.lock().default.is_some()
}
/// Whether this library can do any of it: yes.
#[doc(alias = "torch.distributed.is_available")]
pub fn is_available() -> bool {
    true
}
/// Whether gloo is there: yes.
#[doc(alias = "torch.distributed.is_gloo_available")]
pub fn is_gloo_available() -> bool {
    true
}
/// Whether NVIDIA's library is there, in programs that are built with the feature `nccl`.
#[doc(alias = "torch.distributed.is_nccl_available")]
pub fn is_nccl_available() -> bool {
    #[cfg(feature = "nccl")]
    return crate::nccl::is_present();
    #[cfg(not(feature = "nccl"))]
    false
}
/// Whether MPI is there: in programs that are built with the feature `mpi`.
#[doc(alias = "torch.distributed.is_mpi_available")]
pub fn is_mpi_available() -> bool {
    cfg!(feature = "mpi")
}
/// Whether UCC is there: no.
#[doc(alias = "torch.distributed.is_ucc_available")]
pub fn is_ucc_available() -> bool {
    false
}
/// Whether Intel's library is there: no.
#[doc(alias = "torch.distributed.distributed_c10d.is_xccl_available")]
#[doc(alias = "torch.distributed.is_xccl_available")]
pub fn is_xccl_available() -> bool {
    false
}
/// Whether torchrun, or `flambeau-run`, has started this process.
#[doc(alias = "torch.distributed.is_torchelastic_launched")]
#[doc(alias = "TORCHELASTIC_RUN_ID")]
pub fn is_torchelastic_launched() -> bool {
    World::current().env("TORCHELASTIC_RUN_ID").is_some()
}
/// The engine that a type of device has where nobody says another.
///
/// # Errors
/// No such device.
#[doc(alias = "torch.distributed.get_default_backend_for_device")]
#[flambeau_macros::short]
pub fn try_get_default_backend_for_device(device: &str) -> Result<String> {
    let kind = device.split(':').next().unwrap_or(device);
    Ok(match kind {
        "cpu" | "mps" => "gloo",
        "cuda" => "nccl",
        "xpu" => "xccl",
        _ => {
            if let Some((_, own)) = crate::backend::defaults().into_iter().find(|(d, _)| d == kind) {
                return Ok(own);
            }
            flambeau_core::Device::parse(device)?;
            bail!(Value, "Default backend not registered for device : {device}")
        }
    }
    .to_owned())
}

macro_rules! queries {
    ($($(#[$meta:meta])* $name:ident -> $ty:ty, |$g:ident| $f:expr;)*) => {$(
        $(#[$meta])*
        ///
        /// # Errors
        /// No job has begun.
        #[flambeau_macros::short]
        pub fn $name() -> Result<$ty> {
            let $g = World::current().default_group()?;
            Ok($f)
        }
    )*};
}
queries! {
    /// This process's rank in the job. A group's own is [`ProcessGroup::rank`].
    #[doc(alias = "torch.distributed.get_rank")]
    #[doc(alias = "torch.distributed.deprecated.get_rank")]
    try_get_rank -> i64, |g| g.rank();
    /// The number of processes in the job. A group's own is [`ProcessGroup::size`].
    #[doc(alias = "torch.distributed.get_world_size")]
    #[doc(alias = "torch.distributed.deprecated.get_world_size")]
    try_get_world_size -> i64, |g| g.size();
    /// The default group's engine. Another group's is [`ProcessGroup::backend`].
    #[doc(alias = "torch.distributed.get_backend")]
    try_get_backend -> String, |g| g.backend().for_device("cpu").unwrap_or_default();
    /// The default group's engines by type of device.
    #[doc(alias = "torch.distributed.get_backend_config")]
    try_get_backend_config -> String, |g| {
        let all: Vec<String> = g.backend().pairs().iter().map(|(d, b)| format!("{d}:{b}")).collect();
        all.join(",")
    };
    /// How many groups the job has made.
    #[doc(alias = "torch.distributed.get_pg_count")]
    try_get_pg_count -> usize, |_g| World::current().0.lock().count;
}
/// A member's rank in the group, by its rank in the job.
///
/// # Errors
/// It is no member.
#[doc(alias = "torch.distributed.get_group_rank")]
#[flambeau_macros::short]
pub fn try_get_group_rank(group: &ProcessGroup, global_rank: i64) -> Result<i64> {
    if group.is_world() { Ok(global_rank) } else { group.group_rank(global_rank) }
}
/// A member's rank in the job, by its rank in the group.
///
/// # Errors
/// The group has no such rank.
#[doc(alias = "torch.distributed.get_global_rank")]
#[flambeau_macros::short]
pub fn try_get_global_rank(group: &ProcessGroup, group_rank: i64) -> Result<i64> {
    if group.is_world() { Ok(group_rank) } else { group.global_rank(group_rank) }
}
/// The members' ranks in the job.
#[doc(alias = "torch.distributed.get_process_group_ranks")]
pub fn get_process_group_ranks(group: &ProcessGroup) -> Vec<i64> {
    group.ranks().to_vec()
}
/// This process's number among those of its machine, from the variable `LOCAL_RANK`.
///
/// # Errors
/// The variable is not set, or no number.
#[doc(alias = "torch.distributed.get_node_local_rank")]
#[doc(alias = "LOCAL_RANK")]
#[flambeau_macros::short]
pub fn try_get_node_local_rank(fallback_rank: Option<i64>) -> Result<i64> {
    match (World::current().env("LOCAL_RANK"), fallback_rank) {
        (Some(v), _) => {
            v.parse().map_err(|_| Error::value(format!("invalid literal for int() with base 10: '{v}'")))
        }
        (None, Some(r)) => Ok(r),
        (None, None) => bail!(
            Runtime,
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, assuming you are not running in a multi-device context and want the code to run locally instead."
        ),
    }
}
/// How much is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.DebugLevel")]
pub enum DebugLevel {
    /// Nothing more.
    Off,
    /// Messages.
    Info,
    /// Calls are compared before they run.
    Detail,
}
/// How much is checked: what [`set_debug_level`] has said, else the variable `TORCH_DISTRIBUTED_DEBUG`.
#[doc(alias = "torch.distributed.get_debug_level")]
#[doc(alias = "TORCH_DISTRIBUTED_DEBUG")]
pub fn get_debug_level() -> DebugLevel {
    World::current().debug_level()
}
/// Says how much is checked of groups that are made from now on.
#[doc(alias = "torch.distributed.set_debug_level")]
pub fn set_debug_level(level: DebugLevel) {
    World::current().0.lock().debug = Some(level);
}
/// Takes how much is checked from the variable `TORCH_DISTRIBUTED_DEBUG` again.
///
/// # Errors
/// The variable says something else than `OFF`, `INFO` or `DETAIL`.
#[doc(alias = "torch.distributed.set_debug_level_from_env")]
#[flambeau_macros::short]
pub fn try_set_debug_level_from_env() -> Result<()> {
    let w = World::current();
    if let Some(v) = w.env("TORCH_DISTRIBUTED_DEBUG") {
        ensure!(
            matches!(v.to_uppercase().as_str(), "" | "OFF" | "INFO" | "DETAIL"),
            Runtime,
            "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL."
        );
    }
    w.0.lock().debug = None;
    Ok(())
}

/// Runs a job whose ranks are threads of this process, over the loopback, and gives what each returned. For tests: a rank that panics
/// brings the others down by closing its connections.
///
/// ```
/// use torch::distributed::{self, run_in_threads};
///
/// let sums = run_in_threads(3, |rank| {
///     let t = torch::tensor([rank as f64]);
///     distributed::all_reduce(&t);
///     t.item::<f64>()
/// });
/// assert_eq!(sums, [3.0, 3.0, 3.0]);
/// ```
#[track_caller]
pub fn run_in_threads<R: Send>(size: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    run_in_threads_with(size, HashMap::new(), DEFAULT_PG_TIMEOUT, f)
}
/// [`run_in_threads`] with variables of the environment, and a limit of time for each operation.
#[track_caller]
pub fn run_in_threads_with<R: Send>(
    size: usize,
    env: HashMap<String, String>,
    timeout: Duration,
    f: impl Fn(usize) -> R + Sync,
) -> Vec<R> {
    let store = HashStore::new();
    let all: Vec<std::thread::Result<R>> = std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let (store, f, mut env) = (store.clone(), &f, env.clone());
                env.entry("GLOO_SOCKET_IFNAME".into()).or_insert_with(|| "lo".into());
                scope.spawn(move || {
                    let world = World::with_env(env);
                    world.enter(|| {
                        let o = InitProcessGroupOptions::new()
                            .store(Arc::new(store) as Arc<dyn Store>)
                            .rank(rank as i64)
                            .world_size(size as i64)
                            .timeout(timeout);
                        init_process_group_with("gloo", o);
                        let r = f(rank);
                        if is_initialized() {
                            destroy_process_group();
                        }
                        r
                    })
                })
            })
            .collect();
        ranks.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    all.into_iter().map(|r| r.unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
}
/// The store of the job, as the default group sees it: its keys begin with the group's name.
///
/// # Errors
/// No job has begun.
pub fn default_store() -> Result<Arc<dyn Store>> {
    World::current().default_group()?.store().ok_or_else(|| Error::value(UNINITIALIZED))
}
