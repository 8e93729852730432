//! Sine and cosine. In f32 they are computed in f64, with a reduction that is exact enough up to a million; blocks with larger
//! arguments (or infinite ones) are computed again, one by one.

use std::mem::MaybeUninit;

use crate::DType;
use crate::engine::isa::{Isa, Job, Level, run};
use crate::pointwise;
use crate::pointwise::complex_math as s;
use crate::pointwise::convert::Conv;
use crate::pointwise::strided::{LoopFn, Slot};
use crate::pointwise::{Loop, Param, Pointwise};

/// The argument to which the reduction keeps full accuracy: its multiple of pi has at most 20 bits.
const LIMIT: f32 = 1.0e6;
/// pi in two parts; the first has 33 bits, so that its products with 20 bits are exact.
const PI_HI: f64 = 3.141_592_653_468_251_2;
const PI_LO: f64 = 1.215_420_101_301_238_4e-10;
/// Adding it leaves the nearest integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Sine of `x`, or its cosine, for |x| up to [`LIMIT`]: at most 0.52 units in the last place. With `x = n pi + r` both are a
/// polynomial in r^2 but for a factor that has their zero, and the sign of (-1)^n: one polynomial in f64 costs what two in f32
/// do, of which one is thrown away.
#[inline(always)]
pub(crate) fn sin_cos<I: Isa, const COS: bool>(x: f32) -> f32 {
    let d = x as f64;
    let (n, sign) = if I::FMA {
        let t = I::fma64(d, std::f64::consts::FRAC_1_PI, ROUND);
        (t - ROUND, t.to_bits() << 63)
    } else {
        // where products of f64 are dear; n may be the other neighbour of a half
        const ROUND: f32 = 12_582_912.0;
        let t = x * std::f32::consts::FRAC_1_PI + ROUND;
        ((t - ROUND) as f64, (t.to_bits() as u64) << 63)
    };
    let r = I::fma64(n, -PI_LO, I::fma64(n, -PI_HI, d));
    let z = r * r;
    let (v, factor) = if COS {
        // cos r = ((pi / 2)^2 - r^2) P(r^2)
        let p = I::fma64(2.579_235_593_475_665e-7, z, -2.410_684_174_422_425_4e-5);
        let p = I::fma64(p, z, 1.329_315_713_200_145_6e-3);
        let p = I::fma64(p, z, -3.838_664_346_335_746e-2);
        let p = I::fma64(p, z, 4.052_847_341_713_001e-1);
        let half = std::f64::consts::FRAC_PI_2;
        let zero = if I::FMA { I::fma64(-r, r, half * half) } else { (half - r) * (half + r) };
        (p, zero)
    } else {
        // sin r = r (1 + r^2 P(r^2)): multiplied at last, since a sum would lose the sign of zero
        let p = I::fma64(-2.388_879_015_705_027_7e-8, z, 2.752_537_779_892_038e-6);
        let p = I::fma64(p, z, -1.984_086_808_352_689e-4);
        let p = I::fma64(p, z, 8.333_331_107_658_031e-3);
        let p = I::fma64(p, z, -1.666_666_662_612_774e-1);
        (I::fma64(p, z, 1.0), r)
    };
    (v * f64::from_bits(factor.to_bits() ^ sign)) as f32
}

struct Trig<'a, const COS: bool>(&'a mut [MaybeUninit<f32>], &'a [f32]);
impl<const COS: bool> Job for Trig<'_, COS> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        const BLOCK: usize = 512;
        for (out, x) in self.0.chunks_mut(BLOCK).zip(self.1.chunks(BLOCK)) {
            let mut large = 0u32;
            for (o, x) in out.iter_mut().zip(x) {
                // Infinities and NaN compare as larger too.
                large |= (x.to_bits() & 0x7fff_ffff > LIMIT.to_bits()) as u32;
                o.write(sin_cos::<I, COS>(*x));
            }
            if large != 0 {
                one_by_one::<COS>(out, x);
            }
        }
    }
}
#[cold]
#[inline(never)]
fn one_by_one<const COS: bool>(out: &mut [MaybeUninit<f32>], x: &[f32]) {
    for (o, x) in out.iter_mut().zip(x) {
        if x.abs() > LIMIT || x.is_nan() {
            o.write(if COS { x.cos() } else { x.sin() });
        }
    }
}
unsafe fn kernel<const COS: bool>(
    out: &mut [MaybeUninit<u8>],
    ins: [*const u8; 3],
    n: usize,
    _: *const Param,
    _: u8,
) {
    // SAFETY: the callers of a kernel pass `n` f32 elements in each run.
    unsafe {
        let out = std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), n);
        run(Trig::<COS>(out, std::slice::from_raw_parts(ins[0].cast(), n)));
    }
}

