//! Modules as objects of the by-name layer.

#[cfg(feature = "by-name")]
mod containers;
#[cfg(feature = "by-name")]
mod functions;
#[cfg(feature = "by-name")]
mod utils;

use crate::module::Module;
use crate::module::forward::Forward;
use crate::module::state_dict::StateDict;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Error, Result, Tensor, TensorOptions, Value, ensure};
use std::any::Any;
use std::sync::RwLock;

/// Of a module that takes `wanted` inputs and was given others.
pub(crate) fn wrong_count(class: &str, wanted: usize, given: usize) -> flambeau_core::Error {
    let text = match (wanted, given) {
        (1, 0) => "missing 1 required positional argument: 'input'".to_string(),
        _ if given < wanted => {
            format!("missing {} of {wanted} required positional arguments", wanted - given)
        }
        _ => format!("takes {} positional arguments but {} were given", wanted + 1, given + 1),
    };
    flambeau_core::Error::type_(format!("{class}.forward() {text}"))
}
/// A module that can be run on tensors without knowing its type.
pub trait Run: Module {
    /// Class name.
    fn class(&self) -> &'static str;
    /// `forward`, with an error instead of a panic.
    ///
    /// # Errors
    /// Inputs that do not fit.
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
    /// `forward` of any arguments, as a call by name gives them. By default they are all tensors, in order.
    ///
    /// # Errors
    /// Arguments that do not fit.
    fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let tensors = args.iter().chain(kwargs.iter().map(|(_, v)| v)).map(|v| match v {
            Value::Tensor(t) => Ok(t.clone()),
            other => Err(Error::type_(format!("{} takes tensors, not {}", self.class(), other.type_name()))),
        });
        let tensors = tensors.collect::<Result<Vec<_>>>()?;
        Ok(self.run(&tensors)?.into_iter().map(Value::Tensor).collect())
    }
}

/// The arguments of a call of `forward` by its parameters' names, with Python's error texts. Those left out are `None`.
pub struct ForwardArgs(Vec<Option<Value>>);
impl ForwardArgs {
    /// Puts arguments into one slot per parameter; the first `required` ones have no default.
    ///
    /// # Errors
    /// Too many, unknown, repeated or missing arguments.
    pub fn bind(
        class: &str,
        names: &[&str],
        required: usize,
        args: &[Value],
        kwargs: &Kwargs,
    ) -> Result<ForwardArgs> {
        Self::of(&format!("{class}.forward"), 1, names, required, args, kwargs)
    }
    /// The same for a function that is no method.
    ///
    /// # Errors
    /// Too many, unknown, repeated or missing arguments.
    pub fn of_function(
        function: &str,
        names: &[&str],
        required: usize,
        args: &[Value],
        kwargs: &Kwargs,
    ) -> Result<ForwardArgs> {
        Self::of(function, 0, names, required, args, kwargs)
    }
    /// `own` is 1 for methods: Python counts the object too.
    fn of(
        function: &str,
        own: usize,
        names: &[&str],
        required: usize,
        args: &[Value],
        kwargs: &Kwargs,
    ) -> Result<ForwardArgs> {
        let (n, given) = (names.len(), args.len());
        let range = if required < n {
            format!("from {} to {}", required + own, n + own)
        } else {
            (n + own).to_string()
        };
        ensure!(
            given <= n,
            Type,
            "{function}() takes {range} positional arguments but {} were given",
            given + own
        );
        let mut slots: Vec<Option<Value>> = args.iter().cloned().map(Some).collect();
        slots.resize(n, None);
        for (key, v) in kwargs {
            let Some(i) = names.iter().position(|p| p == key) else {
                return Err(Error::type_(format!("{function}() got an unexpected keyword argument '{key}'")));
            };
            ensure!(slots[i].is_none(), Type, "{function}() got multiple values for argument '{key}'");
            slots[i] = Some(v.clone());
        }
        if let Some(i) = (0..required).find(|i| slots[*i].is_none()) {
            return Err(Error::type_(format!(
                "{function}() missing 1 required positional argument: '{}'",
                names[i]
            )));
        }
        Ok(ForwardArgs(slots))
    }
    /// An argument that must be there.
    ///
    /// # Errors
    /// A value of another type.
    pub fn must<T: FromValue>(&self, i: usize) -> Result<T> {
        T::from_value(self.0[i].as_ref().unwrap_or(&Value::None))
    }
    /// An argument, unless it was left out or is `None`.
    ///
    /// # Errors
    /// A value of another type.
    pub fn get<T: FromValue>(&self, i: usize) -> Result<Option<T>> {
        self.0[i].as_ref().map_or(Ok(None), Option::from_value)
    }
    /// The argument as it was given.
    pub fn value(&self, i: usize) -> &Value {
        self.0[i].as_ref().unwrap_or(&Value::None)
    }
}
impl Forward<&Tensor> for dyn Run {
    type Output = Tensor;
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        expect(self.try_forward(input))
    }
    fn try_forward(&self, input: &Tensor) -> Result<Tensor> {
        let out = self.run(std::slice::from_ref(input))?.pop();
        out.ok_or_else(|| Error::runtime("the module gave no tensor"))
    }
}

