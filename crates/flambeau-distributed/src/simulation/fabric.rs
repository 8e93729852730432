//! The network of a simulated world.
//!
//! It does what the wires do: a message is announced, wanted, and sent then. Who announces or wants it first is the program's business, so
//! a message takes one way, and the way of the announcement before it where the receiver came later.

use super::cluster::Cluster;
use super::random::{Random, mix};
use super::scheduler::{self, Scheduler};
use crate::gloo::pair::{Transfer, closed};
use crate::gloo::payload::{PIECE, Piece};
use crate::store::Store;
use crate::sync::{Monitor, deadline};
use flambeau_core::{Error, Result, bail};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What happens to messages.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    /// messages take up to so much longer
    pub(super) delay: Duration,
    /// which part of the messages is lost
    pub(super) drops: f64,
    /// messages with different tags may overtake each other
    pub(super) reorder: bool,
}

struct State {
    random: Random,
    nets: Vec<Weak<Net>>,
    /// until when links are busy, by level and who shares it
    out: BTreeMap<(usize, usize), Duration>,
    into: BTreeMap<(usize, usize), Duration>,
    /// when the last message of one rank to another arrives
    last: BTreeMap<(usize, usize), Duration>,
    messages: u64,
    bytes: u64,
    lost: u64,
    print: u64,
    /// ranks that are gone
    gone: Vec<usize>,
    /// ranks that die, and how many operations they still begin before
    kills: Vec<(usize, u64)>,
}
/// The network of a simulated world.
pub(crate) struct Fabric {
    scheduler: Weak<Scheduler>,
    cluster: Cluster,
    faults: Faults,
    state: Monitor<State>,
}
/// What the network has carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) lost: u64,
    pub(super) print: u64,
}

/// A group's connections.
struct Net {
    size: usize,
    joined: Monitor<Vec<Option<usize>>>,
    state: Monitor<Slots>,
}
#[derive(Default)]
struct Slots {
    /// by sender, receiver and slot
    sends: BTreeMap<Key, VecDeque<Sent>>,
    recvs: BTreeMap<Key, VecDeque<Wanted>>,
    /// receives from anybody, by receiver
    anybody: BTreeMap<usize, VecDeque<(u64, Wanted)>>,
    /// how the ends of members have been closed
    closed: BTreeMap<usize, Error>,
}
struct Sent {
    at: Duration,
    data: Vec<u8>,
    transfer: Arc<Transfer>,
}
struct Wanted {
    at: Duration,
    most: usize,
    transfer: Arc<Transfer>,
}

/// One rank's end of a group's connections.
pub(crate) struct Port {
    fabric: Arc<Fabric>,
    net: Arc<Net>,
    me: usize,
    /// in the job, by rank in the group
    ranks: Vec<usize>,
}

