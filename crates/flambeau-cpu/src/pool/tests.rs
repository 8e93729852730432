use super::*;

struct Lcg(u64);
impl Lcg {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// The window of output position `o`: extent with padding, and the positions inside, in memory order.
fn window(s: &PoolShape, o: usize) -> Vec<usize> {
    let op = [o / (s.output[1] * s.output[2]), o / s.output[2] % s.output[1], o % s.output[2]];
    let taps: usize = s.kernel.iter().product();
    (0..taps)
        .filter_map(|t| {
            let tp = [t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1], t % s.kernel[2]];
            (0..3).try_fold(0, |at, d| {
                let i = (op[d] * s.stride[d] + tp[d] * s.dilation[d]).checked_sub(s.pad[d])?;
                (i < s.input[d]).then_some(at * s.input[d] + i)
            })
        })
        .collect()
}

fn random(rng: &mut Lcg, dilated: bool) -> PoolShape {
    loop {
        let rank = 1 + rng.below(3);
        let planes = rng.below(4);
        let ceil = rng.below(2) == 0;
        let mut v =
            |n: usize, least: usize| -> Vec<usize> { (0..rank).map(|_| least + rng.below(n)).collect() };
        let (input, kernel, stride, pad) = (v(24, 1), v(4, 1), v(3, 1), v(2, 0));
        let dilation = if dilated { v(2, 1) } else { vec![1; rank] };
        if let Ok(s) = PoolShape::new(planes, &input, &kernel, &stride, &pad, &dilation, ceil) {
            return s;
        }
    }
}

#[test]
fn max_pool_matches_the_model() {
    let mut rng = Lcg(1);
    for _ in 0..200 {
        let s = random(&mut rng, true);
        let (ip, op) = (s.in_plane(), s.out_plane());
        // Few distinct values, so that ties must go to the first; some NaN.
        let x: Vec<f32> = (0..s.planes * ip)
            .map(|_| match rng.below(12) {
                0 => f32::NAN,
                1 => f32::NEG_INFINITY,
                v => v as f32 - 6.0,
            })
            .collect();
        let (mut y, mut index) = (vec![9.0; s.planes * op], vec![-1; s.planes * op]);
        max_pool(&s, &x, &mut y, &mut index);
        // Another type takes the general loop where f32 has its own.
        let wide: Vec<f64> = x.iter().map(|v| *v as f64).collect();
        let (mut wide_y, mut wide_index) = (vec![9.0; y.len()], vec![-1; y.len()]);
        max_pool(&s, &wide, &mut wide_y, &mut wide_index);
        assert_eq!(index, wide_index, "{s:?}");
        assert!(y.iter().zip(&wide_y).all(|(a, b)| a.to_string() == b.to_string()), "{s:?}");
        for (i, (y, at)) in y.iter().zip(&index).enumerate() {
            let plane = &x[i / op * ip..][..ip];
            let w = window(&s, i % op);
            let mut best = (f32::NEG_INFINITY, w.first().copied());
            for &p in &w {
                if plane[p] > best.0 || plane[p].is_nan() {
                    best = (plane[p], Some(p));
                }
            }
            assert!(*y == best.0 || (y.is_nan() && best.0.is_nan()), "{s:?} {i}: {y} {best:?}");
            if let Some(p) = best.1 {
                assert_eq!(*at, p as i64, "{s:?} {i}");
            }
        }
        if index.iter().all(|i| *i < ip as i64) {
            let g: Vec<f32> = (0..y.len()).map(|i| i as f32 + 1.0).collect();
            let mut gx = vec![5.0; x.len()];
            max_pool_backward(s.planes, ip, &g, &index, &mut gx).unwrap();
            let mut want = vec![0.0; x.len()];
            (0..g.len()).for_each(|i| want[i / op * ip + index[i] as usize] += g[i]);
            assert_eq!(gx, want);
        }
    }
    assert!(max_pool_backward(1, 2, &[1f32], &[2], &mut [0.0, 0.0]).is_err());
}

#[test]
fn avg_pool_matches_the_model() {
    let mut rng = Lcg(2);
    for round in 0..200 {
        let s = random(&mut rng, false);
        let (ip, op) = (s.in_plane(), s.out_plane());
        let div =
            AvgDivisor { count_include_pad: round % 2 == 0, divisor_override: (round % 5 == 0).then_some(3) };
        let x: Vec<f64> = (0..s.planes * ip).map(|_| rng.below(1000) as f64).collect();
        let mut y = vec![9.0; s.planes * op];
        avg_pool(&s, div, &x, &mut y).unwrap();
        let divisor = |o: usize| -> f64 {
            let w = window(&s, o);
            if let Some(d) = div.divisor_override {
                return d as f64;
            }
            if !div.count_include_pad {
                return w.len().max(1) as f64;
            }
            let pos = [o / (s.output[1] * s.output[2]), o / s.output[2] % s.output[1], o % s.output[2]];
            (0..3).map(|d| s.kernel[d].min(s.input[d] + 2 * s.pad[d] - pos[d] * s.stride[d]) as f64).product()
        };
        let mut want_gx = vec![0.0; x.len()];
        for i in 0..y.len() {
            let sum: f64 = window(&s, i % op).iter().map(|p| x[i / op * ip + p]).sum();
            let want = sum / divisor(i % op);
            assert!((y[i] - want).abs() < 1e-9, "{s:?} {div:?} {i}: {} want {want}", y[i]);
            window(&s, i % op).iter().for_each(|p| want_gx[i / op * ip + p] += y[i] / divisor(i % op));
        }
        let mut gx = vec![7.0; x.len()];
        avg_pool_backward(&s, div, &y, &mut gx).unwrap();
        gx.iter().zip(&want_gx).for_each(|(g, w)| assert!((g - w).abs() < 1e-9));
    }
    let s = PoolShape::new(1, &[2], &[1], &[1], &[0], &[1], false).unwrap();
    let zero = AvgDivisor { count_include_pad: true, divisor_override: Some(0) };
    assert!(avg_pool(&s, zero, &[1f32, 2.0], &mut [0.0, 0.0]).is_err());
}

