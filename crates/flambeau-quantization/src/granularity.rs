//! Over which parts of a tensor numbers share a scale, and words for schemes of quantization.

use flambeau_core::{DType, Result, Tensor, ensure};

/// How floating numbers go to integers.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.MappingType")]
pub enum MappingType {
    /// Zero at the middle: `scale = max(|min|, |max|) / ((quant_max - quant_min) / 2)`.
    SYMMETRIC,
    /// The same with the larger of the scales that either side needs, so that nothing is cut.
    SYMMETRIC_NO_CLIPPING_ERR,
    /// The range from the least to the greatest number, with a zero point.
    ASYMMETRIC,
}
/// What a zero point is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.ZeroPointDomain")]
pub enum ZeroPointDomain {
    /// There is none.
    NONE,
    /// The quantized integers.
    INT,
    /// The floating numbers.
    FLOAT,
}
/// Widths of integers below a byte.
///
/// ```
/// use torch::ao::quantization::TorchAODType;
/// assert_eq!((TorchAODType::INT1.bounds(), TorchAODType::INT4.bounds()), ((-1, 0), (-8, 7)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.TorchAODType")]
pub enum TorchAODType {
    /// 1 bit.
    INT1,
    /// 2 bits.
    INT2,
    /// 3 bits.
    INT3,
    /// 4 bits.
    INT4,
    /// 5 bits.
    INT5,
    /// 6 bits.
    INT6,
    /// 7 bits.
    INT7,
}
impl TorchAODType {
    /// The least and the greatest integer.
    pub const fn bounds(self) -> (i64, i64) {
        let half = 1i64 << (self as u32);
        (-half, half - 1)
    }
}
/// When a model's numbers become integers.
///
/// ```
/// use torch::ao::quantization::{QuantType, quant_type_to_str};
/// assert_eq!([QuantType::DYNAMIC, QuantType::QAT].map(quant_type_to_str), ["dynamic", "qat"]);
/// ```
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.QuantType")]
pub enum QuantType {
    /// Inputs at every call.
    DYNAMIC,
    /// By what observers saw.
    STATIC,
    /// After training with rounding.
    QAT,
    /// Weights alone.
    WEIGHT_ONLY,
}
/// The word of a kind: `dynamic`, `static`, `qat`, `weight_only`.
pub fn quant_type_to_str(t: QuantType) -> &'static str {
    match t {
        QuantType::DYNAMIC => "dynamic",
        QuantType::STATIC => "static",
        QuantType::QAT => "qat",
        QuantType::WEIGHT_ONLY => "weight_only",
    }
}

/// Over which blocks of a tensor numbers share a scale. A program's own kinds implement it too.
///
/// ```
/// use torch::ao::quantization::{Granularity, PerAxis, PerBlock, PerGroup, PerRow, PerTensor, PerToken};
/// let kinds: [&dyn Granularity; 6] = [
///     &PerTensor,
///     &PerAxis { axis: 0 },
///     &PerGroup { group_size: 2 },
///     &PerRow,
///     &PerToken,
///     &PerBlock { block_size: vec![2, 3] },
/// ];
/// let blocks: Vec<Vec<i64>> = kinds.iter().map(|g| g.block_size(&[4, 6]).unwrap()).collect();
/// assert_eq!(blocks, [[4, 6], [1, 6], [1, 2], [1, 6], [1, 6], [2, 3]]);
/// ```
#[doc(alias = "torch.ao.quantization.Granularity")]
pub trait Granularity {
    /// The sizes of a block of a tensor with these sizes.
    ///
    /// # Errors
    /// Sizes that the kind does not take.
    fn block_size(&self, input_shape: &[i64]) -> Result<Vec<i64>>;
}
/// All numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.PerTensor")]
pub struct PerTensor;
/// The numbers at each place of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.PerAxis")]
pub struct PerAxis {
    /// The dimension.
    pub axis: i64,
}
/// So many numbers that follow each other in a row of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.PerGroup")]
pub struct PerGroup {
    /// How many.
    pub group_size: i64,
}
/// Each row: all of the last dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.PerRow")]
pub struct PerRow;
/// Each token: all of the last dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.PerToken")]
pub struct PerToken;
/// Blocks of these sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "torch.ao.quantization.PerBlock")]
pub struct PerBlock {
    /// Sizes of a block, one for each dimension.
    pub block_size: Vec<i64>,
}
impl Granularity for PerTensor {
    fn block_size(&self, input_shape: &[i64]) -> Result<Vec<i64>> {
        Ok(input_shape.to_vec())
    }
}
impl Granularity for PerAxis {
    fn block_size(&self, input_shape: &[i64]) -> Result<Vec<i64>> {
        let n = input_shape.len() as i64;
        let at = if self.axis < 0 { self.axis + n } else { self.axis };
        ensure!((0..n).contains(&at), Index, "list assignment index out of range");
        let mut all = input_shape.to_vec();
        all[at as usize] = 1;
        Ok(all)
    }
}
impl Granularity for PerGroup {
    fn block_size(&self, input_shape: &[i64]) -> Result<Vec<i64>> {
        ensure!(
            input_shape.len() == 2,
            Assertion,
            "Expecting input shape dim to be 2 for per group quantization, gotinput shape: {}",
            flambeau_core::text::PyText::py_text(&input_shape.to_vec())
        );
        Ok(vec![1, self.group_size])
    }
}
fn rows(input_shape: &[i64]) -> Result<Vec<i64>> {
    let last = input_shape.last().copied();
    ensure!(last.is_some(), Index, "tuple index out of range");
    let mut all = vec![1; input_shape.len()];
    if let (Some(end), Some(n)) = (all.last_mut(), last) {
        *end = n;
    }
    Ok(all)
}
impl Granularity for PerRow {
    fn block_size(&self, input_shape: &[i64]) -> Result<Vec<i64>> {
        rows(input_shape)
    }
}
impl Granularity for PerToken {
    fn block_size(&self, input_shape: &[i64]) -> Result<Vec<i64>> {
        rows(input_shape)
    }
}
impl Granularity for PerBlock {
    fn block_size(&self, input_shape: &[i64]) -> Result<Vec<i64>> {
        ensure!(
            input_shape.len() == self.block_size.len(),
            Value,
            "a block of {} dimensions in a tensor of {}",
            self.block_size.len(),
            input_shape.len()
        );
        Ok(self.block_size.clone())
    }
}
/// The sizes of the blocks of a tensor that share a scale.
///
/// ```
/// use torch::ao::quantization::{PerAxis, PerGroup, get_block_size};
/// assert_eq!(get_block_size(&[4, 6], &PerAxis { axis: 0 }), [1, 6]);
/// assert_eq!(get_block_size(&[4, 6], &PerGroup { group_size: 3 }), [1, 3]);
/// ```
///
/// # Errors
/// Sizes that the granularity does not take.
#[doc(alias = "torch.ao.quantization.get_block_size")]
#[flambeau_macros::short]
pub fn try_get_block_size(input_shape: &[i64], granularity: &dyn Granularity) -> Result<Vec<i64>> {
    granularity.block_size(input_shape)
}

