use super::*;

struct Lcg(u64);
impl Lcg {
    fn vec<T: AttentionScalar>(&mut self, n: usize) -> Vec<T> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 40) as f64 / (1u64 << 24) as f64 * 4.0 - 2.0
        };
        (0..n).map(|_| T::of(next())).collect()
    }
}

/// One head by the definition, in f64: result, logarithms, and gradients for query, key and value.
fn model(s: &AttentionShape, q: &[f64], k: &[f64], v: &[f64], g: &[f64]) -> [Vec<f64>; 5] {
    let mut r = [s.l * s.v, s.l, s.l * s.e, s.s * s.e, s.s * s.v].map(|n| vec![0.0; n]);
    for i in 0..s.l {
        let n = s.seen(i + 1);
        let dot = |j: usize| (0..s.e).map(|c| q[i * s.e + c] * k[j * s.e + c]).sum::<f64>() * s.scale;
        let scores: Vec<f64> = (0..n).map(dot).collect();
        let max = scores.iter().copied().fold(f64::MIN, f64::max);
        let lse = max + scores.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
        r[1][i] = lse;
        let p: Vec<f64> = scores.iter().map(|x| (x - lse).exp()).collect();
        let gp: Vec<f64> = (0..n).map(|j| (0..s.v).map(|c| g[i * s.v + c] * v[j * s.v + c]).sum()).collect();
        let total: f64 = p.iter().zip(&gp).map(|(p, g)| p * g).sum();
        for j in 0..n {
            for c in 0..s.v {
                r[0][i * s.v + c] += p[j] * v[j * s.v + c];
                r[4][j * s.v + c] += p[j] * g[i * s.v + c];
            }
            let slope = p[j] * (gp[j] - total) * s.scale;
            for c in 0..s.e {
                r[2][i * s.e + c] += slope * k[j * s.e + c];
                r[3][j * s.e + c] += slope * q[i * s.e + c];
            }
        }
    }
    r
}

/// Inputs `[batch, rows, heads, columns]`, as a projection gives them.
fn check<T: AttentionScalar + Into<f64>>(s: AttentionShape, tol: f64) {
    let mut rng = Lcg((s.l * 31 + s.s * 7 + s.e) as u64);
    let (h, n) = (s.heads, s.batch * s.heads);
    let sizes = [(s.l, s.e), (s.s, s.e), (s.s, s.v), (s.l, s.v)];
    let all = sizes.map(|(rows, cols)| rng.vec::<T>(n * rows * cols));
    let view = |i: usize| {
        let (rows, cols) = sizes[i];
        Heads { data: &all[i][..], steps: [rows * h * cols, cols, h * cols] }
    };
    let (mut out, mut lse) = (vec![T::of(7.0); n * s.l * s.v], vec![T::of(7.0); n * s.l]);
    forward(&s, view(0), view(1), view(2), &mut out, &mut lse);
    let mut grads = [s.l * s.e, s.s * s.e, s.s * s.v].map(|m| vec![T::of(7.0); n * m]);
    let [gq, gk, gv] = &mut grads;
    let saved = Saved { q: view(0), k: view(1), v: view(2), out: &out, lse: &lse, grad: view(3) };
    backward(&s, &saved, gq, gk, gv);
    for i in 0..n {
        let head = |t: usize| -> Vec<f64> {
            let ((rows, cols), [a, b, c]) = (sizes[t], view(t).steps);
            let at = |r: usize, x: usize| all[t][i / h * a + i % h * b + r * c + x].into();
            (0..rows * cols).map(|x| at(x / cols, x % cols)).collect()
        };
        let want = model(&s, &head(0), &head(1), &head(2), &head(3));
        for (t, got) in [&out, &lse, &grads[0], &grads[1], &grads[2]].into_iter().enumerate() {
            let m = want[t].len();
            let most = want[t].iter().fold(1.0f64, |a, b| a.max(b.abs()));
            for (x, (g, w)) in got[i * m..(i + 1) * m].iter().zip(&want[t]).enumerate() {
                let g: f64 = (*g).into();
                assert!((g - w).abs() <= tol * most, "{s:?}: result {t} of head {i} at {x}: {g}, want {w}");
            }
        }
    }
}

#[test]
fn agrees_with_the_definition() {
    let sizes = [
        (1, 1, 1, 1),
        (3, 5, 4, 2),
        (70, 65, 17, 33),
        (64, 600, 64, 64),
        (130, 100, 8, 50),
        (1, 77, 40, 49),
        (1, 600, 64, 64),
    ];
    for (l, s, e, v) in sizes {
        for (causal, scale) in [(false, 0.3), (true, 0.5), (true, -0.2)] {
            let shape = AttentionShape { batch: 2, heads: 3, l, s, e, v, causal, scale };
            check::<f32>(shape, 3e-5);
            check::<f64>(shape, 1e-12);
        }
    }
}

#[test]
fn infinite_and_undefined_scores() {
    let s = AttentionShape { batch: 1, heads: 1, l: 3, s: 2, e: 1, v: 1, causal: false, scale: 1.0 };
    let (q, k, v) = ([1.0f32, -1.0, f32::NAN], [f32::NEG_INFINITY, 0.0], [5.0f32, 9.0]);
    let (mut out, mut lse) = ([0.0f32; 3], [0.0f32; 3]);
    let d = |x| Heads::dense(x, 1, 3, 1);
    forward(&s, d(&q), Heads::dense(&k, 1, 2, 1), Heads::dense(&v, 1, 2, 1), &mut out, &mut lse);
    // -inf beside 0 weighs nothing; +inf - inf and NaN are undefined, as in softmax
    assert_eq!(out[0], 9.0);
    assert!(out[1].is_nan() && out[2].is_nan());
    assert_eq!(lse[0], 0.0);
}
