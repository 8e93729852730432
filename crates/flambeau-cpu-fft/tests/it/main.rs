//! Transforms against the definition.

use flambeau_cpu_fft::*;
use num_complex::Complex;

fn dft(x: &[Complex<f64>], backward: bool) -> Vec<Complex<f64>> {
    let n = x.len();
    let w = |k: usize| if backward { root(k % n, n).conj() } else { root(k % n, n) };
    (0..n).map(|k| x.iter().enumerate().map(|(j, v)| v * w(j * k)).sum()).collect()
}
fn values(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + 13) % 1009) as f64 / 1009.0 - 0.5).collect()
}
fn pairs(v: &[f64]) -> Vec<Complex<f64>> {
    v.chunks(2).map(|c| Complex::new(c[0], c[1])).collect()
}

/// Layouts of `count` lines of `n`: elements in a row, lines in a row, and neither.
fn layouts(count: usize, n: usize) -> [Lines; 3] {
    [
        Lines { outer: 1, outer_step: 0, inner: count, inner_step: n, stride: 1 },
        Lines { outer: 1, outer_step: 0, inner: count, inner_step: 1, stride: count },
        Lines { outer: count, outer_step: 3, inner: 1, inner_step: 0, stride: 3 * count },
    ]
}
fn size(l: &Lines, n: usize) -> usize {
    l.outer.saturating_sub(1) * l.outer_step + (l.inner - 1) * l.inner_step + (n - 1) * l.stride + 1
}

fn check(n: usize, count: usize, by_one: bool) {
    for shape in [Shape::Complex, Shape::Half, Shape::Whole, Shape::Real] {
        let mut plan = Plan::<f64>::new(n, shape);
        if by_one {
            plan = plan.without_batch().without_along().without_long();
        }
        let (r, w) = (shape.reads(n), shape.writes(n));
        for (from, to) in layouts(count, r)
            .iter()
            .zip(layouts(count, w))
            .flat_map(|(f, t)| layouts(count, w).map(|t| (*f, t)).into_iter().chain([(*f, t)]))
        {
            for forward in [true, false] {
                let x = values(2 * size(&from, r));
                let real = shape.is_from_real();
                let x = if real { &x[..size(&from, r)] } else { &x[..] };
                let input = pairs(if real { &[] } else { x });
                let line = |i: usize| -> Vec<Complex<f64>> {
                    let at = |j: usize| from.start(i) + j * from.stride;
                    match shape {
                        Shape::Complex => (0..n).map(|j| input[at(j)]).collect(),
                        Shape::Real => {
                            let mut v: Vec<_> = (0..r).map(|j| input[at(j)]).collect();
                            v[0].im = 0.0;
                            if n.is_multiple_of(2) {
                                v[r - 1].im = 0.0;
                            }
                            (r..n).for_each(|j| v.push(v[n - j].conj()));
                            v.truncate(n);
                            v
                        }
                        _ => (0..n).map(|j| Complex::new(x[at(j)], 0.0)).collect(),
                    }
                };
                let backward = shape == Shape::Real || (shape == Shape::Complex && !forward);
                let input_of = if real { Input::Real(x) } else { Input::Complex(&input, false) };
                let room = size(&to, w);
                let mut out = vec![Complex::new(9.0, 9.0); room];
                let mut reals = vec![9.0; room];
                let output = match shape {
                    Shape::Real => Output::Real(&mut reals),
                    _ => Output::Complex(&mut out),
                };
                transform(&plan, forward, 0.25, (input_of, &from), (output, &to));
                let mut touched = vec![false; room];
                for i in 0..count {
                    let want = dft(&line(i), backward);
                    for (k, want) in want.iter().enumerate().take(w) {
                        let at = to.start(i) + k * to.stride;
                        touched[at] = true;
                        let got = if shape == Shape::Real {
                            Complex::new(reals[at], want.im * 0.25)
                        } else {
                            out[at]
                        };
                        // `angle` tells a positive zero from a negative one
                        let end = shape.is_from_real() && (k == 0 || 2 * k == n);
                        assert!(!end || got.im.to_bits() == 0, "{shape:?} n {n} line {i}, {k}: {got}");
                        assert!(
                            (got - want * 0.25).norm() < 1e-12 * n as f64,
                            "{shape:?} n {n} {from:?} {to:?} line {i}, {k}: {got} {want}"
                        );
                    }
                }
                for (at, t) in touched.iter().enumerate() {
                    let (a, b) = (out[at], reals[at]);
                    assert!(*t || (a.re == 9.0 && b == 9.0), "{shape:?} n {n}: place {at} was written");
                }
            }
        }
    }
}

