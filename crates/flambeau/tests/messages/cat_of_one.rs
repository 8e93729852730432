//~ errors: 1
//~ `torch::Tensor` is no list of tensors
//~ write `[&x, &y]`, or give a `Vec<Tensor>` or a reference to one
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    torch::cat(&x, 0)
}
