//! Post-local SGD (Lin et al. 2018): all ranks average gradients at first, later only those of a subgroup, and parameters now and then.

use super::bucket::{CommHook, GradBucket};
use super::hooks::{begin_average, group_or_world};
use crate::group::ProcessGroup;
use crate::sync::Monitor;
use flambeau_core::{Result, Tensor};
use flambeau_futures::Future;

/// Keywords of [`PostLocalSgdHook`].
#[flambeau_macros::options]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.PostLocalSGDState")]
pub struct PostLocalSgdOptions {
    /// Who averages at first; the default group if left out.
    pub(crate) process_group: Option<ProcessGroup>,
    /// Who averages later; groups of this machine's ranks are made if it is left out.
    pub(crate) subgroup: Option<ProcessGroup>,
    /// After how many steps.
    #[default(0)]
    pub(crate) start_local_sgd_iter: i64,
    /// Whether the subgroup averages gradients at all. Default: true.
    #[default(true)]
    pub(crate) post_local_gradient_allreduce: bool,
}
/// A hook that averages the gradients of all ranks at first, and later those of a subgroup.
///
/// ```
/// use torch::distributed::{new_subgroups, run_in_threads};
/// use torch::nn::{Linear, parallel::{DistributedDataParallel, PostLocalSgdHook, PostLocalSgdOptions}};
/// use torch::prelude::*;
/// let slopes = run_in_threads(4, |rank| {
///     let (pair, _) = new_subgroups(2);
///     let options = PostLocalSgdOptions::new().subgroup(&pair).start_local_sgd_iter(1);
///     let model = DistributedDataParallel::new(Linear::new(1, 1));
///     model.register_comm_hook(PostLocalSgdHook::new(options));
///     [0, 1].map(|_| {
///         model.zero_grad();
///         model.call(&torch::full([1, 1], rank as f64)).sum().backward();
///         model.parameters()[0].grad().unwrap().item::<f32>()
///     })
/// });
/// assert_eq!((slopes[0], slopes[3]), ([1.5, 0.5], [1.5, 2.5]));
/// ```
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook")]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.post_localSGD_hook")]
pub struct PostLocalSgdHook {
    options: PostLocalSgdOptions,
    state: Monitor<(i64, Option<ProcessGroup>)>,
}
impl std::fmt::Debug for PostLocalSgdHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PostLocalSgdHook({:?})", self.options)
    }
}
impl PostLocalSgdHook {
    /// With these options.
    pub fn new(options: PostLocalSgdOptions) -> PostLocalSgdHook {
        let state = Monitor::new((0, options.subgroup.clone()));
        PostLocalSgdHook { options, state }
    }
}
impl CommHook for PostLocalSgdHook {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        let o = &self.options;
        let sub = {
            let mut s = self.state.lock();
            if s.0 < o.start_local_sgd_iter {
                s.0 += i64::from(bucket.is_last());
                drop(s);
                return begin_average(&group_or_world(&o.process_group)?, bucket.buffer());
            }
            s.1.clone()
        };
        if !o.post_local_gradient_allreduce {
            return Ok(Future::ready(bucket.buffer().clone()));
        }
        let sub = match sub {
            Some(g) => g,
            None => {
                let (mine, _) = crate::try_new_subgroups_of_machines()?;
                self.state.lock().1 = Some(mine.clone());
                mine
            }
        };
        begin_average(&sub, bucket.buffer())
    }
}
