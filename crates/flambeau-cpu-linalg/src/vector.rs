//! Loops over columns: what the unblocked parts of decompositions are made of. Each is compiled for the machine's instruction
//! sets; the reals for the wide ones.

use super::field::{Field, Real};
use crate::engine::SharedMut;
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::parallel::parallel_for;
use crate::num::Arith;

/// Instruction sets worth a copy of their own: those of real numbers.
pub(super) const fn best<T: Field>() -> Level {
    if T::COMPLEX { Level::V3 } else { Level::V4 }
}
/// Numbers side by side in a sum, so that it needs no order of its own.
pub(super) const LANES: usize = 16;

struct Axpy<'a, T>(T, &'a [T], &'a mut [T]);
impl<T: Field> Job for Axpy<'_, T> {
    type Out = ();
    const BEST: Level = best::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (y, x) in self.2.iter_mut().zip(self.1) {
            *y = self.0.fma::<I>(*x, *y);
        }
    }
}
/// `y += a x`.
#[inline]
pub fn axpy<T: Field>(a: T, x: &[T], y: &mut [T]) {
    if x.len() < 16 {
        for (y, x) in y.iter_mut().zip(x) {
            *y = *y + a * *x;
        }
        return;
    }
    isa::run(Axpy(a, x, y));
}

/// Calls `$step::<..., W>(at, ...)` for runs of `W` numbers that follow each other: of [`LANES`] as long as there are so many, then of
/// ever fewer. What a loop leaves over would cost more than the loop where columns are short. Types that the step takes before `W`
/// stand in brackets.
macro_rules! by_runs {
    ($n:expr, $step:ident[$($t:ty),*]($($a:expr),*)) => {{
        let (n, mut at) = ($n, 0);
        while at + LANES <= n {
            $step::<$($t,)* LANES>(at, $($a),*);
            at += LANES;
        }
        if at + 8 <= n {
            $step::<$($t,)* 8>(at, $($a),*);
            at += 8;
        }
        if at + 4 <= n {
            $step::<$($t,)* 4>(at, $($a),*);
            at += 4;
        }
        while at < n {
            $step::<$($t,)* 1>(at, $($a),*);
            at += 1;
        }
    }};
}
pub(super) use by_runs;

/// `sums += conj(a) x` for some columns, of `W` numbers.
#[inline(always)]
fn dots_run<T: Field, I: Isa, const W: usize, const K: usize>(
    at: usize,
    a: [&[T]; K],
    x: &[T],
    sums: &mut [[T; LANES]; K],
) {
    let x = &x[at..at + W];
    for k in 0..K {
        let a = &a[k][at..at + W];
        for l in 0..W {
            sums[k][l] = a[l].conj().fma::<I>(x[l], sums[k][l]);
        }
    }
}
#[inline(always)]
fn one_run<T: Field, I: Isa, const W: usize>(at: usize, a: &[T], x: &[T], sums: &mut [[T; LANES]; 1]) {
    dots_run::<T, I, W, 1>(at, [a], x, sums);
}
#[inline(always)]
fn four_run<T: Field, I: Isa, const W: usize>(at: usize, a: [&[T]; 4], x: &[T], sums: &mut [[T; LANES]; 4]) {
    dots_run::<T, I, W, 4>(at, a, x, sums);
}
/// `sum conj(x) y`.
#[inline(always)]
pub(super) fn dot_body<T: Field, I: Isa>(x: &[T], y: &[T]) -> T {
    let n = x.len().min(y.len());
    let (x, y) = (&x[..n], &y[..n]);
    // two sums, for one would wait for itself
    let mut sums = [[T::ZERO; LANES]; 2];
    let whole = n / (2 * LANES) * (2 * LANES);
    for (x, y) in x[..whole].chunks_exact(2 * LANES).zip(y[..whole].chunks_exact(2 * LANES)) {
        for k in 0..2 {
            for l in 0..LANES {
                sums[k][l] = x[k * LANES + l].conj().fma::<I>(y[k * LANES + l], sums[k][l]);
            }
        }
    }
    let [first, second] = sums;
    let mut sum = [first];
    by_runs!(n - whole, one_run[T, I](&x[whole..], &y[whole..], &mut sum));
    for l in 0..LANES {
        sum[0][l] = sum[0][l] + second[l];
    }
    totals(&sum)[0]
}
/// Four columns' sums with one vector.
#[inline(always)]
pub(super) fn four_dots<T: Field, I: Isa>(a: [&[T]; 4], x: &[T]) -> [T; 4] {
    let n = x.len();
    let a = a.map(|a| &a[..n]);
    let mut sums = [[T::ZERO; LANES]; 4];
    by_runs!(n, four_run[T, I](a, x, &mut sums));
    totals(&sums)
}
/// The sums of sums. Not inlined: where the compiler sees how the numbers end up in one, it makes the loops before of short
/// vectors, in which they are together already.
#[inline(never)]
pub(super) fn totals<T: Field, const K: usize>(sums: &[[T; LANES]; K]) -> [T; K] {
    let mut out = [T::ZERO; K];
    for (out, sum) in out.iter_mut().zip(sums) {
        let mut half = [T::ZERO; LANES / 2];
        for l in 0..LANES / 2 {
            half[l] = sum[l] + sum[l + LANES / 2];
        }
        for l in 0..LANES / 4 {
            half[l] = half[l] + half[l + LANES / 4];
        }
        *out = (half[0] + half[2]) + (half[1] + half[3]);
    }
    out
}
struct Dot<'a, T>(&'a [T], &'a [T]);
impl<T: Field> Job for Dot<'_, T> {
    type Out = T;
    const BEST: Level = best::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) -> T {
        dot_body::<T, I>(self.0, self.1)
    }
}
/// `sum conj(x) y`.
#[inline]
pub fn dot<T: Field>(x: &[T], y: &[T]) -> T {
    if x.len() < LANES / 2 {
        return x.iter().zip(y).fold(T::ZERO, |s, (x, y)| s + x.conj() * *y);
    }
    isa::run(Dot(x, y))
}

