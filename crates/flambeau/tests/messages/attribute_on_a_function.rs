//~ errors: 1
//~ `#[nn::forward]` stands on an `impl` block: `#[nn::forward] impl Net { fn forward(&self, x: &Tensor) -> Tensor { .. } }`
use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
impl Net {
    #[nn::forward]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        self.fc.call(x)
    }
}
