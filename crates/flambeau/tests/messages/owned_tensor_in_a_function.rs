//~ errors: 1
//~ mismatched types
//~ help: consider borrowing here
use torch::nn::functional as F;
use torch::prelude::*;
pub fn f(x: Tensor) -> Tensor {
    F::relu(x)
}
