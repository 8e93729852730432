//! Datasets, samplers and the loader that makes batches of them, in this thread or in workers (`torch.utils.data`).
//!
//! ```
//! use torch::utils::data::{DataLoaderOptions, TensorDataset};
//!
//! torch::manual_seed(0);
//! let (x, y) = (torch::rand([10, 3]), torch::arange(10));
//! let loader = DataLoaderOptions::new(TensorDataset::new((x, y))).batch_size(4).shuffle(true).build();
//! let sizes: Vec<i64> = loader.iter().map(|(x, _)| x.size(0)).collect();
//! assert_eq!(sizes, [4, 4, 2]);
//! for (x, y) in &loader {
//!     assert_eq!(x.size(0), y.size(0));
//! }
//! ```
//!
//! For a seed, orders are PyTorch's: of every sampler, of [`random_split`], and of a loader with `shuffle`, which draws its
//! seeds from the generators as PyTorch's does.
//!
//! # Workers
//! With `num_workers(n)` a loader starts n threads. They share the dataset, where PyTorch's processes have a copy each;
//! what else a worker of PyTorch has to itself, these threads have too: a default generator with the seed `base_seed + id`,
//! kernels that use no second thread, and [`get_worker_info`]. Batches come in the order of the sampler unless
//! `in_order(false)`.
//!
//! An error or a panic in a worker reaches the iterator with its text. Dropping an iterator early tells its workers to end
//! and does not wait for the sample that they are at; a loader may be iterated in several threads at once.
#![forbid(unsafe_code)]

#[cfg(feature = "by-name")]
mod by_name;
mod collate;
mod dataset;
pub mod distributed;
mod loader;
mod options;
mod pin;
mod sampler;
mod split;
mod stack;
mod worker;
mod workers;

pub use collate::{Collate, default_collate, default_convert};
pub use dataset::{
    ChainDataset, ConcatDataset, Dataset, IndexList, IntoTensors, IterableDataset, Samples, Subset,
    TensorDataset, Tensors,
};
pub use distributed::{DistributedSampler, DistributedSamplerOptions};
pub use flambeau_macros::Collate;
pub use loader::{DataLoader, Iter, TryIter};
pub use options::{Batching, CollateFn, ConvertFn, DataLoaderOptions, DefaultCollate, Unbatched};
pub use sampler::{
    BatchSampler, Indices, Length, RandomSampler, RandomSamplerOptions, Sampler, SamplerIter,
    SequentialSampler, SubsetRandomSampler, Weight, WeightedRandomSampler, WeightedRandomSamplerOptions,
};
pub use split::{RandomSplitOptions, random_split, random_split_with, try_random_split};
pub use stack::{Stack, StackDataset};
pub use worker::{WorkerInfo, get_worker_info};

#[doc(hidden)]
pub use flambeau_core as __core;

use flambeau_core::{DType, Generator, Result, ops};

/// A number of `[0, 2^63)` from the generator, or from the default one: what seeds samplers and workers.
fn draw_seed(generator: Option<&Generator>) -> Result<i64> {
    let seed = ops::empty(&[], Some(DType::I64), None, None, None, None)?;
    ops::random_(&seed, generator)?;
    seed.try_item::<i64>()
}

/// The value, or a panic with the error's text at the caller's line.
#[track_caller]
fn expect<T>(r: Result<T>) -> T {
    match r {
        Ok(v) => v,
        Err(e) => panic!("{e}"),
    }
}
