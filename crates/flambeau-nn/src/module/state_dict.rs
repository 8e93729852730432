//! State dicts: collecting and loading.

use crate::module::depth;
use crate::module::traversal::{self, Own, join, shown_name};
use crate::module::{Module, VisitorMut};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{Error, Result, Tensor, ops};
use flambeau_serialization::tensors::NamedTensors;
use flambeau_serialization::{ToTree, Tree};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// Tensors under dotted names, in order, with the version of each module's saved form.
#[derive(Clone, Debug, Default)]
pub struct StateDict {
    entries: Vec<(String, Tensor)>,
    versions: Vec<(String, i64)>,
    /// Names of the entries of lazy modules that have no sizes yet.
    uninitialized: Vec<String>,
    /// Further numbers of the metadata: module, group, key (`spectral_norm`, `weight.version`).
    marks: Vec<(String, [String; 2], i64)>,
}

impl StateDict {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }
    /// Of names that are all different.
    #[cfg(feature = "serde")]
    pub(super) fn from_distinct(entries: Vec<(String, Tensor)>) -> Self {
        StateDict { entries, ..StateDict::default() }
    }
    /// The tensor under a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, t)| t)
    }
    /// Whether there is a tensor under a name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
    /// The tensor under a name, to be exchanged.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Tensor> {
        self.entries.iter_mut().find(|(n, _)| n == name).map(|(_, t)| t)
    }
    /// Puts a tensor under a name, at the end if the name is new; gives the one that was there.
    pub fn insert(&mut self, name: impl ToString, t: Tensor) -> Option<Tensor> {
        let name = name.to_string();
        self.uninitialized.retain(|n| *n != name);
        match self.entries.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => Some(std::mem::replace(old, t)),
            None => {
                self.entries.push((name, t));
                None
            }
        }
    }
    /// The same names with tensors of their own: a clone of a dict has the model's own memory, which training goes on to change.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    /// let model = nn::Linear::new(2, 1);
    /// let best = model.state_dict().deepcopy();
    /// torch::no_grad(|| model.weight.fill_(7));
    /// assert!(!torch::equal(&best["weight"], &model.weight));
    /// model.load_state_dict(&best)?;
    /// assert!(torch::equal(&best["weight"], &model.weight));
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn deepcopy(&self) -> StateDict {
        expect(self.try_deepcopy())
    }
    /// [`StateDict::deepcopy`] with an error instead of a panic.
    ///
    /// # Errors
    /// Too little memory.
    pub fn try_deepcopy(&self) -> Result<StateDict> {
        let mut out = self.clone();
        for (name, t) in &mut out.entries {
            if !self.uninitialized.contains(name) {
                *t = ops::clone(&t.alias_detached(), None)?;
            }
        }
        Ok(out)
    }
    /// Keeps the entries for which `f` says so.
    pub fn retain(&mut self, mut f: impl FnMut(&str, &Tensor) -> bool) {
        self.entries.retain(|(n, t)| f(n, t));
        let entries = &self.entries;
        self.uninitialized.retain(|u| entries.iter().any(|(n, _)| n == u));
    }
    /// Takes everything out, the metadata too.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
    /// The same tensors under other names: `state.rename(|n| n.replace("module.", ""))`. The metadata moves along where a
    /// name's module does.
    pub fn rename(self, f: impl Fn(&str) -> String) -> StateDict {
        let module = |m: &str| {
            // the path of a module is that of any of its members
            let renamed = f(&if m.is_empty() { "x".to_owned() } else { format!("{m}.x") });
            renamed.rsplit_once('.').map_or(String::new(), |(path, _)| path.to_owned())
        };
        StateDict {
            entries: self.entries.into_iter().map(|(n, t)| (f(&n), t)).collect(),
            versions: self.versions.into_iter().map(|(m, v)| (module(&m), v)).collect(),
            uninitialized: self.uninitialized.iter().map(|n| f(n)).collect(),
            marks: self.marks.into_iter().map(|(m, k, n)| (module(&m), k, n)).collect(),
        }
    }
    /// Tensors, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.entries.iter().map(|(_, t)| t)
    }
    /// Takes a tensor out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        let i = self.entries.iter().position(|(n, _)| n == name)?;
        self.uninitialized.retain(|n| n != name);
        Some(self.entries.remove(i).1)
    }
    /// Names and tensors, in order.
    pub fn iter(&self) -> Entries<'_> {
        Entries(self.entries.iter())
    }
    /// Names, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
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
    /// A further number in the metadata of the module at a path, where the dict has it.
    pub fn mark(&self, module: &str, group: &str, key: &str) -> Option<i64> {
        self.marks.iter().find(|(m, [g, k], _)| m == module && g == group && k == key).map(|(_, _, n)| *n)
    }
    /// Sets such a number.
    pub fn set_mark(&mut self, module: &str, group: &str, key: &str, n: i64) {
        self.marks.retain(|(m, [g, k], _)| !(m == module && g == group && k == key));
        self.marks.push((module.to_owned(), [group.to_owned(), key.to_owned()], n));
    }
    /// The entries whose names start with `prefix`, and all metadata.
    fn below(&self, prefix: &str) -> StateDict {
        StateDict {
            entries: self.entries.iter().filter(|(n, _)| n.starts_with(prefix)).cloned().collect(),
            versions: self.versions.clone(),
            marks: self.marks.clone(),
            uninitialized: self.uninitialized.clone(),
        }
    }
    /// An entry that is no tensor.
    fn push_other(&mut self, name: &str, v: &Tree<Tensor>) -> Result<()> {
        let wrong = || Error::type_(format!("state dict: the entry {name} is not a tensor"));
        match v {
            Tree::DType(d) => {
                let none = flambeau_core::ops::empty(&[0], Some(*d), None, None, None, None)?;
                self.entries.push((format!("{name}@dtype"), none));
            }
            Tree::Tuple(items) => {
                for (i, v) in items.iter().enumerate().filter(|(_, v)| !matches!(v, Tree::None)) {
                    self.entries.push((format!("{name}@{i}"), v.as_tensor().ok_or_else(wrong)?.clone()));
                }
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }
    /// Of a loaded checkpoint: a dict of tensors. The state of quantized layers has tuples of tensors and dtypes beside them: items of
    /// a tuple `NAME` are the entries `NAME@0`, `NAME@1`, and `NAME@dtype` is a tensor without elements of that dtype.
    ///
    /// # Errors
    /// Anything else than a dict from strings to tensors, such tuples and dtypes.
    pub fn from_tree(tree: &Tree<Tensor>) -> Result<StateDict> {
        let entries = tree.entries().ok_or_else(|| {
            Error::type_("Expected state_dict to be dict-like, got something else".to_owned())
        })?;
        let mut out = StateDict::new();
        for (k, v) in entries {
            match (k, v.as_tensor()) {
                (Tree::Str(k), Some(t)) => out.entries.push((k.clone(), t.clone())),
                (Tree::Str(k), None) => out.push_other(k, v)?,
                _ => return Err(Error::type_("state dict: a key is not a string")),
            }
        }
        if let Tree::OrderedDict(_, attributes) = tree
            && let Some(metadata) = attributes.get("_metadata").and_then(Tree::entries)
        {
            for (k, v) in metadata {
                let Tree::Str(k) = k else { continue };
                if let Some(Tree::Int(n)) = v.get("version") {
                    out.versions.push((k.clone(), *n));
                }
                for (group, inner) in v.entries().unwrap_or_default() {
                    let (Tree::Str(group), Some(inner)) = (group, inner.entries()) else { continue };
                    for (key, n) in inner {
                        if let (Tree::Str(key), Tree::Int(n)) = (key, n) {
                            out.set_mark(k, group, key, *n);
                        }
                    }
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
        let mut entries: Vec<(Tree<Tensor>, Tree<Tensor>)> = Vec::new();
        for (n, t) in &self.entries {
            let tensor = Tree::Tensor(t.clone());
            match n.rsplit_once('@') {
                Some((n, "dtype")) => entries.push((text(n), Tree::DType(t.dtype()))),
                // a weight and a bias, which may be absent
                Some((n, "0")) => entries.push((text(n), Tree::Tuple(vec![tensor, Tree::None]))),
                Some((n, "1")) => {
                    if let Some((_, Tree::Tuple(items))) =
                        entries.iter_mut().find(|(k, _)| matches!(k, Tree::Str(k) if k == n))
                    {
                        items[1] = tensor;
                    }
                }
                _ => entries.push((text(n), tensor)),
            }
        }
        let versions = self.versions.iter().map(|(n, v)| {
            let mut entries = vec![(text("version"), Tree::Int(*v))];
            for (_, [group, key], number) in self.marks.iter().filter(|(m, ..)| m == n) {
                let entry = (text(key), Tree::Int(*number));
                match entries.iter_mut().find(|(k, _)| matches!(k, Tree::Str(s) if s == group)) {
                    Some((_, Tree::Dict(inner))) => inner.push(entry),
                    _ => entries.push((text(group), Tree::Dict(vec![entry]))),
                }
            }
            (text(n), Tree::Dict(entries))
        });
        let metadata = Tree::OrderedDict(versions.collect(), Box::new(Tree::None));
        let attributes = if self.versions.is_empty() {
            Tree::None
        } else {
            Tree::Dict(vec![(text("_metadata"), metadata)])
        };
        Tree::OrderedDict(entries, Box::new(attributes))
    }
}
impl<S: ToString> FromIterator<(S, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (S, Tensor)>>(it: I) -> Self {
        let mut out = StateDict::new();
        out.extend(it);
        out
    }
}
impl<S: ToString> Extend<(S, Tensor)> for StateDict {
    fn extend<I: IntoIterator<Item = (S, Tensor)>>(&mut self, it: I) {
        for (name, t) in it {
            self.insert(name, t);
        }
    }
}
impl<S: ToString, const N: usize> From<[(S, Tensor); N]> for StateDict {
    fn from(entries: [(S, Tensor); N]) -> Self {
        entries.into_iter().collect()
    }
}
impl<S: ToString> From<Vec<(S, Tensor)>> for StateDict {
    fn from(entries: Vec<(S, Tensor)>) -> Self {
        entries.into_iter().collect()
    }
}
impl<S: ToString, H> From<HashMap<S, Tensor, H>> for StateDict {
    /// In the order of the names: a hash map has none of its own.
    fn from(entries: HashMap<S, Tensor, H>) -> Self {
        let mut all: Vec<(String, Tensor)> = entries.into_iter().map(|(n, t)| (n.to_string(), t)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.into()
    }
}
impl<S: ToString> From<BTreeMap<S, Tensor>> for StateDict {
    fn from(entries: BTreeMap<S, Tensor>) -> Self {
        entries.into_iter().collect()
    }
}
impl From<NamedTensors> for StateDict {
    fn from(file: NamedTensors) -> Self {
        file.into_iter().collect()
    }
}
impl From<StateDict> for HashMap<String, Tensor> {
    fn from(state: StateDict) -> Self {
        state.entries.into_iter().collect()
    }
}
impl From<StateDict> for BTreeMap<String, Tensor> {
    fn from(state: StateDict) -> Self {
        state.entries.into_iter().collect()
    }
}
impl std::ops::Index<&str> for StateDict {
    type Output = Tensor;
    /// Panics with Python's `KeyError` if there is no such name.
    #[track_caller]
    fn index(&self, name: &str) -> &Tensor {
        self.get(name).unwrap_or_else(|| panic!("KeyError: '{name}'"))
    }
}
/// Names and tensors of a [`StateDict`], in order.
#[derive(Clone, Debug)]
pub struct Entries<'a>(std::slice::Iter<'a, (String, Tensor)>);
impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, &'a Tensor);
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(n, t)| (n.as_str(), t))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}
impl ExactSizeIterator for Entries<'_> {}
impl<'a> IntoIterator for &'a StateDict {
    type Item = (&'a str, &'a Tensor);
    type IntoIter = Entries<'a>;
    fn into_iter(self) -> Entries<'a> {
        self.iter()
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
impl TryFrom<&Tree<Tensor>> for StateDict {
    type Error = Error;
    fn try_from(tree: &Tree<Tensor>) -> Result<Self> {
        Self::from_tree(tree)
    }
}

/// What [`Module::load_state_dict`] takes: a [`StateDict`], what `torch::load` gives, a part of it, or tensors by name.
///
/// ```
/// use std::collections::HashMap;
/// use torch::{nn, prelude::*, serialization::ToTree};
/// let (layer, state) = (nn::Linear::new(1, 1), nn::Linear::new(1, 1).state_dict());
/// layer.load_state_dict(&state);
/// layer.load_state_dict(&state.to_tree());
/// layer.load_state_dict(&HashMap::from([("weight", torch::ones([1, 1])), ("bias", torch::zeros([1]))]));
/// assert_eq!(layer.call(&torch::tensor([[3.0]])).item::<f32>(), 3.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no state dict",
    label = "a state dict is wanted here",
    note = "`&torch::load(path)?`, a part of it (`&checkpoint[\"model\"]`), or a reference to a `StateDict` or to a map of tensors"
)]
pub trait AsStateDict {
    /// The entries.
    ///
    /// # Errors
    /// A loaded value that holds other things than tensors by name.
    fn as_state_dict(&self) -> Result<Cow<'_, StateDict>>;
}
impl AsStateDict for StateDict {
    fn as_state_dict(&self) -> Result<Cow<'_, StateDict>> {
        Ok(Cow::Borrowed(self))
    }
}
impl AsStateDict for Tree<Tensor> {
    fn as_state_dict(&self) -> Result<Cow<'_, StateDict>> {
        StateDict::from_tree(self).map(Cow::Owned)
    }
}
impl<T: AsStateDict + ?Sized> AsStateDict for &T {
    fn as_state_dict(&self) -> Result<Cow<'_, StateDict>> {
        (**self).as_state_dict()
    }
}
/// Both together: parameters and buffers.
impl<A: AsStateDict, B: AsStateDict> AsStateDict for (A, B) {
    fn as_state_dict(&self) -> Result<Cow<'_, StateDict>> {
        let mut all = self.0.as_state_dict()?.into_owned();
        all.extend(self.1.as_state_dict()?.into_owned());
        Ok(Cow::Owned(all))
    }
}
macro_rules! maps {
    ($([$($generics:tt)*] $t:ty;)*) => {$(
        impl<$($generics)*> AsStateDict for $t {
            fn as_state_dict(&self) -> Result<Cow<'_, StateDict>> {
                Ok(Cow::Owned(self.clone().into()))
            }
        }
    )*};
}
maps! {
    [] NamedTensors; [S: ToString + Clone, H: Clone] HashMap<S, Tensor, H>;
    [S: ToString + Clone] BTreeMap<S, Tensor>; [S: ToString + Clone] Vec<(S, Tensor)>;
}

