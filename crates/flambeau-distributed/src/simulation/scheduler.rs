//! Who has the turn: one thread of a simulated world at a time, chosen by a seed.
//!
//! A thread keeps its turn until it waits. Then the next one that can go on is drawn; where none can, the world's time moves to the next
//! thing that happens: a message arrives, a sleep is over. Where only limits of time are left to wait for, nobody will ever send what the
//! others wait for, and the world ends there, unless it shall show how the limits are met.

use super::fabric::Fabric;
use super::random::Random;
use flambeau_core::Result;
use flambeau_core::types::time::CENTURY;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

thread_local! {
    static TASK: RefCell<Option<Arc<Task>>> = const { RefCell::new(None) };
}
/// This thread's place in a simulated world, if it has one.
pub(crate) fn current() -> Option<Arc<Task>> {
    TASK.try_with(|t| t.borrow().clone()).ok().flatten()
}

/// How a thread that does not return ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// its rank was killed
    Killed,
    /// nothing can happen any more
    Stuck,
}

/// What happens at a moment.
pub(super) type Event = Box<dyn FnOnce() + Send>;

/// A thread of a simulated world.
pub(crate) struct Task {
    id: usize,
    /// in the job
    pub(super) rank: usize,
    world: Arc<Scheduler>,
    turn: AtomicBool,
    thread: OnceLock<Thread>,
    waiting: Mutex<Option<Wait>>,
}
/// A message that a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    /// to send it, not to receive it
    pub(super) send: bool,
    /// in the job
    pub(super) peer: usize,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    Running,
    /// until somebody wakes it, or the moment has come; sleeps are not limits
    Blocked(Option<Duration>, bool),
    Done,
}
struct Slot {
    task: Arc<Task>,
    state: State,
    cut: Option<Cut>,
    /// somebody has woken it before it slept
    woken: bool,
    /// helps another thread, and does not keep the world going
    helper: bool,
}
struct Inner {
    now: Duration,
    random: Random,
    slots: Vec<Slot>,
    ready: Vec<usize>,
    running: Option<usize>,
    events: BTreeMap<(Duration, u64), Event>,
    /// blocked threads with a moment
    timers: BTreeSet<(Duration, usize)>,
    next: u64,
    /// time may move to limits that are missed
    limits: bool,
    /// who waited for whom when nothing could happen any more
    stuck: Option<Vec<(usize, Wait)>>,
    switches: u64,
    /// threads that are not over, and those of them that are no helpers
    living: usize,
    leading: usize,
    sleepers: usize,
}
/// A simulated world's turns and time.
pub(crate) struct Scheduler {
    inner: Mutex<Inner>,
    over: Condvar,
    base: Instant,
    fabric: OnceLock<Arc<Fabric>>,
    stack: usize,
}

