//~ errors: 1
//~ attempted to take value of method `shape` on type `torch::Tensor`
//~ help: use parentheses to call the method
use torch::prelude::*;
pub fn f(x: Tensor) -> i64 {
    x.shape[0]
}
