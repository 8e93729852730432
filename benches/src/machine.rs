//! What the machine can do at most, by loops that do nothing else.
//!
//! The loops are written with vectors: closures that [`Arch::dispatch`] calls are compiled for the plainest machine wherever the
//! compiler does not inline them, and then measure that one.

use pulp::{Arch, Simd, WithSimd};
use serde_json::{Value, json};
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::Barrier;
use std::time::Instant;

/// Seconds that a figure is measured for, in so many rounds: short ones fit between other programs' turns.
const TIME: f64 = 0.3;
const ROUNDS: usize = 40;

/// Work per second of all threads together: each gets a body of its own, which says how much a call does. All run at once; the
/// best of several rounds.
fn rate<B: FnMut()>(threads: usize, work: f64, make: impl Fn() -> B + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        let mut body = make();
        body();
        let t = Instant::now();
        body();
        let calls = (TIME / ROUNDS as f64 / t.elapsed().as_secs_f64().max(1e-9)).clamp(1.0, 1e6) as usize;
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            barrier.wait();
            let t = Instant::now();
            (0..calls).for_each(|_| body());
            best = best.min(t.elapsed().as_secs_f64() / calls as f64);
        }
        work / best
    };
    std::thread::scope(|s| {
        let all: Vec<_> = (0..threads).map(|_| s.spawn(one)).collect();
        all.into_iter().map(|t| t.join().unwrap_or(0.0)).sum()
    })
}

/// Numbers whose first one begins a cache line: vectors that cross lines cost two accesses.
struct Buffer {
    numbers: Vec<f32>,
    at: usize,
}
impl Buffer {
    const LINE: usize = 64;
    fn new(value: f32, count: usize) -> Self {
        let spare = Self::LINE / size_of::<f32>();
        let numbers = vec![value; count + spare];
        let at = numbers.as_ptr().align_offset(Self::LINE).min(spare);
        Buffer { numbers, at }
    }
    fn get(&self) -> &[f32] {
        black_box(&self.numbers[self.at..])
    }
    fn get_mut(&mut self) -> &mut [f32] {
        black_box(&mut self.numbers[self.at..])
    }
}

/// Reads numbers and adds them up.
struct Read<'a>(&'a [f32]);
impl WithSimd for Read<'_> {
    type Output = f32;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        // two additions begin in a cycle and take four at most
        const SUMS: usize = 8;
        let mut sums = [simd.splat_f32s(0.0); SUMS];
        for part in S::as_simd_f32s(self.0).0.chunks_exact(SUMS) {
            for i in 0..SUMS {
                sums[i] = simd.add_f32s(sums[i], part[i]);
            }
        }
        let mut sum = sums[0];
        for s in &sums[1..] {
            sum = simd.add_f32s(sum, *s);
        }
        simd.reduce_sum_f32s(sum)
    }
}
/// Writes sums of two.
struct Add<'a> {
    a: &'a [f32],
    b: &'a [f32],
    to: &'a mut [f32],
}
impl WithSimd for Add<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (a, b) = (S::as_simd_f32s(self.a).0, S::as_simd_f32s(self.b).0);
        for ((to, a), b) in S::as_mut_simd_f32s(self.to).0.iter_mut().zip(a).zip(b) {
            *to = simd.add_f32s(*a, *b);
        }
    }
}

/// Bytes per second of the best of a read, a copy and a sum of two, each byte counted once, over that much memory in all.
fn bandwidth(threads: usize, bytes: usize) -> f64 {
    let arch = Arch::new();
    // whole rounds of the widest vectors, so that nothing is left out
    let count = (bytes / threads / 4).next_multiple_of(3 * 128);
    let read = rate(threads, (count * 4) as f64, || {
        let a = Buffer::new(1.0, count);
        move || {
            black_box(arch.dispatch(Read(&a.get()[..count])));
        }
    });
    let half = count / 2;
    let copy = rate(threads, (half * 8) as f64, || {
        let (a, mut b) = (Buffer::new(1.0, half), Buffer::new(2.0, half));
        move || b.get_mut()[..half].copy_from_slice(&a.get()[..half])
    });
    let third = count / 3;
    let add = rate(threads, (third * 12) as f64, || {
        let (a, b, mut c) = (Buffer::new(1.0, third), Buffer::new(2.0, third), Buffer::new(3.0, third));
        move || {
            let (a, b, to) = (&a.get()[..third], &b.get()[..third], &mut c.get_mut()[..third]);
            arch.dispatch(Add { a, b, to });
        }
    });
    read.max(copy).max(add)
}

/// Independent chains of multiply-adds: two begin in a cycle and take five at most, and the vectors fit sixteen registers.
const CHAINS: usize = 12;
const STEPS: usize = 4096;

