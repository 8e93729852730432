//~ errors: 1
//~ this method takes 1 argument but 0 arguments were supplied
//~ all: x.shape()
use torch::prelude::*;
pub fn f(x: &Tensor) -> Vec<i64> {
    x.size().to_vec()
}
