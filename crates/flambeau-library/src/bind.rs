//! Binding of Python-style arguments to a signature, with PyTorch's type checks, conversions and error texts.

use crate::signature::{Kind, Param, Signature};
use flambeau_core::api::ergonomic::wrapped_number;
use flambeau_core::dispatch::Key;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::dispatch::value::{IntoValue, Value};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::handle::Tensor;
use flambeau_core::text::PyText as _;
use flambeau_core::types::device::Device;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::names::{NameRule, Names};
use flambeau_core::types::scalar::Scalar;
use flambeau_core::types::schema::{Default_, Ty};

/// A call whose arguments are in schema order, ready for the boxed function.
pub struct Bound {
    /// The operator: the plain or the `out=` form.
    pub op: &'static dyn AnyOp,
    /// Its arguments.
    pub args: Vec<Value>,
    /// `requires_grad=True` was given to a factory.
    pub requires_grad: bool,
    /// `names=` was given to a factory.
    pub names: Option<Names>,
}

/// Why a signature does not take the arguments: `None` when nobody asked for a text.
type Refused = Option<Error>;

fn is_int(v: &Value) -> bool {
    match v {
        Value::Int(_) => true,
        Value::Tensor(t) => t.dim() == 0 && t.dtype().is_integral(false) && !t.requires_grad(),
        _ => false,
    }
}
fn is_number(v: &Value) -> bool {
    v.as_scalar().is_some()
}
/// A tensor that is no more than a number: no gradient, tangent or hidden dimension goes lost where it is taken as one.
fn is_number_alone(t: &Tensor) -> bool {
    !t.requires_grad() && !t.key_set().has(Key::Autograd) && !t.key_set().has(Key::Batched)
}
fn is_zero_dim(v: &Value) -> bool {
    matches!(v, Value::Tensor(t) if t.dim() == 0 && is_number_alone(t))
}
fn is_float(v: &Value) -> bool {
    matches!(v, Value::Float(_) | Value::Int(_) | Value::Bool(_)) || is_zero_dim(v)
}

/// Whether the value fits the parameter. For lists the first element decides, as in PyTorch: a wrong later one is an error
/// of its own when the value is converted.
fn fits(p: &Param, v: &Value, position: usize) -> std::result::Result<bool, Error> {
    match p.kind {
        Kind::Number => return Ok(is_number(v)),
        Kind::TensorOrNumber if is_number(v) => return Ok(true),
        _ => {}
    }
    let first = |f: fn(&Value) -> bool| v.items().is_some_and(|l| l.first().is_none_or(f));
    Ok(match p.arg.ty {
        Ty::Tensor | Ty::OptTensor => matches!(v, Value::Tensor(_)),
        Ty::TensorList | Ty::OptTensorList => match v.items() {
            None => false,
            Some(l) => {
                let optional = p.arg.ty == Ty::OptTensorList;
                let wrong = l
                    .iter()
                    .position(|x| !(matches!(x, Value::Tensor(_)) || optional && matches!(x, Value::None)));
                if let Some(i) = wrong {
                    return Err(Error::type_(format!(
                        "expected Tensor as element {i} in argument {position}, but got {}",
                        l[i].type_name()
                    )));
                }
                true
            }
        },
        Ty::Scalar | Ty::OptScalar => is_number(v) || is_zero_dim(v),
        Ty::ScalarList => first(|x| is_number(x) || is_zero_dim(x)),
        Ty::Int | Ty::OptInt => is_int(v),
        Ty::IntList(n) | Ty::OptIntList(n) => first(is_int) || (n > 0 && matches!(v, Value::Int(_))),
        Ty::Float | Ty::OptFloat => is_float(v),
        Ty::FloatList | Ty::OptFloatList => first(is_float),
        Ty::Bool | Ty::OptBool => match v {
            Value::Bool(_) => true,
            Value::Tensor(t) => t.dim() == 0 && t.dtype() == flambeau_core::DType::Bool && is_number_alone(t),
            _ => false,
        },
        Ty::BoolList => first(|x| matches!(x, Value::Bool(_))),
        Ty::Str | Ty::OptStr => matches!(v, Value::Str(_)),
        Ty::DType | Ty::OptDType => matches!(v, Value::DType(_)),
        Ty::OptLayout => matches!(v, Value::Layout(_)),
        Ty::Device | Ty::OptDevice => matches!(v, Value::Device(_) | Value::Str(_) | Value::Int(_)),
        Ty::MemoryFormat | Ty::OptMemoryFormat => matches!(v, Value::MemoryFormat(_)),
        Ty::OptGenerator => matches!(v, Value::Generator(_)),
    })
}