/// Options of [`Module::state_dict_with`].
#[derive(Clone, Debug, Default)]
pub struct StateDictOptions {
    pub(crate) prefix: String,
    pub(crate) keep_vars: bool,
}
impl StateDictOptions {
    /// The documented defaults: no prefix, detached tensors.
    pub fn new() -> Self {
        Self::default()
    }
    /// What stands before every name, its dot included: `"encoder."`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }
    /// Whether the dict has the parameters themselves, instead of tensors without history over the same memory.
    pub fn keep_vars(mut self, on: bool) -> Self {
        self.keep_vars = on;
        self
    }
}
/// The path of a module whose names start so.
fn path_of(prefix: &str) -> &str {
    &prefix[..prefix.char_indices().next_back().map_or(0, |(i, _)| i)]
}
const EXTRA: &str = "_extra_state";

pub(crate) fn collect(root: &dyn Module, o: &StateDictOptions, out: &mut StateDict) {
    fn go(m: &dyn Module, prefix: &str, keep: bool, out: &mut StateDict) {
        let _level = expect(depth::enter());
        out.versions.push((path_of(prefix).to_owned(), m.version()));
        let hooks = m.base().and_then(|b| b.hooks());
        if let Some(h) = hooks {
            h.run_state_pre(m, prefix, keep);
        }
        let own = Own::of(m);
        let mut add = |name: &str, t: &Tensor, open: bool| {
            let name = format!("{prefix}{name}");
            if open {
                out.uninitialized.push(name.clone());
            }
            out.entries.push((name, if keep { t.clone() } else { t.alias_detached() }));
        };
        own.parameters.iter().for_each(|(n, p)| add(n, p, p.is_uninitialized()));
        let buffers = own.buffers.iter().filter(|(_, b)| b.is_persistent());
        buffers.for_each(|(n, b)| add(n, b, b.is_uninitialized()));
        if let Some(t) = m.get_extra_state() {
            out.entries.push((format!("{prefix}{EXTRA}"), t));
        }
        for (name, child) in own.modules {
            go(child, &format!("{prefix}{name}."), keep, out);
        }
        if let Some(h) = hooks {
            h.run_state(m, out, prefix);
        }
    }
    go(root, &o.prefix, o.keep_vars, out);
}

