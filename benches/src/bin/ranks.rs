//! How long collectives and training steps take between processes of one machine, beside PyTorch's gloo:
//! `cargo xtask bench --ranks 2`.
//!
//! Starts as many processes of this program, and as many of `benches/ranks.py` where a Python with PyTorch is named, in turns, and
//! prints the shortest of the rounds of each, since other load only adds, with the ratio of the two and their geometric mean. `--least`
//! leaves out shorter messages.

#![forbid(unsafe_code)]
#![allow(dead_code, reason = "not all models are run here")]

#[path = "../input.rs"]
mod input;
#[path = "../models/mod.rs"]
#[allow(unused_imports, reason = "the benchmark's other program has more models")]
mod models;

use input::{fill, ints};
use models::{Gpt, GptShape};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Instant;
use torch::distributed as dist;
use torch::nn::functional as F;
use torch::nn::parallel::DistributedDataParallel;
use torch::prelude::*;
use torch::{nn, optim};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of a rank's tensor, and how many times each is timed in a row. `loopback.py` has the same.
const SIZES: [(usize, usize); 9] = [
    (1 << 10, 1000),
    (4 << 10, 1000),
    (16 << 10, 500),
    (64 << 10, 300),
    (256 << 10, 150),
    (1 << 20, 60),
    (4 << 20, 20),
    (16 << 20, 6),
    (64 << 20, 3),
];

/// The value after a flag.
fn flag(name: &str) -> Option<String> {
    let mut args = std::env::args();
    args.find(|a| a == name)?;
    args.next()
}
/// Training steps that are timed in a row.
const STEPS: usize = 20;

