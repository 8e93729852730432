//! Uniform and normal.

use super::Generator;
use super::bulk::{RandomFloat, unit24, unit53};
use crate::engine::isa::{self, Isa, Job};
use flambeau_dtype::DType;

/// Elements per pass of [`Generator::normal`]: small enough for the first-level cache.
const PASS: usize = 2048;

/// Natural logarithm of a float32 in (0, 1], the Cephes polynomial in fused steps.
#[inline(always)]
fn log_unit(u: f32) -> f32 {
    let bits = u.to_bits();
    let mut e = (bits >> 23) as i32 as f32 - 126.0;
    let m = f32::from_bits((bits & 0x007f_ffff) | 0x3f00_0000);
    let low = m < 0.707_106_781_186_547_5;
    let mut x = m - 1.0;
    e -= if low { 1.0 } else { 0.0 };
    x += if low { m } else { 0.0 };
    let z = x * x;
    let mut y = 7.037_683_629_2e-2_f32;
    y = y.mul_add(x, -1.151_461_031_0e-1);
    y = y.mul_add(x, 1.167_699_874_0e-1);
    y = y.mul_add(x, -1.242_014_084_6e-1);
    y = y.mul_add(x, 1.424_932_278_7e-1);
    y = y.mul_add(x, -1.666_805_766_5e-1);
    y = y.mul_add(x, 2.000_071_476_5e-1);
    y = y.mul_add(x, -2.499_999_399_3e-1);
    y = y.mul_add(x, 3.333_333_117_4e-1);
    y *= x;
    y = y.mul_add(z, e * -2.121_944_40e-4);
    y = (-z).mul_add(0.5, y);
    e.mul_add(0.693_359_375, x + y)
}

/// Sine and cosine of a float32 in [0, 2 pi], the Cephes polynomials in fused steps.
#[inline(always)]
fn sin_cos_turn(theta: f32) -> (f32, f32) {
    // The octant, rounded up to even. Adding 2^23 leaves the integer in the low bits.
    let octant = (theta * 1.273_239_544_735_16).floor() + 8_388_608.0;
    let j = ((octant.to_bits() & 0xff) + 1) & !1;
    let y = j as i32 as f32;
    let mut x = y.mul_add(-0.785_156_25, theta);
    x = y.mul_add(-2.418_756_484_985_351_6e-4, x);
    x = y.mul_add(-3.774_894_977_445_941e-8, x);
    let z = x * x;
    let mut c = 2.443_315_711_809_948e-5_f32;
    c = c.mul_add(z, -1.388_731_625_493_765e-3);
    c = c.mul_add(z, 4.166_664_568_298_827e-2);
    c *= z;
    c = c.mul_add(z, -(z * 0.5)) + 1.0;
    let mut s = -1.951_529_589_1e-4_f32;
    s = s.mul_add(z, 8.332_160_873_6e-3);
    s = s.mul_add(z, -1.666_665_461_1e-1);
    s *= z;
    s = s.mul_add(x, x);
    let swap = j & 2 != 0;
    let (sin, cos) = if swap { (c, s) } else { (s, c) };
    let sin_sign = (j & 4) << 29;
    let cos_sign = (!j.wrapping_sub(2) & 4) << 29;
    (f32::from_bits(sin.to_bits() ^ sin_sign), f32::from_bits(cos.to_bits() ^ cos_sign))
}

/// Box-Muller over blocks of 16 uniforms: element j of the first half pairs with element j of the second.
struct Normal32<'a>(&'a mut [f32], f32, f32);
impl Job for Normal32<'_> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Normal32(data, mean, std) = self;
        for block in data.chunks_exact_mut(16) {
            let (a, b) = block.split_at_mut(8);
            for j in 0..8 {
                let radius = (-2.0 * log_unit(1.0 - a[j])).sqrt();
                let (sin, cos) = sin_cos_turn(std::f32::consts::TAU * b[j]);
                a[j] = (radius * cos).mul_add(std, mean);
                b[j] = (radius * sin).mul_add(std, mean);
            }
        }
    }
}

