//! A vision transformer over `nn::MultiheadAttention`, BERT over `nn::TransformerEncoder`.

use torch::nn;
use torch::prelude::*;

fn layer_norm(width: i64, eps: f64) -> nn::LayerNorm {
    nn::LayerNormOptions::new(width).eps(eps).build()
}

#[derive(Debug, Module)]
struct VisionBlock {
    base: nn::Base,
    norm1: nn::LayerNorm,
    attention: nn::MultiheadAttention,
    norm2: nn::LayerNorm,
    mlp: nn::Sequential,
}
impl VisionBlock {
    fn new(width: i64, heads: i64) -> Self {
        VisionBlock {
            base: nn::Base::new(),
            norm1: layer_norm(width, 1e-6),
            attention: nn::MultiheadAttentionOptions::new(width, heads).batch_first(true).build(),
            norm2: layer_norm(width, 1e-6),
            mlp: nn::Sequential::new((
                nn::Linear::new(width, 4 * width),
                nn::GELU::new(),
                nn::Linear::new(4 * width, width),
            )),
        }
    }
}
#[nn::forward]
impl VisionBlock {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.norm1.call(x);
        let without_weights = nn::MultiheadAttentionArgs::new().need_weights(false);
        let x = x + self.attention.call_with(&y, &y, &y, without_weights).0;
        let fed = self.mlp.call(&self.norm2.call(&x));
        x + fed
    }
}

const WIDTH: i64 = 384;

/// ViT-S/16: 12 blocks of width 384 with 6 heads over 196 patches and a class token.
#[derive(Debug, Module)]
pub struct ViT {
    base: nn::Base,
    patches: nn::Conv2d,
    token: nn::Parameter,
    positions: nn::Parameter,
    blocks: Vec<VisionBlock>,
    norm: nn::LayerNorm,
    head: nn::Linear,
}
impl ViT {
    pub fn new() -> Self {
        let small =
            |length: i64| nn::Parameter::new(nn::init::normal_(&torch::empty([1, length, WIDTH]), 0.0, 0.02));
        ViT {
            base: nn::Base::new(),
            patches: nn::Conv2dOptions::new(3, WIDTH, 16).stride(16).build(),
            token: small(1),
            positions: small(197),
            blocks: (0..12).map(|_| VisionBlock::new(WIDTH, 6)).collect(),
            norm: layer_norm(WIDTH, 1e-6),
            head: nn::Linear::new(WIDTH, 1000),
        }
    }
}
#[nn::forward]
impl ViT {
    fn forward(&self, x: &Tensor) -> Tensor {
        let patches = self.patches.call(x).flatten(2, -1).transpose(1, 2);
        let token = self.token.expand([x.size(0), -1, -1]);
        let x = torch::cat(&[token, patches], 1) + &self.positions;
        let x = self.blocks.iter().fold(x, |x, b| b.call(&x));
        self.head.call(&self.norm.call(&x.i((.., 0))))
    }
}

/// BERT-base, without dropout, and a layer for two classes over the first token.
#[derive(Debug, Module)]
pub struct Bert {
    base: nn::Base,
    words: nn::Embedding,
    positions: nn::Embedding,
    types: nn::Embedding,
    norm: nn::LayerNorm,
    encoder: nn::TransformerEncoder,
    pooler: nn::Linear,
    classifier: nn::Linear,
}
impl Bert {
    pub fn new() -> Self {
        let width = 768;
        let table = |rows| nn::Embedding::new(rows, width);
        Bert {
            base: nn::Base::new(),
            words: table(30522),
            positions: table(512),
            types: table(2),
            norm: layer_norm(width, 1e-12),
            encoder: {
                let layer =
                    nn::TransformerEncoderLayerOptions::new(width, 12).dim_feedforward(3072).dropout(0.0);
                let layer = layer.activation("gelu").layer_norm_eps(1e-12).batch_first(true).build();
                nn::TransformerEncoder::new(layer, 12)
            },
            pooler: nn::Linear::new(width, width),
            classifier: nn::Linear::new(width, 2),
        }
    }
    /// Logits of the classes.
    pub fn classify(&self, tokens: &Tensor) -> Tensor {
        self.classifier.call(&self.pooler.call(&self.call(tokens).i((.., 0))).tanh())
    }
}
#[nn::forward]
impl Bert {
    fn forward(&self, tokens: &Tensor) -> Tensor {
        let places = self.positions.call(&torch::arange(tokens.size(1)));
        let x = self.words.call(tokens) + places + self.types.call(&torch::zeros_like(tokens));
        self.encoder.call(&self.norm.call(&x))
    }
}
