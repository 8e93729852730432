//! Arithmetic by elements.

use crate::input::{fill, mask};
use crate::row::Rows;
use torch::Slice;
use torch::nn::functional as F;
use torch::prelude::*;

fn unary(r: &mut Rows, name: &str, n: i64, tag: &str, f: impl Fn(&Tensor) -> Tensor + Copy + 'static) {
    r.add(format!("elementwise/{name}@{tag}"), move || {
        let a = fill([n], 1);
        move || f(&a)
    });
}
fn binary<const K: usize, const L: usize>(
    r: &mut Rows,
    name: impl Into<String>,
    a: [i64; K],
    b: [i64; L],
    f: impl Fn(&Tensor, &Tensor) -> Tensor + Copy + 'static,
) {
    r.add(format!("elementwise/{}", name.into()), move || {
        let (a, b) = (fill(a, 1), fill(b, 2));
        move || f(&a, &b)
    });
}

fn sized(r: &mut Rows, n: i64, tag: &'static str) {
    binary(r, format!("add@{tag}"), [n], [n], |a, b| a + b);
    binary(r, format!("mul@{tag}"), [n], [n], |a, b| a * b);
    unary(r, "exp", n, tag, |a| a.exp());
    unary(r, "tanh", n, tag, |a| a.tanh());
    unary(r, "gelu", n, tag, F::gelu);
    unary(r, "sigmoid", n, tag, |a| a.sigmoid());
    unary(r, "clamp", n, tag, |a| a.clamp(-0.5, 0.5));
    unary(r, "cast_bf16", n, tag, |a| a.to(bf16));
    r.add(format!("elementwise/where@{tag}"), move || {
        let (m, a, b) = (mask([n], 3), fill([n], 1), fill([n], 2));
        move || torch::where_(&m, &a, &b)
    });
    r.add(format!("elementwise/chain@{tag}"), move || {
        let (x, a, b) = (fill([n], 1), fill([n], 2), fill([n], 3));
        move || (&x * &a + &b).tanh()
    });
}

pub fn rows(r: &mut Rows) {
    for (n, tag) in [(10_000, "1e4"), (1_000_000, "1e6"), (30_000_000, "3e7")] {
        sized(r, n, tag);
    }
    r.add("elementwise/add_out@3e7", || {
        let (a, b) = (fill([30_000_000], 1), fill([30_000_000], 2));
        let mut c = torch::zeros_like(&a);
        move || {
            torch::add_out(&a, &b, &mut c);
            c.clone()
        }
    });
    r.add("elementwise/add_inplace@3e7", || {
        let (a, b) = (fill([30_000_000], 1), fill([30_000_000], 2) * 1e-6);
        move || {
            a.add_(&b);
        }
    })
    .no_check();
    binary(r, "bcast_row", [4096, 1024], [1024], |a, b| a + b);
    binary(r, "bcast_col", [4096, 1024], [4096, 1], |a, b| a + b);
    let half = |x: &Tensor| x.i((.., Slice::step(2)));
    binary(r, "add_strided", [4096, 2048], [4096, 2048], move |a, b| half(a) + half(b));
    binary(r, "add_transposed", [2048, 2048], [2048, 2048], |a, b| a + b.t());
    r.add("elementwise/copy_transposed", || {
        let a = fill([4096, 1024], 1);
        move || a.t().contiguous()
    });
}
