use torch::prelude::*;
use torch::nn;
pub fn f(m: nn::Linear) -> i64 {
    m.in_features
}
