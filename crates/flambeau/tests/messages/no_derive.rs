//~ errors: 3
//~ `Net` is no module
//~ put `#[derive(Debug, Module)]` on the struct
use torch::prelude::*;
use torch::nn;
pub struct Net {
    pub fc: nn::Linear,
}
#[nn::forward]
impl Net {
    pub fn forward(&self, x: &Tensor) -> Tensor {
        self.fc.call(x)
    }
}
