//~ errors: 1
//~ this method takes 0 arguments but 1 argument was supplied
//~ /* for a shape: m.sample_shape([3]) */
use torch::distributions::Normal;
use torch::prelude::*;
pub fn f(m: &Normal) -> Tensor {
    m.sample([3])
}
