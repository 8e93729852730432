use torch::prelude::*;
use torch::{nn, optim};
pub fn f(m: nn::Linear) {
    optim::Adam::new(&m, 1e-3);
}
