//~ errors: 2
//~ a module cannot give `Out`: its hooks would not see the tensors in it
//~ put `#[derive(nn::Tensors)]` on a struct or enum of your own
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