fn scalar(t: &Tensor) -> Result<Scalar> {
    t.try_item::<Scalar>()
}
fn int(v: &Value) -> Result<Value> {
    Ok(match v {
        Value::Tensor(t) => Value::Int(scalar(t)?.to_i64()),
        v => v.clone(),
    })
}
fn float(v: &Value) -> Result<Value> {
    Ok(Value::Float(match v {
        Value::Tensor(t) => scalar(t)?.to_f64(),
        v => v.as_scalar().map_or(f64::NAN, Scalar::to_f64),
    }))
}
/// The value as the boxed function wants it.
fn convert(name: &str, p: &Param, v: &Value) -> Result<Value> {
    let each = |l: &[Value], ok: fn(&Value) -> bool, f: fn(&Value) -> Result<Value>| {
        let mut out = Vec::with_capacity(l.len());
        for (i, x) in l.iter().enumerate() {
            if !ok(x) {
                return Err(Error::type_(format!(
                    "{name}(): argument '{}' failed to unpack the object at pos {} with error \"type must be {},but got {}\"",
                    p.name,
                    i + 1,
                    p.type_name(),
                    x.type_name()
                )));
            }
            out.push(f(x)?);
        }
        Ok(Value::List(out))
    };
    if matches!(p.arg.ty, Ty::Tensor | Ty::OptTensor) {
        return Ok(match v.as_scalar() {
            Some(s) => Value::Tensor(wrapped_number(s)?),
            None => v.clone(),
        });
    }
    let number = |v: &Value| {
        Ok(match v {
            Value::Tensor(t) => scalar(t)?.into_value(),
            v => v.clone(),
        })
    };
    Ok(match (p.arg.ty, v) {
        (_, Value::None) => Value::None,
        (Ty::Scalar | Ty::OptScalar, v) => number(v)?,
        (Ty::ScalarList, Value::List(l) | Value::Tuple(l)) => {
            each(l, |x| is_number(x) || is_zero_dim(x), number)?
        }
        (Ty::Int | Ty::OptInt, v) => int(v)?,
        (Ty::IntList(_) | Ty::OptIntList(_), Value::List(l) | Value::Tuple(l)) => each(l, is_int, int)?,
        (Ty::IntList(n) | Ty::OptIntList(n), v) => Value::List(vec![int(v)?; n.max(1) as usize]),
        (Ty::Float | Ty::OptFloat, v) => float(v)?,
        (Ty::FloatList | Ty::OptFloatList, Value::List(l) | Value::Tuple(l)) => each(l, is_float, float)?,
        (Ty::Bool | Ty::OptBool, Value::Tensor(t)) => Value::Bool(scalar(t)?.to_bool()),
        (Ty::Device | Ty::OptDevice, Value::Str(s)) => Value::Device(Device::parse(s)?),
        (Ty::Device | Ty::OptDevice, Value::Int(i)) => Value::Device(Device::parse(&format!("cuda:{i}"))?),
        (_, Value::Tuple(l)) => Value::List(l.clone()),
        (_, v) => v.clone(),
    })
}

