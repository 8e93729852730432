//! MPI as a group's engine, over the system's library: the feature `mpi`.
//!
//! One thread calls MPI, which is the one that has started it. Collectives run there in the order in which they were called, as every rank
//! calls them; messages are looked after in between, so none of them waits for a collective or for another message.

use crate::backend::{BackendArguments, CollectiveBackend};
use crate::bytes;
use crate::reduce_op::ReduceOp;
use crate::work::Work;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Device, Error, Result, Tensor, bail, ensure};
use flambeau_futures::Future;
use mpi::Rank;
use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::request::{LocalScope, Request};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{
    Communicator as _, CommunicatorCollectives as _, Destination as _, Equivalence, Group as _,
    MatchedReceiveVec as _, Root as _, Source as _,
};
use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

type Done = Future<Vec<Tensor>>;
enum Job {
    /// Makes the communicator of these ranks of the job; gives its number and this process's rank.
    Found(Vec<Rank>, Sender<Result<(usize, usize)>>),
    /// Runs a collective over a communicator.
    Call(usize, Box<dyn FnOnce(&SimpleCommunicator) -> Result<Vec<Tensor>> + Send>, Done),
    Send {
        over: usize,
        to: Rank,
        tag: i32,
        data: Vec<u8>,
        done: Done,
    },
    Recv(Wanted),
}
/// A message that shall come.
struct Wanted {
    over: usize,
    from: Rank,
    tag: i32,
    into: Tensor,
    done: Done,
}
/// A message that goes.
struct Going<'a, 's> {
    request: Option<Request<'a, [u8], &'s LocalScope<'a>>>,
    done: Done,
}
/// Data that go, which stay where they are until all have gone.
#[derive(Default)]
struct Data {
    bytes: Vec<u8>,
    next: OnceCell<Box<Data>>,
}

/// MPI in this process, from the first group until the last has gone.
pub(crate) struct Runtime {
    pub(crate) rank: i64,
    pub(crate) size: i64,
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}
static RUNNING: Mutex<Weak<Runtime>> = Mutex::new(Weak::new());

/// How long the thread looks for messages before it looks for work again.
const PAUSE: Duration = Duration::from_micros(50);

impl Runtime {
    /// MPI, started if it was not.
    pub(crate) fn get() -> Result<Arc<Runtime>> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(r) = running.upgrade() {
            return Ok(r);
        }
        let (tell, told) = channel();
        let (jobs, todo) = channel();
        let thread = std::thread::Builder::new().name("mpi".to_owned()).spawn(move || {
            // the thread that starts it is the one that may call it
            let Some((universe, _)) = mpi::initialize_with_threading(mpi::Threading::Funneled) else {
                return;
            };
            let world = universe.world();
            let _ = tell.send((i64::from(world.rank()), i64::from(world.size())));
            serve(world, &todo);
        })?;
        let Ok((rank, size)) = told.recv() else {
            bail!(Runtime, "MPI has been started in this process before: a process joins a job of MPI once")
        };
        let r =
            Arc::new(Runtime { rank, size, jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) });
        *running = Arc::downgrade(&r);
        Ok(r)
    }
    fn push(&self, job: Job) -> Result<()> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match jobs.map(|j| j.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => bail!(Runtime, "MPI has ended in this process"),
        }
    }
}
impl Drop for Runtime {
    /// Ends MPI, as it asks every process to before it exits.
    fn drop(&mut self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(t) = thread {
            let _ = t.join();
        }
    }
}

