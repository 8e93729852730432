//! `torch.autocast`, `torch.amp.custom_fwd` and the settings behind them.

use crate::region::{AutocastOptions, Resolved, known, try_get_autocast_dtype};
use flambeau_core::dispatch::autocast::{
    self, DeviceType, Region, State, cast, device_type, set_state, state,
};
use flambeau_core::dispatch::object::{
    Constructor, Kwargs, Object, ObjectRef, Parameter, bind, no_attribute,
};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::settings::determinism::warn;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{DType, Error, Result, Value};
use flambeau_library::NativeFn;
use flambeau_library::slots::{Slots, one};
use std::any::Any;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}
/// Python's name of a type, as `type(x)` prints it.
fn class_of(v: &Value) -> String {
    let name = v.type_name();
    if matches!(v, Value::Tensor(_)) { "torch.Tensor".into() } else { name.into() }
}
fn name_of(v: &Value) -> Result<&str> {
    match v {
        Value::Str(s) => Ok(s),
        v => Err(Error::value(format!(
            "Expected `device_type` of type `str`, got: `<class '{}'>`",
            class_of(v)
        ))),
    }
}

/// A region as a context manager and decorator. It may be entered several times; what was before stands in a list.
struct Autocast {
    settings: Resolved,
    /// What is no dtype: said when the region is entered, as in PyTorch.
    odd: Option<String>,
    before: Mutex<Vec<State>>,
}
impl Autocast {
    fn check(&self) -> Result<()> {
        match &self.odd {
            None => Ok(()),
            Some(kind) => Err(Error::type_(format!(
                "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {kind}"
            ))),
        }
    }
}
impl Object for Autocast {
    fn type_name(&self) -> &'static str {
        "autocast"
    }
    fn call(&self, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        let Some(Value::Object(f)) = args.first() else {
            let kind = args.first().map_or("NoneType", Value::type_name);
            return Err(Error::type_(format!(
                "autocast()(func) requires a callable, but got {kind}. Did you mean to use autocast as a context manager? For \
                 example:\n    with torch.autocast(device_type=...):\n        output = model(input)"
            )));
        };
        let around = Around::Region { settings: self.settings };
        Ok(vec![Value::Object(ObjectRef::new(Decorated { around, f: f.clone() }))])
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        Ok(match name {
            "fast_dtype" => Value::DType(self.settings.dtype),
            "_enabled" => Value::Bool(self.settings.enabled),
            "_cache_enabled" => Value::Bool(self.settings.cache),
            _ => return Err(no_attribute("autocast", name)),
        })
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "__enter__" => {
                self.check()?;
                let s = &self.settings;
                lock(&self.before).push(state());
                autocast::increment_nesting();
                set_state(state().enabled(s.on, s.enabled).with_dtype(s.on, s.dtype).with_cache(s.cache));
            }
            "__exit__" => {
                let before = lock(&self.before).pop();
                if let Some(before) = before {
                    if autocast::decrement_nesting() == 0 {
                        autocast::clear_cache();
                    }
                    let on = self.settings.on;
                    let now = state().enabled(on, before.is_enabled(on)).with_dtype(on, before.dtype(on));
                    set_state(now.with_cache(before.is_cache_enabled()));
                }
            }
            _ => return Err(no_attribute("autocast", name)),
        }
        Ok(vec![Value::None])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What a decorator does around a function.
