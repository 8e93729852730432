//! Names that stand for others, found where the index has no entry: ATen's names of what Python calls otherwise, overloads
//! that one signature covers here, functions that are methods, functional forms of operators that exist in place.

use super::object::Kwargs;
use super::{Adapt, Function, NativeFn, Target};
use crate::error::Result;
use crate::ops;
use crate::value::Value;
use std::collections::HashMap;
use std::sync::Arc;

type Arguments = (Vec<Value>, Vec<(String, Value)>);
type Known<'a> = &'a dyn Fn(&str) -> Option<Function>;

/// ATen's names of questions that Python asks otherwise.
const QUESTIONS: [(&str, &str); 8] = [
    ("sym_size", "torch.Tensor.size"),
    ("sym_stride", "torch.Tensor.stride"),
    ("sym_numel", "torch.Tensor.numel"),
    ("sym_storage_offset", "torch.Tensor.storage_offset"),
    ("sym_is_contiguous", "torch.Tensor.is_contiguous"),
    ("_local_scalar_dense", "torch.Tensor.item"),
    ("unique_dim_consecutive", "aten::unique_consecutive"),
    ("linalg_cross", "torch.linalg.cross"),
];

/// The function that a name without entry stands for.
pub(super) fn find(path: &str, known: Known<'_>) -> Option<Function> {
    if let Some(name) = path.strip_prefix("torch.ops.aten.").or_else(|| path.strip_prefix("aten::")) {
        return aten(name.strip_suffix(".default").unwrap_or(name), known);
    }
    let name = path.strip_prefix("torch.")?;
    if name.contains('.') {
        return None;
    }
    if name.ends_with('_') {
        // in-place functions (`torch.relu_`) are the methods, with `input` in the place of self
        let method = known(&format!("torch.Tensor.{name}")).map(|f| adapted(f, input_first));
        return method.or_else(|| known(&format!("torch.nn.functional.{name}")));
    }
    // what Python shows of ATen's inner operators
    if name.starts_with('_') { known(&format!("aten::{name}")) } else { None }
}

/// `add.Scalar` is `add` with a number, `arccos` an alias that Python knows, `special_erf` one of a module.
fn aten(name: &str, known: Known<'_>) -> Option<Function> {
    let base = name.split('.').next().unwrap_or(name);
    let module =
        |prefix: &str, module: &str| base.strip_prefix(prefix).map(|n| format!("torch.{module}.{n}"));
    let mut places = vec![format!("aten::{base}"), format!("torch.{base}")];
    places.extend(
        [module("special_", "special"), module("linalg_", "linalg"), module("fft_", "fft")]
            .into_iter()
            .flatten(),
    );
    places.push(format!("torch.Tensor.{base}"));
    places.extend(QUESTIONS.iter().filter(|q| q.0 == base).map(|q| q.1.to_string()));
    if let Some(f) = places.iter().find_map(|p| known(p)) {
        return Some(f);
    }
    let inplace = known(&format!("aten::{base}_")).or_else(|| known(&format!("torch.Tensor.{base}_")))?;
    Some(adapted(inplace, of_a_copy))
}

fn adapted(f: Function, adapt: Adapt) -> Function {
    Function { path: f.path.clone(), target: Target::Adapted(adapt, Arc::new(f)) }
}

/// The first argument may be called `input`.
fn input_first(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    if a.0.is_empty()
        && let Some(i) = a.1.iter().position(|(k, _)| k == "input")
    {
        a.0.push(a.1.remove(i).1);
    }
    Ok(a)
}
/// The functional form of what writes its first argument: it writes a copy.
fn of_a_copy(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = input_first(args, kwargs)?;
    if let Some(Value::Tensor(t)) = a.0.first_mut() {
        *t = ops::clone(t, None)?;
    }
    Ok(a)
}

/// Functions that still take their scale before a tensor, by where it stands and what it is called.
const OLD_ORDERS: [(&[&str], Adapt); 3] = [
    (&["add", "sub", "subtract"], alpha_second),
    (&["addcmul", "addcdiv"], value_second),
    (&["addmm", "addbmm", "baddbmm", "addmv", "addr"], beta_first),
];

