//~ errors: 1
//~ an element cannot be read as `String`
//~ `x.item::<f32>()`, `f64`, `i64`, `bool` ...
use torch::prelude::*;
pub fn f(x: Tensor) -> String {
    x.item::<String>()
}
