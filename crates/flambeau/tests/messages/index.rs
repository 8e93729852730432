//~ errors: 1
//~ cannot index into a value of type `torch::Tensor`
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    x[0]
}
