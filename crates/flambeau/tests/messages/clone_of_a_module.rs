//~ errors: 1
//~ no method named `clone` found for struct `torch::nn::Linear` in the current scope
use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear) -> nn::Linear {
    m.clone()
}
