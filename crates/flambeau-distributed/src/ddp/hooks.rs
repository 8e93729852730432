//! Communication hooks that only change how gradients travel (`torch.distributed.algorithms.ddp_comm_hooks`).

use super::bucket::{CommHook, GradBucket};
use crate::group::ProcessGroup;
use crate::world::World;
use crate::{ReduceOptions, try_all_reduce};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, ops};
use flambeau_futures::Future;

/// The group that is meant: the given one, or the default one.
pub(super) fn group_or_world(g: &Option<ProcessGroup>) -> Result<ProcessGroup> {
    match g {
        Some(g) => Ok(g.clone()),
        None => World::current().default_group(),
    }
}
pub(super) fn divide(t: &Tensor, n: i64) -> Result<()> {
    ops::div_(t, &Tensor::wrapped_raw(n as f64)?)
}
pub(super) fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    ops::to(t, Some(dtype), None, None, None, false, true, None)
}
/// Divides a tensor by the number of ranks and begins to sum it up.
pub(super) fn begin_average(group: &ProcessGroup, t: &Tensor) -> Result<Future<Tensor>> {
    divide(t, group.size())?;
    let done = try_all_reduce(t, ReduceOptions::new().group(group).async_op(true))?.get_future();
    let t = t.clone();
    Ok(done.then(move |f| f.wait().map(|_| t)))
}
/// Waits for the average instead.
pub(super) fn sum_now(group: &ProcessGroup, t: &Tensor) -> Result<()> {
    try_all_reduce(t, ReduceOptions::new().group(group)).map(drop)
}

/// A hook that does what happens without one: the average of all ranks' gradients.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::{DistributedDataParallel, AllreduceHook}};
/// use torch::prelude::*;
///
/// let gradients = run_in_threads(2, |rank| {
///     let model = DistributedDataParallel::new(Linear::new(1, 1));
///     model.register_comm_hook(AllreduceHook::new());
///     model.call(&torch::full([1, 1], rank as f64)).sum().backward();
///     model.parameters()[0].grad().unwrap().item::<f32>()
/// });
/// assert_eq!(gradients, [0.5, 0.5]);
/// ```
#[derive(Clone, Debug, Default)]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook")]
pub struct AllreduceHook {
    group: Option<ProcessGroup>,
}
impl AllreduceHook {
    /// Over the default group.
    pub fn new() -> AllreduceHook {
        AllreduceHook::default()
    }
    /// Over this group.
    pub fn over(group: &ProcessGroup) -> AllreduceHook {
        AllreduceHook { group: Some(group.clone()) }
    }
}
impl CommHook for AllreduceHook {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        begin_average(&group_or_world(&self.group)?, bucket.buffer())
    }
}

/// A hook with which gradients travel in half the bytes: as float16, or as bfloat16.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::{CompressHook, CompressWrapper, DistributedDataParallel, NoopHook}};
/// use torch::prelude::*;
///
/// let gradients = run_in_threads(2, |rank| {
///     let (halves, alone) = (DistributedDataParallel::new(Linear::new(1, 1)), DistributedDataParallel::new(Linear::new(1, 1)));
///     halves.register_comm_hook(CompressHook::bf16());
///     // each rank keeps its own, rounded
///     alone.register_comm_hook(CompressWrapper::fp16(NoopHook));
///     [halves, alone].map(|model| {
///         model.call(&torch::full([1, 1], rank as f64)).sum().backward();
///         model.parameters()[0].grad().unwrap().item::<f32>()
///     })
/// });
/// assert_eq!(gradients, [[0.5, 0.0], [0.5, 1.0]]);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook")]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook")]
pub struct CompressHook {
    dtype: DType,
    group: Option<ProcessGroup>,
}
impl CompressHook {
    /// As float16.
    pub fn fp16() -> CompressHook {
        CompressHook { dtype: DType::F16, group: None }
    }
    /// As bfloat16.
    pub fn bf16() -> CompressHook {
        CompressHook { dtype: DType::BF16, group: None }
    }
    /// Over this group.
    pub fn over(mut self, group: &ProcessGroup) -> CompressHook {
        self.group = Some(group.clone());
        self
    }
}
impl CommHook for CompressHook {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        let group = group_or_world(&self.group)?;
        let small = cast(bucket.buffer(), self.dtype)?;
        let whole = bucket.buffer().clone();
        Ok(begin_average(&group, &small)?.then(move |f| {
            ops::copy_(&whole, &f.wait()?, false)?;
            Ok(whole)
        }))
    }
}

/// Another hook over gradients in float16 or bfloat16.
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_wrapper")]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_wrapper")]
pub struct CompressWrapper<H> {
    dtype: DType,
    inner: H,
}
impl<H: CommHook> CompressWrapper<H> {
    /// In float16.
    pub fn fp16(inner: H) -> Self {
        CompressWrapper { dtype: DType::F16, inner }
    }
    /// In bfloat16.
    pub fn bf16(inner: H) -> Self {
        CompressWrapper { dtype: DType::BF16, inner }
    }
}
impl<H: CommHook> CommHook for CompressWrapper<H> {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        let whole = bucket.buffer().clone();
        let mut small = bucket.clone();
        small.set_buffer(cast(&whole, self.dtype)?);
        Ok(self.inner.run(&small)?.then(move |f| {
            ops::copy_(&whole, &f.wait()?, false)?;
            Ok(whole)
        }))
    }
}

/// A hook that brings nothing together: each rank keeps its gradients. To measure what communication costs.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks.noop_hook")]
pub struct NoopHook;
impl CommHook for NoopHook {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        Ok(Future::ready(bucket.buffer().clone()))
    }
}

/// Hooks that are known by a name of PyTorch's C++ side.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::{BuiltinCommHookType, DistributedDataParallel}};
/// use torch::prelude::*;
///
/// let gradients = run_in_threads(2, |rank| {
///     let model = DistributedDataParallel::new(Linear::new(1, 1));
///     model.register_builtin_comm_hook(BuiltinCommHookType::Allreduce).unwrap();
///     model.call(&torch::full([1, 1], rank as f64)).sum().backward();
///     model.parameters()[0].grad().unwrap().item::<f32>()
/// });
/// assert_eq!(gradients, [0.5, 0.5]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.BuiltinCommHookType")]
pub enum BuiltinCommHookType {
    /// [`AllreduceHook`].
    Allreduce,
    /// [`CompressHook::fp16`].
    Fp16Compress,
}
impl BuiltinCommHookType {
    pub(super) fn hook(self, group: &ProcessGroup) -> Box<dyn CommHook> {
        match self {
            BuiltinCommHookType::Allreduce => Box::new(AllreduceHook::over(group)),
            BuiltinCommHookType::Fp16Compress => Box::new(CompressHook::fp16().over(group)),
        }
    }
}