/// What the thread does.
fn serve(world: SimpleCommunicator, todo: &Receiver<Job>) {
    let mut state = State { over: vec![world], wanted: Vec::new() };
    loop {
        let data = Data::default();
        if !mpi::request::scope(|scope| state.round(scope, &data, todo)) {
            return;
        }
    }
}
struct State {
    over: Vec<SimpleCommunicator>,
    wanted: Vec<Wanted>,
}
impl State {
    /// Works until all that was sent has gone, so that its memory can be used again; false once nothing more will come.
    fn round<'a>(&mut self, scope: &LocalScope<'a>, data: &'a Data, todo: &Receiver<Job>) -> bool {
        let (mut going, mut last): (Vec<Going<'a, '_>>, &'a Data) = (Vec::new(), data);
        loop {
            for g in &mut going {
                g.request = match g.request.take().map(Request::test) {
                    Some(Err(r)) => Some(r),
                    _ => None,
                };
                if g.request.is_none() {
                    let _ = g.done.set_result(Vec::new());
                }
            }
            let before = going.len();
            going.retain(|g| g.request.is_some());
            if before > 0 && going.is_empty() {
                return true;
            }
            self.look();
            let job = if going.is_empty() && self.wanted.is_empty() {
                todo.recv().map_err(|_| ())
            } else {
                match todo.recv_timeout(PAUSE) {
                    Ok(job) => Ok(job),
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => Err(()),
                }
            };
            match job {
                Ok(Job::Found(ranks, tell)) => {
                    let _ = tell.send(self.found(&ranks));
                }
                Ok(Job::Call(over, f, done)) => {
                    let _ = match f(&self.over[over]) {
                        Ok(written) => done.set_result(written),
                        Err(e) => done.set_exception(e),
                    };
                }
                Ok(Job::Send { over, to, tag, data, done }) => {
                    last = last.next.get_or_init(|| Box::new(Data { bytes: data, next: OnceCell::new() }));
                    let to = self.over[over].process_at_rank(to);
                    let request = to.immediate_send_with_tag(scope, &last.bytes[..], tag);
                    going.push(Going { request: Some(request), done });
                }
                Ok(Job::Recv(w)) => self.wanted.push(w),
                Err(()) => {
                    // what goes is waited for: its memory may not go before
                    going.into_iter().filter_map(|g| g.request).for_each(|r| {
                        r.wait();
                    });
                    return false;
                }
            }
        }
    }
    fn found(&mut self, ranks: &[Rank]) -> Result<(usize, usize)> {
        let world = &self.over[0];
        ensure!(
            ranks.iter().all(|r| (0..world.size()).contains(r)),
            Value,
            "ranks that MPI has not got: {ranks:?}"
        );
        let group = world.group().include(ranks);
        let Some(mine) = world.split_by_subgroup(&group) else {
            bail!(Runtime, "this process is none of the group {ranks:?}")
        };
        let rank = mine.rank() as usize;
        self.over.push(mine);
        Ok((self.over.len() - 1, rank))
    }
    /// Takes what has come of what is wanted, the first message for the first who wants one.
    fn look(&mut self) {
        let mut i = 0;
        while i < self.wanted.len() {
            let w = &self.wanted[i];
            let from = self.over[w.over].process_at_rank(w.from);
            let Some(found) = from.immediate_matched_probe_with_tag(w.tag) else {
                i += 1;
                continue;
            };
            let (data, _) = found.matched_receive_vec::<u8>();
            let w = self.wanted.remove(i);
            let room = w.into.numel() as usize * w.into.dtype().size();
            let r = if data.len() > room {
                Err(Error::runtime(format!("a message of {} bytes for a buffer of {room}", data.len())))
            } else {
                bytes::write_in_order(&w.into, &data)
            };
            let _ = match r {
                Ok(()) => w.done.set_result(vec![w.into]),
                Err(e) => w.done.set_exception(e),
            };
        }
    }
}

/// MPI for one group.
struct Mpi {
    runtime: Arc<Runtime>,
    over: usize,
    size: usize,
}
/// Joins a group.
pub(crate) fn make(a: &BackendArguments) -> Result<Arc<dyn CollectiveBackend>> {
    let runtime = Runtime::get()?;
    let (tell, told) = channel();
    runtime.push(Job::Found(a.global_ranks.iter().map(|r| *r as Rank).collect(), tell))?;
    let (over, rank) = told.recv().map_err(|_| Error::runtime("MPI has ended in this process"))??;
    ensure!(
        rank == a.rank,
        Runtime,
        "rank {} of the group is {rank} for MPI: mpiexec says which rank a process has",
        a.rank
    );
    Ok(Arc::new(Mpi { runtime, over, size: a.size }))
}

