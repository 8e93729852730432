//~ errors: 2
//~ this method takes 0 arguments but 1 argument was supplied
//~ /* for one dimension: x.max_dim(1, false) */
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.max(1).values
}
