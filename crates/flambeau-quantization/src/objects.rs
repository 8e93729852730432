//! What a program sees of this crate's modules and schemes without knowing their types: calls, attributes, methods.

use crate::fake_quantize::FakeQuantize;
use crate::nn::conv::Conv;
use crate::nn::embedding::Embedding;
use crate::nn::layer::{Layer, LayerKind};
use crate::nn::linear::Linear;
use crate::nn::recurrent::Recurrent;
use crate::observers::Observer;
#[cfg(feature = "by-name")]
use crate::qconfig::Made;
use crate::qconfig::{Make, QConfig};
use crate::stubs::{Fused, QuantWrapper, Stub};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::tensor::quantized::QScheme;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_nn::Forward as _;
#[cfg(feature = "by-name")]
use flambeau_nn::internal::ModuleObject;
use flambeau_nn::internal::Run;
use std::any::Any;

/// `torch.per_tensor_affine` and its like as values.
pub(crate) struct SchemeObject(pub(crate) QScheme);
impl Object for SchemeObject {
    fn type_name(&self) -> &'static str {
        "qscheme"
    }
    fn repr(&self) -> String {
        self.0.to_string()
    }
    fn documented_name(&self) -> Option<&str> {
        Some(self.0.name())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
pub(crate) fn scheme_value(s: QScheme) -> Value {
    Value::Object(ObjectRef::new(SchemeObject(s)))
}
/// The scheme that a value is.
pub(crate) fn scheme_of(v: &Value) -> Result<QScheme> {
    match v {
        Value::Object(o) => o.downcast::<SchemeObject>().map(|s| s.0),
        _ => None,
    }
    .ok_or_else(|| Error::type_(format!("expected torch.qscheme, but got {}", v.type_name())))
}
fn tuple((a, b): (Tensor, Tensor)) -> Vec<Value> {
    vec![Value::Tuple(vec![Value::Tensor(a), Value::Tensor(b)])]
}
impl Run for Observer {
    fn class(&self) -> &'static str {
        self.spec.class.name()
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match inputs {
            [x] => Ok(vec![self.try_forward(x)?]),
            _ => Err(Error::type_(format!("{}.forward() takes one tensor", self.class()))),
        }
    }
    fn attribute_by_name(&self, name: &str) -> Option<Value> {
        let range = || self.spec.range().ok();
        Some(match name {
            "min_val" => Value::Tensor(self.min_val()?),
            "max_val" => Value::Tensor(self.max_val()?),
            "histogram" => Value::Tensor(self.histogram()?),
            "dtype" => Value::DType(self.spec.dtype),
            "qscheme" => scheme_value(self.spec.qscheme),
            "is_dynamic" => Value::Bool(self.spec.is_dynamic),
            "reduce_range" => Value::Bool(self.spec.reduce_range),
            "quant_min" => Value::Int(range()?.0),
            "quant_max" => Value::Int(range()?.1),
            "ch_axis" if self.spec.class.is_per_channel() => Value::Int(self.spec.ch_axis),
            "averaging_constant" => Value::Float(self.spec.averaging_constant),
            "bins" => Value::Int(self.spec.bins),
            _ => return None,
        })
    }
    fn method_by_name(&self, name: &str, _: &[Value], _: &Kwargs) -> Option<Result<Vec<Value>>> {
        Some(match name {
            "calculate_qparams" => self.try_calculate_qparams().map(tuple),
            "reset_min_max_vals" => self.reset_min_max_vals().map(|()| Vec::new()),
            "get_tensor_value" => {
                Ok(vec![Value::List(self.get_tensor_value().into_iter().map(Value::Tensor).collect())])
            }
            _ => return None,
        })
    }
}
impl Run for FakeQuantize {
    fn class(&self) -> &'static str {
        self.spec.class.name()
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match inputs {
            [x] => Ok(vec![self.try_forward(x)?]),
            _ => Err(Error::type_(format!("{}.forward() takes one tensor", self.class()))),
        }
    }
    fn attribute_by_name(&self, name: &str) -> Option<Value> {
        Some(match name {
            "scale" => Value::Tensor(self.scale()),
            "zero_point" => Value::Tensor(self.zero_point()),
            "dtype" => Value::DType(self.spec.observer.dtype),
            "qscheme" => scheme_value(self.spec.observer.qscheme),
            "quant_min" => Value::Int(self.quant_min),
            "quant_max" => Value::Int(self.quant_max),
            _ => return None,
        })
    }
    fn method_by_name(&self, name: &str, args: &[Value], _: &Kwargs) -> Option<Result<Vec<Value>>> {
        let on = !matches!(args, [Value::Bool(false)]);
        match name {
            "calculate_qparams" => return Some(self.try_calculate_qparams().map(tuple)),
            "enable_fake_quant" => self.enable_fake_quant(on),
            "disable_fake_quant" => self.enable_fake_quant(false),
            "enable_observer" => self.enable_observer(on),
            "disable_observer" => self.enable_observer(false),
            _ => return None,
        }
        Some(Ok(Vec::new()))
    }
}

