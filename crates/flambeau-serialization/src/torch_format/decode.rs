//! From pickled values to a [`Tree`].

use super::tree::{MAX_DEPTH, QUANTIZED, WITH_ATTRIBUTES};
use super::{Object, ReadOptions, STORAGE_CLASSES, StorageInfo, TensorRef, Tree};
use crate::error::{BLOCKED_MODULES, Error, Result};
use crate::pickle::{Graph, Id, ObjectValue, Value};
use flambeau_dtype::DType;
use std::collections::HashMap;

/// Bytes of text that count as much as a value.
const TEXT: usize = 64;

/// What a call counts beside its own level: reading one takes a larger part of the stack.
const OBJECT_DEPTH: usize = 3;

/// Calls that are given as [`Tree::Object`] even when not lenient, because a tensor library can carry them
/// out from their arguments.
const TENSOR_CALLS: [&str; 5] = [
    "_rebuild_sparse_tensor",
    "_rebuild_sparse_csr_tensor",
    "_rebuild_qtensor",
    "_rebuild_nested_tensor",
    "_rebuild_device_tensor_from_cpu_tensor",
];
/// Calls that are carried out here.
const CALLS: [(&str, &str); 14] = [
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_tensor_v3"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_parameter_with_state"),
    ("torch._utils", "_rebuild_meta_tensor_no_storage"),
    WITH_ATTRIBUTES,
    ("torch.serialization", "_get_layout"),
    ("torch", "device"),
    ("torch", "Size"),
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
    ("collections", "Counter"),
    ("_codecs", "encode"),
];
/// The same of Python's builtins.
const BUILTIN_CALLS: [&str; 6] = ["complex", "bytes", "bytearray", "set", "frozenset", "slice"];
const DEFAULT_FACTORIES: [&str; 9] =
    ["list", "dict", "set", "int", "float", "str", "bool", "tuple", "complex"];

type Node = Tree<TensorRef>;

/// Builds the tree and the list of storages it refers to, in order of first appearance.
///
/// # Errors
/// [`Error::Global`] for a class or function outside the allow-list unless lenient; [`Error::Limit`] for
/// values that are nested too deeply, contain themselves, or grow out of proportion when references are
/// followed; [`Error::Missing`] for dtypes this project does not have.
pub fn decode(graph: &Graph, root: Id, options: &ReadOptions) -> Result<(Node, Vec<StorageInfo>)> {
    // each value and each text may be used a dozen times; what is used more often is copied without bound
    let size = graph.len().saturating_add(graph.bytes() / TEXT);
    let budget = size.saturating_mul(16).saturating_add(1 << 16);
    let mut d = Decoder { graph, options, storages: Vec::new(), by_key: HashMap::new(), budget };
    let tree = d.node(root, 0)?;
    Ok((tree, d.storages))
}

/// Whether a reader that is not lenient takes this name, as a call or as it stands.
pub fn is_known_global(module: &str, name: &str) -> bool {
    let storage = STORAGE_CLASSES.iter().any(|(n, _)| *n == name);
    plain_global(module, name)
        || CALLS.contains(&(module, name))
        || is_builtin(module) && BUILTIN_CALLS.contains(&name)
        || module == "torch._utils" && TENSOR_CALLS.contains(&name)
        || matches!(module, "torch" | "torch.cuda") && (storage || name.ends_with("Storage"))
        || module == "torch.storage" && name == "UntypedStorage"
}

/// Names that may stand as values.
fn plain_global(module: &str, name: &str) -> bool {
    let builtin = is_builtin(module) && DEFAULT_FACTORIES.contains(&name);
    let scheme = module == "torch" && (name.starts_with("per_tensor_") || name.starts_with("per_channel_"));
    let tensor = matches!((module, name), ("torch", "Tensor") | ("torch.nn.parameter", "Parameter"));
    builtin || scheme || tensor || module == "torch" && DType::from_name(name).is_some()
}

struct Decoder<'a> {
    graph: &'a Graph,
    options: &'a ReadOptions,
    storages: Vec<StorageInfo>,
    by_key: HashMap<String, usize>,
    /// Nodes that may still be made: a value shared many times over is copied into the tree each time.
    budget: usize,
}

