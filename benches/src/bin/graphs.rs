//! What programs as graphs cost: capturing, running node by node and by a plan beside the same program without a graph, and a
//! `.pt2` file from loading to the first result, beside PyTorch where `FLAMBEAU_PYTHON` names a Python that has it.
//!
//! `cargo run --release -p flambeau-bench --bin flambeau-bench-graphs --features graphs [capture|operators|networks|memory|file]..`

#![deny(unsafe_code)]
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
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use torch::fx::{self, GraphModule, Interpreter, PlannedInterpreter};
use torch::library::Value;
use torch::prelude::*;
use torch::profiler::{ProfileOptions, profile};
use torch::serialization::{MapMode, MappedFile};
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
/// The shortest call of each, one after the other again and again, so that what else the machine does meets all of them.
fn in_turns<const N: usize>(mut calls: [&mut dyn FnMut(); N]) -> [f64; N] {
    let (begin, mut best, mut rounds) = (Instant::now(), [f64::INFINITY; N], 0);
    while rounds < 5 || begin.elapsed() < Duration::from_secs(3) {
        for (f, best) in calls.iter_mut().zip(&mut best) {
            let t = Instant::now();
            f();
            *best = best.min(t.elapsed().as_secs_f64() * 1e6);
        }
        rounds += 1;
    }
    best
}
fn row(name: &str, micros: f64) {
    println!("{name:<44} {micros:>12.1} us");
}
/// A program without a graph, node by node, and by a plan.
fn beside(name: &str, mut eager: impl FnMut() -> Tensor, m: &GraphModule, x: &Tensor) -> f64 {
    let nodes = m.graph.len() as f64;
    let inputs = [Value::from(x)];
    let plan = PlannedInterpreter::new(m.clone());
    for _ in 0..3 {
        drop(plan.run(&inputs));
    }
    let [eager, interpreted, planned] = in_turns([
        &mut || drop(black_box(eager())),
        &mut || drop(black_box(Interpreter::new(m).run(&inputs))),
        &mut || drop(black_box(plan.run(&inputs))),
    ]);
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

/// A Python that loads and runs the file whenever it is asked to.
struct Theirs {
    child: Child,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}
impl Theirs {
    const PROGRAM: &str = "import sys, time, torch
torch.set_num_threads(int(sys.argv[2]))
x = torch.ones(1, 3, 224, 224)
for _ in sys.stdin:
    t = time.perf_counter()
    with torch.no_grad():
        torch.export.load(sys.argv[1]).module()(x)
    print((time.perf_counter() - t) * 1e6, flush=True)";
    fn start(python: &str, path: &Path) -> io::Result<Theirs> {
        let threads = torch::get_num_threads().to_string();
        let mut command = Command::new(python);
        command.arg("-c").arg(Self::PROGRAM).arg(path).arg(threads);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(ask), Some(out)) => Ok(Theirs { child, ask, answers: BufReader::new(out).lines() }),
            _ => Err(io::Error::other("no pipes")),
        }
    }
    /// Microseconds of one run.
    fn once(&mut self) -> io::Result<f64> {
        writeln!(self.ask)?;
        let line = self.answers.next().ok_or_else(|| io::Error::other("Python has ended"))??;
        line.trim().parse().map_err(io::Error::other)
    }
}
impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a network does.
type Run<'a> = &'a dyn Fn(&[Tensor]) -> Tensor;
fn capture(net: &dyn Module, run: Run<'_>) {
    let x = input::fill([1, 3, 224, 224], 1);
    let small = input::fill([1, 3, 32, 32], 1);
    row("capture of ResNet-18, layers", shortest(|| fx::symbolic_trace(net, run, &[&x])));
    row("ResNet-18 without a capture", shortest(|| run(std::slice::from_ref(&x))));
    row("capture of ResNet-18, operators", shortest(|| fx::make_fx(run)(&[&x])));
    row("the same at 32x32", shortest(|| fx::make_fx(run)(&[&small])));
    row("export of ResNet-18", shortest(|| export::export(net, run, &[&x])));
    row("the same at 32x32", shortest(|| export::export(net, run, &[&small])));
}
/// Operators on tensors so small that only the way to them counts.
fn operators() {
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
}
fn networks(net: &dyn Module, run: Run<'_>) {
    let x = input::fill([1, 3, 224, 224], 1);
    let layers = fx::symbolic_trace(net, run, &[&x]);
    beside("ResNet-18 of layers", || run(std::slice::from_ref(&x)), &layers, &x);
    beside("ResNet-18 of operators", || run(std::slice::from_ref(&x)), &fx::make_fx(run)(&[&x]), &x);
    let gpt = Gpt::new(GptShape::SMALL);
    gpt.eval();
    let tokens = input::ints([1, 128], 512, 1);
    let m = fx::make_fx(|x: &[Tensor]| gpt.call(&x[0]))(&[&tokens]);
    beside("GPT, 128 tokens", || gpt.call(&tokens), &m, &tokens);
}
fn memory() {
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
}
/// A program whose weights are not copied.
fn mapped(path: &Path) -> torch::Result<export::ExportedProgram> {
    #[expect(unsafe_code, reason = "maps ask for a promise")]
    // SAFETY: the file is this program's own, and nobody writes to it while it is mapped.
    let file = unsafe { MappedFile::open(path, MapMode::Private)? };
    export::load_mapped(&file)
}
/// A file from loading to the first result.
fn file(net: &dyn Module, run: Run<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let x = input::fill([1, 3, 224, 224], 1);
    let path = std::env::temp_dir().join(format!("flambeau-bench-{}.pt2", std::process::id()));
    export::save(&export::export(net, run, &[&x]), &path)?;
    let first = || -> torch::Result<Tensor> { export::load(&path)?.module()?.try_forward(&[&x]) };
    let first_mapped = || -> torch::Result<Tensor> { mapped(&path)?.module()?.try_forward(&[&x]) };
    first()?;
    row("ResNet-18's .pt2 loaded", shortest(|| export::load(&path)));
    row("the same, mapped", shortest(|| mapped(&path)));
    let loaded = export::load(&path)?;
    row("and made a module", shortest(|| loaded.module()));
    if let Ok(python) = std::env::var("FLAMBEAU_PYTHON") {
        // in turns, so that what else the machine does meets both
        let mut theirs = Theirs::start(&python, &path)?;
        let (mut ours, mut ours_mapped, mut their) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        let timed = |f: &dyn Fn() -> torch::Result<Tensor>, best: &mut f64| -> torch::Result<()> {
            let t = Instant::now();
            drop(black_box(f()?));
            *best = best.min(t.elapsed().as_secs_f64() * 1e6);
            Ok(())
        };
        for _ in 0..15 {
            timed(&first, &mut ours)?;
            timed(&first_mapped, &mut ours_mapped)?;
            their = their.min(theirs.once()?);
        }
        row("ResNet-18 from .pt2 to its first result", ours);
        row("the same, mapped", ours_mapped);
        row("the same in PyTorch", their);
        println!("    {:.1} and {:.1} times as long", their / ours, their / ours_mapped);
    } else {
        row("ResNet-18 from .pt2 to its first result", shortest(first));
        row("the same, mapped", shortest(first_mapped));
    }
    let module = loaded.module()?;
    module.try_forward(&[&x])?;
    row("a later run", shortest(|| module.try_forward(&[&x])));
    std::fs::remove_file(&path)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _guard = torch::no_grad_guard();
    let net = resnet18();
    net.eval();
    let run = |x: &[Tensor]| net.call(&x[0]);
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|a| a == part);
    if wanted("capture") {
        capture(&net, &run);
    }
    if wanted("operators") {
        operators();
    }
    if wanted("networks") {
        networks(&net, &run);
    }
    if wanted("memory") {
        memory();
    }
    if wanted("file") {
        file(&net, &run)?;
    }
    Ok(())
}
