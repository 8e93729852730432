//! A small GPT over characters, and its training: what `char_gpt` and `lora` share.

use crate::common::progress;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

/// The longest text that the model sees at once.
pub const LENGTH: i64 = 64;
const BATCH: i64 = 16;
const WIDTH: i64 = 96;
const HEADS: i64 = 4;
const BLOCKS: usize = 3;
const DROPOUT: f64 = 0.1;

#[derive(Debug, Module)]
pub struct Block {
    base: nn::Base,
    norm1: nn::LayerNorm,
    pub qkv: nn::Linear,
    pub out: nn::Linear,
    norm2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
    dropout: nn::Dropout,
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
            dropout: nn::Dropout::new(DROPOUT),
        }
    }
}
#[nn::forward]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (n, l) = (x.size(0), x.size(1));
        let heads = self.qkv.call(&self.norm1.call(x)).view([n, l, 3, HEADS, WIDTH / HEADS]);
        let heads = heads.permute([2, 0, 3, 1, 4]).unbind(0);
        let causal = torch::nn::functional::ScaledDotProductAttentionOptions::new().is_causal(true);
        let y = F::scaled_dot_product_attention_with(&heads[0], &heads[1], &heads[2], causal);
        let y = self.out.call(&y.transpose(1, 2).reshape([n, l, WIDTH]));
        let x = x + self.dropout.call(&y);
        let inner = F::gelu(&self.up.call(&self.norm2.call(&x)));
        &x + self.dropout.call(&self.down.call(&inner))
    }
}

#[derive(Debug, Module)]
pub struct Gpt {
    tokens: nn::Embedding,
    positions: nn::Embedding,
    pub blocks: Vec<Block>,
    norm: nn::LayerNorm,
    head: nn::Linear,
}
impl Gpt {
    pub fn new(vocabulary: i64) -> Self {
        Gpt {
            tokens: nn::Embedding::new(vocabulary, WIDTH),
            positions: nn::Embedding::new(LENGTH, WIDTH),
            blocks: (0..BLOCKS).map(|_| Block::new()).collect(),
            norm: nn::LayerNorm::new(WIDTH),
            head: nn::LinearOptions::new(WIDTH, vocabulary).bias(false).build(),
        }
    }
}
#[nn::forward]
impl Gpt {
    /// Logits (N, L, vocabulary) of the characters after those of (N, L).
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.tokens.call(x) + self.positions.call(&torch::arange(x.size(1)));
        let x = self.blocks.iter().fold(x, |x, block| block.call(&x));
        self.head.call(&self.norm.call(&x))
    }
}

/// The loss of the model on windows of the text that begin at `starts` (N, 1): the character after each is predicted.
fn loss_at(model: &Gpt, text: &Tensor, starts: &Tensor) -> Tensor {
    let at = starts + torch::arange(LENGTH);
    let (x, y) = (text.i(&at), text.i(&at + 1));
    F::cross_entropy(&model.call(&x).flatten(0, 1), &y.flatten(0, 1))
}

/// Trains those parameters that require a gradient, on windows at random places, in regions with autocast if a dtype is given; gives
/// the loss of each step.
pub fn train(model: &Gpt, text: &Tensor, steps: u64, lower: Option<torch::DType>) -> Vec<f64> {
    let parameters: Vec<Parameter> = model.parameters().into_iter().filter(|p| p.requires_grad()).collect();
    let mut optimizer = optim::AdamWOptions::new().lr(2e-3).weight_decay(0.01).build(parameters);
    let bar = progress(steps, "step");
    model.train();
    let mut losses = Vec::new();
    for _ in 0..steps {
        let starts = torch::randint(text.size(0) - LENGTH, [BATCH, 1]);
        optimizer.zero_grad();
        let forward = || loss_at(model, text, &starts);
        let loss = match lower {
            Some(dtype) => torch::autocast(torch::amp::AutocastOptions::new("cpu").dtype(dtype), forward),
            None => forward(),
        };
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.3}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();
    losses
}

/// The loss on the whole text, window after window.
pub fn loss(model: &Gpt, text: &Tensor) -> f64 {
    model.eval();
    let starts = torch::arange_step(0, text.size(0) - LENGTH, LENGTH).unsqueeze(1);
    torch::no_grad(|| loss_at(model, text, &starts)).item()
}

/// Continues a text: each character is drawn from the model's probabilities.
pub fn sample(model: &Gpt, prompt: &str, characters: &[char], count: usize) -> String {
    model.eval();
    let mut text: Vec<char> = prompt.chars().collect();
    torch::no_grad(|| {
        for _ in 0..count {
            let start = text.len().saturating_sub(LENGTH as usize);
            let seen = text[start..].iter().filter_map(|c| characters.binary_search(c).ok());
            let x = torch::tensor(seen.map(|i| i as i64).collect::<Vec<_>>()).unsqueeze(0);
            let logits = model.call(&x).select(1, -1) / 0.8;
            let next = torch::multinomial(&logits.softmax(-1), 1, true).item::<i64>();
            text.push(characters[next as usize]);
        }
    });
    text.into_iter().collect()
}
