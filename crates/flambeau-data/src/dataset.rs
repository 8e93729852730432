//! Datasets.

use crate::collate::Collate;
use crate::expect;
use crate::options::{Map, Stream};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, ensure, ops};
use std::any::Any;
use std::sync::Arc;

/// A map from `0..len` to samples.
///
/// ```
/// use torch::{Result, Tensor};
/// use torch::utils::data::{DataLoaderOptions, Dataset};
///
/// struct Squares(usize);
/// impl Dataset for Squares {
///     type Item = (i64, f32);
///     fn get(&self, i: usize) -> Result<Self::Item> {
///         Ok((i as i64, (i * i) as f32))
///     }
///     fn len(&self) -> usize {
///         self.0
///     }
/// }
/// let loader = DataLoaderOptions::new(Squares(5)).batch_size(3).build();
/// let (n, squares): (Tensor, Tensor) = loader.iter().next().unwrap();
/// assert_eq!(n.to_vec::<i64>(), [0, 1, 2]);
/// assert_eq!(squares.to_vec::<f32>(), [0.0, 1.0, 4.0]);
/// ```
#[doc(alias = "torch.utils.data.Dataset")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no dataset",
    label = "no dataset",
    note = "`impl Dataset` needs `type Item`, `fn get(&self, index: usize) -> torch::Result<Self::Item>` and `fn len(&self) -> usize`",
    note = "tensors become one by `TensorDataset::new((x, y))`, streams go to `DataLoaderOptions::iterable`"
)]
pub trait Dataset: Send + Sync {
    /// A sample.
    type Item;
    /// The sample at an index (`__getitem__`).
    ///
    /// # Errors
    /// No such index, or what reading the sample may fail with.
    fn get(&self, index: usize) -> Result<Self::Item>;
    /// How many samples there are (`__len__`).
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The samples of a batch (`__getitems__`), where reading them together is faster.
    ///
    /// # Errors
    /// As [`Dataset::get`].
    fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
        indices.iter().map(|i| self.get(*i)).collect()
    }
    /// What [`default_collate`](crate::default_collate) would make of these samples, for datasets that can gather a batch
    /// without the samples. `None` where this one cannot.
    fn collate_many(&self, indices: &[usize]) -> Option<Result<<Self::Item as Collate>::Batch>>
    where
        Self::Item: Collate,
    {
        let _ = indices;
        None
    }
}

macro_rules! delegate {
    ($($pointer:ty),*) => {$(
        impl<D: Dataset + ?Sized> Dataset for $pointer {
            type Item = D::Item;
            fn get(&self, index: usize) -> Result<Self::Item> {
                (**self).get(index)
            }
            fn len(&self) -> usize {
                (**self).len()
            }
            fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
                (**self).get_many(indices)
            }
            fn collate_many(&self, indices: &[usize]) -> Option<Result<<Self::Item as Collate>::Batch>>
            where
                Self::Item: Collate,
            {
                (**self).collate_many(indices)
            }
        }
        impl<D: IterableDataset + ?Sized> IterableDataset for $pointer {
            type Item = D::Item;
            fn iter(&self) -> Samples<'_, Self::Item> {
                (**self).iter()
            }
            fn length(&self) -> Option<usize> {
                (**self).length()
            }
        }
    )*};
}
delegate!(Arc<D>, Box<D>, &D);

fn out_of_range(index: usize, len: usize) -> Result<()> {
    ensure!(index < len, Index, "list index out of range");
    Ok(())
}

impl<T: Clone + Send + Sync> Dataset for Vec<T> {
    type Item = T;
    fn get(&self, index: usize) -> Result<T> {
        out_of_range(index, Vec::len(self))?;
        Ok(self[index].clone())
    }
    fn len(&self) -> usize {
        Vec::len(self)
    }
}
impl Dataset for std::ops::Range<i64> {
    type Item = i64;
    fn get(&self, index: usize) -> Result<i64> {
        ensure!(index < self.len(), Index, "range object index out of range");
        Ok(self.start + index as i64)
    }
    fn len(&self) -> usize {
        usize::try_from(self.end - self.start).unwrap_or(0)
    }
}

