//~ errors: 1
//~ this method takes 1 argument but 0 arguments were supplied
//~ all: x.shape()
use torch::prelude::*;
pub fn f(x: &Tensor) {
    let _ = x.size();
}
