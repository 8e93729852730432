//~ errors: 1
//~ no field `training` on type
use torch::nn;
use torch::prelude::*;
#[derive(Debug, Module)]
pub struct Net {
    base: nn::Base,
}
#[nn::forward]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        nn::functional::dropout(x, 0.5, self.training)
    }
}
