//! What operators do with masked tensors.

use super::{normalization, reduction};
use crate::tensor::{CLASS, Masked, as_masked, for_part, of, to_tensor, wrap, wrap_part};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::value::{FromValue, IntoValue, arg, tensor_arg};
use flambeau_core::dispatch::wrapper::{self, Class};
use flambeau_core::{DType, Error, Layout, Result, Scalar, Tensor, Value, bail, ensure, ops as core};
use flambeau_sparse::generated::ops as sparse;
use std::borrow::Cow;
use std::sync::Once;

static MASKED: Class = Class {
    name: CLASS,
    call,
    claims: |info| is_masked_function(info) || keeps_mask(base(info)),
    refuses,
    named,
};

/// Makes the class known.
/// Makes the class known, with the first tensor of it: a program that makes none has none of its code.
pub(crate) fn known() {
    static KNOWN: Once = Once::new();
    KNOWN.call_once(|| wrapper::register(&MASKED));
}

fn base(info: &OpInfo) -> &'static str {
    info.name.split('.').next().unwrap_or(info.name)
}
fn is_masked_function(info: &'static OpInfo) -> bool {
    info.owner == env!("CARGO_PKG_NAME")
}

/// Operators that only choose, move or repeat elements: they do the same with the mask.
fn is_structural(name: &str) -> bool {
    matches!(
        name,
        "select"
            | "transpose"
            | "split"
            | "slice"
            | "index"
            | "expand"
            | "view"
            | "cat"
            | "unsqueeze"
            | "unfold"
            | "permute"
            | "squeeze"
            | "split_with_sizes"
            | "unbind"
            | "diagonal"
            | "index_select"
            | "gather"
            | "flip"
            | "take"
            | "as_strided"
            | "detach"
            | "alias"
            | "clone"
            | "contiguous"
            | "_to_dense"
    )
}
/// Factories of the same sizes: the mask stays.
fn keeps_mask(name: &str) -> bool {
    matches!(
        name,
        "ones_like"
            | "zeros_like"
            | "empty_like"
            | "full_like"
            | "rand_like"
            | "randn_like"
            | "randint_like"
            | "fill_"
            | "zero_"
    )
}

