//! Names that stand for others, found where the index has no entry: ATen's names of what Python calls otherwise, overloads
//! that one signature covers here, functions that are methods, functional forms of operators that exist in place.

use crate::{Adapt, Function, NativeFn, Target};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::Value;
use flambeau_core::ops;
use flambeau_core::types::error::{Error, Result};
use flambeau_core::types::schema::OutDtype;
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

/// Inner names of PyTorch for operators that have another here.
const INNER: [(&str, &str); 17] = [
    ("_stack", "torch.stack"),
    ("_conj_physical", "torch.conj_physical"),
    ("_conj_copy", "torch.conj_physical"),
    ("_logcumsumexp", "torch.logcumsumexp"),
    ("_unsafe_index", "aten::index"),
    ("_unsafe_index_put", "aten::index_put"),
    ("_index_put_impl_", "aten::index_put_"),
    ("_is_all_true", "torch.all"),
    ("_is_any_true", "torch.any"),
    ("_cast_Byte", "torch.Tensor.byte"),
    ("_cast_Char", "torch.Tensor.char"),
    ("_cast_Short", "torch.Tensor.short"),
    ("_cast_Int", "torch.Tensor.int"),
    ("_cast_Long", "torch.Tensor.long"),
    ("_cast_Half", "torch.Tensor.half"),
    ("_cast_Float", "torch.Tensor.float"),
    ("_cast_Double", "torch.Tensor.double"),
];

/// The function that a name without entry stands for.
pub(crate) fn find(path: &str, known: Known<'_>) -> Option<Function> {
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
        let method = method.or_else(|| known(&format!("torch.nn.functional.{name}")));
        return method.or_else(|| name.starts_with('_').then(|| inner(name, known)).flatten());
    }
    if name == "affine_grid_generator" {
        return known("torch.nn.functional.affine_grid");
    }
    // what Python shows of ATen's inner operators
    if name.starts_with('_') { inner(name, known) } else { None }
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
    if base.starts_with('_')
        && let Some(f) = inner(base, known)
    {
        return Some(f);
    }
    let inplace = known(&format!("aten::{base}_")).or_else(|| known(&format!("torch.Tensor.{base}_")))?;
    Some(adapted(inplace, of_a_copy))
}

fn inner(name: &str, known: Known<'_>) -> Option<Function> {
    let own = known(&format!("aten::{name}"));
    own.or_else(|| known(INNER.iter().find(|i| i.0 == name)?.1))
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
pub(crate) fn add(functions: &mut HashMap<String, Target>) {
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
    for (paths, adapt) in BY_KEYWORD {
        for path in paths {
            if let Some(target) = functions.remove(*path) {
                let f = Arc::new(Function { path: (*path).to_string(), target });
                functions.insert((*path).to_string(), Target::Adapted(adapt, f));
            }
        }
    }
    for (path, f) in LISTS_OUT {
        functions.insert(path.to_string(), Target::Native(f));
    }
    for (path, f) in NATIVE.iter().chain(crate::symbolic::NATIVE) {
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
        return Err(Error::type_(takes));
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
                    return Err(Error::value(format!("{i} is not a valid value for reduction")));
                }
            };
            *v = Value::Str(text.into());
        }
    }
    crate::call(&format!("torch.nn.functional.{name}"), &[], &named)
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

/// Functions that read their arguments by position, under the names that Python gives those.
const BY_KEYWORD: [(&[&str], Adapt); 2] = [
    (
        &[
            "torch.is_tensor",
            "torch.is_complex",
            "torch.is_conj",
            "torch.is_floating_point",
            "torch.is_inference",
            "torch.is_neg",
            "torch.is_signed",
            "torch.numel",
            "torch.result_type",
            "torch.can_cast",
            "torch.promote_types",
        ],
        in_order,
    ),
    (&["torch.Tensor.copy_"], other_is_src),
];
/// Puts keywords after the positional arguments, first what comes first.
fn in_order(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    const FIRST: [&str; 9] =
        ["input", "obj", "tensor", "tensor1", "scalar", "scalar1", "from", "from_", "type1"];
    const SECOND: [&str; 5] = ["other", "tensor2", "scalar2", "to", "type2"];
    let mut a = args.to_vec();
    for names in [&FIRST[..], &SECOND[..]] {
        let given = kwargs.iter().filter(|(k, _)| names.contains(&k.as_str()));
        a.extend(given.map(|(_, v)| v.clone()));
    }
    match kwargs.iter().find(|(k, _)| !FIRST.contains(&k.as_str()) && !SECOND.contains(&k.as_str())) {
        Some((k, _)) => Err(Error::type_(format!("got an unexpected keyword argument '{k}'"))),
        None => Ok((a, Vec::new())),
    }
}
/// The documentation calls it `src`, the signature `other`.
fn other_is_src(args: &[Value], kwargs: &Kwargs) -> Result<Arguments> {
    let mut named = kwargs.to_vec();
    named.iter_mut().filter(|(k, _)| k == "other").for_each(|(k, _)| *k = "src".into());
    Ok((args.to_vec(), named))
}

/// Functions that write a list of tensors with `out=`.
const LISTS_OUT: [(&str, NativeFn); 3] = [
    ("torch.split_copy", |a, k| list_out("split_copy", "split_copy_Tensor_out", a, k)),
    ("torch.split_with_sizes_copy", |a, k| {
        list_out("split_with_sizes_copy", "split_with_sizes_copy_out", a, k)
    }),
    ("torch.unbind_copy", |a, k| list_out("unbind_copy", "unbind_copy_int_out", a, k)),
];
fn list_out(name: &str, out_name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let mut named = kwargs.to_vec();
    let at = named.iter().position(|(k, v)| k == "out" && !matches!(v, Value::None));
    let out = at.map(|i| named.remove(i).1);
    named.retain(|(k, _)| k != "out");
    let r = crate::call(&format!("aten::{name}"), args, &named)?;
    let Some(out) = out else { return Ok(r) };
    let Some(given) = out.items() else {
        let text = format!("{name}(): argument 'out' must be tuple of Tensors, not {}", out.type_name());
        return Err(Error::type_(text));
    };
    let results = r.first().and_then(Value::items).unwrap_or(&r);
    if given.len() != results.len() {
        let (n, g) = (results.len(), given.len());
        return Err(Error::runtime(format!(
            "{out_name}() expected an out= argument of size {n}, got size {g}"
        )));
    }
    for (g, r) in given.iter().zip(results) {
        let (Value::Tensor(g), Value::Tensor(r)) = (g, r) else {
            return Err(Error::type_(format!("{name}(): argument 'out' must be tuple of Tensors")));
        };
        flambeau_core::backend::out::check_out_dtype(&OutDtype::Cast, r.dtype(), g.dtype())?;
        if g.sizes() != r.sizes() {
            return Err(Error::missing(format!(
                "{name}(): out= with tensors of other sizes, which would be resized"
            )));
        }
        ops::copy_(g, r, false)?;
    }
    Ok(vec![Value::None])
}
