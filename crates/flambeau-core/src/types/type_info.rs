//! What the numbers of a dtype can be: `torch.finfo` and `torch.iinfo`.

use crate::DType;
use crate::ensure;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use std::fmt;

/// Limits of a floating dtype; of a complex one, those of its parts. See [`finfo`].
///
/// ```
/// use torch::FInfo;
/// let half: FInfo = torch::finfo(torch::float16);
/// assert_eq!((half.bits, half.max, half.eps), (16, 65504.0, 2f64.powi(-10)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FInfo {
    /// Bits of a number.
    #[doc(alias = "torch.finfo.bits")]
    pub bits: u32,
    /// The distance of 1 from the next larger number.
    #[doc(alias = "torch.finfo.eps")]
    pub eps: f64,
    /// The largest number.
    #[doc(alias = "torch.finfo.max")]
    pub max: f64,
    /// The smallest number, `-max`.
    #[doc(alias = "torch.finfo.min")]
    pub min: f64,
    /// The same as `smallest_normal`.
    #[doc(alias = "torch.finfo.tiny")]
    pub tiny: f64,
    /// The smallest positive normal number; subnormal ones are smaller.
    #[doc(alias = "torch.finfo.smallest_normal")]
    pub smallest_normal: f64,
    /// About the decimal resolution: a power of ten.
    #[doc(alias = "torch.finfo.resolution")]
    pub resolution: f64,
    /// The dtype of the numbers.
    pub dtype: DType,
}

/// Limits of an integer dtype. See [`iinfo`].
///
/// ```
/// use torch::IInfo;
/// let byte: IInfo = torch::iinfo(torch::uint8);
/// assert_eq!((byte.bits, byte.min, byte.max), (8, 0, 255));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IInfo {
    /// Bits of a number.
    #[doc(alias = "torch.iinfo.bits")]
    pub bits: u32,
    /// The largest number.
    #[doc(alias = "torch.iinfo.max")]
    pub max: i128,
    /// The smallest number.
    #[doc(alias = "torch.iinfo.min")]
    pub min: i128,
    /// The dtype.
    pub dtype: DType,
}

/// Limits of a floating or complex dtype.
///
/// # Errors
/// The dtype is neither.
#[doc(alias = "torch.finfo")]
pub fn finfo(dtype: DType) -> Result<FInfo> {
    let d = dtype.to_real();
    // bits, mantissa bits without the leading one, smallest and largest exponent, decimal digits
    let (bits, mantissa, low, high, digits): (u32, i32, i32, i32, i32) = match d {
        DType::F16 => (16, 10, -14, 15, 3),
        DType::BF16 => (16, 7, -126, 127, 2),
        DType::F32 => (32, 23, -126, 127, 6),
        DType::F64 => (64, 52, -1022, 1023, 15),
        DType::F8E4M3 => (8, 3, -6, 8, 0),
        DType::F8E5M2 => (8, 2, -14, 15, 0),
        _ => {
            return Err(Error::type_(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'",
            ));
        }
    };
    // a mantissa of ones; all ones with the highest exponent mean NaN in float8_e4m3fn
    let last = if d == DType::F8E4M3 { 2 } else { 1 };
    let max = (2.0 - f64::from(last) * 2f64.powi(-mantissa)) * 2f64.powi(high);
    let smallest = 2f64.powi(low);
    // PyTorch takes the parts of an f8 number for these
    let eps = 2f64.powi(-mantissa);
    let resolution = format!("1e-{digits}").parse().unwrap_or(1.0);
    Ok(FInfo { bits, eps, max, min: -max, tiny: smallest, smallest_normal: smallest, resolution, dtype: d })
}

/// Limits of an integer dtype.
///
/// # Errors
/// The dtype is not an integer, or quantized.
#[doc(alias = "torch.iinfo")]
pub fn iinfo(dtype: DType) -> Result<IInfo> {
    if dtype == DType::Bool {
        return Err(Error::type_("torch.bool is not supported by torch.iinfo"));
    }
    if dtype.is_quantized() {
        return Err(Error::unsupported(format!(
            "\"dtype\" not implemented for '{}'",
            dtype.scalar_type_name()
        )));
    }
    if !dtype.is_integral(false) {
        return Err(Error::type_(
            "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'",
        ));
    }
    let bits = dtype.size() as u32 * 8;
    let (min, max) = match !dtype.is_signed() {
        true => (0, (1i128 << bits) - 1),
        false => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    };
    Ok(IInfo { bits, max, min, dtype })
}

