//! Attention.

use crate::input::{fill, leaf};
use crate::row::{Rows, forward_backward};
use torch::nn::functional as F;
use torch::prelude::*;

type Fill = fn([i64; 4], u32) -> Tensor;

fn attention(sizes: [i64; 4], causal: bool, make: Fill) -> ([Tensor; 3], impl Fn() -> Tensor) {
    let all = [1, 2, 3].map(|seed| make(sizes, seed));
    let [q, k, v] = all.clone();
    let run = move || {
        let o = torch::nn::functional::ScaledDotProductAttentionOptions::new().is_causal(causal);
        F::scaled_dot_product_attention_with(&q, &k, &v, o)
    };
    (all, run)
}

pub fn rows(r: &mut Rows) {
    for (name, sizes, causal) in
        [("sdpa_causal_1x8x1024", [1, 8, 1024, 64], true), ("sdpa_8x12x128", [8, 12, 128, 64], false)]
    {
        r.add(format!("attention/{name}"), move || attention(sizes, causal, fill).1);
        r.add(format!("attention/{name}_fb"), move || {
            let (all, run) = attention(sizes, causal, leaf);
            forward_backward(all.to_vec(), run)
        });
    }
}
