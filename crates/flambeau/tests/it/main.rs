//! Every member of the workspace that brings operators or classes is linked into a program that names only `torch`; and the
//! examples of the operators' documentation, which name nothing else.

#[allow(
    clippy::needless_borrows_for_generic_args,
    reason = "examples show how functions are called, borrowed as in the rest"
)]
mod generated;
mod messages;

mod surface;

use torch::__core::dispatch::registry;
use torch::library::class;

#[test]
fn every_crate_is_linked() {
    let all = registry::crates();
    let ops = |name: &str| all.iter().find(|c| c.name == name).map_or(0, |c| c.ops.len());
    assert!(ops("flambeau-core") >= 150, "{}", ops("flambeau-core"));
    assert!(ops("flambeau-nn-functional") >= 40, "{}", ops("flambeau-nn-functional"));
    assert!(ops("flambeau-linalg") >= 50, "{}", ops("flambeau-linalg"));
    assert!(ops("flambeau-sparse") >= 30, "{}", ops("flambeau-sparse"));
    assert!(ops("flambeau-fft") >= 40, "{}", ops("flambeau-fft"));
    assert!(ops("flambeau-masked") >= 19, "{}", ops("flambeau-masked"));
    assert!(all.iter().any(|c| c.name == "flambeau-sparse kernels"));
    assert!(all.iter().any(|c| c.name == "flambeau-autograd"));
    let classes = |prefix: &str| class::classes().iter().filter(|c| c.path.starts_with(prefix)).count();
    assert!(classes("torch.nn.") >= 40, "{}", classes("torch.nn."));
    assert!(classes("torch.optim.") >= 14, "{}", classes("torch.optim."));
    assert!(torch::__core::tensor::graph::engine().is_ok());
}

#[test]
fn no_class_is_declared_twice() {
    let mut paths: Vec<&str> = class::classes().iter().map(|c| c.path).collect();
    paths.sort_unstable();
    let before = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), before);
}
