//! A transformer (Vaswani et al. 2017) learns to translate numbers written in digits into English words, and is asked for numbers
//! that it was not shown.
//! `cargo run --release --example translation [-- --steps 400] [--out translation.png]`
//!
//! translation.py is the same program in Python.

mod common;
#[path = "common/positions.rs"]
mod positions;

use common::canvas::{BLUE, Canvas, Frame, INK, RED};
use common::{Flags, Outcome, late, progress};
use positions::PositionalEncoding;
use torch::nn::utils::rnn::{PadSequenceOptions, pad_sequence_with};
use torch::prelude::*;
use torch::{nn, optim};

const WIDTH: i64 = 64;
const PAD: i64 = 0;
const BEGIN: i64 = 1;
const END: i64 = 2;
const UNITS: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// The number below 10,000 in words.
fn words(n: usize) -> Vec<&'static str> {
    match n {
        0..20 => vec![UNITS[n]],
        20..100 => {
            let mut all = vec![TENS[n / 10 - 2]];
            all.extend((!n.is_multiple_of(10)).then(|| UNITS[n % 10]));
            all
        }
        _ => {
            let (unit, name) = if n < 1000 { (100, "hundred") } else { (1000, "thousand") };
            let mut all = vec![UNITS[n / unit], name];
            if !n.is_multiple_of(unit) {
                all.extend(words(n % unit));
            }
            all
        }
    }
}
/// All words; their places are after those of the marks.
fn vocabulary() -> Vec<&'static str> {
    UNITS.into_iter().chain(TENS).chain(["hundred", "thousand"]).collect()
}
fn source(n: usize) -> Tensor {
    let digits: Vec<i64> = n.to_string().bytes().map(|d| i64::from(d - b'0') + 3).collect();
    torch::tensor(digits)
}
fn target(n: usize, vocabulary: &[&str]) -> Tensor {
    let place = |w: &&str| vocabulary.iter().position(|v| v == w).map_or(PAD, |i| i as i64 + 3);
    let mut all = vec![BEGIN];
    all.extend(words(n).iter().map(place));
    all.push(END);
    torch::tensor(all)
}

#[derive(Debug, Module)]
struct Translator {
    base: nn::Base,
    digits: nn::Embedding,
    words: nn::Embedding,
    position: PositionalEncoding,
    transformer: nn::Transformer,
    generator: nn::Linear,
}
impl Translator {
    fn new(words: i64) -> Self {
        let transformer = nn::TransformerOptions::new().d_model(WIDTH).nhead(4).num_encoder_layers(2);
        Translator {
            base: nn::Base::new(),
            digits: nn::Embedding::new(13, WIDTH),
            words: nn::Embedding::new(words, WIDTH),
            position: PositionalEncoding::new(WIDTH, 16, 0.0),
            transformer: transformer.num_decoder_layers(2).dim_feedforward(128).dropout(0.0).build(),
            generator: nn::Linear::new(WIDTH, words),
        }
    }
    /// Translates by the likeliest word at each place.
    fn translate(&self, n: usize, vocabulary: &[&str]) -> String {
        let scale = (WIDTH as f64).sqrt();
        let src = self.position.call(&(self.digits.call(&source(n).unsqueeze(1)) * scale));
        let memory = self.transformer.encoder.call_with(&src, nn::TransformerEncoderArgs::new());
        let (mut ys, mut said) = (torch::full([1, 1], BEGIN).long(), Vec::new());
        for _ in 0..10 {
            let mask = nn::Transformer::generate_square_subsequent_mask(ys.size(0));
            let tgt = self.position.call(&(self.words.call(&ys) * scale));
            let args = nn::TransformerDecoderArgs::new().tgt_mask(&mask);
            let out = self.transformer.decoder.call_with(&tgt, &memory, args);
            let next = self.generator.call(&out.i(-1)).argmax_dim(-1, false);
            match next.item::<i64>() {
                PAD | BEGIN | END => break,
                word => said.push(vocabulary[word as usize - 3]),
            }
            ys = torch::cat([&ys, &next.unsqueeze(0)], 0);
        }
        said.join(" ")
    }
}
#[nn::forward]
impl Translator {
    fn forward(&self, src: &Tensor, tgt: &Tensor) -> Tensor {
        let scale = (WIDTH as f64).sqrt();
        let (hidden, padding) = (src.eq(PAD).t(), tgt.eq(PAD).t());
        let padding = torch::zeros(padding.sizes()).masked_fill(&padding, f64::NEG_INFINITY);
        let args = nn::TransformerArgs::new()
            .tgt_mask(nn::Transformer::generate_square_subsequent_mask(tgt.size(0)))
            .src_key_padding_mask(&hidden)
            .tgt_key_padding_mask(padding)
            .memory_key_padding_mask(&hidden);
        let (src, tgt) = (self.digits.call(src) * scale, self.words.call(tgt) * scale);
        self.generator.call(&self.transformer.call_with(
            &self.position.call(&src),
            &self.position.call(&tgt),
            args,
        ))
    }
}

fn main() -> Outcome {
    let flags = Flags::read(&["--steps"])?;
    let steps: u64 = flags.number("--steps", 400)?;
    torch::manual_seed(0);
    let vocabulary = vocabulary();
    let model = Translator::new(vocabulary.len() as i64 + 3);
    let criterion = nn::CrossEntropyLossOptions::new().ignore_index(PAD).build();
    let mut optimizer = optim::AdamOptions::new().lr(1e-3).betas((0.9, 0.98)).build(model.parameters());
    let mut losses = Vec::new();
    let bar = progress(steps, "step");
    for _ in 0..steps {
        // numbers that 7 divides are kept back
        let numbers = torch::randint(10_000, 64).to_vec::<i64>();
        let numbers: Vec<usize> = numbers.into_iter().filter(|n| n % 7 != 0).map(|n| n as usize).collect();
        let src: Vec<Tensor> = numbers.iter().map(|n| source(*n)).collect();
        let tgt: Vec<Tensor> = numbers.iter().map(|n| target(*n, &vocabulary)).collect();
        let padded = |list: &[Tensor]| pad_sequence_with(list, PadSequenceOptions::new().padding_value(PAD));
        let (src, tgt) = (padded(&src), padded(&tgt));
        let logits = model.call(&src, &tgt.i(..-1));
        optimizer.zero_grad();
        let loss = criterion.call(&logits.flatten(0, 1), &tgt.i(1..).flatten(0, -1));
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.4}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();

    model.eval();
    let translate = |n: usize| torch::no_grad(|| model.translate(n, &vocabulary));
    let right = (0..100).filter(|i| translate(i * 98) == words(i * 98).join(" ")).count();
    let mut c = Canvas::new(1180, 420);
    c.text("numbers that it was never shown", 20, 16, 3, INK);
    for (row, n) in [7, 49, 630, 1001, 2023, 3332, 4900, 5453, 7777, 9996].into_iter().enumerate() {
        let said = translate(n);
        println!("{n:5}: {said}");
        let (y, colour) = (60 + row * 34, if said == words(n).join(" ") { INK } else { RED });
        c.text(&n.to_string(), 20, y, 3, INK);
        c.text(&said, 100, y, 3, colour);
    }
    c.chart("loss", Frame { x: 790, y: 16, w: 370, h: 390 }, &[("", BLUE, &losses)]);
    let out = flags.text("--out", "translation.png");
    c.save(out)?;
    println!("drew {out}: translations, and the loss");
    println!("loss {:.4}; {right} of 100 numbers that it was never shown are right", late(&losses));
    losses.push(right as f64);
    flags.save_losses(&losses)
}
