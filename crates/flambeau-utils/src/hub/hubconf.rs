//! What a repository's `hubconf.py` offers, found by reading its text: nothing is run. Names are followed through the
//! repository's own files, as `from vision.models import resnet` says it; what comes from elsewhere, or from calls, is unknown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How many files are asked for a name.
const DEEPEST: usize = 256;
/// Bytes of a file that is read.
const LONGEST: u64 = 16 << 20;
/// Files, and the names that they were asked for.
type Asked = BTreeSet<(PathBuf, String)>;

/// A statement on one line, without comments.
struct Line {
    indent: usize,
    text: String,
}
/// The statements of a program: what brackets, backslashes and long strings spread over lines is joined.
fn statements(source: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let (mut text, mut indent, mut depth) = (String::new(), 0, 0usize);
    let mut rest = source;
    let mut fresh = true;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if fresh && c != '\n' {
            let space: usize = rest.bytes().take_while(|b| matches!(b, b' ' | b'\t' | b'\x0c')).count();
            indent = rest[..space].chars().map(|c| if c == '\t' { 8 } else { 1 }).sum();
            (fresh, rest) = (false, &rest[space..]);
            continue;
        }
        match c {
            '#' => rest = &rest[rest.find('\n').unwrap_or(rest.len())..],
            '"' | '\'' => {
                let n = string_end(rest, text.ends_with(['r', 'R']));
                text.push_str(&rest[..n]);
                rest = &rest[n..];
            }
            '\\' if after.starts_with('\n') || after.starts_with("\r\n") => {
                text.push(' ');
                rest = after.trim_start_matches('\r').trim_start_matches('\n');
            }
            '\n' | ';' if depth == 0 => {
                let whole = std::mem::take(&mut text).trim().to_string();
                if !whole.is_empty() {
                    lines.push(Line { indent, text: whole });
                }
                (fresh, rest) = (c == '\n', after);
            }
            c => {
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                text.push(if c.is_whitespace() { ' ' } else { c });
                rest = after;
            }
        }
    }
    let whole = text.trim().to_string();
    if !whole.is_empty() {
        lines.push(Line { indent, text: whole });
    }
    lines
}
/// Bytes of the string that the text begins with.
fn string_end(text: &str, raw: bool) -> usize {
    let quote = &text[..1];
    let (open, long) = if text.starts_with(&quote.repeat(3)) { (3, true) } else { (1, false) };
    let close = &text[..open];
    let mut at = open;
    while let Some(c) = text[at..].chars().next() {
        if text[at..].starts_with(close) {
            return at + open;
        }
        if c == '\n' && !long {
            return at;
        }
        at += c.len_utf8();
        // a quote after a backslash ends no string, of raw ones either
        if c == '\\' {
            at += text[at..].chars().next().filter(|c| *c != '\n' || raw || long).map_or(0, char::len_utf8);
        }
    }
    at
}
/// The text of a string's literal, if the statement is nothing else.
fn literal(statement: &str) -> Option<String> {
    let start = statement.find(['"', '\''])?;
    let prefix = statement[..start].to_lowercase();
    if !matches!(&prefix[..], "" | "r" | "u") {
        return None;
    }
    let body = &statement[start..];
    let n = string_end(body, prefix == "r");
    let open = if body.starts_with("\"\"\"") || body.starts_with("'''") { 3 } else { 1 };
    if n != body.len() {
        return None;
    }
    // a text may end before its string does
    let (quotes, inner) = body.split_at(open);
    let inner = inner.strip_suffix(quotes)?;
    Some(if prefix == "r" { inner.to_string() } else { unescaped(inner) })
}
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('\n') | None => {}
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(c @ ('\\' | '\'' | '"')) => out.push(c),
            Some(c) => out.extend(['\\', c]),
        }
    }
    out
}
/// A docstring without the indentation that its lines share, as Python keeps it from 3.13 on.
fn dedented(doc: &str) -> String {
    let indent = |l: &str| l.len() - l.trim_start_matches(' ').len();
    let common = doc.lines().skip(1).filter(|l| !l.trim().is_empty()).map(indent).min().unwrap_or(0);
    let mut out = Vec::new();
    for (i, line) in doc.split('\n').enumerate() {
        let cut = if i == 0 { indent(line) } else { common.min(indent(line)) };
        out.push(&line[cut..]);
    }
    out.join("\n")
}

