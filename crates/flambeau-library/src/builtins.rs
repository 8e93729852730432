//! Names that are no operators: Python's operator methods, and what a tensor knows of itself.

use crate::routes;
use crate::slots::one;
use crate::{Function, NativeFn, Target};
use flambeau_core::DType;
use flambeau_core::dispatch::convention::{Habit, Right};
use flambeau_core::dispatch::object::{self, Kwargs};
use flambeau_core::dispatch::value::{NamedTuple, Value};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion;
use flambeau_core::tensor::geometry::wrap_dim_strict;
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::tensor::wrapper::{Asked, check_readable};
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::scalar::Scalar;
use std::collections::HashMap;
use std::sync::Arc;

/// Adds the names to the index, where the table has not taken them.
pub(crate) fn add(functions: &mut HashMap<String, Target>, habits: &[(String, Habit)]) {
    for (path, f) in NATIVE {
        functions.entry((*path).to_string()).or_insert(Target::Native(*f));
    }
    let mut alias = |dunder: String, of: String, swap: bool| {
        let Some(t) = functions.get(&of).cloned() else { return };
        let target = if swap { Target::Swapped(Arc::new(Function { path: of, target: t })) } else { t };
        functions.entry(format!("torch.Tensor.{dunder}")).or_insert(target);
    };
    let mut quotients = Vec::new();
    for (path, habit) in habits {
        let Habit::Operator { name, right } = habit else { continue };
        alias(format!("__{name}__"), path.clone(), false);
        if *right == Right::None {
            continue;
        }
        alias(format!("__i{name}__"), format!("{path}_"), false);
        let reversed = format!("__r{name}__");
        match right {
            Right::Same => alias(reversed, path.clone(), false),
            Right::Swapped => alias(reversed, path.replacen("torch.Tensor.", "torch.", 1), true),
            Right::Reciprocal => quotients.push(format!("torch.Tensor.{reversed}")),
            Right::None => {}
        }
    }
    if let Some(mul) = functions.get("torch.Tensor.mul").cloned() {
        let f = Arc::new(Function { path: "torch.Tensor.mul".into(), target: mul });
        for path in quotients {
            functions.entry(path).or_insert(Target::Adapted(by_reciprocal, Arc::clone(&f)));
        }
    }
}
/// `other / self` as PyTorch computes it.
fn by_reciprocal(args: &[Value], kwargs: &Kwargs) -> Result<(Vec<Value>, Vec<(String, Value)>)> {
    let (mut args, kwargs) = routes::in_order(&["self", "other"], args, kwargs);
    match &args[..] {
        [] | [_] => Err(Error::type_(format!("expected 1 argument, got {}", args.len().saturating_sub(1)))),
        [Value::Tensor(t), ..] => {
            args[0] = Value::Tensor(flambeau_core::ops::reciprocal(t)?);
            Ok((args, kwargs))
        }
        // called as a plain function, Python's body takes anything in self's place
        [a, ..] => Err(object::no_attribute(a.type_name(), "reciprocal")),
    }
}

fn self_(args: &[Value]) -> Result<&Tensor> {
    match args.first() {
        Some(Value::Tensor(t)) => Ok(t),
        Some(v) => Err(Error::type_(format!("expected Tensor, not {}", v.type_name()))),
        None => Err(Error::type_("expected a Tensor argument")),
    }
}
/// The tensor of a method that takes nothing else.
pub(crate) fn alone<'a>(args: &'a [Value], method: &str) -> Result<&'a Tensor> {
    match args.len() {
        0 | 1 => self_(args),
        n => Err(Error::type_(format!("Tensor.{method}() takes no arguments ({} given)", n - 1))),
    }
}
fn dtype_of(v: Option<&Value>) -> Result<DType> {
    match v {
        Some(Value::DType(d)) => Ok(*d),
        Some(v) => Err(Error::type_(format!("expected torch.dtype, not {}", v.type_name()))),
        None => Err(Error::type_("expected a torch.dtype argument")),
    }
}
fn ints(l: &[i64]) -> Result<Vec<Value>> {
    Ok(vec![Value::Tuple(l.iter().map(|&i| Value::Int(i)).collect())])
}
/// The second argument, or the keyword `dim`.
fn dim<'a>(args: &'a [Value], kwargs: &'a Kwargs) -> Option<&'a Value> {
    args.get(1)
        .or_else(|| kwargs.iter().find(|(k, _)| k == "dim").map(|(_, v)| v))
        .filter(|v| !matches!(v, Value::None))
}
fn per_dim(all: &[i64], args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    match dim(args, kwargs) {
        None => ints(all),
        Some(v) => match v.as_scalar() {
            Some(s) if s.is_integral(false) => one(all[wrap_dim_strict(s.to_i64(), all.len())?]),
            _ => Err(Error::type_(format!("argument 'dim' must be int, not {}", v.type_name()))),
        },
    }
}
fn item(t: &Tensor) -> Result<Scalar> {
    t.try_item::<Scalar>()
}
fn operand_type(s: &mut promotion::ResultTypeState, v: Option<&Value>) -> Result<()> {
    match v {
        Some(Value::Tensor(t)) => s.tensor(t),
        Some(v) => match v.as_scalar() {
            Some(n) => s.scalar(n),
            None => {
                Err(Error::type_(format!("result_type() takes tensors and numbers, not {}", v.type_name())))
            }
        },
        None => Err(Error::type_("result_type() takes two arguments")),
    }
}

