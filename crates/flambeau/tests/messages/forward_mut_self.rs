use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
#[nn::forward]
impl Net {
    pub fn forward(&mut self, x: &Tensor) -> Tensor {
        self.fc.call(x)
    }
}
