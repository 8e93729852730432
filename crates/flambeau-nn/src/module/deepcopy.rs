//! Copies of modules with tensors of their own: what `copy.deepcopy` does in Python.

use crate::by_name::Run;
use crate::module::base::Base;
use crate::module::field::Field;
use crate::module::forward::Layer;
use crate::module::traversal::visit_all_mut;
use crate::module::{Module, VisitorMut};
use crate::modules::{Decode, Encode};
use crate::parameter::{Buffer, Parameter};
use flambeau_autograd::no_grad;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, ensure, ops};
use std::any::{Any, TypeId};
use std::collections::HashMap;

/// What was copied already: tensors and handles that stand in several places stay one.
#[derive(Default)]
pub struct Memo {
    parameters: HashMap<usize, Parameter>,
    tensors: HashMap<usize, Tensor>,
    /// By the address of what they point to.
    handles: HashMap<usize, Box<dyn Any>>,
}
impl Memo {
    /// The handle's copy, if it has one.
    pub(crate) fn handle<H: Clone + 'static>(&self, address: usize) -> Option<H> {
        self.handles.get(&address)?.downcast_ref().cloned()
    }
    pub(crate) fn keep<H: 'static>(&mut self, address: usize, new: H) {
        self.handles.insert(address, Box::new(new));
    }
}

/// A copy of a module whose type is not known.
pub struct Copied {
    module: Box<dyn Module>,
    /// The same in a box of its own type, without that type.
    handle: fn(Box<dyn Any>) -> Box<dyn Any>,
}
impl Copied {
    /// Of the copy.
    pub fn new<M: Module>(m: M) -> Copied {
        Copied { module: Box::new(m), handle: boxed::<M> }
    }
    /// The copy in a box of its type.
    fn into_handle(self) -> Box<dyn Any> {
        (self.handle)(self.module)
    }
    pub(crate) fn into_module(self) -> Box<dyn Module> {
        self.module
    }
}
fn boxed<M: Module>(m: Box<dyn Any>) -> Box<dyn Any> {
    match m.downcast::<M>() {
        Ok(m) => Box::new(m),
        Err(other) => other,
    }
}
/// The error of what cannot be copied.
pub(crate) fn missing(what: &str) -> Error {
    Error::missing(format!("a copy of {what}"))
}
/// The error of a module whose copy is of another type.
#[cold]
fn other_type(m: &dyn Module) -> Error {
    missing(&m.type_name())
}
/// The error of a module that says nothing of copies.
#[cold]
pub(crate) fn by_hand(m: &dyn Module) -> Error {
    let class = m.type_name();
    missing(&format!("{class}, which implements Module by hand: derive it, or write `copied`"))
}
fn opened(copy: Result<Copied>) -> Result<Box<dyn Any>> {
    copy.map(|c| -> Box<dyn Any> { c.module })
}
/// The copy of a module as its own type.
pub(crate) fn own<M: Module>(m: &M, memo: &mut Memo) -> Result<M> {
    match opened(m.copied(memo))?.downcast::<M>() {
        Ok(new) => Ok(*new),
        Err(_) => Err(other_type(m.as_module())),
    }
}
/// The same behind a handle of a trait, as `of_type` makes it of a module of the one type that it knows.
fn behind<T: ?Sized>(
    m: &dyn Module,
    copy: Result<Copied>,
    of_type: fn(Box<dyn Any>) -> std::result::Result<Box<T>, Box<dyn Any>>,
) -> Result<Box<T>> {
    of_type(opened(copy)?).map_err(|_| other_type(m))
}
/// What trait objects need to be copied behind their handles: for each trait, copies of its modules in a box of it.
macro_rules! copies {
    ($($of:ident $copy:ident),*) => {
        $(#[doc = concat!("Copies of modules behind `dyn ", stringify!($of), "`.")]
        pub trait $copy {
            /// A copy with tensors of its own.
            ///
            /// # Errors
            /// A module that cannot be copied.
            #[doc(hidden)]
            fn boxed_copy(&self, memo: &mut Memo) -> Result<Box<dyn $of>>;
        }
        impl<M: $of> $copy for M {
            fn boxed_copy(&self, memo: &mut Memo) -> Result<Box<dyn $of>> {
                let m = self.as_module();
                behind::<dyn $of>(m, self.copied(memo), |new| match new.downcast::<M>() {
                    Ok(new) => Ok(new),
                    Err(other) => Err(other),
                })
            }
        })*
        /// The copy behind a handle to one of these traits; `None` for handles to others.
        macro_rules! known {
            ($ptr:ident, $any:expr, $memo:ident) => {{
                let any: &dyn Any = $any;
                let mut found: Option<Box<dyn Any>> = None;
                $(if let Some(m) = any.downcast_ref::<$ptr<dyn $of>>() {
                    found = Some(Box::new(deepcopy::$copy::boxed_copy(&**m, $memo)?));
                })*
                found
            }};
        }
    };
}
copies!(Layer CopyLayer, Encode CopyEncode, Decode CopyDecode, Run CopyRun);
pub(crate) use known as copied_behind;
/// A copy of what a handle points to, in a box: of a module or a `dyn Module`, or what is `known` already.
pub(crate) fn pointee<M: Module + ?Sized>(
    m: &M,
    known: Option<Box<dyn Any>>,
    memo: &mut Memo,
) -> Result<Box<M>> {
    let boxed: Box<dyn Any> = match known {
        Some(b) => b,
        None => {
            let new = m.copied(memo)?;
            let is_module = TypeId::of::<M>() == TypeId::of::<dyn Module>();
            if is_module { Box::new(new.into_module()) } else { new.into_handle() }
        }
    };
    match boxed.downcast::<Box<M>>() {
        Ok(b) => Ok(*b),
        Err(_) => Err(other_handle(m.as_module())),
    }
}
#[cold]
fn other_handle(m: &dyn Module) -> Error {
    missing(&format!(
        "{} behind a handle of the program's own trait: only handles to a type, to dyn Module and to dyn Layer can be copied",
        m.type_name()
    ))
}