/// Windows that are mostly border go by their positions inside the plane: the same results, ties and first positions.
#[test]
fn window_by_window() {
    let mut rng = Lcg(3);
    for round in 0..200 {
        let s = random(&mut rng, true);
        let (xs, ys) = s.lens();
        let x: Vec<f32> =
            (0..xs).map(|_| [f32::NAN, f32::NEG_INFINITY, 1.0, 2.0, 3.0][rng.below(5)]).collect();
        let (mut y, mut at) = (vec![0.0; ys], vec![0; ys]);
        max_pool(&s, &x, &mut y, &mut at);
        let (mut z, mut by) = (vec![0.0; ys], vec![0; ys]);
        windows::max(&s, &x, &mut z, &mut by);
        assert_eq!((format!("{y:?}"), at), (format!("{z:?}"), by), "{s:?}");
        let s = random(&mut rng, false);
        let (xs, ys) = s.lens();
        let div =
            AvgDivisor { count_include_pad: round % 2 == 0, divisor_override: (round % 5 == 0).then_some(3) };
        let x: Vec<f64> = (0..xs).map(|_| rng.below(1000) as f64).collect();
        let (mut y, mut z) = (vec![0.0; ys], vec![0.0; ys]);
        avg_pool(&s, div, &x, &mut y).unwrap();
        windows::average(&s, div, &x, &mut z);
        assert_eq!(y, z);
        let (mut gx, mut gz) = (vec![0.0; xs], vec![0.0; xs]);
        avg_pool_backward(&s, div, &y, &mut gx).unwrap();
        windows::average_back(&s, div, &y, &mut gz);
        // added up in another order
        gx.iter().zip(&gz).for_each(|(a, b)| assert!((a - b).abs() <= 1e-12 * a.abs(), "{a} {b}"));
    }
    let wide = PoolShape::new(1, &[3], &[1 << 40], &[1 << 39], &[1 << 39], &[1], false).unwrap();
    let (mut y, mut at) = ([0f32; 1], [0; 1]);
    max_pool(&wide, &[1.0, 3.0, 2.0], &mut y, &mut at);
    assert_eq!((y, at), ([3.0], [1]));
}

/// One window that is the plane, of lengths that fill no vector: sums of halves, which are exact.
#[test]
fn means_of_planes() {
    for n in [1, 2, 15, 49, 64, 196, 200] {
        let s = AdaptiveShape::new(3, &[n], &[1]).unwrap();
        let x: Vec<f32> = (0..3 * n).map(|i| (i * 7 % 23) as f32 / 2.0 - 5.0).collect();
        let mut y = [0.0; 3];
        adaptive_avg_pool(&s, &x, &mut y);
        for (y, x) in y.iter().zip(x.chunks(n)) {
            assert_eq!(*y, x.iter().sum::<f32>() / n as f32, "{n}");
        }
    }
}

#[test]
fn adaptive_pools() {
    let s = AdaptiveShape::new(1, &[5], &[3]).unwrap();
    let x = [1f32, 2.0, 3.0, 4.0, 5.0];
    let mut y = [0.0; 3];
    adaptive_avg_pool(&s, &x, &mut y);
    assert_eq!(y, [1.5, 3.0, 4.5]);
    let mut gx = [0.0; 5];
    adaptive_avg_pool_backward(&s, &[2.0, 3.0, 4.0], &mut gx);
    assert_eq!(gx, [1.0, 2.0, 1.0, 3.0, 2.0]);
    let mut at = [0; 3];
    adaptive_max_pool(&s, &[1.0, 7.0, f32::NAN, 4.0, 5.0], &mut y, &mut at);
    assert!(y[0] == 7.0 && y[1].is_nan() && y[2] == 5.0);
    assert_eq!(at, [1, 2, 4]);
    let s = AdaptiveShape::new(2, &[3, 4], &[2, 3]).unwrap();
    let x: Vec<i64> = (0..24).collect();
    let (mut y, mut at) = (vec![0; 12], vec![0; 12]);
    adaptive_max_pool(&s, &x, &mut y, &mut at);
    assert_eq!(y[..6], [5, 6, 7, 9, 10, 11]);
    assert_eq!(at[6..], [5, 6, 7, 9, 10, 11]);
}

#[test]
fn shapes() {
    let s = PoolShape::new(1, &[5, 6], &[2, 2], &[2, 2], &[0, 0], &[1, 1], true).unwrap();
    assert_eq!(s.output, [1, 3, 3]);
    assert!(PoolShape::new(1, &[5], &[2], &[1], &[2], &[1], false).is_err());
    assert!(PoolShape::new(1, &[1], &[3], &[1], &[0], &[1], false).is_err());
}
