//~ errors: 1
//~ `forward` takes `&self`: a module is shared while it runs. What changes in a call stands in a `Mutex`, an atomic or a buffer
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
