//! Engines of a program's own, beside gloo.

use crate::group::Backend;
use crate::reduce_op::ReduceOp;
use crate::store::Store;
use crate::work::Work;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, ErrorKind, Result, Tensor, bail, ensure};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

macro_rules! unsupported {
    ($self:ident, $name:literal $(, $unused:expr)*) => {{
        $(let _ = $unused;)*
        Err(refuses($self.name(), $name))
    }};
}
fn refuses(backend: &str, what: &str) -> Error {
    Error::runtime(format!("Backend {backend} does not support {what}"))
}

/// An engine of a program's own for one group: how its ranks exchange tensors.
///
/// It is made for each group by what [`Backend::register_backend`] was given. Collectives of tensors on its devices come here as they are
/// called, without having been checked; ranks are those in the group. Each gives a [`Work`]: [`Work::completed`] where it has run,
/// [`Work::from_future`] where it runs on. What an engine does not say is an error in PyTorch's words.
#[doc(alias = "torch.distributed.note:third-party-backends")]
pub trait CollectiveBackend: Send + Sync {
    /// Its name, for errors.
    fn name(&self) -> &str;
    /// Copies the root's tensor into all others'.
    ///
    /// # Errors
    /// The engine's own; that it does not do it. So are those of the other methods.
    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Work> {
        unsupported!(self, "broadcast", (tensor, root))
    }
    /// Reduces the ranks' tensors into each of them.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> Result<Work> {
        unsupported!(self, "allreduce", (tensor, op))
    }
    /// [`CollectiveBackend::all_reduce`] of several tensors at once.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn all_reduce_coalesced(&self, tensors: &[Tensor], op: ReduceOp) -> Result<Work> {
        unsupported!(self, "allreduce_coalesced", (tensors, op))
    }
    /// Reduces the ranks' tensors into the root's.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn reduce(&self, tensor: &Tensor, root: usize, op: ReduceOp) -> Result<Work> {
        unsupported!(self, "reduce", (tensor, root, op))
    }
    /// Gives every rank the tensors of all.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Work> {
        unsupported!(self, "allgather", (outputs, input))
    }
    /// Gives every rank the tensors of all as one.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn all_gather_into_tensor(&self, output: &Tensor, input: &Tensor) -> Result<Work> {
        unsupported!(self, "_allgather_base", (output, input))
    }
    /// [`CollectiveBackend::all_gather`] of several tensors at once; each list of outputs is of one rank.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn all_gather_coalesced(&self, outputs: &[Vec<Tensor>], inputs: &[Tensor]) -> Result<Work> {
        unsupported!(self, "allgather_coalesced", (outputs, inputs))
    }
    /// Gives the root the tensors of all; others have no outputs.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn gather(&self, outputs: &[Tensor], input: &Tensor, root: usize) -> Result<Work> {
        unsupported!(self, "gather", (outputs, input, root))
    }
    /// Gives every rank one of the root's tensors; others have no inputs.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn scatter(&self, output: &Tensor, inputs: &[Tensor], root: usize) -> Result<Work> {
        unsupported!(self, "scatter", (output, inputs, root))
    }
    /// Reduces lists of tensors, and gives each rank its own.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn reduce_scatter(&self, output: &Tensor, inputs: &[Tensor], op: ReduceOp) -> Result<Work> {
        unsupported!(self, "reduce_scatter", (output, inputs, op))
    }
    /// Reduces tensors, and gives each rank its part.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn reduce_scatter_tensor(&self, output: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Work> {
        unsupported!(self, "_reduce_scatter_base", (output, input, op))
    }
    /// Gives every rank rows of every rank's tensor; empty splits stand for equal parts.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn all_to_all_single(
        &self,
        output: &Tensor,
        input: &Tensor,
        output_splits: &[i64],
        input_splits: &[i64],
    ) -> Result<Work> {
        unsupported!(self, "alltoall_base", (output, input, output_splits, input_splits))
    }
    /// Gives every rank one of every rank's tensors.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn all_to_all(&self, outputs: &[Tensor], inputs: &[Tensor]) -> Result<Work> {
        unsupported!(self, "alltoall", (outputs, inputs))
    }
    /// Sends a tensor.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn send(&self, tensor: &Tensor, to: usize, tag: i64) -> Result<Work> {
        unsupported!(self, "send", (tensor, to, tag))
    }
    /// Receives a tensor.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn recv(&self, tensor: &Tensor, from: usize, tag: i64) -> Result<Work> {
        unsupported!(self, "recv", (tensor, from, tag))
    }
    /// Begins messages of both directions at once.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn batch_isend_irecv(&self, messages: &[Message]) -> Result<Vec<Work>> {
        let one = |m: &Message| {
            if m.send { self.send(&m.tensor, m.peer, m.tag) } else { self.recv(&m.tensor, m.peer, m.tag) }
        };
        messages.iter().map(one).collect()
    }
    /// Returns once all ranks have come.
    ///
    /// # Errors
    /// See [`CollectiveBackend::broadcast`].
    fn barrier(&self) -> Result<Work> {
        unsupported!(self, "barrier")
    }
    /// An engine of the group without these ranks, which `SHRINK_ABORT` may interrupt what runs for; those that remain call it.
    ///
    /// # Errors
    /// The engine's own; that it cannot do it, of kind `Unsupported`, which is the default.
    fn shrink(&self, without: &[usize], abort: bool) -> Result<Arc<dyn CollectiveBackend>> {
        let _ = (without, abort);
        Err(Error::new(ErrorKind::Unsupported, "shrink"))
    }
    /// Says how long operations may take.
    fn set_timeout(&self, timeout: Duration) {
        let _ = timeout;
    }
    /// Ends all that is under way.
    fn abort(&self) {}
}

