//! `torch.func.vmap`.

use super::{Given, arguments, class, made, value};
use crate::levels::Randomness;
use crate::mapping::{Place, Results, map_chunks};
use crate::spec::{broadcast, flatten, python};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::Value;
use flambeau_core::{Error, Result, Tensor, ensure};
use flambeau_library::NativeFn;
use flambeau_library::slots::Slots;

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[("torch.func.vmap", vmap), ("torch.vmap", vmap)];

fn vmap(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["func", "in_dims", "out_dims", "randomness", "chunk_size"];
    let s = Slots::new("vmap", names, args, kwargs)?;
    let f = Given::new(s.must(0)?)?;
    let m = Mapped {
        in_dims: value(&s, 1, Value::Int(0)),
        out_dims: value(&s, 2, Value::Int(0)),
        randomness: Randomness::parse(&s.get::<String>(3)?.unwrap_or_else(|| "error".into()))?,
        chunk: s.get(4)?,
    };
    if let Some(n) = m.chunk {
        ensure!(n > 0, Value, "vmap: chunk_size should be None or greater than 0. (got {n})");
    }
    let name = f.name();
    Ok(vec![made(&name.clone(), move |args, kwargs| m.call(&name, &f, args, kwargs).map(|v| vec![v]))])
}

/// The keywords.
pub(super) struct Mapped {
    in_dims: Value,
    out_dims: Value,
    randomness: Randomness,
    chunk: Option<i64>,
}
impl Mapped {
    fn call(&self, name: &str, f: &Given, args: &[Value], kwargs: &Kwargs) -> Result<Value> {
        let of = format!("vmap({name}, in_dims={}, ...)(<inputs>): ", python(&self.in_dims));
        ensure!(
            matches!(self.in_dims, Value::Int(_) | Value::Tuple(_) | Value::List(_)),
            Value,
            "{of}expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {}.",
            class(&self.in_dims)
        );
        ensure!(
            !args.is_empty(),
            Value,
            "vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with \
             no inputs. The latter is unsupported."
        );
        let (spec, leaves) = flatten(&Value::Tuple(args.to_vec()));
        let prefix = match &self.in_dims {
            Value::List(l) => Value::Tuple(l.clone()),
            v => v.clone(),
        };
        let Some(dims) = broadcast(&prefix, &spec) else {
            return Err(Error::value(format!(
                "{of}in_dims is not compatible with the structure of `inputs`. in_dims has structure {} but inputs has structure \
                 {}.",
                flatten(&self.in_dims).0.text(),
                spec.text()
            )));
        };
        let (mut tensors, mut places) = (Vec::new(), Vec::new());
        for (leaf, dim) in leaves.iter().zip(&dims) {
            let place = match (leaf, dim) {
                (_, Value::None) => None,
                (Value::Tensor(t), Value::Int(d)) => {
                    let n = t.dim() as i64;
                    ensure!(
                        (-n..n).contains(d),
                        Value,
                        "{of}Got in_dim={d} for some input, but that input is a Tensor of dimensionality {n} so expected in_dim to \
                         satisfy -{n} <= in_dim < {n}."
                    );
                    Some(d.rem_euclid(n) as usize)
                }
                (leaf, Value::Int(d)) => {
                    return Err(Error::value(format!(
                        "{of}Got in_dim={d} for an input but the input is of type {}. We cannot vmap over non-Tensor arguments, \
                         please use None as the respective in_dim",
                        class(leaf)
                    )));
                }
                (_, other) => {
                    return Err(Error::value(format!(
                        "{of}Got in_dim={} for an input but in_dim must be either an integer dimension or None.",
                        python(other)
                    )));
                }
            };
            if let Value::Tensor(t) = leaf {
                tensors.push(t.clone());
                places.push(place);
            }
        }
        let (out, (spec, leaves)) = map_chunks(
            name,
            &tensors,
            &places,
            self.randomness,
            self.chunk,
            |slices| {
                let mut slices = slices.into_iter();
                let leaves = leaves.iter().map(|v| match v {
                    Value::Tensor(t) => Value::Tensor(slices.next().unwrap_or_else(|| t.clone())),
                    v => v.clone(),
                });
                let args = arguments(spec.build(&mut leaves.collect::<Vec<_>>().into_iter()));
                let result = f.call(&args, kwargs)?;
                let (spec, leaves) = flatten(&result);
                let places = self.places(name, &spec)?;
                let mut tensors: Vec<Tensor> = Vec::new();
                let mut at = Vec::new();
                for (v, p) in leaves.iter().zip(places) {
                    match v {
                        Value::Tensor(t) => {
                            tensors.push(t.clone());
                            at.push(p);
                        }
                        _ if p == Place::Nowhere => {}
                        v => {
                            return Err(Error::value(format!(
                                "vmap({name}, ...): `{name}` must only return Tensors, got type {}. Did you mean to set out_dims= to \
                                 None for output?",
                                class(v)
                            )));
                        }
                    }
                }
                Ok(Results { tensors, places: at, rest: (spec, leaves) })
            },
        )?;
        let mut out = out.into_iter();
        let leaves: Vec<Value> = leaves
            .into_iter()
            .map(|v| match v.into_tensor() {
                Ok(t) => Value::Tensor(out.next().unwrap_or(t)),
                Err(v) => v,
            })
            .collect();
        Ok(spec.build(&mut leaves.into_iter()))
    }
    /// One place for each leaf of the results.
    fn places(&self, name: &str, spec: &crate::spec::Spec) -> Result<Vec<Place>> {
        let prefix = match (&self.out_dims, spec) {
            (Value::List(l), crate::spec::Spec::Tuple(_)) => Value::Tuple(l.clone()),
            (Value::Tuple(l), crate::spec::Spec::List(_)) => Value::List(l.clone()),
            // one result in a tuple of one
            (Value::Tuple(l), crate::spec::Spec::Leaf) if l.len() == 1 => l[0].clone(),
            (v, _) => v.clone(),
        };
        if !flatten(&prefix).1.iter().all(|v| matches!(v, Value::Int(_) | Value::None)) {
            return Err(Error::value(format!(
                "vmap({name}, ..., out_dims={}): `out_dims` must be an int, None or a python collection of ints representing where in \
                 the outputs the vmapped dimension should appear.",
                python(&self.out_dims)
            )));
        }
        let Some(all) = broadcast(&prefix, spec) else {
            return Err(Error::value(format!(
                "vmap({name}, ..., out_dims={})(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has \
                 structure {} but outputs has structure {}.",
                python(&self.out_dims),
                flatten(&self.out_dims).0.text(),
                spec.text()
            )));
        };
        Ok(all
            .into_iter()
            .map(|v| if let Value::Int(d) = v { Place::At(d) } else { Place::Nowhere })
            .collect())
    }
}
