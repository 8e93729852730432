//! Derivatives: `torch.func.grad` and its like.

use super::{Given, arguments, class, flag, made, value};
use crate::functionalize::{self as pure, Remove};
use crate::gradients::{Inputs, Linear, jacobian_by_columns, jacobian_by_rows, push};
use crate::levels::Randomness;
use crate::spec::{Spec, flatten, map_tensors, no_tensor, python, tensors};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::Value;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{Error, Result, Tensor, ensure};
use flambeau_library::NativeFn;
use flambeau_library::slots::Slots;

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.func.grad", grad),
    ("torch.func.grad_and_value", grad_and_value),
    ("torch.func.vjp", vjp),
    ("torch.func.jvp", jvp),
    ("torch.func.jacrev", jacrev),
    ("torch.func.jacfwd", jacfwd),
    ("torch.func.hessian", hessian),
    ("torch.func.linearize", linearize),
    ("torch.func.functionalize", functionalize),
];

/// Which arguments a function is differentiated for.
#[derive(Clone)]
enum Argnums {
    One(i64),
    Many(Vec<i64>),
}
impl Argnums {
    fn read(v: &Value) -> Result<Argnums> {
        let wrong = || Error::runtime(format!("argnums must be int or Tuple[int, ...], got: {}", class(v)));
        match v {
            Value::Int(i) => Ok(Argnums::One(*i)),
            Value::Tuple(l) => {
                ensure!(!l.is_empty(), Runtime, "argnums must be non-empty");
                let one = |v: &Value| if let Value::Int(i) = v { Ok(*i) } else { Err(wrong()) };
                Ok(Argnums::Many(l.iter().map(one).collect::<Result<_>>()?))
            }
            _ => Err(wrong()),
        }
    }
    /// Their places among `n` arguments.
    fn places(&self, n: usize) -> Result<Vec<usize>> {
        let all = match self {
            Argnums::One(i) => std::slice::from_ref(i),
            Argnums::Many(l) => l,
        };
        let mut found: Vec<usize> = Vec::new();
        for i in all {
            ensure!(
                (-(n as i64)..n as i64).contains(i),
                Runtime,
                "Got argnum={i}, but only {n} positional inputs"
            );
            let at = i.rem_euclid(n as i64) as usize;
            ensure!(
                !found.contains(&at),
                Runtime,
                "argnums elements must be unique, got {}",
                python(&Value::Tuple(all.iter().map(|i| Value::Int(*i)).collect()))
            );
            found.push(at);
        }
        Ok(found)
    }
}

