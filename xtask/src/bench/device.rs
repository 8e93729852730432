//! `cargo xtask bench --device NAME`: the rows of `benches/src/bin/device.rs` on a device, and in PyTorch beside them where that
//! sees the device.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Microseconds of a call, and what it moves or computes in a second, by row.
type Rows = BTreeMap<String, (f64, f64)>;

fn read(path: &Path) -> Result<(Vec<String>, Rows), String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let (mut order, mut rows) = (Vec::new(), Rows::new());
    for line in text.lines() {
        let mut parts = line.split('\t');
        let (Some(name), Some(us), Some(rate)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let number = |t: &str| t.parse().map_err(|_| format!("{}: {line}", path.display()));
        order.push(name.to_string());
        rows.insert(name.to_string(), (number(us)?, number(rate)?));
    }
    Ok((order, rows))
}
/// A line for each row: our time, its rate, theirs, and the ratio; then the geometric mean of the ratios.
fn table(order: &[String], ours: &Rows, theirs: &Rows) -> String {
    let mut out = format!("{:<28} {:>12} {:>10} {:>12} {:>7}\n", "row", "us", "G/s", "PyTorch us", "ratio");
    let (mut logs, mut n) = (0.0, 0);
    for name in order {
        let Some((us, rate)) = ours.get(name) else { continue };
        let other = theirs.get(name).map(|t| t.0);
        let ratio = other.map(|t| us / t);
        if let Some(r) = ratio {
            logs += r.ln();
            n += 1;
        }
        let show = |v: Option<f64>, digits: usize| v.map_or("-".to_string(), |v| format!("{v:.digits$}"));
        let _ =
            writeln!(out, "{name:<28} {us:>12.2} {rate:>10.1} {:>12} {:>7}", show(other, 2), show(ratio, 2));
    }
    if n > 0 {
        let _ = writeln!(out, "geometric mean of {n} rows: {:.3}", (logs / f64::from(n)).exp());
    }
    out
}

/// Builds and runs both sides; prints the table.
pub fn run(
    root: &Path,
    device: &str,
    only: &[String],
    python: Option<&Path>,
    out: Option<&Path>,
) -> Result<bool, String> {
    let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    c.args(["build", "--quiet", "--release", "--package", "flambeau-bench", "--features", "cuda"]);
    c.args(["--bin", "flambeau-bench-device", "--manifest-path"]).arg(root.join("Cargo.toml"));
    if !c.status().is_ok_and(|s| s.success()) {
        return Err("flambeau-bench-device does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let program =
        target.join("release/flambeau-bench-device").with_extension(std::env::consts::EXE_EXTENSION);
    let folder = out.map_or_else(|| target.join("release/bench"), Path::to_path_buf);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let (ours, theirs) = (folder.join("device.tsv"), folder.join("device-pytorch.tsv"));
    let part = only.first().map(String::as_str).unwrap_or_default();
    let status = Command::new(program).arg(device).arg(&ours).arg(part).status();
    if !status.is_ok_and(|s| s.success()) {
        return Err("flambeau-bench-device failed".into());
    }
    let (order, mine) = read(&ours)?;
    let other = match python {
        Some(python) => {
            let script = root.join("benches/pytorch_device.py");
            let status = Command::new(python).arg(script).arg(device).arg(&theirs).arg(part).status();
            if status.is_ok_and(|s| s.success()) { read(&theirs)?.1 } else { Rows::new() }
        }
        None => Rows::new(),
    };
    print!("{}", table(&order, &mine, &other));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table() {
        let order = ["add".to_string(), "sum".to_string()];
        let ours = Rows::from([("add".into(), (1.0, 3.0)), ("sum".into(), (4.0, 0.0))]);
        let theirs = Rows::from([("add".into(), (2.0, 1.5))]);
        let t = table(&order, &ours, &theirs);
        assert!(t.contains("0.50") && t.contains("geometric mean of 1 rows: 0.500"), "{t}");
        assert!(t.lines().nth(2).is_some_and(|l| l.starts_with("sum") && l.ends_with('-')), "{t}");
    }
}
