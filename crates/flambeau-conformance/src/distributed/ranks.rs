//! Jobs of several ranks, each a thread of its own, and the recorded calls that they make.

use super::shared::{bytes_of, same_error, sha256};
use crate::store::{Store, tensor_of_bytes};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Tensor, ops};
use serde_json::Value as J;
use std::collections::HashMap;
use std::time::Duration;
use torch::distributed as dist;
use torch::distributed::{
    AllToAllOptions, CollectiveOptions, GatherOptions, MessageOptions, MonitoredBarrierOptions,
    NewGroupOptions, P2POp, Peer, ProcessGroup, ReduceOp, ReduceOptions, ScatterOptions, Work,
};
use torch::prelude::*;

/// The limit of time of a judged job's collectives.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Runs a job of threads; the first rank that differs tells why.
pub fn job(
    size: usize,
    env: &J,
    timeout: Duration,
    f: impl Fn(usize) -> std::result::Result<(), String> + Sync,
) -> std::result::Result<(), String> {
    let env: HashMap<String, String> = env
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect();
    let done = dist::run_in_threads_with(size, env, timeout, f);
    let bad: Vec<String> =
        done.into_iter().enumerate().filter_map(|(r, d)| Some(format!("rank {r}: {}", d.err()?))).collect();
    if bad.is_empty() { Ok(()) } else { Err(bad.join("; ")) }
}

/// Elements of a tensor that both sides compute.
pub fn formula(seed: i64, shape: &[i64], dtype: DType) -> std::result::Result<Tensor, String> {
    let n: i64 = shape.iter().product();
    let mut b = Vec::new();
    for i in 0..n as u64 {
        let h = ((i + 1).wrapping_mul(2_654_435_761).wrapping_add((seed * 40503) as u64)) & 0xffff_ffff;
        let x = h as f64 / 4_294_967_296.0 - 0.5;
        let m = ((h >> 8) % 17) as i64;
        match dtype {
            DType::F16 => b.extend(half::f16::from_f32(x as f32).to_le_bytes()),
            DType::BF16 => b.extend(half::bf16::from_f32(x as f32).to_le_bytes()),
            DType::F32 => b.extend((x as f32).to_le_bytes()),
            DType::F64 => b.extend(x.to_le_bytes()),
            DType::C64 => {
                b.extend((x as f32).to_le_bytes());
                b.extend(((-x * 0.5) as f32).to_le_bytes());
            }
            DType::C128 => {
                b.extend(x.to_le_bytes());
                b.extend((-x * 0.5).to_le_bytes());
            }
            DType::Bool => b.push(((h >> 8) % 2) as u8),
            DType::U8 => b.push(m as u8),
            DType::I8 => b.push((m - 8) as i8 as u8),
            DType::I16 => b.extend(((m - 8) as i16).to_le_bytes()),
            DType::I32 => b.extend(((m - 8) as i32).to_le_bytes()),
            DType::I64 => b.extend((m - 8).to_le_bytes()),
            other => return Err(format!("a formula of {}", other.name())),
        }
    }
    tensor_of_bytes(dtype, shape, &b)
}

