//! From a [`Tree`] to pickled values.

use super::tree::{QUANTIZED, WITH_ATTRIBUTES};
use super::{STORAGE_CLASSES, Tree};
use crate::error::{Error, Result};
use crate::pickle::{Graph, Id, ObjectValue, Value};
use crate::source::{TensorSource, required_bytes};
use flambeau_dtype::DType;
use std::collections::HashMap;

/// The pickled form of a tree, and for each storage key (its position) a tensor that has that storage.
pub struct Encoded<'a, T> {
    /// Owner of the values.
    pub graph: Graph,
    /// The whole tree.
    pub root: Id,
    /// Storage `n` is written as record `data/n`.
    pub storages: Vec<&'a T>,
    /// Bytes of an element of each storage, by the class it is written as.
    pub elements: Vec<usize>,
}

/// Which of the two formats a pickle refers to its storages for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Records of a zip archive.
    Zip,
    /// Parts of the stream format.
    Legacy,
}

/// Builds the values that `torch.save` would pickle.
///
/// # Errors
/// [`Error::Unsupported`] when two tensors view one storage as different dtypes, which `torch.save` refuses
/// too; [`Error::Malformed`] for a geometry outside its storage.
pub fn encode<T: TensorSource>(tree: &Tree<T>) -> Result<Encoded<'_, T>> {
    encode_as(tree, Form::Zip)
}

/// [`encode`] for one of the two formats.
///
/// # Errors
/// As for [`encode`].
pub fn encode_as<T: TensorSource>(tree: &Tree<T>, form: Form) -> Result<Encoded<'_, T>> {
    tree.check_depth()?;
    let mut e = Encoder {
        graph: Graph::new(),
        form,
        storages: Vec::new(),
        elements: Vec::new(),
        by_id: HashMap::new(),
        objects: HashMap::new(),
    };
    let root = e.node(tree)?;
    Ok(Encoded { graph: e.graph, root, storages: e.storages, elements: e.elements })
}

struct Encoder<'a, T> {
    graph: Graph,
    form: Form,
    storages: Vec<&'a T>,
    elements: Vec<usize>,
    /// Dtype and pickled name of each storage; names are never shared with the caller's strings.
    by_id: HashMap<usize, (DType, Id)>,
    objects: HashMap<usize, Id>,
}

impl<'a, T: TensorSource> Encoder<'a, T> {
    fn node(&mut self, tree: &'a Tree<T>) -> Result<Id> {
        let value = match tree {
            Tree::None => Value::None,
            Tree::Bool(v) => Value::Bool(*v),
            Tree::Int(v) => Value::Int(*v),
            Tree::BigInt(v) => Value::BigInt(v.clone()),
            Tree::Float(v) => Value::Float(*v),
            Tree::Str(v) => return self.graph.intern(v),
            Tree::Bytes(v) => Value::Bytes(v.clone()),
            Tree::ByteArray(v) => Value::ByteArray(v.clone()),
            Tree::List(v) => Value::List(self.all(v)?),
            Tree::Tuple(v) => Value::Tuple(self.all(v)?),
            Tree::Set(v) => Value::Set(self.all(v)?),
            Tree::FrozenSet(v) => Value::FrozenSet(self.all(v)?),
            Tree::Dict(v) => Value::Dict(self.pairs(v)?),
            Tree::Complex(re, im) => {
                let args = vec![self.graph.add(Value::Float(*re))?, self.graph.add(Value::Float(*im))?];
                return self.graph.call("builtins", "complex", args);
            }
            Tree::OrderedDict(v, attributes) => {
                let pairs = self.pairs(v)?;
                let state = match &**attributes {
                    Tree::None => None,
                    other => Some(self.node(other)?),
                };
                return self.instance("OrderedDict", Vec::new(), pairs, state);
            }
            Tree::DefaultDict(factory, v) => {
                let args = vec![self.node(factory)?];
                let pairs = self.pairs(v)?;
                return self.instance("defaultdict", args, pairs, None);
            }
            Tree::Counter(v) => {
                let pairs = self.pairs(v)?;
                let dict = self.graph.add(Value::Dict(pairs))?;
                return self.graph.call("collections", "Counter", vec![dict]);
            }
            Tree::Slice(parts) => {
                let args = self.all(&parts[..])?;
                return self.graph.call("builtins", "slice", args);
            }
            Tree::DType(dtype) => return self.graph.global("torch", dtype.name()),
            Tree::Device(device) => {
                let (kind, index) = match device.split_once(':') {
                    None => (device.as_str(), None),
                    Some((kind, index)) => {
                        let index = index.parse::<i64>();
                        (kind, Some(index.map_err(|_| Error::malformed(format!("device {device:?}")))?))
                    }
                };
                let mut args = vec![self.graph.intern(kind)?];
                if let Some(index) = index {
                    args.push(self.graph.add(Value::Int(index))?);
                }
                return self.graph.call("torch", "device", args);
            }
            Tree::Layout(layout) => {
                let name = self.graph.intern(&format!("torch.{layout}"))?;
                return self.graph.call("torch.serialization", "_get_layout", vec![name]);
            }
            Tree::Size(size) => {
                let size = self.ints(size)?;
                return self.graph.call("torch", "Size", vec![size]);
            }
            Tree::Global { module, name } => return self.graph.global(module, name),
            Tree::Tensor(t) => return self.tensor(t),
            Tree::Storage(t) => return self.storage(t, true),
            Tree::Object(o) if (o.module.as_str(), o.name.as_str()) == WITH_ATTRIBUTES => {
                if let [Tree::Tensor(t), class, state] = o.args.as_slice() {
                    return self.with_attributes(t, class, state);
                }
                return Err(Error::malformed("attributes of something that is not a tensor"));
            }
            Tree::Object(o) if (o.module.as_str(), o.name.as_str()) == QUANTIZED => {
                if let [Tree::DType(d), Tree::Tensor(t), Tree::Size(size), rule, Tree::Bool(grad)] =
                    o.args.as_slice()
                {
                    return self.quantized(*d, t, size, rule, *grad);
                }
                return Err(Error::malformed("a quantized tensor that lacks a part"));
            }
            Tree::Object(o) => {
                let callable = self.graph.global(&o.module, &o.name)?;
                let args = self.all(&o.args)?;
                let args = self.graph.tuple(args)?;
                let mut value = ObjectValue::new(callable, args, o.by_new);
                value.state = o.state.as_ref().map(|s| self.node(s)).transpose()?;
                value.items = self.all(&o.items)?;
                value.pairs = self.pairs(&o.pairs)?;
                Value::Object(Box::new(value))
            }
        };
        self.graph.add(value)
    }

