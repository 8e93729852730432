//! The default generator is one for a process: a test that seeds it runs in a process of its own, or a test beside it draws
//! some of its numbers.

use super::{report, sources, words};
use std::collections::{BTreeMap, BTreeSet};

/// A top-level function of formatted sources: its name, whether it is a test, and what stands between its braces.
fn functions(code: &str) -> Vec<(&str, bool, &str)> {
    let mut found = Vec::new();
    let mut test = false;
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let head = line.strip_prefix("pub ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
        if let Some(rest) = head.strip_prefix("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or("");
            let end = code[start..].find("\n}").map_or(code.len(), |i| start + i);
            found.push((name, test, &code[start + line.find(name).unwrap_or(0) + name.len()..end]));
            test = false;
        } else if line.starts_with("#[test]") {
            test = true;
        }
    }
    found
}

/// Whether `body` calls the function `name`, and not a method of that name, which has a generator of its own.
fn calls(body: &str, name: &str) -> bool {
    words(body, name).any(|at| !body[..at].ends_with('.') && body[at + name.len()..].starts_with(['(', '<']))
}

/// Tests of one binary that seed the default generator, by themselves or by functions of the binary, among other tests.
fn among_others<'a>(files: &[(&'a str, &'a str)]) -> Vec<String> {
    let all: Vec<_> = files.iter().flat_map(|f| functions(f.1).into_iter().map(move |g| (f.0, g))).collect();
    let mut seeding = BTreeSet::from(["manual_seed"]);
    loop {
        let more = all.iter().filter(|(_, (name, test, body))| {
            !test && !seeding.contains(name) && seeding.iter().any(|s| calls(body, s))
        });
        let more: Vec<&str> = more.map(|(_, f)| f.0).collect();
        if more.is_empty() {
            break;
        }
        seeding.extend(more);
    }
    let alone = |body: &str| body.contains("alone!()") || body.contains("part!(");
    let tests = all.iter().filter(|(_, (_, test, body))| *test && !alone(body));
    let broken = tests.filter(|(_, (_, _, body))| seeding.iter().any(|s| calls(body, s)));
    broken.map(|(path, (name, ..))| format!("{path}: {name}")).collect()
}

#[test]
fn who_seeds_is_alone() {
    let mut binaries: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let sources = sources();
    for s in &sources {
        if let Some(i) = s.path.find("/tests/it/") {
            binaries.entry(&s.path[..i]).or_default().push((&s.path, &s.code));
        }
    }
    assert!(binaries.len() > 15, "only {} test binaries found: the walk is broken", binaries.len());
    let broken: Vec<String> = binaries.values().flat_map(|files| among_others(files)).collect();
    report("a test that seeds the default generator begins with alone!()", &broken);
}

#[test]
fn seeding_is_found_through_functions() {
    let code = "fn data() -> Tensor {\n    torch::manual_seed(1);\n}\n#[test]\nfn a() {\n    data();\n}\n#[test]\nfn b() {\n    \
                alone!();\n    data();\n}\n#[test]\nfn c() {\n    g.manual_seed(3);\n}\n";
    assert_eq!(among_others(&[("f", code)]), ["f: a"]);
}
