//! What is refused: bad arguments, no job, ranks that do not come.

use super::ranks::{Groups, LIMIT, job, step};
use super::shared::same_error;
use crate::families::{File, Outcome, text};
use flambeau_core::{Error, Tensor};
use serde_json::Value as J;
use std::time::{Duration, Instant};
use torch::distributed as dist;
use torch::distributed::{
    CollectiveOptions, HashStore, MonitoredBarrierOptions, ReduceOptions, Store, TCPStore,
};
use torch::distributed::{TCPStoreOptions, World};

/// Runs a case.
pub fn run(f: &File, case: &J) -> Outcome {
    let name = text(&f.json, "job");
    let id = text(case, "id");
    let size = f.json["world_size"].as_u64().unwrap_or(1) as usize;
    let ranks = case["ranks"].as_array().cloned().unwrap_or_default();
    let steps = ranks.iter().any(|r| r["steps"].is_array());
    let actions = ranks.iter().any(|r| r["action"].is_string());
    let done = if name == "uninitialized" && steps {
        let world = World::with_env([("GLOO_SOCKET_IFNAME".to_owned(), "lo".to_owned())]);
        let mut env = vec![];
        // the variables up to the one that the case lacks
        let said = text(&ranks[0]["steps"][0]["error"], "message");
        let all = [("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0")];
        for (k, v) in all {
            if said.contains(&format!("variable {k} ")) {
                break;
            }
            if said.contains("environment variable") {
                env.push((k.to_owned(), v.to_owned()));
            }
        }
        let world = if env.is_empty() { world } else { World::with_env(env) };
        world.enter(|| play(&ranks[0], f, 0, &Groups::new()))
    } else if name == "uninitialized" && id.starts_with("store.") {
        stores(id, &ranks[0])
    } else if name.starts_with("arguments") && steps {
        job(size, &f.json["env"], LIMIT, |r| {
            let zero =
                dist::try_new_group(&[0], dist::NewGroupOptions::new()).map_err(|e| format!("{e:?}"))?;
            let groups = Groups::from([("zero".to_owned(), zero)]);
            if id == "init.twice" { twice(&ranks[r]) } else { play(&ranks[r], f, r, &groups) }
        })
    } else if name == "uninitialized" {
        names(id, &ranks[0])
    } else if name.starts_with("arguments") {
        job(size, &f.json["env"], LIMIT, |r| outsiders(id, &ranks[r]))
    } else if name.starts_with("dead_server") {
        server_dies(id, &ranks[1])
    } else if name.starts_with("dead_rank") {
        rank_dies(name, id, f, &ranks)
    } else if id == "debug_level" {
        job(size, &f.json["env"], LIMIT, |r| {
            let got = format!("DebugLevel.{}", format!("{:?}", dist::get_debug_level()).to_uppercase());
            if ranks[r]["result"] == J::String(got.clone()) { Ok(()) } else { Err(got) }
        })
    } else if id == "rendezvous_missing_rank" || id == "store_waits_for_workers" {
        alone(id, &ranks[0])
    } else if actions {
        let limit = Duration::from_secs_f64(case["timeout"].as_f64().unwrap_or(10.0));
        job(size, &f.json["env"], limit, |r| {
            let end = act(&ranks[r], name);
            // who is done first stays until the others have seen what they should
            std::thread::sleep(Duration::from_millis(50));
            end
        })
    } else {
        return Outcome::Missing(format!("a runner of {name} {id}"));
    };
    match done {
        Ok(()) => Outcome::Passed,
        Err(e) if e.contains("no runner") => Outcome::Missing(e),
        Err(e) => Outcome::Failed(e),
    }
}
fn play(r: &J, f: &File, rank: usize, groups: &Groups) -> Result<(), String> {
    r["steps"].as_array().into_iter().flatten().try_for_each(|s| step(s, &f.store, groups, rank))
}
fn twice(r: &J) -> Result<(), String> {
    match dist::try_init_process_group("gloo", dist::InitProcessGroupOptions::new()) {
        Err(e) => same_error(&e, &r["steps"][0]["error"]),
        Ok(()) => Err("no error".into()),
    }
}
fn stores(id: &str, r: &J) -> Result<(), String> {
    let want = &r["result"]["error"];
    let short = Duration::from_millis(300);
    let said = |e: Error| format!("{e:?}");
    let server = || TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true)).map_err(said);
    let failed = |e: Option<Error>| match e {
        Some(e) => same_error(&e, want),
        None => Err(format!("no error instead of {want}")),
    };
    let (kind, call) = id.trim_start_matches("store.").split_once('.').unwrap_or(("", id));
    if kind == "hash" || kind == "file" {
        let path = std::env::temp_dir().join(format!("flambeau-errors-{}-{call}", std::process::id()));
        let s: Box<dyn Store> = match kind {
            "hash" => Box::new(HashStore::new()),
            _ => Box::new(dist::FileStore::new(&path, 1).map_err(said)?),
        };
        s.set_timeout(short);
        return match call {
            "get" => failed(s.get("nokey").err()),
            "wait" => failed(s.wait(&["a", "b"]).err()),
            _ => Err(format!("no runner of {id}")),
        };
    }
    if id == "store.connect_refused" {
        let port = server()?.port();
        let o = TCPStoreOptions::new().timeout(Duration::from_secs(1));
        return match TCPStore::new("127.0.0.1", port, o) {
            Err(e)
                if e.message().starts_with(
                    "The client socket has timed out after 1000ms while trying to connect to (127.0.0.1, ",
                ) =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        };
    }
    let s = server()?;
    s.set_timeout(short);
    match call {
        "get" => failed(s.get("nokey").err()),
        "wait" => failed(s.wait(&["a", "b"]).err()),
        "wait_own_timeout" => failed(s.wait_timeout(&["a"], Duration::from_millis(200)).err()),
        "multi_get_missing" => failed(s.multi_get(&["m1", "m2"]).err()),
        "multi_set_lengths" => failed(s.multi_set(&["a", "b"], &[b"1"]).err()),
        "queue_pop_empty" => failed(s.queue_pop("q", false).err()),
        "queue_pop_timeout" => failed(s.queue_pop("q", true).err()),
        "add_on_text" => {
            s.set("text", b"no number").map_err(said)?;
            failed(s.add("text", 1).err())
        }
        "port_in_use" => {
            let e = TCPStore::new("127.0.0.1", s.port(), TCPStoreOptions::new().is_master(true)).err();
            match e {
                Some(e)
                    if e.message()
                        .contains("code: -98, name: EADDRINUSE, message: address already in use") =>
                {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        }
        _ => Err(format!("no runner of {id}")),
    }
}

/// Names of engines, which need no job.
fn names(id: &str, r: &J) -> Result<(), String> {
    let given = r["args"][0].as_str().unwrap_or("");
    let got = if let Some(d) = id.strip_prefix("default_backend.") {
        dist::try_get_default_backend_for_device(d)
    } else if id.starts_with("backend_config.") {
        given.parse::<dist::Backend>().and_then(|b| b.config())
    } else if id.starts_with("backend.") {
        given.parse::<dist::Backend>().map(|b| b.to_string())
    } else {
        return Err(format!("no runner of {id}"));
    };
    match (got, r["result"].get("error")) {
        (Ok(g), None) if r["result"]["returns"] == J::String(g.clone()) => Ok(()),
        (Err(e), Some(w)) => same_error(&e, w),
        (other, _) => Err(format!("{other:?} instead of {}", r["result"])),
    }
}
/// A group that rank 1 is not in.
fn outsiders(id: &str, r: &J) -> Result<(), String> {
    let zero = dist::try_new_group(&[0], dist::NewGroupOptions::new()).map_err(|e| format!("{e:?}"))?;
    if id.contains("get_process_group_ranks") {
        let got = serde_json::json!(dist::get_process_group_ranks(&zero));
        return if got == r["result"]["returns"] { Ok(()) } else { Err(got.to_string()) };
    }
    if !id.contains("get_global_rank") {
        return Err(format!("no runner of {id}"));
    }
    match dist::try_get_global_rank(&zero, 4) {
        Err(e) => same_error(&e, &r["result"]["error"]),
        Ok(n) => Err(format!("no error but {n}")),
    }
}
/// Only one of two ranks comes.
fn alone(id: &str, r: &J) -> Result<(), String> {
    let want = &r["result"]["error"];
    let got = if id == "store_waits_for_workers" {
        let o = TCPStoreOptions::new().is_master(true).world_size(2).timeout(Duration::from_secs(1));
        TCPStore::new("127.0.0.1", 0, o).err()
    } else {
        World::with_env([("GLOO_SOCKET_IFNAME".to_owned(), "lo".to_owned())]).enter(|| {
            let server = TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true));
            let store: std::sync::Arc<dyn Store> = match server {
                Ok(s) => std::sync::Arc::new(s),
                Err(e) => return Some(e),
            };
            let o = dist::InitProcessGroupOptions::new()
                .store(store)
                .rank(0)
                .world_size(2)
                .timeout(Duration::from_secs(1));
            dist::try_init_process_group("gloo", o).err()
        })
    };
    match got {
        Some(e) if id == "store_waits_for_workers" => same_error(&e, want),
        // the record's store has no prefix of a group
        Some(e) if e.message().contains("wait timeout after") && e.message().ends_with("0/1") => Ok(()),
        other => Err(format!("{other:?} instead of {want}")),
    }
}
/// Rank 2 goes without a word; the others go on.
fn rank_dies(name: &str, id: &str, f: &File, ranks: &[J]) -> Result<(), String> {
    if id == "died" {
        return Ok(());
    }
    job(ranks.len(), &f.json["env"], LIMIT, |r| {
        let said = |e: Error| format!("{e:?}");
        dist::try_all_reduce(&torch::ones([4]), ReduceOptions::new()).map_err(said)?;
        if r == 2 {
            dist::try_default_group().map_err(said)?.abort();
            std::thread::sleep(Duration::from_millis(1500));
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(300));
        let start = Instant::now();
        if id == "new_group_of_survivors" {
            let o = dist::NewGroupOptions::new().use_local_synchronization(true);
            let g = dist::try_new_group(&[0, 1], o).map_err(said)?;
            let t = torch::full([2], (r + 1) as f64).to(flambeau_core::DType::F32);
            dist::try_all_reduce(&t, ReduceOptions::new().group(g)).map_err(said)?;
            return super::ranks::same_tensor(&t, &ranks[r]["steps"][0]["result"], &f.store);
        }
        let got = if name.contains("monitored") {
            let o = MonitoredBarrierOptions::new().timeout(Duration::from_secs(2)).wait_all_ranks(true);
            dist::try_monitored_barrier(o)
        } else {
            dist::try_all_reduce(&torch::ones([4]), ReduceOptions::new()).map(drop)
        };
        let Err(e) = got else { return Err("no error".into()) };
        if start.elapsed() > Duration::from_secs(10) {
            return Err(format!("took {:?}", start.elapsed()));
        }
        // what the ranks see of each other's end depends on who is first
        let m = e.message();
        let gone = [
            "Connection closed by peer",
            "Connection reset by peer",
            "Timed out waiting",
            "failed to pass monitoredBarrier",
        ];
        same_error(&e, &ranks[r]["steps"][0]["error"])
            .or_else(|wrong| if gone.iter().any(|g| m.contains(g)) { Ok(()) } else { Err(wrong) })
    })
}
/// The server of the store goes without a word.
fn server_dies(id: &str, r: &J) -> Result<(), String> {
    if id == "died" {
        return Ok(());
    }
    let said = |e: Error| format!("{e:?}");
    let want = &r["result"];
    if id.ends_with("recv") || id.ends_with("send") {
        return job(2, &J::Null, LIMIT, |rank| {
            if rank == 0 {
                dist::try_default_group().map_err(said)?.abort();
                std::thread::sleep(Duration::from_millis(600));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(300));
            let t = torch::zeros([2]);
            let got = if id.ends_with("recv") {
                dist::try_recv(&t, Some(0.into()), dist::MessageOptions::new()).map(drop)
            } else {
                dist::try_send(&t, 0, dist::MessageOptions::new())
            };
            match got {
                Err(e) => same_error(&e, &want["error"]),
                Ok(()) => Err("no error".into()),
            }
        });
    }
    let server = TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true)).map_err(said)?;
    let o = TCPStoreOptions::new().timeout(Duration::from_secs(2));
    let client = TCPStore::new("127.0.0.1", server.port(), o).map_err(said)?;
    client.set("k", b"v").map_err(said)?;
    drop(server);
    std::thread::sleep(Duration::from_millis(300));
    let _ = client.set("k", b"v");
    let got = match id.rsplit('.').next() {
        // a message that nobody answers may be gone before anybody knows
        Some("set") => Ok(()),
        Some("get") => client.get("k").map(drop),
        Some("add") => client.add("n", 1).map(drop),
        _ => return Err(format!("no runner of {id}")),
    };
    match (got, want.get("error")) {
        (Ok(()), None) => Ok(()),
        // which call meets the closed connection first is the system's word
        (Err(e), Some(_)) if e.kind() == flambeau_core::ErrorKind::DistNetwork => Ok(()),
        (other, _) => Err(format!("{other:?} instead of {want}")),
    }
}

