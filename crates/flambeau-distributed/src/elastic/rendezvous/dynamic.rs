//! The rendezvous that PyTorch calls `c10d`: agents come and go, and agree by a value in a store which they exchange.

use super::state::{Node, State};
use super::{DEFAULT_PORT, RendezvousHandler, RendezvousInfo, RendezvousParameters, is_here, own_name};
use crate::elastic::parse_rendezvous_endpoint;
use crate::store::{PrefixStore, Store, TCPStore, TCPStoreOptions};
use crate::sync::{self, Monitor, micros_since_1970 as now};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flambeau_core::types::time::CENTURY;
use flambeau_core::{Error, Result, bail, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// What stands in the store where there is no state.
const NOTHING: &[u8] = b"Y2FuaW1hZGFt";
const MICROS: i64 = 1_000_000;

struct Settings {
    run_id: String,
    min: usize,
    max: usize,
    join: Duration,
    last_call: Duration,
    close: Duration,
    keep_alive: Duration,
    keep_alive_attempts: u32,
}
/// What this agent has last seen.
struct Seen {
    state: State,
    token: Option<Vec<u8>>,
}
struct Shared {
    store: Arc<dyn Store>,
    key: String,
    node: Node,
    settings: Settings,
    seen: Monitor<Seen>,
}
/// What an agent does next.
enum Next {
    Done,
    Wait,
    Change(State),
}

/// A rendezvous of agents that come and go: PyTorch's and this library's together.
pub struct DynamicRendezvous {
    shared: Arc<Shared>,
    beats: Option<Arc<AtomicBool>>,
    /// of the workers, where this agent has number 0
    server: Option<TCPStore>,
    place: Option<(String, u16)>,
}
impl std::fmt::Debug for DynamicRendezvous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DynamicRendezvous({})", self.shared.settings.run_id)
    }
}
impl DynamicRendezvous {
    /// As the parameters say: on the machine that the endpoint names this agent serves the store, unless another does.
    ///
    /// # Errors
    /// Settings that do not fit, a store that cannot be reached.
    pub fn new(p: &RendezvousParameters) -> Result<DynamicRendezvous> {
        ensure!(!p.run_id.is_empty(), Value, "The run id must be a non-empty string.");
        let (host, port) = parse_rendezvous_endpoint(&p.endpoint, DEFAULT_PORT)?;
        let seconds = |key: &str, or: i64| -> Result<Duration> {
            let n = p.get_as_int(key)?.unwrap_or(or);
            ensure!(n > 0, Value, "The {key} timeout ({n}) must be positive.");
            Ok(Duration::from_secs(n as u64))
        };
        let read = seconds("read_timeout", 60)?;
        let forced = p.get_as_bool("is_host")?;
        let serves = forced.unwrap_or_else(|| is_here(&host));
        let open = |serves: bool| {
            let o = TCPStoreOptions::new().is_master(serves).multi_tenant(true).timeout(read);
            TCPStore::new(&host, port, o)
        };
        let store = match open(serves) {
            Ok(s) => s,
            // another agent of this machine may serve it
            Err(_) if serves && forced.is_none() => open(false).map_err(|e| lost(&e))?,
            Err(e) => return Err(lost(&e)),
        };
        DynamicRendezvous::over(Arc::new(store), p)
    }
    /// Over a store.
    ///
    /// # Errors
    /// Settings that do not fit, a store that cannot be reached.
    pub fn over(store: Arc<dyn Store>, p: &RendezvousParameters) -> Result<DynamicRendezvous> {
        static COUNT: AtomicI64 = AtomicI64::new(0);
        let seconds = |key: &str, or: i64| -> Result<Duration> {
            let n = p.get_as_int(key)?.unwrap_or(or);
            ensure!(n > 0, Value, "The {key} timeout ({n}) must be positive.");
            Ok(Duration::from_secs(n as u64))
        };
        let join = match p.get_as_int("join_timeout")? {
            Some(_) => seconds("join_timeout", 600)?,
            None => seconds("timeout", 600)?,
        };
        let settings = Settings {
            run_id: p.run_id.clone(),
            min: p.min_nodes as usize,
            max: p.max_nodes as usize,
            join,
            last_call: seconds("last_call_timeout", 30)?,
            close: seconds("close_timeout", 30)?,
            keep_alive: seconds("keep_alive_interval", 5)?,
            keep_alive_attempts: p.get_as_int("keep_alive_max_attempt")?.unwrap_or(3).clamp(1, 1000) as u32,
        };
        let key = format!("torch.rendezvous.{}", p.run_id);
        store.compare_set(&key, b"", NOTHING).map_err(|e| lost(&e))?;
        let addr = p.local_addr.clone().unwrap_or_else(own_name);
        let local_id = COUNT.fetch_add(1, Ordering::Relaxed);
        let node = Node { addr, pid: std::process::id().into(), local_id };
        let seen = Monitor::new(Seen { state: State::default(), token: None });
        let shared = Arc::new(Shared { store, key, node, settings, seen });
        Ok(DynamicRendezvous { shared, beats: None, server: None, place: None })
    }
    fn stop_beats(&mut self) {
        if let Some(b) = self.beats.take() {
            b.store(false, Ordering::SeqCst);
        }
    }
    fn start_beats(&mut self) -> Result<()> {
        let on = Arc::new(AtomicBool::new(true));
        self.beats = Some(on.clone());
        let shared = Arc::downgrade(&self.shared);
        sync::spawn("rendezvous heartbeat", move || {
            let mut last = sync::now();
            while on.load(Ordering::SeqCst) {
                sync::sleep(Duration::from_millis(100));
                let Some(s) = shared.upgrade() else { return };
                if sync::now() - last >= s.settings.keep_alive {
                    last = sync::now();
                    let end = sync::now() + Duration::from_secs(5);
                    // an agent that cannot tell that it lives is taken for dead, and starts again
                    let _ = s.run(end, |s, mut state| {
                        if state.last_heartbeats.contains_key(&s.node) && s.due(&state) {
                            state.last_heartbeats.insert(s.node.clone(), now());
                            Ok(Next::Change(state))
                        } else {
                            Ok(Next::Done)
                        }
                    });
                }
            }
        })
    }
}
fn lost(e: &Error) -> Error {
    Error::runtime(format!(
        "The connection to the C10d store has failed. See inner exception for details.: {e}"
    ))
}
impl Shared {
    /// Reads the state, without agents that have not been heard of.
    fn sync(&self) -> Result<State> {
        let value = self.store.get(&self.key).map_err(|e| lost(&e))?;
        self.take(value)
    }
    fn take(&self, value: Vec<u8>) -> Result<State> {
        let (mut state, token) = if value == NOTHING {
            (State::default(), None)
        } else {
            let bytes = STANDARD.decode(&value).map_err(|_| {
                Error::runtime("The state object is corrupt. See inner exception for details.")
            })?;
            (State::read(&bytes)?, Some(value))
        };
        let life = self.settings.keep_alive.as_micros() as i64 * i64::from(self.settings.keep_alive_attempts);
        let dead: Vec<Node> = state
            .last_heartbeats
            .iter()
            .filter(|(_, t)| **t < now() - life)
            .map(|(n, _)| n.clone())
            .collect();
        let mut gone = false;
        for n in dead {
            state.last_heartbeats.remove(&n);
            gone |= state.participants.remove(&n).is_some();
            state.wait_list.remove(&n);
            state.redundancy_list.remove(&n);
        }
        if gone {
            self.after_removal(&mut state);
        }
        let mut seen = self.seen.lock();
        (seen.state, seen.token) = (state.clone(), token);
        Ok(state)
    }
    fn after_removal(&self, s: &mut State) {
        if s.complete {
            if s.participants.is_empty() {
                s.complete = false;
                s.round += 1;
            }
        } else if s.participants.len() < self.settings.min {
            s.deadline = None;
        }
    }
    fn due(&self, s: &State) -> bool {
        let beat = self.settings.keep_alive.as_micros() as i64;
        s.last_heartbeats.get(&self.node).is_some_and(|t| *t <= now() - beat)
    }
    /// Does what the state asks for until that is done.
    fn run(&self, end: Instant, mut next: impl FnMut(&Shared, State) -> Result<Next>) -> Result<()> {
        let mut state = self.sync()?;
        loop {
            match next(self, state)? {
                Next::Done => return Ok(()),
                Next::Wait => {
                    // as often as PyTorch's agents look
                    sync::sleep(Duration::from_millis(300));
                    state = self.sync()?;
                }
                Next::Change(new) => {
                    let token = self.seen.lock().token.clone();
                    let value = STANDARD.encode(new.write()?);
                    let old = token.as_deref().unwrap_or(NOTHING);
                    let got =
                        self.store.compare_set(&self.key, old, value.as_bytes()).map_err(|e| lost(&e))?;
                    state = self.take(got)?;
                }
            }
            ensure!(sync::now() < end + Duration::from_secs(10), Runtime, "{}", TIMEOUT);
        }
    }
    fn close(&self) -> Result<()> {
        self.run(sync::deadline(self.settings.close), |_, mut s| {
            if s.closed {
                return Ok(Next::Done);
            }
            s.closed = true;
            Ok(Next::Change(s))
        })
    }
    fn leave(&self, s: &mut State) {
        s.participants.remove(&self.node);
        s.last_heartbeats.remove(&self.node);
        self.after_removal(s);
    }
    /// The next step of joining.
    fn join(&self, mut s: State, end: Instant) -> Result<Next> {
        let (me, set) = (&self.node, &self.settings);
        let spare = s.redundancy_list.contains(me);
        if s.closed {
            bail!(Runtime, "The rendezvous '{}' is closed.", set.run_id);
        }
        if spare {
            if s.participants.len() == set.max {
                return Ok(self.beat_or_wait(s));
            }
            s.redundancy_list.remove(me);
            s.last_heartbeats.remove(me);
            return Ok(Next::Change(s));
        }
        let in_it = s.participants.contains_key(me);
        if s.complete && in_it {
            return Ok(Next::Done);
        }
        if sync::now() > end {
            if in_it {
                self.leave(&mut s);
                return Ok(Next::Change(s));
            }
            if s.wait_list.remove(me) {
                s.last_heartbeats.remove(me);
                return Ok(Next::Change(s));
            }
            bail!(Runtime, "{}", TIMEOUT);
        }
        if s.complete {
            if s.participants.len() < set.max {
                if s.wait_list.insert(me.clone()) {
                    s.last_heartbeats.insert(me.clone(), now());
                    return Ok(Next::Change(s));
                }
            } else if !s.wait_list.contains(me) {
                s.redundancy_list.insert(me.clone());
                s.last_heartbeats.insert(me.clone(), now());
                return Ok(Next::Change(s));
            }
        } else if in_it {
            let n = s.participants.len();
            if n >= set.min && n <= set.max && s.deadline.is_some_and(|d| d < now()) {
                complete(&mut s);
                return Ok(Next::Change(s));
            }
        } else {
            s.wait_list.remove(me);
            s.participants.insert(me.clone(), 0);
            s.last_heartbeats.insert(me.clone(), now());
            if s.participants.len() == set.min {
                s.deadline = Some(now() + set.last_call.min(CENTURY).as_secs() as i64 * MICROS);
            }
            if s.participants.len() == set.max {
                complete(&mut s);
            }
            return Ok(Next::Change(s));
        }
        Ok(self.beat_or_wait(s))
    }
    fn beat_or_wait(&self, mut s: State) -> Next {
        if !self.due(&s) {
            return Next::Wait;
        }
        s.last_heartbeats.insert(self.node.clone(), now());
        Next::Change(s)
    }
}
const TIMEOUT: &str = "The rendezvous has timed out.";
/// The round begins: agents are numbered by their names.
fn complete(s: &mut State) {
    s.complete = true;
    s.deadline = None;
    s.participants.values_mut().enumerate().for_each(|(i, r)| *r = i as i64);
}
impl RendezvousHandler for DynamicRendezvous {
    fn get_backend(&self) -> &'static str {
        "c10d"
    }
    fn next_rendezvous(&mut self) -> Result<RendezvousInfo> {
        self.stop_beats();
        let end = sync::deadline(self.shared.settings.join);
        self.shared.run(end, |s, mut state| {
            if !state.participants.contains_key(&s.node) {
                return Ok(Next::Done);
            }
            s.leave(&mut state);
            Ok(Next::Change(state))
        })?;
        self.shared.run(end, |s, state| s.join(state, end))?;
        self.start_beats()?;
        let state = self.shared.seen.lock().state.clone();
        let Some(rank) = state.participants.get(&self.shared.node).copied() else {
            bail!(Runtime, "{}", TIMEOUT)
        };
        let prefix = format!("torch.rendezvous.{}.{}", self.shared.settings.run_id, state.round);
        let store: Arc<dyn Store> = Arc::new(PrefixStore::new(prefix, self.shared.store.clone()));
        let known = self.place.is_some() && (rank != 0 || self.server.is_some());
        if !known {
            if rank == 0 {
                let o = TCPStoreOptions::new().is_master(true).multi_tenant(true);
                let s = TCPStore::new(&self.shared.node.addr, 0, o)?;
                store.set("MASTER_ADDR", self.shared.node.addr.as_bytes())?;
                store.set("MASTER_PORT", s.port().to_string().as_bytes())?;
                self.server = Some(s);
            }
            let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
            let addr = text(store.get("MASTER_ADDR")?);
            let port = text(store.get("MASTER_PORT")?);
            let port = port
                .parse()
                .map_err(|_| Error::value(format!("invalid literal for int() with base 10: '{port}'")))?;
            self.place = Some((addr, port));
        }
        let (master_addr, master_port) = self.place.clone().unwrap_or_default();
        Ok(RendezvousInfo {
            store,
            rank,
            world_size: state.participants.len() as i64,
            master_addr,
            master_port,
        })
    }
    fn is_closed(&mut self) -> Result<bool> {
        Ok(self.shared.sync()?.closed)
    }
    fn set_closed(&mut self) -> Result<()> {
        self.shared.close()
    }
    fn num_nodes_waiting(&mut self) -> Result<i64> {
        Ok(self.shared.sync()?.wait_list.len() as i64)
    }
    fn get_run_id(&self) -> &str {
        &self.shared.settings.run_id
    }
    fn shutdown(&mut self) -> bool {
        self.stop_beats();
        self.shared.close().is_ok()
    }
}
impl Drop for DynamicRendezvous {
    fn drop(&mut self) {
        self.stop_beats();
    }
}
