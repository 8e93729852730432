//! Trains a small network on handwritten digits, quantizes it, and prints accuracy, size and time of both beside each other.
//! `cargo run --release --example quantized_digits`

mod common;

use common::data::TEST;
use common::{Outcome, data};
use std::time::Instant;
use torch::ao::quantization as aq;
use torch::prelude::*;
use torch::{nn, optim};

fn accuracy(model: &nn::Sequential, images: &Tensor, labels: &Tensor) -> f64 {
    let logits = torch::no_grad(|| model.call(images));
    let predicted = logits.argmax_with(torch::options::ArgmaxOptions::new().dim(1));
    100.0 * predicted.eq(labels).sum().item::<i64>() as f64 / labels.numel() as f64
}
/// Of weights and biases.
fn kilobytes(model: &nn::Sequential) -> f64 {
    let bytes = model.state_dict().into_iter().map(|(_, t)| t.numel() as usize * t.element_size());
    bytes.sum::<usize>() as f64 / 1000.0
}
/// Of a call with one image.
fn microseconds(model: &nn::Sequential, image: &Tensor) -> f64 {
    const CALLS: u32 = 300;
    torch::no_grad(|| {
        model.call(image);
        let start = Instant::now();
        for _ in 0..CALLS {
            model.call(image);
        }
        start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
    })
}

fn main() -> Outcome {
    torch::manual_seed(0);
    let (images, labels) = data::digits()?;
    let order = torch::randperm(images.size(0));
    let (test, rest) = (order.narrow(0, 0, TEST), order.narrow(0, TEST, images.size(0) - TEST));
    let mut model = nn::Sequential::new((
        aq::Stub::quant(),
        nn::Conv2dOptions::new(1, 32, 3).padding(1).build(),
        nn::ReLU::new(),
        nn::MaxPool2d::new(2),
        nn::Flatten::new(),
        nn::Linear::new(32 * 4 * 4, 256),
        nn::ReLU::new(),
        nn::Linear::new(256, 10),
        aq::Stub::dequant(),
    ));
    let criterion = nn::CrossEntropyLoss::new();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-3);
    for _ in 0..12 {
        for batch in torch::randperm(rest.numel()).split(64, 0) {
            let batch = rest.index_select(0, &batch);
            optimizer.zero_grad();
            let loss =
                criterion.call(&model.call(&images.index_select(0, &batch)), &labels.index_select(0, &batch));
            loss.backward();
            optimizer.step();
        }
    }
    model.eval();

    let names = |a: &str, b: &str| vec![a.to_string(), b.to_string()];
    aq::fuse_modules_(&mut model, &[names("1", "2"), names("5", "6")], false);
    aq::set_qconfig(&model, Some(aq::get_default_qconfig("x86")));
    let prepared = aq::prepare(&model);
    torch::no_grad(|| prepared.call(&images.index_select(0, &rest.narrow(0, 0, 256))));
    let quantized = aq::convert(&prepared);

    let (images, labels) = (images.index_select(0, &test), labels.index_select(0, &test));
    let one = images.narrow(0, 0, 1);
    println!("            accuracy    size (kB)   time of one image (us)");
    for (name, m) in [("float32", &model), ("quantized", &quantized)] {
        println!(
            "{name:10} {:7.2} % {:11.1} {:15.1}",
            accuracy(m, &images, &labels),
            kilobytes(m),
            microseconds(m, &one)
        );
    }
    Ok(())
}