/// `to(dtype, ..)`, `to(device, dtype, ..)`, `to(other, ..)`: all as keywords.
pub(crate) fn to_arguments(args: &[Value], kwargs: &Kwargs) -> Result<(Vec<Value>, Vec<(String, Value)>)> {
    let mut named = kwargs.to_vec();
    let Some((first, mut rest)) = args.split_first() else { return Ok((Vec::new(), named)) };
    let mut put = |k: &str, v: &Value| {
        if named.iter().any(|(n, _)| n == k) {
            return Err(Error::type_(format!("to() got multiple values for argument '{k}'")));
        }
        named.push((k.to_string(), v.clone()));
        Ok(())
    };
    match rest.split_first() {
        Some((Value::Tensor(t), more)) => {
            put("dtype", &Value::DType(t.dtype()))?;
            put("device", &Value::Device(t.device()))?;
            rest = more;
        }
        Some((d @ Value::DType(_), more)) => {
            put("dtype", d)?;
            rest = more;
        }
        Some((d @ (Value::Device(_) | Value::Str(_) | Value::Int(_) | Value::None), more)) => {
            put("device", d)?;
            rest = more;
            if let Some((d @ (Value::DType(_) | Value::None), more)) = rest.split_first() {
                put("dtype", d)?;
                rest = more;
            }
        }
        _ => {}
    }
    for (k, v) in ["non_blocking", "copy"].into_iter().zip(rest) {
        put(k, v)?;
    }
    let mut plain = vec![first.clone()];
    plain.extend(rest.iter().skip(2).cloned());
    if let Some(i) = named.iter().position(|(k, _)| k == "other") {
        let (_, other) = named.remove(i);
        if let Value::Tensor(t) = &other {
            named.push(("dtype".into(), Value::DType(t.dtype())));
            named.push(("device".into(), Value::Device(t.device())));
        }
    }
    Ok((plain, named))
}

/// The number behind `int(t)`, `float(t)` and `complex(t)`.
fn python_scalar(args: &[Value]) -> Result<Scalar> {
    let t = self_(args)?;
    if t.numel() != 1 {
        return Err(Error::value("only one element tensors can be converted to Python scalars"));
    }
    item(t)
}
fn python_int(args: &[Value]) -> Result<i64> {
    let s = python_scalar(args)?;
    let f = s.to_f64();
    if s.is_complex() && s.to_complex().im != 0.0 {
        return Err(Error::runtime("value cannot be converted to type int64_t without overflow"));
    }
    if (s.is_float() || s.is_complex()) && !(-(2f64.powi(63))..2f64.powi(63)).contains(&f) {
        return Err(Error::runtime("value cannot be converted to type int64_t without overflow"));
    }
    Ok(s.to_i64())
}

