//! Integers that stand for numbers: rounding to them, reading them, and products of matrices of them.

pub mod finish;
pub mod product;
#[cfg(test)]
mod tests;

use crate::engine::isa::{Isa, Job, Level, run};
use crate::engine::parallel::parallel_for;

/// An integer that a quantized tensor holds.
pub trait Whole: Copy + Send + Sync {
    /// The integer.
    fn whole(self) -> i32;
    /// Of an integer within the range.
    fn of(v: i32) -> Self;
}
macro_rules! whole {
    ($($t:ty),*) => {$(
        impl Whole for $t {
            #[inline(always)]
            fn whole(self) -> i32 {
                self as i32
            }
            #[inline(always)]
            fn of(v: i32) -> Self {
                v as $t
            }
        }
    )*};
}
whole!(u8, i8, i32);

/// How numbers become integers: `round(x * inverse) + zero`, kept within the range.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// One over the scale.
    pub inverse: f32,
    /// The integer that stands for zero.
    pub zero: i32,
    /// The least integer.
    pub low: i32,
    /// The greatest.
    pub high: i32,
}
/// The largest float32 below 2^31: vector code of x86 turns greater ones into the least integer.
const MOST: f32 = 2147483520.0;
impl Rule {
    /// The integer of a number. Ties go to the even one; what is no number becomes the greatest.
    #[inline(always)]
    pub fn apply(self, x: f32) -> i32 {
        let v = x * self.inverse;
        // as the minimum of two floats on x86: the second where they do not compare
        let v = if v < MOST { v } else { MOST };
        let q = v.round_ties_even() as i32;
        q.saturating_add(self.zero).clamp(self.low, self.high)
    }
}

struct Down<'a, T>(Rule, &'a [f32], &'a mut [T]);
impl<T: Whole> Job for Down<'_, T> {
    type Out = ();
    const BEST: Level = Level::V3;
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (o, x) in self.2.iter_mut().zip(self.1) {
            *o = T::of(self.0.apply(*x));
        }
    }
}
struct Up<'a, T>(f32, i32, &'a [T], &'a mut [f32]);
impl<T: Whole> Job for Up<'_, T> {
    type Out = ();
    const BEST: Level = Level::V3;
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (o, q) in self.3.iter_mut().zip(self.2) {
            *o = q.whole().wrapping_sub(self.1) as f32 * self.0;
        }
    }
}
/// Elements that are worth a thread.
const GRAIN: usize = 1 << 16;

/// The integers of numbers. Both are equally long.
pub fn quantize<T: Whole>(x: &[f32], out: &mut [T], rule: Rule) {
    let n = x.len().min(out.len());
    let out = crate::engine::SharedMut::new(&mut out[..n]);
    parallel_for(n, GRAIN, |r| {
        // SAFETY: the ranges of the chunks do not overlap, and lie within the slice.
        let part = unsafe { out.slice(r.start, r.len()) };
        run(Down(rule, &x[r], part));
    });
}
/// The numbers that integers stand for: `(q - zero) * scale`.
pub fn dequantize<T: Whole>(q: &[T], out: &mut [f32], scale: f32, zero: i32) {
    let n = q.len().min(out.len());
    let out = crate::engine::SharedMut::new(&mut out[..n]);
    parallel_for(n, GRAIN, |r| {
        // SAFETY: the ranges of the chunks do not overlap, and lie within the slice.
        let part = unsafe { out.slice(r.start, r.len()) };
        run(Up(scale, zero, &q[r], part));
    });
}