/// Options of [`Module::load_state_dict_with`].
#[derive(Clone, Copy, Debug)]
pub struct LoadStateDictOptions {
    pub(crate) strict: bool,
}
impl Default for LoadStateDictOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl LoadStateDictOptions {
    /// The documented default: strict.
    pub fn new() -> Self {
        LoadStateDictOptions { strict: true }
    }
    /// Whether all names must match.
    pub fn strict(mut self, on: bool) -> Self {
        self.strict = on;
        self
    }
}

/// Keywords of `zero_grad_with`, of modules and of optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZeroGradOptions {
    /// Whether gradients are forgotten; else their elements become zero.
    pub set_to_none: bool,
}
impl Default for ZeroGradOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl ZeroGradOptions {
    /// The documented default: gradients are forgotten.
    pub fn new() -> Self {
        ZeroGradOptions { set_to_none: true }
    }
    /// Sets `set_to_none` (default `true`).
    pub fn set_to_none(mut self, on: bool) -> Self {
        self.set_to_none = on;
        self
    }
}

/// Names that did not match, after a load that was not strict.
///
/// ```
/// use torch::nn::{self, IncompatibleKeys, LoadStateDictOptions, StateDict};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(1, 1);
/// let state = StateDict::from([("weight", torch::ones([1, 1])), ("scale", torch::ones([1]))]);
/// let keys: IncompatibleKeys = layer.load_state_dict_with(&state, LoadStateDictOptions::new().strict(false))?;
/// assert_eq!((keys.missing_keys, keys.unexpected_keys), (vec!["bias".to_string()], vec!["scale".to_string()]));
/// # Ok::<(), torch::Error>(())
/// ```
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

