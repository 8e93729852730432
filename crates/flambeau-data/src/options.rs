//! How a loader is put together.

use crate::collate::{Collate, default_collate};
use crate::dataset::{Dataset, IterableDataset, Source};
use crate::expect;
use crate::loader::{DataLoader, Order, Shared};
use crate::sampler::{BatchSampler, RandomSampler, RandomSamplerOptions, Sampler, SequentialSampler};
use flambeau_core::settings::determinism::warn;
use flambeau_core::text::PyText;
use flambeau_core::{Error, Generator, Result, ensure};
use std::sync::Arc;
use std::time::Duration;

/// A dataset with indices, in a loader's options.
pub struct Map<D>(pub(crate) Arc<D>);
/// A stream, in a loader's options.
pub struct Stream<D>(pub(crate) Arc<D>);

/// What a loader makes of samples.
///
/// ```
/// use torch::utils::data::DataLoaderOptions;
/// let data = || DataLoaderOptions::new(vec![1i64, 2, 3]);
/// let batches = data().batch_size(2).build();
/// assert_eq!(batches.iter().map(|b| b.to_vec::<i64>()).collect::<Vec<_>>(), [vec![1, 2], vec![3]]);
/// let sums = data().batch_size(2).collate_fn(|b| Ok(b.iter().sum::<i64>())).build();
/// assert_eq!(sums.iter().collect::<Vec<_>>(), [3, 3]);
/// assert_eq!(data().unbatched().build().iter().collect::<Vec<_>>(), [1, 2, 3]);
/// let texts = data().unbatched().convert_fn(|n| Ok(n.to_string())).build();
/// assert_eq!(texts.iter().collect::<Vec<_>>(), ["1", "2", "3"]);
/// ```
pub trait Batching<S: Source>: Send + Sync + 'static {
    /// What the loader gives.
    type Output: Send + 'static;
    /// Whether samples are put together at all.
    const BATCHED: bool = true;
    /// The batch of some samples; of exactly one where nothing is put together.
    ///
    /// # Errors
    /// The samples do not fit together.
    fn collate(&self, samples: Vec<S::Item>) -> Result<Self::Output>;
    /// The batch without its samples, where the dataset can make it.
    fn at_once(&self, source: &S, indices: &[usize]) -> Option<Result<Self::Output>> {
        let _ = (source, indices);
        None
    }
}
/// Batches by [`default_collate`].
///
/// ```
/// use torch::utils::data::{DataLoaderOptions, DefaultCollate, TensorDataset};
/// let data = TensorDataset::new(vec![torch::arange(3)]);
/// let options: DataLoaderOptions<_, DefaultCollate> = DataLoaderOptions::new(data).batch_size(2);
/// assert_eq!(options.build().iter().count(), 2);
/// ```
pub struct DefaultCollate;
impl<S: Source> Batching<S> for DefaultCollate
where
    S::Item: Collate,
    <S::Item as Collate>::Batch: Send + 'static,
{
    type Output = <S::Item as Collate>::Batch;
    fn collate(&self, samples: Vec<S::Item>) -> Result<Self::Output> {
        default_collate(samples)
    }
    fn at_once(&self, source: &S, indices: &[usize]) -> Option<Result<Self::Output>> {
        source.collate_many(indices)
    }
}
/// Batches by a function.
///
/// ```
/// use torch::utils::data::{CollateFn, DataLoaderOptions, TensorDataset};
/// let data = TensorDataset::new(vec![torch::arange(3)]);
/// let counted: DataLoaderOptions<_, CollateFn<_>> =
///     DataLoaderOptions::new(data).batch_size(2).collate_fn(|samples: Vec<Vec<torch::Tensor>>| Ok(samples.len()));
/// assert_eq!(counted.build().iter().collect::<Vec<_>>(), [2, 1]);
/// ```
pub struct CollateFn<F>(F);
impl<S: Source, B: Send + 'static, F> Batching<S> for CollateFn<F>
where
    F: Fn(Vec<S::Item>) -> Result<B> + Send + Sync + 'static,
{
    type Output = B;
    fn collate(&self, samples: Vec<S::Item>) -> Result<B> {
        (self.0)(samples)
    }
}
fn single<T>(samples: Vec<T>) -> Result<T> {
    samples.into_iter().next().ok_or_else(|| Error::assertion("one sample"))
}
/// Single samples (`batch_size=None`).
///
/// ```
/// use torch::utils::data::{ConvertFn, DataLoaderOptions, TensorDataset, Unbatched};
/// let data = || TensorDataset::new(vec![torch::arange(3)]);
/// let plain: DataLoaderOptions<_, Unbatched> = DataLoaderOptions::new(data()).unbatched();
/// assert_eq!(plain.build().iter().count(), 3);
/// let sizes: DataLoaderOptions<_, ConvertFn<_>> =
///     DataLoaderOptions::new(data()).unbatched().convert_fn(|sample: Vec<torch::Tensor>| Ok(sample[0].dim()));
/// assert_eq!(sizes.build().iter().collect::<Vec<_>>(), [0, 0, 0]);
/// ```
pub struct Unbatched;
impl<S: Source> Batching<S> for Unbatched
where
    S::Item: Send + 'static,
{
    type Output = S::Item;
    const BATCHED: bool = false;
    fn collate(&self, samples: Vec<S::Item>) -> Result<S::Item> {
        single(samples)
    }
}
/// Single samples, each changed by a function.
pub struct ConvertFn<F>(F);
impl<S: Source, B: Send + 'static, F> Batching<S> for ConvertFn<F>
where
    F: Fn(S::Item) -> Result<B> + Send + Sync + 'static,
{
    type Output = B;
    const BATCHED: bool = false;
    fn collate(&self, samples: Vec<S::Item>) -> Result<B> {
        (self.0)(single(samples)?)
    }
}