pub(crate) fn computed(what: &str) -> Error {
    missing(&format!(
        "a {what} that is computed from others (parametrize, prune, weight_norm, spectral_norm): make it plain first, copy, \
         and reparametrise both"
    ))
}
/// The elements in memory of their own, with the same strides.
fn fresh(t: &Tensor) -> Result<Tensor> {
    ensure!(
        t.is_leaf(),
        Runtime,
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
    );
    no_grad(|| ops::clone(&t.alias_detached(), None))
}
impl Parameter {
    /// The same elements in another parameter, without the gradient.
    pub(crate) fn copied(&self, memo: &mut Memo) -> Result<Parameter> {
        if self.is_computed() {
            return Err(computed("parameter"));
        }
        let id = self.tensor().id();
        if let Some(done) = memo.parameters.get(&id) {
            return Ok(done.clone());
        }
        let new = if self.is_uninitialized() {
            self.uninitialized_like(self)?
        } else if self.is_parameter() {
            Parameter::try_new(&fresh(self)?, self.requires_grad())?
        } else {
            let leaf = fresh(self)?;
            leaf.try_requires_grad_(self.requires_grad())?;
            Parameter::of_leaf(leaf)
        };
        memo.parameters.insert(id, new.clone());
        Ok(new)
    }
}
impl Buffer {
    /// The same elements in another buffer.
    pub(crate) fn copied(&self, memo: &mut Memo) -> Result<Buffer> {
        if self.is_computed() {
            return Err(computed("buffer"));
        }
        if self.is_uninitialized() {
            let new = Buffer::uninitialized(Some(self.dtype()), Some(self.device()))?;
            return Ok(new.persistent(self.is_persistent()));
        }
        let new = match memo.tensors.get(&self.tensor().id()) {
            Some(done) => done.clone(),
            None => {
                let new = fresh(self)?;
                new.try_requires_grad_(self.requires_grad())?;
                memo.tensors.insert(self.tensor().id(), new.clone());
                new
            }
        };
        Ok(Buffer::new(new).persistent(self.is_persistent()))
    }
}
impl Base {
    /// The same mode and hooks, and copies of what was added at run time.
    ///
    /// # Errors
    /// Something in it that cannot be copied.
    #[doc(hidden)]
    pub fn copied(&self, memo: &mut Memo) -> Result<Base> {
        let mut new = self.with_same_hooks();
        new.take_notes(self);
        for (name, p) in self.extra_parameters() {
            new.register_parameter(&name, p.copied(memo)?)?;
        }
        for (name, b) in self.extra_buffers() {
            new.register_buffer(&name, b.copied(memo)?)?;
        }
        for (name, m) in self.extra_modules() {
            new.add_module(name, m.copied(memo)?.into_module())?;
        }
        Ok(new)
    }
}

