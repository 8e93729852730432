//! What an operation under way is known by.

use crate::bytes;
use crate::calls::Status;
use crate::gloo::mesh::Mesh;
use crate::gloo::pair::Transfer;
use crate::sync::{self, Monitor, deadline};
use flambeau_core::{Error, Result, Tensor, bail};
use flambeau_futures::Future;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An operation of a group that may still be under way.
///
/// Operations without `async_op` have ended when they return theirs. A program waits for each of the others before it reads what
/// the operation writes.
#[derive(Clone)]
#[doc(alias = "torch.distributed.Work")]
#[doc(alias = "torch.distributed.note:sync-async-semantics")]
pub struct Work(Arc<Kind>);

enum Kind {
    /// runs on the group's threads, or has run
    Task(Task),
    /// data on their way from or to one rank
    Transfer(Point),
    /// a part of several that run together, which alone has no end
    Illegal,
}
pub(crate) struct Task {
    done: Monitor<Ended>,
    result: Monitor<Vec<Tensor>>,
    status: Status,
}
#[derive(Default)]
struct Ended {
    how: Option<Result<()>>,
    /// what else waits for it
    futures: Vec<Future<Vec<Tensor>>>,
}
struct Point {
    transfer: Arc<Transfer>,
    mesh: Arc<Mesh>,
    timeout: Duration,
    /// where what comes is written, until it has been
    into: Option<Tensor>,
    written: Monitor<Option<Result<()>>>,
    /// global ranks
    ranks: Vec<i64>,
    status: Status,
}

impl Work {
    /// One that has ended.
    pub(crate) fn ended(result: Vec<Tensor>) -> Work {
        let done = Ended { how: Some(Ok(())), futures: Vec::new() };
        let status = Status::default();
        status.end(true);
        Work(Arc::new(Kind::Task(Task { done: Monitor::new(done), result: Monitor::new(result), status })))
    }
    /// One that has run, for engines of a program's own: with the tensors that it has written.
    pub fn completed(result: Vec<Tensor>) -> Work {
        Work::ended(result)
    }
    /// One that ends when a future does, for engines of a program's own: with the tensors that it has written.
    ///
    /// ```
    /// use torch::distributed::Work;
    /// use torch::futures::Future;
    ///
    /// let done = Future::new();
    /// let work = Work::from_future(&done);
    /// assert!(!work.is_completed());
    /// done.set_result(vec![torch::ones([1])])?;
    /// work.wait();
    /// assert_eq!(work.result()[0].item::<f32>(), 1.0);
    /// # Ok::<(), torch::Error>(())
    /// ```
    pub fn from_future(done: &Future<Vec<Tensor>>) -> Work {
        let done_now = Ended { how: None, futures: Vec::new() };
        let task = Task {
            done: Monitor::new(done_now),
            result: Monitor::new(Vec::new()),
            status: Status::default(),
        };
        let work = Work(Arc::new(Kind::Task(task)));
        let mine = work.clone();
        done.add_done_callback(move |f| {
            let r = f.value();
            if let (Kind::Task(t), Ok(tensors)) = (&*mine.0, &r) {
                t.result.lock().clone_from(tensors);
            }
            mine.finish(r.map(drop));
        });
        work
    }
    /// A part of several that run together.
    pub(crate) fn illegal() -> Work {
        Work(Arc::new(Kind::Illegal))
    }
    /// One that ends when [`Work::finish`] is called.
    pub(crate) fn open(result: Vec<Tensor>, status: Status) -> Work {
        let (done, result) = (Monitor::new(Ended::default()), Monitor::new(result));
        Work(Arc::new(Kind::Task(Task { done, result, status })))
    }
    pub(crate) fn finish(&self, r: Result<()>) {
        if let Kind::Task(t) = &*self.0 {
            t.status.end(r.is_ok());
            let waiting = {
                let mut d = t.done.lock();
                d.how = Some(r.clone());
                std::mem::take(&mut d.futures)
            };
            t.done.notify();
            let result = t.result.lock().clone();
            waiting.into_iter().for_each(|f| settle(&f, &r, &result));
        }
    }
    /// A future of the tensors that the operation writes, for what shall happen then.
    #[doc(alias = "torch.distributed.Work.get_future")]
    pub fn get_future(&self) -> Future<Vec<Tensor>> {
        let f = Future::new();
        match &*self.0 {
            Kind::Task(t) => {
                let mut d = t.done.lock();
                match d.how.clone() {
                    None => d.futures.push(f.clone()),
                    Some(r) => {
                        drop(d);
                        let result = t.result.lock().clone();
                        settle(&f, &r, &result);
                    }
                }
            }
            Kind::Transfer(_) => {
                let (work, to) = (self.clone(), f.clone());
                let begun =
                    sync::spawn("gloo message", move || settle(&to, &work.try_wait(), &work.result()));
                if let Err(e) = begun {
                    let _ = f.set_exception(e);
                }
            }
            Kind::Illegal => {
                let _ = f.set_exception(illegal("get_future"));
            }
        }
        f
    }
    /// A future of how the operation ends: true where it ends well.
    #[doc(alias = "torch.distributed.Work.get_future_result")]
    pub fn get_future_result(&self) -> Future<bool> {
        let (done, to) = (self.get_future(), Future::new());
        let mine = to.clone();
        done.add_done_callback(move |f| {
            let _ = mine.set_result(f.value().is_ok());
        });
        to
    }
    pub(crate) fn transfer(
        transfer: Arc<Transfer>,
        mesh: Arc<Mesh>,
        timeout: Duration,
        into: Option<Tensor>,
        ranks: Vec<i64>,
        status: Status,
    ) -> Work {
        let written = Monitor::new(None);
        Work(Arc::new(Kind::Transfer(Point { transfer, mesh, timeout, into, written, ranks, status })))
    }

