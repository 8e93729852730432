//! Samplers: in which order a loader reads.

use crate::dataset::IndexList;
use crate::{draw_seed, expect};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Generator, Result, Tensor, ensure, ops};
use std::sync::Arc;

/// Indices, or batches of them, drawn as they are needed.
///
/// ```
/// use torch::utils::data::{Indices, Sampler};
/// /// Every second sample.
/// struct Even(usize);
/// impl Sampler for Even {
///     type Index = usize;
///     fn indices(&self) -> Indices<'_, usize> {
///         Box::new((0..self.0).step_by(2).map(Ok))
///     }
///     fn length(&self) -> Option<usize> {
///         Some(self.0.div_ceil(2))
///     }
/// }
/// assert_eq!(Even(5).indices().collect::<torch::Result<Vec<_>>>()?, [0, 2, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
pub type Indices<'a, I> = Box<dyn Iterator<Item = Result<I>> + 'a>;

/// An order of samples, or of batches: each call of [`Sampler::indices`] begins anew.
///
/// A `Vec` is a sampler that always gives its elements.
#[doc(alias = "torch.utils.data.Sampler")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no sampler",
    label = "no order of samples",
    note = "`RandomSampler`, a vector of indices, or a type of your own with `impl Sampler`"
)]
pub trait Sampler: Send + Sync {
    /// `usize`, or `Vec<usize>` for batches.
    type Index;
    /// The indices of one pass.
    fn indices(&self) -> Indices<'_, Self::Index>;
    /// How many indices a pass gives, if that is known.
    fn length(&self) -> Option<usize>;
}

/// The indices of one pass of a sampler, of those that have an `iter`; panics where drawing them fails.
///
/// ```
/// use torch::utils::data::{SamplerIter, SequentialSampler};
/// let sampler = SequentialSampler::new(3);
/// let pass: SamplerIter<'_, usize> = sampler.iter();
/// assert_eq!(pass.sum::<usize>(), 3);
/// ```
pub struct SamplerIter<'a, I>(Indices<'a, I>);
impl<I> Iterator for SamplerIter<'_, I> {
    type Item = I;
    #[track_caller]
    fn next(&mut self) -> Option<I> {
        self.0.next().map(expect)
    }
}

macro_rules! delegate {
    ($($pointer:ty),*) => {$(
        impl<S: Sampler + ?Sized> Sampler for $pointer {
            type Index = S::Index;
            fn indices(&self) -> Indices<'_, S::Index> {
                (**self).indices()
            }
            fn length(&self) -> Option<usize> {
                (**self).length()
            }
        }
    )*};
}
delegate!(Arc<S>, Box<S>);

/// `iter` of samplers. It is no method of the trait: vectors are samplers too, and wherever the trait is in scope `vector.iter()` would be
/// the sampler's, of copies.
macro_rules! iterated {
    ($([$($generic:tt)*] $sampler:ty, $index:ty;)*) => {$(
        impl<$($generic)*> $sampler {
            /// The indices of one pass; panics where drawing them fails.
            pub fn iter(&self) -> $crate::sampler::SamplerIter<'_, $index> {
                $crate::sampler::SamplerIter::of(self)
            }
        }
    )*};
}
pub(crate) use iterated;
iterated! {
    [] SequentialSampler, usize;
    [] RandomSampler, usize;
    [] SubsetRandomSampler, usize;
    [] WeightedRandomSampler, usize;
    [S: Sampler<Index = usize>] BatchSampler<S>, Vec<usize>;
    [I] dyn Sampler<Index = I> + '_, I;
}
impl<'a, I> SamplerIter<'a, I> {
    pub(crate) fn of(s: &'a (impl Sampler<Index = I> + ?Sized)) -> Self {
        SamplerIter(s.indices())
    }
}

impl<I: Clone + Send + Sync> Sampler for Vec<I> {
    type Index = I;
    fn indices(&self) -> Indices<'_, I> {
        Box::new(self.iter().cloned().map(Ok))
    }
    fn length(&self) -> Option<usize> {
        Some(self.len())
    }
}

/// What has a length that samplers can cover: a dataset, or a number.
///
/// ```
/// use torch::utils::data::SequentialSampler;
/// let data = vec!["a", "b"];
/// assert_eq!(SequentialSampler::new(&data).iter().count(), 2);
/// assert_eq!(SequentialSampler::new(7).iter().count(), 7);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no length that a sampler can cover",
    label = "a dataset or a number is wanted here",
    note = "a `&dataset`, or a `usize`"
)]
pub trait Length {
    /// The number of samples.
    fn count(&self) -> usize;
}
impl Length for usize {
    fn count(&self) -> usize {
        *self
    }
}
impl<D: crate::Dataset + ?Sized> Length for &D {
    fn count(&self) -> usize {
        self.len()
    }
}

