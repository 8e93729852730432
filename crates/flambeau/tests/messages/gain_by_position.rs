use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear) {
    nn::init::xavier_uniform_(&m.weight, 2.0);
}
