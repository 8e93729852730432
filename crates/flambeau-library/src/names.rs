//! Names of dimensions as Python gives them: `names=` of factories, names in the place of dimensions, and the methods of
//! `Tensor` that change names.

use crate::slots::one;
use crate::{Function, NativeFn};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{Value, tensor_arg};
use flambeau_core::ensure;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::names::{DimName, ELLIPSIS, Names};
use flambeau_core::types::schema::Ty;
use std::borrow::Cow;
use std::sync::Arc;

fn name(v: &Value) -> Result<DimName> {
    match v {
        Value::None => Ok(None),
        Value::Ellipsis => Ok(Some(ELLIPSIS.into())),
        Value::Str(s) => Ok(Some(Arc::from(s.as_str()))),
        v => Err(Error::type_(format!("expected None or string for Dimname but got {}", v.type_name()))),
    }
}
/// A list of names.
pub(crate) fn list(v: &Value) -> Result<Names> {
    match v.items() {
        Some(l) => l.iter().map(name).collect::<Result<_>>().map(Names),
        None => Err(Error::type_(format!("expected a list of names, not {}", v.type_name()))),
    }
}
/// `names=`: a list, or none at all.
pub(crate) fn of_keyword(v: &Value) -> Result<Option<Names>> {
    if matches!(v, Value::None) { Ok(None) } else { list(v).map(Some) }
}
/// Names as Python's tuple.
fn shown(names: &Names) -> Value {
    let one = |n: &DimName| n.as_ref().map_or(Value::None, |n| Value::Str(n.to_string()));
    Value::Tuple(names.iter().map(one).collect())
}

fn is_name(v: &Value) -> bool {
    matches!(v, Value::Str(_))
}
/// The argument with names of dimensions as their places, for a parameter that takes dimensions. `args` are all arguments:
/// the first tensor with names among them says which dimensions are meant.
pub(crate) fn places<'a>(ty: Ty, v: &'a Value, args: &[Value]) -> Result<Cow<'a, Value>> {
    let whole = matches!(ty, Ty::Int | Ty::OptInt | Ty::IntList(_) | Ty::OptIntList(_)) && is_name(v);
    let each = matches!(ty, Ty::IntList(_) | Ty::OptIntList(_))
        && v.items().is_some_and(|l| !l.is_empty() && l.iter().all(is_name));
    if !whole && !each {
        return Ok(Cow::Borrowed(v));
    }
    let tensor = args.iter().find_map(|v| match v {
        Value::Tensor(t) => Some(t),
        v => v.items()?.iter().find_map(|v| if let Value::Tensor(t) = v { Some(t) } else { None }),
    });
    let Some(t) = tensor.filter(|t| t.has_names()) else { return Ok(Cow::Borrowed(v)) };
    let names = t.names();
    let place = |v: &Value| match v {
        Value::Str(s) => names.position(s).map(|d| Value::Int(d as i64)),
        v => Ok(v.clone()),
    };
    Ok(Cow::Owned(match v.items() {
        Some(l) => Value::List(l.iter().map(place).collect::<Result<_>>()?),
        None => place(v)?,
    }))
}

/// Positional names may come as one list.
fn given(args: &[Value]) -> Result<Names> {
    match args {
        [one] if one.items().is_some() => list(one),
        all => all.iter().map(name).collect::<Result<_>>().map(Names),
    }
}
/// The names that `rename` and `rename_` ask for.
fn renamed(t: &Tensor, function: &str, names: &[Value], map: &Kwargs) -> Result<Names> {
    ensure!(
        names.is_empty() || map.is_empty(),
        Runtime,
        "{function}: This function takes either positional args or keyword args, but not both. Use \
         tensor.{function}(*names) to name dims and tensor.{function}(**rename_map) to rename dims."
    );
    if map.is_empty() {
        return t.renamed(given(names)?, function);
    }
    let pairs = map.iter().map(|(old, new)| Ok((old.as_str(), name(new)?))).collect::<Result<Vec<_>>>()?;
    let pairs: Vec<(&str, Option<&str>)> = pairs.iter().map(|(old, new)| (*old, new.as_deref())).collect();
    t.replaced(&pairs, function)
}

