//~ errors: 2
//~ a module cannot give `Batch`: its hooks would not see the tensors in it
//~ put `#[derive(nn::Tensors)]` on a struct or enum of your own
use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
pub struct Batch {
    pub x: Tensor,
}
#[nn::forward]
impl Net {
    pub fn forward(&self, batch: &Batch) -> Tensor {
        self.fc.call(&batch.x)
    }
}
