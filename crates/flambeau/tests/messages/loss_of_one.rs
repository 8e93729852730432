//~ errors: 1
//~ arguments to this function are incorrect
//~ help: consider borrowing here
use torch::prelude::*;
pub fn f(x: Tensor, y: Tensor) -> Tensor {
    torch::nn::functional::cross_entropy(x, y)
}
