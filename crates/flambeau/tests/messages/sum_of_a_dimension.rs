//~ errors: 1
//~ this method takes 0 arguments but 1 argument was supplied
//~ /* for one dimension: x.sum_dim(1, false) */
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.sum(1)
}