/// Euclidean length, without overflow on the way.
pub fn norm<T: Field>(x: &[T]) -> T::Real {
    let plain = dot(x, x).re();
    if plain.finite_real() && plain > T::Real::of(1e-30) {
        return plain.root();
    }
    let m = x.iter().fold(T::Real::ZERO, |m, v| {
        let w = v.re().magnitude().larger(v.im().magnitude());
        // NaN stays, which alone differs from itself
        #[allow(clippy::eq_op)]
        let nan = w != w;
        if w > m || nan { w } else { m }
    });
    if m == T::Real::ZERO || !m.finite_real() {
        return m;
    }
    let s = x.iter().fold(T::Real::ZERO, |s, v| {
        let (a, b) = (v.re() / m, v.im() / m);
        s + a * a + b * b
    });
    m * s.root()
}

/// `y += a x` of four columns, of `W` numbers.
#[inline(always)]
fn axpys_run<T: Field, I: Isa, const W: usize>(at: usize, a: [&[T]; 4], x: [T; 4], y: &mut [T]) {
    let y = &mut y[at..at + W];
    let mut sums = [T::ZERO; W];
    sums.copy_from_slice(y);
    for k in 0..4 {
        let a = &a[k][at..at + W];
        for l in 0..W {
            sums[l] = a[l].fma::<I>(x[k], sums[l]);
        }
    }
    y.copy_from_slice(&sums);
}
/// `y += a x` of four columns.
#[inline(always)]
pub(super) fn four_axpys<T: Field, I: Isa>(a: [&[T]; 4], x: [T; 4], y: &mut [T]) {
    let n = y.len();
    let a = a.map(|a| &a[..n]);
    by_runs!(n, axpys_run[T, I](a, x, y));
}

struct Gemv<'a, T> {
    a: &'a [T],
    ld: usize,
    alpha: T,
    x: &'a [T],
    y: &'a mut [T],
}
impl<T: Field> Job for Gemv<'_, T> {
    type Out = ();
    const BEST: Level = best::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let (m, n) = (self.y.len(), self.x.len());
        let mut j = 0;
        while j + 4 <= n {
            let c: [&[T]; 4] = std::array::from_fn(|k| &self.a[(j + k) * self.ld..(j + k) * self.ld + m]);
            let x: [T; 4] = std::array::from_fn(|k| self.alpha * self.x[j + k]);
            four_axpys::<T, I>(c, x, self.y);
            j += 4;
        }
        for j in j..n {
            let x = self.alpha * self.x[j];
            for (y, c) in self.y.iter_mut().zip(&self.a[j * self.ld..j * self.ld + m]) {
                *y = x.fma::<I>(*c, *y);
            }
        }
    }
}
/// `y += alpha A x`, columns of A `ld` apart, as many rows as `y` has.
pub fn gemv<T: Field>(a: &[T], ld: usize, alpha: T, x: &[T], y: &mut [T]) {
    if !y.is_empty() && !x.is_empty() {
        isa::run(Gemv { a, ld, alpha, x, y });
    }
}

