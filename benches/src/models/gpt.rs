//! GPT: blocks with normalisation first.

use torch::nn;
use torch::nn::functional as F;
use torch::prelude::*;

/// What a GPT is made of.
#[derive(Clone, Copy, Debug)]
pub struct GptShape {
    pub vocabulary: i64,
    pub width: i64,
    pub heads: i64,
    pub length: i64,
    pub blocks: usize,
    /// Whether the table of tokens is the head.
    pub tied: bool,
}
impl GptShape {
    pub const SMALL: GptShape =
        GptShape { vocabulary: 512, width: 256, heads: 8, length: 128, blocks: 4, tied: false };
    pub const GPT2: GptShape =
        GptShape { vocabulary: 50257, width: 768, heads: 12, length: 1024, blocks: 12, tied: true };

    /// Sizes of the keys, or the values, of one block.
    pub fn cache(&self) -> [i64; 4] {
        [1, self.heads, self.length, self.width / self.heads]
    }
}

#[derive(Debug, Module)]
struct Block {
    base: nn::Base,
    heads: i64,
    norm1: nn::LayerNorm,
    qkv: nn::Linear,
    out: nn::Linear,
    norm2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
}
impl Block {
    fn new(width: i64, heads: i64) -> Self {
        Block {
            base: nn::Base::new(),
            heads,
            norm1: nn::LayerNorm::new(width),
            qkv: nn::Linear::new(width, 3 * width),
            out: nn::Linear::new(width, width),
            norm2: nn::LayerNorm::new(width),
            up: nn::Linear::new(width, 4 * width),
            down: nn::Linear::new(4 * width, width),
        }
    }
    /// `cache` has the keys and values of the positions so far, `(1, heads, length, head)` each, or nothing.
    fn run(&self, x: &Tensor, cache: &[Tensor], position: i64) -> Tensor {
        let (batch, length, width) = (x.size(0), x.size(1), x.size(2));
        let heads = self.qkv.call(&self.norm1.call(x));
        let heads = heads.view([batch, length, 3, self.heads, width / self.heads]);
        let heads = heads.permute([2, 0, 3, 1, 4]).unbind(0);
        let (q, mut k, mut v) = (&heads[0], heads[1].clone(), heads[2].clone());
        if let [keys, values] = cache {
            let end = position + length;
            keys.set_i((.., .., position..end), &k);
            values.set_i((.., .., position..end), &v);
            (k, v) = (keys.i((.., .., ..end)), values.i((.., .., ..end)));
        }
        let causal = F::ScaledDotProductAttentionOptions::new().is_causal(length > 1);
        let attended = F::scaled_dot_product_attention_with(q, &k, &v, causal);
        let x = x + self.out.call(&attended.transpose(1, 2).reshape([batch, length, width]));
        let hidden =
            F::gelu_with(&self.up.call(&self.norm2.call(&x)), F::GeluOptions::new().approximate("tanh"));
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
    head: Option<nn::Linear>,
}
impl Gpt {
    pub fn new(shape: GptShape) -> Self {
        let GptShape { vocabulary, width, heads, length, blocks, tied } = shape;
        let head = || nn::LinearOptions::new(width, vocabulary).bias(false).build();
        Gpt {
            base: nn::Base::new(),
            tokens: nn::Embedding::new(vocabulary, width),
            positions: nn::Embedding::new(length, width),
            blocks: (0..blocks).map(|_| Block::new(width, heads)).collect(),
            norm: nn::LayerNorm::new(width),
            head: (!tied).then(head),
        }
    }
    /// Without the head. `caches` has keys and values of each block in turn, or nothing.
    fn hidden(&self, tokens: &Tensor, caches: &[Tensor], position: i64) -> Tensor {
        let places = torch::arange_start(position, position + tokens.size(1));
        let mut x = self.tokens.call(tokens) + self.positions.call(&places);
        let mut caches = caches.chunks(2);
        for b in &self.blocks {
            x = b.run(&x, caches.next().unwrap_or_default(), position);
        }
        x
    }
    fn logits(&self, x: &Tensor) -> Tensor {
        let x = self.norm.call(x);
        match &self.head {
            Some(head) => head.call(&x),
            None => F::linear(&x, &self.tokens.weight, None),
        }
    }
    /// Logits of all positions.
    pub fn all(&self, tokens: &Tensor, caches: &[Tensor], position: i64) -> Tensor {
        self.logits(&self.hidden(tokens, caches, position))
    }
    /// Logits of what follows the last token.
    pub fn next(&self, tokens: &Tensor, caches: &[Tensor], position: i64) -> Tensor {
        self.logits(&self.hidden(tokens, caches, position).i((.., -1..)))
    }
}
#[nn::forward]
impl Gpt {
    fn forward(&self, tokens: &Tensor) -> Tensor {
        self.all(tokens, &[], 0)
    }
}
