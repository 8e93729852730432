//! State dicts go to files that PyTorch opens, and come from files that it writes. Without Python and torch the second
//! half says that it was skipped.

mod common;

use std::process::Command;
use torch::nn;
use torch::prelude::*;
use torch::serialization::{ToTree, dict};

fn model() -> nn::Sequential {
    nn::Sequential::new((
        nn::Conv2d::new(1, 2, 2),
        nn::BatchNorm2d::new(2),
        nn::ReLU::new(),
        nn::Flatten::new(),
        nn::Linear::new(8, 3),
    ))
}

#[test]
fn state_dict_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.pt");
    let (a, b) = (model(), model());
    torch::save(&a.state_dict(), &path).unwrap();
    let state = nn::StateDict::try_from(torch::load(&path).unwrap()).unwrap();
    assert_eq!(state.version("1"), Some(2));
    b.load_state_dict(&state).unwrap();
    for ((n, x), (_, y)) in a.state_dict().iter().zip(b.state_dict().iter()) {
        assert_eq!(x.to_vec::<f32>(), y.to_vec::<f32>(), "{n}");
    }
    let both = dict([("model", &a.state_dict() as &dyn ToTree), ("epoch", &3i64)]);
    torch::save(&both, &path).unwrap();
    let back = torch::load(&path).unwrap();
    assert_eq!(nn::StateDict::from_tree(back.get("model").unwrap()).unwrap().len(), a.state_dict().len());
    let file = folder.path().join("m.safetensors");
    torch::serialization::save_safetensors(a.state_dict(), &file, None).unwrap();
    assert_eq!(torch::serialization::load_safetensors(&file).unwrap().0.len(), a.state_dict().len());
}

const CHECK: &str = r#"
import sys, torch
from torch import nn
ours, inputs, theirs = sys.argv[1:]
m = nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).eval()
state = torch.load(ours, weights_only=True)
assert state._metadata == m.state_dict()._metadata, state._metadata
print(m.load_state_dict(state))
x = torch.load(inputs, weights_only=True)
torch.save({"model": m.state_dict(), "logits": m(x).detach()}, theirs)
"#;

#[test]
fn pytorch_computes_the_same() {
    let Some(python) = common::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let m = model();
    m.eval();
    torch::save(&m.state_dict(), at("ours.pt")).unwrap();
    let x = torch::randn([4, 1, 3, 3]);
    torch::save(&x, at("x.pt")).unwrap();
    let files = [at("ours.pt"), at("x.pt"), at("theirs.pt")];
    let printed = common::output(Command::new(python).args(["-c", CHECK]).args(files), "");
    assert_eq!(printed.trim(), "<All keys matched successfully>");
    let theirs = torch::load(at("theirs.pt")).unwrap();
    let fresh = model();
    fresh.eval();
    fresh.load_state_dict(&nn::StateDict::from_tree(theirs.get("model").unwrap()).unwrap()).unwrap();
    let torch::serialization::Tree::Tensor(want) = theirs.get("logits").unwrap() else { panic!() };
    for (a, b) in fresh.call(&x).to_vec::<f32>().iter().zip(want.to_vec::<f32>()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}
