//! `cargo xtask weigh`: what a program of a user costs that depends on Flambeau from outside the workspace, where profiles
//! do not travel and features do not unify: processor time of a release build from nothing with cargo's own settings, weight
//! of the stripped program, and time after a change of one line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A small network in training: what a first program does.
const NETWORK: &str = r#"
use torch::prelude::*;
use torch::{nn, optim};

fn main() {
    torch::manual_seed(0);
    let model = nn::Sequential::new((nn::Linear::new(2, 8), nn::Tanh::new(), nn::Linear::new(8, 1)));
    let mut optimizer = optim::Adam::new(model.parameters(), 0.05);
    let x = torch::tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]);
    let y = torch::tensor([[0.0], [1.0], [1.0], [0.0]]);
    for _ in 0..200 {
        optimizer.zero_grad();
        let difference = model.call(&x) - &y;
        (&difference * &difference).mean().backward();
        optimizer.step();
    }
    println!("{}", model.call(&x));
}
"#;

/// Tensors and nothing else: what a program pays that wants arithmetic on arrays.
const TENSORS: &str = r#"
use torch::prelude::*;

fn main() {
    let x = torch::arange(6).reshape([2, 3]).to(f32);
    let y = (&x * 2.0 - 1.0).matmul(x.t()).sum_dim(1, false);
    for _ in 0..200 {
        y.add_(1.0);
    }
    println!("{y}");
}
"#;

/// [`NETWORK`] as candle's users write it: the measure that the others are held against.
const CANDLE: &str = r#"
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{AdamW, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap};

fn main() -> Result<()> {
    let variables = VarMap::new();
    let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    let model = candle_nn::seq()
        .add(candle_nn::linear(2, 8, builder.pp("0"))?)
        .add_fn(|x| x.tanh())
        .add(candle_nn::linear(8, 1, builder.pp("2"))?);
    let settings = ParamsAdamW { lr: 0.05, weight_decay: 0.0, ..Default::default() };
    let mut optimizer = AdamW::new(variables.all_vars(), settings)?;
    let x = Tensor::new(&[[0f32, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], &Device::Cpu)?;
    let y = Tensor::new(&[[0f32], [1.0], [1.0], [0.0]], &Device::Cpu)?;
    for _ in 0..200 {
        let loss = (model.forward(&x)? - &y)?.sqr()?.mean_all()?;
        optimizer.backward_step(&loss)?;
    }
    println!("{}", model.forward(&x)?);
    Ok(())
}
"#;

/// A program, and what it depends on: features of the facade, or other crates.
struct Variant {
    name: &'static str,
    source: &'static str,
    depends: Depends,
}

enum Depends {
    Flambeau(&'static str),
    /// as they stand in the manifest, fetched from the registry
    Others(&'static str),
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "default features", source: NETWORK, depends: Depends::Flambeau("") },
    Variant {
        name: "with by-name",
        source: NETWORK,
        depends: Depends::Flambeau(r#", features = ["by-name"]"#),
    },
    Variant {
        name: "no default features",
        source: NETWORK,
        depends: Depends::Flambeau(", default-features = false"),
    },
    Variant {
        name: "tensors alone",
        source: TENSORS,
        depends: Depends::Flambeau(", default-features = false"),
    },
    Variant {
        name: "candle",
        source: CANDLE,
        depends: Depends::Others("candle-core = \"0.11\"\ncandle-nn = \"0.11\""),
    },
];

/// Runs cargo on the program, quietly, and says how long it took and how much processor time.
fn cargo(at: &Path, args: &[&str]) -> Result<(Duration, Option<f64>), String> {
    let before = children();
    let begun = Instant::now();
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(args)
        .current_dir(at)
        .env("CARGO_TARGET_DIR", at.join("target"))
        // the workspace's own settings are not those of a user
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_INCREMENTAL")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    let used = before.zip(children()).map(|(a, b)| b - a);
    Ok((begun.elapsed(), used))
}

/// Processor time in seconds of all processes that this one has waited for, where the system tells.
fn children() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // fields 16 and 17, counted behind the name in parentheses; in ticks of 1/100 s on Linux
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(13)? + ticks(14)?) / 100.0)
}

fn minutes(seconds: Option<f64>) -> String {
    seconds.map_or("unknown".into(), |s| format!("{:.1} min", s / 60.0))
}

/// Prints a variant's figures, and gives the weight of its stripped program in MB.
fn weigh(root: &Path, at: &Path, variant: &Variant) -> Result<f64, String> {
    let Variant { name, source, depends } = variant;
    let file = |name: &str, text: &str| {
        let to: PathBuf = at.join(name);
        let made = to.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&to, text)).map_err(|e| format!("{}: {e}", to.display()))
    };
    let dependencies = match depends {
        Depends::Flambeau(features) => {
            format!("flambeau = {{ path = {:?}{features} }}", root.join("crates/flambeau").display())
        }
        Depends::Others(lines) => (*lines).to_string(),
    };
    let manifest = format!(
        "[package]\nname = \"weighed\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n\n[workspace]\n"
    );
    file("Cargo.toml", &manifest)?;
    file("src/main.rs", source)?;
    if matches!(depends, Depends::Flambeau(_)) {
        // the versions that the workspace is tested with
        std::fs::copy(root.join("Cargo.lock"), at.join("Cargo.lock"))
            .map_err(|e| format!("Cargo.lock: {e}"))?;
    }
    cargo(at, &["fetch"])?;
    let (wall, cold) = cargo(at, &["build", "--release"])?;
    let program = at.join("target/release/weighed");
    let stripped = at.join("stripped");
    let size = |p: &Path| std::fs::metadata(p).map(|m| m.len() as f64 / 1e6).map_err(|e| e.to_string());
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(&program).status();
    let (weight, how) = match strip {
        Ok(s) if s.success() => (size(&stripped)?, "stripped"),
        _ => (size(&program)?, "not stripped, for want of the command"),
    };
    cargo(at, &["check"])?;
    file("src/main.rs", &source.replace("0..200", "0..300"))?;
    let (again, _) = cargo(at, &["build", "--release"])?;
    let (check, _) = cargo(at, &["check"])?;
    println!(
        "{name}: {} of processor time from nothing ({:.0} s), {weight:.2} MB {how}, {:.1} s after a change, check {:.1} s",
        minutes(cold),
        wall.as_secs_f64(),
        again.as_secs_f64(),
        check.as_secs_f64()
    );
    Ok(weight)
}

/// Runs the command: all variants, or those whose name contains an argument; then, where both were weighed, what a further row of
/// the tables adds to a program that calls operators by name, which has all of them. Another program pays for rows that it calls.
///
/// # Errors
/// What cargo says where the program does not build.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let mut weights = [None; VARIANTS.len()];
    for (i, variant) in VARIANTS.iter().enumerate() {
        if args.is_empty() || args.iter().any(|a| variant.name.contains(a.as_str())) {
            let at = std::env::temp_dir().join(format!("flambeau-weigh-{}-{i}", std::process::id()));
            let result = weigh(root, &at, variant);
            let _ = std::fs::remove_dir_all(&at);
            weights[i] = Some(result?);
        }
    }
    if let [Some(typed), Some(named), ..] = weights {
        let rows: usize =
            crate::table::load(root)?.iter().flat_map(|t| &t.families).map(|f| f.rows.len()).sum();
        println!("a row costs {:.1} kB by name ({rows} rows)", (named - typed) * 1000.0 / rows as f64);
    }
    Ok(true)
}
