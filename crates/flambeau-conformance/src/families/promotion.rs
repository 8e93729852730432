//! `promotion/`: result dtypes of everything with everything. Every entry of the tables is a case.

use super::errors::judge;
use super::{Case, File, Outcome, text};
use crate::decode::Stop;
use crate::store::tensor_of_bytes;
use flambeau_core::iter::promotion;
use flambeau_core::{DType, Scalar, Value};
use flambeau_library as library;
use num_complex::Complex;
use serde_json::Value as J;

/// All entries of the file.
pub fn cases(f: &File) -> Vec<Case<'_>> {
    let mut all = Vec::new();
    let mut add = |id: String, call: String, want: &J, run: Box<dyn Fn() -> Entry>| {
        let want = want.clone();
        let name = call.clone();
        let run = Box::new(move || {
            if !library::exists(&name) {
                return Outcome::Missing(name.clone());
            }
            Outcome::of(judge_entry(run(), &want))
        });
        all.push(Case { id, call, core: true, run });
    };
    for table in ["promote_types", "can_cast"] {
        for (a, b, want) in pairs(&f.json[table]) {
            let call = format!("torch.{table}");
            let path = call.clone();
            let run = move || one(&path, &[Value::DType(dtype(&a)?), Value::DType(dtype(&b)?)], &[]);
            add(format!("{table}/{}", want.0), call, want.1, Box::new(run));
        }
    }
    for (d, props) in f.json["properties"].as_object().into_iter().flatten() {
        for (p, want) in props.as_object().into_iter().flatten() {
            let (d2, p2) = (d.clone(), p.clone());
            add(
                format!("properties/{d}/{p}"),
                "torch.Tensor.dtype".into(),
                want,
                Box::new(move || property(dtype(&d2)?, &p2)),
            );
        }
    }
    for t in f.list("tables") {
        let default = text(t, "default_dtype").to_string();
        for (kinds, rows) in t["result_type"].as_object().into_iter().flatten() {
            for (a, b, want) in pairs(rows) {
                let (default2, kinds2) = (default.clone(), kinds.clone());
                let run = move || {
                    let _restore = DefaultDType::set(&default2)?;
                    let (ka, kb) = kinds2.split_once(',').unwrap_or(("", ""));
                    one("torch.result_type", &[operand(ka.trim(), &a)?, operand(kb.trim(), &b)?], &[])
                };
                add(
                    format!("{default}/result_type/{kinds}/{}", want.0),
                    "torch.result_type".into(),
                    want.1,
                    Box::new(run),
                );
            }
        }
        for (op, rows) in t["binary_ops"].as_object().into_iter().flatten() {
            let name = op.strip_suffix(":scalar").unwrap_or(op).to_string();
            for (a, b, want) in pairs(rows) {
                let (default2, name2, scalar) = (default.clone(), name.clone(), op.ends_with(":scalar"));
                let run = move || {
                    let _restore = DefaultDType::set(&default2)?;
                    let x = operand("dim", &a)?;
                    let y = operand(if scalar { "scalar" } else { "dim" }, &b)?;
                    result_dtype(binary(&name2, x, y)?)
                };
                add(format!("{default}/{op}/{}", want.0), format!("torch.{name}"), want.1, Box::new(run));
            }
        }
        for (op, row) in t["unary_ops"].as_object().into_iter().flatten() {
            // a trailing number of the entry's name is the second argument
            let name = op.trim_end_matches(|c: char| c.is_ascii_digit()).to_string();
            for (a, want) in row.as_object().into_iter().flatten() {
                let (default2, name2, op2, a2) = (default.clone(), name.clone(), op.clone(), a.clone());
                let run = move || {
                    let _restore = DefaultDType::set(&default2)?;
                    let mut args = vec![operand("dim", &a2)?];
                    if let Ok(n) = op2[name2.len()..].parse() {
                        args.push(Value::Int(n));
                    } else if name2.starts_with("cum") {
                        args.push(Value::Int(0));
                    }
                    result_dtype(one(&format!("torch.{name2}"), &args, &[])?)
                };
                add(format!("{default}/{op}/{a}"), format!("torch.{name}"), want, Box::new(run));
            }
        }
    }
    all
}

/// The entries of a two-level table: both keys, and their joint name with the entry.
fn pairs(j: &J) -> Vec<(String, String, (String, &J))> {
    let mut v = Vec::new();
    for (a, row) in j.as_object().into_iter().flatten() {
        for (b, want) in row.as_object().into_iter().flatten() {
            v.push((a.clone(), b.clone(), (format!("{a}/{b}"), want)));
        }
    }
    v
}

struct DefaultDType(DType);
impl DefaultDType {
    fn set(name: &str) -> Result<Self, Refusal> {
        let old = DefaultDType(promotion::default_dtype());
        promotion::set_default_dtype(dtype(name)?)?;
        Ok(old)
    }
}
impl Drop for DefaultDType {
    fn drop(&mut self) {
        let _ = promotion::set_default_dtype(self.0);
    }
}

