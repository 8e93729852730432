//! A small GPT that learns to continue Shakespeare's sonnets, character by character.
//! `cargo run --release --example char_gpt [-- --steps 600 | --prompt "Shall I " | --out char_gpt.pt | --autocast bfloat16]`
//!
//! With `--autocast both` it learns twice from the same start, in float32 and in bfloat16, and prints both losses and times.

use indicatif::{ProgressBar, ProgressStyle};
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

const TEXT: &str = include_str!("data/sonnets.txt");
const LENGTH: i64 = 64;
const BATCH: i64 = 16;
const WIDTH: i64 = 96;
const HEADS: i64 = 4;
const BLOCKS: usize = 3;
const DROPOUT: f64 = 0.1;

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
            norm1: nn::LayerNorm::new(WIDTH),
            qkv: nn::Linear::new(WIDTH, 3 * WIDTH),
            out: nn::Linear::new(WIDTH, WIDTH),
            norm2: nn::LayerNorm::new(WIDTH),
            up: nn::Linear::new(WIDTH, 4 * WIDTH),
            down: nn::Linear::new(4 * WIDTH, WIDTH),
            dropout: nn::Dropout::new(DROPOUT),
        }
    }
}
#[nn::forward]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (n, l) = (x.size(0), x.size(1));
        let heads = self.qkv.call(&self.norm1.call(x)).view([n, l, 3, HEADS, WIDTH / HEADS]);
        let heads = heads.permute([2, 0, 3, 1, 4]).unbind(0);
        let causal = torch::nn::functional::ScaledDotProductAttentionOptions::new().is_causal(true);
        let y = F::scaled_dot_product_attention_with(&heads[0], &heads[1], &heads[2], causal);
        let y = self.out.call(&y.transpose(1, 2).reshape([n, l, WIDTH]));
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
    fn new(vocabulary: i64) -> Self {
        Gpt {
            tokens: nn::Embedding::new(vocabulary, WIDTH),
            positions: nn::Embedding::new(LENGTH, WIDTH),
            blocks: (0..BLOCKS).map(|_| Block::new()).collect(),
            norm: nn::LayerNorm::new(WIDTH),
            head: nn::LinearOptions::new(WIDTH, vocabulary).bias(false).build(),
        }
    }
}
#[nn::forward]
impl Gpt {
    /// Logits (N, L, vocabulary) of the characters after those of (N, L).
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.tokens.call(x) + self.positions.call(&torch::arange(x.size(1)));
        let x = self.blocks.iter().fold(x, |x, block| block.call(&x));
        self.head.call(&self.norm.call(&x))
    }
}

/// Trains, in regions with autocast if a dtype is given; gives the mean loss of the last tenth of the steps.
fn train(model: &Gpt, text: &Tensor, steps: u64, lower: Option<torch::DType>) -> f32 {
    let mut optimizer = optim::AdamWOptions::new().lr(2e-3).weight_decay(0.01).build(model.parameters());
    let bar = ProgressBar::new(steps);
    bar.set_style(
        ProgressStyle::with_template("{bar:30} step {pos}/{len}  {msg}  {elapsed}")
            .unwrap_or(ProgressStyle::default_bar()),
    );
    model.train();
    let mut last = Vec::new();
    for step in 0..steps {
        // windows at random places, and the same one character later
        let starts = torch::randint(text.size(0) - LENGTH, [BATCH, 1]);
        let at = starts + torch::arange(LENGTH);
        let (x, y) = (text.i(&at), text.i(&(&at + 1)));
        optimizer.zero_grad();
        let forward = || F::cross_entropy(&model.call(&x).flatten(0, 1), &y.flatten(0, 1));
        let loss = match lower {
            Some(dtype) => torch::autocast(torch::amp::AutocastOptions::new("cpu").dtype(dtype), forward),
            None => forward(),
        };
        loss.backward();
        optimizer.step();
        let loss = loss.item::<f32>();
        if step + steps / 10 + 1 > steps {
            last.push(loss);
        }
        bar.set_message(format!("loss {loss:.3}"));
        bar.inc(1);
    }
    bar.finish();
    last.iter().sum::<f32>() / last.len().max(1) as f32
}

/// The same model, trained in float32 and in bfloat16: losses and seconds of both.
fn both(vocabulary: i64, text: &Tensor, steps: u64) {
    for (name, lower) in [("float32", None), ("bfloat16", Some(torch::bfloat16))] {
        torch::manual_seed(0);
        let model = Gpt::new(vocabulary);
        let start = std::time::Instant::now();
        let loss = train(&model, text, steps, lower);
        println!("{name}: loss {loss:.3} after {steps} steps in {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// Continues a text: each character is drawn from the model's probabilities.
fn sample(model: &Gpt, prompt: &str, characters: &[char], count: usize) -> String {
    model.eval();
    let mut text: Vec<char> = prompt.chars().collect();
    torch::no_grad(|| {
        for _ in 0..count {
            let start = text.len().saturating_sub(LENGTH as usize);
            let seen = text[start..].iter().filter_map(|c| characters.binary_search(c).ok());
            let x = torch::tensor(seen.map(|i| i as i64).collect::<Vec<_>>()).unsqueeze(0);
            let logits = model.call(&x).select(1, -1) / 0.8;
            let next = torch::multinomial(&logits.softmax(-1), 1, true).item::<i64>();
            text.push(characters[next as usize]);
        }
    });
    text.into_iter().collect()
}

/// The value after a flag.
fn flag(name: &str) -> Option<String> {
    let mut args = std::env::args();
    args.find(|a| a == name)?;
    args.next()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FLAGS: [&str; 4] = ["--steps", "--prompt", "--out", "--autocast"];
    if let Some(a) = std::env::args().skip(1).step_by(2).find(|a| !FLAGS.contains(&a.as_str())) {
        return Err(format!("{a}: not one of {}, each with its value", FLAGS.join(" ")).into());
    }
    let steps = flag("--steps").unwrap_or("600".into()).parse()?;
    let prompt = flag("--prompt").unwrap_or("Shall I ".into());
    let mut characters: Vec<char> = TEXT.chars().collect();
    characters.sort_unstable();
    characters.dedup();
    if prompt.is_empty() || !prompt.chars().all(|c| characters.binary_search(&c).is_ok()) {
        return Err("the prompt must have characters of the sonnets, and only those".into());
    }
    let numbers = TEXT.chars().filter_map(|c| characters.binary_search(&c).ok()).map(|i| i as i64);
    let text = torch::tensor(numbers.collect::<Vec<_>>());

    let lower = match flag("--autocast").as_deref() {
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
    train(&model, &text, steps, lower);
    println!("\n{}", sample(&model, &prompt, &characters, 400));
    if let Some(path) = flag("--out") {
        torch::save(&model.state_dict(), &path)?;
        println!("saved {path}");
    }
    Ok(())
}
