//! Captures of the emulated driver: streams record their jobs with what each has to wait for, and a graph runs them in any order
//! that this allows.

use super::emulated::Job;
use super::{CaptureMode, Stream};
use flambeau_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{ThreadId, current};

/// What the driver says of calls that a capture does not allow.
pub(super) fn refused() -> Error {
    Error::runtime("CUDA error: operation not permitted when stream is capturing")
}
fn of_captured_event() -> Error {
    Error::runtime("CUDA error: operation not permitted on an event last recorded in a capturing stream")
}

/// A job, and the places of those before it.
pub(super) struct Node {
    pub(super) job: Job,
    pub(super) after: Vec<usize>,
}
/// Recorded jobs; each comes behind those that it waits for.
pub(crate) struct Recorded(pub(super) Vec<Node>);
impl Recorded {
    pub(crate) fn nodes(&self) -> usize {
        self.0.len()
    }
    /// The places of all jobs in an order that is drawn of those that are allowed.
    pub(super) fn order(&self, mut draw: impl FnMut(usize) -> usize) -> Vec<usize> {
        let mut waits: Vec<usize> = self.0.iter().map(|n| n.after.len()).collect();
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); self.0.len()];
        for (i, n) in self.0.iter().enumerate() {
            n.after.iter().for_each(|a| next[*a].push(i));
        }
        let mut ready: Vec<usize> = (0..waits.len()).filter(|i| waits[*i] == 0).collect();
        let mut out = Vec::with_capacity(waits.len());
        while !ready.is_empty() {
            let i = ready.swap_remove(draw(ready.len()));
            for &k in &next[i] {
                waits[k] -= 1;
                if waits[k] == 0 {
                    ready.push(k);
                }
            }
            out.push(i);
        }
        out
    }
    /// Graphviz' text.
    pub(crate) fn picture(&self, verbose: bool) -> String {
        let mut out = String::from("digraph dot {\n");
        for (i, n) in self.0.iter().enumerate() {
            let _ = writeln!(out, "\"{i}\" [shape=\"record\" label=\"{{{}}}\"];", n.job.label(verbose));
            n.after.iter().for_each(|a| {
                let _ = writeln!(out, "\"{a}\" -> \"{i}\";");
            });
        }
        out + "}\n"
    }
}

