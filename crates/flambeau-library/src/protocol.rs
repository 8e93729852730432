//! Methods of tensors that are no operators, by name: Python's protocols and the engine of gradients.

use crate::NativeFn;
use crate::slots::{Slots, one};
use flambeau_core::api::grad::BackwardOptions;
use flambeau_core::api::literal;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::types::error::{Error, ErrorKind, Result};
use flambeau_core::{DType, Device, ensure, ops};

/// `torch.asarray`: the tensor itself where nothing changes and no copy is asked for.
fn asarray(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["obj", "dtype", "device", "copy", "requires_grad"];
    let s = Slots::new("asarray", names, args, kwargs)?;
    let (dtype, device, copy) = (s.get::<DType>(1)?, s.device(2)?, s.get::<bool>(3)?);
    let grad = s.get::<bool>(4)?;
    let t = match s.must(0)? {
        Value::Tensor(t) => {
            let d = dtype.unwrap_or(t.dtype());
            ensure!(
                copy != Some(false) || d == t.dtype(),
                Value,
                "can't alias tensor with dtype '{}' into dtype '{}'.",
                t.dtype().scalar_type_name(),
                d.scalar_type_name()
            );
            ensure!(
                copy != Some(false) || device.is_none_or(|d| d == t.device()),
                Value,
                "can't alias tensor from device '{}' to '{}'.",
                t.device(),
                device.unwrap_or(t.device())
            );
            let t = if grad == Some(false) { ops::detach(t)? } else { t.clone() };
            ops::to(&t, Some(d), None, device, None, false, copy == Some(true), None)?
        }
        v => {
            ensure!(copy != Some(false), Value, "can't alias arbitrary sequence into a tensor.");
            if v.items().is_some_and(|l| l.iter().any(|x| matches!(x, Value::Tensor(t) if t.numel() != 1))) {
                return Err(Error::value("only one element tensors can be converted to Python scalars"));
            }
            crate::routes::data_fits(v, dtype)?;
            let device = device.unwrap_or_else(flambeau_core::settings::get_default_device);
            ops::to(&literal::from_value_as(v, dtype)?, None, None, Some(device), None, false, false, None)?
        }
    };
    if grad == Some(true) && !t.requires_grad() {
        t.try_requires_grad_(true)?;
    }
    one(t)
}
/// Iterating: the slices of the first dimension.
fn iter(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let t = Slots::new("__iter__", &["self"], args, kwargs)?.tensor()?;
    ensure!(t.dim() > 0, Type, "iteration over a 0-d tensor");
    let slices = ops::unbind(&t, 0)?.into_iter().map(Value::Tensor).collect();
    Ok(vec![Value::List(slices)])
}
/// What NumPy would look at: the elements in memory, under the conditions of Python's method. A caller in Rust reads them
/// with `data()`, or copies them with `to_vec()`.
fn numpy(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("numpy", &["self", "force"], args, kwargs)?;
    let t = s.tensor()?;
    if s.get::<bool>(1)? == Some(true) {
        let cpu = ops::to(&ops::detach(&t)?, None, None, Some(Device::Cpu), None, false, false, None)?;
        return one(ops::resolve_neg(&ops::resolve_conj(&cpu)?)?);
    }
    ensure!(
        t.device() == Device::Cpu,
        Type,
        "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        t.device()
    );
    let refused = if t.requires_grad() {
        Some(("requires grad", "detach"))
    } else if t.is_conj() {
        Some(("has conjugate bit set", "resolve_conj"))
    } else if t.is_neg() {
        Some(("has negative bit set", "resolve_neg"))
    } else {
        None
    };
    if let Some((what, way)) = refused {
        return Err(Error::runtime(format!(
            "Can't call numpy() on Tensor that {what}. Use tensor.{way}().numpy() instead."
        )));
    }
    ensure!(
        !matches!(t.dtype(), DType::BF16 | DType::F8E4M3 | DType::F8E5M2 | DType::C32)
            && !t.dtype().is_quantized(),
        Type,
        "Got unsupported ScalarType {}",
        t.dtype().scalar_type_name()
    );
    one(ops::alias(&t)?)
}
fn requires_grad_(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("requires_grad_", &["self", "requires_grad"], args, kwargs)?;
    let (t, on) = (s.tensor()?, s.get::<bool>(1)?.unwrap_or(true));
    ensure!(
        !on || t.dtype().is_floating() || t.is_complex(),
        Runtime,
        "only Tensors of floating point dtype can require gradients"
    );
    t.try_requires_grad_(on)?;
    one(t)
}
fn backward(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["self", "gradient", "retain_graph", "create_graph", "inputs"];
    let s = Slots::new("backward", names, args, kwargs)?;
    let inputs = match s.values[4] {
        None | Some(Value::None) => None,
        Some(Value::Tensor(t)) => Some(vec![t.clone()]),
        Some(v) => Some(Vec::<Tensor>::from_value(v)?),
    };
    if inputs.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::new(ErrorKind::Runtime, "`inputs` argument to `backward()` cannot be empty."));
    }
    let mut options = BackwardOptions::new().create_graph(s.get(3)?.unwrap_or(false));
    if let Some(g) = s.get::<Tensor>(1)? {
        options = options.gradient(&g);
    }
    if let Some(keep) = s.get(2)? {
        options = options.retain_graph(keep);
    }
    if let Some(inputs) = inputs {
        options = options.inputs(&inputs);
    }
    s.tensor()?.try_backward(&options)?;
    Ok(vec![Value::None])
}

/// Name and body.
pub(crate) const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.asarray", asarray),
    ("torch.Tensor.__iter__", iter),
    ("torch.Tensor.numpy", numpy),
    ("torch.Tensor.requires_grad_", requires_grad_),
    ("torch.Tensor.backward", backward),
    ("torch.Tensor.retain_grad", |a, k| {
        Slots::new("retain_grad", &["self"], a, k)?.tensor()?.try_retain_grad()?;
        Ok(vec![Value::None])
    }),
];