/// What an observer of affine quantization with blocks has: a program's own observers implement it.
///
/// ```
/// use torch::ao::quantization::{AffineQuantizedObserverBase, Granularity, MappingType, PerRow, ZeroPointDomain};
/// use torch::{DType, Result, Tensor};
///
/// /// Looks at nothing: rows have a scale of 1.
/// struct Fixed;
/// impl AffineQuantizedObserverBase for Fixed {
///     fn mapping_type(&self) -> MappingType { MappingType::SYMMETRIC }
///     fn target_dtype(&self) -> DType { torch::int8 }
///     fn granularity(&self) -> &dyn Granularity { &PerRow }
///     fn try_forward(&self, x: &Tensor) -> Result<Tensor> { Ok(x.clone()) }
///     fn try_calculate_qparams(&self) -> Result<(Tensor, Tensor)> { Ok((torch::ones([1]), torch::zeros([1]))) }
/// }
/// assert_eq!(Fixed.try_block_size(&[4, 6])?, [1, 6]);
/// assert_eq!((Fixed.zero_point_domain(), Fixed.preserve_zero()), (ZeroPointDomain::INT, true));
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.ao.quantization.AffineQuantizedObserverBase")]
pub trait AffineQuantizedObserverBase {
    /// How floating numbers go to integers.
    fn mapping_type(&self) -> MappingType;
    /// The dtype of the integers.
    fn target_dtype(&self) -> DType;
    /// What shares a scale.
    fn granularity(&self) -> &dyn Granularity;
    /// The least and the greatest integer, if not the dtype's.
    fn quant_range(&self) -> Option<(i64, i64)> {
        None
    }
    /// The least scale.
    fn eps(&self) -> f64 {
        f64::from(f32::EPSILON)
    }
    /// What zero points are counted in.
    fn zero_point_domain(&self) -> ZeroPointDomain {
        ZeroPointDomain::INT
    }
    /// Whether zero has an integer of its own.
    fn preserve_zero(&self) -> bool {
        true
    }
    /// Looks at a tensor, and gives what goes on.
    ///
    /// # Errors
    /// Tensors that it does not take.
    fn try_forward(&self, x: &Tensor) -> Result<Tensor>;
    /// Scales and zero points of what was seen.
    ///
    /// # Errors
    /// Nothing was seen.
    fn try_calculate_qparams(&self) -> Result<(Tensor, Tensor)>;
    /// The sizes of the blocks of a tensor that share a scale.
    ///
    /// # Errors
    /// Those of the granularity.
    fn try_block_size(&self, input_shape: &[i64]) -> Result<Vec<i64>> {
        self.granularity().block_size(input_shape)
    }
}
