use super::bidiagonal::{Vectors, svd};
use super::{cholesky, hessenberg, ldl, lu, lu_ahead, qr, tridiagonal};
use num_complex::Complex;

type C = Complex<f64>;

fn sample(m: usize, n: usize, seed: usize) -> Vec<C> {
    let mut s = seed as u64 * 77 + 1;
    let mut next = || {
        s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (s >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    (0..m * n).map(|_| C::new(next(), next())).collect()
}
fn real(a: &[C]) -> Vec<C> {
    a.iter().map(|z| C::new(z.re, 0.0)).collect()
}
/// Products of matrices by columns.
fn times(a: &[C], b: &[C], m: usize, k: usize, n: usize) -> Vec<C> {
    (0..m * n).map(|i| (0..k).map(|l| a[l * m + i % m] * b[i / m * k + l]).sum()).collect()
}
fn adjoint(a: &[C], m: usize, n: usize) -> Vec<C> {
    (0..m * n).map(|i| a[i % n * m + i / n].conj()).collect()
}
fn eye(n: usize) -> Vec<C> {
    (0..n * n).map(|i| C::new(f64::from(u8::from(i / n == i % n)), 0.0)).collect()
}
#[track_caller]
fn close(a: &[C], b: &[C]) {
    assert_eq!(a.len(), b.len());
    let worst = a.iter().zip(b).fold(0.0, |m: f64, (x, y)| m.max((x - y).norm()));
    assert!(worst < 1e-10, "off by {worst}");
}
const SIZES: [usize; 8] = [1, 2, 3, 7, 16, 33, 70, 130];

/// That `L U` of a decomposition is the matrix with its rows exchanged.
#[track_caller]
fn lu_is(a: &[C], f: &[C], rows: &[usize], m: usize, n: usize) {
    let k = m.min(n);
    let l: Vec<C> = (0..m * k)
        .map(|i| match (i % m).cmp(&(i / m)) {
            std::cmp::Ordering::Greater => f[i],
            std::cmp::Ordering::Equal => C::new(1.0, 0.0),
            _ => C::new(0.0, 0.0),
        })
        .collect();
    assert!(l.iter().all(|z| z.re.abs() + z.im.abs() <= 2.0));
    let u: Vec<C> =
        (0..k * n).map(|i| if i % k <= i / k { f[i / k * m + i % k] } else { C::new(0.0, 0.0) }).collect();
    let mut p = a.to_vec();
    for j in 0..n {
        rows.iter().enumerate().for_each(|(i, r)| p.swap(j * m + i, j * m + r));
    }
    close(&times(&l, &u, m, k, n), &p);
}
#[test]
fn lu_by_panels() {
    for (m, n) in [(192, 192), (200, 230), (230, 200), (300, 65), (64, 130), (129, 129)] {
        let a = sample(m, n, m + n);
        let (mut f, k) = (a.clone(), m.min(n));
        let mut rows = vec![0; k];
        assert_eq!(lu_ahead::by_panels(&mut f, m, m, n, &mut rows, true), 0);
        lu_is(&a, &f, &rows, m, n);
    }
    // columns a page apart, which are copied
    let (m, n) = (256, 260);
    let a = sample(m, n, 5);
    let (mut f, mut rows) = (a.clone(), vec![0; m]);
    assert_eq!(lu::factor(&mut f, m, m, n, &mut rows, true), 0);
    lu_is(&a, &f, &rows, m, n);
    // the first column without a pivot counts, in whichever panel
    for at in [3, 70, 150] {
        let n = 160;
        let mut a = sample(n, n, at);
        (0..n).for_each(|i| a[at * n + i] = C::new(0.0, 0.0));
        a[155 * n..156 * n].fill(C::new(0.0, 0.0));
        assert_eq!(lu_ahead::by_panels(&mut a, n, n, n, &mut vec![0; n], true), at as i32 + 1);
    }
}
#[test]
fn lu_puts_together() {
    for n in SIZES {
        for m in [n, n + 5, n.saturating_sub(6).max(1)] {
            let a = sample(m, n, m + n);
            let (mut f, k) = (a.clone(), m.min(n));
            let mut rows = vec![0; k];
            assert_eq!(lu::factor(&mut f, m, m, n, &mut rows, true), 0);
            lu_is(&a, &f, &rows, m, n);
            if m == n {
                let mut x = vec![C::new(0.0, 0.0); n * n];
                lu::inverse(&f, n, &rows, &mut x);
                let worst = times(&a, &x, n, n, n)
                    .iter()
                    .zip(eye(n))
                    .fold(0.0, |m: f64, (x, y)| m.max((x - y).norm()));
                assert!(worst < 1e-9, "{n}: {worst}");
                // A X = B, A^T X = B, A^H X = B; rows are columns of the transpose
                let b = sample(4, n, 3);
                for (t, c) in [(false, false), (true, false), (true, true)] {
                    let mut x = b.clone();
                    lu::solve(&f, n, n, &rows, &mut x, 4, t, c);
                    let back = match (t, c) {
                        // X^T A^T = B^T
                        (false, _) => times(
                            &x,
                            &adjoint(&a.iter().map(|z| z.conj()).collect::<Vec<_>>(), n, n),
                            4,
                            n,
                            n,
                        ),
                        (true, false) => times(&x, &a, 4, n, n),
                        _ => times(&x, &a.iter().map(|z| z.conj()).collect::<Vec<_>>(), 4, n, n),
                    };
                    close(&back, &b);
                }
            }
        }
    }
    let mut none = [1.0, 2.0, 2.0, 4.0];
    assert_eq!(lu::factor(&mut none, 2, 2, 2, &mut [0; 2], true), 2);
}
#[test]
fn cholesky_puts_together() {
    for n in SIZES {
        let g = sample(n, n, n);
        let mut a = times(&g, &adjoint(&g, n, n), n, n, n);
        (0..n).for_each(|i| a[i * n + i] += 1.0);
        // by columns the lower half counts
        let mut f = a.clone();
        assert_eq!(cholesky::factor(&mut f, n, n), 0);
        (0..n * n).filter(|i| i % n < i / n).for_each(|i| f[i] = C::new(0.0, 0.0));
        close(&times(&f, &adjoint(&f, n, n), n, n, n), &a);
        let at = n / 2;
        a[at * n + at] = C::new(-1.0, 0.0);
        assert_eq!(cholesky::factor(&mut a, n, n), at as i32 + 1);
    }
}
#[test]
fn qr_puts_together() {
    for n in SIZES {
        for m in [n, n + 9, (n / 2).max(1)] {
            let a = sample(m, n, m * 3 + n);
            let k = m.min(n);
            let (mut f, mut tau) = (a.clone(), vec![C::new(0.0, 0.0); k]);
            qr::factor(&mut f, m, m, n, &mut tau);
            let mut q = vec![C::new(0.0, 0.0); m * m];
            qr::generate(&f, m, m, &tau, &mut q, m, m);
            close(&times(&adjoint(&q, m, m), &q, m, m, m), &eye(m));
            let r: Vec<C> =
                (0..m * n).map(|i| if i % m <= i / m { f[i] } else { C::new(0.0, 0.0) }).collect();
            close(&times(&q, &r, m, m, n), &a);
            let mut c = a.clone();
            qr::multiply(&f, m, m, &tau, &mut c, m, n, true);
            close(&c, &r);
            qr::multiply(&f, m, m, &tau, &mut c, m, n, false);
            close(&c, &a);
        }
    }
}
#[test]
fn ldl_solves() {
    for n in SIZES {
        for hermitian in [false, true] {
            let g = sample(n, n, n + 2);
            let other = if hermitian {
                adjoint(&g, n, n)
            } else {
                adjoint(&g, n, n).iter().map(|z| z.conj()).collect()
            };
            let a: Vec<C> = g.iter().zip(&other).map(|(x, y)| x + y).collect();
            let (mut f, mut pivots) = (a.clone(), vec![0; n]);
            assert_eq!(ldl::factor(&mut f, n, &mut pivots, hermitian), 0);
            let b = sample(n, 3, 5);
            let mut x = adjoint(&b, n, 3).iter().map(|z| z.conj()).collect::<Vec<_>>();
            assert!(ldl::solve(&f, n, &pivots, &mut x, 3, hermitian));
            let x = adjoint(&x, 3, n).iter().map(|z| z.conj()).collect::<Vec<_>>();
            let worst =
                times(&a, &x, n, n, 3).iter().zip(&b).fold(0.0, |m: f64, (x, y)| m.max((x - y).norm()));
            assert!(worst < 1e-8, "{n}: {worst}");
            assert!(!ldl::solve(&f, n, &vec![n as i32 + 1; n], &mut [C::new(0.0, 0.0); 1], 0, hermitian));
        }
    }
}
#[test]
fn hermitian_eigenvalues() {
    for n in SIZES {
        for flat in [false, true] {
            let g = sample(n, n, n + 4);
            let mut a: Vec<C> = g.iter().zip(adjoint(&g, n, n)).map(|(x, y)| (x + y) * 1e3).collect();
            if flat {
                a = eye(n);
            }
            for scale in [1.0, 1e-200, 1e200] {
                let mut v: Vec<C> = a.iter().map(|z| z * scale).collect();
                let mut values = vec![0.0; n];
                assert_eq!(tridiagonal::eigh(&mut v, n, &mut values, true), 0);
                assert!(values.windows(2).all(|w| w[0] <= w[1]));
                close(&times(&adjoint(&v, n, n), &v, n, n, n), &eye(n));
                let scaled: Vec<C> = (0..n * n).map(|i| v[i] * (values[i / n] / scale)).collect();
                let back: Vec<C> = times(&scaled, &adjoint(&v, n, n), n, n, n);
                close(
                    &back.iter().map(|z| z / 1e3).collect::<Vec<_>>(),
                    &a.iter().map(|z| z / 1e3).collect::<Vec<_>>(),
                );
                let (mut again, mut alone) = (a.iter().map(|z| z * scale).collect::<Vec<_>>(), vec![0.0; n]);
                assert_eq!(tridiagonal::eigh(&mut again, n, &mut alone, false), 0);
                assert!(alone.iter().zip(&values).all(|(x, y)| (x - y).abs() <= 1e-9 * scale));
            }
        }
    }
}
#[test]
fn singular_values_put_together_again() {
    for n in SIZES {
        for m in [n, n + 1, n * 2 + 9] {
            for kind in 0..4 {
                let mut a = sample(m, n, m * 10 + n);
                match kind {
                    1 => (0..n).for_each(|j| a[j * m] = a[j * m + m - 1]),
                    2 => (0..m * n).for_each(|i| a[i] *= 1e-200),
                    3 => a = real(&a).iter().map(|z| C::new(z.re.round(), 0.0)).collect(),
                    _ => {}
                }
                let d = svd(&mut a.clone(), m, n, Vectors::Full).unwrap();
                assert!(d.s.windows(2).all(|w| w[0] >= w[1]) && d.s.iter().all(|s| *s >= 0.0));
                let scaled: Vec<C> = (0..m * n).map(|i| d.u[i] * d.s[i / m]).collect();
                close(&times(&scaled, &adjoint(&d.v, n, n), m, n, n), &a);
                close(&times(&adjoint(&d.u, m, m), &d.u, m, m, m), &eye(m));
                close(&times(&adjoint(&d.v, n, n), &d.v, n, n, n), &eye(n));
                let alone = svd(&mut a.clone(), m, n, Vectors::None).unwrap();
                assert!(alone.s.iter().zip(&d.s).all(|(x, y)| (x - y).abs() <= 1e-11));
            }
        }
    }
}
#[test]
fn general_eigenvalues() {
    let check = |a: &[C], n: usize, w: &[C], v: &[C]| {
        let scaled: Vec<C> = (0..n * n).map(|i| v[i] * w[i / n]).collect();
        let worst =
            times(a, v, n, n, n).iter().zip(&scaled).fold(0.0, |m: f64, (x, y)| m.max((x - y).norm()));
        assert!(worst < 1e-9, "{n}: {worst}");
        for c in v.chunks(n) {
            assert!((c.iter().map(|z| z.norm_sqr()).sum::<f64>() - 1.0).abs() < 1e-12, "{n}: {c:?} {w:?}");
        }
        let trace: C = (0..n).map(|i| a[i * n + i]).sum();
        assert!((trace - w.iter().sum::<C>()).norm() < 1e-9);
    };
    for n in SIZES {
        let a = sample(n, n, n + 8);
        let (w, v) = hessenberg::complex(&mut a.clone(), n, true).unwrap();
        check(&a, n, &w, &v);
        let plain: Vec<f64> = a.iter().map(|z| z.re).collect();
        let (w, v) = hessenberg::real(&mut plain.clone(), n, true).unwrap();
        check(&real(&a), n, &w, &v);
        let (alone, _) = hessenberg::real(&mut plain.clone(), n, false).unwrap();
        let sum = |w: &[C]| w.iter().map(|z| z * z).sum::<C>();
        assert!((sum(&alone) - sum(&w)).norm() < 1e-8);
        // zeros, and a diagonal
        let mut d = vec![0.0; n * n];
        assert!(hessenberg::real(&mut d, n, true).unwrap().0.iter().all(|z| z.norm() == 0.0));
        (0..n).for_each(|i| d[i * n + i] = (i % 3) as f64);
        let (w, v) = hessenberg::real(&mut d.clone(), n, true).unwrap();
        check(&d.iter().map(|x| C::new(*x, 0.0)).collect::<Vec<_>>(), n, &w, &v);
    }
}
/// By halves: random, repeated, graded and coupled spectra, against QL steps.
#[test]
fn large_spectra() {
    fn check<T: super::field::Real>(n: usize, a: &[f64], tolerance: f64) {
        let given: Vec<T> = a.iter().map(|x| T::of(*x)).collect();
        let (mut z, mut w) = (given.clone(), vec![T::ZERO; n]);
        assert_eq!(tridiagonal::eigh(&mut z, n, &mut w, true), 0);
        let mut alone = vec![T::ZERO; n];
        assert_eq!(tridiagonal::eigh(&mut given.clone(), n, &mut alone, false), 0);
        let most = w.iter().fold(0.0, |m: f64, x| m.max(x.wide().abs())).max(1e-30);
        for i in 0..n {
            assert!((w[i].wide() - alone[i].wide()).abs() <= tolerance * most, "{n}: value {i}");
            assert!(i == 0 || w[i].wide() >= w[i - 1].wide());
        }
        for i in 0..n {
            for j in 0..n {
                let dot: f64 = (0..n).map(|r| z[i * n + r].wide() * z[j * n + r].wide()).sum();
                let one = f64::from(u8::from(i == j));
                assert!((dot - one).abs() <= tolerance, "{n}: vectors {i} and {j}: {dot}");
                let az: f64 = (0..n).map(|r| given[i * n + r].wide() * z[j * n + r].wide()).sum();
                let off = (az - w[j].wide() * z[j * n + i].wide()).abs();
                assert!(off <= tolerance * most, "{n}: A z at {i}, {j}: {off}");
            }
        }
    }
    for n in [41, 64, 97, 150] {
        let random: Vec<f64> = sample(n, n, n).iter().map(|z| z.re).collect();
        let symmetric: Vec<f64> = (0..n * n).map(|i| random[i] + random[i % n * n + i / n]).collect();
        let ones = vec![1.0; n * n];
        let near = |i: usize| f64::from(u8::from(i / n == i % n)) + 1e-9 * symmetric[i];
        let graded = |i: usize| symmetric[i] * 10f64.powi(-((i / n + i % n) as i32) / 8);
        let low: Vec<f64> = (0..n * n).map(|i| random[i % n] * random[i / n]).collect();
        let second = |i: usize| match (i / n).abs_diff(i % n) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        };
        let all: [Vec<f64>; 6] = [
            symmetric.clone(),
            ones,
            (0..n * n).map(near).collect(),
            (0..n * n).map(graded).collect(),
            low,
            (0..n * n).map(second).collect(),
        ];
        for a in &all {
            check::<f64>(n, a, 1e-12);
            check::<f32>(n, a, 2e-5);
        }
    }
}
/// By division: random, repeated, graded, low and triangular matrices, tall ones too, against QR steps.
#[test]
fn large_singular_values() {
    fn check<T: super::field::Real>(m: usize, n: usize, a: &[f64], tolerance: f64) {
        let given: Vec<T> = a.iter().map(|x| T::of(*x)).collect();
        let d = svd(&mut given.clone(), m, n, Vectors::Full).unwrap();
        let alone = svd(&mut given.clone(), m, n, Vectors::None).unwrap();
        let most = d.s[0].wide().max(1e-30);
        for i in 0..n {
            assert!((d.s[i].wide() - alone.s[i].wide()).abs() <= tolerance * most, "{m} x {n}: value {i}");
            assert!(d.s[i].wide() >= 0.0 && (i == 0 || d.s[i].wide() <= d.s[i - 1].wide()));
        }
        let orthogonal = |q: &[T], n: usize| {
            for (i, j) in (0..n).flat_map(|i| (i..n).map(move |j| (i, j))) {
                let dot: f64 = (0..n).map(|r| q[i * n + r].wide() * q[j * n + r].wide()).sum();
                let one = f64::from(u8::from(i == j));
                assert!((dot - one).abs() <= tolerance, "{m} x {n}: vectors {i} and {j}: {dot}");
            }
        };
        orthogonal(&d.u, m);
        orthogonal(&d.v, n);
        for (r, c) in (0..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
            let sum: f64 =
                (0..n).map(|k| d.u[k * m + r].wide() * d.s[k].wide() * d.v[k * n + c].wide()).sum();
            let off = (sum - given[c * m + r].wide()).abs();
            assert!(off <= tolerance * most, "{m} x {n}: element {r}, {c}: {off}");
        }
    }
    for (m, n) in [(41, 41), (64, 64), (90, 83), (120, 120), (190, 90)] {
        let random: Vec<f64> = sample(m, n, m + n).iter().map(|z| z.re).collect();
        let at = |i: usize| (i % m, i / m);
        let graded = |i: usize| random[i] * 10f64.powi(-((at(i).0 + at(i).1) as i32) / 8);
        let low = |i: usize| random[at(i).0] * random[m + at(i).1] + 0.5 * random[at(i).0 + 2];
        let near = |i: usize| f64::from(u8::from(at(i).0 == at(i).1)) + 1e-9 * random[i];
        let two = |i: usize| match at(i) {
            (r, c) if r == c => 1.0,
            (r, c) if r + 1 == c => -1.0,
            _ => 0.0,
        };
        let apart = |i: usize| if at(i).0 / 20 == at(i).1 / 20 { random[i] } else { 0.0 };
        let all: [Vec<f64>; 7] = [
            random.clone(),
            vec![1.0; m * n],
            (0..m * n).map(graded).collect(),
            (0..m * n).map(low).collect(),
            (0..m * n).map(near).collect(),
            (0..m * n).map(two).collect(),
            (0..m * n).map(apart).collect(),
        ];
        for a in &all {
            check::<f64>(m, n, a, 1e-12);
            check::<f32>(m, n, a, 3e-5);
        }
    }
}
/// Products that read a matrix once, against sums element by element, complex, on one thread and on three.
#[test]
fn products_that_read_once() {
    use super::once::{Ways, hermitian, there_and_back};
    let near = |x: &[C], y: &[C], scale: f64| {
        x.iter().zip(y).for_each(|(x, y)| assert!((x - y).norm() <= 1e-13 * scale, "{x} {y}"));
    };
    let before = crate::engine::parallel::num_threads();
    for threads in [1, 3] {
        crate::engine::parallel::set_num_threads(threads);
        for n in [1, 3, 4, 5, 18, 37, 420] {
            let (ld, scale) = (n + 3, n as f64);
            let a = sample(ld, n, n);
            let x = sample(n, 1, n + 1);
            let element = |i: usize, j: usize| match i.cmp(&j) {
                std::cmp::Ordering::Less => a[i * ld + j].conj(),
                std::cmp::Ordering::Equal => C::new(a[j * ld + i].re, 0.0),
                std::cmp::Ordering::Greater => a[j * ld + i],
            };
            let want: Vec<C> = (0..n).map(|i| (0..n).map(|j| element(i, j) * x[j]).sum()).collect();
            let mut got = vec![C::new(9.0, 9.0); n];
            hermitian(&a, ld, &x, &mut got);
            near(&got, &want, scale);

            let m = n + 2;
            let (x, y, row) = (sample(m, 1, 5), sample(n, 1, 6), sample(n, 1, 7));
            let factor = C::new(0.5, -0.25);
            let (mut y_got, mut row_got, mut out) = (y.clone(), row.clone(), vec![C::new(9.0, 9.0); m]);
            let ways = Ways { x: &x, factor, y: &mut y_got, row: &mut row_got, out: &mut out };
            there_and_back(&a, ld, ways);
            let sum = |j: usize| (0..m).map(|i| a[j * ld + i].conj() * x[i]).sum::<C>();
            let y_want: Vec<C> = (0..n).map(|j| factor * sum(j) - y[j]).collect();
            let row_want: Vec<C> = (0..n).map(|j| row[j] + a[j * ld].conj() - y_want[j]).collect();
            let out_want: Vec<C> =
                (0..m).map(|i| (0..n).map(|j| a[j * ld + i] * row_want[j]).sum()).collect();
            near(&y_got, &y_want, scale);
            near(&row_got, &row_want, scale);
            near(&out, &out_want, scale * scale);
        }
    }
    crate::engine::parallel::set_num_threads(before);
}
