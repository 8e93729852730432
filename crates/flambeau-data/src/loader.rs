//! The loader and its iterators.

use crate::dataset::{Dataset, Samples, Source};
use crate::options::{Batching, DataLoaderOptions, DefaultCollate, InitFn, Map, Settings};
use crate::sampler::Sampler;
use crate::workers::{Run, Workers};
use crate::{Collate, draw_seed, expect};
use flambeau_core::backend::pinned;
use flambeau_core::settings::determinism::warn;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Generator, Result};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a fetcher is asked for.
pub(crate) enum Task {
    /// The sample at an index.
    One(usize),
    /// The batch of these indices.
    Many(Vec<usize>),
    /// The next samples of a stream: so many, or one that is no batch.
    Next(Option<usize>),
}

/// In which order tasks come.
pub(crate) enum Order {
    Samples(Box<dyn Sampler<Index = usize>>),
    Batches(Box<dyn Sampler<Index = Vec<usize>>>),
    Endless(Option<usize>),
}
pub(crate) type Tasks<'a> = Box<dyn Iterator<Item = Result<Task>> + 'a>;
impl Order {
    pub(crate) fn tasks(&self) -> Tasks<'_> {
        match self {
            Order::Samples(s) => Box::new(s.indices().map(|i| i.map(Task::One))),
            Order::Batches(s) => Box::new(s.indices().map(|i| i.map(Task::Many))),
            Order::Endless(n) => Box::new(std::iter::repeat_with(|| Ok(Task::Next(*n)))),
        }
    }
}

/// Makes batches; `None` at the end of a stream.
pub(crate) trait Fetch<B> {
    fn fetch(&mut self, task: Task) -> Result<Option<B>>;
}
trait Fetchers<B>: Send + Sync {
    /// A new pass over the dataset.
    fn fetcher(&self) -> Box<dyn Fetch<B> + '_>;
    fn dataset(&self) -> Arc<dyn Any + Send + Sync>;
    fn length(&self) -> Option<usize>;
}
struct Origin<S, C> {
    source: S,
    collate: C,
    iterable: bool,
    drop_last: bool,
    pin: bool,
}
impl<S: Source, C: Batching<S>> Fetchers<C::Output> for Origin<S, C> {
    fn fetcher(&self) -> Box<dyn Fetch<C::Output> + '_> {
        Box::new(Fetcher { origin: self, stream: self.iterable.then(|| self.source.stream()), ended: false })
    }
    fn dataset(&self) -> Arc<dyn Any + Send + Sync> {
        self.source.any()
    }
    fn length(&self) -> Option<usize> {
        self.source.length()
    }
}
struct Fetcher<'a, S: Source, C> {
    origin: &'a Origin<S, C>,
    stream: Option<Samples<'a, S::Item>>,
    ended: bool,
}
impl<S: Source, C: Batching<S>> Fetcher<'_, S, C> {
    /// The next samples of the stream; fewer at its end.
    fn next(&mut self, n: usize) -> Result<Vec<S::Item>> {
        let mut samples = Vec::with_capacity(n.min(1 << 12));
        while samples.len() < n && !self.ended {
            match self.stream.as_mut().and_then(|s| s.next()) {
                Some(s) => samples.push(s?),
                None => self.ended = true,
            }
        }
        Ok(samples)
    }
}
impl<S: Source, C: Batching<S>> Fetch<C::Output> for Fetcher<'_, S, C> {
    fn fetch(&mut self, task: Task) -> Result<Option<C::Output>> {
        let batch = self.made(task)?;
        if self.origin.pin { batch.map(crate::pin::batch).transpose() } else { Ok(batch) }
    }
}
impl<S: Source, C: Batching<S>> Fetcher<'_, S, C> {
    fn made(&mut self, task: Task) -> Result<Option<C::Output>> {
        let Origin { source, collate, drop_last, .. } = self.origin;
        let samples = match task {
            Task::One(i) => vec![source.get(i)?],
            Task::Many(indices) => match collate.at_once(source, &indices) {
                Some(batch) => return batch.map(Some),
                None => source.get_many(&indices)?,
            },
            Task::Next(n) => {
                let wanted = n.unwrap_or(1);
                let samples = self.next(wanted)?;
                if samples.is_empty() || *drop_last && samples.len() < wanted {
                    return Ok(None);
                }
                samples
            }
        };
        collate.collate(samples).map(Some)
    }
}

/// What workers need of a loader.
pub(crate) struct Shared<B> {
    origin: Box<dyn Fetchers<B>>,
    pub(crate) init: Option<InitFn>,
    pub(crate) num_workers: usize,
    iterable: bool,
}
impl<B> Shared<B> {
    pub(crate) fn new<S: Source, C: Batching<S, Output = B>>(
        source: S,
        collate: C,
        iterable: bool,
        o: &Settings,
    ) -> Self {
        let origin = Origin {
            source,
            collate,
            iterable,
            drop_last: o.drop_last,
            pin: o.pin_memory && pinned::available(),
        };
        Shared {
            origin: Box::new(origin),
            init: o.worker_init_fn.clone(),
            num_workers: o.num_workers,
            iterable,
        }
    }
    pub(crate) fn fetcher(&self) -> Box<dyn Fetch<B> + '_> {
        self.origin.fetcher()
    }
    pub(crate) fn dataset(&self) -> Arc<dyn Any + Send + Sync> {
        self.origin.dataset()
    }
}

