//! Jobs of many ranks in one process, for tests and for plans.
//!
//! [`simulate`] runs a function as each rank of a job. Everything works as it does between processes, the same algorithms run, but messages
//! go through a network that exists in the process alone: with a time of its own, which does not pass while ranks compute, and with the
//! faults that the options ask for. One rank runs at a time, and who is next follows from a seed, so a job goes the same way each time it
//! is simulated: what goes wrong once in a thousand runs on a cluster is a seed here, and fails until it is mended.
//!
//! How long it took is the time of the [`Cluster`] that the options describe. [`Cluster::predict`] says the same of a training step without
//! running it, for any number of ranks.

mod cluster;
pub(crate) mod fabric;
mod random;
pub(crate) mod scheduler;

pub use cluster::{Cluster, Cost, Link, Prediction, Step, Term};

use crate::calls::{Log, Recorded};
use crate::store::{HashStore, Store};
use crate::world::{self, DEFAULT_PG_TIMEOUT, InitProcessGroupOptions, World};
use fabric::{Fabric, Faults, Traffic};
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::types::order::Mutex;
use flambeau_core::types::time::CENTURY;
use flambeau_core::{Result, bail, ensure};
use scheduler::{Ended, Scheduler, Wait};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// As much of a thread's stack is reserved for each rank; what is not touched takes no memory.
const STACK: usize = 2 << 20;

/// The end of a rank that somebody pulls the plug of: its connections close, and nothing of it runs any more.
///
/// ```
/// use torch::distributed::simulation::{End, Kill, SimulateOptions, simulate_with};
/// use torch::distributed::try_all_reduce;
///
/// let job = simulate_with(
///     2,
///     |_| try_all_reduce(&torch::ones([1]), Default::default()).is_ok(),
///     SimulateOptions::new().kills(Kill::at_call(1, 0)),
/// );
/// assert!(matches!(job.ends()[0], End::Returned(false)));
/// assert!(job.ends()[1].returned().is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kill {
    rank: usize,
    when: When,
}
#[derive(Clone, Copy, PartialEq, Debug)]
enum When {
    At(Duration),
    Call(u64),
}
impl Kill {
    /// When so much of the world's time has passed.
    pub fn at(rank: usize, time: Duration) -> Kill {
        Kill { rank, when: When::At(time) }
    }
    /// When the rank calls its `n`-th operation, from 0, before any of it is sent.
    pub fn at_call(rank: usize, n: u64) -> Kill {
        Kill { rank, when: When::Call(n) }
    }
}
/// Kills as an option takes them: one, a vector or an array.
///
/// ```
/// use std::time::Duration;
/// use torch::distributed::simulation::{Kill, SimulateOptions, simulate_with};
/// let soon = Duration::from_millis(1);
/// let options = SimulateOptions::new().kills([Kill::at(0, soon), Kill::at(1, soon)]);
/// assert_eq!(simulate_with(2, |rank| rank, options).results(), [0, 1]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Kills(Vec<Kill>);
impl IntoArg<Kills> for Kill {
    fn into_arg(self) -> Kills {
        Kills(vec![self])
    }
}
impl IntoArg<Kills> for Kills {
    fn into_arg(self) -> Kills {
        self
    }
}
impl IntoArg<Kills> for Vec<Kill> {
    fn into_arg(self) -> Kills {
        Kills(self)
    }
}
impl<const N: usize> IntoArg<Kills> for [Kill; N] {
    fn into_arg(self) -> Kills {
        Kills(self.into())
    }
}
/// Variables of the environment as an option takes them.
///
/// ```
/// use std::collections::HashMap;
/// use torch::distributed::{self, simulation::{SimulateOptions, simulate_with}};
/// let options = SimulateOptions::new().env(HashMap::from([("LOCAL_RANK".to_string(), "3".to_string())]));
/// assert_eq!(simulate_with(1, |_| distributed::get_node_local_rank(None), options).results(), [3]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Variables(HashMap<String, String>);
impl IntoArg<Variables> for Variables {
    fn into_arg(self) -> Variables {
        self
    }
}
impl IntoArg<Variables> for HashMap<String, String> {
    fn into_arg(self) -> Variables {
        Variables(self)
    }
}
impl IntoArg<Cluster> for Cluster {
    fn into_arg(self) -> Cluster {
        self
    }
}

/// Each rank is a thread.
const MOST_RANKS: usize = 1 << 20;

