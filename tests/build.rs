//! Collects the examples in the documentation of the crates below the facade, as items that carry them as theirs.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Crates whose examples are about themselves stay with them: kernels, memory, element types, macros; and the facade's.
const OWN: [&str; 8] = [
    "flambeau",
    "flambeau-cpu",
    "flambeau-cpu-fft",
    "flambeau-cpu-linalg",
    "flambeau-dtype",
    "flambeau-macros",
    "flambeau-memory",
    "flambeau-conformance",
];

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    println!("cargo::rerun-if-changed={}", crates.display());
    let mut files = Vec::new();
    collect(&crates, &mut files);
    files.sort();
    let mut out = String::new();
    for file in files {
        let inner = file.strip_prefix(&crates).expect("a file of the folder");
        let mut parts = inner.components().map(|c| c.as_os_str().to_string_lossy());
        let name = parts.next().expect("a crate");
        if OWN.contains(&&*name) || parts.next().as_deref() != Some("src") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a readable source");
        let item = inner.with_extension("").to_string_lossy().replace(['/', '\\', '-'], "_");
        for (line, example) in examples(&text) {
            let _ = write!(out, "{example}pub mod {item}_line_{line} {{}}\n\n");
        }
    }
    let to = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("examples.rs");
    std::fs::write(to, out).expect("a writable folder");
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            // examples of rows are tests of the facade
            if path.file_name().is_none_or(|n| n != "generated") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// Each example of a file: the line where it begins, and its lines as documentation.
fn examples(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut open): (Vec<(usize, String)>, Option<bool>) = (Vec::new(), None);
    for (i, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            open = None;
            continue;
        };
        let fence = doc.trim_start().strip_prefix("```");
        match (fence, open) {
            (Some(kind), None) => {
                let code = ["", "no_run", "should_panic", "compile_fail"].contains(&kind.trim());
                if code {
                    found.push((i + 1, format!("///{doc}\n")));
                }
                open = Some(code);
            }
            (_, Some(code)) => {
                if let Some((_, example)) = found.last_mut().filter(|_| code) {
                    let _ = writeln!(example, "///{doc}");
                }
                if fence.is_some() {
                    open = None;
                }
            }
            (None, None) => {}
        }
    }
    found
}
