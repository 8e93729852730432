//! Learns to go on with sine waves of unknown phase: two LSTM cells see 97 waves of 300 points and then predict the next
//! 300 points of 3 others, each from their own prediction before. Writes `time_series.png`.
//! `cargo run --release --example time_series [-- --steps 10] [--points 300] [--out time_series.png]`
//!
//! The task and the network are those of PyTorch's time_sequence_prediction example, with the waves drawn here.
//! time_series.py is the same program in Python.

mod common;

use common::canvas::{BLUE, Canvas, INK, RED};
use common::{Flags, Outcome, progress};
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

const WAVES: i64 = 100;
const TEST: i64 = 3;
const HIDDEN: i64 = 51;
const PERIOD: f64 = 20.0;

#[derive(Debug, Module)]
struct Sequence {
    lstm1: nn::LSTMCell,
    lstm2: nn::LSTMCell,
    linear: nn::Linear,
}
impl Sequence {
    fn new() -> Self {
        Sequence {
            lstm1: nn::LSTMCell::new(1, HIDDEN),
            lstm2: nn::LSTMCell::new(HIDDEN, HIDDEN),
            linear: nn::Linear::new(HIDDEN, 1),
        }
    }
    /// The prediction after each point of `waves` (N, T), then `future` more, each after the one before.
    fn predict(&self, waves: &Tensor, future: i64) -> Tensor {
        let state = || torch::zeros_with([waves.size(0), HIDDEN], waves.dtype());
        let (mut h1, mut c1, mut h2, mut c2) = (state(), state(), state(), state());
        let mut outputs: Vec<Tensor> = Vec::new();
        for t in 0..waves.size(1) + future {
            let x = if t < waves.size(1) { waves.narrow(1, t, 1) } else { outputs[t as usize - 1].clone() };
            (h1, c1) = self.lstm1.call(&x, (&h1, &c1));
            (h2, c2) = self.lstm2.call(&h1, (&h2, &c2));
            outputs.push(self.linear.call(&h2));
        }
        torch::cat(&outputs, 1)
    }
}

/// Sine waves of random phase (N, T).
fn waves(points: i64) -> Tensor {
    let t = torch::arange(points).to(f64);
    let phase = (torch::randint(160, [WAVES, 1]) - 80).to(f64);
    ((t + phase) / PERIOD).sin()
}

/// The waves: what was given in ink, what is predicted in colour.
fn draw(path: &str, predicted: &Tensor, given: i64) -> Outcome {
    let mut c = Canvas::new(980, 420);
    c.text("given", 20, 16, 3, INK);
    c.text("predicted", 120, 16, 3, BLUE);
    c.text("mse", 20, c.height - 20, 2, RED);
    let (rows, n) = (predicted.size(0), predicted.size(1));
    let (width, height) = (c.width, (c.height - 80) as f32 / rows as f32);
    for row in 0..rows {
        let values = predicted.select(0, row).to_vec::<f64>();
        let middle = 50.0 + (row as f32 + 0.5) * height;
        let at = |i: usize| {
            let x = 10.0 + i as f32 / n as f32 * (width - 20) as f32;
            (x, middle - values[i].clamp(-1.5, 1.5) as f32 * height * 0.3)
        };
        for i in 1..values.len() {
            c.line(at(i - 1), at(i), if (i as i64) < given { INK } else { BLUE });
        }
    }
    c.fill(10 + (given as usize * (width - 20)) / n as usize, 46, 1, c.height - 76, RED);
    c.save(path)
}

fn main() -> Outcome {
    let flags = Flags::read(&["--steps", "--points"])?;
    let steps: u64 = flags.number("--steps", 10)?;
    let points: i64 = flags.number("--points", 300)?;
    torch::manual_seed(0);
    let data = waves(points);
    let part = |from: i64, count: i64| {
        let rows = data.narrow(0, from, count);
        (rows.narrow(1, 0, points - 1), rows.narrow(1, 1, points - 1))
    };
    let ((test, test_target), (input, target)) = (part(0, TEST), part(TEST, WAVES - TEST));
    let mut model = Sequence::new();
    model.to(f64);
    let mut optimizer = optim::LBFGSOptions::new().lr(0.8).build(model.parameters());
    let mut losses = Vec::new();
    let bar = progress(steps, "step");
    for _ in 0..steps {
        let loss = optimizer.step_closure(&mut || {
            for p in model.parameters() {
                p.set_grad(None);
            }
            let loss = F::mse_loss(&model.predict(&input, 0), &target);
            loss.backward();
            loss
        });
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.6}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();
    let predicted = torch::no_grad(|| model.predict(&test, points));
    let error = F::mse_loss(&predicted.narrow(1, 0, points - 1), &test_target).item::<f64>();
    let out = flags.text("--out", "time_series.png");
    draw(out, &predicted, points - 1)?;
    println!("drew {out}: waves as they were given and as they are predicted");
    println!("test loss: {error:.6}");
    losses.push(error);
    flags.save_losses(&losses)
}