/// A message of [`CollectiveBackend::batch_isend_irecv`].
#[derive(Clone, Debug)]
pub struct Message {
    /// Whether it is sent; received otherwise.
    pub send: bool,
    /// What is sent, or where it is written.
    pub tensor: Tensor,
    /// The other rank, in the group.
    pub peer: usize,
    /// Its tag.
    pub tag: i64,
}

/// What an engine of a program's own is made with.
#[derive(Clone)]
pub struct BackendArguments {
    /// A store of the group's own.
    pub store: Arc<dyn Store>,
    /// This process's rank in the group.
    pub rank: usize,
    /// The number of the group's ranks.
    pub size: usize,
    /// How long operations may take.
    pub timeout: Duration,
    /// The group's name.
    pub group_name: String,
    /// The members' ranks in the job.
    pub global_ranks: Vec<i64>,
}
impl std::fmt::Debug for BackendArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BackendArguments({}, rank {} of {})", self.group_name, self.rank, self.size)
    }
}

type Creator = Arc<dyn Fn(&BackendArguments) -> Result<Arc<dyn CollectiveBackend>> + Send + Sync>;
#[derive(Clone)]
struct Plugin {
    make: Creator,
    devices: Vec<String>,
}
static PLUGINS: Mutex<BTreeMap<String, Plugin>> = Mutex::new(BTreeMap::new());

/// Engines that are not a program's own.
const BUILT_IN: [&str; 6] = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi"];

fn plugin(name: &str) -> Option<Plugin> {
    PLUGINS.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}
/// The devices of a program's own engine.
pub(crate) fn devices_of(name: &str) -> Option<Vec<String>> {
    plugin(name).map(|p| p.devices)
}
/// Devices that have an engine of the program's own and none else, with its name.
pub(crate) fn defaults() -> Vec<(String, String)> {
    let all = PLUGINS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, p) in &*all {
        for d in &p.devices {
            if !matches!(&**d, "cpu" | "cuda" | "xpu" | "mps") && found.iter().all(|f| f.0 != *d) {
                found.push((d.clone(), name.clone()));
            }
        }
    }
    found
}
/// Makes the engine of this name for a group, if there is one beside gloo.
pub(crate) fn make(name: &str, a: &BackendArguments) -> Result<Option<Arc<dyn CollectiveBackend>>> {
    #[cfg(feature = "nccl")]
    if name == Backend::NCCL {
        return crate::nccl::make(a).map(Some);
    }
    #[cfg(feature = "mpi")]
    if name == Backend::MPI {
        return crate::mpi::make(a).map(Some);
    }
    plugin(name).map(|p| (p.make)(a)).transpose()
}

