//! Python's values as bytes: pickles of protocol 4, which execute nothing here, or what `torch.save` writes.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Tensor, bail};
use flambeau_serialization::pickle::{self, Graph, Id, Value};
use flambeau_serialization::tensors::{self, LoadOptions};
use flambeau_serialization::torch_format::encode;
use flambeau_serialization::{Object, Tree};
use std::convert::Infallible;
use std::io::Cursor;

/// A Python value with tensors.
pub type Node = Tree<Tensor>;

/// Deeper values, and values that name others more often, are refused.
const DEPTH: usize = 100;

fn said(e: flambeau_serialization::Error) -> Error {
    Error::serialization(e.to_string())
}
fn object(module: &str, name: &str, args: Vec<Node>) -> Node {
    let (module, name) = (module.to_owned(), name.to_owned());
    let (state, items, pairs) = (None, Vec::new(), Vec::new());
    Tree::Object(Box::new(Object { module, name, by_new: false, args, state, items, pairs }))
}

/// The class of a storage of this dtype.
fn storage_class(dtype: DType) -> Result<&'static str> {
    Ok(match dtype {
        DType::F32 => "FloatStorage",
        DType::F64 => "DoubleStorage",
        DType::F16 => "HalfStorage",
        DType::BF16 => "BFloat16Storage",
        DType::I64 => "LongStorage",
        DType::I32 => "IntStorage",
        DType::I16 => "ShortStorage",
        DType::I8 => "CharStorage",
        DType::U8 => "ByteStorage",
        DType::Bool => "BoolStorage",
        DType::C64 => "ComplexFloatStorage",
        DType::C128 => "ComplexDoubleStorage",
        other => bail!(Unsupported, "a pickle of a tensor of {}", other.name()),
    })
}
/// A tensor's memory as the file of a typed storage, in the form from before version 1.6: what `pickle` of a tensor holds.
fn old_storage(t: &Tensor) -> Result<Vec<u8>> {
    // magic number, version, and what machine has written it, as PyTorch writes them
    const HEAD: &[u8] = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00protocol_versionq\x01M\xe9\x03X\r\x00\x00\x00little_endianq\x02\x88X\n\x00\x00\x00type_sizesq\x03}q\x04(X\x05\x00\x00\x00shortq\x05K\x02X\x03\x00\x00\x00intq\x06K\x04X\x04\x00\x00\x00longq\x07K\x04uu.";
    let (nbytes, size) = (t.storage().nbytes(), t.dtype().size());
    let count = (nbytes / size) as i64;
    let mut number = vec![0x8a, 8];
    number.extend_from_slice(&count.to_le_bytes());
    let mut content = vec![0; count as usize * size];
    if !content.is_empty() {
        t.storage().read_at(0, &mut content)?;
    }
    let class = storage_class(t.dtype())?;
    let mut b = HEAD.to_vec();
    b.extend_from_slice(b"\x80\x02(X\x07\x00\x00\x00storageq\x00ctorch\n");
    b.extend_from_slice(class.as_bytes());
    b.extend_from_slice(b"\nq\x01X\x01\x00\x00\x000q\x02X\x03\x00\x00\x00cpuq\x03");
    b.extend_from_slice(&number);
    b.extend_from_slice(b"Ntq\x04Q.\x80\x02]q\x00X\x01\x00\x00\x000q\x01a.");
    b.extend_from_slice(&count.to_le_bytes());
    b.extend_from_slice(&content);
    Ok(b)
}

