//! How long collectives take between processes of one machine, beside PyTorch's gloo:
//!
//! ```sh
//! cargo run --release -p flambeau-distributed --example loopback -- [--ranks 2] [--rounds 3] [--python PYTHON] [--only TEXT]
//! ```
//!
//! Starts as many processes of this program, and as many of `benches/loopback.py` where a Python with PyTorch is named, in turns, and
//! prints the median of the rounds of each, with the ratio of the two and their geometric mean.

use flambeau_core::Tensor;
use flambeau_distributed as dist;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Instant;

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
/// One rank: rank 0 says what it has measured.
fn rank(only: &str) -> Outcome<()> {
    dist::init_process_group("gloo");
    let n = dist::get_world_size();
    for (bytes, times) in SIZES {
        let floats = bytes as i64 / 4;
        let t = Tensor::from_vec(vec![1f32; bytes / 4], [floats]);
        let list: Vec<Tensor> = (0..n).map(|_| Tensor::from_vec(vec![0f32; bytes / 4], [floats])).collect();
        let all: [(&str, &dyn Fn()); 3] = [
            ("all_reduce", &|| drop(dist::all_reduce(&t))),
            ("broadcast", &|| drop(dist::broadcast(&t, 0))),
            ("all_gather", &|| drop(dist::all_gather(&list, &t))),
        ];
        for (name, call) in all.into_iter().filter(|x| x.0.contains(only)) {
            (0..times.div_ceil(10)).for_each(|_| call());
            dist::barrier();
            let begun = Instant::now();
            (0..times).for_each(|_| call());
            // a root that has sent is done before the others are
            dist::barrier();
            if dist::get_rank() == 0 {
                println!("{name} {bytes} {:e}", begun.elapsed().as_secs_f64() / times as f64);
            }
        }
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
fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}
fn main() -> Outcome<()> {
    let only = flag("--only").unwrap_or_default();
    if std::env::var_os("RANK").is_some() {
        return rank(&only);
    }
    let ranks = flag("--ranks").unwrap_or("2".into()).parse()?;
    let rounds: usize = flag("--rounds").unwrap_or("3".into()).parse()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/loopback.py").to_owned();
    let with = |first: Vec<String>| [first, vec!["--only".into(), only.clone()]].concat();
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
        let mine = median(t);
        let other = times.get(1).and_then(|o| o.get(&(name.clone(), bytes))).cloned().map(median);
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
