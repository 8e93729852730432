use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.permute(2, 0, 1)
}