/// The type of dense tensors as C++ messages name it: by the class that Python had for it once, or by device and dtype.
pub fn cpp_type_name(d: DType) -> String {
    let name = d.scalar_type_name();
    match d {
        DType::F16 | DType::F32 | DType::F64 => format!("torch.{name}Tensor"),
        DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => format!("torch.{name}Tensor"),
        _ => format!("CPU{name}Type"),
    }
}
/// A number as C++ streams print it: six significant digits, no trailing zeros.
pub fn c_number(v: f64) -> String {
    if v.is_nan() {
        return if v.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if v == 0.0 {
        return if v.is_sign_negative() { "-0" } else { "0" }.into();
    }
    if v.is_infinite() {
        return v.to_string();
    }
    let sci = format!("{v:.5e}");
    let (digits, exponent) = sci.split_once('e').unwrap_or((&sci, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{v:.*}", (5 - exponent).max(0) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:0>2}", trim(digits), exponent.abs())
}

impl fmt::Display for FInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let g = c_number;
        write!(
            f,
            "finfo(resolution={}, min={}, max={}, eps={}, smallest_normal={}, tiny={}, dtype={})",
            g(self.resolution),
            g(self.min),
            g(self.max),
            g(self.eps),
            g(self.smallest_normal),
            g(self.tiny),
            self.dtype.name()
        )
    }
}
impl fmt::Display for IInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let g = |v: i128| c_number(v as f64);
        write!(f, "iinfo(min={}, max={}, dtype={})", g(self.min), g(self.max), self.dtype.name())
    }
}

/// Bounds as the dtype holds them: one that no number of it passes is the dtype's own, and one beyond which all lie is an
/// error.
///
/// # Errors
/// Such a bound, and one that a float dtype cannot hold.
pub fn bounds_within(
    d: DType,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<(Option<Scalar>, Option<Scalar>)> {
    if d.is_floating() {
        for b in [min, max].into_iter().flatten() {
            b.check_fits(d)?;
        }
    }
    let Ok(range) = iinfo(d) else { return Ok((min, max)) };
    let within = |b: Option<Scalar>, name: &str, beyond: fn(i128, i128, i128) -> bool| {
        let Some(Scalar::Int(b)) = b else { return Ok(b) };
        ensure!(
            !beyond(i128::from(b), range.min, range.max),
            Runtime,
            "Clamp {name} value {} is outside the representable range of {}",
            c_number(b as f64),
            d.scalar_type_name()
        );
        let b = i128::from(b).clamp(range.min, range.max);
        Ok(Some(Scalar::Int(i64::try_from(b).unwrap_or(i64::MAX))))
    };
    Ok((within(min, "min", |b, _, high| b > high)?, within(max, "max", |b, low, _| b < low)?))
}

/// The old name of tensors of a dtype: `torch.FloatTensor`.
pub fn tensor_type_name(d: DType) -> Option<&'static str> {
    Some(match d {
        DType::F32 => "torch.FloatTensor",
        DType::F64 => "torch.DoubleTensor",
        DType::F16 => "torch.HalfTensor",
        DType::BF16 => "torch.BFloat16Tensor",
        DType::U8 => "torch.ByteTensor",
        DType::I8 => "torch.CharTensor",
        DType::I16 => "torch.ShortTensor",
        DType::I32 => "torch.IntTensor",
        DType::I64 => "torch.LongTensor",
        DType::Bool => "torch.BoolTensor",
        DType::C64 => "torch.ComplexFloatTensor",
        DType::C128 => "torch.ComplexDoubleTensor",
        DType::QU8 => "torch.quantized.QUInt8Tensor",
        DType::QI8 => "torch.quantized.QInt8Tensor",
        DType::QI32 => "torch.quantized.QInt32Tensor",
        DType::QU4X2 => "torch.quantized.QUInt4x2Tensor",
        DType::QU2X4 => "torch.quantized.QUInt2x4Tensor",
        _ => return None,
    })
}