pub(crate) type InitFn = Arc<dyn Fn(usize) -> Result<()> + Send + Sync>;

pub(crate) struct Settings {
    pub batch_size: usize,
    pub shuffle: bool,
    pub sampler: Option<Box<dyn Sampler<Index = usize>>>,
    pub batch_sampler: Option<Box<dyn Sampler<Index = Vec<usize>>>>,
    pub num_workers: usize,
    pub pin_memory: bool,
    pub drop_last: bool,
    pub timeout: f64,
    pub worker_init_fn: Option<InitFn>,
    pub generator: Option<Generator>,
    pub prefetch_factor: Option<usize>,
    pub persistent_workers: bool,
    pub in_order: bool,
}

/// Options of [`DataLoader`]: of a dataset with indices by [`new`](DataLoaderOptions::new), of a stream by
/// [`iterable`](DataLoaderOptions::iterable).
///
/// PyTorch's `multiprocessing_context` has no counterpart: workers are threads.
pub struct DataLoaderOptions<S, C = DefaultCollate> {
    source: S,
    collate: C,
    settings: Settings,
    iterable: bool,
}
fn with<S>(source: S, iterable: bool) -> DataLoaderOptions<S> {
    let settings = Settings {
        batch_size: 1,
        shuffle: false,
        sampler: None,
        batch_sampler: None,
        num_workers: 0,
        pin_memory: false,
        drop_last: false,
        timeout: 0.0,
        worker_init_fn: None,
        generator: None,
        prefetch_factor: None,
        persistent_workers: false,
        in_order: true,
    };
    DataLoaderOptions { source, collate: DefaultCollate, settings, iterable }
}
impl<D: Dataset + 'static> DataLoaderOptions<Map<D>> {
    /// Of a dataset with indices. An `Arc` of one is one too, for programs that go on using it.
    pub fn new(dataset: D) -> Self {
        with(Map(Arc::new(dataset)), false)
    }
}
impl<D: IterableDataset + 'static> DataLoaderOptions<Stream<D>> {
    /// Of a stream.
    pub fn iterable(dataset: D) -> Self {
        with(Stream(Arc::new(dataset)), true)
    }
}
impl<S: Source> DataLoaderOptions<S> {
    /// Makes batches by a function instead of [`default_collate`].
    pub fn collate_fn<B, F>(self, f: F) -> DataLoaderOptions<S, CollateFn<F>>
    where
        F: Fn(Vec<S::Item>) -> Result<B> + Send + Sync + 'static,
    {
        self.collated(CollateFn(f))
    }
    /// Gives single samples as they are (`batch_size=None`).
    pub fn unbatched(self) -> DataLoaderOptions<S, Unbatched> {
        self.collated(Unbatched)
    }
}
impl<S: Source> DataLoaderOptions<S, Unbatched> {
    /// Changes each sample by a function: what `collate_fn` is without batches.
    pub fn convert_fn<B, F>(self, f: F) -> DataLoaderOptions<S, ConvertFn<F>>
    where
        F: Fn(S::Item) -> Result<B> + Send + Sync + 'static,
    {
        self.collated(ConvertFn(f))
    }
}
impl<S, C> DataLoaderOptions<S, C> {
    fn collated<N>(self, collate: N) -> DataLoaderOptions<S, N> {
        DataLoaderOptions { source: self.source, collate, settings: self.settings, iterable: self.iterable }
    }
    /// Samples in a batch. Default: 1.
    pub fn batch_size(mut self, n: usize) -> Self {
        self.settings.batch_size = n;
        self
    }
    /// Whether each pass has a new random order. Default: no.
    pub fn shuffle(mut self, on: bool) -> Self {
        self.settings.shuffle = on;
        self
    }
    /// The order of the samples.
    pub fn sampler(mut self, sampler: impl Sampler<Index = usize> + 'static) -> Self {
        self.settings.sampler = Some(Box::new(sampler));
        self
    }
    /// The batches. Takes the place of batch size, shuffle, sampler and `drop_last`.
    pub fn batch_sampler(mut self, sampler: impl Sampler<Index = Vec<usize>> + 'static) -> Self {
        self.settings.batch_sampler = Some(Box::new(sampler));
        self
    }
    /// Threads that read; 0: the iterating thread itself. Default: 0.
    pub fn num_workers(mut self, n: usize) -> Self {
        self.settings.num_workers = n;
        self
    }
    /// Asks for batches in pinned memory, from which an accelerator copies without anybody waiting: batches that are tensors, lists,
    /// tuples, maps or options of them; others stay as they are. Where there is no accelerator it only warns, as PyTorch does.
    pub fn pin_memory(mut self, on: bool) -> Self {
        self.settings.pin_memory = on;
        self
    }
    /// Whether a last batch that is too small is dropped. Default: no.
    pub fn drop_last(mut self, on: bool) -> Self {
        self.settings.drop_last = on;
        self
    }
    /// Seconds that a batch of the workers may take; 0: any time. Default: 0.
    pub fn timeout(mut self, seconds: f64) -> Self {
        self.settings.timeout = seconds;
        self
    }
    /// Called once in each worker with its number, before it reads.
    pub fn worker_init_fn(mut self, f: impl Fn(usize) -> Result<()> + Send + Sync + 'static) -> Self {
        self.settings.worker_init_fn = Some(Arc::new(f));
        self
    }
    /// Draws the order and the workers' base seed from this generator instead of the default one.
    pub fn generator(mut self, generator: &Generator) -> Self {
        self.settings.generator = Some(generator.clone());
        self
    }
    /// Batches that each worker reads ahead. Default: 2.
    pub fn prefetch_factor(mut self, n: usize) -> Self {
        self.settings.prefetch_factor = Some(n);
        self
    }
    /// Whether workers live on after a pass, for the next one. Default: no.
    pub fn persistent_workers(mut self, on: bool) -> Self {
        self.settings.persistent_workers = on;
        self
    }
    /// Whether batches come in the sampler's order even where a later one is ready. Default: yes.
    pub fn in_order(mut self, on: bool) -> Self {
        self.settings.in_order = on;
        self
    }
}
impl<S: Source, C: Batching<S>> DataLoaderOptions<S, C> {
    /// Panics where [`DataLoaderOptions::try_build`] gives an error.
    #[track_caller]
    pub fn build(self) -> DataLoader<C::Output> {
        expect(self.try_build())
    }
    /// The loader.
    ///
    /// # Errors
    /// Options that exclude each other, or without a meaning.
    pub fn try_build(self) -> Result<DataLoader<C::Output>> {
        let DataLoaderOptions { source, collate, settings: mut o, iterable } = self;
        check(&o, iterable, C::BATCHED)?;
        let generator = o.generator.clone();
        let samples = || -> Result<Box<dyn Sampler<Index = usize>>> {
            let n = source.length().unwrap_or(0);
            if !o.shuffle {
                return Ok(Box::new(SequentialSampler::new(n)));
            }
            let mut options = RandomSamplerOptions::new(n);
            if let Some(g) = &generator {
                options = options.generator(g);
            }
            options.try_build().map(|s: RandomSampler| Box::new(s) as Box<dyn Sampler<Index = usize>>)
        };
        let custom = o.batch_sampler.is_some();
        let order = if iterable {
            Order::Endless(C::BATCHED.then_some(o.batch_size))
        } else if let Some(batches) = o.batch_sampler.take() {
            Order::Batches(batches)
        } else {
            let sampler = o.sampler.take().map_or_else(samples, Ok)?;
            if C::BATCHED {
                Order::Batches(Box::new(BatchSampler::try_new(sampler, o.batch_size, o.drop_last)?))
            } else {
                Order::Samples(sampler)
            }
        };
        let batch_size = (C::BATCHED && !custom).then_some(o.batch_size);
        let shared = Shared::new(source, collate, iterable, &o);
        Ok(DataLoader::make(shared, order, batch_size, o))
    }
}

