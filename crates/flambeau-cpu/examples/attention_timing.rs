//! Times attention: `attention_timing [threads]`.

use flambeau_cpu::attention::{AttentionShape, Heads, Saved, backward, forward};
use flambeau_cpu::engine::parallel::set_num_threads;
use std::time::Instant;

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 % 1013) as f32 - 500.0) / 500.0).collect()
}

fn main() {
    set_num_threads(std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1));
    for (batch, heads, l, e, causal) in [(1, 8, 1024, 64, true), (8, 12, 128, 64, false)] {
        let s = AttentionShape { batch, heads, l, s: l, e, v: e, causal, scale: 0.125 };
        let x = values(batch * heads * l * e);
        let (mut out, mut lse) = (x.clone(), vec![0.0; batch * heads * l]);
        let (mut gq, mut gk, mut gv) = (x.clone(), x.clone(), x.clone());
        let d = Heads::dense(&x, heads, l, e);
        let mut best = [f64::MAX; 2];
        for _ in 0..30 {
            let start = Instant::now();
            forward(&s, [d; 3], None, &mut out, &mut lse);
            best[0] = best[0].min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            let saved = Saved { q: d, k: d, v: d, mask: None, out: &out, lse: &lse, grad: d };
            backward(&s, &saved, &mut gq, &mut gk, &mut gv);
            best[1] = best[1].min(start.elapsed().as_secs_f64());
        }
        println!(
            "{batch}x{heads}x{l}x{e} causal {causal}: {:.2} ms, backward {:.2} ms",
            best[0] * 1e3,
            best[1] * 1e3
        );
    }
}