/// The samples of an [`IterableDataset`], one after another.
///
/// ```
/// use torch::utils::data::Samples;
/// let mut some: Samples<'_, i64> = Box::new([1, 2].into_iter().map(Ok));
/// assert_eq!(some.next().unwrap()?, 1);
/// # Ok::<(), torch::Error>(())
/// ```
pub type Samples<'a, T> = Box<dyn Iterator<Item = Result<T>> + 'a>;

/// Samples that come as a stream: a file read line by line, a generator.
///
/// Each worker iterates the dataset for itself. [`get_worker_info`](crate::get_worker_info), called in
/// [`IterableDataset::iter`], says which part is this worker's; without that, every worker gives everything.
///
/// ```
/// use torch::utils::data::{DataLoaderOptions, IterableDataset, Samples, get_worker_info};
///
/// struct Range(i64, i64);
/// impl IterableDataset for Range {
///     type Item = i64;
///     fn iter(&self) -> Samples<'_, i64> {
///         let (first, step) = get_worker_info().map_or((0, 1), |w| (w.id, w.num_workers));
///         Box::new((self.0..self.1).skip(first).step_by(step).map(Ok))
///     }
/// }
/// let loader = DataLoaderOptions::iterable(Range(3, 7)).num_workers(2).batch_size(2).build();
/// let all: Vec<Vec<i64>> = loader.iter().map(|b| b.to_vec::<i64>()).collect();
/// assert_eq!(all, [[3, 5], [4, 6]]);
/// ```
#[doc(alias = "torch.utils.data.IterableDataset")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no stream of samples",
    label = "no iterable dataset",
    note = "`impl IterableDataset` needs `type Item` and `fn iter(&self) -> Samples<Self::Item>`; a dataset with indices goes to `DataLoaderOptions::new`"
)]
pub trait IterableDataset: Send + Sync {
    /// A sample.
    type Item;
    /// The samples from the beginning (`__iter__`).
    fn iter(&self) -> Samples<'_, Self::Item>;
    /// How many there are, if that is known (`__len__`).
    fn length(&self) -> Option<usize> {
        None
    }
}

/// Tensors that belong together: one, a tuple of up to eight, an array or a vector.
///
/// ```
/// use torch::utils::data::Tensors;
/// fn sizes(t: impl Tensors) -> Vec<i64> {
///     t.list().into_iter().map(|t| t.numel()).collect()
/// }
/// assert_eq!(sizes(torch::zeros([4])), [4]);
/// assert_eq!(sizes((torch::zeros([4]), torch::zeros([2, 3]))), [4, 6]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are no tensors that belong together",
    label = "tensors are wanted here",
    note = "`TensorDataset::new((x, y))`, `TensorDataset::new((&x, &y))`"
)]
pub trait Tensors: Collate<Batch = Self> + Send + Sync + 'static {
    /// The tensors in order.
    fn list(&self) -> Vec<&Tensor>;
    /// The same with each tensor replaced.
    ///
    /// # Errors
    /// The first of `f`.
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self>;
}
/// What a [`TensorDataset`] is made of: tensors that belong together, or a tuple of references to them, whose memory it shares.
///
/// ```
/// use torch::utils::data::{Dataset, TensorDataset};
/// let (x, y) = (torch::zeros([4, 3]), torch::arange(4));
/// let lent = TensorDataset::new((&x, &y));
/// assert_eq!(lent.get(2)?.1.item::<i64>(), 2);
/// let given = TensorDataset::new((x, y));
/// assert_eq!(given.len(), 4);
/// # Ok::<(), torch::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are no tensors that belong together",
    label = "tensors are wanted here",
    note = "`TensorDataset::new((x, y))`, `TensorDataset::new((&x, &y))`"
)]
pub trait IntoTensors {
    /// The tensors themselves.
    type Tensors: Tensors;
    /// The tensors.
    fn into_tensors(self) -> Self::Tensors;
}
impl<T: Tensors> IntoTensors for T {
    type Tensors = T;
    fn into_tensors(self) -> T {
        self
    }
}
impl Tensors for Tensor {
    fn list(&self) -> Vec<&Tensor> {
        vec![self]
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        f(self)
    }
}
impl Tensors for Vec<Tensor> {
    fn list(&self) -> Vec<&Tensor> {
        self.iter().collect()
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        self.iter().map(f).collect()
    }
}
impl<const N: usize> Tensors for [Tensor; N] {
    fn list(&self) -> Vec<&Tensor> {
        self.iter().collect()
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        let made: Vec<Tensor> = self.iter().map(f).collect::<Result<_>>()?;
        made.try_into().map_err(|_| Error::assertion("as many tensors as before"))
    }
}
macro_rules! tuples {
    ($($($t:ident $i:tt),+;)*) => {$(
        impl Tensors for ($(replace!($t),)+) {
            fn list(&self) -> Vec<&Tensor> {
                vec![$(&self.$i),+]
            }
            fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
                Ok(($(f(&self.$i)?,)+))
            }
        }
        impl IntoTensors for ($(replace!(& $t),)+) {
            type Tensors = ($(replace!($t),)+);
            fn into_tensors(self) -> Self::Tensors {
                ($(self.$i.clone(),)+)
            }
        }
    )*};
}
macro_rules! replace {
    ($t:ident) => {
        Tensor
    };
    (& $t:ident) => {
        &Tensor
    };
}
tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

