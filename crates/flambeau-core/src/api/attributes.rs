//! What a tensor tells of its place in memory.

use crate::dispatch::stand_in::resolved;
use crate::ops;
use crate::tensor::handle::Tensor;
use crate::tensor::wrapper::{Asked, check_readable};
use crate::types::device::Device;
use crate::types::error::{Error, Result, expect};

/// Python's attributes that are a single capital.
#[allow(non_snake_case)]
impl Tensor {
    /// All dimensions in reverse: `x.T` of a matrix is its transpose, as [`Tensor::t`].
    ///
    /// ```
    /// assert_eq!(torch::ones([2, 3, 4]).T().sizes(), [4, 3, 2]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.T")]
    pub fn T(&self) -> Tensor {
        expect(ops::numpy_t(self))
    }
    /// The conjugate transpose of a matrix. Panics on tensors that have neither two dimensions nor none.
    ///
    /// ```
    /// assert_eq!(torch::ones([2, 3]).H().sizes(), [3, 2]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.H")]
    pub fn H(&self) -> Tensor {
        expect(ops::h(self))
    }
    /// The last two dimensions exchanged, as [`Tensor::mt`]. Panics on tensors with fewer.
    ///
    /// ```
    /// assert_eq!(torch::ones([2, 3, 4]).mT().sizes(), [2, 4, 3]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.mT")]
    pub fn mT(&self) -> Tensor {
        expect(ops::mt(self))
    }
    /// The last two dimensions exchanged, and the conjugate of that, as [`Tensor::mh`]. Panics on tensors with fewer.
    ///
    /// ```
    /// assert_eq!(torch::ones([2, 3, 4]).mH().sizes(), [2, 4, 3]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.mH")]
    pub fn mH(&self) -> Tensor {
        expect(ops::mh(self))
    }
}

impl Tensor {
    /// Dimensions from the outermost in memory to the innermost.
    #[doc(alias = "torch.Tensor.dim_order")]
    pub fn dim_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.dim()).collect();
        // dimensions of one element say nothing by their stride: they stay with those after them
        let key = |d: &usize| std::cmp::Reverse(self.strides()[*d]);
        order.sort_by_key(key);
        order
    }
    /// The same memory as a tensor that is cut out of the graph: Python's `x.data`. What is written to it shows in this tensor,
    /// and gradients do not notice: a backward pass that saved this tensor computes with the new elements and gives no error,
    /// so `x.detach()` is safer. Slices of elements are [`Tensor::elements`].
    ///
    /// ```
    /// use torch::prelude::*;
    /// let w = torch::tensor([1.0, 2.0]).requires_grad_(true);
    /// w.data().mul_(10.0);
    /// assert_eq!(w.to_vec::<f32>(), [10.0, 20.0]);
    /// assert!(w.is_leaf() && !w.data().requires_grad());
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.data")]
    pub fn data(&self) -> Tensor {
        expect(self.try_data())
    }
    /// [`Tensor::data`] with an error instead of a panic.
    ///
    /// # Errors
    /// A computed weight that cannot be computed; out of memory.
    pub fn try_data(&self) -> Result<Tensor> {
        if self.is_hollow() {
            return resolved(self)?.alias_apart();
        }
        self.alias_apart()
    }
    /// Size of the first dimension: Python's `len(x)`. Panics for tensors without dimensions.
    #[track_caller]
    #[doc(alias = "torch.Tensor.__len__")]
    #[allow(clippy::len_without_is_empty)] // a length of 0 is a size like any other
    pub fn len(&self) -> usize {
        expect(self.try_len())
    }
    /// [`Tensor::len`] with an error instead of a panic.
    ///
    /// # Errors
    /// A tensor without dimensions.
    pub fn try_len(&self) -> Result<usize> {
        match self.sizes() {
            [n, ..] => Ok(*n as usize),
            [] => Err(Error::type_("len() of a 0-d tensor")),
        }
    }
    /// The address of the first element, as a number to compare and print.
    ///
    /// # Errors
    /// The memory is borrowed for writing.
    pub fn data_ptr(&self) -> Result<usize> {
        check_readable(self, Asked::Memory)?;
        if self.device() == Device::Meta || self.numel() == 0 {
            return Ok(0);
        }
        Ok(self.storage().address()? + self.storage_offset() as usize * self.element_size())
    }
}
