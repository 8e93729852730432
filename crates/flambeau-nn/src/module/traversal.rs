//! Walks over modules.

use crate::module::{Module, NamedOptions, Visitor, VisitorMut};
use crate::module::{base, depth};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Error, MemoryFormat, Result, Tensor, ops};
use std::any::TypeId;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// What a module has itself: its fields, then what was added at run time.
#[derive(Default)]
pub(crate) struct Own<'a> {
    pub parameters: Vec<(String, Parameter)>,
    pub buffers: Vec<(String, Buffer)>,
    /// Names of all fields that are tensors, computed ones included.
    pub fields: Vec<String>,
    pub modules: Vec<(String, &'a dyn Module)>,
}
impl<'a> Own<'a> {
    pub fn of(m: &'a dyn Module) -> Own<'a> {
        let mut own = Own::default();
        m.visit(&mut own);
        if let Some(b) = m.base() {
            own.parameters.extend(b.extra_parameters().into_iter().filter(|(_, p)| !p.is_computed()));
            own.buffers.extend(b.extra_buffers().into_iter().filter(|(_, b)| !b.is_computed()));
            own.modules.extend(b.extra_modules().map(|(n, m)| (n.to_owned(), m)));
        }
        own
    }
    /// Whether something has that name.
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|n| n == name)
            || self.parameters.iter().any(|(n, _)| n == name)
            || self.buffers.iter().any(|(n, _)| n == name)
            || self.modules.iter().any(|(n, _)| n == name)
    }
}
impl<'a> Visitor<'a> for Own<'a> {
    fn parameter(&mut self, name: &str, p: &'a Parameter) {
        self.fields.push(name.to_owned());
        if !p.is_computed() {
            self.parameters.push((name.to_owned(), p.clone()));
        }
    }
    fn buffer(&mut self, name: &str, b: &Buffer) {
        self.fields.push(name.to_owned());
        if !b.is_computed() {
            self.buffers.push((name.to_owned(), b.clone()));
        }
    }
    fn module(&mut self, name: &str, m: &'a dyn Module) {
        self.modules.push((name.to_owned(), m));
    }
}

/// Shows everything a module has itself for replacement, what was added at run time included.
///
/// # Errors
/// Those of the visitor.
pub fn visit_all_mut(m: &mut dyn Module, v: &mut dyn VisitorMut) -> Result<()> {
    let _level = depth::enter()?;
    m.visit_mut(v)?;
    let (parameters, buffers) = m.base().map(|b| (b.parameter_cells(), b.buffer_cells())).unwrap_or_default();
    for (name, cell) in parameters {
        let mut p = base::get(&cell);
        v.parameter(&name, &mut p)?;
        base::put(&cell, p);
    }
    for (name, cell) in buffers {
        let mut b = base::get(&cell);
        v.buffer(&name, &mut b)?;
        base::put(&cell, b);
    }
    if let Some(b) = m.base_mut() {
        for (name, child) in b.modules_mut() {
            v.slot(name, child)?;
            v.module(name, child.as_module_mut())?;
        }
    }
    Ok(())
}

pub(crate) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// Which object it is: address and type, for a struct starts where its first field does. Modules without any data
/// cannot be told apart, and count as different ones.
fn identity(m: &dyn Module) -> Option<(usize, TypeId)> {
    (size_of_val(m) > 0).then(|| (std::ptr::from_ref(m).cast::<()>() as usize, m.as_any().type_id()))
}

pub(crate) fn named_modules<'a>(root: &'a dyn Module, o: &NamedOptions) -> Vec<(String, &'a dyn Module)> {
    fn go<'a>(
        m: &'a dyn Module,
        prefix: &str,
        seen: &mut Option<HashSet<(usize, TypeId)>>,
        out: &mut Vec<(String, &'a dyn Module)>,
    ) {
        if let Some(seen) = seen
            && identity(m).is_some_and(|id| !seen.insert(id))
        {
            return;
        }
        let _level = expect(depth::enter());
        out.push((prefix.to_owned(), m));
        for (name, child) in Own::of(m).modules {
            go(child, &join(prefix, &name), seen, out);
        }
    }
    let mut out = Vec::new();
    go(root, &o.prefix, &mut o.remove_duplicate.then(HashSet::new), &mut out);
    out
}

/// Whether something holds of the module or of one below it. Names are not made, so that a call can ask.
pub(crate) fn any(m: &dyn Module, f: &mut dyn FnMut(&dyn Module) -> bool) -> bool {
    struct Below<'f> {
        f: &'f mut dyn FnMut(&dyn Module) -> bool,
        found: bool,
    }
    impl<'a> Visitor<'a> for Below<'_> {
        fn parameter(&mut self, _: &str, _: &'a Parameter) {}
        fn buffer(&mut self, _: &str, _: &Buffer) {}
        fn module(&mut self, _: &str, m: &'a dyn Module) {
            self.found = self.found || any(m, self.f);
        }
    }
    let _level = expect(depth::enter());
    if f(m) {
        return true;
    }
    let mut below = Below { f, found: false };
    m.visit(&mut below);
    if let Some(b) = m.base() {
        for (name, child) in b.extra_modules() {
            below.module(name, child);
        }
    }
    below.found
}

