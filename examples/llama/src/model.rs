//! The model: embeddings, blocks of attention and gated layers, a head; keys and values are kept between calls.

use crate::config::Config;
use std::collections::HashMap;
use std::path::Path;
use torch::nn::functional::{self as nnf, ScaledDotProductAttentionOptions};
use torch::prelude::*;
use torch::serialization::{LoadOptions, load_pretrained};
use torch::{DType, Error, ErrorKind, Result, ops};

/// Weights by name, each taken once.
struct Weights {
    tensors: HashMap<String, Tensor>,
    dtype: DType,
}

impl Weights {
    /// The weight `name` of these sizes.
    fn take(&mut self, name: &str, sizes: &[i64]) -> Result<Tensor> {
        let bad = |kind, text: String| Error::new(kind, text);
        let tensor = self
            .tensors
            .remove(name)
            .ok_or_else(|| bad(ErrorKind::Value, format!("no weight `{name}` in the folder")))?;
        if tensor.sizes() != sizes {
            let text =
                format!("weight `{name}` has the sizes {:?}, config.json says {sizes:?}", tensor.sizes());
            return Err(bad(ErrorKind::Shape, text));
        }
        Ok(tensor.to(self.dtype))
    }

    fn linear(&mut self, name: &str, output: i64, input: i64) -> Result<Linear> {
        let weight = self.take(&format!("{name}.weight"), &[output, input])?;
        let bias = format!("{name}.bias");
        let bias = if self.tensors.contains_key(&bias) { Some(self.take(&bias, &[output])?) } else { None };
        Ok(Linear { weight, bias })
    }
}

struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    fn call(&self, x: &Tensor) -> Result<Tensor> {
        ops::linear(x, &self.weight, self.bias.as_ref())
    }
}

struct Norm {
    weight: Tensor,
    eps: f64,
}

impl Norm {
    fn call(&self, x: &Tensor) -> Result<Tensor> {
        ops::rms_norm(x, self.weight.sizes(), Some(&self.weight), Some(self.eps))
    }
}

struct Block {
    attention_norm: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    gated_norm: Norm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// Keys and values of the positions so far, of one block: `(1, heads, positions, features)`, with room for more.
struct Kept {
    keys: Tensor,
    values: Tensor,
}

/// A text in the making: what has been read of it.
pub struct Session {
    kept: Vec<Kept>,
    /// Positions that are read.
    pub read: i64,
    room: i64,
}

pub struct Llama {
    config: Config,
    embedding: Tensor,
    blocks: Vec<Block>,
    norm: Norm,
    head: Tensor,
    /// Cosines and sines of all positions, `(positions, features / 2)`.
    angles: (Tensor, Tensor),
}

impl Llama {
    /// Reads configuration and weights of a folder; weights become `dtype`.
    pub fn load(folder: &Path, dtype: DType) -> Result<Llama> {
        let config = Config::read(folder)?;
        let tensors = load_pretrained(folder, LoadOptions::new())?.into_iter().collect();
        Llama::new(config, tensors, dtype)
    }