/// What a comparison of a module with a state dict found so far.
///
/// ```
/// use torch::nn::{self, LoadReport, StateDict};
/// use torch::prelude::*;
/// let layer = nn::Linear::new(1, 1);
/// // an older file's name
/// layer.register_load_state_dict_pre_hook(|_, state: &mut StateDict, _, report: &mut LoadReport| {
///     match state.remove("kernel") {
///         Some(t) => drop(state.insert("weight", t)),
///         None => report.error_msgs.push("there is no kernel".into()),
///     }
/// });
/// layer.load_state_dict(&StateDict::from([("kernel", torch::ones([1, 1])), ("bias", torch::zeros([1]))]));
/// assert_eq!(layer.weight.item::<f32>(), 1.0);
/// ```
#[derive(Debug, Default)]
pub struct LoadReport {
    /// Names that did not match.
    pub keys: IncompatibleKeys,
    /// Lines of the error that the load ends with, if there are any.
    pub error_msgs: Vec<String>,
}
impl LoadReport {
    fn finish(mut self, root: &dyn Module, strict: bool) -> Result<IncompatibleKeys> {
        if strict {
            for (keys, what) in
                [(&self.keys.unexpected_keys, "Unexpected"), (&self.keys.missing_keys, "Missing")]
            {
                if !keys.is_empty() {
                    let list = keys.iter().map(|k| format!("\"{k}\"")).collect::<Vec<_>>().join(", ");
                    self.error_msgs.insert(0, format!("{what} key(s) in state_dict: {list}. "));
                }
            }
        }
        if self.error_msgs.is_empty() {
            return Ok(self.keys);
        }
        Err(Error::runtime(format!(
            "Error(s) in loading state_dict for {}:\n\t{}",
            shown_name(root),
            self.error_msgs.join("\n\t")
        )))
    }
}