    fn all(&mut self, items: &'a [Tree<T>]) -> Result<Vec<Id>> {
        items.iter().map(|t| self.node(t)).collect()
    }

    fn pairs(&mut self, items: &'a [(Tree<T>, Tree<T>)]) -> Result<Vec<(Id, Id)>> {
        items.iter().map(|(k, v)| Ok((self.node(k)?, self.node(v)?))).collect()
    }

    fn ints(&mut self, values: &[i64]) -> Result<Id> {
        let items = values.iter().map(|&v| self.graph.add(Value::Int(v))).collect::<Result<_>>()?;
        self.graph.tuple(items)
    }

    fn instance(
        &mut self,
        class: &str,
        args: Vec<Id>,
        pairs: Vec<(Id, Id)>,
        state: Option<Id>,
    ) -> Result<Id> {
        let id = self.graph.call("collections", class, args)?;
        if let Value::Object(object) = self.graph.get_mut(id) {
            object.pairs = pairs;
            object.state = state;
        }
        Ok(id)
    }

    /// A tensor's call, extended by its attributes.
    fn with_attributes(&mut self, t: &'a T, class: &'a Tree<T>, state: &'a Tree<T>) -> Result<Id> {
        let plain = self.tensor(t)?;
        let (class, state) = (self.node(class)?, self.node(state)?);
        let Value::Object(call) = self.graph.get(plain) else {
            return Err(Error::malformed("a tensor that is not made by a call"));
        };
        let (function, args) = (call.callable, call.args);
        if !t.is_parameter() {
            let parts = vec![function, class, args, state];
            return self.graph.call(WITH_ATTRIBUTES.0, WITH_ATTRIBUTES.1, parts);
        }
        let Value::Tuple(args) = self.graph.get(args) else {
            return Err(Error::malformed("a tensor that is not made by a call"));
        };
        let mut args = args.clone();
        args.push(state);
        self.graph.call("torch._utils", "_rebuild_parameter_with_state", args)
    }

    /// A tensor without data: its shape says all.
    fn meta(&mut self, t: &'a T) -> Result<Id> {
        let grad = t.requires_grad();
        let args = vec![
            self.graph.global("torch", t.dtype().name())?,
            self.ints(&t.sizes())?,
            self.ints(&t.strides())?,
            self.graph.add(Value::Bool(grad && !t.is_parameter()))?,
        ];
        let id = self.graph.call("torch._utils", "_rebuild_meta_tensor_no_storage", args)?;
        self.named(t, id)
    }

    /// Makes a parameter of a tensor that is one, and remembers the object.
    fn named(&mut self, t: &'a T, mut id: Id) -> Result<Id> {
        if t.is_parameter() {
            let grad = self.graph.add(Value::Bool(t.requires_grad()))?;
            let hooks = self.graph.call("collections", "OrderedDict", Vec::new())?;
            id = self.graph.call("torch._utils", "_rebuild_parameter", vec![id, grad, hooks])?;
        }
        if let Some(object) = t.object_id() {
            self.objects.insert(object, id);
        }
        Ok(id)
    }