/// Keywords of [`simulate_with`].
#[flambeau_macros::options]
pub struct SimulateOptions {
    /// What the order of turns, the delays and the losses follow from. Default: 0.
    #[default(0u64)]
    pub(crate) seed: u64,
    /// The machines. Default: one link of 20 microseconds and 25 Gbit/s between any two ranks.
    #[default(Cluster::new(Link::network(20.0, 25.0)))]
    pub(crate) cluster: Cluster,
    /// Each message takes longer by a time that is drawn, up to this. Default: none.
    #[default(Duration::ZERO)]
    pub(crate) delay: Duration,
    /// Whether messages with different tags may overtake each other on their way from one rank to another. Default: false.
    #[default(false)]
    pub(crate) reorder: bool,
    /// Which part of all messages is lost, as by a cable that is cut: neither side learns of it. Default: none.
    #[default(0.0)]
    pub(crate) drops: f64,
    /// Ranks that are killed. Default: none.
    #[default(Kills::default())]
    pub(crate) kills: Kills,
    /// How long operations may take, in the world's time. Default: half an hour.
    #[default(DEFAULT_PG_TIMEOUT)]
    pub(crate) timeout: Duration,
    /// Whether time goes on where ranks wait for nothing but their limits of time, so that they get the errors that they would get, instead
    /// of an end of the world that names the deadlock. Default: only where messages may be lost.
    pub(crate) run_into_timeouts: Option<bool>,
    /// Whether the ranks have joined the default group before the function begins. Default: true.
    #[default(true)]
    pub(crate) initialize: bool,
    /// Variables that ranks see as the environment's. Default: none.
    #[default(Variables::default())]
    pub(crate) env: Variables,
}

/// How a rank has ended.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum End<R> {
    /// The function has returned this.
    Returned(R),
    /// The function has panicked, with this text.
    Panicked(String),
    /// It was killed.
    Killed,
    /// It waited for something that would never come.
    Stuck,
}
impl<R> End<R> {
    /// What the function has returned, if it has.
    pub fn returned(&self) -> Option<&R> {
        if let End::Returned(r) = self { Some(r) } else { None }
    }
    fn name(&self) -> &'static str {
        match self {
            End::Returned(_) => "has returned",
            End::Panicked(_) => "has panicked",
            End::Killed => "was killed",
            End::Stuck => "waits",
        }
    }
}

/// What a rank did last in a world in which nothing can happen any more.
#[derive(Clone, PartialEq, Debug)]
pub struct LastCall {
    rank: usize,
    call: Option<Recorded>,
    how: &'static str,
    waits: Vec<String>,
}
impl LastCall {
    /// The rank.
    pub fn rank(&self) -> usize {
        self.rank
    }
    /// The operation that it has called last, if it has called one.
    pub fn call(&self) -> Option<&Recorded> {
        self.call.as_ref()
    }
}
impl fmt::Display for LastCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} {}", self.rank, self.how)?;
        for w in &self.waits {
            write!(f, " {w}")?;
        }
        match &self.call {
            Some(c) => write!(
                f,
                ", last called {}({:?}), number {} of group {:?}, which {}",
                c.operation,
                c.sizes,
                c.number,
                c.group,
                match c.progress {
                    crate::Progress::Started => "is not over",
                    crate::Progress::Completed => "is over",
                    crate::Progress::Failed => "has failed",
                }
            ),
            None => f.write_str(", has called nothing"),
        }
    }
}
/// Why nothing can happen any more: what each rank did last.
///
/// ```
/// use torch::distributed::simulation::{Deadlock, LastCall, Simulation, simulate};
/// use torch::distributed;
/// let job: Simulation<_> = simulate(2, |rank| distributed::recv(&torch::zeros([1]), Some((1 - rank).into())));
/// let why: &Deadlock = job.deadlock().unwrap();
/// let first: &LastCall = &why.calls()[0];
/// assert_eq!((first.rank(), &*first.call().unwrap().operation), (0, "recv"));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Deadlock(Vec<LastCall>);
impl Deadlock {
    /// By rank.
    pub fn calls(&self) -> &[LastCall] {
        &self.0
    }
}
impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no rank can go on:")?;
        self.0.iter().try_for_each(|c| write!(f, "\n  {c}"))
    }
}

