//~ errors: 1
//~ `str` is no bound: neither a number nor a tensor
//~ `x.clamp(0, 1)`, `x.clamp(0, None)`, `x.clamp(&low, &high)`
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x.clamp("0", 1)
}
