//! What programs as graphs cost: capturing, running node by node and by a plan beside the same program without a graph, and a
//! `.pt2` file from loading to the first result, beside PyTorch where `FLAMBEAU_PYTHON` names a Python that has it.
//!
//! `cargo run --release -p flambeau-bench --bin flambeau-bench-graphs --features graphs`

#![forbid(unsafe_code)]
#![allow(dead_code, reason = "not all models are run here")]

#[path = "../input.rs"]
mod input;
#[path = "../../../tests/it/graphs/models.rs"]
mod llama;
#[path = "../models/mod.rs"]
#[allow(unused_imports, reason = "the benchmark's other program has more models")]
mod models;

use llama::{Llama, LlamaShape};
use models::{Gpt, GptShape, resnet18};
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};
use torch::fx::{self, GraphModule, Interpreter, PlannedInterpreter};
use torch::library::Value;
use torch::prelude::*;
use torch::profiler::{ProfileOptions, profile};
use torch::{Tensor, export};

/// The shortest of many calls, in microseconds: for a second, and three times at least.
fn shortest<R>(mut f: impl FnMut() -> R) -> f64 {
    let (begin, mut best, mut calls) = (Instant::now(), f64::INFINITY, 0);
    while calls < 3 || begin.elapsed() < Duration::from_secs(1) {
        let t = Instant::now();
        drop(black_box(f()));
        best = best.min(t.elapsed().as_secs_f64() * 1e6);
        calls += 1;
    }
    best
}
fn row(name: &str, micros: f64) {
    println!("{name:<44} {micros:>12.1} us");
}
/// A program without a graph, node by node, and by a plan.
fn beside(name: &str, eager: impl FnMut() -> Tensor, m: &GraphModule, x: &Tensor) -> f64 {
    let nodes = m.graph.len() as f64;
    let inputs = [Value::from(x)];
    let plan = PlannedInterpreter::new(m.clone());
    for _ in 0..3 {
        drop(plan.run(&inputs));
    }
    let eager = shortest(eager);
    let interpreted = shortest(|| Interpreter::new(m).run(&inputs));
    let planned = shortest(|| plan.run(&inputs));
    row(&format!("{name}, without a graph"), eager);
    row(&format!("{name}, node by node"), interpreted);
    row(&format!("{name}, by a plan"), planned);
    let more = |t: f64| (t - eager) * 1e3 / nodes;
    println!(
        "    {:.0} ns and {:.0} ns more a node; {:?}",
        more(interpreted),
        more(planned),
        plan.reports()[0]
    );
    planned / eager
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _guard = torch::no_grad_guard();
    let net = resnet18();
    net.eval();
    let x = input::fill([1, 3, 224, 224], 1);
    let small = input::fill([1, 3, 32, 32], 1);
    let run = |x: &[Tensor]| net.call(&x[0]);
    row("capture of ResNet-18, layers", shortest(|| fx::symbolic_trace(&net, run, &[&x])));
    row("ResNet-18 without a capture", shortest(|| net.call(&x)));
    row("capture of ResNet-18, operators", shortest(|| fx::make_fx(run)(&[&x])));
    row("the same at 32x32", shortest(|| fx::make_fx(run)(&[&small])));
    row("export of ResNet-18", shortest(|| export::export(&net, run, &[&x])));
    row("the same at 32x32", shortest(|| export::export(&net, run, &[&small])));

    // operators on tensors so small that only the way to them counts
    let (a, b) = (input::fill([1], 1), input::fill([1], 2));
    let chain = |x: &Tensor| (0..100).fold(x.clone(), |y, _| (&y + &b).relu());
    let m = fx::make_fx(|x: &[Tensor]| chain(&x[0]))(&[&a]);
    beside("200 operators on one element", || chain(&a), &m, &a);

    // what a profiler adds to an operator while it is on
    let calls = || (0..1000).for_each(|_| drop(black_box(&a + &b)));
    let best = |n: usize| {
        let once = |_| {
            let t = Instant::now();
            calls();
            t.elapsed().as_secs_f64() * 1e6
        };
        (0..n).map(once).fold(f64::INFINITY, f64::min)
    };
    let (off, mut on) = (best(200), f64::INFINITY);
    profile(ProfileOptions::new(), |_| on = best(200));
    println!("an operator with a profiler: {:.0} ns more than {off:.0} ns", on - off);

    let layers = fx::symbolic_trace(&net, run, &[&x]);
    beside("ResNet-18 of layers", || net.call(&x), &layers, &x);
    beside("ResNet-18 of operators", || net.call(&x), &fx::make_fx(run)(&[&x]), &x);
    let gpt = Gpt::new(GptShape::SMALL);
    gpt.eval();
    let tokens = input::ints([1, 128], 512, 1);
    let m = fx::make_fx(|x: &[Tensor]| gpt.call(&x[0]))(&[&tokens]);
    beside("GPT, 128 tokens", || gpt.call(&tokens), &m, &tokens);

    let shape =
        LlamaShape { layers: 80, width: 8192, heads: 64, groups: 8, hidden: 28672, vocabulary: 128256 };
    let llama = |shape: &LlamaShape| {
        let _recorded = torch::enable_grad_guard();
        let net = Llama::new(shape, torch::Device::Meta, torch::bfloat16);
        let tokens = torch::empty_with([1, 4096], (torch::int64, torch::Device::Meta));
        let step = fx::make_fx(|x: &[Tensor]| {
            let logits = net.call(&x[0]).view([-1, shape.vocabulary]);
            let loss = torch::nn::functional::cross_entropy(&logits, &x[0].view([-1]));
            loss.backward();
            let grads = net.parameters().iter().filter_map(|p| p.grad()).map(Value::from).collect();
            Value::Tuple(grads)
        })(&[&tokens]);
        fx::memory(&step).peak
    };
    row("memory of a step of Llama 70B, on meta", shortest(|| llama(&shape)));
    println!("    {:.1} GB at most", llama(&shape) as f64 / 1e9);

    let path = std::env::temp_dir().join(format!("flambeau-bench-{}.pt2", std::process::id()));
    export::save(&export::export(&net, run, &[&x]), &path)?;
    let first = || -> torch::Result<Tensor> { export::load(&path)?.module()?.try_forward(&[&x]) };
    first()?;
    row("ResNet-18's .pt2 loaded", shortest(|| export::load(&path)));
    let loaded = export::load(&path)?;
    row("and made a module", shortest(|| loaded.module()));
    let ours = shortest(first);
    row("ResNet-18 from .pt2 to its first result", ours);
    if let Ok(python) = std::env::var("FLAMBEAU_PYTHON") {
        let script = "import sys, time, torch\nx = torch.ones(1, 3, 224, 224)\nbest = 1e9\nfor _ in range(5):\n    \
                      t = time.perf_counter()\n    with torch.no_grad():\n        torch.export.load(sys.argv[1]).module()(x)\n    \
                      best = min(best, time.perf_counter() - t)\nprint(best * 1e6)";
        let out = Command::new(python).arg("-c").arg(script).arg(&path).output()?;
        let theirs: f64 = String::from_utf8(out.stdout)?.trim().parse()?;
        row("the same in PyTorch", theirs);
        println!("    {:.1} times as long", theirs / ours);
    }
    std::fs::remove_file(&path)?;
    Ok(())
}