    /// A message goes on while its owner does something else.
    pub(crate) fn leave_alone(&self) -> Result<()> {
        match &*self.0 {
            Kind::Transfer(p) => p.mesh.leave_alone(&p.transfer),
            Kind::Task(_) | Kind::Illegal => Ok(()),
        }
    }
    /// Whether an operation on the group's threads, or before, is over. Messages are not asked: they say so when they are waited for.
    pub(crate) fn is_over(&self) -> bool {
        matches!(&*self.0, Kind::Task(t) if t.done.lock().how.is_some())
    }
    /// Waits for the end, as long as the group allows. Panics with the error of the operation.
    #[track_caller]
    #[doc(alias = "torch.distributed.Work.wait")]
    #[doc(alias = "torch.distributed.deprecated.request:wait")]
    pub fn wait(&self) {
        flambeau_core::api::ergonomic::expect(self.try_wait());
    }
    /// [`Work::wait`] with an error instead of a panic.
    ///
    /// # Errors
    /// That of the operation.
    pub fn try_wait(&self) -> Result<()> {
        match &*self.0 {
            Kind::Task(t) => t.wait(None),
            Kind::Transfer(p) => p.wait(p.timeout),
            Kind::Illegal => Err(illegal("wait")),
        }
    }
    /// Waits at most this long.
    ///
    /// # Errors
    /// That of the operation, or that the time is over.
    pub fn try_wait_timeout(&self, timeout: Duration) -> Result<()> {
        match &*self.0 {
            Kind::Task(t) => t.wait(Some(timeout)),
            Kind::Transfer(p) => p.wait(timeout),
            Kind::Illegal => Err(illegal("wait")),
        }
    }
    /// Whether it has ended, well or not.
    #[doc(alias = "torch.distributed.Work.is_completed")]
    #[doc(alias = "torch.distributed.deprecated.request:is_completed")]
    pub fn is_completed(&self) -> bool {
        match &*self.0 {
            Kind::Task(t) => t.done.lock().how.is_some(),
            Kind::Transfer(p) => {
                if p.transfer.is_done() {
                    let _ = p.wait(p.timeout);
                }
                p.transfer.is_done()
            }
            Kind::Illegal => false,
        }
    }
    /// Whether it has ended well.
    #[doc(alias = "torch.distributed.Work.is_success")]
    pub fn is_success(&self) -> bool {
        self.is_completed() && self.exception().is_none()
    }
    /// The error with which it has ended.
    #[doc(alias = "torch.distributed.Work.exception")]
    pub fn exception(&self) -> Option<Error> {
        if !self.is_completed() {
            return None;
        }
        self.try_wait().err()
    }
    /// Waits: on the CPU there is no stream that could wait instead.
    ///
    /// # Errors
    /// That of the operation.
    #[doc(alias = "torch.distributed.Work.synchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.try_wait()
    }
    /// The tensors that the operation has written.
    #[doc(alias = "torch.distributed.Work.result")]
    pub fn result(&self) -> Vec<Tensor> {
        match &*self.0 {
            Kind::Task(t) => t.result.lock().clone(),
            Kind::Transfer(p) => p.into.iter().cloned().collect(),
            Kind::Illegal => Vec::new(),
        }
    }
    /// The rank that a receive has got its data from, once it has them.
    ///
    /// # Errors
    /// Operations that are no receives.
    #[doc(alias = "torch.distributed.Work.source_rank")]
    pub fn source_rank(&self) -> Result<i64> {
        match &*self.0 {
            Kind::Transfer(p) if p.into.is_some() => {
                Ok(p.ranks.get(p.transfer.peer()).copied().unwrap_or(-1))
            }
            _ => bail!(
                Runtime,
                "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call."
            ),
        }
    }
}
fn illegal(what: &str) -> Error {
    Error::value(format!("Illegal to call {what} on IllegalWork object"))
}
fn settle(f: &Future<Vec<Tensor>>, r: &Result<()>, result: &[Tensor]) {
    let _ = match r {
        Ok(()) => f.set_result(result.to_vec()),
        Err(e) => f.set_exception(e.clone()),
    };
}
impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work(completed={})", self.is_completed())
    }
}
impl Task {
    fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        match self.done.wait_for(deadline(timeout.unwrap_or(Duration::MAX)), |d| d.how.clone()) {
            Some(r) => r,
            None => bail!(Runtime, "Operation timed out!"),
        }
    }
}
impl Point {
    fn wait(&self, timeout: Duration) -> Result<()> {
        let mut written = self.written.lock();
        if let Some(r) = &*written {
            return r.clone();
        }
        let r = self.mesh.wait(&self.transfer, timeout).and_then(|b| match &self.into {
            Some(t) => bytes::write_in_order(t, &b),
            None => Ok(()),
        });
        self.status.end(r.is_ok());
        *written = Some(r.clone());
        r
    }
}
