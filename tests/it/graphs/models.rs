//! A transformer's block as in GPT-2, and one as in Llama.

use torch::nn;
use torch::nn::functional as F;
use torch::prelude::*;

/// Normalisation first, causal attention over heads, a hidden layer four times as wide.
#[derive(Debug, Module)]
pub struct GptBlock {
    norm1: nn::LayerNorm,
    qkv: nn::Linear,
    out: nn::Linear,
    norm2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
    dropout: nn::Dropout,
    heads: i64,
}
impl GptBlock {
    pub fn new(width: i64, heads: i64) -> Self {
        GptBlock {
            norm1: nn::LayerNorm::new(width),
            qkv: nn::Linear::new(width, 3 * width),
            out: nn::Linear::new(width, width),
            norm2: nn::LayerNorm::new(width),
            up: nn::Linear::new(width, 4 * width),
            down: nn::Linear::new(4 * width, width),
            dropout: nn::DropoutOptions::new().p(0.1).build(),
            heads,
        }
    }
}
#[nn::forward]
impl GptBlock {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (batch, length, width) = (x.size(0), x.size(1), x.size(2));
        let heads =
            self.qkv.call(&self.norm1.call(x)).view([batch, length, 3, self.heads, width / self.heads]);
        let heads = heads.permute([2, 0, 3, 1, 4]).unbind(0);
        let causal = F::ScaledDotProductAttentionOptions::new().is_causal(true);
        let attended = F::scaled_dot_product_attention_with(&heads[0], &heads[1], &heads[2], causal);
        let attended = self.out.call(&attended.transpose(1, 2).reshape([batch, length, width]));
        let x = x + self.dropout.call(&attended);
        let hidden =
            F::gelu_with(&self.up.call(&self.norm2.call(&x)), F::GeluOptions::new().approximate("tanh"));
        &x + self.dropout.call(&self.down.call(&hidden))
    }
}

/// Sizes of a [`Llama`].
pub struct LlamaShape {
    pub layers: usize,
    pub width: i64,
    pub heads: i64,
    /// Heads of keys and values, each of which serves several.
    pub groups: i64,
    pub hidden: i64,
    pub vocabulary: i64,
}
#[derive(Debug, Module)]
pub struct LlamaBlock {
    norm1: nn::RMSNorm,
    q: nn::Linear,
    k: nn::Linear,
    v: nn::Linear,
    out: nn::Linear,
    norm2: nn::RMSNorm,
    gate: nn::Linear,
    up: nn::Linear,
    down: nn::Linear,
    heads: i64,
    groups: i64,
}
/// Root mean square normalisation, positions as rotations, grouped attention, a gated hidden layer; weights on any device.
#[derive(Debug, Module)]
pub struct Llama {
    tokens: nn::Embedding,
    blocks: Vec<LlamaBlock>,
    norm: nn::RMSNorm,
    head: nn::Linear,
}
impl Llama {
    pub fn new(s: &LlamaShape, device: torch::Device, dtype: torch::DType) -> Self {
        let linear = |i, o| nn::LinearOptions::new(i, o).bias(false).device(device).dtype(dtype).build();
        let norm = || nn::RMSNormOptions::new(s.width).eps(1e-5).device(device).dtype(dtype).build();
        let few = s.width / s.heads * s.groups;
        let block = |_| LlamaBlock {
            norm1: norm(),
            q: linear(s.width, s.width),
            k: linear(s.width, few),
            v: linear(s.width, few),
            out: linear(s.width, s.width),
            norm2: norm(),
            gate: linear(s.width, s.hidden),
            up: linear(s.width, s.hidden),
            down: linear(s.hidden, s.width),
            heads: s.heads,
            groups: s.groups,
        };
        Llama {
            tokens: nn::EmbeddingOptions::new(s.vocabulary, s.width).device(device).dtype(dtype).build(),
            blocks: (0..s.layers).map(block).collect(),
            norm: norm(),
            head: linear(s.width, s.vocabulary),
        }
    }
}
fn rotated(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let halves = x.chunk(2, -1);
    let turned = torch::cat([&(-&halves[1]), &halves[0]], -1);
    x * cos + turned * sin
}
#[nn::forward]
impl Llama {
    fn forward(&self, tokens: &Tensor) -> Tensor {
        let mut x = self.tokens.call(tokens);
        let (length, head) = (x.size(1), x.size(2) / self.blocks[0].heads);
        let o = (torch::float32, x.device());
        let places = torch::arange_with(length, o).unsqueeze(1);
        let rates = torch::arange_with(head / 2, o) * (-2.0 * 500_000f64.ln() / head as f64);
        let angles = places * rates.exp();
        let angles = torch::cat([&angles, &angles], -1);
        let (cos, sin) = (angles.cos().to(x.dtype()), angles.sin().to(x.dtype()));
        for b in &self.blocks {
            x = b.call(&x, &cos, &sin);
        }
        self.head.call(&self.norm.call(&x))
    }
}
#[nn::forward]
impl LlamaBlock {
    fn forward(&self, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
        let (batch, length, width) = (x.size(0), x.size(1), x.size(2));
        let head = width / self.heads;
        let normed = self.norm1.call(x);
        let split = |l: &nn::Linear, n| l.call(&normed).view([batch, length, n, head]).transpose(1, 2);
        let q = rotated(&split(&self.q, self.heads), cos, sin);
        let k = rotated(&split(&self.k, self.groups), cos, sin);
        let v = split(&self.v, self.groups);
        let o = F::ScaledDotProductAttentionOptions::new().is_causal(true).enable_gqa(true);
        let attended = F::scaled_dot_product_attention_with(&q, &k, &v, o);
        let x = x + self.out.call(&attended.transpose(1, 2).reshape([batch, length, width]));
        let normed = self.norm2.call(&x);
        let hidden = F::silu(&self.gate.call(&normed)) * self.up.call(&normed);
        &x + self.down.call(&hidden)
    }
}