/// The chosen arguments of a call, as a tree.
struct Chosen<'a> {
    args: &'a [Value],
    at: Vec<usize>,
    spec: Spec,
    tensors: Vec<Tensor>,
}
impl<'a> Chosen<'a> {
    fn new(args: &'a [Value], argnums: &Argnums) -> Result<Chosen<'a>> {
        let at = argnums.places(args.len())?;
        let tree = match argnums {
            Argnums::One(_) => args[at[0]].clone(),
            Argnums::Many(_) => Value::Tuple(at.iter().map(|i| args[*i].clone()).collect()),
        };
        let (spec, leaves) = flatten(&tree);
        let tensors = tensors(&leaves).map_err(|t| {
            Error::value(format!("Thing passed to transform API must be Tensor, got <class '{t}'>"))
        })?;
        Ok(Chosen { args, at, spec, tensors })
    }
    /// All arguments, with these in the place of the chosen ones.
    fn with(&self, xs: &[Tensor], argnums: &Argnums) -> Vec<Value> {
        let tree = self.tree(xs);
        let mut args = self.args.to_vec();
        match (argnums, &tree) {
            (Argnums::Many(_), Value::Tuple(l)) => {
                for (i, v) in self.at.iter().zip(l) {
                    args[*i] = v.clone();
                }
            }
            _ => args[self.at[0]] = tree,
        }
        args
    }
    fn tree(&self, xs: &[Tensor]) -> Value {
        self.spec.build(&mut xs.iter().cloned().map(Value::Tensor))
    }
}

/// A result and what goes with it.
fn apart(v: Value, has_aux: bool, of: &str) -> Result<(Value, Option<Value>)> {
    if !has_aux {
        return Ok((v, None));
    }
    match &v {
        Value::Tuple(l) if l.len() == 2 => Ok((l[0].clone(), Some(l[1].clone()))),
        _ => Err(Error::runtime(format!(
            "{of}: output of function f should be a tuple: (output, aux) if has_aux is True"
        ))),
    }
}
/// What goes with results leaves the graph of the inputs.
fn cut(inputs: &Inputs, aux: Option<Value>) -> Result<Option<Value>> {
    aux.map(|v| crate::spec::map_tensors(&v, &mut |t| inputs.cut(t))).transpose()
}

fn gradient(name: &'static str, args: &[Value], kwargs: &Kwargs, both: bool) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["func", "argnums", "has_aux"], args, kwargs)?;
    let f = Given::new(s.must(0)?)?;
    let (nums, has_aux) = (value(&s, 1, Value::Int(0)), flag(&s, 2)?);
    Ok(vec![made(&f.name(), move |args, kwargs| {
        const OF: &str = "grad_and_value(f)(*args)";
        let nums = Argnums::read(&nums)?;
        let chosen = Chosen::new(args, &nums)?;
        let inputs = Inputs::new(&chosen.tensors)?;
        let (out, aux) =
            apart(inputs.call(|| f.call(&chosen.with(&inputs.args, &nums), kwargs))?, has_aux, OF)?;
        let out = out.into_tensor().map_err(|out| {
            Error::runtime(format!("{OF}: Expected f(*args) to return a Tensor, got {}", class(&out)))
        })?;
        ensure!(
            out.dim() == 0,
            Runtime,
            "{OF}: Expected f(*args) to return a scalar Tensor, got tensor with {} dims. Maybe you wanted to use the vjp or jacrev \
             APIs instead?",
            out.dim()
        );
        ensure!(
            out.dtype().is_floating(),
            Runtime,
            "grad can be implicitly created only for real scalar outputs but got torch.{}",
            out.dtype().name()
        );
        let grads = chosen.tree(&inputs.pull(std::slice::from_ref(&out), &[None], false)?);
        let value = Value::Tensor(inputs.cut(&out)?);
        let aux = cut(&inputs, aux)?;
        Ok(vec![match (both, aux) {
            (true, Some(aux)) => Value::Tuple(vec![grads, Value::Tuple(vec![value, aux])]),
            (true, None) => Value::Tuple(vec![grads, value]),
            (false, Some(aux)) => Value::Tuple(vec![grads, aux]),
            (false, None) => grads,
        }])
    })])
}
fn grad(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    gradient("grad", args, kwargs, false)
}
fn grad_and_value(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    gradient("grad_and_value", args, kwargs, true)
}

/// Keywords of functions that take the arguments of `f` by position.
fn keywords<'a>(kwargs: &'a Kwargs, names: &[&str]) -> Result<Vec<Option<&'a Value>>> {
    if let Some((k, _)) = kwargs.iter().find(|(k, _)| !names.contains(&k.as_str())) {
        return Err(Error::type_(format!("got an unexpected keyword argument '{k}'")));
    }
    Ok(names.iter().map(|n| kwargs.iter().find(|(k, _)| k == n).map(|(_, v)| v)).collect())
}
fn split_first(args: &[Value]) -> Result<(Given, &[Value])> {
    let (f, rest) =
        args.split_first().ok_or_else(|| Error::type_("missing 1 required positional argument: 'func'"))?;
    Ok((Given::new(f)?, rest))
}
/// Results of a function as a tree of tensors.
fn results(v: &Value, of: &str) -> Result<(Spec, Vec<Tensor>)> {
    let (spec, leaves) = flatten(v);
    let all = tensors(&leaves)
        .map_err(|t| no_tensor(&format!("{of}: expected f(*primals) to return only tensors"), t))?;
    ensure!(!all.is_empty(), Runtime, "{of}: expected f to have at least one tensor output");
    Ok((spec, all))
}
fn all_of(n: usize) -> Argnums {
    Argnums::Many((0..n as i64).collect())
}

