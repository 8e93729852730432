//! Trains a small network on handwritten digits with several processes, which one command starts and looks after:
//! `cargo run --release --example ddp_digits [-- --ranks 2] [--epochs 8] [--checkpoint ddp_digits.pt]`
//!
//! Each process has a part of every batch; `DistributedDataParallel` averages the gradients, so that the result is that of `--ranks 1`. When
//! a process dies, all are started again and go on from the last checkpoint.

mod common;

use common::data::TEST;
use common::{Flags, Outcome, data};
use std::path::Path;
use torch::distributed::launch::{LaunchOptions, launch};
use torch::distributed::{self, elastic::failures::record};
use torch::nn::parallel::DistributedDataParallel;
use torch::prelude::*;
use torch::serialization::{ToTree as _, Tree};
use torch::{nn, optim};

const BATCH: i64 = 64;

fn model() -> nn::Sequential {
    nn::Sequential::new((
        nn::Flatten::new(),
        nn::Linear::new(64, 128),
        nn::ReLU::new(),
        nn::Linear::new(128, 10),
    ))
}
fn accuracy(model: &nn::Sequential, images: &Tensor, labels: &Tensor) -> f64 {
    let guesses = torch::no_grad(|| model.call(images)).argmax_dim(1, false);
    let right = guesses.to_vec::<i64>().iter().zip(labels.to_vec::<i64>()).filter(|(a, b)| **a == *b).count();
    right as f64 / labels.size(0) as f64
}

fn worker(epochs: i64, checkpoint: &str) -> torch::Result<()> {
    distributed::init_process_group("gloo");
    let (rank, ranks) = (distributed::get_rank(), distributed::get_world_size());
    torch::manual_seed(0);
    let (images, labels) = data::digits().map_err(|e| torch::Error::other(e.to_string()))?;
    let order = torch::randperm(images.size(0));
    let (test, rest) = (order.narrow(0, 0, TEST), order.narrow(0, TEST, images.size(0) - TEST));
    let net = model();
    let mut optimizer = optim::SGDOptions::new().lr(0.1).momentum(0.9).build(net.parameters());
    let mut first = 0;
    if Path::new(checkpoint).exists() {
        let saved = torch::load(checkpoint)?;
        first = saved.get("epoch").and_then(Tree::as_i64).unwrap_or(0);
        if let (Some(m), Some(o)) = (saved.get("model"), saved.get("optimizer")) {
            net.load_state_dict(m)?;
            optimizer.load_state_dict(o)?;
        }
    }
    let model = DistributedDataParallel::new(net);
    let criterion = nn::CrossEntropyLoss::new();
    let mut last = 0.0;
    for epoch in first..epochs {
        // an epoch's order follows from its number, so that one that begins again is the same
        torch::manual_seed(100 + epoch as u64);
        let shuffled = rest.index_select(0, &torch::randperm(rest.size(0)));
        // whole batches alone: every process has as many digits
        for b in 0..shuffled.size(0) / BATCH {
            let each = BATCH / ranks;
            let mine = shuffled.narrow(0, b * BATCH + rank * each, each);
            optimizer.zero_grad();
            let loss =
                criterion.call(&model.call(&images.index_select(0, &mine)), &labels.index_select(0, &mine));
            loss.backward();
            optimizer.step();
            last = loss.item::<f32>();
        }
        if rank == 0 {
            let text = |s: &str| Tree::Str(s.to_owned());
            let page = Tree::Dict(vec![
                (text("epoch"), Tree::Int(epoch + 1)),
                (text("model"), model.module.state_dict().to_tree()),
                (text("optimizer"), optimizer.state_dict()),
            ]);
            torch::save(&page, checkpoint)?;
        }
    }
    distributed::barrier();
    if rank == 0 {
        let right = accuracy(&model.module, &images.index_select(0, &test), &labels.index_select(0, &test));
        println!("{ranks} processes, last loss {last:.4}, accuracy {:.2} %", 100.0 * right);
    }
    distributed::destroy_process_group();
    Ok(())
}

fn main() -> Outcome {
    let flags = Flags::only(&["--epochs", "--checkpoint", "--ranks"])?;
    let epochs = flags.number("--epochs", 8)?;
    let checkpoint = flags.text("--checkpoint", "ddp_digits.pt");
    if std::env::var_os("TORCHELASTIC_RUN_ID").is_some() {
        return Ok(record(|| worker(epochs, checkpoint))?);
    }
    let ranks: i64 = flags.number("--ranks", 2)?;
    if BATCH % ranks != 0 {
        return Err(format!("{ranks} processes do not share batches of {BATCH}").into());
    }
    let _ = std::fs::remove_file(checkpoint);
    let mut program = vec![std::env::current_exe()?.display().to_string()];
    program.extend(std::env::args().skip(1));
    launch(&program, LaunchOptions::new().nproc_per_node(ranks).max_restarts(3))?;
    Ok(())
}
