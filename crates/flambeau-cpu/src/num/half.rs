//! The one set of conversions between f32 and the 16-bit floats: single values in a form that vectorises, and blocks with
//! the hardware's conversions where there are any. Rounding is to nearest, ties to even.
//!
//! NaN are PyTorch's: float16 keeps sign and payload as the hardware does (a signalling NaN becomes quiet), bfloat16 gives
//! [`BF16_NAN`]; only PyTorch's vector code for dense casts from float32 gives [`BF16_NAN_DENSE`] instead. Widening a
//! bfloat16 keeps all bits.

use half::{bf16, f16};

use crate::engine::isa::{Isa, Job, Level, level, run};

/// The NaN of a rounded bfloat16.
pub const BF16_NAN: u16 = 0x7fc0;
/// The NaN of a dense cast from float32 to bfloat16.
pub const BF16_NAN_DENSE: u16 = 0xffff;

/// Exact widening of a half.
#[inline(always)]
pub fn f16_to_f32(h: f16) -> f32 {
    let b = h.to_bits() as u32;
    let em = b & 0x7fff;
    // 2^112 moves the exponent from the half's bias to the single's, subnormals included; infinities stay, and NaN become
    // quiet.
    let v = if em >= 0x7c00 { em << 13 | 0x7f80_0000 } else { em << 13 };
    let v = (f32::from_bits(v) * f32::from_bits(0x7780_0000)).to_bits();
    f32::from_bits(v | (b & 0x8000) << 16)
}
/// Rounding to a half.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> f16 {
    let b = x.to_bits();
    let a = b & 0x7fff_ffff;
    let normal = a.wrapping_sub(112 << 23).wrapping_add(0xfff + ((a >> 13) & 1)) >> 13;
    let sub = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let big = if a > 0x7f80_0000 { 0x7e00 | (a >> 13) & 0x3ff } else { 0x7c00 };
    let r = if a < 0x3880_0000 { sub } else { normal };
    let r = if a >= 0x4780_0000 { big } else { r };
    f16::from_bits((r | (b >> 16) & 0x8000) as u16)
}
/// Exact widening of a bfloat16.
#[inline(always)]
pub fn bf16_to_f32(h: bf16) -> f32 {
    f32::from_bits((h.to_bits() as u32) << 16)
}
/// Rounding to a bfloat16.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> bf16 {
    bf16::from_bits(bf16_bits(x, BF16_NAN))
}
#[inline(always)]
fn bf16_bits(x: f32, nan: u16) -> u16 {
    let b = x.to_bits();
    let rounded = (b.wrapping_add(0x7fff + (b >> 16 & 1)) >> 16) as u16;
    if x.is_nan() { nan } else { rounded }
}

struct WidenBf16(*const u16, *mut f32, usize);
impl Job for WidenBf16 {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in 0..self.2 {
            // SAFETY: the callers of `widen_bf16` vouch for both runs.
            unsafe { *self.1.add(i) = f32::from_bits((*self.0.add(i) as u32) << 16) };
        }
    }
}
struct RoundBf16(*const f32, *mut u16, usize, u16);
impl Job for RoundBf16 {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in 0..self.2 {
            // SAFETY: the callers of `round_bf16` vouch for both runs.
            unsafe { *self.1.add(i) = bf16_bits(*self.0.add(i), self.3) };
        }
    }
}

