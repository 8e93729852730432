//~ errors: 3
//~ `RefCell<Option<torch::Tensor>>` cannot be shared between threads safely
use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
pub struct Net {
    fc: nn::Linear,
    last: std::cell::RefCell<Option<Tensor>>,
}
#[nn::forward]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        *self.last.borrow_mut() = Some(x.clone());
        self.fc.call(x)
    }
}
pub fn f(net: Net, x: Tensor) {
    net.eval();
    net.call(&x);
}
