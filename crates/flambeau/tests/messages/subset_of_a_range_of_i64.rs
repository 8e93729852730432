//~ errors: 1
//~ is no list of indices
//~ a `Vec<usize>`, an array or a slice of `usize`, or a range: `0..100`
use torch::prelude::*;
use torch::utils::data::{Subset, TensorDataset};
pub fn f(x: Tensor) -> Subset<TensorDataset<(Tensor,)>> {
    let n = x.size(0);
    Subset::new(TensorDataset::new((x,)), 0..n)
}