/// Widens `n` bf16 bit patterns.
///
/// # Safety
/// Both pointers must be valid for `n` elements that do not overlap.
pub unsafe fn widen_bf16(from: *const u16, to: *mut f32, n: usize) {
    run(WidenBf16(from, to, n))
}
/// Rounds `n` floats to bf16 bit patterns.
///
/// # Safety
/// Both pointers must be valid for `n` elements that do not overlap.
pub unsafe fn round_bf16(from: *const f32, to: *mut u16, n: usize) {
    run(RoundBf16(from, to, n, BF16_NAN))
}
/// As [`round_bf16`], with the NaN of a dense cast.
///
/// # Safety
/// As for [`round_bf16`].
pub unsafe fn round_bf16_dense(from: *const f32, to: *mut u16, n: usize) {
    run(RoundBf16(from, to, n, BF16_NAN_DENSE))
}
/// Widens `n` f16 bit patterns.
///
/// # Safety
/// Both pointers must be valid for `n` elements that do not overlap.
pub unsafe fn widen_f16(from: *const u16, to: *mut f32, n: usize) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::V3 {
        // SAFETY: V3 implies F16C and AVX; the caller vouches for the runs.
        done = unsafe { x86::up(from, to, n) };
    }
    let _ = (level(), Level::V3);
    for i in done..n {
        // SAFETY: the caller vouches for the runs.
        unsafe { *to.add(i) = f16_to_f32(f16::from_bits(*from.add(i))) };
    }
}
/// Rounds `n` floats to f16 bit patterns.
///
/// # Safety
/// Both pointers must be valid for `n` elements that do not overlap.
pub unsafe fn round_f16(from: *const f32, to: *mut u16, n: usize) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::V3 {
        // SAFETY: V3 implies F16C and AVX; the caller vouches for the runs.
        done = unsafe { x86::down(from, to, n) };
    }
    for i in done..n {
        // SAFETY: the caller vouches for the runs.
        unsafe { *to.add(i) = f32_to_f16(*from.add(i)).to_bits() };
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx,f16c")]
    pub(super) unsafe fn up(from: *const u16, to: *mut f32, n: usize) -> usize {
        let whole = n / 8 * 8;
        for i in (0..whole).step_by(8) {
            // SAFETY: the caller vouches for n elements.
            unsafe { _mm256_storeu_ps(to.add(i), _mm256_cvtph_ps(_mm_loadu_si128(from.add(i).cast()))) };
        }
        whole
    }
    #[target_feature(enable = "avx,f16c")]
    pub(super) unsafe fn down(from: *const f32, to: *mut u16, n: usize) -> usize {
        let whole = n / 8 * 8;
        for i in (0..whole).step_by(8) {
            // SAFETY: the caller vouches for n elements.
            unsafe {
                let h = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.add(i)));
                _mm_storeu_si128(to.add(i).cast(), h);
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_goes_up_and_back() {
        for b in 0..=u16::MAX {
            let (h, v) = (f16::from_bits(b), f16_to_f32(f16::from_bits(b)));
            let quiet = if h.is_nan() { b | 0x200 } else { b };
            assert!(v.to_bits() == h.to_f32().to_bits() && f32_to_f16(v).to_bits() == quiet, "{b:#x}");
            let (h, v) = (bf16::from_bits(b), bf16_to_f32(bf16::from_bits(b)));
            assert_eq!(v.to_bits(), (b as u32) << 16);
            assert_eq!(f32_to_bf16(v).to_bits(), if h.is_nan() { BF16_NAN } else { b });
        }
    }

    #[test]
    fn blocks_round_as_single_values() {
        let x: Vec<f32> = (0..100_003u32).map(|i| f32::from_bits(i.wrapping_mul(42_949))).collect();
        let mut out = vec![0u16; x.len()];
        // SAFETY: runs of the same length.
        unsafe { round_f16(x.as_ptr(), out.as_mut_ptr(), x.len()) };
        for (x, got) in x.iter().zip(&out) {
            let want = f16::from_f32(*x).to_bits();
            assert!(
                *got == want && f32_to_f16(*x).to_bits() == want,
                "{:#x}: {got:#x}, not {want:#x}",
                x.to_bits()
            );
        }
        for (round, nan) in [(round_bf16 as unsafe fn(_, _, _), BF16_NAN), (round_bf16_dense, BF16_NAN_DENSE)]
        {
            // SAFETY: runs of the same length.
            unsafe { round(x.as_ptr(), out.as_mut_ptr(), x.len()) };
            for (x, got) in x.iter().zip(&out) {
                let want = if x.is_nan() { nan } else { bf16::from_f32(*x).to_bits() };
                assert_eq!(*got, want, "{:#x}", x.to_bits());
            }
        }
    }

    #[test]
    fn nan_keep_what_pytorch_keeps() {
        let bits = [
            0x7f80_0001,
            0x7fc0_0000,
            0x7fc1_2345,
            0xffc0_0000,
            0xffff_ffff,
            0x7fff_ffff,
            0x7f81_0000,
            0xff81_2345u32,
        ];
        let want = [0x7e00, 0x7e00, 0x7e09, 0xfe00, 0xffff, 0x7fff, 0x7e08, 0xfe09];
        assert_eq!(bits.map(|b| f32_to_f16(f32::from_bits(b)).to_bits()), want);
        assert_eq!(f16_to_f32(f16::from_bits(0x7c01)).to_bits(), 0x7fc0_2000);
        assert_eq!(f16_to_f32(f16::from_bits(0xfc01)).to_bits(), 0xffc0_2000);
    }
}
