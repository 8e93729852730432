//! Learns to go on with sine waves of unknown phase: two LSTM cells see 97 waves of 300 points and then predict the next
//! 300 points of 3 others, each from their own prediction before. Writes `time_series.png`.
//! `cargo run --release --example time_series [-- --steps 10] [--points 300] [--out time_series.png]`
//!
//! The task and the network are those of PyTorch's time_sequence_prediction example, with the waves drawn here.

use indicatif::{ProgressBar, ProgressStyle};
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

#[path = "plot/canvas.rs"]
mod canvas;
use canvas::{BLUE, Canvas, HEIGHT, INK, RED, WIDTH};

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
fn draw(path: &std::path::Path, predicted: &Tensor, given: i64) -> Result<(), Box<dyn std::error::Error>> {
    let mut c = Canvas::new();
    c.text("given", 20, 16, 3, INK);
    c.text("predicted", 120, 16, 3, BLUE);
    c.text("mse", 20, HEIGHT - 20, 2, RED);
    let (rows, n) = (predicted.size(0), predicted.size(1));
    let height = (HEIGHT - 80) as f32 / rows as f32;
    for row in 0..rows {
        let values = predicted.select(0, row).to_vec::<f64>();
        let middle = 50.0 + (row as f32 + 0.5) * height;
        let at = |i: usize| {
            let x = 10.0 + i as f32 / n as f32 * (WIDTH - 20) as f32;
            (x, middle - values[i].clamp(-1.5, 1.5) as f32 * height * 0.3)
        };
        for i in 1..values.len() {
            c.line(at(i - 1), at(i), if (i as i64) < given { INK } else { BLUE });
        }
    }
    c.fill(10 + (given as usize * (WIDTH - 20)) / n as usize, 46, 1, HEIGHT - 76, RED);
    c.save(path)
}

/// The value after a flag.
fn flag(name: &str) -> Option<String> {
    let mut args = std::env::args();
    args.find(|a| a == name)?;
    args.next()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FLAGS: [&str; 3] = ["--steps", "--points", "--out"];
    if let Some(a) = std::env::args().skip(1).step_by(2).find(|a| !FLAGS.contains(&a.as_str())) {
        return Err(format!("{a}: not one of {}, each with its value", FLAGS.join(" ")).into());
    }
    let steps: u64 = flag("--steps").unwrap_or("10".into()).parse()?;
    let points: i64 = flag("--points").unwrap_or("300".into()).parse()?;
    let out = flag("--out").unwrap_or("time_series.png".into());
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
    let bar = ProgressBar::new(steps);
    bar.set_style(
        ProgressStyle::with_template("{bar:30} step {pos}/{len}  {msg}  {elapsed}")
            .unwrap_or(ProgressStyle::default_bar()),
    );
    for _ in 0..steps {
        let loss = optimizer.step_closure(&mut || {
            for p in model.parameters() {
                p.set_grad(None);
            }
            let loss = F::mse_loss(&model.predict(&input, 0), &target);
            loss.backward();
            loss
        });
        bar.set_message(format!("loss {:.6}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();
    let predicted = torch::no_grad(|| model.predict(&test, points));
    let error = F::mse_loss(&predicted.narrow(1, 0, points - 1), &test_target).item::<f64>();
    draw(std::path::Path::new(&out), &predicted, points - 1)?;
    println!("drew {out}");
    println!("test loss: {error:.6}");
    Ok(())
}