    fn tensor(&mut self, t: &'a T) -> Result<Id> {
        if let Some(&id) = t.object_id().and_then(|o| self.objects.get(&o)) {
            return Ok(id);
        }
        let dtype = t.dtype();
        if dtype.is_quantized() {
            return Err(Error::malformed("a quantized tensor is written as the call that makes it"));
        }
        if t.is_meta() {
            return self.meta(t);
        }
        let (sizes, strides, offset) = (t.sizes(), t.strides(), t.storage_offset());
        let need = required_bytes(&sizes, &strides, offset, dtype.size())?;
        if need > t.storage_nbytes() {
            return Err(Error::malformed(format!(
                "a tensor of size {sizes:?}, stride {strides:?}, offset {offset} reaches beyond its storage of {} bytes",
                t.storage_nbytes()
            )));
        }
        let typed = STORAGE_CLASSES.iter().any(|&(_, d)| d == dtype);
        let storage = self.storage(t, !typed)?;
        let storage = match self.graph.get(storage) {
            Value::PersistentId(_) => storage,
            _ => return Err(Error::malformed("a tensor without a storage")),
        };
        let grad = t.requires_grad();
        let mut args = vec![
            storage,
            self.graph.add(Value::Int(offset))?,
            self.ints(&sizes)?,
            self.ints(&strides)?,
            self.graph.add(Value::Bool(grad && !t.is_parameter()))?,
            self.graph.call("collections", "OrderedDict", Vec::new())?,
        ];
        if !typed {
            args.push(self.graph.global("torch", dtype.name())?);
        }
        if t.is_conj() || t.is_neg() {
            let mut flags = Vec::new();
            for (name, set) in [("conj", t.is_conj()), ("neg", t.is_neg())] {
                if set {
                    // Not interned: each tensor has its own copy, as in PyTorch.
                    flags
                        .push((self.graph.add(Value::Str(name.into()))?, self.graph.add(Value::Bool(true))?));
                }
            }
            args.push(self.graph.add(Value::Dict(flags))?);
        }
        let function = if typed { "_rebuild_tensor_v2" } else { "_rebuild_tensor_v3" };
        let id = self.graph.call("torch._utils", function, args)?;
        self.named(t, id)
    }

    /// The call that makes a quantized tensor of dtype `d` over the storage of its integers.
    fn quantized(&mut self, d: DType, t: &'a T, size: &[i64], rule: &'a Tree<T>, grad: bool) -> Result<Id> {
        let (strides, offset) = if d.per_byte() == 1 {
            (t.strides(), t.storage_offset())
        } else {
            let mut step = 1i64;
            let mut strides: Vec<i64> = size
                .iter()
                .rev()
                .map(|n| {
                    let own = step;
                    step = step.saturating_mul((*n).max(1));
                    own
                })
                .collect();
            strides.reverse();
            (strides, 0)
        };
        let args = vec![
            self.storage_as(t, d, false)?,
            self.graph.add(Value::Int(offset))?,
            self.ints(size)?,
            self.ints(&strides)?,
            self.node(rule)?,
            self.graph.add(Value::Bool(grad))?,
            self.graph.call("collections", "OrderedDict", Vec::new())?,
        ];
        self.graph.call(QUANTIZED.0, QUANTIZED.1, args)
    }

    fn storage(&mut self, t: &'a T, untyped: bool) -> Result<Id> {
        self.storage_as(t, if untyped { DType::U8 } else { t.dtype() }, untyped)
    }

    fn storage_as(&mut self, t: &'a T, dtype: DType, untyped: bool) -> Result<Id> {
        let (known, key) = match self.by_id.get(&t.storage_id()) {
            Some(&known) => known,
            None => {
                let key = self.graph.add(Value::Str(self.storages.len().to_string()))?;
                self.storages.push(t);
                self.elements.push(dtype.size());
                self.by_id.insert(t.storage_id(), (dtype, key));
                (dtype, key)
            }
        };
        if known != dtype && t.storage_nbytes() > 0 {
            return Err(Error::Unsupported(
                "Cannot save multiple tensors or storages that view the same data as different types".into(),
            ));
        }
        let (module, class) = match STORAGE_CLASSES.iter().find(|&&(_, d)| d == dtype) {
            Some(&(class, _)) if !untyped => ("torch", class),
            _ => ("torch.storage", "UntypedStorage"),
        };
        let mut parts = vec![
            self.graph.intern("storage")?,
            self.graph.global(module, class)?,
            key,
            self.graph.intern(&t.location())?,
            self.graph.add(Value::Int((t.storage_nbytes() / dtype.size()) as i64))?,
        ];
        if self.form == Form::Legacy {
            // the view of a storage, which no writer since 0.4 makes
            parts.push(self.graph.add(Value::None)?);
        }
        let reference = self.graph.tuple(parts)?;
        self.graph.add(Value::PersistentId(reference))
    }
}
