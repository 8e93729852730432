//! Python functions that are more than their operators: those whose result depends on a flag, and those that parse their
//! arguments by hand.

use crate::slots::{Slots, one};
use crate::{Adapt, Asks, Function, NativeFn, Other, Target};
use flambeau_core::api::{indexing, literal};
use flambeau_core::dispatch::convention::Habit;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::{FromValue, Value};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::text::{PrintOptions, Profile};
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::scalar::Scalar;
use flambeau_core::types::schema::OutDtype;
use flambeau_core::{DType, Device, MemoryFormat, bail, ensure, ops};
use std::collections::HashMap;
use std::sync::Arc;

/// Functions under their own names, which rows give.
macro_rules! words {
    ($($f:path),* $(,)?) => { &[$((stringify!($f), $f)),*] };
}

/// How arguments are put in order before overloads are tried: what `python_arguments` of a row names.
const ARGUMENTS: &[(&str, Adapt)] = {
    use crate::aliases::{alpha_second, beta_first, other_is_src, value_second};
    use crate::builtins::to_arguments;
    use crate::layers::{
        bags, dims_once, embedding, fractional, operands, unpooling_1d, unpooling_2d, unpooling_3d,
    };
    words![
        alpha_second,
        bags,
        beta_first,
        chunking,
        coefficients,
        dims_once,
        embedding,
        fractional,
        norm_by_name,
        one_factor,
        operands,
        other_is_src,
        own_sizes,
        pairs_of_dims,
        sequences_fit,
        split_by_name,
        start_of_tensor,
        to_arguments,
        unpooling_1d,
        unpooling_2d,
        unpooling_3d,
        value_second,
    ]
};

/// What takes a call in an operator's place, and when: what `python_instead` of a row names.
const INSTEAD: &[(&str, Asks, Other)] = &[
    ("matrix_norm", is_matrix_norm, matrix_norm),
    ("group_norm_in_python", always, group_norm_in_python),
    ("numbers_as_given", gives_whole_number, numbers_as_given),
    ("sizes_as_given", gives_list, sizes_as_given),
    ("addbmm_growing", grows, addbmm_growing),
    ("lists_out", crate::aliases::has_out, crate::aliases::lists_out),
    ("flatten_named", crate::names::names_the_result, crate::names::flatten_named),
    ("unflatten_named", crate::names::has_pairs, crate::names::unflatten_named),
];
/// `linear_cross_entropy`: the fields of `options` are keywords of the operator. `allow_retain_graph` is none: gradients
/// are computed anew in each backward pass, so that it may always be retained.
fn chunking(args: &[Value], kwargs: &Kwargs) -> Result<(Vec<Value>, Vec<(String, Value)>)> {
    let mut all: Vec<(String, Value)> = kwargs.iter().filter(|(k, _)| k != "options").cloned().collect();
    match kwargs.iter().find(|(k, _)| k == "options").map(|(_, v)| v) {
        None | Some(Value::None) => {}
        Some(Value::Object(o)) => {
            all.push(("chunked".into(), Value::Bool(true)));
            for name in ["batch_chunk_size", "chunking_method", "acc_policy", "acc_dtype"] {
                all.push((name.into(), o.attribute(name)?));
            }
        }
        Some(other) => {
            let name = other.type_name();
            return Err(Error::attribute(format!("'{name}' object has no attribute '_adjust'")));
        }
    }
    Ok((args.to_vec(), all))
}

/// Puts what rows say of calls before their operators, and the functions in place of the operators of the same names.
pub(crate) fn add(functions: &mut HashMap<String, Target>, habits: &[(String, Habit)]) {
    let before =
        |functions: &mut HashMap<String, Target>, path: &str, by: &dyn Fn(Arc<Function>) -> Target| {
            if let Some(target) = functions.remove(path) {
                let f = Arc::new(Function { path: path.to_string(), target });
                functions.insert(path.to_string(), by(f));
            }
        };
    for (path, habit) in habits {
        let Habit::Instead(word) = habit else { continue };
        let known = INSTEAD.iter().find(|i| i.0 == *word);
        debug_assert!(known.is_some(), "python_instead: unknown word `{word}`");
        if let Some((_, asks, other)) = known {
            before(functions, path, &|f| Target::Either(*asks, *other, f));
        }
    }
    for (path, habit) in habits {
        let Habit::Arguments(word) = habit else { continue };
        let known = ARGUMENTS.iter().find(|i| i.0 == *word);
        debug_assert!(known.is_some(), "python_arguments: unknown word `{word}`");
        if let Some((_, adapt)) = known {
            before(functions, path, &|f| Target::Adapted(*adapt, f));
        }
    }
    for (path, asks, other) in crate::windows::EITHER {
        before(functions, path, &|f| Target::Either(*asks, *other, f));
    }
    for (path, habit) in habits {
        let Habit::Flag { name, position, then } = habit else { continue };
        let set = functions.get(*then).cloned();
        debug_assert!(set.is_some(), "python_flag: no function `{then}`");
        if let Some(target) = set {
            let set = Arc::new(Function { path: then.to_string(), target });
            before(functions, path, &|f| Target::Flagged(name, *position, f, Arc::clone(&set)));
        }
    }
    for (path, f) in natives() {
        functions.insert((*path).to_string(), Target::Native(*f));
    }
}

