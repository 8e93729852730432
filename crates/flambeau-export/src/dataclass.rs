//! Classes with fields among arguments and results.

use flambeau_core::{Error, Result, Value};
use flambeau_fx::pytree::{self, Record};

/// A class with fields, which arguments and results of programs may be: see [`register_dataclass`].
///
/// ```
/// use torch::export::{DataClass, register_dataclass};
/// let pair: DataClass = register_dataclass("example.Pair", &["left", "right"])?;
/// let v = pair.value([1.into(), 2.into()])?;
/// assert!(matches!(pair.field(&v, "right")?, torch::library::Value::Int(2)));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataClass {
    name: String,
    fields: Vec<String>,
}
/// A class with these fields under the name that it has in files (PyTorch's `serialized_type_name`): its objects are values whose
/// leaves are those of the fields, in order. Fields that are `None` are no leaves.
///
/// ```
/// use torch::export::register_dataclass;
/// use torch::{fx::pytree, library::Value};
///
/// let batch = register_dataclass("example.Batch", &["images", "labels"]).unwrap();
/// let v = batch.value([torch::zeros([2, 3]).into(), Value::None]).unwrap();
/// assert_eq!(pytree::leaves(&v).len(), 1);
/// assert!(matches!(batch.field(&v, "labels"), Ok(Value::None)));
/// ```
///
/// # Errors
/// Names that Python's are not; a field twice.
#[doc(alias = "torch.export.register_dataclass")]
pub fn register_dataclass(name: &str, fields: &[&str]) -> Result<DataClass> {
    let identifier = |s: &str| {
        !s.is_empty()
            && !s.starts_with(|c: char| c.is_ascii_digit())
            && s.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    if !name.split('.').all(identifier) || !Record::is_data_class(name) {
        return Err(Error::value(format!("'{name}' is no name of a class of one's own")));
    }
    for (i, f) in fields.iter().enumerate() {
        if !identifier(f) || fields[..i].contains(f) {
            return Err(Error::value(format!("'{f}' is no name of a field, or names two")));
        }
    }
    Ok(DataClass { name: name.to_string(), fields: fields.iter().map(|f| f.to_string()).collect() })
}
impl DataClass {
    /// An object with these values of its fields, in order.
    ///
    /// # Errors
    /// Another number of values than there are fields; values that are nested too deeply.
    pub fn value(&self, values: impl IntoIterator<Item = Value>) -> Result<Value> {
        let values: Vec<Value> = values.into_iter().collect();
        pytree::check(&values)?;
        if values.len() != self.fields.len() {
            return Err(Error::type_(format!(
                "{} has {} fields, and {} values were given",
                self.name,
                self.fields.len(),
                values.len()
            )));
        }
        Ok(Record::value(&self.name, self.fields.iter().cloned().zip(values).collect()))
    }
    /// A field of an object.
    ///
    /// # Errors
    /// A value that is no object of the class; a field that it has not.
    pub fn field(&self, of: &Value, name: &str) -> Result<Value> {
        let record = match of {
            Value::Object(o) => o.downcast::<Record>().filter(|r| r.class == self.name),
            _ => None,
        };
        let Some(r) = record else {
            return Err(Error::type_(format!("a {} was expected, not {}", self.name, of.type_name())));
        };
        let found = r.fields.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
        found.ok_or_else(|| Error::attribute(format!("'{}' object has no attribute '{name}'", self.name)))
    }
}
