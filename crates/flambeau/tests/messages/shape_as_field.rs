use torch::prelude::*;
pub fn f(x: Tensor) -> i64 {
    x.shape[0]
}
