//! Orders and truth values of elements.

use super::half::{bf16_to_f32, f16_to_f32};
use flambeau_dtype::{B8, Element};
use half::{bf16, f16};
use num_complex::Complex;

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
    /// The element of a key, where each element has a key of its own: of integers.
    #[inline(always)]
    fn of_key(key: u64) -> Option<Self> {
        let _ = key;
        None
    }
}
macro_rules! order {
    ($($t:ty, $bits:literal, $low:expr, $high:expr, |$x:ident| $c:expr, $nan:expr, $key:expr $(, |$k:ident| $of:expr)?);* $(;)?) => {$(impl Order for $t {
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
        $(#[inline(always)] fn of_key($k: u64) -> Option<Self> { Some($of) })?
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
    u8, 8, u8::MIN, u8::MAX, |x| x, false, x as u64, |k| k as u8;
    u16, 16, u16::MIN, u16::MAX, |x| x, false, x as u64, |k| k as u16;
    u32, 32, u32::MIN, u32::MAX, |x| x, false, x as u64, |k| k as u32;
    u64, 64, u64::MIN, u64::MAX, |x| x, false, x, |k| k;
    i8, 8, i8::MIN, i8::MAX, |x| x, false, (x as u8 ^ 0x80) as u64, |k| (k as u8 ^ 0x80) as i8;
    i16, 16, i16::MIN, i16::MAX, |x| x, false, (x as u16 ^ 0x8000) as u64, |k| (k as u16 ^ 0x8000) as i16;
    i32, 32, i32::MIN, i32::MAX, |x| x, false, (x as u32 ^ 0x8000_0000) as u64, |k| (k as u32 ^ 0x8000_0000) as i32;
    i64, 64, i64::MIN, i64::MAX, |x| x, false, x as u64 ^ 1 << 63, |k| (k ^ 1 << 63) as i64;
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
