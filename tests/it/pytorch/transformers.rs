//! An encoder-decoder and a GPT, written once here and once in Python: the same initial values for a seed, the same
//! training curve with dropout, state dicts that load in both directions. Without Python and torch it says that it was
//! skipped.

use flambeau_test_support::{alone, python};
use std::process::Command;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::serialization::{ToTree, Tree, dict};
use torch::{nn, optim};

const SCRIPT: &str = r#"
import sys, torch
from torch import nn
import torch.nn.functional as F

class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Embedding(11, 16)
        self.target = nn.Embedding(13, 16)
        self.transformer = nn.Transformer(16, 2, 2, 2, 32, 0.1, batch_first=True)
        self.head = nn.Linear(16, 13)
    def forward(self, src, tgt, padding):
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        out = self.transformer(self.source(src), self.target(tgt), tgt_mask=causal,
                               src_key_padding_mask=padding, memory_key_padding_mask=padding)
        return self.head(out)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm2, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16)
        self.dropout = nn.Dropout(0.1)
    def forward(self, x):
        n, l, e = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, l, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(n, l, e)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(13, 16), nn.Embedding(8, 16)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 13, bias=False)
    def forward(self, x, *_):
        x = self.tokens(x) + self.positions(torch.arange(x.size(1)))
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))

ours, theirs = sys.argv[1:]
data = torch.load(ours)
src, tgt, padding, labels = data["src"], data["tgt"], data["padding"] != 0, data["labels"]
out = {}
for name, make in (("seq2seq", Seq2Seq), ("gpt", GPT)):
    inputs = (src, tgt, padding) if name == "seq2seq" else (tgt,)
    torch.manual_seed(7)
    m = make()
    out[name + "_init"] = {k: v.clone() for k, v in m.state_dict().items()}
    optimizer = torch.optim.SGD(m.parameters(), 0.1)
    losses = []
    torch.manual_seed(8)
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(m(*inputs).reshape(-1, 13), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    m.eval()
    out[name + "_losses"] = torch.tensor(losses)
    out[name + "_state"] = m.state_dict()
    with torch.no_grad():
        out[name + "_logits"] = m(*inputs)
        if name == "seq2seq":
            out["memory"] = m.transformer.encoder(m.source(src), src_key_padding_mask=padding)
        m.load_state_dict(data[name])
        got = m(*inputs)
    assert torch.allclose(got, data[name + "_logits"], rtol=0, atol=1e-5), (got - data[name + "_logits"]).abs().max()
torch.save(out, theirs)
print("ok")
"#;

#[derive(Debug, Module)]
struct Seq2Seq {
    source: nn::Embedding,
    target: nn::Embedding,
    transformer: nn::Transformer,
    head: nn::Linear,
}
impl Seq2Seq {
    fn new() -> Self {
        Seq2Seq {
            source: nn::Embedding::new(11, 16),
            target: nn::Embedding::new(13, 16),
            transformer: nn::TransformerOptions::new()
                .d_model(16)
                .nhead(2)
                .num_encoder_layers(2)
                .num_decoder_layers(2)
                .dim_feedforward(32)
                .batch_first(true)
                .build(),
            head: nn::Linear::new(16, 13),
        }
    }
}
type Input<'a> = (&'a Tensor, &'a Tensor, &'a Tensor);
impl<'a> Forward<Input<'a>> for Seq2Seq {
    type Output = Tensor;
    fn forward(&self, (src, tgt, padding): Input<'a>) -> Tensor {
        let args = nn::TransformerArgs::new()
            .tgt_mask(nn::Transformer::generate_square_subsequent_mask(tgt.size(1)))
            .src_key_padding_mask(padding)
            .memory_key_padding_mask(padding);
        let (src, tgt) = (self.source.call(src), self.target.call(tgt));
        self.head.call(&self.transformer.call_with(&src, &tgt, args))
    }
}

#[derive(Debug, Module)]
struct Block {
    base: nn::Base,
    norm1: nn::LayerNorm,
    qkv: nn::Linear,
    out: nn::Linear,
    norm2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
    dropout: nn::Dropout,
}
impl Block {
    fn new() -> Self {
        Block {
            base: nn::Base::new(),
            norm1: nn::LayerNorm::new(16),
            qkv: nn::Linear::new(16, 48),
            out: nn::Linear::new(16, 16),
            norm2: nn::LayerNorm::new(16),
            up: nn::Linear::new(16, 64),
            down: nn::Linear::new(64, 16),
            dropout: nn::Dropout::new(0.1),
        }
    }
}
impl Forward<&Tensor> for Block {
    type Output = Tensor;
    fn forward(&self, x: &Tensor) -> Tensor {
        let (n, l, e) = (x.size(0), x.size(1), x.size(2));
        let heads = self.qkv.call(&self.norm1.call(x)).view([n, l, 3, 2, 8]).permute([2, 0, 3, 1, 4]);
        let heads = heads.unbind(0);
        let options = torch::nn::functional::ScaledDotProductAttentionOptions::new()
            .dropout_p(if self.is_training() { 0.1 } else { 0.0 })
            .is_causal(true);
        let y = F::scaled_dot_product_attention_with(&heads[0], &heads[1], &heads[2], options);
        let y = self.out.call(&y.transpose(1, 2).reshape([n, l, e]));
        let x = x + self.dropout.call(&y);
        let inner = F::gelu(&self.up.call(&self.norm2.call(&x)));
        &x + self.dropout.call(&self.down.call(&inner))
    }
}
#[derive(Debug, Module)]
struct Gpt {
    tokens: nn::Embedding,
    positions: nn::Embedding,
    blocks: Vec<Block>,
    norm: nn::LayerNorm,
    head: nn::Linear,
}
impl Gpt {
    fn new() -> Self {
        Gpt {
            tokens: nn::Embedding::new(13, 16),
            positions: nn::Embedding::new(8, 16),
            blocks: vec![Block::new(), Block::new()],
            norm: nn::LayerNorm::new(16),
            head: nn::LinearOptions::new(16, 13).bias(false).build(),
        }
    }
}
impl<'a> Forward<Input<'a>> for Gpt {
    type Output = Tensor;
    fn forward(&self, (_, tgt, _): Input<'a>) -> Tensor {
        let x = self.tokens.call(tgt) + self.positions.call(&torch::arange(tgt.size(1)));
        let x = self.blocks.iter().fold(x, |x, b| b.call(&x));
        self.head.call(&self.norm.call(&x))
    }
}

