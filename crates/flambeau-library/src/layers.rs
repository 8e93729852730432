//! What functions of `torch.nn.functional` that are written in Python do with their arguments before any operator sees
//! them: they count with numbers of any kind, and ask for attributes of whatever they were given.

use flambeau_core::dispatch::object::{Kwargs, no_attribute};
use flambeau_core::dispatch::value::Value;
use flambeau_core::tensor::geometry::wrap_dim_strict;
use flambeau_core::text::{PyText as _, repr};
use flambeau_core::types::error::{Error, Result};
use flambeau_core::{DType, bail, ensure};

type Arguments = (Vec<Value>, Vec<(String, Value)>);

/// An argument by position or name, unless it is left out or `None`.
fn given<'a>(args: &'a [Value], kwargs: &'a Kwargs, at: usize, name: &str) -> Option<&'a Value> {
    let v = args.get(at).or_else(|| kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v));
    v.filter(|v| !matches!(v, Value::None))
}
fn unchanged(args: &[Value], kwargs: &Kwargs) -> Arguments {
    (args.to_vec(), kwargs.to_vec())
}

/// A number of Python's.
#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}
impl Number {
    fn of(v: &Value) -> Option<Number> {
        match v {
            Value::Int(i) => Some(Number::Int(*i)),
            Value::Float(x) => Some(Number::Float(*x)),
            _ => None,
        }
    }
    fn float(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(x) => x,
        }
    }
    fn with(self, o: Number, ints: fn(i64, i64) -> i64, floats: fn(f64, f64) -> f64) -> Number {
        match (self, o) {
            (Number::Int(a), Number::Int(b)) => Number::Int(ints(a, b)),
            _ => Number::Float(floats(self.float(), o.float())),
        }
    }
    fn plus(self, o: Number) -> Number {
        self.with(o, i64::saturating_add, |a, b| a + b)
    }
    fn minus(self, o: Number) -> Number {
        self.with(o, i64::saturating_sub, |a, b| a - b)
    }
    fn times(self, o: Number) -> Number {
        self.with(o, i64::saturating_mul, |a, b| a * b)
    }
    fn text(self) -> String {
        match self {
            Number::Int(i) => i.to_string(),
            Number::Float(x) => x.py_text(),
        }
    }
}
/// One number for each of `n` dimensions, or as many as there are.
fn each(v: &Value, n: usize) -> Option<Vec<Number>> {
    match v.items() {
        Some(l) => l.iter().map(Number::of).collect(),
        None => Some(vec![Number::of(v)?; n]),
    }
}
/// `max_unpool1d` to `max_unpool3d`: the sizes of the result.
fn unpooling(n: usize, args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let get = |at, name| given(args, kwargs, at, name);
    let (Some(Value::Tensor(x)), Some(kernel)) = (get(0, "input"), get(2, "kernel_size")) else {
        return Ok(unchanged(args, kwargs));
    };
    let stride = get(3, "stride").unwrap_or(kernel);
    let zero = Value::Int(0);
    let padding = get(4, "padding").unwrap_or(&zero);
    let (Some(kernel), Some(stride), Some(padding)) = (each(kernel, n), each(stride, n), each(padding, n))
    else {
        return Ok(unchanged(args, kwargs));
    };
    let dims = kernel.len();
    let beyond = || Error::index("tuple index out of range");
    let mut default = Vec::new();
    for d in 0..dims {
        let at = (x.dim() + d).checked_sub(dims).and_then(|i| x.sizes().get(i)).ok_or_else(beyond)?;
        let (s, p) = (*stride.get(d).ok_or_else(beyond)?, *padding.get(d).ok_or_else(beyond)?);
        let end = Number::Int(at - 1).times(s).plus(kernel[d]);
        default.push(end.minus(Number::Int(2).times(p)));
    }
    let Some(asked) = get(5, "output_size") else { return Ok(unchanged(args, kwargs)) };
    let Some(mut sizes) = asked.items().and_then(|_| each(asked, n)) else {
        return Ok(unchanged(args, kwargs));
    };
    let mut shown = asked.clone();
    if sizes.len() == dims + 2 {
        sizes.drain(..2);
        if let Value::List(l) | Value::Tuple(l) = &mut shown {
            l.drain(..2);
        }
    }
    ensure!(
        sizes.len() == dims,
        Value,
        "output_size should be a sequence containing {dims} or {} elements, but it has a length of '{}'",
        dims + 2,
        sizes.len()
    );
    for d in 0..dims {
        let (low, high) = (default[d].minus(stride[d]), default[d].plus(stride[d]));
        let size = sizes[d].float();
        ensure!(
            low.float() < size && size < high.float(),
            Value,
            "invalid output_size \"{}\" (dim {d} must be between {} and {})",
            repr(&shown)?,
            low.text(),
            high.text()
        );
    }
    Ok(unchanged(args, kwargs))
}
pub(crate) fn unpooling_1d(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    unpooling(1, args, kwargs)
}
pub(crate) fn unpooling_2d(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    unpooling(2, args, kwargs)
}
pub(crate) fn unpooling_3d(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    unpooling(3, args, kwargs)
}