/// A storage, or part of one, that a persistent id names.
struct View {
    storage: usize,
    dtype: DType,
    offset: i64,
    numel: i64,
}

impl Decoder<'_> {
    fn node(&mut self, id: Id, depth: usize) -> Result<Node> {
        self.enter(depth)?;
        let graph = self.graph;
        let depth = depth + 1;
        Ok(match graph.get(id) {
            Value::None => Tree::None,
            Value::Bool(v) => Tree::Bool(*v),
            Value::Int(v) => Tree::Int(*v),
            Value::BigInt(v) => Tree::BigInt(self.charge(v)?.to_vec()),
            Value::Float(v) => Tree::Float(*v),
            Value::Str(v) => Tree::Str(self.text(v)?),
            Value::Bytes(v) => Tree::Bytes(self.charge(v)?.to_vec()),
            Value::ByteArray(v) => Tree::ByteArray(self.charge(v)?.to_vec()),
            Value::List(v) => Tree::List(self.all(v, depth)?),
            Value::Tuple(v) => Tree::Tuple(self.all(v, depth)?),
            Value::Set(v) => Tree::Set(self.all(v, depth)?),
            Value::FrozenSet(v) => Tree::FrozenSet(self.all(v, depth)?),
            Value::Dict(v) => Tree::Dict(self.pairs(v, depth)?),
            Value::Global { module, name } => self.global(module, name)?,
            Value::PersistentId(key) => {
                let view = self.storage(*key)?;
                Tree::Storage(self.tensor_ref(
                    id,
                    &view,
                    view.dtype,
                    view.offset,
                    vec![view.numel],
                    vec![1],
                )?)
            }
            Value::Object(object) => self.object(id, object, depth + OBJECT_DEPTH)?,
        })
    }

    /// Counts a value at a depth.
    fn enter(&mut self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::Limit(format!("the value is nested more than {MAX_DEPTH} levels deep")));
        }
        self.budget = self
            .budget
            .checked_sub(1)
            .ok_or_else(|| Error::Limit("the value refers to itself too often".into()))?;
        Ok(())
    }

    /// Long strings count by length, so that one string shared often cannot be copied without bound.
    fn charge<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        self.spend(bytes.len() / TEXT)?;
        Ok(bytes)
    }

    fn spend(&mut self, cost: usize) -> Result<()> {
        self.budget = self
            .budget
            .checked_sub(cost)
            .ok_or_else(|| Error::Limit("the value refers to itself too often".into()))?;
        Ok(())
    }

    fn text(&mut self, s: &str) -> Result<String> {
        self.charge(s.as_bytes())?;
        Ok(s.to_owned())
    }

    fn all(&mut self, ids: &[Id], depth: usize) -> Result<Vec<Node>> {
        ids.iter().map(|&id| self.node(id, depth)).collect()
    }

    fn pairs(&mut self, ids: &[(Id, Id)], depth: usize) -> Result<Vec<(Node, Node)>> {
        let mut out: Vec<(Node, Node)> = Vec::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let graph = self.graph;
        for &(k, v) in ids {
            let value = self.node(v, depth)?;
            // A later entry of the same name replaces the earlier one, in its place.
            if let Value::Str(s) = graph.get(k) {
                if let Some(&at) = seen.get(s.as_str()) {
                    out[at].1 = value;
                    continue;
                }
                seen.insert(s, out.len());
            }
            out.push((self.node(k, depth)?, value));
        }
        Ok(out)
    }

    fn global(&mut self, module: &str, name: &str) -> Result<Node> {
        self.spend((module.len() + name.len()) / TEXT)?;
        if module == "torch"
            && let Some(dtype) = DType::from_name(name)
        {
            return Ok(Tree::DType(dtype));
        }
        if plain_global(module, name) || self.accepts(module, name) {
            return Ok(Tree::Global { module: module.to_owned(), name: name.to_owned() });
        }
        Err(Error::Global { module: module.to_owned(), name: name.to_owned() })
    }

    /// Whether a name outside the list is given as an opaque value.
    fn accepts(&self, module: &str, name: &str) -> bool {
        if self.options.lenient {
            return true;
        }
        let is = |path: &String| path.strip_suffix(name).and_then(|m| m.strip_suffix('.')) == Some(module);
        !BLOCKED_MODULES.contains(&module) && self.options.safe_globals.iter().any(is)
    }

    fn object(&mut self, id: Id, o: &ObjectValue, depth: usize) -> Result<Node> {
        let graph = self.graph;
        let Value::Global { module, name } = graph.get(o.callable) else {
            return Err(Error::malformed("a call of something that is not a function"));
        };
        let Value::Tuple(args) = graph.get(o.args) else {
            return Err(Error::malformed(format!("the arguments of {name} are not a tuple")));
        };
        let args = args.as_slice();
        let bare = o.state.is_none() && o.items.is_empty() && o.pairs.is_empty() && o.kwargs.is_none();
        let value = match (module.as_str(), name.as_str(), args) {
            ("torch._utils", "_rebuild_tensor", &[s, offset, size, stride]) => {
                Some(self.rebuild(id, s, offset, size, stride, None, None)?)
            }
            ("torch._utils", "_rebuild_tensor_v2", &[s, offset, size, stride, grad, _]) => {
                Some(self.rebuild(id, s, offset, size, stride, Some(grad), None)?)
            }
            ("torch._utils", "_rebuild_tensor_v2", &[s, offset, size, stride, grad, _, meta]) => {
                let mut t = self.rebuild(id, s, offset, size, stride, Some(grad), None)?;
                self.metadata(&mut t, meta)?;
                Some(t)
            }
            ("torch._utils", "_rebuild_tensor_v3", &[s, offset, size, stride, grad, _, dtype]) => {
                Some(self.rebuild(id, s, offset, size, stride, Some(grad), Some(dtype))?)
            }
            ("torch._utils", "_rebuild_tensor_v3", &[s, offset, size, stride, grad, _, dtype, meta]) => {
                let mut t = self.rebuild(id, s, offset, size, stride, Some(grad), Some(dtype))?;
                self.metadata(&mut t, meta)?;
                Some(t)
            }
            ("torch._utils", "_rebuild_parameter", &[data, grad, _]) => {
                Some(Tree::Tensor(self.parameter(id, data, grad, depth)?))
            }
            ("torch._utils", "_rebuild_parameter_with_state", &[data, grad, _, state]) => {
                let t = self.parameter(id, data, grad, depth)?;
                Some(attributed(t, ("torch.nn.parameter", "Parameter"), self.node(state, depth)?))
            }
            ("torch._utils", "_rebuild_meta_tensor_no_storage", &[dtype, size, stride, grad]) => {
                let (size, stride) = (self.ints(size)?, self.ints(stride)?);
                let dtype = self.dtype(dtype)?;
                crate::source::required_bytes(&size, &stride, 0, dtype.size())?;
                Some(Tree::Tensor(TensorRef {
                    object: id.index(),
                    storage: None,
                    storage_key: String::new(),
                    location: "meta".into(),
                    dtype,
                    offset: 0,
                    size,
                    stride,
                    requires_grad: self.bool(grad)?,
                    is_parameter: false,
                    conj: false,
                    neg: false,
                }))
            }
            (m, n, &[s, offset, size, stride, rule, grad, _]) if (m, n) == QUANTIZED => {
                Some(self.quantized(id, [s, offset, size, stride, rule, grad], depth)?)
            }
            (m, n, &[function, class, parts, state]) if (m, n) == WITH_ATTRIBUTES => {
                let class = self.node(class, depth)?;
                let (Tree::Global { module, name }, Value::Tuple(_)) = (&class, graph.get(parts)) else {
                    return Err(Error::malformed("a tensor with attributes that has no class"));
                };
                let call = ObjectValue::new(function, parts, false);
                // the call inside may be of this kind again, and without end
                let depth = depth + OBJECT_DEPTH;
                self.enter(depth)?;
                match self.object(id, &call, depth)?.into_tensor() {
                    Ok(t) => Some(attributed(t, (module, name), self.node(state, depth)?)),
                    Err(_) => {
                        return Err(Error::Missing("attributes of a tensor that is not strided".into()));
                    }
                }
            }
            ("torch.serialization", "_get_layout", &[name]) => match graph.get(name) {
                Value::Str(s) => Some(Tree::Layout(self.text(s.strip_prefix("torch.").unwrap_or(s))?)),
                _ => return Err(Error::malformed("a layout without a name")),
            },
            ("torch", "device", args) => Some(Tree::Device(self.device(args)?)),
            ("torch", "Size", &[size]) => Some(Tree::Size(self.ints(size)?)),
            ("collections", "OrderedDict", args) if o.items.is_empty() => {
                let mut pairs = self.dict_args(args)?;
                pairs.extend_from_slice(&o.pairs);
                let entries = self.pairs(&pairs, depth)?;
                let attributes = match o.state {
                    Some(state) => self.node(state, depth)?,
                    None => Tree::None,
                };
                return Ok(Tree::OrderedDict(entries, Box::new(attributes)));
            }
            ("collections", "defaultdict", args) if o.items.is_empty() && o.state.is_none() => {
                let factory = match args.first() {
                    Some(&f) => self.node(f, depth)?,
                    None => Tree::None,
                };
                return Ok(Tree::DefaultDict(Box::new(factory), self.pairs(&o.pairs, depth)?));
            }
            ("collections", "Counter", args) => {
                let pairs = self.dict_args(args)?;
                Some(Tree::Counter(self.pairs(&pairs, depth)?))
            }
            ("_codecs", "encode", args) => Some(Tree::Bytes(self.encode(args)?)),
            (m, "complex", &[re, im]) if is_builtin(m) => {
                Some(Tree::Complex(self.float(re)?, self.float(im)?))
            }
            (m, "bytes", &[]) if is_builtin(m) => Some(Tree::Bytes(Vec::new())),
            (m, "bytearray", args) if is_builtin(m) => Some(Tree::ByteArray(match *args {
                [] => Vec::new(),
                [a] => match &mut self.node(a, depth)? {
                    Tree::Bytes(b) => std::mem::take(b),
                    _ => return Err(Error::malformed("bytearray of something that is not bytes")),
                },
                _ => self.encode(args)?,
            })),
            (m, "set", &[items]) if is_builtin(m) => Some(Tree::Set(self.items(items, depth)?)),
            (m, "frozenset", &[items]) if is_builtin(m) => Some(Tree::FrozenSet(self.items(items, depth)?)),
            (m, "slice", &[a, b, c]) if is_builtin(m) => Some(Tree::Slice(Box::new([
                self.node(a, depth)?,
                self.node(b, depth)?,
                self.node(c, depth)?,
            ]))),
            _ => None,
        };
        match value {
            Some(value) if bare => return Ok(value),
            Some(_) if !self.options.lenient => {
                return Err(Error::Missing(format!("extra attributes on the result of {module}.{name}")));
            }
            _ => {}
        }
        let known = module == "torch._utils" && TENSOR_CALLS.contains(&name.as_str());
        if !known && !self.accepts(module, name) {
            return Err(Error::Global { module: module.clone(), name: name.clone() });
        }
        if o.kwargs.is_some() {
            return Err(Error::Missing(format!("keyword arguments of {module}.{name}")));
        }
        Ok(Tree::Object(Box::new(Object {
            module: module.clone(),
            name: name.clone(),
            by_new: o.by_new,
            args: self.all(args, depth)?,
            state: o.state.map(|s| self.node(s, depth)).transpose()?,
            items: self.all(&o.items, depth)?,
            pairs: self.pairs(&o.pairs, depth)?,
        })))
    }

    fn parameter(&mut self, id: Id, data: Id, grad: Id, depth: usize) -> Result<TensorRef> {
        match self.node(data, depth)?.into_tensor() {
            Ok(mut t) => {
                t.object = id.index();
                t.is_parameter = true;
                t.requires_grad = self.bool(grad)?;
                Ok(t)
            }
            Err(_) => Err(Error::Missing("a Parameter over a tensor that is not strided".into())),
        }
    }

    fn dtype(&self, id: Id) -> Result<DType> {
        match self.graph.get(id) {
            Value::Global { module, name } if module == "torch" => {
                DType::from_name(name).ok_or_else(|| Error::Missing(format!("tensors of dtype torch.{name}")))
            }
            _ => Err(Error::malformed("a tensor whose dtype is not a dtype")),
        }
    }

    /// Entries given to a dict's constructor: a dict, or a list of pairs.
    fn dict_args(&self, args: &[Id]) -> Result<Vec<(Id, Id)>> {
        let bad = || Error::malformed("a dict is made from something that is not a dict or a list of pairs");
        match args {
            [] => Ok(Vec::new()),
            &[a] => match self.graph.get(a) {
                Value::Dict(pairs) => Ok(pairs.clone()),
                Value::List(items) => items
                    .iter()
                    .map(|&item| match self.graph.get(item) {
                        Value::List(p) | Value::Tuple(p) if p.len() == 2 => Ok((p[0], p[1])),
                        _ => Err(bad()),
                    })
                    .collect(),
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }

    fn items(&mut self, id: Id, depth: usize) -> Result<Vec<Node>> {
        let graph = self.graph;
        match graph.get(id) {
            Value::List(items) | Value::Tuple(items) => self.all(items, depth),
            _ => Err(Error::malformed("a set is made from something that is not a list")),
        }
    }

    fn encode(&mut self, args: &[Id]) -> Result<Vec<u8>> {
        let (text, codec) = match args {
            &[t, c] => (self.graph.get(t), self.graph.get(c)),
            _ => return Err(Error::malformed("_codecs.encode needs a text and a codec")),
        };
        match (text, codec) {
            (Value::Str(text), Value::Str(codec)) => {
                self.charge(text.as_bytes())?;
                match codec.as_str() {
                    "latin1" | "latin-1" => text
                        .chars()
                        .map(|c| u8::try_from(u32::from(c)))
                        .collect::<std::result::Result<_, _>>()
                        .map_err(|_| Error::malformed("text that is not Latin-1")),
                    "utf-8" | "utf8" => Ok(text.as_bytes().to_vec()),
                    other => Err(Error::Unsupported(format!("text codec {other}"))),
                }
            }
            _ => Err(Error::malformed("_codecs.encode needs a text and a codec")),
        }
    }

    fn device(&self, args: &[Id]) -> Result<String> {
        let name = |id: Id| match self.graph.get(id) {
            Value::Str(s) => Ok(s.clone()),
            _ => Err(Error::malformed("torch.device of something that is not a name")),
        };
        match *args {
            [n] => name(n),
            [n, i] => match self.graph.get(i) {
                Value::Int(i) => Ok(format!("{}:{i}", name(n)?)),
                Value::None => name(n),
                _ => Err(Error::malformed("torch.device with an index that is not a number")),
            },
            _ => Err(Error::malformed("torch.device needs one or two arguments")),
        }
    }

    fn rebuild(
        &mut self,
        id: Id,
        storage: Id,
        offset: Id,
        size: Id,
        stride: Id,
        grad: Option<Id>,
        dtype: Option<Id>,
    ) -> Result<Node> {
        let Value::PersistentId(key) = self.graph.get(storage) else {
            return Err(Error::malformed("a tensor without a storage"));
        };
        let view = self.storage(*key)?;
        let dtype = match dtype {
            None => view.dtype,
            Some(id) => self.dtype(id)?,
        };
        let offset = self.int(offset)?;
        let base = (view.offset as i128 * view.dtype.size() as i128) / dtype.size() as i128;
        let offset =
            i64::try_from(base + i128::from(offset)).map_err(|_| Error::malformed("tensor offset"))?;
        let (size, stride) = (self.ints(size)?, self.ints(stride)?);
        let mut tensor = self.tensor_ref(id, &view, dtype, offset, size, stride)?;
        tensor.requires_grad = grad.map(|g| self.bool(g)).transpose()?.unwrap_or(false);
        Ok(Tree::Tensor(tensor))
    }

    /// A quantized tensor as [`QUANTIZED`] says.
    fn quantized(
        &mut self,
        id: Id,
        [storage, offset, size, stride, rule, grad]: [Id; 6],
        depth: usize,
    ) -> Result<Node> {
        let Value::PersistentId(key) = self.graph.get(storage) else {
            return Err(Error::malformed("a quantized tensor without a storage"));
        };
        let view = self.storage(*key)?;
        let Some(whole) = view.dtype.integers() else {
            return Err(Error::malformed(format!("a quantized tensor over a storage of {}", view.dtype)));
        };
        let (size, stride) = (self.ints(size)?, self.ints(stride)?);
        let offset = self.int(offset)?.checked_add(view.offset);
        let offset = offset.ok_or_else(|| Error::malformed("tensor offset"))?;
        let integers = if view.dtype.per_byte() == 1 {
            self.tensor_ref(id, &view, whole, offset, size.clone(), stride)?
        } else {
            // only whole tensors have several elements in a byte
            let bytes = self.storages[view.storage].nbytes as i64;
            self.tensor_ref(id, &view, whole, 0, vec![bytes], vec![1])?
        };
        Ok(Tree::Object(Box::new(Object {
            module: QUANTIZED.0.into(),
            name: QUANTIZED.1.into(),
            by_new: false,
            args: vec![
                Tree::DType(view.dtype),
                Tree::Tensor(integers),
                Tree::Size(size),
                self.node(rule, depth)?,
                Tree::Bool(self.bool(grad)?),
            ],
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
        })))
    }

    fn tensor_ref(
        &mut self,
        id: Id,
        view: &View,
        dtype: DType,
        offset: i64,
        size: Vec<i64>,
        stride: Vec<i64>,
    ) -> Result<TensorRef> {
        let info = &self.storages[view.storage];
        let need = crate::source::required_bytes(&size, &stride, offset, dtype.size())?;
        if need > info.nbytes {
            return Err(Error::malformed(format!(
                "a tensor of size {size:?}, stride {stride:?}, offset {offset} needs {need} bytes; its storage {} has {}",
                info.key, info.nbytes
            )));
        }
        Ok(TensorRef {
            object: id.index(),
            storage: Some(view.storage),
            storage_key: info.key.clone(),
            location: info.location.clone(),
            dtype,
            offset,
            size,
            stride,
            requires_grad: false,
            is_parameter: false,
            conj: false,
            neg: false,
        })
    }

    fn metadata(&self, tensor: &mut Node, id: Id) -> Result<()> {
        let (Tree::Tensor(t), Value::Dict(pairs)) = (tensor, self.graph.get(id)) else {
            return match self.graph.get(id) {
                Value::None => Ok(()),
                _ => Err(Error::malformed("tensor metadata that is not a dict")),
            };
        };
        for &(k, v) in pairs {
            match self.graph.get(k) {
                Value::Str(s) if s == "conj" => t.conj = self.bool(v)?,
                Value::Str(s) if s == "neg" => t.neg = self.bool(v)?,
                other => return Err(Error::Missing(format!("tensor metadata {other:?}"))),
            }
        }
        Ok(())
    }

    /// Reads `("storage", class, key, location, numel[, view])`.
    fn storage(&mut self, id: Id) -> Result<View> {
        let graph = self.graph;
        let bad = |what: &str| Error::malformed(format!("storage reference: {what}"));
        let Value::Tuple(parts) = graph.get(id) else {
            return Err(bad("not a tuple"));
        };
        let (&[tag, class, key, location, numel], view) = match parts.as_slice() {
            [head @ .., view] if head.len() == 5 => {
                (<&[Id; 5]>::try_from(head).map_err(|_| bad("length"))?, Some(*view))
            }
            five => (<&[Id; 5]>::try_from(five).map_err(|_| bad("length"))?, None),
        };
        if !matches!(graph.get(tag), Value::Str(s) if s == "storage") {
            return Err(Error::Unsupported("a persistent reference that is not a storage".into()));
        }
        let dtype = match graph.get(class) {
            Value::Global { module, name } => match STORAGE_CLASSES.iter().find(|(n, _)| n == name) {
                Some(&(_, dtype)) if module == "torch" || module == "torch.cuda" => dtype,
                None if module == "torch.storage" && name == "UntypedStorage" => DType::U8,
                None if module == "torch" && name.ends_with("Storage") => {
                    return Err(Error::Missing(format!("storages of class torch.{name}")));
                }
                _ => return Err(Error::Global { module: module.clone(), name: name.clone() }),
            },
            _ => return Err(bad("the class is not a class")),
        };
        let (Value::Str(key), Value::Str(location)) = (graph.get(key), graph.get(location)) else {
            return Err(bad("key or location is not a string"));
        };
        // both are copied into what refers to the storage
        self.spend((key.len() + location.len()) / TEXT)?;
        let numel = self.int(numel)?;
        let nbytes = usize::try_from(numel).ok().and_then(|n| n.checked_mul(dtype.size()));
        let nbytes = nbytes.filter(|&n| n <= isize::MAX as usize).ok_or_else(|| bad("impossible size"))?;
        let storage = match self.by_key.get(key) {
            Some(&n) => {
                let known = &mut self.storages[n];
                known.nbytes = known.nbytes.max(nbytes);
                n
            }
            None => {
                let n = self.storages.len();
                self.storages.push(StorageInfo {
                    key: key.clone(),
                    dtype,
                    nbytes,
                    location: location.clone(),
                    file_offset: None,
                });
                self.by_key.insert(key.clone(), n);
                n
            }
        };
        let mut out = View { storage, dtype, offset: 0, numel };
        if let Some(view) = view {
            match graph.get(view) {
                Value::None => {}
                Value::Tuple(parts) if parts.len() == 3 => {
                    out.offset = self.int(parts[1])?;
                    out.numel = self.int(parts[2])?;
                }
                _ => return Err(bad("the view is not a tuple of three")),
            }
        }
        Ok(out)
    }

    fn int(&self, id: Id) -> Result<i64> {
        match self.graph.get(id) {
            Value::Int(v) => Ok(*v),
            _ => Err(Error::malformed("a number is expected")),
        }
    }

    fn float(&self, id: Id) -> Result<f64> {
        match self.graph.get(id) {
            Value::Float(v) => Ok(*v),
            Value::Int(v) => Ok(*v as f64),
            _ => Err(Error::malformed("a number is expected")),
        }
    }

    fn bool(&self, id: Id) -> Result<bool> {
        match self.graph.get(id) {
            Value::Bool(v) => Ok(*v),
            Value::Int(v) => Ok(*v != 0),
            _ => Err(Error::malformed("True or False is expected")),
        }
    }

    /// Numbers of a tuple, list or `torch.Size`.
    fn ints(&mut self, id: Id) -> Result<Vec<i64>> {
        let graph = self.graph;
        match graph.get(id) {
            Value::Tuple(v) | Value::List(v) => {
                self.spend(v.len())?;
                v.iter().map(|&i| self.int(i)).collect()
            }
            Value::Object(o) => match (graph.get(o.callable), graph.get(o.args)) {
                (Value::Global { module, name }, Value::Tuple(a))
                    if module == "torch" && name == "Size" && a.len() == 1 =>
                {
                    match graph.get(a[0]) {
                        Value::Tuple(v) => {
                            self.spend(v.len())?;
                            v.iter().map(|&i| self.int(i)).collect()
                        }
                        _ => Err(Error::malformed("torch.Size without a tuple")),
                    }
                }
                _ => Err(Error::malformed("a tuple of numbers is expected")),
            },
            _ => Err(Error::malformed("a tuple of numbers is expected")),
        }
    }
}

/// A tensor with its Python attributes, where it has any.
fn attributed(t: TensorRef, class: (&str, &str), state: Node) -> Node {
    let none = match &state {
        Tree::None => true,
        other => other.entries().is_some_and(<[_]>::is_empty),
    };
    if none { Tree::Tensor(t) } else { Tree::with_attributes(t, class, state) }
}

fn is_builtin(module: &str) -> bool {
    matches!(module, "builtins" | "__builtin__")
}
