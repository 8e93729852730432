use torch::prelude::*;
use torch::nn;
#[derive(Module)]
pub struct Net {
    pub fc: nn::Linear,
}
