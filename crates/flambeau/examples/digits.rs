//! Trains a small convolutional network on 1,797 handwritten digits and saves it as `digits.pt`, which PyTorch opens.
//! `cargo run --release --example digits [-- --resume digits.pt | --predict digits.pt] [--out digits.pt] [--epochs 12] [--device cpu]`
//!
//! digits.py is the same program in Python: same names, same seed, same initial weights, same shuffle.

use indicatif::{ProgressBar, ProgressStyle};
use torch::prelude::*;
use torch::{nn, optim};

mod data;
mod plot;

// brings `--device vault`, a back end from outside the library (tests/private_backend)
use flambeau_private_backend as _;

const CLASSES: i64 = 10;
const TEST: i64 = 360;
const BATCH: i64 = 64;

#[derive(Debug, Module)]
struct Net {
    base: nn::Base,
    conv1: nn::Conv2d,
    bn1: nn::BatchNorm2d,
    conv2: nn::Conv2d,
    bn2: nn::BatchNorm2d,
    pool: nn::MaxPool2d,
    dropout: nn::Dropout,
    fc1: nn::Linear,
    fc2: nn::Linear,
}

impl Net {
    fn new() -> Self {
        Net {
            base: nn::Base::new(),
            conv1: nn::Conv2dOptions::new(1, 32, 3).padding(1).build(),
            bn1: nn::BatchNorm2d::new(32),
            conv2: nn::Conv2dOptions::new(32, 64, 3).padding(1).build(),
            bn2: nn::BatchNorm2d::new(64),
            pool: nn::MaxPool2d::new(2),
            dropout: nn::Dropout::new(0.25),
            fc1: nn::Linear::new(64 * 4 * 4, 128),
            fc2: nn::Linear::new(128, CLASSES),
        }
    }
}

#[nn::forward]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.bn1.call(&self.conv1.call(x)).relu();
        let x = self.pool.call(&self.bn2.call(&self.conv2.call(&x)).relu());
        let x = self.dropout.call(&x.flatten(1, -1));
        self.fc2.call(&self.fc1.call(&x).relu())
    }
}

fn train(model: &Net, images: &Tensor, labels: &Tensor, epochs: u64) -> Vec<f32> {
    let criterion = nn::CrossEntropyLoss::new();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-3);
    let mut losses = Vec::new();
    let bar = ProgressBar::new(epochs);
    bar.set_style(
        ProgressStyle::with_template("{bar:30} epoch {pos}/{len}  {msg}  {elapsed}")
            .unwrap_or(ProgressStyle::default_bar()),
    );
    for _ in 0..epochs {
        model.train();
        let order = torch::randperm(images.size(0)).to(images.device());
        for batch in order.split(BATCH, 0) {
            optimizer.zero_grad();
            let loss =
                criterion.call(&model.call(&images.index_select(0, &batch)), &labels.index_select(0, &batch));
            loss.backward();
            optimizer.step();
            losses.push(loss.item::<f32>());
        }
        bar.set_message(format!("loss {:.4}", losses.last().copied().unwrap_or_default()));
        bar.inc(1);
    }
    bar.finish();
    losses
}

fn predict(model: &Net, images: &Tensor) -> Tensor {
    model.eval();
    torch::no_grad(|| model.call(images))
}

/// The value after a flag.
fn flag(name: &str) -> Option<String> {
    let mut args = std::env::args();
    args.find(|a| a == name)?;
    args.next()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FLAGS: [&str; 7] =
        ["--resume", "--predict", "--out", "--epochs", "--logits", "--losses", "--device"];
    if let Some(a) = std::env::args().skip(1).step_by(2).find(|a| !FLAGS.contains(&a.as_str())) {
        return Err(format!("{a}: not one of {}, each with its value", FLAGS.join(" ")).into());
    }
    let (resume, only_predict) = (flag("--resume"), flag("--predict"));
    let out = flag("--out").unwrap_or("digits.pt".into());
    let epochs = flag("--epochs").unwrap_or("12".into()).parse()?;
    torch::manual_seed(0);
    let device = torch::Device::parse(&flag("--device").unwrap_or("cpu".into()))?;
    let (images, labels) = data::digits()?;
    let (images, labels) = (images.to(device), labels.to(device));
    let order = torch::randperm(images.size(0)).to(device);
    let (test, rest) = (order.narrow(0, 0, TEST), order.narrow(0, TEST, images.size(0) - TEST));
    let mut model = Net::new();
    model.to(device);
    if let Some(path) = resume.as_ref().or(only_predict.as_ref()) {
        model.load_state_dict(&torch::load(path)?.try_into()?)?;
    }
    let mut losses = Vec::new();
    if only_predict.is_none() {
        losses = train(&model, &images.index_select(0, &rest), &labels.index_select(0, &rest), epochs);
        torch::save(&model.state_dict(), &out)?;
        println!("saved {out}");
        if let Some(path) = flag("--losses") {
            torch::save(&torch::tensor(losses.as_slice()), path)?;
        }
    }
    let (images, labels) = (images.index_select(0, &test), labels.index_select(0, &test));
    let logits = predict(&model, &images);
    if let Some(path) = flag("--logits") {
        torch::save(&logits, path)?;
    }
    let predicted = logits.argmax_with(torch::options::ArgmaxOptions::new().dim(1));
    let correct = predicted.eq(&labels).sum().item::<i64>();
    let picture = std::path::Path::new(&out).with_extension("png");
    plot::draw(
        &picture,
        &losses,
        &labels.to_vec::<i64>(),
        &predicted.to_vec::<i64>(),
        &images.to_vec::<f32>(),
    )?;
    println!("drew {}", picture.display());
    println!("test accuracy: {:.2} %", 100.0 * correct as f64 / TEST as f64);
    Ok(())
}
