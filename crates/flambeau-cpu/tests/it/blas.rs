use flambeau_cpu::blas::*;
use half::{bf16, f16};
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

/// Rounds through the storage type, and models the product in f64 (complex: pairs).
trait Model: MatmulScalar {
    fn from(re: f64, im: f64) -> Self;
    fn wide(re: f64) -> Self::Compute;
    fn parts(self) -> (f64, f64);
    const TOL: f64;
}
macro_rules! real {
    ($($t:ty, $w:ty, $tol:expr, $from:expr, $to:expr);*) => {$(impl Model for $t {
        fn from(re: f64, _: f64) -> Self { $from(re) }
        fn wide(re: f64) -> $w { re as $w }
        fn parts(self) -> (f64, f64) { ($to(self), 0.0) }
        const TOL: f64 = $tol;
    })*};
}
real! {
    f32, f32, 1e-6, |x| x as f32, |x| x as f64;
    f64, f64, 1e-14, |x| x, |x| x;
    bf16, f32, 4e-3, bf16::from_f64, bf16::to_f64;
    f16, f32, 5e-4, f16::from_f64, f16::to_f64
}
macro_rules! complex {
    ($($t:ty, $w:ty, $tol:expr, $p:ident);*) => {$(impl Model for Complex<$t> {
        fn from(re: f64, im: f64) -> Self { Complex::new(<$t as Model>::from(re, 0.0), <$t as Model>::from(im, 0.0)) }
        fn wide(re: f64) -> Complex<$w> { Complex::new(re as $w, 0.0) }
        fn parts(self) -> (f64, f64) { (Model::parts(self.re).0, Model::parts(self.im).0) }
        const TOL: f64 = $tol;
    })*};
}
complex!(f32, f32, 1e-6, f32; f64, f64, 1e-14, f64; f16, f32, 5e-4, f16);

fn layout(rng: &mut Lcg, m: usize, n: usize) -> (usize, usize, usize) {
    match rng.below(3) {
        0 => (n.max(1), 1, m * n),
        1 => (1, m.max(1), m * n),
        _ => (2 * n.max(1) + 3, 2, m * (2 * n + 3)),
    }
}

fn check<T: Model>(rng: &mut Lcg, m: usize, n: usize, k: usize) {
    let (ar, ac, al) = layout(rng, m, k);
    let (br, bc, bl) = layout(rng, k, n);
    let (cr, cc, cl) = layout(rng, m, n);
    let mut fill = |len: usize| -> Vec<T> { (0..len).map(|_| T::from(rng.float(), rng.float())).collect() };
    let (a, b, c) = (fill(al), fill(bl), fill(cl));
    for (alpha, beta) in [(1.0, 0.0), (1.0, 1.0), (0.5, 1.0), (1.0, -2.0), (0.0, 0.5)] {
        let mut got = c.clone();
        if beta == 0.0 {
            got.fill(T::from(f64::NAN, f64::NAN));
        }
        gemm(
            m,
            n,
            k,
            T::wide(alpha),
            Mat { data: &a, row: ar, col: ac },
            Mat { data: &b, row: br, col: bc },
            T::wide(beta),
            MatMut { data: &mut got, row: cr, col: cc },
        );
        for i in 0..m {
            for j in 0..n {
                let (mut re, mut im, mut size) = (0.0, 0.0, 0.0);
                for p in 0..k {
                    let ((xr, xi), (yr, yi)) = (a[i * ar + p * ac].parts(), b[p * br + j * bc].parts());
                    re += xr * yr - xi * yi;
                    im += xr * yi + xi * yr;
                    size += (xr.abs() + xi.abs()) * (yr.abs() + yi.abs());
                }
                let (or, oi) = c[i * cr + j * cc].parts();
                let want = (alpha * re + beta * or, alpha * im + beta * oi);
                let (gr, gi) = got[i * cr + j * cc].parts();
                let tol = T::TOL * (want.0.abs() + want.1.abs() + (or.abs() + oi.abs()) * 2.0)
                    + size * if T::TOL < 1e-10 { 1e-15 } else { 5e-7 };
                assert!(
                    (gr - want.0).abs() <= tol && (gi - want.1).abs() <= tol,
                    "{m}x{n}x{k} a={ar},{ac} b={br},{bc} c={cr},{cc} ab={alpha},{beta} at {i},{j}: {gr},{gi} want {want:?}"
                );
            }
        }
    }
}