impl Fabric {
    pub(super) fn new(
        scheduler: &Arc<Scheduler>,
        cluster: Cluster,
        faults: Faults,
        seed: u64,
        kills: Vec<(usize, u64)>,
    ) -> Arc<Fabric> {
        let state = State {
            random: Random::new(mix(seed)),
            nets: Vec::new(),
            out: BTreeMap::new(),
            into: BTreeMap::new(),
            last: BTreeMap::new(),
            messages: 0,
            bytes: 0,
            lost: 0,
            print: seed,
            gone: Vec::new(),
            kills,
        };
        Arc::new(Fabric { scheduler: Arc::downgrade(scheduler), cluster, faults, state: Monitor::new(state) })
    }
    pub(super) fn traffic(&self) -> Traffic {
        let s = self.state.lock();
        Traffic { messages: s.messages, bytes: s.bytes, lost: s.lost, print: s.print }
    }
    fn now(&self) -> Duration {
        self.scheduler.upgrade().map_or(Duration::ZERO, |s| s.elapsed())
    }
    /// Whether the operation that a rank calls is the one with which it dies.
    pub(super) fn dies_now(&self, rank: usize) -> bool {
        let mut s = self.state.lock();
        let Some(i) = s.kills.iter().position(|k| k.0 == rank) else { return false };
        let left = s.kills[i].1;
        if left == 0 {
            s.kills.remove(i);
        } else {
            s.kills[i].1 = left - 1;
        }
        left == 0
    }
    /// How long a rank takes to add up so many bytes.
    pub(crate) fn adds(&self, bytes: usize) -> Duration {
        self.cluster.adds(bytes)
    }
    /// The end of a rank of a group whose members meet in a store.
    pub(crate) fn join(
        self: &Arc<Self>,
        store: &dyn Store,
        me: usize,
        size: usize,
        timeout: Duration,
    ) -> Result<Port> {
        let Some(task) = scheduler::current() else {
            bail!(Runtime, "a thread that the simulated world does not know joins a group")
        };
        // as many as the group has members make a round; the first of them makes its connections
        let round = (store.add("joined", 1)? - 1) / size as i64;
        let net = Arc::new(Net {
            size,
            joined: Monitor::new(vec![None; size]),
            state: Monitor::new(Slots::default()),
        });
        let number = {
            let mut s = self.state.lock();
            s.nets.push(Arc::downgrade(&net));
            s.nets.len() - 1
        };
        let agreed = store.compare_set(&format!("net/{round}"), b"", number.to_string().as_bytes())?;
        let known = std::str::from_utf8(&agreed).ok().and_then(|t| t.parse::<usize>().ok());
        let net = known
            .and_then(|i| self.state.lock().nets.get(i).and_then(Weak::upgrade))
            .filter(|n| n.size == size);
        let Some(net) = net else { bail!(DistBackend, "the ranks of a group do not agree who they are") };
        {
            let mut j = net.joined.lock();
            j[me] = Some(task.rank);
            if j.iter().all(Option::is_some) {
                drop(j);
                net.joined.notify();
            }
        }
        let all =
            net.joined.wait_for(deadline(timeout), |j| j.iter().copied().collect::<Option<Vec<usize>>>());
        let Some(ranks) = all else {
            let missing: Vec<String> = {
                let j = net.joined.lock();
                (0..size).filter(|r| j[*r].is_none()).map(|r| r.to_string()).collect()
            };
            bail!(
                Runtime,
                "Gloo connectFullMesh failed with timed out connecting: rank {} did not connect",
                missing.join(", ")
            )
        };
        // one who was killed in the meantime has closed nothing of this group
        let gone: Vec<usize> = {
            let s = self.state.lock();
            (0..size).filter(|r| s.gone.contains(&ranks[*r])).collect()
        };
        let port = Port { fabric: self.clone(), net, me, ranks };
        gone.into_iter().for_each(|r| close(&port.net, r, &closed(None)));
        Ok(port)
    }
    /// A rank is gone: all its connections end.
    pub(super) fn leave(&self, rank: usize) {
        let nets: Vec<Arc<Net>> = {
            let mut s = self.state.lock();
            s.gone.push(rank);
            s.nets.iter().filter_map(Weak::upgrade).collect()
        };
        for net in nets {
            let member = net.joined.lock().iter().position(|r| *r == Some(rank));
            if let Some(m) = member {
                close(&net, m, &closed(None));
            }
        }
    }
    /// A message goes: when has the sender nothing to do with it any more, and when is it there? `None` where it is lost.
    fn carry(
        &self,
        from: usize,
        to: usize,
        ready: Duration,
        slot: u64,
        data: &[u8],
    ) -> (Duration, Option<Duration>) {
        let level = self.cluster.level(from, to);
        let link = self.cluster.link(level);
        let busy = link.busy(data.len());
        let mut s = self.state.lock();
        let out = s.out.entry((level, self.cluster.port(from, level))).or_default();
        let begin = ready.max(*out);
        let sent = begin + busy;
        *out = sent;
        let into = s.into.entry((level, self.cluster.port(to, level))).or_default();
        let mut there = (begin + link.latency()).max(*into) + busy;
        *into = there;
        if !self.faults.delay.is_zero() {
            there += self.faults.delay.mul_f64(s.random.unit());
        }
        if !self.faults.reorder {
            let last = s.last.entry((from, to)).or_default();
            there = there.max(*last);
            *last = there;
        }
        s.messages += 1;
        s.bytes += data.len() as u64;
        let lost = self.faults.drops > 0.0 && s.random.unit() < self.faults.drops;
        s.lost += u64::from(lost);
        let fact = [from as u64, to as u64, slot, data.len() as u64, there.as_nanos() as u64];
        s.print = fact.iter().fold(s.print, |h, w| mix(h ^ w));
        (sent, (!lost).then_some(there))
    }
    fn at(&self, moment: Duration, f: impl FnOnce() + Send + 'static) {
        if let Some(s) = self.scheduler.upgrade() {
            s.after(moment.saturating_sub(s.elapsed()), Box::new(f));
        }
    }
}

