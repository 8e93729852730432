//! Tensors as what other crates work with, and back: arrays of `ndarray` and images of `image`, each with the feature of that name.
//! Elements are copied.
#![forbid(unsafe_code)]

#[cfg(feature = "image")]
pub mod image;
#[cfg(feature = "ndarray")]
pub mod ndarray;

use flambeau_core::{Result, Tensor};

/// What becomes a tensor: arrays of `ndarray`, images of `image`.
pub trait ToTensor {
    /// As a tensor.
    ///
    /// # Errors
    /// No memory for it.
    fn try_to_tensor(&self) -> Result<Tensor>;
    /// [`try_to_tensor`](ToTensor::try_to_tensor); panics with the error's text.
    #[track_caller]
    fn to_tensor(&self) -> Tensor {
        flambeau_core::api::ergonomic::expect(self.try_to_tensor())
    }
}