struct Capture {
    origin: Stream,
    nodes: Vec<Node>,
    /// For each stream that takes part, what its next job comes after.
    ends: BTreeMap<Stream, BTreeSet<usize>>,
    /// A call that was refused ended it early.
    broken: bool,
    mode: CaptureMode,
    thread: ThreadId,
}
/// The captures of a device.
#[derive(Default)]
pub(super) struct Captures {
    all: BTreeMap<u64, Capture>,
    of: HashMap<Stream, u64>,
    /// Events that a capture recorded: they are marks in it and in nothing else.
    events: HashMap<u64, (u64, BTreeSet<usize>)>,
}
impl Captures {
    pub(super) fn begin(&mut self, stream: Stream, mode: CaptureMode) -> Result<()> {
        if stream == 0 || self.of.contains_key(&stream) {
            return Err(refused());
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let ends = BTreeMap::from([(stream, BTreeSet::new())]);
        let thread = current().id();
        self.all.insert(id, Capture { origin: stream, nodes: Vec::new(), ends, broken: false, mode, thread });
        self.of.insert(stream, id);
        Ok(())
    }
    pub(super) fn id(&self, stream: Stream) -> Option<u64> {
        let id = self.of.get(&stream)?;
        self.all.get(id).filter(|c| !c.broken).map(|_| *id)
    }
    /// A call that a stream does not allow while it records: the capture is broken.
    pub(super) fn refuse(&mut self, stream: Stream) -> Result<()> {
        match self.of.get(&stream) {
            Some(id) => {
                let id = *id;
                self.break_up(id);
                Err(refused())
            }
            None => Ok(()),
        }
    }
    /// A call that waits for the whole device.
    pub(super) fn refuse_any(&mut self) -> Result<()> {
        match self.all.values().all(|c| c.broken) {
            true => Ok(()),
            false => {
                self.all.values_mut().for_each(|c| c.broken = true);
                Err(refused())
            }
        }
    }
    /// A call that asks an event for something.
    pub(super) fn refuse_event(&self, event: u64) -> Result<()> {
        if self.events.contains_key(&event) { Err(of_captured_event()) } else { Ok(()) }
    }
    pub(super) fn forget(&mut self, event: u64) -> bool {
        self.events.remove(&event).is_some()
    }
    fn break_up(&mut self, id: u64) {
        if let Some(c) = self.all.get_mut(&id) {
            c.broken = true;
        }
    }
    /// Records a job if its stream takes part in a capture, or comes to do so; gives it back otherwise.
    pub(super) fn take(&mut self, stream: Stream, job: Job) -> Result<Option<Job>> {
        let own = self.of.get(&stream).copied();
        if let Job::Wait(e) = &job
            && let Some((id, ends)) = self.events.get(e)
        {
            let (id, ends) = (*id, ends.clone());
            let Some(capture) = self.all.get_mut(&id) else { return Err(of_captured_event()) };
            if stream == 0 {
                capture.broken = true;
                return Err(Error::runtime(
                    "CUDA error: operation would make the legacy stream depend on a capturing blocking stream",
                ));
            }
            if own.is_some_and(|own| own != id) {
                capture.broken = true;
                return Err(Error::runtime(
                    "CUDA error: operation would result in a merge of separate capture sequences",
                ));
            }
            capture.ends.entry(stream).or_default().extend(ends);
            self.of.insert(stream, id);
            return Ok(None);
        }
        let Some(id) = own else { return Ok(Some(job)) };
        let Some(capture) = self.all.get_mut(&id) else { return Ok(Some(job)) };
        if capture.broken {
            return Err(broken());
        }
        let ends = capture.ends.entry(stream).or_default();
        match job {
            Job::Record(e) => {
                self.events.insert(e, (id, ends.clone()));
            }
            Job::Wait(_) => {
                capture.broken = true;
                return Err(Error::runtime(
                    "CUDA error: dependency created on uncaptured work in another stream",
                ));
            }
            job => {
                let after = std::mem::take(ends).into_iter().collect();
                ends.insert(capture.nodes.len());
                capture.nodes.push(Node { job, after });
            }
        }
        Ok(None)
    }
    pub(super) fn end(&mut self, stream: Stream) -> Result<Recorded> {
        let unmatched = || Error::runtime("CUDA error: capture was not initiated in this stream");
        let id = *self.of.get(&stream).ok_or_else(refused_without)?;
        let capture = self.all.get(&id).ok_or_else(unmatched)?;
        if capture.origin != stream {
            return Err(unmatched());
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != current().id() {
            return Err(Error::runtime(
                "CUDA error: attempt to terminate a thread-local capture sequence from another thread",
            ));
        }
        self.of.retain(|_, c| *c != id);
        let capture = self.all.remove(&id).ok_or_else(unmatched)?;
        if capture.broken {
            return Err(broken());
        }
        // everything that other streams did has to come before the end of the first one
        let mut seen = vec![false; capture.nodes.len()];
        let mut todo: Vec<usize> = capture.ends.get(&stream).into_iter().flatten().copied().collect();
        while let Some(i) = todo.pop() {
            if !std::mem::replace(&mut seen[i], true) {
                todo.extend(&capture.nodes[i].after);
            }
        }
        if seen.contains(&false) {
            return Err(Error::runtime("CUDA error: capturing stream has unjoined work"));
        }
        Ok(Recorded(capture.nodes))
    }
}
fn broken() -> Error {
    Error::runtime("CUDA error: operation failed due to a previous error during capture")
}
fn refused_without() -> Error {
    Error::runtime("CUDA error: operation not permitted")
}
