//~ errors: 1
//~ `forward` of `MSELoss` does not take `&'a torch::Tensor`
//~ tensors are borrowed (`&x`), and several arguments are one tuple here: `m.call((&x, &y))`
use torch::prelude::*;
use torch::nn;
pub fn f() -> nn::Sequential {
    nn::Sequential::new((nn::Linear::new(2, 3), nn::MSELoss::new()))
}
