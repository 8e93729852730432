//~ errors: 1
//~ this method takes 0 arguments but 1 argument was supplied
//~ /* for one dimension: x.squeeze_dim(1) */
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.squeeze(0)
}
