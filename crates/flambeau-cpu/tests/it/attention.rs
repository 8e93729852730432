use flambeau_cpu::attention::*;
use flambeau_cpu::num::{Arith, Compute};

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

/// One head by the definition, in f64: result, logarithms, and gradients for query, key and value. The mask says what a score
/// gains.
fn model(s: &AttentionShape, [q, k, v, g]: [&[f64]; 4], mask: impl Fn(usize, usize) -> f64) -> [Vec<f64>; 5] {
    let mut r = [s.l * s.v, s.l, s.l * s.e, s.s * s.e, s.s * s.v].map(|n| vec![0.0; n]);
    for i in 0..s.l {
        let n = s.seen(i + 1);
        let product = |j: usize| (0..s.e).map(|c| q[i * s.e + c] * k[j * s.e + c]).sum::<f64>();
        let dot = |j: usize| product(j) * s.scale + mask(i, j);
        let scores: Vec<f64> = (0..n).map(dot).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if max == f64::NEG_INFINITY {
            continue;
        }
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
fn check<S: AttentionElement<Compute: Into<f64>>>(s: AttentionShape, masked: bool, tol: f64) {
    let wide = |x: S| -> f64 { x.up().into() };
    let narrow = |x: Vec<S::Compute>| -> Vec<S> { x.into_iter().map(S::down).collect() };
    let mut rng = Lcg((s.l * 31 + s.s * 7 + s.e) as u64);
    let (h, n) = (s.heads, s.batch * s.heads);
    let sizes = [(s.l, s.e), (s.s, s.e), (s.s, s.v), (s.l, s.v)];
    let all = sizes.map(|(rows, cols)| narrow(rng.vec(n * rows * cols)));
    let view = |i: usize| {
        let (rows, cols) = sizes[i];
        Heads { data: &all[i][..], steps: [rows * h * cols, cols, h * cols] }
    };
    // one for all heads; some keys are hidden, and all of the second query's
    let hidden = |i: usize, j: usize| i == 1 || (i + j).is_multiple_of(5);
    let zero = S::Compute::ZERO;
    let least = S::Compute::of(f64::NEG_INFINITY);
    let places = (0..s.l * s.s).map(|x| if hidden(x / s.s, x % s.s) { least } else { zero });
    let mask: Vec<S::Compute> = places.collect();
    let mask = masked.then_some(Heads { data: &mask[..], steps: [0, 0, s.s] });
    let (mut out, mut lse) = (vec![S::down(S::Compute::of(7.0)); n * s.l * s.v], vec![zero; n * s.l]);
    forward(&s, [view(0), view(1), view(2)], mask, &mut out, &mut lse);
    let mut grads = [s.l * s.e, s.s * s.e, s.s * s.v].map(|m| vec![S::down(S::Compute::of(7.0)); n * m]);
    let [gq, gk, gv] = &mut grads;
    let saved = Saved { q: view(0), k: view(1), v: view(2), mask, out: &out, lse: &lse, grad: view(3) };
    backward(&s, &saved, gq, gk, gv);
    for i in 0..n {
        let head = |t: usize| -> Vec<f64> {
            let ((rows, cols), [a, b, c]) = (sizes[t], view(t).steps);
            let at = |r: usize, x: usize| wide(all[t][i / h * a + i % h * b + r * c + x]);
            (0..rows * cols).map(|x| at(x / cols, x % cols)).collect()
        };
        let heads = [0, 1, 2, 3].map(head);
        let want = model(&s, std::array::from_fn(|t| &heads[t][..]), |i, j| {
            if masked && hidden(i, j) { f64::NEG_INFINITY } else { 0.0 }
        });
        let own = |x: &[S]| -> Vec<f64> { x.iter().map(|x| wide(*x)).collect() };
        let sums: Vec<f64> = lse.iter().map(|x| (*x).into()).collect();
        let got = [own(&out), sums, own(&grads[0]), own(&grads[1]), own(&grads[2])];
        for (t, got) in got.iter().enumerate() {
            let m = want[t].len();
            let most = want[t].iter().fold(1.0f64, |a, b| a.max(b.abs()));
            for (x, (g, w)) in got[i * m..(i + 1) * m].iter().zip(&want[t]).enumerate() {
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
            for masked in [false, true].into_iter().take(if causal { 1 } else { 2 }) {
                check::<f32>(shape, masked, 3e-5);
                check::<f64>(shape, masked, 1e-12);
                check::<half::f16>(shape, masked, 4e-3);
                check::<half::bf16>(shape, masked, 3e-2);
            }
        }
    }
}

#[test]
fn infinite_and_undefined_scores() {
    let s = AttentionShape { batch: 1, heads: 1, l: 3, s: 2, e: 1, v: 1, causal: false, scale: 1.0 };
    let (q, k, v) = ([1.0f32, -1.0, f32::NAN], [f32::NEG_INFINITY, 0.0], [5.0f32, 9.0]);
    let (mut out, mut lse) = ([0.0f32; 3], [0.0f32; 3]);
    let d = |x| Heads::dense(x, 1, 3, 1);
    let d2 = |x| Heads::dense(x, 1, 2, 1);
    forward(&s, [d(&q), d2(&k), d2(&v)], None, &mut out, &mut lse);
    // -inf beside 0 weighs nothing; +inf - inf and NaN are undefined, as in softmax
    assert_eq!(out[0], 9.0);
    assert!(out[1].is_nan() && out[2].is_nan());
    assert_eq!(lse[0], 0.0);
}
