//! Two language models of the words in Shakespeare's sonnets, recurrent (Hochreiter and Schmidhuber 1997) or a transformer (Vaswani et
//! al. 2017), as in pytorch/examples.
//! `cargo run --release --example language_model [-- --model transformer] [--epochs 20] [--out language_model.png]`
//!
//! language_model.py is the same program in Python.

mod common;
#[path = "common/positions.rs"]
mod positions;

use common::canvas::{BLUE, Canvas, Frame, RED};
use common::data::SONNETS;
use common::{Flags, Outcome, progress};
use positions::PositionalEncoding;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

const WIDTH: i64 = 96;
const LAYERS: i64 = 2;
const DROPOUT: f64 = 0.3;
/// Pieces of the text that are read side by side, and the words that are read before a step.
const BATCH: i64 = 8;
const LENGTH: i64 = 24;

/// Hidden and cell state of a recurrent model.
type State = Option<(Tensor, Tensor)>;

trait LanguageModel: Module {
    /// Logits (L, N, words) of the words after those of (L, N). A recurrent model begins with the state, and leaves its own.
    fn predict(&self, x: &Tensor, state: &mut State) -> Tensor;
}

#[derive(Debug, Module)]
struct Recurrent {
    base: nn::Base,
    drop: nn::Dropout,
    encoder: nn::Embedding,
    rnn: nn::LSTM,
    decoder: nn::Linear,
}
impl Recurrent {
    fn new(words: i64) -> Self {
        Recurrent {
            base: nn::Base::new(),
            drop: nn::Dropout::new(DROPOUT),
            encoder: nn::Embedding::new(words, WIDTH),
            rnn: nn::LSTMOptions::new(WIDTH, WIDTH).num_layers(LAYERS).dropout(DROPOUT).build(),
            decoder: nn::Linear::new(WIDTH, words),
        }
    }
}
impl LanguageModel for Recurrent {
    fn predict(&self, x: &Tensor, state: &mut State) -> Tensor {
        let (output, (h, c)) = self.rnn.call(&self.drop.call(&self.encoder.call(x)), &*state);
        // the next piece goes on from here, but gradients end
        *state = Some((h.detach(), c.detach()));
        self.decoder.call(&self.drop.call(&output))
    }
}

#[derive(Debug, Module)]
struct Transformer {
    base: nn::Base,
    embedding: nn::Embedding,
    position: PositionalEncoding,
    encoder: nn::TransformerEncoder,
    decoder: nn::Linear,
}
impl Transformer {
    fn new(words: i64) -> Self {
        let layer =
            nn::TransformerEncoderLayerOptions::new(WIDTH, 4).dim_feedforward(2 * WIDTH).dropout(DROPOUT);
        Transformer {
            base: nn::Base::new(),
            embedding: nn::Embedding::new(words, WIDTH),
            position: PositionalEncoding::new(WIDTH, LENGTH, DROPOUT),
            encoder: nn::TransformerEncoderOptions::new(layer.build(), LAYERS)
                .enable_nested_tensor(false)
                .build(),
            decoder: nn::Linear::new(WIDTH, words),
        }
    }
}
impl LanguageModel for Transformer {
    fn predict(&self, x: &Tensor, _: &mut State) -> Tensor {
        let mask = nn::Transformer::generate_square_subsequent_mask(x.size(0));
        let x = self.position.call(&(self.embedding.call(x) * (WIDTH as f64).sqrt()));
        self.decoder.call(&self.encoder.call_with(&x, nn::TransformerEncoderArgs::new().mask(&mask)))
    }
}

/// The words, signs and line ends of a text, in small letters.
fn words(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut open = false;
    for c in text.to_lowercase().chars() {
        let letter = c.is_ascii_alphabetic() || c == '\'' || c == '-';
        match all.last_mut().filter(|_| letter && open) {
            Some(word) => word.push(c),
            None if letter || ".,:;?!\n".contains(c) => all.push(c.into()),
            None => {}
        }
        open = letter;
    }
    all
}

/// The words in `BATCH` columns: each a piece of the text, from above to below.
fn columns(words: &Tensor) -> Tensor {
    let rows = words.size(0) / BATCH;
    words.narrow(0, 0, rows * BATCH).view([BATCH, rows]).t().contiguous()
}