/// Tensors of equal first dimension; a sample is their slices at an index.
///
/// A loader with default collation gathers whole batches at once.
#[doc(alias = "torch.utils.data.TensorDataset")]
#[derive(Clone, Debug)]
pub struct TensorDataset<T = (Tensor, Tensor)> {
    tensors: T,
    len: usize,
}
impl<T: Tensors> TensorDataset<T> {
    /// Panics where [`TensorDataset::try_new`] gives an error.
    #[track_caller]
    pub fn new(tensors: impl IntoTensors<Tensors = T>) -> Self {
        expect(Self::try_new(tensors))
    }
    /// From tensors of one first dimension.
    ///
    /// # Errors
    /// The first dimensions differ, there is no tensor, or one has no dimension.
    pub fn try_new(tensors: impl IntoTensors<Tensors = T>) -> Result<Self> {
        let tensors = tensors.into_tensors();
        let list = tensors.list();
        ensure!(!list.is_empty(), Index, "tuple index out of range");
        let size = |t: &Tensor| {
            let first = t.sizes().first().copied();
            first.ok_or_else(|| Error::index("Dimension specified as 0 but tensor has no dimensions"))
        };
        let len = size(list[0])?;
        for t in list {
            ensure!(size(t)? == len, Assertion, "Size mismatch between tensors");
        }
        Ok(TensorDataset { tensors, len: len as usize })
    }
    /// The tensors.
    pub fn tensors(&self) -> &T {
        &self.tensors
    }
}
impl<T: Tensors> Dataset for TensorDataset<T> {
    type Item = T;
    fn get(&self, index: usize) -> Result<T> {
        let len = self.len;
        ensure!(index < len, Index, "index {index} is out of bounds for dimension 0 with size {len}");
        self.tensors.map(&mut |t| ops::select(t, 0, index as i64))
    }
    fn len(&self) -> usize {
        self.len
    }
    fn collate_many(&self, indices: &[usize]) -> Option<Result<T>> {
        if indices.is_empty() {
            return None;
        }
        if let Some(wrong) = indices.iter().find(|i| **i >= self.len) {
            return Some(self.get(*wrong));
        }
        let index = indices.iter().map(|i| *i as i64).collect::<Vec<_>>();
        let index = Tensor::from_vec_raw(index, &[indices.len() as i64]);
        Some(index.and_then(|index| self.tensors.map(&mut |t| ops::index_select(t, 0, &index))))
    }
}