type Key = (usize, usize, u64);
/// The first of a queue; empty ones are not kept, since each collective has a slot of its own.
fn first<T>(all: &mut BTreeMap<Key, VecDeque<T>>, key: Key) -> Option<T> {
    let q = all.get_mut(&key)?;
    let x = q.pop_front();
    if q.is_empty() {
        all.remove(&key);
    }
    x
}
fn deliver(t: &Transfer, data: &[u8]) {
    if data.is_empty() {
        t.finish(Ok(()));
    }
    for (i, part) in data.chunks(PIECE).enumerate() {
        let mut piece = Piece::new(part.len(), i * PIECE);
        piece.copy_from_slice(part);
        t.come(piece, i * PIECE + part.len() == data.len());
    }
}
/// Ends what others want of a member, and what it wants.
fn close(net: &Net, member: usize, e: &Error) {
    let mut ended = Vec::new();
    {
        let mut s = net.state.lock();
        if s.closed.contains_key(&member) {
            return;
        }
        s.closed.insert(member, e.clone());
        for (k, q) in &mut s.sends {
            if k.0 == member || k.1 == member {
                ended.extend(q.drain(..).map(|x| x.transfer));
            }
        }
        for (k, q) in &mut s.recvs {
            if k.0 == member || k.1 == member {
                ended.extend(q.drain(..).map(|x| x.transfer));
            }
        }
        if let Some(q) = s.anybody.get_mut(&member) {
            ended.extend(q.drain(..).map(|x| x.1.transfer));
        }
    }
    ended.into_iter().for_each(|t| t.finish(Err(e.clone())));
}

