use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
pub struct Out {
    pub y: Tensor,
}
#[nn::forward]
impl Net {
    pub fn forward(&self, x: &Tensor) -> Out {
        Out { y: self.fc.call(x) }
    }
}
