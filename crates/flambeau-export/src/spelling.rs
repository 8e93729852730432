//! How calls of the library's operators are spelled in ATen. Most rows have ATen's name and arguments; functions that Python
//! writes have more arguments, or text where ATen has numbers.

use crate::schemas::{self, Schema};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::registry;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Value};
use flambeau_fx::capture::{Form, Names};

/// The names of programs that are exported.
pub(crate) struct Aten;

/// Operators whose name in ATen is another, with that name.
const OTHERS: &[(&str, &str)] = &[
    ("cross_entropy", "cross_entropy_loss"),
    ("nll_loss", "nll_loss_nd"),
    ("dropout.training", "dropout"),
    ("batch_norm.torch", "batch_norm"),
    ("instance_norm.torch", "instance_norm"),
    ("softmax.functional", "softmax.int"),
    ("log_softmax.functional", "log_softmax.int"),
    ("unfold", "im2col"),
    ("fold", "col2im"),
    ("_gelu_tanh", "gelu"),
    ("embedding.functional", "embedding"),
    ("split.sizes", "split_with_sizes"),
];
/// Operators whose ATen form has numbers where the row has tensors that may be numbers; those that Python calls with tensors
/// all the same are left out.
const AS_TENSORS: &[&str] = &["add", "sub", "mul", "div", "true_divide", "floor_divide", "atan2", "where"];

