use super::*;
use crate::engine::parallel::{num_threads, set_num_threads};
use half::bf16;
use num_complex::Complex;

struct Lcg(u64);
impl Lcg {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
    fn float(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 31) as f64 * 2.0 - 1.0
    }
}

/// Calls `f(x index, w index, y index)` for each product of the convolution.
fn each(s: &ConvShape, mut f: impl FnMut(usize, usize, usize)) {
    let (cg, og) = (s.c / s.groups, s.o / s.groups);
    for n in 0..s.n {
        for o in 0..s.o {
            for p in 0..s.out_plane() {
                let op = [p / (s.output[1] * s.output[2]), p / s.output[2] % s.output[1], p % s.output[2]];
                for c in 0..cg {
                    for t in 0..s.taps() {
                        let tp =
                            [t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1], t % s.kernel[2]];
                        let mut at = 0;
                        let mut ok = true;
                        for d in 0..3 {
                            let i =
                                (op[d] * s.stride[d] + tp[d] * s.dilation[d]) as isize - s.pad[d] as isize;
                            ok &= i >= 0 && (i as usize) < s.input[d];
                            at = at * s.input[d] + i.max(0) as usize;
                        }
                        if ok {
                            f(
                                (n * s.c + o / og * cg + c) * s.in_plane() + at,
                                (o * cg + c) * s.taps() + t,
                                (n * s.o + o) * s.out_plane() + p,
                            );
                        }
                    }
                }
            }
        }
    }
}

trait Model: ConvScalar {
    fn from(v: f64) -> Self;
    fn to(self) -> f64;
    /// Rounding of the result, and of each term of a sum.
    const TOL: f64;
    const SUM: f64;
}
macro_rules! model {
    ($($t:ty, $tol:expr, $sum:expr, $from:expr, $to:expr);*) => {$(impl Model for $t {
        fn from(v: f64) -> Self { $from(v) }
        fn to(self) -> f64 { $to(self) }
        const TOL: f64 = $tol;
        const SUM: f64 = $sum;
    })*};
}
model! {
    f32, 1e-7, 3e-7, |v| v as f32, |v| v as f64;
    f64, 2e-16, 1e-15, |v| v, |v| v;
    bf16, 4e-3, 3e-7, bf16::from_f64, bf16::to_f64;
    i64, 0.0, 0.0, |v| (v * 100.0) as i64, |v| v as f64;
    Complex<f32>, 1e-7, 3e-7, |v| Complex::new(v as f32, 0.0), |v: Complex<f32>| v.re as f64
}

fn check<T: Model>(rng: &mut Lcg, s: &ConvShape) {
    let mut fill = |n: usize| -> Vec<T> { (0..n).map(|_| T::from(rng.float())).collect() };
    let (x, w, gy) = (fill(s.x_len()), fill(s.w_len()), fill(s.y_len()));
    let (b, bc) = (fill(s.o), fill(s.c));
    // A sum's error grows with the sizes of its terms, whatever cancels; the result is rounded once more.
    let close = |got: &[T], want: &[(f64, f64)], what: &str| {
        for (i, (g, (w, size))) in got.iter().zip(want).enumerate() {
            let tol = T::TOL * w.abs() + T::SUM * size;
            assert!((g.to() - w).abs() <= tol, "{what} {s:?} at {i}: {} want {w}", g.to());
        }
    };
    let add = |cell: &mut (f64, f64), v: f64| *cell = (cell.0 + v, cell.1 + v.abs());
    let start = |v: f64| (v, v.abs());
    let mut want: Vec<_> = (0..s.y_len()).map(|i| start(b[i / s.out_plane() % s.o].to())).collect();
    each(s, |xi, wi, yi| add(&mut want[yi], x[xi].to() * w[wi].to()));
    let mut got = vec![T::from(7.0); s.y_len()];
    forward(s, &x, &w, Some(&b), &mut got);
    close(&got, &want, "forward");

    let mut want = vec![(0.0, 0.0); s.x_len()];
    each(s, |xi, wi, yi| add(&mut want[xi], gy[yi].to() * w[wi].to()));
    let mut got = vec![T::from(7.0); s.x_len()];
    backward_input(s, &gy, &w, &mut got);
    close(&got, &want, "backward_input");
    for (i, v) in want.iter_mut().enumerate() {
        add(v, bc[i / s.in_plane() % s.c].to());
    }
    transposed(s, &gy, &w, Some(&bc), &mut got);
    close(&got, &want, "transposed");

    let mut want = vec![(0.0, 0.0); s.w_len()];
    each(s, |xi, wi, yi| add(&mut want[wi], x[xi].to() * gy[yi].to()));
    let mut got = vec![T::from(7.0); s.w_len()];
    backward_weight(s, &x, &gy, &mut got);
    close(&got, &want, "backward_weight");

    let mut want = vec![(0.0, 0.0); s.o];
    gy.iter().enumerate().for_each(|(i, g)| add(&mut want[i / s.out_plane() % s.o], g.to()));
    let mut got = vec![T::from(7.0); s.o];
    backward_bias(s.n, s.o, s.out_plane(), &gy, &mut got);
    close(&got, &want, "backward_bias");
}

