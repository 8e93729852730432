//! Decompositions and Fourier transforms, by name: each row runs as soon as the library has its operator.

use crate::input::{complex, fill};
use crate::row::Rows;
use torch::Tensor;
use torch::library::Value;
use torch::prelude::*;

/// Symmetric, positive definite.
fn definite(n: i64) -> Tensor {
    let a = fill([n, n], 1);
    a.matmul(&a.t()) / n + torch::eye(n)
}
/// Well conditioned.
fn dominant(n: i64) -> Tensor {
    fill([n, n], 1) + torch::eye(n) * (n as f64).sqrt()
}

/// Batches of [`definite`] and [`dominant`].
fn definite_batch(count: i64, n: i64) -> Tensor {
    let a = fill([count, n, n], 1);
    a.matmul(&a.transpose(1, 2)) / n + torch::eye(n)
}
fn dominant_batch(count: i64, n: i64) -> Tensor {
    fill([count, n, n], 1) + torch::eye(n) * (n as f64).sqrt()
}

pub fn rows(r: &mut Rows) {
    for n in [256, 1024] {
        let id = |name: &str| format!("linalg/{name}_{n}");
        r.by_name(id("cholesky"), "torch.linalg.cholesky", move || vec![definite(n).into()]);
        r.by_name(id("solve"), "torch.linalg.solve", move || {
            vec![dominant(n).into(), fill([n, 16], 2).into()]
        });
        r.by_name(id("qr"), "torch.linalg.qr", move || vec![fill([n, n], 1).into()]);
        r.by_name(id("svd"), "torch.linalg.svd", move || vec![fill([n, n], 1).into()]);
        r.by_name(id("eigh"), "torch.linalg.eigh", move || vec![definite(n).into()]);
        r.by_name(id("inv"), "torch.linalg.inv", move || vec![dominant(n).into()]);
    }
    // one element in a hundred
    r.add("linalg/csr_4096x4096x256", || {
        let a = fill([4096, 4096], 1);
        let a = torch::where_(&fill([4096, 4096], 2).gt(0.98), &a, 0.0).to_sparse_csr();
        let b = fill([4096, 256], 3);
        move || a.mm(&b)
    });
    for (count, n) in [(1000, 8), (100, 64)] {
        let id = |name: &str| format!("linalg/{name}_{count}x{n}x{n}");
        let plain = move || vec![fill([count, n, n], 1).into()];
        let definite = move || vec![definite_batch(count, n).into()];
        r.by_name(id("cholesky"), "torch.linalg.cholesky", definite);
        r.by_name(id("solve"), "torch.linalg.solve", move || {
            vec![dominant_batch(count, n).into(), fill([count, n, 4], 2).into()]
        });
        r.by_name(id("qr"), "torch.linalg.qr", plain);
        r.by_name(id("svd"), "torch.linalg.svd", plain);
        r.by_name(id("eigh"), "torch.linalg.eigh", definite);
        r.by_name(id("inv"), "torch.linalg.inv", move || vec![dominant_batch(count, n).into()]);
    }
    r.by_name("fft/rfft_1024x1024", "torch.fft.rfft", || vec![fill([1024, 1024], 1).into()]);
    let back = || vec![complex([1024, 513]).into(), Value::Int(1024)];
    r.by_name("fft/irfft_1024x1024", "torch.fft.irfft", back);
    // many short lines: elements in a row, and lines in a row
    r.by_name("fft/fft_2048x512", "torch.fft.fft", || vec![complex([2048, 512]).into()]);
    let down = || vec![complex([512, 2048]).into(), Value::None, Value::Int(0)];
    r.by_name("fft/fft_512x2048_dim0", "torch.fft.fft", down);
    r.by_name("fft/rfft_2048x512", "torch.fft.rfft", || vec![fill([2048, 512], 1).into()]);
    r.by_name("fft/fft_1m", "torch.fft.fft", || vec![complex([1 << 20]).into()]);
    r.by_name("fft/fft2_1024", "torch.fft.fft2", || vec![complex([1024, 1024]).into()]);
}
