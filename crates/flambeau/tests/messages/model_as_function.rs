//~ errors: 1
//~ expected function, found `torch::nn::Linear`
use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear, x: Tensor) -> Tensor {
    m(&x)
}
