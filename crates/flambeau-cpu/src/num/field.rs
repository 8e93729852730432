//! The numbers that decompositions compute with: f32, f64 and the complex numbers of both.

use super::Arith;
use crate::blas::MatmulScalar;
use num_complex::Complex;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number of a decomposition.
pub trait Field:
    MatmulScalar<Compute = Self>
    + Arith
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + PartialEq
{
    /// The type of magnitudes.
    type Real: Real;
    /// Whether there is an imaginary part.
    const COMPLEX: bool;
    /// A real number and an imaginary part, which real types leave out.
    fn new(re: Self::Real, im: Self::Real) -> Self;
    /// Real part.
    fn re(self) -> Self::Real;
    /// Imaginary part.
    fn im(self) -> Self::Real;
    /// Complex conjugate.
    fn conj(self) -> Self;
    /// Times a real number.
    fn scale(self, s: Self::Real) -> Self;
    /// A real number.
    #[inline(always)]
    fn real(re: Self::Real) -> Self {
        Self::new(re, Self::Real::ZERO)
    }
    /// Magnitude, without overflow on the way.
    #[inline(always)]
    fn size(self) -> Self::Real {
        if Self::COMPLEX { self.re().hypot(self.im()) } else { self.re().magnitude() }
    }
    /// By what LAPACK picks pivots: the sum of the parts' magnitudes.
    #[inline(always)]
    fn weight(self) -> Self::Real {
        if Self::COMPLEX { self.re().magnitude() + self.im().magnitude() } else { self.re().magnitude() }
    }
    /// Neither infinite nor NaN.
    #[inline(always)]
    fn finite(self) -> bool {
        self.re().finite_real() && (!Self::COMPLEX || self.im().finite_real())
    }
    /// A quotient that neither overflows nor vanishes on the way (Smith's).
    #[inline(always)]
    fn over(self, d: Self) -> Self {
        if !Self::COMPLEX {
            return Self::real(self.re() / d.re());
        }
        let (a, b, c, e) = (self.re(), self.im(), d.re(), d.im());
        if c.magnitude() >= e.magnitude() {
            let r = e / c;
            let den = c + e * r;
            Self::new((a + b * r) / den, (b - a * r) / den)
        } else {
            let r = c / e;
            let den = c * r + e;
            Self::new((a * r + b) / den, (b * r - a) / den)
        }
    }
}

/// A real number of a decomposition.
pub trait Real: Field<Real = Self> + PartialOrd {
    /// Half the distance from 1 to the next number (LAPACK's `dlamch('E')`).
    const EPS: Self;
    /// The smallest number whose reciprocal is one too.
    const SAFE: Self;
    /// From f64.
    fn of(v: f64) -> Self;
    /// To f64.
    fn wide(self) -> f64;
    /// Absolute value.
    fn magnitude(self) -> Self;
    /// Square root.
    fn root(self) -> Self;
    /// `sqrt(a^2 + b^2)`.
    fn hypot(self, o: Self) -> Self;
    /// This magnitude with the sign of another.
    fn with_sign(self, o: Self) -> Self;
    /// Neither infinite nor NaN.
    fn finite_real(self) -> bool;
    /// The larger one.
    #[inline(always)]
    fn larger(self, o: Self) -> Self {
        if self > o { self } else { o }
    }
    /// The smaller one.
    #[inline(always)]
    fn smaller(self, o: Self) -> Self {
        if self < o { self } else { o }
    }
}

macro_rules! fields {
    ($($t:ident),*) => {$(
        impl Field for $t {
            type Real = $t;
            const COMPLEX: bool = false;
            #[inline(always)]
            fn new(re: $t, _: $t) -> Self { re }
            #[inline(always)]
            fn re(self) -> $t { self }
            #[inline(always)]
            fn im(self) -> $t { 0.0 }
            #[inline(always)]
            fn conj(self) -> Self { self }
            #[inline(always)]
            fn scale(self, s: $t) -> Self { self * s }
        }
        impl Field for Complex<$t> {
            type Real = $t;
            const COMPLEX: bool = true;
            #[inline(always)]
            fn new(re: $t, im: $t) -> Self { Complex::new(re, im) }
            #[inline(always)]
            fn re(self) -> $t { self.re }
            #[inline(always)]
            fn im(self) -> $t { self.im }
            #[inline(always)]
            fn conj(self) -> Self { Complex::conj(&self) }
            #[inline(always)]
            fn scale(self, s: $t) -> Self { Complex::new(self.re * s, self.im * s) }
        }
        impl Real for $t {
            const EPS: $t = $t::EPSILON / 2.0;
            const SAFE: $t = $t::MIN_POSITIVE;
            #[inline(always)]
            fn of(v: f64) -> $t { v as $t }
            #[inline(always)]
            fn wide(self) -> f64 { self as f64 }
            #[inline(always)]
            fn magnitude(self) -> $t { self.abs() }
            #[inline(always)]
            fn root(self) -> $t { self.sqrt() }
            #[inline(always)]
            fn hypot(self, o: $t) -> $t {
                // the library's is a call, which only very large and very small numbers need
                let s = self * self + o * o;
                if s > 1e-30 && s < 1e30 { s.sqrt() } else { $t::hypot(self, o) }
            }
            #[inline(always)]
            fn with_sign(self, o: $t) -> $t { self.copysign(o) }
            #[inline(always)]
            fn finite_real(self) -> bool { self.is_finite() }
        }
    )*};
}
fields!(f32, f64);

/// The power of two next to a magnitude, as far as its reciprocal is a number too.
pub fn exponent<R: Real>(most: R) -> i32 {
    let end = -R::SAFE.wide().log2() - 4.0;
    most.wide().log2().floor().clamp(-end, end) as i32
}
