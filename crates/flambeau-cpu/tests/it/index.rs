//! Scans, softmax, norms, sorting and indexing against naive models.

use flambeau_cpu::index::{self, Along, IndexError, Inner, Reduce};
use flambeau_cpu::reduce::Geo;
use flambeau_cpu::{B8, scan, softmax, sort};

struct Rng(u64);
impl Rng {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 20) as usize % n.max(1)
    }
    fn f(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}
fn close(a: f64, b: f64, tol: f64) {
    assert!((a - b).abs() <= tol * (1.0 + b.abs()) || a == b || (a.is_nan() && b.is_nan()), "{a} vs {b}");
}
const SHAPES: [(usize, usize, usize); 8] =
    [(1, 1, 1), (3, 0, 2), (5, 40, 1), (300, 129, 1), (2, 37, 70), (1, 1000, 3), (4, 1, 9), (1, 5000, 1)];

#[test]
fn softmaxes() {
    let mut r = Rng(5);
    for (o, n, i) in SHAPES {
        let g = Geo::contiguous(o, n, i);
        let x: Vec<f32> = (0..o * n * i).map(|_| (r.f() * 30.0) as f32).collect();
        let dy: Vec<f32> = x.iter().map(|_| r.f() as f32).collect();
        let (mut y, mut l) = (vec![0f32; x.len()], vec![0f32; x.len()]);
        softmax::softmax(&x, o, n, i, &mut y);
        softmax::log_softmax(&x, o, n, i, &mut l);
        let (mut dx, mut dl) = (y.clone(), y.clone());
        softmax::softmax_backward(&dy, &y, o, n, i, &mut dx);
        softmax::log_softmax_backward(&dy, &l, o, n, i, &mut dl);
        for row in 0..g.rows() {
            let at: Vec<usize> = (0..n).map(|k| g.base(row) + k * i).collect();
            let m = at.iter().map(|a| x[*a] as f64).fold(f64::NEG_INFINITY, f64::max);
            let s: f64 = at.iter().map(|a| (x[*a] as f64 - m).exp()).sum();
            let dot: f64 = at.iter().map(|a| dy[*a] as f64 * (x[*a] as f64 - m).exp() / s).sum();
            let sum: f64 = at.iter().map(|a| dy[*a] as f64).sum();
            for a in at {
                let p = (x[a] as f64 - m).exp() / s;
                // `x - m` is rounded to single precision, which its exponential magnifies.
                let tol = p * (1e-6 + (x[a] as f64 - m).abs() * 6e-8) + 1e-37;
                assert!((y[a] as f64 - p).abs() <= tol, "{} {p}", y[a]);
                close(l[a] as f64, x[a] as f64 - m - s.ln(), 1e-6);
                close(dx[a] as f64, p * (dy[a] as f64 - dot), 1e-6);
                close(dl[a] as f64, dy[a] as f64 - p * sum, 1e-5);
            }
        }
    }
    let mut y = [0f64; 3];
    softmax::softmax(&[f64::NEG_INFINITY, 0.0, 1.0], 1, 3, 1, &mut y);
    assert_eq!(y[0], 0.0);
    close(y[1], 1.0 / (1.0 + 1f64.exp()), 1e-15);
    for (x, want) in
        [(-80f32, (-80f64).exp()), (-95.0, (-95f64).exp()), (-104.5, 0.0), (f32::NEG_INFINITY, 0.0)]
    {
        let mut y = [0f32; 2];
        softmax::softmax(&[x, 0.0], 1, 2, 1, &mut y);
        assert!((y[0] as f64 - want).abs() <= want * 1e-6 + 1e-45, "{} {want}", y[0]);
    }
    softmax::softmax(&[f64::NEG_INFINITY; 3], 1, 3, 1, &mut y);
    assert!(y.iter().all(|v| v.is_nan()));
}

