//! Schemas of Rust functions, read from their types.

use crate::DType;
use crate::ensure;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};

/// A Rust type that has a type in schemas.
///
/// ```
/// use torch::library::SchemaType;
/// assert_eq!((<Option<f64>>::NAME, <Vec<torch::Tensor>>::NAME), ("float?", "Tensor[]"));
/// ```
#[diagnostic::on_unimplemented(
    message = "schemas have no type for `{Self}`",
    label = "no type of a schema",
    note = "`Tensor`, `f64`, `i64`, `bool`, `String`, options of them, and vectors of tensors and numbers have one"
)]
pub trait SchemaType {
    /// `Tensor`, `float`, ...
    const NAME: &'static str;
}
macro_rules! schema_types {
    ($($t:ty => $n:literal),* $(,)?) => {$(
        impl SchemaType for $t {
            const NAME: &'static str = $n;
        }
    )*};
}
schema_types! {
    Tensor => "Tensor", Option<Tensor> => "Tensor?", Vec<Tensor> => "Tensor[]", f64 => "float", Option<f64> => "float?",
    Vec<f64> => "float[]", i64 => "int", Option<i64> => "int?", Vec<i64> => "int[]", bool => "bool",
    Option<bool> => "bool?", String => "str", Option<String> => "str?", DType => "ScalarType",
    Option<DType> => "ScalarType?", crate::Scalar => "Scalar", Device => "Device", () => "()",
}
/// A function whose types make a schema.
///
/// ```
/// use torch::library::SchemaFunction;
/// use torch::{Result, Tensor};
/// fn types<A, F: SchemaFunction<A>>(_: F) -> (&'static [&'static str], &'static str) {
///     F::TYPES
/// }
/// let scaled = |x: Tensor, by: f64| -> Result<Tensor> { Ok(&x * by) };
/// assert_eq!(types(scaled), (&["Tensor", "float"][..], "Tensor"));
/// ```
pub trait SchemaFunction<A> {
    /// Types of the arguments, and of the result.
    const TYPES: (&'static [&'static str], &'static str);
}
macro_rules! schema_functions {
    ($($($a:ident),+;)*) => {$(
        impl<F, R: SchemaType, $($a: SchemaType),+> SchemaFunction<($($a,)+)> for F
        where
            F: Fn($($a),+) -> Result<R>,
        {
            const TYPES: (&'static [&'static str], &'static str) = (&[$($a::NAME),+], R::NAME);
        }
    )*};
}
schema_functions! { A; A, B; A, B, C; A, B, C, D; A, B, C, D, E; A, B, C, D, E, G; }

/// The schema of a Rust function whose arguments have these names; those in `mutates_args` are written to.
///
/// ```
/// use torch::library::infer_schema;
/// use torch::{Result, Tensor};
/// fn scale(x: Tensor, by: f64) -> Result<Tensor> {
///     Ok(x.mul(by))
/// }
/// assert_eq!(infer_schema(&scale, &["x", "by"], &[]).unwrap(), "(Tensor x, float by) -> Tensor");
/// ```
///
/// # Errors
/// Another number of names; names in `mutates_args` that are none of them or no tensors.
#[doc(alias = "torch.library.infer_schema")]
pub fn infer_schema<A, F: SchemaFunction<A>>(_: &F, names: &[&str], mutates_args: &[&str]) -> Result<String> {
    let (types, result) = F::TYPES;
    ensure!(types.len() == names.len(), Value, "{} names for {} arguments", names.len(), types.len());
    for m in mutates_args {
        ensure!(names.contains(m), Value, "infer_schema(func): {m} in mutates_args is no argument");
    }
    let mut args = Vec::new();
    for (i, (t, n)) in types.iter().zip(names).enumerate() {
        if !mutates_args.contains(n) {
            args.push(format!("{t} {n}"));
            continue;
        }
        let Some(rest) = t.strip_prefix("Tensor") else {
            return Err(Error::value(format!(
                "infer_schema(func): Parameter {n} is in mutates_args but only Tensors or collections of Tensors can be mutated"
            )));
        };
        let letter = char::from(b'a' + i as u8);
        args.push(format!("Tensor({letter}!){rest} {n}"));
    }
    Ok(format!("({}) -> {result}", args.join(", ")))
}