impl Backend {
    /// Makes an engine of a program's own known by a name, which groups name it by: `register_backend("mine", make, &["cpu"])`, then
    /// `init_process_group("mine")`, or `"cpu:gloo,cuda:mine"`. Registered again, a name is the new engine's.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use torch::distributed::{self, Backend, CollectiveBackend, ReduceOp, Work, HashStore, InitProcessGroupOptions, Store};
    ///
    /// /// Groups of one, who have all they need.
    /// struct Alone;
    /// impl CollectiveBackend for Alone {
    ///     fn name(&self) -> &str {
    ///         "alone"
    ///     }
    ///     fn all_reduce(&self, tensor: &torch::Tensor, _: ReduceOp) -> torch::Result<Work> {
    ///         Ok(Work::completed(vec![tensor.clone()]))
    ///     }
    /// }
    ///
    /// Backend::register_backend("alone", |_| Ok(Arc::new(Alone)), &["cpu"])?;
    /// let store: Arc<dyn Store> = Arc::new(HashStore::new());
    /// distributed::init_process_group_with("alone", InitProcessGroupOptions::new().store(store).rank(0).world_size(1));
    /// distributed::all_reduce(&torch::ones([2]));
    /// let refused = distributed::try_barrier(distributed::CollectiveOptions::new()).unwrap_err();
    /// assert_eq!(refused.message(), "Backend alone does not support barrier");
    /// distributed::destroy_process_group();
    /// # Ok::<(), torch::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that this library has an engine for, or of which pairs of devices could not be written; no device.
    #[doc(alias = "torch.distributed.Backend.register_backend")]
    pub fn register_backend(
        name: &str,
        make: impl Fn(&BackendArguments) -> Result<Arc<dyn CollectiveBackend>> + Send + Sync + 'static,
        devices: &[&str],
    ) -> Result<()> {
        let name = name.to_lowercase();
        ensure!(
            !name.is_empty() && !name.contains([':', ',']) && !BUILT_IN.contains(&&*name),
            Value,
            "{name:?} cannot be the name of a program's own backend"
        );
        ensure!(!devices.is_empty(), Value, "backend {name} names no device");
        let devices = devices.iter().map(|d| (*d).to_owned()).collect();
        PLUGINS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, Plugin { make: Arc::new(make), devices });
        Ok(())
    }
}
/// Whether there is an engine of this name, or each of `cpu:gloo,cuda:nccl`.
///
/// ```
/// use torch::distributed::is_backend_available;
///
/// assert!(is_backend_available("gloo") && !is_backend_available("cpu:gloo,cuda:nccl"));
/// ```
#[doc(alias = "torch.distributed.is_backend_available")]
pub fn is_backend_available(backend: &str) -> bool {
    let one = |name: &str| match name {
        Backend::GLOO => true,
        Backend::MPI => crate::is_mpi_available(),
        Backend::NCCL => crate::is_nccl_available(),
        name => plugin(name).is_some(),
    };
    let backend = backend.to_lowercase();
    if !backend.contains(':') {
        return one(&backend);
    }
    let parsed = backend.parse::<Backend>().and_then(|b| b.config().map(|_| b));
    parsed.is_ok_and(|b| b.pairs().iter().all(|(_, name)| one(name)))
}

