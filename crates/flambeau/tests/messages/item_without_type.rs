use torch::prelude::*;
pub fn f(x: Tensor) {
    let v = x.item();
    println!("{v}");
}
