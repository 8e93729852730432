//! Public names of modules, by reading the sources: enough of Rust's name resolution to follow `pub use`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::Visit;
use syn::{Item, UseTree, Visibility};

/// What a public name is.
#[derive(Clone, Debug)]
pub struct Entry {
    pub kind: Kind,
    /// Where it is defined; more than one place if globs disagree.
    pub origins: BTreeSet<String>,
    /// Options among a function's parameters.
    pub takes: Vec<String>,
    /// Of a function.
    pub form: Form,
    /// Imported by a glob: a name written out goes before it.
    glob: bool,
}

/// How a function is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Options that it takes by reference.
    pub borrows: Vec<String>,
    /// It panics at the caller's line.
    pub panics: bool,
    /// It gives a `Result`.
    pub fallible: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Module,
    Function,
    Other,
}

pub type Inside = BTreeMap<String, Entry>;

/// The sources that were read.
pub struct Names {
    crates: PathBuf,
    files: RefCell<BTreeMap<PathBuf, &'static [Item]>>,
    known: RefCell<BTreeMap<String, Inside>>,
}

/// A module: its path and its items.
#[derive(Clone)]
struct Module {
    path: String,
    dir: PathBuf,
    items: &'static [Item],
}

/// The folder of the crates, from whichever crate reads them.
fn crates() -> PathBuf {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|p| p.join("crates"));
    above.find(|p| p.is_dir()).expect("the workspace has its crates in a folder")
}

