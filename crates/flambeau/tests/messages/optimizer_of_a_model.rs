//~ errors: 1
//~ `&torch::nn::Linear` is no list of parameters
//~ `optim::Adam::new(model.parameters(), 1e-3)` takes those of a model, `[&w, &b]` a few tensors
use torch::prelude::*;
use torch::{nn, optim};
pub fn f(m: nn::Linear) {
    optim::Adam::new(&m, 1e-3);
}