/// All functions that are no operators.
fn natives() -> impl Iterator<Item = &'static (&'static str, NativeFn)> {
    let more = [
        crate::attributes::NATIVE,
        crate::legacy::NATIVE,
        crate::names::NATIVE,
        crate::protocol::NATIVE,
        crate::settings::NATIVE,
        crate::storages::NATIVE,
        crate::types::NATIVE,
    ];
    NATIVE.iter().chain(more.into_iter().flatten())
}

/// Takes a flag out of the arguments.
pub(crate) fn take_flag(
    flag: &str,
    position: usize,
    args: &[Value],
    kwargs: &Kwargs,
) -> (bool, Vec<Value>, Vec<(String, Value)>) {
    let set = |v: &Value| matches!(v, Value::Bool(true));
    let (mut args, mut named) = (args.to_vec(), kwargs.to_vec());
    let mut on = false;
    if let Some(i) = named.iter().position(|(k, _)| k == flag) {
        on = set(&named.remove(i).1);
    } else if args.len() == position + 1 && matches!(args[position], Value::Bool(_)) {
        on = args.pop().is_some_and(|v| set(&v));
    }
    (on, args, named)
}

type Arguments = (Vec<Value>, Vec<(String, Value)>);
/// A mutable look at the argument of that position or name.
fn argument<'a>(a: &'a mut Arguments, position: usize, name: &str) -> Option<&'a mut Value> {
    if position < a.0.len() {
        return a.0.get_mut(position);
    }
    a.1.iter_mut().find(|(k, _)| k == name).map(|(_, v)| v)
}