impl Names {
    pub fn read() -> Names {
        Names { crates: crates(), files: RefCell::default(), known: RefCell::default() }
    }
    /// Public names of one module.
    pub fn of(&self, path: &str) -> Inside {
        let m = self.module(path).unwrap_or_else(|| panic!("no module {path}"));
        self.inside(&m)
    }
    /// Where a module is written that may be shown elsewhere.
    #[allow(dead_code, reason = "xtask uses it")]
    pub fn place(&self, path: &str) -> Option<String> {
        self.module(path).map(|m| m.path)
    }
    /// Public names of what may be a module.
    pub fn find(&self, path: &str) -> Option<Inside> {
        self.module(path).map(|m| self.inside(&m))
    }
    /// The facade's modules, each with its public names.
    pub fn modules(&self) -> BTreeMap<String, Inside> {
        let (mut found, mut todo) = (BTreeMap::new(), vec!["torch".to_string()]);
        while let Some(path) = todo.pop() {
            let Some(m) = self.module(&path) else { continue };
            let inside = self.inside(&m);
            todo.extend(
                inside.iter().filter(|(_, e)| e.kind == Kind::Module).map(|(n, _)| format!("{path}::{n}")),
            );
            found.insert(path, inside);
        }
        found
    }
    fn file(&self, path: &Path) -> Option<&'static [Item]> {
        if let Some(items) = self.files.borrow().get(path) {
            return Some(items);
        }
        let text = std::fs::read_to_string(path).ok()?;
        let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let items: &'static [Item] = Box::leak(file.items.into_boxed_slice());
        self.files.borrow_mut().insert(path.to_path_buf(), items);
        Some(items)
    }
    /// The module of a path that begins with a crate's name.
    fn module(&self, path: &str) -> Option<Module> {
        let mut parts = path.split("::");
        let krate = parts.next()?;
        let folder = if krate == "torch" { "flambeau".to_string() } else { krate.replace('_', "-") };
        let dir = self.crates.join(folder).join("src");
        let mut m = Module { path: krate.to_string(), items: self.file(&dir.join("lib.rs"))?, dir };
        for part in parts {
            m = self.child(&m, part)?;
        }
        Some(m)
    }
    fn child(&self, m: &Module, name: &str) -> Option<Module> {
        for item in m.items {
            let Item::Mod(inner) = item else { continue };
            if inner.ident != name {
                continue;
            }
            let (path, dir) = (format!("{}::{name}", m.path), m.dir.join(name));
            if let Some((_, items)) = &inner.content {
                return Some(Module { path, dir, items });
            }
            let items =
                self.file(&m.dir.join(format!("{name}.rs"))).or_else(|| self.file(&dir.join("mod.rs")))?;
            return Some(Module { path, dir, items });
        }
        // a module that is re-exported
        let leaves = uses(m.items);
        for leaf in leaves.iter().filter(|l| l.name.as_deref() == Some(name)) {
            let found = self
                .absolute(m, &leaf.path)
                .and_then(|p| (p != format!("{}::{name}", m.path)).then(|| self.module(&p))?);
            if found.is_some() {
                return found;
            }
        }
        let globs = leaves.iter().filter(|l| l.name.is_none());
        globs.filter_map(|l| self.module(&self.absolute(m, &l.path)?)).find_map(|g| {
            (g.path != m.path
                && g.items.iter().any(|i| matches!(i, Item::Mod(x) if x.ident == name && is_public(&x.vis))))
            .then(|| self.child(&g, name))?
        })
    }
    /// A path of a `use` in a module, from its crate on.
    fn absolute(&self, m: &Module, path: &[String]) -> Option<String> {
        let krate = m.path.split("::").next()?;
        let (mut base, mut rest) = (None, path);
        while let Some((first, tail)) = rest.split_first() {
            base = match first.as_str() {
                "crate" => Some(krate.to_string()),
                "self" => Some(base.unwrap_or_else(|| m.path.clone())),
                "super" => Some(base.unwrap_or_else(|| m.path.clone()).rsplit_once("::")?.0.to_string()),
                _ => break,
            };
            rest = tail;
        }
        let base = match base {
            Some(b) => b,
            None if rest
                .first()
                .is_some_and(|f| m.items.iter().any(|i| matches!(i, Item::Mod(x) if x.ident == f))) =>
            {
                m.path.clone()
            }
            None => return Some(rest.join("::")),
        };
        Some(
            std::iter::once(base.as_str())
                .chain(rest.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join("::"),
        )
    }
    fn inside(&self, m: &Module) -> Inside {
        if let Some(known) = self.known.borrow().get(&m.path) {
            return known.clone();
        }
        // globs that go round end here
        self.known.borrow_mut().insert(m.path.clone(), Inside::new());
        let mut all = Inside::new();
        for item in m.items {
            let Some((name, kind, takes)) = definition(item) else { continue };
            let form = form_of(item);
            let origins = BTreeSet::from([format!("{}::{name}", m.path)]);
            // `#[short]` makes the panicking form of a fallible one
            if let Some(short) = name.strip_prefix("try_").filter(|_| has_short(item)) {
                let origins = BTreeSet::from([format!("{}::{short}", m.path)]);
                let form = Form { panics: true, fallible: false, ..form.clone() };
                let entry = Entry { kind, origins, takes: takes.clone(), form, glob: false };
                if has_short_with(item) {
                    put(&mut all, format!("{short}_with"), entry.clone());
                }
                put(&mut all, short.into(), entry);
            }
            put(&mut all, name, Entry { kind, origins, takes, form, glob: false });
        }
        for name in m.items.iter().flat_map(options_of_macro) {
            let origins = BTreeSet::from([format!("{}::{name}", m.path)]);
            put(&mut all, name, Entry { kind: Kind::Other, origins, ..Entry::none() });
        }
        for leaf in uses(m.items) {
            let Some(path) = self.absolute(m, &leaf.path) else { continue };
            match leaf.name {
                Some(name) => {
                    let entry = self.entry(&path);
                    put(&mut all, name, Entry { glob: false, ..entry });
                }
                None => {
                    let Some(other) = self.module(&path) else { continue };
                    for (name, entry) in self.inside(&other) {
                        put(&mut all, name, Entry { glob: true, ..entry });
                    }
                }
            }
        }
        self.known.borrow_mut().insert(m.path.clone(), all.clone());
        all
    }
    /// What a path names.
    fn entry(&self, path: &str) -> Entry {
        if let Some((module, name)) = path.rsplit_once("::")
            && let Some(m) = self.module(module)
            && let Some(found) = self.inside(&m).get(name)
        {
            return found.clone();
        }
        let kind = if self.module(path).is_some() { Kind::Module } else { Kind::Other };
        Entry { kind, origins: BTreeSet::from([path.to_string()]), ..Entry::none() }
    }
}
impl Entry {
    /// Written out, not brought by a glob.
    pub fn is_written_out(&self) -> bool {
        !self.glob
    }
    fn none() -> Entry {
        let (origins, takes, form) = (BTreeSet::new(), Vec::new(), Form::default());
        Entry { kind: Kind::Other, origins, takes, form, glob: false }
    }
}

