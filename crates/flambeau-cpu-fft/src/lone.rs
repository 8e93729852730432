//! Lines that go neither along, nor side by side, nor as matrices: lengths with a large prime factor as convolutions (Bluestein
//! 1970), and what is left one point after the other.

use super::butterfly::{self, Pass};
use super::lines::Lines;
use super::single::{Single, times};
use super::{Input, Output, Plan, Point, Shape, root, transform};
use crate::engine::isa::{Isa, Job, Level, best_for, level, run};
use crate::engine::room::{collected, filled};
use crate::engine::simd;
use num_complex::Complex;

/// A line in one direction.
pub(super) struct Directed<'a, T> {
    pub lone: &'a Lone<T>,
    pub forward: bool,
}
/// What is known in advance of lines of one length.
pub(super) enum Lone<T> {
    Passes(Passes<T>),
    Chirp(Chirp<T>),
}
impl<T: Point> Lone<T> {
    /// Of `n` points.
    pub(super) fn new(n: usize) -> Self {
        match butterfly::passes(n) {
            Some(passes) => Lone::Passes(Passes::new(passes)),
            None => Lone::Chirp(Chirp::new(n)),
        }
    }
}
impl<T: Point> Single<T> for Directed<'_, T> {
    fn scratch(&self) -> usize {
        match self.lone {
            Lone::Passes(p) => p.len(),
            Lone::Chirp(c) => c.spectrum.len(),
        }
    }
    fn run(&self, line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        // backwards the parts are exchanged before and after
        let exchange = |line: &mut [Complex<T>]| {
            if !self.forward {
                line.iter_mut().for_each(|v| *v = Complex::new(v.im, v.re));
            }
        };
        exchange(line);
        match self.lone {
            Lone::Passes(p) => p.run(line, scratch),
            Lone::Chirp(c) => c.run(line, scratch),
        }
        exchange(line);
    }
}

/// The passes of a length with small factors, point by point: for machines without vectors.
pub(super) struct Passes<T> {
    /// Each with `exp(-2 pi i k / radix)`.
    passes: Vec<(Pass<T>, Vec<Complex<T>>)>,
}
impl<T: Point> Passes<T> {
    fn new(passes: Vec<Pass<T>>) -> Self {
        let with = |p: Pass<T>| {
            let circle = collected((0..p.radix).map(|k| as_point(root(k, p.radix))));
            (p, circle)
        };
        Passes { passes: collected(passes.into_iter().map(with)) }
    }
    fn len(&self) -> usize {
        self.passes.iter().map(|(p, _)| p.radix).product()
    }
    fn run(&self, line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let n = self.len();
        let (mut from, mut to) = (&mut line[..n], &mut scratch[..n]);
        for (p, circle) in &self.passes {
            let (radix, m, s) = (p.radix, p.m, p.s);
            for i in 0..m {
                let factors = &p.factors[i * (radix - 1)..][..radix - 1];
                for q in 0..s {
                    for k in 0..radix {
                        let mut sum = from[q + s * i];
                        for j in 1..radix {
                            let v = times(from[q + s * (i + m * j)], circle[j * k % radix]);
                            sum = Complex::new(sum.re + v.re, sum.im + v.im);
                        }
                        to[q + s * (radix * i + k)] = if k == 0 { sum } else { times(sum, factors[k - 1]) };
                    }
                }
            }
            (from, to) = (to, from);
        }
        if self.passes.len() % 2 == 1 {
            // the result lies in the scratch memory, which is `from` by now
            to.copy_from_slice(from);
        }
    }
}

/// A length with a large factor: with `c(j) = exp(-pi i j^2 / n)`, point `k` is `c(k)` times the convolution of `x(j) c(j)` with the
/// conjugate of `c`, and that convolution a product of spectra of a length with small factors.
pub(super) struct Chirp<T> {
    c: Vec<Complex<T>>,
    /// Of the conjugate of `c` in both directions, divided by its length.
    spectrum: Vec<Complex<T>>,
    plan: Box<Plan<T>>,
}
impl<T: Point> Chirp<T> {
    fn new(n: usize) -> Self {
        // exact: the square is taken modulo the whole circle
        let c = |j: usize| root((j as u128 * j as u128 % (2 * n as u128)) as usize, 2 * n);
        let len = padded(2 * n - 1, T::lanes(level()));
        let mut both = filled(Complex::new(0.0, 0.0), len);
        both[0] = c(0).conj();
        for j in 1..n {
            both[j] = c(j).conj();
            both[len - j] = both[j];
        }
        // in double precision, so that the one rounding of a float is all its error
        whole_line(&Plan::<f64>::new(len, Shape::Complex), true, 1.0 / len as f64, &mut both);
        Chirp {
            c: collected((0..n).map(|j| as_point(c(j)))),
            spectrum: collected(both.into_iter().map(as_point)),
            plan: Box::new(Plan::new(len, Shape::Complex)),
        }
    }
    fn run(&self, line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let n = self.c.len();
        let work = &mut scratch[..self.spectrum.len()];
        run(Product { a: &line[..n], b: &self.c, out: &mut work[..n] });
        work[n..].fill(Complex::new(T::default(), T::default()));
        whole_line(&self.plan, true, 1.0, work);
        run(ProductInPlace { a: &mut *work, b: &self.spectrum });
        whole_line(&self.plan, false, 1.0, work);
        run(Product { a: &work[..n], b: &self.c, out: &mut line[..n] });
    }
}
/// The least length of at least `n` that goes along a line or as a matrix, of whole squares of vectors of `lanes`.
fn padded(n: usize, lanes: usize) -> usize {
    let square = lanes * lanes;
    if !simd::are_there(level()) {
        return n.next_power_of_two();
    }
    let by = |odd: usize| odd * (n.div_ceil(odd).next_power_of_two().max(square));
    by(1).min(by(3)).min(by(5))
}
fn whole_line<T: Point>(plan: &Plan<T>, forward: bool, scale: f64, line: &mut [Complex<T>]) {
    let one = Lines { outer: 1, outer_step: 0, inner: 1, inner_step: 0, stride: 1 };
    transform(plan, forward, scale, (Input::Itself, &one), (Output::Complex(line), &one));
}
fn as_point<T: Point>(w: Complex<f64>) -> Complex<T> {
    Complex::new(T::of(w.re), T::of(w.im))
}

/// `out = a b`, place by place.
struct Product<'a, T> {
    a: &'a [Complex<T>],
    b: &'a [Complex<T>],
    out: &'a mut [Complex<T>],
}
impl<T: Point> Job for Product<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for ((a, b), out) in self.a.iter().zip(self.b).zip(self.out) {
            *out = times(*a, *b);
        }
    }
}
/// `a = a b`, place by place.
struct ProductInPlace<'a, T> {
    a: &'a mut [Complex<T>],
    b: &'a [Complex<T>],
}
impl<T: Point> Job for ProductInPlace<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (a, b) in self.a.iter_mut().zip(self.b) {
            *a = times(*a, *b);
        }
    }
}
