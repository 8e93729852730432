//! Conversions between element types, and streamed copies.

mod half_block;
mod pairs;

pub use half_block::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
pub use pairs::cast_loop;

/// f32 to float8 e4m3fn: nearest even; what exceeds 464 in magnitude, infinities and NaN become NaN.
#[inline]
pub fn f32_to_e4m3(v: f32) -> u8 {
    let bits = v.to_bits();
    let sign = (bits >> 24) as u8 & 0x80;
    let mag = bits & 0x7fff_ffff;
    // 480 = 2^8 * 1.875 would be the first value past the largest: its encoding is NaN's.
    if mag >= 0x43f0_0000 {
        return sign | 0x7f;
    }
    if mag < 0x3c80_0000 {
        // Below 2^-6: adding 2^14 leaves the subnormal steps of 2^-9 in the last bits, rounded by the adder.
        let magic = f32::from_bits(0x4680_0000);
        return sign | ((f32::from_bits(mag) + magic).to_bits() - 0x4680_0000) as u8;
    }
    let odd = mag >> 20 & 1;
    sign | ((mag - 0x3c00_0000 + 0x0007_ffff + odd) >> 20) as u8
}

/// f32 to float8 e5m2: nearest even; what is too large becomes infinite.
#[inline]
pub fn f32_to_e5m2(v: f32) -> u8 {
    let bits = v.to_bits();
    let sign = (bits >> 24) as u8 & 0x80;
    let mag = bits & 0x7fff_ffff;
    if mag > 0x7f80_0000 {
        return sign | 0x7f;
    }
    if mag >= 0x4780_0000 {
        return sign | 0x7c;
    }
    if mag < 0x3880_0000 {
        // Below 2^-14: steps of 2^-16.
        let magic = f32::from_bits(0x4300_0000);
        return sign | ((f32::from_bits(mag) + magic).to_bits() - 0x4300_0000) as u8;
    }
    let odd = mag >> 21 & 1;
    sign | ((mag - 0x3800_0000 + 0x000f_ffff + odd) >> 21) as u8
}

/// float8 e4m3fn to f32, exact.
#[inline]
pub fn e4m3_to_f32(v: u8) -> f32 {
    let sign = ((v & 0x80) as u32) << 24;
    let mag = (v & 0x7f) as u32;
    let out = if mag == 0x7f {
        0x7fc0_0000
    } else if mag < 8 {
        (mag as f32 * f32::from_bits(0x3b00_0000)).to_bits()
    } else {
        (mag << 20) + 0x3c00_0000
    };
    f32::from_bits(sign | out)
}

/// float8 e5m2 to f32, exact: it is the upper half of an f16.
#[inline]
pub fn e5m2_to_f32(v: u8) -> f32 {
    half::f16::from_bits((v as u16) << 8).to_f32()
}

/// Copies `bytes` (a multiple of 64, except at the end of a run) from an aligned buffer past the caches.
///
/// # Safety
/// Both pointers must be valid for `bytes` and 64-byte aligned.
pub(crate) unsafe fn stream_copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    let done = {
        use std::arch::x86_64::*;
        let whole = bytes / 64 * 64;
        // SAFETY: SSE2 is part of x86-64; both pointers are aligned and valid for `whole` bytes.
        unsafe {
            let mut i = 0;
            while i < whole {
                for j in 0..4 {
                    let v = _mm_load_si128(from.add(i + 16 * j).cast());
                    _mm_stream_si128(to.add(i + 16 * j).cast(), v);
                }
                i += 64;
            }
        }
        whole
    };
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    // SAFETY: the rest of both runs.
    unsafe { std::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done) }
}
/// Orders streamed stores before whatever publishes the output.
pub(crate) fn stream_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}