/// A configuration as a value.
pub(crate) struct QConfigObject(pub(crate) QConfig);
impl Object for QConfigObject {
    fn type_name(&self) -> &'static str {
        "QConfig"
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        match name {
            "activation" => Ok(make_value(self.0.activation.clone())),
            "weight" => Ok(make_value(self.0.weight.clone())),
            _ => Err(no_attribute("QConfig", name)),
        }
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        match self.attribute(name)?.into_object() {
            Ok(o) => o.call(args, kwargs),
            Err(_) => Err(no_attribute("QConfig", name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
pub(crate) fn qconfig_value(q: Option<QConfig>) -> Value {
    q.map_or(Value::None, |q| Value::Object(ObjectRef::new(QConfigObject(q))))
}
pub(crate) fn qconfig_in(v: &Value) -> Option<Option<QConfig>> {
    match v {
        Value::None => Some(None),
        Value::Object(o) => o.downcast::<QConfigObject>().map(|q| Some(q.0.clone())),
        _ => None,
    }
}
/// `module.scale = v`, `module.zero_point = v`: numbers, or tensors of one.
pub(crate) fn set_rule(
    name: &str,
    v: &Value,
    (scale, zero): (f64, i64),
    put: impl FnOnce(f64, i64),
) -> Option<Result<()>> {
    let number = || match v {
        Value::Tensor(t) => t.try_item::<f64>(),
        v => f64::from_value(v),
    };
    let done = match name {
        "scale" => number().map(|s| put(s, zero)),
        "zero_point" => number().map(|z| put(scale, z as i64)),
        _ => return None,
    };
    Some(done)
}
fn one(class: &str, inputs: &[Tensor], f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    match inputs {
        [x] => Ok(vec![f(x)?]),
        _ => {
            Err(Error::type_(format!("{class}.forward() takes one tensor, but {} were given", inputs.len())))
        }
    }
}
/// `set_weight_bias(w, b)`
fn weight_and_bias(a: &[Value]) -> Result<(Tensor, Option<Tensor>)> {
    let w = Tensor::from_value(a.first().unwrap_or(&Value::None))?;
    let b = match a.get(1) {
        None | Some(Value::None) => None,
        Some(v) => Some(Tensor::from_value(v)?),
    };
    Ok((w, b))
}
macro_rules! products {
    ($($t:ty, |$m:ident| $class:expr $(, $by_name:ident)?;)*) => {$(
        impl Run for $t {
            fn class(&self) -> &'static str {
                let $m = self;
                $class
            }
            fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
                one(self.class(), inputs, |x| self.try_forward(x))
            }
            $(fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
                $by_name(self, args, kwargs)
            })?
            fn attribute_by_name(&self, name: &str) -> Option<Value> {
                match name {
                    "scale" => Some(Value::Float(self.rule().0)),
                    "zero_point" => Some(Value::Int(self.rule().1)),
                    _ => None,
                }
            }
            fn set_attribute_by_name(&self, name: &str, v: &Value) -> Option<Result<()>> {
                set_rule(name, v, self.rule(), |s, z| self.set_rule(s, z))
            }
            fn method_by_name(&self, name: &str, a: &[Value], _: &Kwargs) -> Option<Result<Vec<Value>>> {
                Some(match name {
                    "weight" => Ok(vec![Value::Tensor(self.weight())]),
                    "bias" => Ok(vec![self.bias().map_or(Value::None, Value::Tensor)]),
                    "set_weight_bias" => weight_and_bias(a).and_then(|(w, b)| {
                        let _ = self.set_weight_bias(&w, b.as_ref());
                        Ok(Vec::new())
                    }),
                    _ => return None,
                })
            }
        }
    )*};
}
products! {
    Linear, |m| if m.relu { "LinearReLU" } else { "Linear" };
    Conv, |m| match (m.shape.kernel_size.len(), m.relu, m.shape.transposed) {
        (1, _, true) => "ConvTranspose1d",
        (2, _, true) => "ConvTranspose2d",
        (_, _, true) => "ConvTranspose3d",
        (1, false, _) => "Conv1d",
        (2, false, _) => "Conv2d",
        (_, false, _) => "Conv3d",
        (1, true, _) => "ConvReLU1d",
        (2, true, _) => "ConvReLU2d",
        (_, true, _) => "ConvReLU3d",
    }, conv_by_name;
}
/// `conv(input)`, and `conv(input, reduce_range)` of the dynamic ones.
fn conv_by_name(c: &Conv, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let given = |i: usize, name: &str| args.get(i).or(kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v));
    let x = Tensor::from_value(given(0, "input").unwrap_or(&Value::None))?;
    let y = match given(1, "reduce_range") {
        Some(v) if c.dynamic => c.of_numbers(&x, bool::from_value(v)?)?,
        _ => c.try_forward(&x)?,
    };
    Ok(vec![Value::Tensor(y)])
}
impl Run for Layer {
    fn class(&self) -> &'static str {
        use LayerKind::*;
        match &self.kind {
            ReLU6 => "ReLU6",
            Hardswish => "Hardswish",
            Elu { .. } => "ELU",
            LeakyReLU { .. } => "LeakyReLU",
            Sigmoid => "Sigmoid",
            Softmax { .. } => "Softmax",
            Dropout { .. } => "Dropout",
            PReLU { .. } => "PReLU",
            LayerNorm { .. } => "LayerNorm",
            GroupNorm { .. } => "GroupNorm",
            InstanceNorm { dims: 1, .. } => "InstanceNorm1d",
            InstanceNorm { dims: 2, .. } => "InstanceNorm2d",
            InstanceNorm { .. } => "InstanceNorm3d",
            BatchNorm { dims: 2, relu: false, .. } => "BatchNorm2d",
            BatchNorm { relu: false, .. } => "BatchNorm3d",
            BatchNorm { dims: 2, .. } => "BNReLU2d",
            BatchNorm { .. } => "BNReLU3d",
            Quantize { .. } => "Quantize",
            DeQuantize => "DeQuantize",
        }
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        one(self.class(), inputs, |x| self.try_forward(x))
    }
    fn attribute_by_name(&self, name: &str) -> Option<Value> {
        match name {
            "scale" if self.is_state() || matches!(self.kind, LayerKind::Elu { .. }) => {
                Some(Value::Float(self.rule().0))
            }
            "zero_point" if self.is_state() || matches!(self.kind, LayerKind::Elu { .. }) => {
                Some(Value::Int(self.rule().1))
            }
            _ => self.tensor(name).map(Value::Tensor),
        }
    }
    fn set_attribute_by_name(&self, name: &str, v: &Value) -> Option<Result<()>> {
        if let (Some(t), Value::Tensor(v)) = (self.tensor(name), v) {
            return Some(flambeau_core::ops::copy_(&t, v, false));
        }
        set_rule(name, v, self.rule(), |s, z| self.set_rule(s, z))
    }
}
macro_rules! plain {
    ($($t:ty, |$m:ident| $class:expr;)*) => {$(
        impl Run for $t {
            fn class(&self) -> &'static str {
                let $m = self;
                $class
            }
            fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
                one(self.class(), inputs, |x| self.try_forward(x))
            }
        }
    )*};
}
plain! {
    Stub, |m| if m.quantize { "QuantStub" } else { "DeQuantStub" };
    Fused, |m| m.name();
    QuantWrapper, |_m| "QuantWrapper";
}
impl Run for Embedding {
    fn class(&self) -> &'static str {
        if self.bag.is_some() { "EmbeddingBag" } else { "Embedding" }
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match inputs {
            [i] => Ok(vec![self.try_forward(i, None, None)?]),
            [i, o] => Ok(vec![self.try_forward(i, Some(o), None)?]),
            [i, o, w] => Ok(vec![self.try_forward(i, Some(o), Some(w))?]),
            _ => Err(Error::type_(format!("{}.forward() takes indices", self.class()))),
        }
    }
    fn method_by_name(&self, name: &str, a: &[Value], _: &Kwargs) -> Option<Result<Vec<Value>>> {
        Some(match name {
            "weight" => Ok(vec![Value::Tensor(self.weight())]),
            "set_weight" => weight_and_bias(a).map(|(w, _)| {
                self.set_weight(&w);
                Vec::new()
            }),
            _ => return None,
        })
    }
}
impl Run for Recurrent {
    fn class(&self) -> &'static str {
        self.class_name()
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match inputs {
            [x, rest @ ..] => self.try_forward(x, rest.first(), rest.get(1)),
            [] => Err(Error::type_(format!("{}.forward() takes an input", self.class()))),
        }
    }
    fn run_by_name(&self, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        let x = Tensor::from_value(args.first().unwrap_or(&Value::None))?;
        let states: Vec<Tensor> = match args.get(1) {
            None | Some(Value::None) => Vec::new(),
            Some(Value::Tensor(t)) => vec![t.clone()],
            Some(v) => Vec::from_value(v)?,
        };
        let mut out: Vec<Value> =
            self.try_forward(&x, states.first(), states.get(1))?.into_iter().map(Value::Tensor).collect();
        if self.steps_once() {
            return Ok(out);
        }
        let states = out.split_off(1);
        out.push(if self.is_lstm() {
            Value::Tuple(states)
        } else {
            states.into_iter().next().unwrap_or(Value::None)
        });
        Ok(out)
    }
    fn method_by_name(&self, name: &str, _: &[Value], _: &Kwargs) -> Option<Result<Vec<Value>>> {
        let all: Vec<(String, Value)> = match name {
            "get_weight" => self.weights().into_iter().map(|(n, t)| (n, Value::Tensor(t))).collect(),
            "get_bias" => {
                self.biases().into_iter().map(|(n, t)| (n, t.map_or(Value::None, Value::Tensor))).collect()
            }
            _ => return None,
        };
        Some(Ok(vec![Value::Dict(all)]))
    }
}

/// Something that makes observers, as a value: a class, or a class with arguments (`MinMaxObserver.with_args(...)`).
pub(crate) struct MakeObject(pub(crate) Make);
impl Object for MakeObject {
    fn type_name(&self) -> &'static str {
        "_PartialWrapper"
    }
    #[cfg(feature = "by-name")]
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        Ok(vec![Value::Object(made(crate::arguments::with(&self.0, args, kwargs)?.build()?))])
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "with_args" => Ok(vec![make_value(crate::arguments::with(&self.0, args, kwargs)?)]),
            _ => Err(no_attribute(self.type_name(), name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
#[cfg(feature = "by-name")]
pub(crate) fn made(m: Made) -> ObjectRef {
    match m {
        Made::Observer(o) => ModuleObject::make(*o),
        Made::FakeQuantize(f) => ModuleObject::make(*f),
        Made::Identity => {
            flambeau_core::dispatch::object::Instance::into_object(flambeau_nn::Identity::new())
        }
    }
}
pub(crate) fn make_value(m: Make) -> Value {
    Value::Object(ObjectRef::new(MakeObject(m)))
}
