//! Tensor types with the dtype in the name: `torch.FloatTensor(2, 3)`, `torch.LongTensor([1, 2])`, `x.type()`.

use super::NativeFn;
use super::slots::{Slots, one};
use super::storages;
use crate::api::literal;
use crate::dispatch::object::Kwargs;
use crate::dispatch::value::{FromValue, Value};
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::{DType, Device, ensure, ops};

/// `torch.FloatTensor` and its like, by dtype.
pub(crate) fn name_of(d: DType) -> Option<&'static str> {
    Some(match d {
        DType::F32 => "torch.FloatTensor",
        DType::F64 => "torch.DoubleTensor",
        DType::F16 => "torch.HalfTensor",
        DType::BF16 => "torch.BFloat16Tensor",
        DType::U8 => "torch.ByteTensor",
        DType::I8 => "torch.CharTensor",
        DType::I16 => "torch.ShortTensor",
        DType::I32 => "torch.IntTensor",
        DType::I64 => "torch.LongTensor",
        DType::Bool => "torch.BoolTensor",
        DType::C64 => "torch.ComplexFloatTensor",
        DType::C128 => "torch.ComplexDoubleTensor",
        _ => return None,
    })
}
/// The dtype of such a name.
pub(super) fn dtype_of(name: &str) -> Option<DType> {
    flambeau_cpu::dtype::ALL_DTYPES.into_iter().find(|d| name_of(*d) == Some(name))
}

/// `x.type()` names the type, `x.type(dtype)` casts.
fn type_(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("type", &["self", "dtype", "non_blocking"], args, kwargs)?;
    let t = s.tensor()?;
    let d = match s.values[1] {
        None | Some(Value::None) => {
            let name = name_of(t.dtype()).map_or_else(|| t.dtype().to_string(), str::to_owned);
            return one(name);
        }
        Some(Value::Str(n)) => {
            let modern = || flambeau_cpu::dtype::ALL_DTYPES.into_iter().find(|d| d.to_string() == *n);
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
            super::routes::data_fits(first, Some(d))?;
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
    super::call(&format!("torch.Tensor.{name}"), args, kwargs)
}

macro_rules! natives {
    ($($class:literal $dtype:ident),* $(,)?) => {
        /// Name and body.
        pub(super) const NATIVE: &[(&str, NativeFn)] = &[
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
