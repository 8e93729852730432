//! Drawing many words at once and turning them into values, in vector code where the conversion allows it.

use super::Generator;
use crate::engine::isa::{self, Isa, Job};
use crate::num::Stored;
use flambeau_dtype::{B8, Element};
use half::{bf16, f16};

/// The low 24 bits as a float32 in [0, 1).
#[inline(always)]
pub(super) fn unit24(w: u32) -> f32 {
    (w & 0xff_ffff) as i32 as f32 * (1.0 / 16_777_216.0)
}
/// The low 53 bits as a float64 in [0, 1).
#[inline(always)]
pub(super) fn unit53(w: u64) -> f64 {
    (w & ((1 << 53) - 1)) as i64 as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// A type that random values are converted to.
pub trait RandomValue: Element {
    /// From a float64. Integers take the low bits of the truncated value.
    fn of_f64(v: f64) -> Self;
    /// From an integer: low bits for integers, nearest for floats.
    fn of_i64(v: i64) -> Self;
}
/// A floating dtype. Reduced ones are computed in float32.
pub trait RandomFloat: RandomValue {
    /// Draws are 53 bits wide (float64 only).
    const WIDE: bool;
    /// From a float32.
    fn of_f32(v: f32) -> Self;
    /// To a float64, exactly.
    fn to_f64(self) -> f64;
}
/// A dtype that `random_()` without bounds accepts.
pub trait RandomInt: RandomValue {
    /// The draw takes two words.
    const WIDE: bool;
    /// Values are below this; 0 stands for 2^64.
    const BOUND: u64;
}

macro_rules! values {
    (int: $($i:ty),*; bool_like: $b:ty) => {
        $(impl RandomValue for $i {
            #[inline(always)]
            fn of_f64(v: f64) -> Self { v as i64 as $i }
            #[inline(always)]
            fn of_i64(v: i64) -> Self { v as $i }
        })*
        impl RandomValue for $b {
            #[inline(always)]
            fn of_f64(v: f64) -> Self { B8((v != 0.0) as u8) }
            #[inline(always)]
            fn of_i64(v: i64) -> Self { B8((v != 0) as u8) }
        }
    };
}
values!(int: u8, i8, i16, i32, i64, u16, u32, u64; bool_like: B8);

macro_rules! floats {
    ($($t:ty, $wide:literal, |$v:ident| $of64:expr, $of32:expr, $to64:expr;)*) => {$(
        impl RandomValue for $t {
            #[inline(always)]
            fn of_f64($v: f64) -> Self { $of64 }
            #[inline(always)]
            fn of_i64(v: i64) -> Self {
                // Through float32, as C++ converts: two roundings for the reduced types.
                if $wide { Self::of_f64(v as f64) } else { Self::of_f32(v as f32) }
            }
        }
        impl RandomFloat for $t {
            const WIDE: bool = $wide;
            #[inline(always)]
            fn of_f32($v: f32) -> Self { $of32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { let $v = self; $to64 }
        }
    )*};
}
floats! {
    f32, false, |v| v as f32, v, f64::from(v);
    f64, true, |v| v, f64::from(v), v;
    f16, false, |v| f16::down(v as f32), f16::down(v), f64::from(v.up());
    bf16, false, |v| bf16::down(v as f32), bf16::down(v), f64::from(v.up());
}

macro_rules! ints {
    ($($t:ty, $wide:literal, $bound:expr;)*) => {$(
        impl RandomInt for $t {
            const WIDE: bool = $wide;
            const BOUND: u64 = $bound;
        }
    )*};
}
ints! {
    B8, false, 2;
    u8, false, 1 << 8;
    i8, false, 1 << 7;
    i16, false, 1 << 15;
    i32, false, 1 << 31;
    i64, true, 1 << 63;
    f16, false, (1 << 11) + 1;
    bf16, false, (1 << 8) + 1;
    f32, false, (1 << 24) + 1;
    f64, true, (1 << 53) + 1;
}

struct Map32<'a, T, F>(&'a [u32], &'a mut [T], F);
impl<T, F: Fn(u32) -> T> Job for Map32<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (o, w) in self.1.iter_mut().zip(self.0) {
            *o = (self.2)(*w);
        }
    }
}
struct Map64<'a, T, F>(&'a [u32], &'a mut [T], F);
impl<T, F: Fn(u64) -> T> Job for Map64<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (o, w) in self.1.iter_mut().zip(self.0.chunks_exact(2)) {
            *o = (self.2)((u64::from(w[0]) << 32) | u64::from(w[1]));
        }
    }
}

impl Generator {
    /// `out[i] = f(word)`, one word per element.
    pub(super) fn map32<T>(&mut self, mut out: &mut [T], f: impl Fn(u32) -> T + Copy) {
        while !out.is_empty() {
            let words = self.engine.words(out.len());
            let (now, rest) = out.split_at_mut(words.len());
            isa::run(Map32(words, now, f));
            out = rest;
        }
    }
    /// `out[i] = f(word pair)`, two words per element, the first one high.
    pub(super) fn map64<T>(&mut self, mut out: &mut [T], f: impl Fn(u64) -> T + Copy) {
        while !out.is_empty() {
            let pairs = (self.engine.available() / 2).min(out.len());
            if pairs == 0 {
                // A pair across two blocks, or the first of a block.
                let v = f(self.random64());
                let (first, rest) = out.split_at_mut(1);
                first[0] = v;
                out = rest;
                continue;
            }
            let (now, rest) = out.split_at_mut(pairs);
            isa::run(Map64(self.engine.words(2 * pairs), now, f));
            out = rest;
        }
    }
}
