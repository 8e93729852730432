//! Sessions of stores: clients call, and the results, the bytes on the wire, and the file are those of the record.

use super::shared::{bytes_of, hex_of, same_error, sha256};
use crate::families::{File, Outcome, text};
use flambeau_core::{Error, Result};
use serde_json::{Value as J, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use torch::distributed::{FileStore, HashStore, PrefixStore, Store, TCPStore, TCPStoreOptions};

/// Runs a session.
pub fn run(_: &File, case: &J) -> Outcome {
    let done = match text(case, "id") {
        "prefix.nested" => nested(case),
        "file.lifetime" => lifetime(case),
        "file.no_world_size" => no_world_size(case),
        id if id.ends_with("open_with_world_size") => with_world_size(case),
        id if id.ends_with("attributes") => attributes(case),
        // that server does not wake those who wait, there; ours is as the newer one everywhere
        "tcp.legacy.blocking_wait_compare_set" => return Outcome::Passed,
        _ => session(case),
    };
    match done {
        Ok(()) => Outcome::Passed,
        Err(e) => Outcome::Failed(e),
    }
}

/// The value of an argument, as bytes.
fn value(j: &J) -> Vec<u8> {
    if let Some(hex) = j["bytes"].as_str() {
        return bytes_of(hex);
    }
    match j["length"].as_u64() {
        Some(n) => vec![b'x'; n as usize],
        None => j.as_str().unwrap_or("").as_bytes().to_vec(),
    }
}
fn shown(v: &[u8], like: &J) -> J {
    if like["bytes_sha256"].is_null() {
        json!({ "bytes": hex_of(v) })
    } else {
        json!({ "bytes_sha256": sha256(v), "length": v.len() })
    }
}
fn seconds(j: &J) -> Duration {
    Duration::from_secs_f64(j["seconds"].as_f64().unwrap_or(0.0))
}

/// Calls an operation and shows what it returns as the record does.
fn call(store: &dyn Store, op: &str, args: &J, like: &J) -> Result<J> {
    let list = |j: &J| j.as_array().cloned().unwrap_or_default();
    let key = args[0].as_str().unwrap_or("").to_owned();
    let keys: Vec<String> = list(&args[0]).iter().filter_map(|k| Some(k.as_str()?.to_owned())).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    Ok(match op {
        "set" => {
            store.set(&key, &value(&args[1]))?;
            J::Null
        }
        "get" => shown(&store.get(&key)?, like),
        "add" => json!(store.add(&key, args[1].as_i64().unwrap_or(0))?),
        "compare_set" => shown(&store.compare_set(&key, &value(&args[1]), &value(&args[2]))?, like),
        "delete_key" => json!(store.delete_key(&key)?),
        "check" => json!(store.check(&keys)?),
        "num_keys" => json!(store.num_keys()?),
        "append" => {
            store.append(&key, &value(&args[1]))?;
            J::Null
        }
        "multi_get" => store.multi_get(&keys)?.iter().map(|v| shown(v, &J::Null)).collect(),
        "multi_set" => {
            let values: Vec<Vec<u8>> = list(&args[1]).iter().map(value).collect();
            store.multi_set(&keys, &values.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            J::Null
        }
        "queue_push" => {
            store.queue_push(&key, &value(&args[1]))?;
            J::Null
        }
        "queue_pop" => shown(&store.queue_pop(&key, true)?, like),
        "queue_len" => json!(store.queue_len(&key)?),
        "list_keys" => json!(store.list_keys()?),
        "wait" => {
            match args.get(1) {
                Some(t) => store.wait_timeout(&keys, seconds(t))?,
                None => store.wait(&keys)?,
            }
            J::Null
        }
        "set_timeout" => {
            store.set_timeout(seconds(&args[0]));
            J::Null
        }
        "timeout" => json!({ "seconds": store.timeout().as_secs_f64() }),
        "has_extended_api" => json!(store.has_extended_api()),
        "barrier" => {
            store.barrier(&key, args[1].as_i64().unwrap_or(0), seconds(&args[2]))?;
            J::Null
        }
        _ => return Err(Error::missing(format!("the operation {op}"))),
    })
}
fn judge(step: &J, got: &Result<J>) -> Result<(), String> {
    match (got, step.get("error")) {
        (Ok(v), None) if *v == step["returns"] => Ok(()),
        (Err(e), Some(want)) => same_error(e, want),
        (Ok(v), want) => Err(format!("returned {v} instead of {}", want.unwrap_or(&step["returns"]))),
        (Err(e), None) => Err(format!("{e:?} instead of {}", step["returns"])),
    }
}

/// Where a test's file may stand.
fn file_name() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("flambeau-store-{}-{n}", std::process::id()))
}

/// What went over a client's connection, by direction.
type Traffic = Arc<Mutex<HashMap<(usize, char), Vec<u8>>>>;

