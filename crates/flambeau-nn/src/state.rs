//! State dicts: collecting and loading.

use crate::module::{Module, VisitorMut};
use crate::parameter::{Buffer, Parameter};
use crate::walk::{Own, join};
use flambeau_core::geometry::fmt_sizes;
use flambeau_core::{Error, Result, Tensor, ops};
use flambeau_serialization::{ToTree, Tree};
use std::collections::HashSet;
use std::fmt;

/// Tensors under dotted names, in order, with the version of each module's saved form.
#[derive(Clone, Debug, Default)]
pub struct StateDict {
    entries: Vec<(String, Tensor)>,
    versions: Vec<(String, i64)>,
    /// Names of the entries of lazy modules that have no sizes yet.
    uninitialized: Vec<String>,
}

impl StateDict {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }
    /// The tensor under a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, t)| t)
    }
    /// Puts a tensor under a name, at the end if the name is new.
    pub fn insert(&mut self, name: impl Into<String>, t: Tensor) {
        let name = name.into();
        self.uninitialized.retain(|n| *n != name);
        match self.entries.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => *old = t,
            None => self.entries.push((name, t)),
        }
    }
    /// Takes a tensor out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        let i = self.entries.iter().position(|(n, _)| n == name)?;
        self.uninitialized.retain(|n| n != name);
        Some(self.entries.remove(i).1)
    }
    /// Names and tensors, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.entries.iter().map(|(n, t)| (n.as_str(), t))
    }
    /// Names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(n, _)| n.as_str())
    }
    /// Whether the entry belongs to a lazy module that did not run yet: it has no sizes and no elements.
    pub fn is_uninitialized(&self, name: &str) -> bool {
        self.uninitialized.iter().any(|n| n == name)
    }
    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// No tensors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Version of the saved form of the module at a path, where the dict says so.
    pub fn version(&self, module: &str) -> Option<i64> {
        self.versions.iter().find(|(n, _)| n == module).map(|(_, v)| *v)
    }
    /// Of a loaded checkpoint: a dict of tensors.
    ///
    /// # Errors
    /// Anything else than a dict from strings to tensors.
    pub fn from_tree(tree: &Tree<Tensor>) -> Result<StateDict> {
        let entries = tree.entries().ok_or_else(|| {
            Error::type_("Expected state_dict to be dict-like, got something else".to_owned())
        })?;
        let mut out = StateDict::new();
        for (k, v) in entries {
            match (k, v) {
                (Tree::Str(k), Tree::Tensor(t)) => out.entries.push((k.clone(), t.clone())),
                (Tree::Str(k), _) => {
                    return Err(Error::type_(format!("state dict: the entry {k} is not a tensor")));
                }
                _ => return Err(Error::type_("state dict: a key is not a string")),
            }
        }
        if let Tree::OrderedDict(_, attributes) = tree
            && let Some(metadata) = attributes.get("_metadata").and_then(Tree::entries)
        {
            for (k, v) in metadata {
                if let (Tree::Str(k), Some(Tree::Int(n))) = (k, v.get("version")) {
                    out.versions.push((k.clone(), *n));
                }
            }
        }
        Ok(out)
    }
}
impl ToTree for StateDict {
    /// An `OrderedDict` with PyTorch's `_metadata`.
    fn to_tree(&self) -> Tree<Tensor> {
        let text = |s: &str| Tree::Str(s.to_owned());
        let entries = self.entries.iter().map(|(n, t)| (text(n), Tree::Tensor(t.clone()))).collect();
        let versions =
            self.versions.iter().map(|(n, v)| (text(n), Tree::Dict(vec![(text("version"), Tree::Int(*v))])));
        let metadata = Tree::OrderedDict(versions.collect(), Box::new(Tree::None));
        let attributes = if self.versions.is_empty() {
            Tree::None
        } else {
            Tree::Dict(vec![(text("_metadata"), metadata)])
        };
        Tree::OrderedDict(entries, Box::new(attributes))
    }
}
impl<S: Into<String>> FromIterator<(S, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (S, Tensor)>>(it: I) -> Self {
        let mut out = StateDict::new();
        it.into_iter().for_each(|(n, t)| out.insert(n, t));
        out
    }
}
impl IntoIterator for StateDict {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;
    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
impl TryFrom<Tree<Tensor>> for StateDict {
    type Error = Error;
    fn try_from(tree: Tree<Tensor>) -> Result<Self> {
        Self::from_tree(&tree)
    }
}

pub(crate) fn collect(root: &dyn Module) -> StateDict {
    fn go(m: &dyn Module, prefix: &str, out: &mut StateDict) {
        let own = Own::of(m);
        out.versions.push((prefix.to_owned(), m.version()));
        let mut add = |name: &str, t: &Tensor, open: bool| {
            let name = join(prefix, name);
            if open {
                out.uninitialized.push(name.clone());
            }
            out.entries.push((name, t.alias_detached()));
        };
        own.parameters.iter().for_each(|(n, p)| add(n, p, p.is_uninitialized()));
        let buffers = own.buffers.iter().filter(|(_, b)| b.is_persistent());
        buffers.for_each(|(n, b)| add(n, b, b.is_uninitialized()));
        for (name, child) in own.modules {
            go(child, &join(prefix, &name), out);
        }
    }
    let mut out = StateDict::new();
    go(root, "", &mut out);
    out
}

/// Options of [`Module::load_state_dict_with`].
#[derive(Clone, Copy, Debug)]
pub struct LoadStateDictOptions {
    pub(crate) strict: bool,
    pub(crate) assign: bool,
}
impl Default for LoadStateDictOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl LoadStateDictOptions {
    /// The documented defaults: strict, copying.
    pub fn new() -> Self {
        LoadStateDictOptions { strict: true, assign: false }
    }
    /// Whether all names must match.
    pub fn strict(mut self, on: bool) -> Self {
        self.strict = on;
        self
    }
    /// Whether the tensors of the dict are put in place of the module's, instead of being copied into them.
    pub fn assign(mut self, on: bool) -> Self {
        self.assign = on;
        self
    }
}

/// Names that did not match, after a load that was not strict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncompatibleKeys {
    /// In the module, not in the dict.
    pub missing_keys: Vec<String>,
    /// In the dict, not in the module.
    pub unexpected_keys: Vec<String>,
}
impl fmt::Display for IncompatibleKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.missing_keys.is_empty() && self.unexpected_keys.is_empty() {
            return f.write_str("<All keys matched successfully>");
        }
        let list = |l: &[String]| l.iter().map(|k| format!("'{k}'")).collect::<Vec<_>>().join(", ");
        write!(
            f,
            "_IncompatibleKeys(missing_keys=[{}], unexpected_keys=[{}])",
            list(&self.missing_keys),
            list(&self.unexpected_keys)
        )
    }
}

