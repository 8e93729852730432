//! Python's operators and built-in functions on values.

use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{Error, Result, Value};
use flambeau_library as library;
use std::cmp::Ordering;

/// Functions that do something beside their result.
pub(crate) fn is_impure(target: &str) -> bool {
    matches!(target, "torch._assert" | "torch._assert_async" | "operator.setitem" | "_operator.setitem")
        || target.starts_with("torch.ops.aten._assert_")
        || target.starts_with("torch.ops.aten.sym_constrain_range")
        || target == "torch.ops.aten._linalg_check_errors.default"
        || matches!(
            target,
            "torch._C._set_grad_enabled" | "torch.amp._enter_autocast" | "torch.amp._exit_autocast"
        )
        || schema_writes(target)
        || draws(target)
}
fn schema_writes(target: &str) -> bool {
    let Some(name) = target.strip_prefix("torch.ops.").and_then(|t| t.split('.').nth(1)) else {
        return false;
    };
    name.ends_with('_') && !name.ends_with("__")
}
/// Functions that draw random numbers.
fn draws(target: &str) -> bool {
    let name = match target.strip_prefix("torch.ops.aten.") {
        Some(rest) => rest.split('.').next().unwrap_or(rest),
        None => target.strip_prefix("torch.").unwrap_or(""),
    };
    matches!(
        name,
        "rand"
            | "randn"
            | "randint"
            | "randperm"
            | "rand_like"
            | "randn_like"
            | "randint_like"
            | "bernoulli"
            | "multinomial"
            | "normal"
            | "poisson"
            | "native_dropout"
            | "dropout"
            | "nn.functional.dropout"
    )
}
/// Functions of `torch.nn.functional` that a flag splits in two.
pub(crate) fn is_dispatched_by_flag(name: &str) -> bool {
    let Some(rest) = name.find("max_pool").map(|i| (&name[..i], &name[i + 8..])) else { return false };
    matches!(rest.0, "" | "fractional_" | "adaptive_")
        && matches!(rest.1, "1d" | "2d" | "3d")
        && (rest.0 != "fractional_" || rest.1 != "1d")
}

/// An integer that an index is; `None` for `None`.
pub(crate) fn index(v: &Value) -> Result<Option<i64>> {
    match v {
        Value::None => Ok(None),
        Value::Int(i) => Ok(Some(*i)),
        Value::Bool(b) => Ok(Some(i64::from(*b))),
        Value::Tensor(_) => index(&library::method(v, "item", &[], &[])?),
        other => {
            Err(Error::type_(format!("'{}' object cannot be interpreted as an integer", other.type_name())))
        }
    }
}
/// Whether a value counts as true.
///
/// ```
/// use torch::fx::python::{equal, truth};
/// use torch::library::Value;
/// assert!(truth(&Value::Int(3))? && !truth(&Value::Str(String::new()))?);
/// assert!(equal(&Value::Int(1), &Value::Float(1.0)));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A tensor of several elements.
pub fn truth(v: &Value) -> Result<bool> {
    Ok(match v {
        Value::None => false,
        Value::Str(s) => !s.is_empty(),
        Value::Dict(d) => !d.is_empty(),
        Value::Tensor(_) => matches!(library::method(v, "__bool__", &[], &[])?, Value::Bool(true)),
        _ => match (v.as_scalar(), v.items()) {
            (Some(s), _) => s.to_bool(),
            (_, Some(l)) => !l.is_empty(),
            _ => true,
        },
    })
}
/// Python's `==` of values without tensors.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a.as_scalar(), b.as_scalar()) {
        (Some(x), Some(y)) => return x.to_complex() == y.to_complex(),
        (None, None) => {}
        _ => return false,
    }
    match (a, b) {
        (Value::List(x), Value::List(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Tuple(_) | Value::Named(_), Value::Tuple(_) | Value::Named(_)) => {
            let (x, y) = (a.items().unwrap_or(&[]), b.items().unwrap_or(&[]));
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y))
        }
        _ => crate::argument::same_value(a, b),
    }
}
fn order(a: &Value, b: &Value) -> Result<Option<Ordering>> {
    match (a, b, a.as_scalar(), b.as_scalar()) {
        (Value::Int(x), Value::Int(y), ..) => Ok(Some(x.cmp(y))),
        (Value::Str(x), Value::Str(y), ..) => Ok(Some(x.cmp(y))),
        (.., Some(x), Some(y)) => Ok(x.to_f64().partial_cmp(&y.to_f64())),
        _ => Err(unsupported("<", a, b)),
    }
}
fn unsupported(op: &str, a: &Value, b: &Value) -> Error {
    Error::type_(format!("unsupported operand type(s) for {op}: '{}' and '{}'", a.type_name(), b.type_name()))
}
fn is_foreign(v: &Value) -> bool {
    matches!(v, Value::Tensor(_) | Value::Object(_))
}