/// The value of a default.
pub fn default_value(d: Default_) -> Value {
    match d {
        Default_::Required | Default_::None => Value::None,
        Default_::Int(i) => Value::Int(i),
        Default_::Float(f) => Value::Float(f),
        Default_::Bool(b) => Value::Bool(b),
        Default_::Str(s) => Value::Str(s.to_string()),
        Default_::IntList(l) => Value::List(l.iter().map(|&i| Value::Int(i)).collect()),
        Default_::MemoryFormat(m) => Value::MemoryFormat(m),
        Default_::Layout(l) => Value::Layout(l),
    }
}

/// `1 positional argument`, `2 positional arguments`
fn extra_args(name: &str, s: &Signature, given: usize) -> Error {
    let (min, max) = (s.min_args(), s.max_pos());
    if min != max {
        return Error::type_(format!(
            "{name}() takes from {min} to {max} positional arguments but {given} were given"
        ));
    }
    let plural = if max == 1 { "" } else { "s" };
    let were = if given == 1 { "was" } else { "were" };
    Error::type_(format!("{name}() takes {max} positional argument{plural} but {given} {were} given"))
}
fn missing_args(name: &str, s: &Signature, from: usize) -> Error {
    let missing: Vec<String> =
        s.params[from..].iter().filter(|p| !p.optional()).map(|p| format!("\"{}\"", p.name)).collect();
    // the plural of one is PyTorch's
    let plural = if missing.len() == 1 { "s" } else { "" };
    Error::type_(format!(
        "{name}() missing {} required positional argument{plural}: {}",
        missing.len(),
        missing.join(", ")
    ))
}
fn extra_kwargs(name: &str, s: &Signature, kwargs: &Kwargs, given: usize) -> Error {
    for (k, _) in kwargs {
        match s.params.iter().position(|p| p.name == k || p.synonyms().contains(&k.as_str())) {
            None if k == "out" && s.out.is_some() || k == "requires_grad" && s.factory => {}
            None if k == "names" && s.op.info().names == NameRule::Factory => {}
            None => return Error::type_(format!("{name}() got an unexpected keyword argument '{k}'")),
            Some(i) if i < given => {
                return Error::type_(format!("{name}() got multiple values for argument '{k}'"));
            }
            Some(_) => {}
        }
    }
    Error::type_(format!("{name}() got invalid keyword arguments"))
}

/// What Python says of a call of a function that is written in it, in the order in which it looks: names, repeated
/// arguments, too many, missing ones. Otherwise what the binding of operators says.
fn wrong_call(name: &str, s: &Signature, given: usize, kwargs: &Kwargs, other: impl Fn() -> Error) -> Error {
    if s.defined.is_none() {
        return other();
    }
    let at = |k: &str| s.params.iter().position(|p| p.name == k);
    for (k, _) in kwargs {
        match at(k) {
            None => return Error::type_(format!("{name}() got an unexpected keyword argument '{k}'")),
            Some(i) if i < given && !s.params[i].arg.kw_only => {
                return Error::type_(format!("{name}() got multiple values for argument '{k}'"));
            }
            Some(_) => {}
        }
    }
    let (min, max) = (s.min_args(), s.max_pos());
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    if given > max {
        let takes = if min == max { max.to_string() } else { format!("from {min} to {max}") };
        let only = kwargs.iter().filter(|(k, _)| at(k).is_some_and(|i| s.params[i].arg.kw_only)).count();
        let besides = match only {
            0 => String::new(),
            n => {
                format!(" positional argument{} (and {n} keyword-only argument{})", plural(given), plural(n))
            }
        };
        let were = if given == 1 && only == 0 { "was" } else { "were" };
        let arguments = if min == max { plural(max) } else { "s" };
        return Error::type_(format!(
            "{name}() takes {takes} positional argument{arguments} but {given}{besides} {were} given"
        ));
    }
    let missing: Vec<String> = (s.params.iter().enumerate())
        .filter(|(i, p)| *i >= given && !p.optional() && kwargs.iter().all(|(k, _)| k != p.name))
        .map(|(_, p)| format!("'{}'", p.name))
        .collect();
    let listed = match &missing[..] {
        [] => return other(),
        [one] => one.clone(),
        [a, b] => format!("{a} and {b}"),
        [all @ .., last] => format!("{}, and {last}", all.join(", ")),
    };
    let (n, s) = (missing.len(), plural(missing.len()));
    Error::type_(format!("{name}() missing {n} required positional argument{s}: {listed}"))
}

