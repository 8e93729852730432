//~ errors: 1
//~ the trait bound `torch::prelude::Index: From<&str>` is not satisfied
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.i("0")
}
