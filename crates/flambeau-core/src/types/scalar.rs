//! A number of any kind, as Python's `Number`.

use crate::DType;
use crate::types::error::{Error, Result};
use half::{bf16, f16};
use num_complex::Complex;

/// A bool, integer, float or complex number.
///
/// ```
/// use torch::Scalar;
/// let all = [Scalar::from(true), 3.into(), 1.5.into()];
/// assert_eq!(all.map(Scalar::to_f64), [1.0, 3.0, 1.5]);
/// assert_eq!((all[1].dtype(), all[2].dtype()), (torch::int64, torch::float64));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// bool
    Bool(bool),
    /// int
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// float
    Float(f64),
    /// complex
    Complex(Complex<f64>),
}

impl Scalar {
    /// The dtype that a Python number of this kind has on its own.
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::UInt(_) => DType::U64,
            Scalar::Float(_) => DType::F64,
            Scalar::Complex(_) => DType::C128,
        }
    }
    /// As a float; a complex number gives its real part.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::UInt(u) => u as f64,
            Scalar::Float(f) => f,
            Scalar::Complex(c) => c.re,
        }
    }
    /// As an integer: floats truncate towards zero, and saturate.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::UInt(u) => u as i64,
            Scalar::Float(f) => f as i64,
            Scalar::Complex(c) => c.re as i64,
        }
    }
    /// As a truth value: anything but zero.
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::UInt(u) => u != 0,
            Scalar::Float(f) => f != 0.0,
            Scalar::Complex(c) => c.re != 0.0 || c.im != 0.0,
        }
    }
    /// As a complex number.
    pub fn to_complex(self) -> Complex<f64> {
        match self {
            Scalar::Complex(c) => c,
            other => Complex::new(other.to_f64(), 0.0),
        }
    }
    /// The complex conjugate.
    pub fn conj(self) -> Scalar {
        match self {
            Scalar::Complex(c) => Scalar::Complex(c.conj()),
            other => other,
        }
    }
    /// A complex number.
    pub fn is_complex(self) -> bool {
        matches!(self, Scalar::Complex(_))
    }
    /// A float (not complex).
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::Float(_))
    }
    /// An integer; a bool only with `include_bool`.
    pub fn is_integral(self, include_bool: bool) -> bool {
        matches!(self, Scalar::Int(_) | Scalar::UInt(_)) || (include_bool && matches!(self, Scalar::Bool(_)))
    }
    /// Equal to the given float.
    pub fn equals(self, v: f64) -> bool {
        match self {
            Scalar::Complex(c) => c.re == v && c.im == 0.0,
            other => other.to_f64() == v,
        }
    }
    /// Whether an element of a dtype can hold the number. Negative integers wrap around in unsigned ones, as in C; infinities and
    /// NaN are numbers of floating dtypes.
    fn fits(self, d: DType) -> bool {
        let float = |f: f64, most: f64| !f.is_finite() || f.abs() <= most;
        let most = |d: DType| match d {
            DType::F16 => 65504.0,
            DType::BF16 => 3.389_531_389_251_535_5e38,
            DType::F32 => f64::from(f32::MAX),
            DType::F8E4M3 => 448.0,
            DType::F8E5M2 => 57344.0,
            _ => f64::INFINITY,
        };
        let (low, high): (i128, i128) = match d {
            DType::U8 => (0, u8::MAX.into()),
            DType::U16 => (0, u16::MAX.into()),
            DType::U32 => (0, u32::MAX.into()),
            DType::U64 => (0, u64::MAX.into()),
            DType::I8 => (i8::MIN.into(), i8::MAX.into()),
            DType::I16 => (i16::MIN.into(), i16::MAX.into()),
            DType::I32 => (i32::MIN.into(), i32::MAX.into()),
            DType::I64 => (i64::MIN.into(), i64::MAX.into()),
            DType::Bool => return true,
            _ if d.is_complex() => {
                let (c, most) = (self.to_complex(), most(d.to_real()));
                return float(c.re, most) && float(c.im, most);
            }
            _ if d.is_floating() => {
                let c = self.to_complex();
                return c.im == 0.0 && float(c.re, most(d));
            }
            // quantized
            _ => return true,
        };
        let whole = |i: i128| i <= high && (i >= low || (low == 0 && -i <= high));
        match self {
            Scalar::Bool(_) => true,
            Scalar::Int(i) => whole(i.into()),
            Scalar::UInt(u) => whole(u.into()),
            Scalar::Float(f) => f >= low as f64 && f <= high as f64,
            Scalar::Complex(c) => c.im == 0.0 && c.re >= low as f64 && c.re <= high as f64,
        }
    }
    /// Refuses what no element of a dtype can hold: PyTorch's check of numbers that become elements.
    ///
    /// # Errors
    /// A number out of range; a complex number with an imaginary part for real elements.
    #[inline]
    pub(crate) fn check_fits(self, d: DType) -> Result<()> {
        if self.fits(d) { Ok(()) } else { Err(too_large(d)) }
    }
    /// All readings of the number, for kernels.
    pub fn param(self) -> flambeau_cpu::pointwise::Param {
        let c = self.to_complex();
        flambeau_cpu::pointwise::Param { re: c.re, im: c.im, int: self.to_i64() }
    }
}

/// What PyTorch says of a number that no element of a dtype can hold.
#[cold]
pub(crate) fn too_large(d: DType) -> Error {
    let name = match d {
        DType::U8 => "uint8_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I64 => "int64_t",
        other => other.c_name(),
    };
    Error::runtime(format!("value cannot be converted to type {name} without overflow"))
}

macro_rules! from {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl From<$t> for Scalar {
            fn from($v: $t) -> Scalar {
                $e
            }
        }
    )*};
}
from! {
    bool => |v| Scalar::Bool(v),
    i8 => |v| Scalar::Int(v as i64), i16 => |v| Scalar::Int(v as i64), i32 => |v| Scalar::Int(v as i64),
    i64 => |v| Scalar::Int(v), u8 => |v| Scalar::Int(v as i64), u16 => |v| Scalar::Int(v as i64),
    u32 => |v| Scalar::Int(v as i64), isize => |v| Scalar::Int(v as i64),
    u64 => |v| if v <= i64::MAX as u64 { Scalar::Int(v as i64) } else { Scalar::UInt(v) },
    usize => |v| Scalar::from(v as u64),
    f32 => |v| Scalar::Float(v as f64), f64 => |v| Scalar::Float(v),
    f16 => |v| Scalar::Float(v.to_f64()), bf16 => |v| Scalar::Float(v.to_f64()),
    Complex<f32> => |v| Scalar::Complex(Complex::new(v.re as f64, v.im as f64)),
    Complex<f64> => |v| Scalar::Complex(v),
}

impl std::ops::Neg for Scalar {
    type Output = Scalar;
    /// A bool counts as an integer. Integers wrap, as elements do; above `i64::MAX` they become floats.
    fn neg(self) -> Scalar {
        match self {
            Scalar::Bool(b) => Scalar::Int(-(b as i64)),
            Scalar::Int(i) => Scalar::Int(i.wrapping_neg()),
            Scalar::UInt(u) => Scalar::Float(-(u as f64)),
            Scalar::Float(f) => Scalar::Float(-f),
            Scalar::Complex(c) => Scalar::Complex(-c),
        }
    }
}
