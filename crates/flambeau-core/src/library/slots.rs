//! Arguments of functions that are no operators, by their parameters' names.

use super::object::Kwargs;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::value::{FromValue, IntoValue, Value};
use crate::{Device, ensure};

/// The arguments of a function by its parameters' names: those left out are `None`.
pub(crate) struct Slots<'a> {
    name: &'static str,
    parameters: &'static [&'static str],
    pub(crate) values: Vec<Option<&'a Value>>,
}
impl<'a> Slots<'a> {
    pub(crate) fn new(
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
    pub(crate) fn must(&self, i: usize) -> Result<&'a Value> {
        self.values[i].ok_or_else(|| {
            Error::type_(format!(
                "{}() missing 1 required positional argument: '{}'",
                self.name, self.parameters[i]
            ))
        })
    }
    /// An argument, unless it was left out or is `None`.
    pub(crate) fn get<T: FromValue>(&self, i: usize) -> Result<Option<T>> {
        match self.values[i] {
            None | Some(Value::None) => Ok(None),
            Some(v) => T::from_value(v).map(Some),
        }
    }
    pub(crate) fn tensor(&self) -> Result<Tensor> {
        Tensor::from_value(self.must(0)?)
    }
    pub(crate) fn device(&self, i: usize) -> Result<Option<Device>> {
        match self.values[i] {
            Some(Value::Str(s)) => Device::parse(s).map(Some),
            _ => self.get(i),
        }
    }
}
/// One result.
pub(crate) fn one(v: impl IntoValue) -> Result<Vec<Value>> {
    Ok(vec![v.into_value()])
}
