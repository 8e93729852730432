//! Processes that compute together (`torch.distributed`), over the protocols of PyTorch's own engines: any of them may be
//! PyTorch.

pub use flambeau_distributed::{
    AllToAllOptions, Backend, BackendArguments, CollectiveBackend, CollectiveOptions, DEFAULT_PG_TIMEOUT,
    DEFAULT_STORE_TIMEOUT, DebugLevel, FileStore, GatherOptions, HashStore, InitProcessGroupOptions, Message,
    MessageOptions, MonitoredBarrierOptions, NcclConfig, NewGroupOptions, ObjectOptions, P2POp, Peer,
    PrefixStore, ProcessGroup, ProcessGroupNCCL, ProcessGroupNcclOptions, Progress, Recorded, ReduceOp,
    ReduceOptions, ScatterOptions, ShrinkGroupOptions, SplitGroupOptions, Store, TCPStore, TCPStoreOptions,
    TensorList, Work, World, all_gather, all_gather_coalesced, all_gather_coalesced_with,
    all_gather_into_tensor, all_gather_into_tensor_with, all_gather_object, all_gather_object_with,
    all_gather_with, all_reduce, all_reduce_coalesced, all_reduce_coalesced_with, all_reduce_with,
    all_to_all, all_to_all_single, all_to_all_single_with, all_to_all_with, barrier, barrier_with,
    batch_isend_irecv, broadcast, broadcast_object_list, broadcast_object_list_with, broadcast_with,
    coalescing_manager, coalescing_manager_with, default_group, default_store, destroy_group,
    destroy_process_group, gather, gather_object, gather_object_with, gather_with, get_backend,
    get_backend_config, get_debug_level, get_default_backend_for_device, get_global_rank, get_group_rank,
    get_node_local_rank, get_pg_count, get_process_group_ranks, get_rank, get_world_size, init_process_group,
    init_process_group_with, irecv, irecv_with, is_available, is_backend_available, is_gloo_available,
    is_initialized, is_mpi_available, is_nccl_available, is_torchelastic_launched, is_ucc_available,
    is_xccl_available, isend, isend_with, merge_traces, monitored_barrier, monitored_barrier_with, new_group,
    new_group_of_all, new_group_with, new_subgroups, new_subgroups_by_enumeration,
    new_subgroups_by_enumeration_with, new_subgroups_with, recv, recv_object_list, recv_object_list_with,
    recv_with, reduce, reduce_scatter, reduce_scatter_tensor, reduce_scatter_tensor_with,
    reduce_scatter_with, reduce_with, run_in_threads, run_in_threads_with, scatter, scatter_object_list,
    scatter_object_list_with, scatter_with, send, send_object_list, send_object_list_with, send_with,
    shrink_group, shrink_group_with, split_group, split_group_with, try_all_gather, try_all_gather_coalesced,
    try_all_gather_into_tensor, try_all_gather_object, try_all_reduce, try_all_reduce_coalesced,
    try_all_to_all, try_all_to_all_single, try_barrier, try_batch_isend_irecv, try_broadcast,
    try_broadcast_object_list, try_coalescing_manager, try_default_group, try_destroy_process_group,
    try_gather, try_gather_object, try_get_backend, try_get_backend_config,
    try_get_default_backend_for_device, try_get_global_rank, try_get_group_rank, try_get_node_local_rank,
    try_get_pg_count, try_get_rank, try_get_world_size, try_init_process_group, try_irecv, try_isend,
    try_monitored_barrier, try_new_group, try_new_subgroups, try_new_subgroups_by_enumeration,
    try_new_subgroups_of, try_recv, try_recv_object_list, try_reduce, try_reduce_scatter,
    try_reduce_scatter_tensor, try_scatter, try_scatter_object_list, try_send, try_send_object_list,
    try_shrink_group, try_split_group,
};

/// Uneven inputs, and what else goes round a training on several ranks (`torch.distributed.algorithms`).
#[doc(alias = "torch.distributed.algorithms")]
pub mod algorithms {
    pub use flambeau_distributed::join::{Join, JoinHandle, JoinHook, JoinOptions, Joinable};
}
/// Processes in a grid (`torch.distributed.device_mesh`).
#[doc(alias = "torch.distributed.device_mesh")]
pub mod device_mesh {
    pub use flambeau_distributed::mesh::{
        DeviceMesh, MeshDim, MeshDimNames, MeshOptions, init_device_mesh, init_device_mesh_with,
        try_init_device_mesh,
    };
}
/// Collectives that give new tensors, and have gradients.
#[doc(alias = "torch.distributed.nn.functional")]
pub mod functional {
    pub use flambeau_distributed::functional::{
        FunctionalOptions, all_gather_tensor, all_gather_tensor_with, all_reduce, all_reduce_with,
        all_to_all_single, all_to_all_single_with, broadcast, broadcast_with, reduce, reduce_scatter_tensor,
        reduce_scatter_tensor_with, reduce_with, try_all_gather_tensor, try_all_reduce,
        try_all_to_all_single, try_broadcast, try_reduce, try_reduce_scatter_tensor,
    };
}
/// Jobs of many ranks in one process, and what they would take on a cluster.
pub mod simulation {
    pub use flambeau_distributed::simulation::*;
}
/// Jobs whose processes are looked after: started, watched, started again (`torch.distributed.elastic`).
#[doc(alias = "torch.distributed.elastic")]
pub mod elastic {
    pub use flambeau_distributed::elastic::*;
}
/// Optimizers of models that several ranks train.
#[doc(alias = "torch.distributed.optim")]
pub mod optim {
    pub use flambeau_distributed::optim::{
        HierarchicalModelAverager, ModelAverager, PeriodicModelAverager, PostLocalSGDOptimizer,
        ZeroRedundancyOptimizer, ZeroRedundancyOptions,
    };
}

/// Starting a job's processes on this machine: what the program `flambeau-run` does.
pub mod launch {
    pub use flambeau_distributed::launch::{LaunchOptions, USAGE, command_line, launch, launch_until};
}
