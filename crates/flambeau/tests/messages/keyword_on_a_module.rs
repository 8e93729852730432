//~ errors: 1
//~ no method named `padding` found for struct `Conv2d` in the current scope
use torch::prelude::*;
use torch::nn;
pub fn f() -> nn::Conv2d {
    nn::Conv2d::new(1, 8, 3).padding(1)
}
