//! Who reads and writes: the thread that waits. A message is then not handed from thread to thread, and what has come is in the cache of
//! the processor that works on it.
//!
//! Of several threads that wait on one group's connections, one leads: it reads and writes for all, and wakes the others when something
//! has happened. Where nobody waits for what goes on (`isend`, `irecv`), a thread in the background leads until it is over.

use super::mesh::Wired;
use super::pair::Transfer;
use super::payload::Piece;
use crate::sync::{Monitor, now};
use flambeau_core::Result;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a leader looks before it sleeps: it takes longer to be woken than for most answers to come.
const LOOKS: usize = 60;
/// The same where the machine has fewer processors than ranks: others have the processor in between.
const LOOKS_OF_MANY: usize = 4;

/// The turn of those who wait.
pub(super) struct Turns {
    state: Monitor<State>,
    #[cfg(unix)]
    bell: bell::Bell,
}
#[derive(Default)]
struct State {
    leading: bool,
    /// threads that wait while another leads
    followers: usize,
    /// what nobody waits for, in the order in which it began
    left: VecDeque<Arc<Transfer>>,
    background: bool,
    ended: bool,
}
impl Turns {
    pub(super) fn new() -> Result<Turns> {
        Ok(Turns {
            state: Monitor::new(State::default()),
            #[cfg(unix)]
            bell: bell::Bell::new()?,
        })
    }
    /// Wakes whoever leads.
    pub(super) fn ring(&self) {
        #[cfg(unix)]
        self.bell.ring();
    }
    /// Nobody waits any more.
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.state.notify();
        self.ring();
    }
}
/// Leads until it is dropped, which a panic does as well: nobody waits for a leader that is no more.
struct Leader<'a>(&'a Turns);
impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut s = self.0.state.lock();
        s.leading = false;
        if s.followers > 0 || !s.left.is_empty() {
            self.0.state.notify();
        }
    }
}