/// The object. It is empty after the module was put into another one.
pub struct ModuleObject {
    class: &'static str,
    inner: RwLock<Option<Box<dyn Run>>>,
}
impl ModuleObject {
    /// Wraps a module.
    pub fn make(m: impl Run) -> ObjectRef {
        ObjectRef::new(ModuleObject { class: m.class(), inner: RwLock::new(Some(Box::new(m))) })
    }
    /// Takes the module out, to put it into another one.
    ///
    /// # Errors
    /// It was taken before.
    pub fn take(&self) -> Result<Box<dyn Run>> {
        let taken = self.inner.write().unwrap_or_else(|e| e.into_inner()).take();
        taken.ok_or_else(|| Error::runtime("the module is part of another one already"))
    }
    /// Looks at the module.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&dyn Run) -> Result<R>) -> Result<R> {
        match &*self.inner.read().unwrap_or_else(|e| e.into_inner()) {
            Some(m) => f(&**m),
            None => Err(Error::runtime("the module is part of another one")),
        }
    }
}
fn dict(entries: impl Iterator<Item = (String, Tensor)>) -> Vec<Value> {
    vec![Value::Dict(entries.map(|(n, t)| (n, Value::Tensor(t))).collect())]
}
impl Object for ModuleObject {
    fn type_name(&self) -> &'static str {
        self.class
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        self.with(|m| m.run_by_name(args, kwargs))
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        self.with(|m| {
            if name == "training" {
                return Ok(Value::Bool(m.is_training()));
            }
            let parameter = m.get_parameter(name).map(|p| p.tensor().clone());
            let found = parameter.or_else(|_| m.get_buffer(name).map(|b| b.tensor().clone()));
            found.map(Value::Tensor).map_err(|_| no_attribute(self.class, name))
        })
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        ensure!(kwargs.is_empty(), Missing, "{}.{name} with keywords", self.class);
        match (name, args) {
            ("forward", _) => self.call(args, kwargs),
            ("to", [Value::DType(d)]) => self.convert(TensorOptions::new().dtype(*d)),
            ("to", [Value::Device(d)]) => self.convert(TensorOptions::new().device(*d)),
            ("train" | "eval", _) => self.with(|m| {
                let on = !matches!((name, args), ("eval", _) | ("train", [Value::Bool(false)]));
                m.set_training(on);
                Ok(Vec::new())
            }),
            ("half" | "bfloat16" | "float" | "double", []) => {
                let dtype = match name {
                    "half" => DType::F16,
                    "bfloat16" => DType::BF16,
                    "float" => DType::F32,
                    _ => DType::F64,
                };
                self.with_mut(|m| m.try_convert_floating(dtype).map(|()| Vec::new()))
            }
            ("requires_grad_", [] | [Value::Bool(_)]) => self.with(|m| {
                m.requires_grad_(!matches!(args, [Value::Bool(false)]));
                Ok(Vec::new())
            }),
            ("load_state_dict", [Value::Dict(d)]) => {
                let tensor =
                    |(n, v): &(String, Value)| -> Result<_> { Ok((n.clone(), Tensor::from_value(v)?)) };
                let state = d.iter().map(tensor).collect::<Result<StateDict>>()?;
                self.with(|m| Ok(vec![Value::Str(m.load_state_dict(&state)?.to_string())]))
            }
            ("zero_grad", []) => self.with(|m| {
                m.zero_grad();
                Ok(Vec::new())
            }),
            ("state_dict", []) => self.with(|m| Ok(dict(m.state_dict().into_iter()))),
            ("named_parameters", []) => self
                .with(|m| Ok(dict(m.named_parameters().into_iter().map(|(n, p)| (n, p.tensor().clone()))))),
            ("named_buffers", []) => {
                self.with(|m| Ok(dict(m.named_buffers().into_iter().map(|(n, b)| (n, b.tensor().clone())))))
            }
            ("parameters", []) => self.with(|m| {
                let all = m.parameters().into_iter().map(|p| Value::Tensor(p.tensor().clone()));
                Ok(vec![Value::List(all.collect())])
            }),
            _ => Err(no_attribute(self.class, name)),
        }
    }
    fn repr(&self) -> String {
        self.with(|m| Ok(m.repr())).unwrap_or_else(|_| format!("<{}>", self.class))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl ModuleObject {
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(&mut dyn Run) -> Result<R>) -> Result<R> {
        match &mut *self.inner.write().unwrap_or_else(|e| e.into_inner()) {
            Some(m) => f(&mut **m),
            None => Err(Error::runtime("the module is part of another one")),
        }
    }
    fn convert(&self, o: TensorOptions) -> Result<Vec<Value>> {
        self.with_mut(|m| m.try_convert(o).map(|()| Vec::new()))
    }
}