fn has_short(item: &Item) -> bool {
    let Item::Fn(f) = item else { return false };
    f.attrs.iter().any(|a| a.path().segments.last().is_some_and(|s| s.ident == "short"))
}
/// `#[short(with)]` makes `NAME_with` too.
fn has_short_with(item: &Item) -> bool {
    let Item::Fn(f) = item else { return false };
    f.attrs.iter().any(|a| {
        let with = a.parse_args::<syn::Ident>().is_ok_and(|i| i == "with");
        with && a.path().segments.last().is_some_and(|s| s.ident == "short")
    })
}
fn form_of(item: &Item) -> Form {
    let Item::Fn(f) = item else { return Form::default() };
    let mut borrows = Vec::new();
    for a in &f.sig.inputs {
        let syn::FnArg::Typed(a) = a else { continue };
        let syn::Type::Reference(r) = &*a.ty else { continue };
        let syn::Type::Path(p) = &*r.elem else { continue };
        let name = p.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        if name.ends_with("Options") || name.ends_with("Args") {
            borrows.push(name);
        }
    }
    let fallible = match &f.sig.output {
        syn::ReturnType::Type(_, t) => match &**t {
            syn::Type::Path(p) => p.path.segments.last().is_some_and(|s| s.ident == "Result"),
            _ => false,
        },
        syn::ReturnType::Default => false,
    };
    Form { borrows, panics: f.attrs.iter().any(|a| a.path().is_ident("track_caller")), fallible }
}

/// Names written out go before those of globs; globs that agree are one.
fn put(all: &mut Inside, name: String, entry: Entry) {
    match all.get_mut(&name) {
        Some(old) if old.glob && entry.glob => old.origins.extend(entry.origins),
        Some(old) if !old.glob && entry.glob => {}
        // functions and types have namespaces of their own
        Some(old) if !old.glob && old.kind != entry.kind => old.takes.extend(entry.takes),
        _ => {
            all.insert(name, entry);
        }
    }
}

fn is_public(v: &Visibility) -> bool {
    matches!(v, Visibility::Public(_))
}

/// Whether an item is for users, in a program with all default features.
fn is_shown(attrs: &[syn::Attribute]) -> bool {
    !attrs.iter().any(|a| {
        let text = quote::quote!(#a).to_string().replace(' ', "");
        text.contains("doc(hidden)")
            || text.contains("cfg(not(feature")
            || text.contains("cfg(doctest")
            || text.contains("cfg(test")
    })
}

fn definition(item: &Item) -> Option<(String, Kind, Vec<String>)> {
    let (vis, attrs, ident, kind) = match item {
        Item::Fn(i) => (&i.vis, &i.attrs, &i.sig.ident, Kind::Function),
        Item::Mod(i) => (&i.vis, &i.attrs, &i.ident, Kind::Module),
        Item::Struct(i) => (&i.vis, &i.attrs, &i.ident, Kind::Other),
        Item::Enum(i) => (&i.vis, &i.attrs, &i.ident, Kind::Other),
        Item::Trait(i) => (&i.vis, &i.attrs, &i.ident, Kind::Other),
        Item::Type(i) => (&i.vis, &i.attrs, &i.ident, Kind::Other),
        Item::Const(i) => (&i.vis, &i.attrs, &i.ident, Kind::Other),
        Item::Static(i) => (&i.vis, &i.attrs, &i.ident, Kind::Other),
        _ => return None,
    };
    let takes = match item {
        Item::Fn(f) => options(&f.sig),
        _ => Vec::new(),
    };
    (is_public(vis) && is_shown(attrs)).then(|| (ident.to_string(), kind, takes))
}

/// Options that a macro makes in its module: their names as they stand in the call, before their fields.
fn options_of_macro(item: &Item) -> Vec<String> {
    let Item::Macro(call) = item else { return Vec::new() };
    if call.ident.is_some() {
        return Vec::new();
    }
    let tokens: Vec<String> = call.mac.tokens.clone().into_iter().map(|t| t.to_string()).collect();
    let named = tokens.windows(2).filter(|w| w[0].ends_with("Options") && w[1].starts_with('{'));
    named.map(|w| w[0].clone()).collect()
}

/// Options among a function's parameters.
fn options(sig: &syn::Signature) -> Vec<String> {
    struct Found(Vec<String>);
    impl<'a> Visit<'a> for Found {
        fn visit_path_segment(&mut self, s: &'a syn::PathSegment) {
            if s.ident != "Options" && s.ident.to_string().ends_with("Options") {
                self.0.push(s.ident.to_string());
            }
            syn::visit::visit_path_segment(self, s);
        }
    }
    let mut found = Found(Vec::new());
    sig.inputs.iter().for_each(|i| found.visit_fn_arg(i));
    found.0
}

/// One name of a `pub use`; none for a glob.
struct Leaf {
    path: Vec<String>,
    name: Option<String>,
}

fn uses(items: &[Item]) -> Vec<Leaf> {
    fn walk(tree: &UseTree, at: &mut Vec<String>, out: &mut Vec<Leaf>) {
        let leaf = |at: &[String], last: Option<&syn::Ident>, name: Option<String>| {
            let mut path = at.to_vec();
            path.extend(last.filter(|l| *l != "self").map(ToString::to_string));
            let name = name.map(|n| if n == "self" { at.last().cloned().unwrap_or(n) } else { n });
            Leaf { path, name }
        };
        match tree {
            UseTree::Path(p) => {
                at.push(p.ident.to_string());
                walk(&p.tree, at, out);
                at.pop();
            }
            UseTree::Name(n) => out.push(leaf(at, Some(&n.ident), Some(n.ident.to_string()))),
            UseTree::Rename(r) if r.rename == "_" => {}
            UseTree::Rename(r) => out.push(leaf(at, Some(&r.ident), Some(r.rename.to_string()))),
            UseTree::Glob(_) => out.push(leaf(at, None, None)),
            UseTree::Group(g) => g.items.iter().for_each(|t| walk(t, at, out)),
        }
    }
    let mut out = Vec::new();
    for item in items {
        let Item::Use(u) = item else { continue };
        if is_public(&u.vis) && is_shown(&u.attrs) {
            walk(&u.tree, &mut Vec::new(), &mut out);
        }
    }
    out
}

/// Calls `f` with each item of the crates' sources that is worth a look.
fn items(folders: &[&str], hint: &str, mut f: impl FnMut(Item)) {
    let crates = crates();
    let mut files: Vec<PathBuf> = folders.iter().map(|c| crates.join(c).join("src")).collect();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            continue;
        }
        if path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains(hint) {
            syn::parse_file(&text).unwrap().items.into_iter().for_each(&mut f);
        }
    }
}

