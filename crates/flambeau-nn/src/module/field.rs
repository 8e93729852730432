//! Kinds of fields that a module can have, and lists and maps of them.

use crate::by_name::Run;
use crate::module::deepcopy::{self, Copied, Memo, copied_behind};
use crate::module::forward::Layer;
use crate::module::repr;
use crate::module::traversal::Own;
use crate::module::{Module, Visitor, VisitorMut};
use crate::modules::{Decode, Encode};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::{Error, Result, Tensor};
use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// A field that is part of a module's state: a parameter, a buffer, a module, or an option, a tuple, a list or a map of
/// such. Fields of other types must be plain data: `Copy`, [`Plain`], or marked.
///
/// ```
/// use std::collections::BTreeMap;
/// use torch::{nn, prelude::*};
/// // lists, maps, options and tuples of modules and parameters are fields as they are
/// #[derive(Debug, Module)]
/// struct Heads {
///     by_name: BTreeMap<String, nn::Linear>,
///     scale: Option<nn::Parameter>,
/// }
/// let one = |n| ("a".to_string(), nn::Linear::new(n, 1));
/// let m = Heads { by_name: [one(3)].into(), scale: Some(nn::Parameter::new(torch::ones([1]))) };
/// let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
/// assert_eq!(names, ["scale", "by_name.a.weight", "by_name.a.bias"]);
/// ```
pub trait Field: Debug + Send + Sync + 'static {
    /// What a list of such fields prints as.
    const LIST: &'static str = "ModuleList";
    /// What a map of such fields prints as.
    const MAP: &'static str = "ModuleDict";
    /// Shows the field.
    fn visit_field<'a>(&'a self, name: &str, v: &mut dyn Visitor<'a>);
    /// Shows the field for replacement.
    fn visit_field_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()>;
    /// A field with tensors of its own, for [`Module::try_deepcopy`].
    ///
    /// # Errors
    /// A kind of field that cannot be copied.
    #[doc(hidden)]
    fn copied_field(&self, memo: &mut Memo) -> Result<Self>
    where
        Self: Sized,
    {
        let _ = memo;
        Err(deepcopy::missing(std::any::type_name::<Self>()))
    }
}
impl Field for Parameter {
    const LIST: &'static str = "ParameterList";
    const MAP: &'static str = "ParameterDict";
    fn visit_field<'a>(&'a self, name: &str, v: &mut dyn Visitor<'a>) {
        v.parameter(name, self);
    }
    fn visit_field_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()> {
        v.parameter(name, self)
    }
    fn copied_field(&self, memo: &mut Memo) -> Result<Self> {
        self.copied(memo)
    }
}
impl Field for Buffer {
    fn visit_field<'a>(&'a self, name: &str, v: &mut dyn Visitor<'a>) {
        v.buffer(name, self);
    }
    fn visit_field_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()> {
        v.buffer(name, self)
    }
    fn copied_field(&self, memo: &mut Memo) -> Result<Self> {
        self.copied(memo)
    }
}
impl<F: Field> Field for Option<F> {
    const LIST: &'static str = F::LIST;
    const MAP: &'static str = F::MAP;
    fn visit_field<'a>(&'a self, name: &str, v: &mut dyn Visitor<'a>) {
        if let Some(f) = self {
            f.visit_field(name, v);
        }
    }
    fn visit_field_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()> {
        self.as_mut().map_or(Ok(()), |f| f.visit_field_mut(name, v))
    }
    fn copied_field(&self, memo: &mut Memo) -> Result<Self> {
        self.as_ref().map(|f| f.copied_field(memo)).transpose()
    }
}
impl<M: Module> Field for M {
    fn visit_field<'a>(&'a self, name: &str, v: &mut dyn Visitor<'a>) {
        v.module(name, self.as_module());
    }
    fn visit_field_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()> {
        v.slot(name, self)?;
        v.module(name, self.as_module_mut())
    }
    fn copied_field(&self, memo: &mut Memo) -> Result<Self> {
        deepcopy::own(self, memo)
    }
}

/// The methods of a module that is nothing but a collection.
macro_rules! itself {
    () => {
        crate::module::is_itself!();
        fn extra_repr(&self) -> String {
            let own = Own::of(self);
            let line =
                |(n, p): &(String, Parameter)| format!("  ({n}): {}", repr::parameter(p, &self.type_name()));
            own.parameters.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    };
}
macro_rules! list_module {
    ($([$($generics:tt)*] $t:ty),*) => {$(
        impl<F: Field $($generics)*> Module for $t {
            fn type_name(&self) -> Cow<'static, str> {
                Cow::Borrowed(F::LIST)
            }
            fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
                self.iter().enumerate().for_each(|(i, f)| f.visit_field(&i.to_string(), v));
            }
            fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
                self.iter_mut().enumerate().try_for_each(|(i, f)| f.visit_field_mut(&i.to_string(), v))
            }
            fn repr(&self) -> String {
                repr::list(self)
            }
            fn copied(&self, memo: &mut Memo) -> Result<Copied> {
                let items: Vec<F> = self.iter().map(|f| f.copied_field(memo)).collect::<Result<_>>()?;
                let all = Self::try_from(items).map_err(|_| deepcopy::missing(F::LIST))?;
                Ok(Copied::new(all))
            }
            itself!();
        }
    )*};
}
list_module!([] Vec<F>, [, const N: usize] [F; N], [] Box<[F]>);

