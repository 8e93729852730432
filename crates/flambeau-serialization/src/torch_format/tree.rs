//! Python values of a checkpoint.

use crate::error::Result;
use flambeau_cpu::DType;

/// A Python value; `T` stands for tensors. Trees from files are at most a few hundred levels deep.
#[derive(Clone, PartialEq, Debug)]
pub enum Tree<T> {
    /// `None`
    None,
    /// `bool`
    Bool(bool),
    /// `int` of 64 bits
    Int(i64),
    /// A larger `int`, little-endian two's complement.
    BigInt(Vec<u8>),
    /// `float`
    Float(f64),
    /// `complex`
    Complex(f64, f64),
    /// `str`
    Str(String),
    /// `bytes`
    Bytes(Vec<u8>),
    /// `bytearray`
    ByteArray(Vec<u8>),
    /// `list`
    List(Vec<Tree<T>>),
    /// `tuple`
    Tuple(Vec<Tree<T>>),
    /// `set`
    Set(Vec<Tree<T>>),
    /// `frozenset`
    FrozenSet(Vec<Tree<T>>),
    /// `dict`, in insertion order
    Dict(Vec<(Tree<T>, Tree<T>)>),
    /// `collections.OrderedDict`, with its attributes (a state dict has `_metadata`) as a dict or `None`
    OrderedDict(Vec<(Tree<T>, Tree<T>)>, Box<Tree<T>>),
    /// `collections.defaultdict`: the factory's value, and the entries
    DefaultDict(Box<Tree<T>>, Vec<(Tree<T>, Tree<T>)>),
    /// `collections.Counter`
    Counter(Vec<(Tree<T>, Tree<T>)>),
    /// `slice(start, stop, step)`
    Slice(Box<[Tree<T>; 3]>),
    /// `torch.Tensor` or `torch.nn.Parameter`
    Tensor(T),
    /// A storage on its own, as a 1-d tensor over it
    Storage(T),
    /// `torch.dtype`
    DType(DType),
    /// `torch.device`, as in `cpu` or `cuda:0`
    Device(String),
    /// `torch.Size`
    Size(Vec<i64>),
    /// A class or function by name
    Global {
        /// Python module.
        module: String,
        /// Name inside the module.
        name: String,
    },
    /// A call or an instance that has no variant of its own: sparse, quantized and meta tensors, and in
    /// lenient mode anything.
    Object(Box<Object<T>>),
}

/// The parts of [`Tree::Object`].
#[derive(Clone, PartialEq, Debug)]
pub struct Object<T> {
    /// Python module of the class or function.
    pub module: String,
    /// Name inside the module.
    pub name: String,
    /// Made by `__new__` rather than by a plain call.
    pub by_new: bool,
    /// Positional arguments.
    pub args: Vec<Tree<T>>,
    /// Argument of `__setstate__` or update of `__dict__`.
    pub state: Option<Tree<T>>,
    /// Items appended.
    pub items: Vec<Tree<T>>,
    /// Items set.
    pub pairs: Vec<(Tree<T>, Tree<T>)>,
}

impl<T> Tree<T> {
    /// Entries of a dict of any kind.
    pub fn entries(&self) -> Option<&[(Tree<T>, Tree<T>)]> {
        match self {
            Tree::Dict(e) | Tree::OrderedDict(e, _) | Tree::DefaultDict(_, e) | Tree::Counter(e) => Some(e),
            _ => None,
        }
    }

    /// The entry of a dict under a string key.
    pub fn get(&self, key: &str) -> Option<&Tree<T>> {
        self.entries()?.iter().find(|(k, _)| matches!(k, Tree::Str(s) if s == key)).map(|(_, v)| v)
    }

    /// The same tree with other tensors.
    pub fn map<U>(self, f: &mut impl FnMut(T) -> Result<U>) -> Result<Tree<U>> {
        fn all<T, U>(items: Vec<Tree<T>>, f: &mut impl FnMut(T) -> Result<U>) -> Result<Vec<Tree<U>>> {
            items.into_iter().map(|t| t.map(f)).collect()
        }
        fn both<T, U>(
            items: Vec<(Tree<T>, Tree<T>)>,
            f: &mut impl FnMut(T) -> Result<U>,
        ) -> Result<Vec<(Tree<U>, Tree<U>)>> {
            items.into_iter().map(|(k, v)| Ok((k.map(f)?, v.map(f)?))).collect()
        }
        Ok(match self {
            Tree::None => Tree::None,
            Tree::Bool(v) => Tree::Bool(v),
            Tree::Int(v) => Tree::Int(v),
            Tree::BigInt(v) => Tree::BigInt(v),
            Tree::Float(v) => Tree::Float(v),
            Tree::Complex(re, im) => Tree::Complex(re, im),
            Tree::Str(v) => Tree::Str(v),
            Tree::Bytes(v) => Tree::Bytes(v),
            Tree::ByteArray(v) => Tree::ByteArray(v),
            Tree::List(v) => Tree::List(all(v, f)?),
            Tree::Tuple(v) => Tree::Tuple(all(v, f)?),
            Tree::Set(v) => Tree::Set(all(v, f)?),
            Tree::FrozenSet(v) => Tree::FrozenSet(all(v, f)?),
            Tree::Dict(v) => Tree::Dict(both(v, f)?),
            Tree::OrderedDict(v, a) => Tree::OrderedDict(both(v, f)?, Box::new(a.map(f)?)),
            Tree::DefaultDict(d, v) => Tree::DefaultDict(Box::new(d.map(f)?), both(v, f)?),
            Tree::Counter(v) => Tree::Counter(both(v, f)?),
            Tree::Slice(parts) => {
                let [a, b, c] = *parts;
                Tree::Slice(Box::new([a.map(f)?, b.map(f)?, c.map(f)?]))
            }
            Tree::Tensor(t) => Tree::Tensor(f(t)?),
            Tree::Storage(t) => Tree::Storage(f(t)?),
            Tree::DType(d) => Tree::DType(d),
            Tree::Device(d) => Tree::Device(d),
            Tree::Size(s) => Tree::Size(s),
            Tree::Global { module, name } => Tree::Global { module, name },
            Tree::Object(o) => Tree::Object(Box::new(Object {
                module: o.module,
                name: o.name,
                by_new: o.by_new,
                args: all(o.args, f)?,
                state: o.state.map(|s| s.map(f)).transpose()?,
                items: all(o.items, f)?,
                pairs: both(o.pairs, f)?,
            })),
        })
    }
}