fn vjp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    const OF: &str = "vjp(f, *primals)";
    let (f, primals) = split_first(args)?;
    let has_aux = matches!(keywords(kwargs, &["has_aux"])?[0], Some(Value::Bool(true)));
    let nums = all_of(primals.len());
    let chosen = Chosen::new(primals, &nums)?;
    let inputs = Inputs::new(&chosen.tensors)?;
    let (out, aux) = apart(inputs.call(|| f.call(&chosen.with(&inputs.args, &nums), &[]))?, has_aux, OF)?;
    let (spec, outs) = results(&out, OF)?;
    let shown = outs.iter().map(|t| Ok(Value::Tensor(inputs.cut(t)?))).collect::<Result<Vec<_>>>()?;
    let shown = spec.build(&mut shown.into_iter());
    let aux = cut(&inputs, aux)?;
    let tree = chosen.spec.clone();
    let pull = made("vjp_fn", move |v, kwargs| {
        keywords(kwargs, &["retain_graph", "create_graph"])?;
        let given = match (v, &spec) {
            ([one], _) => one.clone(),
            (many, _) => Value::Tuple(many.to_vec()),
        };
        let (got, leaves) = flatten(&given);
        ensure!(
            got == spec,
            Runtime,
            "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. cotangents: {}, \
             primal output: {}",
            got.stars(),
            spec.stars()
        );
        let v = tensors(&leaves).map_err(|t| no_tensor("vjp_fn: expected cotangents to be tensors", t))?;
        for (i, (v, out)) in v.iter().zip(&outs).enumerate() {
            ensure!(
                v.sizes() == out.sizes(),
                Runtime,
                "Mismatch in shape: grad_output[{i}] has a shape of torch.Size({}) and output[{i}] has a shape of torch.Size({}).",
                fmt_sizes(v.sizes()),
                fmt_sizes(out.sizes())
            );
        }
        let g = inputs.pull(&outs, &v.into_iter().map(Some).collect::<Vec<_>>(), true)?;
        Ok(vec![tree.build(&mut g.into_iter().map(Value::Tensor))])
    });
    Ok(vec![Value::Tuple([Some(shown), Some(pull), aux].into_iter().flatten().collect())])
}

