//! `cargo xtask accuracy`: docs/accuracy.md, the largest errors of functions of one number beside PyTorch's, which
//! docs/spec/accuracy.tsv holds. Exact values of float64 stand in docs/spec/accuracy_points.tsv as a number and the rest; other
//! dtypes are compared with float64.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const DTYPES: [&str; 4] = ["float32", "float64", "float16", "bfloat16"];

/// Measures and writes the page; `--from FILE` takes what was measured from a file.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let table = root.join("docs/spec/accuracy.tsv");
    let measured = match args {
        [flag, file] if flag == "--from" => {
            std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?
        }
        [] => measure(root, &table)?,
        _ => return Err("usage: cargo xtask accuracy [--from FILE]".into()),
    };
    let theirs = std::fs::read_to_string(&table).map_err(|e| format!("{}: {e}", table.display()))?;
    let text = page(&theirs, &measured)?;
    let path = root.join("docs/accuracy.md");
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("accuracy: {} written", path.display());
    Ok(true)
}
fn measure(root: &Path, table: &Path) -> Result<String, String> {
    let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    c.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "flambeau-bench",
        "--bin",
        "accuracy",
        "--manifest-path",
    ]);
    c.arg(root.join("Cargo.toml")).arg("--").arg(table).arg(root.join("docs/spec/accuracy_points.tsv"));
    let out = c.output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
type Errors = BTreeMap<(String, String), f64>;
fn errors(text: &str) -> Result<Errors, String> {
    let mut all = Errors::new();
    for line in text.lines().filter(|l| !l.starts_with("name\t")) {
        let parts: Vec<&str> = line.split('\t').collect();
        let [name, dtype, ulp] = parts[..] else { return Err(format!("not a row: {line}")) };
        let ulp = ulp.parse().map_err(|e| format!("{line}: {e}"))?;
        all.insert((name.into(), dtype.into()), ulp);
    }
    Ok(all)
}
fn shown(v: Option<&f64>) -> String {
    match v {
        None => "".into(),
        Some(v) if v.is_infinite() => "inf".into(),
        Some(v) if *v < 100.0 => format!("{v:.2}"),
        Some(v) => format!("{v:.0e}"),
    }
}
/// The page: a row for each function, two columns for each dtype.
fn page(theirs: &str, ours: &str) -> Result<String, String> {
    let order: Vec<&str> = {
        let mut seen = Vec::new();
        for n in theirs.lines().skip(1).filter_map(|l| l.split('\t').next()) {
            if !seen.contains(&n) {
                seen.push(n);
            }
        }
        seen
    };
    let (theirs, ours) = (errors(theirs)?, errors(ours)?);
    let mut out = String::from(
        "# Accuracy\n\nWritten by `cargo xtask accuracy`. The largest distance of a result from the exact value, in units in the \
         last place of the exact value: 0.5 is the best that any result can have. Left out are results below the smallest \
         normal number. Arguments of float32 are 2^19 numbers, as many of each binade; of 16 bits all numbers; of float64 those of \
         [accuracy_points.tsv](spec/accuracy_points.tsv), whose exact values were computed with 240 bits. PyTorch's errors \
         ([accuracy.tsv](spec/accuracy.tsv)) are those of PyTorch 2.15 on a CPU with AVX-512, at the same arguments. Errors near the zeros of a \
         function are large in this measure where a neighbouring argument gives a much different value.\n\n",
    );
    let _ = write!(out, "| function |");
    for d in DTYPES {
        let _ = write!(out, " {d} | PyTorch |");
    }
    let _ = write!(out, "\n|---|{}\n", "---:|".repeat(2 * DTYPES.len()));
    for name in order {
        let _ = write!(out, "| `{name}` |");
        for d in DTYPES {
            let key = (name.to_string(), d.to_string());
            let _ = write!(out, " {} | {} |", shown(ours.get(&key)), shown(theirs.get(&key)));
        }
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_both_sides() {
        let text =
            page("name\tdtype\tulp\ntorch.exp\tfloat32\t0.55\n", "torch.exp\tfloat32\t0.501\n").unwrap();
        assert!(text.contains("| `torch.exp` | 0.50 | 0.55 |"), "{text}");
        assert!(page("name\tdtype\tulp\nx\n", "").is_err());
    }
}
