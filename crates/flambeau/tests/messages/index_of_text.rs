use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.i("0")
}
