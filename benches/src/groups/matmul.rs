//! Matrix products.

use crate::input::{fill, leaf};
use crate::row::{Rows, forward_backward};
use torch::DType;
use torch::nn::functional as F;
use torch::prelude::*;

fn product(r: &mut Rows, name: String, n: i64, dtype: DType, transposed: bool) {
    r.add(format!("matmul/{name}"), move || {
        let (a, b) = (fill([n, n], 1).to(dtype), fill([n, n], 2).to(dtype));
        move || if transposed { a.matmul(&b.t()) } else { a.matmul(&b) }
    });
}

/// Bias, input, weight.
fn linear(batch: i64) -> impl FnMut() -> Tensor {
    let (c, x, w) = (fill([4096], 3), fill([batch, 1024], 1), fill([4096, 1024], 2));
    move || F::linear(&x, &w, Some(&c))
}

pub fn rows(r: &mut Rows) {
    for n in [64, 128, 256, 512, 1024, 2048] {
        product(r, format!("f32_{n}"), n, f32, false);
    }
    product(r, "bf16_1024".into(), 1024, bf16, false);
    product(r, "f64_1024".into(), 1024, f64, false);
    product(r, "f32_1024_bt".into(), 1024, f32, true);
    r.add("matmul/bmm", || {
        let (a, b) = (fill([64, 128, 64], 1), fill([64, 64, 128], 2));
        move || a.bmm(&b)
    });
    r.add("matmul/addmm", || {
        let (c, x, w) = (fill([4096], 3), fill([256, 1024], 1), fill([1024, 4096], 2));
        move || c.addmm(&x, &w)
    });
    r.add("matmul/linear", || linear(256));
    r.add("matmul/linear_b1", || linear(1));
    r.add("matmul/linear_fb", || {
        let (x, w, c) = (leaf([256, 1024], 1), leaf([4096, 1024], 2), leaf([4096], 3));
        forward_backward(vec![x.clone(), w.clone(), c.clone()], move || F::linear(&x, &w, Some(&c)))
    });
    r.add("matmul/matvec_4096", || {
        let (w, v) = (fill([4096, 4096], 1), fill([4096], 2));
        move || w.matmul(&v)
    });
    r.add("matmul/einsum_qk", || {
        let both = [fill([2, 8, 256, 64], 1), fill([2, 8, 256, 64], 2)];
        move || torch::einsum("bhqd,bhkd->bhqk", &both)
    });
}
