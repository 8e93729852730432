//! What operators do with nested tensors.

pub(crate) mod convert;
mod jagged;
mod reduction;
mod strided;

use crate::structure::{CLASS, Nested, jagged_of, of, size_text, strided_of};
use flambeau_core::dispatch::object::{Kwargs, no_attribute};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::dispatch::wrapper::{self, Class};
use flambeau_core::tensor::geometry::{wrap_dim, wrap_dim_strict};
use flambeau_core::{Error, Result, Scalar, Tensor, Value, ensure};
use std::sync::Once;

static NESTED: Class = Class { name: CLASS, call, claims, refuses, named };

/// Makes the class known, with the first tensor of it: a program that makes none has none of its code.
pub(crate) fn known() {
    static KNOWN: Once = Once::new();
    KNOWN.call_once(|| wrapper::register(&NESTED));
}

pub(crate) fn base(info: &OpInfo) -> &'static str {
    info.name.split('.').next().unwrap_or(info.name)
}
/// Composites whose bodies look at sizes that a nested tensor has not.
fn claims(info: &'static OpInfo) -> bool {
    matches!(
        base(info),
        "reshape"
            | "flatten"
            | "unflatten"
            | "chunk"
            | "layer_norm"
            | "rms_norm"
            | "scaled_dot_product_attention"
            | "matmul"
            | "one_hot"
            | "contiguous"
            | "expand_as"
            | "narrow"
            | "split"
            | "unsafe_chunk"
            | "einsum"
            | "mse_loss"
    ) || on_elements(base(info))
}
/// Operators that treat every element alike, or make tensors of the same sizes: they work on the values.
pub(crate) fn on_elements(name: &str) -> bool {
    matches!(
        name,
        "detach"
            | "alias"
            | "_to_copy"
            | "fill_"
            | "zero_"
            | "ones_like"
            | "zeros_like"
            | "empty_like"
            | "full_like"
            | "rand_like"
            | "randn_like"
            | "randint_like"
            | "dropout"
            | "alpha_dropout"
            | "feature_alpha_dropout"
            | "native_dropout"
            | "bernoulli"
            | "bernoulli_"
            | "uniform_"
            | "normal_"
            | "exponential_"
            | "rrelu"
            | "random_"
    )
}
/// The value with `f` of every tensor.
pub(crate) fn map(v: &Value, f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Value> {
    let all = |l: &[Value]| l.iter().map(|v| map(v, f)).collect::<Result<Vec<_>>>();
    Ok(match v {
        Value::Tensor(t) => Value::Tensor(f(t)?),
        Value::List(l) => Value::List(all(l)?),
        Value::Tuple(l) => Value::Tuple(all(l)?),
        other => other.clone(),
    })
}
pub(crate) fn map_all(args: &[Value], f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Value>> {
    args.iter().map(|v| map(v, f)).collect()
}
/// The tensors among arguments, those of lists included.
pub(crate) fn tensors(args: &[Value]) -> Vec<&Tensor> {
    fn walk<'a>(v: &'a Value, all: &mut Vec<&'a Tensor>) {
        match v {
            Value::Tensor(t) => all.push(t),
            v => v.items().into_iter().flatten().for_each(|v| walk(v, all)),
        }
    }
    let mut all = Vec::new();
    args.iter().for_each(|v| walk(v, &mut all));
    all
}
pub(crate) fn one(t: Tensor) -> Result<Option<Vec<Value>>> {
    Ok(Some(vec![Value::Tensor(t)]))
}
pub(crate) fn list(all: Vec<Tensor>) -> Result<Option<Vec<Value>>> {
    Ok(Some(vec![Value::List(all.into_iter().map(Value::Tensor).collect())]))
}
/// Which argument an operator in place writes.
pub(crate) fn written(info: &OpInfo) -> Option<usize> {
    info.schema.args.iter().position(|a| a.mutated)
}
/// Ints of an argument that is a number, a list or nothing.
pub(crate) fn ints_at(args: &[Value], i: usize) -> Result<Option<Vec<i64>>> {
    Ok(match args.get(i) {
        None | Some(Value::None) => None,
        Some(Value::Int(d)) => Some(vec![*d]),
        Some(v) => Some(Vec::<i64>::from_value(v)?),
    })
}
pub(crate) fn place(info: &OpInfo, name: &str) -> Option<usize> {
    info.schema.args.iter().position(|a| a.name == name)
}
pub(crate) fn dim(d: i64, rank: usize) -> Result<usize> {
    wrap_dim(d, rank)
}

fn no_sizes() -> Error {
    Error::runtime("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")
}
/// Works one operator out.
fn call(info: &'static OpInfo, args: &[Value]) -> Result<Option<Vec<Value>>> {
    let all = tensors(args);
    match all.iter().find_map(|t| of(t)) {
        Some(Nested::Jagged(j)) => {
            ensure!(
                all.iter().all(|t| strided_of(t).is_none()),
                Runtime,
                "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
            );
            jagged::call(info, args, j)
        }
        Some(Nested::Strided(s)) => {
            ensure!(
                all.iter().all(|t| jagged_of(t).is_none()),
                Runtime,
                "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
            );
            strided::call(info, args, s)
        }
        None => Ok(None),
    }
}
/// What PyTorch says of an operator that nested tensors have not.
fn refuses(info: &'static OpInfo, args: &[Value]) -> Error {
    if tensors(args).iter().any(|t| jagged_of(t).is_some()) {
        let full =
            if info.name.contains('.') { info.name.to_string() } else { format!("{}.default", info.name) };
        return Error::unsupported(format!("aten.{full}"));
    }
    Error::unsupported(format!(
        "Could not run 'aten::{}' with arguments from the 'NestedTensorCPU' backend.",
        info.name
    ))
}

/// Methods and attributes that nested tensors have of their own.
fn named(name: &str, this: &Tensor, args: &[Value], kwargs: &Kwargs) -> Option<Result<Value>> {
    let argument = |i: usize, key: &str| {
        let by_key = || kwargs.iter().find(|(k, _)| k == key).map(|(_, v)| v);
        args.get(i).or_else(by_key).filter(|v| !matches!(v, Value::None))
    };
    let nested = of(this)?;
    let runtime = |text: &str| Some(Err(Error::runtime(text)));
    match (name, nested) {
        ("is_nested", _) => Some(Ok(Value::Bool(true))),
        ("values", Nested::Strided(s)) => Some(Ok(Value::Tensor(s.buffer.clone()))),
        ("values", Nested::Jagged(j)) => Some(Ok(Value::Tensor(j.values.clone()))),
        ("offsets", Nested::Jagged(j)) => Some(Ok(Value::Tensor(j.offsets.clone()))),
        ("lengths", Nested::Jagged(j)) => Some(Ok(j.lengths.clone().map_or(Value::None, Value::Tensor))),
        ("offsets" | "lengths", Nested::Strided(_)) => Some(Err(no_attribute("Tensor", name))),
        ("size", Nested::Strided(s)) => {
            let Some(d) = argument(0, "dim") else { return Some(Err(no_sizes())) };
            Some(i64::from_value(d).and_then(|d| size_of(s.rank + 1, d, this)).map(Value::Int))
        }
        ("shape" | "__len__", Nested::Strided(_)) => Some(Err(no_sizes())),
        ("stride", Nested::Strided(_)) => {
            runtime("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")
        }
        ("tolist", Nested::Strided(_)) => {
            runtime("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")
        }
        ("numpy", Nested::Strided(_)) => Some(Err(no_sizes())),
        ("tolist", Nested::Jagged(_)) => {
            runtime(".tolist() is not supported for tensor subclasses, got NestedTensor")
        }
        ("numpy", Nested::Jagged(_)) => runtime(".numpy() is not supported for tensor subclasses."),
        ("item", _) if this.numel() != 1 => {
            runtime(&format!("a Tensor with {} elements cannot be converted to Scalar", this.numel()))
        }
        ("item", _) => {
            let values = flambeau_core::tensor::wrapper::carrier(this);
            Some(values.try_item::<Scalar>().map(IntoValue::into_value))
        }
        ("__getitem__", Nested::Jagged(j)) => match args {
            [Value::Int(i)] if *i >= j.batch() || *i < -j.batch() => {
                Some(Err(Error::index("tuple index out of range")))
            }
            _ => None,
        },
        ("is_same_size", _) => match argument(0, "other") {
            Some(Value::Tensor(t)) => Some(Ok(Value::Bool(same_size(this, t)))),
            _ => None,
        },
        ("to_padded_tensor", _) => {
            let Some(padding) = argument(0, "padding") else {
                return Some(Err(Error::type_(
                    "to_padded_tensor() missing 1 required positional arguments: \"padding\"",
                )));
            };
            let size = match argument(1, "output_size").map(Vec::<i64>::from_value).transpose() {
                Ok(s) => s,
                Err(e) => return Some(Err(e)),
            };
            let padded =
                f64::from_value(padding).and_then(|p| convert::to_padded_tensor(this, p, size.as_deref()));
            Some(padded.map(Value::Tensor))
        }
        _ => None,
    }
}
fn size_of(rank: usize, d: i64, of: &Tensor) -> Result<i64> {
    let at = wrap_dim_strict(d, rank)?;
    let n = of.sizes()[at];
    ensure!(n >= 0, Runtime, "Given dimension {at} is irregular and does not have a size.");
    Ok(n)
}
fn same_size(a: &Tensor, b: &Tensor) -> bool {
    match (of(a), of(b)) {
        (Some(Nested::Jagged(_)), Some(Nested::Jagged(_))) => a.sizes() == b.sizes(),
        (Some(Nested::Strided(x)), Some(Nested::Strided(y))) => {
            x.parts.len() == y.parts.len() && x.parts.iter().zip(&*y.parts).all(|(p, q)| p.sizes == q.sizes)
        }
        _ => false,
    }
}
/// Of both operands' sizes, as PyTorch prints them.
pub(crate) fn shape_text(t: &Tensor) -> String {
    if jagged_of(t).is_some() {
        return size_text(t.sizes());
    }
    let sizes: Vec<String> = t.sizes().iter().map(i64::to_string).collect();
    format!("torch.Size([{}])", sizes.join(", "))
}
