//! What reductions ask of elements.

use crate::dtype::{B8, Element};
use crate::engine::isa::Isa;
use crate::vmath::{double, single};
use half::{bf16, f16};
use num_complex::Complex;

/// Exact widening of a half, in a form that vectorises.
#[inline(always)]
pub fn f16_to_f32(h: f16) -> f32 {
    let b = h.to_bits() as u32;
    let em = b & 0x7fff;
    // 2^112 moves the exponent from the half's bias to the single's, subnormals included.
    let v = (f32::from_bits(em << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let v = if em >= 0x7c00 { v | 0x7f80_0000 } else { v };
    f32::from_bits(v | (b & 0x8000) << 16)
}
/// Rounding to a half (nearest, ties to even), in a form that vectorises.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> f16 {
    let b = x.to_bits();
    let a = b & 0x7fff_ffff;
    let normal = a.wrapping_sub(112 << 23).wrapping_add(0xfff + ((a >> 13) & 1)) >> 13;
    let sub = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let big = if a > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let r = if a < 0x3880_0000 { sub } else { normal };
    let r = if a >= 0x4780_0000 { big } else { r };
    f16::from_bits((r | (b >> 16) & 0x8000) as u16)
}
/// Exact widening of a bfloat16.
#[inline(always)]
pub fn bf16_to_f32(h: bf16) -> f32 {
    f32::from_bits((h.to_bits() as u32) << 16)
}
/// Rounding to a bfloat16 (nearest, ties to even).
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> bf16 {
    let b = x.to_bits();
    let r = b.wrapping_add(0x7fff + ((b >> 16) & 1)) >> 16;
    bf16::from_bits(if x.is_nan() { (b >> 16) as u16 | 0x40 } else { r as u16 })
}

/// Arithmetic of an accumulator.
pub trait Arith: Copy + Send + Sync + PartialEq + 'static {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Sum; integers wrap.
    fn add(self, o: Self) -> Self;
    /// Difference; integers wrap.
    fn sub(self, o: Self) -> Self;
    /// Product; integers wrap.
    fn mul(self, o: Self) -> Self;
    /// Division by a count; integers round toward zero, and division by 0 gives 0 for them.
    fn div_count(self, n: usize) -> Self;
    /// Is a NaN (either part of a complex number).
    fn is_undefined(self) -> bool;
}
macro_rules! arith_float {
    ($($t:ty),*) => {$(impl Arith for $t {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        #[inline(always)] fn add(self, o: Self) -> Self { self + o }
        #[inline(always)] fn sub(self, o: Self) -> Self { self - o }
        #[inline(always)] fn mul(self, o: Self) -> Self { self * o }
        #[inline(always)] fn div_count(self, n: usize) -> Self { self / n as $t }
        #[inline(always)] fn is_undefined(self) -> bool { self.is_nan() }
    })*};
}
arith_float!(f32, f64);
impl Arith for i64 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        self.wrapping_add(o)
    }
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        self.wrapping_sub(o)
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        self.wrapping_mul(o)
    }
    #[inline(always)]
    fn div_count(self, n: usize) -> Self {
        if n == 0 { 0 } else { self / n as i64 }
    }
    #[inline(always)]
    fn is_undefined(self) -> bool {
        false
    }
}
macro_rules! arith_complex {
    ($($t:ty),*) => {$(impl Arith for Complex<$t> {
        const ZERO: Self = Complex::new(0.0, 0.0);
        const ONE: Self = Complex::new(1.0, 0.0);
        #[inline(always)] fn add(self, o: Self) -> Self { Complex::new(self.re + o.re, self.im + o.im) }
        #[inline(always)] fn sub(self, o: Self) -> Self { Complex::new(self.re - o.re, self.im - o.im) }
        #[inline(always)] fn mul(self, o: Self) -> Self { self * o }
        #[inline(always)] fn div_count(self, n: usize) -> Self { Complex::new(self.re / n as $t, self.im / n as $t) }
        #[inline(always)] fn is_undefined(self) -> bool { self.re.is_nan() || self.im.is_nan() }
    })*};
}
arith_complex!(f32, f64);

