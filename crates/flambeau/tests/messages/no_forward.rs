//~ errors: 2
//~ `forward` of `Net` does not take `&'a torch::Tensor`
//~ tensors are borrowed (`&x`), and several arguments are one tuple here: `m.call((&x, &y))`
//~ consider using `--verbose` to print the full type name to the console
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