/// Indices that are drawn in blocks: block `k` by `draw(k)`, when the one before is used up.
fn blocks<'a>(mut draw: impl FnMut(usize) -> Option<Result<Vec<i64>>> + 'a) -> Indices<'a, usize> {
    let (mut k, mut ended) = (0, false);
    let mut block = Vec::new().into_iter();
    Box::new(std::iter::from_fn(move || {
        while !ended {
            if let Some(i) = block.next() {
                return Some(Ok(i as usize));
            }
            match draw(k) {
                Some(Ok(next)) => block = next.into_iter(),
                Some(Err(e)) => {
                    ended = true;
                    return Some(Err(e));
                }
                None => ended = true,
            }
            k += 1;
        }
        None
    }))
}

/// `0, 1, 2, ...`.
#[doc(alias = "torch.utils.data.SequentialSampler")]
#[derive(Clone, Debug)]
pub struct SequentialSampler(usize);
impl SequentialSampler {
    /// All indices of a dataset, or below a number, in order.
    pub fn new(data_source: impl Length) -> Self {
        SequentialSampler(data_source.count())
    }
}
impl Sampler for SequentialSampler {
    type Index = usize;
    fn indices(&self) -> Indices<'_, usize> {
        Box::new((0..self.0).map(Ok))
    }
    fn length(&self) -> Option<usize> {
        Some(self.0)
    }
}

fn positive(num_samples: usize) -> Result<()> {
    ensure!(
        num_samples > 0,
        Value,
        "num_samples should be a positive integer value, but got num_samples={num_samples}"
    );
    Ok(())
}

/// Options of [`RandomSampler`].
#[derive(Clone, Debug)]
pub struct RandomSamplerOptions {
    count: usize,
    replacement: bool,
    num_samples: Option<usize>,
    generator: Option<Generator>,
}
impl RandomSamplerOptions {
    /// For a dataset, or the indices below a number.
    pub fn new(data_source: impl Length) -> Self {
        RandomSamplerOptions {
            count: data_source.count(),
            replacement: false,
            num_samples: None,
            generator: None,
        }
    }
    /// Whether an index may be drawn again. Default: no.
    pub fn replacement(mut self, on: bool) -> Self {
        self.replacement = on;
        self
    }
    /// How many to draw. Default: as many as there are samples. More than that, without replacement, are several
    /// permutations.
    pub fn num_samples(mut self, n: usize) -> Self {
        self.num_samples = Some(n);
        self
    }
    /// Draws from this generator; default: each pass has a new one, with a seed from the default generator.
    pub fn generator(mut self, generator: &Generator) -> Self {
        self.generator = Some(generator.clone());
        self
    }
    /// Panics where [`RandomSamplerOptions::try_build`] gives an error.
    #[track_caller]
    pub fn build(self) -> RandomSampler {
        expect(self.try_build())
    }
    /// The sampler.
    ///
    /// # Errors
    /// No samples.
    pub fn try_build(self) -> Result<RandomSampler> {
        positive(self.num_samples.unwrap_or(self.count))?;
        Ok(RandomSampler(self))
    }
}

/// Random indices, with or without replacement.
///
/// ```
/// use torch::utils::data::RandomSampler;
///
/// torch::manual_seed(0);
/// assert_eq!(RandomSampler::new(5).iter().collect::<Vec<_>>(), [1, 3, 4, 2, 0]);
/// ```
#[doc(alias = "torch.utils.data.RandomSampler")]
#[derive(Clone, Debug)]
pub struct RandomSampler(RandomSamplerOptions);
impl RandomSampler {
    /// A permutation; panics where there are no samples.
    #[track_caller]
    pub fn new(data_source: impl Length) -> Self {
        RandomSamplerOptions::new(data_source).build()
    }
}
impl Sampler for RandomSampler {
    type Index = usize;
    fn indices(&self) -> Indices<'_, usize> {
        const BLOCK: usize = 32;
        let o = &self.0;
        let (n, wanted) = (o.count, o.num_samples.unwrap_or(o.count));
        let mut generator = o.generator.clone();
        let mut draw = move |k: usize| -> Result<Option<Vec<i64>>> {
            let g = match &generator {
                Some(g) => g,
                None => {
                    let g = Generator::new();
                    g.manual_seed(draw_seed(None)? as u64);
                    generator.insert(g)
                }
            };
            let block = if o.replacement { BLOCK } else { n };
            ensure!(block > 0, Runtime, "integer division or modulo by zero");
            // the last block is drawn even where nothing of it is used: the generator's state says so
            let size = match k.cmp(&(wanted / block)) {
                std::cmp::Ordering::Less => block,
                std::cmp::Ordering::Equal => wanted % block,
                std::cmp::Ordering::Greater => return Ok(None),
            };
            let drawn = if o.replacement {
                ops::randint(n as i64, &[size as i64], Some(g), Some(DType::I64), None, None, None)?
            } else {
                ops::randperm(n as i64, Some(g), None, None, None, None)?
            };
            let mut drawn = drawn.try_to_vec::<i64>()?;
            drawn.truncate(size);
            Ok(Some(drawn))
        };
        blocks(move |k| draw(k).transpose())
    }
    fn length(&self) -> Option<usize> {
        Some(self.0.num_samples.unwrap_or(self.0.count))
    }
}

