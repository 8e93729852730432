use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
#[nn::forward]
impl Net {
    pub fn forward(&self, x: &Tensor) -> &Tensor {
        &self.fc.weight
    }
}
