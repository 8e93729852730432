//! A small GPT that knows Shakespeare's sonnets is taught Blake's songs by low-rank adaptation (Hu et al. 2022): its weights stay as
//! they are, and two narrow matrices beside each projection of its attention learn what to add.
//! `cargo run --release --example lora [-- --base char_gpt.pt] [--steps 600] [--adapted 400] [--save lora.pt] [--out lora.png]`
//!
//! lora.py is the same program in Python.

mod common;
#[path = "common/gpt.rs"]
mod gpt;

use common::canvas::{BLUE, Canvas, Frame, RED};
use common::data::{SONGS, SONNETS, characters};
use common::{Flags, Outcome};
use gpt::{Gpt, sample, train};
use torch::nn;
use torch::nn::utils::parametrize::{register_parametrization, remove_parametrizations};
use torch::prelude::*;

const RANK: i64 = 4;
const ALPHA: f64 = 8.0;

/// What is added to a weight (out, in): a product of two matrices of few rows or columns.
#[derive(Debug, Module)]
struct Lora {
    base: nn::Base,
    a: Parameter,
    b: Parameter,
}
impl Lora {
    fn new(layer: &nn::Linear) -> Self {
        let a = Parameter::new(torch::empty([RANK, layer.in_features()]));
        nn::init::kaiming_uniform_with(&a, nn::init::KaimingOptions::new().a(5f64.sqrt()));
        // nothing is added at first
        let b = Parameter::new(torch::zeros([layer.out_features(), RANK]));
        Lora { base: nn::Base::new(), a, b }
    }
}
#[nn::forward]
impl Lora {
    fn forward(&self, weight: &Tensor) -> Tensor {
        weight + self.b.matmul(&self.a) * (ALPHA / RANK as f64)
    }
}

/// The layers that are adapted.
fn layers(model: &mut Gpt) -> impl Iterator<Item = &mut nn::Linear> {
    model.blocks.iter_mut().flat_map(|block| [&mut block.qkv, &mut block.out])
}

fn main() -> Outcome {
    let flags = Flags::read(&["--base", "--steps", "--adapted", "--save"])?;
    let (steps, adapted) = (flags.number("--steps", 600)?, flags.number("--adapted", 400)?);
    // `char_gpt` knows the characters of the sonnets alone, which are all that the songs have
    let (sonnets, alphabet) = characters(SONNETS, SONNETS);
    let (songs, _) = characters(SONGS, SONNETS);
    torch::manual_seed(0);
    let mut model = Gpt::new(alphabet.len() as i64);
    let mut losses = Vec::new();
    match flags.find("--base") {
        Some(path) => {
            model.load_state_dict(&torch::load(path)?)?;
        }
        None => losses = train(&model, &sonnets, steps, None),
    }
    let before = [gpt::loss(&model, &sonnets), gpt::loss(&model, &songs)];

    model.requires_grad_(false);
    for layer in layers(&mut model) {
        let lora = Lora::new(layer);
        register_parametrization(layer, "weight", Box::new(lora));
    }
    let (trained, all) = model.parameters().iter().fold((0, 0), |(trained, all), p| {
        (trained + if p.requires_grad() { p.numel() } else { 0 }, all + p.numel())
    });
    println!("{trained} of {all} weights learn");
    let tuned = train(&model, &songs, adapted, None);
    let with = [gpt::loss(&model, &sonnets), gpt::loss(&model, &songs)];
    println!("\n{}\n", sample(&model, "Little Lamb ", &alphabet, 300));
    if let Some(path) = flags.find("--save") {
        // the adapter alone: PyTorch's `load_state_dict(.., strict=False)` takes it
        let adapter: nn::StateDict = model
            .named_parameters()
            .into_iter()
            .filter(|(_, p)| p.requires_grad())
            .map(|(name, p)| (name, p.tensor().clone()))
            .collect();
        torch::save(&adapter, path)?;
        println!("saved {path}");
    }
    for layer in layers(&mut model) {
        remove_parametrizations(layer, "weight", false);
    }
    let again = gpt::loss(&model, &sonnets);

    let mut c = Canvas::new(980, 420);
    c.chart("learning the sonnets", Frame { x: 16, y: 16, w: 460, h: 390 }, &[("", BLUE, &losses)]);
    c.chart("learning the songs", Frame { x: 500, y: 16, w: 460, h: 390 }, &[("", RED, &tuned)]);
    let out = flags.text("--out", "lora.png");
    c.save(out)?;
    println!("drew {out}: the losses of both trainings");
    println!("loss on      sonnets   songs");
    println!("before       {:7.4} {:7.4}", before[0], before[1]);
    println!("adapted      {:7.4} {:7.4}", with[0], with[1]);
    println!("taken away   {again:7.4}");
    losses.extend(tuned);
    losses.extend(before.into_iter().chain(with).chain([again]));
    flags.save_losses(&losses)
}
