//! Text by any Llama-type model folder: `config.json`, weights as safetensors (in shards too), `tokenizer.json`.

pub mod config;
pub mod model;
pub mod sample;

use model::Llama;
use sample::Sampling;
use torch::Result;

/// Continues `prompt` by at most `count` tokens, each given to `each` as it comes; ends early at a token that ends texts, or
/// where `each` says `false`.
pub fn generate(
    model: &Llama,
    prompt: &[i64],
    count: usize,
    sampling: &Sampling,
    mut each: impl FnMut(i64) -> bool,
) -> Result<Vec<i64>> {
    let ends = model.config().ends();
    let room = (prompt.len() + count) as i64;
    let mut session = model.begin(room.min(model.config().max_position_embeddings))?;
    let mut logits = model.read(&mut session, prompt)?;
    let mut out = Vec::new();
    for left in (0..count).rev() {
        let token = sampling.draw(&logits);
        out.push(token);
        if !each(token) || ends.contains(&token) || left == 0 || session.read >= room {
            break;
        }
        logits = model.read(&mut session, &[token])?;
    }
    Ok(out)
}
