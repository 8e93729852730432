//! What agents know of a rendezvous, as the pickle that PyTorch's agents keep in the store.

use crate::elastic::failures::{civil, days};
use flambeau_core::{Error, Result};
use flambeau_serialization::pickle::{self, Graph, Id, Value};
use flambeau_serialization::torch_format::encode;
use flambeau_serialization::{Object, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

const MODULE: &str = "torch.distributed.elastic.rendezvous.dynamic_rendezvous";

/// An agent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Node {
    pub(crate) addr: String,
    pub(crate) pid: i64,
    pub(crate) local_id: i64,
}
/// What agents know. Times are microseconds since 1970.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct State {
    pub(crate) round: i64,
    pub(crate) complete: bool,
    pub(crate) deadline: Option<i64>,
    pub(crate) closed: bool,
    pub(crate) participants: BTreeMap<Node, i64>,
    pub(crate) wait_list: BTreeSet<Node>,
    pub(crate) redundancy_list: BTreeSet<Node>,
    pub(crate) last_heartbeats: BTreeMap<Node, i64>,
}

fn text(s: &str) -> Tree<Infallible> {
    Tree::Str(s.to_owned())
}
fn object(
    module: &str,
    name: &str,
    by_new: bool,
    args: Vec<Tree<Infallible>>,
    state: Option<Tree<Infallible>>,
) -> Tree<Infallible> {
    let (module, name, items, pairs) = (module.to_owned(), name.to_owned(), Vec::new(), Vec::new());
    Tree::Object(Box::new(Object { module, name, by_new, args, state, items, pairs }))
}
fn node(n: &Node) -> Tree<Infallible> {
    let state = vec![
        (text("addr"), text(&n.addr)),
        (text("pid"), Tree::Int(n.pid)),
        (text("local_id"), Tree::Int(n.local_id)),
    ];
    object(MODULE, "_NodeDesc", true, Vec::new(), Some(Tree::Dict(state)))
}
/// A `datetime` in universal time.
fn time(micros: i64) -> Tree<Infallible> {
    let (seconds, us) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (y, m, d) = civil(seconds.div_euclid(86400));
    let s = seconds.rem_euclid(86400);
    let b = vec![
        (y >> 8) as u8,
        y as u8,
        m as u8,
        d as u8,
        (s / 3600) as u8,
        (s / 60 % 60) as u8,
        (s % 60) as u8,
        (us >> 16) as u8,
        (us >> 8) as u8,
        us as u8,
    ];
    let zero = object("datetime", "timedelta", false, vec![Tree::Int(0), Tree::Int(0), Tree::Int(0)], None);
    let utc = object("datetime", "timezone", false, vec![zero], None);
    object("datetime", "datetime", false, vec![Tree::Bytes(b), utc], None)
}
fn said(e: flambeau_serialization::Error) -> Error {
    Error::serialization(e.to_string())
}
fn corrupt() -> Error {
    Error::runtime("The rendezvous state is corrupt. See inner exception for details.")
}
impl State {
    /// The pickle.
    pub(crate) fn write(&self) -> Result<Vec<u8>> {
        let set = |s: &BTreeSet<Node>| Tree::Set(s.iter().map(node).collect());
        let fields = vec![
            (text("round"), Tree::Int(self.round)),
            (text("complete"), Tree::Bool(self.complete)),
            (text("deadline"), self.deadline.map_or(Tree::None, time)),
            (text("closed"), Tree::Bool(self.closed)),
            (
                text("participants"),
                Tree::Dict(self.participants.iter().map(|(n, r)| (node(n), Tree::Int(*r))).collect()),
            ),
            (text("wait_list"), set(&self.wait_list)),
            (text("redundancy_list"), set(&self.redundancy_list)),
            (
                text("last_heartbeats"),
                Tree::Dict(self.last_heartbeats.iter().map(|(n, t)| (node(n), time(*t))).collect()),
            ),
        ];
        let tree = object(MODULE, "_RendezvousState", true, Vec::new(), Some(Tree::Dict(fields)));
        let encoded = encode(&tree).map_err(said)?;
        pickle::dump_with(&encoded.graph, encoded.root, 4).map_err(said)
    }
    /// The reverse; nothing in it is executed.
    pub(crate) fn read(bytes: &[u8]) -> Result<State> {
        let (graph, root) = pickle::load(bytes).map_err(|_| corrupt())?;
        let r = Reader(&graph);
        let fields = r.fields(root, "_RendezvousState").ok_or_else(corrupt)?;
        let get = |name: &str| fields.iter().find(|f| f.0 == name).map(|f| f.1);
        let read = || -> Option<State> {
            let flag = |n: &str| match graph.get(get(n)?) {
                Value::Bool(b) => Some(*b),
                _ => None,
            };
            let mut s = State {
                round: r.int(get("round")?)?,
                complete: flag("complete")?,
                closed: flag("closed")?,
                deadline: match graph.get(get("deadline")?) {
                    Value::None => None,
                    _ => Some(r.time(get("deadline")?)?),
                },
                ..State::default()
            };
            for (k, v) in r.pairs(get("participants")?)? {
                s.participants.insert(r.node(k)?, r.int(v)?);
            }
            for (k, v) in r.pairs(get("last_heartbeats")?)? {
                s.last_heartbeats.insert(r.node(k)?, r.time(v)?);
            }
            for n in r.set(get("wait_list")?)? {
                s.wait_list.insert(r.node(n)?);
            }
            // older agents know no such list
            for n in get("redundancy_list").and_then(|l| r.set(l)).unwrap_or_default() {
                s.redundancy_list.insert(r.node(n)?);
            }
            Some(s)
        };
        read().ok_or_else(corrupt)
    }
}
struct Reader<'a>(&'a Graph);
impl Reader<'_> {
    fn int(&self, id: Id) -> Option<i64> {
        match self.0.get(id) {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }
    fn called(&self, id: Id) -> Option<(&str, &str, &[Id])> {
        let Value::Object(o) = self.0.get(id) else { return None };
        let Value::Global { module, name } = self.0.get(o.callable) else { return None };
        let Value::Tuple(args) = self.0.get(o.args) else { return None };
        Some((module, name, args))
    }
    /// Fields of an object of one of the two classes.
    fn fields(&self, id: Id, class: &str) -> Option<Vec<(String, Id)>> {
        let (module, name, args) = self.called(id)?;
        if (module, name) != (MODULE, class) || !args.is_empty() {
            return None;
        }
        let Value::Object(o) = self.0.get(id) else { return None };
        let mut out = Vec::new();
        for (k, v) in self.pairs(o.state?)? {
            let Value::Str(k) = self.0.get(k) else { return None };
            out.push((k.clone(), v));
        }
        Some(out)
    }
    fn pairs(&self, id: Id) -> Option<Vec<(Id, Id)>> {
        match self.0.get(id) {
            Value::Dict(l) => Some(l.clone()),
            _ => None,
        }
    }
    fn set(&self, id: Id) -> Option<Vec<Id>> {
        match self.0.get(id) {
            Value::Set(l) => Some(l.clone()),
            _ => None,
        }
    }
    fn node(&self, id: Id) -> Option<Node> {
        let f = self.fields(id, "_NodeDesc")?;
        let get = |n: &str| f.iter().find(|f| f.0 == n).map(|f| f.1);
        let Value::Str(addr) = self.0.get(get("addr")?) else { return None };
        Some(Node { addr: addr.clone(), pid: self.int(get("pid")?)?, local_id: self.int(get("local_id")?)? })
    }
    fn time(&self, id: Id) -> Option<i64> {
        let (module, name, args) = self.called(id)?;
        if (module, name) != ("datetime", "datetime") {
            return None;
        }
        let Value::Bytes(b) = self.0.get(*args.first()?) else { return None };
        let b: [u8; 10] = b.as_slice().try_into().ok()?;
        let year = i64::from(b[0]) << 8 | i64::from(b[1]);
        let day = days(year, (b[2] & 0x7f).clamp(1, 12).into(), b[3].into());
        let s = day * 86400 + i64::from(b[4]) * 3600 + i64::from(b[5]) * 60 + i64::from(b[6]);
        let us = i64::from(b[7]) << 16 | i64::from(b[8]) << 8 | i64::from(b[9]);
        Some(s * 1_000_000 + us)
    }
}
