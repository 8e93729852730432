//! Vector norms and log-sum-exp.

use super::fold::{Fold, Geo, Lanes, Step, fold};
use super::simple::{amax, amin, fold_to, sum};
use crate::engine::SharedMut;
use crate::engine::isa::{Isa, Portable};
use crate::engine::room::collected;
use crate::num::{Arith, Compute, Float, Num, Order, Stored};
use num_complex::Complex;

/// A complex number with its absolute value.
pub trait Abs: Num {
    /// The real type of the result.
    type Real: Float;
    /// Absolute value in the type of computation.
    fn magnitude(self) -> <Self::Real as Stored>::Compute;
}
macro_rules! abs {
    ($($t:ty),*) => {$(impl Abs for Complex<$t> {
        type Real = $t;
        #[inline(always)] fn magnitude(self) -> $t { self.re.hypot(self.im) }
    })*};
}
abs!(f32, f64);

/// Absolute values of complex numbers, whose norms are those of the absolute values.
pub(crate) fn abs<T: Abs>(x: &[T]) -> Vec<T::Real> {
    x.iter().map(|v| T::Real::down(v.magnitude())).collect()
}

struct Squares;
impl<T: Compute> Step<T> for Squares {
    type Acc = T;
    #[inline(always)]
    fn init(&self) -> T {
        T::ZERO
    }
    #[inline(always)]
    fn step(&self, a: T, x: T) -> T {
        a + x * x
    }
    #[inline(always)]
    fn join(&self, a: T, b: T) -> T {
        a + b
    }
}

/// Sums of squares. Rows shorter than a vector are added up as PyTorch's compiler has it, four products at a time and the last ones
/// fused, so that norms of small weights are its to the last bit.
struct Norm2;
impl<T: Compute> Fold<T> for Norm2 {
    type Acc = T;
    #[inline(always)]
    fn init(&self) -> T {
        T::ZERO
    }
    #[inline(always)]
    fn join(&self, a: T, b: T) -> T {
        a + b
    }
    #[inline(always)]
    fn row<I: Isa>(&self, x: &[T], k0: usize) -> T {
        if x.len() >= 8 {
            return Lanes(Squares).row::<I>(x, k0);
        }
        let (four, rest) = x.as_chunks::<4>();
        let sum = four.as_flattened().iter().fold(T::ZERO, |a, v| a + *v * *v);
        rest.iter().fold(sum, |a, v| v.fma::<I>(*v, a))
    }
    #[inline(always)]
    fn cols<I: Isa>(&self, x: &[T], rows: usize, stride: usize, k0: usize, acc: &mut [T]) {
        Lanes(Squares).cols::<I>(x, rows, stride, k0, acc);
    }
}

/// The `p`-norm of each row, for any `p` (0 counts what is not zero, infinities give the largest or smallest absolute
/// value). Over an empty row: 0, and infinity for negative `p`. The 2-norm has a loop of its own, the others are sums and
/// extremes of mapped elements.
pub fn norm<T: Compute>(x: &[T], g: Geo, p: f64, out: &mut [T]) {
    if g.n == 0 {
        return out.fill(if p < 0.0 { T::HIGH } else { T::ZERO });
    }
    let map = |f: &dyn Fn(T) -> T| collected(x.iter().map(|v| f(*v)));
    match p {
        2.0 => fold_to(x, g, &Norm2, out, |a| a.sqrt()),
        f64::INFINITY => amax(&map(&|v| v.abs()), g, out),
        f64::NEG_INFINITY => amin(&map(&|v| v.abs()), g, out),
        0.0 => sum(&map(&|v| if v == T::ZERO { T::ZERO } else { T::ONE }), g, out),
        1.0 => sum(&map(&|v| v.abs()), g, out),
        _ => {
            sum(&map(&|v| T::of(v.abs().f64().powf(p))), g, out);
            out.iter_mut().for_each(|o| *o = T::of(o.f64().powf(1.0 / p)));
        }
    }
}

