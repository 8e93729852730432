//! The generator's state goes to PyTorch and comes back from it: both continue the same streams. Without Python and torch
//! the test says that it was skipped.

use flambeau_test_support::{alone, python};
use std::process::Command;
use torch::prelude::*;

const SCRIPT: &str = r#"
import sys, torch
folder = sys.argv[1]
torch.set_rng_state(torch.load(folder + "/ours.pt"))
torch.save({"rand": torch.rand(700), "randn": torch.randn(3, dtype=torch.float64), "perm": torch.randperm(9),
            "state": torch.get_rng_state(), "next": torch.randn(33), "seed": torch.tensor(torch.initial_seed())},
           folder + "/theirs.pt")
g = torch.Generator()
g.set_state(torch.load(folder + "/own.pt"))
assert g.initial_seed() == 99
print("ok")
"#;

#[test]
fn states_interchange_with_pytorch() {
    alone!();
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    torch::manual_seed(41);
    // in the middle of a block, with a second normal number waiting
    let _ = (torch::rand([5]), torch::randn([1]));
    torch::save(&torch::get_rng_state(), at("ours.pt")).unwrap();
    let g = torch::Generator::new();
    g.manual_seed(99);
    torch::save(&g.get_state().unwrap(), at("own.pt")).unwrap();
    let out = Command::new(&python).args(["-c", SCRIPT]).arg(folder.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));

    let theirs = torch::load(at("theirs.pt")).unwrap();
    let get = |name: &str| match theirs.get(name) {
        Some(torch::serialization::Tree::Tensor(t)) => t.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let same = |a: Tensor, b: &str| assert_eq!(a.to_vec::<f64>(), get(b).to_vec::<f64>(), "{b}");
    same(torch::rand([700]), "rand");
    let wide = torch::options::TensorOptions::new().dtype(f64);
    same(torch::randn_with([3], wide), "randn");
    same(torch::randperm(9), "perm");
    assert_eq!(torch::get_rng_state().to_vec::<u8>(), get("state").to_vec::<u8>());
    // and from their state on
    torch::manual_seed(0);
    torch::set_rng_state(&get("state"));
    same(torch::randn([33]), "next");
    assert_eq!(torch::initial_seed(), 41);
}
