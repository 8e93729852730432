//! Where a word stands, as a vector that is added to it (Vaswani et al. 2017): what the programs with transformers share.

use torch::nn;
use torch::prelude::*;

#[derive(Debug, Module)]
pub struct PositionalEncoding {
    base: nn::Base,
    dropout: nn::Dropout,
    pe: nn::Buffer,
}
impl PositionalEncoding {
    pub fn new(width: i64, longest: i64, dropout: f64) -> Self {
        let position = torch::arange(longest).unsqueeze(1);
        let frequencies = (torch::arange_step(0, width, 2) * (-(10000f64.ln()) / width as f64)).exp();
        let pe = torch::zeros([longest, 1, width]);
        pe.set_i((.., 0, Slice::step(2)), (&position * &frequencies).sin());
        pe.set_i((.., 0, Slice::new(1, None, 2)), (&position * &frequencies).cos());
        PositionalEncoding {
            base: nn::Base::new(),
            dropout: nn::Dropout::new(dropout),
            pe: nn::Buffer::new(pe),
        }
    }
}
#[nn::forward]
impl PositionalEncoding {
    /// Of words (length, N, width).
    fn forward(&self, x: &Tensor) -> Tensor {
        self.dropout.call(&(x + self.pe.i(..x.size(0))))
    }
}
