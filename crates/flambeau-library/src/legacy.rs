//! Tensor types with the dtype in the name: `torch.FloatTensor(2, 3)`, `torch.LongTensor([1, 2])`, `x.type()`.

use crate::NativeFn;
use crate::slots::{Slots, one};
use crate::storages;
use flambeau_core::api::literal;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::type_info::tensor_type_name;
use flambeau_core::{DType, Device, ensure, ops};

/// The dtype of such a name.
pub(crate) fn dtype_of(name: &str) -> Option<DType> {
    flambeau_core::ALL_DTYPES.into_iter().find(|d| tensor_type_name(*d) == Some(name))
}

/// `x.type()` names the type, `x.type(dtype)` casts.
fn type_(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("type", &["self", "dtype", "non_blocking"], args, kwargs)?;
    let t = s.tensor()?;
    let d = match s.values[1] {
        None | Some(Value::None) => {
            let name = tensor_type_name(t.dtype()).map_or_else(|| t.dtype().to_string(), str::to_owned);
            return one(name);
        }
        Some(Value::Str(n)) => {
            let modern = || flambeau_core::ALL_DTYPES.into_iter().find(|d| d.to_string() == *n);
            dtype_of(n).or_else(modern).ok_or_else(|| Error::value(format!("invalid type: '{n}'")))?
        }
        Some(v) => DType::from_value(v)?,
    };
    one(ops::to(&t, Some(d), None, None, None, false, false, None)?)
}

/// Sizes give memory with any content, a list its numbers, a tensor or storage the same memory.
fn make(d: DType, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let Some(first) = args.first() else {
        Slots::new("new", &["device"], args, kwargs)?;
        return one(Tensor::empty_raw(&[0], d, Device::Cpu)?);
    };
    let empty = |sizes: &[i64]| ops::empty(sizes, Some(d), None, Some(Device::Cpu), None, None);
    if let Some(storage) = storages::storage_of(first) {
        ensure!(storage.dtype() == d, Type, "expected storage of dtype {d}, got {}", storage.dtype());
        return one(storage.tensor()?);
    }
    match first {
        Value::Tensor(t) => {
            ensure!(t.dtype() == d, Type, "expected a tensor of dtype {d} (got {})", t.dtype());
            one(t.alias_detached())
        }
        Value::Int(_) => {
            let sizes = Vec::<i64>::from_value(&Value::List(args.to_vec()))?;
            one(empty(&sizes)?)
        }
        Value::List(_) | Value::Tuple(_) => {
            crate::routes::data_fits(first, Some(d))?;
            one(literal::from_value_as(first, Some(d))?)
        }
        Value::Named(t) => one(empty(&Vec::<i64>::from_value(&Value::List(t.items.clone()))?)?),
        v => Err(Error::type_(format!("new(): invalid data type '{}'", v.type_name()))),
    }
}
fn on_cuda(name: &str) -> Result<Vec<Value>> {
    Err(Error::device(format!("type torch.cuda.{name} not available: no allocator is linked for cuda")))
}
/// A method of a tensor under the name of its type.
fn method(name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    crate::call(&format!("torch.Tensor.{name}"), args, kwargs)
}

macro_rules! natives {
    ($($class:literal $dtype:ident),* $(,)?) => {
        /// Name and body.
        pub(crate) const NATIVE: &[(&str, NativeFn)] = &[
            $(
                (concat!("torch.", $class), |a, k| make(DType::$dtype, a, k)),
                (concat!("torch.cuda.", $class), |_, _| on_cuda($class)),
            )*
            ("torch.Tensor.type", type_),
            ("torch.ByteTensor.all", |a, k| method("all", a, k)),
            ("torch.ByteTensor.any", |a, k| method("any", a, k)),
            ("torch.FloatTensor.abs", |a, k| method("abs", a, k)),
            ("torch.FloatTensor.abs_", |a, k| method("abs_", a, k)),
        ];
    };
}
natives! {
    "FloatTensor" F32, "DoubleTensor" F64, "HalfTensor" F16, "BFloat16Tensor" BF16, "ByteTensor" U8, "CharTensor" I8,
    "ShortTensor" I16, "IntTensor" I32, "LongTensor" I64, "BoolTensor" Bool, "ComplexFloatTensor" C64,
    "ComplexDoubleTensor" C128,
}
