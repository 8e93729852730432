//! Element types and the run-time [`DType`] tag.

use half::{bf16, f16};
use num_complex::Complex;

/// A boolean element: any non-zero byte is true. `bool` itself is not used for tensor memory, because a
/// reinterpreting view may put any byte there and Rust's `bool` allows only 0 and 1.
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct B8(pub u8);

impl B8 {
    /// The truth value of the byte.
    #[inline(always)]
    pub fn get(self) -> bool {
        self.0 != 0
    }
}
impl From<bool> for B8 {
    #[inline(always)]
    fn from(v: bool) -> Self {
        B8(v as u8)
    }
}
impl PartialEq for B8 {
    fn eq(&self, o: &Self) -> bool {
        self.get() == o.get()
    }
}
impl std::fmt::Debug for B8 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

macro_rules! storage_only {
    ($($(#[$doc:meta])* $name:ident($int:ty)),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub $int);
    )*};
}
storage_only! {
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinities (OCP OFP8 E4M3FN).
    F8E4M3(u8),
    /// 8-bit float, 5 exponent and 2 mantissa bits (OCP OFP8 E5M2).
    F8E5M2(u8),
    /// Quantized signed byte.
    QI8(i8),
    /// Quantized unsigned byte.
    QU8(u8),
    /// Quantized 32-bit integer.
    QI32(i32),
}

/// The element type of a tensor, as in `torch.dtype`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    U8,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
    C32,
    C64,
    C128,
    Bool,
    BF16,
    QI8,
    QU8,
    QI32,
    F8E4M3,
    F8E5M2,
    U16,
    U32,
    U64,
    BC32,
}

/// All dtypes, in declaration order.
pub const ALL_DTYPES: [DType; 22] = {
    use DType::*;
    [
        U8, I8, I16, I32, I64, F16, F32, F64, C32, C64, C128, Bool, BF16, QI8, QU8, QI32, F8E4M3, F8E5M2,
        U16, U32, U64, BC32,
    ]
};

impl DType {
    /// Size of one element in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        use DType::*;
        match self {
            U8 | I8 | Bool | QI8 | QU8 | F8E4M3 | F8E5M2 => 1,
            I16 | F16 | BF16 | U16 => 2,
            I32 | F32 | QI32 | C32 | BC32 | U32 => 4,
            I64 | F64 | C64 | U64 => 8,
            C128 => 16,
        }
    }
    /// Name as in `torch.float32`, without the module.
    pub const fn name(self) -> &'static str {
        use DType::*;
        match self {
            U8 => "uint8",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            F16 => "float16",
            F32 => "float32",
            F64 => "float64",
            C32 => "complex32",
            C64 => "complex64",
            C128 => "complex128",
            Bool => "bool",
            BF16 => "bfloat16",
            QI8 => "qint8",
            QU8 => "quint8",
            QI32 => "qint32",
            F8E4M3 => "float8_e4m3fn",
            F8E5M2 => "float8_e5m2",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            BC32 => "bcomplex32",
        }
    }
    /// Name that PyTorch's kernels use in error texts ("Float", "ComplexDouble", ...).
    pub const fn scalar_type_name(self) -> &'static str {
        use DType::*;
        match self {
            U8 => "Byte",
            I8 => "Char",
            I16 => "Short",
            I32 => "Int",
            I64 => "Long",
            F16 => "Half",
            F32 => "Float",
            F64 => "Double",
            C32 => "ComplexHalf",
            C64 => "ComplexFloat",
            C128 => "ComplexDouble",
            Bool => "Bool",
            BF16 => "BFloat16",
            QI8 => "QInt8",
            QU8 => "QUInt8",
            QI32 => "QInt32",
            F8E4M3 => "Float8_e4m3fn",
            F8E5M2 => "Float8_e5m2",
            U16 => "UInt16",
            U32 => "UInt32",
            U64 => "UInt64",
            BC32 => "BComplex32",
        }
    }
    /// The C++ name, as some of PyTorch's error texts have it.
    pub const fn c_name(self) -> &'static str {
        use DType::*;
        match self {
            U8 => "unsigned char",
            I8 => "signed char",
            I16 => "short int",
            I32 => "int",
            I64 => "long int",
            U16 => "short unsigned int",
            U32 => "unsigned int",
            U64 => "long unsigned int",
            F16 => "c10::Half",
            BF16 => "c10::BFloat16",
            F32 => "float",
            F64 => "double",
            C32 => "c10::complex<c10::Half>",
            BC32 => "c10::complex<c10::BFloat16>",
            C64 => "c10::complex<float>",
            C128 => "c10::complex<double>",
            Bool => "bool",
            QI8 => "c10::qint8",
            QU8 => "c10::quint8",
            QI32 => "c10::qint32",
            F8E4M3 => "c10::Float8_e4m3fn",
            F8E5M2 => "c10::Float8_e5m2",
        }
    }
    /// The dtype of that name (`float32` and its alias `float`, ...).
    pub fn from_name(name: &str) -> Option<DType> {
        let name = match name {
            "float" => "float32",
            "double" => "float64",
            "half" => "float16",
            "int" => "int32",
            "long" => "int64",
            "short" => "int16",
            "cfloat" => "complex64",
            "cdouble" => "complex128",
            "chalf" => "complex32",
            other => other,
        };
        ALL_DTYPES.into_iter().find(|d| d.name() == name)
    }
    /// Floating point and not complex (float8 included).
    pub const fn is_floating(self) -> bool {
        use DType::*;
        matches!(self, F16 | F32 | F64 | BF16 | F8E4M3 | F8E5M2)
    }
    /// One of the complex dtypes.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C32 | DType::BC32 | DType::C64 | DType::C128)
    }
    /// An integer type; `bool` counts only with `include_bool`.
    pub const fn is_integral(self, include_bool: bool) -> bool {
        use DType::*;
        matches!(self, U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64) || (include_bool && matches!(self, Bool))
    }
    /// An unsigned integer of more than a byte: many of PyTorch's operators have no loop for these.
    pub const fn is_wide_unsigned(self) -> bool {
        matches!(self, DType::U16 | DType::U32 | DType::U64)
    }
    /// One of the quantized storage types.
    pub const fn is_quantized(self) -> bool {
        matches!(self, DType::QI8 | DType::QU8 | DType::QI32)
    }
    /// Values can be negative (`torch.dtype.is_signed`).
    pub const fn is_signed(self) -> bool {
        use DType::*;
        !matches!(self, U8 | U16 | U32 | U64 | Bool | QU8)
    }
    /// The real dtype of a complex one's parts; any other dtype is itself.
    pub const fn to_real(self) -> DType {
        match self {
            DType::C32 => DType::F16,
            DType::BC32 => DType::BF16,
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }
    /// The complex dtype with these parts; complex64 for dtypes that are no parts of one.
    pub const fn to_complex(self) -> DType {
        match self.complex() {
            Some(d) => d,
            None => DType::C64,
        }
    }
    /// The complex dtype with these parts, if there is one; complex dtypes are their own.
    pub const fn complex(self) -> Option<DType> {
        Some(match self {
            DType::F16 => DType::C32,
            DType::BF16 => DType::BC32,
            DType::F32 => DType::C64,
            DType::F64 => DType::C128,
            d if d.is_complex() => d,
            _ => return None,
        })
    }
}
impl std::fmt::Debug for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "torch.{}", self.name())
    }
}
impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// A Rust type that tensors hold. Every bit pattern is a valid value.
pub trait Element: bytemuck::Pod + Send + Sync + std::fmt::Debug + PartialEq {
    /// The tag of this type.
    const DTYPE: DType;
}
macro_rules! element {
    ($($t:ty => $d:ident),* $(,)?) => {$(impl Element for $t { const DTYPE: DType = DType::$d; })*};
}
element! {
    u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64,
    Complex<f16> => C32, Complex<bf16> => BC32, Complex<f32> => C64, Complex<f64> => C128, B8 => Bool,
    F8E4M3 => F8E4M3, F8E5M2 => F8E5M2, QI8 => QI8, QU8 => QU8, QI32 => QI32,
}

