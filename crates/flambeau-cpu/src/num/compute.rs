//! The types that kernels compute in.

use super::Order;
use super::real::{Fl, Real};
use super::stored::{Num, Stored};
use crate::Element;
use crate::engine::isa::Isa;
use crate::vmath::wide;
use num_complex::Complex;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Numbers that are added and multiplied: floats, complex numbers, and integers, which wrap.
pub trait Arith: Element {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Sum.
    fn plus(self, o: Self) -> Self;
    /// Difference.
    fn minus(self, o: Self) -> Self;
    /// Product.
    fn times(self, o: Self) -> Self;
    /// `self * b + c`, fused where the machine can.
    #[inline(always)]
    fn fma<I: Isa>(self, b: Self, c: Self) -> Self {
        self.times(b).plus(c)
    }
    /// A count.
    fn count(n: i64) -> Self;
    /// Quotient by a count; integers round toward zero, and division by 0 gives 0 for them.
    fn div_count(self, n: usize) -> Self;
    /// Is a NaN (either part of a complex number).
    fn is_undefined(self) -> bool;
}
/// `e^x` of each number; only where vectors for it are available.
fn exp_in_place(x: &mut [f32]) {
    let at = x.as_mut_ptr();
    // SAFETY: it is handed out only where it is available, and not seen elsewhere; both places are the very same.
    unsafe { wide::exp(at, at, x.len()) };
}
macro_rules! floats {
    ($($t:ident $fma:ident { $($own:item)* })*) => {$(
        impl Arith for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn plus(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn minus(self, o: Self) -> Self { self - o }
            #[inline(always)]
            fn times(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn fma<I: Isa>(self, b: Self, c: Self) -> Self { I::$fma(self, b, c) }
            #[inline(always)]
            fn count(n: i64) -> Self { n as $t }
            #[inline(always)]
            fn div_count(self, n: usize) -> Self { self / n as $t }
            #[inline(always)]
            fn is_undefined(self) -> bool { self.is_nan() }
        }
        impl Arith for Complex<$t> {
            const ZERO: Self = Complex::new(0.0, 0.0);
            const ONE: Self = Complex::new(1.0, 0.0);
            #[inline(always)]
            fn plus(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn minus(self, o: Self) -> Self { self - o }
            #[inline(always)]
            fn times(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn count(n: i64) -> Self { Complex::new(n as $t, 0.0) }
            #[inline(always)]
            fn div_count(self, n: usize) -> Self { Complex::new(self.re / n as $t, self.im / n as $t) }
            #[inline(always)]
            fn is_undefined(self) -> bool { self.re.is_nan() || self.im.is_nan() }
        }
        impl Compute for $t {
            type On<I: Isa> = Fl<$t, I>;
            #[inline(always)]
            fn of(v: f64) -> Self { v as $t }
            #[inline(always)]
            fn f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn sqrt(self) -> Self { $t::sqrt(self) }
            #[inline(always)]
            fn abs(self) -> Self { $t::abs(self) }
            #[inline(always)]
            fn log(self) -> Self { $t::ln(self) }
            #[inline(always)]
            fn log_1p(self) -> Self { $t::ln_1p(self) }
            $($own)*
        }
    )*};
}
floats! {
    f32 fma32 {
        #[inline]
        fn exp_vectors() -> Option<fn(&mut [Self])> {
            wide::available().then_some(exp_in_place)
        }
    }
    f64 fma64 {}
}
macro_rules! integers {
    ($($t:ty),*) => {$(impl Arith for $t {
        const ZERO: Self = 0;
        const ONE: Self = 1;
        #[inline(always)]
        fn plus(self, o: Self) -> Self { self.wrapping_add(o) }
        #[inline(always)]
        fn minus(self, o: Self) -> Self { self.wrapping_sub(o) }
        #[inline(always)]
        fn times(self, o: Self) -> Self { self.wrapping_mul(o) }
        #[inline(always)]
        fn count(n: i64) -> Self { n as $t }
        #[inline(always)]
        fn div_count(self, n: usize) -> Self { self.checked_div(n as $t).unwrap_or(0) }
        #[inline(always)]
        fn is_undefined(self) -> bool { false }
    })*};
}
integers!(u8, i8, i16, i32, i64, u16, u32, u64);

/// The types that floating kernels compute in: f32 and f64.
pub trait Compute:
    Stored<Compute = Self>
    + Num<Acc = Self, Sum = Self>
    + Arith
    + Order
    + PartialOrd
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The number of formulas on an instruction set.
    type On<I: Isa>: Real<Raw = Self>;
    /// Rounded from f64: counts, parameters.
    fn of(v: f64) -> Self;
    /// To f64.
    fn f64(self) -> f64;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Natural logarithm by the standard library: of few values.
    fn log(self) -> Self;
    /// `log(1 + self)`, as [`Compute::log`].
    fn log_1p(self) -> Self;
    /// `e^x`, in loops that vectorise; exact at the ends (0 for -inf, inf for inf, NaN for NaN).
    #[inline(always)]
    fn exp<I: Isa>(self) -> Self {
        Self::On::<I>::wrap(self).exp().raw()
    }
    /// `e^x` of each number in place, where the machine has better vectors for it than loops of [`Compute::exp`] make.
    #[inline]
    fn exp_vectors() -> Option<fn(&mut [Self])> {
        None
    }
    /// Natural logarithm, in loops that vectorise.
    #[inline(always)]
    fn ln<I: Isa>(self) -> Self {
        Self::On::<I>::wrap(self).ln().raw()
    }
    /// `1 / (1 + e^-x)`.
    #[inline(always)]
    fn sigmoid<I: Isa>(self) -> Self {
        Self::On::<I>::wrap(self).sigmoid().raw()
    }
    /// Hyperbolic tangent.
    #[inline(always)]
    fn tanh<I: Isa>(self) -> Self {
        Self::On::<I>::wrap(self).tanh().raw()
    }
}
