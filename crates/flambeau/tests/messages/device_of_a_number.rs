//~ errors: 1
//~ says neither dtype nor device
//~ `f64`, `Device::Meta`, `"cuda:0"`, `(device, f64)`
use torch::prelude::*;
pub fn f(x: &Tensor) -> Tensor {
    x.to(0)
}
