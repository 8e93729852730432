//! What a tensor knows of itself, by name: `x.is_cpu`, `x.get_device()`, `x.data_ptr()`.

use crate::NativeFn;
use crate::slots::{Slots, one};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, Value, tensor_arg};
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::layout::{Layout, MemoryFormat};
use flambeau_core::{DType, Device, ops};

fn on_device(a: &[Value], k: &Kwargs, name: &'static str, default: Device) -> Result<Vec<Value>> {
    let names: &[&str] = if name == "cpu" {
        &["self", "memory_format"]
    } else {
        &["self", "device", "non_blocking", "memory_format"]
    };
    let s = Slots::new(name, names, a, k)?;
    let t = s.tensor()?;
    let d = match name {
        "cpu" => default,
        _ => match s.values[1] {
            Some(Value::Int(i)) => Device::parse(&format!("cuda:{i}"))?,
            _ => s.device(1)?.unwrap_or(default),
        },
    };
    let format = s.get::<MemoryFormat>(names.len() - 1)?;
    one(ops::to(&t, None, None, Some(d), None, false, false, format)?)
}
/// Dimensions from the outermost in memory to the innermost.
fn dim_order(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    if a.len() > 1 {
        return Err(Error::type_(format!(
            "Tensor.dim_order() takes 1 positional argument but {} were given",
            a.len()
        )));
    }
    let s = Slots::new("dim_order", &["self", "ambiguity_check"], a, k)?;
    let t = s.tensor()?;
    let unique = match s.values[1] {
        None | Some(Value::None) => false,
        Some(Value::Bool(b)) => *b,
        Some(v) => {
            // memory formats: it is enough that one of them fits
            let formats = Vec::<MemoryFormat>::from_value(v)?;
            !formats.iter().any(|f| t.is_contiguous_format(*f))
        }
    };
    if unique && t.sizes().contains(&1) {
        return Err(Error::runtime(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.",
        ));
    }
    Ok(vec![Value::Tuple(t.dim_order().into_iter().map(|d| Value::Int(d as i64)).collect())])
}

/// Name and body.
pub(crate) const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.Tensor.is_cpu", |a, _| one(tensor_arg(a, 0)?.device() == Device::Cpu)),
    ("torch.Tensor.is_cuda", |a, _| one(matches!(tensor_arg(a, 0)?.device(), Device::Cuda(_)))),
    ("torch.Tensor.is_meta", |a, _| one(tensor_arg(a, 0)?.device() == Device::Meta)),
    ("torch.Tensor.is_quantized", |a, _| one(tensor_arg(a, 0)?.dtype().is_quantized())),
    ("torch.Tensor.is_sparse", |a, _| one(tensor_arg(a, 0)?.layout() == Layout::SparseCoo)),
    ("torch.Tensor.is_sparse_csr", |a, _| one(tensor_arg(a, 0)?.layout() == Layout::SparseCsr)),
    ("torch.Tensor.grad", |a, _| Ok(vec![tensor_arg(a, 0)?.grad().map_or(Value::None, Value::Tensor)])),
    ("torch.Tensor.is_leaf", |a, _| one(tensor_arg(a, 0)?.is_leaf())),
    ("torch.Tensor.is_pinned", |a, _| one(tensor_arg(a, 0)?.is_pinned())),
    // no memory here is shared between processes
    ("torch.Tensor.is_shared", |a, _| tensor_arg(a, 0).and_then(|_| one(false))),
    ("torch.Tensor.share_memory_", |a, _| {
        if a.len() > 1 {
            return Err(Error::type_(format!(
                "Tensor.share_memory_() takes 1 positional argument but {} were given",
                a.len()
            )));
        }
        tensor_arg(a, 0)?;
        Err(Error::missing("share_memory_() by name (memory between processes)"))
    }),
    ("torch.Tensor.is_distributed", |a, _| tensor_arg(a, 0).and_then(|_| one(false))),
    ("torch.Tensor.pin_memory", |a, k| {
        let s = Slots::new("pin_memory", &["self", "device"], a, k)?;
        s.device(1)?;
        one(s.tensor()?.try_pin_memory()?)
    }),
    ("torch.Tensor.get_device", |a, _| {
        one(match tensor_arg(a, 0)?.device() {
            Device::Cuda(i) | Device::Private(i) => i64::from(i),
            _ => -1,
        })
    }),
    ("torch.Tensor.dim_order", dim_order),
    ("torch.Tensor.data", |a, _| one(ops::detach(tensor_arg(a, 0)?)?)),
    ("torch.Tensor.cpu", |a, k| on_device(a, k, "cpu", Device::Cpu)),
    ("torch.Tensor.cuda", |a, k| on_device(a, k, "cuda", Device::cuda(0))),
    ("torch.Tensor.data_ptr", |a, _| one(crate::builtins::alone(a, "data_ptr")?.data_ptr()? as i64)),
    ("torch.dtype.is_floating_point", |a, _| {
        one(DType::from_value(a.first().unwrap_or(&Value::None))?.is_floating())
    }),
    (
        "torch.dtype.is_complex",
        |a, _| one(DType::from_value(a.first().unwrap_or(&Value::None))?.is_complex()),
    ),
    ("torch.dtype", |_, _| Err(Error::type_("cannot create 'torch.dtype' instances"))),
    ("torch.layout", |_, _| Err(Error::type_("cannot create 'torch.layout' instances"))),
    ("torch.memory_format", |_, _| Err(Error::type_("cannot create 'torch.memory_format' instances"))),
];