/// Leading arguments that are given under Python's own names, in their places.
pub(crate) fn in_order(names: &[&str], args: &[Value], kwargs: &Kwargs) -> Arguments {
    let mut a = (args.to_vec(), kwargs.to_vec());
    for name in names.iter().skip(args.len()) {
        match a.1.iter().position(|(k, _)| k == name) {
            Some(i) => a.0.push(a.1.remove(i).1),
            None => break,
        }
    }
    a
}
/// `torch.split(tensor, split_size_or_sections, dim)`
fn split_by_name(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let named = || kwargs.iter().find(|(k, _)| k == "tensor").map(|(_, v)| v);
    if let Some(v) = args.first().or_else(named).filter(|v| !matches!(v, Value::Tensor(_))) {
        bail!(Attribute, "'{}' object has no attribute 'split'", v.type_name());
    }
    Ok(in_order(&["tensor", "split_size_or_sections"], args, kwargs))
}
/// A list or tuple has a size, or a factor, for each of the input's spatial dimensions: a single number counts for all, a
/// list of one does not.
fn one_per_dimension(a: &mut Arguments) -> Result<()> {
    let Some(Value::Tensor(x)) = argument(a, 0, "input") else { return Ok(()) };
    let space = x.sizes().get(2..).unwrap_or(&[]).to_vec();
    let shown = flambeau_core::tensor::geometry::fmt_sizes(&space).to_string();
    for (at, name, what, letter) in
        [(1, "size", "output size of", "o"), (2, "scale_factor", "scale_factor of shape", "s")]
    {
        let Some(v) = argument(a, at, name).filter(|v| v.items().is_some_and(|l| l.len() != space.len()))
        else {
            continue;
        };
        let (first, format) = if at == 1 { ("output", "output size") } else { (name, name) };
        bail!(
            Value,
            "Input and {first} must have the same number of spatial dimensions, but got input with spatial dimensions of \
             {shown} and {what} {}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and {format} in \
             ({letter}1, {letter}2, ...,{letter}K) format.",
            flambeau_core::text::repr(v)?
        );
    }
    Ok(())
}
/// `torch.nn.functional.interpolate`
fn sequences_fit(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    let given =
        |a: &mut Arguments, at, name| argument(a, at, name).is_some_and(|v| !matches!(v, Value::None));
    if !(given(&mut a, 1, "size") && given(&mut a, 2, "scale_factor")) {
        one_per_dimension(&mut a)?;
    }
    let flag = |v: Option<&mut Value>| matches!(v, Some(Value::Bool(true)));
    let by_size = flag(argument(&mut a, 5, "recompute_scale_factor"))
        || matches!(argument(&mut a, 3, "mode"), Some(Value::Str(m)) if m == "area");
    let first = match argument(&mut a, 0, "input") {
        Some(Value::Tensor(x)) => x.sizes().get(2).copied(),
        _ => None,
    };
    // Python multiplies a size by whatever it is given: a text becomes longer, and then is no number
    if let (true, Some(n)) = (by_size, first)
        && let Some(Value::Str(text)) = argument(&mut a, 2, "scale_factor")
    {
        let text = Value::Str(text.repeat(usize::try_from(n.min(1 << 10)).unwrap_or(0)));
        bail!(Value, "invalid literal for int() with base 10: {}", flambeau_core::text::repr(&text)?);
    }
    Ok(a)
}
/// A single scale factor counts for every dimension.
fn one_factor(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    let mut given = |at, name| argument(&mut a, at, name).is_some_and(|v| !matches!(v, Value::None));
    ensure!(
        !given(1, "size") || !given(2, "scale_factor"),
        Value,
        "only one of size or scale_factor should be defined"
    );
    one_per_dimension(&mut a)?;
    if let Some(v) = argument(&mut a, 2, "scale_factor")
        && let Some(s) = v.as_scalar()
    {
        *v = Value::List(vec![Value::Float(s.to_f64())]);
    }
    Ok(a)
}
/// `None` in an output size stands for the input's own size.
fn own_sizes(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    let sizes = match argument(&mut a, 0, "input") {
        Some(Value::Tensor(t)) => t.sizes().to_vec(),
        _ => return Ok(a),
    };
    if let Some(Value::List(l) | Value::Tuple(l)) = argument(&mut a, 1, "output_size") {
        ensure!(sizes.len() > l.len(), Value, "Input dimension should be at least {}", l.len() + 1);
        let own = &sizes[sizes.len() - l.len()..];
        for (v, n) in l.iter_mut().zip(own) {
            if matches!(v, Value::None) {
                *v = Value::Int(*n);
            }
        }
    }
    Ok(a)
}
/// The start of `narrow` may be a tensor.
fn start_of_tensor(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    if let Some(v) = argument(&mut a, 2, "start")
        && let Value::Tensor(t) = v
    {
        ensure!(
            t.dim() == 0 && t.dtype().is_integral(false),
            Runtime,
            "start must be an 0-dim integral Tensor."
        );
        *v = Value::Int(t.try_item::<i64>()?);
    }
    Ok(a)
}
/// The Frobenius norm is the 2-norm of all elements.
fn norm_by_name(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    if is_matrix_norm(args, kwargs) {
        return Ok(a);
    }
    if let Some(v) = argument(&mut a, 1, "p")
        && matches!(v, Value::Str(_))
    {
        *v = Value::Int(2);
    }
    Ok(a)
}
fn always(_: &[Value], _: &Kwargs) -> bool {
    true
}
/// `torch.nn.functional.group_norm` looks at what is left for each group first.
fn group_norm_in_python(f: &Function, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let given = |at: usize, name: &str| {
        args.get(at).or_else(|| kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v))
    };
    if let (Some(Value::Tensor(x)), Some(Value::Int(groups))) = (given(0, "input"), given(1, "num_groups"))
        && let [n, c, rest @ ..] = x.sizes()
    {
        ensure!(*groups != 0, Value, "integer division or modulo by zero");
        // in numbers that hold any product and any negative: Python's `//` goes down
        let (all, by) = (i128::from(*n) * i128::from(*c), i128::from(*groups));
        let down = i128::from(all % by != 0 && by < 0);
        let rows = i64::try_from(all / by - down).unwrap_or(i64::MAX);
        let sizes: Vec<i64> = [rows, *groups].into_iter().chain(rest.iter().copied()).collect();
        ensure!(
            rows.saturating_mul(rest.iter().fold(1, |n: i64, s| n.saturating_mul(*s))) != 1,
            Value,
            "Expected more than 1 value per channel when training, got input size {}",
            flambeau_core::tensor::geometry::fmt_sizes(&sizes)
        );
    }
    f.call(args, kwargs)
}
/// Whether a keyword is a whole number.
fn gives_whole_number(_: &[Value], kwargs: &Kwargs) -> bool {
    kwargs.iter().any(|(_, v)| matches!(v, Value::Int(_)))
}
/// Errors show numbers as they were given, which may be whole where the function takes fractions.
fn numbers_as_given(f: &Function, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    f.call(args, kwargs).map_err(|e| {
        let whole = kwargs.iter().filter_map(|(_, v)| if let Value::Int(i) = v { Some(*i) } else { None });
        let text = whole.fold(e.message().to_string(), |t, i| {
            t.replace(&format!("got: {i}.0 instead"), &format!("got: {i} instead"))
        });
        if text == e.message() { e } else { Error::new(e.kind(), text) }
    })
}
/// The sizes of a result, where they are given as a list.
fn gives_list(args: &[Value], kwargs: &Kwargs) -> bool {
    list_of_sizes(args, kwargs).is_some()
}
fn list_of_sizes(args: &[Value], kwargs: &Kwargs) -> Option<Vec<i64>> {
    let given = args.get(1).or_else(|| kwargs.iter().find(|(k, _)| k == "size").map(|(_, v)| v));
    given.filter(|v| matches!(v, Value::List(_))).and_then(|v| Vec::<i64>::from_value(v).ok())
}
/// Errors show sizes as they were given: as a tuple, which is the rule, or as a list.
fn sizes_as_given(f: &Function, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    f.call(args, kwargs).map_err(|e| {
        let Some(sizes) = list_of_sizes(args, kwargs) else { return e };
        let tuple = flambeau_core::text::size_tuple(&sizes);
        if !e.message().contains(&tuple) {
            return e;
        }
        let list = flambeau_core::tensor::geometry::fmt_sizes(&sizes).to_string();
        Error::new(e.kind(), e.message().replace(&tuple, &list))
    })
}
/// Norms that are those of matrices: called so, or the Frobenius norm over more than two dimensions.
fn is_matrix_norm(args: &[Value], kwargs: &Kwargs) -> bool {
    let mut a = (args.to_vec(), kwargs.to_vec());
    let many = argument(&mut a, 2, "dim").is_some_and(|d| d.items().is_some_and(|l| l.len() > 2));
    match argument(&mut a, 1, "p") {
        Some(Value::Str(p)) => p != "fro" || many,
        _ => false,
    }
}
/// `torch.norm` with such a norm.
fn matrix_norm(_: &Function, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["input", "p", "dim", "keepdim", "out", "dtype"];
    let s = Slots::new("norm", names, args, kwargs)?;
    let given = s.must(0)?;
    ensure!(
        matches!(given, Value::Tensor(_)),
        Attribute,
        "'{}' object has no attribute 'layout'",
        given.type_name()
    );
    let mut x = s.tensor()?;
    let p: String = s.get(1)?.unwrap_or_default();
    ensure!(p == "nuc" || p == "fro", Runtime, "linalg.matrix_norm: Order {p} not supported.");
    if let Some(d) = s.get::<DType>(5)? {
        x = ops::to(&x, Some(d), None, None, None, false, false, None)?;
    }
    let dim = match s.values[2] {
        None | Some(Value::None) => (0..x.dim() as i64).collect(),
        Some(Value::Int(d)) => vec![*d],
        Some(v) => Vec::<i64>::from_value(v)?,
    };
    let result = ops::nuclear_norm_dim(&x, &dim, s.get::<bool>(3)?.unwrap_or(false))?;
    match s.values[4] {
        None | Some(Value::None) => one(result),
        Some(out) => {
            let mut out = Tensor::from_value(out)?;
            ensure!(
                out.dtype() == result.dtype(),
                Runtime,
                "linalg.matrix_norm expected out tensor dtype {} but got: {}",
                result.dtype().scalar_type_name(),
                out.dtype().scalar_type_name()
            );
            flambeau_core::backend::out::refuse_leaves_late(None, [&out], |_| Ok(()))?;
            flambeau_core::backend::out::copy_to_out(&OutDtype::EXACT, &mut out, &result)?;
            one(out)
        }
    }
}
/// `x.addbmm_(..)` where the result is larger than `x`.
fn grows(args: &[Value], kwargs: &Kwargs) -> bool {
    let a = in_order(&["self", "batch1", "batch2"], args, kwargs);
    match &a.0[..] {
        [Value::Tensor(x), Value::Tensor(b), Value::Tensor(c)] if b.dim() == 3 && c.dim() == 3 => {
            x.sizes() != [b.sizes()[1], c.sizes()[2]]
        }
        _ => false,
    }
}
/// PyTorch gives `x` the sizes of the result then.
fn addbmm_growing(_: &Function, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["self", "batch1", "batch2", "beta", "alpha"];
    let s = Slots::new("addbmm_", names, args, kwargs)?;
    let mut x = s.tensor()?;
    let (b, c) = (Tensor::from_value(s.must(1)?)?, Tensor::from_value(s.must(2)?)?);
    let scale = |i: usize| Ok::<Scalar, Error>(s.get::<Scalar>(i)?.unwrap_or(Scalar::Int(1)));
    let result = ops::addbmm(&x, &b, &c, scale(3)?, scale(4)?)?;
    x.try_resize_(result.sizes(), None)?;
    ops::copy_(&x, &result, false)?;
    one(x)
}
/// The coefficients of a sum of cosines are a list or tuple.
fn coefficients(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    if let Some(v) = argument(&mut a, usize::MAX, "a") {
        ensure!(v.items().is_some(), Type, "Coefficients must be a list/tuple");
    }
    Ok(a)
}
/// `tensordot`'s `dims`: a number of dimensions at the ends, or a pair of lists.
fn pairs_of_dims(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = in_order(&["a", "b"], args, kwargs);
    let at = a.1.iter().position(|(k, _)| k == "dims");
    let dims = match at {
        Some(i) => a.1.remove(i).1,
        None if a.0.len() == 3 => a.0.remove(2),
        None if a.0.len() == 2 => Value::Int(2),
        None => return Ok(a),
    };
    let rank = match &a.0[..] {
        [Value::Tensor(t), Value::Tensor(u)] => t.dim().min(u.dim()) as i64,
        [x, y] if matches!(dims, Value::Int(0..)) => {
            let no_tensor = if matches!(x, Value::Tensor(_)) { y } else { x };
            bail!(Attribute, "'{}' object has no attribute 'dim'", no_tensor.type_name());
        }
        _ => return Ok(a),
    };
    let ints = |v: &Value| -> Result<Value> {
        Ok(match v {
            Value::Int(_) => Value::List(vec![v.clone()]),
            Value::Tensor(t) => t.try_tolist()?,
            v => v.clone(),
        })
    };
    let list = |r: std::ops::Range<i64>| Value::List(r.map(Value::Int).collect());
    let dims = match &dims {
        Value::Tensor(t) if t.numel() == 1 => Value::Int(t.try_item()?),
        Value::Tensor(t) => t.try_tolist()?,
        d => d.clone(),
    };
    let (x, y) = match &dims {
        Value::Int(n) => {
            ensure!(*n >= 0, Runtime, "tensordot expects dims >= 0, but got dims={n}");
            ensure!(*n <= rank, Runtime, "tensordot expects dims < ndim_a or ndim_b, but got dims={n}");
            // counted from the end, as the messages have it
            (list(-n..0), list(0..*n))
        }
        v => match v.items() {
            Some([x, y]) => (ints(x)?, ints(y)?),
            Some(l) if l.len() < 2 => {
                let n = l.len();
                return Err(Error::value(format!("not enough values to unpack (expected 2, got {n})")));
            }
            Some(_) => return Err(Error::value("too many values to unpack (expected 2)")),
            None => {
                let shown = match v {
                    Value::Str(s) => s.clone(),
                    v => flambeau_core::text::repr(v)?,
                };
                return Err(Error::runtime(format!(
                    "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two \
                     lists, but got dims={shown}"
                )));
            }
        },
    };
    a.0.truncate(2);
    a.0.extend([x, y]);
    Ok(a)
}