/// Binds `$T` to the Rust type of a [`DType`] inside a body: `with_dtype!(dtype, T in [FLOAT, HALF] => body, else other)`.
///
/// Sets: `BOOL INT UINT HALF FLOAT COMPLEX C32 BC32 FP8 QUANT`, where `INT` is u8 i8 i16 i32 i64, `UINT` u16 u32 u64,
/// `HALF` f16 bf16, `FLOAT` f32 f64, `COMPLEX` complex64 and complex128; `BYTE WORD LONG` are u8, i32, i64 alone. Keep the body small: it is compiled once per type.
#[macro_export]
macro_rules! with_dtype {
    ($d:expr, $T:ident in [$($set:ident),+ $(,)?] => $body:expr, else $other:expr) => {
        $crate::with_dtype!(@munch $d, $T, $body, $other, [$($set)+] ())
    };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [BOOL $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (Bool, $crate::B8))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [INT $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (U8, u8) (I8, i8) (I16, i16) (I32, i32) (I64, i64))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [BYTE $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (U8, u8))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [WORD $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (I32, i32))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [LONG $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (I64, i64))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [UINT $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (U16, u16) (U32, u32) (U64, u64))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [HALF $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (F16, $crate::dtype::f16_) (BF16, $crate::dtype::bf16_))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [FLOAT $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (F32, f32) (F64, f64))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [COMPLEX $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (C64, $crate::dtype::c64_) (C128, $crate::dtype::c128_))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [C32 $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (C32, $crate::dtype::c32_))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [BC32 $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (BC32, $crate::dtype::bc32_))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [FP8 $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (F8E4M3, $crate::dtype::F8E4M3) (F8E5M2, $crate::dtype::F8E5M2))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [QUANT $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (QI8, $crate::dtype::QI8) (QU8, $crate::dtype::QU8) (QI32, $crate::dtype::QI32))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [] ($(($v:ident, $t:ty))*)) => {
        match $d {
            $($crate::DType::$v => { type $T = $t; $b })*
            #[allow(unreachable_patterns)]
            _ => $o,
        }
    };
}

#[doc(hidden)]
#[allow(non_camel_case_types)]
pub type f16_ = f16;
#[doc(hidden)]
#[allow(non_camel_case_types)]
pub type bf16_ = bf16;
#[doc(hidden)]
#[allow(non_camel_case_types)]
pub type c32_ = Complex<f16>;
#[doc(hidden)]
#[allow(non_camel_case_types)]
pub type bc32_ = Complex<bf16>;
#[doc(hidden)]
#[allow(non_camel_case_types)]
pub type c64_ = Complex<f32>;
#[doc(hidden)]
#[allow(non_camel_case_types)]
pub type c128_ = Complex<f64>;