fn jvp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    const OF: &str = "jvp(f, primals, tangents)";
    let s = Slots::new("jvp", &["func", "primals", "tangents", "strict", "has_aux"], args, kwargs)?;
    let f = Given::new(s.must(0)?)?;
    let (primals, tangents) = (s.must(1)?, s.must(2)?);
    let has_aux = flag(&s, 4)?;
    let Value::Tuple(given) = primals else {
        return Err(Error::runtime(format!(
            "{OF}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )));
    };
    let ((spec, leaves), (other, pushed)) = (flatten(primals), flatten(tangents));
    ensure!(
        spec == other,
        Runtime,
        "{OF}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 tensors, \
         tangents also must be. Got primals with structure {} and tangents with structure {}",
        spec.text(),
        other.text()
    );
    ensure!(!leaves.is_empty(), Runtime, "{OF}: Expected primals to contain at least one Tensor.");
    let only = |l: &[Value]| {
        tensors(l).map_err(|t| no_tensor(&format!("{OF}: Expected primals and tangents to be tensors"), t))
    };
    let (xs, ts) = (only(&leaves)?, only(&pushed)?);
    let _ = given;
    let (values, pushed, (spec, aux)) = push(&xs, &ts, |duals| {
        let args = arguments(spec.build(&mut duals.into_iter().map(Value::Tensor)));
        let (out, aux) = apart(f.call(&args, &[])?, has_aux, OF)?;
        let (spec, outs) = results(&out, OF)?;
        Ok((outs, (spec, aux)))
    })?;
    let build = |l: Vec<Tensor>| spec.build(&mut l.into_iter().map(Value::Tensor));
    let aux = aux
        .map(|v| crate::spec::map_tensors(&v, &mut |t| Ok(flambeau_autograd::forward_ad::unpack_dual(t)?.0)))
        .transpose()?;
    Ok(vec![Value::Tuple([Some(build(values)), Some(build(pushed)), aux].into_iter().flatten().collect())])
}

/// Blocks by result and argument as the trees of both.
fn table(blocks: Vec<Vec<Tensor>>, outs: &Spec, chosen: &Chosen<'_>) -> Value {
    outs.build(&mut blocks.into_iter().map(|row| chosen.tree(&row)))
}
/// The Jacobian of `f` by rows, as a function.
fn by_rows(f: Given, nums: Value, has_aux: bool, chunk: Option<i64>) -> Value {
    made(&f.name(), move |args, kwargs| {
        const OF: &str = "vjp(f, *primals)";
        let nums = Argnums::read(&nums)?;
        let chosen = Chosen::new(args, &nums)?;
        let (blocks, (spec, aux)) = jacobian_by_rows(&chosen.tensors, chunk, |xs| {
            let (out, aux) = apart(f.call(&chosen.with(&xs, &nums), kwargs)?, has_aux, OF)?;
            let (spec, outs) = results(&out, OF)?;
            let inputs = aux.map(|v| detached(&v)).transpose()?;
            Ok((outs, (spec, inputs)))
        })?;
        Ok(vec![with_aux(table(blocks, &spec, &chosen), aux)])
    })
}
fn detached(v: &Value) -> Result<Value> {
    crate::spec::map_tensors(v, &mut |t| {
        flambeau_autograd::grad_mode::no_grad(|| flambeau_core::ops::detach(t))
    })
}
fn with_aux(v: Value, aux: Option<Value>) -> Value {
    match aux {
        Some(aux) => Value::Tuple(vec![v, aux]),
        None => v,
    }
}
fn by_columns(f: Given, nums: Value, has_aux: bool, randomness: Randomness) -> Value {
    made(&f.name(), move |args, kwargs| {
        const OF: &str = "jvp(f, primals, tangents)";
        let nums = Argnums::read(&nums)?;
        let chosen = Chosen::new(args, &nums)?;
        if let Some(t) = chosen.tensors.iter().find(|t| !t.dtype().is_floating() && !t.dtype().is_complex()) {
            return Err(Error::value(format!(
                "Expected primal to be floating point or complex, but got: torch.{}",
                t.dtype().name()
            )));
        }
        let (blocks, (spec, aux)) = jacobian_by_columns(&chosen.tensors, randomness, |xs| {
            let (out, aux) = apart(f.call(&chosen.with(&xs, &nums), kwargs)?, has_aux, OF)?;
            let (spec, outs) = results(&out, OF)?;
            let aux = aux
                .map(|v| {
                    crate::spec::map_tensors(&v, &mut |t| {
                        // the same for every column
                        let t = flambeau_autograd::forward_ad::unpack_dual(t)?.0;
                        match flambeau_core::tensor::wrapper::batched(&t) {
                            Some(b) => flambeau_core::ops::select(b.inner(), 0, 0),
                            None => Ok(t),
                        }
                    })
                })
                .transpose()?;
            Ok((outs, (spec, aux)))
        })?;
        Ok(vec![with_aux(table(blocks, &spec, &chosen), aux)])
    })
}
fn jacrev(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["func", "argnums", "has_aux", "chunk_size", "_preallocate_and_copy"];
    let s = Slots::new("jacrev", names, args, kwargs)?;
    let chunk: Option<i64> = s.get(3)?;
    ensure!(chunk.is_none_or(|n| n > 0), Value, "jacrev: `chunk_size` should be greater than 0.");
    Ok(vec![by_rows(Given::new(s.must(0)?)?, value(&s, 1, Value::Int(0)), flag(&s, 2)?, chunk)])
}
fn jacfwd(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("jacfwd", &["func", "argnums", "has_aux", "randomness"], args, kwargs)?;
    let randomness = Randomness::parse(&s.get::<String>(3)?.unwrap_or_else(|| "error".into()))?;
    Ok(vec![by_columns(Given::new(s.must(0)?)?, value(&s, 1, Value::Int(0)), flag(&s, 2)?, randomness)])
}
fn hessian(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("hessian", &["func", "argnums"], args, kwargs)?;
    let nums = value(&s, 1, Value::Int(0));
    let inner = by_rows(Given::new(s.must(0)?)?, nums.clone(), false, None);
    Ok(vec![by_columns(Given::new(&inner)?, nums, false, Randomness::Error)])
}
fn linearize(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    const OF: &str = "linearize(f, *primals)";
    keywords(kwargs, &[])?;
    let (f, primals) = split_first(args)?;
    let nums = all_of(primals.len());
    let chosen = Chosen::new(primals, &nums)?;
    for t in &chosen.tensors {
        ensure!(
            t.dtype().is_floating() || t.dtype().is_complex(),
            Value,
            "Expected primal to be floating point or complex, but got: torch.{}",
            t.dtype().name()
        );
    }
    let inputs = Inputs::new(&chosen.tensors)?;
    let out = inputs.call(|| f.call(&chosen.with(&inputs.args, &nums), &[]))?;
    let (spec, outs) = results(&out, OF)?;
    let linear = Linear::new(inputs, &outs)?;
    let shown = outs.iter().map(|t| Ok(Value::Tensor(linear.cut(t)?))).collect::<Result<Vec<_>>>()?;
    let shown = spec.build(&mut shown.into_iter());
    let (tree, xs) = (chosen.spec.clone(), chosen.tensors.clone());
    let pushed = made("jvp_fn", move |t, _| {
        let (got, leaves) = flatten(&Value::Tuple(t.to_vec()));
        ensure!(
            got == tree,
            Runtime,
            "Expected the tangents {} to have the same argspec as the primals {}",
            got.text(),
            tree.text()
        );
        let t = tensors(&leaves).map_err(|t| no_tensor("linearize: expected tangents to be tensors", t))?;
        for (i, (t, x)) in t.iter().zip(&xs).enumerate() {
            ensure!(
                t.sizes() == x.sizes(),
                Runtime,
                "tangent:{i} with shape torch.Size({}) in flattened pytree doesn't match the shape torch.Size({}) of the \
                 corresponding primal.",
                fmt_sizes(t.sizes()),
                fmt_sizes(x.sizes())
            );
            ensure!(
                t.dtype() == x.dtype(),
                Runtime,
                "tangent:{i} with dtype torch.{} in flattened pytree doesn't match the dtype torch.{} of the corresponding primal.",
                t.dtype().name(),
                x.dtype().name()
            );
        }
        Ok(vec![spec.build(&mut linear.push(&t)?.into_iter().map(Value::Tensor))])
    });
    Ok(vec![Value::Tuple(vec![shown, pushed])])
}
fn functionalize(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("functionalize", &["func", "remove"], args, kwargs)?;
    let f = Given::new(s.must(0)?)?;
    let remove: String = s.get(1)?.unwrap_or_else(|| "mutations".into());
    ensure!(
        matches!(remove.as_str(), "mutations" | "mutations_and_views"),
        Runtime,
        "functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n     \
         remove='mutations': all inplace and out= operators will be removed from the program, and replaced with their out-of-place \
         equivalents.\n     remove='mutations_and_views': In addition to the above, all aliasing operators {{view}} will be replaced \
         with their non-aliasing counterparts, {{view}}_copy.\n"
    );
    let remove = if remove == "mutations" { Remove::Mutations } else { Remove::MutationsAndViews };
    Ok(vec![made(&f.name(), move |args, kwargs| {
        let given = Value::Tuple(args.to_vec());
        let (spec, leaves) = flatten(&given);
        let tensors: Vec<Tensor> = leaves.iter().filter_map(as_tensor).cloned().collect();
        let call = |all: Vec<Tensor>| {
            let mut all = all.into_iter();
            let mut leaves = leaves.iter().map(|v| match as_tensor(v) {
                Some(t) => Value::Tensor(all.next().unwrap_or_else(|| t.clone())),
                None => v.clone(),
            });
            f.call(&arguments(spec.build(&mut leaves)), kwargs)
        };
        let found = |r: &Value| flatten(r).1.iter().filter_map(as_tensor).cloned().collect();
        let (r, out) = pure::run(&tensors, remove, call, found)?;
        let mut out = out.into_iter();
        Ok(vec![map_tensors(&r, &mut |t| Ok(out.next().unwrap_or_else(|| t.clone())))?])
    })])
}
fn as_tensor(v: &Value) -> Option<&Tensor> {
    match v {
        Value::Tensor(t) => Some(t),
        _ => None,
    }
}