/// Chains of multiply-adds of one dtype; how many operations they are, two for each.
macro_rules! chains {
    ($name:ident, $t:ty, $lanes:ident, $splat:ident, $mul_add:ident) => {
        struct $name {
            start: $t,
            factor: $t,
            term: $t,
        }
        impl WithSimd for $name {
            type Output = f64;
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> f64 {
                let mut chains = [simd.$splat(self.start); CHAINS];
                let (x, y) = (simd.$splat(self.factor), simd.$splat(self.term));
                for _ in 0..STEPS {
                    for c in &mut chains {
                        // one instruction where there is one, else two
                        *c = simd.$mul_add(*c, x, y);
                    }
                }
                black_box(chains);
                (2 * STEPS * CHAINS * S::$lanes) as f64
            }
        }
        impl $name {
            /// Operations per second.
            fn peak(threads: usize) -> f64 {
                let arch = Arch::new();
                let once =
                    || arch.dispatch($name { start: 1.0, factor: black_box(0.5), term: black_box(0.25) });
                rate(threads, once(), || {
                    move || {
                        black_box(once());
                    }
                })
            }
        }
    };
}
chains!(Single, f32, F32_LANES, splat_f32s, mul_add_e_f32s);
chains!(Double, f64, F64_LANES, splat_f64s, mul_add_e_f64s);

/// A function of each number of a vector.
trait Function {
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s;
}
/// `p r + c` for each coefficient.
#[inline(always)]
fn polynomial<S: Simd>(simd: S, first: f32, coefficients: &[f32], x: S::f32s) -> S::f32s {
    let mut p = simd.splat_f32s(first);
    for c in coefficients {
        p = simd.mul_add_e_f32s(p, x, simd.splat_f32s(*c));
    }
    p
}
/// By a polynomial of degree 6 and the bits of the exponent: what a function of the kind costs at least.
struct Exp;
impl Function for Exp {
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let magic = simd.splat_f32s(12_582_912.0);
        let shifted = simd.mul_add_e_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), magic);
        let n = simd.sub_f32s(shifted, magic);
        let r = simd.mul_add_e_f32s(n, simd.splat_f32s(-std::f32::consts::LN_2), x);
        let p = polynomial(simd, 1.0 / 720.0, &[1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0], r);
        let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
        simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(p), exponent))
    }
}
struct Sigmoid;
impl Function for Sigmoid {
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let one = simd.splat_f32s(1.0);
        let e = Exp::of(simd, simd.mul_f32s(x, simd.splat_f32s(-1.0)));
        simd.div_f32s(one, simd.add_f32s(one, e))
    }
}
struct Tanh;
impl Function for Tanh {
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let two = simd.splat_f32s(2.0);
        let s = Sigmoid::of(simd, simd.mul_f32s(x, two));
        simd.mul_add_e_f32s(s, two, simd.splat_f32s(-1.0))
    }
}
/// With the error function by a polynomial over an exponential (Abramowitz and Stegun 7.1.26).
struct Gelu;
impl Function for Gelu {
    #[inline(always)]
    fn of<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
        let (one, half, minus) = (simd.splat_f32s(1.0), simd.splat_f32s(0.5), simd.splat_f32s(-1.0));
        let z = simd.mul_f32s(x, simd.splat_f32s(std::f32::consts::FRAC_1_SQRT_2));
        let sign = simd.and_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(1 << 31));
        let z = simd.transmute_f32s_u32s(simd.xor_u32s(simd.transmute_u32s_f32s(z), sign));
        let t = simd.div_f32s(one, simd.mul_add_e_f32s(z, simd.splat_f32s(0.327_591_1), one));
        let p = polynomial(simd, 1.061_405_4, &[-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6], t);
        let e = Exp::of(simd, simd.mul_f32s(simd.mul_f32s(z, z), minus));
        let erf = simd.mul_add_e_f32s(simd.mul_f32s(simd.mul_f32s(p, t), minus), e, one);
        let erf = simd.transmute_f32s_u32s(simd.xor_u32s(simd.transmute_u32s_f32s(erf), sign));
        simd.mul_f32s(simd.mul_f32s(half, x), simd.add_f32s(one, erf))
    }
}
/// A function of the numbers of whole vectors.
struct Apply<'a, F> {
    from: &'a [f32],
    to: &'a mut [f32],
    function: PhantomData<F>,
}
impl<'a, F> Apply<'a, F> {
    fn new(from: &'a [f32], to: &'a mut [f32]) -> Self {
        Apply { from, to, function: PhantomData }
    }
}
impl<F: Function> WithSimd for Apply<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let from = S::as_simd_f32s(self.from).0;
        for (to, x) in S::as_mut_simd_f32s(self.to).0.iter_mut().zip(from) {
            *to = F::of(simd, *x);
        }
    }
}
/// Calls per second of a function on data in the nearest cache.
fn function<F: Function>(threads: usize) -> f64 {
    const COUNT: usize = 2048;
    let arch = Arch::new();
    rate(threads, COUNT as f64, || {
        let (a, mut b) = (Buffer::new(0.3, COUNT), Buffer::new(0.0, COUNT));
        move || arch.dispatch(Apply::<F>::new(&a.get()[..COUNT], &mut b.get_mut()[..COUNT]))
    })
}

