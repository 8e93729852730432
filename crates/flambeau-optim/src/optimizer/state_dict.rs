//! State dicts of optimizers, in the shape of PyTorch's files.

use crate::optimizer::erased::{Class, Erased, Group, Rule, set_extra};
use crate::optimizer::group::{Kept, State};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::deep;
use flambeau_core::{DType, Error, Result, Tensor, Value, ensure, ops};
use flambeau_serialization::Tree;

pub(crate) fn text(s: &str) -> Tree<Tensor> {
    Tree::Str(s.to_owned())
}

/// A value as a tree.
pub(crate) fn tree(v: &Value) -> Tree<Tensor> {
    match v {
        Value::Bool(b) => Tree::Bool(*b),
        Value::Int(i) => Tree::Int(*i),
        Value::Float(f) => Tree::Float(*f),
        Value::Complex(c) => Tree::Complex(c.re, c.im),
        Value::Str(s) => Tree::Str(s.clone()),
        Value::Tensor(t) => Tree::Tensor(t.clone()),
        Value::Tuple(l) => Tree::Tuple(l.iter().map(tree).collect()),
        Value::List(l) => Tree::List(l.iter().map(tree).collect()),
        Value::Dict(l) => Tree::Dict(l.iter().map(|(k, v)| (text(k), tree(v))).collect()),
        _ => Tree::None,
    }
}
/// A tree as a value; keys of dictionaries become strings.
pub(crate) fn value(t: &Tree<Tensor>) -> Result<Value> {
    value_at(t, 0)
}
fn value_at(t: &Tree<Tensor>, depth: usize) -> Result<Value> {
    ensure!(depth <= 256, Runtime, "maximum recursion depth exceeded");
    let value = |t: &Tree<Tensor>| value_at(t, depth + 1);
    let all = |l: &[Tree<Tensor>]| l.iter().map(value).collect::<Result<Vec<_>>>();
    Ok(match t {
        Tree::None => Value::None,
        Tree::Bool(b) => Value::Bool(*b),
        Tree::Int(i) => Value::Int(*i),
        Tree::Float(f) => Value::Float(*f),
        Tree::Str(s) => Value::Str(s.clone()),
        Tree::Tensor(t) => Value::Tensor(t.clone()),
        Tree::Tuple(l) => Value::Tuple(all(l)?),
        Tree::List(l) => Value::List(all(l)?),
        other => match other.entries() {
            Some(entries) => {
                let entry = |(k, v): &(Tree<Tensor>, Tree<Tensor>)| {
                    let k = match k {
                        Tree::Str(s) => s.clone(),
                        Tree::Int(i) => i.to_string(),
                        _ => {
                            return Err(Error::type_(
                                "a key of a dictionary is neither a string nor an integer",
                            ));
                        }
                    };
                    Ok((k, value(v)?))
                };
                Value::Dict(entries.iter().map(entry).collect::<Result<_>>()?)
            }
            None => return Err(Error::type_("an entry of the optimizer's state dict has an unknown type")),
        },
    })
}

/// All entries of a group but its parameters, in PyTorch's order.
pub(crate) fn group_values(g: &Group<'_>) -> Vec<(String, Value)> {
    let class = g.rule.class();
    let mut options: Vec<(String, Value)> =
        g.rule.all().into_iter().map(|(n, v)| (n.trim_end_matches('_').to_owned(), v)).collect();
    options.extend((class.fixed)().iter().map(|(n, v)| ((*n).to_owned(), v.clone())));
    if !class.order.is_empty() {
        let place = |n: &str| class.order.iter().position(|o| *o == n).unwrap_or(class.order.len());
        options.sort_by_key(|(n, _)| place(n));
    }
    let mut out = Vec::new();
    for n in g.given {
        let at = options.iter().position(|(o, _)| o == n);
        let known = at.map(|i| options.remove(i));
        out.extend(known.or_else(|| g.extra(n).map(|v| (n.clone(), v.clone()))));
    }
    let names = |n: &Vec<String>| Value::List(n.iter().map(|s| Value::Str(s.clone())).collect());
    out.extend(g.names.map(|n| ("param_names".to_owned(), names(n))));
    out.extend(options);
    out.extend(g.extras.iter().filter(|(n, _)| !g.given.contains(n)).cloned());
    out
}

/// A number as the 0-d tensor that PyTorch keeps.
fn zero_dim(v: f64, d: DType) -> Result<Tensor> {
    match d {
        DType::F64 => Tensor::scalar_raw(v),
        DType::F32 => Tensor::scalar_raw(v as f32),
        other => cast(&Tensor::scalar_raw(v)?, other),
    }
}
fn cast(t: &Tensor, d: DType) -> Result<Tensor> {
    ops::to(&t.alias_detached(), Some(d), None, None, None, false, true, None)
}

pub(crate) fn save(o: &dyn Erased) -> Tree<Tensor> {
    let mut state = Vec::new();
    let mut groups = Vec::new();
    let mut next = 0i64;
    for g in (0..o.group_count()).filter_map(|g| o.group(g)) {
        let first = next;
        for s in g.states {
            if !s.is_empty() {
                let kept = |(n, k): &(String, Kept)| {
                    let v = match k {
                        Kept::Tensor(t) => Tree::Tensor(t.clone()),
                        Kept::Number(v, d) => zero_dim(*v, *d).map_or(Tree::Float(*v), Tree::Tensor),
                        Kept::Value(v) => tree(v),
                    };
                    (text(n), v)
                };
                state.push((Tree::Int(next), Tree::Dict(s.entries().iter().map(kept).collect())));
            }
            next += 1;
        }
        let mut group: Vec<_> = group_values(&g).iter().map(|(n, v)| (text(n), tree(v))).collect();
        group.push((text("params"), Tree::List((first..next).map(Tree::Int).collect())));
        groups.push(Tree::Dict(group));
    }
    Tree::Dict(vec![(text("state"), Tree::Dict(state)), (text("param_groups"), Tree::List(groups))])
}

