//! A variational autoencoder (Kingma and Welling, "Auto-Encoding Variational Bayes", 2013) of 1,797 handwritten digits.
//! `cargo run --release --example vae [-- --epochs 60] [--out vae.png]`
//!
//! It draws `vae.png`: on the left digits that it was not trained on, above what it makes of them; on the right digits that
//! it makes up.

use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::BufWriter;
use torch::nn::functional as f;
use torch::prelude::*;
use torch::utils::data::{DataLoader, DataLoaderOptions, Dataset, Subset, TensorDataset, random_split};
use torch::{nn, optim};

mod data;

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

fn train(model: &Vae, train: Digits, test: &DataLoader<Tensor>, epochs: u64) {
    let loader = DataLoaderOptions::new(train).batch_size(BATCH).shuffle(true).build();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-3);
    let bar = ProgressBar::new(epochs);
    bar.set_style(
        ProgressStyle::with_template("{bar:30} epoch {pos}/{len}  {msg}  {elapsed}")
            .unwrap_or(ProgressStyle::default_bar()),
    );
    for _ in 0..epochs {
        for x in &loader {
            optimizer.zero_grad();
            let loss = model.loss(&x);
            loss.backward();
            optimizer.step();
        }
        bar.set_message(format!("loss on unseen digits {:.3}", average(model, test)));
        bar.inc(1);
    }
    bar.finish();
}

/// Rows of images (rows, columns, 64) as one image with a line between them.
fn tiles(images: &Tensor) -> Tensor {
    let (rows, columns) = (images.size(0), images.size(1));
    let framed = f::pad_with(
        &images.reshape([rows, columns, 8, 8]),
        [1, 1, 1, 1],
        torch::nn::functional::PadOptions::new().value(0.5),
    );
    framed.permute([0, 2, 1, 3]).reshape([rows * 10, columns * 10])
}

/// Dark ink on white, each point four by four pixels.
fn draw(path: &str, picture: &Tensor) -> Result<(), Box<dyn std::error::Error>> {
    let picture = torch::kron(picture, &torch::ones([4, 4]));
    let (height, width) = (picture.size(0) as u32, picture.size(1) as u32);
    let mut png = png::Encoder::new(BufWriter::new(File::create(path)?), width, height);
    png.set_color(png::ColorType::Grayscale);
    png.set_depth(png::BitDepth::Eight);
    png.write_header()?.write_image_data(&(picture * -255 + 255).to_vec::<u8>())?;
    Ok(())
}

/// The value after a flag.
fn flag(name: &str) -> Option<String> {
    let mut args = std::env::args();
    args.find(|a| a == name)?;
    args.next()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FLAGS: [&str; 2] = ["--epochs", "--out"];
    if let Some(a) = std::env::args().skip(1).step_by(2).find(|a| !FLAGS.contains(&a.as_str())) {
        return Err(format!("{a}: not one of {}, each with its value", FLAGS.join(" ")).into());
    }
    let epochs = flag("--epochs").unwrap_or("60".into()).parse()?;
    let out = flag("--out").unwrap_or("vae.png".into());
    torch::manual_seed(0);
    let (images, _) = data::digits()?;
    let mut parts = random_split(TensorDataset::new(images.reshape([-1, PIXELS])), [0.9, 0.1]);
    let (Some(unseen), Some(seen)) = (parts.pop(), parts.pop()) else { return Err("two parts".into()) };
    println!("{} digits to learn from, {} unseen", seen.len(), unseen.len());
    let test = DataLoaderOptions::new(unseen).batch_size(BATCH).build();

    let model = Vae::new();
    println!("loss before training: {:.3}", average(&model, &test));
    train(&model, seen, &test, epochs);
    println!("loss on unseen digits: {:.3}", average(&model, &test));

    let picture = torch::no_grad(|| {
        const COLUMNS: i64 = 16;
        let Some(digits) = test.iter().next() else { return torch::zeros([1, 1]) };
        let digits = digits.narrow(0, 0, 3 * COLUMNS);
        let again = model.decode(&model.encode(&digits).0).sigmoid();
        let pairs = torch::stack(&[digits, again], 1).reshape([3, COLUMNS, 2, PIXELS]).transpose(1, 2);
        let made = model.decode(&torch::randn([6 * COLUMNS, LATENT])).sigmoid();
        let left = tiles(&pairs.reshape([6, COLUMNS, PIXELS]));
        let right = tiles(&made.reshape([6, COLUMNS, PIXELS]));
        torch::cat(&[left, torch::zeros([60, 10]), right], 1)
    });
    draw(&out, &picture)?;
    println!("drew {out}: unseen digits above their reconstructions, and digits made up");
    Ok(())
}
