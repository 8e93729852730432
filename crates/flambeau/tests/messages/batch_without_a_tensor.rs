//~ errors: 1
//~ `i64` has no first tensor for the model
//~ a tensor, or a tuple or list of which the first is a tensor, is wanted here
use torch::nn;
use torch::optim::swa_utils::update_bn;
pub fn f(model: &nn::BatchNorm1d) {
    update_bn([1i64, 2], model);
}
