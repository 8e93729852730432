//! `torch.multiprocessing`. Copies of this program run the functions.

use super::futures::tensor_is;
use super::{Found, error, same};
use crate::families::{File, text};
use serde_json::{Value as J, json};
use std::error::Error as _;
use std::time::{Duration, Instant};
use torch::multiprocessing::{
    self as mp, Function, Message, ProcessExitedException, ProcessRaisedException, SimpleQueue, SpawnOptions,
};
use torch::{Error, Result};

/// What copies of this program run, for the first line of `main`.
pub const FUNCTIONS: [(&str, Function); 5] =
    [("ok", ok), ("raises", raises), ("exits", exits), ("killed", killed), ("share", share)];

const LONG: Duration = Duration::from_secs(20);

fn ok(i: usize, args: &[Message]) -> Result<()> {
    args[0].queue()?.put(i as i64)
}
fn raises(i: usize, _: &[Message]) -> Result<()> {
    if i == 1 {
        return Err(Error::value(format!("boom {i}")));
    }
    std::thread::sleep(LONG);
    Ok(())
}
fn exits(i: usize, _: &[Message]) -> Result<()> {
    if i == 1 {
        std::process::exit(5);
    }
    std::thread::sleep(LONG);
    Ok(())
}
fn killed(i: usize, _: &[Message]) -> Result<()> {
    if i == 0 {
        std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status()?;
    }
    std::thread::sleep(LONG);
    Ok(())
}
fn share(i: usize, args: &[Message]) -> Result<()> {
    let (t, q) = (args[0].tensor()?, args[1].queue()?);
    let own = t.narrow(0, i as i64, 1);
    own.copy_(&(&own + (i as f64 + 1.0)));
    let shape: Vec<i64> = t.sizes().to_vec();
    q.put(shape)
}

fn spawn(name: &str, args: &[Message], n: usize) -> Result<()> {
    // the copies are told what to do: they read no command line
    mp::spawn_with(name, args, SpawnOptions::new().nprocs(n).command_line([""; 0]))
}
/// What a job of two ends with, and the class of its error.
fn fails(name: &str) -> (Error, &'static str) {
    match spawn(name, &[], 2) {
        Ok(()) => (Error::runtime("no error"), ""),
        Err(e) => {
            let class = match e.source() {
                Some(s) if s.is::<ProcessRaisedException>() => "ProcessRaisedException",
                Some(s) if s.is::<ProcessExitedException>() => "ProcessExitedException",
                _ => e.kind().class_name(),
            };
            (e, class)
        }
    }
}
fn fields(name: &str) -> J {
    let (e, _) = fails(name);
    let source = e.source();
    if let Some(x) = source.and_then(|s| s.downcast_ref::<ProcessExitedException>()) {
        return json!({"error_index": x.error_index, "exit_code": x.exit_code, "signal_name": x.signal_name});
    }
    let index = source.and_then(|s| s.downcast_ref::<ProcessRaisedException>()).map(|r| r.error_index);
    json!({"error_index": index, "exit_code": null, "signal_name": null})
}

/// Runs a case; none where its calls are not known here.
pub fn run(file: &File, case: &J) -> Option<Found> {
    known(file, case).map(|r| r.unwrap_or_else(|e| Err(e.to_string())))
}
fn known(file: &File, case: &J) -> Option<Result<Found>> {
    let id = text(case, "id");
    let mut want = case.clone();
    if let Some(m) = want.as_object_mut() {
        m.remove("id");
        m.remove("note");
    }
    let got = match id {
        "strategies" => {
            let mut all = mp::get_all_sharing_strategies();
            all.sort();
            json!({"all": all, "default": mp::get_sharing_strategy()})
        }
        "set_strategy" => return Some(strategy(case)),
        "spawn.ok" | "spawn.context" => return Some(runs(id, &want)),
        "spawn.raises" => {
            let began = Instant::now();
            let (e, class) = fails("raises");
            let lines: Vec<&str> = e.message().trim().lines().collect();
            json!({"type": class, "first_lines": &lines[..lines.len().min(2)], "last_line": lines.last(),
                "others_are_terminated": began.elapsed() < Duration::from_secs(19)})
        }
        "spawn.exit_code" | "spawn.signal" => {
            let (e, class) = fails(if id == "spawn.signal" { "killed" } else { "exits" });
            let mut got = error(&e);
            got["error"]["type"] = json!(class);
            return Some(Ok(same(&got, &case["result"])));
        }
        "spawn.fields.raises" | "spawn.fields.exits" | "spawn.fields.killed" => {
            fields(id.rsplit('.').next().unwrap_or(""))
        }
        "share_memory" => {
            let t = torch::zeros([4]);
            let before = mp::is_shared(&t);
            // SAFETY: no other process gets it.
            let after = match unsafe { mp::share_memory_(&t) } {
                Ok(t) => mp::is_shared(t),
                Err(e) => return Some(Err(e)),
            };
            json!({"before": before, "after": after})
        }
        "spawn.shared_tensor" => return Some(shared(file, case)),
        _ => return None,
    };
    Some(Ok(same(&got, &want)))
}
fn strategy(case: &J) -> Result<Found> {
    mp::set_sharing_strategy("file_system")?;
    let set = json!({"returns": mp::get_sharing_strategy()});
    mp::set_sharing_strategy("file_descriptor")?;
    let bad = super::ended(mp::set_sharing_strategy("nosuch"));
    Ok(same(&set, &case["result"]).and_then(|()| same(&bad, &case["bad"])))
}
fn runs(id: &str, want: &J) -> Result<Found> {
    let q = SimpleQueue::new()?;
    if id == "spawn.ok" {
        spawn("ok", &[q.clone().into()], 3)?;
        let mut got = (0..3).map(|_| q.get()?.int()).collect::<Result<Vec<_>>>()?;
        got.sort();
        return Ok(same(&json!({"indices": got}), want));
    }
    let options = SpawnOptions::new().nprocs(2).command_line([""; 0]);
    let mut context: mp::SpawnContext = mp::start_processes("ok", &[q.into()], options)?;
    let pids = context.pids().len();
    while !context.join()? {}
    Ok(same(&json!({"type": "ProcessContext", "pids": pids, "join": context.join()?}), want))
}
fn shared(file: &File, case: &J) -> Result<Found> {
    let (t, q) = (torch::zeros([4]), SimpleQueue::new()?);
    // SAFETY: each copy writes an element of its own, and this process reads when they are done.
    unsafe { mp::share_memory_(&t)? };
    spawn("share", &[(&t).into(), q.clone().into()], 2)?;
    let shapes = (0..2).map(|_| q.get()?.get::<Vec<i64>>()).collect::<Result<Vec<_>>>()?;
    Ok(same(&json!(shapes), &case["shapes"]).and_then(|()| tensor_is(file, &t, &case["result"])))
}
