//! Loops that convert a run from one dtype to another.

use std::marker::PhantomData;

use half::{bf16, f16};
use num_complex::Complex;

use crate::DType;
use crate::dtype::{B8, F8E4M3, F8E5M2};
use crate::pointwise::{LoopFn, Param};

/// What every element converts through: a float, an integer or a complex number, in C's manner.
trait Cast: Copy + 'static {
    /// The widest value of this kind.
    type Wide: Wide;
    fn up(self) -> Self::Wide;
    fn from_f32(v: f32) -> Self;
    fn from_f64(v: f64) -> Self;
    fn from_i64(v: i64) -> Self;
    fn from_u64(v: u64) -> Self;
    fn from_c128(re: f64, im: f64) -> Self;
}
/// Goes down from the widest value of a kind.
trait Wide: Copy {
    fn down<T: Cast>(self) -> T;
}
impl Wide for f32 {
    #[inline(always)]
    fn down<T: Cast>(self) -> T {
        T::from_f32(self)
    }
}
impl Wide for f64 {
    #[inline(always)]
    fn down<T: Cast>(self) -> T {
        T::from_f64(self)
    }
}
impl Wide for i64 {
    #[inline(always)]
    fn down<T: Cast>(self) -> T {
        T::from_i64(self)
    }
}
impl Wide for u64 {
    #[inline(always)]
    fn down<T: Cast>(self) -> T {
        T::from_u64(self)
    }
}
impl Wide for Complex<f64> {
    #[inline(always)]
    fn down<T: Cast>(self) -> T {
        T::from_c128(self.re, self.im)
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

macro_rules! cast_int {
    ($($t:ident: $wide:ident, $conv:ident);* $(;)?) => {$(
        impl Cast for $t {
            type Wide = $wide;
            #[inline(always)]
            fn up(self) -> $wide { self as $wide }
            #[inline(always)]
            fn from_f32(v: f32) -> Self { $conv(v as f64) as $t }
            #[inline(always)]
            fn from_f64(v: f64) -> Self { $conv(v) as $t }
            #[inline(always)]
            fn from_i64(v: i64) -> Self { v as $t }
            #[inline(always)]
            fn from_u64(v: u64) -> Self { v as $t }
            #[inline(always)]
            fn from_c128(re: f64, _: f64) -> Self { $conv(re) as $t }
        }
    )*};
}
cast_int! {
    u8: i64, to_i64; i8: i64, to_i32; i16: i64, to_i32; i32: i64, to_i32; i64: i64, to_i64;
    u16: i64, to_i32; u32: i64, to_i64; u64: u64, to_u64;
}
macro_rules! cast_float {
    ($($t:ty: $wide:ident, |$s:ident| $up:expr, |$f:ident| $f32:expr, |$d:ident| $f64:expr, |$i:ident| $int:expr);* $(;)?) => {$(
        impl Cast for $t {
            type Wide = $wide;
            #[inline(always)]
            fn up(self) -> $wide { let $s = self; $up }
            #[inline(always)]
            fn from_f32($f: f32) -> Self { $f32 }
            #[inline(always)]
            fn from_f64($d: f64) -> Self { $f64 }
            #[inline(always)]
            fn from_i64($i: i64) -> Self { $int }
            #[inline(always)]
            fn from_u64($i: u64) -> Self { $int }
            #[inline(always)]
            fn from_c128($d: f64, _: f64) -> Self { $f64 }
        }
    )*};
}
cast_float! {
    f32: f32, |s| s, |f| f, |d| d as f32, |i| i as f32;
    f64: f64, |s| s, |f| f as f64, |d| d, |i| i as f64;
    f16: f32, |s| s.to_f32(), |f| f16::from_f32(f), |d| f16::from_f32(d as f32), |i| f16::from_f32(i as f32);
    bf16: f32, |s| s.to_f32(), |f| bf16::from_f32(f), |d| bf16::from_f32(d as f32), |i| bf16::from_f32(i as f32);
    F8E4M3: f32, |s| super::e4m3_to_f32(s.0), |f| F8E4M3(super::f32_to_e4m3(f)), |d| F8E4M3(super::f32_to_e4m3(d as f32)), |i| F8E4M3(super::f32_to_e4m3(i as f32));
    F8E5M2: f32, |s| super::e5m2_to_f32(s.0), |f| F8E5M2(super::f32_to_e5m2(f)), |d| F8E5M2(super::f32_to_e5m2(d as f32)), |i| F8E5M2(super::f32_to_e5m2(i as f32));
}
impl Cast for B8 {
    type Wide = i64;
    #[inline(always)]
    fn up(self) -> i64 {
        self.get() as i64
    }
    #[inline(always)]
    fn from_f32(v: f32) -> Self {
        B8::from(v != 0.0)
    }
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
    fn from_c128(re: f64, im: f64) -> Self {
        B8::from(re != 0.0 || im != 0.0)
    }
}
impl<T: Cast> Cast for Complex<T>
where
    f64: Of<T>,
{
    type Wide = Complex<f64>;
    #[inline(always)]
    fn up(self) -> Complex<f64> {
        Complex::new(f64::of(self.re), f64::of(self.im))
    }
    #[inline(always)]
    fn from_f32(v: f32) -> Self {
        Complex::new(T::from_f32(v), T::from_f32(0.0))
    }
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
    fn from_c128(re: f64, im: f64) -> Self {
        Complex::new(T::from_f64(re), T::from_f64(im))
    }
}
/// Exact widening of a complex number's part.
trait Of<T> {
    fn of(v: T) -> Self;
}
impl Of<f16> for f64 {
    #[inline(always)]
    fn of(v: f16) -> f64 {
        v.to_f32() as f64
    }
}
impl Of<f32> for f64 {
    #[inline(always)]
    fn of(v: f32) -> f64 {
        v as f64
    }
}
impl Of<f64> for f64 {
    #[inline(always)]
    fn of(v: f64) -> f64 {
        v
    }
}

struct Pair<A, B>(PhantomData<(A, B)>);
impl<A: Cast, B: Cast> Pair<A, B> {
    unsafe fn run(ptrs: *const *mut u8, strides: *const isize, n: usize, _: *const Param, _: u32) {
        let (a, b) = (size_of::<A>() as isize, size_of::<B>() as isize);
        // SAFETY: the contract of LoopFn: an output and an input run of n elements.
        unsafe {
            let (to, from, st, sf) = (*ptrs, *ptrs.add(1), *strides, *strides.add(1));
            if st == b && sf == a {
                let (to, from) = (to.cast::<B>(), from.cast::<A>());
                for i in 0..n {
                    *to.add(i) = (*from.add(i)).up().down();
                }
            } else {
                for i in 0..n as isize {
                    *to.offset(i * st).cast::<B>() = (*from.offset(i * sf).cast::<A>()).up().down();
                }
            }
        }
    }
}

/// A whole-block conversion of halves behind any strides: through dense buffers where it must.
unsafe fn by_blocks<const FROM: usize, const TO: usize>(
    ptrs: *const *mut u8,
    strides: *const isize,
    n: usize,
    convert: unsafe fn(*const u8, *mut u8, usize),
) {
    const BLOCK: usize = 512;
    let mut a = [0u64; BLOCK / 2];
    let mut b = [0u64; BLOCK / 2];
    let (a, b) = (a.as_mut_ptr().cast::<u8>(), b.as_mut_ptr().cast::<u8>());
    // SAFETY: the contract of LoopFn; buffers hold BLOCK elements of four bytes.
    unsafe {
        let (to, from, st, sf) = (*ptrs, *ptrs.add(1), *strides, *strides.add(1));
        if st == TO as isize && sf == FROM as isize {
            return convert(from, to, n);
        }
        let mut i = 0;
        while i < n {
            let m = BLOCK.min(n - i);
            crate::pointwise::gather(a, from.offset(i as isize * sf), sf, m, FROM);
            convert(a, b, m);
            crate::pointwise::scatter(to.offset(i as isize * st), st, b, m, TO);
            i += m;
        }
    }
}
macro_rules! half_loop {
    ($name:ident, $f:ident, $from:literal, $to:literal) => {
        unsafe fn $name(ptrs: *const *mut u8, strides: *const isize, n: usize, _: *const Param, _: u32) {
            unsafe fn convert(from: *const u8, to: *mut u8, n: usize) {
                // SAFETY: same contract.
                unsafe { super::$f(from.cast(), to.cast(), n) }
            }
            // SAFETY: same contract.
            unsafe { by_blocks::<$from, $to>(ptrs, strides, n, convert) }
        }
    };
}
half_loop!(f16_up, f16_to_f32, 2, 4);
half_loop!(f16_down, f32_to_f16, 4, 2);
half_loop!(bf16_up, bf16_to_f32, 2, 4);
half_loop!(bf16_down, f32_to_bf16, 4, 2);

unsafe fn same<const SIZE: usize>(
    ptrs: *const *mut u8,
    strides: *const isize,
    n: usize,
    _: *const Param,
    flags: u32,
) {
    // SAFETY: the contract of LoopFn.
    unsafe { crate::pointwise::copy_run(*ptrs, *strides, *ptrs.add(1), *strides.add(1), n, SIZE, flags) }
}

/// The loop that converts `from` to `to`, as `Tensor.to` does: floats to integers like C on x86, anything to bool by
/// `!= 0`, complex to real by dropping the imaginary part, to float8 by rounding to nearest even (e4m3fn saturates,
/// e5m2 overflows to infinity). Equal dtypes are copied. `None` where one side is quantized and the other is not the same.
pub fn cast_loop(from: DType, to: DType) -> Option<LoopFn> {
    use DType::*;
    if from == to {
        return Some(match from.size() {
            1 => same::<1>,
            2 => same::<2>,
            4 => same::<4>,
            8 => same::<8>,
            _ => same::<16>,
        });
    }
    match (from, to) {
        (F16, F32) => return Some(f16_up),
        (F32, F16) => return Some(f16_down),
        (BF16, F32) => return Some(bf16_up),
        (F32, BF16) => return Some(bf16_down),
        _ => {}
    }
    crate::with_dtype!(from, A in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, FP8] => second::<A>(to), else None)
}
fn second<A: Cast>(to: DType) -> Option<LoopFn> {
    crate::with_dtype!(to, B in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, FP8] => Some(Pair::<A, B>::run), else None)
}
