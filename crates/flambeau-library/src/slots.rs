//! Arguments of functions that are no operators, by their parameters' names.

use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, IntoValue, Value};
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::{Device, ensure};

/// The arguments of a function by its parameters' names: those left out are `None`.
pub struct Slots<'a> {
    name: &'static str,
    parameters: &'static [&'static str],
    /// One per parameter.
    pub values: Vec<Option<&'a Value>>,
}
impl<'a> Slots<'a> {
    /// Binds positions and keywords.
    ///
    /// # Errors
    /// Too many, unknown or repeated arguments, in Python's words.
    pub fn new(
        name: &'static str,
        parameters: &'static [&'static str],
        args: &'a [Value],
        kwargs: &'a Kwargs,
    ) -> Result<Slots<'a>> {
        ensure!(
            args.len() <= parameters.len(),
            Type,
            "{name}() takes {} positional arguments but {} were given",
            parameters.len(),
            args.len()
        );
        let mut values: Vec<Option<&Value>> = args.iter().map(Some).collect();
        values.resize(parameters.len(), None);
        for (k, v) in kwargs {
            match parameters.iter().position(|p| p == k) {
                None => {
                    return Err(Error::type_(format!("{name}() got an unexpected keyword argument '{k}'")));
                }
                Some(i) if values[i].is_some() => {
                    return Err(Error::type_(format!("{name}() got multiple values for argument '{k}'")));
                }
                Some(i) => values[i] = Some(v),
            }
        }
        Ok(Slots { name, parameters, values })
    }
    /// A required argument.
    ///
    /// # Errors
    /// When it was left out.
    pub fn must(&self, i: usize) -> Result<&'a Value> {
        self.values[i].ok_or_else(|| {
            Error::type_(format!(
                "{}() missing 1 required positional argument: '{}'",
                self.name, self.parameters[i]
            ))
        })
    }
    /// An argument, unless it was left out or is `None`.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn get<T: FromValue>(&self, i: usize) -> Result<Option<T>> {
        match self.values[i] {
            None | Some(Value::None) => Ok(None),
            Some(v) => T::from_value(v).map(Some),
        }
    }
    /// The first argument, a tensor.
    ///
    /// # Errors
    /// When it is none.
    pub fn tensor(&self) -> Result<Tensor> {
        Tensor::from_value(self.must(0)?)
    }
    /// A device, or its name.
    ///
    /// # Errors
    /// When it is neither.
    pub fn device(&self, i: usize) -> Result<Option<Device>> {
        match self.values[i] {
            Some(Value::Str(s)) => Device::parse(s).map(Some),
            _ => self.get(i),
        }
    }
}
/// One result.
///
/// # Errors
/// None.
pub fn one(v: impl IntoValue) -> Result<Vec<Value>> {
    Ok(vec![v.into_value()])
}
