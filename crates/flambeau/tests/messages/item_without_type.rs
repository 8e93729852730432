//~ errors: 1
//~ type annotations needed
//~ cannot satisfy `_: Item`
//~ help: consider giving `v` an explicit type
use torch::prelude::*;
pub fn f(x: Tensor) {
    let v = x.item();
    println!("{v}");
}
