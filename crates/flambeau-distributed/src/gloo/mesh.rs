//! All peers of a group.

use super::address::{Place, host_name, own_ip};
use super::pair::{Pair, Transfer};
use super::payload::{Payload, Piece, Sink};
use super::progress::Turns;
use crate::simulation::fabric::Port;
use crate::store::{PrefixStore, Store};
use crate::sync::{Monitor, Timeout, deadline};
use flambeau_core::{Error, Result, bail};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How the ranks find each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wires {
    /// `GLOO_SOCKET_IFNAME`
    pub(crate) interface: Option<String>,
    /// `TORCH_GLOO_LAZY_INIT`: connections are made on first use
    pub(crate) lazy: bool,
}

/// A group's connections.
pub(crate) struct Mesh {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    timeout: Timeout,
    tag: AtomicU32,
    way: Way,
}
/// How messages go.
enum Way {
    Wired(Arc<Wired>),
    /// in a simulated world
    Simulated(Port),
}
/// Connections over the network.
pub(crate) struct Wired {
    pub(crate) rank: usize,
    pub(super) pairs: Vec<Pair>,
    pub(super) turns: Turns,
    /// the machine has fewer processors than ranks of the group
    pub(super) crowded: bool,
    places: Vec<Place>,
    wires: Wires,
    anybody: Monitor<Vec<Anybody>>,
    ended: Arc<AtomicBool>,
}
/// A receive that takes what comes first.
struct Anybody {
    slot: u64,
    most: usize,
    transfer: Arc<Transfer>,
}

impl Mesh {
    /// Tells the store where this rank is, reads where the others are, and connects.
    pub(crate) fn join(
        store: Arc<dyn Store>,
        rank: usize,
        size: usize,
        timeout: Duration,
        wires: Wires,
    ) -> Result<Arc<Mesh>> {
        let way = match crate::simulation::fabric() {
            Some(fabric) => Way::Simulated(fabric.join(&*store, rank, size, timeout)?),
            None => Way::Wired(Wired::join(store, rank, size, timeout, wires)?),
        };
        let (timeout, tag) = (Timeout::new(timeout), AtomicU32::new(0));
        Ok(Arc::new(Mesh { rank, size, timeout, tag, way }))
    }
    /// Where this rank listens.
    pub(crate) fn address(&self) -> SocketAddr {
        match &self.way {
            Way::Wired(w) => w.places[w.rank].address,
            Way::Simulated(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        }
    }
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.get()
    }
    pub(crate) fn set_timeout(&self, d: Duration) {
        self.timeout.set(d);
    }
    /// The number of the next collective.
    pub(crate) fn next_tag(&self) -> u32 {
        self.tag.fetch_add(1, Ordering::Relaxed)
    }
    pub(crate) fn send(&self, peer: usize, slot: u64, data: impl Into<Payload>) -> Result<Arc<Transfer>> {
        match &self.way {
            Way::Wired(w) => w.pair(peer, self.timeout())?.send(slot, data.into()),
            Way::Simulated(p) => p.send(peer, slot, data.into().bytes()?),
        }
    }
    pub(crate) fn recv(&self, peer: usize, slot: u64, most: usize) -> Result<Arc<Transfer>> {
        match &self.way {
            Way::Wired(w) => w.pair(peer, self.timeout())?.recv(slot, most, None),
            Way::Simulated(p) => p.recv(peer, slot, most),
        }
    }
    /// The same; what comes may be written where it belongs, and is handed over if it was not.
    pub(crate) fn recv_into(
        &self,
        peer: usize,
        slot: u64,
        most: usize,
        sink: Option<Box<dyn Sink>>,
    ) -> Result<Arc<Transfer>> {
        match &self.way {
            Way::Wired(w) => w.pair(peer, self.timeout())?.recv(slot, most, sink),
            Way::Simulated(p) => p.recv(peer, slot, most),
        }
    }
    /// Lets what is queued go now and not when somebody waits.
    pub(crate) fn flush(&self) {
        if let Way::Wired(w) = &self.way {
            w.flush();
        }
    }
    /// A transfer goes on while its owner does something else.
    pub(crate) fn leave_alone(&self, t: &Arc<Transfer>) -> Result<()> {
        match &self.way {
            Way::Wired(w) => w.leave_alone(t),
            Way::Simulated(_) => Ok(()),
        }
    }
    /// A receive from whoever sends first.
    pub(crate) fn recv_any(&self, slot: u64, most: usize) -> Result<Arc<Transfer>> {
        match &self.way {
            Way::Wired(w) => w.recv_any(slot, most),
            Way::Simulated(p) => p.recv_any(slot, most),
        }
    }
    /// Waits for the end of a transfer, and hands over what it brings; `None` once the moment has passed.
    pub(crate) fn each_until(
        &self,
        t: &Transfer,
        end: Instant,
        f: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Option<Result<()>> {
        match &self.way {
            Way::Wired(w) => w.each(t, end, f),
            Way::Simulated(p) => p.each(t, end, f),
        }
    }
    /// Waits for a transfer, and hands over what it brings. A timeout ends all connections: what was under way is of no use to anybody.
    pub(crate) fn each(
        &self,
        t: &Transfer,
        timeout: Duration,
        f: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        if let Some(r) = self.each_until(t, deadline(timeout), f) {
            return r;
        }
        self.fail(&Error::runtime("Application timeout caused pair closure"));
        let what = if t.is_send() { "send" } else { "recv" };
        bail!(Runtime, "Timed out waiting {}ms for {what} operation to complete", timeout.as_millis())
    }
    /// Waits for a transfer, and gives what it has brought.
    pub(crate) fn wait(&self, t: &Transfer, timeout: Duration) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        self.each(t, timeout, &mut |p| {
            all.extend_from_slice(&p);
            Ok(())
        })?;
        Ok(all)
    }
    /// Ends all connections.
    pub(crate) fn fail(&self, e: &Error) {
        match &self.way {
            Way::Wired(w) => w.fail(e),
            Way::Simulated(p) => p.fail(e),
        }
    }
}

