//~ errors: 1
//~ is no list of tensors
//~ an iterator is collected first: `.collect::<Vec<_>>()`
use torch::prelude::*;
pub fn f(rows: &[Tensor]) -> Tensor {
    torch::stack(rows.iter().map(|r| r.detach()), 0)
}