/// An item of a list, tuple, dictionary or tensor.
///
/// ```
/// use torch::fx::python::{call, getitem, operator};
/// use torch::library::Value;
/// let list = Value::List(vec![1.into(), 2.into(), 3.into()]);
/// assert!(matches!(getitem(&list, &(-1).into())?, Value::Int(3)));
/// assert!(matches!(operator("add", &[1.into(), 2.into()])?, Value::Int(3)));
/// assert!(matches!(call("operator.mul", &[3.into(), 2.into()], &[])?, Value::Int(6)));
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// An index out of range; a key that is not there.
pub fn getitem(of: &Value, key: &Value) -> Result<Value> {
    if let Value::Tensor(_) | Value::Object(_) = of {
        return library::method(of, "__getitem__", std::slice::from_ref(key), &[]);
    }
    if let (Value::Dict(d), Value::Str(k)) = (of, key) {
        let found = d.iter().find(|(n, _)| n == k).map(|(_, v)| v.clone());
        return found.ok_or_else(|| Error::index(format!("'{k}'")));
    }
    let Some(items) = of.items() else {
        return Err(Error::type_(format!("'{}' object is not subscriptable", of.type_name())));
    };
    let n = items.len() as i64;
    if let Value::Slice([from, to, step]) = key {
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err(Error::value("slice step cannot be zero"));
        }
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let clamp = |v: Option<i64>, default: i64| {
            v.map_or(default, |v| (if v < 0 { v.saturating_add(n) } else { v }).clamp(low, high))
        };
        let (mut at, end) =
            if step > 0 { (clamp(*from, 0), clamp(*to, n)) } else { (clamp(*from, n - 1), clamp(*to, -1)) };
        let mut all = Vec::new();
        while (step > 0 && at < end) || (step < 0 && at > end) {
            all.push(items[at as usize].clone());
            at = match at.checked_add(step) {
                Some(at) => at,
                None => break,
            };
        }
        return Ok(if matches!(of, Value::List(_)) { Value::List(all) } else { Value::Tuple(all) });
    }
    let what = if matches!(of, Value::List(_)) { "list" } else { "tuple" };
    let i = index(key)?
        .ok_or_else(|| Error::type_(format!("{what} indices must be integers or slices, not NoneType")))?;
    let at = if i < 0 { i + n } else { i };
    if !(0..n).contains(&at) {
        return Err(Error::index(format!("{what} index out of range")));
    }
    Ok(items[at as usize].clone())
}

