//~ errors: 1
//~ `&str` is no list of sizes or dimensions
//~ write `[2, 3]`, `5`, or `()` for none: an empty `[]` has no type
//~ /* for several: x.view([2, -1]) */
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.view("2")
}
