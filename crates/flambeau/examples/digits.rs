//! Trains a small convolutional network on 1,797 handwritten digits and saves it as `digits.pt`, which PyTorch opens.
//! `cargo run --profile fast --example digits [-- --resume digits.pt | --predict digits.pt] [--out digits.pt] [--epochs 12] [--device cpu]`
//!
//! digits.py is the same program in Python: same names, same seed, same initial weights, same shuffle.

mod common;
mod plot;

use common::{Flags, Outcome, data, progress};
use torch::prelude::*;
use torch::{nn, optim};

// brings `--device vault`, a back end from outside the library (tests/private_backend)
use flambeau_private_backend as _;

const CLASSES: i64 = 10;
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

fn train(model: &Net, images: &Tensor, labels: &Tensor, epochs: u64) -> Vec<f64> {
    let criterion = nn::CrossEntropyLoss::new();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-3);
    let mut losses = Vec::new();
    let bar = progress(epochs, "epoch");
    for _ in 0..epochs {
        model.train();
        let order = torch::randperm(images.size(0)).to(images.device());
        for batch in order.split(BATCH, 0) {
            optimizer.zero_grad();
            let loss =
                criterion.call(&model.call(&images.index_select(0, &batch)), &labels.index_select(0, &batch));
            loss.backward();
            optimizer.step();
            losses.push(loss.item::<f64>());
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

fn main() -> Outcome {
    let flags = Flags::read(&["--resume", "--predict", "--epochs", "--logits", "--device"])?;
    let (resume, only_predict) = (flags.find("--resume"), flags.find("--predict"));
    let out = flags.text("--out", "digits.pt");
    let epochs = flags.number("--epochs", 12)?;
    torch::manual_seed(0);
    let device = torch::Device::parse(flags.text("--device", "cpu"))?;
    let (images, labels) = data::digits()?;
    let (images, labels) = (images.to(device), labels.to(device));
    let order = torch::randperm(images.size(0)).to(device);
    let (test, rest) =
        (order.narrow(0, 0, data::TEST), order.narrow(0, data::TEST, images.size(0) - data::TEST));
    let mut model = Net::new();
    model.to(device);
    if let Some(path) = resume.or(only_predict) {
        model.load_state_dict(&torch::load(path)?)?;
    }
    let mut losses = Vec::new();
    if only_predict.is_none() {
        losses = train(&model, &images.index_select(0, &rest), &labels.index_select(0, &rest), epochs);
        torch::save(&model.state_dict(), out)?;
        println!("saved {out}");
        flags.save_losses(&losses)?;
    }
    let (images, labels) = (images.index_select(0, &test), labels.index_select(0, &test));
    let logits = predict(&model, &images);
    if let Some(path) = flags.find("--logits") {
        torch::save(&logits, path)?;
    }
    let predicted = logits.argmax_with(torch::options::ArgmaxOptions::new().dim(1));
    let correct = predicted.eq(&labels).sum().item::<i64>();
    let picture = std::path::Path::new(out).with_extension("png");
    plot::draw(
        &picture,
        &losses,
        &labels.to_vec::<i64>(),
        &predicted.to_vec::<i64>(),
        &images.to_vec::<f32>(),
    )?;
    println!("drew {}", picture.display());
    println!("test accuracy: {:.2} %", 100.0 * correct as f64 / data::TEST as f64);
    Ok(())
}
