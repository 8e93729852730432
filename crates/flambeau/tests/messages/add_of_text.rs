//~ errors: 1
//~ `str` is neither a tensor nor a number
//~ `&x` of a tensor, or any of Rust's numbers
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.add("1")
}