fn check(o: &Settings, iterable: bool, batched: bool) -> Result<()> {
    ensure!(o.timeout >= 0.0, Value, "timeout option should be non-negative");
    ensure!(
        o.num_workers > 0 || o.prefetch_factor.is_none(),
        Value,
        "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable \
         multiprocessing, otherwise set prefetch_factor to None."
    );
    ensure!(
        !o.persistent_workers || o.num_workers > 0,
        Value,
        "persistent_workers option needs num_workers > 0"
    );
    if iterable {
        let unspecified = |given: bool, option: &str, value: &str| {
            ensure!(
                !given,
                Value,
                "DataLoader with IterableDataset: expected unspecified {option} option, but got {option}={value}"
            );
            Ok(())
        };
        unspecified(o.shuffle, "shuffle", "True")?;
        unspecified(o.sampler.is_some(), "sampler", "<a sampler>")?;
        unspecified(o.batch_sampler.is_some(), "batch_sampler", "<a sampler>")?;
    }
    ensure!(o.sampler.is_none() || !o.shuffle, Value, "sampler option is mutually exclusive with shuffle");
    let other = o.batch_size != 1 || o.shuffle || o.sampler.is_some() || o.drop_last;
    ensure!(
        o.batch_sampler.is_none() || !other && batched,
        Value,
        "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
    );
    ensure!(
        batched || !o.drop_last,
        Value,
        "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
    );
    ensure!(
        batched || o.batch_size == 1,
        Value,
        "unbatched() gives single samples and is mutually exclusive with batch_size"
    );
    ensure!(
        !batched || o.batch_size > 0,
        Value,
        "batch_size should be a positive integer value, but got batch_size={}",
        o.batch_size
    );
    ensure!(
        o.num_workers > 0 || o.timeout == 0.0,
        Assertion,
        "_SingleProcessDataLoaderIter requires timeout == 0"
    );
    ensure!(
        o.timeout == 0.0 || Duration::try_from_secs_f64(o.timeout).is_ok(),
        Value,
        "timeout option should be a number of seconds, but got timeout={}",
        o.timeout.py_text()
    );
    ensure!(
        o.prefetch_factor != Some(0),
        Assertion,
        "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
    );
    if o.pin_memory && !flambeau_core::backend::pinned::available() {
        warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be \
             used.",
        );
    }
    let cores = std::thread::available_parallelism().map_or(usize::MAX, |n| n.get());
    if o.num_workers > cores {
        warn(&format!(
            "This DataLoader will create {} worker processes in total. Our suggested max number of worker in current \
             system is {cores}, which is smaller than what this DataLoader is going to create. Please be aware that \
             excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to \
             avoid potential slowness/freeze if necessary.",
            o.num_workers
        ));
    }
    Ok(())
}
