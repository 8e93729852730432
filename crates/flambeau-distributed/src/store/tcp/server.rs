//! The server's side: a thread that listens, and one for each client.
//!
//! A client harms nobody but itself: lengths are checked before memory is taken, memory grows as bytes come, a message that does
//! not go on ends its connection, and nobody writes to a client but its own thread.

use super::client::plain;
use super::wire::{MAGIC, MAX_KEY, MAX_KEYS, MAX_MESSAGE, MAX_VALUE, Query};
use crate::store::table::Table;
use crate::sync::Monitor;
use flambeau_core::{Error, ErrorKind, Result, bail};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a message may stand still between two of its bytes.
const STALL: Duration = Duration::from_secs(60);
/// More clients than this at once are turned away.
const MAX_CLIENTS: usize = 65_536;

/// A server, which ends with the last handle of it.
pub(crate) struct Server {
    port: u16,
    shared: Arc<Shared>,
}
struct Shared {
    state: Monitor<State>,
    ended: AtomicBool,
}
#[derive(Default)]
struct State {
    table: Table,
    /// who waits for which keys
    waiting: HashMap<Vec<u8>, Vec<Arc<Waiter>>>,
    /// by client, a handle to end its connection
    clients: HashMap<u64, TcpStream>,
    next: u64,
}
/// One client's wait: how many keys are still missing.
struct Waiter(Monitor<usize>);

/// Servers that are shared in this process, by port.
static TENANTS: Monitor<Vec<(u16, Weak<Server>)>> = Monitor::new(Vec::new());

impl Server {
    /// Listens on all addresses.
    pub(crate) fn open(port: u16, listener: Option<Arc<TcpListener>>, shared: bool) -> Result<Arc<Server>> {
        if !shared {
            return Server::start(port, listener);
        }
        let mut all = TENANTS.lock();
        all.retain(|(_, s)| s.strong_count() > 0);
        if let Some(s) = all.iter().find(|(p, _)| *p == port && port != 0).and_then(|(_, s)| s.upgrade()) {
            return Ok(s);
        }
        let s = Server::start(port, listener)?;
        all.push((s.port, Arc::downgrade(&s)));
        Ok(s)
    }
    fn start(port: u16, listener: Option<Arc<TcpListener>>) -> Result<Arc<Server>> {
        let listener = match listener {
            Some(l) => l,
            None => Arc::new(TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port))).map_err(
                |e| {
                    let (code, text) = (e.raw_os_error().unwrap_or(0), plain(&e).to_lowercase());
                    let name = match e.kind() {
                        io::ErrorKind::AddrInUse => "EADDRINUSE",
                        io::ErrorKind::PermissionDenied => "EACCES",
                        _ => "UNKNOWN",
                    };
                    let text = format!(
                        "The server socket has failed to listen on any local network address. port: {port}, useIpv6: false, code: -{code}, name: {name}, message: {text}"
                    );
                    Error::new(ErrorKind::DistNetwork, text)
                },
            )?),
        };
        let port = listener.local_addr()?.port();
        let shared =
            Arc::new(Shared { state: Monitor::new(State::default()), ended: AtomicBool::new(false) });
        let s = shared.clone();
        thread("store server", move || listen(&listener, &s))?;
        Ok(Arc::new(Server { port, shared }))
    }
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}
impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        for s in self.shared.state.lock().clients.values() {
            let _ = s.shutdown(std::net::Shutdown::Both);
        }
        // wakes the listening thread
        let _ = TcpStream::connect_timeout(&([127, 0, 0, 1], self.port).into(), Duration::from_millis(200));
    }
}

fn thread(name: &str, f: impl FnOnce() + Send + 'static) -> Result<()> {
    // deep calls do not happen there, and there may be a thousand of them
    std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(f)?;
    Ok(())
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let stream = listener.accept();
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        let Ok((stream, _)) = stream else {
            // no more files, or a client that went before it was taken
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let Ok(handle) = stream.try_clone() else { continue };
        let id = {
            let mut s = shared.state.lock();
            if s.clients.len() >= MAX_CLIENTS {
                continue;
            }
            s.next += 1;
            let id = s.next;
            s.clients.insert(id, handle);
            id
        };
        let mine = shared.clone();
        let started = thread("store client", move || {
            let mut c = Client { stream, left: 0, shared: &mine };
            let _ = c.serve();
            let _ = c.stream.shutdown(std::net::Shutdown::Both);
            mine.state.lock().clients.remove(&id);
        });
        if started.is_err() {
            shared.state.lock().clients.remove(&id);
        }
    }
}

