//! Two networks learn against each other (Goodfellow et al. 2014, with the layers of Radford et al. 2016): one makes digits, the other
//! tells made ones from real ones.
//! `cargo run --release --example dcgan [-- --steps 1500] [--out dcgan.png]`
//!
//! dcgan.py is the same program in Python.

mod common;

use common::canvas::{BLUE, Canvas, Frame, INK, RED};
use common::{Flags, Outcome, data, late, progress};
use torch::prelude::*;
use torch::{nn, optim};

const LATENT: i64 = 32;
const WIDTH: i64 = 32;
const BATCH: i64 = 64;

fn generator() -> nn::Sequential {
    // 1 by 1, 2 by 2, 4 by 4, 8 by 8
    let up = |from, to| nn::ConvTranspose2dOptions::new(from, to, 4).stride(2).padding(1).bias(false).build();
    nn::Sequential::new((
        nn::ConvTranspose2dOptions::new(LATENT, 4 * WIDTH, 2).bias(false).build(),
        nn::BatchNorm2d::new(4 * WIDTH),
        nn::ReLU::new(),
        up(4 * WIDTH, 2 * WIDTH),
        nn::BatchNorm2d::new(2 * WIDTH),
        nn::ReLU::new(),
        up(2 * WIDTH, 1),
        nn::Sigmoid::new(),
    ))
}

fn discriminator() -> nn::Sequential {
    let down = |from, to| nn::Conv2dOptions::new(from, to, 4).stride(2).padding(1).bias(false).build();
    let leaky = || nn::LeakyReLUOptions::new().negative_slope(0.2).build();
    nn::Sequential::new((
        down(1, 2 * WIDTH),
        leaky(),
        down(2 * WIDTH, 4 * WIDTH),
        nn::BatchNorm2d::new(4 * WIDTH),
        leaky(),
        nn::Conv2dOptions::new(4 * WIDTH, 1, 2).bias(false).build(),
        nn::Flatten::new(),
    ))
}

/// The weights that the paper begins with.
fn weights_init(m: &dyn Module) {
    if let Some(m) = m.downcast_ref::<nn::Conv2d>() {
        nn::init::normal_(&m.weight, 0.0, 0.02);
    } else if let Some(m) = m.downcast_ref::<nn::ConvTranspose2d>() {
        nn::init::normal_(&m.weight, 0.0, 0.02);
    } else if let Some(m) = m.downcast_ref::<nn::BatchNorm2d>() {
        nn::init::normal_(m.weight(), 1.0, 0.02);
        nn::init::zeros_(m.bias());
    }
}

fn main() -> Outcome {
    let flags = Flags::read(&["--steps"])?;
    let steps: u64 = flags.number("--steps", 1500)?;
    torch::manual_seed(0);
    let (images, _) = data::digits()?;
    let (generator, discriminator) = (generator(), discriminator());
    generator.apply(weights_init);
    discriminator.apply(weights_init);
    let adam = || optim::AdamOptions::new().lr(1e-3).betas((0.5, 0.999));
    let mut to_make = adam().build(generator.parameters());
    let mut to_tell = adam().build(discriminator.parameters());
    let criterion = nn::BCEWithLogitsLoss::new();
    let (real, made) = (torch::ones([BATCH, 1]), torch::zeros([BATCH, 1]));
    // the same noise before and after, for the picture
    let noise = torch::randn([96, LATENT, 1, 1]);

    let (mut telling, mut making) = (Vec::new(), Vec::new());
    let bar = progress(steps, "step");
    for _ in 0..steps {
        let digits = images.i(torch::randint(images.size(0), BATCH));
        let fakes = generator.call(&torch::randn([BATCH, LATENT, 1, 1]));
        to_tell.zero_grad();
        let loss = criterion.call(&discriminator.call(&digits), &real)
            + criterion.call(&discriminator.call(&fakes.detach()), &made);
        loss.backward();
        to_tell.step();
        telling.push(loss.item::<f64>());

        to_make.zero_grad();
        let loss = criterion.call(&discriminator.call(&fakes), &real);
        loss.backward();
        to_make.step();
        making.push(loss.item::<f64>());
        bar.set_message(format!(
            "telling {:.3}, making {:.3}",
            telling[telling.len() - 1],
            loss.item::<f64>()
        ));
        bar.inc(1);
    }
    bar.finish();

    generator.eval();
    let digits = torch::no_grad(|| generator.call(&noise)).squeeze_dim(1);
    let mut c = Canvas::new(980, 420);
    c.text("real", 20, 16, 3, INK);
    c.images(&images.i(..60).squeeze_dim(1), 6, 20, 46, 4);
    c.text("made", 260, 16, 3, INK);
    c.images(&digits.i(..80), 8, 260, 46, 4);
    let series = [("telling", BLUE, &telling[..]), ("making", RED, &making[..])];
    c.chart("loss", Frame { x: 580, y: 16, w: 380, h: 390 }, &series);
    let out = flags.text("--out", "dcgan.png");
    c.save(out)?;
    println!("drew {out}: digits, made ones, and the losses");
    println!("loss of telling {:.4}, of making {:.4}", late(&telling), late(&making));
    flags.save_losses(&[telling, making].concat())
}