struct GemvH<'a, T> {
    a: &'a [T],
    ld: usize,
    x: &'a [T],
    y: &'a mut [T],
}
impl<T: Field> Job for GemvH<'_, T> {
    type Out = ();
    const BEST: Level = best::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let m = self.x.len();
        let of = |j: usize| &self.a[j * self.ld..j * self.ld + m];
        let whole = self.y.len() / 4 * 4;
        let (fours, rest) = self.y.split_at_mut(whole);
        for (j, y) in fours.chunks_exact_mut(4).enumerate() {
            let four = [of(4 * j), of(4 * j + 1), of(4 * j + 2), of(4 * j + 3)];
            y.copy_from_slice(&four_dots::<T, I>(four, self.x));
        }
        for (j, y) in rest.iter_mut().enumerate() {
            *y = dot_body::<T, I>(of(whole + j), self.x);
        }
    }
}
/// `y = A^H x`, columns of A `ld` apart, as many rows as `x` has.
pub fn gemv_h<T: Field>(a: &[T], ld: usize, x: &[T], y: &mut [T]) {
    if x.is_empty() {
        y.fill(T::ZERO);
    } else if !y.is_empty() {
        isa::run(GemvH { a, ld, x, y });
    }
}

struct Ger<'a, T> {
    a: &'a mut [T],
    ld: usize,
    x: &'a [T],
    y: &'a [T],
}
impl<T: Field> Job for Ger<'_, T> {
    type Out = ();
    const BEST: Level = best::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let m = self.x.len();
        for (j, y) in self.y.iter().enumerate() {
            for (a, x) in self.a[j * self.ld..j * self.ld + m].iter_mut().zip(self.x) {
                *a = y.fma::<I>(*x, *a);
            }
        }
    }
}
/// `A += x y^T`.
pub fn ger<T: Field>(a: &mut [T], ld: usize, x: &[T], y: &[T]) {
    if !x.is_empty() && !y.is_empty() {
        isa::run(Ger { a, ld, x, y });
    }
}

/// A turn of two neighbouring columns: `(x, y) -> (c x + s y, c y - s x)`.
#[derive(Clone, Copy)]
pub struct Turn<R> {
    /// The first of the two columns.
    pub at: usize,
    /// Cosine.
    pub c: R,
    /// Sine.
    pub s: R,
}
/// Turns pairs of neighbouring columns, one after the other.
pub struct Turns<'a, T: Field> {
    a: &'a SharedMut<'a, T>,
    ld: usize,
    rows: std::ops::Range<usize>,
    turns: &'a [Turn<T::Real>],
}
/// Rows that are turned at a time, so that their part of the columns stays in the first cache levels.
const TURN_ROWS: usize = 64;
impl<T: Field> Job for Turns<'_, T> {
    type Out = ();
    const BEST: Level = best::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let mut r = self.rows.start;
        while r < self.rows.end {
            let n = TURN_ROWS.min(self.rows.end - r);
            for t in self.turns {
                // SAFETY: two stretches of different columns, of rows that no other task has; `apply` checked the bounds.
                let (x, y) = unsafe {
                    (self.a.slice(t.at * self.ld + r, n), self.a.slice((t.at + 1) * self.ld + r, n))
                };
                for (x, y) in x.iter_mut().zip(y) {
                    let (p, q) = (*x, *y);
                    *x = p.scale(t.c) + q.scale(t.s);
                    *y = q.scale(t.c) - p.scale(t.s);
                }
            }
            r += n;
        }
    }
}
impl<T: Field> Turns<'_, T> {
    /// Turns the columns of `a`, `ld` apart, in `rows` rows.
    pub fn apply(a: &mut [T], ld: usize, rows: usize, turns: &[Turn<T::Real>]) {
        assert!(rows <= ld, "columns overlap");
        if turns.is_empty() || rows == 0 {
            return;
        }
        let a = &SharedMut::new(a);
        let grain = (200_000 / turns.len().max(1)).max(TURN_ROWS).next_multiple_of(TURN_ROWS);
        parallel_for(rows, grain, |rows| isa::run(Turns { a, ld, rows, turns }));
    }
}

/// `(c, s, r)` with `c f + s g = r` and `c g - s f = 0` (LAPACK's `dlartg`).
pub fn givens<R: Real>(f: R, g: R) -> (R, R, R) {
    if g == R::ZERO {
        return (R::ONE, R::ZERO, f);
    }
    if f == R::ZERO {
        return (R::ZERO, R::ONE.with_sign(g), g.magnitude());
    }
    let r = f.hypot(g).with_sign(f);
    (f / r, g / r, r)
}