    fn new(config: Config, tensors: HashMap<String, Tensor>, dtype: DType) -> Result<Llama> {
        let mut weights = Weights { tensors, dtype };
        let (hidden, heads, few, dim) =
            (config.hidden_size, config.num_attention_heads, config.heads_of_keys(), config.head_dim());
        let embedding = weights.take("model.embed_tokens.weight", &[config.vocab_size, hidden])?;
        let mut blocks = Vec::new();
        for i in 0..config.num_hidden_layers {
            let at = |part: &str| format!("model.layers.{i}.{part}");
            let norm = |w: &mut Weights, part| -> Result<Norm> {
                Ok(Norm { weight: w.take(&at(part), &[hidden])?, eps: config.rms_norm_eps })
            };
            let inner = weights.tensors.get(&at("mlp.gate_proj.weight")).map_or(0, |w| w.size(0));
            blocks.push(Block {
                attention_norm: norm(&mut weights, "input_layernorm.weight")?,
                query: weights.linear(&at("self_attn.q_proj"), heads * dim, hidden)?,
                key: weights.linear(&at("self_attn.k_proj"), few * dim, hidden)?,
                value: weights.linear(&at("self_attn.v_proj"), few * dim, hidden)?,
                output: weights.linear(&at("self_attn.o_proj"), hidden, heads * dim)?,
                gated_norm: norm(&mut weights, "post_attention_layernorm.weight")?,
                gate: weights.linear(&at("mlp.gate_proj"), inner, hidden)?,
                up: weights.linear(&at("mlp.up_proj"), inner, hidden)?,
                down: weights.linear(&at("mlp.down_proj"), hidden, inner)?,
            });
        }
        let norm = Norm { weight: weights.take("model.norm.weight", &[hidden])?, eps: config.rms_norm_eps };
        let tied = config.tie_word_embeddings || !weights.tensors.contains_key("lm_head.weight");
        let head = if tied {
            embedding.clone()
        } else {
            weights.take("lm_head.weight", &[config.vocab_size, hidden])?
        };
        let frequencies: Vec<f32> = config.frequencies().iter().map(|f| *f as f32).collect();
        let turns = torch::arange(config.max_position_embeddings)
            .to(f32)
            .outer(&Tensor::from_vec(frequencies, [dim / 2]));
        let angles = (turns.cos().to(dtype), turns.sin().to(dtype));
        Ok(Llama { config, embedding, blocks, norm, head, angles })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Begins a text of at most `room` tokens.
    pub fn begin(&self, room: i64) -> Result<Session> {
        let most = self.config.max_position_embeddings;
        if room < 1 || room > most {
            return Err(Error::new(ErrorKind::Value, format!("{room} tokens: the model reads 1 to {most}")));
        }
        let sizes = [1, self.config.heads_of_keys(), room, self.config.head_dim()];
        let empty = || torch::empty_with(sizes, self.embedding.dtype());
        let kept = self.blocks.iter().map(|_| Kept { keys: empty(), values: empty() }).collect();
        Ok(Session { kept, read: 0, room })
    }

    /// Reads further tokens and gives the logits of what comes next, `(vocabulary)`.
    pub fn read(&self, session: &mut Session, tokens: &[i64]) -> Result<Tensor> {
        let count = tokens.len() as i64;
        if count == 0 || session.read + count > session.room {
            let text = format!("{count} tokens after {} do not fit into {}", session.read, session.room);
            return Err(Error::new(ErrorKind::Value, text));
        }
        let _guard = torch::no_grad_guard();
        let ids = Tensor::from_slice(tokens, [1, count]);
        let mut x = ops::embedding(&ids, &self.embedding, None, None, 2.0, false, false)?;
        let (cos, sin) =
            (self.angles.0.narrow(0, session.read, count), self.angles.1.narrow(0, session.read, count));
        for (block, kept) in self.blocks.iter().zip(&session.kept) {
            let attended =
                self.attend(block, &block.attention_norm.call(&x)?, kept, session.read, (&cos, &sin))?;
            x = &x + attended;
            let inner = block.gated_norm.call(&x)?;
            let gated = ops::silu(&block.gate.call(&inner)?, false)?.mul(&block.up.call(&inner)?);
            x = &x + block.down.call(&gated)?;
        }
        session.read += count;
        // only the last position says what comes next
        let last = self.norm.call(&x.narrow(1, count - 1, 1))?;
        Ok(ops::linear(&last, &self.head, None)?.view(-1))
    }

    fn attend(
        &self,
        b: &Block,
        x: &Tensor,
        kept: &Kept,
        read: i64,
        angles: (&Tensor, &Tensor),
    ) -> Result<Tensor> {
        let (count, few, dim) = (x.size(1), self.config.heads_of_keys(), self.config.head_dim());
        let heads = |t: Tensor| t.view([1, count, -1, dim]).transpose(1, 2);
        let query = turn(&heads(b.query.call(x)?), angles);
        kept.keys.narrow(2, read, count).copy_(&turn(&heads(b.key.call(x)?), angles));
        kept.values.narrow(2, read, count).copy_(&heads(b.value.call(x)?));
        let (keys, values) = (kept.keys.narrow(2, 0, read + count), kept.values.narrow(2, 0, read + count));
        let groups = self.config.num_attention_heads / few;
        let seen = if count == 1 {
            // the heads that share keys are rows of one product
            let rows = query.reshape([1, few, groups, dim]);
            nnf::scaled_dot_product_attention(&rows, &keys, &values).reshape([1, 1, -1])
        } else {
            let share = |t: &Tensor| {
                t.unsqueeze(2).expand([1, few, groups, -1, dim]).reshape([1, few * groups, -1, dim])
            };
            let mut o = ScaledDotProductAttentionOptions::new();
            if read == 0 {
                o = o.is_causal(true);
            } else {
                // row i sees all that was read and the new ones up to itself
                o = o.attn_mask(&torch::ones([count, read + count]).to(DType::Bool).tril(read));
            }
            let seen = nnf::scaled_dot_product_attention_with(&query, &share(&keys), &share(&values), o);
            seen.transpose(1, 2).reshape([1, count, -1])
        };
        b.output.call(&seen)
    }
}

/// Turns the pairs (i, i + half) of features by the angles of their positions.
fn turn(x: &Tensor, (cos, sin): (&Tensor, &Tensor)) -> Tensor {
    let half = x.size(-1) / 2;
    let (a, b) = (x.narrow(-1, 0, half), x.narrow(-1, half, half));
    torch::cat([&(&a * cos - &b * sin), &(&b * cos + &a * sin)], -1)
}