/// Puts the old argument orders before the functions concerned.
pub(super) fn add(functions: &mut HashMap<String, Target>) {
    for (names, adapt) in OLD_ORDERS {
        for name in names {
            for path in
                [format!("torch.{name}"), format!("torch.Tensor.{name}"), format!("torch.Tensor.{name}_")]
            {
                if let Some(target) = functions.remove(&path) {
                    let f = Arc::new(Function { path: path.clone(), target });
                    functions.insert(path, Target::Adapted(adapt, f));
                }
            }
        }
    }
    for (path, f) in NATIVE.iter().chain(super::symbolic::NATIVE) {
        functions.entry((*path).to_string()).or_insert(Target::Native(*f));
    }
}

fn is_number(v: Option<&Value>) -> bool {
    v.is_some_and(|v| v.as_scalar().is_some())
}
/// `add(input, alpha, other)`, or `sub(input, other, alpha)` with two numbers
fn alpha_second(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    if a.0.len() == 3 && is_number(a.0.get(1)) {
        let at = if is_number(a.0.get(2)) { 2 } else { 1 };
        a.1.push(("alpha".into(), a.0.remove(at)));
    }
    Ok(a)
}
/// `addcmul(input, value, tensor1, tensor2)`
fn value_second(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    if a.0.len() == 4 && is_number(a.0.get(1)) {
        a.1.push(("value".into(), a.0.remove(1)));
    }
    Ok(a)
}
/// `addmm(beta, input, alpha, mat1, mat2)`, without alpha too; of a method `t.addmm(beta, alpha, mat1, mat2)`
fn beta_first(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut a = (args.to_vec(), kwargs.to_vec());
    if !(4..=5).contains(&a.0.len()) {
        return Ok(a);
    }
    let at = usize::from(!is_number(a.0.first()));
    if is_number(a.0.get(at)) {
        a.1.push(("beta".into(), a.0.remove(at)));
        if is_number(a.0.get(1)) {
            a.1.push(("alpha".into(), a.0.remove(1)));
        }
    }
    Ok(a)
}

/// Functions of ATen whose reduction is a number and whose arguments have an order of their own.
const LOSSES: [(&str, &[&str]); 7] = [
    ("binary_cross_entropy_with_logits", &["input", "target", "weight", "pos_weight", "reduction"]),
    ("cosine_embedding_loss", &["input1", "input2", "target", "margin", "reduction"]),
    ("hinge_embedding_loss", &["input", "target", "margin", "reduction"]),
    ("kl_div", &["input", "target", "reduction"]),
    ("margin_ranking_loss", &["input1", "input2", "target", "margin", "reduction"]),
    ("poisson_nll_loss", &["input", "target", "log_input", "full", "eps", "reduction"]),
    ("triplet_margin_loss", &["anchor", "positive", "negative", "margin", "p", "eps", "swap", "reduction"]),
];

/// A loss by its name under `torch.`: the one of nn.functional with the arguments named.
fn loss(name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names = LOSSES.iter().find(|l| l.0 == name).map_or(&[][..], |l| l.1);
    if args.len() > names.len() {
        let takes =
            format!("{name}() takes {} positional arguments but {} were given", names.len(), args.len());
        return Err(crate::error::Error::type_(takes));
    }
    let given = names.iter().zip(args).map(|(n, v)| ((*n).to_string(), v.clone()));
    let mut named: Vec<(String, Value)> = given.chain(kwargs.iter().cloned()).collect();
    for (k, v) in &mut named {
        if k == "self" {
            *k = "input".into();
        }
        if let ("reduction", Value::Int(i)) = (k.as_str(), &*v) {
            let text = match i {
                0 => "none",
                1 => "mean",
                2 => "sum",
                _ => {
                    return Err(crate::error::Error::value(format!(
                        "{i} is not a valid value for reduction"
                    )));
                }
            };
            *v = Value::Str(text.into());
        }
    }
    super::call(&format!("torch.nn.functional.{name}"), &[], &named)
}

const NATIVE: &[(&str, NativeFn)] = &[
    ("torch.binary_cross_entropy_with_logits", |a, k| loss("binary_cross_entropy_with_logits", a, k)),
    ("torch.cosine_embedding_loss", |a, k| loss("cosine_embedding_loss", a, k)),
    ("torch.hinge_embedding_loss", |a, k| loss("hinge_embedding_loss", a, k)),
    ("torch.kl_div", |a, k| loss("kl_div", a, k)),
    ("torch.margin_ranking_loss", |a, k| loss("margin_ranking_loss", a, k)),
    ("torch.poisson_nll_loss", |a, k| loss("poisson_nll_loss", a, k)),
    ("torch.triplet_margin_loss", |a, k| loss("triplet_margin_loss", a, k)),
];