/// What a comparison of a module with a state dict found.
#[derive(Default)]
struct Report {
    keys: IncompatibleKeys,
    errors: Vec<String>,
}
impl Report {
    fn finish(mut self, root: &dyn Module, strict: bool) -> Result<IncompatibleKeys> {
        if strict {
            for (keys, what) in
                [(&self.keys.unexpected_keys, "Unexpected"), (&self.keys.missing_keys, "Missing")]
            {
                if !keys.is_empty() {
                    let list = keys.iter().map(|k| format!("\"{k}\"")).collect::<Vec<_>>().join(", ");
                    self.errors.insert(0, format!("{what} key(s) in state_dict: {list}. "));
                }
            }
        }
        if self.errors.is_empty() {
            return Ok(self.keys);
        }
        Err(Error::runtime(format!(
            "Error(s) in loading state_dict for {}:\n\t{}",
            root.type_name(),
            self.errors.join("\n\t")
        )))
    }
}

/// Walks module and dict together; `take` gets each matching pair, with what the module has and what the dict has.
fn compare(
    m: &dyn Module,
    prefix: &str,
    state: &StateDict,
    keys: &[&str],
    report: &mut Report,
    take: &mut dyn FnMut(&str, &Tensor, Tensor) -> Result<()>,
) {
    let own = Own::of(m);
    let persistent = own.buffers.iter().filter(|(_, b)| b.is_persistent()).map(|(n, b)| (n, b.tensor()));
    // what has no sizes yet takes those of the dict
    let open = own.parameters.iter().filter(|(_, p)| p.is_uninitialized()).map(|(n, p)| (n, Ok(p)));
    let open = open.chain(own.buffers.iter().filter(|(_, b)| b.is_uninitialized()).map(|(n, b)| (n, Err(b))));
    for (name, place) in open {
        let key = join(prefix, name);
        if let Some(t) = state.get(&key).filter(|_| !state.is_uninitialized(&key)) {
            let made = match place {
                Ok(p) => p.materialize(t.sizes()),
                Err(b) => b.materialize(t.sizes()),
            };
            if let Err(e) = made {
                report.errors.push(e.to_string());
            }
        }
    }
    let mut local = HashSet::new();
    for (name, here) in own.parameters.iter().map(|(n, p)| (n, p.tensor())).chain(persistent) {
        local.insert(name.as_str());
        let key = join(prefix, name);
        let Some(there) = state.get(&key) else {
            if !m.may_lack(name, state.version(prefix)) {
                report.keys.missing_keys.push(key);
            }
            continue;
        };
        let mut there = there.alias_detached();
        if here.dim() == 0 && there.sizes() == [1] {
            // scalars of very old files have one dimension
            match ops::select(&there, 0, 0) {
                Ok(t) => there = t,
                Err(e) => report.errors.push(e.to_string()),
            }
        }
        if here.sizes() != there.sizes() && !state.is_uninitialized(&key) {
            report.errors.push(format!(
                "size mismatch for {key}: copying a param with shape torch.Size({}) from checkpoint, the shape in \
                 current model is torch.Size({}).",
                fmt_sizes(there.sizes()),
                fmt_sizes(here.sizes())
            ));
            continue;
        }
        let (want, given) = (fmt_sizes(here.sizes()), fmt_sizes(there.sizes()));
        if let Err(e) = take(&key, here, there) {
            report.errors.push(format!(
                "While copying the parameter named \"{key}\", whose dimensions in the model are torch.Size({want}) and \
                 whose dimensions in the checkpoint are torch.Size({given}), an exception occurred : ('{e}',)."
            ));
        }
    }
    let children: HashSet<&str> = own.modules.iter().map(|(n, _)| n.as_str()).collect();
    for key in keys {
        let rest = if prefix.is_empty() { key } else { key[prefix.len()..].trim_start_matches('.') };
        let known = match rest.split_once('.') {
            Some((head, _)) => children.contains(head),
            None => local.contains(rest),
        };
        if !known {
            report.keys.unexpected_keys.push((*key).to_owned());
        }
    }
    for (name, child) in &own.modules {
        let below = join(prefix, name);
        let dotted = format!("{below}.");
        let inner: Vec<&str> = keys.iter().copied().filter(|k| k.starts_with(&dotted)).collect();
        compare(*child, &below, state, &inner, report, take);
    }
}