/// `name(torch.float32[4], 0)`: the call, the number of elements, the number behind.
fn parsed(action: &str) -> Option<(String, i64, Option<i64>)> {
    let (name, rest) = action.split_once('(')?;
    let n = rest
        .split('[')
        .next_back()
        .and_then(|p| p.split(']').next())
        .and_then(|p| p.parse().ok())
        .unwrap_or(0);
    let peer = rest.split("], ").nth(1).and_then(|p| p.trim_end_matches(')').parse().ok());
    Some((name.to_owned(), n, peer))
}
fn act(r: &J, job: &str) -> Result<(), String> {
    let action = text(r, "action");
    if r["result"]["skipped"] == J::Bool(true) || r.is_null() || action.is_empty() {
        // longer than the others' limit
        std::thread::sleep(Duration::from_millis(1600));
        return Ok(());
    }
    let start = Instant::now();
    let Some((name, n, peer)) = parsed(action) else { return Err(format!("no runner of {action}")) };
    let dtype = action.split("torch.").last().and_then(|p| p.split('[').next());
    let dtype = dtype.and_then(flambeau_core::DType::from_name).unwrap_or(flambeau_core::DType::F32);
    let t: Tensor = torch::ones([n]).to(dtype);
    let peer = peer.unwrap_or(0);
    let half = Duration::from_millis(500);
    let got: Result<(), Error> = match (name.as_str(), action) {
        _ if action.starts_with("all_reduce(async_op=True).wait(0.5") => {
            dist::try_all_reduce(&torch::ones([4]), ReduceOptions::new().async_op(true))
                .and_then(|w| w.try_wait_timeout(half))
        }
        _ if action.starts_with("irecv(..).wait(0.5") => {
            dist::try_irecv(&torch::ones([4]), Some(0.into()), dist::MessageOptions::new())
                .and_then(|w| w.try_wait_timeout(half))
        }
        _ if action.starts_with("monitored_barrier(") => {
            let o = MonitoredBarrierOptions::new()
                .timeout(Duration::from_secs(1))
                .wait_all_ranks(action.contains("'wait_all_ranks': True"));
            dist::try_monitored_barrier(o)
        }
        ("all_reduce", a) if !a.contains("), ") && !a.ends_with("all_reduce") => {
            dist::try_all_reduce(&t, ReduceOptions::new()).map(drop)
        }
        ("broadcast", a) if a.matches("broadcast").count() == 1 => {
            dist::try_broadcast(&t, peer, CollectiveOptions::new()).map(drop)
        }
        ("barrier", _) => dist::try_barrier(CollectiveOptions::new()).map(drop),
        ("send", _) => dist::try_send(&t, peer, dist::MessageOptions::new()),
        ("recv", _) => dist::try_recv(&t, Some(peer.into()), dist::MessageOptions::new()).map(drop),
        ("all_gather", _) => {
            let n = if action.contains("0., 0., 0., 0.") { 4 } else { 2 };
            let list = [torch::zeros([n]), torch::zeros([n])];
            dist::try_all_gather(&list, &torch::ones([n]), CollectiveOptions::new()).map(drop)
        }
        _ => return Err(format!("no runner of {action}")),
    };
    let took = start.elapsed().as_secs_f64();
    if let Some(most) = r["took_seconds"].as_f64()
        && took > most + 5.0
    {
        return Err(format!("{action} took {took} s"));
    }
    let either = job.starts_with("mismatch") || job.starts_with("timeouts") || job.starts_with("abort");
    match (got, r["result"].get("error")) {
        (Ok(()), None) => Ok(()),
        // the other rank of an abort may succeed, or see what has become of its peer
        (_, _) if job.starts_with("abort") => Ok(()),
        (Err(e), Some(want)) => same_error(&e, want).or_else(|wrong| {
            let m = e.message();
            let waits = m.contains("Timed out waiting")
                || m.contains("Connection closed by peer")
                || m.contains("Connection reset");
            if either && waits { Ok(()) } else { Err(wrong) }
        }),
        (Ok(()), Some(want)) => Err(format!("{action}: no error instead of {want}")),
        (Err(e), None) => Err(format!("{action}: {e:?}")),
    }
}
