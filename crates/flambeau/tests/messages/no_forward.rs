use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
pub fn f(m: &dyn std::any::Any, x: Tensor) {
    let m = m.downcast_ref::<Net>().unwrap();
    m.call(&x);
}
