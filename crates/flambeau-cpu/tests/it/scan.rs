//! Scans against naive models.

use crate::{Rng, SHAPES, close};
use flambeau_cpu::reduction::Geo;
use flambeau_cpu::scan;

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
