//! Results that come later (`torch.futures`): of work on another thread, in another process or on another machine.
//!
//! ```
//! use torch::futures::{Future, collect_all};
//! let x = Future::new();
//! let y = x.then(|x| Ok(x.wait()? + 1));
//! std::thread::spawn({
//!     let x = x.clone();
//!     move || x.set_result(1)
//! });
//! assert_eq!(y.wait()?, 2);
//! assert_eq!(collect_all(&[x, y]).wait()?.len(), 2);
//! # Ok::<(), torch::Error>(())
//! ```
#![forbid(unsafe_code)]

use flambeau_core::types::deep::Deep;
use flambeau_core::types::order::{self, Mutex};
use flambeau_core::{Device, Error, Result, bail};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How threads wait: no part of the API.
#[doc(hidden)]
pub mod internal {
    use std::cell::Cell;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    /// Ends a wait; dropped, it says that nobody will.
    pub type Wake = Box<dyn FnOnce() + Send>;
    /// Waits, at most so long; without a limit it says whether it was woken, with one whether the time was enough.
    pub type Wait = Box<dyn FnOnce(Option<Duration>) -> bool>;

    thread_local! {
        static WAITS: Cell<Option<fn() -> (Wake, Wait)>> = const { Cell::new(None) };
    }
    /// How this thread waits for futures from now on, where it is not a thread of its own right, as in simulated worlds. Gives how it
    /// has waited so far.
    pub fn set_waits(f: Option<fn() -> (Wake, Wait)>) -> Option<fn() -> (Wake, Wait)> {
        WAITS.try_with(|w| w.replace(f)).ok().flatten()
    }
    pub(crate) fn waits() -> (Wake, Wait) {
        WAITS.try_with(Cell::get).ok().flatten().unwrap_or(plain)()
    }
    fn plain() -> (Wake, Wait) {
        let (send, receive) = channel();
        let wake = move || {
            let _ = send.send(());
        };
        let wait = move |limit: Option<Duration>| match limit {
            None => receive.recv().is_ok(),
            Some(limit) => receive.recv_timeout(limit) != Err(RecvTimeoutError::Timeout),
        };
        (Box::new(wake), Box::new(wait))
    }
}

type Callback<T> = Box<dyn FnOnce(&Future<T>) + Send>;

enum State<T: 'static> {
    /// What runs when the result is there, in this order, each with a number by which it can be taken away. A callback holds
    /// the future that it completes, which has callbacks in turn.
    Waiting(Deep<Vec<(u64, Callback<T>)>>),
    Done(Arc<Result<T>>),
}

/// Futures that complete each other run their callbacks within each other to this depth; what comes then waits until the
/// outermost is through.
const WITHIN: u32 = 64;
thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LATER: RefCell<VecDeque<Box<dyn FnOnce()>>> = const { RefCell::new(VecDeque::new()) };
}
/// Runs callbacks now, or, deep within other callbacks of the thread, a little later.
fn run(callbacks: impl FnOnce() + 'static) {
    struct Up(u32);
    impl Drop for Up {
        fn drop(&mut self) {
            let _ = DEPTH.try_with(|d| d.set(self.0));
        }
    }
    // while a thread ends there is no list any more, and nothing deep
    let depth = DEPTH.try_with(Cell::get).unwrap_or(0);
    let mut now = Some(callbacks);
    if depth >= WITHIN {
        let _ =
            LATER.try_with(|l| l.borrow_mut().extend(now.take().map(|f| Box::new(f) as Box<dyn FnOnce()>)));
    }
    let Some(callbacks) = now else { return };
    let _up = Up(depth);
    let _ = DEPTH.try_with(|d| d.set(depth + 1));
    callbacks();
    while depth == 0 && run_next() {}
}
/// One of the callbacks that wait on this thread; says whether there was one.
fn run_next() -> bool {
    let next = LATER.try_with(|l| l.borrow_mut().pop_front()).ok().flatten();
    next.map(|f| f()).is_some()
}
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A result that comes later. Clones are the same future.
///
/// It is completed once, by [`Future::set_result`] or [`Future::set_exception`]; what was to happen then happens on the thread that
/// completes it, in the order in which it was asked for.
#[doc(alias = "torch.futures.Future")]
pub struct Future<T: 'static>(Arc<Mutex<State<T>>>);

impl<T: 'static> Clone for Future<T> {
    fn clone(&self) -> Self {
        Future(self.0.clone())
    }
}
impl<T: Send + Sync + 'static> Default for Future<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T: fmt::Debug + 'static> fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.now() {
            Some(r) => f.debug_tuple("Future").field(&*r).finish(),
            None => f.write_str("Future(..)"),
        }
    }
}