/// Seconds for a page of 4 KiB that the system gives at first touch.
fn page_fault() -> f64 {
    const PAGE: usize = 4096;
    const BYTES: usize = 64 << 20;
    let once = || {
        let mut fresh = vec![0u8; BYTES];
        let t = Instant::now();
        for at in (0..BYTES).step_by(PAGE) {
            black_box(&mut fresh)[at] = 1;
        }
        t.elapsed().as_secs_f64() / (BYTES / PAGE) as f64
    };
    (0..5).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Seconds for the least that an operator does: memory for a result, its arithmetic, memory back.
fn small_operation() -> f64 {
    let one = || {
        let (a, b) = (black_box(1f32), black_box(2f32));
        black_box(std::sync::Arc::new([a + b; 1]));
    };
    1.0 / rate(1, 1.0, || one)
}

/// Everything, for one number of threads.
pub fn measure(threads: usize) -> Value {
    let sizes: Vec<usize> = (14..=28).step_by(2).map(|k| 1usize << k).collect();
    let bandwidths: Vec<Value> = sizes.into_iter().map(|b| json!([b, bandwidth(threads, b)])).collect();
    json!({
        "threads": threads,
        "bandwidth": bandwidths,
        "peak": { "f32": Single::peak(threads), "f64": Double::peak(threads) },
        "function": {
            "exp": function::<Exp>(threads), "tanh": function::<Tanh>(threads), "sigmoid": function::<Sigmoid>(threads),
            "gelu": function::<Gelu>(threads),
        },
        "page_s": page_fault(),
        "operation_s": small_operation(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_are_what_they_say() {
        // whole vectors of any machine
        let x: Vec<f32> = (-40..40).map(|i| i as f32 / 10.0).collect();
        fn of<F: Function>(x: &[f32]) -> Vec<f32> {
            let mut y = vec![f32::NAN; x.len()];
            Arch::new().dispatch(Apply::<F>::new(x, &mut y));
            y
        }
        let (exp, tanh, sigmoid, gelu) = (of::<Exp>(&x), of::<Tanh>(&x), of::<Sigmoid>(&x), of::<Gelu>(&x));
        for (i, x) in x.into_iter().enumerate() {
            let near = |a: f32, b: f32, most: f32| assert!((a - b).abs() < most, "{x}: {a} {b}");
            near(exp[i], x.exp(), 1e-5 * x.exp());
            near(tanh[i], x.tanh(), 1e-5);
            near(sigmoid[i], 1.0 / (1.0 + (-x).exp()), 1e-5);
            near(gelu[i], torch::nn::functional::gelu(&torch::tensor(x)).item::<f32>(), 1e-5);
        }
    }

    #[test]
    fn loops_do_their_work() {
        let x: Vec<f32> = (0..1024).map(|i| i as f32).collect();
        assert_eq!(Arch::new().dispatch(Read(&x)), 523_776.0);
        let mut to = vec![0.0; 1024];
        Arch::new().dispatch(Add { a: &x, b: &x, to: &mut to });
        assert!(to.iter().zip(&x).all(|(to, x)| *to == 2.0 * x));
        assert_eq!(Buffer::new(0.0, 5).get().as_ptr().align_offset(Buffer::LINE), 0);
    }

    /// Vectors that were compiled for a machine without them take a hundredth of their rate.
    #[test]
    #[cfg_attr(debug_assertions, ignore = "speed: of optimised programs")]
    fn multiply_adds_use_vectors() {
        #[cfg(target_arch = "x86_64")]
        if !matches!(Arch::new(), Arch::Scalar) {
            // two units of eight numbers at a gigahertz are 32
            assert!(Single::peak(1) > 16e9, "{}", Single::peak(1));
        }
    }

    #[test]
    fn rates_add_up_over_threads() {
        let slow = || || std::thread::sleep(std::time::Duration::from_millis(1));
        let (one, two) = (rate(1, 1.0, slow), rate(2, 1.0, slow));
        assert!(one > 0.0 && one <= 1000.0 && two <= 2000.0, "{one} {two}");
    }
}