/// A function of Python's module `operator`.
///
/// # Errors
/// `Missing` for a name that is none; operands that do not fit.
pub fn operator(name: &str, args: &[Value]) -> Result<Value> {
    match (name, args) {
        ("getitem", [a, b]) => return getitem(a, b),
        ("setitem", [a, b, c]) => {
            return library::method(a, "__setitem__", &[b.clone(), c.clone()], &[]);
        }
        ("neg" | "pos" | "invert" | "inv" | "abs" | "not_" | "truth", [a]) => return unary(name, a),
        ("is_", [a, b]) => return Ok(Value::Bool(crate::argument::same_value(a, b))),
        ("is_not", [a, b]) => return Ok(Value::Bool(!crate::argument::same_value(a, b))),
        ("contains", [a, b]) => {
            let l = a.items().ok_or_else(|| {
                Error::type_(format!("argument of type '{}' is not iterable", a.type_name()))
            })?;
            return Ok(Value::Bool(l.iter().any(|v| equal(v, b))));
        }
        ("index", [a]) => return index(a).map(|i| i.map_or(Value::None, Value::Int)),
        _ => {}
    }
    let [a, b] = args else {
        return Err(Error::type_(format!("{name} expected 2 arguments, got {}", args.len())));
    };
    // `a += b` changes a tensor
    if let Some(plain) = name.strip_prefix('i')
        && let Value::Tensor(_) = a
        && let Some(base) =
            [plain.to_string(), format!("{plain}_")].into_iter().find(|n| crate::code::infix(n).is_some())
    {
        let method = format!("__i{}__", base.trim_end_matches('_'));
        if library::exists(&format!("torch.Tensor.{method}")) {
            return library::method(a, &method, std::slice::from_ref(b), &[]);
        }
        return operator(&base, args);
    }
    let plain = match name.strip_prefix('i') {
        Some(p) if crate::code::infix(name).is_none() => {
            [p.to_string(), format!("{p}_")].into_iter().find(|n| crate::code::infix(n).is_some())
        }
        _ => None,
    };
    let name = plain.as_deref().unwrap_or(name);
    if crate::code::infix(name).is_none() {
        return Err(Error::missing(format!("operator.{name}")));
    }
    if is_foreign(a) || is_foreign(b) {
        return foreign(name, a, b);
    }
    match name {
        "eq" => return Ok(Value::Bool(equal(a, b))),
        "ne" => return Ok(Value::Bool(!equal(a, b))),
        "lt" => return Ok(Value::Bool(order(a, b)?.is_some_and(Ordering::is_lt))),
        "le" => return Ok(Value::Bool(order(a, b)?.is_some_and(Ordering::is_le))),
        "gt" => return Ok(Value::Bool(order(a, b)?.is_some_and(Ordering::is_gt))),
        "ge" => return Ok(Value::Bool(order(a, b)?.is_some_and(Ordering::is_ge))),
        _ => {}
    }
    match (name, a, b) {
        ("add", Value::Str(x), Value::Str(y)) => return Ok(Value::Str(format!("{x}{y}"))),
        ("add", Value::List(x), Value::List(y)) => return Ok(Value::List([&x[..], &y[..]].concat())),
        ("add", Value::Tuple(_) | Value::Named(_), Value::Tuple(_) | Value::Named(_)) => {
            return Ok(Value::Tuple([a.items().unwrap_or(&[]), b.items().unwrap_or(&[])].concat()));
        }
        ("mul", Value::List(x), Value::Int(n)) if repeated(x, *n) => {
            return Ok(Value::List((0..*n).flat_map(|_| x.iter().cloned()).collect()));
        }
        ("mul", Value::Tuple(x), Value::Int(n)) if repeated(x, *n) => {
            return Ok(Value::Tuple((0..*n).flat_map(|_| x.iter().cloned()).collect()));
        }
        _ => {}
    }
    numbers(name, a, b)
}
fn unary(name: &str, a: &Value) -> Result<Value> {
    Ok(match (name, a) {
        ("not_", a) => Value::Bool(!truth(a)?),
        ("truth", a) => Value::Bool(truth(a)?),
        ("neg", Value::Int(i)) => Value::Int(i.checked_neg().ok_or_else(overflow)?),
        ("neg", Value::Bool(b)) => Value::Int(-i64::from(*b)),
        ("neg", Value::Float(x)) => Value::Float(-x),
        ("neg", Value::Complex(x)) => Value::Complex(-x),
        ("pos", Value::Int(_) | Value::Float(_) | Value::Complex(_)) => a.clone(),
        ("abs", Value::Int(i)) => Value::Int(i.checked_abs().ok_or_else(overflow)?),
        ("abs", Value::Float(x)) => Value::Float(x.abs()),
        ("invert" | "inv", Value::Int(i)) => Value::Int(!i),
        ("invert" | "inv", Value::Bool(b)) => Value::Int(!i64::from(*b)),
        ("inv", _) => library::method(a, "__invert__", &[], &[])?,
        ("abs", _) => library::method(a, "__abs__", &[], &[])?,
        _ => library::method(a, &format!("__{name}__"), &[], &[])?,
    })
}
/// Whether a list so many times is one of a length that a program of sizes may have.
fn repeated(x: &[Value], n: i64) -> bool {
    usize::try_from(n.max(0)).ok().and_then(|n| n.checked_mul(x.len())).is_some_and(|n| n < 1 << 20)
}
#[cold]
fn overflow() -> Error {
    Error::value("an integer beyond 64 bits")
}
fn foreign(name: &str, a: &Value, b: &Value) -> Result<Value> {
    let base = name.trim_end_matches('_');
    let left = |n: &str| library::method(a, n, std::slice::from_ref(b), &[]);
    if is_foreign(a) && !(matches!(a, Value::Object(_)) && matches!(b, Value::Tensor(_))) {
        return left(&format!("__{base}__"));
    }
    let swapped = match name {
        "lt" => "__gt__".to_string(),
        "le" => "__ge__".into(),
        "gt" => "__lt__".into(),
        "ge" => "__le__".into(),
        "eq" | "ne" => format!("__{name}__"),
        _ => format!("__r{base}__"),
    };
    library::method(b, &swapped, std::slice::from_ref(a), &[])
}
fn numbers(name: &str, a: &Value, b: &Value) -> Result<Value> {
    let sign = crate::code::infix(name).unwrap_or(name);
    let (Some(x), Some(y)) = (a.as_scalar(), b.as_scalar()) else { return Err(unsupported(sign, a, b)) };
    if let (Value::Int(_) | Value::Bool(_), Value::Int(_) | Value::Bool(_)) = (a, b) {
        let (i, j) = (index(a)?.unwrap_or(0), index(b)?.unwrap_or(0));
        if j == 0 && matches!(name, "floordiv" | "mod" | "truediv") {
            return Err(Error::value("division by zero"));
        }
        let shift = u32::try_from(j).ok();
        let exact = match name {
            "add" => i.checked_add(j),
            "sub" => i.checked_sub(j),
            "mul" => i.checked_mul(j),
            "floordiv" => crate::symbolic::floor_div(i, j),
            "mod" => crate::symbolic::floor_div(i, j).and_then(|q| i.checked_sub(q.checked_mul(j)?)),
            "pow" if j >= 0 => shift.and_then(|j| i.checked_pow(j)),
            "lshift" => {
                shift.and_then(|j| 1i64.checked_shl(j)).filter(|_| j < 63).and_then(|p| i.checked_mul(p))
            }
            "rshift" => shift.map(|j| if j > 63 { i >> 63 } else { i >> j }),
            "and_" => Some(i & j),
            "or_" => Some(i | j),
            "xor" => Some(i ^ j),
            _ => {
                return Ok(Value::Float(
                    float(name, x.to_f64(), y.to_f64()).ok_or_else(|| unsupported(sign, a, b))?,
                ));
            }
        };
        let n = exact.ok_or_else(overflow)?;
        let bools =
            matches!((a, b), (Value::Bool(_), Value::Bool(_))) && matches!(name, "and_" | "or_" | "xor");
        return Ok(if bools { Value::Bool(n != 0) } else { Value::Int(n) });
    }
    if let (Value::Complex(_), _) | (_, Value::Complex(_)) = (a, b) {
        let (x, y) = (x.to_complex(), y.to_complex());
        return Ok(Value::Complex(match name {
            "add" => x + y,
            "sub" => x - y,
            "mul" => x * y,
            "truediv" => x / y,
            "pow" => x.powc(y),
            _ => return Err(unsupported(sign, a, b)),
        }));
    }
    float(name, x.to_f64(), y.to_f64()).map(Value::Float).ok_or_else(|| unsupported(sign, a, b))
}
fn float(name: &str, x: f64, y: f64) -> Option<f64> {
    Some(match name {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "truediv" => x / y,
        "floordiv" => (x / y).floor(),
        "mod" => x - y * (x / y).floor(),
        "pow" => x.powf(y),
        _ => return None,
    })
}

