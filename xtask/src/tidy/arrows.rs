//! Arrows between the files of one crate: file A names file B by a `use` or a path.
//!
//! Generated files and test modules are out. A path is resolved from `crate::`, `super::` or `self::` to the file of the
//! longest module path that it begins with; a single name of the crate's root counts as what the root re-exports. What a
//! file reaches through a re-export of another module (`crate::ops::add`) is an arrow to that module's file, so generated
//! functions are reached through `ops`. Methods make no arrows: an `impl` may stand on the floor that it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module path within the crate; the root's is empty.
pub type Module = Vec<String>;

/// The arrows of a crate.
pub struct Arrows {
    files: usize,
    to: BTreeMap<Module, BTreeSet<Module>>,
}

impl Arrows {
    /// Reads a crate's `src`.
    pub fn of(src: &Path) -> Result<Arrows, String> {
        let mut texts = BTreeMap::new();
        collect(src, &mut Vec::new(), &mut texts)?;
        let exports: BTreeMap<String, Module> = texts
            .get(&Vec::new())
            .map_or("", String::as_str)
            .split(';')
            .filter_map(|s| s.trim_start().rsplit_once("pub use "))
            .flat_map(|(_, tree)| expand(tree))
            .filter_map(|p| {
                let path: Module = p.into_iter().filter(|s| s != "crate" && s != "self").collect();
                Some((path.last()?.clone(), path))
            })
            .collect();
        let mut to: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, text) in texts.iter().filter(|(m, _)| !m.is_empty()) {
            for path in paths(text) {
                let Some(mut path) = absolute(module, &path) else { continue };
                if let [one] = &path[..]
                    && let Some(whole) = exports.get(one)
                {
                    path = whole.clone();
                }
                let file = (1..=path.len()).rev().map(|n| &path[..n]).find(|p| texts.contains_key(*p));
                if let Some(file) = file.filter(|f| *f != module.as_slice()) {
                    to.entry(module.clone()).or_default().insert(file.to_vec());
                }
            }
        }
        Ok(Arrows { files: texts.len(), to })
    }
    /// Number of files.
    pub fn files(&self) -> usize {
        self.files
    }
    /// Number of arrows.
    pub fn len(&self) -> usize {
        self.to.values().map(BTreeSet::len).sum()
    }
    fn reached<'a>(&'a self, from: &'a Module) -> BTreeSet<&'a Module> {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(m) = todo.pop() {
            todo.extend(self.to.get(m).into_iter().flatten().filter(|n| seen.insert(*n)));
        }
        seen
    }
    /// Sets of files each of which reaches all others, the largest first.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.to.keys().map(|m| (m, self.reached(m))).collect();
        let both = |a: &Module, b: &Module| {
            let reaches = |x: &Module, y: &Module| reached.get(x).is_some_and(|r| r.contains(y));
            reaches(a, b) && reaches(b, a)
        };
        let circles: BTreeSet<Vec<String>> = self
            .to
            .keys()
            .filter(|m| both(m, m))
            .map(|m| self.to.keys().filter(|n| both(m, n)).map(|n| n.join("::")).collect())
            .collect();
        let mut circles: Vec<_> = circles.into_iter().collect();
        circles.sort_by_key(|c| std::cmp::Reverse(c.len()));
        circles
    }
    /// Arrows to a later room.
    pub fn back_up(&self, rooms: &[&str]) -> Result<Vec<(String, String)>, String> {
        let floor = |m: &Module| {
            let room = m.first().map_or("", String::as_str);
            rooms
                .iter()
                .position(|r| *r == room)
                .ok_or_else(|| format!("the room {room} has no place in the order"))
        };
        let mut up = Vec::new();
        for (from, all) in &self.to {
            for to in all {
                if floor(to)? > floor(from)? {
                    up.push((from.join("::"), to.join("::")));
                }
            }
        }
        Ok(up)
    }
}

/// The text of every module's file, without comments, strings and tests.
pub fn collect(dir: &Path, module: &mut Module, texts: &mut BTreeMap<Module, String>) -> Result<(), String> {
    for e in fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = e.map_err(|e| e.to_string())?.path();
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            if name != "generated" {
                module.push(name);
                collect(&path, module, texts)?;
                module.pop();
            }
        } else if path.extension().is_some_and(|x| x == "rs") {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let own = (name != "mod" && name != "lib").then_some(name);
            texts.insert(module.iter().cloned().chain(own).collect(), code(&text));
        }
    }
    Ok(())
}

/// The code of a file up to its tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut chars = line.chars().peekable();
        let mut in_string = false;
        while let Some(c) = chars.next() {
            match c {
                '\\' if in_string => drop(chars.next()),
                '"' => in_string = !in_string,
                _ if in_string => {}
                '/' if chars.peek() == Some(&'/') => break,
                // `'"'`
                '\'' if chars.peek() == Some(&'"') => drop(chars.next()),
                c => out.push(c),
            }
        }
        out.push('\n');
    }
    out
}

/// A use tree as its paths.
pub fn expand(tree: &str) -> Vec<Module> {
    let tree = tree.trim();
    let Some((before, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        return vec![path.split("::").map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect()];
    };
    let (mut parts, mut depth, mut part) = (Vec::new(), 0, String::new());
    for c in rest[..rest.rfind('}').unwrap_or(rest.len())].chars() {
        match c {
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            c => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                part.push(c);
            }
        }
    }
    parts.push(part);
    parts
        .iter()
        .filter(|p| !p.trim().is_empty())
        .flat_map(|p| expand(&format!("{before}{}", p.trim())))
        .collect()
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// All paths that a file writes.
fn paths(code: &str) -> Vec<Module> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices("use ") {
        if !code[..at].ends_with(is_word)
            && let Some(end) = code[at..].find(';')
        {
            all.extend(expand(&code[at + 4..at + end]));
        }
    }
    for root in ["crate", "super", "self"] {
        for (at, _) in code.match_indices(root).filter(|(at, _)| !code[..*at].ends_with(is_word)) {
            let end = code[at..].find(|c| !is_word(c) && c != ':').map_or(code.len(), |n| at + n);
            let path: Module =
                code[at..end].split("::").map(str::to_string).filter(|s| !s.is_empty()).collect();
            all.extend((path.len() > 1).then_some(path));
        }
    }
    all
}

/// The path from the crate's root; none for other crates' paths.
pub fn absolute(module: &Module, path: &[String]) -> Option<Module> {
    let supers = path.iter().take_while(|s| *s == "super").count();
    let rest = |n: usize| path[n..].iter().cloned();
    match path.first()?.as_str() {
        "crate" => Some(rest(1).collect()),
        "self" => Some(module.iter().cloned().chain(rest(1)).collect()),
        "super" => {
            let base = module.get(..module.len().checked_sub(supers)?)?;
            Some(base.iter().cloned().chain(rest(supers)).collect())
        }
        _ => None,
    }
}
