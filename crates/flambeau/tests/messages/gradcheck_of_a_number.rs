//~ errors: 1
//~ `f64` is not what a function to differentiate may give
//~ it gives a tensor, a tuple, array or vector of tensors
use torch::prelude::*;
pub fn f(x: &Tensor) -> bool {
    torch::autograd::gradcheck::gradcheck(|x| x[0].sum().item::<f64>(), &[x.clone()])
}
