//~ errors: 1
//~ this method takes 1 argument but 2 arguments were supplied
//~ /* for several: x.view([2, -1]) */
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.view(1, 2)
}
