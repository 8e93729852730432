//! Trains a small convolutional network on handwritten digits, exports it with a dynamic batch as `digits.pt2`, which PyTorch's
//! `torch.export.load` opens, and as `digits.onnx`, reads both again and compares. The ONNX file is run by onnxruntime where
//! `FLAMBEAU_PYTHON` (or `python3`) has it.
//! `cargo run --release -p flambeau -F onnx --example export [-- --out digits.pt2] [--epochs 3]`

mod common;

use common::data::TEST;
use common::{Flags, Outcome, data};
use std::path::Path;
use std::process::Command;
use torch::export::{self, Dim, ExportOptions};
use torch::prelude::*;
use torch::{fx, nn, onnx, optim};

const BATCH: i64 = 64;

/// Runs a model on floats in a file, writes the results to another.
const RUN: &str = "import sys, numpy, onnxruntime
model, shape, given, made = sys.argv[1:]
x = numpy.fromfile(given, numpy.float32).reshape([int(n) for n in shape.split(',')])
session = onnxruntime.InferenceSession(model, providers=['CPUExecutionProvider'])
session.run(None, {session.get_inputs()[0].name: x})[0].tofile(made)";

/// What onnxruntime makes of an input; none where there is no onnxruntime.
fn by_onnxruntime(model: &Path, x: &Tensor) -> Outcome<Option<Vec<f32>>> {
    let python = std::env::var("FLAMBEAU_PYTHON").unwrap_or("python3".into());
    let found = Command::new(&python).args(["-c", "import onnxruntime"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        return Ok(None);
    }
    let (given, made) = (model.with_extension("in"), model.with_extension("out"));
    let bytes: Vec<u8> = x.to_vec::<f32>().iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(&given, bytes)?;
    let shape: Vec<String> = x.sizes().iter().map(i64::to_string).collect();
    let run = Command::new(&python)
        .args(["-c", RUN])
        .arg(model)
        .arg(shape.join(","))
        .arg(&given)
        .arg(&made)
        .output()?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned().into());
    }
    let bytes = std::fs::read(&made)?;
    std::fs::remove_file(given)?;
    std::fs::remove_file(made)?;
    Ok(Some(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()))
}

fn main() -> Outcome {
    let flags = Flags::only(&["--out", "--epochs"])?;
    let out = flags.text("--out", "digits.pt2");
    let epochs: u64 = flags.number("--epochs", 3)?;
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
    let step = fx::make_fx_of(&model, |x: &[Tensor]| {
        let loss = criterion.call(&model.call(&x[0]), &y);
        loss.backward();
        loss.detach()
    })(&[&x]);
    let memory = fx::memory(&step);
    println!("a step of training: {} operators, {} bytes at most", step.graph.len(), memory.peak);
    // what it would take if parts of the model were computed again in the backward pass
    let told = fx::checkpoints(&step);
    print!("{told}");
    if let Some(choice) = told.within(memory.peak * 9 / 10) {
        println!("a tenth less: {} bytes with {:?} checkpointed", choice.peak, choice.paths);
    }

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
    let core = program.run_decompositions(&export::default_decompositions())?;
    println!("in the core set: {}", core.operators().join(", "));
    export::save(&program, out)?;
    let again = export::load(out)?.module()?;
    let file = Path::new(out).with_extension("onnx");
    onnx::export(&program).save(&file)?;
    for n in [1, 7, TEST] {
        let x = images.narrow(0, 0, n);
        let (want, got) = torch::no_grad(|| (model.call(&x), again.try_forward(&[&x])));
        let off = (got? - want).abs().max().item::<f32>();
        println!("{out} at a batch of {n}: differs by at most {off}");
        if off > 1e-5 {
            return Err("the program and the network disagree".into());
        }
        match by_onnxruntime(&file, &x)? {
            None => println!("{}: not run, there is no onnxruntime", file.display()),
            Some(got) => {
                let want = torch::no_grad(|| model.call(&x)).to_vec::<f32>();
                let off = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                println!("{} at a batch of {n}: differs by at most {off}", file.display());
                if got.len() != want.len() || off > 1e-4 {
                    return Err("the ONNX model and the network disagree".into());
                }
            }
        }
    }
    Ok(())
}