pub(crate) fn load(root: &dyn Module, state: &StateDict, strict: bool) -> Result<IncompatibleKeys> {
    let mut report = Report::default();
    let keys: Vec<&str> = state.keys().collect();
    flambeau_autograd::no_grad(|| {
        compare(root, "", state, &keys, &mut report, &mut |_, here, there| ops::copy_(here, &there, false));
    });
    report.finish(root, strict)
}

/// Puts the dict's tensors in place of the module's.
struct Assign<'a> {
    state: &'a StateDict,
    prefix: String,
}
impl Assign<'_> {
    fn fitting(&self, name: &str, here: &Tensor) -> Option<Tensor> {
        let there = self.state.get(&join(&self.prefix, name))?;
        (there.sizes() == here.sizes()).then(|| there.alias_detached())
    }
}
impl VisitorMut for Assign<'_> {
    fn parameter(&mut self, name: &str, p: &mut Parameter) -> Result<()> {
        if let Some(t) = self.fitting(name, p) {
            let new = Parameter::try_new(&t, p.requires_grad())?;
            p.mark_replaced();
            *p = new;
        }
        Ok(())
    }
    fn buffer(&mut self, name: &str, b: &mut Buffer) -> Result<()> {
        if let Some(t) = self.fitting(name, b).filter(|_| b.is_persistent()) {
            b.set(t);
        }
        Ok(())
    }
    fn module(&mut self, name: &str, m: &mut dyn Module) -> Result<()> {
        let outer = std::mem::take(&mut self.prefix);
        self.prefix = join(&outer, name);
        m.visit_mut(self)?;
        for (n, mut b) in m.base().map(|b| b.extra_buffers()).unwrap_or_default() {
            self.buffer(&n, &mut b)?;
            if let Some(base) = m.base() {
                base.register_buffer(&n, b)?;
            }
        }
        self.prefix = outer;
        Ok(())
    }
}

pub(crate) fn assign(root: &mut dyn Module, state: &StateDict, strict: bool) -> Result<IncompatibleKeys> {
    let mut report = Report::default();
    let keys: Vec<&str> = state.keys().collect();
    compare(root, "", state, &keys, &mut report, &mut |_, _, _| Ok(()));
    let keys = report.finish(root, strict)?;
    let mut v = Assign { state, prefix: String::new() };
    v.module("", root)?;
    Ok(keys)
}