#[test]
fn side_by_side_is_the_definition() {
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 22, 26, 32, 49, 60, 64, 121, 128] {
        check(n, 21, false);
    }
    check(256, 19, false);
    check(192, 16, false);
    check(384, 9, false);
    check(30, 4, false);
}
#[test]
fn one_by_one_is_the_definition() {
    for n in [1, 2, 3, 4, 6, 9, 17, 34, 120, 143] {
        check(n, 3, true);
    }
}
/// Bluestein's convolutions, by themselves and of lines packed by two; 257 and 509 need other lengths than powers of two.
#[test]
fn large_factors_are_the_definition() {
    for n in [17, 19, 38, 101, 257, 509, 2 * 157, 17 * 23] {
        check(n, 2, false);
    }
}
/// Single lines whose length is no whole number of squares of vectors: 16 x 20, 15 x 20 and 13 x 26.
#[test]
fn uneven_lengths_are_the_definition() {
    for n in [320, 300, 2 * 13 * 13] {
        check(n, 1, false);
    }
}
/// Single precision beside double, relative to the size of the whole result: as exact as a length without large factors.
#[test]
fn large_factors_in_single_precision() {
    let l = Lines { outer: 1, outer_step: 0, inner: 1, inner_step: 0, stride: 1 };
    let error = |n: usize| {
        let x = values(2 * n);
        let narrow: Vec<Complex<f32>> = x.chunks(2).map(|c| Complex::new(c[0] as f32, c[1] as f32)).collect();
        let wide: Vec<Complex<f64>> = narrow.iter().map(|v| Complex::new(v.re.into(), v.im.into())).collect();
        let (mut a, mut b) = (narrow.clone(), wide.clone());
        let plan = (Plan::<f32>::new(n, Shape::Complex), Plan::<f64>::new(n, Shape::Complex));
        transform(&plan.0, true, 1.0, (Input::Complex(&narrow, false), &l), (Output::Complex(&mut a), &l));
        transform(&plan.1, true, 1.0, (Input::Complex(&wide, false), &l), (Output::Complex(&mut b), &l));
        let far = |(a, b): (&Complex<f32>, &Complex<f64>)| {
            (Complex::new(f64::from(a.re), f64::from(a.im)) - b).norm_sqr()
        };
        let sum: f64 = a.iter().zip(&b).map(far).sum();
        (sum / b.iter().map(|v| v.norm_sqr()).sum::<f64>()).sqrt()
    };
    for n in [1009, 10_007, 65_537] {
        assert!(error(n) < 6e-7, "{n}: {}", error(n));
    }
}
#[test]
fn along_the_line_is_the_definition() {
    // squares of vectors of every set: 16, 64; columns of all kinds of passes
    for n in [16, 32, 64, 128, 192, 320] {
        check(n, 3, false);
    }
}
/// What goes along the line, in both precisions, beside the same line side by side with others, conjugated too.
#[test]
fn along_the_line_is_side_by_side() {
    fn compare<T: Point + Into<f64>>(n: usize, bound: f64) {
        let count = 17;
        for shape in [Shape::Complex, Shape::Half, Shape::Whole, Shape::Real] {
            for (forward, conj) in [(true, false), (false, false), (true, true), (false, true)] {
                let (r, w) = (shape.reads(n), shape.writes(n));
                let (from, to) = (layouts(count, r)[0], layouts(count, w)[0]);
                let x: Vec<T> = values(2 * r * count).into_iter().map(T::of).collect();
                let z: Vec<Complex<T>> = x.chunks(2).map(|c| Complex::new(c[0], c[1])).collect();
                let zero = T::default();
                let run = |along: bool| {
                    let mut plan = Plan::<T>::new(n, shape);
                    if along {
                        assert!(plan.goes_along(), "{n}");
                        plan = plan.without_batch();
                    } else {
                        plan = plan.without_along();
                    }
                    let input = if shape.is_from_real() { Input::Real(&x) } else { Input::Complex(&z, conj) };
                    let mut out = vec![Complex::new(zero, zero); w * count];
                    let mut reals = vec![zero; w * count];
                    let output = match shape {
                        Shape::Real => Output::Real(&mut reals),
                        _ => Output::Complex(&mut out),
                    };
                    transform(&plan, forward, 0.125, (input, &from), (output, &to));
                    let parts = out.iter().flat_map(|c| [c.re, c.im]).chain(reals);
                    parts.map(Into::<f64>::into).collect::<Vec<f64>>()
                };
                let (got, want) = (run(true), run(false));
                for (k, (g, w)) in got.iter().zip(&want).enumerate() {
                    assert!((g - w).abs() < bound, "{shape:?} n {n} place {k}: {g} {w}");
                }
            }
        }
    }
    for n in [512, 1024, 1536, 4096] {
        compare::<f32>(n, 1e-5 * (n as f64).sqrt());
        compare::<f64>(n, 1e-14 * (n as f64).sqrt());
    }
}
/// A result in the input's place.
#[test]
fn along_the_line_in_its_place() {
    let n = 256;
    let plan = Plan::<f64>::new(n, Shape::Complex);
    let l = layouts(2, n)[0];
    let x = pairs(&values(4 * n));
    let (mut there, mut apart) = (x.clone(), vec![Complex::new(0.0, 0.0); 2 * n]);
    transform(&plan, false, 1.0, (Input::Complex(&x, false), &l), (Output::Complex(&mut apart), &l));
    transform(&plan, false, 1.0, (Input::Itself, &l), (Output::Complex(&mut there), &l));
    assert_eq!(there, apart);
}
#[test]
fn long_lines_are_matrices() {
    let l = Lines { outer: 1, outer_step: 0, inner: 1, inner_step: 0, stride: 1 };
    // sides of 128 and 256; of 200 and 225, no whole vectors; of 256 twice
    for (n, forward) in [1 << 15, 45_000, 1 << 16].into_iter().flat_map(|n| [(n, true), (n, false)]) {
        let x: Vec<Complex<f64>> = pairs(&values(2 * n));
        let plan = Plan::<f64>::new(n, Shape::Complex);
        let mut y = vec![Complex::new(0.0, 0.0); n];
        transform(&plan, forward, 0.5, (Input::Complex(&x, false), &l), (Output::Complex(&mut y), &l));
        for k in [0, 1, 2, 63, 64, 255, 12345, n - 1] {
            let w = |j: usize| if forward { root(j * k % n, n) } else { root(j * k % n, n).conj() };
            let want: Complex<f64> = x.iter().enumerate().map(|(j, v)| v * w(j)).sum::<Complex<f64>>() * 0.5;
            assert!((y[k] - want).norm() < 1e-8, "{n} {k}: {} {want}", y[k]);
        }
        let mut there = x;
        transform(&plan, forward, 0.5, (Input::Itself, &l), (Output::Complex(&mut there), &l));
        assert_eq!(y, there);
    }
    let n = 1 << 15;
    // real ones, forth and back
    let real = values(2 * n);
    let (mut half, mut back) = (vec![Complex::new(0.0, 0.0); n + 1], vec![0.0; 2 * n]);
    let p = Plan::<f64>::new(2 * n, Shape::Half);
    transform(&p, true, 1.0, (Input::Real(&real), &l), (Output::Complex(&mut half), &l));
    let p = Plan::<f64>::new(2 * n, Shape::Real);
    let scale = 1.0 / (2 * n) as f64;
    transform(&p, false, scale, (Input::Complex(&half, false), &l), (Output::Real(&mut back), &l));
    assert!(real.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-12));
}
#[test]
fn single_precision_too() {
    let (n, count) = (96, 33);
    let plan = Plan::<f32>::new(n, Shape::Complex);
    let l = layouts(count, n)[0];
    let x: Vec<Complex<f32>> =
        values(2 * n * count).chunks(2).map(|c| Complex::new(c[0] as f32, c[1] as f32)).collect();
    let mut out = vec![Complex::new(0.0, 0.0); n * count];
    transform(&plan, true, 1.0, (Input::Complex(&x, true), &l), (Output::Complex(&mut out), &l));
    for i in 0..count {
        let line: Vec<_> =
            x[i * n..][..n].iter().map(|v| Complex::new(f64::from(v.re), -f64::from(v.im))).collect();
        for (k, w) in dft(&line, false).iter().enumerate() {
            let g = out[i * n + k];
            assert!((Complex::new(f64::from(g.re), f64::from(g.im)) - w).norm() < 2e-5, "{i} {k} {g} {w}");
        }
    }
}
#[test]
fn roots_are_exact() {
    for n in [1usize, 2, 3, 4, 7, 8, 12, 100, 1023] {
        for k in 0..n {
            let (s, c) = (-2.0 * std::f64::consts::PI * k as f64 / n as f64).sin_cos();
            let w = root(k, n);
            // the other side rounds its angle
            assert!((w.re - c).abs() < 2e-15 && (w.im - s).abs() < 2e-15, "{k}/{n}: {w} {c} {s}");
        }
    }
    assert_eq!(root(1, 4), Complex::new(-0.0, -1.0));
}
#[test]
#[should_panic(expected = "beyond the output")]
fn lines_beyond_memory_are_refused() {
    let plan = Plan::<f64>::new(8, Shape::Complex);
    let (x, mut y) = (vec![Complex::new(0.0, 0.0); 64], vec![Complex::new(0.0, 0.0); 63]);
    let l = layouts(8, 8)[0];
    transform(&plan, true, 1.0, (Input::Complex(&x, false), &l), (Output::Complex(&mut y), &l));
}
/// Columns of a matrix that no cache holds, to either layout, in their place, and backwards.
#[test]
fn columns_of_a_large_matrix() {
    fn compare<T: Point + Into<f64>>(n: usize, bound: f64) {
        let columns =
            5 + (flambeau_cpu::engine::cache::l2_bytes() / size_of::<T>() / 2 / n).next_multiple_of(32);
        let x: Vec<Complex<T>> =
            values(2 * n * columns).chunks(2).map(|c| Complex::new(T::of(c[0]), T::of(c[1]))).collect();
        let turned: Vec<_> = (0..n * columns).map(|i| x[i % n * columns + i / n]).collect();
        let [rows, beside, _] = layouts(columns, n);
        let plan = Plan::<T>::new(n, Shape::Complex);
        for forward in [true, false] {
            let run = |x: Input<T>, from: &Lines, to: &Lines, out: &mut [Complex<T>]| {
                transform(&plan, forward, 0.5, (x, from), (Output::Complex(out), to));
            };
            let mut want = vec![Complex::new(T::default(), T::default()); n * columns];
            let (mut got, mut there) = (want.clone(), x.clone());
            run(Input::Complex(&turned, false), &rows, &rows, &mut want);
            let same = |got: &[Complex<T>], at: &dyn Fn(usize, usize) -> usize| {
                for (i, w) in want.iter().enumerate() {
                    let g = got[at(i / n, i % n)];
                    let far = (g.re.into() - w.re.into()).hypot(g.im.into() - w.im.into());
                    assert!(far < bound, "{n} {forward} line {}, {}", i / n, i % n);
                }
            };
            run(Input::Complex(&x, false), &beside, &rows, &mut got);
            same(&got, &|line, k| line * n + k);
            run(Input::Complex(&x, false), &beside, &beside, &mut got);
            same(&got, &|line, k| k * columns + line);
            run(Input::Itself, &beside, &beside, &mut there);
            same(&there, &|line, k| k * columns + line);
        }
    }
    compare::<f32>(128, 1e-4);
    // both sides go through two passes of four or eight
    compare::<f32>(512, 4e-4);
    compare::<f64>(1024, 1e-11);
    compare::<f64>(192, 1e-12);
}

