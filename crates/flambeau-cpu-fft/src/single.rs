//! Lines one by one.

use super::lines::Raw;
use super::{Plan, Point, Shape};
use crate::engine::parallel::parallel_for;
use crate::engine::room::filled;
use crate::engine::scratch::with_scratch;
use num_complex::Complex;

/// A transform of one line in place, not divided by anything.
pub(super) trait Single<T: Copy>: Send + Sync {
    /// Elements of work memory that [`Single::run`] needs.
    fn scratch(&self) -> usize;
    /// Transforms `line`.
    fn run(&self, line: &mut [Complex<T>], scratch: &mut [Complex<T>]);
    /// Transforms `src` into `line`.
    fn run_from(&self, src: &[Complex<T>], line: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        for (to, from) in line.iter_mut().zip(src) {
            *to = *from;
        }
        self.run(line, scratch);
    }
}

/// Nanoseconds of work that pay for another thread.
const GRAIN: usize = 40_000;

pub(super) fn run<T: Point>(plan: &Plan<T>, single: &dyn Single<T>, raw: &Raw<T>) {
    let length = plan.shape.length(plan.n);
    let each = (length * (length.ilog2() as usize + 4)).max(1);
    parallel_for(raw.to.count(), GRAIN / each, |range| {
        let zero = Complex::new(T::default(), T::default());
        // where a result is one piece of memory, the line is transformed there
        let there = plan.shape == Shape::Complex && raw.to.stride == 2;
        let mut line = if there { Vec::new() } else { filled(zero, length) };
        with_scratch::<T, _>(2 * single.scratch(), |scratch| {
            // SAFETY: a complex number is two floats, and the memory is aligned to 64 bytes.
            let scratch = unsafe {
                std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast::<Complex<T>>(), scratch.len() / 2)
            };
            for i in range {
                // SAFETY: `Raw::new` checked that all lines lie within their slices, and each is written by one task.
                unsafe {
                    let (src, dst) = (raw.src.add(raw.from.start(i)), raw.dst.add(raw.to.start(i)));
                    one(plan, single, raw, src, dst, &mut line, scratch);
                }
            }
        });
    });
}

// `Complex` has its operators for the number traits of another crate alone.
fn conj<T: Point>(a: Complex<T>) -> Complex<T> {
    Complex::new(a.re, -a.im)
}
fn plus<T: Point>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    Complex::new(a.re + b.re, a.im + b.im)
}
fn less<T: Point>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    Complex::new(a.re - b.re, a.im - b.im)
}
pub(super) fn times<T: Point>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}
fn scaled<T: Point>(a: Complex<T>, s: T) -> Complex<T> {
    Complex::new(a.re * s, a.im * s)
}

/// # Safety
/// A line of the plan's shape begins at `src`, and another at `dst`.
unsafe fn one<T: Point>(
    plan: &Plan<T>,
    single: &dyn Single<T>,
    raw: &Raw<T>,
    src: *const T,
    dst: *mut T,
    line: &mut [Complex<T>],
    scratch: &mut [Complex<T>],
) {
    let (n, len, step, scale) = (plan.n, plan.shape.length(plan.n), raw.from.stride, raw.scale);
    // SAFETY: the caller's promise.
    let real = |j: usize| unsafe { *src.add(j * step) };
    let sign = if raw.conj { -T::of(1.0) } else { T::of(1.0) };
    // SAFETY: the caller's promise.
    let complex = |j: usize| unsafe { Complex::new(*src.add(j * step), sign * *src.add(j * step + 1)) };
    let packed = len < n;
    match plan.shape {
        Shape::Complex => {
            // straight into the result where that is one piece of memory
            if raw.to.stride == 2 {
                // SAFETY: the line's elements follow each other; nobody else uses them.
                let line = unsafe { std::slice::from_raw_parts_mut(dst.cast::<Complex<T>>(), n) };
                if src == dst.cast_const() {
                    single.run(line, scratch);
                } else if step == 2 && !raw.conj {
                    // SAFETY: the input's elements follow each other as well, and are others than the output's.
                    let src = unsafe { std::slice::from_raw_parts(src.cast::<Complex<T>>(), n) };
                    single.run_from(src, line, scratch);
                } else {
                    line.iter_mut().enumerate().for_each(|(j, v)| *v = complex(j));
                    single.run(line, scratch);
                }
                if raw.unscaled {
                    return;
                }
                line.iter_mut().for_each(|v| *v = scaled(*v, scale));
                return;
            }
            line.iter_mut().enumerate().for_each(|(j, v)| *v = complex(j));
        }
        Shape::Half | Shape::Whole if packed => {
            line.iter_mut().enumerate().for_each(|(j, v)| *v = Complex::new(real(2 * j), real(2 * j + 1)));
        }
        Shape::Half | Shape::Whole => {
            line.iter_mut().enumerate().for_each(|(j, v)| *v = Complex::new(real(j), T::default()));
        }
        Shape::Real if packed => {
            for k in 0..=len / 2 {
                let (mut a, mut b) = (complex(k), complex(len - k));
                if k == 0 {
                    (a.im, b.im) = (T::default(), T::default());
                }
                let (e, d) = (plus(a, conj(b)), less(a, conj(b)));
                let o = times(d, conj(plan.turns[k]));
                if k > 0 && 2 * k != len {
                    line[len - k] = Complex::new(e.re + o.im, o.re - e.im);
                }
                line[k] = Complex::new(e.re - o.im, e.im + o.re);
            }
        }
        Shape::Real => {
            for k in 0..n / 2 + 1 {
                let v = complex(k);
                line[k] = v;
                if k == 0 {
                    line[0].im = T::default();
                } else {
                    line[n - k] = conj(v);
                }
            }
        }
    }
    single.run(line, scratch);
    // SAFETY: the caller's promise.
    let put = |k: usize, v: Complex<T>| unsafe {
        *dst.add(k * raw.to.stride) = v.re * scale;
        *dst.add(k * raw.to.stride + 1) = v.im * scale;
    };
    let both = |k: usize, v: Complex<T>| {
        put(k, v);
        if plan.shape == Shape::Whole && k > 0 {
            put(n - k, conj(v));
        }
    };
    match plan.shape {
        Shape::Complex => line.iter().enumerate().for_each(|(k, v)| put(k, *v)),
        Shape::Half | Shape::Whole if packed => {
            let half = T::of(0.5);
            // the ends are real; their zeros are positive, which `angle` tells from negative ones
            let (z, zero) = (line[0], T::default());
            both(0, Complex::new(z.re + z.im, zero));
            put(len, Complex::new(z.re - z.im, zero));
            for k in 1..=len / 2 {
                let (z, y) = (line[k], conj(line[len - k]));
                let (e, d) = (plus(z, y), less(z, y));
                let o = times(Complex::new(d.im, -d.re), plan.turns[k]);
                if 2 * k != len {
                    both(len - k, scaled(conj(less(e, o)), half));
                }
                both(k, scaled(plus(e, o), half));
            }
        }
        Shape::Half | Shape::Whole => {
            for k in 0..n / 2 + 1 {
                let mut v = line[k];
                if k == 0 {
                    v.im = T::default();
                }
                both(k, v);
            }
        }
        Shape::Real => {
            // SAFETY: the caller's promise.
            let put = |j: usize, v: T| unsafe { *dst.add(j * raw.to.stride) = v * scale };
            for (j, v) in line.iter().enumerate() {
                if packed {
                    put(2 * j, v.re);
                    put(2 * j + 1, v.im);
                } else {
                    put(j, v.re);
                }
            }
        }
    }
}
