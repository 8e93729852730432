//! A variational autoencoder (Kingma and Welling, "Auto-Encoding Variational Bayes", 2013) of 1,797 handwritten digits.
//! `cargo run --release --example vae [-- --epochs 60] [--out vae.png]`
//!
//! It draws `vae.png`: on the left digits that it was not trained on, above what it makes of them; on the right digits that
//! it makes up.
//!
//! vae.py is the same program in Python.

mod common;

use common::canvas::{Canvas, INK};
use common::{Flags, Outcome, data, progress};
use torch::nn::functional as f;
use torch::prelude::*;
use torch::utils::data::{DataLoader, DataLoaderOptions, Dataset, Subset, TensorDataset, random_split};
use torch::{nn, optim};

const PIXELS: i64 = 64;
const HIDDEN: i64 = 256;
const LATENT: i64 = 10;
const BATCH: usize = 64;

#[derive(Debug, Module)]
struct Vae {
    base: nn::Base,
    fc1: nn::Linear,
    mean: nn::Linear,
    log_var: nn::Linear,
    fc3: nn::Linear,
    fc4: nn::Linear,
}

impl Vae {
    fn new() -> Self {
        Vae {
            base: nn::Base::new(),
            fc1: nn::Linear::new(PIXELS, HIDDEN),
            mean: nn::Linear::new(HIDDEN, LATENT),
            log_var: nn::Linear::new(HIDDEN, LATENT),
            fc3: nn::Linear::new(LATENT, HIDDEN),
            fc4: nn::Linear::new(HIDDEN, PIXELS),
        }
    }
    /// Mean and logarithm of the variance of the code.
    fn encode(&self, x: &Tensor) -> (Tensor, Tensor) {
        let hidden = self.fc1.call(x).relu();
        (self.mean.call(&hidden), self.log_var.call(&hidden))
    }
    /// Logits of the pixels.
    fn decode(&self, z: &Tensor) -> Tensor {
        self.fc4.call(&self.fc3.call(z).relu())
    }
    /// Negative evidence lower bound of a batch: what is lost by the code, and how far the codes are from a normal
    /// distribution (appendix B of the paper).
    fn loss(&self, x: &Tensor) -> Tensor {
        let (mean, log_var) = self.encode(x);
        let z = &mean + (&log_var * 0.5).exp() * torch::randn_like(&mean);
        let options = torch::nn::functional::BinaryCrossEntropyWithLogitsOptions::new().reduction("sum");
        let lost = f::binary_cross_entropy_with_logits_with(&self.decode(&z), x, options);
        let far = (mean.square() + log_var.exp() - &log_var - 1).sum() * 0.5;
        lost + far
    }
}

type Digits = Subset<std::sync::Arc<TensorDataset<Tensor>>>;

/// The loss of an image, on average over the loader.
fn average(model: &Vae, loader: &DataLoader<Tensor>) -> f64 {
    let sum: f64 = torch::no_grad(|| loader.iter().map(|x| model.loss(&x).item::<f64>()).sum());
    sum / loader.dataset_len().unwrap_or(1) as f64
}

/// Trains; gives the loss on unseen digits after each epoch.
fn train(model: &Vae, train: Digits, test: &DataLoader<Tensor>, epochs: u64) -> Vec<f64> {
    let loader = DataLoaderOptions::new(train).batch_size(BATCH).shuffle(true).build();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-3);
    let bar = progress(epochs, "epoch");
    let mut losses = Vec::new();
    for _ in 0..epochs {
        for x in &loader {
            optimizer.zero_grad();
            let loss = model.loss(&x);
            loss.backward();
            optimizer.step();
        }
        losses.push(average(model, test));
        bar.set_message(format!("loss on unseen digits {:.3}", losses[losses.len() - 1]));
        bar.inc(1);
    }
    bar.finish();
    losses
}

fn main() -> Outcome {
    let flags = Flags::read(&["--epochs"])?;
    let epochs = flags.number("--epochs", 60)?;
    torch::manual_seed(0);
    let (images, _) = data::digits()?;
    let mut parts = random_split(TensorDataset::new(images.reshape([-1, PIXELS])), [0.9, 0.1]);
    let (Some(unseen), Some(seen)) = (parts.pop(), parts.pop()) else { return Err("two parts".into()) };
    println!("{} digits to learn from, {} unseen", seen.len(), unseen.len());
    let test = DataLoaderOptions::new(unseen).batch_size(BATCH).build();

    let model = Vae::new();
    println!("loss before training: {:.3}", average(&model, &test));
    let losses = train(&model, seen, &test, epochs);

    let mut c = Canvas::new(980, 320);
    c.text("unseen digits and what is made of them", 16, 16, 3, INK);
    c.text("made up", 510, 16, 3, INK);
    torch::no_grad(|| {
        const COLUMNS: i64 = 12;
        let Some(digits) = test.iter().next() else { return };
        let digits = digits.narrow(0, 0, 3 * COLUMNS);
        let again = model.decode(&model.encode(&digits).0).sigmoid();
        // a row of digits, a row of what is made of them
        let pairs = torch::stack([&digits, &again], 1).reshape([3, COLUMNS, 2, PIXELS]).transpose(1, 2);
        let made = model.decode(&torch::randn([6 * COLUMNS, LATENT])).sigmoid();
        c.images(&pairs.reshape([-1, 8, 8]), COLUMNS as usize, 16, 46, 4);
        c.images(&made.reshape([-1, 8, 8]), COLUMNS as usize, 510, 46, 4);
    });
    let out = flags.text("--out", "vae.png");
    c.save(out)?;
    println!("drew {out}: unseen digits above their reconstructions, and digits made up");
    println!("loss on unseen digits: {:.3}", losses.last().copied().unwrap_or_default());
    flags.save_losses(&losses)
}
