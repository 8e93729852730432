//! Python's functions, and methods of its lists, dictionaries and texts.

use super::eval;
use super::scope::{Halt, R, Special, no_such_attribute, raise, wrong};
use super::{arith, scope};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Value};
use flambeau_library as library;
use flambeau_library::object::Kwargs;
use std::cmp::Ordering;

/// A dictionary: with texts as keys where all are.
pub fn dictionary(pairs: Vec<(Value, Value)>) -> Value {
    let mut all: Vec<(Value, Value)> = Vec::new();
    for (k, v) in pairs {
        match all.iter_mut().find(|(n, _)| arith::same(n, &k)) {
            Some(e) => e.1 = v,
            None => all.push((k, v)),
        }
    }
    if !all.iter().all(|(k, _)| matches!(k, Value::Str(_))) {
        return Special::Pairs(all).value();
    }
    let text = |(k, v): (Value, Value)| (k.into_string().unwrap_or_default(), v);
    Value::Dict(all.into_iter().map(text).collect())
}
/// Python's order of numbers, texts and sequences.
pub fn order(a: &Value, b: &Value) -> R<Ordering> {
    if let (Some(x), Some(y)) = (a.items(), b.items()) {
        for (x, y) in x.iter().zip(y) {
            let o = order(x, y)?;
            if o.is_ne() {
                return Ok(o);
            }
        }
        return Ok(x.len().cmp(&y.len()));
    }
    match (a, b, a.as_scalar(), b.as_scalar()) {
        (Value::Str(x), Value::Str(y), ..) => Ok(x.cmp(y)),
        (Value::Int(x), Value::Int(y), ..) => Ok(x.cmp(y)),
        (.., Some(x), Some(y)) => match x.to_f64().partial_cmp(&y.to_f64()) {
            Some(o) => Ok(o),
            // nothing compares with NaN: neither side is before the other
            None => Ok(Ordering::Greater),
        },
        _ => wrong(format!("no order of {} and {}", a.type_name(), b.type_name())),
    }
}
/// `str(v)`.
fn text(v: &Value) -> R<String> {
    match v {
        Value::Str(s) => Ok(s.clone()),
        Value::Object(_) if Special::of(v).is_none() => {
            match library::method(v, "__str__", &[], &[]).map(Value::into_string) {
                Ok(Ok(s)) => Ok(s),
                _ => repr(v),
            }
        }
        _ => repr(v),
    }
}
fn repr(v: &Value) -> R<String> {
    match Special::of(v) {
        Some(Special::Set(l)) => {
            let all = l.iter().map(repr).collect::<R<Vec<_>>>()?;
            Ok(if all.is_empty() { "set()".into() } else { format!("{{{}}}", all.join(", ")) })
        }
        Some(Special::Pairs(l)) => {
            let all = l.iter().map(|(k, v)| Ok(format!("{}: {}", repr(k)?, repr(v)?)));
            Ok(format!("{{{}}}", all.collect::<R<Vec<_>>>()?.join(", ")))
        }
        Some(Special::Builtin(n)) => Ok(format!("<class '{n}'>")),
        Some(Special::Class(n)) => Ok(format!("<class '{n}'>")),
        _ => Ok(library::repr(v)?),
    }
}
/// Python's name of a value's class.
fn class_of(v: &Value) -> String {
    match (v, Special::of(v)) {
        (_, Some(Special::Set(_))) => "set".into(),
        (_, Some(Special::Pairs(_))) => "dict".into(),
        (_, Some(Special::Builtin(_) | Special::Class(_))) => "type".into(),
        (Value::Bool(_), _) => "bool".into(),
        (Value::Int(_), _) => "int".into(),
        (Value::Float(_), _) => "float".into(),
        (Value::Complex(_), _) => "complex".into(),
        (Value::Str(_), _) => "str".into(),
        (Value::List(_), _) => "list".into(),
        (Value::Tuple(_), _) => "tuple".into(),
        (Value::Dict(_), _) => "dict".into(),
        (Value::None, _) => "NoneType".into(),
        (Value::Tensor(t), _) if t.is_parameter() => "torch.nn.Parameter".into(),
        (Value::Tensor(_), _) => "torch.Tensor".into(),
        (Value::Object(o), _) => o.type_name().to_string(),
        (Value::Named(t), _) => t.class.clone(),
        _ => v.type_name().to_string(),
    }
}
fn is_instance(v: &Value, class: &Value) -> R<bool> {
    if let Some(l) = class.items() {
        for c in l {
            if is_instance(v, c)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let wanted = match (class, Special::of(class)) {
        (_, Some(Special::Builtin(n) | Special::Class(n))) => n.clone(),
        (Value::Object(o), _) => match o.documented_name() {
            Some(n) => n.to_string(),
            None => return wrong("isinstance of no class"),
        },
        // the types that stand for dtypes
        (Value::DType(d), _) => d.name().to_string(),
        _ => return wrong(format!("isinstance of a {}", class.type_name())),
    };
    let is = class_of(v);
    let last = |s: &str| s.rsplit('.').next().unwrap_or(s).to_string();
    if is == wanted || last(&is) == last(&wanted) {
        return Ok(true);
    }
    Ok(match (v, wanted.as_str()) {
        (Value::Bool(_), "int") | (Value::Named(_), "tuple") | (Value::Tensor(_), "torch.Tensor") => true,
        (Value::Object(_), _) if Special::of(v).is_none() => {
            let asked = library::method(v, "__instancecheck__", &[Value::Str(wanted)], &[]);
            matches!(asked, Ok(Value::Bool(true)))
        }
        _ => false,
    })
}
fn sequence(args: &[Value]) -> R<Vec<Value>> {
    match args {
        [one] => eval::items(one),
        many => Ok(many.to_vec()),
    }
}
fn number(name: &str, v: &Value) -> R<Value> {
    if let Value::Tensor(_) = v {
        return Ok(library::method(v, &format!("__{name}__"), &[], &[])?);
    }
    if let Value::Str(s) = v {
        let parsed = match name {
            "int" => s.trim().parse().ok().map(Value::Int),
            _ => s.trim().parse().ok().map(Value::Float),
        };
        return parsed
            .map_or_else(|| raise(Error::value(format!("could not convert string to {name}: '{s}'"))), Ok);
    }
    let Some(x) = v.as_scalar() else {
        return Ok(library::method(v, &format!("__{name}__"), &[], &[])?);
    };
    Ok(match name {
        "int" => Value::Int(x.to_f64().trunc() as i64),
        "float" => Value::Float(x.to_f64()),
        _ => Value::Complex(x.to_complex()),
    })
}
fn length(v: &Value) -> R<Value> {
    Ok(match v {
        Value::Str(s) => Value::Int(s.chars().count() as i64),
        Value::Tensor(_) => library::method(v, "__len__", &[], &[])?,
        Value::Object(_) if Special::of(v).is_none() => library::method(v, "__len__", &[], &[])?,
        _ => Value::Int(eval::items(v)?.len() as i64),
    })
}
fn sorted(v: &Value, kwargs: &Kwargs) -> R<Value> {
    let key = kwargs.iter().find(|(k, _)| k == "key").map(|(_, f)| f);
    let mut all = Vec::new();
    for x in eval::items(v)? {
        let k = key.map_or_else(|| Ok(x.clone()), |f| eval::apply(f, std::slice::from_ref(&x), &[]))?;
        all.push((k, x));
    }
    let mut failed = None;
    all.sort_by(|a, b| {
        order(&a.0, &b.0).unwrap_or_else(|h| {
            failed.get_or_insert(h);
            Ordering::Equal
        })
    });
    match failed {
        Some(h) => Err(h),
        None => Ok(Value::List(all.into_iter().map(|(_, x)| x).collect())),
    }
}
fn folded(name: &str, args: &[Value]) -> R<Value> {
    let all = sequence(args)?;
    let mut it = all.into_iter();
    let Some(mut best) = it.next() else {
        return raise(Error::value(format!("{name}() arg is an empty sequence")));
    };
    for x in it {
        let less = arith::truth(&arith::operator("<", &[x.clone(), best.clone()])?)?;
        let more = arith::truth(&arith::operator(">", &[x.clone(), best.clone()])?)?;
        if if name == "min" { less } else { more } {
            best = x;
        }
    }
    Ok(best)
}
fn range(args: &[Value]) -> R<Value> {
    let n = args.iter().map(|a| arith::integer(a).map(|i| i.unwrap_or(0))).collect::<R<Vec<i64>>>()?;
    let (mut at, end, step) = match n[..] {
        [end] => (0, end, 1),
        [from, end] => (from, end, 1),
        [from, end, step] if step != 0 => (from, end, step),
        _ => return wrong("range"),
    };
    let mut all = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        all.push(Value::Int(at));
        at += step;
    }
    Ok(Value::List(all))
}

/// Calls one of Python's functions.
pub fn call(name: &str, args: &[Value], kwargs: &Kwargs) -> R<Value> {
    Ok(match (name, args) {
        ("repr", [v]) => Value::Str(repr(v)?),
        ("str", [v]) => Value::Str(text(v)?),
        ("isinstance", [v, c]) => Value::Bool(is_instance(v, c)?),
        ("type", [v]) => {
            let class = class_of(v);
            if class.starts_with("torch") {
                Special::Class(class).value()
            } else {
                Special::Builtin(class).value()
            }
        }
        ("len", [v]) => length(v)?,
        ("bool", [v]) => Value::Bool(arith::truth(v)?),
        ("int" | "float" | "complex", [v]) => number(name, v)?,
        ("complex", [a, b]) => {
            let part = |v: &Value| v.as_scalar().map_or(f64::NAN, |s| s.to_f64());
            Value::Complex(num_complex::Complex::new(part(a), part(b)))
        }
        ("abs", [Value::Int(i)]) => Value::Int(i.abs()),
        ("abs", [Value::Float(x)]) => Value::Float(x.abs()),
        ("abs", [Value::Complex(x)]) => Value::Float(x.norm()),
        ("abs", [v]) => library::method(v, "abs", &[], &[])?,
        ("list", []) => Value::List(Vec::new()),
        ("list", [v]) => Value::List(eval::items(v)?),
        ("tuple", []) => Value::Tuple(Vec::new()),
        ("tuple", [v]) => Value::Tuple(eval::items(v)?),
        ("set", []) => Special::Set(Vec::new()).value(),
        ("set", [v]) => {
            let mut all: Vec<Value> = Vec::new();
            for x in eval::items(v)? {
                if !all.iter().any(|y| arith::same(&x, y)) {
                    all.push(x);
                }
            }
            Special::Set(all).value()
        }
        ("dict", []) => Value::Dict(kwargs.to_vec()),
        ("dict", [Value::Dict(d)]) => Value::Dict([&d[..], kwargs].concat()),
        ("dict", [v]) => {
            let pairs = eval::items(v)?.into_iter().map(|p| {
                let l = eval::items(&p)?;
                match &l[..] {
                    [k, v] => Ok((k.clone(), v.clone())),
                    _ => wrong("dict of no pairs"),
                }
            });
            dictionary(pairs.collect::<R<Vec<_>>>()?)
        }
        ("sorted", [v]) => sorted(v, kwargs)?,
        ("reversed", [v]) => Value::List(eval::items(v)?.into_iter().rev().collect()),
        ("min" | "max", _) => folded(name, args)?,
        ("sum", [v]) => {
            let all = eval::items(v)?;
            all.into_iter().try_fold(Value::Int(0), |a, x| arith::operator("+", &[a, x]))?
        }
        ("any" | "all", [v]) => {
            let mut found = false;
            for x in eval::items(v)? {
                found |= arith::truth(&x)? == (name == "any");
            }
            Value::Bool(found == (name == "any"))
        }
        ("range", _) => range(args)?,
        ("zip", _) => {
            let all = args.iter().map(eval::items).collect::<R<Vec<_>>>()?;
            let n = all.iter().map(Vec::len).min().unwrap_or(0);
            Value::List((0..n).map(|i| Value::Tuple(all.iter().map(|l| l[i].clone()).collect())).collect())
        }
        ("enumerate", [v]) => {
            let all = eval::items(v)?.into_iter().enumerate();
            Value::List(all.map(|(i, x)| Value::Tuple(vec![Value::Int(i as i64), x])).collect())
        }
        ("map", [f, v]) => {
            let all = eval::items(v)?;
            Value::List(all.into_iter().map(|x| eval::apply(f, &[x], &[])).collect::<R<_>>()?)
        }
        ("round", [v]) => Value::Int(v.as_scalar().map_or(0.0, |s| s.to_f64()).round_ties_even() as i64),
        ("callable", [v]) => Value::Bool(matches!(v, Value::Object(_))),
        ("hasattr", [v, Value::Str(n)]) => match eval::attribute(v, n) {
            Ok(_) => Value::Bool(true),
            Err(h) if no_such_attribute(&h) => Value::Bool(false),
            Err(h) => return Err(h),
        },
        ("getattr", [v, Value::Str(n)]) => eval::attribute(v, n)?,
        ("getattr", [v, Value::Str(n), default]) => match eval::attribute(v, n) {
            Err(h) if no_such_attribute(&h) => default.clone(),
            other => other?,
        },
        ("setattr", [v, Value::Str(n), x]) => {
            eval::set_attribute(v, n, x.clone())?;
            Value::None
        }
        _ => {
            return Err(Halt::Wrong(format!(
                "{name} of {} arguments is no builtin of this runner",
                args.len()
            )));
        }
    })
}

/// The result of a method of a value of Python's own, and the value it made of it where it changed it; none for others.
pub fn method(of: &Value, name: &str, args: &[Value], _kwargs: &Kwargs) -> R<Option<(Value, Option<Value>)>> {
    let plain = |v: Value| Ok(Some((v, None)));
    let changed = |v: Value| Ok(Some((Value::None, Some(v))));
    if let Some(Special::Pairs(d)) = Special::of(of) {
        return match (name, args) {
            ("keys", []) => plain(Value::List(d.iter().map(|(k, _)| k.clone()).collect())),
            ("values", []) => plain(Value::List(d.iter().map(|(_, v)| v.clone()).collect())),
            ("items", []) => {
                plain(Value::List(d.iter().map(|(k, v)| Value::Tuple(vec![k.clone(), v.clone()])).collect()))
            }
            ("get", [k]) => {
                let found = d.iter().find(|(n, _)| arith::same(n, k));
                plain(found.map_or(Value::None, |(_, v)| v.clone()))
            }
            _ => wrong(format!("dict.{name}")),
        };
    }
    if let Some(Special::Set(l)) = Special::of(of) {
        return match (name, args) {
            ("add", [v]) => {
                let mut l = l.clone();
                if !l.iter().any(|x| arith::same(x, v)) {
                    l.push(v.clone());
                }
                changed(scope::Special::Set(l).value())
            }
            _ => wrong(format!("set.{name}")),
        };
    }
    match (of, name, args) {
        (Value::List(l), _, _) => list_method(l, name, args).map(Some),
        (Value::Tuple(_), "index" | "count", _) => {
            list_method(of.items().unwrap_or(&[]), name, args).map(Some)
        }
        (Value::Dict(d), _, _) => dict_method(d, name, args).map(Some),
        (Value::Str(s), _, _) => text_method(s, name, args).map(|v| Some((v, None))),
        (Value::Complex(c), "conjugate", []) => plain(Value::Complex(c.conj())),
        (Value::Float(x), "is_integer", []) => plain(Value::Bool(x.fract() == 0.0)),
        _ => Ok(None),
    }
}
fn list_method(l: &[Value], name: &str, args: &[Value]) -> R<(Value, Option<Value>)> {
    let mut l = l.to_vec();
    let result = match (name, args) {
        ("append", [v]) => {
            l.push(v.clone());
            Value::None
        }
        ("extend", [v]) => {
            l.extend(eval::items(v)?);
            Value::None
        }
        ("insert", [Value::Int(i), v]) => {
            let n = l.len() as i64;
            let at = if *i < 0 { i + n } else { *i }.clamp(0, n);
            l.insert(at as usize, v.clone());
            Value::None
        }
        ("pop", []) if !l.is_empty() => l.pop().unwrap_or(Value::None),
        ("pop", [Value::Int(i)]) if *i >= 0 && (*i as usize) < l.len() => l.remove(*i as usize),
        ("clear", []) => {
            l.clear();
            Value::None
        }
        ("copy", []) => return Ok((Value::List(l), None)),
        ("index", [v]) => match l.iter().position(|x| arith::same(x, v)) {
            Some(i) => return Ok((Value::Int(i as i64), None)),
            None => return raise(Error::value(format!("{} is not in list", repr(v)?))),
        },
        ("count", [v]) => {
            return Ok((Value::Int(l.iter().filter(|x| arith::same(x, v)).count() as i64), None));
        }
        ("sort", []) => match sorted(&Value::List(l), &[])?.into_items() {
            Ok(s) => {
                l = s;
                Value::None
            }
            Err(_) => return wrong("sort"),
        },
        ("reverse", []) => {
            l.reverse();
            Value::None
        }
        _ => return wrong(format!("list.{name} of {} arguments", args.len())),
    };
    Ok((result, Some(Value::List(l))))
}
fn dict_method(d: &[(String, Value)], name: &str, args: &[Value]) -> R<(Value, Option<Value>)> {
    let key = |k: &Value| match k {
        Value::Str(s) => s.clone(),
        Value::Int(i) => i.to_string(),
        _ => String::new(),
    };
    let find = |k: &Value| d.iter().find(|(n, _)| *n == key(k)).map(|(_, v)| v.clone());
    let one = match (name, args) {
        ("keys", []) => Value::List(d.iter().map(|(k, _)| Value::Str(k.clone())).collect()),
        ("values", []) => Value::List(d.iter().map(|(_, v)| v.clone()).collect()),
        ("items", []) => {
            Value::List(d.iter().map(|(k, v)| Value::Tuple(vec![Value::Str(k.clone()), v.clone()])).collect())
        }
        ("get", [k]) => find(k).unwrap_or(Value::None),
        ("get", [k, default]) => find(k).unwrap_or(default.clone()),
        ("copy", []) => Value::Dict(d.to_vec()),
        ("update", [Value::Dict(more)]) => {
            let pair = |(k, v): &(String, Value)| (Value::Str(k.clone()), v.clone());
            let all = d.iter().chain(more).map(pair).collect();
            return Ok((Value::None, Some(dictionary(all))));
        }
        ("pop", [k, ..]) => {
            let rest = d.iter().filter(|(n, _)| *n != key(k)).cloned().collect();
            let v = match (find(k), args.get(1)) {
                (Some(v), _) => v,
                (None, Some(default)) => default.clone(),
                (None, None) => return raise(Error::index(repr(k)?)),
            };
            return Ok((v, Some(Value::Dict(rest))));
        }
        _ => return wrong(format!("dict.{name} of {} arguments", args.len())),
    };
    Ok((one, None))
}
fn text_method(s: &str, name: &str, args: &[Value]) -> R<Value> {
    Ok(match (name, args) {
        ("startswith", [Value::Str(p)]) => Value::Bool(s.starts_with(p.as_str())),
        ("endswith", [Value::Str(p)]) => Value::Bool(s.ends_with(p.as_str())),
        ("replace", [Value::Str(a), Value::Str(b)]) => Value::Str(s.replace(a.as_str(), b)),
        ("split", [Value::Str(p)]) => {
            Value::List(s.split(p.as_str()).map(|x| Value::Str(x.into())).collect())
        }
        ("split", []) => Value::List(s.split_whitespace().map(|x| Value::Str(x.into())).collect()),
        ("join", [v]) => {
            let all = eval::items(v)?.iter().map(text).collect::<R<Vec<_>>>()?;
            Value::Str(all.join(s))
        }
        ("strip", []) => Value::Str(s.trim().into()),
        ("upper", []) => Value::Str(s.to_uppercase()),
        ("lower", []) => Value::Str(s.to_lowercase()),
        _ => return wrong(format!("str.{name} of {} arguments", args.len())),
    })
}