/// An element that can be summed.
pub trait Num: Element {
    /// What sums are accumulated in: f32 for halves, i64 for integers and bool.
    type Acc: Arith;
    /// What `sum` and `prod` return: the type itself, or i64 for integers and bool.
    type Sum: Element;
    /// To the accumulator.
    fn wide(self) -> Self::Acc;
    /// From the accumulator, rounded (integers wrap).
    fn narrow(a: Self::Acc) -> Self;
    /// The result of `sum`.
    fn to_sum(a: Self::Acc) -> Self::Sum;
    /// Real and imaginary part as doubles.
    fn parts(self) -> (f64, f64);
}
macro_rules! num {
    ($($t:ty, $acc:ty, $sum:ty, |$x:ident| $w:expr, |$a:ident| $n:expr, $s:expr, $p:expr);* $(;)?) => {$(impl Num for $t {
        type Acc = $acc;
        type Sum = $sum;
        #[inline(always)] fn wide(self) -> $acc { let $x = self; $w }
        #[inline(always)] fn narrow($a: $acc) -> Self { $n }
        #[inline(always)] fn to_sum($a: $acc) -> $sum { $s }
        #[inline(always)] fn parts(self) -> (f64, f64) { let $x = self; $p }
    })*};
}
num! {
    f32, f32, f32, |x| x, |a| a, a, (x as f64, 0.0);
    f64, f64, f64, |x| x, |a| a, a, (x, 0.0);
    f16, f32, f16, |x| f16_to_f32(x), |a| f32_to_f16(a), f32_to_f16(a), (f16_to_f32(x) as f64, 0.0);
    bf16, f32, bf16, |x| bf16_to_f32(x), |a| f32_to_bf16(a), f32_to_bf16(a), (bf16_to_f32(x) as f64, 0.0);
    u8, i64, i64, |x| x as i64, |a| a as u8, a, (x as f64, 0.0);
    i8, i64, i64, |x| x as i64, |a| a as i8, a, (x as f64, 0.0);
    i16, i64, i64, |x| x as i64, |a| a as i16, a, (x as f64, 0.0);
    i32, i64, i64, |x| x as i64, |a| a as i32, a, (x as f64, 0.0);
    i64, i64, i64, |x| x, |a| a, a, (x as f64, 0.0);
    u16, i64, i64, |x| x as i64, |a| a as u16, a, (x as f64, 0.0);
    u32, i64, i64, |x| x as i64, |a| a as u32, a, (x as f64, 0.0);
    u64, i64, i64, |x| x as i64, |a| a as u64, a, (x as f64, 0.0);
    B8, i64, i64, |x| x.get() as i64, |a| B8::from(a != 0), a, (x.get() as u8 as f64, 0.0);
    Complex<f16>, Complex<f32>, Complex<f16>, |x| Complex::new(f16_to_f32(x.re), f16_to_f32(x.im)),
        |a| Complex::new(f32_to_f16(a.re), f32_to_f16(a.im)), Complex::new(f32_to_f16(a.re), f32_to_f16(a.im)),
        (f16_to_f32(x.re) as f64, f16_to_f32(x.im) as f64);
    Complex<f32>, Complex<f32>, Complex<f32>, |x| x, |a| a, a, (x.re as f64, x.im as f64);
    Complex<f64>, Complex<f64>, Complex<f64>, |x| x, |a| a, a, (x.re, x.im);
}

