//! Numbers that formulas compute with: [`Real`] floats that know their instruction set, wrapping [`Int`]s and complex
//! [`Cx`] pairs.

use std::marker::PhantomData;
use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use crate::engine::isa::Isa;
use crate::vmath::{double, single};

/// A float compiled for instruction set `I`.
#[repr(transparent)]
pub struct Fl<T, I>(pub T, PhantomData<I>);
impl<T: Copy, I> Clone for Fl<T, I> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Copy, I> Copy for Fl<T, I> {}
impl<T: PartialEq, I> PartialEq for Fl<T, I> {
    #[inline(always)]
    fn eq(&self, o: &Self) -> bool {
        self.0 == o.0
    }
}
impl<T: PartialOrd, I> PartialOrd for Fl<T, I> {
    #[inline(always)]
    fn partial_cmp(&self, o: &Self) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&o.0)
    }
    #[inline(always)]
    fn lt(&self, o: &Self) -> bool {
        self.0 < o.0
    }
    #[inline(always)]
    fn le(&self, o: &Self) -> bool {
        self.0 <= o.0
    }
    #[inline(always)]
    fn gt(&self, o: &Self) -> bool {
        self.0 > o.0
    }
    #[inline(always)]
    fn ge(&self, o: &Self) -> bool {
        self.0 >= o.0
    }
}
macro_rules! fl_op {
    ($($Tr:ident $f:ident),*) => {$(
        impl<T: $Tr<Output = T>, I> $Tr for Fl<T, I> {
            type Output = Self;
            #[inline(always)]
            fn $f(self, o: Self) -> Self {
                Fl(self.0.$f(o.0), PhantomData)
            }
        }
    )*};
}
fl_op!(Add add, Sub sub, Mul mul, Div div);
impl<T: Neg<Output = T>, I> Neg for Fl<T, I> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Fl(-self.0, PhantomData)
    }
}