/// The dtype that a state tensor takes beside a parameter: a floating parameter's own.
fn beside(t: &Tensor, p: &Tensor) -> DType {
    if p.dtype().is_floating() { p.dtype() } else { t.dtype() }
}
/// Memory of its own: laid out like the parameter where sizes agree, since steps like that.
fn own(t: &Tensor, p: &Tensor) -> Result<Tensor> {
    let d = beside(t, p);
    if t.sizes() != p.sizes() {
        return cast(t, d);
    }
    let out = ops::empty_like(&p.alias_detached(), Some(d), None, None, None, None)?;
    let _no_grad = flambeau_autograd::no_grad_guard();
    ops::copy_(&out, t, false)?;
    Ok(out)
}
fn deep(mut v: Value, p: &Tensor) -> Result<Value> {
    deep::leaves_mut(&mut v, |leaf| {
        if let Value::Tensor(t) = leaf {
            *t = cast(t, beside(t, p))?;
        }
        Ok(())
    })?;
    Ok(v)
}

fn restored(class: &Class, saved: &Tree<Tensor>, p: &Tensor) -> Result<State> {
    let mut out = State::default();
    for (k, v) in saved.entries().unwrap_or_default() {
        let Tree::Str(name) = k else { continue };
        let kept = match v {
            _ if class.free_state => Kept::Value(deep(value(v)?, p)?),
            Tree::Tensor(t) if class.numbers.contains(&name.as_str()) => {
                // PyTorch casts all of the state to the parameter's dtype, but for the count of steps
                let d = if name == "step" { t.dtype() } else { beside(t, p) };
                let d = if d.is_floating() { d } else { DType::F32 };
                Kept::Number(cast(t, d)?.try_item()?, d)
            }
            Tree::Float(_) | Tree::Int(_) if class.numbers.contains(&name.as_str()) => {
                out.set_number(name, value(v)?.as_scalar().map_or(f64::NAN, |s| s.to_f64()));
                continue;
            }
            Tree::Tensor(t) => Kept::Tensor(own(t, p)?),
            other => Kept::Value(value(other)?),
        };
        out.put(name, kept);
    }
    Ok(out)
}

/// An option as it is kept: tensors of a file are copied, since schedules write to them.
fn option(t: &Tree<Tensor>) -> Result<Value> {
    Ok(match value(t)?.into_tensor() {
        Ok(t) => Value::Tensor(cast(&t, t.dtype())?),
        Err(other) => other,
    })
}

/// A group as a state dict has it.
struct New {
    rule: Box<dyn Rule>,
    names: Option<Vec<String>>,
    extras: Vec<(String, Value)>,
    states: Vec<State>,
}

pub(crate) fn load(o: &mut dyn Erased, saved: &Tree<Tensor>) -> Result<()> {
    let bad = || Error::value("the optimizer's state dict has no state or no param_groups");
    for part in ["param_groups", "state"] {
        ensure!(saved.get(part).is_some(), Index, "'{part}'");
    }
    let state = saved.get("state").and_then(Tree::entries).ok_or_else(bad)?;
    let Some(Tree::List(groups)) = saved.get("param_groups") else { return Err(bad()) };
    ensure!(
        groups.len() == o.group_count(),
        Value,
        "loaded state dict has a different number of parameter groups"
    );
    let mut all = Vec::with_capacity(groups.len());
    for (i, saved) in groups.iter().enumerate() {
        let Some(g) = o.group(i) else { return Err(bad()) };
        let class = g.rule.class();
        let Some(Tree::List(ids)) = saved.get("params") else { return Err(bad()) };
        ensure!(
            ids.len() == g.params.len(),
            Value,
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        );
        let mut new = New {
            rule: g.rule.another(),
            names: g.names.cloned(),
            extras: Vec::new(),
            states: Vec::with_capacity(ids.len()),
        };
        for (k, v) in saved.entries().unwrap_or_default() {
            let Tree::Str(name) = k else { continue };
            match name.as_str() {
                "params" => {}
                "param_names" => {
                    let Tree::List(l) = v else { continue };
                    let name = |t: &Tree<Tensor>| if let Tree::Str(s) = t { Some(s.clone()) } else { None };
                    new.names = Some(l.iter().filter_map(name).collect());
                }
                name => {
                    let v = option(v)?;
                    if !new.rule.set(name, &v)? && !class.has_fixed(name) {
                        set_extra(&mut new.extras, name, v);
                    }
                }
            }
        }
        for (p, id) in g.params.iter().zip(ids) {
            let found = state
                .iter()
                .find(|(k, _)| matches!((k, id), (Tree::Int(a), Tree::Int(b)) if a == b))
                .map(|(_, v)| v);
            new.states.push(match found {
                Some(s) => restored(class, s, p.tensor())?,
                None => State::default(),
            });
        }
        all.push(new);
    }
    // nothing of it is taken before all of it was read
    for (i, mut new) in all.into_iter().enumerate() {
        if let Some(g) = o.group_mut(i) {
            g.rule.become_as(&mut *new.rule);
            (*g.names, *g.extras, *g.states) = (new.names, new.extras, new.states);
        }
    }
    Ok(())
}
