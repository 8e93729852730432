//! Transforms of a few points in registers, and the passes that are made of them.

use super::along::put;
use super::num_traits_like::Float;
use super::root;
use crate::engine::room::collected;
use crate::engine::simd::{C, Vector};
use num_complex::Complex;

/// One pass of a transform (Stockham's: no order of digits to undo): reads `radix` points `m * s` apart, writes them `s` apart.
pub(super) struct Pass<T> {
    pub radix: usize,
    /// Transforms' length after this pass, and how many there were before.
    pub m: usize,
    pub s: usize,
    /// For each place below `m` the factors of results 1 and up.
    pub factors: Vec<Complex<T>>,
    /// Cosines and sines of odd radices: for result and pair of points.
    pub turns: Vec<Complex<T>>,
}

const RADICES: [usize; 8] = [8, 4, 2, 3, 5, 7, 11, 13];

/// Whether a length has small factors alone.
pub(super) fn has_passes(mut n: usize) -> bool {
    for r in RADICES {
        while n > 0 && n.is_multiple_of(r) {
            n /= r;
        }
    }
    n == 1
}

/// The passes of a length, or `None` if it has a larger factor.
pub(super) fn passes<T: Float>(n: usize) -> Option<Vec<Pass<T>>> {
    if !has_passes(n) {
        return None;
    }
    let mut radices = Vec::new();
    let mut rest = n;
    for r in RADICES {
        while rest.is_multiple_of(r) {
            radices.push(r);
            rest /= r;
        }
    }
    // 8 and 2 are two times 4
    if radices.contains(&2) && radices.contains(&8) {
        radices.retain(|r| *r != 2);
        let at = radices.iter().position(|r| *r == 8)?;
        radices[at] = 4;
        radices.push(4);
        radices.sort_by_key(|r| RADICES.iter().position(|p| p == r));
    }
    let as_t = |w: Complex<f64>| Complex::new(T::of(w.re), T::of(w.im));
    let (mut len, mut s) = (n, 1);
    let mut all = Vec::new();
    for radix in radices {
        let m = len / radix;
        let factors = (0..m).flat_map(|p| (1..radix).map(move |j| (p * j, len)));
        let half = (radix - 1) / 2;
        let turns = (1..=half).flat_map(|q| (1..=half).map(move |k| q * k % radix));
        all.push(Pass {
            radix,
            m,
            s,
            factors: collected(factors.map(|(k, n)| as_t(root(k, n)))),
            turns: if radix % 2 == 0 { Vec::new() } else { collected(turns.map(|k| as_t(root(k, radix)))) },
        });
        (len, s) = (m, s * radix);
    }
    Some(all)
}

/// Where vectors of real and imaginary parts stand in an element's pair. Exchanged where lines are read and where they are written, a
/// transform runs backwards; passes know nothing of it.
pub(super) type Parts = (usize, usize);

/// Which pass of a transform, for loops that know their steps.
pub(super) mod kind {
    /// From a line of complex numbers in memory, the first one.
    pub const LINE: u8 = 0;
    /// Results follow one result.
    pub const FIRST: u8 = 1;
    /// Any.
    pub const MIDDLE: u8 = 2;
    /// Results are turned no more.
    pub const LAST: u8 = 3;
}

/// # Safety
/// `p` is valid for two vectors, and the machine has the instructions.
#[inline(always)]
pub(super) unsafe fn load<V: Vector>(p: *const V::T, (re, im): Parts) -> C<V> {
    // SAFETY: the caller's promise.
    unsafe { C { re: V::load(p.add(re)), im: V::load(p.add(im)) } }
}
/// # Safety
/// As [`load`].
#[inline(always)]
pub(super) unsafe fn store<V: Vector>(v: C<V>, p: *mut V::T, (re, im): Parts) {
    // SAFETY: the caller's promise.
    unsafe {
        v.re.store(p.add(re));
        v.im.store(p.add(im));
    }
}

