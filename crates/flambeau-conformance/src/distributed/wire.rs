//! Frames on the wire, and pickles: what PyTorch's ranks would see.

use super::ranks::{LIMIT, job, step};
use super::shared::hex_of;
use crate::families::{File, Outcome, text};
use flambeau_distributed::internal::tap;
use serde_json::Value as J;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// One job at a time: the tap is one for the process.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a case: by direction, kind of frame and slot, lengths and data are those of the record.
pub fn run(f: &File, case: &J) -> Outcome {
    if case["frames"].is_null() {
        return Outcome::Missing("a runner of the store's queries while a group is made".into());
    }
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let size = f.json["world_size"].as_u64().unwrap_or(1) as usize;
    tap::start();
    let done = job(size, &f.json["env"], LIMIT, |r| {
        let groups = super::ranks::Groups::new();
        for s in case["ranks"][r]["steps"].as_array().into_iter().flatten() {
            step(s, &f.store, &groups, r)?;
        }
        Ok(())
    });
    let frames = tap::stop();
    match done.and_then(|()| same(case, &frames)) {
        Ok(()) => Outcome::Passed,
        Err(e) => Outcome::Failed(e),
    }
}
type Streams = BTreeMap<(String, String, String), Vec<(u64, String)>>;
fn same(case: &J, frames: &[tap::Frame]) -> Result<(), String> {
    let kinds = ["", "SEND_UNBOUND_BUFFER", "NOTIFY_SEND_READY", "NOTIFY_RECV_READY"];
    let (mut want, mut got) = (Streams::new(), Streams::new());
    for (pair, w) in case["frames"].as_object().into_iter().flatten() {
        for x in w["frames"].as_array().into_iter().flatten() {
            let key = (pair.clone(), text(x, "op").to_owned(), text(x, "slot").to_owned());
            want.entry(key)
                .or_default()
                .push((x["length"].as_u64().unwrap_or(0), text(x, "payload").to_owned()));
        }
    }
    for x in frames {
        let kind = kinds.get(x.kind as usize).copied().unwrap_or("");
        let key = (format!("{}>{}", x.from, x.to), kind.to_owned(), format!("{:016x}", x.slot));
        got.entry(key).or_default().push((x.length, hex_of(&x.data)));
    }
    // the answer of rank 0 at a monitored barrier is free, and so is the padding of objects
    let free = text(case, "id").starts_with("monitored_barrier") || text(case, "id").contains("object");
    if free {
        for all in [&mut want, &mut got] {
            all.values_mut().flatten().for_each(|x| x.1.clear());
        }
    }
    for key in want.keys().chain(got.keys()) {
        if want.get(key) != got.get(key) {
            return Err(format!("{key:?}: {:?} instead of {:?}", got.get(key), want.get(key)));
        }
    }
    Ok(())
}