pointwise! {
    /// The other dtypes of [`SIN`].
    SIN_WIDE = "sin"(x) cost 600 { float_scalar => x.sin(), complex => s::complex_sinh(x.mul_i()).mul_neg_i() }
    /// The other dtypes of [`COS`].
    COS_WIDE = "cos"(x) cost 600 { float_scalar => x.cos(), complex => s::complex_cosh(x.mul_i()) }
}
fn lookup<const COS: bool>(d: DType, l: Level) -> Option<Loop> {
    let conv = match d {
        DType::F32 => Conv::None,
        DType::F16 => Conv::F16,
        DType::BF16 => Conv::BF16,
        _ => return (if COS { COS_WIDE.lookup } else { SIN_WIDE.lookup })(d, l),
    };
    let slot = Slot { work: 4, conv };
    let kernel = Some(kernel::<COS> as crate::pointwise::Kernel);
    let run = LoopFn { kernel, prepare: None, inputs: 1, params: 0, forms: false, out: slot, ins: [slot; 3] };
    Some(Loop { run, out: d, ins: [d; 3] })
}
/// Sine.
pub static SIN: Pointwise =
    Pointwise { name: "sin", inputs: 1, params: 0, cost: 600, lookup: lookup::<false> };
/// Cosine.
pub static COS: Pointwise =
    Pointwise { name: "cos", inputs: 1, params: 0, cost: 600, lookup: lookup::<true> };

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(op: &Pointwise, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0f32; x.len()];
        let l = op.find(DType::F32).unwrap();
        let ptrs = [out.as_mut_ptr().cast::<u8>(), x.as_ptr() as *mut u8];
        // SAFETY: dense runs of f32.
        unsafe { l.run.call(ptrs.as_ptr(), [4, 4].as_ptr(), x.len(), std::ptr::null(), 0) };
        out
    }

    #[test]
    fn hardly_more_than_their_rounding_error() {
        let mut x: Vec<f32> = (0..60_000).map(|i| (i as f32 - 30_000.0) * 0.003_7).collect();
        // All magnitudes, and the multiples of pi/2 where the result is tiny.
        x.extend((0..4000).map(|i| f32::from_bits(0x3000_0000 + i * 0x1_3579)));
        x.extend((0..8000).map(|i| (i as f64 * std::f64::consts::FRAC_PI_2 * 37.0) as f32));
        for (op, exact) in [(&SIN, f64::sin as fn(f64) -> f64), (&COS, f64::cos)] {
            for (x, y) in x.iter().zip(apply(op, &x)) {
                let want = exact(*x as f64);
                let ulp = 2f64.powi((want.abs().log2().floor() as i32).max(-126) - 23);
                assert!((y as f64 - want).abs() <= 0.52 * ulp, "{}({x}) = {y}, not {want}", op.name);
            }
        }
    }

    #[test]
    fn edges() {
        let y = apply(&SIN, &[0.0, -0.0, f32::INFINITY, f32::NAN, 1e30, 1.0]);
        assert!(y[0].to_bits() == 0 && y[1].to_bits() == 1 << 31 && y[2].is_nan() && y[3].is_nan());
        assert_eq!(y[4], (1e30f32 as f64).sin() as f32);
        assert!(apply(&COS, &[f32::NEG_INFINITY])[0].is_nan());
    }
}
