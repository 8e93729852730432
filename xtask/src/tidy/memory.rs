//! Who opens memory: the CPU's kernels alone. A view, a composite or a row that asks the tables of back ends serves every
//! device, and so does every shape rule, check and plan; memory behind an `Access` is the CPU's.
//!
//! The functions that are written by hand for such a row are followed through the functions of their crate that they call by
//! name. A call of an operator ends the walk: it is dispatched.

use super::arrows::{Module, absolute, collect, expand, is_word};
use crate::table::{self, CrateTable, Kind, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How code opens a tensor's memory.
const OPENS: &str = "Access::new(";

/// The functions that are written by hand in a crate.
struct Functions {
    /// Names of operators: calls of these through `ops` are dispatched.
    rows: BTreeSet<String>,
    /// Bodies by module and name.
    bodies: BTreeMap<(Module, String), String>,
    /// What a name means in a module.
    imports: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl Functions {
    fn of(c: &CrateTable) -> Result<Self, String> {
        let mut texts = BTreeMap::new();
        collect(&c.dir.join("src"), &mut Vec::new(), &mut texts)?;
        let (mut all, mut imports) = (BTreeMap::new(), BTreeMap::new());
        for (module, text) in &texts {
            for (name, body) in bodies(text) {
                all.entry((module.clone(), name)).or_insert_with(String::new).push_str(&body);
            }
            let mut known = BTreeMap::new();
            for (at, _) in text.match_indices("use ") {
                let Some(end) = text[at..].find(';').filter(|_| !text[..at].ends_with(is_word)) else {
                    continue;
                };
                for path in expand(&text[at + 4..at + end]) {
                    if let (Some(name), Some(whole)) = (path.last(), absolute(module, &path)) {
                        known.insert(name.clone(), whole);
                    }
                }
            }
            imports.insert(module.clone(), known);
        }
        let forms = |r: &Row| [r.rust.clone(), format!("{}_", r.rust), format!("{}_out", r.rust)];
        let rows = c.families.iter().flat_map(|f| &f.rows).flat_map(forms).collect();
        Ok(Functions { rows, bodies: all, imports })
    }
    /// The functions that a call in `module` may mean.
    fn meant<'a>(&'a self, module: &Module, path: &[String]) -> Vec<&'a (Module, String)> {
        let Some((name, before)) = path.split_last() else { return Vec::new() };
        let own = (module.clone(), name.clone());
        let whole = match before {
            [] if self.bodies.contains_key(&own) => {
                return self.bodies.keys().filter(|k| **k == own).collect();
            }
            [] => self.imports.get(module).and_then(|i| i.get(name)).cloned(),
            [first, ..] => absolute(module, path).or_else(|| {
                let to = self.imports.get(module)?.get(first)?;
                Some(to.iter().chain(&path[1..]).cloned().collect())
            }),
        };
        let Some((name, inside)) = whole.as_ref().and_then(|w| w.split_last()) else { return Vec::new() };
        // operators, and what stands below them and knows devices
        let dispatched = inside == ["ops"] && self.rows.contains(name);
        if dispatched || matches!(inside.first().map(String::as_str), Some("backend" | "tensor" | "iter")) {
            return Vec::new();
        }
        self.bodies.keys().filter(|(m, n)| n == name && m.starts_with(inside)).collect()
    }
    /// How a function comes to open memory, if it does.
    fn way(&self, from: &(Module, String), seen: &mut BTreeSet<(Module, String)>) -> Option<Vec<String>> {
        if !seen.insert(from.clone()) {
            return None;
        }
        let here = format!("{}::{}", from.0.join("::"), from.1);
        let body = self.bodies.get(from)?;
        if body.contains(OPENS) {
            return Some(vec![here]);
        }
        calls(body).iter().flat_map(|path| self.meant(&from.0, path)).find_map(|to| {
            let mut way = self.way(to, seen)?;
            way.insert(0, here.clone());
            Some(way)
        })
    }
}

/// Names and bodies of the functions in a text.
fn bodies(code: &str) -> Vec<(String, String)> {
    let closing = |from: usize, open: char, close: char| {
        let mut depth = 0;
        code[from..].char_indices().find_map(|(i, c)| {
            depth += i32::from(c == open) - i32::from(c == close);
            (depth == 0 && c == close).then_some(from + i)
        })
    };
    let one = |at: usize| {
        let start = at + "fn ".len();
        let name: String = code[start..].chars().take_while(|c| is_word(*c)).collect();
        let parameters = start + code[start..].find('(')?;
        let end = closing(parameters, '(', ')')?;
        let open = end + code[end..].find(['{', ';'])?;
        let body = code[open..].starts_with('{').then(|| closing(open, '{', '}')).flatten()?;
        (!name.is_empty()).then(|| (name, code[open..body].to_string()))
    };
    let starts = code.match_indices("fn ").filter(|(at, _)| !code[..*at].ends_with(is_word));
    starts.filter_map(|(at, _)| one(at)).collect()
}

