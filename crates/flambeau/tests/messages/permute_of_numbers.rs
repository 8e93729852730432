//~ errors: 1
//~ this method takes 1 argument but 3 arguments were supplied
//~ /* for several: x.permute([2, 0, 1]) */
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.permute(2, 0, 1)
}
