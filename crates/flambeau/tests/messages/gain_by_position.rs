//~ errors: 1
//~ this function takes 1 argument but 2 arguments were supplied
use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear) {
    nn::init::xavier_uniform_(&m.weight, 2.0);
}
