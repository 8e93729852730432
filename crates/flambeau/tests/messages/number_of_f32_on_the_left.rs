//~ errors: 1
//~ cannot multiply `f32` by `&torch::Tensor`
//~ no implementation for `f32 * &torch::Tensor`
use torch::prelude::*;
pub fn f(a: f32, x: &Tensor) -> Tensor {
    a * x
}
