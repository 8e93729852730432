//! What makes a tensor quantized: integers in memory, and a rule for the numbers that they stand for.
//!
//! A quantized tensor is a strided tensor like any other, with a storage, views and versions; its dtype is one of the
//! quantized ones, its key [`Key::QuantizedCpu`](crate::types::keys::Key::QuantizedCpu) and never `Cpu`, so that only kernels
//! that know the rule are given one. Its owner holds the [`Quantizer`] beside the memory: tensors that are not quantized pay
//! nothing for it. `Tensor::integers` is the same memory as a plain tensor of integers, on which kernels work.

use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::tensor::storage::Storage;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::order::RwLock;
use crate::{DType, ensure};
use std::fmt;
use std::sync::Arc;

/// How integers stand for numbers: with one scale and zero point or one for each place of a dimension (`torch.qscheme`).
///
/// ```
/// use torch::ao::quantization::{ObserverClass, ObserverSpec, QScheme};
/// let spec = ObserverSpec::new(ObserverClass::MinMax).qscheme(QScheme::PerTensorSymmetric).dtype(torch::DType::QI8);
/// let observer = spec.build();
/// observer.observe(&torch::tensor([-1.0, 3.0]));
/// // zero stays in the middle
/// assert_eq!(observer.calculate_qparams().1.item::<i64>(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[doc(alias = "torch.qscheme")]
pub enum QScheme {
    /// `(q - zero_point) * scale`
    #[doc(alias = "torch.per_tensor_affine")]
    PerTensorAffine,
    /// The same with a scale and a zero point for each channel.
    #[doc(alias = "torch.per_channel_affine")]
    PerChannelAffine,
    /// Symmetric about zero; only observers know it, tensors are affine.
    #[doc(alias = "torch.per_tensor_symmetric")]
    PerTensorSymmetric,
    /// Symmetric about zero in each channel; only observers know it.
    #[doc(alias = "torch.per_channel_symmetric")]
    PerChannelSymmetric,
    /// A scale and a zero point, which need not be whole, for each channel: `(q - zero_point) * scale`.
    #[doc(alias = "torch.per_channel_affine_float_qparams")]
    PerChannelAffineFloatQParams,
}
/// All schemes.
pub const QSCHEMES: [QScheme; 5] = [
    QScheme::PerTensorAffine,
    QScheme::PerChannelAffine,
    QScheme::PerTensorSymmetric,
    QScheme::PerChannelSymmetric,
    QScheme::PerChannelAffineFloatQParams,
];
impl QScheme {
    /// Name as in `torch.per_tensor_affine`, without the module.
    pub const fn name(self) -> &'static str {
        match self {
            QScheme::PerTensorAffine => "per_tensor_affine",
            QScheme::PerChannelAffine => "per_channel_affine",
            QScheme::PerTensorSymmetric => "per_tensor_symmetric",
            QScheme::PerChannelSymmetric => "per_channel_symmetric",
            QScheme::PerChannelAffineFloatQParams => "per_channel_affine_float_qparams",
        }
    }
    /// The scheme of that name.
    pub fn from_name(name: &str) -> Option<QScheme> {
        QSCHEMES.into_iter().find(|s| s.name() == name)
    }
    /// One scale for the whole tensor.
    pub const fn is_per_tensor(self) -> bool {
        matches!(self, QScheme::PerTensorAffine | QScheme::PerTensorSymmetric)
    }
    /// Symmetric about zero.
    pub const fn is_symmetric(self) -> bool {
        matches!(self, QScheme::PerTensorSymmetric | QScheme::PerChannelSymmetric)
    }
}
impl fmt::Display for QScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torch.{}", self.name())
    }
}

/// The rule of a quantized tensor.
#[derive(Clone, Debug)]
pub enum Quantizer {
    /// One scale and zero point.
    PerTensor {
        /// The distance of neighbouring numbers.
        scale: f64,
        /// The integer that stands for zero.
        zero_point: i64,
    },
    /// One of each for every place of a dimension.
    PerChannel {
        /// float64, or float32 where zero points are floats: one number per channel.
        scales: Tensor,
        /// int64, or float32.
        zero_points: Tensor,
        /// The dimension. Views may leave it beyond the last one, as PyTorch's do.
        axis: i64,
    },
}
impl Quantizer {
    /// The scheme.
    pub fn scheme(&self) -> QScheme {
        match self {
            Quantizer::PerTensor { .. } => QScheme::PerTensorAffine,
            Quantizer::PerChannel { zero_points, .. } if zero_points.dtype().is_floating() => {
                QScheme::PerChannelAffineFloatQParams
            }
            Quantizer::PerChannel { .. } => QScheme::PerChannelAffine,
        }
    }
    /// The number that an integer stands for, in a tensor of one element.
    pub(crate) fn number(&self, integer: i64) -> Result<f64> {
        match self {
            Quantizer::PerTensor { scale, zero_point } => {
                Ok(f64::from((integer - zero_point) as f32 * *scale as f32))
            }
            Quantizer::PerChannel { .. } => {
                Err(Error::runtime("the one element of a tensor quantized by channels: dequantize it first"))
            }
        }
    }
    fn check(&self, dtype: DType) -> Result<()> {
        if let Quantizer::PerChannel { scales, zero_points, .. } = self {
            ensure!(scales.dim() == 1, Runtime, "scale tensor must have dimension 1");
            ensure!(zero_points.dim() == 1, Runtime, "zero_points tensor must have dimension 1");
            ensure!(
                scales.numel() == zero_points.numel(),
                Runtime,
                "number of elements in scales and zero_points must match"
            );
        } else if dtype.per_byte() > 1 {
            return Err(Error::missing(format!("{dtype} with one scale for the whole tensor")));
        }
        Ok(())
    }
}

