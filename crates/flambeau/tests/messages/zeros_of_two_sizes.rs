//~ errors: 1
//~ this function takes 1 argument but 2 arguments were supplied
//~ /* for several sizes: torch::zeros([2, 3]) */
use torch::prelude::*;
pub fn f() -> Tensor {
    torch::zeros(2, 3)
}