impl Wired {
    fn join(
        store: Arc<dyn Store>,
        rank: usize,
        size: usize,
        timeout: Duration,
        wires: Wires,
    ) -> Result<Arc<Wired>> {
        let end = deadline(timeout);
        let store = PrefixStore::new("0", store);
        let ip = own_ip(wires.interface.as_deref())?;
        let listener = TcpListener::bind((ip, 0))?;
        let numbers = if wires.lazy { Vec::new() } else { (0..size as i64).collect() };
        let mine = Place { host: host_name(), address: listener.local_addr()?, numbers };
        store.set(&rank.to_string(), &mine.encode())?;
        let mut places = Vec::new();
        if !wires.lazy {
            for r in 0..size {
                let key = r.to_string();
                store.wait_timeout(&[&key], end.saturating_duration_since(Instant::now()))?;
                places.push(Place::decode(&store.get(&key)?)?);
            }
        } else {
            for r in 0..size {
                places.push(if r == rank {
                    mine.clone()
                } else {
                    Place::decode(&store.get(&r.to_string())?)?
                });
            }
        }
        let here = places.iter().filter(|p| p.host == mine.host).count();
        let crowded = std::thread::available_parallelism().is_ok_and(|n| n.get() < here);
        let all = Arc::new(Wired {
            rank,
            crowded,
            pairs: (0..size).map(|p| Pair::new(rank, p)).collect(),
            turns: Turns::new()?,
            places,
            wires,
            anybody: Monitor::new(Vec::new()),
            ended: Arc::new(AtomicBool::new(false)),
        });
        let awaited = (0..size).filter(|p| *p != rank && !all.connects(*p)).count();
        if awaited > 0 {
            let (weak, ended) = (Arc::downgrade(&all), all.ended.clone());
            super::thread("gloo listener", move || accept(&listener, &weak, &ended, awaited))?;
        }
        if !all.wires.lazy {
            for p in (0..size).filter(|p| *p != rank) {
                if all.connects(p) {
                    all.connect(p, end)?;
                }
            }
            for p in (0..size).filter(|p| *p != rank) {
                if !all.pairs[p].connected(end)? {
                    bail!(
                        Runtime,
                        "Gloo connectFullMesh failed with timed out connecting: rank {p} did not connect"
                    );
                }
            }
        }
        Ok(all)
    }
    fn connects(&self, peer: usize) -> bool {
        self.places[self.rank].connects_to(&self.places[peer], self.rank, peer)
    }
    fn connect(self: &Arc<Self>, peer: usize, end: Instant) -> Result<()> {
        let place = &self.places[peer];
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&place.address, left);
        let stream = stream
            .map_err(|e| Error::runtime(format!("connect {}: {}", place.address, crate::store::plain(&e))))?;
        (&stream).write_all(&place.number_for(self.rank)?.to_le_bytes())?;
        self.pairs[peer].start(stream)?;
        self.turns.ring();
        Ok(())
    }
    /// The connection with a peer, made now if it is made on first use.
    fn pair(self: &Arc<Self>, peer: usize, timeout: Duration) -> Result<&Pair> {
        let pair = &self.pairs[peer];
        if self.wires.lazy && !pair.is_connected() {
            let end = deadline(timeout);
            if self.connects(peer) {
                // one caller connects, others wait for it
                let turn = self.anybody.lock();
                if !pair.is_connected() {
                    self.connect(peer, end)?;
                }
                drop(turn);
            } else if !pair.connected(end)? {
                bail!(Runtime, "Timed out waiting {}ms for rank {peer} to connect", timeout.as_millis());
            }
        }
        Ok(pair)
    }
    fn recv_any(&self, slot: u64, most: usize) -> Result<Arc<Transfer>> {
        let transfer = Transfer::new(false, self.rank);
        let mut waiting = self.anybody.lock();
        for p in (0..self.pairs.len()).filter(|p| *p != self.rank) {
            if self.pairs[p].recv_announced(slot, most, &transfer) {
                return Ok(transfer);
            }
        }
        waiting.push(Anybody { slot, most, transfer: transfer.clone() });
        Ok(transfer)
    }
    /// A peer has announced a send that nothing was posted for: perhaps somebody has waited for it.
    pub(super) fn anybody(&self, pair: &Pair, slot: u64) {
        let mut waiting = self.anybody.lock();
        if let Some(i) = waiting.iter().position(|a| a.slot == slot)
            && pair.recv_announced(slot, waiting[i].most, &waiting[i].transfer)
        {
            waiting.remove(i);
        }
    }
    fn fail(&self, e: &Error) {
        for a in std::mem::take(&mut *self.anybody.lock()) {
            a.transfer.finish(Err(e.clone()));
        }
        self.pairs.iter().for_each(|p| p.fail(e));
        self.turns.ring();
    }
    /// Lets what is queued go, and ends the connections.
    fn close(&self) {
        self.ended.store(true, Ordering::SeqCst);
        let end = Instant::now() + Duration::from_secs(2);
        for p in &self.pairs {
            p.flush();
            while !p.is_idle() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
                p.flush();
            }
            // a connection that ends with something unread takes back what was sent
            p.pump(self);
        }
        self.fail(&Error::runtime("the process group has been destroyed"));
        self.turns.end();
    }
}
impl Drop for Mesh {
    fn drop(&mut self) {
        if let Way::Wired(w) = &self.way {
            w.close();
        }
    }
}

/// Takes the connections of those peers that connect. Strangers, and peers that say nothing, are turned away.
fn accept(listener: &TcpListener, mesh: &std::sync::Weak<Wired>, ended: &AtomicBool, mut awaited: usize) {
    let _ = listener.set_nonblocking(true);
    let mut pause = Duration::from_micros(100);
    while awaited > 0 && !ended.load(Ordering::SeqCst) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
            continue;
        };
        pause = Duration::from_micros(100);
        let mut word = [0; 8];
        let told = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(5))))
            .and_then(|()| stream.read_exact(&mut word));
        let Some(mesh) = mesh.upgrade() else { return };
        let rank = i64::from_le_bytes(word);
        if told.is_ok()
            && let Some(pair) = usize::try_from(rank).ok().and_then(|r| mesh.pairs.get(r))
            && pair.peer != mesh.rank
            && !pair.is_connected()
            && pair.start(stream).is_ok()
        {
            awaited -= 1;
            mesh.turns.ring();
        }
    }
}