/// What is too large for the caches goes past them, where it is written in whole cache lines.
#[test]
fn streamed_results_are_the_same() {
    let enough = |each: usize| flambeau_cpu::engine::cache::stream_threshold() / (2 * each) + 1;
    fn compare<T: Point + PartialEq>(n: usize, count: usize, way: usize) {
        let number = |c: &[f64]| Complex::new(T::of(c[0]), T::of(c[1]));
        let x: Vec<Complex<T>> = values(2 * n * count).chunks(2).map(number).collect();
        let lines = layouts(count, n)[way];
        let plan = Plan::<T>::new(n, Shape::Complex);
        // a start of a cache line, and one between
        let mut memory = vec![Complex::new(T::default(), T::default()); n * count + 64];
        let at = memory.as_ptr().align_offset(64);
        for (forward, scale) in [(true, 1.0), (false, 0.5)] {
            let mut run = |at: usize| {
                let out = &mut memory[at..][..n * count];
                let input = (Input::Complex(&x, false), &lines);
                transform(&plan, forward, scale, input, (Output::Complex(&mut *out), &lines));
                out.to_vec()
            };
            assert!(run(at) == run(at + 1), "{n} {way} {forward}");
        }
    }
    let lines = |each: usize| enough(each).next_multiple_of(32);
    compare::<f32>(512, lines(512 * 8), 0);
    compare::<f32>(512, lines(512 * 8), 1);
    compare::<f64>(256, lines(256 * 16), 1);
    // a long line's result alone
    compare::<f32>(enough(8).next_power_of_two(), 1, 0);
}
