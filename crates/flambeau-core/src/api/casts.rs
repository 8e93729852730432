//! Conversions with names of their own (`x.float()`), and what a tensor is as a sequence of its rows.

use crate::backend::pinned;
use crate::ops;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result, expect};
use flambeau_dtype::DType;

/// `x.float()` and its like.
macro_rules! casts {
    ($($name:ident $alias:literal $dtype:ident),* $(,)?) => {
        /// The same elements in another dtype; the tensor itself if it has that dtype already. `x.to(..)` takes any of them.
        impl Tensor {$(
            #[doc = concat!("The elements as `", $alias, "`: `x.to(DType::", stringify!($dtype), ")`.")]
            #[track_caller]
            #[doc(alias = $alias)]
            pub fn $name(&self) -> Tensor {
                self.to(DType::$dtype)
            }
        )*}
    };
}
casts! {
    float "torch.Tensor.float" F32,
    double "torch.Tensor.double" F64,
    half "torch.Tensor.half" F16,
    bfloat16 "torch.Tensor.bfloat16" BF16,
    byte "torch.Tensor.byte" U8,
    char "torch.Tensor.char" I8,
    short "torch.Tensor.short" I16,
    int "torch.Tensor.int" I32,
    long "torch.Tensor.long" I64,
    bool "torch.Tensor.bool" Bool,
    chalf "torch.Tensor.chalf" C32,
    cfloat "torch.Tensor.cfloat" C64,
    cdouble "torch.Tensor.cdouble" C128,
}
impl Tensor {
    /// The tensor on the CPU; itself if it is there.
    #[track_caller]
    #[doc(alias = "torch.Tensor.cpu")]
    pub fn cpu(&self) -> Tensor {
        self.to(Device::Cpu)
    }
    /// Whether the tensor lies in memory of the host that devices read by themselves ([`Tensor::pin_memory`]).
    #[doc(alias = "torch.Tensor.is_pinned")]
    pub fn is_pinned(&self) -> bool {
        pinned::is(self)
    }
    /// The tensor in pinned memory, from which copies to a device need not wait; itself where it lies there. Panics with the text of
    /// [`Tensor::try_pin_memory`]'s error.
    ///
    /// ```no_run
    /// use torch::{Device, prelude::*};
    /// let batch = torch::zeros([64, 784]).pin_memory();
    /// assert!(batch.is_pinned());
    /// // returns at once: the device reads the batch when it gets there
    /// let there = torch::zeros([64, 784]).to(Device::cuda(0));
    /// torch::ops::copy_(&there, &batch, true).unwrap();
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.pin_memory")]
    pub fn pin_memory(&self) -> Tensor {
        expect(self.try_pin_memory())
    }
    /// The tensor in pinned memory; itself where it lies there.
    ///
    /// # Errors
    /// There is no device that reads such memory; a tensor that is not on the CPU, or not dense.
    pub fn try_pin_memory(&self) -> Result<Tensor> {
        pinned::pin(self)
    }
    /// The elements in the dtype and on the device of another tensor.
    #[track_caller]
    #[doc(alias = "torch.Tensor.type_as")]
    pub fn type_as(&self, other: &Tensor) -> Tensor {
        self.to((other.dtype(), other.device()))
    }
    /// The number of dimensions: [`Tensor::dim`].
    #[doc(alias = "torch.Tensor.ndimension")]
    pub fn ndimension(&self) -> usize {
        self.dim()
    }
    /// Whether another tensor has the same sizes.
    #[doc(alias = "torch.Tensor.is_same_size")]
    pub fn is_same_size(&self, other: &Tensor) -> bool {
        self.sizes() == other.sizes()
    }
    /// The rows: Python's `for row in x`. A tensor is an iterator's source as well: `for row in &x`,
    /// `for part in x.squeeze()`. Panics for tensors without
    /// dimensions.
    ///
    /// ```
    /// use torch::prelude::*;
    /// let x = torch::tensor([[1.0, 2.0], [3.0, 4.0]]);
    /// let sums: Vec<f64> = x.iter().map(|row| row.sum().item()).collect();
    /// assert_eq!(sums, [3.0, 7.0]);
    /// ```
    #[track_caller]
    #[doc(alias = "torch.Tensor.__iter__")]
    pub fn iter(&self) -> std::vec::IntoIter<Tensor> {
        expect(self.try_iter())
    }
    /// [`Tensor::iter`] with an error instead of a panic.
    ///
    /// # Errors
    /// A tensor without dimensions.
    pub fn try_iter(&self) -> Result<std::vec::IntoIter<Tensor>> {
        if self.dim() == 0 {
            return Err(Error::type_("iteration over a 0-d tensor"));
        }
        Ok(ops::unbind(self, 0)?.into_iter())
    }
    /// All sizes as an array, to take apart: Python's `b, c, h, w = x.shape`. Panics if the tensor has another number of
    /// dimensions.
    ///
    /// ```
    /// use torch::prelude::*;
    /// let [rows, columns] = torch::zeros([2, 3]).dims();
    /// assert_eq!((rows, columns), (2, 3));
    /// ```
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> [i64; N] {
        expect(self.try_dims())
    }
    /// [`Tensor::dims`] with an error instead of a panic.
    ///
    /// # Errors
    /// Another number of dimensions.
    pub fn try_dims<const N: usize>(&self) -> Result<[i64; N]> {
        self.sizes().try_into().map_err(|_| match self.dim() {
            n if n > N => Error::value(format!("too many values to unpack (expected {N}, got {n})")),
            n => Error::value(format!("not enough values to unpack (expected {N}, got {n})")),
        })
    }
}
impl IntoIterator for Tensor {
    type Item = Tensor;
    type IntoIter = std::vec::IntoIter<Tensor>;
    #[track_caller]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
impl IntoIterator for &Tensor {
    type Item = Tensor;
    type IntoIter = std::vec::IntoIter<Tensor>;
    #[track_caller]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