#[test]
fn random_shapes_match_the_model() {
    let mut rng = Lcg(11);
    let mut done = 0;
    while done < 150 {
        let rank = 1 + rng.below(3);
        let groups = 1 + rng.below(3);
        let depthwise = rng.below(4) == 0;
        let (c, o) = if depthwise {
            (groups, groups)
        } else {
            (groups * (1 + rng.below(4)), groups * (1 + rng.below(4)))
        };
        let mut v = |most: usize, least: usize| -> Vec<usize> {
            (0..rank).map(|_| least + rng.below(most)).collect()
        };
        let (input, kernel, stride, pad, dilation) = (v(9, 1), v(4, 1), v(3, 1), v(4, 0), v(3, 1));
        let n = rng.below(4);
        let Ok(s) = ConvShape::new((n, c, o, groups), &input, &kernel, &stride, &pad, &dilation) else {
            continue;
        };
        check::<f32>(&mut rng, &s);
        check::<f64>(&mut rng, &s);
        check::<i64>(&mut rng, &s);
        if done % 4 == 0 {
            check::<bf16>(&mut rng, &s);
            check::<Complex<f32>>(&mut rng, &s);
        }
        done += 1;
    }
}

#[test]
fn larger_images_take_the_tiled_paths() {
    let mut rng = Lcg(23);
    let cases: [(usize, usize, usize, usize, usize, usize, usize, usize); 6] = [
        (2, 16, 24, 30, 3, 1, 1, 1),
        (1, 3, 16, 60, 7, 2, 3, 1),
        (1, 40, 48, 14, 3, 1, 1, 2),
        (2, 32, 64, 14, 1, 1, 0, 1),
        (1, 64, 64, 14, 3, 2, 1, 64),
        (1, 12, 8, 40, 4, 2, 1, 2),
    ];
    for (n, c, o, size, k, stride, pad, groups) in cases {
        let s =
            ConvShape::new((n, c, o, groups), &[size; 2], &[k; 2], &[stride; 2], &[pad; 2], &[1; 2]).unwrap();
        let mut wide = Lcg(rng.next());
        check::<f64>(&mut wide, &s);
    }
}