#[derive(Clone, Copy)]
enum Around {
    Region { settings: Resolved },
    Forward { on: DeviceType, cast_inputs: Option<DType> },
    Backward { on: DeviceType },
}
struct Decorated {
    around: Around,
    f: ObjectRef,
}
/// An attribute of the context that `forward` and `backward` share.
fn context(args: &[Value]) -> Result<&ObjectRef> {
    match args.first() {
        Some(Value::Object(o)) => Ok(o),
        _ => Err(Error::type_("the first argument must be the context of an autograd function")),
    }
}
fn note(args: &[Value], name: &str, v: Value) -> Result<()> {
    context(args)?.method("__setattr__", &[Value::Str(name.into()), v], &[]).map(drop)
}
impl Object for Decorated {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        match self.around {
            Around::Region { settings } => {
                let _region = settings.enter();
                self.f.call(args, kwargs)
            }
            Around::Forward { on, cast_inputs } => {
                let inside = state().is_enabled(on);
                note(args, "_dtype", Value::DType(state().dtype(on)))?;
                note(args, "_fwd_used_autocast", Value::Bool(inside && cast_inputs.is_none()))?;
                let Some(to) = cast_inputs.filter(|_| inside) else { return self.f.call(args, kwargs) };
                let _off = Region::enter(state().enabled(on, false));
                let args = args.iter().map(|v| cast(v, to, on)).collect::<Result<Vec<_>>>()?;
                let named = |(k, v): &(String, Value)| Ok((k.clone(), cast(v, to, on)?));
                self.f.call(&args, &kwargs.iter().map(named).collect::<Result<Vec<_>>>()?)
            }
            Around::Backward { on } => {
                let ctx = context(args)?;
                let enabled = bool::from_value(&ctx.attribute("_fwd_used_autocast")?)?;
                let dtype = DType::from_value(&ctx.attribute("_dtype")?)?;
                let _region = Region::enter(state().enabled(on, enabled).with_dtype(on, dtype));
                self.f.call(args, kwargs)
            }
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// A decorator that waits for its function.
struct Decorator(Around);
impl Object for Decorator {
    fn type_name(&self) -> &'static str {
        "partial"
    }
    fn call(&self, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        decorated(self.0, args.first())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn decorated(around: Around, f: Option<&Value>) -> Result<Vec<Value>> {
    match f {
        None | Some(Value::None) => Ok(vec![Value::Object(ObjectRef::new(Decorator(around)))]),
        Some(Value::Object(f)) => Ok(vec![Value::Object(ObjectRef::new(Decorated { around, f: f.clone() }))]),
        Some(v) => Err(Error::type_(format!("the first argument must be callable, not {}", v.type_name()))),
    }
}

const PARAMETERS: [Parameter; 4] = [
    Parameter { name: "device_type", required: true },
    Parameter { name: "dtype", required: false },
    Parameter { name: "enabled", required: false },
    Parameter { name: "cache_enabled", required: false },
];
fn made(values: &[Option<Value>]) -> Result<ObjectRef> {
    let value = |i: usize| values.get(i).and_then(Option::as_ref).filter(|v| !matches!(v, Value::None));
    let mut o = AutocastOptions::new(name_of(values[0].as_ref().unwrap_or(&Value::None))?);
    let mut odd = None;
    match value(1) {
        None => {}
        Some(Value::DType(d)) => o = o.dtype(*d),
        Some(v) => odd = Some(v.type_name().to_string()),
    }
    if let Some(v) = value(2) {
        o = o.enabled(bool::from_value(v)?);
    }
    if let Some(v) = value(3) {
        o = o.cache_enabled(bool::from_value(v)?);
    }
    let settings = o.resolve()?;
    Ok(ObjectRef::new(Autocast { settings, odd, before: Mutex::default() }))
}
fn autocast_class(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    made(&bind("autocast", &PARAMETERS, args, kwargs)?)
}
/// The older names of one type of devices: `enabled`, `dtype`, `cache_enabled`.
fn of(device: &'static str, dtype: DType, args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    warn(&format!(
        "`torch.{device}.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('{device}', args...)` instead."
    ));
    const OLD: [Parameter; 3] = [
        Parameter { name: "enabled", required: false },
        Parameter { name: "dtype", required: false },
        Parameter { name: "cache_enabled", required: false },
    ];
    let mut v = bind("autocast", &OLD, args, kwargs)?;
    let mut take = |i: usize| v.get_mut(i).and_then(Option::take);
    let (enabled, given, cache) = (take(0), take(1), take(2));
    let dtype = given.unwrap_or(Value::DType(dtype));
    made(&[Some(Value::Str(device.into())), Some(dtype), enabled, cache])
}

/// Documented names and constructors.
pub(super) const CLASSES: &[(&str, Constructor)] = &[
    ("torch.autocast", autocast_class),
    ("torch.amp.autocast", autocast_class),
    ("torch.amp.autocast_mode.autocast", autocast_class),
    ("torch.cpu.amp.autocast", |a, k| of("cpu", DType::BF16, a, k)),
    ("torch.cpu.amp.autocast_mode.autocast", |a, k| of("cpu", DType::BF16, a, k)),
    ("torch.cuda.amp.autocast", |a, k| of("cuda", DType::F16, a, k)),
    ("torch.cuda.amp.autocast_mode.autocast", |a, k| of("cuda", DType::F16, a, k)),
];

/// The keyword `device_type`, which has no default.
fn keyword_device(name: &'static str, s: &Slots<'_>, at: usize) -> Result<DeviceType> {
    let v = s.values[at].ok_or_else(|| {
        Error::type_(format!("{name}() missing 1 required keyword-only argument: 'device_type'"))
    })?;
    known(name_of(v)?)
}
fn custom_fwd(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("custom_fwd", &["fwd", "device_type", "cast_inputs"], a, k)?;
    let on = keyword_device("custom_fwd", &s, 1)?;
    decorated(Around::Forward { on, cast_inputs: s.get(2)? }, s.values[0])
}
fn custom_bwd(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("custom_bwd", &["bwd", "device_type"], a, k)?;
    decorated(Around::Backward { on: keyword_device("custom_bwd", &s, 1)? }, s.values[0])
}
/// `torch.cuda.amp`'s, whose devices are known.
fn cuda_fwd(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("custom_fwd", &["fwd", "cast_inputs"], a, k)?;
    decorated(Around::Forward { on: DeviceType::Cuda, cast_inputs: s.get(1)? }, s.values[0])
}
fn cuda_bwd(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("custom_bwd", &["bwd"], a, k)?;
    decorated(Around::Backward { on: DeviceType::Cuda }, s.values[0])
}

fn nothing() -> Result<Vec<Value>> {
    Ok(vec![Value::None])
}
fn device(s: &Slots<'_>) -> Result<DeviceType> {
    known(name_of(s.must(0)?)?)
}
/// The older settings of one type of devices.
fn dtype_of(on: DeviceType) -> Result<Vec<Value>> {
    Ok(vec![Value::DType(state().dtype(on))])
}
fn set_dtype_of(on: DeviceType, a: &[Value]) -> Result<Vec<Value>> {
    let dtype = a.first().map_or_else(|| Err(Error::type_("a dtype is missing")), DType::from_value)?;
    set_state(state().with_dtype(on, dtype));
    nothing()
}
fn set_enabled_of(on: DeviceType, a: &[Value]) -> Result<Vec<Value>> {
    let enabled = a.first().map_or_else(|| Err(Error::type_("a bool is missing")), bool::from_value)?;
    set_state(state().enabled(on, enabled));
    nothing()
}

/// Documented names and bodies.
pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.amp.is_autocast_available", |a, k| {
        let s = Slots::new("is_autocast_available", &["device_type"], a, k)?;
        one(device_type(name_of(s.must(0)?)?)?.is_some())
    }),
    ("torch.amp.custom_fwd", custom_fwd),
    ("torch.amp.custom_bwd", custom_bwd),
    ("torch.cuda.amp.custom_fwd", cuda_fwd),
    ("torch.cuda.amp.custom_bwd", cuda_bwd),
    ("torch.get_autocast_dtype", |a, k| {
        let s = Slots::new("get_autocast_dtype", &["device_type"], a, k)?;
        one(try_get_autocast_dtype(name_of(s.must(0)?)?)?)
    }),
    ("torch.set_autocast_dtype", |a, k| {
        let s = Slots::new("set_autocast_dtype", &["device_type", "dtype"], a, k)?;
        let (on, dtype) = (device(&s)?, s.must(1)?);
        let Value::DType(d) = dtype else {
            return Err(Error::type_(format!(
                "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {}",
                dtype.type_name()
            )));
        };
        set_state(state().with_dtype(on, *d));
        nothing()
    }),
    ("torch.is_autocast_enabled", |a, k| {
        let s = Slots::new("is_autocast_enabled", &["device_type"], a, k)?;
        let on = if s.values[0].is_some() { device(&s)? } else { DeviceType::Cuda };
        one(state().is_enabled(on))
    }),
    ("torch.set_autocast_enabled", |a, k| match a {
        // the older form is about CUDA
        [Value::Bool(on)] => set_enabled_of(DeviceType::Cuda, &[Value::Bool(*on)]),
        _ => {
            let s = Slots::new("set_autocast_enabled", &["device_type", "enabled"], a, k)?;
            set_state(state().enabled(device(&s)?, bool::from_value(s.must(1)?)?));
            nothing()
        }
    }),
    ("torch.is_autocast_cache_enabled", |_, _| one(state().is_cache_enabled())),
    ("torch.set_autocast_cache_enabled", |a, k| {
        let s = Slots::new("set_autocast_cache_enabled", &["enabled"], a, k)?;
        set_state(state().with_cache(bool::from_value(s.must(0)?)?));
        nothing()
    }),
    ("torch.clear_autocast_cache", |_, _| {
        autocast::clear_cache();
        nothing()
    }),
    ("torch.autocast_increment_nesting", |_, _| one(autocast::increment_nesting())),
    ("torch.autocast_decrement_nesting", |_, _| one(autocast::decrement_nesting())),
    ("torch.get_autocast_cpu_dtype", |_, _| dtype_of(DeviceType::Cpu)),
    ("torch.get_autocast_gpu_dtype", |_, _| dtype_of(DeviceType::Cuda)),
    ("torch.get_autocast_ipu_dtype", |_, _| dtype_of(DeviceType::Ipu)),
    ("torch.get_autocast_xla_dtype", |_, _| dtype_of(DeviceType::Xla)),
    ("torch.set_autocast_cpu_dtype", |a, _| set_dtype_of(DeviceType::Cpu, a)),
    ("torch.set_autocast_gpu_dtype", |a, _| set_dtype_of(DeviceType::Cuda, a)),
    ("torch.set_autocast_ipu_dtype", |a, _| set_dtype_of(DeviceType::Ipu, a)),
    ("torch.set_autocast_xla_dtype", |a, _| set_dtype_of(DeviceType::Xla, a)),
    ("torch.is_autocast_cpu_enabled", |_, _| one(state().is_enabled(DeviceType::Cpu))),
    ("torch.is_autocast_ipu_enabled", |_, _| one(state().is_enabled(DeviceType::Ipu))),
    ("torch.is_autocast_xla_enabled", |_, _| one(state().is_enabled(DeviceType::Xla))),
    ("torch.set_autocast_cpu_enabled", |a, _| set_enabled_of(DeviceType::Cpu, a)),
    ("torch.set_autocast_ipu_enabled", |a, _| set_enabled_of(DeviceType::Ipu, a)),
    ("torch.set_autocast_xla_enabled", |a, _| set_enabled_of(DeviceType::Xla, a)),
];
