//! What an operator costs in hand-written lines, and that the documents show the code that is there.

use super::root;
use std::fs;

/// Lines of the item that begins at the line containing `start`: with its doc lines and attributes, to the first line
/// that is `end` or, where `end` is empty, to the line before the next doc comment, attribute or blank line.
fn item(file: &str, start: &str, end: &str) -> usize {
    let text = fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|l| l.trim_start().starts_with(start))
        .unwrap_or_else(|| panic!("{file} has no `{start}`"));
    let above = |l: &str| l.starts_with("///") || l.starts_with("#[") || l == "[[op]]";
    let first = at - lines[..at].iter().rev().take_while(|l| above(l.trim())).count();
    let stops = |l: &str| if end.is_empty() { l.trim().is_empty() || above(l.trim()) } else { l == end };
    let last = (at + 1..lines.len()).find(|j| stops(lines[*j])).unwrap_or(lines.len());
    last - first + usize::from(!end.is_empty())
}

const FUNCTIONAL: &str = "crates/flambeau-nn-functional";
const CPU: &str = "crates/flambeau-cpu";

/// The lines of parts `(what, crate, file, start, end)` together.
fn cost(parts: &[(&str, &str, &str, &str, &str)]) -> (usize, String) {
    let lines: Vec<usize> = parts.iter().map(|p| item(&format!("{}/{}", p.1, p.2), p.3, p.4)).collect();
    let text: Vec<String> = parts.iter().zip(&lines).map(|(p, n)| format!("{} {n}", p.0)).collect();
    (lines.iter().sum(), text.join(", "))
}

/// What a person writes for one pointwise operator with its gradient: the table row, the formula and the derivative, in the
/// files of one family. docs/architecture.md shows it as the worked example.
#[test]
fn softplus_keeps_its_budget() {
    let (total, text) = cost(&[
        ("row", FUNCTIONAL, "ops/activation.toml", "schema = \"softplus(", ""),
        ("formula", CPU, "src/pointwise/activation.rs", "fn softplus<", "}"),
        ("kernel", CPU, "src/pointwise/activation.rs", "SOFTPLUS = ", ""),
        ("derivative", FUNCTIONAL, "src/derivatives/activation.rs", "pub fn softplus_backward", "}"),
    ]);
    assert!((10..=40).contains(&total), "softplus takes {total} hand-written lines: {text}");
}

/// A structured operator with two outputs, an optional input and a gradient that differentiates again: row, shape rule, kernel
/// with its call, and derivative.
#[test]
fn rms_norm_keeps_its_budget() {
    let (total, text) = cost(&[
        ("row", FUNCTIONAL, "ops/norm.toml", "schema = \"_fused_rms_norm(", ""),
        ("shape", FUNCTIONAL, "src/ops/norm/rows.rs", "pub fn fused_rms_norm_shape", "}"),
        ("call", FUNCTIONAL, "src/ops/norm/rows.rs", "pub fn fused_rms_norm_cpu", "}"),
        ("dtypes", CPU, "src/norm/erased.rs", "pub fn rms_norm(", "}"),
        ("kernel", CPU, "src/norm/layer.rs", "pub fn rms_norm<", "}"),
        ("derivative", FUNCTIONAL, "src/derivatives/norm.rs", "pub fn rms_norm_grad", "}"),
        ("derivative again", FUNCTIONAL, "src/derivatives/norm.rs", "pub fn rms_norm(", "    }"),
    ]);
    assert!((40..=90).contains(&total), "_fused_rms_norm takes {total} hand-written lines: {text}");
}

/// The listings of the worked example are the code, line by line.
#[test]
fn the_worked_example_is_the_code() {
    let read = |p: &str| fs::read_to_string(root().join(p)).unwrap_or_else(|e| panic!("{p}: {e}"));
    let files = [
        "crates/flambeau-nn-functional/ops/activation.toml",
        "crates/flambeau-cpu/src/pointwise/activation.rs",
        "crates/flambeau-nn-functional/src/derivatives/activation.rs",
    ]
    .map(read);
    let document = read("docs/architecture.md");
    let (_, rest) = document.split_once("\n## Worked example").expect("a worked example");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    let listings: Vec<&str> = section.split("```").skip(1).step_by(2).collect();
    assert_eq!(listings.len(), files.len(), "one listing for each file");
    for (listing, file) in listings.iter().zip(&files) {
        let known: Vec<&str> = file.lines().map(str::trim).collect();
        for line in listing.lines().skip(1).map(str::trim).filter(|l| !l.is_empty()) {
            assert!(known.contains(&line), "docs/architecture.md shows what is not in the code: {line}");
        }
    }
}