#[test]
fn floats_match_the_model() {
    let mut rng = Lcg(7);
    let mut sizes =
        vec![(1, 16, 16), (16, 1, 40), (1, 1, 1000), (3, 0, 2), (0, 2, 3), (4, 5, 0), (130, 97, 33)];
    sizes.extend([(1, 700, 300), (700, 1, 300), (64, 64, 64), (100, 100, 100)]);
    for _ in 0..20 {
        sizes.push((1 + rng.below(40), 1 + rng.below(40), 1 + rng.below(40)));
    }
    for (m, n, k) in sizes {
        check::<f32>(&mut rng, m, n, k);
        check::<f64>(&mut rng, m, n, k);
        check::<bf16>(&mut rng, m, n, k);
        check::<f16>(&mut rng, m, n, k);
        check::<Complex<f32>>(&mut rng, m, n, k);
        check::<Complex<f64>>(&mut rng, m, n, k);
        check::<Complex<f16>>(&mut rng, m, n, k);
    }
    // few rows or columns of much: by panels, of each layout
    for (m, n, k) in [(16, 300, 300), (13, 77, 530), (300, 30, 70), (48, 95, 256)] {
        for _ in 0..4 {
            check::<f32>(&mut rng, m, n, k);
        }
    }
}

/// Sizes that are packed by blocks and panels, whole ones and others, in each layout, beside sums in float64.
#[test]
fn large_products_are_sums_of_products() {
    let mut rng = Lcg(11);
    for (m, n, k) in [(49, 1100, 517), (300, 97, 530), (128, 144, 256), (601, 50, 40)] {
        let mut fill = |len: usize| -> Vec<f64> { (0..len).map(|_| rng.float() as f32 as f64).collect() };
        let (a, b, old) = (fill(m * k), fill(k * n), fill(m * n));
        // as matrices by rows
        let mut product = vec![0.0; m * n];
        for i in 0..m {
            for p in 0..k {
                let (x, row) = (a[i * k + p], &b[p * n..][..n]);
                product[i * n..][..n].iter_mut().zip(row).for_each(|(sum, y)| *sum += x * y);
            }
        }
        for layout in 0..16 {
            let is = |bit: usize| layout >> bit & 1 != 0;
            fn check<T: Model>(
                [m, n, k]: [usize; 3],
                [a, b, old]: [&[f64]; 3],
                [turned_a, turned_b, turned_c, add]: [bool; 4],
                product: &[f64],
                bound: f64,
            ) {
                // by rows or by columns
                let steps = |m: usize, n: usize, turned: bool| if turned { (1, m) } else { (n, 1) };
                let lie = |x: &[f64], m: usize, n: usize, (row, col): (usize, usize)| {
                    let mut to = vec![T::from(0.0, 0.0); m * n];
                    for (at, v) in x.iter().enumerate() {
                        to[at / n * row + at % n * col] = T::from(*v, 0.0);
                    }
                    to
                };
                let (ra, rb, rc) = (steps(m, k, turned_a), steps(k, n, turned_b), steps(m, n, turned_c));
                let (x, y, mut got) = (lie(a, m, k, ra), lie(b, k, n, rb), lie(old, m, n, rc));
                gemm(
                    m,
                    n,
                    k,
                    T::wide(1.0),
                    Mat { data: &x[..], row: ra.0, col: ra.1 },
                    Mat { data: &y[..], row: rb.0, col: rb.1 },
                    T::wide(if add { 1.0 } else { 0.0 }),
                    MatMut { data: &mut got, row: rc.0, col: rc.1 },
                );
                for (at, v) in product.iter().enumerate() {
                    let (got, want) =
                        (got[at / n * rc.0 + at % n * rc.1].parts().0, v + if add { old[at] } else { 0.0 });
                    assert!((got - want).abs() < bound, "{m}x{n}x{k} at {at}: {got} {want}");
                }
            }
            let flags = [is(0), is(1), is(2), is(3)];
            // a hundred times less than one term of the sum, and next to nothing
            check::<f32>([m, n, k], [&a, &b, &old], flags, &product, 5e-5);
            check::<f64>([m, n, k], [&a, &b, &old], flags, &product, 1e-12);
        }
    }
}

#[test]
fn integers_wrap() {
    let mut rng = Lcg(3);
    for (m, n, k) in [(3, 300, 20), (17, 5, 40), (1, 1, 9), (80, 70, 90)] {
        let a: Vec<i8> = (0..m * k).map(|_| rng.next() as i8).collect();
        let b: Vec<i8> = (0..n * k).map(|_| rng.next() as i8).collect();
        let mut c = vec![1i8; m * n];
        let (am, bm) = (Mat { data: &a[..], row: k, col: 1 }, Mat { data: &b[..], row: 1, col: k });
        gemm(m, n, k, 3, am, bm, 2, MatMut { data: &mut c, row: n, col: 1 });
        for i in 0..m {
            for j in 0..n {
                let s: i64 = (0..k).map(|p| a[i * k + p] as i64 * b[j * k + p] as i64).sum();
                assert_eq!(c[i * n + j], (3 * s + 2) as i8);
            }
        }
    }
}

