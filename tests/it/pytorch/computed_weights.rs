//! Reparametrised and pruned modules, hooks, and a ResNet-18 against a live PyTorch: the same values for the same seed, the
//! same names, texts and gradients, state dicts in both directions, the same curve of losses. Without Python and torch the
//! tests say that they were skipped.

use super::resnet;
use flambeau_test_support::{alone, python};
use std::process::Command;
use torch::nn;
use torch::nn::utils::{self, SpectralNormOptions, parametrizations as p, parametrize, prune};
use torch::optim::{Optimizer, SGD};
use torch::prelude::*;
use torch::serialization::{Tree, dict};

/// One case: a fresh model, changed as the Python side changes it.
type Case = (&'static str, fn() -> nn::Sequential);

fn linear(i: i64, o: i64, change: impl FnOnce(&mut nn::Linear) -> torch::Result<()>) -> nn::Sequential {
    let mut m = nn::Linear::new(i, o);
    change(&mut m).unwrap();
    nn::Sequential::new((m,))
}
fn orthogonal(i: i64, o: i64, map: p::OrthogonalMap, trivial: bool) -> nn::Sequential {
    let options = p::OrthogonalOptions::new().orthogonal_map(map).use_trivialization(trivial);
    linear(i, o, |m| p::try_orthogonal(m, "weight", options))
}
fn conv(change: impl FnOnce(&mut nn::Conv2d) -> torch::Result<()>) -> nn::Sequential {
    // in the order in which the Python side draws
    let (first, unflatten) = (nn::Linear::new(5, 8), nn::Unflatten::new(1, [2i64, 2, 2]));
    let mut m = nn::Conv2d::new(2, 4, 2);
    change(&mut m).unwrap();
    nn::Sequential::new((first, unflatten, m, nn::Flatten::new()))
}

const CASES: &[Case] = &[
    ("p.weight_norm(L(5,7))", || linear(5, 7, |m| p::try_weight_norm(m, "weight", Default::default()))),
    ("p.weight_norm(L(5,7),dim=None)", || {
        linear(5, 7, |m| p::try_weight_norm(m, "weight", utils::WeightNormOptions::new().dim(None)))
    }),
    ("p.weight_norm(L(5,7),dim=1)", || {
        linear(5, 7, |m| p::try_weight_norm(m, "weight", utils::WeightNormOptions::new().dim(1)))
    }),
    ("p.weight_norm(conv)", || conv(|m| p::try_weight_norm(m, "weight", Default::default()))),
    ("p.spectral_norm(L(5,7))", || linear(5, 7, |m| p::try_spectral_norm(m, "weight", Default::default()))),
    ("p.spectral_norm(L(5,7),n_power_iterations=3,dim=1)", || {
        let o = SpectralNormOptions::new().n_power_iterations(3).dim(1);
        linear(5, 7, |m| p::try_spectral_norm(m, "weight", o))
    }),
    ("p.spectral_norm(L(5,7),'bias')", || {
        linear(5, 7, |m| p::try_spectral_norm(m, "bias", Default::default()))
    }),
    ("p.spectral_norm(conv)", || conv(|m| p::try_spectral_norm(m, "weight", Default::default()))),
    ("u.weight_norm(L(5,7))", || linear(5, 7, |m| utils::try_weight_norm(m, "weight", Default::default()))),
    ("u.spectral_norm(L(5,7))", || {
        linear(5, 7, |m| utils::try_spectral_norm(m, "weight", Default::default()))
    }),
    ("u.spectral_norm(conv)", || conv(|m| utils::try_spectral_norm(m, "weight", Default::default()))),
    ("p.orthogonal(L(5,5))", || linear(5, 5, |m| p::try_orthogonal(m, "weight", Default::default()))),
    ("p.orthogonal(L(5,7))", || linear(5, 7, |m| p::try_orthogonal(m, "weight", Default::default()))),
    ("p.orthogonal(L(5,3))", || linear(5, 3, |m| p::try_orthogonal(m, "weight", Default::default()))),
    ("p.orthogonal(L(5,7),orthogonal_map='matrix_exp')", || {
        orthogonal(5, 7, p::OrthogonalMap::MatrixExp, true)
    }),
    ("p.orthogonal(L(5,7),orthogonal_map='cayley')", || orthogonal(5, 7, p::OrthogonalMap::Cayley, true)),
    ("p.orthogonal(L(5,5),orthogonal_map='cayley')", || orthogonal(5, 5, p::OrthogonalMap::Cayley, true)),
    ("p.orthogonal(L(5,7),orthogonal_map='householder',use_trivialization=False)", || {
        orthogonal(5, 7, p::OrthogonalMap::Householder, false)
    }),
    ("p.orthogonal(L(5,4),orthogonal_map='matrix_exp',use_trivialization=False)", || {
        orthogonal(5, 4, p::OrthogonalMap::MatrixExp, false)
    }),
    ("prune.identity(L(5,7),'weight')", || linear(5, 7, |m| prune::try_identity(m, "weight"))),
    ("prune.random_unstructured(L(5,7),'weight',amount=0.3)", || {
        linear(5, 7, |m| prune::try_random_unstructured(m, "weight", 0.3))
    }),
    ("prune.l1_unstructured(L(5,7),'weight',amount=12)", || {
        linear(5, 7, |m| prune::try_l1_unstructured(m, "weight", 12, None))
    }),
    ("prune.random_structured(L(5,7),'weight',amount=0.4,dim=1)", || {
        linear(5, 7, |m| prune::try_random_structured(m, "weight", 0.4, 1))
    }),
    ("prune.ln_structured(L(5,7),'weight',amount=3,n=1,dim=0)", || {
        linear(5, 7, |m| prune::try_ln_structured(m, "weight", 3, 1, 0, None))
    }),
    ("prune.ln_structured(conv,'weight',amount=0.5,n=float('inf'),dim=-3)", || {
        conv(|m| prune::try_ln_structured(m, "weight", 0.5, f64::INFINITY, -3, None))
    }),
    (
        "prune.random_unstructured(prune.l1_unstructured(L(5,7),'weight',amount=0.3),'weight',amount=0.5)",
        || {
            linear(5, 7, |m| {
                prune::try_l1_unstructured(m, "weight", 0.3, None)?;
                prune::try_random_unstructured(m, "weight", 0.5)
            })
        },
    ),
    (
        "prune.random_structured(prune.ln_structured(L(5,7),'weight',amount=2,n=2,dim=0),'weight',amount=2,dim=0)",
        || {
            linear(5, 7, |m| {
                prune::try_ln_structured(m, "weight", 2, 2, 0, None)?;
                prune::try_random_structured(m, "weight", 2, 0)
            })
        },
    ),
    ("prune.remove(prune.l1_unstructured(L(5,7),'weight',amount=0.5),'weight')", || {
        linear(5, 7, |m| {
            prune::try_l1_unstructured(m, "weight", 0.5, None)?;
            prune::try_remove(m, "weight")
        })
    }),
    ("both(prune.global_unstructured)", || {
        let mut m = nn::Sequential::new((nn::Linear::new(5, 6), nn::ReLU::new(), nn::Linear::new(6, 3)));
        let method = prune::L1Unstructured::try_new(0.4).unwrap();
        prune::try_global_unstructured(&mut m, &["0.weight", "2.weight", "0.bias"], method, None).unwrap();
        m
    }),
    ("P.remove_parametrizations(p.weight_norm(L(5,7)),'weight')", || {
        linear(5, 7, |m| {
            p::try_weight_norm(m, "weight", Default::default())?;
            parametrize::try_remove_parametrizations(m, "weight", true)
        })
    }),
    ("u.remove_spectral_norm(u.spectral_norm(L(5,7)))", || {
        linear(5, 7, |m| {
            utils::try_spectral_norm(m, "weight", Default::default())?;
            utils::try_remove_spectral_norm(m, "weight")
        })
    }),
];

const SCRIPT: &str = r#"
import sys, torch, warnings
from torch import nn
from torch.nn import utils as u
from torch.nn.utils import parametrizations as p, parametrize as P, prune
warnings.simplefilter("ignore")
folder = sys.argv[1]
L = nn.Linear

def build(text):
    if text.startswith("both"):
        m = nn.Sequential(L(5, 6), nn.ReLU(), L(6, 3))
        prune.global_unstructured([(m[0], "weight"), (m[2], "weight"), (m[0], "bias")], prune.L1Unstructured, amount=0.4)
        return m
    if "conv" in text:
        first, mid = L(5, 8), nn.Unflatten(1, (2, 2, 2))
        return nn.Sequential(first, mid, eval(text.replace("conv", "nn.Conv2d(2, 4, 2)")), nn.Flatten())
    return nn.Sequential(eval(text))

out = {}
for i, text in enumerate(open(folder + "/cases").read().splitlines()):
    torch.manual_seed(i)
    m = build(text)
    start = {k: v.clone() for k, v in m.state_dict().items()}
    x = torch.randn(3, 5)
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    ys = []
    for _ in range(2):
        opt.zero_grad()
        y = m(x) + m(2 * x)
        (y ** 2).mean().backward()
        grads = {k: v.grad.clone() for k, v in m.named_parameters()}
        opt.step()
        ys.append(y.detach())
    m.eval()
    out[str(i)] = {"start": start, "y": ys[1], "grads": grads, "end": m.state_dict(), "last": m(x).detach(), "text": repr(m)}
    theirs = torch.load(f"{folder}/{i}.pt")
    if "remove_spectral" not in text:  # PyTorch forgets to take a hook away, and refuses its own dict
        assert str(m.load_state_dict(theirs["state"])) == "<All keys matched successfully>"
    assert torch.allclose(m(x), theirs["last"], rtol=1e-4, atol=1e-5), text
    want = getattr(m.state_dict(), "_metadata")
    assert theirs["state"]._metadata == want, (text, theirs["state"]._metadata, want)
torch.save(out, folder + "/theirs.pt")
"#;

/// A run of our side, as the Python side does it.
struct Run {
    start: nn::StateDict,
    y: Tensor,
    grads: Vec<(String, Tensor)>,
    last: Tensor,
    model: nn::Sequential,
}
fn copy(s: &nn::StateDict) -> nn::StateDict {
    s.iter().map(|(n, t)| (n, t.copy())).collect()
}
fn run(seed: i64, build: fn() -> nn::Sequential) -> Run {
    torch::manual_seed(seed as u64);
    let model = build();
    let start = copy(&model.state_dict());
    let x = torch::randn([3, 5]);
    let mut opt = SGD::new(model.parameters(), 0.1);
    let (mut y, mut grads) = (x.clone(), Vec::new());
    for _ in 0..2 {
        opt.zero_grad();
        y = model.call(&x) + model.call(&(&x * 2.0));
        (&y * &y).mean().backward();
        grads = model.named_parameters().into_iter().map(|(n, p)| (n, p.grad().unwrap().copy())).collect();
        opt.step();
    }
    model.eval();
    let last = model.call(&x).detach();
    Run { start, y: y.detach(), grads, last, model }
}
fn close(what: &str, a: &Tensor, b: &Tensor, tolerance: f64) {
    assert_eq!(a.sizes(), b.sizes(), "{what}");
    for (a, b) in a.to_vec::<f64>().into_iter().zip(b.to_vec::<f64>()) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}: {a} and not {b}");
    }
}
fn tensor(t: Option<&Tree<Tensor>>) -> &Tensor {
    match t {
        Some(Tree::Tensor(t)) => t,
        other => panic!("no tensor: {other:?}"),
    }
}

