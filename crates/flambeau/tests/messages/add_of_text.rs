use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.add("1")
}
