//! Times the convolution, pooling, normalisation and product kernels: `conv_timing [threads] [filter]`.

use flambeau_cpu::blas::{Mat, MatMut, gemm, gemm_batched};
use flambeau_cpu::conv::{self, ConvShape};
use flambeau_cpu::engine::parallel::set_num_threads;
use flambeau_cpu::norm::batch::{NormShape, Rules, batch_norm_backward, batch_norm_train};
use flambeau_cpu::pool::{AvgDivisor, PoolShape, avg_pool, max_pool};
use half::bf16;
use std::time::Instant;

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 % 1013) as f32 - 500.0) / 500.0).collect()
}

/// The best of several rounds, in microseconds.
fn time(filter: &str, name: &str, mut f: impl FnMut()) {
    if !name.contains(filter) {
        return;
    }
    let start = Instant::now();
    f();
    let once = start.elapsed().as_secs_f64();
    let inner = ((2e-3 / once) as usize).clamp(1, 100_000);
    let best = (0..7)
        .map(|_| {
            let start = Instant::now();
            (0..inner).for_each(|_| f());
            start.elapsed().as_secs_f64() / inner as f64
        })
        .fold(f64::MAX, f64::min);
    println!("{name} {:.2}", best * 1e6);
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let filter = std::env::args().nth(2).unwrap_or_default();
    let filter = filter.as_str();
    set_num_threads(threads);
    let cases = [
        ("conv1_7x7s2", 3, 224, 64, 7, 2, 3, 1),
        ("3x3_56x64", 64, 56, 64, 3, 1, 1, 1),
        ("3x3_14x256", 256, 14, 256, 3, 1, 1, 1),
        ("1x1_256_1024", 256, 14, 1024, 1, 1, 0, 1),
        ("dw3x3_56x128", 128, 56, 128, 3, 1, 1, 128),
    ];
    for (name, c, size, o, k, stride, pad, groups) in cases {
        for n in [1, 8] {
            let Ok(s) =
                ConvShape::new((n, c, o, groups), &[size; 2], &[k; 2], &[stride; 2], &[pad; 2], &[1; 2])
            else {
                continue;
            };
            let (x, w, b, mut y) = (values(s.x_len()), values(s.w_len()), values(o), values(s.y_len()));
            let gy = vec![1.0f32; s.y_len()];
            let (mut gx, mut gw, mut gb) = (x.clone(), w.clone(), b.clone());
            time(filter, &format!("{name}_n{n}"), || conv::forward(&s, &x, &w, Some(&b), &mut y));
            time(filter, &format!("{name}_n{n}_fb"), || {
                conv::forward(&s, &x, &w, Some(&b), &mut y);
                conv::backward_input(&s, &gy, &w, &mut gx);
                conv::backward_weight(&s, &x, &gy, &mut gw);
                conv::backward_bias(n, o, s.out_plane(), &gy, &mut gb);
            });
            time(filter, &format!("{name}_n{n}_bi"), || conv::backward_input(&s, &gy, &w, &mut gx));
            time(filter, &format!("{name}_n{n}_bw"), || conv::backward_weight(&s, &x, &gy, &mut gw));
        }
    }
    if let Ok(s) = ConvShape::new((8, 64, 128, 1), &[1024], &[3], &[1], &[1], &[1]) {
        let (x, w, b, mut y) = (values(s.x_len()), values(s.w_len()), values(128), values(s.y_len()));
        time(filter, "conv1d", || conv::forward(&s, &x, &w, Some(&b), &mut y));
    }
    if let Ok(s) =
        ConvShape::transposed((8, 32, 64, 1), &[28; 2], &[4; 2], &[2; 2], &[1; 2], &[0; 2], &[1; 2])
    {
        let (x, w, b, mut y) = (values(s.y_len()), values(s.w_len()), values(32), values(s.x_len()));
        time(filter, "conv_transpose2d", || conv::transposed(&s, &x, &w, Some(&b), &mut y));
    }
    let x = values(8 * 64 * 112 * 112);
    if let Ok(s) = PoolShape::new(512, &[112; 2], &[3; 2], &[2; 2], &[1; 2], &[1; 2], false) {
        let (mut y, mut at) = (vec![0f32; 512 * 56 * 56], vec![0i64; 512 * 56 * 56]);
        time(filter, "max_pool2d", || max_pool(&s, &x, &mut y, &mut at));
    }
    if let Ok(s) = PoolShape::new(512, &[112; 2], &[2; 2], &[2; 2], &[0; 2], &[1; 2], false) {
        let mut y = vec![0f32; 512 * 56 * 56];
        let div = AvgDivisor { count_include_pad: true, divisor_override: None };
        time(filter, "avg_pool2d", || avg_pool(&s, div, &x, &mut y).unwrap_or(()));
    }
    {
        let shape = NormShape { n: 8, c: 64, l: 56 * 56 };
        let x = values(8 * 64 * 56 * 56);
        let (w, b, gy) = (values(64), values(64), vec![1f32; x.len()]);
        let (mut y, mut gx) = (x.clone(), x.clone());
        let (mut m, mut inv, mut rm, mut rv) = (b.clone(), b.clone(), b.clone(), w.clone());
        let (mut gw, mut gb) = (w.clone(), w.clone());
        time(filter, "batch_norm_train", || {
            let (rm, rv) = (Some(&mut rm[..]), Some(&mut rv[..]));
            batch_norm_train(
                shape,
                &x,
                Some(&w),
                Some(&b),
                rm,
                rv,
                0.1,
                1e-5,
                Rules::default(),
                &mut y,
                &mut m,
                &mut inv,
            )
        });
        time(filter, "batch_norm_train_fb", || {
            batch_norm_train(
                shape,
                &x,
                Some(&w),
                Some(&b),
                None,
                None,
                0.1,
                1e-5,
                Rules::default(),
                &mut y,
                &mut m,
                &mut inv,
            );
            let (gx, gw, gb) = (Some(&mut gx[..]), Some(&mut gw[..]), Some(&mut gb[..]));
            batch_norm_backward(shape, true, &gy, &x, Some(&w), &m, &inv, gx, gw, gb)
        });
    }
    let mats = [("64", 64, 64, 64), ("128", 128, 128, 128), ("256", 256, 256, 256), ("512", 512, 512, 512)];
    let more = [("1024", 1024, 1024, 1024), ("linear", 256, 4096, 1024)];
    for (name, m, n, k) in mats.into_iter().chain(more) {
        let (a, b, mut c) = (values(m * k), values(k * n), vec![0f32; m * n]);
        time(filter, &format!("f32_{name}"), || {
            let (a, b) = (Mat { data: &a[..], row: k, col: 1 }, Mat { data: &b[..], row: n, col: 1 });
            gemm(m, n, k, 1.0, a, b, 0.0, MatMut { data: &mut c, row: n, col: 1 })
        });
    }
    let wide = values(4096 * 4096);
    for (name, m, n, k) in [("linear16", 1, 16, 16), ("linear_b1", 1, 4096, 1024)] {
        let mut c = vec![0f32; m * n];
        time(filter, name, || {
            let (a, b) =
                (Mat { data: &wide[..k], row: k, col: 1 }, Mat { data: &wide[..n * k], row: 1, col: k });
            gemm(m, n, k, 1.0, a, b, 0.0, MatMut { data: &mut c, row: n, col: 1 })
        });
    }
    for (name, row, col) in [("matvec_4096", 4096, 1), ("matvec_4096_t", 1, 4096)] {
        let mut c = vec![0f32; 4096];
        time(filter, name, || {
            let (a, b) = (Mat { data: &wide[..], row, col }, Mat { data: &wide[..4096], row: 1, col: 1 });
            gemm(4096, 1, 4096, 1.0, a, b, 0.0, MatMut { data: &mut c, row: 1, col: 1 })
        });
    }
    let mut c = vec![0f32; 64 * 128 * 128];
    time(filter, "bmm", || {
        let a = (Mat { data: &wide[..64 * 128 * 64], row: 64, col: 1 }, 128 * 64);
        let b = (Mat { data: &wide[..64 * 128 * 64], row: 128, col: 1 }, 128 * 64);
        gemm_batched(64, 128, 128, 64, 1.0, a, b, 0.0, (MatMut { data: &mut c, row: 128, col: 1 }, 128 * 128))
    });
    let half: Vec<bf16> = wide.iter().map(|v| bf16::from_f32(*v)).collect();
    let mut c = vec![bf16::ZERO; 1024 * 1024];
    time(filter, "bf16_1024", || {
        let a = Mat { data: &half[..1 << 20], row: 1024, col: 1 };
        gemm(1024, 1024, 1024, 1.0, a, a, 0.0, MatMut { data: &mut c, row: 1024, col: 1 })
    });
    let mut c = vec![bf16::ZERO; 4096];
    time(filter, "matvec_4096_bf16", || {
        let (a, b) =
            (Mat { data: &half[..], row: 4096, col: 1 }, Mat { data: &half[..4096], row: 1, col: 1 });
        gemm(4096, 1, 4096, 1.0, a, b, 0.0, MatMut { data: &mut c, row: 1, col: 1 })
    });
}
