//! `cargo xtask coverage [--check]`: docs/coverage.md, the inventory of PyTorch's documented names (docs/spec/api.tsv) against
//! what can be called by name and what the Rust API's `#[doc(alias)]`es name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A row of the inventory.
struct Name {
    name: String,
    section: String,
}

/// What becomes of a row.
#[derive(PartialEq)]
enum State {
    Works,
    NotApplicable(String),
    /// Perhaps with what it waits for.
    Missing(Option<String>),
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}
/// Rows of a tab-separated file with a heading.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).filter(|l| !l.is_empty()).map(|l| l.split('\t').collect())
}

/// All hand-written and generated sources of the library crates.
pub fn sources(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut out = Vec::new();
    let mut todo = vec![root.join("crates")];
    while let Some(dir) = todo.pop() {
        for e in std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))? {
            let p = e.map_err(|e| e.to_string())?.path();
            if p.is_dir() {
                todo.push(p);
            } else if p.extension().is_some_and(|x| x == "rs") {
                out.push(p);
            }
        }
    }
    out.sort();
    Ok(out)
}

/// Writes docs/coverage.md, or compares it.
pub fn run(root: &Path, args: &[String]) -> Result<bool, String> {
    let check = args.iter().any(|a| a == "--check");
    let names = super::conformance::command(root).arg("--names").output().map_err(|e| e.to_string())?;
    if !names.status.success() {
        return Err(String::from_utf8_lossy(&names.stderr).into_owned());
    }
    let mut known: BTreeSet<String> =
        String::from_utf8_lossy(&names.stdout).lines().map(str::to_string).collect();
    let mut missing_places: BTreeMap<String, usize> = BTreeMap::new();
    for path in sources(root)? {
        let text = read(&path)?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let judge = shown.contains("flambeau-conformance") || shown.contains("/tests/");
        for line in text.lines() {
            if let Some(alias) =
                line.trim().strip_prefix("#[doc(alias = \"").and_then(|l| l.strip_suffix("\")]"))
            {
                known.insert(alias.to_string());
            }
            let makes = ["Error::missing(", "bail!(Missing", "ensure!(", "ErrorKind::Missing, "];
            let hit =
                makes.iter().any(|m| line.contains(m) && (*m != "ensure!(" || line.contains(", Missing,")));
            if hit && !judge && !line.trim_start().starts_with("//") {
                *missing_places.entry(shown.clone()).or_default() += 1;
            }
        }
    }
    let inventory = read(&root.join("docs/spec/api.tsv"))?;
    let reasons = read(&root.join("docs/spec/reasons.tsv"))?;
    let reasons: Vec<(&str, &str)> = rows(&reasons).filter_map(|r| Some((*r.first()?, *r.get(1)?))).collect();
    let text = page(&inventory, &known, &reasons, &missing_places);
    let path = root.join("docs/coverage.md");
    if check {
        if read(&path).unwrap_or_default() == text {
            return Ok(true);
        }
        println!("docs/coverage.md is stale: run `cargo xtask coverage`");
        return Ok(false);
    }
    std::fs::create_dir_all(root.join("docs")).map_err(|e| e.to_string())?;
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(true)
}

/// The reason that holds for a name (with `later: ` in front, the name is missing for now, and why): of the name itself, of its section (`section:NAME`), or of a prefix (`torch.x.*`).
fn reason(name: &str, section: &str, reasons: &[(&str, &str)]) -> Option<String> {
    let hit = |pattern: &str| match (pattern.strip_prefix("section:"), pattern.strip_suffix('*')) {
        (Some(s), _) => s == section,
        (_, Some(p)) => name.starts_with(p),
        _ => pattern == name,
    };
    reasons.iter().find(|(p, _)| hit(p)).map(|(_, r)| (*r).to_string())
}