impl Port {
    /// The rank in the job of a member.
    pub(crate) fn rank_of(&self, member: usize) -> usize {
        self.ranks.get(member).copied().unwrap_or(member)
    }
    fn check(&self, s: &Slots, peer: usize) -> Result<()> {
        match s.closed.get(&self.me) {
            Some(e) => Err(e.clone()),
            None if s.closed.contains_key(&peer) => Err(closed(None)),
            None => Ok(()),
        }
    }
    pub(crate) fn send(&self, to: usize, slot: u64, data: Vec<u8>) -> Result<Arc<Transfer>> {
        let transfer = Transfer::new(true, to);
        let sent = Sent { at: self.fabric.now(), data, transfer: transfer.clone() };
        let key = (self.me, to, slot);
        let matched = {
            let mut s = self.net.state.lock();
            self.check(&s, to)?;
            let waiting = first(&mut s.recvs, key);
            let waiting = waiting.or_else(|| {
                let q = s.anybody.get_mut(&to)?;
                let i = q.iter().position(|a| a.0 == slot)?;
                q.remove(i).map(|a| a.1)
            });
            match waiting {
                Some(w) => Some((sent, w)),
                None => {
                    s.sends.entry(key).or_default().push_back(sent);
                    None
                }
            }
        };
        if let Some((sent, wanted)) = matched {
            self.go(self.me, to, slot, sent, wanted);
        }
        Ok(transfer)
    }
    pub(crate) fn recv(&self, from: usize, slot: u64, most: usize) -> Result<Arc<Transfer>> {
        let transfer = Transfer::new(false, from);
        let wanted = Wanted { at: self.fabric.now(), most, transfer: transfer.clone() };
        let key = (from, self.me, slot);
        let matched = {
            let mut s = self.net.state.lock();
            match first(&mut s.sends, key) {
                Some(sent) => Some((sent, wanted)),
                None => {
                    self.check(&s, from)?;
                    s.recvs.entry(key).or_default().push_back(wanted);
                    None
                }
            }
        };
        if let Some((sent, wanted)) = matched {
            self.go(from, self.me, slot, sent, wanted);
        }
        Ok(transfer)
    }
    pub(crate) fn recv_any(&self, slot: u64, most: usize) -> Result<Arc<Transfer>> {
        let transfer = Transfer::new(false, self.me);
        let wanted = Wanted { at: self.fabric.now(), most, transfer: transfer.clone() };
        let matched = {
            let mut s = self.net.state.lock();
            if let Some(e) = s.closed.get(&self.me) {
                return Err(e.clone());
            }
            let earliest = s
                .sends
                .iter()
                .filter(|(k, _)| k.1 == self.me && k.2 == slot)
                .min_by_key(|(_, q)| q.front().map(|x| x.at))
                .map(|(k, _)| *k);
            match earliest.and_then(|k| Some((k.0, first(&mut s.sends, k)?))) {
                Some((from, sent)) => Some((from, sent, wanted)),
                None => {
                    s.anybody.entry(self.me).or_default().push_back((slot, wanted));
                    None
                }
            }
        };
        if let Some((from, sent, wanted)) = matched {
            self.go(from, self.me, slot, sent, wanted);
        }
        Ok(transfer)
    }
    /// Both sides have come: the data go.
    fn go(&self, from: usize, to: usize, slot: u64, sent: Sent, wanted: Wanted) {
        wanted.transfer.found(from);
        if sent.data.len() > wanted.most {
            let text = format!("a message of {} bytes for a buffer of {}", sent.data.len(), wanted.most);
            let e = Error::runtime(text);
            wanted.transfer.finish(Err(e.clone()));
            sent.transfer.finish(Err(closed(None)));
            close(&self.net, to, &e);
            return;
        }
        let (a, b) = (self.rank_of(from), self.rank_of(to));
        // the receiver's announcement has to come first
        let link = self.fabric.cluster.link(self.fabric.cluster.level(a, b));
        let ready = sent.at.max(wanted.at + link.latency());
        let (left, there) = self.fabric.carry(a, b, ready, slot, &sent.data);
        let Sent { data, transfer, .. } = sent;
        self.fabric.at(left, move || transfer.finish(Ok(())));
        if let Some(there) = there {
            self.fabric.at(there, move || deliver(&wanted.transfer, &data));
        } else {
            // it is under way for ever
            self.net.state.lock().recvs.entry((from, to, u64::MAX)).or_default().push_back(wanted);
        }
    }
    /// Ends this rank's connections of the group.
    pub(crate) fn fail(&self, e: &Error) {
        let mine = {
            let mut s = self.net.state.lock();
            s.closed.insert(self.me, e.clone()).is_none()
        };
        if !mine {
            return;
        }
        // its own get the reason, the others see a closed connection
        let (mut own, mut others) = (Vec::new(), Vec::new());
        {
            let mut s = self.net.state.lock();
            for (k, q) in &mut s.sends {
                if k.0 == self.me {
                    own.extend(q.drain(..).map(|x| x.transfer));
                } else if k.1 == self.me {
                    others.extend(q.drain(..).map(|x| x.transfer));
                }
            }
            for (k, q) in &mut s.recvs {
                if k.1 == self.me {
                    own.extend(q.drain(..).map(|x| x.transfer));
                } else if k.0 == self.me {
                    others.extend(q.drain(..).map(|x| x.transfer));
                }
            }
            if let Some(q) = s.anybody.get_mut(&self.me) {
                own.extend(q.drain(..).map(|x| x.1.transfer));
            }
            s.sends.retain(|_, q| !q.is_empty());
            s.recvs.retain(|_, q| !q.is_empty());
        }
        own.into_iter().for_each(|t| t.finish(Err(e.clone())));
        others.into_iter().for_each(|t| t.finish(Err(closed(None))));
    }
    /// As [`Transfer::each`]; the scheduler knows whom the thread waits for, for who reads why a world has ended.
    pub(crate) fn each(
        &self,
        t: &Transfer,
        until: Instant,
        f: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Option<Result<()>> {
        let _waiting = scheduler::current().map(|task| task.waits_for(t.is_send(), self.rank_of(t.peer())));
        t.each(until, f)
    }
}
impl Drop for Port {
    fn drop(&mut self) {
        self.fail(&Error::runtime("the process group has been destroyed"));
    }
}
