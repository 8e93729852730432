//! `cargo xtask examples`: public types, traits and functions of the facade whose page shows no example that runs.
//!
//! Counted is what is written by hand and what a module of `torch` shows: re-exports are followed, rows of macros are items.
//! Left out are what `codegen` writes (a row has its own example), options, constants, methods, macros, what is deprecated (its text
//! leads to the new name), and names of function types (a program writes a closure). Forms of one function, `NAME`, `NAME_`, `NAME_with`
//! and `try_NAME`, are one.
//!
//! A name is told if an example that runs
//! - stands in its own documentation, or in that of a method of it, or
//! - names it, and stands in the same file, or in the documentation of a module that leads to it, or of what its text links to.
//!
//! What is not told stands in `xtask/without_examples.txt` below a line that begins with `#` and says why. A name that is neither told
//! nor listed, and one that is both, fail; `names_without_examples_grow_fewer` (xtask/tests/it) holds that the list only shrinks.

#[allow(dead_code, reason = "the facade's tests use the rest")]
#[path = "../../crates/flambeau/tests/it/surface/names.rs"]
mod names;

use crate::tidy::is_word;
use names::{Kind, Names};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const LIST: &str = "xtask/without_examples.txt";

/// A doc comment.
#[derive(Default)]
struct Doc {
    /// The module that its file is.
    module: String,
    /// It is its module's own.
    own: bool,
    /// What it documents.
    subject: String,
    /// It documents an item, not a field or a method.
    item: bool,
    /// The item is a row of a macro.
    row: bool,
    /// The names of the `impl` or the trait that it stands in.
    of: BTreeSet<String>,
    /// What stands between it and its subject, with the subject's line.
    head: String,
    links: BTreeSet<String>,
    /// An example that runs.
    runs: bool,
    /// Names in examples that run.
    names: BTreeSet<String>,
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|w| !w.is_empty())
}

/// The doc comments of a file.
fn docs(module: &str, text: &str) -> Vec<Doc> {
    let (mut all, mut doc) = (Vec::new(), None::<Doc>);
    // within a code block, and whether that runs; within a macro's call or a module; within an `impl` or a trait; brackets of an attribute
    let (mut code, mut call, mut inline, mut of, mut depth) = (None, false, false, BTreeSet::new(), 0);
    for line in text.replace("=\n    ", "= ").lines() {
        let (bare, top) = (line.trim(), !line.starts_with(' '));
        let inner = bare.strip_prefix("//!");
        if let Some(said) = inner.or_else(|| bare.strip_prefix("///")) {
            let d = doc.get_or_insert_with(|| Doc { module: module.into(), ..Doc::default() });
            d.own |= inner.is_some();
            match (said.trim().strip_prefix("```"), code) {
                (Some(kind), None) => code = Some(matches!(kind, "" | "should_panic")),
                (Some(_), Some(_)) => code = None,
                (None, Some(true)) => {
                    d.runs = true;
                    d.names.extend(words(said).map(str::to_owned));
                }
                (None, None) => {
                    let links = said.split("[`").skip(1).filter_map(|l| l.split('`').next());
                    d.links.extend(links.flat_map(words).map(str::to_owned));
                }
                _ => {}
            }
            continue;
        }
        code = None;
        if let Some(d) = &mut doc {
            d.head.push_str(bare);
            d.head.push('\n');
            if depth > 0 || bare.starts_with("#[") {
                let count = |c: [char; 2]| bare.matches(c).count() as i64;
                depth += count(['[', '(']) - count([']', ')']);
                continue;
            }
            let no_name = [
                "pub", "crate", "unsafe", "async", "const", "struct", "enum", "trait", "fn", "type", "mod",
                "try",
            ];
            let mut bare =
                bare.split('"').enumerate().filter(|(i, _)| i % 2 == 0).flat_map(|(_, t)| words(t));
            d.subject = bare.find(|w| !no_name.contains(w)).unwrap_or_default().into();
            let within = line.starts_with("    ") && !line.starts_with("     ");
            (d.item, d.row) = (!d.own && (top || within && (call || inline)), within && call);
            d.of = of.clone();
            all.extend(doc.take());
        }
        if top && !bare.is_empty() {
            let header = line.split_once(" where").map_or(line, |(h, _)| h);
            of = match ["impl", "pub trait"].iter().any(|k| line.starts_with(k)) {
                true => words(header).map(str::to_owned).collect(),
                false => BTreeSet::new(),
            };
            let name = line.split('!').next().unwrap_or_default();
            call = line.contains('!') && name.chars().all(is_word) && name != "macro_rules";
            inline = (line.starts_with("pub mod") || line.starts_with("mod")) && line.ends_with('{');
        }
    }
    // a file that holds nothing but its own documentation
    all.extend(doc);
    all
}

/// The doc comments of what is written by hand in the library's crates, by crate.
fn read(root: &Path) -> Result<BTreeMap<String, Vec<Doc>>, String> {
    let mut all: BTreeMap<String, Vec<Doc>> = BTreeMap::new();
    for path in crate::coverage::sources(root)? {
        let inner = path.strip_prefix(root.join("crates")).map_err(|e| e.to_string())?.with_extension("");
        let mut parts: Vec<String> = inner.iter().map(|p| p.to_string_lossy().replace('-', "_")).collect();
        if parts.len() < 3 || parts.remove(1) != "src" || parts.iter().any(|p| p == "generated") {
            continue;
        }
        parts.pop_if(|p| *p == "mod" || *p == "lib");
        if parts[0] == "flambeau" {
            parts[0] = "torch".into();
        }
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        all.entry(parts[0].clone()).or_default().extend(docs(&parts.join("::"), &text));
    }
    Ok(all)
}