/// Tuples are lists of members of different kinds: `pair.0.weight`, `pair.1.weight`.
macro_rules! tuple_module {
    ($($t:ident $i:tt),+) => {
        impl<$($t: Field),+> Module for ($($t,)+) {
            fn type_name(&self) -> Cow<'static, str> {
                Cow::Borrowed("ModuleList")
            }
            fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
                $(self.$i.visit_field(stringify!($i), v);)+
            }
            fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
                $(self.$i.visit_field_mut(stringify!($i), v)?;)+
                Ok(())
            }
            fn repr(&self) -> String {
                repr::list(self)
            }
            fn copied(&self, memo: &mut Memo) -> Result<Copied> {
                Ok(Copied::new(($(self.$i.copied_field(memo)?,)+)))
            }
            itself!();
        }
    };
}
tuple_module!(A 0);
tuple_module!(A 0, B 1);
tuple_module!(A 0, B 1, C 2);
tuple_module!(A 0, B 1, C 2, D 3);
tuple_module!(A 0, B 1, C 2, D 3, E 4);
tuple_module!(A 0, B 1, C 2, D 3, E 4, F 5);

/// Keys of maps of modules: their text is the name in dotted paths.
pub trait Key: Debug + Display + Ord + Clone + Send + Sync + 'static {}
impl<K: Debug + Display + Ord + Clone + Send + Sync + 'static> Key for K {}

impl<K: Key, F: Field> Module for BTreeMap<K, F> {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(F::MAP)
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.iter().for_each(|(k, f)| f.visit_field(&k.to_string(), v));
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.iter_mut().try_for_each(|(k, f)| f.visit_field_mut(&k.to_string(), v))
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let copy = |(k, f): (&K, &F)| Ok((k.clone(), f.copied_field(memo)?));
        Ok(Copied::new(self.iter().map(copy).collect::<Result<Self>>()?))
    }
    itself!();
}
impl<K: Key + Hash, F: Field, S> Module for HashMap<K, F, S>
where
    S: BuildHasher + Default + Send + Sync + 'static,
{
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(F::MAP)
    }
    /// In the order of the keys: a hash map has none of its own.
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_by_key(|(k, _)| *k);
        all.into_iter().for_each(|(k, f)| f.visit_field(&k.to_string(), v));
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        let mut all: Vec<_> = self.iter_mut().collect();
        all.sort_by(|a, b| a.0.cmp(b.0));
        all.into_iter().try_for_each(|(k, f)| f.visit_field_mut(&k.to_string(), v))
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let copy = |(k, f): (&K, &F)| Ok((k.clone(), f.copied_field(memo)?));
        Ok(Copied::new(self.iter().map(copy).collect::<Result<Self>>()?))
    }
    itself!();
}

