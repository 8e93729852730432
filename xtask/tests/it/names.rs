//! What is a fact of one operator stands in its row: outside the tables nothing is compared with the name of an operator or
//! with what errors call it, matched against one, or listed by it.

use super::{Source, line_of, report, root, sources, words};
use std::collections::BTreeSet;
use std::fs;

/// Names of rows that are values of options as well, and words of other vocabularies: comparing with them is no fact of an
/// operator.
const WORDS: &[&str] = &[
    // reductions, and how embeddings, segments and scatters reduce
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "max",
    "min",
    "add",
    "multiply",
    // how is interpolated, padded, rounded, annealed and made orthogonal
    "linear",
    "bilinear",
    "zeros",
    "trunc",
    "floor",
    "cos",
    "matrix_exp",
    // nonlinearities and activations of layers, and what else layers take
    "tanh",
    "relu",
    "gelu",
    "leaky_relu",
    "dropout",
    // attributes of results, devices, generators and groups of parameters; profiles of printing
    "values",
    "indices",
    "index",
    "mode",
    "threshold",
    "full",
    "is_coalesced",
    // methods of modules and distributions, parameters of functions, modes of schedules, classes and flags of Python in files
    "to",
    "std",
    "slice",
    "sign",
    "expand",
    "complex",
    "conj",
    "neg",
    "abs",
    "all",
];

/// Files with a reason to name operators.
const FILES: &[(&str, &str)] = &[
    ("crates/flambeau-core/src/ops/windows.rs", "the words of an error, which are another for one window"),
    (
        "crates/flambeau-func/src/functionalize.rs",
        "how a write through a view is put into the whole, view by view",
    ),
    (
        "crates/flambeau-onnx/src/ops/views.rs",
        "how each view is computed in a file, and how it reaches the whole",
    ),
    ("crates/flambeau-onnx/src/ops/indexing.rs", "which writes by index add"),
    ("crates/flambeau-onnx/src/export/walk.rs", "which operators of a program write, and how ONNX says it"),
    ("crates/flambeau-library/src/storages.rs", "methods of storages, which are no operators"),
    ("crates/flambeau-quantization/src/by_name/flows.rs", "names of arguments"),
    ("crates/flambeau-quantization/src/objects.rs", "attributes of observers, which are no operators"),
    (
        "crates/flambeau-quantization/src/fx/native_backend_config.rs",
        "patterns of graphs: PyTorch's own configuration, which programs change",
    ),
    (
        "crates/flambeau-quantization/src/fx/lower.rs",
        "patterns of graphs around calls, and the order of the arguments that programs write",
    ),
    (
        "crates/flambeau-quantization/src/fx/prepare.rs",
        "which arguments of a captured call are weights, and which are no numbers to observe",
    ),
    ("crates/flambeau-quantization/src/by_name/layers.rs", "the one sum that a joined layer takes"),
    (
        "crates/flambeau-quantization/src/qconfig_mapping.rs",
        "what a configuration names, as programs write it: PyTorch's own list",
    ),
    (
        "crates/flambeau-quantization/src/nn/float_functional.rs",
        "methods of FloatFunctional, which are no operators",
    ),
    (
        "crates/flambeau-utils/src/flop_counter.rs",
        "PyTorch's registry of formulas, which programs add to: no fact of a row",
    ),
    (
        "crates/flambeau-utils/src/profiler/flops.rs",
        "what PyTorch's profiler estimates of operators by their names",
    ),
    ("crates/flambeau-nn/src/init.rs", "values of calculate_gain's option"),
    ("crates/flambeau-masked/src/ops/wrapped.rs", "what masked tensors do with each operator"),
    ("crates/flambeau-masked/src/ops/sparse.rs", "words of errors of sparse reductions"),
    ("crates/flambeau-func/src/rules/layers/norm.rs", "names of arguments"),
    ("crates/flambeau-fx/src/code.rs", "Python's operators, as programs write them"),
    ("crates/flambeau-fx/src/python.rs", "Python's module operator and built-in functions"),
    ("crates/flambeau-fx/src/symbolic.rs", "attributes of symbols in files"),
    ("crates/flambeau-fx/src/passes/mod.rs", "functions that Python's operators stand for"),
    ("crates/flambeau-export/src/aten.rs", "operators that files name and that are several rows here"),
    (
        "crates/flambeau-export/src/spelling.rs",
        "operators whose call in ATen is spelled otherwise than the row",
    ),
    (
        "crates/flambeau-export/src/decompose/rules/activation.rs",
        "PyTorch's decompositions, operator by operator",
    ),
    (
        "crates/flambeau-export/src/decompose/rules/creation.rs",
        "PyTorch's decompositions, operator by operator",
    ),
    ("crates/flambeau-export/src/decompose/rules/index.rs", "PyTorch's decompositions, operator by operator"),
    ("crates/flambeau-export/src/decompose/rules/layer.rs", "PyTorch's decompositions, operator by operator"),
    (
        "crates/flambeau-export/src/decompose/rules/linalg.rs",
        "PyTorch's decompositions, operator by operator",
    ),
    ("crates/flambeau-export/src/decompose/rules/mod.rs", "PyTorch's decompositions, operator by operator"),
    (
        "crates/flambeau-export/src/decompose/rules/pointwise.rs",
        "PyTorch's decompositions, operator by operator",
    ),
    (
        "crates/flambeau-export/src/decompose/rules/recurrent.rs",
        "PyTorch's decompositions, operator by operator",
    ),
    (
        "crates/flambeau-export/src/decompose/rules/reduction.rs",
        "PyTorch's decompositions, operator by operator",
    ),
    (
        "crates/flambeau-export/src/decompose/rules/special.rs",
        "PyTorch's decompositions, operator by operator",
    ),
    ("crates/flambeau-export/src/decompose/rules/view.rs", "PyTorch's decompositions, operator by operator"),
    (
        "crates/flambeau-export/src/decompose/run.rs",
        "which operators of the core set are views, and how a write reaches the whole",
    ),
    ("crates/flambeau-nested/src/ops/mod.rs", "what nested tensors do with each operator"),
    ("crates/flambeau-nested/src/ops/jagged.rs", "what jagged tensors do with each operator"),
    ("crates/flambeau-nested/src/ops/reduction.rs", "what reductions of jagged tensors begin with"),
    ("crates/flambeau-nested/src/ops/strided.rs", "what strided nested tensors do with each operator"),
    (
        "crates/flambeau-nn/src/modules/transformer/layers.rs",
        "the activations that the layer's fast path knows",
    ),
];