/// Batches of a dataset, in an order, read here or by workers: see [`DataLoaderOptions`] for all it takes.
///
/// Iterating `&loader` is one pass and panics with the text of an error; [`DataLoader::try_iter`] returns errors and can
/// be asked for the next batch after one.
///
/// ```
/// use torch::utils::data::DataLoader;
/// let loader = DataLoader::new(vec![1i64, 2, 3]);
/// let mut total = 0;
/// for batch in &loader {
///     total += batch.item::<i64>();
/// }
/// assert_eq!((total, loader.len()), (6, 3));
/// ```
#[doc(alias = "torch.utils.data.DataLoader")]
pub struct DataLoader<B> {
    shared: Arc<Shared<B>>,
    order: Order,
    batch_size: Option<usize>,
    drop_last: bool,
    timeout: Option<Duration>,
    generator: Option<Generator>,
    prefetch_factor: usize,
    persistent: bool,
    in_order: bool,
    /// Workers of an earlier pass.
    kept: Mutex<Option<Workers<B>>>,
    /// What was said of the length of a stream; `usize::MAX`: nothing.
    told: AtomicUsize,
}
impl<B: Send + 'static> DataLoader<B> {
    /// All options at their defaults: batches of one sample, in order.
    pub fn new<D>(dataset: D) -> Self
    where
        D: Dataset<Item: Collate<Batch = B>> + 'static,
    {
        expect(DataLoaderOptions::<Map<D>, DefaultCollate>::new(dataset).try_build())
    }
    pub(crate) fn make(shared: Shared<B>, order: Order, batch_size: Option<usize>, o: Settings) -> Self {
        DataLoader {
            shared: Arc::new(shared),
            order,
            batch_size,
            drop_last: o.drop_last,
            timeout: (o.timeout > 0.0).then(|| Duration::from_secs_f64(o.timeout)),
            generator: o.generator,
            prefetch_factor: o.prefetch_factor.unwrap_or(2),
            persistent: o.persistent_workers,
            in_order: o.in_order,
            kept: Mutex::new(None),
            told: AtomicUsize::new(usize::MAX),
        }
    }
    /// One pass; panics with the text of an error.
    pub fn iter(&self) -> Iter<'_, B> {
        Iter(self.try_iter())
    }
    /// One pass, with errors as values. The pass goes on after an error.
    pub fn try_iter(&self) -> TryIter<'_, B> {
        TryIter::new(self)
    }
    /// The number of batches; panics where [`DataLoader::try_len`] gives an error.
    #[track_caller]
    pub fn len(&self) -> usize {
        expect(self.try_len())
    }
    /// Whether a pass has no batch.
    #[track_caller]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The number of batches, or of samples without batches. Of a stream it is the best guess from the stream's length.
    ///
    /// # Errors
    /// The stream or the sampler does not know its length.
    pub fn try_len(&self) -> Result<usize> {
        let unknown = |what: &str| Error::type_(format!("object of type '{what}' has no len()"));
        match &self.order {
            Order::Samples(s) => s.length().ok_or_else(|| unknown("Sampler")),
            Order::Batches(s) => s.length().ok_or_else(|| unknown("Sampler")),
            Order::Endless(batch) => {
                let n = self.shared.origin.length().ok_or_else(|| unknown("IterableDataset"))?;
                self.told.store(n, Ordering::Relaxed);
                let batch = batch.unwrap_or(1);
                Ok(if self.drop_last { n / batch } else { n.div_ceil(batch) })
            }
        }
    }
    /// The dataset, if it is a `D`.
    pub fn dataset<D: Any + Send + Sync>(&self) -> Option<Arc<D>> {
        self.shared.dataset().downcast().ok()
    }
    /// The number of samples in the dataset, if that is known (`len(loader.dataset)`).
    pub fn dataset_len(&self) -> Option<usize> {
        self.shared.origin.length()
    }
    /// Samples in a batch; `None` without batches, or where a batch sampler makes them.
    pub fn batch_size(&self) -> Option<usize> {
        self.batch_size
    }
    /// The number of workers.
    pub fn num_workers(&self) -> usize {
        self.shared.num_workers
    }
    /// Whether a last batch that is too small is dropped.
    pub fn drop_last(&self) -> bool {
        self.drop_last
    }
    fn kept(&self) -> flambeau_core::types::order::MutexGuard<'_, Option<Workers<B>>> {
        self.kept.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn start(&self) -> Result<Place<'_, B>> {
        if self.num_workers() == 0 {
            // PyTorch draws the workers' base seed without workers too
            draw_seed(self.generator.as_ref())?;
            return Ok(Place::Here(self.shared.fetcher(), self.order.tasks()));
        }
        let kept = self.kept().take();
        let workers = match kept {
            Some(w) => w,
            None => Workers::start(&self.shared, draw_seed(self.generator.as_ref())? as u64)?,
        };
        let mut tasks = self.order.tasks();
        let run = Run::new(
            workers,
            self.prefetch_factor,
            self.in_order,
            self.timeout,
            !self.persistent,
            &mut tasks,
        );
        Ok(Place::Workers(Box::new(run), tasks))
    }
}
impl<B> fmt::Debug for DataLoader<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataLoader")
            .field("batch_size", &self.batch_size)
            .field("num_workers", &self.shared.num_workers)
            .field("drop_last", &self.drop_last)
            .finish_non_exhaustive()
    }
}
impl<'a, B: Send + 'static> IntoIterator for &'a DataLoader<B> {
    type Item = B;
    type IntoIter = Iter<'a, B>;
    fn into_iter(self) -> Iter<'a, B> {
        self.iter()
    }
}

