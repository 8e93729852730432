//! f32 functions on AVX-512 by vectors of sixteen. A lookup among thirty-two numbers is one instruction there, so tables replace most of
//! the terms that [`super::single`] computes: the exponential takes half as long, the hyperbolic tangent a third. The compiler
//! finds such lookups in no loop over single numbers, hence the vectors by hand.

use crate::engine::isa::{Level, level};

#[cfg(target_arch = "x86_64")]
mod tables;

/// Whether this machine can run the functions of this module.
#[inline]
pub(crate) fn available() -> bool {
    cfg!(target_arch = "x86_64") && level() == Level::V4
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use super::tables::*;
    use std::arch::x86_64::*;

    /// All lanes the same number.
    ///
    /// # Safety
    /// As all functions here: the machine has AVX-512 F.
    #[inline(always)]
    unsafe fn all(x: f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_ps(x) }
    }
    /// The numbers of a table at the low five bits of each index.
    ///
    /// # Safety
    /// As [`all`].
    #[inline(always)]
    unsafe fn look(table: &[f32; 32], at: __m512i) -> __m512 {
        // SAFETY: a table has two vectors; the caller's promise.
        unsafe {
            let (low, high) = (_mm512_loadu_ps(table.as_ptr()), _mm512_loadu_ps(table.as_ptr().add(16)));
            _mm512_permutex2var_ps(low, at, high)
        }
    }
    /// `2^(j / 32)` from a table, times `e^r` for the rest |r| <= ln(2) / 64, by a polynomial. At most 0.53 units in the last place; below
    /// the smallest normal number a second rounding comes to it.
    ///
    /// # Safety
    /// As [`all`].
    #[inline(always)]
    pub(super) unsafe fn exp(x: __m512) -> __m512 {
        /// Adding it leaves the nearest multiple of 1/32, whose low bits are the place in the table.
        const ROUND: f32 = 393_216.0;
        const LN2_REST: f32 = (std::f64::consts::LN_2 - std::f32::consts::LN_2 as f64) as f32;
        // SAFETY: the caller's promise.
        unsafe {
            // of two operands, one of them NaN, both instructions give the second
            let x = _mm512_max_ps(all(-105.0), _mm512_min_ps(all(89.0), x));
            let t = _mm512_fmadd_ps(x, all(std::f32::consts::LOG2_E), all(ROUND));
            let n = _mm512_sub_ps(t, all(ROUND));
            let r = _mm512_fnmadd_ps(n, all(std::f32::consts::LN_2), x);
            let r = _mm512_fnmadd_ps(n, all(LN2_REST), r);
            let at = _mm512_castps_si512(t);
            let (hi, lo) = (look(&EXP_HI, at), look(&EXP_LO, at));
            let q = _mm512_fmadd_ps(r, all(0.166_667_57), all(0.500_004_05));
            let p = _mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r);
            let y = _mm512_add_ps(hi, _mm512_fmadd_ps(hi, p, lo));
            // times 2 to the whole part of n, with one rounding where that is too large or too small for a number
            _mm512_scalef_ps(y, n)
        }
    }
    /// A polynomial for each quarter of a binade from 1/8 to 10, one of its own below, around centres whose results are nearly
    /// float32 numbers. At most 0.52 units in the last place.
    ///
    /// # Safety
    /// As [`all`].
    #[inline(always)]
    pub(super) unsafe fn tanh(x: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let sign = _mm512_castps_si512(all(-0.0));
            let bits = _mm512_castps_si512(x);
            let a = _mm512_castsi512_ps(_mm512_andnot_si512(sign, bits));
            // the second operand where one is NaN
            let a = _mm512_min_ps(all(10.0), a);
            let small = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, all(0.125));
            let at = _mm512_srli_epi32::<21>(_mm512_castps_si512(_mm512_max_ps(a, all(0.0625))));
            let t = _mm512_sub_ps(a, look(&TANH_C, at));
            let p = _mm512_fmadd_ps(look(&TANH_6, at), t, look(&TANH_5, at));
            let p = _mm512_fmadd_ps(p, t, look(&TANH_4, at));
            let p = _mm512_fmadd_ps(p, t, look(&TANH_3, at));
            let p = _mm512_fmadd_ps(p, t, look(&TANH_2, at));
            // a small number is its own first approximation
            let first = _mm512_mask_blend_ps(small, look(&TANH_0, at), t);
            // the straight line, what its rounding took away, and the rest, so that one rounding is all that counts
            let slope = look(&TANH_1, at);
            let line = _mm512_fmadd_ps(slope, t, first);
            let lost = _mm512_fmadd_ps(slope, t, _mm512_sub_ps(first, line));
            let y = _mm512_add_ps(line, _mm512_fmadd_ps(p, _mm512_mul_ps(t, t), lost));
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xd8>(_mm512_castps_si512(y), bits, sign))
        }
    }
    /// `1 + e^-x`.
    ///
    /// # Safety
    /// As [`all`].
    #[inline(always)]
    unsafe fn one_and_exp(x: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let minus = _mm512_xor_si512(_mm512_castps_si512(x), _mm512_castps_si512(all(-0.0)));
            _mm512_add_ps(all(1.0), exp(_mm512_castsi512_ps(minus)))
        }
    }
    /// `1 / (1 + e^-x)`.
    ///
    /// # Safety
    /// As [`all`].
    #[inline(always)]
    pub(super) unsafe fn sigmoid(x: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_div_ps(all(1.0), one_and_exp(x)) }
    }
    /// `x / (1 + e^-x)`.
    ///
    /// # Safety
    /// As [`all`].
    #[inline(always)]
    pub(super) unsafe fn silu(x: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_div_ps(x, one_and_exp(x)) }
    }
    /// x times the normal distribution function, which is 0 and 1 exactly from 6 on: a half and an odd function by a polynomial for each
    /// quarter of a binade. The function's error is at most 6e-8.
    ///
    /// # Safety
    /// As [`all`].
    #[inline(always)]
    pub(super) unsafe fn gelu(x: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let sign = _mm512_castps_si512(all(-0.0));
            let bits = _mm512_castps_si512(x);
            let a = _mm512_castsi512_ps(_mm512_andnot_si512(sign, bits));
            // the second operand where one is NaN
            let a = _mm512_min_ps(all(6.0), a);
            let at = _mm512_srli_epi32::<21>(_mm512_castps_si512(_mm512_max_ps(a, all(0.0625))));
            let t = _mm512_sub_ps(a, look(&NORMAL_C, at));
            let p = _mm512_fmadd_ps(look(&NORMAL_6, at), t, look(&NORMAL_5, at));
            let p = _mm512_fmadd_ps(p, t, look(&NORMAL_4, at));
            let p = _mm512_fmadd_ps(p, t, look(&NORMAL_3, at));
            let p = _mm512_fmadd_ps(p, t, look(&NORMAL_2, at));
            let p = _mm512_fmadd_ps(p, t, look(&NORMAL_1, at));
            let y = _mm512_castps_si512(_mm512_fmadd_ps(p, t, look(&NORMAL_0, at)));
            let y = _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xd8>(y, bits, sign));
            _mm512_mul_ps(x, _mm512_add_ps(y, all(0.5)))
        }
    }
    /// `x / (1 + e^-y)` with `y = 2 sqrt(2 / pi) (x + 0.044715 x^3)`: gelu by a tanh.
    ///
    /// # Safety
    /// As [`all`].
    #[inline(always)]
    pub(super) unsafe fn gelu_tanh(x: __m512) -> __m512 {
        /// `2 sqrt(2 / pi)`.
        const LINEAR: f32 = 1.595_769_1;
        const CUBIC: f32 = (0.044_715 * 1.595_769_121_605_730_7) as f32;
        // SAFETY: the caller's promise.
        unsafe {
            let y = _mm512_mul_ps(x, _mm512_fmadd_ps(_mm512_mul_ps(x, x), all(CUBIC), all(LINEAR)));
            _mm512_div_ps(x, one_and_exp(y))
        }
    }
}