/// The name that all forms of a function share, the one in place included.
fn stem(name: &str) -> String {
    let plain = name.strip_prefix("try_").unwrap_or(name).trim_end_matches('_');
    plain.strip_suffix("_with").unwrap_or(plain).to_owned()
}

/// Whether `path` is the module or lies in it.
fn inside(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The names of the facade, of each thing the shortest; and those of them that are not told.
fn untold(root: &Path) -> Result<(BTreeSet<String>, BTreeSet<String>), String> {
    let (docs, names) = (read(root)?, Names::read());
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |origin: String, shown: String| {
        let place = places.entry(origin).or_insert_with(|| shown.clone());
        if (shown.matches("::").count(), &shown) < (place.matches("::").count(), place) {
            *place = shown;
        }
    };
    for (module, entries) in names.modules() {
        let options = |name: &str| name.ends_with("Options");
        for (name, entry) in entries.iter().filter(|(n, e)| e.kind != Kind::Module && !options(n)) {
            let name = stem(name);
            for at in entry.origins.iter().filter(|at| !at.contains("::generated::")) {
                let at = at.rsplit_once("::").map_or("", |(m, _)| m);
                add(format!("{at}::{name}"), format!("{module}::{name}"));
            }
        }
        let Some(place) = names.place(&module) else { continue };
        let krate = docs.get(place.split("::").next().unwrap_or_default());
        for d in krate.into_iter().flatten().filter(|d| d.row && d.module == place && !options(&d.subject)) {
            add(format!("{place}::{}", stem(&d.subject)), format!("{module}::{}", stem(&d.subject)));
        }
    }
    let mut told_or_left = [BTreeSet::new(), BTreeSet::new()];
    for (origin, shown) in places {
        let Some((module, name)) = origin.rsplit_once("::") else { continue };
        let Some(all) = docs.get(module.split("::").next().unwrap_or_default()) else { continue };
        let is = |word: &str| word == name || stem(word) == name;
        let mut own: Vec<&Doc> =
            all.iter().filter(|d| d.item && is(&d.subject) && inside(module, &d.module)).collect();
        // some are known by a module that re-exports them
        if own.is_empty() {
            own = all.iter().filter(|d| d.item && is(&d.subject) && inside(&d.module, module)).collect();
        }
        let own_file = own.iter().map(|d| d.module.len()).max().unwrap_or(0);
        let own: Vec<&&Doc> = own.iter().filter(|d| d.module.len() == own_file).collect();
        let out = |d: &Doc| {
            let line = d.head.lines().last().unwrap_or_default();
            let closure = line.starts_with("pub type") && (line.contains("dyn Fn") || line.contains("fn("));
            let private = line.starts_with("pub(") || line.starts_with("mod ");
            let value = ["const ", "static "].iter().any(|k| line.trim_start_matches("pub ").starts_with(k));
            closure || private || value || d.head.contains("#[deprecated")
        };
        if module.starts_with("flambeau_macros") || own.iter().any(|d| out(d)) {
            continue;
        }
        let named = |d: &Doc| d.names.iter().any(|w| is(w));
        let file = own.first().map_or(module, |d| &d.module);
        let links: BTreeSet<&String> = own.iter().flat_map(|d| &d.links).collect();
        let leads = docs.get("torch").into_iter().flatten().filter(|d| inside(&shown, &d.module));
        let told = own.iter().any(|d| d.runs)
            || leads.chain(all).any(|d| d.own && inside(module, &d.module) && named(d))
            || all.iter().any(|d| {
                let linked = d.item && links.contains(&d.subject) || d.of.iter().any(|w| links.contains(w));
                d.runs && (!d.item && d.of.contains(name) || named(d) && (d.module == file || linked))
            });
        told_or_left[usize::from(told)].insert(shown);
    }
    // forms of one name may be defined in several places
    let [left, told] = told_or_left;
    Ok((&left | &told, &left - &told))
}

/// Counts and judges.
pub fn run(root: &Path, _: &[String]) -> Result<bool, String> {
    let (all, left) = untold(root)?;
    let list = std::fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let listed: BTreeSet<String> = list.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
    for name in left.difference(&listed) {
        println!("{name} has no example that runs");
    }
    for name in listed.difference(&left) {
        println!("{name} has an example, or is gone: strike it out of {LIST}");
    }
    println!(
        "{} names, {} with an example, {} listed with a reason",
        all.len(),
        all.len() - left.len(),
        listed.len()
    );
    Ok(left == listed)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn every_name_has_an_example_or_a_reason() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        assert!(
            super::run(root, &[]).expect("the sources"),
            "see the names above; the command's text has the rule"
        );
    }

    #[test]
    fn docs_are_read() {
        let text = "//! A.\n//! ```\n//! f(g);\n//! ```\nrows! {\n    /// See [`Other`].\n    #[x(\n    )]\n    \"p\" Name NameOptions {\n        /// A field.\n        field: 1,\n    }\n}\nimpl<T> Own<T> {\n    /// ```no_run\n    /// h();\n    /// ```\n    pub fn method() {}\n}\n";
        let all = super::docs("m", text);
        let of: Vec<_> = all.iter().map(|d| (d.subject.as_str(), d.item, d.row, d.runs)).collect();
        assert_eq!(
            of,
            [
                ("rows", false, false, true),
                ("Name", true, true, false),
                ("field", false, false, false),
                ("method", false, false, false)
            ]
        );
        assert!(all[0].names.contains("g") && all[1].links.contains("Other") && all[3].of.contains("Own"));
    }
}