/// `x.float(memory_format=...)` and its like.
fn cast(name: &'static str, d: DType, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["self", "memory_format"], args, kwargs)?;
    let format = s.get::<MemoryFormat>(1)?;
    one(ops::to(&s.tensor()?, Some(d), None, None, None, false, false, format)?)
}
/// Nested lists hold numbers, and whole numbers that their dtype holds.
pub(crate) fn data_fits(v: &Value, dtype: Option<DType>) -> Result<()> {
    match v {
        Value::List(l) | Value::Tuple(l) => l.iter().try_for_each(|v| data_fits(v, dtype)),
        Value::Str(_) => Err(Error::value("too many dimensions 'str'")),
        Value::None | Value::Dict(_) | Value::Object(_) => {
            Err(Error::runtime(format!("Could not infer dtype of {}", v.type_name())))
        }
        Value::Int(i) => {
            let (low, high) = match dtype {
                Some(DType::U8) => (0, i64::from(u8::MAX)),
                Some(DType::I8) => (i64::from(i8::MIN), i64::from(i8::MAX)),
                Some(DType::I16) => (i64::from(i16::MIN), i64::from(i16::MAX)),
                Some(DType::I32) => (i64::from(i32::MIN), i64::from(i32::MAX)),
                Some(DType::U16) => (0, i64::from(u16::MAX)),
                Some(DType::U32) => (0, i64::from(u32::MAX)),
                _ => (i64::MIN, i64::MAX),
            };
            ensure!(
                (low..=high).contains(i),
                Runtime,
                "value cannot be converted to type {} without overflow",
                dtype.map_or("int64", DType::name)
            );
            Ok(())
        }
        _ => Ok(()),
    }
}
/// A tensor of nested lists, numbers or a tensor, with the options at positions 1 to 3.
fn made(s: &Slots<'_>, requires_grad: Option<bool>) -> Result<Vec<Value>> {
    let dtype = s.get::<DType>(1)?;
    let t = match s.must(0)? {
        Value::Tensor(t) => ops::clone(&t.alias_detached(), None)?,
        v => {
            data_fits(v, dtype)?;
            literal::from_value_as(v, dtype)?
        }
    };
    let device =
        s.device(2)?.or_else(|| match (s.values[0], flambeau_core::settings::get_default_device()) {
            (Some(Value::Tensor(_)), _) | (_, Device::Cpu) => None,
            (_, d) => Some(d),
        });
    let t = ops::to(&t, dtype, None, device, None, false, false, None)?;
    if requires_grad == Some(true) {
        (flambeau_core::tensor::graph::engine()?.set_requires_grad)(&t, true)?;
    }
    one(t)
}
/// `torch.unique` and its like: which of values, inverse and counts are results.
fn chosen(all: (Tensor, Tensor, Tensor), inverse: bool, counts: bool) -> Result<Vec<Value>> {
    let mut v = vec![Value::Tensor(all.0)];
    if inverse {
        v.push(Value::Tensor(all.1));
    }
    if counts {
        v.push(Value::Tensor(all.2));
    }
    Ok(v)
}
fn unique(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["input", "sorted", "return_inverse", "return_counts", "dim"];
    let s = Slots::new("unique", names, args, kwargs)?;
    let flag = |i: usize, d: bool| Ok::<bool, Error>(s.get::<bool>(i)?.unwrap_or(d));
    let (sorted, inverse, counts) = (flag(1, true)?, flag(2, false)?, flag(3, false)?);
    let all = match s.get::<i64>(4)? {
        None => ops::unique(&s.tensor()?, sorted, inverse, counts)?,
        Some(d) => ops::unique_dim(&s.tensor()?, d, sorted, inverse, counts)?,
    };
    chosen(all, inverse, counts)
}
fn unique_consecutive(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["input", "return_inverse", "return_counts", "dim"];
    let s = Slots::new("unique_consecutive", names, args, kwargs)?;
    let flag = |i: usize| Ok::<bool, Error>(s.get::<bool>(i)?.unwrap_or(false));
    let (inverse, counts) = (flag(1)?, flag(2)?);
    chosen(ops::unique_consecutive(&s.tensor()?, inverse, counts, s.get::<i64>(3)?)?, inverse, counts)
}
fn set_printoptions(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["precision", "threshold", "edgeitems", "linewidth", "profile", "sci_mode"];
    let s = Slots::new("set_printoptions", names, args, kwargs)?;
    let mut o = PrintOptions::new();
    match s.get::<String>(4)?.as_deref() {
        None => {}
        Some("default") => o = o.profile(Profile::Default),
        Some("short") => o = o.profile(Profile::Short),
        Some("full") => o = o.profile(Profile::Full),
        Some(_) => {}
    }
    let size = |i: usize| -> Result<Option<usize>> {
        Ok(match s.values[i] {
            Some(Value::Float(f)) if *f == f64::INFINITY => Some(usize::MAX),
            _ => s.get::<i64>(i)?.map(|v| v.max(0) as usize),
        })
    };
    if let Some(n) = size(0)? {
        o = o.precision(n);
    }
    if let Some(n) = size(1)? {
        o = o.threshold(n);
    }
    if let Some(n) = size(2)? {
        o = o.edgeitems(n);
    }
    if let Some(n) = size(3)? {
        o = o.linewidth(n);
    }
    if let Some(on) = s.get::<bool>(5)? {
        o = o.sci_mode(on);
    }
    flambeau_core::text::set_printoptions(o);
    Ok(vec![Value::None])
}
fn setitem(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("__setitem__", &["self", "index", "value"], args, kwargs)?;
    indexing::setitem(&s.tensor()?, s.must(1)?, s.must(2)?)?;
    Ok(vec![Value::None])
}
fn scalar_tensor(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["s", "dtype", "device", "layout", "requires_grad", "pin_memory"];
    let s = Slots::new("scalar_tensor", names, args, kwargs)?;
    let number = s.must(0)?.as_scalar().unwrap_or(Scalar::Int(0));
    let d = s.get::<DType>(1)?.unwrap_or_else(flambeau_core::iter::promotion::default_dtype);
    let t = ops::full(&[], number, Some(d), None, s.device(2)?, None)?;
    if s.get::<bool>(4)? == Some(true) {
        (flambeau_core::tensor::graph::engine()?.set_requires_grad)(&t, true)?;
    }
    one(t)
}

