//! Recurrent networks, and a network over tables.

use super::mlp;
use torch::nn;
use torch::prelude::*;

/// Characters to the logits of the next ones.
#[derive(Debug, Module)]
pub struct CharLSTM {
    embedding: nn::Embedding,
    fc: nn::Linear,
    lstm: nn::LSTM,
}
impl CharLSTM {
    pub fn new() -> Self {
        CharLSTM {
            embedding: nn::Embedding::new(96, 64),
            fc: nn::Linear::new(256, 96),
            lstm: nn::LSTMOptions::new(64, 256).batch_first(true).build(),
        }
    }
}
#[nn::forward]
impl CharLSTM {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc.call(&self.lstm.call(&self.embedding.call(x), None).0)
    }
}

/// Three layers of 256 over frames of 40 features, and 32 classes for each frame.
#[derive(Debug, Module)]
pub struct SpeechEncoder {
    base: nn::Base,
    lstm: nn::LSTM,
    fc: nn::Linear,
}
impl SpeechEncoder {
    pub fn new() -> Self {
        SpeechEncoder {
            base: nn::Base::new(),
            lstm: nn::LSTMOptions::new(40, 256).num_layers(3).batch_first(true).build(),
            fc: nn::Linear::new(256, 32),
        }
    }
}
#[nn::forward]
impl SpeechEncoder {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc.call(&self.lstm.call(x, None).0)
    }
}

/// 26 tables of 10,000 rows, 13 numbers, products of all pairs of features.
#[derive(Debug, Module)]
pub struct Dlrm {
    base: nn::Base,
    tables: Vec<nn::EmbeddingBag>,
    bottom: nn::Sequential,
    top: nn::Sequential,
}
impl Dlrm {
    pub const TABLES: i64 = 26;
    pub fn new() -> Self {
        let bag = || nn::EmbeddingBagOptions::new(10_000, 32).mode("sum").sparse(true).build();
        let features = Self::TABLES + 1;
        Dlrm {
            base: nn::Base::new(),
            tables: (0..Self::TABLES).map(|_| bag()).collect(),
            bottom: mlp(&[13, 512, 256, 32]),
            top: mlp(&[32 + features * (features - 1) / 2, 512, 256, 1]),
        }
    }
}
#[nn::forward]
impl Dlrm {
    /// Numbers `(B, 13)`, indices `(26, N)`, the starts of bags in them `(B)`.
    fn forward(&self, numbers: &Tensor, indices: &Tensor, offsets: &Tensor) -> Tensor {
        let bottom = self.bottom.call(numbers).relu();
        let mut all = vec![bottom.clone()];
        all.extend(self.tables.iter().zip(indices.unbind(0)).map(|(t, i)| t.call(&i, offsets, None)));
        let all = torch::stack(&all, 1);
        let products = torch::bmm(&all, &all.transpose(1, 2));
        let lower = torch::tril_indices(all.size(1), all.size(1), -1).unbind(0);
        let pairs = products.i((.., &lower[0], &lower[1]));
        self.top.call(&torch::cat(&[bottom, pairs], 1)).squeeze_dim(1)
    }
}
