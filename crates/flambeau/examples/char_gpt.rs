//! A small GPT that learns to continue Shakespeare's sonnets, character by character.
//! `cargo run --release --example char_gpt [-- --steps 600 | --prompt "Shall I " | --save char_gpt.pt | --autocast bfloat16]`
//!
//! With `--autocast both` it learns twice from the same start, in float32 and in bfloat16, and prints both losses and times.
//! char_gpt.py is the same program in Python.

mod common;
#[path = "common/gpt.rs"]
mod gpt;

use common::canvas::{BLUE, Canvas, Frame};
use common::data::{SONNETS, characters};
use common::{Flags, Outcome, late};
use gpt::{Gpt, sample, train};
use torch::prelude::*;

/// The same model, trained in float32 and in bfloat16: losses and seconds of both.
fn both(vocabulary: i64, text: &Tensor, steps: u64) {
    for (name, lower) in [("float32", None), ("bfloat16", Some(torch::bfloat16))] {
        torch::manual_seed(0);
        let model = Gpt::new(vocabulary);
        let start = std::time::Instant::now();
        let loss = late(&train(&model, text, steps, lower));
        println!("{name}: loss {loss:.3} after {steps} steps in {:.1} s", start.elapsed().as_secs_f64());
    }
}

fn main() -> Outcome {
    let flags = Flags::read(&["--steps", "--prompt", "--save", "--autocast"])?;
    let steps = flags.number("--steps", 600)?;
    let prompt = flags.text("--prompt", "Shall I ");
    let (text, characters) = characters(SONNETS, SONNETS);
    if prompt.is_empty() || !prompt.chars().all(|c| characters.binary_search(&c).is_ok()) {
        return Err("the prompt must have characters of the sonnets, and only those".into());
    }
    let lower = match flags.find("--autocast") {
        None => None,
        Some("bfloat16") => Some(torch::bfloat16),
        Some("float16") => Some(torch::float16),
        Some("both") => {
            both(characters.len() as i64, &text, steps);
            return Ok(());
        }
        Some(other) => return Err(format!("--autocast {other}: bfloat16, float16 or both").into()),
    };
    torch::manual_seed(0);
    let model = Gpt::new(characters.len() as i64);
    let weights: i64 = model.parameters().iter().map(|p| p.numel()).sum();
    println!("{} characters, {} of them different; {weights} weights", text.numel(), characters.len());
    let mut losses = train(&model, &text, steps, lower);
    println!("\n{}\n", sample(&model, prompt, &characters, 400));
    let mut c = Canvas::new(620, 420);
    c.chart("training loss", Frame { x: 16, y: 16, w: 580, h: 390 }, &[("", BLUE, &losses)]);
    let out = flags.text("--out", "char_gpt.png");
    c.save(out)?;
    println!("drew {out}: the loss over the steps");
    if let Some(path) = flags.find("--save") {
        torch::save(&model.state_dict(), path)?;
        println!("saved {path}");
    }
    let whole = gpt::loss(&model, &text);
    println!("loss on all sonnets {whole:.4}");
    losses.push(whole);
    flags.save_losses(&losses)
}
