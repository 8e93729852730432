//! Walks over modules.

use crate::module::{Module, Visitor, VisitorMut};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::{Error, Result, Tensor};
use std::any::TypeId;
use std::collections::{HashMap, HashSet};

/// What a module has itself.
pub(crate) struct Own<'a> {
    pub parameters: Vec<(String, Parameter)>,
    pub buffers: Vec<(String, Buffer)>,
    /// Names of the buffers that are fields.
    pub fields: Vec<String>,
    pub modules: Vec<(String, &'a dyn Module)>,
}
impl<'a> Own<'a> {
    pub fn of(m: &'a dyn Module) -> Own<'a> {
        let mut own = Own { parameters: vec![], buffers: vec![], fields: vec![], modules: vec![] };
        m.visit(&mut own);
        own.fields = own.buffers.iter().map(|(n, _)| n.clone()).collect();
        if let Some(b) = m.base() {
            own.buffers.extend(b.extra_buffers());
        }
        own
    }
}
impl<'a> Visitor<'a> for Own<'a> {
    fn parameter(&mut self, name: &str, p: &'a Parameter) {
        self.parameters.push((name.to_owned(), p.clone()));
    }
    fn buffer(&mut self, name: &str, b: &Buffer) {
        self.buffers.push((name.to_owned(), b.clone()));
    }
    fn module(&mut self, name: &str, m: &'a dyn Module) {
        self.modules.push((name.to_owned(), m));
    }
}

pub(crate) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// Which object it is: address and type, for a struct starts where its first field does. Modules without any data
/// cannot be told apart, and count as different ones.
fn identity(m: &dyn Module) -> Option<(usize, TypeId)> {
    (size_of_val(m) > 0).then(|| (std::ptr::from_ref(m).cast::<()>() as usize, m.as_any().type_id()))
}

pub(crate) fn named_modules(root: &dyn Module) -> Vec<(String, &dyn Module)> {
    fn go<'a>(
        m: &'a dyn Module,
        prefix: &str,
        seen: &mut HashSet<(usize, TypeId)>,
        out: &mut Vec<(String, &'a dyn Module)>,
    ) {
        if identity(m).is_some_and(|id| !seen.insert(id)) {
            return;
        }
        out.push((prefix.to_owned(), m));
        for (name, child) in Own::of(m).modules {
            go(child, &join(prefix, &name), seen, out);
        }
    }
    let mut out = Vec::new();
    go(root, "", &mut HashSet::new(), &mut out);
    out
}

pub(crate) fn named_children(m: &dyn Module) -> Vec<(String, &dyn Module)> {
    let mut seen = HashSet::new();
    Own::of(m).modules.into_iter().filter(|(_, c)| identity(*c).is_none_or(|id| seen.insert(id))).collect()
}

fn members<T: AsRef<Tensor>>(
    root: &dyn Module,
    pick: impl Fn(Own<'_>) -> Vec<(String, T)>,
) -> Vec<(String, T)> {
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    for (prefix, m) in named_modules(root) {
        for (name, t) in pick(Own::of(m)) {
            if seen.insert(t.as_ref().id()) {
                out.push((join(&prefix, &name), t));
            }
        }
    }
    out
}
pub(crate) fn named_parameters(root: &dyn Module) -> Vec<(String, Parameter)> {
    members(root, |own| own.parameters)
}
pub(crate) fn named_buffers(root: &dyn Module) -> Vec<(String, Buffer)> {
    members(root, |own| own.buffers)
}

pub(crate) fn submodule<'a>(root: &'a dyn Module, path: &str) -> Result<&'a dyn Module> {
    let mut at = root;
    if path.is_empty() {
        return Ok(at);
    }
    for name in path.split('.') {
        let own = Own::of(at);
        let found = own.modules.iter().find(|(n, _)| n == name).map(|(_, m)| *m);
        at = found.ok_or_else(|| {
            let other =
                own.parameters.iter().any(|(n, _)| n == name) || own.buffers.iter().any(|(n, _)| n == name);
            if other {
                Error::attribute(format!("`{name}` is not an nn.Module"))
            } else {
                Error::attribute(format!("{} has no attribute `{name}`", at.type_name()))
            }
        })?;
    }
    Ok(at)
}

