//~ errors: 2
//~ method takes 0 generic arguments but 1 generic argument was supplied
use torch::prelude::*;
pub fn f(x: Tensor) -> f32 {
    x.data::<f32>()[0]
}
