//! Operators of programs: Python's on its own values, the library's on tensors.

use super::builtins;
use super::scope::{R, Special, raise, wrong};
use flambeau_core::{Error, Value};
use flambeau_library as library;

/// Whether a value counts as true.
pub fn truth(v: &Value) -> R<bool> {
    if let Some(s) = Special::of(v) {
        return Ok(match s {
            Special::Set(l) => !l.is_empty(),
            Special::Pairs(l) => !l.is_empty(),
            _ => true,
        });
    }
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
/// An integer of a slice: `None` for none.
pub fn integer(v: &Value) -> R<Option<i64>> {
    match v {
        Value::None => Ok(None),
        Value::Int(i) => Ok(Some(*i)),
        Value::Bool(b) => Ok(Some(i64::from(*b))),
        Value::Tensor(_) => integer(&library::method(v, "item", &[], &[])?),
        other => wrong(format!("an index that is a {}", other.type_name())),
    }
}
/// Python's `==` of values that are no tensors.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::None, Value::None) | (Value::Ellipsis, Value::Ellipsis) => true,
        (Value::Str(x), Value::Str(y)) => x == y,
        (Value::DType(x), Value::DType(y)) => x == y,
        (Value::Layout(x), Value::Layout(y)) => x == y,
        (Value::Device(x), Value::Device(y)) => x == y,
        (Value::MemoryFormat(x), Value::MemoryFormat(y)) => x == y,
        (Value::Tensor(x), Value::Tensor(y)) => x.is_same(y),
        (Value::Dict(x), Value::Dict(y)) => {
            x.len() == y.len() && x.iter().all(|(k, v)| y.iter().any(|(n, w)| n == k && same(v, w)))
        }
        (Value::List(x), Value::List(y)) => all_same(x, y),
        (Value::Object(x), Value::Object(y)) => match (Special::of(a), Special::of(b)) {
            (
                Some(Special::Builtin(m) | Special::Class(m)),
                Some(Special::Builtin(n) | Special::Class(n)),
            ) => m == n,
            (Some(Special::Set(m)), Some(Special::Set(n))) => {
                m.len() == n.len() && m.iter().all(|v| n.iter().any(|w| same(v, w)))
            }
            _ => {
                std::ptr::addr_eq(x.as_any(), y.as_any())
                    || matches!(
                        x.method("__eq__", std::slice::from_ref(b), &[]).as_deref(),
                        Ok([Value::Bool(true)])
                    )
            }
        },
        (Value::Tuple(_) | Value::Named(_), Value::Tuple(_) | Value::Named(_)) => {
            all_same(a.items().unwrap_or(&[]), b.items().unwrap_or(&[]))
        }
        _ => match (a.as_scalar(), b.as_scalar()) {
            (Some(x), Some(y)) => x.to_f64() == y.to_f64(),
            _ => false,
        },
    }
}
fn all_same(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same(x, y))
}
fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(_) | Value::Tuple(_) | Value::Dict(_), _) => false,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b) && same(a, b),
    }
}
/// Whether a container holds a value.
fn contains(of: &Value, v: &Value) -> R<bool> {
    Ok(match of {
        Value::Str(s) => matches!(v, Value::Str(part) if s.contains(part.as_str())),
        Value::Tensor(_) => truth(&library::method(of, "__contains__", std::slice::from_ref(v), &[])?)?,
        _ => super::eval::items(of)?.iter().any(|x| same(x, v)),
    })
}
/// Names of operators' methods.
const METHODS: [(&str, &str, &str); 20] = [
    ("+", "__add__", "__radd__"),
    ("-", "__sub__", "__rsub__"),
    ("*", "__mul__", "__rmul__"),
    ("/", "__truediv__", "__rtruediv__"),
    ("//", "__floordiv__", "__rfloordiv__"),
    ("%", "__mod__", "__rmod__"),
    ("**", "__pow__", "__rpow__"),
    ("@", "__matmul__", "__rmatmul__"),
    ("&", "__and__", "__rand__"),
    ("|", "__or__", "__ror__"),
    ("^", "__xor__", "__rxor__"),
    ("<<", "__lshift__", "__rlshift__"),
    (">>", "__rshift__", "__rrshift__"),
    ("==", "__eq__", "__eq__"),
    ("!=", "__ne__", "__ne__"),
    ("<", "__lt__", "__gt__"),
    ("<=", "__le__", "__ge__"),
    (">", "__gt__", "__lt__"),
    (">=", "__ge__", "__le__"),
    ("neg", "__neg__", "__neg__"),
];
fn is_foreign(v: &Value) -> bool {
    matches!(v, Value::Tensor(_)) || (matches!(v, Value::Object(_)) && Special::of(v).is_none())
}
/// An operator of one or more operands (comparisons chain).
pub fn operator(op: &str, args: &[Value]) -> R<Value> {
    match (op, args) {
        ("not", [a]) => Ok(Value::Bool(!truth(a)?)),
        ("neg" | "pos" | "invert", [a]) => unary(op, a),
        ("is", [a, b]) => Ok(Value::Bool(identical(a, b))),
        ("is not", [a, b]) => Ok(Value::Bool(!identical(a, b))),
        ("in", [a, b]) => Ok(Value::Bool(contains(b, a)?)),
        ("not in", [a, b]) => Ok(Value::Bool(!contains(b, a)?)),
        (_, [a, b]) => binary(op, a, b),
        (_, [a, b, ..]) => {
            if !truth(&binary(op, a, b)?)? {
                return Ok(Value::Bool(false));
            }
            operator(op, &args[1..])
        }
        _ => wrong(format!("operator {op} of {} operands", args.len())),
    }
}
fn unary(op: &str, a: &Value) -> R<Value> {
    Ok(match (op, a) {
        ("neg", Value::Int(i)) => Value::Int(-i),
        ("neg", Value::Float(x)) => Value::Float(-x),
        ("neg", Value::Complex(x)) => Value::Complex(-x),
        ("pos", Value::Int(_) | Value::Float(_) | Value::Complex(_)) => a.clone(),
        ("invert", Value::Int(i)) => Value::Int(!i),
        ("neg", _) => library::method(a, "__neg__", &[], &[])?,
        ("pos", _) => library::method(a, "__pos__", &[], &[])?,
        _ => library::method(a, "__invert__", &[], &[])?,
    })
}
/// `x op= y`: in place for tensors.
pub fn update(op: &str, a: Value, b: Value) -> R<Value> {
    if matches!(a, Value::Tensor(_)) {
        let Some((_, name, _)) = METHODS.iter().find(|m| m.0 == op) else {
            return wrong(format!("operator {op}="));
        };
        let name = name.replacen("__", "__i", 1);
        if library::exists(&format!("torch.Tensor.{name}")) {
            return Ok(library::method(&a, &name, &[b], &[])?);
        }
    }
    binary(op, &a, &b)
}
fn binary(op: &str, a: &Value, b: &Value) -> R<Value> {
    if is_foreign(a) || is_foreign(b) {
        if matches!(op, "==" | "!=") && !matches!((a, b), (Value::Tensor(_), _) | (_, Value::Tensor(_))) {
            return Ok(Value::Bool(same(a, b) == (op == "==")));
        }
        let Some((_, name, swapped)) = METHODS.iter().find(|m| m.0 == op) else {
            return wrong(format!("operator {op}"));
        };
        return Ok(if is_foreign(a) {
            library::method(a, name, std::slice::from_ref(b), &[])?
        } else {
            library::method(b, swapped, std::slice::from_ref(a), &[])?
        });
    }
    match op {
        "==" => return Ok(Value::Bool(same(a, b))),
        "!=" => return Ok(Value::Bool(!same(a, b))),
        "<" | "<=" | ">" | ">=" => {
            let order = builtins::order(a, b)?;
            return Ok(Value::Bool(match op {
                "<" => order.is_lt(),
                "<=" => order.is_le(),
                ">" => order.is_gt(),
                _ => order.is_ge(),
            }));
        }
        _ => {}
    }
    match (op, a, b) {
        ("+", Value::Str(x), Value::Str(y)) => return Ok(Value::Str(format!("{x}{y}"))),
        ("+", Value::List(x), Value::List(y)) => return Ok(Value::List([&x[..], &y[..]].concat())),
        ("+", Value::Tuple(_) | Value::Named(_), Value::Tuple(_) | Value::Named(_)) => {
            return Ok(Value::Tuple([a.items().unwrap_or(&[]), b.items().unwrap_or(&[])].concat()));
        }
        ("*", Value::List(x), Value::Int(n)) => return Ok(Value::List(repeated(x, *n))),
        ("*", Value::Tuple(x), Value::Int(n)) => return Ok(Value::Tuple(repeated(x, *n))),
        ("*", Value::Str(x), Value::Int(n)) => return Ok(Value::Str(x.repeat((*n).max(0) as usize))),
        _ => {}
    }
    numbers(op, a, b)
}
fn repeated(l: &[Value], n: i64) -> Vec<Value> {
    (0..n).flat_map(|_| l.iter().cloned()).collect()
}
fn numbers(op: &str, a: &Value, b: &Value) -> R<Value> {
    let (Some(x), Some(y)) = (a.as_scalar(), b.as_scalar()) else {
        return raise(Error::type_(format!(
            "unsupported operand type(s) for {op}: '{}' and '{}'",
            a.type_name(),
            b.type_name()
        )));
    };
    if let (Value::Int(_) | Value::Bool(_), Value::Int(_) | Value::Bool(_)) = (a, b) {
        let (i, j) = (integer(a)?.unwrap_or(0), integer(b)?.unwrap_or(0));
        let exact = match op {
            "+" => i.checked_add(j),
            "-" => i.checked_sub(j),
            "*" => i.checked_mul(j),
            "//" if j != 0 => Some((i as f64 / j as f64).floor() as i64).filter(|_| i.abs() < 1 << 52),
            "%" if j != 0 => Some(((i % j) + j) % j),
            "**" => u32::try_from(j).ok().and_then(|j| i.checked_pow(j)),
            "&" => Some(i & j),
            "|" => Some(i | j),
            "^" => Some(i ^ j),
            "<<" => i.checked_shl(j as u32),
            ">>" => i.checked_shr(j as u32),
            _ => None,
        };
        if let Some(n) = exact {
            return Ok(Value::Int(n));
        }
    }
    if let (Value::Complex(_), _) | (_, Value::Complex(_)) = (a, b) {
        let (x, y) = (x.to_complex(), y.to_complex());
        return Ok(Value::Complex(match op {
            "+" => x + y,
            "-" => x - y,
            "*" => x * y,
            "/" => x / y,
            "**" => x.powc(y),
            _ => return wrong(format!("operator {op} of complex numbers")),
        }));
    }
    let (x, y) = (x.to_f64(), y.to_f64());
    Ok(Value::Float(match op {
        "+" => x + y,
        "-" => x - y,
        "*" => x * y,
        "/" => x / y,
        "//" => (x / y).floor(),
        "%" => x - y * (x / y).floor(),
        "**" => x.powf(y),
        _ => return wrong(format!("operator {op} of numbers")),
    }))
}