/// Gradients of the norms against central differences in f64.
#[test]
fn norms() {
    let mut r = Rng(8);
    let (rows, n) = (300, 37);
    let x: Vec<f64> = (0..rows * n).map(|_| r.f() * 2.0 + 1.0).collect();
    let w: Vec<f64> = (0..n).map(|_| r.f()).collect();
    let b: Vec<f64> = (0..n).map(|_| r.f()).collect();
    let dy: Vec<f64> = x.iter().map(|_| r.f()).collect();
    for rms in [false, true] {
        let run = |x: &[f64], w: &[f64], b: &[f64]| {
            let (mut y, mut m, mut s) = (vec![0.0; x.len()], vec![0.0; rows], vec![0.0; rows]);
            if rms {
                softmax::rms_norm(x, n, Some(w), 1e-5, &mut y, &mut s);
            } else {
                let a = softmax::Affine { gamma: Some(w), beta: Some(b) };
                softmax::layer_norm(x, n, a, 1e-5, &mut y, &mut m, &mut s);
            }
            (y, m, s)
        };
        let (y, m, s) = run(&x, &w, &b);
        let row = &x[n..2 * n];
        let mean = if rms { 0.0 } else { row.iter().sum::<f64>() / n as f64 };
        let var = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        for j in 0..n {
            let want = (row[j] - mean) / (var + 1e-5).sqrt() * w[j] + if rms { 0.0 } else { b[j] };
            close(y[n + j], want, 1e-12);
        }
        let (mut dx, mut dw, mut db) = (vec![0.0; x.len()], vec![0.0; n], vec![0.0; n]);
        if rms {
            softmax::rms_norm_backward(&dy, &x, n, Some(&w), &s, Some(&mut dx), Some(&mut dw));
        } else {
            let (a, b, c) = (Some(&mut dx[..]), Some(&mut dw[..]), Some(&mut db[..]));
            softmax::layer_norm_backward(&dy, &x, n, Some(&w), &m, &s, a, b, c);
        }
        let loss = |x: &[f64], w: &[f64], b: &[f64]| -> f64 {
            run(x, w, b).0.iter().zip(&dy).map(|(a, b)| a * b).sum()
        };
        let h = 1e-5;
        let slope = |f: &dyn Fn(f64) -> f64| (f(h) - f(-h)) / (2.0 * h);
        for k in [0, 5, n * 7 + 3, x.len() - 1] {
            let d = slope(&|e| {
                let mut x = x.clone();
                x[k] += e;
                loss(&x, &w, &b)
            });
            close(dx[k], d, 1e-6);
        }
        for k in [0, n - 1] {
            let d = slope(&|e| {
                let mut w = w.clone();
                w[k] += e;
                loss(&x, &w, &b)
            });
            close(dw[k], d, 1e-6);
            if !rms {
                close(db[k], dy.iter().skip(k).step_by(n).sum(), 1e-12);
            }
        }
    }
}

#[test]
fn scans() {
    let mut r = Rng(6);
    for (o, n, i) in SHAPES {
        // A transposed view: the row dimension lies last in memory.
        for g in [
            Geo::contiguous(o, n, i),
            Geo { outer: o, n, inner: i, os: (n * i) as isize, ns: 1, is: n as isize },
        ] {
            let x: Vec<f64> = (0..o * n * i)
                .map(|_| if r.below(90) == 0 { f64::NAN } else { r.below(9) as f64 - 4.0 })
                .collect();
            let z = vec![0f64; x.len()];
            let (mut s, mut p, mut m, mut l) = (z.clone(), z.clone(), z.clone(), z);
            let mut at = vec![0i64; x.len()];
            scan::cumsum(&x, g, &mut s);
            scan::cumprod(&x, g, &mut p);
            scan::cummax(&x, g, &mut m, &mut at);
            scan::logcumsumexp(&x, g, &mut l);
            for row in 0..g.rows() {
                let (mut cs, mut cp, mut e) = (0.0, 1.0, 0.0);
                let mut best = 0;
                let v = |k: usize| x[g.base(row) + k * g.ns as usize];
                for k in 0..n {
                    cs += v(k);
                    cp *= v(k);
                    e += v(k).exp();
                    if v(k).is_nan() || v(k) >= v(best) {
                        best = k;
                    }
                    let q = row / i * n * i + k * i + row % i;
                    close(s[q], cs, 0.0);
                    close(p[q], cp, 0.0);
                    close(l[q], e.ln(), 1e-12);
                    close(m[q], v(best), 0.0);
                    assert_eq!(at[q] as usize, best);
                }
            }
        }
    }
    let mut l = [0f32; 3];
    scan::logcumsumexp(&[f32::NEG_INFINITY, f32::INFINITY, 1.0], Geo::contiguous(1, 3, 1), &mut l);
    assert_eq!(l, [f32::NEG_INFINITY, f32::INFINITY, f32::INFINITY]);
}