/// Maximum and sum of `exp(x - maximum)` of a range.
struct Lse;
#[inline(always)]
fn shift<O: Compute>(m: O) -> O {
    // An infinite maximum would give inf - inf.
    if m == O::LOW || m == O::HIGH { O::ZERO } else { m }
}
impl<T: Float> Fold<T> for Lse {
    type Acc = (T::Compute, T::Compute);
    #[inline(always)]
    fn init(&self) -> Self::Acc {
        (T::Compute::LOW, T::Compute::ZERO)
    }
    #[inline(always)]
    fn join(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc {
        let m = if b.0.beats_max(a.0) { b.0 } else { a.0 };
        let s = shift(m);
        let part = |p: Self::Acc| {
            if p.1 == T::Compute::ZERO { p.1 } else { p.1 * (shift(p.0) - s).exp::<Portable>() }
        };
        (m, part(a) + part(b))
    }
    #[inline(always)]
    fn row<I: Isa>(&self, x: &[T], _: usize) -> Self::Acc {
        const L: usize = 32;
        let (blocks, rest) = x.as_chunks::<L>();
        let mut l = [T::Compute::LOW; L];
        for c in blocks {
            for j in 0..L {
                let v = c[j].up();
                l[j] = if v.beats_max(l[j]) { v } else { l[j] };
            }
        }
        let m = rest
            .iter()
            .map(|v| v.up())
            .chain(l)
            .fold(T::Compute::LOW, |a, v| if v.beats_max(a) { v } else { a });
        let s = shift(m);
        // Through a buffer in loops of unknown length: those vectorise, unlike an unrolled chain of exponentials.
        let mut l = [T::Compute::ZERO; L];
        let mut tmp = [T::Compute::ZERO; 256];
        let exp = T::Compute::exp_vectors();
        for c in x.chunks(256) {
            if let Some(exp) = exp {
                tmp.iter_mut().zip(c).for_each(|(t, v)| *t = v.up() - s);
                exp(&mut tmp[..c.len()]);
            } else {
                tmp.iter_mut().zip(c).for_each(|(t, v)| *t = (v.up() - s).exp::<I>());
            }
            for t in tmp[..c.len()].chunks(L) {
                for (a, t) in l.iter_mut().zip(t) {
                    *a = *a + *t;
                }
            }
        }
        let mut w = L / 2;
        while w > 0 {
            for j in 0..w {
                l[j] = l[j] + l[j + w];
            }
            w /= 2;
        }
        (m, l[0])
    }
    #[inline(always)]
    fn cols<I: Isa>(&self, x: &[T], rows: usize, stride: usize, _: usize, acc: &mut [Self::Acc]) {
        const W: usize = 64;
        let n = acc.len();
        let mut j0 = 0;
        while j0 < n {
            let c = W.min(n - j0);
            let (mut m, mut s) = ([T::Compute::LOW; W], [T::Compute::ZERO; W]);
            for r in 0..rows {
                let a = &x[r * stride + j0..][..c];
                for j in 0..c {
                    let v = a[j].up();
                    m[j] = if v.beats_max(m[j]) { v } else { m[j] };
                }
            }
            let h = m.map(shift);
            for r in 0..rows {
                let a = &x[r * stride + j0..][..c];
                for j in 0..c {
                    s[j] = s[j] + (a[j].up() - h[j]).exp::<I>();
                }
            }
            for j in 0..c {
                acc[j0 + j] = (m[j], s[j]);
            }
            j0 += c;
        }
    }
}

/// `ln(sum(exp(x)))` of each row, without overflow. An empty row gives -inf.
pub fn logsumexp<T: Float>(x: &[T], g: Geo, out: &mut [T]) {
    g.check(x.len(), out.len());
    let out = SharedMut::new(out);
    fold(x, g, &Lse, |row, (m, s)| {
        // SAFETY: `fold` emits each row once.
        unsafe { out.set(row, T::down(s.log() + shift(m))) }
    });
}