#[test]
fn batches_and_shared_operands() {
    let mut rng = Lcg(5);
    let (batch, m, n, k) = (9, 33, 20, 17);
    let a: Vec<f64> = (0..batch * m * k).map(|_| rng.float()).collect();
    let b: Vec<f64> = (0..k * n).map(|_| rng.float()).collect();
    let mut c = vec![f64::NAN; batch * m * n];
    gemm_batched(
        batch,
        m,
        n,
        k,
        1.0,
        (Mat { data: &a[..], row: k, col: 1 }, m * k),
        (Mat { data: &b[..], row: n, col: 1 }, 0),
        0.0,
        (MatMut { data: &mut c, row: n, col: 1 }, m * n),
    );
    for t in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let want: f64 = (0..k).map(|p| a[(t * m + i) * k + p] * b[p * n + j]).sum();
                assert!((c[(t * m + i) * n + j] - want).abs() < 1e-13);
            }
        }
    }
}

#[test]
fn dot_products() {
    assert_eq!(dot(3, &[1i32, 2, 3], 1, &[1, 9, 1, 9, 1], 2), 6);
    assert_eq!(dot::<f32>(0, &[], 1, &[], 1), 0.0);
    let x: Vec<f32> = (0..1001).map(|i| i as f32).collect();
    assert_eq!(dot(1001, &x, 1, &vec![1.0; 1001], 1), 500_500.0);
}

/// The kernel for a right operand that is stored transposed, at sizes that end inside its tiles, into results of both
/// orientations, over and onto what is there.
#[test]
fn turned_right_operands() {
    let mut rng = Lcg(11);
    let sizes = [
        (8, 16, 96),
        (9, 49, 97),
        (130, 97, 193),
        (17, 100, 400),
        (64, 17, 192),
        (300, 17, 5000),
        (1301, 50, 260),
    ];
    for (m, n, k) in sizes {
        let fill = |rng: &mut Lcg, len: usize| -> Vec<f32> { (0..len).map(|_| rng.float() as f32).collect() };
        let (a, b, c) = (fill(&mut rng, m * (k + 3)), fill(&mut rng, n * (k + 5)), fill(&mut rng, m * n));
        for (beta, (row, col)) in [(0.0, (n, 1)), (1.0, (n, 1)), (1.0, (1, m)), (0.0, (1, m))] {
            let mut got = if beta == 0.0 { vec![f32::NAN; m * n] } else { c.clone() };
            let (x, w) = (Mat { data: &a[..], row: k + 3, col: 1 }, Mat { data: &b[..], row: 1, col: k + 5 });
            gemm(m, n, k, 1.0, x, w, beta, MatMut { data: &mut got, row, col });
            for i in 0..m {
                for j in 0..n {
                    let sum: f64 =
                        (0..k).map(|p| a[i * (k + 3) + p] as f64 * b[j * (k + 5) + p] as f64).sum();
                    let at = i * row + j * col;
                    let want = sum + if beta == 0.0 { 0.0 } else { c[at] as f64 };
                    assert!(
                        (got[at] as f64 - want).abs() < 1e-5 * k as f64,
                        "{m} {n} {k} at {i} {j}: {} {want}",
                        got[at]
                    );
                }
            }
        }
    }
}

/// GFLOP/s of shapes that networks have: `cargo test --release -p flambeau-cpu --lib blas -- --ignored --nocapture`.
#[test]
#[ignore = "measures, asserts nothing"]
fn speed() {
    flambeau_cpu::engine::parallel::set_num_threads(1);
    let v: Vec<f32> = (0..4096 * 1024).map(|i| (i % 97) as f32 * 0.01).collect();
    let mut out = vec![0f32; 4096 * 1024];
    for (m, n, k, turned) in [
        (64, 64, 64, false),
        (128, 128, 128, false),
        (32, 512, 128, true),
        (64, 64, 64, true),
        (256, 4096, 1024, true),
        (256, 1024, 1024, true),
        (1024, 1024, 1024, true),
    ] {
        let mut best = f64::INFINITY;
        for _ in 0..(200_000_000 / (m * n * k)).clamp(30, 2000) {
            let t = std::time::Instant::now();
            let a = Mat { data: &v[..], row: k, col: 1 };
            let (row, col) = if turned { (1, k) } else { (n, 1) };
            let c = MatMut { data: &mut out, row: n, col: 1 };
            gemm(m, n, k, 1.0, a, Mat { data: &v[..], row, col }, 0.0, c);
            best = best.min(t.elapsed().as_secs_f64());
        }
        let rate = 2.0 * (m * n * k) as f64 / best * 1e-9;
        println!(
            "{m} x {n} x {k}{}: {:.1} us, {rate:.0} GFLOP/s",
            if turned { " (B turned)" } else { "" },
            best * 1e6
        );
    }
}
