//! What a worker knows of itself.

use flambeau_core::Generator;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// The worker that the calling thread is.
///
/// ```
/// use torch::utils::data::{DataLoaderOptions, WorkerInfo, get_worker_info};
///
/// let init = |id: usize| -> torch::Result<()> {
///     let info: WorkerInfo = get_worker_info().expect("a worker runs this");
///     assert_eq!((info.id, info.num_workers), (id, 2));
///     assert_eq!(info.dataset::<Vec<i64>>().map(Vec::len), Some(4));
///     Ok(())
/// };
/// let loader = DataLoaderOptions::new(vec![1i64, 2, 3, 4]).num_workers(2).worker_init_fn(init).build();
/// assert_eq!(loader.iter().count(), 4);
/// assert!(get_worker_info().is_none());
/// ```
#[doc(alias = "torch.utils.data.WorkerInfo")]
#[derive(Clone)]
pub struct WorkerInfo {
    /// Its number, from 0.
    pub id: usize,
    /// How many workers the loader has.
    pub num_workers: usize,
    /// The seed of its default generator: the loader's base seed and its number.
    pub seed: u64,
    /// Its default generator.
    pub generator: Generator,
    pub(crate) dataset: Arc<dyn Any + Send + Sync>,
}
impl WorkerInfo {
    /// The dataset, which all workers share, if it is a `D`.
    pub fn dataset<D: 'static>(&self) -> Option<&D> {
        self.dataset.downcast_ref()
    }
}
impl fmt::Debug for WorkerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerInfo { id, num_workers, seed, .. } = self;
        write!(f, "WorkerInfo(id={id}, num_workers={num_workers}, seed={seed})")
    }
}

thread_local! {
    static INFO: RefCell<Option<WorkerInfo>> = const { RefCell::new(None) };
}

/// Which worker of a loader the calling thread is; `None` outside of workers.
#[doc(alias = "torch.utils.data.get_worker_info")]
pub fn get_worker_info() -> Option<WorkerInfo> {
    INFO.try_with(|i| i.borrow().clone()).ok().flatten()
}
pub(crate) fn set_worker_info(info: WorkerInfo) {
    let before = INFO.try_with(|i| i.replace(Some(info)));
    drop(before);
}
