//! State dicts go to files that PyTorch opens, and come from files that it writes. Without Python and torch the second
//! half says that it was skipped.

use flambeau_test_support::python;
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
    assert_eq!(torch::serialization::load_safetensors(&file).unwrap().len(), a.state_dict().len());
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
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let m = model();
    m.eval();
    torch::save(&m.state_dict(), at("ours.pt")).unwrap();
    let x = torch::randn([4, 1, 3, 3]);
    torch::save(&x, at("x.pt")).unwrap();
    let files = [at("ours.pt"), at("x.pt"), at("theirs.pt")];
    let printed = python::output(Command::new(python).args(["-c", CHECK]).args(files), "");
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

#[test]
fn models_in_files() {
    use torch::serialization::{load_model, save_model};
    let folder = tempfile::tempdir().unwrap();
    let a = model();
    for name in ["m.safetensors", "m.pt"] {
        let (path, b) = (folder.path().join(name), model());
        save_model(&a, &path).unwrap();
        load_model(&b, &path, true).unwrap();
        for ((n, x), (_, y)) in a.state_dict().iter().zip(b.state_dict().iter()) {
            assert_eq!(x.to_vec::<f32>(), y.to_vec::<f32>(), "{name}: {n}");
        }
        let other = nn::Sequential::new((nn::Conv2d::new(1, 2, 2), nn::BatchNorm2d::new(2)));
        let e = load_model(&other, &path, true).unwrap_err();
        assert!(e.message().contains("Unexpected key(s) in state_dict: \"4."), "{e}");
        let mut report = load_model(&other, &path, false).unwrap();
        // safetensors files have an order of their own
        report.unexpected_keys.sort();
        assert_eq!(report.unexpected_keys, ["4.bias", "4.weight"]);
    }
    torch::serialization::save_sharded(a.state_dict(), folder.path(), "model", 64, None).unwrap();
    let b = model();
    load_model(&b, folder.path().join("model.safetensors.index.json"), true).unwrap();
    assert_eq!(
        a.state_dict().get("4.weight").unwrap().to_vec::<f32>(),
        b.state_dict().get("4.weight").unwrap().to_vec::<f32>()
    );
}

const TRAIN: &str = r#"
import sys, torch
from torch import nn
start, out = sys.argv[1:]
m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
o = torch.optim.AdamW(m.parameters(), lr=0.05)
s = torch.optim.lr_scheduler.StepLR(o, 2, 0.5)
if start:
    c = torch.load(start, weights_only=True)
    m.load_state_dict(c["model"]); o.load_state_dict(c["opt"]); s.load_state_dict(c["sched"])
x = torch.linspace(-1, 1, 15).view(5, 3)
for _ in range(3):
    o.zero_grad()
    m(x).square().sum().backward()
    o.step()
    s.step()
torch.save({"model": m.state_dict(), "opt": o.state_dict(), "sched": s.state_dict()}, out)
"#;

/// Three steps in PyTorch, three here, three in PyTorch again, against three and three more here.
#[test]
fn training_goes_on_from_either_side() {
    use torch::optim::lr_scheduler::{LRScheduler, StepLR};
    use torch::optim::{AdamWOptions, Optimizer};
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let theirs = |start: &str, out: &str| {
        let start = if start.is_empty() { String::new() } else { at(start).display().to_string() };
        python::output(Command::new(&python).args(["-W", "ignore", "-c", TRAIN, &start]).arg(at(out)), "");
    };
    let ours = |start: &str, out: &str| {
        let m = nn::Sequential::new((nn::Linear::new(3, 4), nn::Tanh::new(), nn::Linear::new(4, 2)));
        let mut o = AdamWOptions::new().lr(0.05).build(m.parameters());
        let mut s = StepLR::new(&mut o, 2, 0.5);
        let c = torch::load(at(start)).unwrap();
        m.load_state_dict(&nn::StateDict::from_tree(&c["model"]).unwrap()).unwrap();
        o.load_state_dict(&c["opt"]).unwrap();
        s.load_state_dict(&c["sched"]).unwrap();
        let x = torch::linspace(-1, 1, 15).reshape((5, 3));
        for _ in 0..3 {
            o.zero_grad();
            m.call(&x).square().sum().backward();
            o.step();
            s.step(&mut o);
        }
        let state =
            [("model", &m.state_dict() as &dyn ToTree), ("opt", &o.state_dict()), ("sched", &s.state_dict())];
        torch::save(&dict(state), at(out)).unwrap();
    };
    theirs("", "theirs3.pt");
    ours("theirs3.pt", "ours6.pt");
    theirs("ours6.pt", "mixed9.pt");
    ours("ours6.pt", "ours9.pt");
    let (a, b) = (torch::load(at("mixed9.pt")).unwrap(), torch::load(at("ours9.pt")).unwrap());
    assert_eq!(a["sched"]["last_epoch"].as_i64(), Some(9));
    for (n, t) in a["model"].named() {
        let (t, u) = (t.as_tensor().unwrap(), b["model"][n].as_tensor().unwrap());
        for (x, y) in t.to_vec::<f32>().iter().zip(u.to_vec::<f32>()) {
            assert!((x - y).abs() < 1e-5, "{n}: {x} {y}");
        }
    }
    assert_eq!(
        a["opt"]["param_groups"][0]["lr"].as_f64().map(|v| (v * 1e9).round()),
        b["opt"]["param_groups"][0]["lr"].as_f64().map(|v| (v * 1e9).round())
    );
}
