//! A small GPT: 4 blocks with normalisation first, untied head.

use super::train;
use crate::input::{fill, ints};
use crate::row::Rows;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

const VOCABULARY: i64 = 512;
const WIDTH: i64 = 256;
const HEADS: i64 = 8;
const HEAD: i64 = WIDTH / HEADS;
const LENGTH: i64 = 128;
const BLOCKS: usize = 4;

/// Keys and values of the positions so far, `(1, heads, length, head)` each.
type Cache = (Tensor, Tensor);

#[derive(Debug, Module)]
struct Block {
    base: nn::Base,
    norm1: nn::LayerNorm,
    qkv: nn::Linear,
    out: nn::Linear,
    norm2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
}
impl Block {
    fn new() -> Self {
        Block {
            base: nn::Base::new(),
            norm1: nn::LayerNorm::new(WIDTH),
            qkv: nn::Linear::new(WIDTH, 3 * WIDTH),
            out: nn::Linear::new(WIDTH, WIDTH),
            norm2: nn::LayerNorm::new(WIDTH),
            up: nn::Linear::new(WIDTH, 4 * WIDTH),
            down: nn::Linear::new(4 * WIDTH, WIDTH),
        }
    }
    fn run(&self, x: &Tensor, cache: Option<&Cache>, position: i64) -> Tensor {
        let (batch, length) = (x.size(0), x.size(1));
        let heads = self.qkv.call(&self.norm1.call(x)).view([batch, length, 3, HEADS, HEAD]);
        let heads = heads.permute([2, 0, 3, 1, 4]).unbind(0);
        let (q, k, v) = (&heads[0], &heads[1], &heads[2]);
        let attended = match cache {
            Some((keys, values)) => {
                let end = position + length;
                keys.set_i((.., .., position..end), k);
                values.set_i((.., .., position..end), v);
                let (keys, values) = (keys.i((.., .., ..end)), values.i((.., .., ..end)));
                F::scaled_dot_product_attention(q, &keys, &values)
            }
            None => {
                let causal = torch::nn::functional::ScaledDotProductAttentionOptions::new().is_causal(true);
                F::scaled_dot_product_attention_with(q, k, v, causal)
            }
        };
        let x = x + self.out.call(&attended.transpose(1, 2).reshape([batch, length, WIDTH]));
        let hidden = F::gelu(&self.up.call(&self.norm2.call(&x)), "tanh");
        x + self.down.call(&hidden)
    }
}

#[derive(Debug, Module)]
pub struct Gpt {
    base: nn::Base,
    tokens: nn::Embedding,
    positions: nn::Embedding,
    blocks: Vec<Block>,
    norm: nn::LayerNorm,
    head: nn::Linear,
}
impl Gpt {
    pub fn new() -> Self {
        Gpt {
            base: nn::Base::new(),
            tokens: nn::Embedding::new(VOCABULARY, WIDTH),
            positions: nn::Embedding::new(LENGTH, WIDTH),
            blocks: (0..BLOCKS).map(|_| Block::new()).collect(),
            norm: nn::LayerNorm::new(WIDTH),
            head: nn::LinearOptions::new(WIDTH, VOCABULARY).bias(false).build(),
        }
    }
    fn run(&self, tokens: &Tensor, caches: Option<&[Cache]>, position: i64) -> Tensor {
        let places = torch::arange_start(position, position + tokens.size(1));
        let mut x = self.tokens.call(tokens) + self.positions.call(&places);
        for (i, b) in self.blocks.iter().enumerate() {
            x = b.run(&x, caches.map(|c| &c[i]), position);
        }
        self.head.call(&self.norm.call(&x))
    }
}
#[nn::forward]
impl Gpt {
    fn forward(&self, tokens: &Tensor) -> Tensor {
        self.run(tokens, None, 0)
    }
}

pub fn rows(r: &mut Rows) {
    let classes = VOCABULARY as u32;
    r.add("e2e/gpt_train", move || {
        let m = Gpt::new();
        let optimizer = optim::AdamWOptions::new().lr(3e-4).weight_decay(0.01).build(m.parameters());
        train(m, optimizer, ints([8, LENGTH], classes, 1), ints([8, LENGTH], classes, 2))
    })
    .no_check();
    r.add("e2e/gpt_train_bf16", move || {
        let m = Gpt::new();
        let mut optimizer = optim::AdamWOptions::new().lr(3e-4).weight_decay(0.01).build(m.parameters());
        let (x, target) = (ints([8, LENGTH], classes, 1), ints([8, LENGTH], classes, 2));
        move || {
            optimizer.zero_grad();
            let lower = torch::amp::AutocastOptions::new("cpu").dtype(torch::bfloat16);
            let loss = torch::autocast(lower, || {
                let out = m.call(&x);
                F::cross_entropy(&out.reshape([-1, VOCABULARY]), &target.reshape(-1))
            });
            loss.backward();
            optimizer.step();
            loss
        }
    })
    .no_check();
    r.add("e2e/gpt_prefill", move || {
        let (m, tokens) = (Gpt::new(), ints([1, LENGTH], classes, 1));
        m.eval();
        move || m.call(&tokens)
    })
    .no_grad()
    .no_check();
    r.add("e2e/gpt_decode", move || {
        let (m, token) = (Gpt::new(), ints([1, 1], classes, 3));
        m.eval();
        let full = |seed| fill([1, HEADS, LENGTH, HEAD], seed);
        let caches: Vec<Cache> = (0..BLOCKS).map(|_| (full(1), full(2))).collect();
        move || m.run(&token, Some(&caches), LENGTH - 1)
    })
    .no_grad()
    .no_check();
}