/// Name and body.
const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.Tensor.size", |a, k| match dim(a, k) {
        None => Ok(vec![NamedTuple::size(self_(a)?.sizes()).into()]),
        Some(_) => per_dim(self_(a)?.sizes(), a, k),
    }),
    ("torch.Tensor.shape", |a, _| Ok(vec![NamedTuple::size(self_(a)?.sizes()).into()])),
    ("torch.Tensor.stride", |a, k| per_dim(self_(a)?.strides(), a, k)),
    ("torch.Tensor.dim", |a, _| one(self_(a)?.dim() as i64)),
    ("torch.Tensor.ndimension", |a, _| one(self_(a)?.dim() as i64)),
    ("torch.Tensor.ndim", |a, _| one(self_(a)?.dim() as i64)),
    ("torch.Tensor.numel", |a, _| one(self_(a)?.numel())),
    ("torch.Tensor.nelement", |a, _| one(self_(a)?.numel())),
    ("torch.numel", |a, _| one(self_(a)?.numel())),
    ("torch.Tensor.element_size", |a, _| one(self_(a)?.element_size() as i64)),
    ("torch.Tensor.itemsize", |a, _| one(self_(a)?.element_size() as i64)),
    ("torch.Tensor.nbytes", |a, _| one(self_(a)?.element_size() as i64 * self_(a)?.numel())),
    ("torch.Tensor.storage_offset", |a, _| one(alone(a, "storage_offset")?.storage_offset())),
    ("torch.Tensor.dtype", |a, _| one(self_(a)?.dtype())),
    ("torch.Tensor.device", |a, _| one(self_(a)?.device())),
    ("torch.Tensor.layout", |a, _| one(self_(a)?.layout())),
    ("torch.Tensor.requires_grad", |a, _| one(self_(a)?.requires_grad())),
    ("torch.Tensor.is_inference", |a, _| one(self_(a)?.is_inference())),
    ("torch.is_inference", |a, _| one(self_(a)?.is_inference())),
    ("torch.Tensor._version", |a, _| one(i64::from(self_(a)?.try_version()?))),
    ("torch.Tensor.is_contiguous", |a, k| {
        let f = a.get(1).or_else(|| k.iter().find(|(n, _)| n == "memory_format").map(|(_, v)| v));
        one(match f {
            Some(Value::MemoryFormat(f)) => self_(a)?.is_contiguous_format(*f),
            _ => self_(a)?.is_contiguous(),
        })
    }),
    ("torch.Tensor.is_floating_point", |a, _| one(self_(a)?.is_floating_point())),
    ("torch.is_floating_point", |a, _| one(self_(a)?.is_floating_point())),
    ("torch.Tensor.is_complex", |a, _| one(self_(a)?.is_complex())),
    ("torch.is_complex", |a, _| one(self_(a)?.is_complex())),
    ("torch.Tensor.is_signed", |a, _| one(self_(a)?.is_signed())),
    ("torch.Tensor.is_conj", |a, _| one(self_(a)?.is_conj())),
    ("torch.is_conj", |a, _| one(self_(a)?.is_conj())),
    ("torch.Tensor.is_neg", |a, _| one(self_(a)?.is_neg())),
    ("torch.is_neg", |a, _| one(self_(a)?.is_neg())),
    ("torch.is_signed", |a, _| one(self_(a)?.is_signed())),
    ("torch.is_tensor", |a, _| one(matches!(a.first(), Some(Value::Tensor(_))))),
    ("torch.Tensor.item", |a, _| one(item(self_(a)?)?)),
    ("torch.Tensor.__bool__", |a, _| one(truth(self_(a)?)?)),
    ("torch.Tensor.__nonzero__", |a, _| one(truth(self_(a)?)?)),
    ("torch.Tensor.__int__", |a, _| one(python_int(a)?)),
    ("torch.Tensor.__index__", |a, _| {
        let t = self_(a)?;
        if !t.dtype().is_integral(true) || t.dim() > 0 {
            return Err(Error::type_(
                "only integer tensors of a single element can be converted to an index",
            ));
        }
        one(item(t)?.to_i64())
    }),
    ("torch.Tensor.__float__", |a, _| match python_scalar(a)? {
        Scalar::Complex(c) if c.im != 0.0 => {
            Err(Error::runtime("value cannot be converted to type double without overflow"))
        }
        s => one(s.to_f64()),
    }),
    ("torch.Tensor.__complex__", |a, _| Ok(vec![Value::Complex(python_scalar(a)?.to_complex())])),
    ("torch.Tensor.__len__", |a, _| match self_(a)?.sizes().first() {
        Some(n) => one(*n),
        None => Err(Error::type_("len() of a 0-d tensor")),
    }),
    ("torch.Tensor.tolist", |a, _| Ok(vec![self_(a)?.try_tolist()?])),
    ("torch.promote_types", |a, _| one(promotion::promote_types(dtype_of(a.first())?, dtype_of(a.get(1))?)?)),
    ("torch.can_cast", |a, _| one(promotion::can_cast(dtype_of(a.first())?, dtype_of(a.get(1))?))),
    ("torch.result_type", |a, _| {
        let mut s = promotion::ResultTypeState::default();
        operand_type(&mut s, a.first())?;
        operand_type(&mut s, a.get(1))?;
        one(s.finish()?)
    }),
    ("torch.get_default_dtype", |_, _| one(promotion::default_dtype())),
    ("torch.set_default_dtype", |a, _| {
        promotion::set_default_dtype(dtype_of(a.first())?)?;
        Ok(vec![Value::None])
    }),
];

pub(crate) fn truth(t: &Tensor) -> Result<bool> {
    check_readable(t, Asked::Truth)?;
    match t.numel() {
        1 => Ok(item(t)?.to_bool()),
        0 => Err(Error::runtime("Boolean value of Tensor with no values is ambiguous")),
        _ => Err(Error::runtime("Boolean value of Tensor with more than one value is ambiguous")),
    }
}
