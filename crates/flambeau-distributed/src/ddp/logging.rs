//! What PyTorch logs of a model.

use super::reducer::Reducer;
use super::{DistributedDataParallelOptions, limits};
use flambeau_core::Tensor;
use flambeau_nn::Module;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of a model in [`DistributedDataParallel`](super::DistributedDataParallel): numbers and texts under PyTorch's names.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::{DdpLoggingData, DistributedDataParallel}};
/// run_in_threads(2, |_| {
///     let known: DdpLoggingData = DistributedDataParallel::new(Linear::new(2, 1)).logging_data();
///     assert_eq!((known.world_size, known.num_parameter_tensors), (2, 2));
///     assert_eq!((known.backend_name.as_str(), known.total_parameter_size_bytes), ("gloo", 12));
/// });
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DdpLoggingData {
    /// The number of ranks.
    pub world_size: i64,
    /// The engine.
    pub backend_name: String,
    /// The limit of buckets in bytes.
    pub bucket_cap_bytes: usize,
    /// Bytes of the first buckets.
    pub bucket_sizes: String,
    /// Bytes of the buckets that were made after the first step.
    pub rebuilt_bucket_sizes: String,
    /// Whether they were.
    pub has_rebuilt_buckets: bool,
    /// The option.
    pub broadcast_buffers: bool,
    /// The option.
    pub find_unused_parameters: bool,
    /// The option.
    pub gradient_as_bucket_view: bool,
    /// Parameters that want gradients.
    pub num_parameter_tensors: usize,
    /// Their bytes.
    pub total_parameter_size_bytes: usize,
    /// Their dtypes.
    pub dtypes: String,
    /// Bytes of parameters that the last step has not used.
    pub unused_parameter_size: usize,
    /// Buckets of the last step.
    pub num_buckets_reduced: usize,
    /// The model's name.
    pub module_name: String,
}

#[derive(Debug)]
pub(super) struct Told {
    name: String,
    cap: usize,
    flags: [bool; 3],
    count: usize,
    bytes: usize,
    dtypes: String,
    divides_by_present: AtomicBool,
}
impl Told {
    pub(super) fn new(module: &dyn Module, wanted: &[Tensor], o: &DistributedDataParallelOptions) -> Told {
        let mut dtypes: Vec<&str> = Vec::new();
        for t in wanted {
            let n = match t.dtype() {
                flambeau_core::DType::F32 => "float",
                flambeau_core::DType::F64 => "double",
                flambeau_core::DType::F16 => "c10::Half",
                flambeau_core::DType::BF16 => "c10::BFloat16",
                d => d.name(),
            };
            if !dtypes.contains(&n) {
                dtypes.push(n);
            }
        }
        Told {
            name: module.type_name().into_owned(),
            cap: limits(o).last().copied().unwrap_or(0),
            flags: [o.broadcast_buffers, o.find_unused_parameters, o.gradient_as_bucket_view],
            count: wanted.len(),
            bytes: wanted.iter().map(|t| t.numel() as usize * t.dtype().size()).sum(),
            dtypes: dtypes.join(", "),
            divides_by_present: AtomicBool::new(false),
        }
    }
    pub(super) fn joins(&self, divide_by_initial_world_size: bool) {
        self.divides_by_present.store(!divide_by_initial_world_size, Ordering::Relaxed);
    }
    pub(super) fn divides_by_present(&self) -> bool {
        self.divides_by_present.load(Ordering::Relaxed)
    }
    pub(super) fn now(&self, r: &Reducer) -> DdpLoggingData {
        let (first, later, rebuilt) = r.bucket_sizes();
        let shown = |l: &[usize]| l.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let [broadcast_buffers, find_unused_parameters, gradient_as_bucket_view] = self.flags;
        DdpLoggingData {
            world_size: r.group().size(),
            backend_name: r.group().backend().for_device("cpu").unwrap_or_default(),
            bucket_cap_bytes: self.cap,
            num_buckets_reduced: if rebuilt { later.len() } else { first.len() },
            bucket_sizes: shown(&first),
            rebuilt_bucket_sizes: shown(&later),
            has_rebuilt_buckets: rebuilt,
            broadcast_buffers,
            find_unused_parameters,
            gradient_as_bucket_view,
            num_parameter_tensors: self.count,
            total_parameter_size_bytes: self.bytes,
            dtypes: self.dtypes.clone(),
            unused_parameter_size: r.unused_bytes(),
            module_name: self.name.clone(),
        }
    }
}
