//! From a [`DType`](crate::DType) to its Rust type.

use half::{bf16, f16};
use num_complex::Complex;

/// Binds `$T` to the Rust type of a [`DType`](crate::DType) inside a body: `with_dtype!(dtype, T in [FLOAT, HALF] => body, else other)`.
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
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (F16, $crate::f16_) (BF16, $crate::bf16_))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [FLOAT $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (F32, f32) (F64, f64))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [COMPLEX $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (C64, $crate::c64_) (C128, $crate::c128_))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [C32 $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (C32, $crate::c32_))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [BC32 $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (BC32, $crate::bc32_))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [FP8 $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (F8E4M3, $crate::F8E4M3) (F8E5M2, $crate::F8E5M2))) };
    (@munch $d:expr, $T:ident, $b:expr, $o:expr, [QUANT $($r:ident)*] ($($acc:tt)*)) => {
        $crate::with_dtype!(@munch $d, $T, $b, $o, [$($r)*] ($($acc)* (QI8, $crate::QI8) (QU8, $crate::QU8) (QI32, $crate::QI32) (QU4X2, $crate::QU4X2) (QU2X4, $crate::QU2X4))) };
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
