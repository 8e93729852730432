//~ errors: 1
//~ mismatched types
//~ help: consider borrowing here
use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear, x: Tensor) -> Tensor {
    m.call(x)
}
