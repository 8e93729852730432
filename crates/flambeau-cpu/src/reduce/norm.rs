//! Vector norms and log-sum-exp.

use super::fold::{Fold, Geo, Lanes, Ptr, Step, fold};
use super::num::{Arith, Float, FloatOp, Num, Order};
use super::simple::{amax, fold_to};
use crate::dtype::Element;
use crate::isa::Isa;
use num_complex::Complex;

/// An element with an absolute value of a real floating type.
pub trait Abs: Num {
    /// The real type of the result.
    type Real: Float;
    /// Absolute value in the type of computation.
    fn abs_(self) -> <Self::Real as Float>::Op;
    /// Squared absolute value.
    fn square(self) -> <Self::Real as Float>::Op;
}
macro_rules! abs {
    ($($t:ty),*) => {$(impl Abs for $t {
        type Real = $t;
        #[inline(always)] fn abs_(self) -> <$t as Float>::Op { self.op().abs() }
        #[inline(always)] fn square(self) -> <$t as Float>::Op { self.op() * self.op() }
    })*};
    (complex $($t:ty),*) => {$(impl Abs for Complex<$t> {
        type Real = $t;
        #[inline(always)] fn abs_(self) -> <$t as Float>::Op { self.re.op().hypot(self.im.op()) }
        #[inline(always)] fn square(self) -> <$t as Float>::Op {
            self.re.op() * self.re.op() + self.im.op() * self.im.op()
        }
    })*};
}
abs!(f32, f64, half::f16, half::bf16);
abs!(complex f32, f64, half::f16);

type OpOf<T> = <<T as Abs>::Real as Float>::Op;

/// One norm: 0 counts, 1 sums, 2 squares, +-inf extremes, otherwise powers.
struct Power<const K: u8>(f64);
const COUNT: u8 = 0;
const ONE: u8 = 1;
const TWO: u8 = 2;
const MAX: u8 = 3;
const MIN: u8 = 4;
const ANY: u8 = 5;
impl<T: Abs, const K: u8> Step<T> for Power<K>
where
    OpOf<T>: FloatOp,
{
    type Acc = OpOf<T>;
    #[inline(always)]
    fn init(&self) -> Self::Acc {
        if K == MIN { OpOf::<T>::HIGH } else { OpOf::<T>::ZERO }
    }
    #[inline(always)]
    fn step(&self, a: Self::Acc, x: T) -> Self::Acc {
        match K {
            COUNT => {
                a + if x.square() == OpOf::<T>::ZERO && x.abs_() == OpOf::<T>::ZERO {
                    OpOf::<T>::ZERO
                } else {
                    OpOf::<T>::ONE
                }
            }
            ONE => a + x.abs_(),
            TWO => a + x.square(),
            ANY => a + OpOf::<T>::of(x.abs_().f64().powf(self.0)),
            _ => <Self as Step<T>>::join(self, a, x.abs_()),
        }
    }
    #[inline(always)]
    fn join(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc {
        match K {
            MAX => {
                if b.beats_max(a) {
                    b
                } else {
                    a
                }
            }
            MIN => {
                if b.beats_min(a) {
                    b
                } else {
                    a
                }
            }
            _ => a + b,
        }
    }
}

/// Absolute values of complex numbers, whose norms are those of the absolute values.
pub(crate) fn abs<T: Abs>(x: &[T]) -> Vec<T::Real> {
    x.iter().map(|v| T::Real::from_op(v.abs_())).collect()
}

/// The `p`-norm of each row, for any `p` (0 counts what is not zero, infinities give the largest or smallest absolute
/// value). Over an empty row: 0, and infinity for negative `p`.
pub fn norm<T: Abs>(x: &[T], g: Geo, p: f64, out: &mut [T::Real])
where
    OpOf<T>: FloatOp,
{
    let f = T::Real::from_op;
    match p {
        0.0 => fold_to(x, g, &Lanes(Power::<COUNT>(p)), out, f),
        1.0 => fold_to(x, g, &Lanes(Power::<ONE>(p)), out, f),
        2.0 => fold_to(x, g, &Lanes(Power::<TWO>(p)), out, |a| f(a.sqrt_())),
        f64::INFINITY => fold_to(x, g, &Lanes(Power::<MAX>(p)), out, f),
        f64::NEG_INFINITY => fold_to(x, g, &Lanes(Power::<MIN>(p)), out, f),
        _ => fold_to(x, g, &Lanes(Power::<ANY>(p)), out, |a| T::Real::from_f64(a.f64().powf(1.0 / p))),
    }
}

/// Maximum and sum of `exp(x - maximum)` of a range.
struct Lse;
#[inline(always)]
fn shift<O: FloatOp>(m: O) -> O {
    // An infinite maximum would give inf - inf.
    if m == O::LOW || m == O::HIGH { O::ZERO } else { m }
}
impl<T: Float> Fold<T> for Lse {
    type Acc = (T::Op, T::Op);
    #[inline(always)]
    fn init(&self) -> Self::Acc {
        (T::Op::LOW, T::Op::ZERO)
    }
    #[inline(always)]
    fn join(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc {
        let m = if b.0.beats_max(a.0) { b.0 } else { a.0 };
        let s = shift(m);
        let part = |p: Self::Acc| if p.1 == T::Op::ZERO { p.1 } else { p.1 * (shift(p.0) - s).exp_() };
        (m, part(a) + part(b))
    }
    #[inline(always)]
    fn row<I: Isa>(&self, x: &[T], _: usize) -> Self::Acc {
        const L: usize = 32;
        let (blocks, rest) = x.as_chunks::<L>();
        let mut l = [T::Op::LOW; L];
        for c in blocks {
            for j in 0..L {
                let v = c[j].op();
                l[j] = if v.beats_max(l[j]) { v } else { l[j] };
            }
        }
        let m =
            rest.iter().map(|v| v.op()).chain(l).fold(T::Op::LOW, |a, v| if v.beats_max(a) { v } else { a });
        let s = shift(m);
        // Through a buffer in loops of unknown length: those vectorise, unlike an unrolled chain of exponentials.
        let mut l = [T::Op::ZERO; L];
        let mut tmp = [T::Op::ZERO; 256];
        for c in x.chunks(256) {
            for (t, v) in tmp.iter_mut().zip(c) {
                *t = (v.op() - s).exp_();
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
            let (mut m, mut s) = ([T::Op::LOW; W], [T::Op::ZERO; W]);
            for r in 0..rows {
                let a = &x[r * stride + j0..][..c];
                for j in 0..c {
                    let v = a[j].op();
                    m[j] = if v.beats_max(m[j]) { v } else { m[j] };
                }
            }
            let h = m.map(shift);
            for r in 0..rows {
                let a = &x[r * stride + j0..][..c];
                for j in 0..c {
                    s[j] = s[j] + (a[j].op() - h[j]).exp_();
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
    let out = Ptr::new(out);
    fold(x, g, &Lse, |row, (m, s)| {
        // SAFETY: `fold` emits each row once.
        unsafe { out.set(row, T::from_op(s.ln_() + shift(m))) }
    });
}

/// The largest absolute value over the whole slice, as `clip_grad_norm_` and scalers need it; 0 for an empty slice.
pub fn max_abs<T: Abs + Element>(x: &[T]) -> T::Real
where
    OpOf<T>: FloatOp,
{
    let mut out = [T::Real::from_f64(0.0)];
    norm(x, Geo::contiguous(1, x.len(), 1), f64::INFINITY, &mut out);
    let mut one = out;
    amax(&out, Geo::contiguous(1, 1, 1), &mut one);
    one[0]
}