fn ints(j: &J) -> Vec<i64> {
    j.as_array().into_iter().flatten().filter_map(J::as_i64).collect()
}
/// A tensor of the record.
pub fn tensor(store: &Store, j: &J) -> std::result::Result<Tensor, String> {
    let dtype = |j: &J| DType::from_name(j.as_str().unwrap_or("")).ok_or_else(|| format!("dtype {j}"));
    if let Some(f) = j.get("formula") {
        return formula(f["seed"].as_i64().unwrap_or(0), &ints(&f["shape"]), dtype(&f["dtype"])?);
    }
    if let Some(s) = j.get("sparse_coo") {
        let (i, v) =
            (crate::decode::tensor(store, &s["indices"])?, crate::decode::tensor(store, &s["values"])?);
        let t = torch::sparse_coo_tensor(&i, &v, ints(&j["size"]));
        return Ok(if j["coalesced"] == J::Bool(true) { t.coalesce() } else { t });
    }
    let t = crate::decode::tensor(store, j)?;
    let Some(strides) = j.get("strides") else { return Ok(t) };
    let strides = ints(strides);
    let span: i64 = t.sizes().iter().zip(&strides).map(|(n, s)| (n - 1) * s).sum::<i64>() + 1;
    let whole =
        Tensor::zeros_raw(&[span], t.dtype(), flambeau_core::Device::Cpu).map_err(|e| e.to_string())?;
    let made = Tensor::from_storage(whole.storage(), t.sizes(), &strides, 0, t.dtype())
        .map_err(|e| e.to_string())?;
    ops::copy_(&made, &t, false).map_err(|e| e.to_string())?;
    Ok(made)
}
fn is_tensor(j: &J) -> bool {
    j["t"].is_string() || j.get("formula").is_some() || j.get("sparse_coo").is_some()
}
/// Elements in order; truth values as 0 and 1.
pub fn content(t: &Tensor) -> std::result::Result<Vec<u8>, String> {
    let t = if t.is_sparse() { t.to_dense() } else { t.clone() };
    let t = t.detach().contiguous().resolve_conj();
    let size = t.dtype().size();
    let (at, n) = (t.storage_offset() as usize * size, t.numel() as usize * size);
    let mut b = t.storage().with_bytes(|b| b[at..at + n].to_vec()).map_err(|e| e.to_string())?;
    if t.dtype() == DType::Bool {
        b.iter_mut().for_each(|x| *x = u8::from(*x != 0));
    }
    Ok(b)
}
/// Whether a tensor is the recorded one, bit for bit.
pub fn same_tensor(got: &Tensor, want: &J, store: &Store) -> std::result::Result<(), String> {
    if let Some(hash) = want["sha256"].as_str() {
        let same = sha256(&content(got)?) == hash && got.sizes() == ints(&want["size"]);
        return if same { Ok(()) } else { Err(format!("{got} instead of {want}")) };
    }
    let w = tensor(store, want)?;
    if got.dtype() != w.dtype() || got.sizes() != w.sizes() || content(got)? != content(&w)? {
        return Err(format!("{got} instead of {w}"));
    }
    Ok(())
}

/// An argument.
#[derive(Clone)]
pub enum Arg {
    T(Tensor),
    List(Vec<Arg>),
    Group(ProcessGroup),
    J(J),
}
/// The groups of a case by name; `None` is the default group.
pub type Groups = HashMap<String, ProcessGroup>;

impl Arg {
    fn of(j: &J, store: &Store, groups: &Groups) -> std::result::Result<Arg, String> {
        if is_tensor(j) {
            return Ok(Arg::T(tensor(store, j)?));
        }
        if let Some(name) = j["group"].as_str() {
            return match groups.get(name) {
                Some(g) => Ok(Arg::Group(g.clone())),
                None => Ok(Arg::Group(dist::try_default_group().map_err(|e| e.to_string())?)),
            };
        }
        match j.as_array() {
            Some(l) => Ok(Arg::List(
                l.iter().map(|x| Arg::of(x, store, groups)).collect::<std::result::Result<_, _>>()?,
            )),
            None => Ok(Arg::J(j.clone())),
        }
    }
    fn tensors(&self) -> Vec<Tensor> {
        match self {
            Arg::T(t) => vec![t.clone()],
            Arg::List(l) => l.iter().flat_map(Arg::tensors).collect(),
            _ => Vec::new(),
        }
    }
    fn same(&self, want: &J, store: &Store) -> std::result::Result<(), String> {
        match (self, want) {
            (Arg::List(l), J::Array(w)) if l.len() == w.len() => {
                l.iter().zip(w).try_for_each(|(a, w)| a.same(w, store))
            }
            (Arg::T(t), w) if is_tensor(w) || w["sha256"].is_string() => same_tensor(t, w, store),
            (Arg::J(j), w) if j == w => Ok(()),
            _ => Err(format!("an argument is not as {want}")),
        }
    }
}

