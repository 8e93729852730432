use torch::prelude::*;
use torch::nn;
pub fn f() -> nn::Sequential {
    nn::Sequential::new((nn::Linear::new(2, 3), 5))
}