/// What MPI's counts, which are 32 bits wide, can say.
fn countable(b: &[u8]) -> Result<()> {
    ensure!(b.len() <= i32::MAX as usize, Runtime, "MPI sends at most 2 GiB at once, not {} bytes", b.len());
    Ok(())
}
/// A tensor's elements in order.
fn read(t: &Tensor) -> Result<Vec<u8>> {
    ensure!(t.device() == Device::Cpu, Runtime, "MPI sends tensors of the CPU, not of {}", t.device());
    let b = bytes::read_in_order(t)?;
    countable(&b)?;
    Ok(b)
}
fn read_all(all: &[Tensor]) -> Result<Vec<u8>> {
    let parts: Vec<Vec<u8>> = all.iter().map(read).collect::<Result<_>>()?;
    let b = parts.concat();
    countable(&b)?;
    Ok(b)
}
/// The reverse of [`read_all`].
fn write_all(all: &[Tensor], mut b: &[u8]) -> Result<()> {
    for t in all {
        let (mine, rest) = b.split_at((t.numel() as usize * t.dtype().size()).min(b.len()));
        bytes::write_in_order(t, mine)?;
        b = rest;
    }
    Ok(())
}
fn like<'a>(all: impl IntoIterator<Item = &'a Tensor>, t: &Tensor) -> Result<()> {
    for o in all {
        ensure!(
            o.dtype() == t.dtype() && o.numel() == t.numel(),
            Runtime,
            "Tensors are not equal in size or data type"
        );
    }
    Ok(())
}
fn operation(op: ReduceOp) -> Result<SystemOperation> {
    Ok(match op {
        ReduceOp::Sum => SystemOperation::sum(),
        ReduceOp::Product => SystemOperation::product(),
        ReduceOp::Min => SystemOperation::min(),
        ReduceOp::Max => SystemOperation::max(),
        ReduceOp::BitAnd => SystemOperation::bitwise_and(),
        ReduceOp::BitOr => SystemOperation::bitwise_or(),
        ReduceOp::BitXor => SystemOperation::bitwise_xor(),
        ReduceOp::Avg | ReduceOp::PremulSum(_) => {
            bail!(Runtime, "Cannot use ReduceOp.{} with MPI", op.name())
        }
    })
}
/// Runs what is generic over elements with those of a dtype: from bytes, and to bytes.
macro_rules! typed {
    ($dtype:expr, $op:expr, $bytes:expr, $f:ident($($more:expr),*)) => {{
        let bits = matches!($op, ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor);
        let float = matches!($dtype, DType::F32 | DType::F64);
        ensure!(!(bits && float), Runtime, "Cannot use ReduceOp.{} with non-integral dtype", $op.name());
        match $dtype {
            DType::F32 => $f(numbers($bytes, f32::from_le_bytes), f32::to_le_bytes, $($more),*),
            DType::F64 => $f(numbers($bytes, f64::from_le_bytes), f64::to_le_bytes, $($more),*),
            DType::U8 => $f(numbers($bytes, u8::from_le_bytes), u8::to_le_bytes, $($more),*),
            DType::I8 => $f(numbers($bytes, i8::from_le_bytes), i8::to_le_bytes, $($more),*),
            DType::I16 => $f(numbers($bytes, i16::from_le_bytes), i16::to_le_bytes, $($more),*),
            DType::I32 => $f(numbers($bytes, i32::from_le_bytes), i32::to_le_bytes, $($more),*),
            DType::I64 => $f(numbers($bytes, i64::from_le_bytes), i64::to_le_bytes, $($more),*),
            _ => bail!(Runtime, "Invalid scalar type"),
        }
    }};
}
fn numbers<T, const N: usize>(b: &[u8], f: fn([u8; N]) -> T) -> Vec<T> {
    b.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
}
fn bytes_of<T: Copy, const N: usize>(v: &[T], f: fn(T) -> [u8; N]) -> Vec<u8> {
    v.iter().flat_map(|x| f(*x)).collect()
}
fn all_reduced<T: Equivalence + Copy, const N: usize>(
    own: Vec<T>,
    back: fn(T) -> [u8; N],
    over: &SimpleCommunicator,
    op: ReduceOp,
) -> Result<Vec<u8>> {
    let mut got = own.clone();
    over.all_reduce_into(&own[..], &mut got[..], operation(op)?);
    Ok(bytes_of(&got, back))
}
fn reduced<T: Equivalence + Copy, const N: usize>(
    own: Vec<T>,
    back: fn(T) -> [u8; N],
    over: &SimpleCommunicator,
    op: ReduceOp,
    root: usize,
) -> Result<Vec<u8>> {
    let (at, mut got) = (over.process_at_rank(root as Rank), own.clone());
    if over.rank() as usize == root {
        at.reduce_into_root(&own[..], &mut got[..], operation(op)?);
    } else {
        at.reduce_into(&own[..], operation(op)?);
    }
    Ok(bytes_of(&got, back))
}
fn scattered<T: Equivalence + Copy, const N: usize>(
    own: Vec<T>,
    back: fn(T) -> [u8; N],
    over: &SimpleCommunicator,
    op: ReduceOp,
) -> Result<Vec<u8>> {
    let mut got = own[..own.len() / over.size() as usize].to_vec();
    over.reduce_scatter_block_into(&own[..], &mut got[..], operation(op)?);
    Ok(bytes_of(&got, back))
}

