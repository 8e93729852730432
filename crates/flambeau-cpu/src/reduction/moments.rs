//! Mean and variance in one pass over memory: each block is read twice while it is in cache, and blocks are joined by
//! the formula of Chan, Golub and LeVeque. All in f64.

use super::fold::{Fold, Geo, fold};
use crate::engine::SharedMut;
use crate::engine::isa::{Isa, Level};
use crate::num::{Float, Num};

/// Count, mean and sum of squared deviations of a range. Complex numbers have two means and one sum.
#[derive(Clone, Copy, Default, Debug)]
pub struct Moments {
    /// Elements.
    pub n: f64,
    /// Mean of the real parts.
    pub re: f64,
    /// Mean of the imaginary parts.
    pub im: f64,
    /// Sum of squared distances from the mean.
    pub m2: f64,
}

struct Fit<const COMPLEX: bool>;

#[inline(always)]
fn lanes<T: Copy>(x: &[T], f: impl Fn(T) -> f64) -> f64 {
    const H: usize = 16;
    // In two arrays, since the compiler keeps only small ones in registers. By `lanes::fold` this takes twice the time: the
    // compiler does not drop its second result here.
    let (mut low, mut high) = ([0.0; H], [0.0; H]);
    let blocks = x.as_chunks::<H>().0.as_chunks::<2>().0;
    for [a, b] in blocks {
        for j in 0..H {
            low[j] += f(a[j]);
        }
        for j in 0..H {
            high[j] += f(b[j]);
        }
    }
    let mut l = [0.0; 2 * H];
    l[..H].copy_from_slice(&low);
    l[H..].copy_from_slice(&high);
    let rest = &x[blocks.len() * 2 * H..];
    for (j, v) in rest.iter().enumerate() {
        l[j] += f(*v);
    }
    let mut w = H;
    while w > 0 {
        for j in 0..w {
            l[j] += l[j + w];
        }
        w /= 2;
    }
    l[0]
}

impl<T: Num, const COMPLEX: bool> Fold<T> for Fit<COMPLEX> {
    type Acc = Moments;
    const BEST: Level = if COMPLEX { Level::Portable } else { Level::V3 };
    #[inline(always)]
    fn init(&self) -> Moments {
        Moments::default()
    }
    #[inline(always)]
    fn join(&self, a: Moments, b: Moments) -> Moments {
        let n = a.n + b.n;
        if n == 0.0 {
            return a;
        }
        let (dr, di) = (b.re - a.re, b.im - a.im);
        let w = b.n / n;
        Moments { n, re: a.re + dr * w, im: a.im + di * w, m2: a.m2 + b.m2 + (dr * dr + di * di) * (a.n * w) }
    }
    #[inline(always)]
    fn row<I: Isa>(&self, x: &[T], _: usize) -> Moments {
        let n = x.len() as f64;
        let re = lanes(x, |v| v.parts().0) / n;
        if COMPLEX {
            let im = lanes(x, |v| v.parts().1) / n;
            let m2 = lanes(x, |v| {
                let (a, b) = v.parts();
                (a - re) * (a - re) + (b - im) * (b - im)
            });
            return Moments { n, re, im, m2 };
        }
        let m2 = lanes(x, |v| (v.parts().0 - re) * (v.parts().0 - re));
        Moments { n, re, im: 0.0, m2 }
    }
    #[inline(always)]
    fn cols<I: Isa>(&self, x: &[T], rows: usize, stride: usize, _: usize, acc: &mut [Moments]) {
        const W: usize = 128;
        let n = rows as f64;
        let w = acc.len();
        let mut j0 = 0;
        while j0 < w {
            let c = W.min(w - j0);
            let (mut re, mut im, mut m2) = ([0.0; W], [0.0; W], [0.0; W]);
            for r in 0..rows {
                let a = &x[r * stride + j0..][..c];
                for j in 0..c {
                    let (p, q) = a[j].parts();
                    re[j] += p;
                    if COMPLEX {
                        im[j] += q;
                    }
                }
            }
            for j in 0..c {
                re[j] /= n;
                im[j] /= n;
            }
            for r in 0..rows {
                let a = &x[r * stride + j0..][..c];
                for j in 0..c {
                    let (p, q) = a[j].parts();
                    m2[j] += (p - re[j]) * (p - re[j]);
                    if COMPLEX {
                        m2[j] += (q - im[j]) * (q - im[j]);
                    }
                }
            }
            for j in 0..c {
                acc[j0 + j] = Moments { n, re: re[j], im: im[j], m2: m2[j] };
            }
            j0 += c;
        }
    }
}

/// Moments of each row; calls `emit(row, moments)` once per row, possibly from several threads.
pub fn moments<T: Num>(x: &[T], g: Geo, emit: impl Fn(usize, Moments) + Sync) {
    if T::DTYPE.is_complex() {
        fold(x, g, &Fit::<true>, emit);
    } else {
        fold(x, g, &Fit::<false>, emit);
    }
}

impl Moments {
    /// Variance with `n - correction` (at least 0) as the divisor; NaN over no element.
    pub fn var(&self, correction: f64) -> f64 {
        if self.n == 0.0 { f64::NAN } else { self.m2 / (self.n - correction).max(0.0) }
    }
}

/// Mean (real and imaginary part) and variance of each row in f64.
pub fn mean_var<T: Num>(x: &[T], g: Geo, correction: f64, out: &mut [(f64, f64, f64)]) {
    g.check(x.len(), out.len());
    let out = SharedMut::new(out);
    moments(x, g, |row, m| {
        let re = if m.n == 0.0 { f64::NAN } else { m.re };
        // SAFETY: each row is emitted once.
        unsafe { out.set(row, (re, m.im, m.var(correction))) }
    });
}
fn write<T: Num, O: Send>(x: &[T], g: Geo, out: &mut [O], f: impl Fn(Moments) -> O + Sync) {
    g.check(x.len(), out.len());
    let out = SharedMut::new(out);
    // SAFETY: each row is emitted once.
    moments(x, g, |row, m| unsafe { out.set(row, f(m)) });
}
/// Variance of each row; of complex rows the sum of both parts' variances. `O` is the real type of `T`.
pub fn var<T: Num, O: Float>(x: &[T], g: Geo, correction: f64, out: &mut [O]) {
    write(x, g, out, |m| O::from_f64(m.var(correction)));
}
/// Standard deviation of each row, the root of [`var`].
pub fn std<T: Num, O: Float>(x: &[T], g: Geo, correction: f64, out: &mut [O]) {
    write(x, g, out, |m| O::from_f64(m.var(correction).sqrt()));
}
/// Variance (or its root, with `root`) and mean of each row. Means are given as (real, imaginary) in f64.
pub fn var_mean<T: Num, O: Float>(
    x: &[T],
    g: Geo,
    correction: f64,
    root: bool,
    var: &mut [O],
    mean: &mut [(f64, f64)],
) {
    g.check(x.len(), var.len());
    g.check(x.len(), mean.len());
    let (var, mean) = (SharedMut::new(var), SharedMut::new(mean));
    moments(x, g, |row, m| {
        let v = m.var(correction);
        // SAFETY: each row is emitted once.
        unsafe { var.set(row, O::from_f64(if root { v.sqrt() } else { v })) };
        let re = if m.n == 0.0 { f64::NAN } else { m.re };
        // SAFETY: as above.
        unsafe { mean.set(row, (re, if m.n == 0.0 { f64::NAN } else { m.im })) };
    });
}
