//! Datasets side by side.

use crate::dataset::Dataset;
use crate::expect;
use flambeau_core::{Error, Result, ensure};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Datasets that [`StackDataset`] puts side by side: a tuple of up to six, a vector, or a map with names.
///
/// ```
/// use torch::utils::data::Stack;
/// let columns = vec![vec![1, 2], vec![3, 4]];
/// assert_eq!((columns.lengths(), columns.get(1)?), (vec![2, 2], vec![2, 4]));
/// # Ok::<(), torch::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are no datasets side by side",
    label = "a tuple, vector or map of datasets is wanted here"
)]
pub trait Stack: Send + Sync {
    /// A sample of each.
    type Item;
    /// The length of each.
    fn lengths(&self) -> Vec<usize>;
    /// The sample of each at an index.
    ///
    /// # Errors
    /// Those of the datasets.
    fn get(&self, index: usize) -> Result<Self::Item>;
    /// The samples of each, dataset by dataset.
    ///
    /// # Errors
    /// Those of the datasets, or one gives another number of samples than asked for.
    fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>>;
}

fn many<D: Dataset>(d: &D, indices: &[usize]) -> Result<Vec<D::Item>> {
    let items = d.get_many(indices)?;
    ensure!(
        items.len() == indices.len(),
        Value,
        "Nested dataset's output size mismatch. Expected {}, got {}",
        indices.len(),
        items.len()
    );
    Ok(items)
}
fn short() -> Error {
    Error::value("Nested dataset's output size mismatch.")
}

macro_rules! tuples {
    ($($($d:ident $i:tt),+;)*) => {$(
        impl<$($d: Dataset),+> Stack for ($($d,)+) {
            type Item = ($($d::Item,)+);
            fn lengths(&self) -> Vec<usize> {
                vec![$(self.$i.len()),+]
            }
            fn get(&self, index: usize) -> Result<Self::Item> {
                Ok(($(self.$i.get(index)?,)+))
            }
            fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
                let mut columns = ($(many(&self.$i, indices)?.into_iter(),)+);
                indices.iter().map(|_| Ok(($(columns.$i.next().ok_or_else(short)?,)+))).collect()
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
}
impl<D: Dataset> Stack for Vec<D> {
    type Item = Vec<D::Item>;
    fn lengths(&self) -> Vec<usize> {
        self.iter().map(|d| d.len()).collect()
    }
    fn get(&self, index: usize) -> Result<Self::Item> {
        self.iter().map(|d| d.get(index)).collect()
    }
    fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
        let mut rows: Vec<Vec<D::Item>> = indices.iter().map(|_| Vec::with_capacity(self.len())).collect();
        for d in self {
            rows.iter_mut().zip(many(d, indices)?).for_each(|(row, item)| row.push(item));
        }
        Ok(rows)
    }
}
macro_rules! maps {
    ($($map:ident: $($bound:ident)+),* $(,)?) => {$(
        impl<K: Clone + Send + Sync $(+ $bound)+, D: Dataset> Stack for $map<K, D> {
            type Item = $map<K, D::Item>;
            fn lengths(&self) -> Vec<usize> {
                self.values().map(|d| d.len()).collect()
            }
            fn get(&self, index: usize) -> Result<Self::Item> {
                self.iter().map(|(k, d)| Ok((k.clone(), d.get(index)?))).collect()
            }
            fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Item>> {
                let mut rows: Vec<Self::Item> = indices.iter().map(|_| $map::new()).collect();
                for (k, d) in self {
                    for (row, item) in rows.iter_mut().zip(many(d, indices)?) {
                        row.insert(k.clone(), item);
                    }
                }
                Ok(rows)
            }
        }
    )*};
}
maps! { BTreeMap: Ord, HashMap: Eq Hash }

/// Datasets of one length side by side: a sample has one of each.
///
/// ```
/// use torch::utils::data::{Dataset, StackDataset};
///
/// let images = vec![1.0, 2.0, 3.0];
/// let texts = vec!["one", "two", "three"];
/// assert_eq!(StackDataset::new((images, texts)).get(1).unwrap(), (2.0, "two"));
/// ```
#[doc(alias = "torch.utils.data.StackDataset")]
#[derive(Clone, Debug)]
pub struct StackDataset<S> {
    datasets: S,
    len: usize,
}
impl<S: Stack> StackDataset<S> {
    /// Panics where [`StackDataset::try_new`] gives an error.
    #[track_caller]
    pub fn new(datasets: S) -> Self {
        expect(Self::try_new(datasets))
    }
    /// The datasets side by side.
    ///
    /// # Errors
    /// Their lengths differ, or there is none.
    pub fn try_new(datasets: S) -> Result<Self> {
        let lengths = datasets.lengths();
        ensure!(!lengths.is_empty(), Value, "At least one dataset should be passed");
        ensure!(lengths.iter().all(|n| *n == lengths[0]), Value, "Size mismatch between datasets");
        Ok(StackDataset { datasets, len: lengths[0] })
    }
    /// The datasets.
    pub fn datasets(&self) -> &S {
        &self.datasets
    }
}
impl<S: Stack> Dataset for StackDataset<S> {
    type Item = S::Item;
    fn get(&self, index: usize) -> Result<S::Item> {
        self.datasets.get(index)
    }
    fn len(&self) -> usize {
        self.len
    }
    fn get_many(&self, indices: &[usize]) -> Result<Vec<S::Item>> {
        self.datasets.get_many(indices)
    }
}