/// Rank 0 says what it has measured.
fn timed(name: &str, bytes: usize, times: usize, mut call: impl FnMut()) {
    (0..times.div_ceil(10).max(3)).for_each(|_| call());
    dist::barrier();
    let begun = Instant::now();
    (0..times).for_each(|_| call());
    // a root that has sent is done before the others are
    dist::barrier();
    if dist::get_rank() == 0 {
        println!("{name} {bytes} {:e}", begun.elapsed().as_secs_f64() / times as f64);
    }
}
/// A step of a model under DDP: zero grads, forward, loss, backward, step of the optimiser.
fn step<O: Optimizer>(
    name: &str,
    model: impl nn::Layer,
    optimizer: impl FnOnce(Vec<nn::Parameter>) -> O,
    (x, target): (Tensor, Tensor),
) {
    let model = DistributedDataParallel::new(model);
    let mut optimizer = optimizer(model.parameters());
    let bytes: usize = model.parameters().iter().map(|p| p.numel() as usize * 4).sum();
    timed(name, bytes, STEPS, || {
        optimizer.zero_grad();
        let out = model.call(&x);
        F::cross_entropy(&out.reshape([-1, out.size(-1)]), &target).backward();
        optimizer.step();
    });
}
/// One rank.
fn rank(only: &str, least: usize) -> Outcome<()> {
    torch::set_num_threads(1);
    dist::init_process_group("gloo");
    let n = dist::get_world_size();
    for (bytes, times) in SIZES.into_iter().filter(|s| s.0 >= least) {
        let floats = bytes as i64 / 4;
        let t = torch::ones([floats]);
        let list: Vec<Tensor> = (0..n).map(|_| torch::zeros([floats])).collect();
        let all: [(&str, &dyn Fn()); 3] = [
            ("all_reduce", &|| drop(dist::all_reduce(&t))),
            ("broadcast", &|| drop(dist::broadcast(&t, 0))),
            ("all_gather", &|| drop(dist::all_gather(&list, &t))),
        ];
        for (name, call) in all.into_iter().filter(|x| x.0.contains(only)) {
            timed(name, bytes, times, call);
        }
    }
    if "ddp_mlp".contains(only) {
        let data = (fill([128, 784], 1), ints([128], 10, 2));
        step("ddp_mlp", models::mlp(&[784, 512, 512, 10]), |p| optim::Adam::new(p, 1e-3), data);
    }
    if "ddp_gpt".contains(only) {
        let GptShape { length, vocabulary, .. } = GptShape::SMALL;
        let tokens = |seed| ints([8, length], vocabulary as u32, seed);
        let adamw = |p| optim::AdamWOptions::new().lr(3e-4).weight_decay(0.01).build(p);
        step("ddp_gpt", Gpt::new(GptShape::SMALL), adamw, (tokens(1), tokens(2).reshape(-1)));
    }
    dist::destroy_process_group();
    Ok(())
}
/// What a job of such processes has measured.
fn job(command: &[String], ranks: usize) -> Outcome<BTreeMap<(String, usize), f64>> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut all = Vec::new();
    for r in 0..ranks {
        let c = Command::new(&command[0])
            .args(&command[1..])
            .envs([
                ("RANK", r.to_string()),
                ("WORLD_SIZE", ranks.to_string()),
                ("MASTER_PORT", port.to_string()),
            ])
            .envs([("MASTER_ADDR", "127.0.0.1"), ("GLOO_SOCKET_IFNAME", "lo"), ("OMP_NUM_THREADS", "1")])
            .stdout(Stdio::piped())
            .spawn()?;
        all.push(c);
    }
    let mut got = BTreeMap::new();
    for c in all {
        let out = c.wait_with_output()?;
        if !out.status.success() {
            return Err(format!("{command:?} ended with {}", out.status).into());
        }
        for line in String::from_utf8_lossy(&out.stdout).lines() {
            if let [name, bytes, seconds] = line.split(' ').collect::<Vec<_>>()[..] {
                got.insert((name.to_owned(), bytes.parse()?), seconds.parse()?);
            }
        }
    }
    Ok(got)
}
fn shortest(v: Vec<f64>) -> f64 {
    v.into_iter().fold(f64::INFINITY, f64::min)
}
fn main() -> Outcome<()> {
    let only = flag("--only").unwrap_or_default();
    let least = flag("--least").unwrap_or("0".into());
    if std::env::var_os("RANK").is_some() {
        return rank(&only, least.parse()?);
    }
    let ranks = flag("--ranks").unwrap_or("2".into()).parse()?;
    let rounds: usize = flag("--rounds").unwrap_or("3".into()).parse()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/ranks.py").to_owned();
    let with = |first: Vec<String>| {
        [first, vec!["--only".into(), only.clone(), "--least".into(), least.clone()]].concat()
    };
    let mut sides = vec![with(vec![std::env::current_exe()?.display().to_string()])];
    sides.extend(flag("--python").map(|p| with(vec![p, script])));
    let mut times: Vec<BTreeMap<(String, usize), Vec<f64>>> = vec![BTreeMap::new(); sides.len()];
    for _ in 0..rounds {
        for (side, all) in sides.iter().zip(&mut times) {
            job(side, ranks)?.into_iter().for_each(|(k, t)| all.entry(k).or_default().push(t));
        }
    }
    println!("{:<12}{:>10}{:>14}{:>14}{:>8}", "operation", "bytes", "here", "PyTorch", "ratio");
    let (mut logs, mut worst) = (Vec::new(), 0f64);
    for ((name, bytes), t) in times[0].clone() {
        let mine = shortest(t);
        let other = times.get(1).and_then(|o| o.get(&(name.clone(), bytes))).cloned().map(shortest);
        print!("{name:<12}{bytes:>10}{:>11.1} us", mine * 1e6);
        match other {
            Some(o) => {
                println!("{:>11.1} us{:>8.2}", o * 1e6, mine / o);
                logs.push((mine / o).ln());
                worst = worst.max(mine / o);
            }
            None => println!(),
        }
    }
    if !logs.is_empty() {
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        println!("geometric mean of the ratios {mean:.2}, the largest {worst:.2}");
    }
    Ok(())
}