/// Walks module and dict together; `take` gets each matching pair, with what the module has and what the dict has.
fn compare(
    m: &dyn Module,
    prefix: &str,
    state: &mut StateDict,
    report: &mut LoadReport,
    take: &mut dyn FnMut(&str, &Tensor, Tensor) -> Result<()>,
) {
    let hooks = m.base().and_then(|b| b.hooks());
    if let Some(h) = hooks {
        h.run_load_pre(m, state, prefix, report);
    }
    let own = Own::of(m);
    let persistent = own.buffers.iter().filter(|(_, b)| b.is_persistent()).map(|(n, b)| (n, b.tensor()));
    // what has no sizes yet takes those of the dict
    let open = own.parameters.iter().filter(|(_, p)| p.is_uninitialized()).map(|(n, p)| (n, Ok(p)));
    let open = open.chain(own.buffers.iter().filter(|(_, b)| b.is_uninitialized()).map(|(n, b)| (n, Err(b))));
    for (name, place) in open {
        let key = format!("{prefix}{name}");
        if let Some(t) = state.get(&key).filter(|_| !state.is_uninitialized(&key)) {
            let made = match place {
                Ok(p) => p.materialize(t.sizes()),
                Err(b) => b.materialize(t.sizes()),
            };
            if let Err(e) = made {
                report.error_msgs.push(e.to_string());
            }
        }
    }
    let mut local = HashSet::new();
    for (name, here) in own.parameters.iter().map(|(n, p)| (n, p.tensor())).chain(persistent) {
        local.insert(name.as_str());
        let key = format!("{prefix}{name}");
        let Some(there) = state.get(&key) else {
            if !m.may_lack(name, state.version(path_of(prefix))) {
                report.keys.missing_keys.push(key);
            }
            continue;
        };
        let mut there = there.alias_detached();
        if here.dim() == 0 && there.sizes() == [1] {
            // scalars of very old files have one dimension
            match ops::select(&there, 0, 0) {
                Ok(t) => there = t,
                Err(e) => report.error_msgs.push(e.to_string()),
            }
        }
        if here.sizes() != there.sizes() && !state.is_uninitialized(&key) {
            report.error_msgs.push(format!(
                "size mismatch for {key}: copying a param with shape torch.Size({}) from checkpoint, the shape in \
                 current model is torch.Size({}).",
                fmt_sizes(there.sizes()),
                fmt_sizes(here.sizes())
            ));
            continue;
        }
        let (want, given) = (fmt_sizes(here.sizes()), fmt_sizes(there.sizes()));
        if let Err(e) = take(&key, here, there) {
            report.error_msgs.push(format!(
                "While copying the parameter named \"{key}\", whose dimensions in the model are torch.Size({want}) and \
                 whose dimensions in the checkpoint are torch.Size({given}), an exception occurred : ('{e}',)."
            ));
        }
    }
    let extra = format!("{prefix}{EXTRA}");
    if m.get_extra_state().is_some() {
        match state.get(&extra).cloned() {
            Some(t) => {
                if let Err(e) = m.set_extra_state(&t) {
                    report.error_msgs.push(e.to_string());
                }
            }
            None => report.keys.missing_keys.push(extra.clone()),
        }
    } else if state.get(&extra).is_some() {
        report.keys.unexpected_keys.push(extra.clone());
    }
    let children: HashSet<&str> = own.modules.iter().map(|(n, _)| n.as_str()).collect();
    for key in state.keys().filter(|k| *k != extra) {
        let Some(rest) = key.strip_prefix(prefix) else { continue };
        let known = match rest.split_once('.') {
            Some((head, _)) => children.contains(head),
            None => local.contains(rest),
        };
        if !known {
            report.keys.unexpected_keys.push(key.to_owned());
        }
    }
    for (name, child) in &own.modules {
        let below = format!("{prefix}{name}.");
        compare(*child, &below, &mut state.below(&below), report, take);
    }
    if let Some(h) = hooks {
        h.run_load(m, &mut report.keys);
    }
}

