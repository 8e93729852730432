//! Processes that compute together (`torch.distributed`), over the protocols of PyTorch's own engines.
#![forbid(unsafe_code)]

mod backend;
mod bytes;
mod calls;
mod coalesce;
pub mod collectives;
pub mod ddp;
mod detail;
pub mod elastic;
pub mod functional;
mod gloo;
pub mod group;
#[doc(hidden)]
pub mod internal;
pub mod join;
pub mod launch;
pub mod mesh;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(feature = "nccl")]
mod nccl;
#[doc(alias = "torch.numa.binding")]
pub mod numa;
pub mod optim;
mod pickles;
pub mod reduce_op;
mod rendezvous;
mod sha1;
pub mod simulation;
mod split;
pub mod store;
mod sync;
pub mod work;
pub mod world;

pub use backend::{
    BackendArguments, CollectiveBackend, Message, NcclConfig, ProcessGroupNCCL, ProcessGroupNcclOptions,
    is_backend_available,
};
pub use calls::{Progress, Recorded, merge_traces};
pub use coalesce::*;
pub use collectives::*;
pub use group::{Backend, Peer, ProcessGroup};
pub use reduce_op::ReduceOp;
pub use split::*;
pub use store::{DEFAULT_STORE_TIMEOUT, FileStore, HashStore, PrefixStore, Store, TCPStore, TCPStoreOptions};
pub use work::Work;
pub(crate) use world::try_new_subgroups_of_machines;
pub use world::*;