/// Fractional pooling asks its input for a size or for the number of dimensions.
pub(crate) fn fractional(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let get = |at, name| given(args, kwargs, at, name);
    let by_ratio = get(2, "output_size").is_none() && get(3, "output_ratio").is_some();
    let input = args.first().or_else(|| kwargs.iter().find(|(k, _)| k == "input").map(|(_, v)| v));
    match input {
        None | Some(Value::Tensor(_)) => Ok(unchanged(args, kwargs)),
        Some(v) if by_ratio => Err(no_attribute(v.type_name(), "size")),
        Some(v) if get(2, "output_size").is_some() => Err(no_attribute(v.type_name(), "dim")),
        Some(_) => Ok(unchanged(args, kwargs)),
    }
}

/// `embedding`: the place of the padding is one of the weight's, and norms are made smaller before anything is read.
pub(crate) fn embedding(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let slot = |at: usize, name: &str| {
        args.get(at).or_else(|| kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v))
    };
    let (Some(input), Some(weight)) = (slot(0, "input"), slot(1, "weight")) else {
        return Ok(unchanged(args, kwargs));
    };
    if let Some(place) = given(args, kwargs, 2, "padding_idx").and_then(Number::of).map(Number::float)
        && place != 0.0
    {
        let Value::Tensor(w) = weight else { return Err(no_attribute(weight.type_name(), "size")) };
        let rows = w.sizes()[wrap_dim_strict(0, w.dim())?] as f64;
        let inside = if place > 0.0 { place < rows } else { place >= -rows };
        ensure!(inside, Assertion, "Padding_idx must be within num_embeddings");
    }
    if given(args, kwargs, 3, "max_norm").is_some() {
        for (v, name) in [(input, "contiguous"), (weight, "detach")] {
            if !matches!(v, Value::Tensor(_)) {
                return Err(no_attribute(v.type_name(), name));
            }
        }
    }
    Ok(unchanged(args, kwargs))
}

/// `embedding_bag` took the weight first once, and so asks both what they are before it looks at sizes.
pub(crate) fn bags(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let slot = |at: usize, name: &str| {
        args.get(at).or_else(|| kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v))
    };
    let (Some(input), Some(weight)) = (slot(0, "input"), slot(1, "weight")) else {
        return Ok(unchanged(args, kwargs));
    };
    let Value::Tensor(w) = weight else { return Err(no_attribute(weight.type_name(), "dtype")) };
    if !matches!(input, Value::Tensor(_)) {
        let weighted = given(args, kwargs, 8, "per_sample_weights").is_some();
        let asked = match w.dtype() {
            DType::I64 => "is_floating_point",
            _ if weighted => "size",
            _ => "dim",
        };
        if asked == "dim" {
            let n = w.dim();
            ensure!(n == 2, Value, "weight has to be a 2D Tensor, but got Tensor of dimension {n}");
        }
        return Err(no_attribute(input.type_name(), asked));
    }
    Ok(unchanged(args, kwargs))
}

/// `torch.masked` looks for a dimension that is given twice before it asks what dimensions are.
pub(crate) fn dims_once(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let dims = given(args, kwargs, 1, "dim").and_then(Value::items).unwrap_or(&[]);
    for (i, d) in dims.iter().enumerate() {
        let Value::Float(x) = d else { continue };
        let again = dims[..i].iter().any(|e| matches!(e, Value::Float(y) if x == y));
        ensure!(!again, Runtime, "dim={} appears multiple times in the list of dims", repr(d)?);
    }
    Ok(unchanged(args, kwargs))
}

/// `torch.einsum` takes an equation and operands, or operands with their lists of dimensions.
pub(crate) fn operands(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    if kwargs.is_empty() && args.len() < 2 {
        bail!(
            Value,
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts \
             list"
        );
    }
    Ok(unchanged(args, kwargs))
}
