//~ errors: 1
//~ `derive(Module)` does not know what a field of the type `torch::nn::Linear` is
//~ a struct with modules or parameters needs `#[derive(Debug, Module)]`
//~ plain data of your own: `impl nn::Plain for TYPE {}`
use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
pub struct Net {
    pub heads: Vec<(String, nn::Linear)>,
}