/// The value with `f` of every tensor.
fn map(v: &Value, f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Value> {
    let all = |l: &[Value]| l.iter().map(|v| map(v, f)).collect::<Result<Vec<_>>>();
    Ok(match v {
        Value::Tensor(t) => Value::Tensor(f(t)?),
        Value::List(l) => Value::List(all(l)?),
        Value::Tuple(l) => Value::Tuple(all(l)?),
        other => other.clone(),
    })
}
fn map_all(args: &[Value], f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Value>> {
    args.iter().map(|v| map(v, f)).collect()
}
fn data(t: &Tensor) -> Result<Tensor> {
    Ok(of(t).map_or_else(|| t.clone(), |m| m.data.clone()))
}
/// Results for data and mask as masked results.
fn zipped(data: Value, mask: Value) -> Result<Value> {
    let pairs = |d: &[Value], m: &[Value]| {
        d.iter().zip(m).map(|(d, m)| zipped(d.clone(), m.clone())).collect::<Result<Vec<_>>>()
    };
    Ok(match (&data, &mask) {
        // what was moved is no longer in order
        (Value::Tensor(d), Value::Tensor(m)) if d.layout() == Layout::SparseCoo => {
            Value::Tensor(wrap(&sparse::coalesce(d)?, &sparse::coalesce(m)?)?)
        }
        (Value::Tensor(d), Value::Tensor(m)) => Value::Tensor(wrap(d, m)?),
        (Value::List(d), Value::List(m)) => Value::List(pairs(d, m)?),
        (Value::Tuple(d), Value::Tuple(m)) => Value::Tuple(pairs(d, m)?),
        _ => data,
    })
}
fn one(t: Tensor) -> Result<Option<Vec<Value>>> {
    Ok(Some(vec![Value::Tensor(t)]))
}

/// Works one operator out.
fn call(info: &'static OpInfo, args: &[Value]) -> Result<Option<Vec<Value>>> {
    if is_masked_function(info) {
        return function(info, args).map(Some);
    }
    let name = base(info);
    let written = info.schema.args.iter().position(|a| a.mutated);
    if keeps_mask(name) {
        let Some(m) = args.first().and_then(|v| tensor_arg(std::slice::from_ref(v), 0).ok()).and_then(of)
        else {
            return Ok(None);
        };
        let results = info.call(&map_all(args, &data)?)?;
        if written.is_some() {
            return Ok(Some(vec![args[0].clone()]));
        }
        let keep = |v| zipped(v, Value::Tensor(m.mask.clone()));
        return results.into_iter().map(keep).collect::<Result<Vec<_>>>().map(Some);
    }
    if matches!(name, "add" | "add_")
        && let Some(sum) = summed(info, args, written)?
    {
        return Ok(Some(sum));
    }
    if written.is_none() && is_structural(name) {
        return structural(info, args).map(Some);
    }
    let t = match args.first() {
        Some(Value::Tensor(t)) => t,
        _ => return Ok(None),
    };
    match (name, of(t)) {
        ("_to_copy", Some(m)) => {
            let made = info.call(&map_all(args, &data)?)?;
            let mut other = args.to_vec();
            other[0] = Value::Tensor(m.mask.clone());
            other[1] = Value::DType(DType::Bool);
            let mask = info.call(&other)?;
            made.into_iter().zip(mask).map(|(d, m)| zipped(d, m)).collect::<Result<Vec<_>>>().map(Some)
        }
        ("_to_sparse", Some(m)) => {
            let layout = match args.get(1) {
                Some(Value::Layout(l)) => *l,
                _ => Layout::SparseCoo,
            };
            ensure!(
                layout != Layout::SparseCsr || t.dim() == 2,
                Value,
                "Only 2D tensors can be converted to the SparseCsr layout but got shape: torch.Size([{}])",
                t.sizes().iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
            );
            let mask = sparse::to_sparse(&m.mask, Some(layout), None, None)?;
            let mask = if layout == Layout::SparseCoo { sparse::coalesce(&mask)? } else { mask };
            one(wrap(&sparse::sparse_mask(&m.data, &mask)?, &mask)?)
        }
        ("_softmax", Some(m)) => {
            let dim = arg::<i64>(args, 1)?;
            one(wrap(&normalization::masked_softmax(&m.data, dim, None, Some(&m.mask))?, &m.mask)?)
        }
        ("_log_softmax", Some(m)) => {
            let dim = arg::<i64>(args, 1)?;
            one(wrap(&normalization::masked_log_softmax(&m.data, dim, None, Some(&m.mask))?, &m.mask)?)
        }
        ("cumsum" | "cumprod", Some(m)) if written.is_none() => {
            let (dim, dtype) = (arg::<i64>(args, 1)?, arg::<Option<DType>>(args, 2)?);
            let f =
                if name == "cumsum" { normalization::masked_cumsum } else { normalization::masked_cumprod };
            one(wrap(&f(&m.data, dim, dtype, Some(&m.mask))?, &m.mask)?)
        }
        ("copy_", Some(m)) => {
            let source = tensor_arg(args, 1)?;
            ensure!(
                of(source).is_none_or(|s| masks_match(&m.mask, &s.mask).unwrap_or(false)),
                Value,
                "args[0] mask and args[1] mask must match but do not"
            );
            info.call(&map_all(args, &data)?)?;
            Ok(Some(vec![args[0].clone()]))
        }
        ("where", _) if args.len() == 3 && written.is_none() => chosen(info, args).map(Some),
        (_, Some(m)) if written.is_none() => match reduced(name, info, m, args)? {
            Some(r) => one(r),
            None if info.pointwise => pointwise(info, args, None).map(Some),
            None => Ok(None),
        },
        _ if info.pointwise && written.is_none_or(|i| i == 0) => pointwise(info, args, written).map(Some),
        _ => Ok(None),
    }
}

/// Operators that view a part, whose gradients have the mask of that part.
fn takes_part(name: &str) -> bool {
    matches!(name, "select" | "slice")
}
/// A sum in which an operand is a gradient of a part: its mask is where any of them came to.
fn summed(info: &'static OpInfo, args: &[Value], written: Option<usize>) -> Result<Option<Vec<Value>>> {
    let operand = |i: usize| match args.get(i) {
        Some(Value::Tensor(t)) => Some(t),
        _ => None,
    };
    let (Some(a), Some(b)) = (operand(0), operand(1)) else { return Ok(None) };
    let Some(whole) = [a, b].into_iter().find_map(|t| of(t)?.whole.clone()) else { return Ok(None) };
    let mask = |t: &Tensor| of(t).filter(|m| m.whole.is_some()).map_or(whole.clone(), |m| m.mask.clone());
    let made = info.call(&map_all(args, &data)?)?;
    let mask_of_sum = core::logical_or(&mask(a), &mask(b))?;
    if written.is_some() {
        if let Some(m) = of(a) {
            core::copy_(&m.mask, &mask_of_sum, false)?;
        }
        return Ok(Some(vec![args[0].clone()]));
    }
    match made.into_iter().next() {
        Some(Value::Tensor(ref t)) => one(wrap_part(t, &mask_of_sum, Some(whole))?),
        _ => Ok(None),
    }
}
/// The same with the data and with the mask.
fn structural(info: &'static OpInfo, args: &[Value]) -> Result<Vec<Value>> {
    let mut given = map_all(args, &data)?;
    if takes_part(base(info))
        && let Some(Value::Tensor(t)) = args.first()
        && let Some(m) = of(t)
    {
        let view = |t: &Tensor| -> Result<Tensor> {
            let mut same = given.clone();
            same[0] = Value::Tensor(t.clone());
            Tensor::from_value(info.call(&same)?.first().unwrap_or(&Value::None))
        };
        if let Some(d) = for_part(m, view)? {
            given[0] = Value::Tensor(d);
        }
    }
    let made = info.call(&given)?;
    let first = args.first().is_some_and(|v| matches!(v, Value::Tensor(_)));
    let mut others = args.to_vec();
    for (i, v) in others.iter_mut().enumerate() {
        // index tensors stay; beside masked tensors in a list, others count wholly
        if i == 0 || !first {
            let mask = |t: &Tensor| match of(t) {
                Some(m) => Ok(m.mask.clone()),
                None => core::ones_like(t, Some(DType::Bool), None, None, None, None),
            };
            *v = map(v, &mask)?;
        }
    }
    let masks = info.call(&map_all(&others, &data)?)?;
    made.into_iter().zip(masks).map(|(d, m)| zipped(d, m)).collect()
}
/// `where`: what is not masked counts wholly.
fn chosen(info: &'static OpInfo, args: &[Value]) -> Result<Vec<Value>> {
    let mask = |i: usize| {
        let t = tensor_arg(args, i)?;
        match of(t) {
            Some(m) => Ok(m.mask.clone()),
            None => core::ones_like(t, Some(DType::Bool), None, None, None, None),
        }
    };
    let condition = data(tensor_arg(args, 0)?)?;
    let masks = core::where_(&condition, &mask(1)?, &mask(2)?)?;
    let made = info.call(&map_all(args, &data)?)?;
    made.into_iter().map(|d| zipped(d, Value::Tensor(masks.clone()))).collect()
}

/// Whether two sparse tensors specify the same places.
pub(crate) fn same_places(a: &Tensor, b: &Tensor) -> Result<bool> {
    match a.layout() {
        Layout::SparseCoo => core::equal(&sparse::indices(a)?, &sparse::indices(b)?),
        Layout::SparseCsr => Ok(core::equal(&sparse::crow_indices(a)?, &sparse::crow_indices(b)?)?
            && core::equal(&sparse::col_indices(a)?, &sparse::col_indices(b)?)?),
        _ => Ok(true),
    }
}
fn masks_match(a: &Tensor, b: &Tensor) -> Result<bool> {
    ensure!(
        a.layout() == b.layout(),
        Value,
        "`a` and `b` must have the same layout. Got torch.{} and torch.{}",
        a.layout().name(),
        b.layout().name()
    );
    match a.layout() {
        Layout::Strided => core::equal(a, b),
        _ => Ok(same_places(a, b)? && core::equal(&sparse::values(a)?, &sparse::values(b)?)?),
    }
}
/// Other values at the places of a sparse tensor.
fn at_places(t: &Tensor, values: &Tensor) -> Result<Tensor> {
    match t.layout() {
        Layout::SparseCoo => {
            sparse::sparse_coo_tensor_unsafe(&sparse::indices(t)?, values, t.sizes(), Some(true))
        }
        l => sparse::sparse_compressed_tensor_unsafe(
            &sparse::crow_indices(t)?,
            &sparse::col_indices(t)?,
            values,
            t.sizes(),
            l,
        ),
    }
}

/// Element by element: the masks agree, and are the result's.
fn pointwise(info: &'static OpInfo, args: &[Value], written: Option<usize>) -> Result<Vec<Value>> {
    let tensors: Vec<&Tensor> =
        args.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t) } else { None }).collect();
    let masked: Vec<&Masked> = tensors.iter().filter_map(|t| of(t)).collect();
    let Some(first) = masked.first() else {
        bail!(Type, "At least one of `a` and `b` must be a MaskedTensor")
    };
    for other in &masked[1..] {
        ensure!(
            masks_match(&first.mask, &other.mask)?,
            Value,
            "Input masks must match. If you need support for this, please open an issue on Github."
        );
    }
    let sparse_data = first.data.layout() != Layout::Strided;
    if sparse_data {
        let kind = if first.data.layout() == Layout::SparseCoo { "sparse_coo" } else { "sparse_csr" };
        for t in &tensors {
            let t = data(t)?;
            let same = t.layout() == first.data.layout();
            ensure!(
                !same || same_places(&t, &first.data)?,
                Value,
                "{kind} indices must match. If you need support for this, please open an issue on Github."
            );
            ensure!(
                !same || t.sizes() == first.data.sizes(),
                Value,
                "input1 and input2 must have the same size for binary functions."
            );
        }
    }
    let plain = |t: &Tensor| {
        let t = data(t)?;
        if sparse_data && t.layout() != Layout::Strided { sparse::values(&t) } else { Ok(t) }
    };
    let results = info.call(&map_all(args, &plain)?)?;
    if written.is_some() {
        return Ok(vec![args[0].clone()]);
    }
    let finish = |v: Value| match &v {
        Value::Tensor(r) if sparse_data => Ok(Value::Tensor(wrap(&at_places(&first.data, r)?, &first.mask)?)),
        Value::Tensor(r) => {
            let mask = if first.mask.sizes() == r.sizes() {
                first.mask.clone()
            } else {
                core::expand(&first.mask, r.sizes(), false)?
            };
            Ok(Value::Tensor(wrap(r, &mask)?))
        }
        _ => Ok(v),
    };
    results.into_iter().map(finish).collect()
}

