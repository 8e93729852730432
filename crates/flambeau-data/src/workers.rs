//! Worker threads and one pass over them.
//!
//! Each worker has a queue of orders; all send their replies into one channel. A pass keeps `prefetch_factor` orders per
//! worker on the way, hands them out in turn, and puts replies into the order of the tasks. Nobody waits for anybody but
//! the iterator for replies: queues are unbounded, and what is on the way is not. A pass that ends early raises the number
//! of the pass, and workers skip orders of earlier ones; workers that are no longer wanted end when their queue is
//! dropped.

use crate::loader::{Fetch, Shared, Task, Tasks};
use crate::worker::{WorkerInfo, set_worker_info};
use flambeau_core::settings::threads::set_alone;
use flambeau_core::tensor::generator::{default_generator, thread_generator};
use flambeau_core::tensor::geometry::room;
use flambeau_core::text::PyText;
use flambeau_core::{Error, Result};
use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

enum Command {
    /// Begins a pass.
    Start,
    Fetch(Task),
}
struct Message {
    pass: u64,
    number: u64,
    command: Command,
}
enum Outcome<B> {
    Batch(B),
    /// The worker's stream is at its end.
    Ended,
    Failed(Error),
    /// The thread is no more, outside of what it catches.
    Died,
}
struct Reply<B> {
    pass: u64,
    number: u64,
    worker: usize,
    outcome: Outcome<B>,
}

/// The threads of a loader.
pub(crate) struct Workers<B> {
    queues: Vec<Option<Sender<Message>>>,
    replies: Receiver<Reply<B>>,
    pass: Arc<AtomicU64>,
}
impl<B: Send + 'static> Workers<B> {
    pub(crate) fn start(shared: &Arc<Shared<B>>, base_seed: u64) -> Result<Self> {
        let (sender, replies) = channel();
        let pass = Arc::new(AtomicU64::new(0));
        let mut queues = room(i64::try_from(shared.num_workers).unwrap_or(i64::MAX))?;
        for id in 0..shared.num_workers {
            let (queue, orders) = channel();
            let desk = Desk { id, pass: pass.clone(), replies: sender.clone() };
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("flambeau-data-{id}"))
                .spawn(move || work(&desk, &shared, base_seed.wrapping_add(id as u64), &orders))
                .map_err(|e| Error::runtime(format!("DataLoader worker {id} could not be started: {e}")))?;
            queues.push(Some(queue));
        }
        Ok(Workers { queues, replies, pass })
    }
    /// Begins a new pass: what earlier ones ordered is void.
    fn next_pass(&self) -> u64 {
        self.pass.fetch_add(1, Ordering::Relaxed) + 1
    }
    /// Whether the worker can still be reached.
    fn send(&self, worker: usize, message: Message) -> bool {
        self.queues[worker].as_ref().is_some_and(|q| q.send(message).is_ok())
    }
}
impl<B> Drop for Workers<B> {
    fn drop(&mut self) {
        // orders that wait in the queues are skipped, and the closed queues end the threads
        self.pass.fetch_add(1, Ordering::Relaxed);
    }
}

/// A worker's way to its loader.
struct Desk<B> {
    id: usize,
    pass: Arc<AtomicU64>,
    replies: Sender<Reply<B>>,
}
impl<B> Desk<B> {
    fn reply(&self, pass: u64, number: u64, outcome: Outcome<B>) {
        // nobody listens any more: the queue will say so too
        let _ = self.replies.send(Reply { pass, number, worker: self.id, outcome });
    }
    /// Runs what is the user's; an error or a panic gets the worker's number before its own text.
    fn guarded<R>(&self, f: impl FnOnce() -> Result<R>) -> Result<R> {
        let place = format!("in DataLoader worker thread {}", self.id);
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(Ok(r)) => Ok(r),
            Ok(Err(e)) => {
                let class = e.kind().class_name();
                let text = format!("Caught {class} {place}.\nOriginal error: {class}: {e}");
                Err(Error::new(e.kind(), text))
            }
            Err(payload) => {
                let text = panic_text(&*payload).to_string();
                // what a panic carries is the user's, and may panic when dropped
                let _ = catch_unwind(AssertUnwindSafe(move || drop(payload)));
                Err(Error::runtime(format!("Caught a panic {place}.\nOriginal panic: {text}")))
            }
        }
    }
}
impl<B> Drop for Desk<B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.reply(self.pass.load(Ordering::Relaxed), u64::MAX, Outcome::Died);
        }
    }
}
fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(not a text)")
}

