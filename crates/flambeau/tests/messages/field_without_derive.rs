use torch::prelude::*;
use torch::nn;
#[derive(Debug)]
pub struct Inner {
    pub fc: nn::Linear,
}
#[derive(Debug, Module)]
pub struct Net {
    pub inner: Inner,
}