/// Initial state, losses of 20 steps, and the trained model.
fn trained<M>(make: fn() -> M, input: Input<'_>, labels: &Tensor) -> (nn::StateDict, Vec<f64>, M)
where
    M: for<'a> Forward<Input<'a>, Output = Tensor>,
{
    torch::manual_seed(7);
    let m = make();
    let init = m.state_dict().into_iter().map(|(n, t)| (n, t.copy())).collect();
    let mut optimizer = optim::SGD::new(m.parameters(), 0.1);
    torch::manual_seed(8);
    let losses = (0..20).map(|_| {
        optimizer.zero_grad();
        let loss = F::cross_entropy(&m.forward(input).reshape([-1, 13]), &labels.reshape(-1));
        loss.backward();
        optimizer.step();
        loss.item::<f64>()
    });
    let losses = losses.collect();
    m.eval();
    (init, losses, m)
}
fn close(name: &str, a: &Tensor, b: &Tensor, by: f64) {
    assert_eq!(a.sizes(), b.sizes(), "{name}");
    for (x, y) in a.to_vec::<f64>().iter().zip(b.to_vec::<f64>()) {
        assert!((x - y).abs() <= by, "{name}: {x} {y}");
    }
}

#[test]
fn both_sides_train_alike() {
    alone!();
    let Some(python) = python::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    torch::manual_seed(1);
    let (src, tgt) = (torch::randint(11, [3, 6]), torch::randint(13, [3, 5]));
    let labels = torch::randint(13, [3, 5]);
    let padding = torch::tensor([[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1]]).eq(1);
    let input = (&src, &tgt, &padding);
    let (init, losses, model) = trained(Seq2Seq::new, input, &labels);
    let (gpt_init, gpt_losses, gpt) = trained(Gpt::new, input, &labels);
    let logits = torch::no_grad(|| model.forward(input));
    let gpt_logits = torch::no_grad(|| gpt.forward(input));
    let flags = padding.to(i64);
    let all = dict([
        ("src", &src as &dyn ToTree),
        ("tgt", &tgt),
        ("padding", &flags),
        ("labels", &labels),
        ("seq2seq", &model.state_dict()),
        ("seq2seq_logits", &logits),
        ("gpt", &gpt.state_dict()),
        ("gpt_logits", &gpt_logits),
    ]);
    torch::save(&all, at("ours.pt")).unwrap();
    let printed = python::output(
        Command::new(python).args(["-W", "ignore", "-c", SCRIPT]).args([at("ours.pt"), at("theirs.pt")]),
        "",
    );
    assert_eq!(printed.trim(), "ok");

    let theirs = torch::load(at("theirs.pt")).unwrap();
    let tensor = |name: &str| match theirs.get(name) {
        Some(Tree::Tensor(t)) => t.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let state = |name: &str| nn::StateDict::from_tree(theirs.get(name).unwrap()).unwrap();
    for (name, init, losses) in [("seq2seq", init, losses), ("gpt", gpt_init, gpt_losses)] {
        let want = state(&format!("{name}_init"));
        assert_eq!(init.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
        for ((n, a), (_, b)) in init.iter().zip(want.iter()) {
            close(&format!("{name} starts with {n}"), a, b, 1e-6);
        }
        let curve = torch::tensor(losses.as_slice());
        close(&format!("{name}: losses"), &curve, &tensor(&format!("{name}_losses")), 1e-4);
    }
    model.load_state_dict(&state("seq2seq_state")).unwrap();
    gpt.load_state_dict(&state("gpt_state")).unwrap();
    torch::no_grad(|| {
        close("seq2seq: logits", &model.forward(input), &tensor("seq2seq_logits"), 1e-5);
        close("gpt: logits", &gpt.forward(input), &tensor("gpt_logits"), 1e-5);
        // padded positions are left out in evaluation mode
        let encoder = model.transformer.encoder.as_any().downcast_ref::<nn::TransformerEncoder>().unwrap();
        let args = nn::TransformerEncoderArgs::new().src_key_padding_mask(&padding);
        close("memory", &encoder.call_with(&model.source.call(&src), args.clone()), &tensor("memory"), 1e-5);
    });
}
