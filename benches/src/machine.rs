//! What the machine can do at most, by loops that do nothing else.

use pulp::Arch;
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Seconds that a figure is measured for.
const TIME: f64 = 0.3;
const LANES: usize = 16;
/// Independent chains of fused multiply-adds: latency times units, twice.
const CHAINS: usize = 16;

/// Work per second of all threads together: each gets a body of its own, which says how much a call does. All run at once; the
/// best of several rounds.
fn rate<B: FnMut()>(threads: usize, work: f64, make: impl Fn() -> B + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        let mut body = make();
        body();
        let t = Instant::now();
        body();
        let calls = (TIME / 10.0 / t.elapsed().as_secs_f64().max(1e-9)).clamp(1.0, 1e6) as usize;
        let mut best = f64::INFINITY;
        for _ in 0..10 {
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

/// Whether a multiply-add is one instruction in loops of [`arch`]; else it would be a call, and two instructions are the peak.
fn fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        cfg!(target_feature = "fma") || matches!(arch(), Arch::V4(_))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        cfg!(target_arch = "aarch64")
    }
}
/// Bodies of `dispatch` have to be inlined into it: what is called from there is compiled for the plainest machine.
fn arch() -> Arch {
    Arch::new()
}

/// Bytes per second of the best of a read, a copy and a sum of two, each byte counted once, over that much memory in all.
fn bandwidth(threads: usize, bytes: usize) -> f64 {
    let count = (bytes / threads / 4).max(3 * LANES);
    let read = rate(threads, (count * 4) as f64, || {
        let a = vec![1f32; count];
        move || {
            let sum = arch().dispatch(
                #[inline(always)]
                || {
                    let mut sums = [[0f32; LANES]; 4];
                    for part in black_box(&a).chunks_exact(4 * LANES) {
                        for (s, p) in sums.iter_mut().zip(part.chunks_exact(LANES)) {
                            s.iter_mut().zip(p).for_each(|(s, p)| *s += p);
                        }
                    }
                    sums
                },
            );
            black_box(sum);
        }
    });
    let half = count / 2;
    let copy = rate(threads, (half * 8) as f64, || {
        let (a, mut b) = (vec![1f32; half], vec![2f32; half]);
        move || {
            black_box(&mut b).copy_from_slice(black_box(&a));
        }
    });
    let third = count / 3;
    let add = rate(threads, (third * 12) as f64, || {
        let (a, b, mut c) = (vec![1f32; third], vec![2f32; third], vec![3f32; third]);
        move || {
            let (a, b, c) = (black_box(&a), black_box(&b), black_box(&mut c));
            arch().dispatch(
                #[inline(always)]
                || c.iter_mut().zip(a.iter().zip(b)).for_each(|(c, (a, b))| *c = a + b),
            );
        }
    });
    read.max(copy).max(add)
}

/// Operations per second of independent fused multiply-adds: two for each.
macro_rules! peak {
    ($threads:expr, $t:ty, $lanes:expr) => {
        if fused() { peak!($threads, $t, $lanes, true) } else { peak!($threads, $t, $lanes, false) }
    };
    ($threads:expr, $t:ty, $lanes:expr, $fused:expr) => {{
        const FUSED: bool = $fused;
        const STEPS: usize = 4096;
        let work = (2 * STEPS * CHAINS * $lanes) as f64;
        rate($threads, work, || {
            let mut all = [[1.0 as $t; $lanes]; CHAINS];
            move || {
                let (x, y) = (black_box([0.5 as $t; $lanes]), black_box([0.25 as $t; $lanes]));
                arch().dispatch(
                    #[inline(always)]
                    || {
                        let mut chains = all;
                        for _ in 0..STEPS {
                            for c in &mut chains {
                                for i in 0..$lanes {
                                    c[i] = if FUSED { c[i].mul_add(x[i], y[i]) } else { c[i] * x[i] + y[i] };
                                }
                            }
                        }
                        all = chains;
                    },
                );
                black_box(&all);
            }
        })
    }};
}

/// `exp` by a polynomial of degree 6 and the bits of the exponent: what a function of the kind costs at least.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let magic = 12_582_912.0f32;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, magic);
    let n = shifted - magic;
    let r = (-n).mul_add(std::f32::consts::LN_2, x);
    let mut p = 1.0 / 720.0f32;
    for c in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p.mul_add(r, c);
    }
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}
#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}
#[inline(always)]
fn tanh(x: f32) -> f32 {
    2.0 * sigmoid(2.0 * x) - 1.0
}
/// With the error function by a polynomial over an exponential (Abramowitz and Stegun 7.1.26).
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / z.mul_add(0.327_591_1, 1.0);
    let mut p = 1.061_405_4f32;
    for c in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        p = p.mul_add(t, c);
    }
    let erf = (-(p * t)).mul_add(exp(-z * z), 1.0);
    0.5 * x * (1.0 + erf.copysign(x))
}
/// Calls per second of a function on data in the nearest cache.
fn function(threads: usize, f: impl Fn(f32) -> f32 + Copy + Sync) -> f64 {
    const COUNT: usize = 2048;
    rate(threads, COUNT as f64, || {
        let (a, mut b) = ([0.3f32; COUNT], [0f32; COUNT]);
        move || {
            let (a, b) = (black_box(&a), black_box(&mut b));
            arch().dispatch(
                #[inline(always)]
                || b.iter_mut().zip(a).for_each(|(b, a)| *b = f(*a)),
            );
        }
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
        "peak": { "f32": peak!(threads, f32, 16), "f64": peak!(threads, f64, 8) },
        "function": {
            "exp": function(threads, exp), "tanh": function(threads, tanh), "sigmoid": function(threads, sigmoid),
            "gelu": function(threads, gelu),
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
        for i in -40..=40 {
            let x = i as f32 / 10.0;
            assert!((exp(x) - x.exp()).abs() < 1e-5 * x.exp(), "{x}");
            assert!((tanh(x) - x.tanh()).abs() < 1e-5, "{x}");
            let exact = torch::nn::functional::gelu(&torch::tensor(x)).item::<f32>();
            assert!((gelu(x) - exact).abs() < 1e-5, "{x} {} {exact}", gelu(x));
        }
    }

    #[test]
    fn rates_add_up_over_threads() {
        let slow = || || std::thread::sleep(std::time::Duration::from_millis(1));
        let (one, two) = (rate(1, 1.0, slow), rate(2, 1.0, slow));
        assert!(one > 0.0 && one <= 1000.0 && two <= 2000.0, "{one} {two}");
    }
}
