//~ errors: 1
//~ `torch::Tensor` is no number and no array of numbers
//~ write `torch::tensor(1.5)`, `torch::tensor([[1.0, 2.0], [3.0, 4.0]])`, or give a slice or vector of numbers
//~ tensors are put together by `torch::stack([&x, &y], 0)`
use torch::prelude::*;
pub fn f(x: Tensor, y: Tensor) -> Tensor {
    torch::tensor([x, y])
}