fn leaf<T>(root: &dyn Module, path: &str, pick: fn(Own<'_>) -> Vec<(String, T)>) -> Result<T> {
    let (prefix, name) = path.rsplit_once('.').unwrap_or(("", path));
    let m = submodule(root, prefix)?;
    let found = pick(Own::of(m)).into_iter().find(|(n, _)| n == name);
    found
        .map(|(_, t)| t)
        .ok_or_else(|| Error::attribute(format!("{} has no attribute `{name}`", m.type_name())))
}

// Default methods of a trait are compiled for each type that has them: what they do is here, once.

pub(crate) fn parameter(root: &dyn Module, path: &str) -> Result<Parameter> {
    leaf(root, path, |own| own.parameters)
}
pub(crate) fn buffer(root: &dyn Module, path: &str) -> Result<Buffer> {
    leaf(root, path, |own| own.buffers)
}
pub(crate) fn parameters(root: &dyn Module) -> Vec<Parameter> {
    named_parameters(root).into_iter().map(|(_, p)| p).collect()
}
pub(crate) fn zero_grad(root: &dyn Module) {
    for p in parameters(root) {
        // clearing cannot fail once the engine is linked, and this crate links it
        let _ = p.try_set_grad(None);
    }
}
#[track_caller]
pub(crate) fn requires_grad_(root: &dyn Module, on: bool) {
    for p in parameters(root) {
        p.requires_grad_(on);
    }
}
/// Refuses a name for a new buffer that something of the module has.
pub(crate) fn check_free(m: &dyn Module, name: &str) -> Result<()> {
    let own = Own::of(m);
    let taken = own.parameters.iter().any(|(n, _)| n == name)
        || own.fields.iter().any(|n| n == name)
        || own.modules.iter().any(|(n, _)| n == name);
    flambeau_core::ensure!(!taken, Index, "attribute '{name}' already exists");
    Ok(())
}

pub(crate) fn apply(m: &dyn Module, f: &mut dyn FnMut(&dyn Module)) {
    for (_, child) in named_children(m) {
        apply(child, f);
    }
    f(m);
}

struct Convert<'a> {
    f: &'a dyn Fn(&Tensor) -> Result<Tensor>,
    parameters: HashMap<usize, Parameter>,
    buffers: HashMap<usize, Tensor>,
}
impl Convert<'_> {
    fn run(&mut self, m: &mut dyn Module) -> Result<()> {
        m.visit_mut(self)?;
        match m.base() {
            Some(b) => b.convert_buffers(&mut |b| self.buffer("", b)),
            None => Ok(()),
        }
    }
}
impl VisitorMut for Convert<'_> {
    fn parameter(&mut self, _: &str, p: &mut Parameter) -> Result<()> {
        let id = p.tensor().id();
        if let Some(done) = self.parameters.get(&id) {
            *p = done.clone();
            return Ok(());
        }
        let old = p.clone();
        let detached = old.alias_detached();
        let data = (self.f)(&detached)?;
        if !data.is_same(&detached) {
            let new = if old.is_uninitialized() {
                old.uninitialized_like(&data)?
            } else {
                Parameter::try_new(&data, old.requires_grad())?
            };
            if let Some(g) = old.grad() {
                new.try_set_grad(Some((self.f)(&g)?))?;
            }
            old.mark_replaced();
            *p = new;
        }
        // under both identities, so that a second visit of the same place does nothing
        self.parameters.insert(id, p.clone());
        self.parameters.insert(p.tensor().id(), p.clone());
        Ok(())
    }
    fn buffer(&mut self, _: &str, b: &mut Buffer) -> Result<()> {
        let old = b.tensor().clone();
        if let Some(done) = self.buffers.get(&old.id()) {
            b.set(done.clone());
            return Ok(());
        }
        let new = (self.f)(&old)?;
        if b.is_uninitialized() {
            // the place stays open, for a tensor of the new dtype and device
            if !new.is_same(&old) {
                *b = Buffer::uninitialized(Some(new.dtype()), Some(new.device()))?
                    .persistent(b.is_persistent());
            }
            return Ok(());
        }
        b.set(new.clone());
        self.buffers.insert(old.id(), new.clone());
        self.buffers.insert(new.id(), new);
        Ok(())
    }
    fn module(&mut self, _: &str, m: &mut dyn Module) -> Result<()> {
        self.run(m)
    }
}

/// Gives every parameter and buffer what `f` makes of its tensor, each distinct one once.
pub(crate) fn convert(m: &mut dyn Module, f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    Convert { f, parameters: HashMap::new(), buffers: HashMap::new() }.run(m)
}
