//! Batches against the kernels of single matrices.

use flambeau_cpu::num::field::Real;
use flambeau_cpu::{Any, AnyMut};
use flambeau_cpu_linalg::Vectors;
use flambeau_cpu_linalg::erased::{self, Turned};

const COUNT: usize = 21;

fn sample<T: Real>(count: usize, seed: u64) -> Vec<T> {
    let mut s = seed * 77 + 1;
    let mut next = || {
        s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (s >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    (0..count).map(|_| T::of(next())).collect()
}
/// A batch with matrices of zeros, with a NaN, of tiny numbers, and with a pivot that vanishes.
fn nasty<T: Real>(m: usize, n: usize, seed: u64) -> Vec<T> {
    let mut a = sample::<T>(COUNT * m * n, seed);
    let each = m * n;
    a[3 * each..4 * each].fill(T::ZERO);
    a[5 * each + each / 2] = T::of(f64::NAN);
    a[7 * each..8 * each].iter_mut().for_each(|x| *x = *x * T::of(1e-20));
    for r in 0..m {
        a[17 * each + (n - 1) * m + r] = T::ZERO;
    }
    a
}
#[track_caller]
fn close<T: Real>(a: &[T], b: &[T], tolerance: f64, what: &str) {
    assert_eq!(a.len(), b.len());
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        let (x, y) = (x.wide(), y.wide());
        let same = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * (1.0 + y.abs());
        assert!(same, "{what}: {x} against {y} at {i} of {}", a.len());
    }
}
/// `sum over k of a[k * m + i] b[k + n * j]`.
fn times<T: Real>(a: &[T], b: &[T], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let at = |i: usize, j: usize| (0..k).map(|q| a[q * m + i].wide() * b[j * k + q].wide()).sum();
    (0..n).flat_map(|j| (0..m).map(move |i| (i, j))).map(|(i, j)| at(i, j)).collect()
}
/// Runs `batch` on everything and `batch` on each matrix, and gives both.
fn both<T: Real>(a: &[T], run: impl Fn(&mut [T], &mut [i32])) -> (Vec<T>, Vec<i32>, Vec<T>, Vec<i32>) {
    let (mut together, mut info) = (a.to_vec(), vec![9; COUNT]);
    run(&mut together, &mut info);
    let (mut apart, mut infos) = (a.to_vec(), vec![9; COUNT]);
    let each = a.len() / COUNT;
    for i in 0..COUNT {
        run(&mut apart[i * each..(i + 1) * each], &mut infos[i..i + 1]);
    }
    (together, info, apart, infos)
}
const SIDES: [(usize, usize); 12] = [
    (1, 1),
    (2, 2),
    (3, 5),
    (5, 3),
    (8, 8),
    (13, 13),
    (20, 7),
    (7, 20),
    (17, 17),
    (33, 33),
    (64, 64),
    (64, 3),
];

fn factors<T: Real>(tolerance: f64) {
    for (m, n) in SIDES {
        let a = nasty::<T>(m, n, (m * 70 + n) as u64);
        let k = m.min(n);
        let lu = |a: &mut [T], info: &mut [i32]| {
            let mut pivots = vec![0; k * info.len()];
            erased::lu_factor(AnyMut::new(a), m, n, &mut pivots, info, true).unwrap();
            // pivots count too
            info.iter_mut().zip(pivots.chunks(k)).for_each(|(i, p)| *i += 1000 * p.iter().sum::<i32>());
        };
        let (x, i, y, j) = both(&a, lu);
        assert_eq!(i, j, "{m} x {n}");
        // digits are lost with the condition
        close(&x, &y, tolerance * 1e3, "lu");
        let qr = |a: &mut [T], info: &mut [i32]| {
            let batch = info.len();
            info.fill(0);
            let mut tau = vec![T::ZERO; k * batch];
            erased::geqrf(AnyMut::new(a), m, n, AnyMut::new(&mut tau), batch).unwrap();
            if m >= n {
                let mut q = vec![T::ZERO; m * n * batch];
                let from = (Any::new(&*a), Any::new(&tau));
                erased::orgqr(from.0, [m, n, k, n], from.1, AnyMut::new(&mut q), batch).unwrap();
                a.copy_from_slice(&q);
            }
        };
        // how far a NaN spreads is not the same in products of blocks
        let finite: Vec<T> = a.iter().map(|x| if x.wide().is_nan() { T::ZERO } else { *x }).collect();
        let (x, _, y, _) = both(&finite, qr);
        close(&x, &y, tolerance * 1e2, "qr");
        if m != n {
            continue;
        }
        let inverse = |a: &mut [T], info: &mut [i32]| {
            let mut out = vec![T::ZERO; a.len()];
            erased::inverse(AnyMut::new(a), n, AnyMut::new(&mut out), info).unwrap();
            a.copy_from_slice(&out);
        };
        let mut dominant = a.clone();
        for i in 0..COUNT * n {
            let at = i / n * n * n + i % n * (n + 1);
            dominant[at] = dominant[at] + T::of(n as f64);
        }
        let (x, i, y, j) = both(&dominant, inverse);
        assert_eq!(i, j);
        close(&x, &y, tolerance, "inverse");
        let cholesky = |a: &mut [T], info: &mut [i32]| erased::cholesky(AnyMut::new(a), n, info).unwrap();
        let (x, i, y, j) = both(&dominant, cholesky);
        assert_eq!(i, j);
        close(&x, &y, tolerance, "cholesky");
        for turned in [Turned::No, Turned::Transposed] {
            for k in [1, 3, 9] {
                let b = sample::<T>(COUNT * n * k, 5);
                let solve = |b: &mut [T], info: &mut [i32]| {
                    let (batch, first) = (info.len(), if info.len() == 1 { info[0] as usize } else { 0 });
                    let mut lu = dominant[first * n * n..(first + batch) * n * n].to_vec();
                    let mut pivots = vec![0; n * batch];
                    erased::lu_factor(AnyMut::new(&mut lu), n, n, &mut pivots, info, true).unwrap();
                    let b = AnyMut::new(b);
                    assert!(erased::lu_solve(Any::new(&lu), n, &pivots, b, k, batch, turned).unwrap());
                };
                let (mut x, mut y) = (b.clone(), b.clone());
                solve(&mut x, &mut [0; COUNT]);
                for i in 0..COUNT {
                    solve(&mut y[i * n * k..(i + 1) * n * k], &mut [i as i32]);
                }
                close(&x, &y, tolerance, "solve");
            }
        }
    }
}
/// Each matrix turned over, so that rows follow each other instead of columns.
fn flipped<T: Real>(a: &[T], m: usize, n: usize) -> Vec<T> {
    a.chunks(m * n).flat_map(|a| (0..m * n).map(|e| a[e % n * m + e / n])).collect()
}
fn together<T: Real>(tolerance: f64) {
    for (m, n) in SIDES {
        let finite = |v: &T| if v.wide().is_nan() { T::of(0.5) } else { *v };
        let a: Vec<T> = nasty::<T>(m, n, (m * 5 + n) as u64).iter().map(finite).collect();
        let k = m.min(n);
        for by_rows in [false, true] {
            let from = if by_rows { flipped(&a, m, n) } else { a.clone() };
            let (mut q, mut r) = (vec![T::ONE; COUNT * m * k], vec![T::ONE; COUNT * k * n]);
            let to = (AnyMut::new(&mut q), AnyMut::new(&mut r));
            erased::reduced_qr(Any::new(&from), by_rows, [m, n], to.0, to.1, COUNT).unwrap();
            for i in 0..COUNT {
                let (q, r) = (&q[i * m * k..][..m * k], &r[i * k * n..][..k * n]);
                let back: Vec<T> = times(q, r, [m, k, n]).into_iter().map(T::of).collect();
                close(&back, &a[i * m * n..][..m * n], tolerance, "Q R");
                assert!((0..k * n).all(|e| e % k <= e / k || r[e] == T::ZERO), "below the diagonal");
                right_angles(q, m, k, tolerance);
            }
            if m != n {
                continue;
            }
            let nasty = nasty::<T>(n, n, n as u64);
            let from = if by_rows { flipped(&nasty, n, n) } else { nasty.clone() };
            for k in [1, 4, 7] {
                let b = sample::<T>(COUNT * n * k, 3);
                let (mut lu, mut pivots, mut info) = (nasty.clone(), vec![0; COUNT * n], vec![9; COUNT]);
                erased::lu_factor(AnyMut::new(&mut lu), n, n, &mut pivots, &mut info, true).unwrap();
                let mut y = b.clone();
                erased::lu_solve(Any::new(&lu), n, &pivots, AnyMut::new(&mut y), k, COUNT, Turned::No);
                let (mut own, mut rows, mut found) = (b.clone(), vec![7; COUNT * n], vec![7; COUNT]);
                let mut x = vec![T::ONE; COUNT * n * k];
                own.resize(nasty.len(), T::ZERO);
                let to = (AnyMut::new(&mut own), &mut rows[..], &mut found[..]);
                let b = (Any::new(&b), k);
                erased::solve(Any::new(&from), by_rows, n, b, to, AnyMut::new(&mut x)).unwrap();
                assert_eq!((&rows, &found), (&pivots, &info), "{n}");
                close(&own, &lu, tolerance, "lu of solve");
                for (i, (x, y)) in flipped(&x, n, k).iter().zip(&y).enumerate() {
                    let (x, y) = (x.wide(), y.wide());
                    assert!(x == y || (x.is_nan() && y.is_nan()), "{x} against {y} at {i}");
                }
            }
            let mut positive = nasty.clone();
            for i in 0..COUNT * n {
                let at = i / n * n * n + i % n * (n + 1);
                positive[at] = positive[at] + T::of(n as f64);
            }
            let from = if by_rows { flipped(&positive, n, n) } else { positive.clone() };
            let (mut l, mut info, mut found) = (positive.clone(), vec![9; COUNT], vec![8; COUNT]);
            erased::cholesky(AnyMut::new(&mut l), n, &mut info).unwrap();
            let mut own = vec![T::ONE; positive.len()];
            erased::cholesky_of(Any::new(&from), by_rows, n, AnyMut::new(&mut own), &mut found).unwrap();
            assert_eq!(found, info);
            close(&own, &l, tolerance, "cholesky");
        }
    }
}
#[test]
fn together_they_give_the_same() {
    together::<f64>(1e-12);
    together::<f32>(2e-5);
}
#[test]
fn factors_are_those_of_single_matrices() {
    factors::<f64>(1e-11);
    factors::<f32>(2e-3);
}

/// The columns of `q`, each of `m` numbers, are of length 1 and at right angles.
#[track_caller]
fn right_angles<T: Real>(q: &[T], m: usize, k: usize, tolerance: f64) {
    let one: Vec<T> = times(&flipped(q, m, k), q, [k, m, k]).into_iter().map(T::of).collect();
    let eye: Vec<T> = (0..k * k).map(|e| T::of(f64::from(u8::from(e / k == e % k)))).collect();
    close(&one, &eye, tolerance, "right angles");
}
/// Matrices whose values are equal, or vanish: of one direction, of two, a reflection, alone on the diagonal.
fn alike<T: Real>(m: usize, n: usize) -> Vec<T> {
    let (x, y) = (sample::<T>(m, 1), sample::<T>(n, 2));
    let of = |i: usize, r: usize, c: usize| match i % 6 {
        0 => T::ONE,
        1 => x[r] * y[c],
        2 => x[r] * y[c] + x[(r + 3) % m] * y[(c + 1) % n],
        3 => T::of(f64::from(u8::from(r == c)) - 2.0 / n.max(m) as f64),
        4 => T::of(if r == c { (r / 2) as f64 } else { 0.0 }),
        _ => T::of(if r.abs_diff(c) == 1 { 1.0 } else { 0.0 }),
    };
    (0..COUNT).flat_map(|i| (0..m * n).map(move |e| (i, e % m, e / m))).map(|(i, r, c)| of(i, r, c)).collect()
}
fn alike_spectra<T: Real>(tolerance: f64) {
    for (m, n) in SIDES.into_iter().filter(|(m, n)| m >= n) {
        let a = alike::<T>(m, n);
        let (each, mut work) = (m * n, a.clone());
        let (mut u, mut s) = (a.clone(), vec![T::ZERO; COUNT * n]);
        let (mut vh, mut info) = (vec![T::ZERO; COUNT * n * n], vec![7; COUNT]);
        let to = (AnyMut::new(&mut u), AnyMut::new(&mut vh));
        let values = AnyMut::new(&mut s);
        let want = Vectors::Reduced;
        erased::svd(AnyMut::new(&mut work), [m, n], Some(to.0), values, Some(to.1), want, &mut info).unwrap();
        assert_eq!(info, [0; COUNT]);
        for i in 0..COUNT {
            let (u, vh) = (&u[i * each..][..each], &vh[i * n * n..][..n * n]);
            right_angles(u, m, n, tolerance);
            right_angles(vh, n, n, tolerance);
            let us: Vec<T> = u.iter().enumerate().map(|(e, x)| *x * s[i * n + e / m]).collect();
            let back: Vec<T> = times(&us, vh, [m, n, n]).into_iter().map(T::of).collect();
            close(&back, &a[i * each..][..each], tolerance * 10.0, "U S V");
        }
    }
}
#[test]
fn equal_values_have_vectors_at_right_angles() {
    alike_spectra::<f64>(1e-12);
    alike_spectra::<f32>(1e-5);
}
fn spectra<T: Real>(tolerance: f64) {
    for (m, n) in SIDES {
        let a = nasty::<T>(m, n, (m * 7 + n) as u64);
        let each = m * n;
        let k = m.min(n);
        let svd = |a: &[T], want: Vectors| {
            let batch = a.len() / each;
            let mut a = a.to_vec();
            let (mut u, mut s, mut vh) =
                (vec![T::ZERO; m * k * batch], vec![T::ZERO; k * batch], vec![T::ZERO; k * n * batch]);
            let mut info = vec![7; batch];
            let (x, y) = (AnyMut::new(&mut u), AnyMut::new(&mut vh));
            let s_ = AnyMut::new(&mut s);
            erased::svd(AnyMut::new(&mut a), [m, n], Some(x), s_, Some(y), want, &mut info).unwrap();
            (u, s, vh, info)
        };
        let (u, s, vh, info) = svd(&a, Vectors::Reduced);
        let (_, values, _, _) = svd(&a, Vectors::None);
        for i in 0..COUNT {
            let (_, one, _, own) = svd(&a[i * each..(i + 1) * each], Vectors::Reduced);
            assert_eq!(own[0], info[i]);
            if info[i] != 0 {
                continue;
            }
            close(&s[i * k..(i + 1) * k], &one, tolerance, "values");
            close(&values[i * k..(i + 1) * k], &one, tolerance, "values alone");
            let (u, vh) = (&u[i * m * k..][..m * k], &vh[i * k * n..][..k * n]);
            let us: Vec<T> = u.iter().enumerate().map(|(e, x)| *x * s[i * k + e / m]).collect();
            let back: Vec<T> = times(&us, vh, [m, k, n]).into_iter().map(T::of).collect();
            close(&back, &a[i * each..(i + 1) * each], tolerance * 10.0, "U S V");
            right_angles(u, m, k, tolerance * 10.0);
            right_angles(&flipped(vh, k, n), n, k, tolerance * 10.0);
        }
        if m != n {
            continue;
        }
        let mut symmetric = a.clone();
        for b in 0..COUNT {
            for c in 0..n {
                for r in 0..c {
                    symmetric[b * each + c * n + r] = symmetric[b * each + r * n + c];
                }
            }
        }
        let eigh = |a: &[T], vectors: bool| {
            let batch = a.len() / each;
            let (mut a, mut values, mut info) = (a.to_vec(), vec![T::ZERO; n * batch], vec![7; batch]);
            erased::eigh(AnyMut::new(&mut a), n, AnyMut::new(&mut values), &mut info, vectors).unwrap();
            (a, values, info)
        };
        let (z, w, info) = eigh(&symmetric, true);
        let (_, alone, _) = eigh(&symmetric, false);
        for i in 0..COUNT {
            let a = &symmetric[i * each..(i + 1) * each];
            let (_, one, own) = eigh(a, true);
            assert_eq!(own[0], info[i]);
            if info[i] != 0 {
                continue;
            }
            close(&w[i * n..(i + 1) * n], &one, tolerance, "eigenvalues");
            close(&alone[i * n..(i + 1) * n], &one, tolerance, "eigenvalues alone");
            let z = &z[i * each..(i + 1) * each];
            let scaled: Vec<T> = z.iter().enumerate().map(|(e, x)| *x * w[i * n + e / n]).collect();
            let turned: Vec<T> = times(a, z, [n; 3]).into_iter().map(T::of).collect();
            close(&turned, &scaled, tolerance * 10.0, "A Z");
            let flipped: Vec<T> = (0..each).map(|e| z[e % n * n + e / n]).collect();
            let one: Vec<T> = times(&flipped, z, [n; 3]).into_iter().map(T::of).collect();
            let eye: Vec<T> = (0..each).map(|e| T::of(f64::from(u8::from(e / n == e % n)))).collect();
            close(&one, &eye, tolerance * 10.0, "Z^T Z");
        }
    }
}
#[test]
fn spectra_are_those_of_single_matrices() {
    spectra::<f64>(1e-12);
    spectra::<f32>(2e-5);
}

/// Eigenvalues and vectors, singular values and vectors, and Q and R of a batch of `n x n` matrices, matrix by matrix.
fn decomposed<T: Real>(a: &[T], n: usize) -> Vec<Vec<T>> {
    let (each, batch) = (n * n, a.len() / (n * n));
    let (mut z, mut w, mut info) = (a.to_vec(), vec![T::ZERO; n * batch], vec![0; batch]);
    erased::eigh(AnyMut::new(&mut z), n, AnyMut::new(&mut w), &mut info, true).unwrap();
    let (mut work, mut u, mut vh, mut s) = (a.to_vec(), a.to_vec(), a.to_vec(), w.clone());
    let to = (Some(AnyMut::new(&mut u)), Some(AnyMut::new(&mut vh)));
    let (values, want) = (AnyMut::new(&mut s), Vectors::Reduced);
    erased::svd(AnyMut::new(&mut work), [n, n], to.0, values, to.1, want, &mut info).unwrap();
    let (mut q, mut r) = (a.to_vec(), a.to_vec());
    erased::reduced_qr(Any::new(a), true, [n, n], AnyMut::new(&mut q), AnyMut::new(&mut r), batch).unwrap();
    let of = |all: &[T], each: usize, i: usize| all[i * each..(i + 1) * each].to_vec();
    let one = |i| {
        let parts = [of(&z, each, i), of(&w, n, i), of(&u, each, i), of(&s, n, i), of(&vh, each, i)];
        [&parts[..], &[of(&q, each, i), of(&r, each, i)]].concat().concat()
    };
    (0..batch).map(one).collect()
}
/// Those that are left over of a batch, a few, go through shorter vectors.
fn anywhere<T: Real>() {
    for n in [7, 33, 64] {
        let (each, batch) = (n * n, 21);
        let a = sample::<T>(each * batch, n as u64);
        let back: Vec<T> = a.chunks_exact(each).rev().flatten().copied().collect();
        let (there, mut here) = (decomposed(&a, n), decomposed(&back, n));
        here.reverse();
        for (i, (x, y)) in there.iter().zip(&here).enumerate() {
            assert!(x == y, "matrix {i} of sides {n} is another at another place");
        }
    }
}
#[test]
fn a_matrix_has_the_same_results_wherever_it_stands() {
    anywhere::<f32>();
    anywhere::<f64>();
}
