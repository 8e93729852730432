use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.clamp("0", 1)
}