/// Dimensions of a reduction, whose argument may be a number, a list or nothing.
fn dims_at(args: &[Value], i: usize) -> Result<Option<Vec<i64>>> {
    Ok(match args.get(i) {
        None | Some(Value::None) => None,
        Some(Value::Int(d)) => Some(vec![*d]),
        Some(v) => Some(Vec::<i64>::from_value(v)?).filter(|d| !d.is_empty()),
    })
}
/// Reductions of what the mask leaves, and a mask that says where it leaves anything.
fn reduced(name: &str, info: &'static OpInfo, m: &Masked, args: &[Value]) -> Result<Option<Tensor>> {
    let at = |name: &str| info.schema.args.iter().position(|a| a.name == name);
    let dim = at("dim").map_or(Ok(None), |i| dims_at(args, i))?;
    let keep = at("keepdim").map_or(Ok(false), |i| arg::<bool>(args, i))?;
    let dtype = at("dtype").map_or(Ok(None), |i| arg::<Option<DType>>(args, i))?;
    let correction = at("correction").map_or(Ok(None), |i| arg::<Option<Scalar>>(args, i))?;
    let whole = dim.is_none();
    let values = |t: &Tensor| if t.layout() == Layout::Strided { Ok(t.clone()) } else { sparse::values(t) };
    if m.data.layout() != Layout::Strided && !whole {
        return Ok(None);
    }
    let (x, mask) = (values(&m.data)?, values(&m.mask)?);
    let (d, k, on) = (dim.as_deref(), keep, Some(&mask));
    let single = || match d {
        None => Ok(None),
        Some([one]) => Ok(Some(*one)),
        Some(_) => Err(Error::missing(format!("{name} of masked tensors over several dimensions"))),
    };
    let r = match name {
        "sum" => reduction::masked_sum(&x, d, k, dtype, on)?,
        "prod" => reduction::masked_prod(&x, d, k, dtype, on)?,
        "mean" => reduction::masked_mean(&x, d, k, dtype, on)?,
        "amax" | "max" if info.schema.returns.len() == 1 => reduction::masked_amax(&x, d, k, dtype, on)?,
        "amin" | "min" if info.schema.returns.len() == 1 => reduction::masked_amin(&x, d, k, dtype, on)?,
        "argmax" => reduction::masked_argmax(&x, single()?, k, None, on)?,
        "argmin" => reduction::masked_argmin(&x, single()?, k, None, on)?,
        "var" => reduction::masked_var(&x, d, None, correction, k, None, on)?,
        "std" => reduction::masked_std(&x, d, None, correction, k, None, on)?,
        "logsumexp" => reduction::masked_logsumexp(&x, d, k, None, on)?,
        "linalg_vector_norm" => reduction::masked_norm(&x, arg(args, 1)?, d, k, dtype, on)?,
        "all" => {
            let x = core::masked_fill(&x, &core::logical_not(&mask)?, Scalar::Bool(true))?;
            match d {
                None => core::all(&x)?,
                Some(d) => core::all_dims(&x, Some(d), k)?,
            }
        }
        _ => return Ok(None),
    };
    let left = match d {
        None if !k => core::any(&mask)?,
        d => core::any_dims(&mask, d, k)?,
    };
    let left = if left.sizes() == r.sizes() { left } else { core::reshape(&left, r.sizes())? };
    as_masked(&r, &left).map(Some)
}