/// What a function that is written in Python says of an argument that does not fit: it asks for an attribute that tensors
/// have, or has a text of its own, with the error's class before it.
fn said_of(said: &str, v: &Value) -> Error {
    let Some((class, text)) = said.split_once(": ") else {
        return Error::attribute(format!("'{}' object has no attribute '{said}'", v.type_name()));
    };
    let shown = match v {
        Value::Bool(b) => b.py_text(),
        Value::None => "None".into(),
        v => v.as_scalar().map_or_else(|| v.type_name().to_string(), |s| s.py_text()),
    };
    let text = text.replace("{value}", &shown).replace("{type}", v.type_name());
    match class {
        "ValueError" => Error::value(text),
        "RuntimeError" => Error::runtime(text),
        _ => Error::type_(text),
    }
}
/// Matches arguments with a signature. With `raise`, a refusal says why.
pub fn bind(
    name: &str,
    s: &Signature,
    args: &[Value],
    kwargs: &Kwargs,
    raise: bool,
) -> std::result::Result<Bound, Refused> {
    let refuse = |e: &dyn Fn() -> Error| -> std::result::Result<Bound, Refused> { Err(raise.then(e)) };
    let mut values: Vec<Value> = s.op.info().schema.args.iter().map(|a| default_value(a.default)).collect();
    let given = args;
    let mut args = args;
    if let Some(i) = s.self_index {
        match args.split_first() {
            Some((v @ Value::Tensor(_), rest)) => {
                values[i] = v.clone();
                args = rest;
            }
            Some((v, _)) => {
                return Err(Some(Error::type_(format!(
                    "descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a '{}' object",
                    v.type_name()
                ))));
            }
            None => {
                return Err(Some(Error::type_(format!(
                    "unbound method TensorBase.{name}() needs an argument"
                ))));
            }
        }
    }
    let max_pos = s.max_pos();
    let list = s.params.first().filter(|_| max_pos >= 1).map(|p| p.arg.ty);
    let vararg_ints = max_pos == 1 && matches!(list, Some(Ty::IntList(_) | Ty::OptIntList(_)));
    let vararg_at = s.params.iter().position(|p| s.variadic_tensors && p.arg.ty == Ty::TensorList);
    if args.len() > max_pos && !vararg_ints && vararg_at.is_none() {
        return refuse(&|| wrong_call(name, s, args.len(), kwargs, || extra_args(name, s, args.len())));
    }
    let mut pos = 0;
    let mut used = 0;
    for (i, p) in s.params.iter().enumerate() {
        let (v, by_name) = if pos < args.len() {
            if p.arg.kw_only {
                return refuse(&|| {
                    wrong_call(name, s, args.len(), kwargs, || extra_args(name, s, args.len()))
                });
            }
            (Some(&args[pos]), false)
        } else {
            let find = |n: &str| kwargs.iter().find(|(k, _)| k == n).map(|(_, v)| v);
            (find(p.name).or_else(|| p.synonyms().iter().find_map(|n| find(n))), true)
        };
        let Some(v) = v else {
            if p.optional() {
                continue;
            }
            return refuse(&|| wrong_call(name, s, args.len(), kwargs, || missing_args(name, s, i)));
        };
        used += usize::from(by_name);
        let v = &*crate::names::places(p.arg.ty, v, given).map_err(Some)?;
        if matches!(v, Value::None) && p.allows_none() {
            values[p.index] = Value::None;
        } else if vararg_at == Some(i) && !by_name && matches!(v, Value::Tensor(_)) {
            let given = Value::List(args[pos..].to_vec());
            fits(p, &given, i).map_err(Some)?;
            values[p.index] = given;
            pos = args.len();
            continue;
        } else if fits(p, v, i).map_err(Some)? {
            values[p.index] = convert(name, p, v).map_err(Some)?;
        } else if vararg_ints && pos == 0 && !by_name && is_int(v) {
            values[p.index] = convert(name, p, &Value::List(args.to_vec())).map_err(Some)?;
            pos = args.len();
            continue;
        } else {
            let lacks = s.defined.and_then(|all| all.iter().find(|(argument, _)| *argument == p.name));
            if let Some((_, said)) = lacks {
                return refuse(&|| said_of(said, v));
            }
            let place = if by_name { String::new() } else { format!(" (position {})", pos + 1) };
            return refuse(&|| {
                Error::type_(format!(
                    "{name}(): argument '{}'{place} must be {}, not {}",
                    p.name,
                    p.type_name(),
                    v.type_name()
                ))
            });
        }
        pos += usize::from(!by_name);
    }
    let mut bound = Bound { op: s.op, args: values, requires_grad: false, names: None };
    for (k, v) in kwargs {
        match k.as_str() {
            "requires_grad" if s.factory => {
                used += 1;
                match v {
                    Value::Bool(b) => bound.requires_grad = *b,
                    v => {
                        return refuse(&|| {
                            Error::type_(format!(
                                "{name}(): argument 'requires_grad' must be bool, not {}",
                                v.type_name()
                            ))
                        });
                    }
                }
            }
            "names" if s.op.info().names == NameRule::Factory => {
                used += 1;
                bound.names = crate::names::of_keyword(v).map_err(Some)?;
            }
            "out" if s.out.is_some() => {
                used += 1;
                if !take_out(s, v, &mut bound) {
                    let want = if s.out.is_some_and(|o| o.1 > 1) { "tuple of Tensors" } else { "Tensor" };
                    return refuse(&|| {
                        Error::type_(format!(
                            "{name}(): argument 'out' must be {want}, not {}",
                            v.type_name()
                        ))
                    });
                }
            }
            _ => {}
        }
    }
    let sourceless = || s.op.info().schema.args.iter().all(|a| !matches!(a.ty, Ty::Tensor | Ty::TensorList));
    if s.factory
        && let Some(p) = s.params.iter().find(|p| p.name == "device")
        && sourceless()
    {
        let d = &mut bound.args[p.index];
        if let (Value::None, Some(default)) = (&*d, flambeau_core::settings::chosen(None)) {
            *d = Value::Device(default);
        }
    }
    if used < kwargs.len() || pos < args.len() {
        return refuse(&|| {
            wrong_call(name, s, args.len(), kwargs, || extra_kwargs(name, s, kwargs, args.len()))
        });
    }
    if s.out.is_some_and(|(o, _)| std::ptr::eq(o.info(), s.op.info()))
        && bound.args.iter().any(|v| matches!(v, Value::None))
    {
        // an operator that exists with `out=` alone was called without
        if !kwargs.iter().any(|(k, _)| k == "out") {
            return refuse(&|| missing_args(name, s, 0));
        }
    }
    Ok(bound)
}

