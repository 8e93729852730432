//! One peer: a connection, what is announced on it, and what waits for it.
//!
//! A frame is six words (its length, what it is, slot, offset, length of the data, remote offset) and data. A send is announced and
//! keeps its data until the peer has announced a receive for that slot, so data never come unasked, and nobody takes memory for
//! a length that a peer claims: a message that is longer than its buffer ends the connection. The thread that reads never writes.

use super::mesh::Wired;
use crate::internal::tap;
use crate::sync::Monitor;
use flambeau_core::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) const DATA: u64 = 1;
pub(crate) const SEND_READY: u64 = 2;
pub(crate) const RECV_READY: u64 = 3;
const HEADER: usize = 48;
/// A peer that announces more slots than this without using them is up to no good.
const MAX_SLOTS: usize = 1 << 20;

/// What a send or receive waits for.
pub(crate) struct Transfer {
    /// the peer, known once a receive from anybody has found one
    state: Monitor<Progress>,
    send: bool,
}
#[derive(Default)]
struct Progress {
    peer: usize,
    done: Option<Result<Vec<u8>>>,
}
impl Transfer {
    pub(crate) fn new(send: bool, peer: usize) -> Arc<Transfer> {
        Arc::new(Transfer { state: Monitor::new(Progress { peer, done: None }), send })
    }
    pub(crate) fn finish(&self, r: Result<Vec<u8>>) {
        let mut s = self.state.lock();
        if s.done.is_none() {
            s.done = Some(r);
            self.state.notify();
        }
    }
    pub(crate) fn found(&self, peer: usize) {
        self.state.lock().peer = peer;
    }
    pub(crate) fn peer(&self) -> usize {
        self.state.lock().peer
    }
    pub(crate) fn is_done(&self) -> bool {
        self.state.lock().done.is_some()
    }
    /// What came, once it has; after the deadline `None`.
    pub(crate) fn wait(&self, end: Instant) -> Option<Result<Vec<u8>>> {
        self.state.wait_for(end, |s| match &mut s.done {
            Some(Ok(b)) => Some(Ok(std::mem::take(b))),
            Some(Err(e)) => Some(Err(e.clone())),
            None => None,
        })
    }
    pub(crate) fn is_send(&self) -> bool {
        self.send
    }
}

/// What is known of a slot.
#[derive(Default)]
struct Slot {
    /// sends whose data wait for the peer
    sends: VecDeque<(Arc<Transfer>, Vec<u8>)>,
    /// buffers that were announced
    recvs: VecDeque<(Arc<Transfer>, usize)>,
    /// the peer's announcements that nothing here has used up
    remote_sends: usize,
    remote_recvs: usize,
    /// announcements that will come for receives that did not wait for them
    expected: usize,
}
impl Slot {
    fn idle(&self) -> bool {
        self.sends.is_empty()
            && self.recvs.is_empty()
            && self.remote_sends == 0
            && self.remote_recvs == 0
            && self.expected == 0
    }
}

struct Frame {
    kind: u64,
    slot: u64,
    length: u64,
    data: Vec<u8>,
    /// finished once the frame is on its way
    sent: Option<Arc<Transfer>>,
}

#[derive(Default)]
struct State {
    stream: Option<Arc<TcpStream>>,
    failed: Option<Error>,
    slots: HashMap<u64, Slot>,
    out: VecDeque<Frame>,
    /// somebody is writing: what is queued goes with it
    writing: bool,
    /// the writing thread runs
    writer: bool,
    ended: bool,
    /// somebody waits until nothing is queued any more
    closing: bool,
}

/// The connection with one peer.
pub(crate) struct Pair {
    me: usize,
    pub(crate) peer: usize,
    state: Monitor<State>,
}