/// A pair of vectors of the buffer, or of a line of complex numbers in memory, in the same place.
///
/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn fetch<V: Vector, const KIND: u8>(p: *const V::T) -> C<V> {
    // SAFETY: the caller's promise.
    unsafe {
        let (re, im) = (V::load(p), V::load(p.add(V::N)));
        if KIND != kind::LINE {
            return C { re, im };
        }
        let (re, im) = V::apart(re, im);
        C { re, im }
    }
}
#[inline(always)]
fn exchanged<V: Vector, const R: usize>(mut x: [C<V>; R]) -> [C<V>; R] {
    for x in &mut x {
        *x = C { re: x.im, im: x.re };
    }
    x
}

#[inline(always)]
pub(super) unsafe fn four<V: Vector>([a, b, c, d]: [C<V>; 4]) -> [C<V>; 4] {
    // SAFETY: the caller has the instructions.
    unsafe {
        let (ac, amc, bd, bmd) = (a.add(c), a.sub(c), b.add(d), b.sub(d));
        // minus i times the difference
        let y1 = C { re: amc.re.add(bmd.im), im: amc.im.sub(bmd.re) };
        let y3 = C { re: amc.re.sub(bmd.im), im: amc.im.add(bmd.re) };
        [ac.add(bd), y1, ac.sub(bd), y3]
    }
}
#[inline(always)]
pub(super) unsafe fn eight<V: Vector<T: Float>>(x: [C<V>; 8]) -> [C<V>; 8] {
    // SAFETY: the caller has the instructions.
    unsafe {
        let h = V::splat(V::T::of(std::f64::consts::FRAC_1_SQRT_2));
        let [e0, e1, e2, e3] = four([x[0], x[2], x[4], x[6]]);
        let [o0, o1, o2, o3] = four([x[1], x[3], x[5], x[7]]);
        // odd ones times the square root of -i, once and three times, without its length
        let w1 = C { re: o1.re.add(o1.im), im: o1.im.sub(o1.re) };
        let w3 = C { re: o3.im.sub(o3.re), im: o3.re.add(o3.im) };
        let up = |e: C<V>, w: C<V>| C { re: w.re.fma(h, e.re), im: w.im.fma(h, e.im) };
        let down = |e: C<V>, w: C<V>| C { re: w.re.fnma(h, e.re), im: w.im.fnma(h, e.im) };
        let y3 = C { re: w3.re.fma(h, e3.re), im: w3.im.fnma(h, e3.im) };
        let y7 = C { re: w3.re.fnma(h, e3.re), im: w3.im.fma(h, e3.im) };
        let y2 = C { re: e2.re.add(o2.im), im: e2.im.sub(o2.re) };
        let y6 = C { re: e2.re.sub(o2.im), im: e2.im.add(o2.re) };
        [e0.add(o0), up(e1, w1), y2, y3, e0.sub(o0), down(e1, w1), y6, y7]
    }
}
#[inline(always)]
unsafe fn odd<V: Vector, const R: usize>(x: [C<V>; R], turns: *const Complex<V::T>) -> [C<V>; R] {
    let half = (R - 1) / 2;
    // SAFETY: the caller has the instructions, and `turns` holds `half * half` numbers.
    unsafe {
        let mut y = x;
        for k in 1..=half {
            y[0] = y[0].add(x[k].add(x[R - k]));
        }
        for q in 1..=half {
            let (mut a, mut b) = (x[0], None);
            for k in 1..=half {
                let w = *turns.add((q - 1) * half + k - 1);
                let (c, s) = (V::splat(w.re), V::splat(w.im));
                let (sum, dif) = (x[k].add(x[R - k]), x[k].sub(x[R - k]));
                a = C { re: sum.re.fma(c, a.re), im: sum.im.fma(c, a.im) };
                b = Some(match b {
                    None => C { re: dif.re.mul(s), im: dif.im.mul(s) },
                    Some(b) => {
                        let b: C<V> = b;
                        C { re: dif.re.fma(s, b.re), im: dif.im.fma(s, b.im) }
                    }
                });
            }
            if let Some(b) = b {
                // i times b: `turns` have the sine of minus the angle
                y[q] = C { re: a.re.sub(b.im), im: a.im.add(b.re) };
                y[R - q] = C { re: a.re.add(b.im), im: a.im.sub(b.re) };
            }
        }
        y
    }
}

