//! Tensors that are made of other tensors: masked and nested ones.
//!
//! A wrapper has sizes, dtype and layout like any tensor and no memory of its own. What it is made of is known to its class,
//! which a crate above brings ([`dispatch::wrapper`](crate::dispatch::wrapper)). Its key stands above the gradients: an
//! operator is worked out on what the wrapper is made of, by operators that record themselves. So a wrapper has no place in
//! a graph. One of its tensors, the *carrier*, has the history; what is asked of the wrapper (`requires_grad`, `grad`,
//! `backward`) is asked of the carrier, and gradients come back in a wrapper of the same structure.

use crate::tensor::handle::Tensor;
use crate::tensor::storage::Storage;
use crate::types::error::Result;
use std::any::Any;
use std::sync::Arc;

pub use crate::tensor::handle::Shown;

/// What a wrapper is made of.
pub trait Wrapped: Any + Send + Sync {
    /// The name of its class.
    fn class(&self) -> &'static str;
    /// The tensor that has the history.
    fn carrier(&self) -> Tensor;
    /// The same structure around another tensor of the carrier's sizes.
    ///
    /// # Errors
    /// Other sizes.
    fn around(&self, carrier: Tensor) -> Result<Arc<dyn Wrapped>>;
    /// As it prints.
    ///
    /// # Errors
    /// When elements cannot be read.
    fn text(&self, of: &Tensor) -> Result<String>;
    /// For those who know the type.
    fn as_any(&self) -> &dyn Any;
}

/// What stands in a wrapper's place where others have their memory.
pub(crate) struct Wrapper {
    /// No bytes.
    pub(crate) memory: Storage,
    pub(crate) inner: Arc<dyn Wrapped>,
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
    of.rewrapped(carrier)
}