/// A worker's life.
fn work<B>(desk: &Desk<B>, shared: &Shared<B>, seed: u64, orders: &Receiver<Message>) {
    set_alone(true);
    let _generator = thread_generator(seed);
    set_worker_info(WorkerInfo {
        id: desk.id,
        num_workers: shared.num_workers,
        seed,
        generator: default_generator().clone(),
        dataset: shared.dataset(),
    });
    let ready = desk.guarded(|| shared.init.as_ref().map_or(Ok(()), |f| f(desk.id)));
    let mut fetcher: Option<Result<Box<dyn Fetch<B> + '_>>> = None;
    let mut over = false;
    while let Ok(Message { pass, number, command }) = orders.recv() {
        if pass != desk.pass.load(Ordering::Relaxed) {
            continue;
        }
        let task = match command {
            Command::Start => {
                // dropping a stream is the user's code as well
                let old = fetcher.take();
                let made = ready.clone().and_then(|()| {
                    desk.guarded(move || {
                        drop(old);
                        Ok(shared.fetcher())
                    })
                });
                (fetcher, over) = (Some(made), false);
                continue;
            }
            Command::Fetch(_) if over => continue,
            Command::Fetch(task) => task,
        };
        let outcome = match &mut fetcher {
            Some(Ok(f)) => match desk.guarded(|| f.fetch(task)) {
                Ok(Some(batch)) => Outcome::Batch(batch),
                Ok(None) => {
                    // what else was ordered of this stream stays without an answer
                    over = true;
                    Outcome::Ended
                }
                Err(e) => Outcome::Failed(e),
            },
            Some(Err(e)) => Outcome::Failed(e.clone()),
            None => continue,
        };
        desk.reply(pass, number, outcome);
    }
}

enum Slot<B> {
    /// On the way, at this worker.
    Waiting(usize),
    /// Came before its turn.
    Ready(usize, Result<B>),
}