impl Pair {
    pub(crate) fn new(me: usize, peer: usize) -> Pair {
        Pair { me, peer, state: Monitor::new(State::default()) }
    }
    /// The connection is there: threads read from it and write to it from now on.
    pub(crate) fn start(self: &Arc<Self>, stream: TcpStream, mesh: &Arc<Wired>) -> Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(None)?;
        let stream = Arc::new(stream);
        {
            let mut s = self.state.lock();
            if s.ended || s.stream.is_some() {
                let _ = stream.shutdown(Shutdown::Both);
                return Ok(());
            }
            s.stream = Some(stream.clone());
            s.writer = true;
        }
        self.state.notify();
        let (me, weak) = (self.clone(), Arc::downgrade(mesh));
        super::thread("gloo reader", move || {
            let e = me.read(&stream, &weak).err();
            let address = stream.peer_addr().ok();
            me.fail(e.unwrap_or_else(|| closed(address)));
        })?;
        let me = self.clone();
        super::thread("gloo writer", move || me.write_on())
    }
    /// Whether the connection has been made, waiting for it until the deadline. A peer that has done its work may be gone again: that
    /// concerns who needs something of it.
    pub(crate) fn connected(&self, end: Instant) -> Result<bool> {
        self.state
            .wait_for(end, |s| match (&s.stream, &s.failed) {
                (Some(_), _) => Some(Ok(())),
                (None, Some(e)) => Some(Err(e.clone())),
                (None, None) => None,
            })
            .transpose()
            .map(|r| r.is_some())
    }
    pub(crate) fn is_connected(&self) -> bool {
        self.state.lock().stream.is_some()
    }
    /// Everything that waits here fails with this error, and what comes later with it too.
    pub(crate) fn fail(&self, e: Error) {
        let mut s = self.state.lock();
        if s.failed.is_some() {
            return;
        }
        s.failed = Some(e.clone());
        s.ended = true;
        for slot in std::mem::take(&mut s.slots).into_values() {
            let all = slot.sends.into_iter().map(|x| x.0).chain(slot.recvs.into_iter().map(|x| x.0));
            all.for_each(|t| t.finish(Err(e.clone())));
        }
        for f in std::mem::take(&mut s.out) {
            if let Some(t) = f.sent {
                t.finish(Err(e.clone()));
            }
        }
        if let Some(stream) = &s.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(s);
        self.state.notify();
    }
    /// Lets what is queued go, and ends the connection.
    pub(crate) fn close(&self) {
        let end = Instant::now() + Duration::from_secs(2);
        self.state.lock().closing = true;
        self.state.wait_for(end, |s| (s.out.is_empty() && !s.writing || s.failed.is_some()).then_some(()));
        self.fail(Error::runtime("the process group has been destroyed"));
    }

    /// Announces data, and sends them as soon as the peer wants them.
    pub(crate) fn send(&self, slot: u64, data: Vec<u8>) -> Result<Arc<Transfer>> {
        let t = Transfer::new(true, self.peer);
        let mut s = self.state.lock();
        s.check()?;
        let length = data.len() as u64;
        s.out.push_back(Frame { kind: SEND_READY, slot, length, data: Vec::new(), sent: None });
        let place = s.slots.entry(slot).or_default();
        if place.remote_recvs > 0 {
            place.remote_recvs -= 1;
            s.tidy(slot);
            s.out.push_back(Frame { kind: DATA, slot, length, data, sent: Some(t.clone()) });
        } else {
            place.sends.push_back((t.clone(), data));
        }
        self.flush(s);
        Ok(t)
    }
    /// Announces a buffer.
    pub(crate) fn recv(&self, slot: u64, most: usize) -> Result<Arc<Transfer>> {
        let t = Transfer::new(false, self.peer);
        let mut s = self.state.lock();
        s.check()?;
        s.post(slot, most, t.clone());
        self.flush(s);
        Ok(t)
    }
    /// Takes the first send that was announced, if there is one, for a receive from anybody.
    pub(crate) fn recv_announced(&self, slot: u64, most: usize, t: &Arc<Transfer>) -> Result<bool> {
        let mut s = self.state.lock();
        s.check()?;
        if s.slots.get(&slot).is_none_or(|p| p.remote_sends == 0) {
            return Ok(false);
        }
        t.found(self.peer);
        s.post(slot, most, t.clone());
        self.flush(s);
        Ok(true)
    }

    /// Writes what is queued, unless somebody does.
    fn flush<'a>(&'a self, mut s: MutexGuard<'a, State>) {
        if s.writing || s.stream.is_none() {
            return;
        }
        s.writing = true;
        while let Some(stream) = s.stream.clone()
            && s.failed.is_none()
            && !s.out.is_empty()
        {
            let frames = std::mem::take(&mut s.out);
            drop(s);
            if tap::is_on() {
                self.tap(&frames);
            }
            let written = write_all(&stream, &frames);
            for f in frames {
                if let Some(t) = f.sent {
                    t.finish(
                        written.as_ref().map(|()| Vec::new()).map_err(|e| broken(e, stream.peer_addr().ok())),
                    );
                }
            }
            if let Err(e) = written {
                self.fail(broken(&e, stream.peer_addr().ok()));
            }
            s = self.state.lock();
        }
        s.writing = false;
        // the writing thread need not wake for what has gone
        if s.closing || s.ended {
            drop(s);
            self.state.notify();
        }
    }
    fn tap(&self, frames: &VecDeque<Frame>) {
        for f in frames {
            let (from, to, data) = (self.me, self.peer, f.data.clone());
            tap::keep(tap::Frame { from, to, kind: f.kind, slot: f.slot, length: f.length, data });
        }
    }
    /// The thread that writes what the reading thread has queued.
    fn write_on(&self) {
        let mut s = self.state.lock();
        loop {
            if s.ended {
                return;
            }
            if !s.out.is_empty() && !s.writing {
                self.flush(s);
                s = self.state.lock();
                continue;
            }
            s = self.state.wait(s);
        }
    }
    fn read(&self, stream: &TcpStream, mesh: &std::sync::Weak<Wired>) -> Result<()> {
        let address = stream.peer_addr().ok();
        let mut from = BufReader::with_capacity(32 << 10, stream);
        let mut head = [0; HEADER];
        loop {
            if let Err(e) = from.read_exact(&mut head) {
                return Err(lost(&e, address));
            }
            let word = |i: usize| u64::from_le_bytes(*head[8 * i..].first_chunk().unwrap_or(&[0; 8]));
            let (total, kind, slot, length) = (word(0), word(1), word(2), word(4));
            let has = if kind == DATA { length } else { 0 };
            if total != has.wrapping_add(HEADER as u64) {
                return Err(Error::runtime(format!("a frame of {total} bytes that says it has {length}")));
            }
            match kind {
                DATA => {
                    let (t, most) = {
                        let mut s = self.state.lock();
                        let found = s.slots.get_mut(&slot).and_then(|p| p.recvs.pop_front());
                        s.tidy(slot);
                        found.ok_or_else(|| Error::runtime("data that nobody has asked for"))?
                    };
                    if length > most as u64 {
                        let text = format!("a message of {length} bytes for a buffer of {most}");
                        let e = Error::runtime(text);
                        t.finish(Err(e.clone()));
                        return Err(e);
                    }
                    let mut data = Vec::with_capacity(length as usize);
                    let got = (&mut from).take(length).read_to_end(&mut data);
                    if got.as_ref().is_ok_and(|n| *n as u64 == length) {
                        t.finish(Ok(data));
                    } else {
                        let e = match got {
                            Ok(_) => closed(address),
                            Err(e) => lost(&e, address),
                        };
                        t.finish(Err(e.clone()));
                        return Err(e);
                    }
                }
                SEND_READY => self.announced(slot, mesh)?,
                RECV_READY => {
                    let mut s = self.state.lock();
                    s.count(slot)?;
                    let place = s.slots.entry(slot).or_default();
                    match place.sends.pop_front() {
                        Some((t, data)) => {
                            let length = data.len() as u64;
                            s.tidy(slot);
                            s.out.push_back(Frame { kind: DATA, slot, length, data, sent: Some(t) });
                        }
                        None => place.remote_recvs += 1,
                    }
                    drop(s);
                    self.state.notify();
                }
                _ => return Err(Error::runtime(format!("a frame of an unknown kind {kind}"))),
            }
        }
    }
    /// The peer has something to send.
    fn announced(&self, slot: u64, mesh: &std::sync::Weak<Wired>) -> Result<()> {
        let mut s = self.state.lock();
        s.count(slot)?;
        let place = s.slots.entry(slot).or_default();
        if place.expected > 0 {
            place.expected -= 1;
            s.tidy(slot);
            return Ok(());
        }
        place.remote_sends += 1;
        drop(s);
        // those that wait for anybody are asked under their own lock first, so that two announcements do not take one of them
        if let Some(mesh) = mesh.upgrade() {
            mesh.anybody(self, slot)?;
        }
        self.state.notify();
        Ok(())
    }
    /// As [`Pair::recv_announced`], from the thread that reads: the announcement is queued and not written here.
    pub(crate) fn take_announced(&self, slot: u64, most: usize, t: &Arc<Transfer>) -> bool {
        let mut s = self.state.lock();
        if s.failed.is_some() || s.slots.get(&slot).is_none_or(|p| p.remote_sends == 0) {
            return false;
        }
        t.found(self.peer);
        s.post(slot, most, t.clone());
        true
    }
}
impl State {
    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
    fn count(&self, slot: u64) -> Result<()> {
        if self.slots.len() >= MAX_SLOTS && !self.slots.contains_key(&slot) {
            return Err(Error::runtime("a peer announces too much"));
        }
        Ok(())
    }
    fn tidy(&mut self, slot: u64) {
        if self.slots.get(&slot).is_some_and(Slot::idle) {
            self.slots.remove(&slot);
        }
    }
    fn post(&mut self, slot: u64, most: usize, t: Arc<Transfer>) {
        let place = self.slots.entry(slot).or_default();
        if place.remote_sends > 0 {
            place.remote_sends -= 1;
        } else {
            place.expected += 1;
        }
        place.recvs.push_back((t, most));
        self.out.push_back(Frame {
            kind: RECV_READY,
            slot,
            length: most as u64,
            data: Vec::new(),
            sent: None,
        });
    }
}

