//~ errors: 1
//~ this method takes 1 argument but 3 arguments were supplied
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.permute(2, 0, 1)
}