/// What becomes of a pass's results.
pub(super) trait Results<V: Vector> {
    /// Stores the result of place `e`.
    ///
    /// # Safety
    /// The place is one of the results', and the machine has the instructions.
    unsafe fn put(&self, y: C<V>, e: usize);
}
/// Pairs of vectors of the buffer.
pub(super) struct Pairs<T>(pub *mut T);
impl<V: Vector> Results<V> for Pairs<V::T> {
    #[inline(always)]
    unsafe fn put(&self, y: C<V>, e: usize) {
        // SAFETY: the caller's promise.
        unsafe { store(y, self.0.add(e * 2 * V::N), (0, V::N)) }
    }
}
/// The same, each turned by the number in its place in a table of pairs of vectors.
pub(super) struct Turned<T>(pub *mut T, pub *const T);
impl<V: Vector> Results<V> for Turned<V::T> {
    #[inline(always)]
    unsafe fn put(&self, y: C<V>, e: usize) {
        let at = e * 2 * V::N;
        // SAFETY: the caller's promise.
        unsafe { store(y.times(load::<V>(self.1.add(at), (0, V::N))), self.0.add(at), (0, V::N)) }
    }
}
/// Pairs of vectors with a step between, each turned by the number in its place in a table, one for all lines.
pub(super) struct TurnedAlike<T>(pub *mut T, pub usize, pub *const Complex<T>);
impl<V: Vector> Results<V> for TurnedAlike<V::T> {
    #[inline(always)]
    unsafe fn put(&self, y: C<V>, e: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let w = *self.2.add(e);
            let w = C { re: V::splat(w.re), im: V::splat(w.im) };
            store(y.times(w), self.0.add(e * self.1), (0, V::N));
        }
    }
}
/// Pairs of vectors with a step between.
pub(super) struct Apart<T>(pub *mut T, pub usize);
impl<V: Vector> Results<V> for Apart<V::T> {
    #[inline(always)]
    unsafe fn put(&self, y: C<V>, e: usize) {
        // SAFETY: the caller's promise.
        unsafe { store(y, self.0.add(e * self.1), (0, V::N)) }
    }
}
/// Times a scale, if there is one.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(super) unsafe fn scaled<V: Vector>(y: C<V>, by: Option<V>) -> C<V> {
    match by {
        None => y,
        // SAFETY: the caller's promise.
        Some(by) => unsafe { C { re: y.re.mul(by), im: y.im.mul(by) } },
    }
}
/// Complex numbers in memory, with a step between vectors of them.
pub(super) struct Numbers<V: Vector> {
    pub to: *mut V::T,
    pub step: usize,
    /// A scale, if there is one.
    pub by: Option<V>,
    pub exchange: bool,
    /// Past the caches.
    pub stream: bool,
}
impl<V: Vector> Results<V> for Numbers<V> {
    #[inline(always)]
    unsafe fn put(&self, y: C<V>, e: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let y = scaled(y, self.by);
            let y = if self.exchange { C { re: y.im, im: y.re } } else { y };
            put(y, self.to.add(e * self.step), self.stream);
        }
    }
}