/// Given indices in random order.
///
/// ```
/// use torch::utils::data::SubsetRandomSampler;
/// let mut drawn: Vec<usize> = SubsetRandomSampler::new([2, 3, 5]).iter().collect();
/// drawn.sort();
/// assert_eq!(drawn, [2, 3, 5]);
/// ```
#[doc(alias = "torch.utils.data.SubsetRandomSampler")]
#[derive(Clone, Debug)]
pub struct SubsetRandomSampler {
    indices: Vec<usize>,
    generator: Option<Generator>,
}
impl SubsetRandomSampler {
    /// These indices, each once.
    pub fn new(indices: impl IndexList) -> Self {
        SubsetRandomSampler { indices: indices.index_list(), generator: None }
    }
    /// Draws from this generator instead of the default one.
    pub fn generator(mut self, generator: &Generator) -> Self {
        self.generator = Some(generator.clone());
        self
    }
}
impl Sampler for SubsetRandomSampler {
    type Index = usize;
    fn indices(&self) -> Indices<'_, usize> {
        let order = blocks(move |k| {
            let n = self.indices.len() as i64;
            let drawn =
                || ops::randperm(n, self.generator.as_ref(), None, None, None, None)?.try_to_vec::<i64>();
            (k == 0).then(drawn)
        });
        Box::new(order.map(|i| i.map(|i| self.indices[i])))
    }
    fn length(&self) -> Option<usize> {
        Some(self.indices.len())
    }
}

/// The weight of a sample: a number, or an element of a tensor, so that lists of numbers and tensors are taken.
///
/// ```
/// use torch::utils::data::WeightedRandomSampler;
/// let only = |s: WeightedRandomSampler| s.iter().all(|i| i == 1);
/// assert!(only(WeightedRandomSampler::new([0.0, 2.0], 5)));
/// assert!(only(WeightedRandomSampler::new(&torch::tensor([0.0, 2.0]), 5)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no weight",
    label = "weights are wanted here",
    note = "a list of numbers, or a tensor of one dimension"
)]
pub trait Weight {
    /// The weight; NaN, which cannot be drawn from, where this is no number.
    fn weight(self) -> f64;
}
macro_rules! weights {
    ($($t:ty),*) => {$(
        impl Weight for $t {
            fn weight(self) -> f64 {
                self as f64
            }
        }
    )*};
}
weights!(f32, f64, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
impl Weight for bool {
    fn weight(self) -> f64 {
        f64::from(self)
    }
}
impl Weight for Tensor {
    fn weight(self) -> f64 {
        self.try_item().unwrap_or(f64::NAN)
    }
}
impl<W: Weight + Clone> Weight for &W {
    fn weight(self) -> f64 {
        self.clone().weight()
    }
}

/// Options of [`WeightedRandomSampler`].
///
/// ```
/// use torch::utils::data::WeightedRandomSamplerOptions;
///
/// let classes = torch::tensor([0, 0, 0, 1]);
/// let weights = (1.0 / torch::bincount(&classes)).i(&classes);     // rare classes as often as others
/// let sampler = WeightedRandomSamplerOptions::new(&weights, 100).build();
/// # use torch::{prelude::*, utils::data::Sampler};
/// assert_eq!(sampler.iter().count(), 100);
/// ```
#[derive(Clone, Debug)]
pub struct WeightedRandomSamplerOptions {
    weights: Vec<f64>,
    num_samples: usize,
    replacement: bool,
    generator: Option<Generator>,
}
impl WeightedRandomSamplerOptions {
    /// Weights of the indices, which need not sum to one, and how many to draw.
    pub fn new(weights: impl IntoIterator<Item = impl Weight>, num_samples: usize) -> Self {
        WeightedRandomSamplerOptions {
            weights: weights.into_iter().map(Weight::weight).collect(),
            num_samples,
            replacement: true,
            generator: None,
        }
    }
    /// Whether an index may be drawn again. Default: yes.
    pub fn replacement(mut self, on: bool) -> Self {
        self.replacement = on;
        self
    }
    /// Draws from this generator instead of the default one.
    pub fn generator(mut self, generator: &Generator) -> Self {
        self.generator = Some(generator.clone());
        self
    }
    /// Panics where [`WeightedRandomSamplerOptions::try_build`] gives an error.
    #[track_caller]
    pub fn build(self) -> WeightedRandomSampler {
        expect(self.try_build())
    }
    /// The sampler.
    ///
    /// # Errors
    /// Nothing is to be drawn.
    pub fn try_build(self) -> Result<WeightedRandomSampler> {
        positive(self.num_samples)?;
        Ok(WeightedRandomSampler(self))
    }
}

/// Indices drawn by weight. Weights that cannot be drawn from are an error of the pass.
///
/// ```
/// use torch::utils::data::{Sampler, WeightedRandomSampler};
/// assert_eq!(WeightedRandomSampler::new([0.0, 0.5, 0.0], 3).iter().collect::<Vec<_>>(), [1, 1, 1]);
/// assert!(WeightedRandomSampler::new([-1.0], 1).indices().next().unwrap().is_err());
/// ```
#[doc(alias = "torch.utils.data.WeightedRandomSampler")]
#[derive(Clone, Debug)]
pub struct WeightedRandomSampler(WeightedRandomSamplerOptions);
impl WeightedRandomSampler {
    /// With replacement; panics where nothing is to be drawn.
    #[track_caller]
    pub fn new(weights: impl IntoIterator<Item = impl Weight>, num_samples: usize) -> Self {
        WeightedRandomSamplerOptions::new(weights, num_samples).build()
    }
}
impl Sampler for WeightedRandomSampler {
    type Index = usize;
    fn indices(&self) -> Indices<'_, usize> {
        let o = &self.0;
        blocks(move |k| {
            let drawn = || {
                let weights = Tensor::from_vec_raw(o.weights.clone(), &[o.weights.len() as i64])?;
                let n = o.num_samples as i64;
                ops::multinomial(&weights, n, o.replacement, o.generator.as_ref())?.try_to_vec::<i64>()
            };
            (k == 0).then(drawn)
        })
    }
    fn length(&self) -> Option<usize> {
        Some(self.0.num_samples)
    }
}