impl<T: 'static> Future<T> {
    fn now(&self) -> Option<Arc<Result<T>>> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Done(r) => Some(r.clone()),
            State::Waiting(_) => None,
        }
    }
}

impl<T: Send + Sync + 'static> Future<T> {
    /// A future without a result.
    pub fn new() -> Self {
        Future(Arc::new(Mutex::new(State::Waiting(Deep::default()))))
    }
    /// A future whose result is there.
    pub fn ready(value: T) -> Self {
        Future(Arc::new(Mutex::new(State::Done(Arc::new(Ok(value))))))
    }
    /// A future whose tensors come on these devices, which its waits then wait for.
    ///
    /// # Errors
    /// Devices without queues of work: `Expected devices to have indices, got cpu` of the CPU, which has none; CUDA devices, which are
    /// not here.
    pub fn with_devices(devices: &[Device]) -> Result<Self> {
        match devices.first() {
            None => Ok(Self::new()),
            Some(d @ (Device::Cpu | Device::Meta)) => {
                bail!(Value, "Expected devices to have indices, got {d}")
            }
            Some(other) => bail!(Runtime, "PyTorch is not linked with support for {} devices", other.kind()),
        }
    }
    /// Whether it has a result or an error.
    #[doc(alias = "torch.futures.Future.done")]
    pub fn done(&self) -> bool {
        self.now().is_some()
    }
    fn complete(&self, r: Result<T>) -> Result<()> {
        let r = Arc::new(r);
        let waiting = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *state {
                State::Done(_) => bail!(
                    Runtime,
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once."
                ),
                State::Waiting(w) => {
                    let w = std::mem::take(w);
                    *state = State::Done(r);
                    w
                }
            }
        };
        order::none_held("a callback of a future");
        let this = self.clone();
        run(move || waiting.take().into_iter().for_each(|(_, f)| f(&this)));
        Ok(())
    }
    /// Completes the future: wakes who waits, and runs what was to happen then.
    ///
    /// # Errors
    /// It is complete already.
    #[doc(alias = "torch.futures.Future.set_result")]
    pub fn set_result(&self, result: T) -> Result<()> {
        self.complete(Ok(result))
    }
    /// Completes the future with an error, which who asks for the result gets. Only errors are such:
    ///
    /// ```compile_fail
    /// torch::futures::Future::<i64>::new().set_exception("foo");
    /// ```
    ///
    /// # Errors
    /// It is complete already.
    #[doc(alias = "torch.futures.Future.set_exception")]
    pub fn set_exception(&self, error: Error) -> Result<()> {
        self.complete(Err(error))
    }
    /// Has `f` called once the result is there, and gives the number by which it is taken away; gives `f` back where it is there.
    fn or_now<F: FnOnce(&Future<T>) + Send + 'static>(&self, f: F) -> std::result::Result<u64, F> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Done(_) => Err(f),
            State::Waiting(w) => {
                let id = NUMBER.fetch_add(1, Ordering::Relaxed);
                w.push((id, Box::new(f)));
                Ok(id)
            }
        }
    }
    /// Calls `f` once the result is there, on the thread that brings it, or now.
    fn when_done(&self, f: impl FnOnce(&Future<T>) + Send + 'static) {
        if let Err(f) = self.or_now(f) {
            order::none_held("a callback of a future");
            let this = self.clone();
            run(move || f(&this));
        }
    }
    /// Calls a function with this future once it is complete, on the thread that completes it, or now if it is. What panics in it is
    /// reported as a warning and has no other consequence.
    #[doc(alias = "torch.futures.Future.add_done_callback")]
    pub fn add_done_callback(&self, callback: impl FnOnce(&Future<T>) + Send + 'static) {
        self.when_done(move |f| {
            if let Err(e) = catch_unwind(AssertUnwindSafe(|| callback(f))) {
                let text = format!("Got the following error when running the callback: {}", panic_text(&*e));
                flambeau_core::settings::determinism::warn(&text);
            }
        });
    }
    /// The future of what a function makes of this one, which it is called with once it is complete.
    ///
    /// An error or panic of the function is the new future's, after `Got the following error when running the callback: `.
    #[doc(alias = "torch.futures.Future.then")]
    pub fn then<S: Send + Sync + 'static>(
        &self,
        callback: impl FnOnce(&Future<T>) -> Result<S> + Send + 'static,
    ) -> Future<S> {
        let next = Future::new();
        let to = next.clone();
        self.when_done(move |f| {
            let text = match catch_unwind(AssertUnwindSafe(|| callback(f))) {
                Ok(Ok(v)) => {
                    let _ = to.set_result(v);
                    return;
                }
                Ok(Err(e)) => format!("{}: {e}", e.kind().class_name()),
                Err(p) => panic_text(&*p),
            };
            let text = format!("Got the following error when running the callback: {text}");
            let _ = to.set_exception(Error::runtime(text));
        });
        next
    }
    /// Waits until the future is complete.
    fn until_done(&self, limit: Option<Duration>) -> bool {
        // what this thread has put off may be what completes it
        while !self.done() && run_next() {}
        let (wake, wait) = internal::waits();
        let Ok(id) = self.or_now(move |_: &Future<T>| wake()) else { return true };
        let in_time = wait(limit);
        let Some(_) = limit else { return in_time };
        if !in_time && let State::Waiting(w) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // who asks again and again leaves nothing behind
            w.retain(|(i, _)| *i != id);
        }
        in_time
    }
    /// A result as a reference, which needs no copy, once it is there.
    ///
    /// # Errors
    /// What the future was completed with; that it was dropped before.
    pub fn wait_ref(&self) -> Result<Arc<Result<T>>> {
        if !self.done() {
            self.until_done(None);
        }
        self.now().ok_or_else(|| Error::runtime("nobody can complete this future any more"))
    }
}