/// Indices of samples: a vector, an array, a slice, or a range (`0..100`).
///
/// ```
/// use torch::utils::data::{IndexList, SubsetRandomSampler};
/// fn order(indices: impl IndexList) -> SubsetRandomSampler {
///     SubsetRandomSampler::new(indices)
/// }
/// assert_eq!(order(0..100).iter().count(), 100);
/// assert_eq!(order([3]).iter().collect::<Vec<_>>(), [3]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of indices",
    label = "indices of samples are wanted here",
    note = "a `Vec<usize>`, an array or a slice of `usize`, or a range: `0..100`"
)]
pub trait IndexList {
    /// The indices.
    fn index_list(self) -> Vec<usize>;
}
macro_rules! index_lists {
    ($([$($generics:tt)*] $t:ty => |$v:ident| $e:expr;)*) => {$(
        impl<$($generics)*> IndexList for $t {
            fn index_list(self) -> Vec<usize> {
                let $v = self;
                $e
            }
        }
    )*};
}
index_lists! {
    [] Vec<usize> => |v| v;
    [] &Vec<usize> => |v| v.clone();
    [] &[usize] => |v| v.to_vec();
    [] Box<[usize]> => |v| v.into_vec();
    [const N: usize] [usize; N] => |v| v.to_vec();
    [const N: usize] &[usize; N] => |v| v.to_vec();
    [] std::ops::Range<usize> => |v| v.collect();
    [] std::ops::RangeInclusive<usize> => |v| v.collect();
}

/// Some samples of a dataset, by their indices.
///
/// ```
/// use torch::utils::data::{Dataset, Subset, TensorDataset};
///
/// let data = TensorDataset::new((torch::arange(10),));
/// let (train, test) = (Subset::new(data.clone(), 0..8), Subset::new(data, [8, 9]));
/// assert_eq!((train.len(), test.len(), test.get(1)?.0.item::<i64>()), (8, 2, 9));
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.utils.data.Subset")]
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: D,
    indices: Vec<usize>,
}
impl<D: Dataset> Subset<D> {
    /// The samples at `indices`. An index that the dataset lacks is an error when it is read.
    pub fn new(dataset: D, indices: impl IndexList) -> Self {
        Subset { dataset, indices: indices.index_list() }
    }
    /// The whole dataset.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }
    /// Indices in the whole dataset.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }
    fn outer(&self, index: usize) -> Result<usize> {
        out_of_range(index, self.indices.len())?;
        Ok(self.indices[index])
    }
    fn outers(&self, indices: &[usize]) -> Result<Vec<usize>> {
        indices.iter().map(|i| self.outer(*i)).collect()
    }
}
impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;
    fn get(&self, index: usize) -> Result<Self::Item> {
        self.dataset.get(self.outer(index)?)
    }
    fn len(&self) -> usize {
        self.indices.len()
    }
    fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
        self.dataset.get_many(&self.outers(indices)?)
    }
    fn collate_many(&self, indices: &[usize]) -> Option<Result<<Self::Item as Collate>::Batch>>
    where
        Self::Item: Collate,
    {
        match self.outers(indices) {
            Ok(outers) => self.dataset.collate_many(&outers),
            Err(e) => Some(Err(e)),
        }
    }
}

/// Several datasets one after another. Datasets of different types are `Box<dyn Dataset<Item = T>>`.
///
/// ```
/// use torch::utils::data::{ConcatDataset, Dataset};
/// let all = ConcatDataset::new([vec!['a', 'b'], vec!['c']]);
/// assert_eq!((all.len(), all.get(2)?), (3, 'c'));
/// assert_eq!(all.cumulative_sizes(), [2, 3]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.utils.data.ConcatDataset")]
#[derive(Clone, Debug)]
pub struct ConcatDataset<D> {
    datasets: Vec<D>,
    cumulative_sizes: Vec<usize>,
}
impl<D: Dataset> ConcatDataset<D> {
    /// Panics where [`ConcatDataset::try_new`] gives an error.
    #[track_caller]
    pub fn new(datasets: impl IntoIterator<Item = D>) -> Self {
        expect(Self::try_new(datasets))
    }
    /// The datasets in order.
    ///
    /// # Errors
    /// There is none; their lengths add up to more than 64 bits hold.
    pub fn try_new(datasets: impl IntoIterator<Item = D>) -> Result<Self> {
        let datasets: Vec<D> = datasets.into_iter().collect();
        ensure!(!datasets.is_empty(), Assertion, "datasets should not be an empty iterable");
        let mut sum = 0usize;
        let mut cumulative_sizes = Vec::new();
        for d in &datasets {
            let all = sum.checked_add(d.len());
            sum = all.ok_or_else(|| {
                Error::value("the lengths of the datasets add up to more than 64 bits hold")
            })?;
            cumulative_sizes.push(sum);
        }
        Ok(ConcatDataset { datasets, cumulative_sizes })
    }
    /// The datasets.
    pub fn datasets(&self) -> &[D] {
        &self.datasets
    }
    /// Where each dataset ends.
    pub fn cumulative_sizes(&self) -> &[usize] {
        &self.cumulative_sizes
    }
}
impl<D: Dataset> Dataset for ConcatDataset<D> {
    type Item = D::Item;
    fn get(&self, index: usize) -> Result<Self::Item> {
        out_of_range(index, self.len())?;
        let at = self.cumulative_sizes.partition_point(|end| *end <= index);
        let before = at.checked_sub(1).map_or(0, |i| self.cumulative_sizes[i]);
        self.datasets[at].get(index - before)
    }
    fn len(&self) -> usize {
        self.cumulative_sizes.last().copied().unwrap_or(0)
    }
}