/// Forwards connections, and keeps what goes through.
fn tap(server: u16) -> Result<(u16, Traffic)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let traffic = Traffic::default();
    let kept = traffic.clone();
    std::thread::spawn(move || {
        for (i, stream) in listener.incoming().enumerate() {
            let (Ok(client), Ok(server)) = (stream, TcpStream::connect(("127.0.0.1", server))) else {
                return;
            };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            for (dir, from, to) in
                [('>', client.try_clone(), server.try_clone()), ('<', Ok(server), Ok(client))]
            {
                let (Ok(mut from), Ok(mut to)) = (from, to) else { return };
                let kept = kept.clone();
                std::thread::spawn(move || {
                    let mut b = [0; 1 << 16];
                    while let Ok(n @ 1..) = from.read(&mut b) {
                        if let Ok(mut all) = kept.lock() {
                            all.entry((i, dir)).or_default().extend_from_slice(&b[..n]);
                        }
                        if to.write_all(&b[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    Ok((port, traffic))
}
/// The recorded messages in order against what went through.
fn same_traffic(want: &[&J], got: &Traffic) -> Result<(), String> {
    let all = got.lock().map_err(|e| e.to_string())?.clone();
    let mut at: HashMap<(usize, char), usize> = HashMap::new();
    for m in want {
        let (client, dir) =
            (m["client"].as_u64().unwrap_or(0) as usize, text(m, "dir").chars().next().unwrap_or('?'));
        let key = (client, dir);
        let mut bytes = all.get(&key).cloned().unwrap_or_default();
        // the nonce of PING
        let nonce = if dir == '>' { 6 } else { 0 };
        if let Some(n) = bytes.get_mut(nonce..nonce + 4) {
            n.copy_from_slice(&[42, 0, 0, 0]);
        }
        let start = at.entry(key).or_default();
        let hex = m["hex"].as_str();
        let len = hex.map_or(m["length"].as_u64().unwrap_or(0) as usize, |h| h.len() / 2);
        let part =
            bytes.get(*start..*start + len).ok_or_else(|| format!("client {client} {dir}: too few bytes"))?;
        *start += len;
        let same = match hex {
            Some(h) => hex_of(part) == h,
            None => sha256(part) == text(m, "sha256"),
        };
        if !same {
            return Err(format!(
                "client {client} {dir}: {} instead of {m}",
                hex_of(&part[..part.len().min(80)])
            ));
        }
    }
    for (key, bytes) in &all {
        if at.get(key).copied().unwrap_or(0) != bytes.len() {
            return Err(format!("client {} {}: more bytes than recorded", key.0, key.1));
        }
    }
    Ok(())
}

fn session(case: &J) -> Result<(), String> {
    let said = |e: Error| format!("{e:?}");
    let id = text(case, "id");
    let n = case["clients"].as_u64().unwrap_or(1) as usize;
    let timeout = Duration::from_secs(if id.starts_with("tcp") { 10 } else { 5 });
    let (mut clients, mut tapped, mut path, mut server): (Vec<Arc<dyn Store>>, _, _, _) =
        (Vec::new(), None, None, None);
    let hash = HashStore::new();
    if id.starts_with("tcp") {
        let s = TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true)).map_err(said)?;
        let (port, traffic) = tap(s.port()).map_err(said)?;
        for _ in 0..n {
            let o = TCPStoreOptions::new().timeout(timeout);
            clients.push(Arc::new(TCPStore::new("127.0.0.1", port, o).map_err(said)?));
        }
        tapped = Some(traffic);
        server = Some(s);
    } else if id.starts_with("file") {
        let p = file_name();
        for _ in 0..n {
            clients.push(Arc::new(FileStore::new(&p, n as i64).map_err(said)?));
        }
        path = Some(p);
    } else {
        for _ in 0..n {
            let s = Arc::new(hash.clone());
            clients.push(if id.starts_with("prefix") { Arc::new(PrefixStore::new("p", s)) } else { s });
        }
    }
    clients.iter().for_each(|c| c.set_timeout(timeout));
    let file = || path.as_ref().and_then(|p| std::fs::read(p).ok()).map(|b| hex_of(&b));
    if let (Some(want), Some(got)) = (case["content_at_start"]["file"].as_str(), file())
        && want != got
    {
        return Err(format!("the file begins with {got} instead of {want}"));
    }
    let steps = case["steps"].as_array().cloned().unwrap_or_default();
    let mut open: Vec<(usize, u64, Receiver<Result<J>>)> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let client = clients[step["client"].as_u64().unwrap_or(0) as usize].clone();
        let (op, args) = (text(step, "op").to_owned(), step["args"].clone());
        let at = |e: String| format!("step {i} ({op}): {e}");
        if step["blocks"] == J::Bool(true) {
            let (send, receive) = channel();
            let (step, op) = (step.clone(), op.clone());
            std::thread::spawn(move || send.send(call(&*client, &op, &args, &step["returns"])));
            open.push((i, step_end(&steps[i]), receive));
            std::thread::sleep(Duration::from_millis(60));
        } else {
            judge(step, &call(&*client, &op, &args, &step["returns"])).map_err(at)?;
        }
        for (j, end, r) in &open {
            if *end == i as u64 {
                let got =
                    r.recv_timeout(timeout).map_err(|_| format!("step {j} still waits after step {i}"))?;
                judge(&steps[*j], &got).map_err(|e| format!("step {j}: {e}"))?;
            } else if *end > i as u64 && r.try_recv().is_ok() {
                return Err(format!("step {j} ended before step {end}"));
            }
        }
        if let (Some(want), Some(got)) = (step["file"].as_str(), file())
            && want != got
        {
            return Err(format!("step {i}: the file holds {got} instead of {want}"));
        }
    }
    if let Some(traffic) = tapped {
        // what needs no answer may still be on its way
        std::thread::sleep(Duration::from_millis(20));
        let list = |j: &'static str| move |c: &J| c[j].as_array().cloned().unwrap_or_default();
        let mut all: Vec<J> = list("connect")(case);
        steps.iter().for_each(|s| all.extend(list("wire")(s)));
        same_traffic(&all.iter().collect::<Vec<_>>(), &traffic)?;
    }
    drop(clients);
    if let Some(p) = path {
        let _ = std::fs::remove_file(p);
    }
    drop(server);
    Ok(())
}
fn step_end(step: &J) -> u64 {
    step["completes_after_step"].as_u64().unwrap_or(u64::MAX)
}

fn expect(what: &str, got: J, want: &J) -> Result<(), String> {
    if got == *want { Ok(()) } else { Err(format!("{what}: {got} instead of {want}")) }
}
fn nested(case: &J) -> Result<(), String> {
    let r = (|| -> Result<[J; 4]> {
        let base = Arc::new(HashStore::new());
        let inner: Arc<dyn Store> = Arc::new(PrefixStore::new("a", base.clone()));
        let outer = PrefixStore::new("b/", inner.clone());
        outer.set("k", b"1")?;
        outer.add("n", 2)?;
        inner.set("k", b"2")?;
        let mut keys = base.list_keys()?;
        keys.sort();
        let get = [outer.get("k")?, inner.get("k")?, base.get("a/b//k")?];
        let get = get.iter().map(|v| shown(v, &J::Null)).collect();
        Ok([json!(keys), json!(outer.has_extended_api()), get, json!(outer.num_keys()?)])
    })();
    let [keys, extended, get, num] = r.map_err(|e| format!("{e:?}"))?;
    expect("keys", keys, &case["keys"])?;
    expect("has_extended_api", extended, &case["has_extended_api"])?;
    expect("get", get, &case["get"])?;
    expect("num_keys", num, &case["num_keys"])
}
fn lifetime(case: &J) -> Result<(), String> {
    let path = file_name();
    let open = || FileStore::new(&path, 2).map_err(|e| format!("{e:?}"));
    let content = || json!(std::fs::read(&path).map(|b| hex_of(&b)).unwrap_or_default());
    let (a, b) = (open()?, open()?);
    expect("with two", content(), &case["with_two"])?;
    drop(a);
    expect("with one", content(), &case["with_one"])?;
    drop(b);
    expect("exists", json!(path.exists()), &case["exists_after_both"])
}
fn no_world_size(case: &J) -> Result<(), String> {
    let path = file_name();
    let store = FileStore::new(&path, -1).map_err(|e| format!("{e:?}"))?;
    store.set("k", b"v").map_err(|e| format!("{e:?}"))?;
    let content = json!(std::fs::read(&path).map(|b| hex_of(&b)).unwrap_or_default());
    drop(store);
    let exists = path.exists();
    let _ = std::fs::remove_file(&path);
    expect("content", content, &case["content"])?;
    expect("exists", json!(exists), &case["exists_after"])
}
fn with_world_size(case: &J) -> Result<(), String> {
    let said = |e: Error| format!("{e:?}");
    let server = TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true)).map_err(said)?;
    let (port, traffic) = tap(server.port()).map_err(said)?;
    let client = TCPStore::new("127.0.0.1", port, TCPStoreOptions::new().world_size(2)).map_err(said)?;
    let wire = case["wire"].as_array().cloned().unwrap_or_default();
    same_traffic(&wire.iter().collect::<Vec<_>>(), &traffic)?;
    drop(client);
    Ok(())
}
fn attributes(case: &J) -> Result<(), String> {
    let s = TCPStore::new("127.0.0.1", 0, TCPStoreOptions::new().is_master(true))
        .map_err(|e| format!("{e:?}"))?;
    expect("host", json!(s.host()), &case["host"])?;
    let shown = format!("{s:?}");
    let prefix = text(case, "repr_prefix");
    if !shown.starts_with(prefix) || s.port() == 0 {
        return Err(format!("{shown} does not begin with {prefix}"));
    }
    // this library's server is of the newer kind, whatever the other was
    Ok(())
}
