//! Reductions against naive models, over random shapes and strides.

use flambeau_cpu::engine::parallel::{num_threads, set_num_threads};
use flambeau_cpu::reduction::{self, Geo};
use flambeau_cpu::{B8, Element};

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
    fn f(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Geometries of every kind: contiguous, transposed, with gaps, expanded, large enough for several blocks and tasks.
fn geos() -> Vec<Geo> {
    let mut v = vec![
        Geo::contiguous(1, 1, 1),
        Geo::contiguous(3, 1, 5),
        Geo::contiguous(1, 200_003, 1),
        Geo::contiguous(2, 70_000, 1),
        Geo::contiguous(37, 1000, 1),
        Geo::contiguous(1, 2500, 700),
        Geo::contiguous(3, 1025, 4),
        Geo::contiguous(7, 33, 65),
        Geo { outer: 5, n: 0, inner: 3, os: 0, ns: 0, is: 1 },
        Geo { outer: 1, n: 5000, inner: 3, os: 0, ns: 3, is: 1 },
        Geo { outer: 4, n: 100, inner: 3, os: 1, ns: 4, is: 400 },
        Geo { outer: 4, n: 100, inner: 3, os: 300, ns: 1, is: 100 },
        Geo { outer: 2, n: 9000, inner: 2, os: 1, ns: 0, is: 5 },
    ];
    let mut r = Rng(7);
    for _ in 0..30 {
        v.push(Geo {
            outer: r.below(4) + 1,
            n: r.below(300) + 1,
            inner: r.below(70) + 1,
            os: r.below(50) as isize,
            ns: r.below(90) as isize,
            is: r.below(3) as isize,
        });
    }
    v
}
fn len(g: Geo) -> usize {
    if g.n * g.rows() == 0 {
        return 0;
    }
    (g.outer - 1) * g.os as usize + (g.n - 1) * g.ns as usize + (g.inner - 1) * g.is as usize + 1
}
fn rows<T: Copy>(x: &[T], g: Geo) -> Vec<Vec<T>> {
    (0..g.rows()).map(|r| (0..g.n).map(|k| x[g.base(r) + k * g.ns as usize]).collect()).collect()
}
/// Runs on every geometry with 1 and 3 threads: results must be the same to the bit, and pass the check.
fn each<T: Element, O: Element>(
    mut make: impl FnMut(&mut Rng) -> T,
    zero: O,
    empty: bool,
    run: impl Fn(&[T], Geo, &mut [O]),
    check: impl Fn(&[T], O),
) {
    let mut r = Rng(99);
    let before = num_threads();
    for g in geos() {
        if g.n == 0 && !empty {
            continue;
        }
        let x: Vec<T> = (0..len(g)).map(|_| make(&mut r)).collect();
        let mut a = vec![zero; g.rows()];
        let mut b = a.clone();
        set_num_threads(1);
        run(&x, g, &mut a);
        set_num_threads(3);
        run(&x, g, &mut b);
        assert_eq!(bytemuck::cast_slice::<O, u8>(&a), bytemuck::cast_slice::<O, u8>(&b), "{g:?}");
        for (row, v) in rows(&x, g).iter().zip(a) {
            check(row, v);
        }
    }
    set_num_threads(before);
}
fn near(a: f64, b: f64, scale: f64, what: &str) {
    assert!((a - b).abs() <= scale || a == b || (a.is_nan() && b.is_nan()), "{what}: {a} vs {b}");
}

#[test]
fn sums() {
    let s = |row: &[f32]| row.iter().map(|v| *v as f64).sum::<f64>();
    let mag = |row: &[f32]| row.iter().map(|v| v.abs() as f64).sum::<f64>();
    // The worst case of 16 steps and the joins of 4096 elements and of the blocks: at most 34 roundings of 2^-24.
    each(Rng::f, 0f32, true, reduction::sum, |row, v| near(v as f64, s(row), mag(row) * 2e-6 + 1e-30, "sum"));
    each(Rng::f, 0f32, true, reduction::mean, |row, v| {
        near(v as f64, s(row) / row.len() as f64, mag(row) / row.len() as f64 * 2e-6, "mean")
    });
    each(
        |r| r.bits() as i32,
        0i64,
        true,
        reduction::sum,
        |row, v| assert_eq!(v, row.iter().map(|v| *v as i64).sum::<i64>()),
    );
    each(
        |r| B8((r.bits() >> 30) as u8 & 3),
        0i64,
        true,
        reduction::sum,
        |row, v| assert_eq!(v, row.iter().filter(|v| v.get()).count() as i64),
    );
    each(
        |r| half::bf16::from_f32(r.f()),
        half::bf16::ZERO,
        true,
        reduction::sum,
        |row, v| {
            let s: f64 = row.iter().map(|v| v.to_f64()).sum();
            near(v.to_f64(), s, s.abs() / 128.0 + 1e-3, "bf16 sum")
        },
    );
    let gappy = |r: &mut Rng| if r.below(10) == 0 { f64::NAN } else { r.f() as f64 };
    each(gappy, 0f64, true, reduction::nansum, |row, v| {
        near(v, row.iter().filter(|v| !v.is_nan()).sum(), 1e-9, "nansum")
    });
    each(
        |r| 1 + r.below(3) as i64,
        0i64,
        true,
        reduction::prod,
        |row, v| assert_eq!(v, row.iter().fold(1i64, |a, b| a.wrapping_mul(*b))),
    );
}

#[test]
fn variance() {
    each(
        |r| 1000.0 + r.f(),
        0f32,
        true,
        |x, g, o| reduction::var::<f32, f32>(x, g, 1.0, o),
        |row, v| {
            let n = row.len() as f64;
            let m = row.iter().map(|v| *v as f64).sum::<f64>() / n;
            let want = row.iter().map(|v| (*v as f64 - m).powi(2)).sum::<f64>() / (n - 1.0).max(0.0);
            near(v as f64, want as f32 as f64, want * 2e-7, "var");
        },
    );
    let c = |r: &mut Rng| num_complex::Complex::new(r.f() as f64, r.f() as f64 + 5.0);
    each(
        c,
        0f64,
        true,
        |x, g, o| reduction::var(x, g, 0.0, o),
        |row, v| {
            let n = row.len() as f64;
            let m = row.iter().sum::<num_complex::Complex<f64>>() / n;
            near(v, row.iter().map(|v| (v - m).norm_sqr()).sum::<f64>() / n, 1e-11, "complex var");
        },
    );
}

#[test]
fn extremes() {
    let gappy = |r: &mut Rng| if r.below(300) == 0 { f32::NAN } else { (r.below(40) as f32) - 20.0 };
    let best = |row: &[f32], max: bool| -> usize {
        let mut at = 0;
        for (i, v) in row.iter().enumerate() {
            if row[at].is_nan() {
                break;
            }
            if v.is_nan() || (max && *v > row[at]) || (!max && *v < row[at]) {
                at = i;
            }
        }
        at
    };
    let same = |a: f32, b: f32| assert!(a == b || (a.is_nan() && b.is_nan()), "{a} {b}");
    each(gappy, 0f32, false, reduction::amax, |row, v| same(v, row[best(row, true)]));
    each(gappy, 0f32, false, reduction::amin, |row, v| same(v, row[best(row, false)]));
    each(gappy, 0i64, false, reduction::argmax, |row, v| assert_eq!(v as usize, best(row, true)));
    each(gappy, 0i64, false, reduction::argmin, |row, v| assert_eq!(v as usize, best(row, false)));
    each(|_| f32::NEG_INFINITY, 7i64, false, reduction::argmax, |_, v| assert_eq!(v, 0));
    each(
        |r| r.below(5) as u8,
        0i64,
        false,
        reduction::argmax,
        |row, v| {
            let m = row.iter().max().copied().unwrap_or(0);
            assert_eq!(Some(v as usize), row.iter().position(|a| *a == m))
        },
    );
}

#[test]
fn truth_and_norms() {
    each(
        |r| r.below(50) as i16 - 1,
        B8(0),
        true,
        reduction::all,
        |row, v| assert_eq!(v.get(), row.iter().all(|a| *a != 0)),
    );
    each(
        |r| (r.below(50) == 0) as u8 as f64,
        B8(0),
        true,
        reduction::any,
        |row, v| assert_eq!(v.get(), row.iter().any(|a| *a != 0.0)),
    );
    each(
        |r| r.below(3) as f32,
        0i64,
        true,
        reduction::count_nonzero,
        |row, v| assert_eq!(v, row.iter().filter(|a| **a != 0.0).count() as i64),
    );
    for p in [0.0, 1.0, 2.0, 3.5, f64::INFINITY] {
        each(
            |r| r.f() as f64,
            0f64,
            true,
            |x, g, o| reduction::norm(x, g, p, o),
            |row, v| {
                let it = row.iter().map(|v| v.abs());
                let want = match p {
                    0.0 => it.filter(|v| *v != 0.0).count() as f64,
                    f64::INFINITY => it.fold(0.0, f64::max),
                    _ => it.map(|v| v.powf(p)).sum::<f64>().powf(1.0 / p),
                };
                near(v, want, want * 1e-12, "norm");
            },
        );
    }
    each(
        |r| r.f() * 200.0,
        0f32,
        true,
        reduction::logsumexp,
        |row, v| {
            let m = row.iter().copied().fold(f32::NEG_INFINITY, f32::max) as f64;
            if row.is_empty() {
                return assert_eq!(v, f32::NEG_INFINITY);
            }
            let want = row.iter().map(|v| (*v as f64 - m).exp()).sum::<f64>().ln() + m;
            near(v as f64, want, want.abs() * 2e-7 + 1e-5, "logsumexp");
        },
    );
    each(|_| f32::NEG_INFINITY, 0f32, true, reduction::logsumexp, |_, v| assert_eq!(v, f32::NEG_INFINITY));
}

#[test]
fn order_statistics() {
    let pick = |r: &mut Rng| if r.below(200) == 0 { f32::NAN } else { r.below(30) as f32 };
    let mut rng = Rng(3);
    for g in geos().into_iter().filter(|g| g.n > 0 && g.n <= 3000) {
        let x: Vec<f32> = (0..len(g)).map(|_| pick(&mut rng)).collect();
        let (mut v, mut i) = (vec![0f32; g.rows()], vec![0i64; g.rows()]);
        let check = |v: &[f32], i: &[i64], want: &dyn Fn(&[f32]) -> f32| {
            for (r, row) in rows(&x, g).iter().enumerate() {
                let w = want(row);
                assert!(v[r] == w || (w.is_nan() && v[r].is_nan()), "{g:?} {} {w}", v[r]);
                let at = row[i[r] as usize];
                assert!(at == v[r] || (at.is_nan() && v[r].is_nan()));
            }
        };
        let sorted = |row: &[f32]| {
            let mut s = row.to_vec();
            s.sort_by(|a, b| a.is_nan().cmp(&b.is_nan()).then(a.total_cmp(b)));
            s
        };
        reduction::kthvalue(&x, g, g.n.div_ceil(3), &mut v, &mut i);
        check(&v, &i, &|row| sorted(row)[g.n.div_ceil(3) - 1]);
        reduction::median(&x, g, &mut v, &mut i);
        check(&v, &i, &|row| {
            if row.iter().any(|v| v.is_nan()) { f32::NAN } else { sorted(row)[(g.n - 1) / 2] }
        });
        reduction::nanmedian(&x, g, &mut v, &mut i);
        check(&v, &i, &|row| {
            let s: Vec<f32> = sorted(row).into_iter().filter(|v| !v.is_nan()).collect();
            if s.is_empty() { f32::NAN } else { s[(s.len() - 1) / 2] }
        });
    }
    let x = [3, 1, 2, 1, 3, 0];
    let (mut v, mut i) = ([0], [0]);
    reduction::mode(&x, Geo::contiguous(1, 6, 1), &mut v, &mut i);
    assert_eq!((v[0], i[0]), (1, 3));
}

/// Rows of all lengths and some long ones against a plain loop over numbers whose sums are exact, with what is not finite at all
/// places.
#[test]
fn sums_of_every_length() {
    fn check<T: reduction::Num<Sum = T> + Into<f64> + From<f32>>() {
        let mut r = Rng(5);
        for n in (0..130).chain([255, 256, 1000, 1023, 1024, 4095, 4096, 4097, 9000]) {
            let whole: Vec<f32> = (0..3 * n).map(|_| (r.below(2001) as f32) - 1000.0).collect();
            let mut x: Vec<T> = whole.iter().map(|v| T::from(*v)).collect();
            let mut out = vec![T::from(7.0); 3];
            reduction::sum(&x, Geo::contiguous(3, n, 1), &mut out);
            for (k, got) in out.iter().enumerate() {
                let want: f64 = whole[k * n..(k + 1) * n].iter().map(|v| f64::from(*v)).sum();
                assert_eq!((*got).into(), want, "{n}");
            }
            for at in (0..n).step_by(n / 7 + 1) {
                for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                    let kept = std::mem::replace(&mut x[n + at], T::from(bad));
                    reduction::sum(&x, Geo::contiguous(3, n, 1), &mut out);
                    let [a, b, c] = [0, 1, 2].map(|k| out[k].into());
                    assert!(
                        a.is_finite() && c.is_finite() && (b == f64::from(bad) || bad.is_nan() && b.is_nan())
                    );
                    x[n + at] = kept;
                }
            }
        }
    }
    check::<f32>();
    check::<f64>();
}