impl Wired {
    /// Lets what is queued go. Whoever leads does it, who may wait for the end of something that goes.
    pub(super) fn flush(&self) {
        if !self.turns.state.lock().leading {
            self.write();
        }
        if self.turns.state.lock().leading {
            self.turns.ring();
        }
    }
    fn write(&self) {
        self.pairs.iter().for_each(|p| p.flush());
    }
    /// Waits for the end of a transfer, and hands over what it brings; `None` once the moment has passed.
    pub(super) fn each(
        &self,
        t: &Transfer,
        end: Instant,
        f: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Option<Result<()>> {
        loop {
            match t.take() {
                Some(Ok(Some(piece))) => {
                    if let Err(e) = f(piece) {
                        return Some(Err(e));
                    }
                }
                Some(r) => return Some(r.map(drop)),
                None => {
                    let late = !self.wait(t, end);
                    if late && !t.is_ready() {
                        return None;
                    }
                }
            }
        }
    }
    /// Leads, or follows whoever does, until there is something to take; false when the moment has passed.
    fn wait(&self, t: &Transfer, end: Instant) -> bool {
        let (mut s, mut told) = (self.turns.state.lock(), false);
        while s.leading {
            // what the leader has done since is seen here, as it says so under this lock
            if t.is_ready() {
                return true;
            }
            s.followers += 1;
            if !std::mem::replace(&mut told, true) {
                self.turns.ring();
            }
            let (guard, more) = self.turns.state.wait_until(s, end);
            s = guard;
            s.followers -= 1;
            if !more {
                return false;
            }
        }
        if t.is_ready() {
            return true;
        }
        s.leading = true;
        drop(s);
        let _leader = Leader(&self.turns);
        self.lead(end, &mut |_| t.is_ready())
    }
    /// Reads and writes until it is enough; false when the moment has passed.
    fn lead(&self, end: Instant, enough: &mut dyn FnMut(usize) -> bool) -> bool {
        let most = if self.crowded { LOOKS_OF_MANY } else { LOOKS };
        let (mut looks, mut rounds, mut followers) = (0, 0usize, 0);
        self.write();
        loop {
            if enough(followers) {
                return true;
            }
            let mut moved = false;
            for p in &self.pairs {
                if p.is_awaited() || looks == most {
                    moved |= p.pump(self);
                }
            }
            self.write();
            rounds += 1;
            if moved {
                looks = 0;
                let s = self.turns.state.lock();
                followers = s.followers;
                if followers > 0 {
                    self.turns.state.notify();
                }
                if !rounds.is_multiple_of(64) {
                    continue;
                }
            } else if looks < most {
                looks += 1;
                if self.crowded {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
                continue;
            }
            let left = end.saturating_duration_since(now());
            if left.is_zero() {
                return false;
            }
            if !moved {
                self.sleep(left.min(Duration::from_secs(1)));
                followers = self.turns.state.lock().followers;
            }
        }
    }
    /// Waits until a connection has something to read, or room for what is to be written.
    #[cfg(unix)]
    fn sleep(&self, most: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let watched: Vec<_> = self.pairs.iter().filter_map(|p| p.watched()).collect();
        let mut all: Vec<PollFd<'_>> = watched
            .iter()
            .map(|(s, writes)| {
                PollFd::new(&***s, if *writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN })
            })
            .collect();
        all.push(PollFd::new(self.turns.bell.hears(), PollFlags::IN));
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let _ = poll(&mut all, Some(&most));
        self.turns.bell.quiet();
    }
    #[cfg(not(unix))]
    fn sleep(&self, most: Duration) {
        std::thread::sleep(most.min(Duration::from_micros(200)));
    }

    /// A transfer goes on while nobody waits for it.
    pub(super) fn leave_alone(self: &Arc<Self>, t: &Arc<Transfer>) -> Result<()> {
        self.flush();
        if t.is_done() {
            return Ok(());
        }
        // whoever leads later writes what has not gone
        let begin = {
            let mut s = self.turns.state.lock();
            s.left.push_back(t.clone());
            !std::mem::replace(&mut s.background, true)
        };
        self.turns.state.notify();
        if begin {
            let me = self.clone();
            super::thread("gloo background", move || me.go_on())?;
        }
        Ok(())
    }
    /// What the thread in the background does: it leads while there is something to do and nobody else waits, and ends when all is done.
    fn go_on(&self) {
        loop {
            let mut s = self.turns.state.lock();
            while s.left.front().is_some_and(|t| t.is_done()) {
                s.left.pop_front();
            }
            if s.ended || s.left.is_empty() {
                s.background = false;
                return;
            }
            if s.leading || s.followers > 0 {
                drop(self.turns.state.wait(s));
                continue;
            }
            let first = s.left.front().cloned();
            s.leading = true;
            drop(s);
            let _leader = Leader(&self.turns);
            let end = now() + Duration::from_secs(1);
            self.lead(end, &mut |followers| followers > 0 || first.as_ref().is_none_or(|t| t.is_done()));
        }
    }
}

#[cfg(unix)]
mod bell {
    use flambeau_core::Result;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// What wakes a thread that waits for connections.
    pub(super) struct Bell {
        rings: UnixStream,
        hears: UnixStream,
    }
    impl Bell {
        pub(super) fn new() -> Result<Bell> {
            let (rings, hears) = UnixStream::pair()?;
            rings.set_nonblocking(true)?;
            hears.set_nonblocking(true)?;
            Ok(Bell { rings, hears })
        }
        pub(super) fn ring(&self) {
            // a full buffer rings as well
            let _ = (&self.rings).write(&[1]);
        }
        pub(super) fn hears(&self) -> &UnixStream {
            &self.hears
        }
        pub(super) fn quiet(&self) {
            let _ = (&self.hears).read(&mut [0; 64]);
        }
    }
}
