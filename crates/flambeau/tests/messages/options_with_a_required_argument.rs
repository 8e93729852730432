//~ errors: 1
//~ this function takes 0 arguments but 1 argument was supplied
use torch::options::TopkOptions;
use torch::prelude::*;
pub fn f(x: &Tensor) -> Tensor {
    x.topk_with(3, TopkOptions::new(3)).values
}
