//! Tensors that are made of other tensors: masked and nested ones.
//!
//! A wrapper has sizes, dtype and layout like any tensor and no memory of its own. What it is made of is known to its class,
//! which a crate above brings ([`dispatch::wrapper`](crate::dispatch::wrapper)). Its key stands above the gradients: an
//! operator is worked out on what the wrapper is made of, by operators that record themselves. So a wrapper has no place in
//! a graph. One of its tensors, the *carrier*, has the history; what is asked of the wrapper (`requires_grad`, `grad`,
//! `backward`) is asked of the carrier, and gradients come back in a wrapper of the same structure.

use crate::tensor::handle::Tensor;
use crate::tensor::storage::Storage;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use flambeau_dtype::DType;
use std::any::Any;
use std::sync::Arc;

pub use crate::tensor::handle::Shown;

/// What a wrapper is made of.
pub trait Wrapped: Any + Send + Sync {
    /// The name of its class.
    fn class(&self) -> &'static str;
    /// What it says of itself if it is a tensor with a dimension that vmap hides. Such a one has a key of its own,
    /// [`Key::Batched`](crate::dispatch::Key::Batched); the others have that of wrappers.
    fn batched(&self) -> Option<&dyn Batched> {
        None
    }
    /// Whether it is a row of tensors of different sizes, which modules treat one by one. Other wrappers (of vmap, of a capture)
    /// look to modules like the tensor that they stand for.
    fn is_nested(&self) -> bool {
        false
    }
    /// The tensor that has the history.
    fn carrier(&self) -> Tensor;
    /// The same structure around another tensor of the carrier's sizes.
    ///
    /// # Errors
    /// Other sizes.
    fn around(&self, carrier: Tensor) -> Result<Arc<dyn Wrapped>>;
    /// Its one element as a number, where the class answers that itself: with a number, or with why there is none. `None` leaves it
    /// to what is said of all wrappers.
    fn number(&self) -> Option<Result<Scalar>> {
        None
    }
    /// As it prints.
    ///
    /// # Errors
    /// When elements cannot be read.
    fn text(&self, of: &Tensor) -> Result<String>;
    /// For those who know the type.
    fn as_any(&self) -> &dyn Any;
}

/// A tensor with a hidden dimension. Where several vmaps are within each other there is one such wrapper for each, that of
/// the innermost outside.
pub trait Batched {
    /// The tensor with the dimension.
    fn inner(&self) -> &Tensor;
    /// Where the dimension stands in it.
    fn place(&self) -> usize;
    /// A tensor of which the same vmap hides the dimension at another place.
    ///
    /// # Errors
    /// No memory.
    fn hidden(&self, t: &Tensor, place: usize) -> Result<Tensor>;
    /// Which vmap hides it: a higher number is further inside.
    fn level(&self) -> u64;
    /// A tensor of the wrapper's sizes as one of the sizes of [`Batched::inner`]: its hidden dimension of the same level is
    /// put into the same place, or the tensor is repeated along it.
    ///
    /// # Errors
    /// Those of the views that this takes.
    fn lowered(&self, t: &Tensor) -> Result<Tensor>;
    /// The other way: a tensor of the sizes of [`Batched::inner`] with the dimension hidden.
    ///
    /// # Errors
    /// No memory.
    fn raised(&self, inner: &Tensor) -> Result<Tensor>;
    /// What is said where elements are asked for.
    fn unreadable(&self, asked: Asked) -> Error;
}
/// What of a tensor's elements is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The memory.
    Memory,
    /// One element as a number.
    Number,
    /// One element as true or false.
    Truth,
}

/// What a tensor with a hidden dimension says of itself.
pub fn batched(t: &Tensor) -> Option<&dyn Batched> {
    t.wrapped()?.batched()
}
/// Of several tensors the one whose hidden dimension belongs to the innermost vmap.
pub fn innermost<'a>(all: impl IntoIterator<Item = &'a Tensor>) -> Option<&'a dyn Batched> {
    all.into_iter().filter_map(batched).max_by_key(|b| b.level())
}
/// All slices of a tensor of which vmaps hide dimensions: what checks of elements look at.
pub fn all_slices(t: &Tensor) -> Tensor {
    match batched(t) {
        Some(b) => all_slices(b.inner()),
        None => t.clone(),
    }
}
/// Zeros of these sizes with hidden dimensions wherever one of the tensors has some: what is written to by parts that may have
/// them.
///
/// # Errors
/// No memory.
pub fn zeros_among<'a>(
    sizes: &[i64],
    dtype: DType,
    device: Device,
    all: impl IntoIterator<Item = &'a Tensor>,
) -> Result<Tensor> {
    let mut levels: Vec<&dyn Batched> = Vec::new();
    for t in all {
        let mut t = t;
        while let Some(b) = batched(t) {
            if levels.iter().all(|l| l.level() != b.level()) {
                levels.push(b);
            }
            t = b.inner();
        }
    }
    // the innermost vmap's first, as they are hidden from the outermost on
    levels.sort_by_key(|l| std::cmp::Reverse(l.level()));
    let batches = levels.iter().map(|l| l.inner().sizes()[l.place()]);
    let whole: Vec<i64> = batches.chain(sizes.iter().copied()).collect();
    let mut t = Tensor::zeros_raw(&whole, dtype, device)?;
    for (place, l) in levels.iter().enumerate().rev() {
        t = l.hidden(&t, place)?;
    }
    Ok(t)
}
/// Refuses to show elements that no one tensor has.
///
/// # Errors
/// For a tensor with a hidden dimension.
pub fn check_readable(t: &Tensor, asked: Asked) -> Result<()> {
    match batched(t) {
        Some(b) => Err(b.unreadable(asked)),
        None => Ok(()),
    }
}

/// What stands in a wrapper's place where others have their memory.
pub(crate) struct Wrapper {
    /// No bytes.
    pub(crate) memory: Storage,
    pub(crate) inner: Arc<dyn Wrapped>,
}
/// Whether a tensor is nested: see [`Wrapped::is_nested`].
pub fn is_nested(t: &Tensor) -> bool {
    t.wrapped().is_some_and(|w| w.is_nested())
}

/// The tensor that has the history: a wrapper's carrier, or the tensor itself.
pub fn carrier(t: &Tensor) -> Tensor {
    match t.wrapped() {
        Some(w) => carrier(&w.carrier()),
        None => t.clone(),
    }
}
/// A gradient of `of`'s carrier as a gradient of `of`.
///
/// # Errors
/// Other sizes than the carrier's.
pub fn like(of: &Tensor, carrier: Tensor) -> Result<Tensor> {
    if let Some(b) = batched(of) {
        return b.raised(&like(b.inner(), carrier)?);
    }
    of.rewrapped(carrier)
}