macro_rules! real_functions {
    ($($(#[$m:meta])* $f:ident($($x:ident),*)),* $(,)?) => {
        /// A real number of a float formula: f32 or f64 on some instruction set. All functions treat NaN, infinities,
        /// signed zeros and subnormals as libm does.
        pub trait Real:
            Copy + PartialEq + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
            + Div<Output = Self> + Neg<Output = Self> + 'static
        {
            /// The bare float.
            type Raw: Copy;
            /// Wraps a bare float.
            fn wrap(v: Self::Raw) -> Self;
            /// The bare float.
            fn raw(self) -> Self::Raw;
            /// A constant, rounded to the type.
            fn c(v: f64) -> Self;
            /// Largest finite value.
            const MAX: Self;
            /// Infinity.
            const INF: Self;
            /// Not a number.
            const NAN: Self;
            /// `self * b + c`, fused where the machine can.
            fn fma(self, b: Self, c: Self) -> Self;
            /// The sign bit.
            fn is_sign_negative(self) -> bool;
            /// The value as f64.
            fn to_f64(self) -> f64;
            $($(#[$m])* fn $f(self $(, $x: Self)*) -> Self;)*

            /// Not a number.
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            /// Neither infinite nor NaN.
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.abs() <= Self::MAX
            }
            /// 0.
            #[inline(always)]
            fn zero() -> Self {
                Self::c(0.0)
            }
            /// 1.
            #[inline(always)]
            fn one() -> Self {
                Self::c(1.0)
            }
            /// `self * self`.
            #[inline(always)]
            fn square(self) -> Self {
                self * self
            }
            /// `1 / self`.
            #[inline(always)]
            fn recip(self) -> Self {
                Self::one() / self
            }
            /// The larger; NaN if either is.
            #[inline(always)]
            fn maximum(self, o: Self) -> Self {
                if self > o || self.is_nan() { self } else { o }
            }
            /// The smaller; NaN if either is.
            #[inline(always)]
            fn minimum(self, o: Self) -> Self {
                if self < o || self.is_nan() { self } else { o }
            }
            /// `max(self, lo)` that keeps a NaN `self` and ignores nothing else.
            #[inline(always)]
            fn at_least(self, lo: Self) -> Self {
                if self < lo { lo } else { self }
            }
            /// `min(self, hi)` that keeps a NaN `self`.
            #[inline(always)]
            fn at_most(self, hi: Self) -> Self {
                if self > hi { hi } else { self }
            }
            /// `a` where `cond`, else `b`; both are computed, so that loops stay free of branches.
            #[inline(always)]
            fn pick(cond: bool, a: Self, b: Self) -> Self {
                if cond { a } else { b }
            }
        }
        impl<I: Isa> Real for Fl<f32, I> {
            real_functions!(@common f32);
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                Self::wrap(I::fma32(self.0, b.0, c.0))
            }
            $(#[inline(always)] fn $f(self $(, $x: Self)*) -> Self { Self::wrap(single::$f::<I>(self.0 $(, $x.0)*)) })*
        }
        impl<I: Isa> Real for Fl<f64, I> {
            real_functions!(@common f64);
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                Self::wrap(I::fma64(self.0, b.0, c.0))
            }
            $(#[inline(always)] fn $f(self $(, $x: Self)*) -> Self { Self::wrap(double::$f::<I>(self.0 $(, $x.0)*)) })*
        }
    };
    (@common $T:ident) => {
        type Raw = $T;
        const MAX: Self = Fl($T::MAX, PhantomData);
        const INF: Self = Fl($T::INFINITY, PhantomData);
        const NAN: Self = Fl($T::NAN, PhantomData);
        #[inline(always)]
        fn wrap(v: $T) -> Self {
            Fl(v, PhantomData)
        }
        #[inline(always)]
        fn raw(self) -> $T {
            self.0
        }
        #[inline(always)]
        fn c(v: f64) -> Self {
            Fl(v as $T, PhantomData)
        }
        #[inline(always)]
        fn is_sign_negative(self) -> bool {
            self.0.is_sign_negative()
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            self.0 as f64
        }
    };
}
real_functions! {
    /// Absolute value.
    abs(),
    /// Magnitude of self, sign of `s`.
    copysign(s),
    /// Rounds down.
    floor(),
    /// Rounds up.
    ceil(),
    /// Rounds to zero.
    trunc(),
    /// Rounds to the nearest integer, halves to even.
    round_even(),
    /// Square root.
    sqrt(),
    /// C's `fmod`: the sign of self.
    fmod(y),
    /// Next float towards `y`.
    nextafter(y),
    /// e^x.
    exp(),
    /// 2^x.
    exp2(),
    /// e^x - 1.
    expm1(),
    /// Natural logarithm.
    ln(),
    /// Base 2 logarithm.
    log2(),
    /// Base 10 logarithm.
    log10(),
    /// log(1 + x).
    log1p(),
    /// Sine.
    sin(),
    /// Cosine.
    cos(),
    /// Tangent.
    tan(),
    /// Arc sine.
    asin(),
    /// Arc cosine.
    acos(),
    /// Arc tangent.
    atan(),
    /// Angle of the point (x, self).
    atan2(x),
    /// Hyperbolic sine.
    sinh(),
    /// Hyperbolic cosine.
    cosh(),
    /// Hyperbolic tangent.
    tanh(),
    /// Inverse hyperbolic sine.
    asinh(),
    /// Inverse hyperbolic cosine.
    acosh(),
    /// Inverse hyperbolic tangent.
    atanh(),
    /// Error function.
    erf(),
    /// Complementary error function.
    erfc(),
    /// Normal distribution function. For f32 with the absolute error of `(1 + erf(self / sqrt(2))) / 2`.
    normal_cdf(),
    /// Inverse error function.
    erfinv(),
    /// log |gamma(x)|.
    lgamma(),
    /// Derivative of lgamma.
    digamma(),
    /// 1 / (1 + e^-x).
    sigmoid(),
    /// self^y.
    pow(y),
    /// sqrt(self^2 + y^2) without overflow.
    hypot(y),
    /// Modified Bessel function of the first kind, order 0.
    i0(),
}

/// An integer of an integer formula: `Wrapping` of a machine integer, so that overflow wraps in every build.
pub trait Int:
    Copy
    + Ord
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + Not<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The type has negative values.
    const SIGNED: bool;
    /// Truncates.
    fn of(v: i64) -> Self;
    /// Quotient rounded to zero; by zero it is 0 and `MIN / -1` wraps. Callers check for zeros first
    /// ([`crate::pointwise::has_zero`]).
    fn div_trunc(self, o: Self) -> Self;
    /// Remainder of `div_trunc`, with the sign of self; by zero it is 0.
    fn rem_trunc(self, o: Self) -> Self;
    /// Absolute value; `MIN` stays.
    fn abs(self) -> Self;
    /// `self << n`; 0 when `n` is negative or not below the width.
    fn shl(self, n: Self) -> Self;
    /// `self >> n` with the sign; all sign bits when `n` is negative or not below the width.
    fn shr(self, n: Self) -> Self;
    /// `self` to the power `e` by squaring, wrapping; a negative power of 1 and -1 is exact and of all else 0.
    fn pow(self, e: Self) -> Self;
    /// Quotient rounded down; by zero it is 0.
    #[inline(always)]
    fn div_floor(self, o: Self) -> Self {
        let q = self.div_trunc(o);
        let r = self.rem_trunc(o);
        if r != Self::ZERO && (r < Self::ZERO) != (o < Self::ZERO) { q - Self::ONE } else { q }
    }
    /// Remainder of `div_floor`, with the sign of `o`; by zero it is 0.
    #[inline(always)]
    fn rem_floor(self, o: Self) -> Self {
        let r = self.rem_trunc(o);
        if r != Self::ZERO && (r < Self::ZERO) != (o < Self::ZERO) { r + o } else { r }
    }
}
macro_rules! int {
    ($($t:ident),*) => {$(
        impl Int for Wrapping<$t> {
            const ZERO: Self = Wrapping(0);
            const ONE: Self = Wrapping(1);
            #[allow(unused_comparisons)]
            const SIGNED: bool = $t::MIN < 0;
            #[inline(always)]
            fn of(v: i64) -> Self {
                Wrapping(v as $t)
            }
            #[inline(always)]
            fn div_trunc(self, o: Self) -> Self {
                Wrapping(if o.0 == 0 { 0 } else { self.0.wrapping_div(o.0) })
            }
            #[inline(always)]
            fn rem_trunc(self, o: Self) -> Self {
                Wrapping(if o.0 == 0 { 0 } else { self.0.wrapping_rem(o.0) })
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn abs(self) -> Self {
                if self.0 < 0 { -self } else { self }
            }
            #[inline(always)]
            fn shl(self, n: Self) -> Self {
                let ok = (n.0 as u64) < $t::BITS as u64;
                Wrapping(if ok { self.0.wrapping_shl(n.0 as u32) } else { 0 })
            }
            #[inline(always)]
            fn shr(self, n: Self) -> Self {
                let ok = (n.0 as u64) < $t::BITS as u64;
                let last = if Self::SIGNED { self.0.wrapping_shr($t::BITS - 1) } else { 0 };
                Wrapping(if ok { self.0.wrapping_shr(n.0 as u32) } else { last })
            }
            #[inline(always)]
            fn pow(self, e: Self) -> Self {
                let minus_one = Self::SIGNED && self == -Self::ONE;
                if e < Self::ZERO {
                    return match self {
                        v if v == Self::ONE => v,
                        v if minus_one => if (e & Self::ONE) == Self::ZERO { Self::ONE } else { v },
                        _ => Self::ZERO,
                    };
                }
                let (mut base, mut e, mut r) = (self, e.0 as u64, Self::ONE);
                while e != 0 {
                    if e & 1 == 1 {
                        r *= base;
                    }
                    base *= base;
                    e >>= 1;
                }
                r
            }
        }
    )*};
}
int!(u8, i8, i16, i32, i64, u16, u32, u64);

/// A complex number over a [`Real`].
#[derive(Clone, Copy, PartialEq)]
pub struct Cx<V> {
    /// Real part.
    pub re: V,
    /// Imaginary part.
    pub im: V,
}
impl<V: Real> Cx<V> {
    /// From parts.
    #[inline(always)]
    pub fn new(re: V, im: V) -> Self {
        Cx { re, im }
    }
    /// A real constant.
    #[inline(always)]
    pub fn c(re: f64) -> Self {
        Cx { re: V::c(re), im: V::zero() }
    }
    /// i times self.
    #[inline(always)]
    pub fn mul_i(self) -> Self {
        Cx { re: -self.im, im: self.re }
    }
    /// -i times self.
    #[inline(always)]
    pub fn mul_neg_i(self) -> Self {
        Cx { re: self.im, im: -self.re }
    }
    /// Both parts times a real.
    #[inline(always)]
    pub fn scale(self, s: V) -> Self {
        Cx { re: self.re * s, im: self.im * s }
    }
    /// Magnitude.
    #[inline(always)]
    pub fn abs(self) -> V {
        self.re.hypot(self.im)
    }
    /// Angle in -pi..=pi.
    #[inline(always)]
    pub fn arg(self) -> V {
        self.im.atan2(self.re)
    }
    /// Complex conjugate.
    #[inline(always)]
    pub fn conj(self) -> Self {
        Cx { re: self.re, im: -self.im }
    }
    /// Either part is NaN.
    #[inline(always)]
    pub fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
    /// `r (cos t + i sin t)`.
    #[inline(always)]
    pub fn polar(r: V, t: V) -> Self {
        Cx { re: r * t.cos(), im: r * t.sin() }
    }
    /// Both parts are 0.
    #[inline(always)]
    pub fn is_zero(self) -> bool {
        self.re == V::zero() && self.im == V::zero()
    }
}
impl<V: Real> Add for Cx<V> {
    type Output = Self;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Cx { re: self.re + o.re, im: self.im + o.im }
    }
}
impl<V: Real> Sub for Cx<V> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Cx { re: self.re - o.re, im: self.im - o.im }
    }
}
impl<V: Real> Mul for Cx<V> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Cx { re: self.re * o.re - self.im * o.im, im: self.re * o.im + self.im * o.re }
    }
}
impl<V: Real> Div for Cx<V> {
    type Output = Self;
    /// Smith's formula, by the larger part of the divisor: it neither over- nor underflows early, and a divisor with one
    /// infinite part gives zero.
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        let (a, b, c, d) = (self.re, self.im, o.re, o.im);
        let flat = c.abs() >= d.abs();
        let (large, small) = (V::pick(flat, c, d), V::pick(flat, d, c));
        let ratio = small / large;
        let scale = (large + small * ratio).recip();
        let (x, y) = (V::pick(flat, a, b), V::pick(flat, b, a));
        let (re, im) = ((x + y * ratio) * scale, (y - x * ratio) * scale);
        // the other way round, the imaginary part changes its sign
        let im = V::pick(flat, im, -im);
        // a zero divisor divides each part by zero
        let zero = c == V::zero() && d == V::zero();
        Cx { re: V::pick(zero, a / c.abs(), re), im: V::pick(zero, b / d.abs(), im) }
    }
}
impl<V: Real> Neg for Cx<V> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Cx { re: -self.re, im: -self.im }
    }
}
