//! Functions by their documented names that are no operators, and the schemes as values.

mod flows;
mod functional;
#[cfg(feature = "graphs")]
mod graphs;
mod layers;
mod mappings;
mod numeric_suite;
pub(crate) mod observers;
mod operators;
mod weights;

use crate::objects::scheme_value;
use crate::ops;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::{FromValue, tensor_arg};
use flambeau_core::tensor::quantized::QScheme;
use flambeau_core::{DType, Error, Result, Value, ensure};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{NativeFn, register_constant, register_function};
use std::any::Any;

static REG: CrateReg = CrateReg { name: "flambeau-quantization names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    for (path, f) in FUNCTIONS {
        register_function(path, *f);
    }
    for (path, make) in SCHEMES {
        register_constant(path, *make);
    }
    register_constant("torch.backends.quantized", || Value::Object(ObjectRef::new(Backend)));
    flows::register();
    functional::register();
    #[cfg(feature = "graphs")]
    graphs::register();
    operators::register();
    layers::register();
    mappings::register();
    numeric_suite::register();
    weights::register();
    observers::register();
}

/// `torch.backends.quantized`: the engine is a name that PyTorch knows; sums are exact whatever it says.
struct Backend;
static ENGINE: flambeau_core::types::order::RwLock<&str> = flambeau_core::types::order::RwLock::new("x86");
const ENGINES: [&str; 4] = ["qnnpack", "onednn", "x86", "fbgemm"];
impl Object for Backend {
    fn type_name(&self) -> &'static str {
        "module"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        match name {
            "engine" => Ok(Value::Str(ENGINE.read().unwrap_or_else(|e| e.into_inner()).to_string())),
            "supported_engines" => {
                Ok(Value::List(ENGINES.iter().map(|e| Value::Str(e.to_string())).collect()))
            }
            _ => Err(no_attribute("module", name)),
        }
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match (name, args) {
            ("__setattr__", [Value::Str(n), v]) if n == "engine" => {
                let v = match v {
                    Value::Str(v) => v.clone(),
                    Value::None => "none".into(),
                    Value::Int(v) => v.to_string(),
                    other => other.type_name().to_string(),
                };
                ensure!(v != "none", Runtime, "quantized engine NoQEngine is not supported");
                let known = ENGINES.iter().find(|e| **e == v).copied();
                let engine = known.ok_or_else(|| {
                    Error::runtime(format!("{v} is not a valid value for quantized engine"))
                })?;
                *ENGINE.write().unwrap_or_else(|e| e.into_inner()) = engine;
                Ok(Vec::new())
            }
            ("__setattr__", [Value::Str(n), _]) if n == "supported_engines" => {
                Err(Error::runtime("Assignment not supported"))
            }
            _ => Err(no_attribute("module", name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A value at a name that is put together: the few of them live as long as the program.
pub(crate) fn constant(path: &str, make: fn() -> Value) {
    register_constant(Box::leak(path.to_string().into_boxed_str()), make);
}

const SCHEMES: &[(&str, fn() -> Value)] = &[
    ("torch.per_tensor_affine", || scheme_value(QScheme::PerTensorAffine)),
    ("torch.per_channel_affine", || scheme_value(QScheme::PerChannelAffine)),
    ("torch.per_tensor_symmetric", || scheme_value(QScheme::PerTensorSymmetric)),
    ("torch.per_channel_symmetric", || scheme_value(QScheme::PerChannelSymmetric)),
    ("torch.per_channel_affine_float_qparams", || scheme_value(QScheme::PerChannelAffineFloatQParams)),
];

/// `torch._empty_affine_quantized(size, *, dtype, scale=1, zero_point=0)`: of zeros, since nothing here is left unwritten.
fn empty_affine(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("_empty_affine_quantized", &["size", "dtype", "scale", "zero_point"], a, k)?;
    let dtype = s.get(1)?.unwrap_or(DType::F32);
    ensure!(
        dtype.is_quantized(),
        Runtime,
        "Creation of quantized tensor requires quantized dtype like torch.quint8"
    );
    let size = Vec::<i64>::from_value(s.must(0)?)?;
    let zeros = flambeau_core::ops::zeros(&size, Some(DType::F32), None, None, None)?;
    let (scale, zero) = (s.get(2)?.unwrap_or(1.0), s.get(3)?.unwrap_or(0));
    one(ops::quantize_per_tensor(&zeros, scale, zero, dtype)?)
}
const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.Tensor.qscheme", |a, _| Ok(vec![scheme_value(ops::parameters::qscheme(tensor_arg(a, 0)?)?)])),
    ("torch._empty_affine_quantized", empty_affine),
];
