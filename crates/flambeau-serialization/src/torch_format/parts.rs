//! Trees hold trees, to any depth: they are copied, compared and mapped in a loop, and shown to a depth.

use super::tree::{Object, Tree};
use flambeau_core::types::deep::{self, Nest};
use std::fmt;
use std::mem::take;

type Pairs<T> = Vec<(Tree<T>, Tree<T>)>;

impl<T> Nest for Tree<T> {
    fn hollow() -> Self {
        Tree::None
    }
    fn nests(&self) -> bool {
        use Tree::{Counter, DefaultDict, Dict, FrozenSet, List, Object, OrderedDict, Set, Slice, Tuple};
        matches!(
            self,
            List(_)
                | Tuple(_)
                | Set(_)
                | FrozenSet(_)
                | Dict(_)
                | OrderedDict(..)
                | DefaultDict(..)
                | Counter(_)
                | Slice(_)
                | Object(_)
        )
    }
    fn parts<'a>(&'a self, mut each: &mut dyn FnMut(&'a Self)) {
        match self {
            Tree::List(v) | Tree::Tuple(v) | Tree::Set(v) | Tree::FrozenSet(v) => v.iter().for_each(each),
            Tree::Dict(v) | Tree::Counter(v) => v.iter().flat_map(|(a, b)| [a, b]).for_each(each),
            Tree::OrderedDict(v, a) => {
                v.iter().flat_map(|(a, b)| [a, b]).for_each(&mut each);
                each(a);
            }
            Tree::DefaultDict(a, v) => {
                each(a);
                v.iter().flat_map(|(a, b)| [a, b]).for_each(each);
            }
            Tree::Slice(parts) => parts.iter().for_each(each),
            Tree::Object(o) => {
                o.args.iter().chain(&o.state).chain(&o.items).for_each(&mut each);
                o.pairs.iter().flat_map(|(a, b)| [a, b]).for_each(each);
            }
            _ => {}
        }
    }
    fn parts_mut<'a>(&'a mut self, mut each: &mut dyn FnMut(&'a mut Self)) {
        match self {
            Tree::List(v) | Tree::Tuple(v) | Tree::Set(v) | Tree::FrozenSet(v) => v.iter_mut().for_each(each),
            Tree::Dict(v) | Tree::Counter(v) => v.iter_mut().flat_map(|(a, b)| [a, b]).for_each(each),
            Tree::OrderedDict(v, a) => {
                v.iter_mut().flat_map(|(a, b)| [a, b]).for_each(&mut each);
                each(a);
            }
            Tree::DefaultDict(a, v) => {
                each(a);
                v.iter_mut().flat_map(|(a, b)| [a, b]).for_each(each);
            }
            Tree::Slice(parts) => parts.iter_mut().for_each(each),
            Tree::Object(o) => {
                o.args.iter_mut().chain(&mut o.state).chain(&mut o.items).for_each(&mut each);
                o.pairs.iter_mut().flat_map(|(a, b)| [a, b]).for_each(each);
            }
            _ => {}
        }
    }
}
impl<T> Drop for Tree<T> {
    #[inline]
    fn drop(&mut self) {
        deep::drop_parts(self);
    }
}
impl<T: Clone> Clone for Tree<T> {
    fn clone(&self) -> Self {
        deep::copy(self, |t| match t {
            Tree::Tensor(v) => Tree::Tensor(v.clone()),
            Tree::Storage(v) => Tree::Storage(v.clone()),
            other => other.shell(),
        })
    }
}
impl<T: PartialEq> PartialEq for Tree<T> {
    fn eq(&self, other: &Self) -> bool {
        deep::equal(self, other, same_shell)
    }
}

