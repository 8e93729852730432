//! Python values of a checkpoint.

use flambeau_core::types::deep::Nest as _;
use flambeau_dtype::DType;
use std::mem::take;

/// Nesting that is read and written; deeper values would strain the stack of whoever walks the tree.
pub(super) const MAX_DEPTH: usize = 256;

/// A Python value; `T` stands for tensors. Trees from files are at most a few hundred levels deep, and no deeper ones are
/// written. Those that a program makes may have any depth: they are copied, compared, mapped and dropped in a loop, and shown
/// to a depth. So patterns lend what a tree holds; [`Tree::into_tensor`] and its like give it away.
///
/// ```
/// use torch::Tensor;
/// use torch::serialization::Tree;
/// let tree: Tree<Tensor> = Tree::List(vec![Tree::Int(3), Tree::Str("a".into()), Tree::Tensor(torch::ones([2]))]);
/// let items = tree.items().unwrap();
/// assert_eq!((items[0].as_i64(), items[1].as_str(), items[0].as_str()), (Some(3), Some("a"), None));
/// assert_eq!(tree[2].as_tensor().unwrap().sizes(), &[2]);
/// ```
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
    /// `torch.layout`, as in `strided`
    Layout(String),
    /// `torch.Size`
    Size(Vec<i64>),
    /// A class or function by name
    Global {
        /// Python module.
        module: String,
        /// Name inside the module.
        name: String,
    },
    /// A call or an instance that has no variant of its own: sparse and quantized tensors, tensors with
    /// attributes (`torch._tensor._rebuild_from_type_v2` of the tensor, its class and the attributes), classes
    /// marked as safe, and in lenient mode anything.
    Object(Box<Object<T>>),
}

/// The parts of [`Tree::Object`].
///
/// ```
/// use torch::Tensor;
/// use torch::serialization::{Object, ToTree, Tree};
/// let tree = torch::Generator::new().to_tree();
/// let Tree::Object(o) = &tree else { panic!("a generator is an object") };
/// let o: &Object<Tensor> = o;
/// assert_eq!((o.module.as_str(), o.name.as_str()), ("torch._C", "Generator"));
/// ```
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

/// The call of a quantized tensor. As a tree its arguments are the dtype, the integers as a tensor (where several stand in a byte,
/// the bytes), the size, the scheme with its parameters, and whether a gradient is wanted.
pub(crate) const QUANTIZED: (&str, &str) = ("torch._utils", "_rebuild_qtensor");
/// The call that a tensor with Python attributes is saved as.
pub(crate) const WITH_ATTRIBUTES: (&str, &str) = ("torch._tensor", "_rebuild_from_type_v2");

