//! Small digits are made large again by a network whose last layer gives several points for one (Shi et al. 2016, "Real-time single
//! image and video super-resolution using an efficient sub-pixel convolutional neural network").
//! `cargo run --release --example super_resolution [-- --steps 1500] [--out super_resolution.png]`
//!
//! super_resolution.py is the same program in Python.

mod common;

use common::canvas::{BLUE, Canvas, Frame, INK};
use common::{Flags, Outcome, data, progress};
use torch::nn::functional as F;
use torch::nn::init::{OrthogonalOptions, calculate_gain, orthogonal_, orthogonal_with};
use torch::prelude::*;
use torch::{nn, optim};

const FACTOR: i64 = 2;
const BATCH: i64 = 32;

#[derive(Debug, Module)]
struct Net {
    base: nn::Base,
    conv1: nn::Conv2d,
    conv2: nn::Conv2d,
    conv3: nn::Conv2d,
    conv4: nn::Conv2d,
    pixel_shuffle: nn::PixelShuffle,
}
impl Net {
    fn new() -> Self {
        let conv = |from, to, size: i64| nn::Conv2dOptions::new(from, to, size).padding(size / 2).build();
        let net = Net {
            base: nn::Base::new(),
            conv1: conv(1, 64, 5),
            conv2: conv(64, 64, 3),
            conv3: conv(64, 32, 3),
            conv4: conv(32, FACTOR * FACTOR, 3),
            pixel_shuffle: nn::PixelShuffle::new(FACTOR),
        };
        for conv in [&net.conv1, &net.conv2, &net.conv3] {
            orthogonal_with(&conv.weight, OrthogonalOptions::new().gain(calculate_gain("relu")));
        }
        orthogonal_(&net.conv4.weight);
        net
    }
}
#[nn::forward]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.conv1.call(x).relu();
        let x = self.conv2.call(&x).relu();
        let x = self.conv3.call(&x).relu();
        self.pixel_shuffle.call(&self.conv4.call(&x))
    }
}

/// How near two images are, in decibels (peak signal-to-noise ratio).
fn psnr(a: &Tensor, b: &Tensor) -> f64 {
    -10.0 * F::mse_loss(&a.clamp(0, 1), b).log10().item::<f64>()
}

fn main() -> Outcome {
    let flags = Flags::read(&["--steps"])?;
    let steps: u64 = flags.number("--steps", 1500)?;
    torch::manual_seed(0);
    let (train, test) = data::digits_apart()?;
    let small = |images: &Tensor| F::avg_pool2d(images, FACTOR);
    let model = Net::new();
    let criterion = nn::MSELoss::new();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-3);
    let mut losses = Vec::new();
    let bar = progress(steps, "step");
    for _ in 0..steps {
        let target = train.images.i(torch::randint(train.images.size(0), BATCH));
        optimizer.zero_grad();
        let loss = criterion.call(&model.call(&small(&target)), &target);
        loss.backward();
        optimizer.step();
        losses.push(loss.item::<f64>());
        bar.set_message(format!("loss {:.5}", loss.item::<f64>()));
        bar.inc(1);
    }
    bar.finish();

    let input = small(&test.images);
    let again = torch::no_grad(|| model.call(&input));
    let bicubic = F::interpolate_by(&input, FACTOR as f64, "bicubic");
    let (ours, plain) = (psnr(&again, &test.images), psnr(&bicubic, &test.images));

    const COLUMNS: i64 = 12;
    let mut c = Canvas::new(980, 340);
    let nearest = F::interpolate_by(&input, FACTOR as f64, "nearest");
    for (row, (name, images)) in
        [("small", &nearest), ("bicubic", &bicubic), ("network", &again), ("real", &test.images)]
            .iter()
            .enumerate()
    {
        c.text(name, 10, 60 + row * 75, 2, INK);
        c.images(&images.i(..COLUMNS).squeeze_dim(1), COLUMNS as usize, 76, 30 + row * 75, 5);
    }
    let shown = &losses[losses.len().min(10)..];
    c.chart("training loss", Frame { x: 660, y: 16, w: 300, h: 310 }, &[("", BLUE, shown)]);
    let out = flags.text("--out", "super_resolution.png");
    c.save(out)?;
    println!(
        "drew {out}: digits of half the size, made large by interpolation and by the network, and as they were"
    );
    println!("unseen digits: {ours:.2} dB, bicubic interpolation {plain:.2} dB");
    losses.extend([ours, plain]);
    flags.save_losses(&losses)
}
