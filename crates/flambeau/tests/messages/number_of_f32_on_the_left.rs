//~ errors: 1
//~ cannot multiply `f32` by `&Tensor`
//~ `f64` implements `Mul<&Tensor>`
//~ `i64` implements `Mul<&Tensor>`
use torch::prelude::*;
pub fn f(a: f32, x: &Tensor) -> Tensor {
    a * x
}