/// The crates that have traits with methods of `Tensor`.
const ABOVE_CORE: [&str; 5] =
    ["flambeau-autograd", "flambeau-sparse", "flambeau-nn-functional", "flambeau-nn", "flambeau-optim"];

fn is_of_tensor(t: &syn::ItemTrait) -> bool {
    let name = t.ident.to_string();
    is_public(&t.vis) && name.starts_with("Tensor") && name.ends_with("Ext")
}

/// Traits that add methods to `Tensor`.
pub fn tensor_traits() -> Vec<String> {
    let mut names = Vec::new();
    items(&ABOVE_CORE, "pub trait Tensor", |i| {
        names.extend(Some(i).and_then(|i| match i {
            Item::Trait(t) if is_of_tensor(&t) => Some(t.ident.to_string()),
            _ => None,
        }));
    });
    names
}

/// Methods that one crate's traits add to `Tensor`.
pub fn methods_of(krate: &str) -> Vec<String> {
    let mut found = Vec::new();
    items(&[krate], "pub trait Tensor", |item| {
        let Item::Trait(t) = item else { return };
        for f in t.items.iter().filter(|_| is_of_tensor(&t)) {
            if let syn::TraitItem::Fn(f) = f {
                found.push(f.sig.ident.to_string());
            }
        }
    });
    found
}

/// Methods of `Tensor`, its own and those of traits, with their documented names.
pub fn tensor_methods() -> BTreeMap<String, Vec<String>> {
    let mut methods = BTreeMap::new();
    items(&["flambeau-core"], "impl Tensor {", |item| {
        let Item::Impl(i) = item else { return };
        let of = &i.self_ty;
        if i.trait_.is_some() || quote::quote!(#of).to_string() != "Tensor" {
            return;
        }
        for f in i.items {
            if let syn::ImplItem::Fn(f) = f
                && is_public(&f.vis)
                && is_shown(&f.attrs)
            {
                methods.insert(f.sig.ident.to_string(), aliases(&f.attrs));
            }
        }
    });
    items(&ABOVE_CORE, "pub trait Tensor", |item| {
        let Item::Trait(t) = item else { return };
        for f in t.items.iter().filter(|_| is_of_tensor(&t)) {
            if let syn::TraitItem::Fn(f) = f {
                methods.insert(f.sig.ident.to_string(), aliases(&f.attrs));
            }
        }
    });
    methods
}

fn aliases(attrs: &[syn::Attribute]) -> Vec<String> {
    let mut found = Vec::new();
    for a in attrs.iter().filter(|a| a.path().is_ident("doc")) {
        let _ = a.parse_nested_meta(|m| {
            let v: syn::LitStr = m.value()?.parse()?;
            found.push(v.value());
            Ok(())
        });
    }
    found
}