/// Sizes for which the f32 kernels without patches are chosen (on machines that have them), and some next to them: widths
/// and channels that fill no vector, strides with and without taps for each remainder, dilation, groups, three dimensions.
#[test]
fn direct_paths() {
    let mut rng = Lcg(31);
    type Case<'a> =
        ((usize, usize, usize, usize), &'a [usize], &'a [usize], &'a [usize], &'a [usize], &'a [usize]);
    let cases: [Case; 16] = [
        ((2, 16, 24, 1), &[30, 29], &[3, 3], &[1, 1], &[1, 1], &[1, 1]),
        ((1, 7, 13, 1), &[17, 50], &[3, 5], &[1, 1], &[1, 2], &[1, 1]),
        ((3, 3, 16, 1), &[40, 41], &[7, 7], &[2, 2], &[3, 3], &[1, 1]),
        ((1, 20, 36, 2), &[20, 18], &[3, 3], &[2, 1], &[1, 1], &[1, 1]),
        ((2, 16, 32, 2), &[19, 33], &[3, 3], &[1, 1], &[2, 2], &[2, 2]),
        ((1, 32, 16, 1), &[28, 28], &[4, 4], &[2, 2], &[1, 1], &[1, 1]),
        ((1, 16, 16, 1), &[25, 27], &[2, 2], &[3, 3], &[0, 1], &[1, 1]),
        ((1, 24, 16, 1), &[30, 30], &[3, 3], &[1, 1], &[0, 0], &[3, 2]),
        ((2, 16, 16, 1), &[900], &[3], &[1], &[1], &[1]),
        ((1, 12, 16, 1), &[6, 9, 20], &[3, 2, 3], &[1, 1, 1], &[1, 0, 1], &[1, 1, 1]),
        ((1, 16, 16, 1), &[9, 8, 18], &[2, 3, 3], &[2, 2, 2], &[0, 1, 1], &[1, 1, 2]),
        ((5, 40, 48, 1), &[14, 14], &[3, 3], &[1, 1], &[1, 1], &[1, 1]),
        // whose vectors run along the channels
        ((8, 24, 64, 1), &[7, 7], &[3, 3], &[1, 1], &[1, 1], &[1, 1]),
        ((9, 48, 32, 2), &[7, 6], &[3, 3], &[1, 1], &[1, 2], &[1, 1]),
        ((11, 24, 32, 1), &[8, 9], &[3, 3], &[2, 2], &[1, 1], &[1, 1]),
        ((7, 24, 31, 1), &[5, 5], &[5, 3], &[1, 1], &[2, 1], &[1, 1]),
    ];
    let before = num_threads();
    for (i, (channels, input, kernel, stride, pad, dilation)) in cases.into_iter().enumerate() {
        let s = ConvShape::new(channels, input, kernel, stride, pad, dilation).unwrap();
        assert!(i < 12 || by_position::turns(&s), "{s:?}");
        for threads in [1, 3] {
            set_num_threads(threads);
            check::<f32>(&mut rng, &s);
        }
    }
    set_num_threads(before);
}

/// Shapes that are computed in squares (on machines that can): odd extents, borders and none, channels that fill no vector
/// and more than one block, several images, threads.
#[test]
fn squares() {
    let mut rng = Lcg(37);
    let cases = [
        ((1, 32, 40, 1), [16, 32], [1, 1]),
        ((3, 70, 33, 1), [14, 14], [1, 1]),
        ((2, 33, 64, 1), [9, 31], [1, 0]),
        ((1, 64, 48, 1), [33, 32], [0, 1]),
        ((2, 48, 32, 1), [9, 70], [1, 1]),
        ((5, 64, 64, 1), [10, 10], [1, 1]),
    ];
    let before = num_threads();
    for (i, (channels, input, pad)) in cases.into_iter().enumerate() {
        let s = ConvShape::new(channels, &input, &[3, 3], &[1, 1], &pad, &[1, 1]).unwrap();
        assert!(winograd::serves(&s) || !crate::blas::unpacked::available(), "{s:?}");
        set_num_threads(if i % 2 == 0 { 3 } else { 1 });
        check::<f32>(&mut rng, &s);
    }
    set_num_threads(before);
}

/// Planes whose rows are a part of a vector, one, or several, and are computed side by side: where they lie, with borders of all
/// widths, and from copies.
#[test]
fn planes_of_their_own() {
    let mut rng = Lcg(47);
    for [h, w] in [[1, 16], [2, 7], [3, 40], [5, 20], [7, 7], [9, 70], [13, 17], [6, 5], [1, 1]] {
        for (k, stride, dilation) in [
            (3, 1, 1),
            (5, 1, 1),
            (7, 1, 1),
            (3, 2, 1),
            (5, 2, 1),
            (7, 2, 1),
            (4, 1, 1),
            (3, 3, 1),
            (3, 1, 2),
        ] {
            for pad in [[k / 2; 2], [0, k - 1], [k - 1, 1], [k, 2 * k]] {
                let s = ConvShape::new((2, 3, 3, 3), &[h, w], &[k; 2], &[stride; 2], &pad, &[dilation; 2]);
                s.into_iter().for_each(|s| check::<f32>(&mut rng, &s));
            }
        }
    }
}

/// What is infinite at the border of a plane reaches the gradients of the taps that see it, and no others.
#[test]
fn infinite_borders_of_planes() {
    for (k, stride) in [(3, 1), (5, 1), (3, 2), (5, 2)] {
        let s = ConvShape::new((1, 2, 2, 2), &[9, 11], &[k; 2], &[stride; 2], &[k / 2; 2], &[1; 2]).unwrap();
        for corner in [0, 10, 88, 98] {
            let mut x = vec![1.0f32; s.x_len()];
            x[corner] = f32::INFINITY;
            let gy = vec![1.0f32; s.y_len()];
            let (mut met, mut gw) = (vec![false; s.w_len()], vec![0.0; s.w_len()]);
            each(&s, |xi, wi, _| met[wi] |= xi == corner);
            backward_weight(&s, &x, &gy, &mut gw);
            assert!(met.iter().zip(&gw).all(|(m, g)| *m != g.is_finite()), "{k} {stride} {corner}: {gw:?}");

            let mut w = vec![1.0f32; s.w_len()];
            w[0] = f32::INFINITY;
            let (mut met, mut gx) = (vec![false; s.x_len()], vec![0.0; s.x_len()]);
            each(&s, |xi, wi, _| met[xi] |= wi == 0);
            backward_input(&s, &gy, &w, &mut gx);
            assert!(
                stride == 1 || met.iter().zip(&gx).all(|(m, g)| *m != g.is_finite()),
                "{k} {stride}: {gx:?}"
            );
        }
    }
}

/// Kernels of one tap with a stride: what no result sees is left out first, and has no gradient.
#[test]
fn one_tap_with_a_stride() {
    let mut rng = Lcg(53);
    type Case<'a> = ((usize, usize, usize, usize), &'a [usize], &'a [usize]);
    let cases: [Case; 6] = [
        ((2, 16, 24, 1), &[15, 14], &[2, 2]),
        ((1, 20, 36, 2), &[28, 30], &[2, 1]),
        ((3, 3, 7, 1), &[5, 9], &[1, 3]),
        ((2, 40, 48, 1), &[300], &[2]),
        ((1, 6, 9, 3), &[4, 5, 6], &[3, 2, 2]),
        ((2, 8, 8, 1), &[3, 3], &[9, 9]),
    ];
    for (channels, input, stride) in cases {
        let d = input.len();
        let s = ConvShape::new(channels, input, &vec![1; d], stride, &vec![0; d], &vec![1; d]).unwrap();
        check::<f32>(&mut rng, &s);
        check::<f64>(&mut rng, &s);
        check::<bf16>(&mut rng, &s);
        check::<i64>(&mut rng, &s);
    }
}

/// What is not finite, and the errors of large numbers, reach the results that see them, and no others.
#[test]
fn large_numbers_stay_in_their_windows() {
    let s = ConvShape::new((1, 32, 32, 1), &[16, 16], &[3, 3], &[1, 1], &[1, 1], &[1, 1]).unwrap();
    let mut rng = Lcg(43);
    let mut fill = |n: usize| -> Vec<f32> { (0..n).map(|_| rng.float() as f32).collect() };
    let (mut x, w) = (fill(s.x_len()), fill(s.w_len()));
    let mut plain = vec![0.0; s.y_len()];
    forward(&s, &x, &w, None, &mut plain);
    for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1e15, 1e5, 100.0] {
        x[5 * 16 + 6] = bad;
        let mut y = vec![0.0; s.y_len()];
        forward(&s, &x, &w, None, &mut y);
        for (i, (y, plain)) in y.iter().zip(&plain).enumerate() {
            let (row, column) = (i / 16 % 16, i % 16);
            if (4..=6).contains(&row) && (5..=7).contains(&column) {
                assert!(!y.is_finite() || (y - plain).abs() > 1e-3, "{bad} at {i}: {y}");
            } else {
                assert!((y - plain).abs() < 1e-4, "{bad} at {i}: {y} {plain}");
            }
        }
    }
}

