//~ errors: 1
//~ `Net` doesn't implement `
//~ add `#[derive(Debug)]` to `Net` or manually `impl
//~ help: consider annotating `Net` with `#[derive(Debug)]`
use torch::prelude::*;
use torch::nn;
#[derive(Module)]
pub struct Net {
    pub fc: nn::Linear,
}