/// Calls what a node's target names: a function of the library, of Python's module `operator`, or a built-in one.
///
/// # Errors
/// `Missing` for a name that is not known; those of the function.
pub fn call(target: &str, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
    if let Some(name) = target.strip_prefix("operator.").or_else(|| target.strip_prefix("_operator.")) {
        return operator(name, args);
    }
    if let Some(name) = target.strip_prefix("math.") {
        return mathematical(name, args);
    }
    if !target.contains('.') {
        return builtin(target, args);
    }
    match (target, args) {
        ("torch._assert", [v, text, ..]) => {
            if !truth(v)? {
                let text = match text {
                    Value::Str(s) => s.clone(),
                    other => library::repr(other)?,
                };
                return Err(Error::new(flambeau_core::ErrorKind::Assertion, text));
            }
            return Ok(Value::None);
        }
        ("torch.sym_not", [v]) => return Ok(Value::Bool(!truth(v)?)),
        ("torch.sym_max", [_, _]) => return builtin("max", args),
        ("torch.sym_min", [_, _]) => return builtin("min", args),
        ("torch.sym_float", [_]) => return builtin("float", args),
        ("torch.sym_int", [_]) => return builtin("int", args),
        _ => {}
    }
    let kwargs: Vec<(String, Value)> =
        kwargs.iter().filter(|(k, v)| k != "out" || !matches!(v, Value::None)).cloned().collect();
    let result = library::call_value(&documented(target), args, &kwargs)?;
    Ok(if target.starts_with("torch.ops.") { result } else { several(result) })
}
/// Several tensors are a tuple where Python calls a function of tensors.
pub(crate) fn several(v: Value) -> Value {
    match &v {
        Value::List(l) if l.iter().all(|v| matches!(v, Value::Tensor(_))) => Value::Tuple(l.clone()),
        _ => v,
    }
}
/// The documented name of a function that PyTorch prints by where it is defined.
fn documented(target: &str) -> String {
    for (inner, outer) in [
        ("torch._C._nn.", "torch.nn.functional."),
        ("torch.nn.functional._threshold", "torch.nn.functional.threshold"),
        ("torch.functional.", "torch."),
        ("torch._C._linalg.linalg_", "torch.linalg."),
        ("torch._C._fft.fft_", "torch.fft."),
        ("torch._C._special.special_", "torch.special."),
    ] {
        if let Some(rest) = target.strip_prefix(inner) {
            let rest = if rest == "log_sigmoid" { "logsigmoid" } else { rest };
            return format!("{outer}{rest}");
        }
    }
    target.to_string()
}
fn mathematical(name: &str, args: &[Value]) -> Result<Value> {
    let numbers: Option<Vec<f64>> = args.iter().map(|v| v.as_scalar().map(|s| s.to_f64())).collect();
    let whole = |x: f64| {
        if x.abs() < 9e18 { Ok(Value::Int(x as i64)) } else { Err(overflow()) }
    };
    Ok(match (name, numbers.as_deref()) {
        ("sqrt", Some([x])) => Value::Float(x.sqrt()),
        ("exp", Some([x])) => Value::Float(x.exp()),
        ("log", Some([x])) => Value::Float(x.ln()),
        ("floor", Some([x])) => whole(x.floor())?,
        ("ceil", Some([x])) => whole(x.ceil())?,
        ("trunc", Some([x])) => whole(x.trunc())?,
        ("pow", Some([x, y])) => Value::Float(x.powf(*y)),
        _ => return Err(Error::missing(format!("math.{name} of {} arguments", args.len()))),
    })
}
fn builtin(name: &str, args: &[Value]) -> Result<Value> {
    Ok(match (name, args) {
        ("getattr", [v, Value::Str(n)]) => attribute(v, n)?,
        ("getattr", [v, Value::Str(n), default]) => attribute(v, n).unwrap_or_else(|_| default.clone()),
        ("len", [Value::Tensor(_)]) => library::method(&args[0], "__len__", &[], &[])?,
        ("len", [Value::Dict(d)]) => Value::Int(d.len() as i64),
        ("len", [Value::Str(s)]) => Value::Int(s.chars().count() as i64),
        ("len", [v]) => match v.items() {
            Some(l) => Value::Int(l.len() as i64),
            None => return Err(Error::type_(format!("object of type '{}' has no len()", v.type_name()))),
        },
        ("abs", [v]) => unary("abs", v)?,
        ("bool", [v]) => Value::Bool(truth(v)?),
        ("float", [Value::Tensor(_)]) => library::method(&args[0], "__float__", &[], &[])?,
        ("int", [Value::Tensor(_)]) => library::method(&args[0], "__int__", &[], &[])?,
        ("float", [v]) => Value::Float(v.as_scalar().ok_or_else(|| unsupported("float", v, v))?.to_f64()),
        ("int", [Value::Int(i)]) => Value::Int(*i),
        ("int", [v]) => {
            let x = v.as_scalar().ok_or_else(|| unsupported("int", v, v))?.to_f64();
            if x.abs() < 9e18 { Value::Int(x as i64) } else { return Err(overflow()) }
        }
        ("tuple", [v]) => Value::Tuple(v.items().unwrap_or(&[]).to_vec()),
        ("list", [v]) => Value::List(v.items().unwrap_or(&[]).to_vec()),
        ("max" | "min", _) => {
            let all = match args {
                [one] => one.items().unwrap_or(&[]),
                all => all,
            };
            let mut best: Option<&Value> = None;
            for v in all {
                let better = match best {
                    None => true,
                    Some(b) => {
                        order(v, b)?.is_some_and(|o| if name == "max" { o.is_gt() } else { o.is_lt() })
                    }
                };
                if better {
                    best = Some(v);
                }
            }
            best.cloned().ok_or_else(|| Error::value(format!("{name}() arg is an empty sequence")))?
        }
        ("sum", [v]) => {
            let mut total = Value::Int(0);
            for x in v.items().unwrap_or(&[]) {
                total = operator("add", &[total, x.clone()])?;
            }
            total
        }
        ("round", [v]) => {
            let x = v.as_scalar().ok_or_else(|| unsupported("round", v, v))?.to_f64().round_ties_even();
            if x.abs() < 9e18 { Value::Int(x as i64) } else { return Err(overflow()) }
        }
        ("pow", [_, _]) => operator("pow", args)?,
        _ => return Err(Error::missing(format!("{name} of {} arguments", args.len()))),
    })
}
fn attribute(v: &Value, name: &str) -> Result<Value> {
    library::attribute(v, name)
}