impl<T: Clone + Send + Sync + 'static> Future<T> {
    /// Waits for the result. A function that waits for a future which only its own thread could complete hangs.
    ///
    /// # Errors
    /// The error that the future was completed with.
    #[doc(alias = "torch.futures.Future.wait")]
    pub fn wait(&self) -> Result<T> {
        (*self.wait_ref()?).clone()
    }
    /// As [`Future::wait`], for so long at most; `None` when the time is over.
    ///
    /// # Errors
    /// As [`Future::wait`].
    pub fn wait_for(&self, limit: Duration) -> Result<Option<T>> {
        if self.done() || self.until_done(Some(limit)) { self.wait().map(Some) } else { Ok(None) }
    }
    /// The result, which is there.
    ///
    /// # Errors
    /// The error that the future was completed with; it is not complete.
    #[doc(alias = "torch.futures.Future.value")]
    pub fn value(&self) -> Result<T> {
        match self.now() {
            Some(r) => (*r).clone(),
            None => Err(Error::runtime(
                "completed() INTERNAL ASSERT FAILED at \"ivalue_inl.h\", please report a bug to PyTorch. ",
            )),
        }
    }
}

fn panic_text(p: &(dyn std::any::Any + Send)) -> String {
    let text = p.downcast_ref::<String>().map(String::as_str).or_else(|| p.downcast_ref::<&str>().copied());
    format!("RuntimeError: {}", text.unwrap_or("a panic without a text"))
}

/// The future of all these futures, complete with the last of them, or with the error of the first that has one.
#[doc(alias = "torch.futures.collect_all")]
pub fn collect_all<T: Send + Sync + 'static>(futures: &[Future<T>]) -> Future<Vec<Future<T>>> {
    let all = futures.to_vec();
    if all.is_empty() {
        return Future::ready(all);
    }
    let (out, left) = (Future::new(), Arc::new(AtomicUsize::new(all.len())));
    for f in futures {
        let (out, left, all) = (out.clone(), left.clone(), all.clone());
        f.when_done(move |f| {
            let failed = f.now().and_then(|r| r.as_ref().as_ref().err().cloned());
            // the first error completes it, later ones find it complete
            let _ = match failed {
                Some(e) => out.set_exception(e),
                None if left.fetch_sub(1, Ordering::AcqRel) == 1 => out.set_result(all),
                None => Ok(()),
            };
        });
    }
    out
}
/// The results of all these futures.
///
/// ```
/// use torch::futures::{Future, wait_all};
/// let all: Vec<Future<i64>> = (0..3).map(|_| Future::new()).collect();
/// all.iter().zip([0, 10, 20]).try_for_each(|(f, v)| f.set_result(v))?;
/// assert_eq!(wait_all(&all)?, [0, 10, 20]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// The error of the first that has one, without waiting for the others.
#[doc(alias = "torch.futures.wait_all")]
pub fn wait_all<T: Clone + Send + Sync + 'static>(futures: &[Future<T>]) -> Result<Vec<T>> {
    collect_all(futures).wait()?.iter().map(Future::wait).collect()
}
