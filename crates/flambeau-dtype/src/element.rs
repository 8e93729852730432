//! The Rust types that tensors hold.

use crate::DType;
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
    /// A byte of two quantized 4-bit integers.
    QU4X2(u8),
    /// A byte of four quantized 2-bit integers.
    QU2X4(u8),
}

mod sealed {
    /// Kernels take memory for a slice of `T` because the dtype says so: only the types below, whose sizes are checked where
    /// they are listed, may say it.
    pub trait Sealed {}
}

/// A Rust type that tensors hold. Every bit pattern is a valid value. The types are those of the dtypes, one each; no other
/// crate can add one:
///
/// ```compile_fail
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Tiny(u8);
/// impl flambeau_dtype::Element for Tiny {
///     const DTYPE: flambeau_dtype::DType = flambeau_dtype::DType::F64;
/// }
/// ```
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + std::fmt::Debug + PartialEq {
    /// The tag of this type.
    const DTYPE: DType;
}
macro_rules! element {
    ($($t:ty => $d:ident),* $(,)?) => {$(
        const _: () = assert!(size_of::<$t>() == DType::$d.size(), "an element is as large as its dtype says");
        impl sealed::Sealed for $t {}
        impl Element for $t { const DTYPE: DType = DType::$d; }
    )*};
}
element! {
    u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64,
    Complex<f16> => C32, Complex<bf16> => BC32, Complex<f32> => C64, Complex<f64> => C128, B8 => Bool,
    F8E4M3 => F8E4M3, F8E5M2 => F8E5M2, QI8 => QI8, QU8 => QU8, QI32 => QI32,
    QU4X2 => QU4X2, QU2X4 => QU2X4,
}
