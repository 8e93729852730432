//! A tensor's elements, borrowed.

use crate::Element;
use crate::tensor::guards::{Data, DataMut, refuse_hollow};
use crate::tensor::handle::Tensor;
use crate::types::error::{Result, expect};
use std::panic::Location;

impl Tensor {
    /// Elements, borrowed. Keep it short: operators that write this tensor fail while it is alive.
    ///
    /// # Errors
    /// Another element type, not contiguous, or borrowed mutably.
    #[track_caller]
    pub fn try_data<T: Element>(&self) -> Result<Data<'_, T>> {
        refuse_hollow(self)?;
        crate::tensor::sparse::check_memory(self)?;
        Data::new(self, Location::caller())
    }
    /// Elements, borrowed mutably. Keep it short: operators that touch this tensor fail while it is alive.
    ///
    /// # Errors
    /// Another element type, not contiguous, or borrowed.
    #[track_caller]
    pub fn try_data_mut<T: Element>(&self) -> Result<DataMut<'_, T>> {
        refuse_hollow(self)?;
        crate::tensor::sparse::check_memory(self)?;
        DataMut::new(self, Location::caller())
    }
    /// [`Tensor::try_data`] that panics.
    #[track_caller]
    #[doc(alias = "torch.Tensor.numpy")]
    pub fn data<T: Element>(&self) -> Data<'_, T> {
        expect(self.try_data())
    }
    /// [`Tensor::try_data_mut`] that panics.
    #[track_caller]
    pub fn data_mut<T: Element>(&self) -> DataMut<'_, T> {
        expect(self.try_data_mut())
    }
}
