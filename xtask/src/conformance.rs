//! `cargo xtask conformance [DIR] [flags]`: builds and runs the judge of recorded calls.

use std::path::Path;
use std::process::Command;

/// The judge, in release form, from any working directory.
pub fn command(root: &Path) -> Command {
    with_features(root, &[])
}
fn with_features(root: &Path, features: &[&str]) -> Command {
    let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    c.args(["run", "--quiet", "--release", "--package", "flambeau-conformance", "--manifest-path"]);
    c.arg(root.join("Cargo.toml"));
    features.iter().for_each(|f| {
        c.args(["--features", f]);
    });
    c.arg("--");
    c
}

/// Passes everything on; `--device cuda` builds the judge with that back end.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let cuda = args.windows(2).any(|a| a[0] == "--device" && a[1].starts_with("cuda"));
    let mut judge = with_features(root, if cuda { &["cuda"] } else { &[] });
    judge.args(args).status().map(|s| s.success()).map_err(|e| e.to_string())
}