fn sorts_of<T: flambeau_cpu::reduce::Order + PartialOrd>(make: impl Fn(&mut Rng) -> T) {
    let mut r = Rng(12);
    for (o, n, i) in SHAPES.into_iter().chain([(1, 40_000, 1), (1, 70_001, 1)]) {
        let g = Geo::contiguous(o, n, i);
        let x: Vec<T> = (0..o * n * i).map(|_| make(&mut r)).collect();
        for descending in [false, true] {
            let (mut v, mut at) = (x.clone(), vec![0i64; x.len()]);
            sort::sort(&x, g, descending, &mut v, &mut at);
            let k = n.min(5);
            let (mut tv, mut ti) = (vec![T::LOW; g.rows() * k], vec![0i64; g.rows() * k]);
            sort::topk(&x, g, k, descending, true, &mut tv, &mut ti);
            for row in 0..g.rows() {
                let el = |k: i64| x[g.base(row) + k as usize * i];
                let mut want: Vec<i64> = (0..n as i64).collect();
                want.sort_by(|a, b| {
                    let (a, b) = (el(*a), el(*b));
                    let c =
                        a.nan().cmp(&b.nan()).then(a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal));
                    if descending { c.reverse() } else { c }
                });
                for (k2, w) in want.iter().enumerate() {
                    let q = row / i * n * i + k2 * i + row % i;
                    assert_eq!(at[q], *w, "{o} {n} {i}");
                    assert!(v[q] == el(*w) || v[q].nan());
                    if k2 < k {
                        assert_eq!(ti[row / i * k * i + k2 * i + row % i], *w);
                    }
                }
            }
        }
    }
}
#[test]
fn sorts() {
    sorts_of(|r| if r.below(50) == 0 { f32::NAN } else { (r.below(2000) as f32 - 1000.0) * 1e-2 });
    sorts_of(|r| [0.0f64, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1e-310][r.below(6)]);
    sorts_of(|r| half::f16::from_f32([r.f() as f32, -0.0, 0.0, f32::NAN, -1e-7][r.below(5)]));
    sorts_of(|r| half::bf16::from_f32([r.f() as f32, -0.0, 0.0, f32::NAN][r.below(4)]));
    sorts_of(|r| r.bits() as i64);
    sorts_of(|r| r.bits() as i32);
    sorts_of(|r| r.bits() as i8);
    sorts_of(|r| r.below(200) as u8);
    sorts_of(|r| (r.bits() >> 9) as i16);
    sorts_of(|r| r.bits() << 3);
}

#[test]
fn uniques_and_masks() {
    let nan = f32::NAN;
    let u = sort::unique(&[nan, 1.0, nan, -0.0, 0.0], true);
    assert_eq!((u.first, u.inverse, u.counts), (vec![3, 1, 0, 2], vec![2, 1, 3, 0, 0], vec![2, 1, 1, 1]));
    assert_eq!(sort::unique::<i32>(&[], true), sort::Unique::default());
    let u = sort::unique_consecutive(&[1, 1, 2, 1]);
    assert_eq!((u.first, u.inverse, u.counts), (vec![0, 2, 3], vec![0, 0, 1, 2], vec![2, 1, 1]));
    // by a table and by sorting
    let close: Vec<i64> = (0..5000).map(|i| i64::MIN + i * 7919 % 1013).collect();
    let far: Vec<i64> = close.iter().map(|v| (v - i64::MIN) << 40).collect();
    let (close, far) = (sort::unique(&close, true), sort::unique(&far, true));
    assert_eq!(close, far);
    assert_eq!((close.counts.iter().sum::<i64>(), close.counts.len()), (5000, 1013));
    assert!(sort::unique(&[3, 1, 3], false).inverse.is_empty());
    let mut r = Rng(2);
    let shape = [7, 100, 71];
    let mask: Vec<B8> = (0..7 * 7100).map(|_| B8((r.below(3) == 0) as u8 * 2)).collect();
    let want: Vec<usize> = (0..mask.len()).filter(|i| mask[*i].get()).collect();
    let coords: Vec<i64> =
        want.iter().flat_map(|i| [(i / 7100) as i64, (i / 71 % 100) as i64, (i % 71) as i64]).collect();
    assert_eq!(sort::nonzero(&mask, &shape), coords);
    let x: Vec<i32> = (0..mask.len() as i32).collect();
    assert_eq!(sort::masked_select(&x, &mask), want.iter().map(|i| *i as i32).collect::<Vec<_>>());
    assert!(sort::nonzero(&[1u8, 0], &[2]) == [0] && sort::nonzero(&[1f32], &[]).is_empty());
    assert_eq!(sort::bincount(&[1, 3, 1], 6), Ok(vec![0, 2, 0, 1, 0, 0]));
    assert_eq!(sort::bincount(&[1, -3], 0), Err(IndexError { index: -3, size: 2 }));
    assert_eq!(sort::histc(&[1f32, 2.0, 2.5, 4.0], 3, 0.0, 0.0), [1.0, 2.0, 1.0]);
    let mut out = [0i64; 4];
    let b = [1f32, 2.0, 2.0, 3.0];
    for (right, want) in [(false, [0, 1, 4, 4]), (true, [0, 3, 4, 4])] {
        sort::searchsorted(&b, 4, None, &[0.5, 2.0, nan, 9.0], 4, right, &mut out).unwrap();
        assert_eq!(out, want);
    }
}

