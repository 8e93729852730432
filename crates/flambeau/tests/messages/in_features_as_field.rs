//~ errors: 1
//~ attempted to take value of method `in_features` on type `torch::nn::Linear`
//~ help: use parentheses to call the method
use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear) -> i64 {
    m.in_features
}
