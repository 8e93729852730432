//~ errors: 1
//~ mismatched types
//~ help: consider removing the borrow
use torch::options::BackwardOptions;
use torch::prelude::*;
pub fn f(loss: Tensor) {
    loss.backward_with(&BackwardOptions::new().retain_graph(true));
}