/// A call's arguments by name.
struct Call<'a> {
    args: Vec<Arg>,
    kwargs: HashMap<String, Arg>,
    names: &'a [&'a str],
}
fn unspeakable(what: &str) -> Error {
    Error::missing(format!("a call that the types refuse: {what}"))
}
impl Call<'_> {
    fn get(&self, name: &str) -> Option<&Arg> {
        let at = self.names.iter().position(|n| *n == name);
        self.kwargs.get(name).or_else(|| self.args.get(at?))
    }
    fn t(&self, name: &str) -> Result<Tensor> {
        match self.get(name) {
            Some(Arg::T(t)) => Ok(t.clone()),
            _ => Err(unspeakable(name)),
        }
    }
    fn list(&self, name: &str) -> Result<Vec<Tensor>> {
        match self.get(name) {
            Some(l @ Arg::List(_)) => Ok(l.tensors()),
            _ => Err(unspeakable(name)),
        }
    }
    fn j(&self, name: &str) -> &J {
        match self.get(name) {
            Some(Arg::J(j)) => j,
            _ => &J::Null,
        }
    }
    fn numbers(&self, name: &str) -> Option<Vec<i64>> {
        match self.get(name)? {
            Arg::List(l) => {
                Some(l.iter().filter_map(|a| if let Arg::J(j) = a { j.as_i64() } else { None }).collect())
            }
            _ => None,
        }
    }
    fn group(&self) -> Option<ProcessGroup> {
        match self.get("group") {
            Some(Arg::Group(g)) => Some(g.clone()),
            _ => None,
        }
    }
    fn async_op(&self) -> bool {
        *self.j("async_op") == J::Bool(true)
    }
    fn peer(&self, name: &str) -> Result<Peer> {
        let in_group = self.j(&format!("group_{name}")).as_i64();
        match (self.j(name).as_i64(), in_group) {
            (Some(r), None) => Ok(Peer::Global(r)),
            (None, Some(r)) => Ok(Peer::InGroup(r)),
            _ => Err(unspeakable(name)),
        }
    }
    fn op(&self) -> Result<ReduceOp> {
        let j = self.j("op");
        match j["reduce_op"].as_str() {
            Some(n) => ReduceOp::from_name(n).ok_or_else(|| unspeakable(n)),
            None => Ok(ReduceOp::Sum),
        }
    }
    fn collective(&self) -> CollectiveOptions {
        let o = CollectiveOptions::new().async_op(self.async_op());
        match self.group() {
            Some(g) => o.group(g),
            None => o,
        }
    }
    fn reduction(&self) -> Result<ReduceOptions> {
        let o = ReduceOptions::new().async_op(self.async_op()).op(self.op()?);
        Ok(match self.group() {
            Some(g) => o.group(g),
            None => o,
        })
    }
    fn message(&self) -> MessageOptions {
        let o = MessageOptions::new().tag(self.j("tag").as_i64().unwrap_or(0));
        match self.group() {
            Some(g) => o.group(g),
            None => o,
        }
    }
}

/// What a call gave: nothing, a number, or an operation that was waited for.
pub enum Got {
    None,
    Bool(bool),
    Number(i64),
    Done,
}
fn ended(w: Work, async_op: bool) -> Result<Got> {
    w.try_wait()?;
    Ok(if async_op { Got::Done } else { Got::None })
}