/// Switches to the `out=` form. False if the value does not fit.
fn take_out(s: &Signature, v: &Value, bound: &mut Bound) -> bool {
    let Some((op, n)) = s.out else { return false };
    // where numbers are taken for tensors, one is an output too, which nobody sees
    let number = || {
        let takes = n == 1 && s.params.iter().any(|p| matches!(p.kind, Kind::TensorOrNumber));
        v.as_scalar().filter(|_| takes).and_then(|v| wrapped_number(v).ok())
    };
    let given: Vec<Value> = match v {
        Value::None => return true,
        Value::Tensor(_) if n == 1 => vec![v.clone()],
        v if v.as_scalar().is_some() => match number() {
            Some(t) => vec![Value::Tensor(t)],
            None => return false,
        },
        Value::List(l) | Value::Tuple(l)
            if l.len() == n && l.iter().all(|x| matches!(x, Value::Tensor(_))) =>
        {
            l.clone()
        }
        _ => return false,
    };
    let plain = op.info().schema.args.len() - n;
    bound.args.truncate(plain);
    bound.args.extend(given);
    bound.op = op;
    true
}

/// The type of an argument in "got (...)" texts.
fn got_name(v: &Value) -> String {
    v.type_name().to_string()
}
/// The same with the elements of lists.
fn got_detail(v: &Value) -> String {
    match v.items() {
        Some(l) => {
            format!("{} of [{}]", v.type_name(), l.iter().map(got_name).collect::<Vec<_>>().join(", "))
        }
        None => got_name(v),
    }
}