/// Name and body.
const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.Tensor.__getitem__", |a, k| {
        let s = Slots::new("__getitem__", &["self", "index"], a, k)?;
        one(indexing::getitem(&s.tensor()?, s.must(1)?)?)
    }),
    ("torch.Tensor.__setitem__", setitem),
    ("torch.Tensor.__repr__", |a, k| {
        let s = Slots::new("__repr__", &["self"], a, k)?;
        one(flambeau_core::text::to_text(&s.tensor()?)?)
    }),
    ("torch.set_printoptions", set_printoptions),
    ("torch.unique", unique),
    ("torch.Tensor.unique", unique),
    ("torch.unique_consecutive", unique_consecutive),
    ("torch.Tensor.unique_consecutive", unique_consecutive),
    ("torch.tensor", |a, k| {
        let names: &[&str] = &["data", "dtype", "device", "requires_grad", "pin_memory", "names"];
        let s = Slots::new("tensor", names, a, k)?;
        let made = made(&s, s.get::<bool>(3)?)?;
        if let Some(names) = s.values[5].map_or(Ok(None), crate::names::of_keyword)? {
            crate::names::give(&made, names)?;
        }
        Ok(made)
    }),
    ("torch.as_tensor", |a, k| {
        let s = Slots::new("as_tensor", &["data", "dtype", "device"], a, k)?;
        match s.must(0)? {
            Value::Tensor(t) => one(ops::to(t, s.get(1)?, None, s.device(2)?, None, false, false, None)?),
            _ => made(&s, None),
        }
    }),
    ("torch.Tensor.new_tensor", |a, k| {
        let names: &[&str] = &["data", "dtype", "device", "requires_grad", "layout", "pin_memory"];
        let Some((Value::Tensor(like), rest)) = a.split_first() else {
            return Err(Error::type_("new_tensor(): expected a Tensor"));
        };
        let s = Slots::new("new_tensor", names, rest, k)?;
        let dtype = s.get::<DType>(1)?.unwrap_or(like.dtype());
        let t = match s.must(0)? {
            Value::Tensor(t) => ops::clone(&t.alias_detached(), None)?,
            v => literal::from_value_as(v, Some(dtype))?,
        };
        let t = ops::to(&t, Some(dtype), None, s.device(2)?, None, false, false, None)?;
        if s.get::<bool>(3)? == Some(true) {
            (flambeau_core::tensor::graph::engine()?.set_requires_grad)(&t, true)?;
        }
        one(t)
    }),
    ("torch.scalar_tensor", scalar_tensor),
    ("torch.Tensor.type_as", |a, k| {
        let s = Slots::new("type_as", &["self", "other"], a, k)?;
        let other = Tensor::from_value(s.must(1)?)?;
        let t = s.tensor()?;
        one(ops::to(&t, Some(other.dtype()), None, Some(other.device()), None, false, false, None)?)
    }),
    ("torch.Tensor.is_same_size", |a, k| {
        let s = Slots::new("is_same_size", &["self", "other"], a, k)?;
        one(s.tensor()?.sizes() == Tensor::from_value(s.must(1)?)?.sizes())
    }),
    ("torch.is_same_size", |a, k| {
        let s = Slots::new("is_same_size", &["input", "other"], a, k)?;
        one(s.tensor()?.sizes() == Tensor::from_value(s.must(1)?)?.sizes())
    }),
    ("torch.Tensor.__contains__", |a, k| {
        let s = Slots::new("__contains__", &["self", "element"], a, k)?;
        let element = match s.must(1)? {
            Value::Tensor(t) => t.clone(),
            v => match v.as_scalar() {
                Some(n) => flambeau_core::api::ergonomic::wrapped_number(n)?,
                None => {
                    return Err(Error::runtime(format!(
                        "Tensor.__contains__ only supports Tensor or scalar, but you passed in a <class '{}'>.",
                        v.type_name()
                    )));
                }
            },
        };
        one(ops::any(&ops::eq(&s.tensor()?, &element)?)?.try_item::<bool>()?)
    }),
    ("torch.Tensor.__reversed__", |a, k| {
        let s = Slots::new("__reversed__", &["self"], a, k)?;
        let t = s.tensor()?;
        if t.dim() == 0 {
            return one(t);
        }
        one(ops::flip(&t, &[0])?)
    }),
    ("torch.Tensor.bool", |a, k| cast("bool", DType::Bool, a, k)),
    ("torch.Tensor.byte", |a, k| cast("byte", DType::U8, a, k)),
    ("torch.Tensor.char", |a, k| cast("char", DType::I8, a, k)),
    ("torch.Tensor.short", |a, k| cast("short", DType::I16, a, k)),
    ("torch.Tensor.int", |a, k| cast("int", DType::I32, a, k)),
    ("torch.Tensor.long", |a, k| cast("long", DType::I64, a, k)),
    ("torch.Tensor.half", |a, k| cast("half", DType::F16, a, k)),
    ("torch.Tensor.bfloat16", |a, k| cast("bfloat16", DType::BF16, a, k)),
    ("torch.Tensor.float", |a, k| cast("float", DType::F32, a, k)),
    ("torch.Tensor.double", |a, k| cast("double", DType::F64, a, k)),
    ("torch.Tensor.chalf", |a, k| cast("chalf", DType::C32, a, k)),
    ("torch.Tensor.cfloat", |a, k| cast("cfloat", DType::C64, a, k)),
    ("torch.Tensor.cdouble", |a, k| cast("cdouble", DType::C128, a, k)),
    ("torch.unravel_index", |a, k| {
        let s = Slots::new("unravel_index", &["indices", "shape"], a, k)?;
        if let Some(v) = s.values[0].filter(|v| !matches!(v, Value::Tensor(_))) {
            bail!(Attribute, "'{}' object has no attribute 'is_complex'", v.type_name());
        }
        let shape = match s.must(1)? {
            Value::Int(n) => vec![*n],
            v => Vec::<i64>::from_value(v)?,
        };
        Ok(vec![Value::Tuple(unravel(&s.tensor()?, &shape)?.into_iter().map(Value::Tensor).collect())])
    }),
];