/// Batches of another sampler's indices.
///
/// ```
/// use torch::utils::data::{BatchSampler, Sampler, SequentialSampler};
///
/// let batches = BatchSampler::new(SequentialSampler::new(10), 3, false);
/// assert_eq!(batches.iter().last(), Some(vec![9]));
/// let batches = BatchSampler::new(SequentialSampler::new(10), 3, true);
/// assert_eq!(batches.iter().last(), Some(vec![6, 7, 8]));
/// ```
#[doc(alias = "torch.utils.data.BatchSampler")]
#[derive(Clone, Debug)]
pub struct BatchSampler<S> {
    sampler: S,
    batch_size: usize,
    drop_last: bool,
}
impl<S: Sampler<Index = usize>> BatchSampler<S> {
    /// Panics where the batch size is 0.
    #[track_caller]
    pub fn new(sampler: S, batch_size: usize, drop_last: bool) -> Self {
        expect(Self::try_new(sampler, batch_size, drop_last))
    }
    /// Batches of `batch_size`; the last may be smaller, or is dropped then.
    ///
    /// # Errors
    /// The batch size is 0.
    pub fn try_new(sampler: S, batch_size: usize, drop_last: bool) -> Result<Self> {
        ensure!(
            batch_size > 0,
            Value,
            "batch_size should be a positive integer value, but got batch_size={batch_size}"
        );
        Ok(BatchSampler { sampler, batch_size, drop_last })
    }
}
impl<S: Sampler<Index = usize>> Sampler for BatchSampler<S> {
    type Index = Vec<usize>;
    fn indices(&self) -> Indices<'_, Vec<usize>> {
        let mut indices = self.sampler.indices().fuse();
        let mut next = move || -> Result<Option<Vec<usize>>> {
            // a caller's own batch size may be far beyond the data
            let mut batch = Vec::with_capacity(self.batch_size.min(1 << 12));
            while batch.len() < self.batch_size {
                match indices.next() {
                    Some(i) => batch.push(i?),
                    None => break,
                }
            }
            let whole = batch.len() == self.batch_size;
            Ok((whole || !self.drop_last && !batch.is_empty()).then_some(batch))
        };
        Box::new(std::iter::from_fn(move || next().transpose()))
    }
    fn length(&self) -> Option<usize> {
        let n = self.sampler.length()?;
        Some(if self.drop_last { n / self.batch_size } else { n.div_ceil(self.batch_size) })
    }
}