impl Mpi {
    fn call(
        &self,
        f: impl FnOnce(&SimpleCommunicator) -> Result<Vec<Tensor>> + Send + 'static,
    ) -> Result<Work> {
        let done = Done::new();
        let work = Work::from_future(&done);
        self.runtime.push(Job::Call(self.over, Box::new(f), done))?;
        Ok(work)
    }
    fn list(&self, all: &[Tensor]) -> Result<()> {
        ensure!(
            all.len() == self.size,
            Runtime,
            "a list of {} tensors for a group of {}",
            all.len(),
            self.size
        );
        Ok(())
    }
    /// Every rank's bytes into these tensors, one after the other.
    fn gathered(&self, outputs: Vec<Tensor>, own: Vec<u8>) -> Result<Work> {
        self.call(move |over| {
            let mut all = vec![0u8; own.len() * over.size() as usize];
            over.all_gather_into(&own[..], &mut all[..]);
            write_all(&outputs, &all)?;
            Ok(outputs)
        })
    }
    /// Parts of these lengths to and from each rank.
    fn exchanged(&self, outputs: Vec<Tensor>, own: Vec<u8>, come: Vec<i32>, go: Vec<i32>) -> Result<Work> {
        self.call(move |over| {
            let mut all = vec![0u8; come.iter().sum::<i32>() as usize];
            let (to, from) = (starts(&go), starts(&come));
            {
                let mut parts = PartitionMut::new(&mut all[..], &come[..], &from[..]);
                over.all_to_all_varcount_into(&Partition::new(&own[..], &go[..], &to[..]), &mut parts);
            }
            write_all(&outputs, &all)?;
            Ok(outputs)
        })
    }
}
fn starts(counts: &[i32]) -> Vec<i32> {
    let next = |at: &mut i32, n: &i32| {
        *at += n;
        Some(*at - n)
    };
    counts.iter().scan(0, next).collect()
}
/// Bytes of each part of a tensor's rows: equal ones, or these numbers of rows.
fn parts(t: &Tensor, splits: &[i64], n: usize) -> Result<Vec<i32>> {
    let rows = t.sizes().first().copied().unwrap_or(1);
    let row = t.numel().checked_div(rows).unwrap_or(0) * t.dtype().size() as i64;
    if splits.is_empty() {
        ensure!(rows % n as i64 == 0, Runtime, "Tensor's dim 0 does not divide equally across group size");
        return Ok(vec![(rows / n as i64 * row) as i32; n]);
    }
    ensure!(splits.len() == n, Runtime, "Number of tensor splits not equal to group size");
    let fits = splits.iter().all(|s| *s >= 0) && splits.iter().sum::<i64>() == rows;
    ensure!(fits, Runtime, "Split sizes doesn't match total dim 0 size");
    Ok(splits.iter().map(|s| (s * row) as i32).collect())
}