fn write_all(mut stream: &TcpStream, frames: &VecDeque<Frame>) -> io::Result<()> {
    let mut small = Vec::new();
    for f in frames {
        let total = HEADER as u64 + f.data.len() as u64;
        for w in [total, f.kind, f.slot, 0, f.length, 0] {
            small.extend_from_slice(&w.to_le_bytes());
        }
        if f.data.len() <= 16 << 10 {
            small.extend_from_slice(&f.data);
        } else {
            // the head and the first part in one packet
            let (first, rest) = f.data.split_at(8 << 10);
            small.extend_from_slice(first);
            stream.write_all(&small)?;
            small.clear();
            stream.write_all(rest)?;
        }
    }
    stream.write_all(&small)
}

const CRASH: &str = "This is typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF! 🏖️";
fn shown(a: Option<SocketAddr>) -> String {
    a.map_or_else(|| "[unknown]".to_owned(), |a| format!("[{}]:{}", a.ip(), a.port()))
}
pub(crate) fn closed(a: Option<SocketAddr>) -> Error {
    Error::runtime(format!("Connection closed by peer {}. {CRASH}", shown(a)))
}
fn lost(e: &io::Error, a: Option<SocketAddr>) -> Error {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        return closed(a);
    }
    Error::runtime(format!("Read error {}: {}. {CRASH}", shown(a), crate::store::plain(e)))
}
fn broken(e: &io::Error, a: Option<SocketAddr>) -> Error {
    // what a write meets when the other side has gone
    if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
        return closed(a);
    }
    Error::runtime(format!("writev {}: {}. {CRASH}", shown(a), crate::store::plain(e)))
}