pub(crate) fn named_children(m: &dyn Module) -> Vec<(String, &dyn Module)> {
    let mut seen = HashSet::new();
    Own::of(m).modules.into_iter().filter(|(_, c)| identity(*c).is_none_or(|id| seen.insert(id))).collect()
}

fn members<T: AsRef<Tensor>>(
    root: &dyn Module,
    o: &NamedOptions,
    pick: impl Fn(Own<'_>) -> Vec<(String, T)>,
) -> Vec<(String, T)> {
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    let modules = if o.recurse { named_modules(root, o) } else { vec![(o.prefix.clone(), root)] };
    for (prefix, m) in modules {
        for (name, t) in pick(Own::of(m)) {
            if !o.remove_duplicate || seen.insert(t.as_ref().id()) {
                out.push((join(&prefix, &name), t));
            }
        }
    }
    out
}
pub(crate) fn named_parameters(root: &dyn Module, o: &NamedOptions) -> Vec<(String, Parameter)> {
    members(root, o, |own| own.parameters)
}
pub(crate) fn named_buffers(root: &dyn Module, o: &NamedOptions) -> Vec<(String, Buffer)> {
    members(root, o, |own| own.buffers)
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
            let other = own.has(name);
            if other {
                Error::attribute(format!("`{name}` is not an nn.Module"))
            } else {
                Error::attribute(format!("{} has no attribute `{name}`", shown_name(at)))
            }
        })?;
    }
    Ok(at)
}

/// The class name that PyTorch shows: a parametrised module has a class of its own.
pub(crate) fn shown_name(m: &dyn Module) -> Cow<'static, str> {
    match m.base().and_then(|b| b.module("parametrizations")) {
        Some(p) if p.as_any().is::<crate::utils::parametrize::Parametrizations>() => {
            Cow::Owned(format!("Parametrized{}", m.type_name()))
        }
        _ => m.type_name(),
    }
}

fn leaf<T>(
    root: &dyn Module,
    path: &str,
    what: &str,
    pick: fn(&mut Own<'_>) -> Vec<(String, T)>,
) -> Result<T> {
    let (prefix, name) = path.rsplit_once('.').unwrap_or(("", path));
    let m = submodule(root, prefix)?;
    let mut own = Own::of(m);
    let has = own.has(name);
    let found = pick(&mut own).into_iter().find(|(n, _)| n == name);
    found.map(|(_, t)| t).ok_or_else(|| {
        Error::attribute(if has {
            format!("`{name}` is not {what}")
        } else {
            format!("{} has no attribute `{name}`", shown_name(m))
        })
    })
}

// Default methods of a trait are compiled for each type that has them: what they do is here, once.

pub(crate) fn parameter(root: &dyn Module, path: &str) -> Result<Parameter> {
    leaf(root, path, "an nn.Parameter", |own| std::mem::take(&mut own.parameters))
}
pub(crate) fn buffer(root: &dyn Module, path: &str) -> Result<Buffer> {
    leaf(root, path, "a buffer", |own| std::mem::take(&mut own.buffers))
}
pub(crate) fn parameters(root: &dyn Module) -> Vec<Parameter> {
    named_parameters(root, &NamedOptions::new()).into_iter().map(|(_, p)| p).collect()
}
pub(crate) fn zero_grad(root: &dyn Module, set_to_none: bool) -> Result<()> {
    for p in parameters(root) {
        match p.grad() {
            Some(g) if !set_to_none => {
                let zeroed = if g.requires_grad() { g.alias_detached() } else { g };
                ops::zero_(&zeroed)?;
                p.try_set_grad(Some(zeroed))?;
            }
            _ => p.try_set_grad(None)?,
        }
    }
    Ok(())
}
#[track_caller]
pub(crate) fn requires_grad_(root: &dyn Module, on: bool) {
    for p in parameters(root) {
        p.requires_grad_(on);
    }
}
/// Refuses a name that something of the module has, unless `again` says that it is of the same kind.
pub(crate) fn check_free(m: &dyn Module, name: &str, again: bool) -> Result<()> {
    flambeau_core::ensure!(again || !Own::of(m).has(name), Index, "attribute '{name}' already exists");
    Ok(())
}

#[track_caller]
pub(crate) fn apply(m: &dyn Module, f: &mut dyn FnMut(&dyn Module)) {
    let _level = expect(depth::enter());
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
    /// Dtype and device that a computed tensor has after the conversion of what it is computed from.
    fn target(&self, t: &Tensor) -> Result<Option<(DType, Device)>> {
        let probe = (self.f)(&Tensor::empty_raw(&[0], t.dtype(), t.device())?)?;
        let target = (probe.dtype(), probe.device());
        Ok((target != (t.dtype(), t.device())).then_some(target))
    }
}
impl VisitorMut for Convert<'_> {
    fn parameter(&mut self, _: &str, p: &mut Parameter) -> Result<()> {
        if p.is_computed() {
            if let Some((dtype, device)) = self.target(p)? {
                *p = p.retargeted(dtype, device)?;
            }
            return Ok(());
        }
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
        if b.is_computed() {
            if let Some((dtype, device)) = self.target(b)? {
                *b = b.retargeted(dtype, device)?;
            }
            return Ok(());
        }
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
        visit_all_mut(m, self)
    }
}