/// What a function that is written in Python misses of an argument that is no tensor.
fn lacking(s: &Signature, args: &[Value], kwargs: &Kwargs) -> Option<Error> {
    s.defined?.iter().find_map(|(argument, said)| {
        let at = s.params.iter().position(|p| p.name == *argument && p.arg.ty == Ty::Tensor)?;
        let v = args.get(at).or_else(|| kwargs.iter().find(|(k, _)| k == argument).map(|(_, v)| v))?;
        (!matches!(v, Value::Tensor(_))).then(|| said_of(said, v))
    })
}

/// "NAME() received an invalid combination of arguments - got (...), but expected ..."
pub fn invalid_combination(name: &str, signatures: &[&Signature], args: &[Value], kwargs: &Kwargs) -> Error {
    if let Some(e) = signatures.iter().find_map(|s| lacking(s, args, kwargs)) {
        return e;
    }
    let args = if signatures.first().is_some_and(|s| s.self_index.is_some()) {
        args.get(1..).unwrap_or(&[])
    } else {
        args
    };
    let mut got: Vec<String> = args.iter().map(got_name).collect();
    let mut sorted: Vec<&(String, Value)> = kwargs.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    got.extend(sorted.iter().map(|(k, v)| format!("{k}={}", got_name(v))));
    let head = format!(
        "{name}() received an invalid combination of arguments - got ({}), but expected ",
        got.join(", ")
    );
    if let [s] = signatures {
        return Error::type_(head + &s.text());
    }
    let mut text = head + "one of:\n";
    for s in signatures {
        text.push_str(&format!(" * {}\n", s.text()));
        if s.parts().len() != args.len() + kwargs.len() {
            continue;
        }
        let unknown: Vec<&str> = sorted
            .iter()
            .map(|(k, _)| k.as_str())
            .filter(|k| s.params.iter().all(|p| p.name != *k))
            .collect();
        if unknown.is_empty() {
            let mark = |p: Option<&Param>, v: &Value| {
                // PyTorch compares type names here, not what the parser accepts
                let given = v.type_name();
                let ok =
                    p.is_some_and(|p| p.type_name() == given || (p.type_name() == "float" && given == "int"));
                let d = got_detail(v);
                if ok { d } else { format!("!{d}!") }
            };
            let mut parts: Vec<String> =
                args.iter().enumerate().map(|(i, v)| mark(s.params.get(i), v)).collect();
            parts.extend(
                sorted.iter().map(|(k, v)| format!("{k}={}", mark(s.params.iter().find(|p| p.name == k), v))),
            );
            text.push_str(&format!(
                "      didn't match because some of the arguments have invalid types: ({})\n",
                parts.join(", ")
            ));
        } else {
            text.push_str(&format!(
                "      didn't match because some of the keywords were incorrect: {}\n",
                unknown.join(", ")
            ));
        }
    }
    Error::type_(text)
}
