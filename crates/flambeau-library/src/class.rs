//! Classes by name: every documented class (module, optimizer, ...) declares its parameters once, on its options
//! struct, and stands in one link-time list.

use flambeau_core::dispatch::object::{Constructor, Kwargs, Parameter};
use flambeau_core::{Error, Result, Value, ensure};

pub use linkme;

/// A documented class.
pub struct ClassInfo {
    /// `torch.nn.Linear`
    pub path: &'static str,
    /// Parameters in documented order.
    pub parameters: &'static [Parameter],
    /// Makes an instance of arguments.
    pub make: Constructor,
}

/// The link-time list that `#[class]` adds to.
#[allow(unsafe_code)]
#[linkme::distributed_slice]
pub static CLASSES: [ClassInfo];

/// All classes of the program.
pub fn classes() -> &'static [ClassInfo] {
    &CLASSES
}

/// The class of that documented name.
pub fn find(path: &str) -> Option<&'static ClassInfo> {
    classes().iter().find(|c| c.path == path)
}

impl ClassInfo {
    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// Puts arguments into one slot per parameter, as Python's calls do.
///
/// # Errors
/// Too many, unknown, repeated or missing arguments, with Python's texts.
pub fn bind(
    name: &str,
    parameters: &[Parameter],
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Vec<Option<Value>>> {
    let total = parameters.len();
    let required = parameters.iter().filter(|p| p.required).count();
    if args.len() > total {
        let range = if required < total {
            format!("from {} to {}", required + 1, total + 1)
        } else {
            format!("{}", total + 1)
        };
        return Err(Error::type_(format!(
            "{name}.__init__() takes {range} positional arguments but {} were given",
            args.len() + 1
        )));
    }
    let mut slots: Vec<Option<Value>> = args.iter().cloned().map(Some).collect();
    slots.resize(total, None);
    for (key, v) in kwargs {
        let i = parameters.iter().position(|p| p.name == key);
        let i = i.ok_or_else(|| {
            Error::type_(format!("{name}.__init__() got an unexpected keyword argument '{key}'"))
        })?;
        ensure!(slots[i].is_none(), Type, "{name}.__init__() got multiple values for argument '{key}'");
        slots[i] = Some(v.clone());
    }
    let missing: Vec<&str> = parameters
        .iter()
        .zip(&slots)
        .filter(|(p, s)| p.required && s.is_none())
        .map(|(p, _)| p.name)
        .collect();
    let quoted: Vec<String> = missing.iter().map(|m| format!("'{m}'")).collect();
    let (count, list) = match quoted.as_slice() {
        [] => return Ok(slots),
        [one] => ("1 required positional argument".to_owned(), one.clone()),
        [first, second] => ("2 required positional arguments".to_owned(), format!("{first} and {second}")),
        [many @ .., last] => (
            format!("{} required positional arguments", quoted.len()),
            format!("{}, and {last}", many.join(", ")),
        ),
    };
    Err(Error::type_(format!("{name}.__init__() missing {count}: {list}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_errors() {
        static P: [Parameter; 3] = [
            Parameter { name: "a", required: true },
            Parameter { name: "b", required: true },
            Parameter { name: "c", required: false },
        ];
        let all = |args: &[Value], kwargs: &[(&str, Value)]| {
            let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
            bind("X", &P, args, &kwargs)
        };
        let text = |args: &[Value], kwargs: &[(&str, Value)]| all(args, kwargs).unwrap_err().to_string();
        let one = Value::Int(1);
        assert_eq!(
            text(std::slice::from_ref(&one), &[]),
            "X.__init__() missing 1 required positional argument: 'b'"
        );
        assert_eq!(text(&[], &[]), "X.__init__() missing 2 required positional arguments: 'a' and 'b'");
        assert_eq!(
            text(&[one.clone(), one.clone()], &[("z", one.clone())]),
            "X.__init__() got an unexpected keyword argument 'z'"
        );
        assert_eq!(
            text(&[one.clone(), one.clone()], &[("b", one.clone())]),
            "X.__init__() got multiple values for argument 'b'"
        );
        assert_eq!(
            text(&vec![one.clone(); 4], &[]),
            "X.__init__() takes from 3 to 4 positional arguments but 5 were given"
        );
        let slots = all(&[one.clone()], &[("b", one)]).unwrap();
        assert!(slots[0].is_some() && slots[1].is_some() && slots[2].is_none());
    }
}