/// Results that are fewer than the input has room for (transposed convolutions with output padding), with stride 1 as well:
/// the mirrored convolution would read behind its input.
#[test]
fn fewer_results_than_fit() {
    let mut rng = Lcg(41);
    let mut done = 0;
    while done < 120 {
        let rank = 1 + rng.below(2);
        let large = done % 3 == 0;
        let (c, o) = if large { (16, 16) } else { (1 + rng.below(3), 1 + rng.below(3)) };
        let mut v = |most: usize, least: usize| -> Vec<usize> {
            (0..rank).map(|_| least + rng.below(most)).collect()
        };
        let input = if large { v(6, 12) } else { v(9, 1) };
        let (output, kernel, stride, pad, dilation) = (v(12, 1), v(3, 1), v(2, 1), v(3, 0), v(3, 1));
        let Ok(s) = ConvShape::between((1, c, o, 1), &input, &output, &kernel, &stride, &pad, &dilation)
        else {
            continue;
        };
        check::<f32>(&mut rng, &s);
        check::<f64>(&mut rng, &s);
        done += 1;
    }
}

/// Copies would be larger by far than what is read and written: other ways are taken.
#[test]
fn much_padding() {
    let mut rng = Lcg(43);
    for (channels, input, kernel, stride, pad, dilation) in [
        ((1, 2, 2, 1), [3, 4], [3, 3], [1 << 40, 1 << 39], [1 << 40, 1 << 40], [1, 1]),
        ((1, 2, 2, 2), [3, 4], [3, 3], [1 << 40, 1 << 39], [1 << 40, 1 << 40], [1, 1]),
        ((1, 16, 16, 1), [9, 9], [5, 5], [1 << 20, 1 << 20], [1 << 21, 1 << 21], [1 << 20, 1 << 20]),
        ((2, 16, 16, 16), [9, 9], [5, 5], [1 << 20, 1 << 20], [1 << 21, 1 << 21], [1 << 20, 1 << 20]),
    ] {
        let s = ConvShape::new(channels, &input, &kernel, &stride, &pad, &dilation).unwrap();
        check::<f32>(&mut rng, &s);
        check::<f64>(&mut rng, &s);
    }
}

