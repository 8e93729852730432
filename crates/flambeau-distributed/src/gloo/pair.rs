//! One peer: a connection, what is announced on it, and what waits for it.
//!
//! A frame is six words (its length, what it is, slot, offset, length of the data, remote offset) and data. A send is announced and
//! keeps its data until the peer has announced a receive for that slot, so data never come unasked, and nobody takes memory for
//! a length that a peer claims: a message that is longer than its buffer ends the connection. The thread that reads never writes.

use super::mesh::Wired;
use super::payload::{PIECE, Payload, Piece};
use crate::internal::tap;
use crate::sync::Monitor;
use flambeau_core::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) const DATA: u64 = 1;
pub(crate) const SEND_READY: u64 = 2;
pub(crate) const RECV_READY: u64 = 3;
const HEADER: usize = 48;
/// Frames up to this length travel with others in one call.
const SMALL: usize = 16 << 10;
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
    /// what has come and nobody has taken yet
    pieces: VecDeque<Piece>,
    done: Option<Result<()>>,
}
impl Transfer {
    pub(crate) fn new(send: bool, peer: usize) -> Arc<Transfer> {
        let state = Progress { peer, pieces: VecDeque::new(), done: None };
        Arc::new(Transfer { state: Monitor::new(state), send })
    }
    pub(crate) fn finish(&self, r: Result<()>) {
        let mut s = self.state.lock();
        if s.done.is_none() {
            s.done = Some(r);
            drop(s);
            self.state.notify();
        }
    }
    /// A part of the data has come; the last one ends the transfer.
    pub(crate) fn come(&self, piece: Piece, last: bool) {
        let mut s = self.state.lock();
        if s.done.is_none() {
            s.pieces.push_back(piece);
            if last {
                s.done = Some(Ok(()));
            }
            drop(s);
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
    /// Waits for the end and hands over what comes meanwhile, piece by piece; after the deadline `None`.
    pub(crate) fn each(&self, end: Instant, f: &mut dyn FnMut(Piece) -> Result<()>) -> Option<Result<()>> {
        loop {
            let next = self.state.wait_for(end, |s| match (s.pieces.pop_front(), &s.done) {
                (Some(p), _) => Some(Ok(Some(p))),
                (None, Some(r)) => Some(r.clone().map(|()| None)),
                (None, None) => None,
            })?;
            match next {
                Ok(Some(piece)) => {
                    if let Err(e) = f(piece) {
                        return Some(Err(e));
                    }
                }
                Ok(None) => return Some(Ok(())),
                Err(e) => return Some(Err(e)),
            }
        }
    }
    pub(crate) fn is_send(&self) -> bool {
        self.send
    }
}

/// What is known of a slot.
#[derive(Default)]
struct Slot {
    /// sends whose data wait for the peer
    sends: VecDeque<(Arc<Transfer>, Payload)>,
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
    data: Payload,
    /// finished once the frame is on its way
    sent: Option<Arc<Transfer>>,
}
impl Frame {
    fn word(kind: u64, slot: u64, length: u64) -> Frame {
        Frame { kind, slot, length, data: Payload::Bytes(Vec::new()), sent: None }
    }
    fn head(&self, into: &mut Vec<u8>) {
        for w in [HEADER as u64 + self.data.len() as u64, self.kind, self.slot, 0, self.length, 0] {
            into.extend_from_slice(&w.to_le_bytes());
        }
    }
}

#[derive(Default)]
struct State {
    stream: Option<Arc<TcpStream>>,
    failed: Option<Error>,
    slots: HashMap<u64, Slot>,
    out: VecDeque<Frame>,
    /// bytes that go before them, of frames that are in part on their way, and what ends with them
    rest: Vec<u8>,
    sent_with_rest: Vec<Arc<Transfer>>,
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
        roomy(&stream);
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
        let waiting = std::mem::take(&mut s.sent_with_rest);
        for t in std::mem::take(&mut s.out).into_iter().filter_map(|f| f.sent).chain(waiting) {
            t.finish(Err(e.clone()));
        }
        s.rest.clear();
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
        self.state.wait_for(end, |s| {
            (s.out.is_empty() && s.rest.is_empty() && !s.writing || s.failed.is_some()).then_some(())
        });
        self.fail(Error::runtime("the process group has been destroyed"));
    }

    /// Announces data, and sends them as soon as the peer wants them.
    pub(crate) fn send(&self, slot: u64, data: Payload) -> Result<Arc<Transfer>> {
        let t = Transfer::new(true, self.peer);
        let mut s = self.state.lock();
        s.check()?;
        let length = data.len() as u64;
        s.out.push_back(Frame::word(SEND_READY, slot, length));
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
            && !(s.out.is_empty() && s.rest.is_empty())
        {
            let (rest, with_rest) = (std::mem::take(&mut s.rest), std::mem::take(&mut s.sent_with_rest));
            let frames = std::mem::take(&mut s.out);
            drop(s);
            if tap::is_on() {
                self.tap(&frames);
            }
            let rest = write_both(&stream, &rest, &[]).map_err(|e| broken(&e, stream.peer_addr().ok()));
            let written = rest.and_then(|()| write_all(&stream, &frames));
            for t in with_rest.into_iter().chain(frames.into_iter().filter_map(|f| f.sent)) {
                t.finish(written.clone());
            }
            if let Err(e) = written {
                self.fail(e);
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
    /// The reading thread has something to write: it must not wait, so it writes what is short and goes at once, and leaves the rest
    /// to the writing thread.
    fn answer<'a>(&'a self, mut s: MutexGuard<'a, State>) {
        let short = |s: &State| {
            s.rest.is_empty() && s.out.iter().map(|f| HEADER + f.data.len()).sum::<usize>() <= SMALL
        };
        while !s.writing
            && !s.out.is_empty()
            && short(&s)
            && s.failed.is_none()
            && let Some(stream) = s.stream.clone()
        {
            s.writing = true;
            let frames = std::mem::take(&mut s.out);
            drop(s);
            if tap::is_on() {
                self.tap(&frames);
            }
            let mut bytes = Vec::new();
            let mut read = Ok(());
            for f in &frames {
                f.head(&mut bytes);
                read = read.and_then(|()| {
                    f.data.each(|b| {
                        bytes.extend_from_slice(b);
                        Ok(())
                    })
                });
            }
            if let Err(e) = read {
                frames.into_iter().filter_map(|f| f.sent).for_each(|t| t.finish(Err(e.clone())));
                self.fail(e);
                return;
            }
            let n = write_now(&stream, &bytes);
            let mut left = VecDeque::new();
            if n == bytes.len() {
                frames.into_iter().filter_map(|f| f.sent).for_each(|t| t.finish(Ok(())));
                bytes.clear();
            } else {
                bytes.drain(..n);
                left = frames;
            }
            s = self.state.lock();
            s.writing = false;
            let waiting = left.into_iter().filter_map(|f| f.sent);
            match s.failed.clone() {
                Some(e) => waiting.for_each(|t| t.finish(Err(e.clone()))),
                None => {
                    s.sent_with_rest = waiting.collect();
                    s.rest = bytes;
                }
            }
        }
        // what has not gone is the writing thread's
        let more = (!s.out.is_empty() || !s.rest.is_empty()) && !s.writing;
        let wanted = more || s.closing || s.ended;
        drop(s);
        if wanted {
            self.state.notify();
        }
    }
    fn tap(&self, frames: &VecDeque<Frame>) {
        for f in frames {
            let (from, to, mut data) = (self.me, self.peer, Vec::new());
            let _ = f.data.each(|b| {
                data.extend_from_slice(b);
                Ok(())
            });
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
            if (!s.out.is_empty() || !s.rest.is_empty()) && !s.writing {
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
                    let mut left = length as usize;
                    loop {
                        let mut piece = Piece::new(left.min(PIECE));
                        left -= piece.len();
                        if let Err(e) = from.read_exact(&mut piece) {
                            let e = lost(&e, address);
                            t.finish(Err(e.clone()));
                            return Err(e);
                        }
                        t.come(piece, left == 0);
                        if left == 0 {
                            break;
                        }
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
                            self.answer(s);
                        }
                        None => place.remote_recvs += 1,
                    }
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
        if let Some(mesh) = mesh.upgrade()
            && mesh.anybody(self, slot)?
        {
            self.state.notify();
        }
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
        self.out.push_back(Frame::word(RECV_READY, slot, most as u64));
    }
}

fn write_all(stream: &TcpStream, frames: &VecDeque<Frame>) -> Result<()> {
    let address = stream.peer_addr().ok();
    let mut small = Vec::new();
    for f in frames {
        f.head(&mut small);
        if f.data.len() <= SMALL {
            f.data.each(|b| {
                small.extend_from_slice(b);
                Ok(())
            })?;
            continue;
        }
        f.data.each(|b| {
            // what stands before it goes in the same call
            write_both(stream, &small, b).map_err(|e| broken(&e, address))?;
            small.clear();
            Ok(())
        })?;
    }
    write_both(stream, &small, &[]).map_err(|e| broken(&e, address))
}
/// Writes one after the other, in as few calls as it takes.
fn write_both(mut stream: &TcpStream, mut a: &[u8], mut b: &[u8]) -> io::Result<()> {
    while !a.is_empty() {
        let n = match stream.write_vectored(&[IoSlice::new(a), IoSlice::new(b)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let first = n.min(a.len());
        a = &a[first..];
        b = &b[n - first..];
    }
    stream.write_all(b)
}
/// Buffers that hold several of the longest packets of a loopback: smaller windows stall between them. The system may allow less.
#[cfg(unix)]
fn roomy(stream: &TcpStream) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
    let _ = set_socket_recv_buffer_size(stream, 2 << 20);
    let _ = set_socket_send_buffer_size(stream, 2 << 20);
}
#[cfg(not(unix))]
fn roomy(_: &TcpStream) {}
/// Writes what goes without waiting; gives how much that was.
#[cfg(unix)]
fn write_now(stream: &TcpStream, bytes: &[u8]) -> usize {
    use rustix::net::{SendFlags, send};
    send(stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or(0)
}
#[cfg(not(unix))]
fn write_now(_: &TcpStream, _: &[u8]) -> usize {
    0
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
