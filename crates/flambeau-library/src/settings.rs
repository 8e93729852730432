//! Settings, utilities and random generators by name.

use crate::NativeFn;
use crate::slots::{Slots, one};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, NamedTuple, Value};
use flambeau_core::iter::promotion;
use flambeau_core::settings::determinism::{self, DeterministicMode};
use flambeau_core::settings::{self, MatmulPrecision};
use flambeau_core::tensor::generator::{self, Generator};
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::{DType, Device, ensure};

fn nothing() -> Result<Vec<Value>> {
    Ok(vec![Value::None])
}
fn flag(name: &'static str, parameter: &'static [&'static str], a: &[Value], k: &Kwargs) -> Result<bool> {
    let s = Slots::new(name, parameter, a, k)?;
    match s.must(0)? {
        Value::Bool(b) => Ok(*b),
        v => Err(Error::type_(format!("{name}(): expected bool, but got {}", v.type_name()))),
    }
}

fn set_debug_mode(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("set_deterministic_debug_mode", &["debug_mode"], a, k)?;
    use DeterministicMode as M;
    determinism::set_deterministic_debug_mode(match s.must(0)? {
        Value::Int(0) => M::Default,
        Value::Int(1) => M::Warn,
        Value::Int(2) => M::Error,
        Value::Int(i) => {
            return Err(Error::runtime(format!(
                "invalid value of debug_mode, expected 0, 1, or 2, but got {i}"
            )));
        }
        Value::Str(t) => match t.as_str() {
            "default" => M::Default,
            "warn" => M::Warn,
            "error" => M::Error,
            _ => {
                return Err(Error::runtime(format!(
                    "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {t}"
                )));
            }
        },
        v => return Err(Error::type_(format!("debug_mode must be str or int, but got {}", v.type_name()))),
    });
    nothing()
}

/// A floating tensor type or dtype as the default one.
fn set_default_tensor_type(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("set_default_tensor_type", &["t"], a, k)?;
    let d = match s.must(0)? {
        Value::Str(n) if n.starts_with("torch.cuda.") => {
            return Err(Error::device(format!("type {n} not available: no allocator is linked for cuda")));
        }
        Value::Str(n) => {
            crate::legacy::dtype_of(n).ok_or_else(|| Error::value(format!("invalid type: '{n}'")))?
        }
        v => DType::from_value(v)?,
    };
    promotion::set_default_dtype(d)?;
    nothing()
}

/// `torch.broadcast_shapes`: each shape is a number, a tuple or a list.
fn broadcast_shapes(a: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
    let shapes = a.iter().map(|v| match v {
        Value::Int(n) => Ok(vec![*n]),
        v if v.items().is_some() => Vec::<i64>::from_value(v),
        v => Err(Error::runtime(format!(
            "Input shapes should be of type ints, a tuple of ints, or a list of ints, got {}",
            crate::repr(v)?
        ))),
    });
    let shapes = shapes.collect::<Result<Vec<_>>>()?;
    let slices: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
    let shown = |k: usize| match &a[k] {
        Value::Int(n) => format!("({n},)"),
        v => crate::repr(v).unwrap_or_default(),
    };
    Ok(vec![NamedTuple::size(&flambeau_core::tensor::geometry::broadcast_shown(&slices, shown)?).into()])
}

/// A seed as Python gives it: -2^63 .. 2^64 - 1, negative ones from the top.
fn seed_of(v: &Value) -> Result<u64> {
    match v {
        Value::Int(s) => Ok(*s as u64),
        Value::Float(f) if (0.0..2f64.powi(64)).contains(f) => Ok(*f as u64),
        Value::Float(f) if (-(2f64.powi(63))..0.0).contains(f) => Ok(*f as i64 as u64),
        Value::Float(_) => Err(Error::value("Overflow when unpacking long long")),
        Value::Bool(b) => Ok(u64::from(*b)),
        v => Err(Error::runtime(format!("manual_seed expected a long, but got {}", v.type_name()))),
    }
}
/// A seed is an unsigned number; Python's ints hold it, ours only below 2^63.
fn seed_value(s: u64) -> Value {
    i64::try_from(s).map_or(Value::Float(s as f64), Value::Int)
}
fn generator_arg(a: &[Value]) -> Result<&Generator> {
    match a.first() {
        Some(Value::Generator(g)) => Ok(g),
        _ => Err(Error::type_("expected a torch.Generator")),
    }
}
fn state_arg(v: &Value) -> Result<&Tensor> {
    match v {
        Value::Tensor(t) => Ok(t),
        v => Err(Error::type_(format!("expected a torch.ByteTensor, but got {}", v.type_name()))),
    }
}

/// Name and body.
pub(crate) const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.use_deterministic_algorithms", |a, k| {
        let s = Slots::new("use_deterministic_algorithms", &["mode", "warn_only"], a, k)?;
        determinism::use_deterministic_algorithms(bool::from_value(s.must(0)?)?, s.get(1)?.unwrap_or(false));
        nothing()
    }),
    ("torch.are_deterministic_algorithms_enabled", |_, _| {
        one(determinism::are_deterministic_algorithms_enabled())
    }),
    ("torch.is_deterministic_algorithms_warn_only_enabled", |_, _| {
        one(determinism::is_deterministic_algorithms_warn_only_enabled())
    }),
    ("torch.set_deterministic_debug_mode", set_debug_mode),
    ("torch.get_deterministic_debug_mode", |_, _| one(determinism::get_deterministic_debug_mode() as i64)),
    ("torch.set_warn_always", |a, k| {
        determinism::set_warn_always(flag("set_warn_always", &["b"], a, k)?);
        nothing()
    }),
    ("torch.is_warn_always_enabled", |_, _| one(determinism::is_warn_always_enabled())),
    ("torch.set_float32_matmul_precision", |a, k| {
        let s = Slots::new("set_float32_matmul_precision", &["precision"], a, k)?;
        settings::set_float32_matmul_precision(MatmulPrecision::from_name(&String::from_value(s.must(0)?)?)?);
        nothing()
    }),
    ("torch.get_float32_matmul_precision", |_, _| one(settings::get_float32_matmul_precision().name())),
    ("torch.set_flush_denormal", |a, k| {
        one(settings::set_flush_denormal(flag("set_flush_denormal", &["mode"], a, k)?))
    }),
    ("torch.get_default_device", |_, _| one(settings::get_default_device())),
    ("torch.set_default_device", |a, k| {
        let s = Slots::new("set_default_device", &["device"], a, k)?;
        settings::set_default_device(s.device(0)?);
        nothing()
    }),
    ("torch.set_default_tensor_type", set_default_tensor_type),
    ("torch.get_num_threads", |_, _| one(flambeau_core::settings::threads::get_num_threads() as i64)),
    ("torch.set_num_threads", |a, k| {
        let s = Slots::new("set_num_threads", &["int"], a, k)?;
        if let [v] = a
            && !matches!(v, Value::Int(_))
        {
            return Err(Error::runtime(format!("set_num_threads expects an int, but got {}", v.type_name())));
        }
        let n = i64::from_value(s.must(0)?)?;
        ensure!(n > 0, Runtime, "set_num_threads expects a positive integer");
        flambeau_core::settings::threads::set_num_threads(n as usize);
        nothing()
    }),
    ("torch.__config__.show", |_, _| one(settings::config::show())),
    ("torch.__config__.parallel_info", |_, _| one(settings::config::parallel_info())),
    ("torch._assert", |a, k| {
        let s = Slots::new("_assert", &["condition", "message"], a, k)?;
        let holds = match s.must(0)? {
            Value::Tensor(t) => crate::builtins::truth(t)?,
            v => bool::from_value(v)?,
        };
        let text = || s.values[1].map_or(Ok(String::new()), String::from_value);
        if holds { nothing() } else { Err(Error::assertion(text()?)) }
    }),
    ("torch.is_nonzero", |a, k| {
        let s = Slots::new("is_nonzero", &["input"], a, k)?;
        one(crate::builtins::truth(&s.tensor()?)?)
    }),
    ("torch.Tensor.is_nonzero", |a, _| {
        one(crate::builtins::truth(&flambeau_core::dispatch::value::arg(a, 0)?)?)
    }),
    ("torch.broadcast_shapes", broadcast_shapes),
    ("torch.quasirandom.SobolEngine", crate::quasirandom::construct),
    // random generators
    ("torch.Generator", |a, k| {
        let s = Slots::new("Generator", &["device"], a, k)?;
        match s.device(0)?.unwrap_or(Device::Cpu) {
            Device::Cpu => Ok(vec![Value::Generator(Generator::new())]),
            other => Err(Error::device(format!("no random generator is linked for device {other}"))),
        }
    }),
    ("torch.Generator.seed", |a, _| Ok(vec![seed_value(generator_arg(a)?.seed())])),
    ("torch.Generator.initial_seed", |a, _| Ok(vec![seed_value(generator_arg(a)?.initial_seed())])),
    ("torch.Generator.manual_seed", |a, k| {
        let s = Slots::new("manual_seed", &["self", "seed"], a, k)?;
        let g = generator_arg(a)?.manual_seed(seed_of(s.must(1)?)?).clone();
        Ok(vec![Value::Generator(g)])
    }),
    ("torch.Generator.get_state", |a, _| one(generator_arg(a)?.get_state()?)),
    ("torch.Generator.set_state", |a, k| {
        let s = Slots::new("set_state", &["self", "new_state"], a, k)?;
        generator_arg(a)?.set_state(state_arg(s.must(1)?)?)?;
        Ok(vec![a[0].clone()])
    }),
    ("torch.Generator.clone_state", |a, _| Ok(vec![Value::Generator(generator_arg(a)?.clone_state())])),
    ("torch.Generator.device", |a, _| generator_arg(a).and_then(|_| one(Device::Cpu))),
    ("torch.seed", |_, _| Ok(vec![seed_value(generator::seed())])),
    ("torch.random.seed", |_, _| Ok(vec![seed_value(generator::seed())])),
    ("torch.initial_seed", |_, _| Ok(vec![seed_value(generator::initial_seed())])),
    ("torch.random.initial_seed", |_, _| Ok(vec![seed_value(generator::initial_seed())])),
    ("torch.manual_seed", manual_seed),
    ("torch.random.manual_seed", manual_seed),
    ("torch.get_rng_state", |_, _| one(generator::get_rng_state()?)),
    ("torch.random.get_rng_state", |_, _| one(generator::get_rng_state()?)),
    ("torch.set_rng_state", set_rng_state),
    ("torch.random.set_rng_state", set_rng_state),
];
fn manual_seed(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("manual_seed", &["seed"], a, k)?;
    Ok(vec![Value::Generator(generator::manual_seed(seed_of(s.must(0)?)?))])
}
fn set_rng_state(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("set_rng_state", &["new_state"], a, k)?;
    generator::set_rng_state(state_arg(s.must(0)?)?)?;
    nothing()
}
