//! Blocks of f16 and bf16 to and from f32, with the hardware's conversions where there are any.

use half::f16;

use crate::engine::isa::{Isa, Job, Level, level, run};

struct Bf16Up(*const u16, *mut f32, usize);
impl Job for Bf16Up {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in 0..self.2 {
            // SAFETY: the callers of `bf16_to_f32` vouch for both runs.
            unsafe { *self.1.add(i) = f32::from_bits((*self.0.add(i) as u32) << 16) };
        }
    }
}
struct Bf16Down(*const f32, *mut u16, usize);
impl Job for Bf16Down {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for i in 0..self.2 {
            // SAFETY: the callers of `f32_to_bf16` vouch for both runs.
            unsafe {
                let v = *self.0.add(i);
                let b = v.to_bits();
                let rounded = (b.wrapping_add(0x7fff + (b >> 16 & 1)) >> 16) as u16;
                *self.1.add(i) = if v.is_nan() { 0x7fc0 } else { rounded };
            }
        }
    }
}

/// Widens `n` bf16 bit patterns.
///
/// # Safety
/// Both pointers must be valid for `n` elements that do not overlap.
pub unsafe fn bf16_to_f32(from: *const u16, to: *mut f32, n: usize) {
    run(Bf16Up(from, to, n))
}
/// Rounds `n` floats to bf16 bit patterns, to nearest even.
///
/// # Safety
/// Both pointers must be valid for `n` elements that do not overlap.
pub unsafe fn f32_to_bf16(from: *const f32, to: *mut u16, n: usize) {
    run(Bf16Down(from, to, n))
}
/// Widens `n` f16 bit patterns.
///
/// # Safety
/// Both pointers must be valid for `n` elements that do not overlap.
pub unsafe fn f16_to_f32(from: *const u16, to: *mut f32, n: usize) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::V3 {
        // SAFETY: V3 implies F16C and AVX; the caller vouches for the runs.
        done = unsafe { x86::up(from, to, n) };
    }
    let _ = (level(), Level::V3);
    for i in done..n {
        // SAFETY: the caller vouches for the runs.
        unsafe { *to.add(i) = f16::from_bits(*from.add(i)).to_f32() };
    }
}
/// Rounds `n` floats to f16 bit patterns, to nearest even.
///
/// # Safety
/// Both pointers must be valid for `n` elements that do not overlap.
pub unsafe fn f32_to_f16(from: *const f32, to: *mut u16, n: usize) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::V3 {
        // SAFETY: V3 implies F16C and AVX; the caller vouches for the runs.
        done = unsafe { x86::down(from, to, n) };
    }
    for i in done..n {
        // SAFETY: the caller vouches for the runs.
        unsafe { *to.add(i) = f16::from_f32(*from.add(i)).to_bits() };
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