/// The paths that a body calls or, with a `::`, hands on; methods apart.
fn calls(body: &str) -> BTreeSet<Module> {
    let mut all = BTreeSet::new();
    let mut at = 0;
    while let Some(from) = body[at..].find(is_word).map(|n| at + n) {
        let end = body[from..].find(|c| !is_word(c) && c != ':').map_or(body.len(), |n| from + n);
        let path = body[from..end].trim_end_matches(':');
        let method = body[..from].ends_with('.');
        let named = path.contains("::") || body[end..].starts_with('(');
        if !method && named && path.chars().next().is_some_and(|c| !c.is_ascii_digit()) {
            all.insert(path.split("::").map(str::to_string).filter(|s| !s.is_empty()).collect());
        }
        at = end;
    }
    all
}

/// The functions by hand of a row that serve every device.
fn everywhere(r: &Row) -> Vec<String> {
    let stem = r.rust.trim_end_matches('_');
    let own = match r.kind {
        Kind::View | Kind::Composite => vec![r.rust.clone(), format!("{}_", r.rust)],
        Kind::Direct if r.any_device => vec![r.rust.clone(), format!("{}_", r.rust)],
        Kind::Structured => vec![format!("{stem}_shape")],
        _ => Vec::new(),
    };
    let named = [&r.plan, &r.check, &r.inplace_check, &r.out_check].into_iter().flatten().cloned();
    own.into_iter().chain(named).collect()
}

/// The rows whose functions for every device open memory, with the way there.
pub fn opened(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for c in table::load(root)? {
        let functions = Functions::of(&c)?;
        for family in &c.families {
            for row in &family.rows {
                for name in everywhere(row) {
                    let homes = functions.bodies.keys().filter(|(m, n)| {
                        *n == name && m.first().is_none_or(|room| room == "ops") && m.contains(&family.name)
                    });
                    for home in homes {
                        if let Some(way) = functions.way(home, &mut BTreeSet::new()) {
                            found.push(format!("{}: {}", row.schema.full_name(), way.join(" > ")));
                        }
                    }
                }
            }
        }
    }
    // formulas of gradients are made of operators
    for e in std::fs::read_dir(root.join("crates")).map_err(|e| e.to_string())? {
        let dir = e.map_err(|e| e.to_string())?.path().join("src/derivatives");
        let mut texts = BTreeMap::new();
        if dir.is_dir() {
            collect(&dir, &mut Vec::new(), &mut texts)?;
        }
        let opening = texts.iter().filter(|(_, text)| text.contains(OPENS));
        found.extend(opening.map(|(m, _)| format!("{}: {}", dir.display(), m.join("::"))));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_and_calls_are_found() {
        let code =
            "pub fn f<T>(&X { a, .. }: &X, g: impl Fn(i64) -> i64) -> R { a.h(); super::k(m::n(a)) } fn e();";
        let found = bodies(code);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "f");
        let named = calls(&found[0].1);
        assert!(named.contains(&vec!["super".to_string(), "k".into()]), "{named:?}");
        assert!(named.contains(&vec!["m".to_string(), "n".into()]), "{named:?}");
        assert!(!named.contains(&vec!["h".to_string()]), "{named:?}");
    }

    #[test]
    fn only_kernels_open_memory() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let opened = opened(root).expect("the tables and sources");
        assert!(
            opened.is_empty(),
            "these serve every device and open the CPU's memory:\n{}",
            opened.join("\n")
        );
        // the walk finds what there is to find: a kernel opens memory by way of other functions
        let core = table::load(root).expect("tables").into_iter().find(|c| c.package == "flambeau-core");
        let functions = Functions::of(&core.expect("core")).expect("core's sources");
        let kernel = (vec!["ops".into(), "indexing".into(), "dim".into()], "index_add_cpu".to_string());
        let way = functions.way(&kernel, &mut BTreeSet::new()).expect("index_add's kernel opens memory");
        assert!(way.len() > 1, "{way:?}");
    }
}