/// What a name stands for.
#[derive(Clone)]
enum Item {
    /// A function or a class, with its docstring.
    Callable(Option<String>),
    /// Another name of the same file.
    Same(String),
    /// A name of a module.
    From(String, String),
    /// Not to be called, or unknown.
    Other,
}
/// A file's names.
#[derive(Default)]
struct Names {
    items: BTreeMap<String, Item>,
    /// Modules of which all names are taken.
    stars: Vec<String>,
    /// `__all__`, where it is a plain list.
    public: Option<BTreeSet<String>>,
}
fn is_name(text: &str) -> bool {
    let first = |c: char| c == '_' || c.is_alphabetic();
    text.starts_with(first) && text.chars().all(|c| first(c) || c.is_numeric())
}
/// The name after `def`, `async def` or `class`.
fn defined(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("async ").map_or(text, str::trim_start);
    let rest = rest.strip_prefix("def ").or_else(|| rest.strip_prefix("class "))?.trim_start();
    let end = rest.find(|c: char| !(c == '_' || c.is_alphanumeric())).unwrap_or(rest.len());
    is_name(&rest[..end]).then(|| &rest[..end])
}
impl Names {
    fn of(source: &str) -> Names {
        let mut all = Names::default();
        let lines = statements(source);
        // deeper lines belong to a function or a class
        let mut within: Option<usize> = None;
        for (i, line) in lines.iter().enumerate() {
            if within.is_some_and(|w| line.indent > w) {
                continue;
            }
            within = None;
            if let Some(name) = defined(&line.text) {
                within = Some(line.indent);
                let body = lines.get(i + 1).filter(|l| l.indent > line.indent && line.text.ends_with(':'));
                let doc = body.and_then(|l| literal(&l.text)).map(|d| dedented(&d));
                all.items.insert(name.to_string(), Item::Callable(doc));
            } else {
                all.statement(&line.text);
            }
        }
        all
    }
    fn statement(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("from ") {
            let Some((module, names)) = rest.split_once(" import") else { return };
            let module: String = module.split_whitespace().collect();
            let names = names.trim().trim_start_matches('(').trim_end_matches(')');
            for name in names.split(',').map(str::trim).filter(|n| !n.is_empty()) {
                if name == "*" {
                    self.stars.push(module.clone());
                    continue;
                }
                let (from, to) = name.split_once(" as ").unwrap_or((name, name));
                let item = Item::From(module.clone(), from.trim().to_string());
                self.items.insert(to.trim().to_string(), item);
            }
            return;
        }
        if let Some(rest) = text.strip_prefix("import ") {
            for name in rest.split(',') {
                let name = name.split_once(" as ").map_or(name, |(_, to)| to).trim();
                self.items.insert(name.split('.').next().unwrap_or(name).to_string(), Item::Other);
            }
            return;
        }
        let Some((to, value)) = text.split_once('=') else { return };
        let (to, value) = (to.split(':').next().unwrap_or(to).trim(), value.trim());
        if to == "__all__" {
            let list = value.trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
            let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
            self.public = names.map(literal).collect();
        } else if is_name(to) {
            let item = match value {
                v if is_name(v) => Item::Same(v.to_string()),
                v if v.starts_with("lambda ") || v.starts_with("lambda:") => Item::Callable(None),
                _ => Item::Other,
            };
            self.items.insert(to.to_string(), item);
        }
    }
}

/// A folder with a `hubconf.py`, and the names of its files that were read. Each file is read once, and each is asked once for a
/// name: files that take all names of each other would otherwise be followed along every path between them.
pub(super) struct Repository<'a> {
    root: &'a Path,
    files: RefCell<BTreeMap<PathBuf, Rc<Names>>>,
}
impl<'a> Repository<'a> {
    pub fn new(root: &'a Path) -> Self {
        Repository { root, files: RefCell::default() }
    }
    /// The file of a module that a file names, if it belongs to the repository.
    fn module(&self, of: &Path, name: &str) -> Option<PathBuf> {
        let dots = name.len() - name.trim_start_matches('.').len();
        let mut at = if dots == 0 { self.root.to_path_buf() } else { of.parent()?.to_path_buf() };
        for _ in 1..dots {
            at.pop();
        }
        let parts = name[dots..].split('.').filter(|p| !p.is_empty());
        for part in parts {
            if !is_name(part) {
                return None;
            }
            at.push(part);
        }
        if !at.starts_with(self.root) {
            return None;
        }
        [at.with_extension("py"), at.join("__init__.py")].into_iter().find(|p| p.is_file())
    }
    fn names(&self, file: &Path) -> Rc<Names> {
        if let Some(known) = self.files.borrow().get(file) {
            return known.clone();
        }
        // what is not UTF-8, not there or far larger than a program has no names
        let small = fs::metadata(file).is_ok_and(|m| m.len() <= LONGEST);
        let text = small.then(|| fs::read_to_string(file).ok()).flatten();
        let names = Rc::new(text.map(|s| Names::of(&s)).unwrap_or_default());
        self.files.borrow_mut().insert(file.to_path_buf(), names.clone());
        names
    }
    /// The docstring of a name that is known to be callable. `asked` are the files and names on the way.
    fn find(&self, file: &Path, name: &str, asked: &mut Asked) -> Option<Option<String>> {
        if asked.len() == DEEPEST || !asked.insert((file.to_path_buf(), name.to_string())) {
            return None;
        }
        let names = self.names(file);
        match names.items.get(name) {
            Some(Item::Callable(doc)) => Some(doc.clone()),
            Some(Item::Same(other)) => self.find(file, other, asked),
            Some(Item::From(module, from)) => self.find(&self.module(file, module)?, from, asked),
            Some(Item::Other) => None,
            None => {
                let stars = names.stars.iter().rev().filter_map(|m| self.module(file, m));
                stars
                    .filter(|m| self.names(m).public.as_ref().is_none_or(|p| p.contains(name)))
                    .find_map(|m| self.find(&m, name, asked))
            }
        }
    }
    /// The names of a file, those of its `import *` among them.
    fn all(&self, file: &Path) -> BTreeSet<String> {
        let (mut all, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![file.to_path_buf()];
        while let Some(file) = open.pop() {
            if !seen.insert(file.clone()) {
                continue;
            }
            let names = self.names(&file);
            all.extend(names.items.keys().cloned());
            for module in names.stars.iter().filter_map(|m| self.module(&file, m)) {
                match &self.names(&module).public {
                    Some(public) => all.extend(public.iter().cloned()),
                    None => open.push(module),
                }
            }
        }
        all.retain(|n| !n.starts_with('_'));
        all
    }
    fn hubconf(&self) -> PathBuf {
        self.root.join("hubconf.py")
    }
    /// The entry points, in the order of their names.
    pub fn entries(&self) -> Vec<String> {
        let file = self.hubconf();
        self.all(&file).into_iter().filter(|n| self.doc(n).is_some()).collect()
    }
    /// The docstring of an entry point; nothing of an unknown name.
    pub fn doc(&self, name: &str) -> Option<Option<String>> {
        self.find(&self.hubconf(), name, &mut Asked::new())
    }
}