impl<T> Tree<T> {
    /// A tensor with Python attributes, given as a dict.
    pub fn with_attributes(tensor: T, class: (&str, &str), attributes: Tree<T>) -> Tree<T> {
        let class = Tree::Global { module: class.0.to_owned(), name: class.1.to_owned() };
        Tree::Object(Box::new(Object {
            module: WITH_ATTRIBUTES.0.to_owned(),
            name: WITH_ATTRIBUTES.1.to_owned(),
            by_new: false,
            args: vec![Tree::Tensor(tensor), class, attributes],
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
        }))
    }
    /// The tensor, where this is one or a tensor with attributes.
    pub fn as_tensor(&self) -> Option<&T> {
        match self {
            Tree::Tensor(t) => Some(t),
            Tree::Object(o) if (o.module.as_str(), o.name.as_str()) == WITH_ATTRIBUTES => {
                o.args.first().and_then(Tree::as_tensor)
            }
            _ => None,
        }
    }
    /// The number, where this is an `int` of 64 bits or a `bool`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Tree::Int(v) => Some(*v),
            Tree::Bool(v) => Some(i64::from(*v)),
            _ => None,
        }
    }
    /// The number, where this is a `float`, an `int` or a `bool`.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Tree::Float(v) => Some(*v),
            other => other.as_i64().map(|v| v as f64),
        }
    }
    /// The truth value, where this is a `bool`.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Tree::Bool(v) => Some(*v),
            _ => None,
        }
    }
    /// The text, where this is a `str`.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Tree::Str(v) => Some(v),
            _ => None,
        }
    }
    /// The bytes, where this is `bytes` or a `bytearray`.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Tree::Bytes(v) | Tree::ByteArray(v) => Some(v),
            _ => None,
        }
    }
    /// Items of a list, tuple or set.
    pub fn items(&self) -> Option<&[Tree<T>]> {
        match self {
            Tree::List(v) | Tree::Tuple(v) | Tree::Set(v) | Tree::FrozenSet(v) => Some(v),
            _ => None,
        }
    }
    /// The item of a list or tuple at a position.
    pub fn at(&self, index: usize) -> Option<&Tree<T>> {
        self.items()?.get(index)
    }
    /// `None`
    pub fn is_none(&self) -> bool {
        matches!(self, Tree::None)
    }
    /// What Python calls the type of this value.
    pub fn type_name(&self) -> &str {
        match self {
            Tree::None => "NoneType",
            Tree::Bool(_) => "bool",
            Tree::Int(_) | Tree::BigInt(_) => "int",
            Tree::Float(_) => "float",
            Tree::Complex(..) => "complex",
            Tree::Str(_) => "str",
            Tree::Bytes(_) => "bytes",
            Tree::ByteArray(_) => "bytearray",
            Tree::List(_) => "list",
            Tree::Tuple(_) => "tuple",
            Tree::Set(_) => "set",
            Tree::FrozenSet(_) => "frozenset",
            Tree::Dict(_) => "dict",
            Tree::OrderedDict(..) => "OrderedDict",
            Tree::DefaultDict(..) => "defaultdict",
            Tree::Counter(_) => "Counter",
            Tree::Slice(_) => "slice",
            Tree::Tensor(_) => "Tensor",
            Tree::Storage(_) => "Storage",
            Tree::DType(_) => "dtype",
            Tree::Device(_) => "device",
            Tree::Layout(_) => "layout",
            Tree::Size(_) => "Size",
            Tree::Global { name, .. } => name,
            Tree::Object(o) => &o.name,
        }
    }
    /// Entries of a dict of any kind.
    pub fn entries(&self) -> Option<&[(Tree<T>, Tree<T>)]> {
        match self {
            Tree::Dict(e) | Tree::OrderedDict(e, _) | Tree::DefaultDict(_, e) | Tree::Counter(e) => Some(e),
            _ => None,
        }
    }

    /// All entries of a dict under string keys.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Tree<T>)> {
        let entries = self.entries().unwrap_or(&[]);
        entries.iter().filter_map(|(k, v)| Some((k.as_str()?, v)))
    }

    /// The entry of a dict under a string key.
    pub fn get(&self, key: &str) -> Option<&Tree<T>> {
        self.entries()?.iter().find(|(k, _)| matches!(k, Tree::Str(s) if s == key)).map(|(_, v)| v)
    }

    /// The tensor, where this is one; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_tensor(self) -> Result<T, Tree<T>>
    where
        T: Clone,
    {
        match &self {
            Tree::Tensor(t) => Ok(t.clone()),
            _ => Err(self),
        }
    }
    /// Items of a list, tuple or set; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_items(mut self) -> Result<Vec<Tree<T>>, Tree<T>> {
        match &mut self {
            Tree::List(v) | Tree::Tuple(v) | Tree::Set(v) | Tree::FrozenSet(v) => Ok(take(v)),
            _ => Err(self),
        }
    }
    /// Entries of a dict of any kind; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_entries(mut self) -> Result<Vec<(Tree<T>, Tree<T>)>, Tree<T>> {
        match &mut self {
            Tree::Dict(e) | Tree::OrderedDict(e, _) | Tree::DefaultDict(_, e) | Tree::Counter(e) => {
                Ok(take(e))
            }
            _ => Err(self),
        }
    }
    /// The text, where this is a `str`; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_string(mut self) -> Result<String, Tree<T>> {
        match &mut self {
            Tree::Str(s) => Ok(take(s)),
            _ => Err(self),
        }
    }
    /// The call or instance; else the value itself.
    ///
    /// # Errors
    /// The value.
    pub fn into_object(mut self) -> Result<Object<T>, Tree<T>> {
        match &mut self {
            Tree::Object(o) => Ok(Object {
                module: take(&mut o.module),
                name: take(&mut o.name),
                by_new: o.by_new,
                args: take(&mut o.args),
                state: o.state.take(),
                items: take(&mut o.items),
                pairs: take(&mut o.pairs),
            }),
            _ => Err(self),
        }
    }

    /// Refuses values that are nested more deeply than the reader takes them back, without recursion.
    pub(crate) fn check_depth(&self) -> crate::Result<()> {
        let mut open = vec![(self, 0)];
        while let Some((t, depth)) = open.pop() {
            if depth > MAX_DEPTH {
                return Err(crate::Error::Limit(format!(
                    "the value is nested more than {MAX_DEPTH} levels deep"
                )));
            }
            t.parts(&mut |t| open.push((t, depth + 1)));
        }
        Ok(())
    }
    /// The same tree with other tensors.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map<U, E>(self, f: &mut impl FnMut(T) -> Result<U, E>) -> Result<Tree<U>, E>
    where
        T: Clone,
    {
        self.walk(&mut |w| match w {
            Walk::Leaf(t) => f(t).map(Walked::Leaf),
            Walk::Node(t) => Ok(Walked::Node(t)),
        })
    }

    /// The tree with each value replaced by what `f` makes of it, inner ones before outer ones.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn rewrite<E>(self, f: &mut impl FnMut(Tree<T>) -> Result<Tree<T>, E>) -> Result<Tree<T>, E>
    where
        T: Clone,
    {
        self.walk(&mut |w| match w {
            Walk::Leaf(t) => Ok(Walked::Leaf(t)),
            Walk::Node(t) => f(t).map(Walked::Node),
        })
    }

    /// The tree with each tensor replaced by the value that `f` makes of it.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn expand<E>(self, f: &mut impl FnMut(T) -> Result<Tree<T>, E>) -> Result<Tree<T>, E>
    where
        T: Clone,
    {
        self.walk(&mut |w| match w {
            Walk::Leaf(t) => Ok(match f(t)?.into_tensor() {
                Ok(t) => Walked::Leaf(t),
                Err(other) => Walked::Node(other),
            }),
            Walk::Node(t) => Ok(Walked::Node(t)),
        })
    }

    /// Each value after its parts, without recursion.
    fn walk<U, E>(self, f: &mut impl FnMut(Walk<T, U>) -> Result<Walked<U>, E>) -> Result<Tree<U>, E>
    where
        T: Clone,
    {
        /// A value whose parts are on the way.
        struct Open<T, U> {
            shell: Tree<U>,
            waiting: std::vec::IntoIter<Tree<T>>,
            done: Vec<Tree<U>>,
        }
        let mut open: Vec<Open<T, U>> = Vec::new();
        let mut next = Some(self);
        loop {
            let mut node = match next.take() {
                Some(t) if t.nests() => {
                    let (shell, parts) = t.opened();
                    open.push(Open { shell, waiting: parts.into_iter(), done: Vec::new() });
                    None
                }
                Some(t) => Some(match &t {
                    Tree::Tensor(leaf) => match f(Walk::Leaf(leaf.clone()))? {
                        Walked::Leaf(u) => Tree::Tensor(u),
                        Walked::Node(n) => n,
                    },
                    Tree::Storage(leaf) => match f(Walk::Leaf(leaf.clone()))? {
                        Walked::Leaf(u) => Tree::Storage(u),
                        Walked::Node(n) => n,
                    },
                    _ => t.opened().0,
                }),
                None => None,
            };
            if node.is_none()
                && let Some(top) = open.last_mut()
            {
                next = top.waiting.next();
                if next.is_some() {
                    continue;
                }
                if let Some(mut whole) = open.pop() {
                    let mut done = whole.done.into_iter();
                    whole.shell.parts_mut(&mut |p| {
                        if let Some(t) = done.next() {
                            *p = t;
                        }
                    });
                    node = Some(whole.shell);
                }
            }
            let Some(node) = node else { continue };
            let node = match f(Walk::Node(node))? {
                Walked::Node(n) => n,
                Walked::Leaf(u) => Tree::Tensor(u),
            };
            match open.last_mut() {
                Some(outer) => outer.done.push(node),
                None => return Ok(node),
            }
        }
    }
}

/// What a walk hands over: a tensor of the old tree, then each value of the new one.
enum Walk<T, U> {
    Leaf(T),
    Node(Tree<U>),
}
enum Walked<U> {
    Leaf(U),
    Node(Tree<U>),
}

/// The entry of a dict; panics where there is none.
impl<T> std::ops::Index<&str> for Tree<T> {
    type Output = Tree<T>;
    #[track_caller]
    fn index(&self, key: &str) -> &Tree<T> {
        match self.get(key) {
            Some(v) => v,
            None => panic!("KeyError: '{key}' (in a {})", self.type_name()),
        }
    }
}
/// The item of a list or tuple; panics where there is none.
impl<T> std::ops::Index<usize> for Tree<T> {
    type Output = Tree<T>;
    #[track_caller]
    fn index(&self, index: usize) -> &Tree<T> {
        match self.at(index) {
            Some(v) => v,
            None => panic!("IndexError: index {index} out of range (in a {})", self.type_name()),
        }
    }
}
