//~ errors: 1
//~ this method takes 2 arguments but 1 argument was supplied
//~ help: provide the argument
//~ /* hx */
use torch::nn;
use torch::prelude::*;
pub fn f(m: &nn::LSTM, x: &Tensor) -> (Tensor, (Tensor, Tensor)) {
    m.call(x)
}