impl State {
    /// Whoever waits for this key may have what it wants.
    fn wake(&mut self, key: &[u8]) {
        for w in self.waiting.remove(key).into_iter().flatten() {
            *w.0.lock() -= 1;
            w.0.notify();
        }
    }
}

/// The name under which those wait that stand at a barrier: no key of a client's begins so.
fn barrier_name(key: &[u8], size: i64) -> Vec<u8> {
    [b"\0barrier ", &size.to_le_bytes()[..], key].concat()
}

struct Client<'a> {
    stream: TcpStream,
    /// bytes that the message may still have
    left: u64,
    shared: &'a Shared,
}
impl Client<'_> {
    fn serve(&mut self) -> Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_read_timeout(Some(STALL))?;
        self.stream.set_write_timeout(Some(STALL))?;
        if self.first()? != Some(Query::Validate as u8) || u32::from_le_bytes(self.array()?) != MAGIC {
            return Ok(());
        }
        while let Some(b) = self.first()? {
            let Some(q) = Query::of(b) else { return Ok(()) };
            self.answer(q)?;
        }
        Ok(())
    }
    /// The first byte of a message, which may take its time.
    fn first(&mut self) -> Result<Option<u8>> {
        self.left = MAX_MESSAGE;
        let mut b = [0];
        loop {
            match self.stream.read(&mut b) {
                Ok(0) => return Ok(None),
                Ok(_) => return Ok(Some(b[0])),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut b = [0; N];
        self.stream.read_exact(&mut b)?;
        Ok(b)
    }
    fn number(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }
    fn text(&mut self, most: u64) -> Result<Vec<u8>> {
        let n = u64::from_le_bytes(self.array()?);
        if n > most.min(self.left) {
            bail!(DistNetwork, "a message that is too long");
        }
        self.left -= n;
        let mut b = Vec::new();
        (&mut self.stream).take(n).read_to_end(&mut b)?;
        if b.len() as u64 != n {
            bail!(DistNetwork, "a message that ends too early");
        }
        Ok(b)
    }
    fn key(&mut self) -> Result<Vec<u8>> {
        self.text(MAX_KEY)
    }
    fn value(&mut self) -> Result<Vec<u8>> {
        self.text(MAX_VALUE)
    }
    fn count(&mut self) -> Result<u64> {
        let n = u64::from_le_bytes(self.array()?);
        if n > MAX_KEYS {
            bail!(DistNetwork, "a message of too many keys");
        }
        Ok(n)
    }
    fn keys(&mut self) -> Result<Vec<Vec<u8>>> {
        let n = self.count()?;
        (0..n).map(|_| self.key()).collect()
    }
    fn send(&mut self, b: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(b)?)
    }
    fn send_number(&mut self, n: i64) -> Result<()> {
        self.send(&n.to_le_bytes())
    }
    fn send_bytes(&mut self, b: &[u8]) -> Result<()> {
        self.send(&[&(b.len() as u64).to_le_bytes(), b].concat())
    }
    fn change<R>(&self, key: &[u8], f: impl FnOnce(&mut Table) -> R) -> R {
        let mut s = self.shared.state.lock();
        let r = f(&mut s.table);
        s.wake(key);
        r
    }
    fn answer(&mut self, q: Query) -> Result<()> {
        let shared = self.shared;
        let table = || shared.state.lock();
        match q {
            Query::Validate => bail!(DistNetwork, "who it is has been said"),
            Query::Ping => {
                let nonce: [u8; 4] = self.array()?;
                self.send(&nonce)
            }
            Query::Set => {
                let (k, v) = (self.key()?, self.value()?);
                self.change(&k, |t| t.set(&k, v));
                Ok(())
            }
            Query::CompareSet => {
                let (k, expected, desired) = (self.key()?, self.value()?, self.value()?);
                let v = self.change(&k, |t| t.compare_set(&k, &expected, &desired));
                self.send_bytes(&v)
            }
            Query::Get => {
                let k = self.key()?;
                let v = table().table.get(&k).map(<[u8]>::to_vec).unwrap_or_default();
                self.send_bytes(&v)
            }
            Query::Add => {
                let (k, n) = (self.key()?, self.number()?);
                match self.change(&k, |t| t.add(&k, n)) {
                    Some(sum) => self.send_number(sum),
                    None => bail!(DistNetwork, "a value that is no number"),
                }
            }
            Query::Check => {
                let keys = self.keys()?;
                let all = {
                    let s = table();
                    keys.iter().all(|k| s.table.has(k))
                };
                self.send(&[u8::from(!all)])
            }
            Query::Wait => {
                let keys = self.keys()?;
                let waiter = {
                    let mut s = table();
                    let missing: Vec<&Vec<u8>> = keys.iter().filter(|k| !s.table.has(k)).collect();
                    let w = Arc::new(Waiter(Monitor::new(missing.len())));
                    for k in missing {
                        s.waiting.entry(k.clone()).or_default().push(w.clone());
                    }
                    w
                };
                self.wait(&waiter, &keys)
            }
            Query::GetNumKeys => {
                let n = table().table.len();
                self.send_number(n)
            }
            Query::DeleteKey => {
                let k = self.key()?;
                let was = table().table.delete(&k);
                self.send_number(was.into())
            }
            Query::Append => {
                let (k, v) = (self.key()?, self.value()?);
                self.change(&k, |t| t.append(&k, &v));
                Ok(())
            }
            Query::MultiGet => {
                let keys = self.keys()?;
                for k in keys {
                    let v = table().table.get(&k).map(<[u8]>::to_vec).unwrap_or_default();
                    self.send_bytes(&v)?;
                }
                Ok(())
            }
            Query::MultiSet => {
                for _ in 0..self.count()? {
                    let (k, v) = (self.key()?, self.value()?);
                    self.change(&k, |t| t.set(&k, v));
                }
                Ok(())
            }
            // no wait is under way: the one that was meant has been answered already
            Query::CancelWait => self.send(&[1]),
            Query::QueuePush => {
                let (k, v) = (self.key()?, self.value()?);
                self.change(&k, |t| t.push(&k, v));
                Ok(())
            }
            Query::QueuePop => {
                let k = self.key()?;
                let (before, first) = table().table.pop(&k);
                let mut b = before.to_le_bytes().to_vec();
                if let Some(v) = first {
                    b.extend_from_slice(&(v.len() as u64).to_le_bytes());
                    b.extend_from_slice(&v);
                }
                self.send(&b)
            }
            Query::QueueLen => {
                let k = self.key()?;
                let n = table().table.queue_len(&k);
                self.send_number(n)
            }
            Query::ListKeys => {
                let keys = table().table.keys();
                let mut b = (keys.len() as i64).to_le_bytes().to_vec();
                for k in keys {
                    b.extend_from_slice(&(k.len() as u64).to_le_bytes());
                    b.extend_from_slice(&k);
                }
                self.send(&b)
            }
            Query::Barrier => {
                let (k, size) = (self.key()?, self.number()?);
                let name = barrier_name(&k, size);
                let waiter = {
                    let mut s = table();
                    let Some(n) = s.table.add(&k, 1) else { bail!(DistNetwork, "a value that is no number") };
                    s.wake(&k);
                    let w = Arc::new(Waiter(Monitor::new(usize::from(n < size))));
                    if n < size {
                        s.waiting.entry(name.clone()).or_default().push(w.clone());
                    } else {
                        s.wake(&name);
                    }
                    w
                };
                self.wait(&waiter, &[name])
            }
        }
    }
    /// Answers once nothing is missing; until then the client may give up, or go.
    fn wait(&mut self, waiter: &Arc<Waiter>, keys: &[Vec<u8>]) -> Result<()> {
        let mut pause = Duration::from_millis(5);
        loop {
            let done = waiter.0.wait_for(crate::sync::deadline(pause), |n| (*n == 0).then_some(()));
            if done.is_some() {
                return self.send(&[0]);
            }
            pause = (pause * 2).min(Duration::from_millis(50));
            let mut b = [0];
            self.stream.set_nonblocking(true)?;
            let seen = self.stream.peek(&mut b);
            self.stream.set_nonblocking(false)?;
            match seen {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return self.leave(waiter, keys, Err(e.into())),
                Ok(1) if b[0] == Query::CancelWait as u8 => {
                    self.first()?;
                    return self.leave(waiter, keys, Ok(()));
                }
                // gone, or another query before the answer
                Ok(_) => return self.leave(waiter, keys, Err(Error::new(ErrorKind::DistNetwork, "left"))),
            }
        }
    }
    fn leave(&mut self, waiter: &Arc<Waiter>, keys: &[Vec<u8>], end: Result<()>) -> Result<()> {
        {
            let mut s = self.shared.state.lock();
            for k in keys {
                if let Some(all) = s.waiting.get_mut(k) {
                    all.retain(|w| !Arc::ptr_eq(w, waiter));
                    if all.is_empty() {
                        s.waiting.remove(k);
                    }
                }
            }
        }
        end.and_then(|()| self.send(&[1]))
    }
}