/// A module behind a pointer is that module.
macro_rules! pointer {
    ($ptr:ident, |$s:ident| $inner:expr) => {
        impl<M: Module + ?Sized> Module for $ptr<M> {
            fn type_name(&self) -> Cow<'static, str> {
                (**self).type_name()
            }
            fn base(&self) -> Option<&crate::Base> {
                (**self).base()
            }
            fn base_mut(&mut self) -> Option<&mut crate::Base> {
                let $s = self;
                $inner.ok()?.base_mut()
            }
            fn get_extra_state(&self) -> Option<Tensor> {
                (**self).get_extra_state()
            }
            fn set_extra_state(&self, state: &Tensor) -> Result<()> {
                (**self).set_extra_state(state)
            }
            fn extra_repr(&self) -> String {
                (**self).extra_repr()
            }
            fn version(&self) -> i64 {
                (**self).version()
            }
            fn may_lack(&self, name: &str, version: Option<i64>) -> bool {
                (**self).may_lack(name, version)
            }
            fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
                (**self).visit(v);
            }
            fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
                let $s = self;
                $inner?.visit_mut(v)
            }
            fn repr(&self) -> String {
                (**self).repr()
            }
            fn copied(&self, memo: &mut Memo) -> Result<Copied> {
                pointer!(@ copy $ptr, self, memo)
            }
            fn as_run(&self) -> Option<&dyn Run> {
                (**self).as_run()
            }
            fn exchange(&mut self, new: Box<dyn Run>) -> std::result::Result<(), Box<dyn Run>> {
                let any: &mut dyn Any = self;
                if let Some(slot) = any.downcast_mut::<$ptr<dyn Layer>>() {
                    *slot = $ptr::new(new);
                } else if let Some(slot) = any.downcast_mut::<$ptr<dyn Run>>() {
                    *slot = new.into();
                } else if let Some(slot) = any.downcast_mut::<$ptr<dyn Module>>() {
                    *slot = $ptr::new(new);
                } else {
                    return Err(new);
                }
                Ok(())
            }
            pointer!(@ $ptr);
        }
    };
    (@ copy Box, $m:ident, $memo:ident) => {{
        let known = copied_behind!(Box, $m, $memo);
        Ok(Copied::new(deepcopy::pointee(&**$m, known, $memo)?))
    }};
    // what several handles share, their copies share too
    (@ copy Arc, $m:ident, $memo:ident) => {{
        let address = Arc::as_ptr($m).cast::<()>() as usize;
        if let Some(done) = $memo.handle::<Self>(address) {
            return Ok(Copied::new(done));
        }
        let known = copied_behind!(Arc, $m, $memo);
        let new: Self = Arc::from(deepcopy::pointee(&**$m, known, $memo)?);
        $memo.keep(address, new.clone());
        Ok(Copied::new(new))
    }};
    (@ Box) => {
        fn as_module(&self) -> &dyn Module {
            (**self).as_module()
        }
        fn as_module_mut(&mut self) -> &mut dyn Module {
            (**self).as_module_mut()
        }
        fn as_any(&self) -> &dyn Any {
            (**self).as_any()
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            (**self).as_any_mut()
        }
        fn replace_with(&mut self, new: Box<dyn Module>) -> std::result::Result<(), Box<dyn Module>> {
            (**self).replace_with(new)
        }
    };
    (@ Arc) => {
        fn as_module(&self) -> &dyn Module {
            (**self).as_module()
        }
        /// The handle: what it points to may be shared, and `visit_mut` says so.
        fn as_module_mut(&mut self) -> &mut dyn Module {
            self
        }
        fn as_any(&self) -> &dyn Any {
            (**self).as_any()
        }
        /// What it points to while no other handle shares it, as in a `Sequential`.
        fn as_any_mut(&mut self) -> &mut dyn Any {
            if Arc::get_mut(self).is_none() {
                return self;
            }
            match Arc::get_mut(self) {
                Some(m) => m.as_any_mut(),
                None => unreachable!("the only handle"),
            }
        }
        fn replace_with(&mut self, new: Box<dyn Module>) -> std::result::Result<(), Box<dyn Module>> {
            match Arc::get_mut(self) {
                Some(m) => m.replace_with(new),
                None => Err(new),
            }
        }
    };
}
pointer!(Box, |s| Ok::<&mut M, Error>(&mut **s));
pointer!(Arc, |s| match Arc::get_mut(s) {
    Some(m) => Ok(m),
    None => Err(Error::runtime(
        "a module that several handles share cannot be moved or converted: do so before sharing it"
    )),
});

