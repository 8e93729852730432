//~ errors: 1
//~ binary operation `==` cannot be applied to type `torch::Tensor`
use torch::prelude::*;
pub fn f(x: Tensor, y: Tensor) -> Tensor {
    x == y
}
