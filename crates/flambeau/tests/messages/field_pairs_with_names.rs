use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
pub struct Net {
    pub heads: Vec<(String, nn::Linear)>,
}
