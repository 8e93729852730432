//~ errors: 1
//~ `&torch::Tensor` is not taken where 2 tensors or `None` are wanted
//~ `(&h, &c)`, or `&state` of the pair that the call before gave
use torch::nn;
use torch::prelude::*;
pub fn f(m: &nn::LSTM, x: &Tensor, h: &Tensor) -> Tensor {
    m.call(x, h).0
}
