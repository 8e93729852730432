//! What communication hooks get, and what they are.

use flambeau_core::{Result, Tensor, ops};
use flambeau_futures::Future;

/// Gradients that travel together, as a communication hook sees them.
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.GradBucket")]
pub struct GradBucket {
    pub(super) index: usize,
    pub(super) buffer: Tensor,
    pub(super) parameters: Vec<Tensor>,
    pub(super) is_last: bool,
    /// a sparse gradient stands alone in its bucket
    pub(super) sparse: bool,
}
impl GradBucket {
    /// Its place in the order in which buckets travel.
    #[doc(alias = "torch.distributed.GradBucket.index")]
    pub fn index(&self) -> usize {
        self.index
    }
    /// All gradients, one after the other, in a tensor of one dimension.
    #[doc(alias = "torch.distributed.GradBucket.buffer")]
    pub fn buffer(&self) -> &Tensor {
        &self.buffer
    }
    /// Each parameter's gradient, a view of [`GradBucket::buffer`].
    ///
    /// # Errors
    /// A buffer that a hook has replaced by a smaller one.
    #[doc(alias = "torch.distributed.GradBucket.gradients")]
    pub fn gradients(&self) -> Result<Vec<Tensor>> {
        if self.sparse {
            return Ok(vec![self.buffer.clone()]);
        }
        let mut at = 0;
        let one = |p: &Tensor| {
            let flat = ops::narrow(&self.buffer, 0, at, p.numel())?;
            at += p.numel();
            ops::view(&flat, p.sizes())
        };
        self.parameters.iter().map(one).collect()
    }
    /// The parameters.
    #[doc(alias = "torch.distributed.GradBucket.parameters")]
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }
    /// Whether it is the last bucket of this backward.
    #[doc(alias = "torch.distributed.GradBucket.is_last")]
    pub fn is_last(&self) -> bool {
        self.is_last
    }
    /// Puts another tensor into the buffer's place.
    #[doc(alias = "torch.distributed.GradBucket.set_buffer")]
    pub fn set_buffer(&mut self, buffer: Tensor) {
        self.buffer = buffer;
    }
}

/// How the gradients of a bucket are brought together, in the place of a sum divided by the number of ranks.
///
/// It gets the undivided gradients and gives a future of what they become. All ranks have the same hook. Closures
/// `|bucket: &GradBucket| -> Result<Future<Tensor>>` are hooks.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::futures::Future;
/// use torch::nn::{Linear, parallel::{CommHook, DistributedDataParallel, GradBucket}};
/// use torch::prelude::*;
///
/// /// Each rank keeps half of its own gradients.
/// struct Halves;
/// impl CommHook for Halves {
///     fn run(&self, bucket: &GradBucket) -> torch::Result<Future<torch::Tensor>> {
///         Ok(Future::ready(bucket.buffer() * 0.5))
///     }
/// }
/// let slopes = run_in_threads(2, |rank| {
///     let model = DistributedDataParallel::new(Linear::new(1, 1));
///     model.register_comm_hook(Halves);
///     model.call(&torch::full([1, 1], rank as f64)).sum().backward();
///     model.parameters()[0].grad().unwrap().item::<f32>()
/// });
/// assert_eq!(slopes, [0.0, 0.5]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no communication hook",
    label = "a hook is wanted here",
    note = "a closure `|bucket: &GradBucket| Ok(Future::ready(bucket.buffer().clone()))`, or one of `nn::parallel`'s hooks"
)]
pub trait CommHook: Send + Sync {
    /// Begins to bring a bucket's gradients together.
    ///
    /// # Errors
    /// What collectives meet.
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>>;
}
impl<F: Fn(&GradBucket) -> Result<Future<Tensor>> + Send + Sync> CommHook for F {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        self(bucket)
    }
}
impl CommHook for Box<dyn CommHook> {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        (**self).run(bucket)
    }
}
