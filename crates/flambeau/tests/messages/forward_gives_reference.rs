//~ errors: 1
//~ `forward` gives values of its own, no references: a tensor is a handle, and `clone` of it copies no elements
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
