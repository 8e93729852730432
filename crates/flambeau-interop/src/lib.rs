//! Tensors as what other crates work with, and back: arrays of `ndarray` and images of `image`, each with the feature of that name.
//! Elements are copied.
#![forbid(unsafe_code)]

#[cfg(feature = "image")]
pub mod image;
#[cfg(feature = "ndarray")]
pub mod ndarray;

use flambeau_core::{Result, Tensor};

/// What becomes a tensor: arrays of `ndarray`, images of `image`.
///
/// ```
/// use ndarray::array;
/// use torch::interop::ToTensor;
/// assert_eq!(array![[1.0f32, 2.0], [3.0, 4.0]].to_tensor().sizes(), &[2, 2]);
/// ```
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
