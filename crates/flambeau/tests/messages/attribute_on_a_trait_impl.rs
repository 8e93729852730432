//~ errors: 1
//~ `#[nn::forward]` implements the trait itself: write `impl Net { fn forward(&self, ...) { .. } }`, without a trait
use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
#[nn::forward]
impl Forward<&Tensor> for Net {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc.call(x)
    }
}
