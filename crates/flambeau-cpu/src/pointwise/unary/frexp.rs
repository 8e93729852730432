//! Numbers taken apart into mantissas and powers of two.

use crate::engine::SharedMut;
use crate::engine::erase::erased;
use crate::engine::parallel::parallel_for;
use crate::num::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::{Any, AnyMut, DType, Element};
use half::{bf16, f16};

/// Elements worth waking a thread for.
const GRAIN: usize = 16384;

/// A float whose halves go through f32, which holds all their values.
pub trait Parts: Element {
    /// A mantissa of magnitude in `0.5..1` and the power of two that it is multiplied by; zeros, infinities and NaN with
    /// the power 0.
    fn parts(self) -> (Self, i32);
}
/// `$bits` without the sign: exponents start at `$digits`, and are `$bias` for a mantissa in `0.5..1`.
macro_rules! parts {
    ($($t:ident $u:ident $digits:literal $bias:literal;)*) => {$(
        impl Parts for $t {
            #[inline]
            fn parts(self) -> ($t, i32) {
                if self == 0.0 || !self.is_finite() {
                    return (self, 0);
                }
                // subnormal numbers are made normal first
                const UP: $t = (1u64 << $digits) as $t;
                let (x, less) = if self.abs() < $t::MIN_POSITIVE { (self * UP, $digits) } else { (self, 0) };
                let bits = x.to_bits();
                let mask: $u = ((2 * $bias + 3) as $u) << ($digits - 1);
                let e = ((bits & mask) >> ($digits - 1)) as i32 - $bias;
                let m = $t::from_bits(bits & !mask | ($bias as $u) << ($digits - 1));
                (m, e - less)
            }
        }
    )*};
}
parts! {
    f32 u32 24 126;
    f64 u64 53 1022;
}
impl Parts for f16 {
    #[inline]
    fn parts(self) -> (f16, i32) {
        let (m, e) = f16_to_f32(self).parts();
        (f32_to_f16(m), e)
    }
}
impl Parts for bf16 {
    #[inline]
    fn parts(self) -> (bf16, i32) {
        let (m, e) = bf16_to_f32(self).parts();
        (f32_to_bf16(m), e)
    }
}

/// Mantissas and exponents of as many elements (`frexp`).
fn frexp<T: Parts>(x: &[T], mantissa: &mut [T], exponent: &mut [i32]) {
    assert!(mantissa.len() == x.len() && exponent.len() == x.len());
    let (mantissa, exponent) = (SharedMut::new(mantissa), SharedMut::new(exponent));
    parallel_for(x.len(), GRAIN, |r| {
        // SAFETY: the range is this task's own.
        let (m, e) = unsafe { (mantissa.slice(r.start, r.len()), exponent.slice(r.start, r.len())) };
        for ((x, m), e) in x[r].iter().zip(m).zip(e) {
            (*m, *e) = x.parts();
        }
    });
}

/// Kernels over slices of run-time type.
pub mod erased {
    use super::*;

    /// Mantissas and exponents; `None` for dtypes that are no floats of 16 bits or more.
    pub fn frexp(x: Any, mantissa: AnyMut, exponent: &mut [i32]) -> Option<()> {
        if !matches!(x.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
            return None;
        }
        erased!(x, T in [HALF, FLOAT], same(mantissa) => super::frexp::<T>(x.get(), mantissa.get(), exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_every_kind_of_number() {
        for (x, m, e) in [
            (3.0f32, 0.75, 2),
            (-0.1, -0.8, -3),
            (1e-45, 0.5, -148),
            (f32::MAX, 1.0 - 2f32.powi(-24), 128),
            (f32::MIN_POSITIVE, 0.5, -125),
            (1.0, 0.5, 1),
        ] {
            assert_eq!(x.parts(), (m, e));
        }
        for (x, m, e) in [(3.0f64, 0.75, 2), (5e-324, 0.5, -1073), (f64::MIN_POSITIVE, 0.5, -1021)] {
            assert_eq!(x.parts(), (m, e));
        }
        assert_eq!(f16::from_bits(1).parts(), (f16::from_f32(0.5), -23));
        assert_eq!(f64::INFINITY.parts(), (f64::INFINITY, 0));
        assert!((-0.0f32).parts().0.is_sign_negative());
        assert!(f32::NAN.parts().0.is_nan());
    }
}