/// Threads share the places out by a dimension that is not indexed; those that overlap are left to one thread.
#[test]
fn scatters_of_many_elements() {
    let mut r = Rng(78);
    let shape = [30, 40, 50];
    // contiguous, permuted, and overlapping
    for strides in [[2000, 50, 1], [1, 30, 1200], [1, 1, 50]] {
        for dim in 0..3 {
            let len = 1 + (0..3).map(|d| (shape[d] - 1) * strides[d]).sum::<usize>();
            let idx: Vec<i64> = (0..60_000).map(|_| r.below(shape[dim]) as i64).collect();
            let src: Vec<f32> = (0..60_000).map(|_| r.f() as f32).collect();
            let (mut want, mut got) = (vec![0f32; len], vec![0f32; len]);
            for (p, s) in src.iter().enumerate() {
                let mut c = [p / 2000, p / 50 % 40, p % 50];
                c[dim] = idx[p] as usize;
                want[(0..3).map(|d| c[d] * strides[d]).sum::<usize>()] += s;
            }
            let a = Along { shape: &shape, strides: &strides, dim, size: shape[dim] };
            index::scatter_add(&mut got, a, &idx, &src).unwrap();
            assert_eq!(got, want, "{strides:?} {dim}");
            let mut wrong = idx.clone();
            wrong[59_999] = shape[dim] as i64;
            assert!(index::scatter_add(&mut got, a, &wrong, &src).is_err());
            assert_eq!(got, want);
        }
    }
}