/// What stands in the handle of a quantized tensor.
pub(crate) struct Quantized {
    pub(crate) memory: Memory,
    quantizer: RwLock<Arc<Quantizer>>,
}
/// Own memory, or that of the tensor that this one is a view of.
pub(crate) enum Memory {
    Storage(Storage),
    Base(Tensor),
}
impl Quantized {
    pub(crate) fn new(memory: Memory, quantizer: Arc<Quantizer>) -> Quantized {
        Quantized { memory, quantizer: RwLock::new(quantizer) }
    }
    pub(crate) fn quantizer(&self) -> Arc<Quantizer> {
        self.quantizer.read().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn replace(&self, new: Arc<Quantizer>) {
        let old = std::mem::replace(&mut *self.quantizer.write().unwrap_or_else(|e| e.into_inner()), new);
        // without the lock
        drop(old);
    }
}

fn bytes_of(numel: i64, dtype: DType) -> i64 {
    let per = dtype.per_byte() as i64;
    numel / per + i64::from(numel % per != 0)
}

impl Tensor {
    /// A quantized tensor over the memory of a tensor of integers, with its sizes and strides. Where several elements stand in
    /// a byte, the integers are the packed bytes, and `sizes` those of the tensor.
    ///
    /// # Errors
    /// A dtype that is not quantized, or has other integers; parameters that do not fit each other; too few bytes.
    pub(crate) fn from_integers(
        integers: &Tensor,
        sizes: &[i64],
        dtype: DType,
        quantizer: Arc<Quantizer>,
    ) -> Result<Tensor> {
        quantizer.check(dtype)?;
        ensure!(
            dtype.integers() == Some(integers.dtype())
                && integers.device() == Device::Cpu
                && !integers.is_neg(),
            Runtime,
            "a tensor of {} does not hold the integers of one of {dtype}",
            integers.dtype()
        );
        let memory = Memory::Storage(integers.storage().clone());
        let owner = Quantized::new(memory, quantizer);
        let offset = integers.storage_offset();
        if dtype.per_byte() == 1 {
            ensure!(integers.sizes() == sizes, Shape, "the integers of a quantized tensor have its sizes");
            return Ok(Tensor::quantized_raw(sizes, integers.strides(), offset, dtype, owner));
        }
        let numel = geometry::checked_numel(sizes)?;
        ensure!(
            integers.is_contiguous() && offset == 0 && integers.numel() >= bytes_of(numel, dtype),
            Shape,
            "{} elements of {dtype} do not lie in {} bytes",
            numel,
            integers.numel()
        );
        Ok(Tensor::quantized_raw(sizes, &geometry::contiguous_strides(sizes), 0, dtype, owner))
    }
    /// A fresh quantized tensor with any integers in it.
    ///
    /// # Errors
    /// As [`Tensor::from_integers`]; negative or absurd sizes, no memory.
    pub(crate) fn empty_quantized(
        sizes: &[i64],
        strides: Option<&[i64]>,
        dtype: DType,
        quantizer: Arc<Quantizer>,
    ) -> Result<Tensor> {
        let Some(whole) = dtype.integers() else {
            return Err(Error::runtime(
                "Creation of quantized tensor requires quantized dtype like torch.quint8",
            ));
        };
        let integers = match strides {
            _ if dtype.per_byte() > 1 => {
                Tensor::empty_raw(&[bytes_of(geometry::checked_numel(sizes)?, dtype)], whole, Device::Cpu)?
            }
            Some(s) => Tensor::empty_strided_raw(sizes, s, whole, Device::Cpu)?,
            None => Tensor::empty_raw(sizes, whole, Device::Cpu)?,
        };
        Tensor::from_integers(&integers, sizes, dtype, quantizer)
    }
    /// The rule, if the tensor is quantized.
    pub(crate) fn quantizer(&self) -> Option<Arc<Quantizer>> {
        self.quantized().map(Quantized::quantizer)
    }
    /// Puts another rule into a quantized tensor. Every handle sees it; views keep their own.
    ///
    /// # Errors
    /// Tensors that are not quantized, parameters that do not fit each other.
    pub(crate) fn set_quantizer(&self, new: Arc<Quantizer>) -> Result<()> {
        let Some(q) = self.quantized() else {
            return Err(Error::runtime("a tensor that is not quantized has no scale"));
        };
        new.check(self.dtype())?;
        q.replace(new);
        Ok(())
    }
    /// The memory of a quantized tensor as a plain tensor of its integers: the same sizes and strides, or, where several
    /// elements stand in a byte, the bytes in one dimension. What is written to it shows in the quantized tensor.
    ///
    /// # Errors
    /// Tensors that are not quantized.
    pub(crate) fn integers(&self) -> Result<Tensor> {
        let Some(whole) = self.dtype().integers().filter(|_| self.quantized().is_some()) else {
            return Err(Error::runtime("a tensor that is not quantized has no integers"));
        };
        let storage = self.storage();
        if self.dtype().per_byte() == 1 {
            return Tensor::from_storage(storage, self.sizes(), self.strides(), self.storage_offset(), whole);
        }
        Tensor::from_storage(storage, &[bytes_of(self.numel(), self.dtype())], &[1], 0, whole)
    }
}