/// How a simulated job went.
#[derive(Clone, Debug)]
pub struct Simulation<R> {
    ends: Vec<End<R>>,
    time: Duration,
    traffic: Traffic,
    turns: u64,
    deadlock: Option<Deadlock>,
}
impl<R> Simulation<R> {
    /// How each rank has ended.
    pub fn ends(&self) -> &[End<R>] {
        &self.ends
    }
    /// How long the job took, in the world's time.
    pub fn time(&self) -> Duration {
        self.time
    }
    /// How many messages went from one rank to another.
    pub fn messages(&self) -> u64 {
        self.traffic.messages
    }
    /// How many bytes they had.
    pub fn bytes(&self) -> u64 {
        self.traffic.bytes
    }
    /// How many of them were lost.
    pub fn lost(&self) -> u64 {
        self.traffic.lost
    }
    /// How often a rank had its turn.
    pub fn turns(&self) -> u64 {
        self.turns
    }
    /// A number that is the same for two jobs whose messages went between the same ranks, in the same order, at the same times.
    pub fn fingerprint(&self) -> u64 {
        self.traffic.print
    }
    /// What each rank did last, where nothing could happen any more.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_ref()
    }
    /// What all ranks have returned. Panics with the error's text.
    #[track_caller]
    pub fn results(self) -> Vec<R> {
        flambeau_core::api::ergonomic::expect(self.try_results())
    }
    /// [`Simulation::results`] with an error instead of a panic.
    ///
    /// # Errors
    /// A rank that has not returned; a deadlock, with what each rank did last.
    pub fn try_results(self) -> Result<Vec<R>> {
        if let Some(d) = self.deadlock {
            bail!(Runtime, "{d}");
        }
        let mut all = Vec::new();
        for (rank, e) in self.ends.into_iter().enumerate() {
            match e {
                End::Returned(r) => all.push(r),
                End::Panicked(text) => bail!(Runtime, "rank {rank} has panicked: {text}"),
                other => bail!(Runtime, "rank {rank} {}", other.name()),
            }
        }
        Ok(all)
    }
}