#[test]
fn indexing() {
    let mut r = Rng(77);
    let (o, n, i, m) = (3, 11, 5, 20);
    let g = Geo::contiguous(o, n, i);
    let x: Vec<i32> = (0..(o * n * i) as i32).collect();
    let idx: Vec<i64> = (0..m).map(|_| r.below(n) as i64).collect();
    let mut out = vec![0i32; o * m * i];
    index::index_select(&x, g, &idx, &mut out).unwrap();
    let mut added = vec![0i64; x.len()];
    for (q, v) in out.iter().enumerate() {
        let at = q / (m * i) * n * i + idx[q / i % m] as usize * i + q % i;
        assert_eq!(*v, x[at]);
        added[at] += 2 * q as i64;
    }
    let src: Vec<i64> = (0..out.len() as i64).collect();
    let mut dst = vec![0i64; x.len()];
    index::index_add(&mut dst, g, &idx, &src, 2).unwrap();
    assert_eq!(dst, added);
    assert_eq!(index::index_select(&x, g, &[-1], &mut out[..15]), Err(IndexError { index: -1, size: n }));

    // Gather and scatter with an index tensor smaller than the data, along each dimension.
    let (shape, data, strides) = ([2, 3, 4], [4, 5, 6], [30, 6, 1]);
    let x: Vec<f32> = (0..120).map(|_| r.f() as f32).collect();
    for dim in 0..3 {
        let idx: Vec<i64> = (0..24).map(|_| r.below(data[dim]) as i64).collect();
        let a = Along { shape: &shape, strides: &strides, dim, size: data[dim] };
        let at = |p: usize| {
            let mut c = [p / 12, p / 4 % 3, p % 4];
            c[dim] = idx[p] as usize;
            c[0] * 30 + c[1] * 6 + c[2]
        };
        let mut out = vec![0f32; 24];
        index::gather(&x, a, &idx, &mut out).unwrap();
        (0..24).for_each(|p| assert_eq!(out[p], x[at(p)]));
        for op in [Reduce::Sum, Reduce::Prod, Reduce::Mean, Reduce::Amax, Reduce::Amin] {
            for own in [false, true] {
                let mut d = x.clone();
                index::scatter_reduce(&mut d, a, &idx, &out, op, own).unwrap();
                for q in 0..120 {
                    let mut v: Vec<f32> = (0..24).filter(|p| at(*p) == q).map(|p| out[p]).collect();
                    if own || v.is_empty() {
                        v.push(x[q]);
                    }
                    let want = match op {
                        Reduce::Sum => v.iter().sum(),
                        Reduce::Prod => v.iter().product(),
                        Reduce::Mean => v.iter().sum::<f32>() / v.len() as f32,
                        Reduce::Amax => v.iter().copied().fold(f32::MIN, f32::max),
                        Reduce::Amin => v.iter().copied().fold(f32::MAX, f32::min),
                    };
                    close(d[q] as f64, want as f64, 1e-6);
                }
            }
        }
        let bad = vec![data[dim] as i64; 24];
        let mut d = x.clone();
        let err = Err(IndexError { index: data[dim] as i64, size: data[dim] });
        assert_eq!(index::scatter_add(&mut d, a, &bad, &out), err);
        assert_eq!(d, x, "nothing is written on an error");
    }

    let at = index::offsets(&[(&[0, -1, 1], 4, 30), (&[-5], 5, 6)], 3).unwrap();
    assert_eq!(at, [0, 90, 30]);
    assert_eq!(index::offsets(&[(&[4], 4, 1)], 1), Err(IndexError { index: 4, size: 4 }));
    assert_eq!(index::offsets(&[(&[-5], 4, 1)], 1), Err(IndexError { index: -5, size: 4 }));
    let mut out = [0f32; 6];
    index::index(&x, &at, Inner::Offsets(&[0, 2]), &mut out);
    assert_eq!(out, [x[0], x[2], x[90], x[92], x[30], x[32]]);
    let mut d = [0i32; 4];
    index::put_add(&mut d, &[0, -1, 3], &[1, 2, 3]).unwrap();
    assert_eq!(d, [1, 0, 0, 5]);

    let mut dw = [0f32; 6];
    let dy = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    index::embedding_backward(&dy, &[1, 0, 1, 2], 2, Some(0), true, &mut dw).unwrap();
    assert_eq!(dw, [0.0, 0.0, 3.0, 4.0, 7.0, 8.0]);
}

/// Times with one thread: `cargo test --release -- --ignored --nocapture speed`.
#[test]
#[ignore]
fn speed() {
    flambeau_cpu::parallel::set_num_threads(1);
    let mut r = Rng(4);
    let x: Vec<f32> = (0..1_000_000).map(|_| r.f() as f32).collect();
    let z: Vec<i64> = (0..1_000_000).map(|_| r.bits() as i64 >> 4).collect();
    let (mut v, mut at) = (x.clone(), vec![0i64; x.len()]);
    let mut w = z.clone();
    let time = |what: &str, f: &mut dyn FnMut()| {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let t = std::time::Instant::now();
            f();
            best = best.min(t.elapsed().as_secs_f64());
        }
        println!("{what}: {:.2} ms", best * 1e3);
    };
    let (one, rows, cols) =
        (Geo::contiguous(1, 1_000_000, 1), Geo::contiguous(1000, 1000, 1), Geo::contiguous(1, 1000, 1000));
    time("sort f32 1e6", &mut || sort::sort(&x, one, false, &mut v, &mut at));
    time("sort i64 1e6", &mut || sort::sort(&z, one, false, &mut w, &mut at));
    time("sort f32 rows of 1000", &mut || sort::sort(&x, rows, false, &mut v, &mut at));
    time("topk 100 of 1e6", &mut || sort::topk(&x, one, 100, true, true, &mut v[..100], &mut at[..100]));
    time("softmax rows", &mut || softmax::softmax(&x, 1000, 1000, 1, &mut v));
    time("softmax columns", &mut || softmax::softmax(&x, 1, 1000, 1000, &mut v));
    time("cumsum rows", &mut || scan::cumsum(&x, rows, &mut v));
    time("cumsum columns", &mut || scan::cumsum(&x, cols, &mut v));
    let (mut m, mut s) = (vec![0f32; 1000], vec![0f32; 1000]);
    let a = softmax::Affine { gamma: Some(&x[..1000]), beta: Some(&x[..1000]) };
    time("layer norm", &mut || softmax::layer_norm(&x, 1000, a, 1e-5, &mut v, &mut m, &mut s));
}
