use torch::prelude::*;
#[derive(Debug, Module)]
pub struct Net {
    pub pe: Tensor,
}