impl Scheduler {
    pub(super) fn new(seed: u64, limits: bool, stack: usize) -> Arc<Scheduler> {
        let inner = Inner {
            now: Duration::ZERO,
            random: Random::new(seed),
            slots: Vec::new(),
            ready: Vec::new(),
            running: None,
            events: BTreeMap::new(),
            timers: BTreeSet::new(),
            next: 0,
            limits,
            stuck: None,
            switches: 0,
            living: 0,
            leading: 0,
            sleepers: 0,
        };
        Arc::new(Scheduler {
            inner: Mutex::new(inner),
            over: Condvar::new(),
            base: Instant::now(),
            fabric: OnceLock::new(),
            stack,
        })
    }
    pub(super) fn set_fabric(&self, f: Arc<Fabric>) {
        let _ = self.fabric.set(f);
    }
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(super) fn elapsed(&self) -> Duration {
        self.lock().now
    }
    pub(super) fn switches(&self) -> u64 {
        self.lock().switches
    }
    /// Who waited for whom, if the world has ended because nothing could happen any more.
    pub(super) fn stuck(&self) -> Option<Vec<(usize, Wait)>> {
        self.lock().stuck.clone()
    }
    /// Has something happen after so long.
    pub(super) fn after(&self, delay: Duration, event: Event) {
        let mut s = self.lock();
        s.next += 1;
        let at = (s.now + delay.min(CENTURY), s.next);
        s.events.insert(at, event);
    }
    /// Ends all threads of a rank the next time they have their turn.
    pub(super) fn kill(&self, rank: usize) {
        let mut s = self.lock();
        for i in 0..s.slots.len() {
            if s.slots[i].task.rank == rank {
                s.slots[i].cut.get_or_insert(Cut::Killed);
                s.wake(i);
            }
        }
    }
    /// A place for a thread, which has its turn at some time.
    fn place(self: &Arc<Self>, rank: usize, helper: bool) -> Arc<Task> {
        let mut s = self.lock();
        let id = s.slots.len();
        let task = Arc::new(Task {
            id,
            rank,
            world: self.clone(),
            turn: AtomicBool::new(false),
            thread: OnceLock::new(),
            waiting: Mutex::new(None),
        });
        s.slots.push(Slot { task: task.clone(), state: State::Ready, cut: None, woken: false, helper });
        s.ready.push(id);
        s.living += 1;
        s.leading += usize::from(!helper);
        task
    }
    /// Runs one thread for each function, one at a time, until all are over, and gives what each returned, or how it ended.
    pub(super) fn run<R: Send>(
        self: &Arc<Self>,
        size: usize,
        f: impl Fn(usize) -> R + Sync,
    ) -> std::io::Result<Vec<std::result::Result<R, Ended>>> {
        std::thread::scope(|scope| {
            let f = &f;
            let tasks: Vec<Arc<Task>> = (0..size).map(|rank| self.place(rank, false)).collect();
            let mut handles = Vec::new();
            for task in &tasks {
                let mine = task.clone();
                let made = std::thread::Builder::new()
                    .name(format!("simulated rank {}", task.rank))
                    .stack_size(self.stack)
                    .spawn_scoped(scope, move || {
                        let rank = mine.rank;
                        mine.live(|| f(rank))
                    });
                match made {
                    Ok(h) => {
                        let _ = task.thread.set(h.thread().clone());
                        handles.push(h);
                    }
                    Err(e) => {
                        // those that wait for their first turn end at once
                        let mut s = self.lock();
                        s.slots.iter_mut().for_each(|slot| slot.cut = Some(Cut::Stuck));
                        (handles.len()..size).for_each(|i| s.end(i));
                        drop(s);
                        self.pass();
                        return Err(e);
                    }
                }
            }
            self.pass();
            let all = handles.into_iter().map(|h| h.join().unwrap_or(Err(Ended::Panicked(String::new()))));
            let all = all.collect();
            // helpers end when nobody has work for them any more
            let mut s = self.lock();
            while s.living > 0 {
                s = self.over.wait(s).unwrap_or_else(PoisonError::into_inner);
            }
            Ok(all)
        })
    }
    /// Gives the turn to who comes next.
    fn pass(&self) {
        let mut s = self.lock();
        s.running = None;
        loop {
            if !s.ready.is_empty() {
                let n = s.ready.len() as u64;
                let at = s.random.below(n) as usize;
                let id = s.ready.swap_remove(at);
                s.running = Some(id);
                s.switches += 1;
                let slot = &mut s.slots[id];
                slot.state = State::Running;
                slot.task.turn.store(true, Ordering::Release);
                if let Some(t) = slot.task.thread.get() {
                    t.unpark();
                }
                return;
            }
            if s.living == 0 {
                self.over.notify_all();
                return;
            }
            // helpers that wait for work do not keep the world going
            if s.leading == 0 {
                s.cut_all(Cut::Stuck);
                continue;
            }
            let event = s.events.keys().next().map(|k| k.0);
            let timer = s.timers.iter().next().copied();
            match (event, timer) {
                (Some(e), t) if t.is_none_or(|t| e <= t.0) => {
                    let Some((at, happens)) = s.events.pop_first() else { continue };
                    s.now = s.now.max(at.0);
                    drop(s);
                    happens();
                    s = self.lock();
                }
                (_, Some((at, id))) => {
                    if event.is_none() && s.sleepers == 0 && !s.limits {
                        s.give_up();
                        continue;
                    }
                    s.now = s.now.max(at);
                    s.wake(id);
                }
                // `(Some, None)` is the first case
                _ => s.give_up(),
            }
        }
    }
}
impl Inner {
    fn wake(&mut self, id: usize) {
        match self.slots[id].state {
            State::Blocked(until, sleeps) => {
                if let Some(t) = until {
                    self.timers.remove(&(t, id));
                }
                self.sleepers -= usize::from(sleeps);
                self.slots[id].state = State::Ready;
                self.ready.push(id);
            }
            State::Running => self.slots[id].woken = true,
            State::Ready | State::Done => {}
        }
    }
    /// Nothing can happen any more.
    fn give_up(&mut self) {
        let waits = self.slots.iter().filter(|s| s.state != State::Done).filter_map(|s| {
            let w = *s.task.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            w.map(|w| (s.task.rank, w))
        });
        let waits = waits.collect();
        self.stuck.get_or_insert(waits);
        self.cut_all(Cut::Stuck);
    }
    /// A thread is over, or has never begun.
    fn end(&mut self, id: usize) {
        let slot = &mut self.slots[id];
        slot.state = State::Done;
        self.living -= 1;
        self.leading -= usize::from(!slot.helper);
        self.ready.retain(|i| *i != id);
    }
    fn cut_all(&mut self, how: Cut) {
        for i in 0..self.slots.len() {
            if self.slots[i].state != State::Done {
                self.slots[i].cut.get_or_insert(how);
                self.wake(i);
            }
        }
    }
}

/// How a rank has ended that returned nothing.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Ended {
    Killed,
    Stuck,
    Panicked(String),
}

