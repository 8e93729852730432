//! Loops that convert a run from one dtype to another. Hot pairs have kernels of their own; the others go up to the widest
//! value of their kind by blocks, and down from there.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use num_complex::Complex;

use crate::DType;
use crate::num::float8::{f32_to_e4m3, f32_to_e5m2};
use crate::num::half::{
    f32_to_bf16, f32_to_f16, round_bf16, round_bf16_dense, round_f16, widen_bf16, widen_f16,
};
use crate::pointwise::{APART, Conv, Kernel, LoopFn, Param, Slot};
use flambeau_dtype::{B8, F8E4M3, F8E5M2};

/// What can be made of the widest value of each kind, in C's manner.
trait Down: Copy + 'static {
    fn from_f64(v: f64) -> Self;
    fn from_i64(v: i64) -> Self;
    fn from_u64(v: u64) -> Self;
    #[inline(always)]
    fn from_c128(z: Complex<f64>) -> Self {
        Self::from_f64(z.re)
    }
}

/// C's float-to-integer conversion as x86 does it: what does not fit i64 is `i64::MIN`.
#[inline(always)]
pub(super) fn to_i64(v: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&v) { v as i64 } else { i64::MIN }
}
/// The same to 32 bits: what does not fit is `i32::MIN`.
#[inline(always)]
pub(super) fn to_i32(v: f64) -> i32 {
    if v > -2_147_483_649.0 && v < 2_147_483_648.0 { v as i32 } else { i32::MIN }
}
/// The same to u64: the upper half of the range is shifted down first.
#[inline(always)]
pub(super) fn to_u64(v: f64) -> u64 {
    let half = 9_223_372_036_854_775_808.0;
    if v >= half { (to_i64(v - half) as u64) ^ (1 << 63) } else { to_i64(v) as u64 }
}

macro_rules! down_int {
    ($($t:ident $conv:ident),*) => {$(
        impl Down for $t {
            #[inline(always)]
            fn from_f64(v: f64) -> Self { $conv(v) as $t }
            #[inline(always)]
            fn from_i64(v: i64) -> Self { v as $t }
            #[inline(always)]
            fn from_u64(v: u64) -> Self { v as $t }
        }
    )*};
}
down_int!(u8 to_i64, i8 to_i32, i16 to_i32, i32 to_i32, i64 to_i64, u16 to_i32, u32 to_i64, u64 to_u64);
macro_rules! down_float {
    ($($t:ty: |$d:ident| $f64:expr, |$i:ident| $int:expr);* $(;)?) => {$(
        impl Down for $t {
            #[inline(always)]
            fn from_f64($d: f64) -> Self { $f64 }
            #[inline(always)]
            fn from_i64($i: i64) -> Self { $int }
            #[inline(always)]
            fn from_u64($i: u64) -> Self { $int }
        }
    )*};
}
down_float! {
    f32: |d| d as f32, |i| i as f32;
    f64: |d| d, |i| i as f64;
    f16: |d| f32_to_f16(d as f32), |i| f32_to_f16(i as f32);
    bf16: |d| f32_to_bf16(d as f32), |i| f32_to_bf16(i as f32);
    F8E4M3: |d| F8E4M3(f32_to_e4m3(d as f32)), |i| F8E4M3(f32_to_e4m3(i as f32));
    F8E5M2: |d| F8E5M2(f32_to_e5m2(d as f32)), |i| F8E5M2(f32_to_e5m2(i as f32));
}
impl Down for B8 {
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        B8::from(v != 0.0)
    }
    #[inline(always)]
    fn from_i64(v: i64) -> Self {
        B8::from(v != 0)
    }
    #[inline(always)]
    fn from_u64(v: u64) -> Self {
        B8::from(v != 0)
    }
    #[inline(always)]
    fn from_c128(z: Complex<f64>) -> Self {
        B8::from(z.re != 0.0 || z.im != 0.0)
    }
}
impl<T: Down> Down for Complex<T> {
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        Complex::new(T::from_f64(v), T::from_f64(0.0))
    }
    #[inline(always)]
    fn from_i64(v: i64) -> Self {
        Complex::new(T::from_i64(v), T::from_i64(0))
    }
    #[inline(always)]
    fn from_u64(v: u64) -> Self {
        Complex::new(T::from_u64(v), T::from_u64(0))
    }
    #[inline(always)]
    fn from_c128(z: Complex<f64>) -> Self {
        Complex::new(T::from_f64(z.re), T::from_f64(z.im))
    }
}

/// A kernel that converts dense elements one by one.
macro_rules! kernel {
    ($(<$G:ident>)? |$v:ident: $A:ty| -> $B:ty { $e:expr }) => {{
        unsafe fn kernel$(<$G: Down>)?(out: &mut [MaybeUninit<u8>], ins: [*const u8; 3], n: usize, _: *const Param, _: u8) {
            let (to, from) = (out.as_mut_ptr().cast::<$B>(), ins[0].cast::<$A>());
            for i in 0..n {
                // SAFETY: the callers of a kernel pass `n` elements of its types.
                unsafe {
                    let $v = *from.add(i);
                    *to.add(i) = $e;
                }
            }
        }
        kernel$(::<$G>)?
    }};
}
/// A kernel out of a conversion of blocks.
macro_rules! block {
    ($f:ident) => {{
        unsafe fn kernel(out: &mut [MaybeUninit<u8>], ins: [*const u8; 3], n: usize, _: *const Param, _: u8) {
            // SAFETY: the callers of a kernel pass `n` elements of its types.
            unsafe { $f(ins[0].cast(), out.as_mut_ptr().cast(), n) }
        }
        kernel
    }};
}