/// Runs a function as each rank of a job, in this process and in a time of its own.
///
/// The function runs on a thread for each rank; what it calls of this library is about its job. Threads that it starts itself are no part
/// of the world and must not communicate. Time passes where messages are on their way, and by [`compute`].
///
/// ```
/// use std::time::Duration;
/// use torch::distributed::simulation::{self, SimulateOptions, simulate, simulate_with};
/// use torch::distributed;
///
/// let job = simulate(64, |rank| {
///     simulation::compute(Duration::from_millis(5));
///     let t = torch::tensor([rank as i64]);
///     distributed::all_reduce(&t);
///     t.item::<i64>()
/// });
/// assert!(job.time() > Duration::from_millis(5));
/// assert!(job.results().iter().all(|sum| *sum == 2016));
///
/// // each waits for the other to send first
/// let job = simulate_with(
///     2,
///     |rank| distributed::recv(&torch::zeros([1]), Some((1 - rank).into())),
///     SimulateOptions::new().seed(7),
/// );
/// let why = job.deadlock().unwrap().to_string();
/// assert!(why.contains("rank 1 waits for rank 0, last called recv([[1]])"), "{why}");
/// ```
///
/// # Errors
/// No ranks, or more than 2^20, a rank to kill that does not exist, a part of messages that is none, a cluster whose units do not fit, and what the
/// machine says where it has no more threads.
#[flambeau_macros::short(with)]
pub fn try_simulate<R: Send>(
    world_size: usize,
    f: impl Fn(usize) -> R + Sync,
    options: SimulateOptions,
) -> Result<Simulation<R>> {
    let o = options;
    ensure!(world_size > 0, Value, "a world of no ranks");
    ensure!(
        world_size <= MOST_RANKS,
        Value,
        "a world of {world_size} ranks takes more threads than machines have"
    );
    ensure!((0.0..=1.0).contains(&o.drops), Value, "a part of {} of all messages cannot be lost", o.drops);
    o.cluster.check()?;
    for k in &o.kills.0 {
        ensure!(k.rank < world_size, Value, "rank {} to kill is none of {world_size}", k.rank);
    }
    ensure!(
        scheduler::current().is_none(),
        Runtime,
        "a rank of a simulated world cannot simulate another one"
    );
    let limits = o.run_into_timeouts.unwrap_or(o.drops > 0.0);
    let scheduler = Scheduler::new(o.seed, limits, STACK);
    let faults = Faults { delay: o.delay.min(CENTURY), drops: o.drops, reorder: o.reorder };
    let calls = o.kills.0.iter().filter_map(|k| match k.when {
        When::Call(n) => Some((k.rank, n)),
        When::At(_) => None,
    });
    let network = Fabric::new(&scheduler, o.cluster, faults, o.seed, calls.collect());
    scheduler.set_fabric(network.clone());
    for k in &o.kills.0 {
        if let When::At(time) = k.when {
            let (s, n, rank) = (Arc::downgrade(&scheduler), Arc::downgrade(&network), k.rank);
            scheduler.after(
                time,
                Box::new(move || {
                    if let (Some(s), Some(n)) = (s.upgrade(), n.upgrade()) {
                        s.kill(rank);
                        n.leave(rank);
                    }
                }),
            );
        }
    }
    let store = HashStore::new();
    let logs: Mutex<Vec<Option<Arc<Log>>>> = Mutex::new(vec![None; world_size]);
    let rank_of_job = |rank: usize| {
        /// A rank that is over has no connections.
        struct Leave<'a>(&'a Fabric, usize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.leave(self.1);
            }
        }
        let _leave = Leave(&network, rank);
        let mut env = o.env.0.clone();
        for (name, value) in [("RANK", rank), ("WORLD_SIZE", world_size), ("LOCAL_RANK", rank)] {
            env.entry(name.into()).or_insert_with(|| value.to_string());
        }
        let world = World::with_env(env);
        logs.lock().unwrap_or_else(PoisonError::into_inner)[rank] = Some(world.log());
        world.enter(|| {
            if o.initialize {
                let init = InitProcessGroupOptions::new()
                    .store(Arc::new(store.clone()) as Arc<dyn Store>)
                    .rank(rank as i64)
                    .world_size(world_size as i64)
                    .timeout(o.timeout);
                world::init_process_group_with("gloo", init);
            }
            let r = f(rank);
            if world::is_initialized() {
                world::destroy_process_group();
            }
            r
        })
    };
    let all = scheduler.run(world_size, rank_of_job)?;
    let ends: Vec<End<R>> = all
        .into_iter()
        .map(|r| match r {
            Ok(r) => End::Returned(r),
            Err(Ended::Killed) => End::Killed,
            Err(Ended::Stuck) => End::Stuck,
            Err(Ended::Panicked(text)) => End::Panicked(text),
        })
        .collect();
    let logs = logs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let deadlock = scheduler.stuck().map(|waits| Deadlock(last_calls(&ends, &logs, &waits)));
    Ok(Simulation {
        deadlock,
        ends,
        time: scheduler.elapsed(),
        traffic: network.traffic(),
        turns: scheduler.switches(),
    })
}
fn last_calls<R>(ends: &[End<R>], logs: &[Option<Arc<Log>>], waits: &[(usize, Wait)]) -> Vec<LastCall> {
    let one = |(rank, end): (usize, &End<R>)| {
        let call = logs.get(rank).and_then(Option::as_ref).and_then(|l| l.all().pop());
        let waits = waits.iter().filter(|w| w.0 == rank).map(|(_, w)| {
            if w.send { format!("to send to rank {}", w.peer) } else { format!("for rank {}", w.peer) }
        });
        LastCall { rank, call, how: end.name(), waits: waits.collect() }
    };
    ends.iter().enumerate().map(one).collect()
}

/// Lets the time of a simulated world pass for this rank, as if it computed so long. Does nothing elsewhere, where time passes by itself.
pub fn compute(duration: Duration) {
    if let Some(t) = scheduler::current() {
        t.sleep(duration);
    }
}
/// How much time has passed in this thread's simulated world; none elsewhere.
///
/// ```
/// use std::time::Duration;
/// use torch::distributed::simulation::{compute, elapsed, simulate};
/// let job = simulate(1, |_| {
///     compute(Duration::from_secs(3600));
///     elapsed()
/// });
/// assert_eq!((job.results()[0], elapsed()), (Some(Duration::from_secs(3600)), None));
/// ```
pub fn elapsed() -> Option<Duration> {
    scheduler::current().map(|t| t.elapsed())
}

/// The network of this thread's world, if that is simulated.
pub(crate) fn fabric() -> Option<Arc<Fabric>> {
    scheduler::current()?.fabric()
}
/// This rank has added up so many bytes.
pub(crate) fn adds(bytes: usize) {
    if let Some(t) = scheduler::current()
        && let Some(f) = t.fabric()
    {
        let d = f.adds(bytes);
        if !d.is_zero() {
            t.sleep(d);
        }
    }
}
/// This rank calls an operation; it may be its last.
pub(crate) fn calls() {
    if let Some(t) = scheduler::current()
        && let Some(f) = t.fabric()
        && f.dies_now(t.rank)
    {
        f.leave(t.rank);
        t.die();
    }
}