#[test]
fn transposed_sizes() {
    let s = ConvShape::transposed((1, 4, 2, 1), &[5], &[3], &[2], &[1], &[1], &[1]).unwrap();
    assert_eq!((s.input[2], s.output[2]), (10, 5));
    assert!(ConvShape::transposed((1, 4, 2, 1), &[5], &[3], &[2], &[1], &[2], &[1]).is_err());
    assert!(ConvShape::new((1, 4, 2, 1), &[2], &[3], &[1], &[0], &[1]).is_err());
    assert!(ConvShape::new((1, 4, 2, 3), &[5], &[3], &[1], &[0], &[1]).is_err());
    assert!(ConvShape::new((1, 4, 2, 1), &[5], &[3], &[0], &[0], &[1]).is_err());
}

/// GFLOP/s of layers of ResNets: `cargo test --release -p flambeau-cpu --lib conv -- --ignored --nocapture`.
#[test]
#[ignore = "measures, asserts nothing"]
fn speed() {
    set_num_threads(1);
    for (n, c, size, kernel, stride) in [
        (1, 64, 56, 3, 1),
        (8, 64, 56, 3, 1),
        (1, 256, 14, 3, 1),
        (8, 256, 14, 3, 1),
        (8, 512, 7, 3, 1),
        (8, 128, 56, 3, 2),
    ] {
        let s = ConvShape::new(
            (n, c, c, 1),
            &[size, size],
            &[kernel; 2],
            &[stride; 2],
            &[kernel / 2; 2],
            &[1, 1],
        )
        .unwrap();
        let fill = |len: usize| -> Vec<f32> { (0..len).map(|i| (i % 89) as f32 * 0.01).collect() };
        let (x, w, mut y) = (fill(s.x_len()), fill(s.w_len()), fill(s.y_len()));
        let gy = y.clone();
        let (mut gx, mut gw) = (x.clone(), w.clone());
        let flops = 2.0 * (s.n * s.out_plane() * s.o * s.c * s.taps()) as f64;
        let time = |f: &mut dyn FnMut()| {
            let best = (0..30).map(|_| {
                let t = std::time::Instant::now();
                f();
                t.elapsed().as_secs_f64()
            });
            let best = best.fold(f64::INFINITY, f64::min);
            format!("{:.2} ms, {:.0} GFLOP/s", best * 1e3, flops / best * 1e-9)
        };
        let a = time(&mut || forward(&s, &x, &w, None, &mut y));
        let b = time(&mut || backward_input(&s, &gy, &w, &mut gx));
        let d = time(&mut || backward_weight(&s, &x, &gy, &mut gw));
        println!("{n} x {c} x {size}^2, {kernel}^2 / {stride}: {a}; for the input {b}; for the weight {d}");
    }
}
