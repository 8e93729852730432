//! Tensors of a program that is being captured.

use super::recorder::{Level, current};
use super::{deferred, numbers};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::registry;
use flambeau_core::dispatch::wrapper::{self, Class};
use flambeau_core::internal::{RawTensor as _, excluding};
use flambeau_core::tensor::wrapper::{Shown, Wrapped};
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::{DType, Device, Error, Layout, Result, Scalar, Tensor, Value};
use std::any::Any;
use std::sync::{Arc, Once};

/// Errors of reads say "a tensor of a program that is being captured has no elements in memory of its own".
const CLASS_NAME: &str = "tensor of a program that is being captured (its values are those of one run, and cannot decide what the program does)";

static CLASS: Class = Class {
    name: CLASS_NAME,
    call,
    claims,
    refuses: |info, _| Error::missing(format!("{} in a captured program", info.name)),
    named: |_: &str, _: &Tensor, _: &[Value], _: &Kwargs| None,
};

/// The tensor inside.
struct Traced(Tensor);
impl Wrapped for Traced {
    fn class(&self) -> &'static str {
        CLASS_NAME
    }
    fn carrier(&self) -> Tensor {
        self.0.clone()
    }
    fn around(&self, carrier: Tensor) -> Result<Arc<dyn Wrapped>> {
        Ok(Arc::new(Traced(carrier)))
    }
    fn number(&self) -> Option<Result<Scalar>> {
        numbers::read(&current()?, &self.0)
    }
    fn text(&self, of: &Tensor) -> Result<String> {
        Ok(shown(of))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A tensor without its elements, as PyTorch shows those of captures.
pub(super) fn shown(t: &Tensor) -> String {
    let sizes: Vec<String> = t.sizes().iter().map(i64::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let device = match t.device() {
        Device::Cpu => String::new(),
        other => format!("device='{other}', "),
    };
    let mut text = format!("FakeTensor(..., {device}size=({}{comma})", sizes.join(", "));
    if t.dtype() != DType::F32 {
        text.push_str(&format!(", dtype={}", t.dtype()));
    }
    text.push(')');
    text
}
/// Makes the class and the key known.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        wrapper::register(&CLASS);
        super::control::install();
        registry::set_fallback(Key::Tracer, Some(made));
    });
}
/// A tensor that cannot be read.
pub(super) fn wrap(t: &Tensor) -> Result<Tensor> {
    if t.layout() != Layout::Strided || t.is_wrapper() {
        return Ok(t.clone());
    }
    let shown = Shown {
        sizes: t.sizes(),
        strides: t.strides(),
        numel: t.numel(),
        contiguous: t.is_contiguous(),
        layout: t.layout(),
        dtype: t.dtype(),
        device: t.device(),
    };
    Tensor::wrap(&shown, Arc::new(Traced(t.clone())))
}
fn inside(t: &Tensor) -> Option<&Tensor> {
    let w: &dyn Any = t.wrapped()?.as_any();
    w.downcast_ref::<Traced>().map(|t| &t.0)
}
/// Whether a tensor is one of a captured program.
pub(super) fn is_traced(t: &Tensor) -> bool {
    inside(t).is_some()
}
/// The value with the tensors inside.
pub(crate) fn unwrapped(v: &Value) -> Value {
    match v {
        Value::Tensor(t) => Value::Tensor(inside(t).unwrap_or(t).clone()),
        Value::List(l) => Value::List(l.iter().map(unwrapped).collect()),
        Value::Tuple(l) => Value::Tuple(l.iter().map(unwrapped).collect()),
        Value::Dict(d) => Value::Dict(d.iter().map(|(k, v)| (k.clone(), unwrapped(v))).collect()),
        Value::Named(t) => {
            let mut t = t.clone();
            t.items = t.items.iter().map(unwrapped).collect();
            Value::Named(t)
        }
        v => v.clone(),
    }
}
/// Results around which wrappers are put: those of arguments that are given back stay the same.
pub(super) fn rewrapped(args: &[Value], v: Value) -> Result<Value> {
    let of_argument = |t: &Tensor| {
        args.iter().find_map(|a| match a {
            Value::Tensor(w) => inside(w).filter(|i| i.is_same(t)).map(|_| w.clone()),
            _ => None,
        })
    };
    Ok(match v {
        Value::Tensor(ref t) => Value::Tensor(match of_argument(t) {
            Some(w) => w,
            None => wrap(t)?,
        }),
        Value::List(ref l) => {
            Value::List(l.iter().map(|v| rewrapped(args, v.clone())).collect::<Result<_>>()?)
        }
        Value::Tuple(ref l) => {
            Value::Tuple(l.iter().map(|v| rewrapped(args, v.clone())).collect::<Result<_>>()?)
        }
        v => v,
    })
}
fn claims(info: &'static OpInfo) -> bool {
    match current() {
        Some(r) => {
            let r = r.borrow();
            r.level == Level::Kernels || r.quiet > 0 || !r.names.clone().opens(info)
        }
        None => true,
    }
}
/// An operator that is given a wrapper.
fn call(info: &'static OpInfo, args: &[Value]) -> Result<Option<Vec<Value>>> {
    let Some(recorder) = current() else {
        return Err(Error::runtime(format!(
            "{}: a tensor of a captured program was used after the capture had ended",
            info.name
        )));
    };
    let raw: Vec<Value> = args.iter().map(unwrapped).collect();
    let results = deferred::call(&recorder, info, &raw)?;
    if recorder.borrow().level == Level::Calls {
        recorder.borrow_mut().saw(info.name, info.python, &info.schema, &raw, &results)?;
    }
    results.into_iter().map(|v| rewrapped(args, v)).collect::<Result<Vec<_>>>().map(Some)
}
fn has_tensor(v: &Value) -> bool {
    match v {
        Value::Tensor(_) => true,
        v => v.items().is_some_and(|l| l.iter().any(has_tensor)),
    }
}
/// Every call while a capture is on: those that make tensors of numbers alone are written down here, the others where their
/// wrappers lead.
fn made(info: &'static OpInfo, _: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let results = excluding(KeySet::of(Key::Tracer), || info.call(&args))?;
    let Some(recorder) = current() else { return Ok(results) };
    if args.iter().any(has_tensor) || recorder.borrow().quiet > 0 || recorder.borrow().level == Level::Kernels
    {
        return Ok(results);
    }
    recorder.borrow_mut().saw(info.name, info.python, &info.schema, &args, &results)?;
    results.into_iter().map(|v| rewrapped(&[], v)).collect()
}
