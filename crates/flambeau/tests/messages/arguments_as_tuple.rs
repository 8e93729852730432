//~ errors: 1
//~ this method takes 2 arguments but 1 argument was supplied
//~ help: provide the argument
use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::MSELoss, x: Tensor, y: Tensor) -> Tensor {
    m.call((&x, &y))
}
