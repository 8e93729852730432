//! `cargo xtask conformance [DIR] [flags]`: builds and runs the judge of recorded calls.

use std::path::Path;
use std::process::Command;

/// The judge, in release form, from any working directory.
pub fn command(root: &Path) -> Command {
    let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    c.args(["run", "--quiet", "--release", "--package", "flambeau-conformance", "--manifest-path"]);
    c.arg(root.join("Cargo.toml")).arg("--");
    c
}

/// Passes everything on.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    command(root).args(args).status().map(|s| s.success()).map_err(|e| e.to_string())
}
