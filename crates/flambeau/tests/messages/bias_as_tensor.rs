//~ errors: 1
//~ no method named `sum` found for enum `Option<torch::nn::Parameter>` in the current scope
use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear) -> Tensor {
    m.bias.sum()
}
