//~ errors: 1
//~ `forward` takes arguments of known types, no `impl Trait`
use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
#[nn::forward]
impl Net {
    pub fn forward(&self, x: impl Into<Tensor>) -> Tensor {
        self.fc.call(&x.into())
    }
}