/// Data in a module that is no part of its state: neither trained nor saved nor moved. `Copy` types and those of the standard
/// library that hold plain data need nothing; for a struct of one's own without tensors, `impl nn::Plain for Config {}`.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// #[derive(Clone, Debug)]
/// struct Config {
///     names: Vec<String>,
/// }
/// impl nn::Plain for Config {}
///
/// #[derive(Debug, Module)]
/// struct Net {
///     config: Config,
///     linear: nn::Linear,
///     #[module(skip)]
///     last_input: std::sync::Mutex<Option<Tensor>>,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`derive(Module)` does not know what a field of the type `{Self}` is",
    label = "neither part of the module's state nor known to be plain data",
    note = "a struct with modules or parameters needs `#[derive(Debug, Module)]`; a tensor that is saved is an `nn::Buffer`, one that is trained an `nn::Parameter`",
    note = "plain data of your own: `impl nn::Plain for TYPE {{}}`; a field that is not saved and not moved, like a cache in a `Mutex`: `#[module(skip)]`"
)]
pub trait Plain {}
macro_rules! plain {
    ($([$($generics:tt)*] $t:ty;)*) => {$(
        impl<$($generics)*> Plain for $t {}
    )*};
}
plain! {
    [] (); [] bool; [] char; [] str; [] String;
    [] i8; [] i16; [] i32; [] i64; [] i128; [] isize;
    [] u8; [] u16; [] u32; [] u64; [] u128; [] usize;
    [] f32; [] f64;
    [] std::path::PathBuf; [] std::ffi::OsString; [] std::time::Duration; [] std::time::Instant;
    [] std::time::SystemTime;
    [] std::sync::atomic::AtomicBool; [] std::sync::atomic::AtomicI32; [] std::sync::atomic::AtomicI64;
    [] std::sync::atomic::AtomicU32; [] std::sync::atomic::AtomicU64; [] std::sync::atomic::AtomicUsize;
    [] std::sync::atomic::AtomicIsize;
    [] flambeau_core::DType; [] flambeau_core::Device; [] flambeau_core::Scalar; [] flambeau_core::Generator;
    [] flambeau_core::Layout; [] flambeau_core::MemoryFormat; [] flambeau_core::Slice;
    [T: ?Sized] std::marker::PhantomData<T>;
    [T: Plain] Option<T>; [T: Plain] Vec<T>; [T: Plain + ?Sized] Box<T>; [T: Plain + ?Sized] Arc<T>; [T: Plain] [T];
    [T: Plain, const N: usize] [T; N]; [T: Plain + ?Sized] &'static T;
    [T: Plain] std::collections::VecDeque<T>; [T: Plain] std::collections::BTreeSet<T>;
    [T: Plain, S] std::collections::HashSet<T, S>;
    [K: Plain, V: Plain] BTreeMap<K, V>; [K: Plain, V: Plain, S] HashMap<K, V, S>;
    [T: Plain] std::ops::Range<T>; [T: Plain] std::ops::RangeInclusive<T>;
    [T: Plain + ?Sized] std::sync::Mutex<T>; [T: Plain + ?Sized] std::sync::RwLock<T>;
    [T: Plain + ?Sized] flambeau_core::types::order::Mutex<T>; [T: Plain + ?Sized] flambeau_core::types::order::RwLock<T>;
    [T: Plain] std::sync::OnceLock<T>;
    // the compiler says of these that they cannot be shared, and what can, which is enough
    [T: ?Sized] std::cell::RefCell<T>; [T: ?Sized] std::cell::Cell<T>; [T] std::cell::OnceCell<T>;
    [T: ?Sized] std::rc::Rc<T>;
    [A: Plain, B: Plain] (A, B); [A: Plain, B: Plain, C: Plain] (A, B, C);
    [A: Plain, B: Plain, C: Plain, D: Plain] (A, B, C, D);
}

/// Calls [`Field`]'s methods where the type has them, and does nothing for plain data: a method of the value is found before
/// one of its reference.
pub struct Probe<'a, T>(pub &'a T);
/// See [`Probe`].
pub struct ProbeMut<'a, T>(pub &'a mut T);
/// See [`Probe`].
pub trait ProbeField<'a> {
    /// Shows the field.
    fn probe(&self, name: &str, v: &mut dyn Visitor<'a>);
}
/// See [`Probe`].
pub trait ProbeCopyable<'a> {
    /// Plain data: no module and no tensor is `Copy`.
    fn probe(&self, name: &str, v: &mut dyn Visitor<'a>);
}
/// See [`Probe`].
pub trait ProbeOther<'a> {
    /// The field's type.
    type Type;
    /// Plain data, which must say so.
    fn probe(&self, name: &str, v: &mut dyn Visitor<'a>)
    where
        Self::Type: Plain;
}
impl<'a, T: Field> ProbeField<'a> for &&Probe<'a, T> {
    fn probe(&self, name: &str, v: &mut dyn Visitor<'a>) {
        self.0.visit_field(name, v);
    }
}
impl<'a, T: Copy> ProbeCopyable<'a> for &Probe<'a, T> {
    fn probe(&self, _: &str, _: &mut dyn Visitor<'a>) {}
}
impl<'a, T> ProbeOther<'a> for Probe<'a, T> {
    type Type = T;
    fn probe(&self, _: &str, _: &mut dyn Visitor<'a>)
    where
        T: Plain,
    {
    }
}
/// See [`Probe`].
pub trait ProbeFieldMut {
    /// Shows the field for replacement.
    fn probe_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()>;
}
/// See [`Probe`].
pub trait ProbeOtherMut {
    /// Plain data.
    fn probe_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()>;
}
impl<T: Field> ProbeFieldMut for ProbeMut<'_, T> {
    fn probe_mut(&mut self, name: &str, v: &mut dyn VisitorMut) -> Result<()> {
        self.0.visit_field_mut(name, v)
    }
}
impl<T> ProbeOtherMut for &mut ProbeMut<'_, T> {
    fn probe_mut(&mut self, _: &str, _: &mut dyn VisitorMut) -> Result<()> {
        Ok(())
    }
}

/// Puts a module in the place of another one of its type, or gives it back.
pub fn put_as<T: Module>(
    place: &mut T,
    mut new: Box<dyn Module>,
) -> std::result::Result<(), Box<dyn Module>> {
    let any: &mut dyn Any = &mut *new;
    match any.downcast_mut::<T>() {
        // the old one ends with the box
        Some(m) => std::mem::swap(place, m),
        None => return Err(new),
    }
    Ok(())
}