fn hollow<T, U>(v: &[Tree<T>]) -> Vec<Tree<U>> {
    v.iter().map(|_| Tree::None).collect()
}
fn hollow_pairs<T, U>(v: &[(Tree<T>, Tree<T>)]) -> Pairs<U> {
    v.iter().map(|_| (Tree::None, Tree::None)).collect()
}
impl<T> Tree<T> {
    /// A copy with `None` in the place of all that it holds, tensors included.
    fn shell<U>(&self) -> Tree<U> {
        match self {
            Tree::None | Tree::Tensor(_) | Tree::Storage(_) => Tree::None,
            Tree::Bool(v) => Tree::Bool(*v),
            Tree::Int(v) => Tree::Int(*v),
            Tree::BigInt(v) => Tree::BigInt(v.clone()),
            Tree::Float(v) => Tree::Float(*v),
            Tree::Complex(re, im) => Tree::Complex(*re, *im),
            Tree::Str(v) => Tree::Str(v.clone()),
            Tree::Bytes(v) => Tree::Bytes(v.clone()),
            Tree::ByteArray(v) => Tree::ByteArray(v.clone()),
            Tree::List(v) => Tree::List(hollow(v)),
            Tree::Tuple(v) => Tree::Tuple(hollow(v)),
            Tree::Set(v) => Tree::Set(hollow(v)),
            Tree::FrozenSet(v) => Tree::FrozenSet(hollow(v)),
            Tree::Dict(v) => Tree::Dict(hollow_pairs(v)),
            Tree::OrderedDict(v, _) => Tree::OrderedDict(hollow_pairs(v), Box::new(Tree::None)),
            Tree::DefaultDict(_, v) => Tree::DefaultDict(Box::new(Tree::None), hollow_pairs(v)),
            Tree::Counter(v) => Tree::Counter(hollow_pairs(v)),
            Tree::Slice(_) => Tree::Slice(Box::new([Tree::None, Tree::None, Tree::None])),
            Tree::DType(v) => Tree::DType(*v),
            Tree::Device(v) => Tree::Device(v.clone()),
            Tree::Layout(v) => Tree::Layout(v.clone()),
            Tree::Size(v) => Tree::Size(v.clone()),
            Tree::Global { module, name } => Tree::Global { module: module.clone(), name: name.clone() },
            Tree::Object(o) => Tree::Object(Box::new(Object {
                module: o.module.clone(),
                name: o.name.clone(),
                by_new: o.by_new,
                args: hollow(&o.args),
                state: o.state.as_ref().map(|_| Tree::None),
                items: hollow(&o.items),
                pairs: hollow_pairs(&o.pairs),
            })),
        }
    }
    /// The same value of another type of tensors, with `None` in the place of all that it holds, and what that is. Texts
    /// and bytes move.
    pub(super) fn opened<U>(mut self) -> (Tree<U>, Vec<Tree<T>>) {
        let mut parts = Vec::new();
        self.parts_mut(&mut |p| parts.push(std::mem::replace(p, Tree::None)));
        let shell = match &mut self {
            Tree::BigInt(v) => Tree::BigInt(take(v)),
            Tree::Str(v) => Tree::Str(take(v)),
            Tree::Bytes(v) => Tree::Bytes(take(v)),
            Tree::ByteArray(v) => Tree::ByteArray(take(v)),
            Tree::Device(v) => Tree::Device(take(v)),
            Tree::Layout(v) => Tree::Layout(take(v)),
            Tree::Size(v) => Tree::Size(take(v)),
            Tree::Global { module, name } => Tree::Global { module: take(module), name: take(name) },
            other => other.shell(),
        };
        (shell, parts)
    }
}
/// Whether two trees differ at most in what they hold. Their numbers of parts are compared by the caller.
fn same_shell<T: PartialEq>(a: &Tree<T>, b: &Tree<T>) -> bool {
    match (a, b) {
        (Tree::None, Tree::None) => true,
        (Tree::Bool(a), Tree::Bool(b)) => a == b,
        (Tree::Int(a), Tree::Int(b)) => a == b,
        (Tree::Float(a), Tree::Float(b)) => a == b,
        (Tree::Complex(a, c), Tree::Complex(b, d)) => (a, c) == (b, d),
        (Tree::Str(a), Tree::Str(b)) => a == b,
        (Tree::Bytes(a), Tree::Bytes(b))
        | (Tree::ByteArray(a), Tree::ByteArray(b))
        | (Tree::BigInt(a), Tree::BigInt(b)) => a == b,
        (Tree::Tensor(a), Tree::Tensor(b)) | (Tree::Storage(a), Tree::Storage(b)) => a == b,
        (Tree::DType(a), Tree::DType(b)) => a == b,
        (Tree::Device(a), Tree::Device(b)) | (Tree::Layout(a), Tree::Layout(b)) => a == b,
        (Tree::Size(a), Tree::Size(b)) => a == b,
        (Tree::Global { module: a, name: c }, Tree::Global { module: b, name: d }) => (a, c) == (b, d),
        (Tree::Object(a), Tree::Object(b)) => {
            let shape = |o: &Object<T>| (o.args.len(), o.state.is_some(), o.items.len(), o.pairs.len());
            (&a.module, &a.name, a.by_new) == (&b.module, &b.name, b.by_new) && shape(a) == shape(b)
        }
        (a, b) => a.nests() && std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

impl<T: fmt::Debug> fmt::Debug for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        deep::show(f, |f| match self {
            Tree::None => f.write_str("None"),
            Tree::Bool(v) => f.debug_tuple("Bool").field(v).finish(),
            Tree::Int(v) => f.debug_tuple("Int").field(v).finish(),
            Tree::BigInt(v) => f.debug_tuple("BigInt").field(v).finish(),
            Tree::Float(v) => f.debug_tuple("Float").field(v).finish(),
            Tree::Complex(re, im) => f.debug_tuple("Complex").field(re).field(im).finish(),
            Tree::Str(v) => f.debug_tuple("Str").field(v).finish(),
            Tree::Bytes(v) => f.debug_tuple("Bytes").field(v).finish(),
            Tree::ByteArray(v) => f.debug_tuple("ByteArray").field(v).finish(),
            Tree::List(v) => f.debug_tuple("List").field(v).finish(),
            Tree::Tuple(v) => f.debug_tuple("Tuple").field(v).finish(),
            Tree::Set(v) => f.debug_tuple("Set").field(v).finish(),
            Tree::FrozenSet(v) => f.debug_tuple("FrozenSet").field(v).finish(),
            Tree::Dict(v) => f.debug_tuple("Dict").field(v).finish(),
            Tree::OrderedDict(v, a) => f.debug_tuple("OrderedDict").field(v).field(a).finish(),
            Tree::DefaultDict(d, v) => f.debug_tuple("DefaultDict").field(d).field(v).finish(),
            Tree::Counter(v) => f.debug_tuple("Counter").field(v).finish(),
            Tree::Slice(v) => f.debug_tuple("Slice").field(v).finish(),
            Tree::Tensor(v) => f.debug_tuple("Tensor").field(v).finish(),
            Tree::Storage(v) => f.debug_tuple("Storage").field(v).finish(),
            Tree::DType(v) => f.debug_tuple("DType").field(v).finish(),
            Tree::Device(v) => f.debug_tuple("Device").field(v).finish(),
            Tree::Layout(v) => f.debug_tuple("Layout").field(v).finish(),
            Tree::Size(v) => f.debug_tuple("Size").field(v).finish(),
            Tree::Global { module, name } => {
                f.debug_struct("Global").field("module", module).field("name", name).finish()
            }
            Tree::Object(v) => f.debug_tuple("Object").field(v).finish(),
        })
    }
}
