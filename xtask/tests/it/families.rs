//! A family of operators is called the same on every floor: its table, what is written by hand for it, its kernels, its
//! derivatives. And no file is named for its age or its likeness to another: a name says what is inside.

use super::{report, root, sources};
use std::collections::BTreeSet;
use std::fs;

/// Rooms beside families, by floor.
const ROOMS: &[(&str, &[&str])] = &[
    // how tasks and instruction sets are picked, element types, functions of vectors, and formulas, whose files go by kind
    ("crates/flambeau-cpu/src", &["engine", "num", "vmath", "pointwise", "lib"]),
    // what hand-written bodies of several families share
    ("crates/flambeau-nn-functional/src/ops", &["operands"]),
    ("crates/flambeau-fft/src/ops", &["util"]),
    ("crates/flambeau-linalg/src/ops", &["util"]),
    ("crates/flambeau-masked/src/ops", &["mask", "wrapped"]),
    ("crates/flambeau-optim/src/ops", &["lists"]),
    // how a fused operator's gradient is differentiated again
    ("crates/flambeau-nn-functional/src/derivatives", &["unfused"]),
    // operators that formulas are written in
    ("crates/flambeau-core/src/derivatives", &["shorthand"]),
];

/// Names that say nothing of what is inside.
#[rustfmt::skip]
const SILENT: &[&str] = &[
    "common", "ext", "helpers", "late", "misc", "more", "native", "number", "numeric", "other",
    "record", "stuff", "util", "various",
];

fn stems(dir: &str) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(root().join(dir)) else { return BTreeSet::new() };
    entries
        .flatten()
        .map(|e| e.path())
        .filter_map(|p| Some(p.file_stem()?.to_string_lossy().into_owned()))
        .filter(|n| n != "mod")
        .collect()
}

#[test]
fn families_have_one_name_on_every_floor() {
    let crates = stems("crates");
    let mut families: BTreeSet<String> = BTreeSet::new();
    let mut broken = Vec::new();
    for c in &crates {
        for f in stems(&format!("crates/{c}/ops")) {
            let text = fs::read_to_string(root().join(format!("crates/{c}/ops/{f}.toml"))).expect("a table");
            if text.lines().next() != Some(&format!("family = \"{f}\"")) {
                broken.push(format!("crates/{c}/ops/{f}.toml is the table of another family"));
            }
            families.insert(f);
        }
    }
    assert!(families.len() > 30, "only {} families found", families.len());
    // list forms of rows make a family of their own, and a crate of one domain may be one
    families.insert("foreach".into());
    families.extend(crates.iter().filter_map(|c| c.strip_prefix("flambeau-")).map(str::to_string));
    let by_crate = |c: &String| ["src/ops", "src/derivatives"].map(|d| format!("crates/{c}/{d}"));
    let tabled = crates.iter().filter(|c| !stems(&format!("crates/{c}/ops")).is_empty());
    let floors = tabled.flat_map(by_crate).chain(["crates/flambeau-cpu/src".to_string()]);
    let mut seen = 0;
    for floor in floors {
        let rooms = ROOMS.iter().find(|r| r.0 == floor).map_or(&[][..], |r| r.1);
        for name in stems(&floor) {
            seen += 1;
            if !families.contains(&name) && !rooms.contains(&name.as_str()) {
                broken.push(format!("{floor}/{name}: no table of that name"));
            }
        }
    }
    assert!(seen > 80, "only {seen} files seen: the walk is broken");
    report("the same family has the same name on every floor", &broken);
}

#[test]
fn names_of_files_say_what_is_inside() {
    let stem = |path: &str| -> Option<String> {
        let p = std::path::Path::new(path);
        let stem = p.file_stem()?.to_string_lossy().into_owned();
        let folder = p.parent()?.file_name()?.to_string_lossy().into_owned();
        Some(if stem == "mod" { folder } else { stem })
    };
    let broken: Vec<String> = sources()
        .into_iter()
        .filter(|s| s.path.contains("/src/") && !s.generated())
        .filter(|s| !s.path.ends_with("/src/ops/util.rs"))
        .filter(|s| stem(&s.path).is_some_and(|n| SILENT.contains(&n.as_str())))
        .map(|s| s.path)
        .collect();
    report("files are named for what they hold", &broken);
}
