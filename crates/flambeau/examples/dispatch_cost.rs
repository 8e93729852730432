//! What a call costs on tensors so small that only the way to the kernel counts: the `dispatch/` rows of the benchmark,
//! through the public interface, one thread, f32. Nanoseconds per call, the smallest of many rounds.
//!
//! `dispatch_cost ROW N` runs one row N times and prints nothing: for instruction counts
//! (`valgrind --tool=callgrind`, the difference of two N).

use std::hint::black_box;
use std::time::Instant;
use torch::{nn, ops};

struct Rows {
    /// Of the command line: run this row that many times.
    only: Option<(String, usize)>,
}
impl Rows {
    fn row(&self, name: &str, calls: usize, mut f: impl FnMut()) {
        if let Some((only, n)) = &self.only {
            if only == name {
                (0..*n).for_each(|_| f());
            }
            return;
        }
        let mut best = f64::INFINITY;
        for _ in 0..60 {
            let t = Instant::now();
            for _ in 0..calls {
                f();
            }
            best = best.min(t.elapsed().as_nanos() as f64 / calls as f64);
        }
        println!("{name:<24} {best:8.1} ns");
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let only = args.next().map(|row| (row, args.next().and_then(|n| n.parse().ok()).unwrap_or(1)));
    let rows = Rows { only };

    let (a, b) = (torch::rand([1]), torch::rand([1]));
    rows.row("add_1", 5000, || drop(black_box(black_box(&a) + black_box(&b))));
    rows.row("add_1_fallible", 5000, || drop(black_box(ops::add(black_box(&a), black_box(&b), 1.into()))));
    rows.row("add_1_inplace", 5000, || {
        a.add_(black_box(&b));
    });
    rows.row("add_1_number", 5000, || drop(black_box(black_box(&a) + 1.0)));
    let x = torch::rand([1]).requires_grad_(true);
    let y = &x * 2.0;
    rows.row("add_1_no_grad", 5000, || drop(torch::no_grad(|| black_box(black_box(&y) + black_box(&b)))));
    rows.row("add_1_recorded", 5000, || drop(black_box(black_box(&y) + black_box(&b))));
    rows.row("add_1_recorded_leaf", 5000, || drop(black_box(black_box(&x) + black_box(&b))));
    rows.row("mul_1_recorded", 5000, || drop(black_box(black_box(&y) * black_box(&b))));

    let (c, d) = (torch::rand([64]), torch::rand([64]));
    rows.row("add_64", 5000, || drop(black_box(black_box(&c) + black_box(&d))));
    rows.row("chain10_64", 1000, || {
        let mut y = black_box(&c).clone();
        for _ in 0..5 {
            y = &y * &d;
            y = &y + &d;
        }
        black_box(y);
    });

    let t = torch::rand([32, 32]);
    rows.row("view", 5000, || drop(black_box(black_box(&t).view([8, 128]))));
    rows.row("slice", 5000, || drop(black_box(black_box(&t).i(4..12))));
    rows.row("slice_fallible", 5000, || drop(black_box(ops::slice(black_box(&t), 0, Some(4), Some(12), 1))));
    rows.row("transpose", 5000, || drop(black_box(black_box(&t).transpose(0, 1))));
    let tg = &t * &torch::rand([32, 32]).requires_grad_(true);
    rows.row("view_recorded", 5000, || drop(black_box(black_box(&tg).view([8, 128]))));

    let leaf = torch::tensor(0.5).requires_grad_(true);
    let forward = || {
        let mut y = leaf.clone();
        for _ in 0..5 {
            y = &y * &leaf;
            y = &y + &leaf;
        }
        y
    };
    rows.row("autograd10_forward", 500, || drop(black_box(forward())));
    rows.row("autograd10", 500, || {
        leaf.set_grad(None);
        forward().backward();
        black_box(leaf.grad());
    });

    let m = nn::Linear::new(16, 16);
    let input = torch::rand([1, 16]);
    rows.row("linear16", 2000, || drop(black_box(m.call(black_box(&input)))));
    let _off = torch::no_grad_guard();
    rows.row("linear16_nograd", 2000, || drop(black_box(m.call(black_box(&input)))));
}