/// Positional names of the calls.
fn names(call: &str) -> &'static [&'static str] {
    match call {
        "all_reduce" => &["tensor", "op", "group", "async_op"],
        "all_reduce_coalesced" => &["tensors", "op", "group", "async_op"],
        "broadcast" => &["tensor", "src", "group", "async_op"],
        "reduce" => &["tensor", "dst", "op", "group", "async_op"],
        "all_gather" => &["tensor_list", "tensor", "group", "async_op"],
        "all_gather_into_tensor" => &["output_tensor", "input_tensor", "group", "async_op"],
        "all_gather_coalesced" => &["output_tensor_lists", "input_tensor_list", "group", "async_op"],
        "gather" => &["tensor", "gather_list", "dst", "group", "async_op"],
        "scatter" => &["tensor", "scatter_list", "src", "group", "async_op"],
        "reduce_scatter" => &["output", "input_list", "op", "group", "async_op"],
        "reduce_scatter_tensor" => &["output", "input", "op", "group", "async_op"],
        "all_to_all_single" => {
            &["output", "input", "output_split_sizes", "input_split_sizes", "group", "async_op"]
        }
        "all_to_all" => &["output_tensor_list", "input_tensor_list", "group", "async_op"],
        "send" | "isend" => &["tensor", "dst", "group", "tag"],
        "recv" | "irecv" => &["tensor", "src", "group", "tag"],
        "barrier" => &["group", "async_op"],
        "monitored_barrier" => &["group", "timeout", "wait_all_ranks"],
        "new_group" => &["ranks", "timeout"],
        "get_group_rank" => &["group", "global_rank"],
        "init_process_group" => &["backend", "init_method", "timeout", "world_size", "rank", "store"],
        "get_node_local_rank" => &["fallback_rank"],
        "get_rank" | "get_world_size" => &["group"],
        "all_gather_object" => &["object_list", "obj", "group"],
        "gather_object" => &["obj", "object_gather_list", "dst", "group"],
        "broadcast_object_list" => &["object_list", "src"],
        "P2POp" => &["op", "tensor", "peer"],
        _ => &[],
    }
}
fn invoke(name: &str, c: &Call<'_>) -> Result<Got> {
    let a = c.async_op();
    match name {
        "all_reduce" => ended(dist::try_all_reduce(&c.t("tensor")?, c.reduction()?)?, a),
        "all_reduce_coalesced" => {
            ended(dist::try_all_reduce_coalesced(&c.list("tensors")?, c.reduction()?)?, a)
        }
        "broadcast" => ended(dist::try_broadcast(&c.t("tensor")?, c.peer("src")?, c.collective())?, a),
        "reduce" => ended(dist::try_reduce(&c.t("tensor")?, c.peer("dst")?, c.reduction()?)?, a),
        "all_gather" => {
            ended(dist::try_all_gather(&c.list("tensor_list")?, &c.t("tensor")?, c.collective())?, a)
        }
        "all_gather_into_tensor" => {
            let (o, i) = (c.t("output_tensor")?, c.t("input_tensor")?);
            ended(dist::try_all_gather_into_tensor(&o, &i, c.collective())?, a)
        }
        "all_gather_coalesced" => {
            let Some(Arg::List(l)) = c.get("output_tensor_lists") else { return Err(unspeakable("lists")) };
            let lists: Vec<Vec<Tensor>> = l.iter().map(Arg::tensors).collect();
            ended(dist::try_all_gather_coalesced(&lists, &c.list("input_tensor_list")?, c.collective())?, a)
        }
        "gather" | "scatter" => {
            let (list, at) = if name == "gather" { ("gather_list", "dst") } else { ("scatter_list", "src") };
            let none = matches!(c.get(list), None | Some(Arg::J(J::Null)));
            let given = if none { None } else { Some(c.list(list)?) };
            let peer = if c.get(at).is_none() && c.get(&format!("group_{at}")).is_none() {
                Peer::Global(0)
            } else {
                c.peer(at)?
            };
            if name == "gather" {
                let mut o = GatherOptions::new().async_op(a).dst(peer);
                if let Some(l) = given {
                    o = o.gather_list(l);
                }
                if let Some(g) = c.group() {
                    o = o.group(g);
                }
                ended(dist::try_gather(&c.t("tensor")?, o)?, a)
            } else {
                let mut o = ScatterOptions::new().async_op(a).src(peer);
                if let Some(l) = given {
                    o = o.scatter_list(l);
                }
                if let Some(g) = c.group() {
                    o = o.group(g);
                }
                ended(dist::try_scatter(&c.t("tensor")?, o)?, a)
            }
        }
        "reduce_scatter" => {
            ended(dist::try_reduce_scatter(&c.t("output")?, &c.list("input_list")?, c.reduction()?)?, a)
        }
        "reduce_scatter_tensor" => {
            ended(dist::try_reduce_scatter_tensor(&c.t("output")?, &c.t("input")?, c.reduction()?)?, a)
        }
        "all_to_all_single" => {
            let mut o = AllToAllOptions::new().async_op(a);
            if let Some(g) = c.group() {
                o = o.group(g);
            }
            if let Some(l) = c.numbers("output_split_sizes") {
                o = o.output_split_sizes(l);
            }
            if let Some(l) = c.numbers("input_split_sizes") {
                o = o.input_split_sizes(l);
            }
            ended(dist::try_all_to_all_single(&c.t("output")?, &c.t("input")?, o)?, a)
        }
        "all_to_all" => {
            let (o, i) = (c.list("output_tensor_list")?, c.list("input_tensor_list")?);
            ended(dist::try_all_to_all(&o, &i, c.collective())?, a)
        }
        "barrier" => ended(dist::try_barrier(c.collective())?, a),
        "monitored_barrier" => {
            let mut o =
                MonitoredBarrierOptions::new().wait_all_ranks(*c.j("wait_all_ranks") == J::Bool(true));
            if let Some(s) = c.j("timeout")["seconds"].as_f64() {
                o = o.timeout(Duration::from_secs_f64(s));
            } else if c.get("timeout").is_some() {
                return Err(unspeakable("a timeout that is no duration"));
            }
            if let Some(g) = c.group() {
                o = o.group(g);
            }
            dist::try_monitored_barrier(o).map(|()| Got::None)
        }
        "send" => dist::try_send(&c.t("tensor")?, c.peer("dst")?, c.message()).map(|()| Got::None),
        "isend" => ended(dist::try_isend(&c.t("tensor")?, c.peer("dst")?, c.message())?, true),
        "recv" | "irecv" => {
            let src = if c.get("src").is_none() && c.get("group_src").is_none() {
                None
            } else {
                Some(c.peer("src")?)
            };
            if name == "irecv" {
                return ended(dist::try_irecv(&c.t("tensor")?, src, c.message())?, true);
            }
            dist::try_recv(&c.t("tensor")?, src, c.message()).map(Got::Number)
        }
        "new_group" => {
            if c.get("timeout").is_some() {
                return Err(unspeakable("a timeout that is no duration"));
            }
            let g = match c.numbers("ranks") {
                Some(r) => dist::try_new_group(&r, NewGroupOptions::new())?,
                None => dist::new_group_of_all(NewGroupOptions::new())?,
            };
            drop(g);
            Ok(Got::None)
        }
        "get_group_rank" => match c.group() {
            Some(g) => {
                dist::try_get_group_rank(&g, c.j("global_rank").as_i64().unwrap_or(0)).map(Got::Number)
            }
            None => Err(unspeakable("no group")),
        },
        // PyTorch asks the group by its name, a member of `ProcessGroup` here
        "get_rank" => match c.group() {
            Some(g) => Ok(Got::Number(if g.is_member() { g.rank() } else { -1 })),
            None => dist::try_get_rank().map(Got::Number),
        },
        "get_world_size" => match c.group() {
            Some(g) => Ok(Got::Number(if g.is_member() { g.size() } else { -1 })),
            None => dist::try_get_world_size().map(Got::Number),
        },
        "is_initialized" => Ok(Got::Bool(dist::is_initialized())),
        "is_available" => Ok(Got::Bool(dist::is_available())),
        "is_torchelastic_launched" => Ok(Got::Bool(dist::is_torchelastic_launched())),
        // their arguments in the records are refused before a value is looked at
        "all_gather_object" => {
            dist::try_all_gather_object(&torch::serialization::Tree::None, dist::ObjectOptions::new())
                .map(|_| Got::None)
        }
        "gather_object" => {
            let dst = c.j("dst").as_i64().unwrap_or(0);
            dist::try_gather_object(&torch::serialization::Tree::None, dst, dist::ObjectOptions::new())
                .map(|_| Got::None)
        }
        "scatter_object_list" => Err(unspeakable("a list for one value")),
        "get_backend" => dist::try_get_backend().map(|_| Got::None),
        "destroy_process_group" => dist::try_destroy_process_group().map(|()| Got::None),
        "get_node_local_rank" => {
            dist::try_get_node_local_rank(c.j("fallback_rank").as_i64()).map(Got::Number)
        }
        "broadcast_object_list" => {
            let mut l = vec![torch::serialization::Tree::None];
            dist::try_broadcast_object_list(&mut l, 0, dist::ObjectOptions::new()).map(|()| Got::None)
        }
        "batch_isend_irecv" => match c.args.first() {
            Some(Arg::List(l)) if l.is_empty() => dist::try_batch_isend_irecv(&[]).map(|_| Got::None),
            _ => Err(unspeakable("messages of another type")),
        },
        "init_process_group" => {
            let timeout = c.get("timeout").is_some();
            if timeout {
                return Err(unspeakable("a timeout that is no duration"));
            }
            let mut o = dist::InitProcessGroupOptions::new();
            if let Some(m) = c.j("init_method").as_str() {
                o = o.init_method(m);
            }
            if let Some(r) = c.j("rank").as_i64() {
                o = o.rank(r);
            }
            if let Some(n) = c.j("world_size").as_i64() {
                o = o.world_size(n);
            }
            dist::try_init_process_group(c.j("backend").as_str().unwrap_or("gloo"), o).map(|()| Got::None)
        }
        "P2POp" => Err(unspeakable("another function than isend and irecv")),
        other => Err(Error::missing(format!("the call {other}"))),
    }
}

