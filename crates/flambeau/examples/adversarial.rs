//! A network that reads digits well is misled by changes that are hard to see: the fast gradient sign attack (Goodfellow et al. 2015).
//! `cargo run --release --example adversarial [-- --steps 500] [--out adversarial.png]`
//!
//! adversarial.py is the same program in Python.

mod common;

use common::canvas::{BLUE, Canvas, Frame, INK, RED};
use common::data::Digits;
use common::{Flags, Outcome, data, late, progress};
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

const BATCH: i64 = 64;
/// By how much a point may change; 1 is from white to black.
const EPSILONS: [f64; 7] = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3];

fn network() -> nn::Sequential {
    let conv = |from, to| nn::Conv2dOptions::new(from, to, 3).padding(1).build();
    nn::Sequential::new((
        conv(1, 16),
        nn::ReLU::new(),
        conv(16, 32),
        nn::ReLU::new(),
        nn::MaxPool2d::new(2),
        nn::Dropout::new(0.25),
        nn::Flatten::new(),
        nn::Linear::new(32 * 4 * 4, 64),
        nn::ReLU::new(),
        nn::Linear::new(64, 10),
    ))
}

/// The images, each point changed by `epsilon` in the direction in which the loss grows.
fn attack(model: &nn::Sequential, digits: &Digits, epsilon: f64) -> Tensor {
    let x = digits.images.detach().requires_grad_(true);
    F::cross_entropy(&model.call(&x), &digits.labels).backward();
    let Some(grad) = x.grad() else { return digits.images.clone() };
    torch::no_grad(|| (x + grad.sign() * epsilon).clamp(0, 1))
}

fn main() -> Outcome {
    let flags = Flags::read(&["--steps"])?;
    let steps: u64 = flags.number("--steps", 500)?;
    torch::manual_seed(0);
    let (train, test) = data::digits_apart()?;
    let model = network();
    let mut optimizer = optim::Adam::new(model.parameters(), 2e-3);
    let mut losses = Vec::new();
    let bar = progress(steps, "step");
    for _ in 0..steps {
        let at = torch::randint(train.labels.size(0), BATCH);
        optimizer.zero_grad();
        let loss = F::cross_entropy(&model.call(&train.images.i(&at)), &train.labels.i(&at));
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.4}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();
    println!("loss {:.4}", late(&losses));

    model.eval();
    let mut c = Canvas::new(980, 420);
    let mut accuracies = Vec::new();
    for (row, epsilon) in EPSILONS.into_iter().enumerate() {
        let images = attack(&model, &test, epsilon);
        let read = torch::no_grad(|| model.call(&images)).argmax_dim(1, false);
        let right = read.eq(&test.labels);
        accuracies.push(right.double().mean().item::<f64>());
        println!(
            "changed by {epsilon:.2}: {:6.2} % of unseen digits are read right",
            100.0 * accuracies[row]
        );
        let (read, right, top) = (read.to_vec::<i64>(), right.to_vec::<u8>(), 30 + row * 55);
        c.text(&format!("{epsilon:.2}"), 10, top + 12, 2, INK);
        for column in 0..8 {
            let x = 60 + column * 62;
            c.image(&images.i((column as i64, 0)), x, top, 5);
            let colour = if right[column] == 1 { BLUE } else { RED };
            c.text(&read[column].to_string(), x + 44, top + 12, 3, colour);
        }
    }
    let axis = format!("read right, changes of 0 to {}", EPSILONS[EPSILONS.len() - 1]);
    c.chart(&axis, Frame { x: 590, y: 16, w: 370, h: 390 }, &[("", BLUE, &accuracies)]);
    let out = flags.text("--out", "adversarial.png");
    c.save(out)?;
    println!("drew {out}: changed digits, and what the network reads");
    losses.extend(accuracies);
    flags.save_losses(&losses)
}