/// The bytes of a value: as `pickle.dumps` writes it, or as `torch.save` with `weights_only`.
///
/// # Errors
/// Values that a pickle cannot hold.
pub fn dump(value: &Node, weights_only: bool) -> Result<Vec<u8>> {
    if weights_only {
        return tensors::save_to(value, Vec::new());
    }
    let plain = value.clone().rewrite(&mut |n| match n {
        Tree::Tensor(ref t) => {
            let storage = old_storage(t)?;
            let ints = |l: &[i64]| Tree::Tuple(l.iter().map(|i| Tree::Int(*i)).collect());
            Ok(object(
                "torch._utils",
                "_rebuild_tensor_v2",
                vec![
                    object("torch.storage", "_load_from_bytes", vec![Tree::Bytes(storage)]),
                    Tree::Int(t.storage_offset()),
                    ints(t.sizes()),
                    ints(t.strides()),
                    Tree::Bool(t.requires_grad()),
                    Tree::OrderedDict(Vec::new(), Box::new(Tree::None)),
                ],
            ))
        }
        other => Ok::<Node, Error>(other),
    })?;
    let plain = plain.map(&mut |_| Err::<Infallible, Error>(Error::serialization("a tensor in a pickle")))?;
    let encoded = encode(&plain).map_err(said)?;
    let bytes = pickle::dump_with(&encoded.graph, encoded.root, 4).map_err(said)?;
    Ok(framed(bytes))
}
/// Python says before a pickle's body how long it is, unless it is shorter than 4 bytes; longer bodies it cuts, which readers need not see.
fn framed(bytes: Vec<u8>) -> Vec<u8> {
    const ONE_FRAME: usize = 64 << 10;
    let Some((head, body)) = bytes.split_first_chunk::<2>() else { return bytes };
    if !(4..ONE_FRAME).contains(&body.len()) || body[0] == 0x95 {
        return bytes;
    }
    let mut all = head.to_vec();
    all.push(0x95);
    all.extend_from_slice(&(body.len() as u64).to_le_bytes());
    all.extend_from_slice(body);
    all
}

/// The value of these bytes. Nothing in them is executed; names of classes and functions but tensors' are refused.
///
/// # Errors
/// Bytes that are no such value.
pub fn load(bytes: &[u8], weights_only: bool) -> Result<Node> {
    if weights_only {
        return tensors::load_from(Cursor::new(bytes.to_vec()), LoadOptions::new());
    }
    let (graph, root) = pickle::load(bytes).map_err(said)?;
    // each value and each text may be used a dozen times; what is used more often is copied without bound
    let size = graph.len().saturating_add(bytes.len() / TEXT);
    let budget = size.saturating_mul(16).saturating_add(1 << 16);
    Reader { graph: &graph, budget }.node(root, 0)
}
/// Bytes of a text that count as a value.
const TEXT: usize = 64;

