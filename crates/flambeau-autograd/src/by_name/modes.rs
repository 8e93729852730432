//! Modes as context managers and decorators: `torch.no_grad`, `torch.autograd.forward_ad.dual_level`.

use crate::{forward_ad, grad_mode};
use flambeau_core::dispatch::object::{Constructor, Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Result, Value};
use flambeau_library::slots::Slots;
use std::any::Any;

/// A context manager that sets some bits of the thread's mode.
struct Mode {
    class: &'static str,
    /// The bits it covers, and what they are inside.
    mask: u8,
    inside: u8,
    /// What they were outside, for every entry that was not left yet.
    outside: Mutex<Vec<u8>>,
}
impl Mode {
    fn object(class: &'static str, mask: u8, inside: u8) -> ObjectRef {
        ObjectRef::new(Mode { class, mask, inside, outside: Mutex::default() })
    }
    fn outside(&self) -> flambeau_core::types::order::MutexGuard<'_, Vec<u8>> {
        self.outside.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn enter(&self) {
        let old = grad_mode::exchange(self.mask, self.inside);
        self.outside().push(old);
    }
    fn exit(&self) {
        let old = self.outside().pop();
        if let Some(old) = old {
            grad_mode::exchange(self.mask, old);
        }
    }
}
impl Object for Mode {
    fn type_name(&self) -> &'static str {
        self.class
    }
    /// As a decorator: the function that runs inside.
    fn call(&self, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        let Some(Value::Object(f)) = args.first() else {
            return Err(flambeau_core::Error::type_(format!("{} decorates a function", self.class)));
        };
        let inside =
            Mode { class: self.class, mask: self.mask, inside: self.inside, outside: Mutex::default() };
        Ok(vec![Value::Object(ObjectRef::new(Decorated { mode: inside, f: f.clone() }))])
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "__enter__" => self.enter(),
            "__exit__" => self.exit(),
            _ => return Err(no_attribute(self.class, name)),
        }
        Ok(vec![Value::None])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// A function that runs inside a mode.
struct Decorated {
    mode: Mode,
    f: ObjectRef,
}
impl Object for Decorated {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let old = grad_mode::ModeGuard::exchanged(self.mode.mask, self.mode.inside);
        let result = self.f.call(args, kwargs);
        drop(old);
        result
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn no_grad(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    Slots::new("no_grad.__init__", &[], args, kwargs)?;
    Ok(Mode::object("no_grad", grad_mode::NO_GRAD, grad_mode::NO_GRAD))
}
fn enable_grad(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    Slots::new("enable_grad.__init__", &[], args, kwargs)?;
    Ok(Mode::object("enable_grad", grad_mode::NO_GRAD, 0))
}
/// Takes effect at once, and is undone where it is used as a context manager.
fn set_grad_enabled(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("set_grad_enabled.__init__", &["mode"], args, kwargs)?;
    s.must(0)?;
    let inside = if s.get(0)?.unwrap_or(true) { 0 } else { grad_mode::NO_GRAD };
    let old = grad_mode::exchange(grad_mode::NO_GRAD, inside);
    Ok(ObjectRef::new(Set { old, inside }))
}
/// What `set_grad_enabled` gives.
struct Set {
    old: u8,
    inside: u8,
}
impl Object for Set {
    fn type_name(&self) -> &'static str {
        "set_grad_enabled"
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "__enter__" => grad_mode::exchange(grad_mode::NO_GRAD, self.inside),
            "__exit__" => grad_mode::exchange(grad_mode::NO_GRAD, self.old),
            _ => return Err(no_attribute("set_grad_enabled", name)),
        };
        Ok(vec![Value::None])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn inference_mode(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("inference_mode.__init__", &["mode"], args, kwargs)?;
    let mask = grad_mode::NO_GRAD | grad_mode::INFERENCE;
    Ok(Mode::object("inference_mode", mask, if s.get(0)?.unwrap_or(true) { mask } else { 0 }))
}
fn detect_anomaly(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("detect_anomaly.__init__", &["check_nan"], args, kwargs)?;
    let unchecked = if s.get(0)?.unwrap_or(true) { 0 } else { grad_mode::NO_NAN_CHECK };
    let mask = grad_mode::ANOMALY | grad_mode::NO_NAN_CHECK;
    Ok(Mode::object("detect_anomaly", mask, grad_mode::ANOMALY | unchecked))
}

/// A level of forward mode.
struct Level;
impl Object for Level {
    fn type_name(&self) -> &'static str {
        "dual_level"
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "__enter__" => forward_ad::enter()?,
            "__exit__" => forward_ad::exit(),
            _ => return Err(no_attribute("dual_level", name)),
        }
        Ok(vec![Value::Int(0)])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn dual_level(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    Slots::new("dual_level.__init__", &[], args, kwargs)?;
    Ok(ObjectRef::new(Level))
}

/// Documented names and constructors.
pub(super) const CLASSES: &[(&[&str], Constructor)] = &[
    (&["torch.no_grad", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"], no_grad),
    (
        &["torch.enable_grad", "torch.autograd.enable_grad", "torch.autograd.grad_mode.enable_grad"],
        enable_grad,
    ),
    (
        &[
            "torch.set_grad_enabled",
            "torch.autograd.set_grad_enabled",
            "torch.autograd.grad_mode.set_grad_enabled",
        ],
        set_grad_enabled,
    ),
    (&["torch.inference_mode", "torch.autograd.grad_mode.inference_mode"], inference_mode),
    (&["torch.autograd.detect_anomaly"], detect_anomaly),
    (&["torch.autograd.forward_ad.dual_level"], dual_level),
];
