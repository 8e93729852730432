//~ errors: 1
//~ expected a `FnOnce()` closure, found `torch::Tensor`
//~ wrap the `torch::Tensor` in a closure with no arguments: `|| { /* code */ }`
use torch::nn;
use torch::prelude::*;
pub fn f(m: nn::Linear, x: Tensor) -> Tensor {
    torch::no_grad(m.call(&x))
}
