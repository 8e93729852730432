//! Fields that the options of modules of many families have.

use crate::parameter::Parameter;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion;
use flambeau_core::settings::get_default_device;
use flambeau_core::{Result, Tensor};
use flambeau_macros::fields;

/// Where the parameters of a module lie, and of what dtype they are.
#[fields]
pub(crate) struct Factory {
    /// Device of parameters and buffers.
    pub device: Option<flambeau_core::Device>,
    /// Dtype of parameters and buffers.
    pub dtype: Option<flambeau_core::DType>,
}
impl Factory {
    /// A fresh tensor, whose elements are not set.
    pub fn empty(&self, sizes: &[i64]) -> Result<Tensor> {
        let dtype = self.dtype.unwrap_or_else(promotion::default_dtype);
        Tensor::empty_raw(sizes, dtype, self.device.unwrap_or_else(get_default_device))
    }
    /// A fresh parameter, whose elements are not set.
    pub fn parameter(&self, sizes: &[i64]) -> Result<Parameter> {
        Parameter::try_new(&self.empty(sizes)?, true)
    }
    /// A fresh parameter where there is to be one.
    pub fn parameter_if(&self, on: bool, sizes: &[i64]) -> Result<Option<Parameter>> {
        on.then(|| self.parameter(sizes)).transpose()
    }
    /// A parameter without sizes yet, where there is to be one.
    pub fn open_if(&self, on: bool) -> Result<Option<Parameter>> {
        on.then(|| Parameter::uninitialized(true, self.dtype, self.device)).transpose()
    }
}

/// How the losses of the elements become one.
#[fields]
pub(crate) struct Reduction {
    /// Former name of a part of `reduction`.
    pub size_average: Option<bool>,
    /// Former name of a part of `reduction`.
    pub reduce: Option<bool>,
    /// `"none"`, `"mean"` or `"sum"`.
    #[default("mean")]
    pub reduction: String,
}

/// Of layers that compute element by element.
#[fields]
pub(crate) struct Inplace {
    /// Writes the result to the input.
    #[default(false)]
    pub inplace: bool,
}