/// Functions of `torch.masked`: the input's own mask is the mask where it has one, and the result is an ordinary tensor.
fn function(info: &'static OpInfo, args: &[Value]) -> Result<Vec<Value>> {
    let mut plain = map_all(args, &data)?;
    let names = [("input", "mask"), ("input", "input_mask"), ("other", "other_mask")];
    let place = |name: &str| info.schema.args.iter().position(|a| a.name == name);
    for (input, its) in names {
        if let (Some(i), Some(k)) = (place(input), place(its))
            && let Some(Value::Tensor(t)) = args.get(i)
            && let Some(m) = of(t)
            && let Some(slot) = plain.get_mut(k)
        {
            *slot = Value::Tensor(m.mask.clone());
        }
    }
    info.call(&plain)
}

/// What PyTorch says of an operator that masked tensors have not.
fn refuses(info: &'static OpInfo, _: &[Value]) -> Error {
    let full: Cow<'_, str> =
        if info.name.contains('.') { info.name.into() } else { format!("{}.default", info.name).into() };
    Error::type_(format!(
        "Multiple dispatch failed for 'torch._ops.aten.{full}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n  \
         - tensor subclass <class 'torch.masked.maskedtensor.core.MaskedTensor'>\n\nFor more information, try re-running with \
         TORCH_LOGS=not_implemented"
    ))
}