pub(crate) fn load(root: &dyn Module, state: &StateDict, strict: bool) -> Result<IncompatibleKeys> {
    let mut report = LoadReport::default();
    flambeau_autograd::no_grad(|| {
        compare(root, "", &mut state.clone(), &mut report, &mut |_, here, there| {
            ops::copy_(here, &there, false)
        });
    });
    report.finish(root, strict)
}

/// Puts the dict's tensors in place of the module's.
struct Assign {
    taken: HashMap<String, Tensor>,
    prefix: String,
}
impl VisitorMut for Assign {
    fn parameter(&mut self, name: &str, p: &mut Parameter) -> Result<()> {
        if let Some(t) = self.taken.get(&join(&self.prefix, name)).filter(|_| !p.is_computed()) {
            let new = Parameter::try_new(t, p.requires_grad())?;
            p.mark_replaced();
            *p = new;
        }
        Ok(())
    }
    fn buffer(&mut self, name: &str, b: &mut Buffer) -> Result<()> {
        if let Some(t) = self.taken.get(&join(&self.prefix, name)).filter(|_| !b.is_computed()) {
            b.set(t.clone());
        }
        Ok(())
    }
    fn module(&mut self, name: &str, m: &mut dyn Module) -> Result<()> {
        let outer = std::mem::take(&mut self.prefix);
        self.prefix = join(&outer, name);
        traversal::visit_all_mut(m, self)?;
        self.prefix = outer;
        Ok(())
    }
}

pub(crate) fn assign(root: &mut dyn Module, state: &StateDict, strict: bool) -> Result<IncompatibleKeys> {
    let mut report = LoadReport::default();
    let mut taken = HashMap::new();
    compare(root, "", &mut state.clone(), &mut report, &mut |key, _, there| {
        taken.insert(key.to_owned(), there);
        Ok(())
    });
    let keys = report.finish(root, strict)?;
    Assign { taken, prefix: String::new() }.module("", root)?;
    Ok(keys)
}