/// A pass of one radix: `$x` becomes `$y`. No closures: they would not have the instructions. Parts of a line are exchanged as they
/// are read, if so asked.
macro_rules! pass {
    ($name:ident, $r:literal, |$x:ident, $turns:ident| $y:expr) => {
        #[inline(always)]
        unsafe fn $name<V: Vector<T: Float>, R: Results<V>, const KIND: u8>(
            p: &Pass<V::T>,
            src: *const V::T,
            step: usize,
            to: &R,
            exchange: bool,
        ) {
            let s = if KIND <= kind::FIRST { 1 } else { p.s };
            let m = if KIND == kind::LAST { 1 } else { p.m };
            let $turns = p.turns.as_ptr();
            let _ = $turns;
            let far = s * m * step;
            // SAFETY: the caller's promise: source and results hold `radix * m * s` pairs of vectors.
            unsafe {
                for q in 0..m {
                    let w = p.factors.as_ptr().add(q * ($r - 1));
                    for i in 0..s {
                        let from = src.add((i + s * q) * step);
                        let mut $x = [fetch::<V, KIND>(from); $r];
                        for j in 1..$r {
                            $x[j] = fetch::<V, KIND>(from.add(j * far));
                        }
                        if KIND == kind::LINE && exchange {
                            $x = exchanged($x);
                        }
                        let y: [C<V>; $r] = $y;
                        let e = i + s * $r * q;
                        to.put(y[0], e);
                        for j in 1..$r {
                            let w = *w.add(j - 1);
                            let y = if KIND == kind::LAST || q == 0 {
                                y[j]
                            } else {
                                y[j].times(C { re: V::splat(w.re), im: V::splat(w.im) })
                            };
                            to.put(y, e + s * j);
                        }
                    }
                }
            }
        }
    };
}
pass!(by_2, 2, |x, turns| [x[0].add(x[1]), x[0].sub(x[1])]);
pass!(by_4, 4, |x, turns| four(x));
pass!(by_8, 8, |x, turns| eight(x));
pass!(by_3, 3, |x, turns| odd(x, turns));
pass!(by_5, 5, |x, turns| odd(x, turns));
pass!(by_7, 7, |x, turns| odd(x, turns));
pass!(by_11, 11, |x, turns| odd(x, turns));
pass!(by_13, 13, |x, turns| odd(x, turns));

/// One pass over elements that are pairs of vectors.
///
/// # Safety
/// Both buffers hold as many pairs as the transform has points, and the machine has the instructions.
#[inline(always)]
pub(super) unsafe fn run<V: Vector<T: Float>>(p: &Pass<V::T>, src: *const V::T, dst: *mut V::T) {
    // SAFETY: the caller's promise.
    unsafe { run_as::<V, _, { kind::MIDDLE }>(p, src, &Pairs(dst), false) }
}
/// [`run`] of a kind; whatever is done with the results.
///
/// # Safety
/// As [`run`], for a pass of this kind and what `to` writes.
#[inline(always)]
pub(super) unsafe fn run_as<V: Vector<T: Float>, R: Results<V>, const KIND: u8>(
    p: &Pass<V::T>,
    src: *const V::T,
    to: &R,
    exchange: bool,
) {
    let step = 2 * V::N;
    // SAFETY: the caller's promise.
    unsafe {
        match p.radix {
            2 => by_2::<V, R, KIND>(p, src, step, to, exchange),
            4 => by_4::<V, R, KIND>(p, src, step, to, exchange),
            8 => by_8::<V, R, KIND>(p, src, step, to, exchange),
            3 => by_3::<V, R, KIND>(p, src, step, to, exchange),
            5 => by_5::<V, R, KIND>(p, src, step, to, exchange),
            7 => by_7::<V, R, KIND>(p, src, step, to, exchange),
            11 => by_11::<V, R, KIND>(p, src, step, to, exchange),
            _ => by_13::<V, R, KIND>(p, src, step, to, exchange),
        }
    }
}

/// Whether these are two passes with the radices of [`run_apart`].
pub(super) fn may_be_apart<T>(passes: &[Pass<T>]) -> bool {
    passes.len() == 2 && passes.iter().all(|p| p.radix == 4 || p.radix == 8)
}
/// [`run_as`] by four or eight, with `step` numbers between elements of the source.
///
/// # Safety
/// As [`run_as`].
#[inline(always)]
pub(super) unsafe fn run_apart<V: Vector<T: Float>, R: Results<V>, const KIND: u8>(
    p: &Pass<V::T>,
    src: *const V::T,
    step: usize,
    to: &R,
    exchange: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match p.radix {
            4 => by_4::<V, R, KIND>(p, src, step, to, exchange),
            _ => by_8::<V, R, KIND>(p, src, step, to, exchange),
        }
    }
}