/// Gives every parameter and buffer what `f` makes of its tensor, each distinct one once.
pub(crate) fn convert(m: &mut dyn Module, f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    visit_all_mut(m, &mut Convert { f, parameters: HashMap::new(), buffers: HashMap::new() })
}

/// What [`Module::to_empty`] gives for a tensor: the same geometry on another device, with any bytes.
pub(crate) fn empty_like(t: &Tensor, device: Device) -> Result<Tensor> {
    Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), device)
}
/// Gives every tensor of a module that layout, where it has as many dimensions.
pub(crate) fn convert_format(m: &mut dyn Module, format: MemoryFormat) -> Result<()> {
    convert(m, &|t: &Tensor| {
        if matches!(t.dim(), 4 | 5) { ops::contiguous(t, format) } else { Ok(t.clone()) }
    })
}

/// Puts a module in the place of the child of that name.
struct Replace<'a> {
    name: &'a str,
    new: Option<Box<dyn Module>>,
    refused: bool,
}
impl VisitorMut for Replace<'_> {
    fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, name: &str, m: &mut dyn Module) -> Result<()> {
        if name == self.name
            && let Some(new) = self.new.take()
            && let Err(back) = m.replace_with(new)
        {
            self.new = Some(back);
            self.refused = true;
        }
        Ok(())
    }
}
/// Calls `f` with the module at a path, which must exist.
pub(crate) fn at_mut(
    root: &mut dyn Module,
    path: &[&str],
    f: &mut dyn FnMut(&mut dyn Module) -> Result<()>,
) -> Result<()> {
    struct Down<'a> {
        path: &'a [&'a str],
        f: &'a mut dyn FnMut(&mut dyn Module) -> Result<()>,
        done: bool,
    }
    impl VisitorMut for Down<'_> {
        fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
            Ok(())
        }
        fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
            Ok(())
        }
        fn module(&mut self, name: &str, m: &mut dyn Module) -> Result<()> {
            if !self.done && self.path[0] == name {
                self.done = true;
                at_mut(m, &self.path[1..], self.f)?;
            }
            Ok(())
        }
    }
    if path.is_empty() {
        return f(root);
    }
    visit_all_mut(root, &mut Down { path, f, done: false })
}
pub(crate) fn set_submodule(
    root: &mut dyn Module,
    path: &str,
    new: Box<dyn Module>,
    strict: bool,
) -> Result<()> {
    flambeau_core::ensure!(!path.is_empty(), Value, "Cannot set the submodule without a target name!");
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let holder = submodule(root, parent)?;
    let own = Own::of(holder);
    if own.has(name) {
        flambeau_core::ensure!(
            own.modules.iter().any(|(n, _)| n == name),
            Attribute,
            "`{name}` is not an nn.Module"
        );
    } else if strict {
        return Err(Error::attribute(format!("{} has no attribute `{name}`", shown_name(holder))));
    }
    let new = crate::module::hooks::global::registered_module(holder, name, new);
    let there = own.has(name);
    let steps: Vec<&str> = if parent.is_empty() { vec![] } else { parent.split('.').collect() };
    let mut new = Some(new);
    at_mut(root, &steps, &mut |m| {
        let in_base = m.base().is_some_and(|b| b.module(name).is_some());
        if in_base || !there {
            let class = m.type_name();
            let base = m.base_mut().ok_or_else(|| no_base(&class))?;
            return new.take().map_or(Ok(()), |n| base.add_module(name, n));
        }
        let mut v = Replace { name, new: new.take(), refused: false };
        m.visit_mut(&mut v)?;
        flambeau_core::ensure!(
            !v.refused,
            Type,
            "the field {name} of {} holds modules of one type, and this is a {}",
            m.type_name(),
            v.new.as_ref().map_or(Cow::Borrowed("other"), |n| n.type_name())
        );
        Ok(())
    })
}
/// The error that hooks and what is added at run time need a base.
pub(crate) fn no_base(class: &str) -> Error {
    Error::attribute(format!(
        "{class} keeps no hooks, buffers, parameters or modules of its own: give the struct a field `base: nn::Base`"
    ))
}