fn dtype(name: &str) -> Result<DType, Stop> {
    DType::from_name(name).ok_or_else(|| Stop::Failed(format!("dtype {name}")))
}
fn one(path: &str, args: &[Value], kwargs: &[(String, Value)]) -> Entry {
    Ok(library::call(path, args, kwargs)?.into_iter().next().unwrap_or(Value::None))
}
/// A 1-D or zero-dim tensor of a dtype, or a Python number of a type.
fn operand(kind: &str, name: &str) -> Entry {
    let number = match name {
        "bool" => Scalar::Bool(true),
        "int" => Scalar::Int(3),
        "float" => Scalar::Float(1.5),
        "complex" => Scalar::Complex(Complex::new(1.0, 2.0)),
        _ => Scalar::Int(1),
    };
    if kind == "scalar" {
        return Ok(flambeau_core::dispatch::value::IntoValue::into_value(number));
    }
    let sizes: &[i64] = if kind == "zero" { &[] } else { &[1] };
    let d = dtype(name)?;
    let n = sizes.iter().product::<i64>() as usize;
    Ok(Value::Tensor(tensor_of_bytes(d, sizes, &one_bytes(d).repeat(n)).map_err(Stop::Failed)?))
}
/// The bytes of the number one.
fn one_bytes(d: DType) -> Vec<u8> {
    use DType::*;
    let mut b = match d {
        F16 | C32 => 0x3c00u16.to_le_bytes().to_vec(),
        BF16 | BC32 => 0x3f80u16.to_le_bytes().to_vec(),
        F32 | C64 => 1f32.to_le_bytes().to_vec(),
        F64 | C128 => 1f64.to_le_bytes().to_vec(),
        F8E4M3 => vec![0x38],
        F8E5M2 => vec![0x3c],
        _ => vec![1],
    };
    b.resize(d.size(), 0);
    b
}
fn binary(name: &str, x: Value, y: Value) -> Entry {
    let path = format!("torch.{name}");
    // the argument lists of the few that are not (a, b)
    let args = match name {
        "where" => vec![operand("dim", "bool")?, x, y],
        "cat" => vec![Value::List(vec![x, y])],
        "lerp" => vec![x, y, Value::Float(0.5)],
        _ => vec![x, y],
    };
    one(&path, &args, &[])
}
fn result_dtype(v: Value) -> Entry {
    match &v {
        Value::Tensor(t) => Ok(Value::DType(t.dtype())),
        Value::Tuple(l) | Value::List(l) => result_dtype(l.first().cloned().unwrap_or(Value::None)),
        other => Err(Stop::Failed(format!("a result that is {}", other.type_name())).into()),
    }
}
fn property(d: DType, name: &str) -> Entry {
    Ok(match name {
        "itemsize" => Value::Int(d.size() as i64),
        "is_floating_point" => Value::Bool(d.is_floating()),
        "is_complex" => Value::Bool(d.is_complex()),
        "is_signed" => Value::Bool(d.is_signed()),
        "to_real" => Value::DType(d.to_real()),
        "to_complex" => Value::DType(promotion::to_complex(d)?),
        other => return Err(Stop::Failed(format!("property {other}")).into()),
    })
}

/// Why an entry has no dtype: the library's own error is judged.
enum Refusal {
    Error(flambeau_core::Error),
    Stop(Stop),
}
impl From<flambeau_core::Error> for Refusal {
    fn from(e: flambeau_core::Error) -> Self {
        Refusal::Error(e)
    }
}
impl From<Stop> for Refusal {
    fn from(e: Stop) -> Self {
        Refusal::Stop(e)
    }
}
type Entry = Result<Value, Refusal>;

fn judge_entry(got: Entry, want: &J) -> Result<(), Stop> {
    if let Some(class) = want["error"].as_str() {
        return match got {
            Ok(v) => Err(Stop::Failed(format!("gave {v:?}, expected {class}"))),
            Err(Refusal::Stop(s)) => Err(s),
            Err(Refusal::Error(e)) => judge(&e, class, text(want, "message"), None).map_err(Stop::Failed),
        };
    }
    let ok = match (&got, want) {
        (Ok(Value::DType(d)), J::String(s)) => d.name() == s,
        (Ok(Value::Bool(b)), J::Bool(w)) => b == w,
        (Ok(Value::Int(i)), J::Number(w)) => w.as_i64() == Some(*i),
        _ => false,
    };
    match got {
        _ if ok => Ok(()),
        Ok(v) => Err(Stop::Failed(format!("gave {v:?}, expected {want}"))),
        Err(Refusal::Error(e)) => Err(e.into()),
        Err(Refusal::Stop(s)) => Err(s),
    }
}