/// Runs a recorded call, and compares what it gave and what it changed.
pub fn step(s: &J, store: &Store, groups: &Groups, rank: usize) -> std::result::Result<(), String> {
    let name = s["call"].as_str().unwrap_or("").rsplit('.').next().unwrap_or("");
    if matches!(name, "all_gather_object" | "broadcast_object_list") && s.get("error").is_none() {
        return super::objects::step(s, store);
    }
    let decode = |j: &J| Arg::of(j, store, groups);
    let args: Vec<Arg> =
        s["args"].as_array().into_iter().flatten().map(decode).collect::<std::result::Result<_, _>>()?;
    let mut kwargs = HashMap::new();
    for (k, v) in s["kwargs"].as_object().into_iter().flatten() {
        kwargs.insert(k.clone(), decode(v)?);
    }
    let c = Call { args, kwargs, names: names(name) };
    let tensors: Vec<Tensor> = c.args.iter().chain(c.kwargs.values()).flat_map(Arg::tensors).collect();
    let before: Vec<Vec<u8>> = tensors.iter().map(content).collect::<std::result::Result<_, _>>()?;
    let got = invoke(name, &c);
    match (&got, s.get("error")) {
        (Err(e), Some(want)) => {
            // what the types do not let a program say
            if e.message().starts_with("a call that the types refuse") {
                return Ok(());
            }
            return same_error(e, want).map_err(|e| format!("{name}: {e}"));
        }
        (Err(e), None) => return Err(format!("{name}: {e:?}")),
        (Ok(_), Some(want)) => return Err(format!("{name}: no error instead of {want}")),
        (Ok(Got::Bool(b)), None) if s["returns"] != J::Bool(*b) => {
            return Err(format!("{name}: {b} instead of {}", s["returns"]));
        }
        (Ok(Got::Number(n)), None) if s["returns"].as_i64() != Some(*n) => {
            return Err(format!("{name}: {n} instead of {}", s["returns"]));
        }
        _ => {}
    }
    let after = s["after"].as_object().cloned().unwrap_or_default();
    let mut written = Vec::new();
    for (path, want) in &after {
        let mut parts = path.split('.');
        let mut arg = match (parts.next(), parts.next()) {
            (Some("args"), Some(i)) => i.parse::<usize>().ok().and_then(|i| c.args.get(i)),
            (_, Some(k)) => c.kwargs.get(k),
            _ => None,
        };
        for p in parts {
            arg = match arg {
                Some(Arg::List(l)) => p.parse::<usize>().ok().and_then(|i| l.get(i)),
                _ => None,
            };
        }
        let arg = arg.ok_or_else(|| format!("no argument {path}"))?;
        arg.same(want, store).map_err(|e| format!("{name}: {path}: {e}"))?;
        written.extend(arg.tensors());
    }
    if name == "reduce" {
        return Ok(());
    }
    for (t, b) in tensors.iter().zip(&before) {
        let is = |w: &Tensor| w.storage().same(t.storage());
        if !written.iter().any(is) && content(t)? != *b {
            return Err(format!("{name} on rank {rank}: an argument has changed that should not"));
        }
    }
    Ok(())
}

