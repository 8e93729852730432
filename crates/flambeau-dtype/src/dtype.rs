//! The run-time tag of an element type.

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
    /// Two quantized unsigned 4-bit integers in a byte, the first in its low half.
    QU4X2,
    /// Four quantized unsigned 2-bit integers in a byte, the first in its lowest bits.
    QU2X4,
}

/// All dtypes, in declaration order.
pub const ALL_DTYPES: [DType; 24] = {
    use DType::*;
    [
        U8, I8, I16, I32, I64, F16, F32, F64, C32, C64, C128, Bool, BF16, QI8, QU8, QI32, F8E4M3, F8E5M2,
        U16, U32, U64, BC32, QU4X2, QU2X4,
    ]
};

impl DType {
    /// Size of one element in bytes; of the byte, where several elements stand in one.
    #[inline]
    pub const fn size(self) -> usize {
        use DType::*;
        match self {
            U8 | I8 | Bool | QI8 | QU8 | F8E4M3 | F8E5M2 | QU4X2 | QU2X4 => 1,
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
            QU4X2 => "quint4x2",
            QU2X4 => "quint2x4",
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
            QU4X2 => "QUInt4x2",
            QU2X4 => "QUInt2x4",
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
            QU4X2 => "c10::quint4x2",
            QU2X4 => "c10::quint2x4",
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
        matches!(self, DType::QI8 | DType::QU8 | DType::QI32 | DType::QU4X2 | DType::QU2X4)
    }
    /// How many elements stand in a byte of a dtype whose elements are less than one; 1 for all others.
    pub const fn per_byte(self) -> usize {
        match self {
            DType::QU4X2 => 2,
            DType::QU2X4 => 4,
            _ => 1,
        }
    }
    /// The dtype of a quantized one's integers: bytes where several stand in one.
    pub const fn integers(self) -> Option<DType> {
        Some(match self {
            DType::QU8 | DType::QU4X2 | DType::QU2X4 => DType::U8,
            DType::QI8 => DType::I8,
            DType::QI32 => DType::I32,
            _ => return None,
        })
    }
    /// The least and the greatest integer that an element of a quantized dtype holds.
    pub const fn quantized_range(self) -> Option<(i64, i64)> {
        Some(match self {
            DType::QU8 => (0, 255),
            DType::QI8 => (-128, 127),
            DType::QI32 => (i32::MIN as i64, i32::MAX as i64),
            DType::QU4X2 => (0, 15),
            DType::QU2X4 => (0, 3),
            _ => return None,
        })
    }
    /// Values can be negative (`torch.dtype.is_signed`).
    pub const fn is_signed(self) -> bool {
        use DType::*;
        !matches!(self, U8 | U16 | U32 | U64 | Bool | QU8 | QU4X2 | QU2X4)
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
