//! One peer: a connection, what is announced on it, and what waits for it.
//!
//! A frame is six words (its length, what it is, slot, offset, length of the data, remote offset) and data. A send is announced and
//! keeps its data until the peer has announced a receive for that slot, so data never come unasked, and nobody takes memory for
//! a length that a peer claims: a message that is longer than its buffer ends the connection.
//!
//! No call here waits: [`Pair::flush`] writes what goes, [`Pair::pump`] reads what has come, and who calls them is [`super::progress`]'s.

use super::mesh::Wired;
use super::payload::{PIECE, Payload, Piece, Sink};
use crate::internal::tap;
use crate::sync::Monitor;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

pub(crate) const DATA: u64 = 1;
pub(crate) const SEND_READY: u64 = 2;
pub(crate) const RECV_READY: u64 = 3;
const HEADER: usize = 48;
/// Frames up to this length travel with others in one call.
const SMALL: usize = 16 << 10;
/// As much is read at once where frames begin: many short ones, and little of a long one, whose data go where they belong in one step.
const AHEAD: usize = 16 << 10;
/// As much is read before the other direction has its turn.
const TURN: usize = 8 << 20;
/// A peer that announces more slots than this without using them is up to no good.
const MAX_SLOTS: usize = 1 << 20;

/// What a send or receive waits for.
pub(crate) struct Transfer {
    state: Monitor<Progress>,
    send: bool,
    /// where data are written as they come
    sink: Option<Box<dyn Sink>>,
}
#[derive(Default)]
struct Progress {
    /// the peer, known once a receive from anybody has found one
    peer: usize,
    /// what has come and nobody has taken yet
    pieces: VecDeque<Piece>,
    done: Option<Result<()>>,
}
impl Transfer {
    pub(crate) fn new(send: bool, peer: usize) -> Arc<Transfer> {
        Transfer::into(send, peer, None)
    }
    fn into(send: bool, peer: usize, sink: Option<Box<dyn Sink>>) -> Arc<Transfer> {
        let state = Progress { peer, pieces: VecDeque::new(), done: None };
        Arc::new(Transfer { state: Monitor::new(state), send, sink })
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
    /// Whether there is something to take.
    pub(crate) fn is_ready(&self) -> bool {
        let s = self.state.lock();
        s.done.is_some() || !s.pieces.is_empty()
    }
    /// What has come, then how it has ended; nothing while it is under way.
    pub(crate) fn take(&self) -> Option<Result<Option<Piece>>> {
        next(&mut self.state.lock())
    }
    /// Waits for the end and hands over what comes meanwhile, piece by piece; after the deadline `None`.
    pub(crate) fn each(&self, end: Instant, f: &mut dyn FnMut(Piece) -> Result<()>) -> Option<Result<()>> {
        loop {
            match self.state.wait_for(end, next)? {
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
fn next(s: &mut Progress) -> Option<Result<Option<Piece>>> {
    match (s.pieces.pop_front(), &s.done) {
        (Some(p), _) => Some(Ok(Some(p))),
        (None, Some(r)) => Some(r.clone().map(|()| None)),
        (None, None) => None,
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

/// What is on its way out, in part.
#[derive(Default)]
struct Outgoing {
    /// heads, and frames that are short
    small: Vec<u8>,
    /// as much of it has gone
    gone: usize,
    /// what ends with it
    ends: Vec<Arc<Transfer>>,
    /// frames behind it
    held: VecDeque<Frame>,
    /// a long one behind it, and how much of that has gone
    long: Option<(Payload, usize, Option<Arc<Transfer>>)>,
}
impl Outgoing {
    fn is_empty(&self) -> bool {
        self.gone == self.small.len() && self.long.is_none() && self.held.is_empty()
    }
    /// Takes frames up to the first long one.
    fn take(&mut self) -> Result<()> {
        if self.gone == self.small.len() {
            self.small.clear();
            self.gone = 0;
        }
        while self.long.is_none()
            && self.small.len() < 4 * SMALL
            && let Some(f) = self.held.pop_front()
        {
            f.head(&mut self.small);
            if f.data.len() > SMALL {
                self.long = Some((f.data, 0, f.sent));
                break;
            }
            self.ends.extend(f.sent);
            f.data.each(|b| {
                self.small.extend_from_slice(b);
                Ok(())
            })?;
        }
        Ok(())
    }
    /// Writes what goes; whether that was all.
    fn write(&mut self, stream: &Connection) -> Result<bool> {
        let (mut full, mut out) = (false, &**stream);
        let mut write = |a: &[u8], b: &[u8]| {
            let n = match (a, b) {
                (a, []) => out.write(a),
                ([], b) => out.write(b),
                (a, b) => out.write_vectored(&[IoSlice::new(a), IoSlice::new(b)]),
            };
            match n {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    full |= n < a.len() + b.len();
                    Ok(n)
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    full = true;
                    Ok(0)
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
                Err(e) => Err(e),
            }
        };
        let lost = |e: &io::Error| broken(e, stream.peer);
        if let Some((data, at, _)) = &mut self.long {
            let mut begun = *at;
            data.part(*at..data.len(), &mut |b| {
                // what stands before it goes in the same call
                let n = write(&self.small[self.gone..], b).map_err(|e| lost(&e))?;
                let first = n.min(self.small.len() - self.gone);
                self.gone += first;
                begun += n - first;
                Ok(())
            })?;
            *at = begun;
        } else {
            self.gone += write(&self.small[self.gone..], &[]).map_err(|e| lost(&e))?;
        }
        if self.gone == self.small.len() {
            std::mem::take(&mut self.ends).iter().for_each(|t| t.finish(Ok(())));
        }
        if let Some((data, at, _)) = &self.long
            && *at == data.len()
            && let Some((_, _, Some(t))) = self.long.take()
        {
            t.finish(Ok(()));
        }
        Ok(!full)
    }
    fn fail(&mut self, e: &Error) {
        let long = self.long.take().and_then(|l| l.2);
        let held = std::mem::take(&mut self.held).into_iter().filter_map(|f| f.sent);
        let ends = std::mem::take(&mut self.ends).into_iter();
        ends.chain(long).chain(held).for_each(|t| t.finish(Err(e.clone())));
        self.small.clear();
        self.gone = 0;
    }
}

/// What has come in part.
#[derive(Default)]
struct Incoming {
    ahead: Vec<u8>,
    /// what of it nobody has looked at
    unread: Range<usize>,
    message: Option<Message>,
}
/// A message whose data come.
struct Message {
    transfer: Arc<Transfer>,
    length: usize,
    at: usize,
    /// data that go nowhere at once, and how many of them have come
    piece: Option<(Piece, usize)>,
}
impl Message {
    /// Brings more of the data by what reads into memory; gives how many came, and whether a part that somebody waits for is whole.
    fn bring(&mut self, read: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<(usize, bool)> {
        if self.piece.is_none()
            && let Some(sink) = &self.transfer.sink
        {
            let end = self.length.min(self.at + TURN);
            let mut got = Ok(0);
            if sink.fill(self.at..end, &mut |b| got = read(b)) {
                let n = got?;
                self.at += n;
                let whole = self.at == self.length;
                if whole {
                    self.transfer.finish(Ok(()));
                }
                return Ok((n, whole));
            }
        }
        let (piece, filled) =
            self.piece.get_or_insert_with(|| (Piece::new((self.length - self.at).min(PIECE), self.at), 0));
        let n = read(&mut piece[*filled..])?;
        *filled += n;
        self.at += n;
        if *filled < piece.len() {
            return Ok((n, false));
        }
        if let Some((piece, _)) = self.piece.take() {
            self.transfer.come(piece, self.at == self.length);
        }
        Ok((n, true))
    }
}

#[derive(Default)]
struct State {
    stream: Option<Arc<Connection>>,
    failed: Option<Error>,
    slots: HashMap<u64, Slot>,
    out: VecDeque<Frame>,
    /// what goes before them; whoever writes has it meanwhile
    outgoing: Outgoing,
    /// somebody is writing: what is queued goes with it
    writing: bool,
    /// a message has come in part
    inside: bool,
    ended: bool,
}

/// The connection with one peer.
pub(crate) struct Pair {
    me: usize,
    pub(crate) peer: usize,
    state: Monitor<State>,
    /// one thread reads at a time
    incoming: Mutex<Incoming>,
}

/// A connection, and where the peer is.
pub(crate) struct Connection {
    stream: TcpStream,
    peer: Option<SocketAddr>,
}
impl std::ops::Deref for Connection {
    type Target = TcpStream;
    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl Pair {
    pub(crate) fn new(me: usize, peer: usize) -> Pair {
        Pair { me, peer, state: Monitor::new(State::default()), incoming: Mutex::new(Incoming::default()) }
    }
    /// The connection is there.
    pub(crate) fn start(&self, stream: TcpStream) -> Result<()> {
        // asked for now: of a connection that the peer has broken it is not to be had
        let peer = stream.peer_addr().ok();
        stream.set_nodelay(true)?;
        roomy(&stream);
        stream.set_nonblocking(true)?;
        {
            let mut s = self.state.lock();
            if s.ended || s.stream.is_some() {
                let _ = stream.shutdown(Shutdown::Both);
                return Ok(());
            }
            s.stream = Some(Arc::new(Connection { stream, peer }));
        }
        self.state.notify();
        Ok(())
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
    /// What is to be watched, if anything: the connection, and whether something waits to be written.
    pub(crate) fn watched(&self) -> Option<(Arc<Connection>, bool)> {
        let s = self.state.lock();
        let stream = s.stream.clone().filter(|_| s.failed.is_none())?;
        let more = !s.out.is_empty() || !s.outgoing.is_empty();
        Some((stream, more && !s.writing))
    }
    /// Whether anything is expected of the peer.
    pub(crate) fn is_awaited(&self) -> bool {
        let s = self.state.lock();
        s.failed.is_none() && s.stream.is_some() && (!s.slots.is_empty() || s.inside)
    }
    /// Everything that waits here fails with this error, and what comes later with it too.
    pub(crate) fn fail(&self, e: &Error) {
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
        for t in std::mem::take(&mut s.out).into_iter().filter_map(|f| f.sent) {
            t.finish(Err(e.clone()));
        }
        s.outgoing.fail(e);
        if let Some(stream) = &s.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(s);
        self.state.notify();
        // a message of which a part has come; who reads it at the moment will see the error itself
        if let Ok(mut incoming) = self.incoming.try_lock()
            && let Some(m) = incoming.message.take()
        {
            m.transfer.finish(Err(e.clone()));
        }
    }
    /// Whether all that was queued has gone, or never will.
    pub(crate) fn is_idle(&self) -> bool {
        let s = self.state.lock();
        s.failed.is_some() || s.stream.is_none() || s.out.is_empty() && s.outgoing.is_empty() && !s.writing
    }

    /// Announces data, which go as soon as the peer wants them.
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
        Ok(t)
    }
    /// Announces a buffer.
    pub(crate) fn recv(&self, slot: u64, most: usize, sink: Option<Box<dyn Sink>>) -> Result<Arc<Transfer>> {
        let t = Transfer::into(false, self.peer, sink);
        let mut s = self.state.lock();
        s.check()?;
        s.post(slot, most, t.clone());
        Ok(t)
    }
    /// Takes the first send that was announced, if there is one, for a receive from anybody.
    pub(crate) fn recv_announced(&self, slot: u64, most: usize, t: &Arc<Transfer>) -> bool {
        let mut s = self.state.lock();
        if s.failed.is_some() || s.slots.get(&slot).is_none_or(|p| p.remote_sends == 0) {
            return false;
        }
        t.found(self.peer);
        s.post(slot, most, t.clone());
        true
    }

    /// Writes what is queued, as far as it goes without waiting, unless somebody does.
    pub(crate) fn flush(&self) {
        let mut s = self.state.lock();
        if s.writing {
            return;
        }
        while let Some(stream) = s.stream.clone()
            && s.failed.is_none()
            && !(s.out.is_empty() && s.outgoing.is_empty())
        {
            s.writing = true;
            let (frames, mut o) = (std::mem::take(&mut s.out), std::mem::take(&mut s.outgoing));
            drop(s);
            if tap::is_on() {
                self.tap(&frames);
            }
            o.held.extend(frames);
            let mut done = Ok(true);
            while matches!(done, Ok(true)) && !o.is_empty() {
                done = o.take().and_then(|()| o.write(&stream));
            }
            s = self.state.lock();
            s.writing = false;
            let failed = done.as_ref().err().or(s.failed.as_ref()).cloned();
            if let Some(e) = failed {
                drop(s);
                o.fail(&e);
                self.fail(&e);
                return;
            }
            s.outgoing = o;
            if matches!(done, Ok(false)) {
                return;
            }
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
    /// Reads what has come, as far as it goes without waiting and until somebody has a part to work on; whether anything came.
    /// Answers are queued.
    pub(crate) fn pump(&self, mesh: &Wired) -> bool {
        let Some(stream) = self.state.lock().stream.clone() else { return false };
        let mut incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        match self.read(&stream, &mut incoming, mesh) {
            Ok(moved) => moved,
            Err(e) => {
                if let Some(m) = incoming.message.take() {
                    m.transfer.finish(Err(e.clone()));
                }
                drop(incoming);
                self.fail(&e);
                true
            }
        }
    }
    fn read(&self, stream: &Connection, incoming: &mut Incoming, mesh: &Wired) -> Result<bool> {
        let (mut moved, mut source) = (false, &**stream);
        let lost = |e: &io::Error| lost(e, stream.peer);
        if incoming.ahead.is_empty() {
            incoming.ahead = vec![0; AHEAD];
        }
        loop {
            let (ahead, unread) = (&mut incoming.ahead, &mut incoming.unread);
            if let Some(m) = &mut incoming.message {
                // first what is here already
                let (mut full, mut ended) = (true, false);
                let r = m.bring(&mut |to| {
                    if unread.start < unread.end {
                        let n = to.len().min(unread.len());
                        to[..n].copy_from_slice(&ahead[unread.start..unread.start + n]);
                        unread.start += n;
                        return Ok(n);
                    }
                    let n = source.read(to)?;
                    (full, ended) = (n == to.len(), n == 0);
                    Ok(n)
                });
                let whole = match r {
                    Ok((_, whole)) => whole,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => return Err(lost(&e)),
                };
                if ended {
                    return Err(closed(stream.peer));
                }
                moved = true;
                let over = m.at == m.length;
                if over {
                    incoming.message = None;
                    self.state.lock().inside = false;
                }
                if incoming.unread.is_empty() && (whole || !full) {
                    return Ok(true);
                }
                continue;
            }
            if unread.len() < HEADER {
                ahead.copy_within(unread.clone(), 0);
                *unread = 0..unread.len();
                let n = match source.read(&mut ahead[unread.end..]) {
                    Ok(0) => return Err(closed(stream.peer)),
                    Ok(n) => n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => return Err(lost(&e)),
                };
                moved = true;
                unread.end += n;
                if unread.len() < HEADER {
                    continue;
                }
            }
            let head: [u8; HEADER] = *ahead[unread.start..].first_chunk().unwrap_or(&[0; HEADER]);
            unread.start += HEADER;
            incoming.message = self.frame(&head, mesh)?;
            // what was read was all there is
            if incoming.message.is_none() && incoming.unread.is_empty() && incoming.unread.end < AHEAD {
                return Ok(true);
            }
        }
    }
    /// Looks at the head of a frame.
    fn frame(&self, head: &[u8; HEADER], mesh: &Wired) -> Result<Option<Message>> {
        let word = |i: usize| u64::from_le_bytes(*head[8 * i..].first_chunk().unwrap_or(&[0; 8]));
        let (total, kind, slot, length) = (word(0), word(1), word(2), word(4));
        let has = if kind == DATA { length } else { 0 };
        if total != has.wrapping_add(HEADER as u64) {
            return Err(Error::runtime(format!("a frame of {total} bytes that says it has {length}")));
        }
        match kind {
            DATA => {
                let (transfer, most) = {
                    let mut s = self.state.lock();
                    let found = s.slots.get_mut(&slot).and_then(|p| p.recvs.pop_front());
                    s.tidy(slot);
                    s.inside = length > 0;
                    found.ok_or_else(|| Error::runtime("data that nobody has asked for"))?
                };
                if length > most as u64 {
                    let text = format!("a message of {length} bytes for a buffer of {most}");
                    let e = Error::runtime(text);
                    transfer.finish(Err(e.clone()));
                    return Err(e);
                }
                if length == 0 {
                    transfer.finish(Ok(()));
                    return Ok(None);
                }
                return Ok(Some(Message { transfer, length: length as usize, at: 0, piece: None }));
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
            }
            _ => return Err(Error::runtime(format!("a frame of an unknown kind {kind}"))),
        }
        Ok(None)
    }
    /// The peer has something to send.
    fn announced(&self, slot: u64, mesh: &Wired) -> Result<()> {
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
        mesh.anybody(self, slot);
        Ok(())
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

/// Buffers that hold several of the longest packets of a loopback: smaller windows stall between them. The system may allow less.
#[cfg(unix)]
fn roomy(stream: &TcpStream) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
    let _ = set_socket_recv_buffer_size(stream, 1 << 20);
    let _ = set_socket_send_buffer_size(stream, 1 << 20);
}
#[cfg(not(unix))]
fn roomy(_: &TcpStream) {}
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