/// NVIDIA's engine for one group, in programs that are built with the feature `nccl`; it loads the library at run time.
///
/// Work is queued on the thread's stream, behind what made the tensors: nothing waits but what uses the results, unless
/// `TORCH_NCCL_BLOCKING_WAIT` is 1. The library itself reads its variables (`NCCL_DEBUG`, `NCCL_SOCKET_IFNAME` and others).
///
/// ```
/// use std::sync::Arc;
/// use torch::distributed::{self, HashStore, ProcessGroupNCCL, ProcessGroupNcclOptions};
///
/// if !distributed::is_nccl_available() {
///     let e = ProcessGroupNCCL::new(Arc::new(HashStore::new()), 0, 1, ProcessGroupNcclOptions::new()).unwrap_err();
///     assert!(e.message().contains("NCCL"));
/// }
/// ```
#[derive(Clone)]
#[doc(alias = "NCCL_CROSS_NIC")]
#[doc(alias = "NCCL_DEBUG")]
#[doc(alias = "NCCL_DEBUG_SUBSYS")]
#[doc(alias = "NCCL_NSOCKS_PERTHREAD")]
#[doc(alias = "NCCL_SOCKET_IFNAME")]
#[doc(alias = "NCCL_SOCKET_NTHREADS")]
#[doc(alias = "TORCH_NCCL_BLOCKING_WAIT")]
#[doc(alias = "torch.distributed.ProcessGroupNCCL")]
pub struct ProcessGroupNCCL(Arc<dyn CollectiveBackend>);
impl std::fmt::Debug for ProcessGroupNCCL {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProcessGroupNCCL({})", self.0.name())
    }
}
impl ProcessGroupNCCL {
    /// The engine of a group.
    ///
    /// # Errors
    /// A build without the feature, no library, no device; options that are not the defaults.
    pub fn new(
        store: Arc<dyn Store>,
        rank: i64,
        size: i64,
        options: ProcessGroupNcclOptions,
    ) -> Result<ProcessGroupNCCL> {
        let c = &options.config;
        let plain = c.blocking.is_none() && c.cga_cluster_size.is_none() && c.min_ctas.is_none();
        if !plain || c.max_ctas.is_some() || options.is_high_priority_stream {
            bail!(Missing, "options of ProcessGroupNCCL");
        }
        #[cfg(feature = "nccl")]
        {
            ensure!((0..size).contains(&rank), Value, "rank < size. {rank} vs {size}");
            crate::nccl::check()?;
            let (rank, size, global_ranks) = (rank as usize, size as usize, (0..size).collect());
            let (timeout, group_name) = (crate::DEFAULT_PG_TIMEOUT, String::new());
            let a = BackendArguments { store, rank, size, timeout, group_name, global_ranks };
            crate::nccl::make(&a).map(ProcessGroupNCCL)
        }
        #[cfg(not(feature = "nccl"))]
        {
            let _ = (store, rank, size);
            Err(crate::group::absent(Backend::NCCL))
        }
    }
    /// What it does.
    pub fn backend(&self) -> &Arc<dyn CollectiveBackend> {
        &self.0
    }
}
/// Keywords of [`ProcessGroupNCCL`].
#[flambeau_macros::options]
#[doc(alias = "torch.distributed.ProcessGroupNCCL.Options")]
pub struct ProcessGroupNcclOptions {
    /// Whether its work comes before that of other streams. Default: false.
    #[default(false)]
    pub(crate) is_high_priority_stream: bool,
    /// What NCCL itself is told. Default: nothing.
    #[default(NcclConfig::new())]
    pub(crate) config: NcclConfig,
    /// Whether connections are made on first use. Default: false.
    #[default(false)]
    pub(crate) lazy_init: bool,
}
/// What NCCL itself is told (`ncclConfig_t`); it decides what is left out.
#[flambeau_macros::options]
#[doc(alias = "torch.distributed.ProcessGroupNCCL.NCCLConfig")]
pub struct NcclConfig {
    /// Whether calls wait.
    pub(crate) blocking: Option<i64>,
    /// How many thread blocks make a cluster.
    pub(crate) cga_cluster_size: Option<i64>,
    /// At least as many thread blocks.
    pub(crate) min_ctas: Option<i64>,
    /// At most as many thread blocks.
    pub(crate) max_ctas: Option<i64>,
}
impl flambeau_core::api::into_arg::IntoArg<NcclConfig> for NcclConfig {
    fn into_arg(self) -> NcclConfig {
        self
    }
}