impl CollectiveBackend for Mpi {
    fn name(&self) -> &str {
        "mpi"
    }
    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Work> {
        let (t, mut b) = (tensor.clone(), read(tensor)?);
        self.call(move |over| {
            over.process_at_rank(root as Rank).broadcast_into(&mut b[..]);
            bytes::write_in_order(&t, &b)?;
            Ok(vec![t])
        })
    }
    fn all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> Result<Work> {
        self.all_reduce_coalesced(std::slice::from_ref(tensor), op)
    }
    fn all_reduce_coalesced(&self, tensors: &[Tensor], op: ReduceOp) -> Result<Work> {
        let Some(first) = tensors.first() else { bail!(Runtime, "allreduce of no tensor") };
        let (all, b, dtype) = (tensors.to_vec(), read_all(tensors)?, first.dtype());
        ensure!(all.iter().all(|t| t.dtype() == dtype), Runtime, "tensors of several types in one allreduce");
        operation(op)?;
        self.call(move |over| {
            write_all(&all, &typed!(dtype, op, &b, all_reduced(over, op))?)?;
            Ok(all)
        })
    }
    fn reduce(&self, tensor: &Tensor, root: usize, op: ReduceOp) -> Result<Work> {
        let (t, b, dtype) = (tensor.clone(), read(tensor)?, tensor.dtype());
        operation(op)?;
        self.call(move |over| {
            let got = typed!(dtype, op, &b, reduced(over, op, root))?;
            if over.rank() as usize == root {
                bytes::write_in_order(&t, &got)?;
            }
            Ok(vec![t])
        })
    }
    fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Work> {
        self.list(outputs)?;
        like(outputs, input)?;
        self.gathered(outputs.to_vec(), read(input)?)
    }
    fn all_gather_into_tensor(&self, output: &Tensor, input: &Tensor) -> Result<Work> {
        let fits = output.dtype() == input.dtype() && output.numel() == input.numel() * self.size as i64;
        ensure!(fits, Runtime, "Tensors are not equal in size or data type");
        self.gathered(vec![output.clone()], read(input)?)
    }
    fn gather(&self, outputs: &[Tensor], input: &Tensor, root: usize) -> Result<Work> {
        like(outputs, input)?;
        let (outputs, own, n) = (outputs.to_vec(), read(input)?, self.size);
        self.call(move |over| {
            let at = over.process_at_rank(root as Rank);
            if over.rank() as usize != root {
                at.gather_into(&own[..]);
                return Ok(Vec::new());
            }
            let mut all = vec![0u8; own.len() * n];
            at.gather_into_root(&own[..], &mut all[..]);
            write_all(&outputs, &all)?;
            Ok(outputs)
        })
    }
    fn scatter(&self, output: &Tensor, inputs: &[Tensor], root: usize) -> Result<Work> {
        like(inputs, output)?;
        let (out, all, mut own) = (output.clone(), read_all(inputs)?, read(output)?);
        self.call(move |over| {
            let at = over.process_at_rank(root as Rank);
            if over.rank() as usize == root {
                at.scatter_into_root(&all[..], &mut own[..]);
            } else {
                at.scatter_into(&mut own[..]);
            }
            bytes::write_in_order(&out, &own)?;
            Ok(vec![out])
        })
    }
    fn reduce_scatter(&self, output: &Tensor, inputs: &[Tensor], op: ReduceOp) -> Result<Work> {
        self.list(inputs)?;
        like(inputs, output)?;
        let (out, b, dtype) = (output.clone(), read_all(inputs)?, output.dtype());
        operation(op)?;
        self.call(move |over| {
            bytes::write_in_order(&out, &typed!(dtype, op, &b, scattered(over, op))?)?;
            Ok(vec![out])
        })
    }
    fn reduce_scatter_tensor(&self, output: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Work> {
        let fits = output.dtype() == input.dtype() && output.numel() * self.size as i64 == input.numel();
        ensure!(fits, Runtime, "Tensors are not equal in size or data type");
        let (out, b, dtype) = (output.clone(), read(input)?, output.dtype());
        operation(op)?;
        self.call(move |over| {
            bytes::write_in_order(&out, &typed!(dtype, op, &b, scattered(over, op))?)?;
            Ok(vec![out])
        })
    }
    fn all_to_all_single(
        &self,
        output: &Tensor,
        input: &Tensor,
        output_splits: &[i64],
        input_splits: &[i64],
    ) -> Result<Work> {
        ensure!(output.dtype() == input.dtype(), Runtime, "Tensors are not equal in size or data type");
        let (come, go) = (parts(output, output_splits, self.size)?, parts(input, input_splits, self.size)?);
        self.exchanged(vec![output.clone()], read(input)?, come, go)
    }
    fn all_to_all(&self, outputs: &[Tensor], inputs: &[Tensor]) -> Result<Work> {
        self.list(outputs)?;
        self.list(inputs)?;
        let lens =
            |all: &[Tensor]| all.iter().map(|t| (t.numel() as usize * t.dtype().size()) as i32).collect();
        self.exchanged(outputs.to_vec(), read_all(inputs)?, lens(outputs), lens(inputs))
    }
    fn send(&self, tensor: &Tensor, to: usize, tag: i64) -> Result<Work> {
        let done = Done::new();
        let work = Work::from_future(&done);
        let (data, tag) = (read(tensor)?, tag_of(tag)?);
        self.runtime.push(Job::Send { over: self.over, to: to as Rank, tag, data, done })?;
        Ok(work)
    }
    fn recv(&self, tensor: &Tensor, from: usize, tag: i64) -> Result<Work> {
        let done = Done::new();
        let work = Work::from_future(&done);
        let (into, from, tag) = (tensor.clone(), from as Rank, tag_of(tag)?);
        self.runtime.push(Job::Recv(Wanted { over: self.over, from, tag, into, done }))?;
        Ok(work)
    }
    fn barrier(&self) -> Result<Work> {
        self.call(|over| {
            over.barrier();
            Ok(Vec::new())
        })
    }
}
/// Tags that every MPI has.
fn tag_of(tag: i64) -> Result<i32> {
    ensure!((0..=32767).contains(&tag), Runtime, "a tag of {tag}: MPI has those from 0 to 32767");
    Ok(tag as i32)
}
