//! Regions with autocast: what it does when the program runs becomes casts in the graph.

use super::build::{Builder, Item, op};
use flambeau_core::types::autocast::{Cast, DeviceType};
use flambeau_core::{DType, Error, Result, Value};
use flambeau_library as library;

/// What autocast does with an operator's arguments on the CPU.
fn rule(name: &str) -> Cast {
    let Some(f) = library::lookup(&format!("torch.ops.aten.{name}")) else { return Cast::None };
    let wanted = name.strip_suffix(".default").unwrap_or(name);
    let all = f.operators();
    let op = all.iter().find(|op| op.info().name == wanted).or_else(|| all.first());
    op.map_or(Cast::None, |op| op.info().autocast.on(DeviceType::Cpu))
}
fn dtypes(i: &Item, all: &mut Vec<DType>) {
    match &i.value {
        Value::Tensor(t) => all.push(t.dtype()),
        v => all.extend(v.items().unwrap_or(&[]).iter().filter_map(|v| match v {
            Value::Tensor(t) => Some(t.dtype()),
            _ => None,
        })),
    }
}
fn eligible(d: DType) -> bool {
    d.is_floating() && d != DType::F64
}
fn cast(b: &mut Builder, i: &Item, to: DType) -> Result<Item> {
    match &i.value {
        Value::Tensor(t) if eligible(t.dtype()) && t.dtype() != to => {
            Ok(op!(b, "_to_copy.default", i; dtype = to))
        }
        Value::List(_) | Value::Tuple(_) => {
            let parts = i.items().iter().map(|p| cast(b, p, to)).collect::<Result<Vec<Item>>>()?;
            if parts.is_empty() { Ok(i.clone()) } else { Ok(Item::from(parts)) }
        }
        _ => Ok(i.clone()),
    }
}

/// The arguments of a call in a region with autocast of this dtype, and whether what the operator is made of is left alone.
///
/// # Errors
/// Operators that autocast refuses.
pub(super) fn applied(
    b: &mut Builder,
    lower: DType,
    name: &str,
    mut args: Vec<Item>,
    mut kwargs: Vec<(String, Item)>,
) -> Result<(Vec<Item>, Vec<(String, Item)>, bool)> {
    let mut given = Vec::new();
    args.iter().chain(kwargs.iter().map(|(_, i)| i)).for_each(|i| dtypes(i, &mut given));
    let to = match rule(name) {
        Cast::None => return Ok((args, kwargs, false)),
        Cast::Whole | Cast::Product => return Ok((args, kwargs, true)),
        Cast::Lower => lower,
        Cast::Fp32 => DType::F32,
        Cast::Promote if given.contains(&DType::F32) => DType::F32,
        Cast::Promote => lower,
        Cast::OptDtype => {
            if given.first().copied().is_some_and(eligible) && kwargs.iter().all(|(k, _)| k != "dtype") {
                kwargs.push(("dtype".to_string(), DType::F32.into()));
            }
            return Ok((args, kwargs, true));
        }
        Cast::Banned => {
            return Err(Error::runtime(format!("aten::{name} is unsafe to autocast")));
        }
    };
    // PyTorch's compilers evaluate the casts from the last argument on
    for i in args.iter_mut().rev() {
        *i = cast(b, i, to)?;
    }
    for (_, i) in kwargs.iter_mut().rev() {
        *i = cast(b, i, to)?;
    }
    Ok((args, kwargs, true))
}