#[test]
fn computed_weights_are_pytorchs() {
    alone!();
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let lines: Vec<&str> = CASES.iter().map(|(text, _)| *text).collect();
    std::fs::write(at("cases"), lines.join("\n")).unwrap();
    let ours: Vec<Run> = CASES.iter().enumerate().map(|(i, (_, build))| run(i as i64, *build)).collect();
    for (i, r) in ours.iter().enumerate() {
        let both =
            dict([("state", &r.model.state_dict() as &dyn torch::serialization::ToTree), ("last", &r.last)]);
        torch::save(&both, at(&format!("{i}.pt"))).unwrap();
    }
    python::output(Command::new(python).args(["-c", SCRIPT]).arg(folder.path()), "");
    let theirs = torch::load(at("theirs.pt")).unwrap();
    for (i, (r, (text, build))) in ours.iter().zip(CASES).enumerate() {
        let t = theirs.get(&i.to_string()).unwrap();
        let Some(Tree::Str(repr)) = t.get("text") else { panic!("{text}") };
        assert_eq!(r.model.repr(), *repr, "{text}");
        let start = nn::StateDict::from_tree(t.get("start").unwrap()).unwrap();
        for (name, want) in start.iter() {
            let got = r.start.get(name).unwrap_or_else(|| panic!("{text}: no {name}"));
            // a mask is exact; what was computed with other sums is not
            close(
                &format!("{text}: {name} at first"),
                got,
                want,
                if name.ends_with("mask") { 0.0 } else { 2e-6 },
            );
        }
        assert_eq!(start.len(), r.start.len(), "{text}");
        close(&format!("{text}: output"), &r.y, tensor(t.get("y")), 1e-5);
        for (name, g) in &r.grads {
            close(&format!("{text}: gradient of {name}"), g, tensor(t.get("grads").unwrap().get(name)), 2e-5);
        }
        let end = nn::StateDict::from_tree(t.get("end").unwrap()).unwrap();
        for (name, want) in end.iter() {
            close(&format!("{text}: {name} at last"), r.model.state_dict().get(name).unwrap(), want, 2e-5);
        }
        torch::manual_seed(99);
        let fresh = build();
        fresh.eval();
        fresh.load_state_dict(&end).unwrap();
        torch::manual_seed(i as u64);
        drop(build());
        close(
            &format!("{text}: loaded"),
            &fresh.call(&torch::randn([3, 5])).detach(),
            tensor(t.get("last")),
            1e-5,
        );
    }
}

