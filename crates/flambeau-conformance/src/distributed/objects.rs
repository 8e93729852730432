//! Python's values: pickles, and collectives of them.

use super::ranks::{LIMIT, job, same_tensor};
use super::shared::{bytes_of, hex_of};
use crate::families::{File, Outcome, text};
use crate::store::Store;
use flambeau_core::{Error, Tensor};
use flambeau_distributed::internal::{dump, load};
use serde_json::{Value as J, json};
use torch::distributed as dist;
use torch::distributed::{ObjectOptions, Peer};
use torch::serialization::Tree;

type Node = Tree<Tensor>;

/// Runs a case.
pub fn run(f: &File, case: &J) -> Outcome {
    let done = if case["pickle"].is_string() { pickle(f, case) } else { jobs(f, case) };
    match done {
        Ok(()) => Outcome::Passed,
        Err(e) if e.contains("no runner") => Outcome::Missing(e),
        Err(e) => Outcome::Failed(e),
    }
}
fn said(e: Error) -> String {
    format!("{e:?}")
}
/// A value of the record. Lists and tuples are the same there.
pub fn node(j: &J, store: &Store) -> Result<Node, String> {
    let all = |l: &[J]| l.iter().map(|x| node(x, store)).collect::<Result<Vec<_>, _>>();
    Ok(match j {
        J::Null => Tree::None,
        J::Bool(b) => Tree::Bool(*b),
        J::Number(n) => match n.as_i64() {
            Some(i) => Tree::Int(i),
            None if n.to_string().chars().all(|c| c.is_ascii_digit() || c == '-') => big(&n.to_string()),
            None => Tree::Float(n.as_f64().unwrap_or(0.0)),
        },
        J::String(s) => Tree::Str(s.clone()),
        J::Array(l) => Tree::List(all(l)?),
        J::Object(m) => {
            if j["t"].is_string() {
                return Ok(Tree::Tensor(super::ranks::tensor(store, j)?));
            }
            if let Some(h) = j["bytes"].as_str() {
                return Ok(Tree::Bytes(bytes_of(h)));
            }
            if j.get("float").is_some() {
                return Ok(Tree::Float(crate::decode::number(j)));
            }
            if let Some([re, im]) = j["complex"].as_array().map(Vec::as_slice) {
                return Ok(Tree::Complex(re.as_f64().unwrap_or(0.0), im.as_f64().unwrap_or(0.0)));
            }
            if let Some(l) = j["pairs"].as_array() {
                let pairs = l.iter().map(|p| Ok((node(&p[0], store)?, node(&p[1], store)?)));
                return Ok(Tree::Dict(pairs.collect::<Result<_, String>>()?));
            }
            let pairs = m.iter().map(|(k, v)| Ok((Tree::Str(k.clone()), node(v, store)?)));
            Tree::Dict(pairs.collect::<Result<_, String>>()?)
        }
    })
}
fn big(_: &str) -> Node {
    Tree::BigInt(Vec::new())
}
fn same(got: &Node, want: &J, store: &Store) -> Result<(), String> {
    let wrong = || Err(format!("{got:?} instead of {want}"));
    let list = |l: &[Node]| match want.as_array() {
        Some(w) if w.len() == l.len() => l.iter().zip(w).try_for_each(|(a, b)| same(a, b, store)),
        _ => wrong(),
    };
    match got {
        Tree::List(l) | Tree::Tuple(l) => list(l),
        Tree::Tensor(t) => same_tensor(t, want, store),
        Tree::Dict(l) | Tree::OrderedDict(l, _) => {
            for (i, (k, v)) in l.iter().enumerate() {
                let w = match k {
                    Tree::Str(s) if want.get("pairs").is_none() => want.get(s),
                    _ => want["pairs"].get(i).and_then(|p| p.get(1)),
                };
                match w {
                    Some(w) => same(v, w, store)?,
                    None => return wrong(),
                }
            }
            Ok(())
        }
        Tree::Int(i) if want.as_i64() == Some(*i) => Ok(()),
        Tree::Int(i) if want.as_f64() == Some(*i as f64) => Ok(()),
        Tree::BigInt(_) if want.is_number() => Ok(()),
        Tree::Float(f) if crate::decode::number(want) == *f || f.is_nan() => Ok(()),
        Tree::Complex(a, b) if want["complex"] == json!([a, b]) => Ok(()),
        Tree::Bytes(b) if want["bytes"].as_str() == Some(&hex_of(b)) => Ok(()),
        Tree::None if want.is_null() => Ok(()),
        Tree::Bool(b) if *want == J::Bool(*b) => Ok(()),
        Tree::Str(s) if want.as_str() == Some(s) => Ok(()),
        // JSON has no value for them
        Tree::Set(_) | Tree::Object(_) if want.is_null() => Ok(()),
        _ => wrong(),
    }
}
fn pickle(f: &File, case: &J) -> Result<(), String> {
    let bytes = bytes_of(text(case, "pickle"));
    let got = load(&bytes, false).map_err(said)?;
    same(&got, &case["value"], &f.store)?;
    if text(case, "id").starts_with("pickle.tensor") {
        // the storage's key is free: what is written is read again
        let again = load(&dump(&got, false).map_err(said)?, false).map_err(said)?;
        return same(&again, &case["value"], &f.store);
    }
    Ok(())
}
/// A recorded call that writes into a list of values.
pub fn step(s: &J, store: &Store) -> Result<(), String> {
    let list =
        |j: &J| j.as_array().into_iter().flatten().map(|x| node(x, store)).collect::<Result<Vec<_>, _>>();
    let mut l = list(&s["args"][0])?;
    if text(s, "call").ends_with("all_gather_object") {
        l = dist::try_all_gather_object(&node(&s["args"][1], store)?, ObjectOptions::new()).map_err(said)?;
    } else {
        let from = s["args"][1].as_i64().unwrap_or(0);
        dist::try_broadcast_object_list(&mut l, from, ObjectOptions::new()).map_err(said)?;
    }
    let want = s["after"]["args.0"].as_array().or(s["args"][0].as_array()).cloned().unwrap_or_default();
    l.iter().zip(&want).try_for_each(|(a, b)| same(a, b, store))
}
fn jobs(f: &File, case: &J) -> Result<(), String> {
    let size = f.json["world_size"].as_u64().unwrap_or(1) as usize;
    job(size, &f.json["env"], LIMIT, |r| one(text(case, "id"), &case["ranks"][r], r, f))
}
fn one(id: &str, r: &J, rank: usize, f: &File) -> Result<(), String> {
    let s = &f.store;
    let o = || ObjectOptions::new().weights_only(id.contains("weights_only"));
    let all = |j: &J| j.as_array().into_iter().flatten().map(|x| node(x, s)).collect::<Result<Vec<_>, _>>();
    let each = |got: &[Node], want: &J| -> Result<(), String> {
        let w = want.as_array().cloned().unwrap_or_default();
        if got.len() != w.len() {
            return Err(format!("{} values instead of {}", got.len(), w.len()));
        }
        got.iter().zip(&w).try_for_each(|(a, b)| same(a, b, s))
    };
    let src = || r["src"].as_i64().unwrap_or(0);
    if id.starts_with("all_gather_object") {
        each(&dist::try_all_gather_object(&node(&r["obj"], s)?, o()).map_err(said)?, &r["result"])
    } else if id.starts_with("gather_object") {
        let dst = r["dst"].as_i64().unwrap_or(0);
        match dist::try_gather_object(&node(&r["obj"], s)?, dst, o()).map_err(said)? {
            Some(l) => each(&l, &r["result"]),
            None if r["result"].is_null() => Ok(()),
            None => Err("nothing".into()),
        }
    } else if id.starts_with("broadcast_object_list") {
        let mut l = all(&r["before"])?;
        dist::try_broadcast_object_list(&mut l, src(), o()).map_err(said)?;
        each(&l, &r["result"])
    } else if id.starts_with("scatter_object_list") {
        let l = if r["objects"].is_null() { None } else { Some(all(&r["objects"])?) };
        let got = dist::try_scatter_object_list(l.as_deref(), src(), o()).map_err(said)?;
        each(&got.into_iter().collect::<Vec<_>>(), &r["result"])
    } else if id.starts_with("send_object_list") || id.starts_with("recv_object_list") {
        if !r["sent"].is_null() {
            let to = r["dst"].as_i64().unwrap_or(i64::from(rank == 0));
            return dist::try_send_object_list(&all(&r["sent"])?, to, o()).map_err(said);
        }
        if r["received"].is_null() {
            return Ok(());
        }
        let n = r["received"].as_array().map_or(0, Vec::len);
        let from = r["returns"].as_i64().unwrap_or(0);
        let mut l = vec![Tree::None; n];
        let peer = if id.contains("group_src") { Peer::InGroup(from) } else { Peer::Global(from) };
        let got = dist::try_recv_object_list(&mut l, peer, o()).map_err(said)?;
        if got != from {
            return Err(format!("from {got} instead of {from}"));
        }
        each(&l, &r["received"])
    } else if id.starts_with("unpicklable") {
        Err("no runner of it: a class within a function is no value here".into())
    } else if id.starts_with("weights_only_refuses") {
        if rank > 0 {
            return Ok(());
        }
        // a class of the program's
        let pickled = b"\x80\x04\x8c\x08sections\x8c\x05Thing\x93)\x81.";
        match load(pickled, false) {
            Err(e) if e.message().contains("Unsupported global: GLOBAL") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    } else {
        Err(format!("an unknown case {id}"))
    }
}
