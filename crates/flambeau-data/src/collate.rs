//! Batches of samples.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Element, Error, Layout, Result, Tensor, ensure, ops};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// What [`default_collate`] can put into a batch.
///
/// | samples | batch |
/// |---|---|
/// | [`Tensor`] | one tensor with a new first dimension |
/// | numbers, `bool` | a tensor of their dtype; `usize` and `isize` become int64 |
/// | `String`, `&'static str` | a `Vec` of them |
/// | tuples, arrays | a tuple or an array of batches |
/// | `Vec<T>`, all of one length | a `Vec` of batches |
/// | maps | a map of batches |
/// | structs with `#[derive(Collate)]` | `NameBatch`, each field a batch |
///
/// ```
/// use torch::Tensor;
/// use torch::utils::data::{Collate, default_collate};
///
/// #[derive(Collate)]
/// struct Sample {
///     image: Tensor,
///     label: i64,
/// }
/// let sample = |label| Sample { image: Tensor::from_vec(vec![0.5f32; 4], [2, 2]), label };
/// let batch: SampleBatch = default_collate(vec![sample(3), sample(7)]).unwrap();
/// assert_eq!(batch.image.shape(), [2, 2, 2]);
/// assert_eq!(batch.label.to_vec::<i64>(), [3, 7]);
/// ```
#[diagnostic::on_unimplemented(
    message = "default_collate: batch must contain tensors, numbers, strings, tuples, lists or maps; found {Self}",
    note = "derive `Collate` for a struct, or give the loader a `collate_fn`"
)]
pub trait Collate: Sized {
    /// A batch.
    type Batch;
    /// The batch of at least one sample.
    ///
    /// # Errors
    /// The samples do not fit together.
    fn collate(samples: Vec<Self>) -> Result<Self::Batch>;
}

/// Samples put together into a batch, by their type: see [`Collate`].
///
/// # Errors
/// There is no sample, or they do not fit together: tensors of different sizes, lists of different lengths, maps without
/// a key of the first.
#[doc(alias = "torch.utils.data.default_collate")]
pub fn default_collate<T: Collate>(batch: Vec<T>) -> Result<T::Batch> {
    ensure!(!batch.is_empty(), Index, "list index out of range");
    T::collate(batch)
}

/// A sample as it is: what a loader without batches gives. PyTorch turns NumPy arrays into tensors here, and leaves the
/// rest alone.
///
/// ```
/// assert_eq!(torch::utils::data::default_convert("as it is"), "as it is");
/// ```
#[doc(alias = "torch.utils.data.default_convert")]
pub fn default_convert<T>(data: T) -> T {
    data
}

impl Collate for Tensor {
    type Batch = Tensor;
    fn collate(samples: Vec<Self>) -> Result<Tensor> {
        let refused = |what: &str| {
            Error::runtime(format!(
                "Batches of {what} tensors are not currently supported by the default collate_fn; please provide a custom \
                 collate_fn to handle them appropriately."
            ))
        };
        match samples.first().map(|t| t.layout()) {
            Some(Layout::Strided) | None => ops::stack(&samples, 0),
            Some(Layout::Jagged) => Err(refused("nested")),
            Some(_) => Err(refused("sparse")),
        }
    }
}

fn vector<T: Element>(samples: Vec<T>) -> Result<Tensor> {
    let n = samples.len() as i64;
    Tensor::from_vec_raw(samples, &[n])
}
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Collate for $t {
            type Batch = Tensor;
            fn collate(samples: Vec<Self>) -> Result<Tensor> {
                vector(samples)
            }
        }
    )*};
    ($($t:ty => $as:ty),*) => {$(
        impl Collate for $t {
            type Batch = Tensor;
            fn collate(samples: Vec<Self>) -> Result<Tensor> {
                vector(samples.into_iter().map(|v| <$as>::from(v)).collect())
            }
        }
    )*};
}
numbers!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);
numbers!(bool => flambeau_core::B8);
macro_rules! sizes {
    ($($t:ty),*) => {$(
        impl Collate for $t {
            type Batch = Tensor;
            fn collate(samples: Vec<Self>) -> Result<Tensor> {
                let wide = |v| i64::try_from(v).map_err(|_| Error::runtime("Overflow when unpacking long"));
                vector(samples.into_iter().map(wide).collect::<Result<Vec<i64>>>()?)
            }
        }
    )*};
}
sizes!(usize, isize);
macro_rules! texts {
    ($($t:ty),*) => {$(
        impl Collate for $t {
            type Batch = Vec<$t>;
            fn collate(samples: Vec<Self>) -> Result<Vec<$t>> {
                Ok(samples)
            }
        }
    )*};
}
texts!(String, &'static str);

macro_rules! tuples {
    ($($($t:ident $v:ident),+;)*) => {$(
        impl<$($t: Collate),+> Collate for ($($t,)+) {
            type Batch = ($($t::Batch,)+);
            fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
                $(let mut $v = Vec::with_capacity(samples.len());)+
                #[allow(non_snake_case)]
                for ($($t,)+) in samples {
                    $($v.push($t);)+
                }
                Ok(($($t::collate($v)?,)+))
            }
        }
    )*};
}
tuples! {
    A a;
    A a, B b;
    A a, B b, C c;
    A a, B b, C c, D d;
    A a, B b, C c, D d, E e;
    A a, B b, C c, D d, E e, F f;
    A a, B b, C c, D d, E e, F f, G g;
    A a, B b, C c, D d, E e, F f, G g, H h;
}

/// Rows as columns; all rows are of one length.
fn columns<T>(samples: Vec<Vec<T>>) -> Result<Vec<Vec<T>>> {
    let width = samples.first().map_or(0, Vec::len);
    ensure!(
        samples.iter().all(|s| s.len() == width),
        Runtime,
        "each element in list of batch should be of equal size"
    );
    let mut columns: Vec<Vec<T>> = (0..width).map(|_| Vec::with_capacity(samples.len())).collect();
    for sample in samples {
        columns.iter_mut().zip(sample).for_each(|(column, item)| column.push(item));
    }
    Ok(columns)
}
impl<T: Collate> Collate for Vec<T> {
    type Batch = Vec<T::Batch>;
    fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
        columns(samples)?.into_iter().map(T::collate).collect()
    }
}
impl<T: Collate, const N: usize> Collate for [T; N] {
    type Batch = [T::Batch; N];
    fn collate(samples: Vec<Self>) -> Result<Self::Batch> {
        let rows = samples.into_iter().map(Vec::from).collect();
        let batches: Vec<T::Batch> = columns(rows)?.into_iter().map(T::collate).collect::<Result<_>>()?;
        batches.try_into().map_err(|_| Error::assertion("as many columns as elements"))
    }
}

macro_rules! maps {
    ($($map:ident: $($bound:ident)+),* $(,)?) => {$(
        impl<K: Clone + std::fmt::Debug $(+ $bound)+, V: Collate> Collate for $map<K, V> {
            type Batch = $map<K, V::Batch>;
            fn collate(mut samples: Vec<Self>) -> Result<Self::Batch> {
                let keys: Vec<K> = samples.first().map(|s| s.keys().cloned().collect()).unwrap_or_default();
                let column = |key: K| {
                    let values = samples.iter_mut().map(|s| {
                        s.remove(&key).ok_or_else(|| Error::index(format!("KeyError: {key:?}")))
                    });
                    Ok((key.clone(), V::collate(values.collect::<Result<_>>()?)?))
                };
                keys.into_iter().map(column).collect()
            }
        }
    )*};
}
maps! { BTreeMap: Ord, HashMap: Eq Hash }
