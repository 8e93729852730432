//! Modules as objects of the by-name layer.

#[cfg(feature = "by-name")]
mod containers;
#[cfg(feature = "by-name")]
mod functions;
#[cfg(feature = "by-name")]
mod object;
#[cfg(feature = "by-name")]
mod registration;
#[cfg(feature = "by-name")]
mod utils;

pub mod probe;

use crate::module::Module;
use crate::module::deepcopy::CopyRun;
use crate::module::forward::Forward;
use crate::module::hooks;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::{Error, Result, Tensor, Value, ensure};

#[cfg(feature = "by-name")]
pub use object::ModuleObject;

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
pub trait Run: Module + CopyRun {
    /// Class name.
    fn class(&self) -> &'static str;
    /// `forward`, with an error instead of a panic.
    ///
    /// # Errors
    /// Inputs that do not fit.
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
    /// The child of that name, where the module is a container of modules that are known by their class only.
    fn child(&self, name: &str) -> Option<&dyn Run> {
        let _ = name;
        None
    }
    /// An attribute beside parameters, buffers and children, by its name in Python.
    fn attribute_by_name(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }
    /// An argument that the module was made with, by its name in Python.
    fn option_by_name(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }
    /// Sets such an attribute; `None` where there is none of that name.
    fn set_attribute_by_name(&self, name: &str, v: &Value) -> Option<Result<()>> {
        let _ = (name, v);
        None
    }
    /// Calls a method that not all modules have; `None` where there is none of that name.
    fn method_by_name(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Option<Result<Vec<Value>>> {
        let _ = (name, args, kwargs);
        None
    }
    /// `forward` of any arguments, as a call by name gives them. By default they are all tensors, in order.
    ///
    /// # Errors
    /// Arguments that do not fit.
    fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        on_tensors(self.class(), &|t| self.run(t), args, kwargs)
    }
}

// What every layer's calls have in common: compiled once, and not for each of them.

/// A call of a module that takes nothing but tensors.
fn on_tensors(
    class: &str,
    run: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Vec<Value>> {
    let tensors = args.iter().chain(kwargs.iter().map(|(_, v)| v)).map(|v| match v {
        Value::Tensor(t) => Ok(t.clone()),
        other => Err(Error::type_(format!("{class} takes tensors, not {}", other.type_name()))),
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    Ok(run(&tensors)?.into_iter().map(Value::Tensor).collect())
}
/// A call with tensors of a module whose calls by name say what it takes.
pub(crate) fn on_values(
    run: &dyn Fn(&[Value], &Kwargs) -> Result<Vec<Value>>,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>> {
    let values: Vec<_> = inputs.iter().cloned().map(Value::Tensor).collect();
    let out = run(&values, &[])?;
    out.iter().filter(|v| !matches!(v, Value::None)).map(Tensor::from_value).collect()
}
/// The only result of a layer.
pub(crate) fn one(result: Result<Tensor>) -> Result<Vec<Tensor>> {
    result.map(|t| vec![t])
}
/// Results as values.
pub(crate) fn values<T: IntoValue>(out: Vec<T>) -> Vec<Value> {
    out.into_iter().map(T::into_value).collect()
}

/// Calls a module with any arguments, and the hooks that it has: those see the tensors among arguments and results.
///
/// # Errors
/// Those of the module and of its hooks.
pub fn call_module(m: &dyn Run, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    if !crate::module::forward::has_hooks(m.as_module()) {
        return m.run_by_name(args, kwargs);
    }
    let tensors = |all: &[Value]| -> Vec<Tensor> {
        all.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None }).collect()
    };
    let mut out = None;
    let given = hooks::Inputs { tensors: tensors(args), keywords: Vec::new() };
    let own = m.base().and_then(crate::module::base::Base::hooks).filter(|h| h.on_calls());
    let changed = hooks::call(m.as_module(), own, given, &mut |now: &hooks::Inputs| {
        let mut new = now.tensors.iter();
        let args: Vec<Value> = args
            .iter()
            .map(|v| match v {
                Value::Tensor(t) => Value::Tensor(new.next().unwrap_or(t).clone()),
                other => other.clone(),
            })
            .collect();
        let y = m.run_by_name(&args, kwargs)?;
        Ok(tensors(out.insert(y)))
    })?;
    let out = out.ok_or_else(|| Error::runtime("forward did not run"))?;
    let Some(new) = changed else { return Ok(out) };
    let mut new = new.into_iter();
    let put = |v: Value| match v.into_tensor() {
        Ok(t) => Value::Tensor(new.next().unwrap_or(t)),
        Err(other) => other,
    };
    Ok(out.into_iter().map(put).collect())
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
        self.0[i].as_ref().unwrap_or_else(|| Value::none())
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
