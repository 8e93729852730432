//! Keyword arguments of `forward`, as hooks see them.

use flambeau_core::{Error, Result, Value};

/// A keyword argument: its name and its value.
///
/// ```
/// use torch::library::Value;
/// use torch::nn::Keyword;
/// let scale: Keyword = ("scale".into(), Value::Float(2.0));
/// assert_eq!(scale.0, "scale");
/// ```
pub type Keyword = (String, Value);

/// Arguments of `forward` beyond its tensors, like [`MultiheadAttentionArgs`](crate::MultiheadAttentionArgs). A module whose `Forward` takes
/// tensors and a reference to such a struct can be called with hooks, which see the struct's fields as keywords.
///
/// ```
/// use torch::nn::{Keywords, MultiheadAttentionArgs};
/// let args = MultiheadAttentionArgs::new().is_causal(true);
/// let names: Vec<String> = args.keywords("MultiheadAttention").into_iter().map(|k| k.0).collect();
/// assert_eq!(names, ["is_causal"]);
/// ```
pub trait Keywords: Sized {
    /// Those that are not the defaults, under PyTorch's names, for `forward` of that class.
    fn keywords(&self, class: &str) -> Vec<Keyword>;
    /// The struct with these in the place of the defaults.
    ///
    /// # Errors
    /// Names that `forward` does not know, values of another type.
    fn of_keywords(class: &str, keywords: &[Keyword]) -> Result<Self>;
}

/// Names that differ between a struct and one of the classes that take it: class, field, PyTorch's name.
const RENAMED: [(&str, &str, &str); 1] = [("TransformerEncoderLayer", "mask", "src_mask")];

/// PyTorch's name of a field.
pub(crate) fn name_of<'a>(class: &str, field: &'a str) -> &'a str {
    let found = RENAMED.iter().find(|(c, f, _)| *c == class && *f == field);
    found.map_or(field, |(_, _, name)| name)
}
/// The field that PyTorch's name stands for.
pub(crate) fn field_of<'a>(class: &str, name: &'a str) -> &'a str {
    let found = RENAMED.iter().find(|(c, _, n)| *c == class && *n == name);
    found.map_or(name, |(_, field, _)| field)
}
/// Whether an argument was left at its default.
pub(crate) fn is_default(value: &Value, default: &Value) -> bool {
    match (value, default) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        _ => false,
    }
}
/// The error of a keyword that `forward` does not have.
pub(crate) fn unexpected(class: &str, name: &str) -> Error {
    Error::type_(format!("{class}.forward() got an unexpected keyword argument '{name}'"))
}

/// A struct of arguments: a setter per field (fields that are tensors take `&Tensor`), and the fields as keywords.
macro_rules! arguments {
    ($(#[$doc:meta])* $t:ident { $($(#[$fm:meta])* $field:ident: $ty:ty = $default:expr, $arg:ty;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $t {
            $($(#[$fm])* pub $field: $ty,)*
        }
        impl Default for $t {
            fn default() -> Self {
                Self::new()
            }
        }
        impl $t {
            /// The documented defaults.
            pub fn new() -> Self {
                $t { $($field: $default,)* }
            }
            $($(#[$fm])*
            pub fn $field(mut self, $field: impl flambeau_core::api::into_arg::IntoArg<$arg>) -> Self {
                let value: $arg = $field.into_arg();
                self.$field = value.into();
                self
            })*
        }
        impl crate::module::keywords::Keywords for $t {
            fn keywords(&self, class: &str) -> Vec<crate::module::keywords::Keyword> {
                use flambeau_core::dispatch::value::IntoValue;
                let (now, default) = (self.clone(), Self::new());
                let all = [
                    $((stringify!($field), now.$field.into_value(), default.$field.into_value()),)*
                ];
                let given = all.into_iter().filter(|(_, v, d)| !crate::module::keywords::is_default(v, d));
                given.map(|(n, v, _)| (crate::module::keywords::name_of(class, n).to_owned(), v)).collect()
            }
            fn of_keywords(
                class: &str,
                keywords: &[crate::module::keywords::Keyword],
            ) -> flambeau_core::Result<Self> {
                let mut out = Self::new();
                for (name, v) in keywords {
                    match crate::module::keywords::field_of(class, name) {
                        $(stringify!($field) => {
                            out.$field = flambeau_core::dispatch::value::FromValue::from_value(v)?;
                        })*
                        _ => return Err(crate::module::keywords::unexpected(class, name)),
                    }
                }
                Ok(out)
            }
        }
        impl crate::module::tensors::Tensors for $t {
            /// Tensors among keywords are seen as keywords.
            fn visit_tensors(&self, _: &mut dyn FnMut(&flambeau_core::Tensor)) {}
            fn visit_tensors_mut(&mut self, _: &mut dyn FnMut(&mut flambeau_core::Tensor)) {}
            fn same(&self) -> Self {
                self.clone()
            }
            fn keywords(&self, class: &str) -> Vec<crate::module::keywords::Keyword> {
                crate::module::keywords::Keywords::keywords(self, class)
            }
            fn set_keywords(
                &mut self,
                class: &str,
                keywords: &mut Vec<crate::module::keywords::Keyword>,
            ) -> flambeau_core::Result<()> {
                let all = std::mem::take(keywords);
                *self = crate::module::keywords::Keywords::of_keywords(class, &all)?;
                Ok(())
            }
        }
        crate::module::tensors::owned_inputs!([] $t;);
    };
}
pub(crate) use arguments;