/// Methods and attributes that masked tensors have of their own.
fn named(name: &str, this: &Tensor, args: &[Value], kwargs: &Kwargs) -> Option<Result<Value>> {
    let m = of(this)?;
    Some(Ok(match name {
        "get_data" => Value::Tensor(m.data.clone()),
        "get_mask" => Value::Tensor(m.mask.clone()),
        "is_sparse" => Value::Bool(this.layout() != Layout::Strided),
        "is_sparse_coo" => Value::Bool(this.layout() == Layout::SparseCoo),
        "is_sparse_csr" => Value::Bool(this.layout() == Layout::SparseCsr),
        "to_tensor" => {
            let value = args.first().or_else(|| kwargs.iter().find(|(k, _)| k == "value").map(|(_, v)| v));
            let Some(value) = value.and_then(Value::as_scalar) else {
                return Some(Err(Error::type_(
                    "MaskedTensor.to_tensor() missing 1 required positional argument: 'value'",
                )));
            };
            return Some(to_tensor(this, value).map(IntoValue::into_value));
        }
        "item" => return Some(item(m)),
        "tolist" => {
            return Some(Err(Error::runtime(
                ".tolist() is not supported for tensor subclasses, got MaskedTensor",
            )));
        }
        _ => return None,
    }))
}
fn item(m: &Masked) -> Result<Value> {
    ensure!(
        m.data.numel() == 1,
        Runtime,
        "a Tensor with {} elements cannot be converted to Scalar",
        m.data.numel()
    );
    ensure!(
        core::all(&m.mask)?.try_item::<bool>()?,
        Value,
        "__torch_dispatch__, aten._local_scalar_dense: expected a mask tensor"
    );
    Ok(m.data.try_item::<Scalar>()?.into_value())
}
