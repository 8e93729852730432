//! The arena of pickled values.

use crate::error::{Error, Result};
use std::collections::HashMap;

/// Address of a value in its [`Graph`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Id(u32);

impl Id {
    /// Position in the arena; equal for two references to one Python object.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One pickled value; children are addresses in the same [`Graph`].
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// An integer that fits 64 bits.
    Int(i64),
    /// A larger integer, little-endian two's complement.
    BigInt(Vec<u8>),
    /// A float.
    Float(f64),
    /// Text.
    Str(String),
    /// `bytes`, and Python 2 strings that are not ASCII.
    Bytes(Vec<u8>),
    /// `bytearray`
    ByteArray(Vec<u8>),
    /// `list`
    List(Vec<Id>),
    /// `tuple`
    Tuple(Vec<Id>),
    /// `dict`, in insertion order; a repeated key is kept as it stands in the file.
    Dict(Vec<(Id, Id)>),
    /// `set`
    Set(Vec<Id>),
    /// `frozenset`
    FrozenSet(Vec<Id>),
    /// A class or function, by name.
    Global {
        /// Python module.
        module: String,
        /// Name inside the module.
        name: String,
    },
    /// A call or an instance; see [`ObjectValue`].
    Object(Box<ObjectValue>),
    /// A reference to something stored outside the pickle (a tensor storage).
    PersistentId(Id),
}

/// The result of `callable(*args)` (REDUCE) or `cls.__new__(cls, *args)` (NEWOBJ), with what the pickle
/// does to it afterwards.
#[derive(Clone, PartialEq, Debug)]
pub struct ObjectValue {
    /// The function or class.
    pub callable: Id,
    /// The argument tuple.
    pub args: Id,
    /// Keyword arguments (NEWOBJ_EX).
    pub kwargs: Option<Id>,
    /// True for `__new__`, false for a plain call.
    pub by_new: bool,
    /// Argument of `__setstate__`, or the `__dict__` update.
    pub state: Option<Id>,
    /// Items appended, or added for a set subclass.
    pub items: Vec<Id>,
    /// Items set, in order.
    pub pairs: Vec<(Id, Id)>,
}

/// Owner of pickled values.
#[derive(Clone, Default, Debug)]
pub struct Graph {
    nodes: Vec<Value>,
    strings: HashMap<String, Id>,
    globals: HashMap<(String, String), Id>,
}

impl Graph {
    /// An empty arena.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds a value and returns its address.
    ///
    /// # Errors
    /// [`Error::Limit`] past 2^32 values.
    pub fn add(&mut self, value: Value) -> Result<Id> {
        let id = u32::try_from(self.nodes.len())
            .map_err(|_| Error::Limit("too many values in a pickle".into()))?;
        self.nodes.push(value);
        Ok(Id(id))
    }

    /// Adds a string, or returns the address of the equal one added this way before (as Python shares
    /// literals, which keeps the written file small).
    pub fn intern(&mut self, text: &str) -> Result<Id> {
        if let Some(&id) = self.strings.get(text) {
            return Ok(id);
        }
        let id = self.add(Value::Str(text.to_owned()))?;
        self.strings.insert(text.to_owned(), id);
        Ok(id)
    }

    /// Adds a class or function, or returns the address of the same one added this way before.
    pub fn global(&mut self, module: &str, name: &str) -> Result<Id> {
        let key = (module.to_owned(), name.to_owned());
        if let Some(&id) = self.globals.get(&key) {
            return Ok(id);
        }
        let id = self.add(Value::Global { module: key.0.clone(), name: key.1.clone() })?;
        self.globals.insert(key, id);
        Ok(id)
    }

    /// Adds a tuple.
    pub fn tuple(&mut self, items: Vec<Id>) -> Result<Id> {
        self.add(Value::Tuple(items))
    }

    /// Adds the call `module.name(*args)`.
    pub fn call(&mut self, module: &str, name: &str, args: Vec<Id>) -> Result<Id> {
        let callable = self.global(module, name)?;
        let args = self.tuple(args)?;
        self.add(Value::Object(Box::new(ObjectValue::new(callable, args, false))))
    }

    /// The value at an address of this graph.
    pub fn get(&self, id: Id) -> &Value {
        &self.nodes[id.index()]
    }

    /// The value at an address of this graph, to change it.
    pub fn get_mut(&mut self, id: Id) -> &mut Value {
        &mut self.nodes[id.index()]
    }

    /// All values, in the order they were added.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.nodes.iter()
    }

    /// Bytes of all texts and byte strings.
    pub(crate) fn bytes(&self) -> usize {
        let of = |v: &Value| match v {
            Value::Str(s) => s.len(),
            Value::Bytes(b) | Value::ByteArray(b) | Value::BigInt(b) => b.len(),
            Value::Global { module, name } => module.len() + name.len(),
            _ => 0,
        };
        self.nodes.iter().map(of).fold(0, usize::saturating_add)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True when nothing was added.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl ObjectValue {
    /// A call, or an instance when `by_new`, that nothing was done to yet.
    pub fn new(callable: Id, args: Id, by_new: bool) -> ObjectValue {
        ObjectValue {
            callable,
            args,
            kwargs: None,
            by_new,
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
        }
    }
}