const RESNET: &str = include_str!("resnet.py");

/// The network, inputs and classes of the seed.
fn drawn(width: i64) -> (resnet::ResNet18, Tensor, Tensor) {
    torch::manual_seed(7);
    (resnet::ResNet18::new(10, width), torch::randn([4, 3, 32, 32]), torch::randint(10, [4]))
}

#[test]
fn a_resnet_trains_as_in_pytorch() {
    alone!();
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (net, x, _) = drawn(64);
    let start = copy(&net.state_dict());
    net.call(&x);
    net.eval();
    let logits = net.call(&x).detach();
    let all = dict([
        ("start", &start as &dyn torch::serialization::ToTree),
        ("state", &net.state_dict()),
        ("logits", &logits),
    ]);
    torch::save(&all, at("ours.pt")).unwrap();
    python::output(Command::new(python).args(["-c", RESNET]).arg(folder.path()), "");
    let theirs = torch::load(at("theirs.pt")).unwrap();
    let state = |name: &str| nn::StateDict::from_tree(theirs.get(name).unwrap()).unwrap();
    close("logits of the seed", &logits, tensor(theirs.get("logits")), 1e-5);
    net.load_state_dict(&state("state")).unwrap();
    close("logits", &net.call(&x).detach(), tensor(theirs.get("logits")), 1e-5);

    let (mut net, x, y) = drawn(16);
    net.double();
    let x = x.to(f64);
    let mut opt = torch::optim::SGD::with_options(
        net.parameters(),
        torch::optim::SGDOptions::new().lr(0.02).momentum(0.9),
    )
    .unwrap();
    for (i, want) in tensor(theirs.get("losses")).to_vec::<f64>().into_iter().enumerate() {
        opt.zero_grad();
        let loss = torch::nn::functional::cross_entropy(&net.call(&x), &y);
        let got = loss.item::<f64>();
        assert!((got - want).abs() < 1e-4, "step {i}: {got} and not {want}");
        loss.backward();
        opt.step();
    }
    for (name, want) in state("trained").iter() {
        close(name, net.state_dict().get(name).unwrap(), want, 1e-4);
    }
}
