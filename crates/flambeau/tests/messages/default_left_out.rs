//~ errors: 1
//~ this function takes 2 arguments but 1 argument was supplied
//~ diagonal: i64 /* Python's default: 0 */
use torch::prelude::*;
pub fn f(x: &Tensor) -> Tensor {
    torch::triu(x)
}
