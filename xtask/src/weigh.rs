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

/// A name, and how the program depends on Flambeau.
const VARIANTS: [(&str, &str); 3] = [
    ("default features", ""),
    ("with by-name", r#", features = ["by-name"]"#),
    ("no default features", ", default-features = false"),
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

fn weigh(root: &Path, at: &Path, name: &str, dependency: &str) -> Result<(), String> {
    let file = |name: &str, text: &str| {
        let to: PathBuf = at.join(name);
        let made = to.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&to, text)).map_err(|e| format!("{}: {e}", to.display()))
    };
    let facade = root.join("crates/flambeau");
    let manifest = format!(
        "[package]\nname = \"weighed\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nflambeau = {{ path = {:?}{dependency} }}\n\n[workspace]\n",
        facade.display()
    );
    file("Cargo.toml", &manifest)?;
    file("src/main.rs", NETWORK)?;
    // the versions that the workspace is tested with
    std::fs::copy(root.join("Cargo.lock"), at.join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
    cargo(at, &["fetch"])?;
    let (wall, cold) = cargo(at, &["build", "--release"])?;
    let program = at.join("target/release/weighed");
    let stripped = at.join("stripped");
    let size = |p: &Path| std::fs::metadata(p).map(|m| m.len() as f64 / 1e6).map_err(|e| e.to_string());
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(&program).status();
    let weight = match strip {
        Ok(s) if s.success() => format!("{:.2} MB stripped", size(&stripped)?),
        _ => format!("{:.2} MB (no strip here)", size(&program)?),
    };
    cargo(at, &["check"])?;
    file("src/main.rs", &NETWORK.replace("0..200", "0..300"))?;
    let (again, _) = cargo(at, &["build", "--release"])?;
    let (check, _) = cargo(at, &["check"])?;
    println!(
        "{name}: {} of processor time from nothing ({:.0} s), {weight}, {:.1} s after a change, check {:.1} s",
        minutes(cold),
        wall.as_secs_f64(),
        again.as_secs_f64(),
        check.as_secs_f64()
    );
    Ok(())
}

/// Runs the command: all variants, or those whose name contains an argument.
///
/// # Errors
/// What cargo says where the program does not build.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    for (i, (name, dependency)) in VARIANTS.iter().enumerate() {
        if args.is_empty() || args.iter().any(|a| name.contains(a.as_str())) {
            let at = std::env::temp_dir().join(format!("flambeau-weigh-{}-{i}", std::process::id()));
            let result = weigh(root, &at, name, dependency);
            let _ = std::fs::remove_dir_all(&at);
            result?;
        }
    }
    Ok(true)
}
