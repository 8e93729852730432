//! Storages by name: `torch.FloatStorage(3)`, `torch.FloatStorage.fill_(s, 1)`, `x.storage().size()`.

use crate::NativeFn;
use crate::slots::{Slots, one};
use flambeau_core::api::literal;
use flambeau_core::api::typed_storage::{TypedStorage, storage_text};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion;
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Device, ensure};
use std::any::Any;
use std::path::Path;

/// Why `from_file(shared=True)` is not there by name: a map of a file that others may change needs a promise.
pub(crate) const SHARED_FILE: &str = "from_file(shared=True) by name: memory that others may change needs a promise that \
    only unsafe code can give, as Storage::map_shared";

/// A storage as an object. An untyped one counts bytes.
pub(crate) struct StorageObject {
    storage: Mutex<TypedStorage>,
    untyped: bool,
}
impl StorageObject {
    pub(crate) fn typed(s: TypedStorage) -> Value {
        Value::Object(ObjectRef::new(StorageObject { storage: Mutex::new(s), untyped: false }))
    }
    pub(crate) fn untyped(s: &TypedStorage) -> Value {
        let storage = Mutex::new(s.viewed_as(DType::U8));
        Value::Object(ObjectRef::new(StorageObject { storage, untyped: true }))
    }
    /// A handle on the same memory: nothing runs under the lock.
    fn now(&self) -> TypedStorage {
        self.storage.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    /// Lets `f` change what the object stands for. Who changes it meanwhile is overtaken.
    fn change(&self, f: impl FnOnce(&mut TypedStorage) -> Result<()>) -> Result<()> {
        // taken out, so that there is no second handle, and put back whatever happens
        let none = TypedStorage::new(0, self.now().dtype())?;
        let put = |s| std::mem::replace(&mut *self.storage.lock().unwrap_or_else(|e| e.into_inner()), s);
        let mut s = put(none);
        let r = f(&mut s);
        drop(put(s));
        r
    }
    fn like(&self, s: TypedStorage) -> Value {
        if self.untyped { Self::untyped(&s) } else { Self::typed(s) }
    }
}
/// The storage of an object that is one.
pub(crate) fn storage_of(v: &Value) -> Option<TypedStorage> {
    match v {
        Value::Object(o) => o.downcast::<StorageObject>().map(|s| s.now()),
        _ => None,
    }
}
/// Whether the value is a storage.
pub(crate) fn is_storage(v: &Value) -> bool {
    matches!(v, Value::Object(o) if o.downcast::<StorageObject>().is_some())
}

/// Class name without `torch.`, and the dtype.
const CLASSES: [(&str, DType); 12] = [
    ("FloatStorage", DType::F32),
    ("DoubleStorage", DType::F64),
    ("HalfStorage", DType::F16),
    ("BFloat16Storage", DType::BF16),
    ("LongStorage", DType::I64),
    ("IntStorage", DType::I32),
    ("ShortStorage", DType::I16),
    ("CharStorage", DType::I8),
    ("ByteStorage", DType::U8),
    ("BoolStorage", DType::Bool),
    ("ComplexFloatStorage", DType::C64),
    ("ComplexDoubleStorage", DType::C128),
];
/// Methods that convert, and to what.
const CASTS: [(&str, DType); 12] = [
    ("float", DType::F32),
    ("double", DType::F64),
    ("half", DType::F16),
    ("bfloat16", DType::BF16),
    ("long", DType::I64),
    ("int", DType::I32),
    ("short", DType::I16),
    ("char", DType::I8),
    ("byte", DType::U8),
    ("bool", DType::Bool),
    ("complex_float", DType::C64),
    ("complex_double", DType::C128),
];

/// `torch.storage.TypedStorage`'s name of the class for a dtype: `torch.FloatStorage`.
pub(crate) fn class_of(d: DType) -> Option<String> {
    CLASSES.iter().find(|c| c.1 == d).map(|c| format!("torch.{}", c.0))
}
fn class_dtype(name: &str) -> Option<DType> {
    CLASSES.iter().find(|c| name.strip_prefix("torch.") == Some(c.0)).map(|c| c.1)
}

fn index(v: &Value, n: usize) -> Result<i64> {
    let Value::Int(i) = *v else {
        return Err(Error::type_(format!("can't index a torch.UntypedStorage with {}", v.type_name())));
    };
    let at = if i < 0 { i + n as i64 } else { i };
    ensure!((0..n as i64).contains(&at), Index, "index {i} out of range for storage of size {n}");
    Ok(at)
}
fn no_gpu() -> Error {
    Error::device("no allocator is linked for device cuda:0")
}

impl Object for StorageObject {
    fn type_name(&self) -> &'static str {
        if self.untyped { "UntypedStorage" } else { "TypedStorage" }
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let s = self.now();
        Ok(match name {
            "dtype" if !self.untyped => Value::DType(s.dtype()),
            "device" => Value::Device(s.device()),
            "is_cuda" | "is_hpu" | "is_sparse" | "is_sparse_csr" => Value::Bool(false),
            "filename" => Value::None,
            _ => return Err(no_attribute(self.type_name(), name)),
        })
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        if let Some((_, d)) = CASTS.iter().find(|c| c.0 == name) {
            Slots::new("cast", &[], args, kwargs)?;
            return Ok(vec![Self::typed(self.now().to(*d)?)]);
        }
        if name == "resize_" {
            let a = Slots::new("resize_", &["size"], args, kwargs)?;
            let n = match a.must(0)? {
                Value::Int(n) => *n,
                other => {
                    return Err(Error::runtime(format!(
                        "resize_ expects an int, but got {}",
                        other.type_name()
                    )));
                }
            };
            let n = usize::try_from(n).map_err(|_| {
                Error::runtime(format!("UntypedStorage.resize_: expected a non-negative size, got {n}"))
            })?;
            return self.change(|s| s.resize_(n)).map(|()| Vec::new());
        }
        let s = self.now();
        match name {
            "size" | "__len__" => one(s.size() as i64),
            "nbytes" => one((s.size() * s.element_size()) as i64),
            "element_size" => one(s.element_size() as i64),
            "data_ptr" => one(s.untyped().address()? as i64),
            "tolist" => Ok(vec![Value::List(literal::items(&s.tensor()?)?)]),
            "fill_" => {
                let a = Slots::new("fill_", &["value"], args, kwargs)?;
                s.fill_(FromValue::from_value(a.must(0)?)?)?;
                Ok(Vec::new())
            }
            "copy_" => {
                let a = Slots::new("copy_", &["source", "non_blocking"], args, kwargs)?;
                let from = storage_of(a.must(0)?)
                    .ok_or_else(|| Error::type_("copy_(): argument 'source' must be a storage"))?;
                s.copy_(&from)?;
                Ok(Vec::new())
            }
            "clone" => Ok(vec![self.like(s.try_clone()?)]),
            "new" => Ok(vec![self.like(TypedStorage::new(0, s.dtype())?)]),
            "cpu" => match s.device() {
                Device::Cpu => Ok(vec![self.like(s.clone())]),
                _ => Err(Error::unsupported("Cannot copy out of meta tensor; no data!")),
            },
            "type" => {
                let a = Slots::new("type", &["dtype", "non_blocking"], args, kwargs)?;
                match a.values[0] {
                    None | Some(Value::None) if self.untyped => one("torch.UntypedStorage"),
                    None | Some(Value::None) => {
                        one(class_of(s.dtype()).unwrap_or_else(|| "torch.storage.TypedStorage".into()))
                    }
                    Some(Value::Str(n)) => {
                        let d = class_dtype(n).ok_or_else(|| Error::value(format!("invalid type: '{n}'")))?;
                        Ok(vec![Self::typed(s.to(d)?)])
                    }
                    Some(v) => Ok(vec![Self::typed(s.to(DType::from_value(v)?)?)]),
                }
            }
            "untyped" => Ok(vec![Self::untyped(&s)]),
            "is_pinned" => one(s.tensor()?.is_pinned()),
            // memory of one process is what all its threads share
            "is_shared" => one(false),
            "share_memory_" => Err(Error::missing("share_memory_() (memory between processes)")),
            "cuda" => Err(no_gpu()),
            "pin_memory" => Ok(vec![Self::typed(TypedStorage::of(&s.tensor()?.try_pin_memory()?))]),
            "__getitem__" => {
                let a = Slots::new("__getitem__", &["index"], args, kwargs)?;
                let at = index(a.must(0)?, s.size())?;
                let t = s.tensor()?;
                one(flambeau_core::ops::select(&t, 0, at)?.try_item::<flambeau_core::Scalar>()?)
            }
            "__setitem__" => {
                let a = Slots::new("__setitem__", &["index", "value"], args, kwargs)?;
                let at = index(a.must(0)?, s.size())?;
                flambeau_core::ops::fill_(
                    &flambeau_core::ops::select(&s.tensor()?, 0, at)?,
                    FromValue::from_value(a.must(1)?)?,
                )?;
                Ok(vec![Value::None])
            }
            _ => Err(no_attribute(self.type_name(), name)),
        }
    }
    fn repr(&self) -> String {
        let s = self.now();
        storage_text(&s, self.type_name(), !self.untyped).unwrap_or_else(|e| format!("<{e}>"))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `torch.FloatStorage(3)`, `torch.FloatStorage([1., 2.])`, `torch.FloatStorage()`.
fn make(d: DType, args: &[Value], kwargs: &Kwargs, untyped: bool) -> Result<Vec<Value>> {
    let s = Slots::new("TypedStorage", &["source", "dtype", "device"], args, kwargs)?;
    let d = s.get::<DType>(1)?.unwrap_or(d);
    if let Some(other) = s.device(2)? {
        ensure!(other == Device::Cpu, Device, "no allocator is linked for device {other}");
    }
    let storage = match s.values[0] {
        None | Some(Value::None) => TypedStorage::new(0, d)?,
        Some(v) => match (v, storage_of(v)) {
            (_, Some(other)) => other.viewed_as(d),
            (Value::Int(n), _) => {
                let n = usize::try_from(*n).map_err(|_| {
                    Error::runtime(format!(
                        "[enforce fail at alloc_cpu.cpp:98] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been called with \
                         negative number: {}",
                        *n as u64
                    ))
                })?;
                TypedStorage::new(n, d)?
            }
            (v, _) => TypedStorage::of(&literal::from_value_as(v, Some(d))?),
        },
    };
    Ok(vec![if untyped { StorageObject::untyped(&storage) } else { StorageObject::typed(storage) }])
}
fn from_file(d: DType, args: &[Value], kwargs: &Kwargs, untyped: bool) -> Result<Vec<Value>> {
    let s = Slots::new("from_file", &["filename", "shared", "size"], args, kwargs)?;
    if s.get::<bool>(1)? == Some(true) {
        return Err(Error::missing(SHARED_FILE));
    }
    let n = usize::try_from(s.get::<i64>(2)?.unwrap_or(0))
        .map_err(|_| Error::value("size must not be negative"))?;
    let path = String::from_value(s.must(0)?)?;
    let r = TypedStorage::from_file(Path::new(&path), n, d)?;
    Ok(vec![if untyped { StorageObject::untyped(&r) } else { StorageObject::typed(r) }])
}
/// The buffer is a list of bytes, or a tensor whose bytes are taken.
fn from_buffer(d: DType, args: &[Value], kwargs: &Kwargs, untyped: bool) -> Result<Vec<Value>> {
    let names: &[&str] = &["buffer", "byte_order", "count", "offset"];
    let s = Slots::new("from_buffer", names, args, kwargs)?;
    let bytes: Vec<u8> = match s.must(0)? {
        Value::Tensor(t) => {
            let t = flambeau_core::ops::contiguous(t, flambeau_core::MemoryFormat::Contiguous)?;
            let from = t.storage_offset() as usize * t.element_size();
            let n = t.numel() as usize * t.element_size();
            ensure!(
                t.device() == Device::Cpu,
                Unsupported,
                "a tensor on {} has no bytes to take",
                t.device()
            );
            let mut bytes = flambeau_core::tensor::geometry::room(n as i64)?;
            bytes.resize(n, 0);
            t.storage().read_at(from, &mut bytes)?;
            bytes
        }
        v => Vec::<i64>::from_value(v)?.into_iter().map(|b| b as u8).collect(),
    };
    let offset = usize::try_from(s.get::<i64>(3)?.unwrap_or(0)).unwrap_or(usize::MAX);
    ensure!(
        offset < bytes.len().max(1),
        Value,
        "offset must be non-negative and no greater than buffer length ({}) minus 1, but got {offset}",
        bytes.len()
    );
    let rest = &bytes[offset..];
    let count = match s.get::<i64>(2)?.unwrap_or(-1) {
        n if n < 0 => rest.len(),
        n => (n as usize).saturating_mul(d.size()),
    };
    ensure!(
        count <= rest.len(),
        Value,
        "buffer has only {} bytes after offset, but specified a size of {count}",
        rest.len()
    );
    let mut data = rest[..count].to_vec();
    // the order of the machine's bytes is the little-endian one on all supported targets
    match s.get::<String>(1)?.as_deref() {
        None | Some("native" | "little") => {}
        Some("big") => data.chunks_mut(d.to_real().size()).for_each(<[u8]>::reverse),
        Some(other) => {
            return Err(Error::value(format!("invalid byte_order '{other}' (expected 'big' or 'little')")));
        }
    }
    let r = TypedStorage::from_buffer(&data, d)?;
    Ok(vec![if untyped { StorageObject::untyped(&r) } else { StorageObject::typed(r) }])
}

fn call_method(name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    match args.split_first() {
        Some((Value::Object(o), rest)) if o.downcast::<StorageObject>().is_some() => {
            if kwargs.is_empty()
                && rest.is_empty()
                && let Ok(v) = o.attribute(name)
            {
                return Ok(vec![v]);
            }
            let r = o.method(name, rest, kwargs)?;
            // in-place methods return the storage
            Ok(if r.is_empty() { vec![args[0].clone()] } else { r })
        }
        _ => Err(Error::type_(format!("{name}(): expected a storage"))),
    }
}

/// Class, dtype, methods.
macro_rules! natives {
    ($($class:literal $dtype:expr, $untyped:literal: $($method:literal)*;)*) => {
        /// Name and body.
        pub(crate) const NATIVE: &[(&str, NativeFn)] = &[
            $(
                (concat!("torch.", $class), |a, k| make($dtype, a, k, $untyped)),
                (concat!("torch.", $class, ".from_file"), |a, k| from_file($dtype, a, k, $untyped)),
                (concat!("torch.", $class, ".from_buffer"), |a, k| from_buffer($dtype, a, k, $untyped)),
                $((concat!("torch.", $class, ".", $method), |a, k| call_method($method, a, k)),)*
            )*
            ("torch.Storage", |a, k| make(promotion::default_dtype(), a, k, false)),
            ("torch.is_storage", |a, _| one(a.first().is_some_and(is_storage))),
            ("torch.Tensor.untyped_storage", |a, _| Ok(vec![StorageObject::untyped(&TypedStorage::of(&tensor(a)?))])),
            ("torch.Tensor.storage", |a, _| Ok(vec![StorageObject::typed(TypedStorage::of(&tensor(a)?))])),
            ("torch.Tensor.storage_type", |a, _| {
                let d = tensor(a)?.dtype();
                one(class_of(d).unwrap_or_else(|| "torch.storage.TypedStorage".into()))
            }),
        ];
    };
}
natives! {
    "FloatStorage" DType::F32, false: "bool" "byte" "char" "clone" "copy_" "cpu" "cuda" "data_ptr" "double" "element_size"
        "fill_" "float" "half" "int" "is_cuda" "is_pinned" "is_shared" "is_sparse" "long" "new" "pin_memory" "resize_" "short"
        "size" "tolist" "type" "nbytes" "untyped" "dtype" "device" "__getitem__" "__setitem__" "__len__";
    "DoubleStorage" DType::F64, false: ;
    "HalfStorage" DType::F16, false: ;
    "BFloat16Storage" DType::BF16, false: ;
    "LongStorage" DType::I64, false: ;
    "IntStorage" DType::I32, false: ;
    "ShortStorage" DType::I16, false: ;
    "CharStorage" DType::I8, false: ;
    "ByteStorage" DType::U8, false: ;
    "BoolStorage" DType::Bool, false: ;
    "ComplexFloatStorage" DType::C64, false: ;
    "ComplexDoubleStorage" DType::C128, false: ;
    "TypedStorage" promotion::default_dtype(), false: ;
    "UntypedStorage" DType::U8, true: "data_ptr" "nbytes" "size" "tolist";
}
fn tensor(args: &[Value]) -> Result<Tensor> {
    flambeau_core::dispatch::value::arg(args, 0)
}
