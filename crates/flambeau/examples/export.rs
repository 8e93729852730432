//! Trains a small convolutional network on handwritten digits, exports it with a dynamic batch as `digits.pt2`, which PyTorch's
//! `torch.export.load` opens, reads it again and compares.
//! `cargo run --release -p flambeau -F graphs --example export [-- --out digits.pt2] [--epochs 3]`

use torch::export::{self, Dim, ExportOptions};
use torch::prelude::*;
use torch::{fx, nn, optim};

mod data;

const TEST: i64 = 360;
const BATCH: i64 = 64;

/// The value after a flag.
fn flag(name: &str) -> Option<String> {
    let mut args = std::env::args();
    args.find(|a| a == name)?;
    args.next()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = flag("--out").unwrap_or("digits.pt2".into());
    let epochs: u64 = flag("--epochs").unwrap_or("3".into()).parse()?;
    torch::manual_seed(0);
    let (images, labels) = data::digits()?;
    let rest = images.size(0) - TEST;
    let model = nn::Sequential::new((
        nn::Conv2dOptions::new(1, 16, 3).padding(1).build(),
        nn::BatchNorm2d::new(16),
        nn::ReLU::new(),
        nn::MaxPool2d::new(2),
        nn::Flatten::new(),
        nn::Linear::new(16 * 4 * 4, 10),
    ));
    let criterion = nn::CrossEntropyLoss::new();
    let mut optimizer = optim::Adam::new(model.parameters(), 1e-3);

    // what a step of training will take, before it is made
    let (x, y) = (images.narrow(0, 0, BATCH), labels.narrow(0, 0, BATCH));
    let step = fx::make_fx(|x: &[Tensor]| {
        let loss = criterion.call(&model.call(&x[0]), &y);
        loss.backward();
        loss.detach()
    })(&[&x]);
    let memory = fx::memory(&step);
    println!("a step of training: {} operators, {} bytes at most", step.graph.len(), memory.peak);

    for epoch in 0..epochs {
        model.train();
        let mut last = 0.0;
        for batch in torch::randperm(rest).split(BATCH, 0) {
            optimizer.zero_grad();
            let x = images.index_select(0, &(&batch + TEST));
            let loss = criterion.call(&model.call(&x), &labels.index_select(0, &(&batch + TEST)));
            loss.backward();
            optimizer.step();
            last = loss.item::<f32>();
        }
        println!("epoch {}: loss {last:.4}", epoch + 1);
    }
    model.eval();

    let options = ExportOptions::new().names(&["x"]).dynamic("x", [(0, Dim::new("batch"))]);
    let program =
        export::export_with(&model, |x: &[Tensor]| model.call(&x[0]), &[&images.narrow(0, 0, 3)], options);
    println!("{program}");
    export::save(&program, &out)?;
    let again = export::load(&out)?.module()?;
    for n in [1, 7, TEST] {
        let x = images.narrow(0, 0, n);
        let (want, got) = torch::no_grad(|| (model.call(&x), again.try_forward(&[&x])));
        let off = (got? - want).abs().max().item::<f32>();
        println!("{out} at a batch of {n}: differs by at most {off}");
        if off > 1e-5 {
            return Err("the program and the network disagree".into());
        }
    }
    Ok(())
}
