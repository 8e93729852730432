//~ errors: 2
//~ `(torch::Tensor, torch::Tensor)` is no dataset
//~ `impl Dataset` needs `type Item`, `fn get(&self, index: usize) -> torch::Result<Self::Item>` and `fn len(&self) -> usize`
//~ tensors become one by `TensorDataset::new((x, y))`, streams go to `DataLoaderOptions::iterable`
use torch::prelude::*;
use torch::utils::data::DataLoaderOptions;
pub fn f(x: Tensor, y: Tensor) {
    let _ = DataLoaderOptions::new((x, y)).batch_size(4).build();
}