/// A field of a module for the derive's copies: of state, or of plain data that is `Clone`. Three methods of one name, of
/// which the first that the field's type has is found.
pub struct ProbeCopy<'a, T>(pub &'a T);
/// See [`ProbeCopy`].
pub trait CopyField<T> {
    /// A copy of parameters, buffers and modules.
    ///
    /// # Errors
    /// Something in it that cannot be copied.
    fn copy(&self, name: &str, memo: &mut Memo) -> Result<T>;
}
/// See [`ProbeCopy`].
pub trait CopyData<T> {
    /// Plain data.
    ///
    /// # Errors
    /// Never.
    fn copy(&self, name: &str, memo: &mut Memo) -> Result<T>;
}
/// See [`ProbeCopy`].
pub trait CopyNothing<T> {
    /// What cannot be copied.
    ///
    /// # Errors
    /// Always.
    fn copy(&self, name: &str, memo: &mut Memo) -> Result<T>;
}
impl<T: Field> CopyField<T> for &ProbeCopy<'_, T> {
    fn copy(&self, _: &str, memo: &mut Memo) -> Result<T> {
        self.0.copied_field(memo)
    }
}
impl<T: Clone> CopyData<T> for &&ProbeCopy<'_, T> {
    fn copy(&self, _: &str, _: &mut Memo) -> Result<T> {
        Ok(self.0.clone())
    }
}
impl<T> CopyNothing<T> for ProbeCopy<'_, T> {
    fn copy(&self, name: &str, _: &mut Memo) -> Result<T> {
        Err(missing(&format!("the field {name}: its type {} is not Clone", std::any::type_name::<T>())))
    }
}

/// Puts a module's tensors into a copy of it.
struct Share<'a>(&'a dyn Module, String);
impl Share<'_> {
    fn at(&self, name: &str) -> String {
        if self.1.is_empty() { name.to_string() } else { format!("{}.{name}", self.1) }
    }
}
impl VisitorMut for Share<'_> {
    fn parameter(&mut self, name: &str, p: &mut Parameter) -> Result<()> {
        *p = self.0.get_parameter(&self.at(name))?;
        Ok(())
    }
    fn buffer(&mut self, name: &str, b: &mut Buffer) -> Result<()> {
        *b = self.0.get_buffer(&self.at(name))?;
        Ok(())
    }
    fn module(&mut self, name: &str, m: &mut dyn Module) -> Result<()> {
        let path = self.at(name);
        visit_all_mut(m, &mut Share(self.0, path))
    }
}
/// A module like this one that has this one's own parameters and buffers.
///
/// # Errors
/// Something that cannot be copied.
pub fn sharing(m: &dyn Run) -> Result<Box<dyn Run>> {
    let mut copy = m.boxed_copy(&mut Memo::default())?;
    visit_all_mut(copy.as_module_mut(), &mut Share(m.as_module(), String::new()))?;
    Ok(copy)
}
