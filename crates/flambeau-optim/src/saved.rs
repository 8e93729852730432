//! State dicts of optimizers, in the shape of PyTorch's files.

use crate::group::State;
use crate::optimizer::{Algorithm, Optim};
use flambeau_core::{Error, Result, Tensor, Value, ensure, ops};
use flambeau_serialization::Tree;

fn text(s: &str) -> Tree<Tensor> {
    Tree::Str(s.to_owned())
}

fn tree(v: &Value) -> Tree<Tensor> {
    match v {
        Value::Bool(b) => Tree::Bool(*b),
        Value::Int(i) => Tree::Int(*i),
        Value::Float(f) => Tree::Float(*f),
        Value::Str(s) => Tree::Str(s.clone()),
        Value::Tensor(t) => Tree::Tensor(t.clone()),
        Value::Tuple(l) => Tree::Tuple(l.iter().map(tree).collect()),
        Value::List(l) => Tree::List(l.iter().map(tree).collect()),
        _ => Tree::None,
    }
}
pub(crate) fn value(t: &Tree<Tensor>) -> Result<Value> {
    Ok(match t {
        Tree::None => Value::None,
        Tree::Bool(b) => Value::Bool(*b),
        Tree::Int(i) => Value::Int(*i),
        Tree::Float(f) => Value::Float(*f),
        Tree::Str(s) => Value::Str(s.clone()),
        // a learning rate may be saved as a tensor
        Tree::Tensor(t) if t.numel() == 1 => Value::Float(t.try_item()?),
        Tree::Tuple(l) | Tree::List(l) => Value::Tuple(l.iter().map(value).collect::<Result<_>>()?),
        _ => return Err(Error::type_("an option in the optimizer's state dict has an unknown type")),
    })
}

pub(crate) fn save<A: Algorithm>(o: &Optim<A>) -> Tree<Tensor> {
    let mut state = Vec::new();
    let mut groups = Vec::new();
    let mut next = 0i64;
    for g in &o.param_groups {
        let first = next;
        for s in &g.states {
            if !s.is_empty() {
                let mut entries = Vec::new();
                if let Some(step) = s.step
                    && let Ok(t) = Tensor::scalar_raw(step as f32)
                {
                    entries.push((text("step"), Tree::Tensor(t)));
                }
                entries.extend(s.tensors.iter().map(|(n, t)| (text(n), Tree::Tensor(t.clone()))));
                state.push((Tree::Int(next), Tree::Dict(entries)));
            }
            next += 1;
        }
        let mut group: Vec<_> = g.options.options().iter().map(|(n, v)| (text(n), tree(v))).collect();
        group.extend(A::fixed().iter().map(|(n, v)| (text(n), tree(v))));
        group.extend(g.initial_lr.map(|lr| (text("initial_lr"), Tree::Float(lr))));
        group.push((text("params"), Tree::List((first..next).map(Tree::Int).collect())));
        groups.push(Tree::Dict(group));
    }
    Tree::Dict(vec![(text("state"), Tree::Dict(state)), (text("param_groups"), Tree::List(groups))])
}

fn restored<A: Algorithm>(saved: &Tree<Tensor>, p: &Tensor) -> Result<State> {
    let mut out = State::default();
    for (k, v) in saved.entries().unwrap_or_default() {
        let (Tree::Str(name), v) = (k, v) else { continue };
        match v {
            Tree::Tensor(t) if name == "step" && A::COUNTS => out.step = Some(t.try_item()?),
            Tree::Float(f) if name == "step" && A::COUNTS => out.step = Some(*f),
            Tree::Int(n) if name == "step" && A::COUNTS => out.step = Some(*n as f64),
            Tree::Tensor(t) => {
                let known = A::TENSORS.iter().find(|n| **n == name);
                let known = known.ok_or_else(|| {
                    Error::runtime(format!("{}: unknown entry {name} in the state of a parameter", A::NAME))
                })?;
                ensure!(
                    t.sizes() == p.sizes(),
                    Shape,
                    "{}: {name} of another size than its parameter",
                    A::NAME
                );
                // own memory, row-major, in the parameter's dtype: the steps write to it
                let own = Tensor::zeros_raw(p.sizes(), p.dtype(), p.device())?;
                ops::copy_(&own, t, false)?;
                out.set(known, own);
            }
            _ => {}
        }
    }
    Ok(out)
}

pub(crate) fn load<A: Algorithm>(o: &mut Optim<A>, saved: &Tree<Tensor>) -> Result<()> {
    let bad = || Error::value("the optimizer's state dict has no state or no param_groups");
    let state = saved.get("state").and_then(Tree::entries).ok_or_else(bad)?;
    let Some(Tree::List(groups)) = saved.get("param_groups") else { return Err(bad()) };
    ensure!(
        groups.len() == o.param_groups.len(),
        Value,
        "loaded state dict has a different number of parameter groups"
    );
    let mut new = o.param_groups.clone();
    for (g, saved) in new.iter_mut().zip(groups) {
        let Some(Tree::List(ids)) = saved.get("params") else { return Err(bad()) };
        ensure!(
            ids.len() == g.params.len(),
            Value,
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        );
        for (k, v) in saved.entries().unwrap_or_default() {
            let Tree::Str(name) = k else { continue };
            match name.as_str() {
                "params" | "param_names" => {}
                "initial_lr" => {
                    if let Value::Float(lr) = value(v)? {
                        g.initial_lr = Some(lr);
                    }
                }
                name => {
                    let known = g.options.set_option(name, &value(v)?)?;
                    // a rule may have entries that never change
                    ensure!(
                        known || A::fixed().iter().any(|(n, _)| *n == name),
                        Value,
                        "{} has no option {name}, which the loaded state dict sets",
                        A::NAME
                    );
                }
            }
        }
        g.options.check()?;
        for (i, id) in ids.iter().enumerate() {
            let found = state
                .iter()
                .find(|(k, _)| matches!((k, id), (Tree::Int(a), Tree::Int(b)) if a == b))
                .map(|(_, v)| v);
            g.states[i] = match found {
                Some(s) => restored::<A>(s, g.params[i].tensor())?,
                None => State::default(),
            };
        }
    }
    o.param_groups = new;
    Ok(())
}