/// As PyTorch, which treats NaN of dense runs another way than those of others.
unsafe fn round_bf16_kernel(
    out: &mut [MaybeUninit<u8>],
    ins: [*const u8; 3],
    n: usize,
    _: *const Param,
    form: u8,
) {
    let (from, to) = (ins[0].cast(), out.as_mut_ptr().cast());
    // SAFETY: the callers of a kernel pass `n` elements of its types.
    unsafe { if form == APART { round_bf16(from, to, n) } else { round_bf16_dense(from, to, n) } }
}

/// A kind of numbers, by its widest type.
#[derive(Clone, Copy)]
enum Kind {
    F64,
    I64,
    U64,
    C128,
}
/// The kernel from the widest value of a kind to `T`.
fn down<T: Down>(kind: Kind) -> Kernel {
    match kind {
        Kind::F64 => kernel!(<T> |v: f64| -> T { T::from_f64(v) }),
        Kind::I64 => kernel!(<T> |v: i64| -> T { T::from_i64(v) }),
        Kind::U64 => kernel!(<T> |v: u64| -> T { T::from_u64(v) }),
        Kind::C128 => kernel!(<T> |v: Complex<f64>| -> T { T::from_c128(v) }),
    }
}
/// How a dtype goes up to the widest value of its kind.
fn up(d: DType) -> Option<(Kind, Conv)> {
    Some(match d {
        DType::Bool => (Kind::I64, Conv::BoolL),
        DType::U8 => (Kind::I64, Conv::U8L),
        DType::I8 => (Kind::I64, Conv::I8L),
        DType::I16 => (Kind::I64, Conv::I16L),
        DType::I32 => (Kind::I64, Conv::I32L),
        DType::I64 => (Kind::I64, Conv::None),
        DType::U16 => (Kind::I64, Conv::U16L),
        DType::U32 => (Kind::I64, Conv::U32L),
        DType::U64 => (Kind::U64, Conv::None),
        DType::F8E4M3 => (Kind::F64, Conv::E4M3D),
        DType::F8E5M2 => (Kind::F64, Conv::E5M2D),
        DType::F16 => (Kind::F64, Conv::F16D),
        DType::BF16 => (Kind::F64, Conv::BF16D),
        DType::F32 => (Kind::F64, Conv::F32D),
        DType::F64 => (Kind::F64, Conv::None),
        DType::C32 => (Kind::C128, Conv::F16D),
        DType::BC32 => (Kind::C128, Conv::BF16D),
        DType::C64 => (Kind::C128, Conv::F32D),
        DType::C128 => (Kind::C128, Conv::None),
        _ => return None,
    })
}
/// The pairs with kernels of their own.
fn direct(from: DType, to: DType) -> Option<Kernel> {
    use DType::*;
    Some(match (from, to) {
        (F16, F32) => block!(widen_f16),
        (F32, F16) => block!(round_f16),
        (BF16, F32) => block!(widen_bf16),
        (F32, BF16) => round_bf16_kernel,
        (F32, F64) => kernel!(|v: f32| -> f64 { v as f64 }),
        (Bool | U8, F32) => kernel!(|v: u8| -> f32 { v as f32 }),
        (I32, F32) => kernel!(|v: i32| -> f32 { v as f32 }),
        (F32, Bool) => kernel!(|v: f32| -> B8 { B8::from(v != 0.0) }),
        (F32, I32) => kernel!(|v: f32| -> i32 { to_i32(v as f64) }),
        (F32, I64) => kernel!(|v: f32| -> i64 { to_i64(v as f64) }),
        (Bool | U8, I64) => kernel!(|v: u8| -> i64 { v as i64 }),
        (I32, I64) => kernel!(|v: i32| -> i64 { v as i64 }),
        _ => return None,
    })
}

/// The loop that converts `from` to `to`, as `Tensor.to` does: floats to integers like C on x86, anything to bool by
/// `!= 0`, complex to real by dropping the imaginary part, to float8 by rounding to nearest even (e4m3fn saturates,
/// e5m2 overflows to infinity). Equal dtypes are copied. `None` where one side is quantized and the other is not the same.
pub fn cast_loop(from: DType, to: DType) -> Option<LoopFn> {
    let plain = |d: DType| Slot { work: d.size() as u8, conv: Conv::None };
    let (kernel, input) = if from == to {
        (None, plain(from))
    } else if let Some(kernel) = direct(from, to) {
        (Some(kernel), plain(from))
    } else {
        let (kind, conv) = up(from)?;
        let down = crate::with_dtype!(to, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, BC32, FP8] => down::<T>(kind), else return None);
        let work = if matches!(kind, Kind::C128) { 16 } else { 8 };
        (Some(down), Slot { work, conv })
    };
    Some(LoopFn {
        kernel,
        prepare: None,
        inputs: 1,
        params: 0,
        forms: false,
        out: plain(to),
        ins: [input; 3],
    })
}
