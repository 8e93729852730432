//~ errors: 2
//~ `forward` of `Net` does not take `(&'a torch::Tensor, _)`
//~ tensors are borrowed (`&x`), and several arguments are one tuple here: `m.call((&x, &y))`
use torch::prelude::*;
use torch::nn;
#[derive(Debug, Module)]
struct Net {
    fc: nn::Linear,
}
impl Forward<&Tensor> for Net {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc.call(x)
    }
}
pub fn f(m: &dyn std::any::Any, x: Tensor) {
    let m = m.downcast_ref::<Net>().unwrap();
    m.call((&x, 3));
}