struct Reader<'a> {
    graph: &'a Graph,
    /// Values that may still be made: what is shared many times over is copied each time.
    budget: usize,
}
impl Reader<'_> {
    /// Counts what is copied for each use, by its length.
    fn charge(&mut self, bytes: usize) -> Result<()> {
        match self.budget.checked_sub(bytes / TEXT) {
            Some(left) => self.budget = left,
            None => bail!(Serialization, "an object that names its parts too often"),
        }
        Ok(())
    }
    fn nodes(&mut self, ids: &[Id], depth: usize) -> Result<Vec<Node>> {
        ids.iter().map(|i| self.node(*i, depth)).collect()
    }
    fn node(&mut self, id: Id, depth: usize) -> Result<Node> {
        if depth > DEPTH || self.budget == 0 {
            bail!(Serialization, "an object that is nested too deeply, or contains itself");
        }
        self.budget -= 1;
        let (graph, d) = (self.graph, depth + 1);
        match graph.get(id) {
            Value::BigInt(b) | Value::Bytes(b) | Value::ByteArray(b) => self.charge(b.len())?,
            Value::Str(s) => self.charge(s.len())?,
            _ => {}
        }
        Ok(match graph.get(id) {
            Value::None => Tree::None,
            Value::Bool(b) => Tree::Bool(*b),
            Value::Int(i) => Tree::Int(*i),
            Value::BigInt(b) => Tree::BigInt(b.clone()),
            Value::Float(f) => Tree::Float(*f),
            Value::Str(s) => Tree::Str(s.clone()),
            Value::Bytes(b) => Tree::Bytes(b.clone()),
            Value::ByteArray(b) => Tree::ByteArray(b.clone()),
            Value::List(l) => Tree::List(self.nodes(l, d)?),
            Value::Tuple(l) => Tree::Tuple(self.nodes(l, d)?),
            Value::Set(l) => Tree::Set(self.nodes(l, d)?),
            Value::FrozenSet(l) => Tree::FrozenSet(self.nodes(l, d)?),
            Value::Dict(l) => {
                let pairs = l.iter().map(|(k, v)| Ok((self.node(*k, d)?, self.node(*v, d)?)));
                Tree::Dict(pairs.collect::<Result<_>>()?)
            }
            Value::Object(o) => {
                let Value::Global { module, name } = graph.get(o.callable) else {
                    bail!(Serialization, "an object of an unknown kind")
                };
                let Value::Tuple(args) = graph.get(o.args) else {
                    bail!(Serialization, "a call without arguments")
                };
                match (module.as_str(), name.as_str()) {
                    ("torch._utils", "_rebuild_tensor_v2") => Tree::Tensor(self.tensor(args, d)?),
                    ("torch._utils", "_rebuild_parameter") if !args.is_empty() => self.node(args[0], d)?,
                    ("collections", "OrderedDict") => {
                        let pairs = o.pairs.iter().map(|(k, v)| Ok((self.node(*k, d)?, self.node(*v, d)?)));
                        Tree::OrderedDict(pairs.collect::<Result<_>>()?, Box::new(Tree::None))
                    }
                    ("builtins", "complex") => match &self.nodes(args, d)?[..] {
                        [re, im] => Tree::Complex(re.as_f64().unwrap_or(0.0), im.as_f64().unwrap_or(0.0)),
                        _ => bail!(Serialization, "a complex number without two parts"),
                    },
                    ("torch", "Size") => self.node(o.args, d)?,
                    // dates and the like: kept as what they are called with
                    ("datetime", "timedelta") => object(module, name, self.nodes(args, d)?),
                    _ => bail!(Serialization, "Unsupported global: GLOBAL {module}.{name} is not allowed"),
                }
            }
            Value::Global { module, name } => {
                bail!(Serialization, "Unsupported global: GLOBAL {module}.{name} is not allowed")
            }
            Value::PersistentId(_) => bail!(Serialization, "a reference to something outside the object"),
        })
    }
    fn tensor(&mut self, args: &[Id], depth: usize) -> Result<Tensor> {
        let wrong = || Error::serialization("a tensor that cannot be read");
        let [storage, offset, sizes, strides, ..] = args else { return Err(wrong()) };
        let Value::Object(o) = self.graph.get(*storage) else { return Err(wrong()) };
        let Value::Global { module, name } = self.graph.get(o.callable) else { return Err(wrong()) };
        let Value::Tuple(inner) = self.graph.get(o.args) else { return Err(wrong()) };
        if (module.as_str(), name.as_str()) != ("torch.storage", "_load_from_bytes") {
            return Err(wrong());
        }
        let Some(Value::Bytes(b)) = inner.first().map(|i| self.graph.get(*i)) else { return Err(wrong()) };
        self.charge(b.len())?;
        let memory = match tensors::load_from(Cursor::new(b.clone()), LoadOptions::new())? {
            Tree::Storage(ref t) | Tree::Tensor(ref t) => t.clone(),
            _ => return Err(wrong()),
        };
        let ints = |n: Node| -> Option<Vec<i64>> { n.items()?.iter().map(Tree::as_i64).collect() };
        let offset = self.node(*offset, depth)?.as_i64().ok_or_else(wrong)?;
        let sizes = ints(self.node(*sizes, depth)?).ok_or_else(wrong)?;
        let strides = ints(self.node(*strides, depth)?).ok_or_else(wrong)?;
        Tensor::from_storage(memory.storage(), &sizes, &strides, offset, memory.dtype())
    }
}