/// An element with an order. NaN is beyond both ends: it wins every comparison.
pub trait Order: Element {
    /// Loses against everything in `beats_max`.
    const LOW: Self;
    /// Loses against everything in `beats_min`.
    const HIGH: Self;
    /// `self` replaces `o` as the maximum.
    fn beats_max(self, o: Self) -> bool;
    /// `self` replaces `o` as the minimum.
    fn beats_min(self, o: Self) -> bool;
    /// Is a NaN.
    fn nan(self) -> bool;
    /// An unsigned key in ascending order, with NaN last and both zeros equal.
    fn key(self) -> u64;
    /// Bits in use in `key`.
    const KEY_BITS: u32;
}
macro_rules! order {
    ($($t:ty, $bits:literal, $low:expr, $high:expr, |$x:ident| $c:expr, $nan:expr, $key:expr);* $(;)?) => {$(impl Order for $t {
        const LOW: Self = $low;
        const HIGH: Self = $high;
        const KEY_BITS: u32 = $bits;
        #[inline(always)] fn beats_max(self, o: Self) -> bool {
            let a = { let $x = self; $c };
            let b = { let $x = o; $c };
            (a > b) | self.nan()
        }
        #[inline(always)] fn beats_min(self, o: Self) -> bool {
            let a = { let $x = self; $c };
            let b = { let $x = o; $c };
            (a < b) | self.nan()
        }
        #[inline(always)] #[allow(unused_variables)] fn nan(self) -> bool { let $x = self; $nan }
        #[inline(always)] fn key(self) -> u64 { let $x = self; $key }
    })*};
}
#[inline(always)]
fn key16(b: u16, inf: u16) -> u64 {
    let b = if b == 0x8000 { 0 } else { b };
    let k = b ^ ((b as i16 >> 15) as u16 | 0x8000);
    (if b & 0x7fff > inf { u16::MAX } else { k }) as u64
}
#[inline(always)]
fn key32(x: f32) -> u64 {
    let b = (x + 0.0).to_bits();
    let k = b ^ ((b as i32 >> 31) as u32 | 0x8000_0000);
    (if x.is_nan() { u32::MAX } else { k }) as u64
}
#[inline(always)]
fn key64(x: f64) -> u64 {
    let b = (x + 0.0).to_bits();
    let k = b ^ ((b as i64 >> 63) as u64 | 1 << 63);
    if x.is_nan() { u64::MAX } else { k }
}
order! {
    f32, 32, f32::NEG_INFINITY, f32::INFINITY, |x| x, x.is_nan(), key32(x);
    f64, 64, f64::NEG_INFINITY, f64::INFINITY, |x| x, x.is_nan(), key64(x);
    f16, 16, f16::NEG_INFINITY, f16::INFINITY, |x| f16_to_f32(x), x.to_bits() & 0x7fff > 0x7c00, key16(x.to_bits(), 0x7c00);
    bf16, 16, bf16::NEG_INFINITY, bf16::INFINITY, |x| bf16_to_f32(x), x.to_bits() & 0x7fff > 0x7f80, key16(x.to_bits(), 0x7f80);
    u8, 8, u8::MIN, u8::MAX, |x| x, false, x as u64;
    u16, 16, u16::MIN, u16::MAX, |x| x, false, x as u64;
    u32, 32, u32::MIN, u32::MAX, |x| x, false, x as u64;
    u64, 64, u64::MIN, u64::MAX, |x| x, false, x;
    i8, 8, i8::MIN, i8::MAX, |x| x, false, (x as u8 ^ 0x80) as u64;
    i16, 16, i16::MIN, i16::MAX, |x| x, false, (x as u16 ^ 0x8000) as u64;
    i32, 32, i32::MIN, i32::MAX, |x| x, false, (x as u32 ^ 0x8000_0000) as u64;
    i64, 64, i64::MIN, i64::MAX, |x| x, false, x as u64 ^ 1 << 63;
    B8, 8, B8(0), B8(1), |x| x.get(), false, x.get() as u64;
}

