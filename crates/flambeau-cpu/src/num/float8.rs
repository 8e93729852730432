//! Conversions between f32 and the 8-bit floats.

use super::half::f16_to_f32;

/// f32 to float8 e4m3fn: nearest even; what is too large, infinities included, becomes the largest value.
#[inline]
pub fn f32_to_e4m3(v: f32) -> u8 {
    let bits = v.to_bits();
    let sign = (bits >> 24) as u8 & 0x80;
    let mag = bits & 0x7fff_ffff;
    // From 448 on everything is the largest value: the next encoding is NaN's.
    if mag > 0x7f80_0000 {
        return sign | 0x7f;
    }
    if mag >= 0x43e0_0000 {
        return sign | 0x7e;
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
    f16_to_f32(half::f16::from_bits((v as u16) << 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float8_round_trips_and_rounds_to_even() {
        for b in 0..=255u8 {
            let (x, y) = (e4m3_to_f32(b), e5m2_to_f32(b));
            assert!(x.is_nan() && b & 0x7f == 0x7f || f32_to_e4m3(x) == b, "{b} {x}");
            assert!(y.is_nan() && b & 0x7f > 0x7c || f32_to_e5m2(y) == b, "{b} {y}");
        }
        for (x, want) in [(448.0, 0x7e), (464.0, 0x7e), (465.0, 0x7e), (f32::INFINITY, 0x7e), (-1.0625, 0xb8)]
        {
            assert_eq!(f32_to_e4m3(x), want, "{x}");
        }
        for (x, want) in [(57344.0, 0x7b), (61439.0, 0x7b), (61440.0, 0x7c), (1e-9, 0), (1.125, 0x3c)] {
            assert_eq!(f32_to_e5m2(x), want, "{x}");
        }
    }
}
