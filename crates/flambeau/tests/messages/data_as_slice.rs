use torch::prelude::*;
pub fn f(x: Tensor) -> f32 {
    x.data::<f32>()[0]
}
