//! Datasets, samplers and the loader, in one binary. Orders are PyTorch's: some recorded here, many more from a live
//! PyTorch where FLAMBEAU_PYTHON has one.

mod collate;
mod datasets;
mod loader;
mod pytorch;
mod samplers;

use flambeau_core::tensor::generator::manual_seed;
use flambeau_core::{ErrorKind, Generator, Result};
use flambeau_data::Sampler;

fn generator(seed: u64) -> Generator {
    let g = Generator::new();
    g.manual_seed(seed);
    g
}
fn text<T>(r: Result<T>, kind: ErrorKind) -> String {
    match r {
        Ok(_) => panic!("no error"),
        Err(e) => {
            assert_eq!(e.kind(), kind, "{e}");
            e.message().to_string()
        }
    }
}
fn all<S: Sampler>(s: &S) -> Vec<S::Index> {
    s.indices().map(|i| i.unwrap()).collect()
}