/// An element that is true or false: zero is false, NaN is true.
pub trait Truth: Copy + Send + Sync {
    /// Its truth.
    fn truth(self) -> bool;
}
macro_rules! truth {
    ($($t:ty, |$x:ident| $e:expr);* $(;)?) => {$(impl Truth for $t {
        #[inline(always)] fn truth(self) -> bool { let $x = self; $e }
    })*};
}
truth! {
    f32, |x| x != 0.0; f64, |x| x != 0.0; f16, |x| x.to_bits() & 0x7fff != 0; bf16, |x| x.to_bits() & 0x7fff != 0;
    u8, |x| x != 0; i8, |x| x != 0; i16, |x| x != 0; i32, |x| x != 0; i64, |x| x != 0;
    u16, |x| x != 0; u32, |x| x != 0; u64, |x| x != 0; B8, |x| x.get();
    Complex<f32>, |x| (x.re != 0.0) | (x.im != 0.0); Complex<f64>, |x| (x.re != 0.0) | (x.im != 0.0);
    Complex<f16>, |x| (x.re.to_bits() | x.im.to_bits()) & 0x7fff != 0;
}

/// A real floating element: halves compute in f32.
pub trait Float: Num<Sum = Self> + Order {
    /// f32, or f64 for f64.
    type Op: FloatOp;
    /// To the type of computation.
    fn op(self) -> Self::Op;
    /// Rounded from the type of computation.
    fn from_op(v: Self::Op) -> Self;
    /// Rounded from f64.
    fn from_f64(v: f64) -> Self;
}
macro_rules! float {
    ($($t:ty, $op:ty, |$x:ident| $w:expr, |$v:ident| $n:expr);* $(;)?) => {$(impl Float for $t {
        type Op = $op;
        #[inline(always)] fn op(self) -> $op { let $x = self; $w }
        #[inline(always)] fn from_op($v: $op) -> Self { $n }
        #[inline(always)] fn from_f64(v: f64) -> Self { let $v = v as $op; $n }
    })*};
}
float! {
    f32, f32, |x| x, |v| v; f64, f64, |x| x, |v| v;
    f16, f32, |x| f16_to_f32(x), |v| f32_to_f16(v); bf16, f32, |x| bf16_to_f32(x), |v| f32_to_bf16(v);
}

/// The type that floating kernels compute in, f32 or f64.
pub trait FloatOp:
    Float<Op = Self>
    + Arith
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + PartialOrd
    + Default
{
    /// `e^x`, vectorisable; exact at the ends (0 for -inf, inf for inf, NaN for NaN).
    fn exp_<I: Isa>(self) -> Self;
    /// Natural logarithm (of few values, so not vectorised).
    fn ln_(self) -> Self;
    /// `ln(1 + x)`.
    fn ln_1p_(self) -> Self;
    /// Square root.
    fn sqrt_(self) -> Self;
    /// Absolute value.
    fn abs_(self) -> Self;
    /// From a count or parameter.
    fn of(v: f64) -> Self;
    /// To f64.
    fn f64(self) -> f64;
}
impl FloatOp for f32 {
    #[inline(always)]
    fn exp_<I: Isa>(self) -> f32 {
        single::exp::<I>(self)
    }
    #[inline(always)]
    fn ln_(self) -> f32 {
        self.ln()
    }
    #[inline(always)]
    fn ln_1p_(self) -> f32 {
        self.ln_1p()
    }
    #[inline(always)]
    fn sqrt_(self) -> f32 {
        self.sqrt()
    }
    #[inline(always)]
    fn abs_(self) -> f32 {
        self.abs()
    }
    #[inline(always)]
    fn of(v: f64) -> f32 {
        v as f32
    }
    #[inline(always)]
    fn f64(self) -> f64 {
        self as f64
    }
}
impl FloatOp for f64 {
    #[inline(always)]
    fn exp_<I: Isa>(self) -> f64 {
        double::exp::<I>(self)
    }
    #[inline(always)]
    fn ln_(self) -> f64 {
        self.ln()
    }
    #[inline(always)]
    fn ln_1p_(self) -> f64 {
        self.ln_1p()
    }
    #[inline(always)]
    fn sqrt_(self) -> f64 {
        self.sqrt()
    }
    #[inline(always)]
    fn abs_(self) -> f64 {
        self.abs()
    }
    #[inline(always)]
    fn of(v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn f64(self) -> f64 {
        self
    }
}