/// The coordinates that flat positions stand for, one tensor per dimension.
fn unravel(indices: &Tensor, shape: &[i64]) -> Result<Vec<Tensor>> {
    ensure!(
        indices.dtype().is_integral(false),
        Type,
        "expected 'indices' to be integer dtype, but got {}",
        indices.dtype()
    );
    let shown = flambeau_core::text::size_tuple(shape);
    ensure!(shape.iter().all(|s| *s >= 0), Value, "'shape' cannot have negative values, but got {shown}");
    ensure!(
        indices.numel() == 0 || !shape.contains(&0),
        Value,
        "'shape' cannot have zero dimensions when 'indices' is non-empty, but got {shown}"
    );
    // the coefficients are int64, and so are the coordinates
    let indices = &ops::to(indices, Some(DType::I64), None, None, None, false, false, None)?;
    let (mut all, mut after) = (Vec::new(), 1i64);
    for n in shape.iter().rev() {
        let floor = |t: &Tensor, by: i64| {
            ops::floor_divide(t, &flambeau_core::api::ergonomic::wrapped_number(Scalar::Int(by.max(1)))?)
        };
        let q = floor(indices, after)?;
        all.push(ops::remainder(
            &q,
            &flambeau_core::api::ergonomic::wrapped_number(Scalar::Int((*n).max(1)))?,
        )?);
        after = after.saturating_mul(*n);
    }
    all.reverse();
    Ok(all)
}