impl Task {
    /// What a thread does with its place: waits for its turn, works, and gives it on.
    fn live<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> std::result::Result<R, Ended> {
        struct Leave<'a>(&'a Task);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                let _ = TASK.try_with(|t| t.borrow_mut().take());
                flambeau_futures::internal::set_waits(None);
                self.0.world.lock().end(self.0.id);
                self.0.world.pass();
            }
        }
        let leave = Leave(self);
        self.wait_turn();
        let _ = TASK.try_with(|t| *t.borrow_mut() = Some(self.clone()));
        flambeau_futures::internal::set_waits(Some(waits));
        let r = catch_unwind(AssertUnwindSafe(|| {
            self.go_on();
            f()
        }));
        drop(leave);
        r.map_err(|p| match p.downcast_ref::<Cut>() {
            Some(Cut::Killed) => Ended::Killed,
            Some(Cut::Stuck) => Ended::Stuck,
            None => {
                let text = p.downcast_ref::<String>().cloned();
                let text = text.or_else(|| p.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                Ended::Panicked(text.unwrap_or_else(|| "a panic without a text".to_owned()))
            }
        })
    }
    fn wait_turn(&self) {
        while !self.turn.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
    /// Ends this thread if it shall not go on.
    fn go_on(&self) {
        let cut = self.world.lock().slots[self.id].cut;
        if let Some(how) = cut
            && !std::thread::panicking()
        {
            resume_unwind(Box::new(how));
        }
    }
    /// Until it is woken, or the moment has come. Returns without a reason now and then, as condition variables do; false on a thread
    /// that is being ended, which must not wait any more.
    pub(crate) fn block(&self, until: Option<Instant>) -> bool {
        let until = until.map(|t| t.saturating_duration_since(self.world.base));
        self.rest(until, false)
    }
    pub(crate) fn sleep(&self, d: Duration) {
        let until = self.elapsed() + d.min(CENTURY);
        while self.elapsed() < until && self.rest(Some(until), true) {}
    }
    fn rest(&self, until: Option<Duration>, sleeps: bool) -> bool {
        {
            let mut s = self.world.lock();
            let slot = &mut s.slots[self.id];
            if slot.cut.is_some() {
                drop(s);
                self.go_on();
                return false;
            }
            if std::mem::take(&mut slot.woken) {
                return true;
            }
            slot.state = State::Blocked(until, sleeps);
            s.sleepers += usize::from(sleeps);
            if let Some(t) = until {
                s.timers.insert((t, self.id));
            }
        }
        self.world.pass();
        self.wait_turn();
        self.go_on();
        true
    }
    pub(crate) fn wake(&self) {
        self.world.lock().wake(self.id);
    }
    pub(crate) fn elapsed(&self) -> Duration {
        self.world.elapsed()
    }
    pub(crate) fn now(&self) -> Instant {
        self.world.base + self.elapsed()
    }
    pub(crate) fn fabric(&self) -> Option<Arc<Fabric>> {
        self.world.fabric.get().cloned()
    }
    /// Says that this thread waits for a message, as long as what it gives is kept.
    pub(super) fn waits_for(self: Arc<Self>, send: bool, peer: usize) -> impl Drop {
        struct Over(Arc<Task>);
        impl Drop for Over {
            fn drop(&mut self) {
                *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(Wait { send, peer });
        Over(self)
    }
    /// Ends this rank here.
    pub(super) fn die(&self) {
        self.world.kill(self.rank);
        self.go_on();
    }
    /// A thread that helps this rank.
    pub(crate) fn spawn(&self, name: &str, f: impl FnOnce() + Send + 'static) -> Result<()> {
        let task = self.world.place(self.rank, true);
        let mine = task.clone();
        let made =
            std::thread::Builder::new().name(name.to_owned()).stack_size(self.world.stack).spawn(move || {
                let _ = mine.live(f);
            });
        match made {
            Ok(h) => {
                let _ = task.thread.set(h.thread().clone());
                Ok(())
            }
            Err(e) => {
                self.world.lock().end(task.id);
                Err(e.into())
            }
        }
    }
}

/// How threads of simulated worlds wait for futures.
fn waits() -> (flambeau_futures::internal::Wake, flambeau_futures::internal::Wait) {
    use crate::sync::{Monitor, deadline};
    /// Says that nobody will wake who waits, unless somebody has.
    struct Said(Arc<Monitor<Option<bool>>>);
    impl Drop for Said {
        fn drop(&mut self) {
            self.0.lock().get_or_insert(false);
            self.0.notify();
        }
    }
    let state = Arc::new(Monitor::new(None));
    let said = Said(state.clone());
    let wake = move || {
        *said.0.lock() = Some(true);
        drop(said);
    };
    let wait = move |limit: Option<Duration>| {
        let end = deadline(limit.unwrap_or(Duration::MAX));
        match state.wait_for(end, |s| *s) {
            Some(woken) => woken || limit.is_some(),
            None => false,
        }
    };
    (Box::new(wake), Box::new(wait))
}