enum Place<'a, B> {
    Here(Box<dyn Fetch<B> + 'a>, Tasks<'a>),
    Workers(Box<Run<B>>, Tasks<'a>),
    Failed(Error),
    Done,
}

/// One pass over a loader: see [`DataLoader::try_iter`].
///
/// ```
/// use torch::utils::data::{DataLoaderOptions, TryIter};
/// let odd = |n: Vec<i64>| if n[0] % 2 == 1 { Ok(n[0]) } else { Err(torch::Error::value("even")) };
/// let loader = DataLoaderOptions::new(vec![1i64, 2, 3]).collate_fn(odd).build();
/// let pass: TryIter<'_, i64> = loader.try_iter();
/// assert_eq!(pass.map(|b| b.ok()).collect::<Vec<_>>(), [Some(1), None, Some(3)]);
/// ```
pub struct TryIter<'a, B: Send + 'static> {
    loader: &'a DataLoader<B>,
    place: Place<'a, B>,
    given: usize,
}
impl<'a, B: Send + 'static> TryIter<'a, B> {
    fn new(loader: &'a DataLoader<B>) -> Self {
        let place = loader.start().unwrap_or_else(Place::Failed);
        TryIter { loader, place, given: 0 }
    }
    /// Ends the pass; the error that it could not begin for, if any.
    fn close(&mut self) -> Option<Error> {
        match std::mem::replace(&mut self.place, Place::Done) {
            Place::Workers(run, _) => {
                let workers = run.end();
                let mut kept = self.loader.kept();
                // another thread's pass may have left its own
                if self.loader.persistent && kept.is_none() {
                    *kept = Some(workers);
                }
                None
            }
            Place::Failed(e) => Some(e),
            Place::Here(..) | Place::Done => None,
        }
    }
    fn count(&mut self) {
        self.given += 1;
        let told = self.loader.told.load(Ordering::Relaxed);
        if self.loader.shared.iterable && self.given > told {
            let more = if self.loader.num_workers() > 0 {
                "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset \
                 replica at each worker. Please see \
                 https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            } else {
                ""
            };
            warn(&format!(
                "Length of IterableDataset was reported to be {told}(when accessing len(dataloader)), but {} samples \
                 have been fetched. {more}",
                self.given
            ));
        }
    }
}
impl<B: Send + 'static> Iterator for TryIter<'_, B> {
    type Item = Result<B>;
    fn next(&mut self) -> Option<Result<B>> {
        let next = match &mut self.place {
            Place::Here(fetcher, tasks) => {
                tasks.next().and_then(|t| t.and_then(|t| fetcher.fetch(t)).transpose())
            }
            Place::Workers(run, tasks) => run.next(tasks),
            Place::Failed(_) | Place::Done => None,
        };
        match &next {
            Some(Ok(_)) => self.count(),
            Some(Err(_)) => {}
            None => return self.close().map(Err),
        }
        next
    }
}
impl<B: Send + 'static> Drop for TryIter<'_, B> {
    fn drop(&mut self) {
        self.close();
    }
}

/// One pass over a loader: see [`DataLoader::iter`].
///
/// ```
/// use torch::utils::data::{DataLoader, Iter};
/// let loader = DataLoader::new(vec![1i64, 2]);
/// let mut pass: Iter<'_, torch::Tensor> = loader.iter();
/// assert_eq!(pass.next().map(|b| b.item::<i64>()), Some(1));
/// ```
pub struct Iter<'a, B: Send + 'static>(TryIter<'a, B>);
impl<B: Send + 'static> Iterator for Iter<'_, B> {
    type Item = B;
    #[track_caller]
    fn next(&mut self) -> Option<B> {
        self.0.next().map(expect)
    }
}
