//! `config.json` of a model folder.

use serde::Deserialize;
use std::path::Path;
use torch::{Error, ErrorKind, Result};

/// What the program needs of a Llama-type `config.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    pub hidden_size: i64,
    pub num_hidden_layers: usize,
    pub num_attention_heads: i64,
    /// Fewer than heads of queries where several of them share keys and values.
    pub num_key_value_heads: Option<i64>,
    pub head_dim: Option<i64>,
    pub vocab_size: i64,
    #[serde(default = "epsilon")]
    pub rms_norm_eps: f64,
    #[serde(default = "positions")]
    pub max_position_embeddings: i64,
    #[serde(default)]
    pub tie_word_embeddings: bool,
    #[serde(default = "silu")]
    pub hidden_act: String,
    rope_theta: Option<f64>,
    rope_scaling: Option<Rope>,
    /// Where newer files keep the two above.
    rope_parameters: Option<Rope>,
    eos_token_id: Option<Ids>,
}

fn epsilon() -> f64 {
    1e-6
}
fn positions() -> i64 {
    2048
}
fn silu() -> String {
    "silu".into()
}

/// How the angles of positions are stretched beyond the length that the model was first trained with.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Rope {
    pub rope_theta: Option<f64>,
    #[serde(alias = "type")]
    pub rope_type: Option<String>,
    pub factor: Option<f64>,
    pub low_freq_factor: Option<f64>,
    pub high_freq_factor: Option<f64>,
    pub original_max_position_embeddings: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Ids {
    One(i64),
    Many(Vec<i64>),
}

impl Config {
    /// Reads the folder's `config.json`.
    pub fn read(folder: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(folder.join("config.json"))?;
        let config: Config = serde_json::from_str(&text).map_err(Error::other)?;
        let fits = |holds: bool, what: &str| {
            if holds { Ok(()) } else { Err(Error::new(ErrorKind::Value, format!("config.json: {what}"))) }
        };
        fits(config.hidden_act == "silu", "only `silu` is known as hidden_act")?;
        let sizes =
            [config.hidden_size, config.num_attention_heads, config.heads_of_keys(), config.head_dim()];
        fits(sizes.iter().all(|n| *n > 0), "a size is not above 0")?;
        fits(config.num_attention_heads % config.heads_of_keys() == 0, "heads do not divide")?;
        fits(config.head_dim() % 2 == 0, "an odd head_dim has no rotary halves")?;
        let kind = config.rope().rope_type.unwrap_or_else(|| "default".into());
        fits(["default", "linear", "llama3"].contains(&&*kind), &format!("rope_type `{kind}` is not known"))?;
        Ok(config)
    }

    pub fn heads_of_keys(&self) -> i64 {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    pub fn head_dim(&self) -> i64 {
        self.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads.max(1))
    }

    /// Tokens that end a text.
    pub fn ends(&self) -> Vec<i64> {
        match &self.eos_token_id {
            None => Vec::new(),
            Some(Ids::One(id)) => vec![*id],
            Some(Ids::Many(ids)) => ids.clone(),
        }
    }

    fn rope(&self) -> Rope {
        self.rope_parameters.clone().or_else(|| self.rope_scaling.clone()).unwrap_or_default()
    }

    /// Angles by which a position turns each pair of features, as the model's family computes them.
    pub fn frequencies(&self) -> Vec<f64> {
        let rope = self.rope();
        let theta = rope.rope_theta.or(self.rope_theta).unwrap_or(10_000.0);
        let dim = self.head_dim() as f64;
        let plain = (0..self.head_dim() / 2).map(|i| theta.powf(-2.0 * i as f64 / dim));
        let factor = rope.factor.unwrap_or(1.0);
        match rope.rope_type.as_deref() {
            Some("linear") => plain.map(|f| f / factor).collect(),
            Some("llama3") => {
                let (low, high) = (rope.low_freq_factor.unwrap_or(1.0), rope.high_freq_factor.unwrap_or(4.0));
                let context = rope.original_max_position_embeddings.unwrap_or(8192.0);
                // long waves are stretched, short ones stay, between them it goes over smoothly
                plain
                    .map(|f| {
                        let turns = context * f / std::f64::consts::TAU;
                        let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                        f * (smooth + (1.0 - smooth) / factor)
                    })
                    .collect()
            }
            _ => plain.collect(),
        }
    }
}
