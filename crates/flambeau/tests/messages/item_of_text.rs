use torch::prelude::*;
pub fn f(x: Tensor) -> String {
    x.item::<String>()
}