/// `x.flatten(dims, out_dim)` and `x.flatten(start_dim, end_dim, out_dim)`: a name for the result is given.
pub(crate) fn names_the_result(args: &[Value], kwargs: &Kwargs) -> bool {
    kwargs.iter().any(|(k, _)| k == "out_dim")
        || args.len() == 4 && args.last().is_some_and(is_name)
        || args.len() == 3 && args.get(1).is_some_and(|v| v.items().is_some())
}
pub(crate) fn flatten_named(_: &Function, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let (mut args, mut kwargs) = (args.to_vec(), kwargs.to_vec());
    let out = match kwargs.iter().position(|(k, _)| k == "out_dim") {
        Some(i) => kwargs.remove(i).1,
        None => args.pop().unwrap_or(Value::None),
    };
    for n in ["input", "self", "dims", "start_dim", "end_dim"] {
        if let Some(i) = kwargs.iter().position(|(k, _)| k == n) {
            args.push(kwargs.remove(i).1);
        }
    }
    let (Some(Value::Tensor(t)), Value::Str(out)) = (args.first(), &out) else {
        return Err(Error::type_("flatten(): expected a Tensor, dimensions and the name of the result"));
    };
    let at = |v: &Value| match places(Ty::Int, v, &args)?.as_ref() {
        Value::Int(d) => Ok(*d),
        v => Err(Error::type_(format!(
            "flatten(): argument 'start_dim' must be int or name, not {}",
            v.type_name()
        ))),
    };
    match &args[1..] {
        [dims] => one(t.try_flatten_names(list(dims)?, out)?),
        [start, end] => one(t.flatten_range(at(start)?, at(end)?, out)?),
        _ => Err(Error::type_("flatten(): expected dimensions and the name of the result")),
    }
}
/// `x.unflatten(dim, [("C", 3), ...])`
pub(crate) fn has_pairs(args: &[Value], kwargs: &Kwargs) -> bool {
    let sizes = args.get(2).or_else(|| kwargs.iter().find(|(k, _)| k == "sizes").map(|(_, v)| v));
    match sizes {
        Some(Value::Dict(d)) => !d.is_empty(),
        Some(v) => v.items().is_some_and(|l| l.first().is_some_and(|v| v.items().is_some())),
        None => false,
    }
}
pub(crate) fn unflatten_named(_: &Function, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["self", "dim", "sizes"];
    let s = crate::slots::Slots::new("unflatten", names, args, kwargs)?;
    let t = s.tensor()?;
    let dim = match places(Ty::Int, s.must(1)?, args)?.as_ref() {
        Value::Int(d) => *d,
        v => {
            return Err(Error::type_(format!(
                "unflatten(): argument 'dim' must be int or name, not {}",
                v.type_name()
            )));
        }
    };
    let wrong = || Error::type_("unflatten(): expected pairs of a name and a size");
    let pairs: Vec<(String, i64)> = match s.must(2)? {
        Value::Dict(d) => d
            .iter()
            .map(|(k, v)| if let Value::Int(n) = v { Ok((k.clone(), *n)) } else { Err(wrong()) })
            .collect::<Result<_>>()?,
        v => v
            .items()
            .unwrap_or(&[])
            .iter()
            .map(|p| match p.items() {
                Some([Value::Str(k), Value::Int(n)]) => Ok((k.clone(), *n)),
                _ => Err(wrong()),
            })
            .collect::<Result<_>>()?,
    };
    let pairs: Vec<(&str, i64)> = pairs.iter().map(|(k, n)| (k.as_str(), *n)).collect();
    one(t.try_unflatten_at(dim, &pairs)?)
}

/// Gives what a factory made its names.
pub(crate) fn give(results: &[Value], names: Names) -> Result<()> {
    match results.first() {
        Some(Value::Tensor(t)) => t.set_dim_names(names),
        _ => Ok(()),
    }
}

/// Name and body.
pub(crate) const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.Tensor.names", |a, _| Ok(vec![shown(&tensor_arg(a, 0)?.names())])),
    ("torch.Tensor.names.__set__", |a, _| {
        let t = tensor_arg(a, 0)?;
        let names = match a.get(1) {
            None | Some(Value::None) => Names::none(t.dim()),
            Some(v) => list(v)?,
        };
        t.set_dim_names(names)?;
        Ok(vec![Value::None])
    }),
    ("torch.Tensor.has_names", |a, _| one(tensor_arg(a, 0)?.has_names())),
    ("torch.Tensor.rename", |a, k| {
        let t = tensor_arg(a, 0)?;
        let names = renamed(t, "rename", &a[1..], k)?;
        let new = t.unnamed_alias()?;
        new.set_dim_names(names)?;
        one(new)
    }),
    ("torch.Tensor.rename_", |a, k| {
        let t = tensor_arg(a, 0)?;
        t.set_dim_names(renamed(t, "rename_", &a[1..], k)?)?;
        one(t)
    }),
    ("torch.Tensor.refine_names", |a, _| one(tensor_arg(a, 0)?.try_refine_names(given(&a[1..])?)?)),
    ("torch.Tensor.align_to", |a, _| one(tensor_arg(a, 0)?.try_align_to(given(&a[1..])?)?)),
    ("torch.Tensor.align_as", |a, _| one(tensor_arg(a, 0)?.try_align_as(tensor_arg(a, 1)?)?)),
];