fn normal64(data: &mut [f64], mean: f64, std: f64) {
    for block in data.chunks_exact_mut(16) {
        let (a, b) = block.split_at_mut(8);
        for j in 0..8 {
            let radius = (-2.0 * (1.0 - a[j]).ln()).sqrt();
            let theta = std::f64::consts::TAU * b[j];
            a[j] = (radius * theta.cos()).mul_add(std, mean);
            b[j] = (radius * theta.sin()).mul_add(std, mean);
        }
    }
}

impl Generator {
    /// Uniform on [from, to) (`uniform_`): one word per element, two for float64.
    pub fn uniform<T: RandomFloat>(&mut self, out: &mut [T], from: f64, to: f64) {
        let (low, high) = (T::of_f64(from), T::of_f64(to));
        // The conversion can round up to the excluded end; PyTorch then takes the other end.
        if T::WIDE {
            let range = to - from;
            self.map64(out, |w| {
                let v = T::of_f64(unit53(w).mul_add(range, from));
                if v == high { low } else { v }
            });
        } else {
            let (from, range) = (from as f32, to as f32 - from as f32);
            self.map32(out, |w| {
                let v = T::of_f32(unit24(w).mul_add(range, from));
                if v == high { low } else { v }
            });
        }
    }

    /// Normal with `mean` and `std` (`normal_`, `randn`) for a contiguous tensor. Fewer than 16 elements take
    /// [`Generator::normal_serial`]; more are made in blocks of 16, and if the length is not a multiple of 16 the last 16
    /// are drawn again.
    pub fn normal<T: RandomFloat>(&mut self, out: &mut [T], mean: f64, std: f64) {
        let n = out.len();
        if n < 16 {
            return self.normal_serial(out, mean, std);
        }
        let whole = n - n % 16;
        if T::WIDE {
            let mut pass = [0f64; PASS];
            self.passes(&mut out[..whole], &mut pass, |g, p| g.blocks64(p, mean, std), T::of_f64);
            if whole < n {
                (whole..n).for_each(|_| _ = self.random64());
                self.passes(&mut out[n - 16..], &mut pass, |g, p| g.blocks64(p, mean, std), T::of_f64);
            }
            return;
        }
        let (mean, std) = (mean as f32, std as f32);
        let mut pass = [0f32; PASS];
        let run = |g: &mut Generator, p: &mut [f32]| g.blocks32(p, mean, std);
        let is_f32 = T::DTYPE == DType::F32;
        let mut go = |g: &mut Generator, part: &mut [T]| match bytemuck::try_cast_slice_mut::<T, f32>(part) {
            // A float32 buffer needs no pass buffer in between.
            Ok(p) if is_f32 => p.chunks_mut(PASS).for_each(|p| run(g, p)),
            Ok(_) | Err(_) => g.passes(part, &mut pass, run, T::of_f32),
        };
        go(self, &mut out[..whole]);
        if whole < n {
            // float32 draws for the incomplete block too before it starts again; the reduced types do not.
            if is_f32 {
                (whole..n).for_each(|_| _ = self.random());
            }
            go(self, &mut out[n - 16..]);
        }
    }

    fn blocks32(&mut self, p: &mut [f32], mean: f32, std: f32) {
        self.map32(p, unit24);
        isa::run(Normal32(p, mean, std));
    }
    fn blocks64(&mut self, p: &mut [f64], mean: f64, std: f64) {
        self.map64(p, unit53);
        normal64(p, mean, std);
    }
    fn passes<T, A: Copy>(
        &mut self,
        out: &mut [T],
        pass: &mut [A; PASS],
        run: impl Fn(&mut Generator, &mut [A]),
        convert: impl Fn(A) -> T,
    ) {
        for part in out.chunks_mut(PASS) {
            let p = &mut pass[..part.len()];
            run(self, p);
            part.iter_mut().zip(p).for_each(|(o, v)| *o = convert(*v));
        }
    }

    /// Normal from pairs of 53-bit uniforms, any length; the second half of a pair is kept for the next call. The stream
    /// of `normal_` for fewer than 16 elements and for tensors that are not contiguous.
    pub fn normal_serial<T: RandomFloat>(&mut self, out: &mut [T], mean: f64, std: f64) {
        for o in out {
            *o = T::of_f64(self.standard_normal().mul_add(std, mean));
        }
    }
}