/// A piece of Rust: a string literal, a word, or a sign.
#[derive(Clone, PartialEq, Debug)]
enum Token {
    Text(String, usize),
    Word(String),
    Sign(char),
}
use Token::{Sign, Text, Word};

/// Rust without comments, character literals and white space.
fn tokens(text: &str) -> Vec<Token> {
    let b: Vec<char> = text.chars().collect();
    let (mut i, mut line) = (0, 1);
    let mut all = Vec::new();
    while i < b.len() {
        let next = b.get(i + 1).copied();
        let end = match b[i] {
            '/' if next == Some('/') => (i..b.len()).find(|j| b[*j] == '\n').unwrap_or(b.len()),
            '/' if next == Some('*') => super::block_comment(&b, i),
            'r' if next == Some('"') || next == Some('#') && super::raw_string(&b, i).is_some() => {
                let end = super::raw_string(&b, i).unwrap_or(i + 1);
                all.push(Text(b[i..end].iter().collect(), line));
                end
            }
            '"' => {
                let end = super::string(&b, i).min(b.len());
                all.push(Text(b[i + 1..(end - 1).max(i + 1)].iter().collect(), line));
                end
            }
            '\'' => super::character(&b, i).unwrap_or(i + 1),
            c if c.is_alphanumeric() || c == '_' => {
                let end =
                    (i..b.len()).find(|j| !(b[*j].is_alphanumeric() || b[*j] == '_')).unwrap_or(b.len());
                all.push(Word(b[i..end].iter().collect()));
                end
            }
            c => {
                if !c.is_whitespace() {
                    all.push(Sign(c));
                }
                i + 1
            }
        };
        line += b[i..end].iter().filter(|c| **c == '\n').count();
        i = end;
    }
    all
}

