//~ errors: 1
//~ `Symmetric` does not say how a weight is computed
//~ a layer of one tensor to one tensor is given boxed: `Box::new(layer)`
use torch::nn;
use torch::nn::utils::parametrize::register_parametrization;
use torch::prelude::*;
#[derive(Debug, Module)]
pub struct Symmetric {
    base: nn::Base,
}
#[nn::forward]
impl Symmetric {
    fn forward(&self, x: &Tensor) -> Tensor {
        x + x.T()
    }
}
pub fn f(layer: &mut nn::Linear, symmetric: Symmetric) {
    register_parametrization(layer, "weight", symmetric);
}
