//! The models of recorded trainings.

use flambeau_core::{Result, Tensor};
use serde_json::Value as J;
use torch::nn::{self, Layer, Linear, Module, Sequential};

/// One of two heads, or both.
#[derive(Debug, Module)]
pub struct TwoHeads {
    body: Linear,
    head0: Linear,
    head1: Linear,
}
impl TwoHeads {
    /// Of these widths.
    pub fn new(i: i64, h: i64, o: i64) -> TwoHeads {
        TwoHeads { body: Linear::new(i, h), head0: Linear::new(h, o), head1: Linear::new(h, o) }
    }
}
#[nn::forward]
impl TwoHeads {
    fn forward(&self, x: &Tensor, head: i64) -> Tensor {
        let y = self.body.call(x).relu();
        match head {
            2 => self.head0.call(&y) + self.head1.call(&y),
            1 => self.head1.call(&y),
            _ => self.head0.call(&y),
        }
    }
}

/// A table with sparse gradients, and a layer.
#[derive(Debug, Module)]
pub struct SparseEmbed {
    emb: nn::EmbeddingBag,
    lin: Linear,
}
impl SparseEmbed {
    /// Of these widths.
    pub fn new(n: i64, d: i64, o: i64) -> SparseEmbed {
        let emb = nn::EmbeddingBagOptions::new(n, d).sparse(true).mode("sum").build();
        SparseEmbed { emb, lin: Linear::new(d, o) }
    }
}
#[nn::forward]
impl SparseEmbed {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.lin.call(&self.emb.call(x, None, None).tanh())
    }
}

/// A Sequential by its description.
pub fn sequential(desc: &J) -> std::result::Result<Sequential, String> {
    let mut all: Vec<Box<dyn Layer>> = Vec::new();
    for l in desc.as_array().ok_or("no list of layers")? {
        let n = |i: usize| l[i].as_i64().unwrap_or(1);
        all.push(match l[0].as_str().unwrap_or("") {
            "Linear" => {
                let bias = l.as_array().into_iter().flatten().find_map(|a| a.get("bias")?.as_bool());
                Box::new(nn::LinearOptions::new(n(1), n(2)).bias(bias.unwrap_or(true)).build())
            }
            "ReLU" => Box::new(nn::ReLU::new()),
            "Tanh" => Box::new(nn::Tanh::new()),
            "Sigmoid" => Box::new(nn::Sigmoid::new()),
            "GELU" => Box::new(nn::GELU::new()),
            "LayerNorm" => Box::new(nn::LayerNorm::new([n(1)])),
            "BatchNorm1d" => Box::new(nn::BatchNorm1d::new(n(1))),
            other => return Err(format!("no runner of a layer {other}")),
        });
    }
    Ok(Sequential::new(all))
}
/// Copies recorded values into parameters and buffers.
pub fn load(
    m: &dyn Module,
    state: &J,
    get: impl Fn(&J) -> std::result::Result<Tensor, String>,
) -> std::result::Result<(), String> {
    let said = |e: flambeau_core::Error| format!("{e:?}");
    let copy = |to: &Tensor, from: &J| -> std::result::Result<(), String> {
        let from = get(from)?;
        let r: Result<()> = torch::no_grad(|| flambeau_core::ops::copy_(&to.detach(), &from, false));
        r.map_err(said)
    };
    for (n, p) in m.named_parameters() {
        copy(p.tensor(), &state[&n])?;
    }
    for (n, b) in m.named_buffers() {
        if !state[&n].is_null() {
            copy(b.tensor(), &state[&n])?;
        }
    }
    Ok(())
}
