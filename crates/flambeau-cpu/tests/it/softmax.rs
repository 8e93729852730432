//! Softmax and norms against naive models.

use crate::{Rng, SHAPES, close};
use flambeau_cpu::norm::layer;
use flambeau_cpu::reduction::Geo;
use flambeau_cpu::softmax;

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
                layer::rms_norm(x, n, Some(w), 1e-5, &mut y, &mut s);
            } else {
                let a = layer::Affine { gamma: Some(w), beta: Some(b) };
                layer::layer_norm(x, n, a, 1e-5, &mut y, &mut m, &mut s);
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
            layer::rms_norm_backward(&dy, &x, n, Some(&w), &s, Some(&mut dx), Some(&mut dw));
        } else {
            let (a, b, c) = (Some(&mut dx[..]), Some(&mut dw[..]), Some(&mut db[..]));
            layer::layer_norm_backward(&dy, &x, n, Some(&w), &m, &s, a, b, c);
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