/// One pass.
pub(crate) struct Run<B> {
    workers: Workers<B>,
    pass: u64,
    /// Orders by number, from `next` to `sent`.
    slots: HashMap<u64, Slot<B>>,
    sent: u64,
    next: u64,
    outstanding: usize,
    most: usize,
    active: Vec<bool>,
    loads: Vec<usize>,
    /// Whose turn it is.
    turn: usize,
    in_order: bool,
    timeout: Option<Duration>,
    /// Workers that have nothing more to do in this pass are told to end.
    once: bool,
    /// The sampler failed; told when the pass comes to it.
    failed: Option<Error>,
    exhausted: bool,
}
impl<B: Send + 'static> Run<B> {
    pub(crate) fn new(
        workers: Workers<B>,
        prefetch: usize,
        in_order: bool,
        timeout: Option<Duration>,
        once: bool,
        tasks: &mut Tasks<'_>,
    ) -> Self {
        let n = workers.queues.len();
        let pass = workers.next_pass();
        let start = |w| workers.send(w, Message { pass, number: 0, command: Command::Start });
        let active: Vec<bool> = (0..n).map(start).collect();
        let failed = active.iter().position(|a| !a).map(died);
        let mut run = Run {
            workers,
            pass,
            slots: HashMap::new(),
            sent: 0,
            next: 0,
            outstanding: 0,
            most: prefetch.saturating_mul(n),
            active,
            loads: vec![0; n],
            turn: 0,
            in_order,
            timeout,
            once,
            exhausted: failed.is_some(),
            failed,
        };
        while run.outstanding < run.most && run.order(tasks) {}
        run
    }
    /// The workers, with nothing of this pass before them.
    pub(crate) fn end(self) -> Workers<B> {
        self.workers.next_pass();
        self.workers
    }
    /// The worker that the next task goes to.
    fn pick(&mut self) -> Option<usize> {
        let n = self.active.len();
        let active = self.active.iter().filter(|a| **a).count().max(1);
        let fair = self.most / active;
        let free = |w: usize| self.active[w] && (self.in_order || self.loads[w] < fair);
        let found = (0..n).map(|i| (self.turn + i) % n).find(|w| free(*w))?;
        self.turn = (found + 1) % n;
        Some(found)
    }
    /// Sends one more task on its way; whether there was one, and a worker for it.
    fn order(&mut self, tasks: &mut Tasks<'_>) -> bool {
        if self.exhausted {
            return false;
        }
        let Some(worker) = self.pick() else { return false };
        let task = match tasks.next() {
            Some(Ok(t)) => t,
            end => {
                self.exhausted = true;
                self.failed = end.and_then(Result::err);
                return false;
            }
        };
        let number = self.sent;
        if !self.workers.send(worker, Message { pass: self.pass, number, command: Command::Fetch(task) }) {
            self.active[worker] = false;
            self.failed = Some(died(worker));
            self.exhausted = true;
            return false;
        }
        self.slots.insert(number, Slot::Waiting(worker));
        self.loads[worker] += 1;
        self.outstanding += 1;
        self.sent += 1;
        true
    }
    fn receive(&self) -> Result<Reply<B>> {
        loop {
            let reply = match self.timeout {
                None => self.workers.replies.recv().map_err(|_| died(0))?,
                Some(t) => match self.workers.replies.recv_timeout(t) {
                    Ok(r) => r,
                    Err(RecvTimeoutError::Disconnected) => return Err(died(0)),
                    Err(RecvTimeoutError::Timeout) => {
                        let seconds = t.as_secs_f64();
                        let seconds =
                            if seconds.fract() == 0.0 { format!("{seconds:.0}") } else { seconds.py_text() };
                        return Err(Error::runtime(format!("DataLoader timed out after {seconds} seconds")));
                    }
                },
            };
            if reply.pass == self.pass {
                return Ok(reply);
            }
        }
    }
    /// The next batch; `None` when the pass is over.
    pub(crate) fn next(&mut self, tasks: &mut Tasks<'_>) -> Option<Result<B>> {
        loop {
            // tasks of workers that are at the end of their streams will not be answered
            while self.next < self.sent {
                match self.slots.get(&self.next) {
                    Some(Slot::Ready(..)) => break,
                    Some(Slot::Waiting(w)) if self.active[*w] => break,
                    Some(Slot::Waiting(_)) => {
                        self.slots.remove(&self.next);
                        self.outstanding -= 1;
                    }
                    None => {}
                }
                self.next += 1;
            }
            if self.next == self.sent {
                return self.failed.take().map(Err);
            }
            if let Some(Slot::Ready(..)) = self.slots.get(&self.next)
                && let Some(Slot::Ready(worker, batch)) = self.slots.remove(&self.next)
            {
                self.next += 1;
                return Some(self.give(worker, batch, tasks));
            }
            let Reply { number, worker, outcome, .. } = match self.receive() {
                Ok(r) => r,
                Err(e) => return Some(Err(e)),
            };
            let batch = match outcome {
                Outcome::Batch(b) => Ok(b),
                Outcome::Failed(e) => Err(e),
                Outcome::Ended => {
                    self.stop(worker);
                    self.slots.remove(&number);
                    self.outstanding -= 1;
                    self.order(tasks);
                    continue;
                }
                Outcome::Died => {
                    self.stop(worker);
                    return Some(Err(died(worker)));
                }
            };
            self.outstanding -= 1;
            if number == self.next || !self.in_order {
                self.slots.remove(&number);
                return Some(self.give(worker, batch, tasks));
            }
            self.slots.insert(number, Slot::Ready(worker, batch));
        }
    }
    fn give(&mut self, worker: usize, batch: Result<B>, tasks: &mut Tasks<'_>) -> Result<B> {
        self.loads[worker] -= 1;
        self.order(tasks);
        batch
    }
    /// Nothing more comes from this worker.
    fn stop(&mut self, worker: usize) {
        self.active[worker] = false;
        if self.once {
            self.workers.queues[worker] = None;
        }
    }
}

fn died(worker: usize) -> Error {
    Error::runtime(format!("DataLoader worker (thread {worker}) exited unexpectedly"))
}