/// The places of a pair of signs at `i`.
fn pair(t: &[Token], i: usize, a: char, b: char) -> bool {
    t.get(i) == Some(&Sign(a)) && t.get(i + 1) == Some(&Sign(b))
}
fn word(t: &[Token], i: usize, w: &str) -> bool {
    matches!(t.get(i), Some(Word(x)) if x == w)
}
/// From an opening sign to behind its closing one.
fn closed(t: &[Token], start: usize) -> usize {
    let mut depth = 0;
    for (i, x) in t.iter().enumerate().skip(start) {
        match x {
            Sign('(' | '[' | '{') => depth += 1,
            Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    t.len()
}

/// The literals that are compared, matched against or listed, with their lines.
fn asked(t: &[Token]) -> BTreeSet<(usize, String)> {
    let mut places = BTreeSet::new();
    let mut all = |r: std::ops::Range<usize>| places.extend(r);
    for i in 0..t.len() {
        let equal = pair(t, i, '=', '=') || pair(t, i, '!', '=');
        if equal && i > 0 && !pair(t, i - 1, '.', '.') {
            all(i - 1..i);
            all(i + 2..(i + 3).min(t.len()));
        }
        if pair(t, i, '=', '>') {
            // the arm's pattern, back to what ends the arm before
            let mut depth = 0;
            let from = (0..i).rev().find(|j| {
                match t[*j] {
                    Sign(')' | ']') => depth += 1,
                    Sign('(' | '[') => depth -= 1,
                    _ => {}
                }
                depth < 0 || depth == 0 && t[*j] == Sign(',') || matches!(t[*j], Sign('{' | '}' | ';'))
            });
            all(from.map_or(0, |j| j + 1)..i);
        }
        if word(t, i, "matches") && pair(t, i + 1, '!', '(') {
            all(i..closed(t, i + 2));
        }
        if t[i] == Sign('[') {
            let end = closed(t, i);
            let asks =
                t.get(end) == Some(&Sign('.')) && ["contains", "iter"].iter().any(|w| word(t, end + 1, w));
            if asks {
                all(i..end);
            }
        }
        // not a parameter of something generic
        let free = i == 0 || !matches!(t[i - 1], Sign('<' | ','));
        if free && (word(t, i, "const") || word(t, i, "static")) && t.get(i + 2) == Some(&Sign(':')) {
            let mut j = i;
            while j < t.len() && t[j] != Sign(';') {
                j = if matches!(t[j], Sign('(' | '[' | '{')) { closed(t, j) } else { j + 1 };
            }
            // lists of texts, but for functions that are registered under names: the list is where they have them
            let ty = i..(i..j).find(|k| t[*k] == Sign('=')).unwrap_or(j);
            let has = |w: &str| ty.clone().any(|k| word(t, k, w));
            if has("str") && !has("NativeFn") && ty.clone().any(|k| t[k] == Sign('[')) {
                all(i..j);
            }
        }
    }
    let literal = |i: usize| match t.get(i) {
        Some(Text(s, line)) => Some((*line, s.clone())),
        _ => None,
    };
    places.into_iter().filter_map(literal).collect()
}

/// What rows are called: by ATen, in Rust, by Python, and by errors.
fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for dir in fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        let Ok(tables) = fs::read_dir(dir.path().join("ops")) else { continue };
        for file in tables.flatten() {
            let text = fs::read_to_string(file.path()).expect("a table");
            let table: toml::Table = text.parse().expect("a table parses");
            for row in table.get("op").and_then(toml::Value::as_array).into_iter().flatten() {
                let schema = row["schema"].as_str().expect("a schema");
                let full = schema.split('(').next().unwrap_or(schema).trim().to_string();
                let base = full.split('.').next().unwrap_or(&full).to_string();
                let texts = |key: &str| {
                    let list = row.get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default();
                    list.into_iter().filter_map(|v| v.as_str().map(str::to_string)).collect::<Vec<_>>()
                };
                for python in texts("python").into_iter().chain(texts("alias")) {
                    names.extend(
                        [format!("torch.{python}"), python + "_"].map(|n| n.replace("torch.torch", "torch")),
                    );
                }
                names.extend(row.get("rust").and_then(|r| r.as_str()).map(str::to_string));
                match row.get("label") {
                    Some(toml::Value::String(s)) => names.extend([s.clone()]),
                    Some(toml::Value::Table(t)) => {
                        names.extend(t.values().filter_map(|v| v.as_str().map(str::to_string)));
                    }
                    _ => {}
                }
                names.extend([
                    format!("aten::{full}"),
                    format!("aten::{base}"),
                    format!("{base}_"),
                    format!("{base}_cpu"),
                ]);
                names.extend([full, base]);
            }
        }
    }
    names
}