/// Makes the groups that a case names, in order.
pub fn groups(case: &J) -> std::result::Result<Groups, String> {
    let mut all = Groups::new();
    for (name, ranks) in case["groups"].as_object().into_iter().flatten() {
        let g = dist::try_new_group(&ints(ranks), NewGroupOptions::new()).map_err(|e| format!("{e:?}"))?;
        all.insert(name.clone(), g);
    }
    Ok(all)
}

/// A batch of messages.
pub fn batch(r: &J, store: &Store) -> std::result::Result<(), String> {
    let said = |e: Error| format!("{e:?}");
    let (mut all, mut into) = (Vec::new(), None);
    for o in r["ops"].as_array().into_iter().flatten() {
        let (t, peer) = (tensor(store, &o["tensor"])?, o["peer"].as_i64().unwrap_or(0));
        if o["op"] == "isend" {
            all.push(P2POp::isend(&t, peer));
        } else {
            all.push(P2POp::irecv(&t, peer));
            into = Some(t);
        }
    }
    let works = dist::try_batch_isend_irecv(&all).map_err(said)?;
    works.iter().try_for_each(Work::try_wait).map_err(said)?;
    match into {
        Some(t) => same_tensor(&t, &r["received"], store),
        None => Ok(()),
    }
}
/// Bytes given in hexadecimal text.
pub fn hex(j: &J) -> Vec<u8> {
    bytes_of(j.as_str().unwrap_or(""))
}
