//! A tensor's elements, borrowed.

use crate::Element;
use crate::tensor::guards::{Elements, ElementsMut, refuse_hollow};
use crate::tensor::handle::Tensor;
use crate::types::error::{Result, expect};
use std::panic::Location;

impl Tensor {
    /// Elements as a slice, borrowed. Keep it short: operators that write this tensor fail while it is alive.
    ///
    /// # Errors
    /// Another element type, not contiguous, or borrowed mutably.
    #[track_caller]
    pub fn try_elements<T: Element>(&self) -> Result<Elements<'_, T>> {
        refuse_hollow(self)?;
        crate::tensor::sparse::check_memory(self)?;
        Elements::new(self, Location::caller())
    }
    /// Elements as a slice, borrowed mutably. Keep it short: operators that touch this tensor fail while it is alive.
    ///
    /// # Errors
    /// Another element type, not contiguous, or borrowed.
    #[track_caller]
    pub fn try_elements_mut<T: Element>(&self) -> Result<ElementsMut<'_, T>> {
        refuse_hollow(self)?;
        crate::tensor::sparse::check_memory(self)?;
        ElementsMut::new(self, Location::caller())
    }
    /// Elements as a slice, borrowed: [`Tensor::try_elements`] that panics. [`Tensor::data`] is PyTorch's `x.data`, a tensor.
    ///
    /// ```
    /// let x = torch::tensor([1.0, 2.0]);
    /// assert_eq!(x.elements::<f32>()[1], 2.0);
    /// x.elements_mut::<f32>()[1] = 5.0;
    /// assert_eq!(x.to_vec::<f32>(), [1.0, 5.0]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.numpy")]
    pub fn elements<T: Element>(&self) -> Elements<'_, T> {
        expect(self.try_elements())
    }
    /// [`Tensor::try_elements_mut`] that panics.
    #[track_caller]
    pub fn elements_mut<T: Element>(&self) -> ElementsMut<'_, T> {
        expect(self.try_elements_mut())
    }
}