/// Several streams one after another.
///
/// ```
/// use torch::utils::data::{ChainDataset, IterableDataset, Samples};
/// struct To(i64);
/// impl IterableDataset for To {
///     type Item = i64;
///     fn iter(&self) -> Samples<'_, i64> {
///         Box::new((0..self.0).map(Ok))
///     }
/// }
/// let chain = ChainDataset::new([To(2), To(3)]);
/// assert_eq!(chain.iter().collect::<torch::Result<Vec<_>>>()?, [0, 1, 0, 1, 2]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.utils.data.ChainDataset")]
#[derive(Clone, Debug)]
pub struct ChainDataset<D> {
    datasets: Vec<D>,
}
impl<D: IterableDataset> ChainDataset<D> {
    /// The streams in order.
    pub fn new(datasets: impl IntoIterator<Item = D>) -> Self {
        ChainDataset { datasets: datasets.into_iter().collect() }
    }
}
impl<D: IterableDataset> IterableDataset for ChainDataset<D> {
    type Item = D::Item;
    fn iter(&self) -> Samples<'_, Self::Item> {
        Box::new(self.datasets.iter().flat_map(|d| d.iter()))
    }
    fn length(&self) -> Option<usize> {
        self.datasets.iter().map(|d| d.length()).sum()
    }
}

/// Either kind of dataset, as the loader sees it.
pub trait Source: Send + Sync + 'static {
    /// A sample.
    type Item;
    /// By index.
    fn get(&self, index: usize) -> Result<Self::Item>;
    /// Several by index.
    fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>>;
    /// See [`Dataset::collate_many`].
    fn collate_many(&self, indices: &[usize]) -> Option<Result<<Self::Item as Collate>::Batch>>
    where
        Self::Item: Collate;
    /// From the beginning.
    fn stream(&self) -> Samples<'_, Self::Item>;
    /// How many there are.
    fn length(&self) -> Option<usize>;
    /// The dataset itself.
    fn any(&self) -> Arc<dyn Any + Send + Sync>;
}
impl<D: Dataset + 'static> Source for Map<D> {
    type Item = D::Item;
    fn get(&self, index: usize) -> Result<D::Item> {
        self.0.get(index)
    }
    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        self.0.get_many(indices)
    }
    fn collate_many(&self, indices: &[usize]) -> Option<Result<<D::Item as Collate>::Batch>>
    where
        D::Item: Collate,
    {
        self.0.collate_many(indices)
    }
    fn stream(&self) -> Samples<'_, D::Item> {
        Box::new((0..self.0.len()).map(|i| self.0.get(i)))
    }
    fn length(&self) -> Option<usize> {
        Some(self.0.len())
    }
    fn any(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.clone()
    }
}
impl<D: IterableDataset + 'static> Source for Stream<D> {
    type Item = D::Item;
    fn get(&self, index: usize) -> Result<D::Item> {
        self.0.iter().nth(index).unwrap_or_else(|| Err(Error::index("list index out of range")))
    }
    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Item>> {
        indices.iter().map(|i| self.get(*i)).collect()
    }
    fn collate_many(&self, _: &[usize]) -> Option<Result<<D::Item as Collate>::Batch>>
    where
        D::Item: Collate,
    {
        None
    }
    fn stream(&self) -> Samples<'_, D::Item> {
        self.0.iter()
    }
    fn length(&self) -> Option<usize> {
        self.0.length()
    }
    fn any(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.clone()
    }
}
