//! A language model of LSTM layers, written here and in PyTorch: the same state dict, logits and training. Without Python
//! and torch it says that it was skipped.

use flambeau_test_support::{alone, python};
use std::process::Command;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::serialization::{Tree, dict};
use torch::{nn, optim};

const VOCABULARY: i64 = 40;

#[derive(Debug, Module)]
struct Model {
    base: nn::Base,
    embedding: nn::Embedding,
    lstm: nn::LSTM,
    head: nn::Linear,
}
impl Model {
    fn new() -> Self {
        Model {
            base: nn::Base::new(),
            embedding: nn::Embedding::new(VOCABULARY, 16),
            lstm: nn::LSTMOptions::new(16, 24).num_layers(2).dropout(0.25).batch_first(true).build(),
            head: nn::Linear::new(24, VOCABULARY),
        }
    }
}
#[nn::forward]
impl Model {
    fn forward(&self, tokens: &Tensor) -> Tensor {
        self.head.call(&self.lstm.call(&self.embedding.call(tokens), None).0)
    }
}
/// Each token's successor is predicted.
fn loss(m: &Model, tokens: &Tensor) -> Tensor {
    let n = tokens.size(1) - 1;
    let logits = m.call(&tokens.narrow(1, 0, n));
    F::cross_entropy(&logits.reshape([-1, VOCABULARY]), &tokens.narrow(1, 1, n).reshape(-1))
}

const CHECK: &str = r#"
import sys, torch
from torch import nn
ours, theirs = sys.argv[1:]
V = 40
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(V, 16), nn.LSTM(16, 24, 2, dropout=0.25, batch_first=True)
        self.head = nn.Linear(24, V)
    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0])
given = torch.load(ours, weights_only=True)
torch.manual_seed(5)
m = Model()
for (n, a), (k, b) in zip(m.state_dict().items(), given["initial"].items()):
    assert n == k and torch.equal(a, b), (n, k)
tokens, losses = given["tokens"], []
optimizer = torch.optim.Adam(m.parameters(), lr=1e-2)
for _ in range(20):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(m(tokens[:, :-1]).reshape(-1, V), tokens[:, 1:].reshape(-1))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
state = {k: v.clone() for k, v in m.state_dict().items()}
own = m.eval()(tokens).detach()
print(m.load_state_dict(given["trained"]))
torch.save({"model": state, "own": own, "logits": m(tokens).detach(), "losses": torch.tensor(losses)}, theirs)
"#;

#[test]
fn pytorch_trains_the_same() {
    alone!();
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    torch::manual_seed(1);
    let tokens = torch::randint(VOCABULARY, [8, 13]);
    torch::manual_seed(5);
    let m = Model::new();
    let copy = |m: &Model| {
        m.state_dict().iter().map(|(n, t)| (n.to_owned(), t.copy())).collect::<Vec<(String, Tensor)>>()
    };
    let initial = copy(&m);
    let mut optimizer = optim::Adam::new(m.parameters(), 1e-2);
    let mut losses = Vec::new();
    for _ in 0..20 {
        optimizer.zero_grad();
        let loss = loss(&m, &tokens);
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f32>());
    }
    assert!(losses[19] < losses[0] - 0.5, "{losses:?}");
    m.eval();
    let logits = torch::no_grad(|| m.call(&tokens));
    let initial = nn::StateDict::from_iter(initial);
    let all = dict([
        ("initial", &initial as &dyn torch::serialization::ToTree),
        ("trained", &m.state_dict()),
        ("tokens", &tokens),
    ]);
    torch::save(&all, at("ours.pt")).unwrap();
    let files = [at("ours.pt"), at("theirs.pt")];
    let printed = python::output(Command::new(python).args(["-c", CHECK]).args(files), "");
    assert_eq!(printed.trim(), "<All keys matched successfully>");

    let theirs = torch::load(at("theirs.pt")).unwrap();
    let tensor = |name: &str| match theirs.get(name).unwrap() {
        Tree::Tensor(t) => t.to_vec::<f32>(),
        _ => panic!("{name} is no tensor"),
    };
    let same = |a: &[f32], b: &[f32], far: f32, what: &str| {
        assert_eq!(a.len(), b.len());
        let d = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(d <= far, "{what}: {d}");
    };
    same(&losses, &tensor("losses"), 1e-4, "losses");
    same(&logits.to_vec::<f32>(), &tensor("logits"), 1e-5, "logits of our parameters");
    let fresh = Model::new();
    fresh.eval();
    fresh.load_state_dict(&nn::StateDict::from_tree(theirs.get("model").unwrap()).unwrap()).unwrap();
    let own = torch::no_grad(|| fresh.call(&tokens));
    same(&own.to_vec::<f32>(), &tensor("own"), 1e-5, "logits of their parameters");
}
