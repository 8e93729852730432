//! vmap of functions of lists of tensors: what all other forms are made of.

use crate::batched::{hide, moved, repeated, shown};
use crate::levels::{self, Randomness};
use flambeau_core::{Error, Result, Tensor, ops};

/// Where a result's dimension goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// To this place, counted from the end where it is negative.
    At(i64),
    /// Nowhere: the result must be the same for all slices.
    Nowhere,
}

/// Sizes of the dimensions that are mapped over: all the same.
pub(crate) fn batch_size(inputs: &[Tensor], dims: &[Option<usize>]) -> Result<i64> {
    let sizes: Vec<i64> =
        inputs.iter().zip(dims).filter_map(|(t, d)| d.and_then(|d| t.sizes().get(d).copied())).collect();
    let Some(first) = sizes.first() else {
        return Err(Error::value("vmap: Expected at least one Tensor to vmap over"));
    };
    if sizes.iter().any(|n| n != first) {
        let all: Vec<String> = sizes.iter().map(i64::to_string).collect();
        return Err(Error::value(format!(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes [{}] for the mapped dimension",
            all.join(", ")
        )));
    }
    Ok(*first)
}

/// What a function gives: its results, where their dimensions go, and what goes with them.
pub(crate) struct Results<R> {
    pub tensors: Vec<Tensor>,
    pub places: Vec<Place>,
    pub rest: R,
}

/// Calls `f` once for all slices. `name` is the function's, for errors.
pub(crate) fn map<R>(
    name: &str,
    inputs: &[Tensor],
    dims: &[Option<usize>],
    randomness: Randomness,
    f: impl FnOnce(Vec<Tensor>) -> Result<Results<R>>,
) -> Result<(Vec<Tensor>, R)> {
    let batch = batch_size(inputs, dims)?;
    levels::within(batch, randomness, |level| {
        let args = inputs
            .iter()
            .zip(dims)
            .map(|(t, d)| match d {
                Some(d) => hide(t, *d, level.id),
                None => Ok(t.clone()),
            })
            .collect::<Result<Vec<_>>>()?;
        let r = f(args)?;
        let out: Result<Vec<Tensor>> = levels::below(|| {
            r.tensors.iter().zip(&r.places).map(|(t, p)| back(name, t, *p, level.id, batch)).collect()
        });
        Ok((out?, r.rest))
    })
}
fn back(name: &str, t: &Tensor, place: Place, level: u64, batch: i64) -> Result<Tensor> {
    let (shown, dim) = shown(t, level);
    let Place::At(to) = place else {
        return match dim {
            None => Ok(shown),
            Some(_) => Err(Error::value(format!(
                "vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            ))),
        };
    };
    let n = t.dim() as i64 + 1;
    if !(-n..n).contains(&to) {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {to})",
            -n,
            n - 1
        )));
    }
    let to = to.rem_euclid(n) as usize;
    match dim {
        Some(d) => moved(&shown, d, to),
        None => repeated(&shown, to, batch),
    }
}

/// As [`map`], in pieces of at most `chunk` slices.
pub(crate) fn map_chunks<R>(
    name: &str,
    inputs: &[Tensor],
    dims: &[Option<usize>],
    randomness: Randomness,
    chunk: Option<i64>,
    mut f: impl FnMut(Vec<Tensor>) -> Result<Results<R>>,
) -> Result<(Vec<Tensor>, R)> {
    let n = batch_size(inputs, dims)?;
    let Some(chunk) = chunk.filter(|c| *c < n) else {
        return map(name, inputs, dims, randomness, f);
    };
    let mut parts: Vec<Vec<Tensor>> = Vec::new();
    let (mut rest, mut places) = (None, Vec::<Place>::new());
    let mut at = 0;
    while at < n {
        let end = at.saturating_add(chunk).min(n);
        let slices = inputs
            .iter()
            .zip(dims)
            .map(|(t, d)| match d {
                Some(d) => ops::slice(t, *d as i64, Some(at), Some(end), 1),
                None => Ok(t.clone()),
            })
            .collect::<Result<Vec<_>>>()?;
        let (out, r) = map(name, &slices, dims, randomness, |args| {
            let r = f(args)?;
            places.clone_from(&r.places);
            Ok(r)
        })?;
        // the function is called for each piece, and may give other results each time
        if parts.first().is_some_and(|first| first.len() != out.len()) || out.len() != places.len() {
            return Err(Error::value(format!(
                "vmap({name}, ...): `{name}` gave {} tensors for some slices and {} for others",
                parts.first().map_or(places.len(), Vec::len),
                out.len()
            )));
        }
        parts.push(out);
        rest = Some(r);
        at = end;
    }
    let joined = places
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let all: Vec<Tensor> = parts.iter().map(|l| l[i].clone()).collect();
            match p {
                Place::At(d) => ops::cat(&all, *d),
                Place::Nowhere => Ok(all[0].clone()),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    match rest {
        Some(r) => Ok((joined, r)),
        None => map(name, inputs, dims, randomness, f),
    }
}

/// A function of slices along the first dimension, whose results have it first: what the gradient engine asks for.
pub(crate) fn over_first(
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Option<Tensor>>>,
    over: &[Tensor],
) -> Result<Vec<Option<Tensor>>> {
    let dims = vec![Some(0); over.len()];
    let (tensors, given) = map("grad", over, &dims, Randomness::Different, |slices| {
        let all = f(&slices)?;
        let given: Vec<bool> = all.iter().map(Option::is_some).collect();
        let tensors: Vec<Tensor> = all.into_iter().flatten().collect();
        let places = vec![Place::At(0); tensors.len()];
        Ok(Results { tensors, places, rest: given })
    })?;
    let mut tensors = tensors.into_iter();
    Ok(given.into_iter().map(|g| if g { tensors.next() } else { None }).collect())
}
