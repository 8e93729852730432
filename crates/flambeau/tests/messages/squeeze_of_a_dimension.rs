use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.squeeze(0)
}