/// ATen's name for a row, and its signature; none where the row's body is recorded in its place.
fn aten(name: &str) -> Option<(String, Schema)> {
    let other = OTHERS.iter().find(|(n, _)| *n == name).map(|(_, a)| *a);
    if let Some(n) = other {
        return Some((n.to_string(), schemas::of(n)?));
    }
    if let Some(s) = schemas::listed(name) {
        return Some((name.to_string(), s.clone()));
    }
    let base = name.strip_suffix(".functional")?;
    let s = schemas::of(base).filter(|s| !s.args.is_empty())?;
    Some((base.to_string(), s))
}
/// Rows that are several operators in ATen, by their mode.
const RESAMPLING: [&str; 2] = ["interpolate", "interpolate.one_factor"];
/// Overloads that reduce all dimensions where none is named, with the overload that Python calls then.
const WHOLE: &[(&str, &str)] = &[
    ("sum.dim_IntList", "sum.default"),
    ("mean.dim", "mean.default"),
    ("all.dims", "all.default"),
    ("any.dims", "any.default"),
];
/// That of a call, with its arguments: the dtype alone is left.
fn whole(name: &str, args: &[Value]) -> Option<Form> {
    let (_, wish) = WHOLE.iter().find(|(n, _)| *n == name)?;
    let [x, Value::None, Value::Bool(false), rest @ ..] = args else { return None };
    let keywords = match rest {
        [d @ Value::DType(_)] => vec![("dtype".to_string(), d.clone())],
        _ => Vec::new(),
    };
    Some(Form::Call(format!("torch.ops.aten.{wish}"), vec![x.clone()], keywords))
}
fn reduction(v: &Value) -> Value {
    match v {
        Value::Str(s) => Value::Int(match s.as_str() {
            "none" => 0,
            "sum" => 2,
            _ => 1,
        }),
        v => v.clone(),
    }
}
/// Whether an argument says nothing: what ATen has no word for must.
fn silent(name: &str, v: &Value) -> bool {
    match (name, v) {
        (_, Value::None | Value::Bool(false)) => true,
        ("padding_mode", Value::Str(s)) => s == "zeros",
        ("_stacklevel" | "norm_type", _) => true,
        ("inplace" | "cudnn_enable" | "cudnn_enabled", _) => true,
        _ => false,
    }
}
/// A call by the names of ATen's arguments.
fn by_names(info: &OpInfo, args: &[Value], name: &str, to: &Schema) -> Result<Form> {
    let row: Vec<(&str, &Value)> = info.schema.args.iter().map(|a| a.name).zip(args).collect();
    let mut used = vec![false; row.len()];
    let mut take = |names: &[&str]| {
        let at = names.iter().find_map(|n| row.iter().position(|(m, _)| m == n))?;
        used[at] = true;
        Some(row[at].1.clone())
    };
    let (mut positional, mut keywords): (Vec<(Value, bool)>, Vec<(String, Value)>) = (Vec::new(), Vec::new());
    for (i, a) in to.args.iter().enumerate() {
        let found = match a.name.as_str() {
            "train" => take(&["train", "training"]),
            "weight" | "indices" if name == "embedding" => take(&[if i == 0 { "weight" } else { "input" }]),
            "padding_idx" if name == "embedding" => {
                take(&["padding_idx"]).filter(|v| !matches!(v, Value::None))
            }
            "reduction" => take(&["reduction"]).map(|v| reduction(&v)),
            "split_sizes" => take(&["split_sizes", "split_size"]),
            "stride" => take(&["stride"]).or(None).map(|v| match v {
                Value::None => {
                    row.iter().find(|(n, _)| *n == "kernel_size").map_or(Value::None, |(_, v)| (*v).clone())
                }
                v => v,
            }),
            "cudnn_enabled" | "cudnn_enable" => Some(Value::Bool(false)),
            "approximate" if info.name == "_gelu_tanh" => Some(Value::Str("tanh".into())),
            "self" | "input" if i == 0 => take(&["self", "input", "tensor"]),
            n => take(&[n]),
        };
        let text = match &found {
            Some(Value::None) | None => "None".to_string(),
            Some(Value::Bool(b)) => if *b { "True" } else { "False" }.to_string(),
            Some(Value::Int(n)) => n.to_string(),
            Some(Value::Float(x)) => format!("{x:?}"),
            Some(Value::Str(s)) => format!("\"{s}\""),
            Some(Value::List(l)) => {
                let all: Vec<String> = l
                    .iter()
                    .map(|v| if let Value::Int(n) = v { n.to_string() } else { "?".into() })
                    .collect();
                format!("[{}]", all.join(", "))
            }
            Some(_) => "?".to_string(),
        };
        let default = a.default.as_ref().is_some_and(|d| {
            *d == text
                || found.is_none()
                || d.parse::<f64>().ok().is_some_and(|d| text.parse() == Ok(d))
                || (text.starts_with('[') && text.trim_matches(['[', ']']).split(", ").all(|n| n == d))
        });
        let v = match (found, &a.default) {
            (Some(v), _) => v,
            (None, Some(d)) => d.parse::<i64>().map_or(Value::None, Value::Int),
            (None, None) => {
                return Err(Error::missing(format!(
                    "{} in an exported program: {name} wants '{}'",
                    info.name, a.name
                )));
            }
        };
        match (a.kw_only, default) {
            (true, false) => keywords.push((a.name.clone(), v)),
            (true, true) => {}
            (false, default) => positional.push((v, default)),
        }
    }
    while positional.last().is_some_and(|(_, default)| *default) {
        positional.pop();
    }
    if let Some(i) = used.iter().enumerate().position(|(i, u)| !u && !silent(row[i].0, row[i].1)) {
        return Err(Error::missing(format!("{} with {} in an exported program", info.name, row[i].0)));
    }
    let dot = if name.contains('.') { "" } else { ".default" };
    let target = format!("torch.ops.aten.{name}{dot}");
    Ok(Form::Call(target, positional.into_iter().map(|(v, _)| v).collect(), keywords))
}
/// The overload for numbers of an operator that was given a number as a tensor.
fn of_number(name: &str, args: &[Value]) -> Option<String> {
    let (base, overload) = name.split_once('.')?;
    let plain = base.trim_end_matches('_');
    if AS_TENSORS.contains(&plain) {
        return None;
    }
    let is_number = |i: usize| matches!(args.get(i), Some(Value::Tensor(t)) if t.is_wrapped_number());
    let wish = match overload {
        "Tensor_Tensor" if is_number(0) => "Scalar",
        "Tensor_Tensor" if is_number(1) => "Tensor_Scalar",
        "Tensor" if is_number(1) => "Scalar",
        _ => return None,
    };
    let wish = format!("{base}.{wish}");
    let known = schemas::listed(&wish).is_some()
        || registry::find(&format!("aten::{wish}")).is_some_and(|o| o.info().name == wish);
    known.then_some(wish)
}
/// What `interpolate` is in ATen: an operator for each mode and number of dimensions. (Its sizes or factors may be none.)
fn resampled(args: &[Value]) -> Option<Form> {
    let [Value::Tensor(x), size, factors, Value::Str(mode), aligned, recomputed, Value::Bool(smooth)] = args
    else {
        return None;
    };
    let n = x.dim().checked_sub(2).filter(|n| (1..=3).contains(n))?;
    let list = |v: &Value| match v {
        Value::None => None,
        v => Some(match v.items() {
            Some([one]) => vec![one.clone(); n],
            Some(l) => l.to_vec(),
            None => vec![v.clone(); n],
        }),
    };
    let (mut size, mut factors) = (list(size), list(factors));
    if let (Value::Bool(true), Some(f)) = (recomputed, &factors) {
        let one = |(s, f): (&i64, &Value)| {
            f.as_scalar().map(|f| Value::Int((*s as f64 * f.to_f64()).floor() as i64))
        };
        size = Some(x.sizes()[2..].iter().zip(f).map(one).collect::<Option<_>>()?);
        factors = None;
    }
    let by = |l: Option<Vec<Value>>| l.map_or(Value::None, Value::List);
    let (name, linear) = match (mode.as_str(), n, smooth) {
        ("nearest", n, false) => (format!("upsample_nearest{n}d"), false),
        ("nearest-exact", n, false) => (format!("_upsample_nearest_exact{n}d"), false),
        ("linear", 1, false) => ("upsample_linear1d".to_string(), true),
        ("bilinear" | "bicubic", 2, false) => (format!("upsample_{mode}2d"), true),
        ("bilinear" | "bicubic", 2, true) => (format!("_upsample_{mode}2d_aa"), true),
        ("trilinear", 3, false) => ("upsample_trilinear3d".to_string(), true),
        _ => return None,
    };
    let mut all = vec![Value::Tensor(x.clone()), by(size)];
    if linear {
        all.push(Value::Bool(matches!(aligned, Value::Bool(true))));
    }
    all.push(by(factors));
    Some(Form::Call(format!("torch.ops.aten.{name}.vec"), all, Vec::new()))
}
/// Windows: what is said beside the length is said by an overload in ATen.
const WINDOWS: [(&str, &[&str]); 5] = [
    ("hann_window", &["default", "periodic"]),
    ("bartlett_window", &["default", "periodic"]),
    ("blackman_window", &["default", "periodic"]),
    ("hamming_window", &["default", "periodic", "periodic_alpha", "periodic_alpha_beta"]),
    ("kaiser_window", &["default", "periodic", "beta"]),
];
/// What puts elements back where a pool took them from: ATen wants the size, which follows from the window's sizes.
fn unpooled(name: &str, args: &[Value]) -> Option<Form> {
    let [Value::Tensor(x), at, kernel, stride, padding, size] = args else { return None };
    let n = if name == "max_unpool2d" { 2 } else { 3 };
    let ints = |v: &Value| -> Option<Vec<i64>> {
        let all = v.items()?.iter().map(|v| if let Value::Int(i) = v { Some(*i) } else { None });
        let all: Vec<i64> = all.collect::<Option<_>>()?;
        if let [one] = all[..] { Some(vec![one; n]) } else { Some(all) }
    };
    let kernel = ints(kernel)?;
    let stride = if matches!(stride, Value::None) { kernel.clone() } else { ints(stride)? };
    let padding = ints(padding)?;
    let given = x.sizes().get(x.dim().checked_sub(n)?..)?;
    let size: Vec<i64> = match ints(size) {
        Some(all) => all.get(all.len().checked_sub(n)?..)?.to_vec(),
        None if kernel.len() == n && stride.len() == n && padding.len() == n => {
            (0..n).map(|d| (given[d] - 1) * stride[d] - 2 * padding[d] + kernel[d]).collect()
        }
        None => return None,
    };
    let list = |l: Vec<i64>| Value::List(l.into_iter().map(Value::Int).collect());
    let mut all = vec![Value::Tensor(x.clone()), at.clone(), list(size)];
    if n == 3 {
        all.extend([list(stride), list(padding)]);
    }
    Some(Form::Call(format!("torch.ops.aten.{name}.default"), all, Vec::new()))
}
impl Names for Aten {
    fn opens(&self, info: &'static OpInfo) -> bool {
        // ATen has one operator for values and indices
        if info.composite && info.name.starts_with("adaptive_max_pool") {
            return true;
        }
        info.composite
            && !RESAMPLING.contains(&info.name)
            && aten(info.name).is_none()
            && schemas::is_foreign(info.name)
    }
    fn form(&self, name: &str, _: &[&str], args: &[Value]) -> Result<Form> {
        let info = match registry::find(&format!("aten::{name}")).or_else(|| registry::find(name)) {
            Some(o) if o.info().name == name => o.info(),
            _ => return Ok(Form::Own),
        };
        if let Some(wish) = of_number(name, args) {
            let (positional, keywords) = flambeau_fx::capture::split(&info.schema, args);
            return Ok(Form::Call(format!("torch.ops.aten.{wish}"), positional, keywords));
        }
        // one dimension alone
        if let ("movedim.intlist", [x, Value::List(from), Value::List(to)]) = (name, args)
            && let ([from], [to]) = (&from[..], &to[..])
        {
            let args = vec![x.clone(), from.clone(), to.clone()];
            return Ok(Form::Call("torch.ops.aten.movedim.int".to_string(), args, Vec::new()));
        }
        if let Some(form) = whole(name, args) {
            return Ok(form);
        }
        if let ("_adaptive_max_pool", [_, Value::List(size)]) = (name, args) {
            let target = format!("torch.ops.aten.adaptive_max_pool{}d.default", size.len());
            return Ok(Form::Call(target, args.to_vec(), Vec::new()));
        }
        if let ("max_unpool2d" | "max_unpool3d", Some(form)) = (name, unpooled(name, args)) {
            return Ok(form);
        }
        if let Some((_, overloads)) = WINDOWS.iter().find(|(window, _)| *window == name) {
            let (positional, keywords) = flambeau_fx::capture::split(&info.schema, args);
            let overload = positional.len().checked_sub(1).and_then(|i| overloads.get(i));
            if let Some(overload) = overload {
                return Ok(Form::Call(format!("torch.ops.aten.{name}.{overload}"), positional, keywords));
            }
        }
        if RESAMPLING.contains(&name) {
            return resampled(args).ok_or_else(|| {
                let mode =
                    args.get(3).and_then(|v| if let Value::Str(s) = v { Some(s.as_str()) } else { None });
                Error::missing(format!("interpolate by {} in an exported program", mode.unwrap_or("no mode")))
            });
        }
        // a conversion that names a dtype alone
        if let ("to.dtype_layout", [x, d @ Value::DType(_), rest @ ..]) = (name, args)
            && rest.iter().all(|v| matches!(v, Value::None | Value::Bool(false)))
        {
            let target = "torch.ops.aten.to.dtype".to_string();
            return Ok(Form::Call(target, vec![x.clone(), d.clone()], Vec::new()));
        }
        match aten(name) {
            Some((aten, schema)) => by_names(info, args, &aten, &schema),
            None => Ok(Form::Own),
        }
    }
}
