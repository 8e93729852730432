//! Elements as they lie in memory, and the types that they are computed in.

use super::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, round_bf16, round_f16};
use super::{Arith, Compute, Order};
use crate::engine::SharedMut;
use crate::engine::isa::{Isa, Job, run};
use crate::engine::parallel::parallel_for;
use flambeau_dtype::{B8, Element};
use half::{bf16, f16};
use num_complex::Complex;

/// An element with the type that it is computed in: f32 for halves, otherwise itself.
pub trait Stored: Element {
    /// The type of computation.
    type Compute: Arith + Stored<Compute = Self::Compute>;
    /// Exact widening.
    fn up(self) -> Self::Compute;
    /// Rounding, to nearest, ties to even.
    fn down(v: Self::Compute) -> Self;
    /// [`Stored::down`] of a slice of the same length.
    fn down_slice(from: &[Self::Compute], to: &mut [Self]) {
        to.iter_mut().zip(from).for_each(|(to, v)| *to = Self::down(*v));
    }
}
macro_rules! as_they_lie {
    ($($t:ty),*) => {$(impl Stored for $t {
        type Compute = Self;
        #[inline(always)]
        fn up(self) -> Self { self }
        #[inline(always)]
        fn down(v: Self) -> Self { v }
    })*};
}
as_they_lie!(f32, f64, Complex<f32>, Complex<f64>, u8, i8, i16, i32, i64, u16, u32, u64);
macro_rules! halves {
    ($($t:ty, $up:ident, $down:ident, $round:ident);*) => {$(impl Stored for $t {
        type Compute = f32;
        #[inline(always)]
        fn up(self) -> f32 { $up(self) }
        #[inline(always)]
        fn down(v: f32) -> Self { $down(v) }
        fn down_slice(from: &[f32], to: &mut [Self]) {
            let n = from.len().min(to.len());
            // SAFETY: both slices have `n` elements, and an exclusive slice overlaps no other.
            unsafe { $round(from.as_ptr(), to.as_mut_ptr().cast(), n) }
        }
    })*};
}
halves!(f16, f16_to_f32, f32_to_f16, round_f16; bf16, bf16_to_f32, f32_to_bf16, round_bf16);
impl Stored for Complex<f16> {
    type Compute = Complex<f32>;
    #[inline(always)]
    fn up(self) -> Complex<f32> {
        Complex::new(f16_to_f32(self.re), f16_to_f32(self.im))
    }
    #[inline(always)]
    fn down(v: Complex<f32>) -> Self {
        Complex::new(f32_to_f16(v.re), f32_to_f16(v.im))
    }
}

/// [`Stored::up`] of a slice; compiled for the machine's instruction set by [`run`].
pub(crate) struct Up<'a, T: Stored>(pub &'a [T], pub &'a mut [T::Compute]);
impl<T: Stored> Job for Up<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (d, &s) in self.1.iter_mut().zip(self.0) {
            *d = s.up();
        }
    }
}
/// Widens a slice, in parallel. Both slices have the same length.
pub fn up<T: Stored>(from: &[T], to: &mut [T::Compute]) {
    assert_eq!(from.len(), to.len(), "up: lengths differ");
    let to = SharedMut::new(to);
    parallel_for(from.len(), 32_768, |r| {
        // SAFETY: ranges of one parallel_for are disjoint.
        let to = unsafe { to.slice(r.start, r.len()) };
        run(Up(&from[r], to));
    });
}
/// Rounds a slice, in parallel. Both slices have the same length.
pub fn down<T: Stored>(from: &[T::Compute], to: &mut [T]) {
    assert_eq!(from.len(), to.len(), "down: lengths differ");
    let to = SharedMut::new(to);
    parallel_for(from.len(), 32_768, |r| {
        // SAFETY: ranges of one parallel_for are disjoint.
        let to = unsafe { to.slice(r.start, r.len()) };
        T::down_slice(&from[r], to);
    });
}

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
macro_rules! num_by {
    ($t:ty, $acc:ty, $sum:ty, |$x:ident| $w:expr, |$a:ident| $n:expr, $s:expr, $p:expr) => {
        impl Num for $t {
            type Acc = $acc;
            type Sum = $sum;
            #[inline(always)]
            fn wide(self) -> $acc {
                let $x = self;
                $w
            }
            #[inline(always)]
            fn narrow($a: $acc) -> Self {
                $n
            }
            #[inline(always)]
            fn to_sum($a: $acc) -> $sum {
                $s
            }
            #[inline(always)]
            fn parts(self) -> (f64, f64) {
                let $x = self;
                $p
            }
        }
    };
}
macro_rules! num {
    (real $($t:ty),*) => {$(num_by!($t, <$t as Stored>::Compute, $t, |x| x.up(), |a| <$t>::down(a), <$t>::down(a), (x.up() as f64, 0.0));)*};
    (complex $($t:ty),*) => {$(num_by!($t, <$t as Stored>::Compute, $t, |x| x.up(), |a| <$t>::down(a), <$t>::down(a),
        { let v = x.up(); (v.re as f64, v.im as f64) });)*};
    (integer $($t:ty),*) => {$(num_by!($t, i64, i64, |x| x as i64, |a| a as $t, a, (x as f64, 0.0));)*};
}
num!(real f32, f64, f16, bf16);
num!(complex Complex<f16>, Complex<f32>, Complex<f64>);
num!(integer u8, i8, i16, i32, i64, u16, u32, u64);
num_by!(B8, i64, i64, |x| x.get() as i64, |a| B8::from(a != 0), a, (x.get() as u8 as f64, 0.0));

/// A real floating element: f32, f64 and the halves.
pub trait Float: Stored<Compute: Compute> + Num<Sum = Self, Acc = <Self as Stored>::Compute> + Order {
    /// Rounded from f64, by way of the type of computation.
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        Self::down(Compute::of(v))
    }
}
impl<T: Stored<Compute: Compute> + Num<Sum = T, Acc = <T as Stored>::Compute> + Order> Float for T {}