/// Calls `each` with the windows of the columns: words (L, N), and the words after them (L * N).
fn windows(columns: &Tensor, mut each: impl FnMut(&Tensor, &Tensor)) {
    let mut i = 0;
    while i < columns.size(0) - 1 {
        let length = LENGTH.min(columns.size(0) - 1 - i);
        each(&columns.narrow(0, i, length), &columns.narrow(0, i + 1, length).reshape(-1));
        i += length;
    }
}

/// The loss of a word, on average.
fn average(model: &dyn LanguageModel, columns: &Tensor) -> f64 {
    model.eval();
    let (mut sum, mut state) = (0.0, None);
    torch::no_grad(|| {
        windows(columns, |x, target| {
            let logits = model.predict(x, &mut state).flatten(0, 1);
            sum += F::cross_entropy(&logits, target).item::<f64>() * x.size(0) as f64;
        });
    });
    sum / (columns.size(0) - 1) as f64
}

/// Words drawn one after the other; the most that the model sees are the last `LENGTH`.
fn write(model: &dyn LanguageModel, vocabulary: &[String], first: &str, count: usize) -> String {
    model.eval();
    let number = |w: &str| vocabulary.iter().position(|v| v == w).unwrap_or(0) as i64;
    let mut said = vec![number(first)];
    torch::no_grad(|| {
        for _ in 0..count {
            let seen = &said[said.len().saturating_sub(LENGTH as usize)..];
            let logits = model.predict(&torch::tensor(seen).unsqueeze(1), &mut None).i((-1, 0));
            said.push(torch::multinomial(&logits.softmax(-1), 1, false).item());
        }
    });
    let mut text = String::new();
    for word in said.into_iter().map(|i| &vocabulary[i as usize]) {
        let glued = text.is_empty() || text.ends_with('\n') || ".,:;?!\n".contains(word.as_str());
        text += if glued { "" } else { " " };
        text += word;
    }
    text
}

fn main() -> Outcome {
    let flags = Flags::read(&["--model", "--epochs"])?;
    let epochs: u64 = flags.number("--epochs", 20)?;
    let words = words(SONNETS);
    let mut vocabulary = words.clone();
    vocabulary.sort_unstable();
    vocabulary.dedup();
    let numbers = words.iter().filter_map(|w| vocabulary.binary_search(w).ok()).map(|i| i as i64);
    let numbers = torch::tensor(numbers.collect::<Vec<_>>());
    let known = numbers.size(0) * 9 / 10;
    let (train, test) = (columns(&numbers.i(..known)), columns(&numbers.i(known..)));

    torch::manual_seed(0);
    let count = vocabulary.len() as i64;
    let model: Box<dyn LanguageModel> = match flags.text("--model", "lstm") {
        "lstm" => Box::new(Recurrent::new(count)),
        "transformer" => Box::new(Transformer::new(count)),
        other => return Err(format!("--model {other}: lstm or transformer").into()),
    };
    println!("{} words, {count} of them different", words.len());
    let mut optimizer = optim::Adam::new(model.parameters(), 2e-3);
    let (mut losses, mut seen, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    let bar = progress(epochs, "epoch");
    for _ in 0..epochs {
        model.train();
        let (before, mut state) = (losses.len(), None);
        windows(&train, |x, target| {
            optimizer.zero_grad();
            let loss = F::cross_entropy(&model.predict(x, &mut state).flatten(0, 1), target);
            loss.backward();
            nn::utils::clip_grad_norm_(model.parameters(), 0.5);
            optimizer.step();
            losses.push(loss.item::<f64>());
        });
        let epoch = &losses[before..];
        seen.push((epoch.iter().sum::<f64>() / epoch.len() as f64).exp());
        unseen.push(average(&*model, &test).exp());
        bar.set_message(format!(
            "perplexity {:.1}, unseen {:.1}",
            seen[seen.len() - 1],
            unseen[unseen.len() - 1]
        ));
        bar.inc(1);
    }
    bar.finish();
    println!("\n{}\n", write(&*model, &vocabulary, "love", 60));
    let mut c = Canvas::new(620, 420);
    let series = [("learned from", BLUE, &seen[..]), ("unseen", RED, &unseen[..])];
    c.chart("perplexity", Frame { x: 16, y: 16, w: 580, h: 390 }, &series);
    let out = flags.text("--out", "language_model.png");
    c.save(out)?;
    println!("drew {out}: between how many words the model hesitates, over the epochs");
    if let (Some(seen), Some(unseen)) = (seen.last(), unseen.last()) {
        println!("perplexity {seen:.2}, of unseen words {unseen:.2}");
    }
    losses.extend(unseen);
    flags.save_losses(&losses)
}
