use torch::prelude::*;
use torch::utils::data::DataLoaderOptions;
pub fn f(x: Tensor, y: Tensor) {
    let _ = DataLoaderOptions::new((x, y)).batch_size(4).build();
}
