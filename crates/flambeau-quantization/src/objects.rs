//! What a program sees of this crate's modules and schemes without knowing their types: calls, attributes, methods.

use crate::fake_quantize::FakeQuantize;
use crate::observers::Observer;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef};
use flambeau_core::tensor::quantized::QScheme;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_nn::Forward as _;
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
