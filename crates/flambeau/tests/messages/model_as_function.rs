use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear, x: Tensor) -> Tensor {
    m(&x)
}
