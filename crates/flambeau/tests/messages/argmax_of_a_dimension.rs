//~ errors: 1
//~ this function takes 1 argument but 2 arguments were supplied
//~ /* for one dimension: torch::argmax_dim(&x, 1, false) */
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    torch::argmax(&x, 1)
}