fn judged(s: &Source) -> bool {
    let library = s.path.starts_with("crates/") && s.path.contains("/src/");
    // the judge is asked by name, macros read words of Rust, and formulas are declared by their names
    let other =
        ["crates/flambeau-conformance/", "crates/flambeau-macros/", "crates/flambeau-cpu/src/pointwise/"];
    let tests =
        s.path.ends_with("/tests.rs") || s.path.contains("/tests/") || FILES.iter().any(|f| f.0 == s.path);
    let suites = s.path.starts_with("tests/rows/") || s.path.starts_with("tests/it/properties/");
    suites || library && !s.generated() && !tests && !other.iter().any(|o| s.path.starts_with(o))
}

#[test]
fn facts_of_operators_stand_in_their_rows() {
    let names = names();
    assert!(names.len() > 2000, "only {} names found", names.len());
    let all = sources();
    let mut seen = 0;
    let mut broken = Vec::new();
    for s in all.iter().filter(|s| judged(s)) {
        let code = s.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        for (line, text) in asked(&tokens(code)) {
            seen += 1;
            if names.contains(&text) && !WORDS.contains(&text.as_str()) {
                broken.push(format!("{}:{line}: \"{text}\"", s.path));
            }
        }
    }
    assert!(seen > 500, "only {seen} literals are compared, matched or listed: the search is broken");
    report("names of operators and labels are compared, matched and listed in ops/ alone", &broken);
}

#[test]
fn questions_after_names_are_found() {
    let found = |code: &str| asked(&tokens(code)).into_iter().map(|f| f.1).collect::<Vec<_>>();
    for code in [
        "if name == \"mm\" {}",
        "if \"mm\" != name {}",
        "match n { \"mm\" => 1, _ => 2 }",
        "match n { \"x\" if b => 1, (_, \"mm\") => 2 }",
        "matches!(name, \"mm\" | \"x\")",
        "[\"mm\", \"x\"].contains(&name)",
        "const LIST: &[&str] = &[\"mm\"];",
        "pub static LIST: [(&str, F); 1] = [(\"mm\", f)];",
    ] {
        assert!(found(code).contains(&"mm".to_string()), "{code}: {:?}", found(code));
    }
    for code in [
        "call(\"mm\")",
        "let l = [\"mm\"];",
        "// name == \"mm\"",
        "match n { 1 => \"mm\", _ => f(\"mm\") }",
        "const NATIVE: &[(&str, NativeFn)] = &[(\"mm\", f)];",
        "const fn f() { g(\"mm\") }",
        "const NAME: &str = \"mm\";",
        "fn f<const N: usize>() { g(\"mm\") } fn h() -> [i64; 2];",
    ] {
        assert!(!found(code).contains(&"mm".to_string()), "{code}: {:?}", found(code));
    }
}

/// A list of all operators keeps all of them in each program that reaches it, so only the registry's entry may name one, and that
/// only with the feature `by-name`.
#[test]
fn lists_of_operators_serve_names_alone() {
    let mut broken = Vec::new();
    let mut entries = 0;
    for s in sources() {
        if !s.path.starts_with("crates/") || !s.path.contains("/src/") {
            continue;
        }
        for at in words(&s.code, "OPS") {
            let before = &s.code[..at];
            match before.ends_with("by_name!(") {
                true => entries += 1,
                false if before.ends_with("pub static ") => {}
                false => broken.push(format!("{}:{}", s.path, line_of(&s.code, at))),
            }
        }
    }
    report("lists of operators are named by the registry's entries alone", &broken);
    assert!(entries > 5, "only {entries} entries found");
}