fn page(
    inventory: &str,
    known: &BTreeSet<String>,
    reasons: &[(&str, &str)],
    places: &BTreeMap<String, usize>,
) -> String {
    let mut sections: BTreeMap<String, Vec<(Name, State)>> = BTreeMap::new();
    for r in rows(inventory) {
        let (Some(name), Some(section)) = (r.first(), r.get(2)) else { continue };
        let state = if known.contains(*name) {
            State::Works
        } else {
            match reason(name, section, reasons) {
                None => State::Missing(None),
                Some(r) => match r.strip_prefix("later: ") {
                    Some(later) => State::Missing(Some(later.to_string())),
                    None => State::NotApplicable(r),
                },
            }
        };
        let row = Name { name: (*name).to_string(), section: (*section).to_string() };
        sections.entry(row.section.clone()).or_default().push((row, state));
    }
    let mut s = String::from(
        "# What of PyTorch's documented API works\n\nWritten by `cargo xtask coverage` from docs/spec/api.tsv, docs/spec/reasons.tsv and the program itself. \
         A name works when it can be called by name or is a `#[doc(alias)]` of the Rust API.\n\n\
         | section | works | missing | not applicable |\n|---|---:|---:|---:|\n",
    );
    let count = |v: &[(Name, State)], f: fn(&State) -> bool| v.iter().filter(|r| f(&r.1)).count();
    let (works, missing, other): (fn(&State) -> bool, fn(&State) -> bool, fn(&State) -> bool) = (
        |s| *s == State::Works,
        |s| matches!(s, State::Missing(_)),
        |s| matches!(s, State::NotApplicable(_)),
    );
    let mut total = [0; 3];
    for (name, v) in &sections {
        let n = [count(v, works), count(v, missing), count(v, other)];
        let _ = writeln!(s, "| {name} | {} | {} | {} |", n[0], n[1], n[2]);
        total.iter_mut().zip(n).for_each(|(t, n)| *t += n);
    }
    let _ = writeln!(s, "| **all** | {} | {} | {} |", total[0], total[1], total[2]);
    for (section, v) in &sections {
        let _ = writeln!(s, "\n## {section}\n");
        let list = |f: fn(&State) -> bool| {
            v.iter().filter(|r| f(&r.1)).map(|r| format!("`{}`", r.0.name)).collect::<Vec<_>>().join(", ")
        };
        for (title, f) in [("Works", works), ("Missing", |s: &State| *s == State::Missing(None))] {
            let l = list(f);
            if !l.is_empty() {
                let _ = writeln!(s, "{title}: {l}\n");
            }
        }
        let mut by_reason: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        for (n, state) in v {
            let why = match state {
                State::Missing(Some(r)) => ("Missing", r),
                State::NotApplicable(r) => ("Not applicable", r),
                _ => continue,
            };
            by_reason.entry((why.0, why.1)).or_default().push(format!("`{}`", n.name));
        }
        for ((kind, r), names) in by_reason {
            let _ = writeln!(s, "{kind}, {r}: {}\n", names.join(", "));
        }
    }
    s.push_str("\n## Where the program says that something is missing\n\nFiles that can return an error of kind `Missing`, and at how many places.\n\n");
    for (file, n) in places {
        let _ = writeln!(s, "- {file}: {n}");
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_states() {
        let inventory = "name\tkind\tsection\tsignature\ntorch.add\tfunction\tpointwise\t\ntorch.cuda.init\tfunction\tcuda\t\ntorch.sub\tfunction\tpointwise\t\n";
        let known = BTreeSet::from(["torch.add".to_string()]);
        let s = page(
            inventory,
            &known,
            &[("torch.cuda.*", "no GPU here")],
            &BTreeMap::from([("src/a.rs".to_string(), 1)]),
        );
        assert!(s.contains("| pointwise | 1 | 1 | 0 |") && s.contains("| cuda | 0 | 0 | 1 |"), "{s}");
        assert!(
            s.contains("Missing: `torch.sub`")
                && s.contains("Not applicable, no GPU here: `torch.cuda.init`")
        );
        assert!(s.contains("- src/a.rs: 1"));
        let s = page(inventory, &known, &[("torch.cuda.*", "later: no GPU yet")], &BTreeMap::new());
        assert!(
            s.contains("| cuda | 0 | 1 | 0 |") && s.contains("Missing, no GPU yet: `torch.cuda.init`"),
            "{s}"
        );
        assert_eq!(reason("x", "cuda", &[("section:cuda", "r")]).as_deref(), Some("r"));
    }
}