/// Loops of these functions over `n` numbers, two vectors at a time: each waits for its own steps.
macro_rules! loops {
    ($($(#[$m:meta])* $name:ident;)*) => {$(
        $(#[$m])*
        ///
        /// # Safety
        /// [`available`] said yes; both places are valid for `n` numbers, and they are the very same or do not overlap.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        pub(crate) unsafe fn $name(to: *mut f32, from: *const f32, n: usize) {
            use std::arch::x86_64::*;
            const L: usize = 16;
            let mut i = 0;
            // SAFETY: the caller's promise; a mask has the lanes that are left.
            unsafe {
                while i + 2 * L <= n {
                    let (a, b) = (_mm512_loadu_ps(from.add(i)), _mm512_loadu_ps(from.add(i + L)));
                    let (a, b) = (vectors::$name(a), vectors::$name(b));
                    _mm512_storeu_ps(to.add(i), a);
                    _mm512_storeu_ps(to.add(i + L), b);
                    i += 2 * L;
                }
                while i < n {
                    let mask = (u32::MAX >> (32 - (n - i).min(L))) as __mmask16;
                    let y = vectors::$name(_mm512_maskz_loadu_ps(mask, from.add(i)));
                    _mm512_mask_storeu_ps(to.add(i), mask, y);
                    i += L;
                }
            }
        }
        $(#[$m])*
        ///
        /// # Safety
        /// It is never called: nothing is [`available`] here.
        #[cfg(not(target_arch = "x86_64"))]
        pub(crate) unsafe fn $name(_: *mut f32, _: *const f32, _: usize) {}
    )*};
}
loops! {
    /// `e^x` of each number.
    exp;
    /// Hyperbolic tangent of each number.
    tanh;
    /// `1 / (1 + e^-x)` of each number.
    sigmoid;
    /// `x / (1 + e^-x)` of each number.
    silu;
    /// Gelu of each number.
    gelu;
    /// Gelu by a tanh of each number.
    gelu_tanh;
}
