//! Agents: one on each machine, which starts a job's workers there and looks after them (`torch.distributed.elastic.agent`).

use super::events::{Event, EventMetadataValue, EventSource, record};
use super::failures::ProcessFailure;
use super::metrics::put_metric;
use super::processes::{LineFilters, ProcessesSpec, Signal, Stds, SubprocessContext, start_processes};
use super::rendezvous::{RendezvousHandler, RendezvousInfo};
use super::substitute;
use crate::store::Store;
use flambeau_core::types::time::deadline;
use flambeau_core::{Error, Result, bail, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// How an agent's workers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.elastic.agent.server.WorkerState")]
pub enum WorkerState {
    /// Nobody knows.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerState.UNKNOWN")]
    Unknown,
    /// They are there, and not started.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerState.INIT")]
    Init,
    /// They run.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerState.HEALTHY")]
    Healthy,
    /// They run, and not as they should.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerState.UNHEALTHY")]
    Unhealthy,
    /// The agent has ended them.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerState.STOPPED")]
    Stopped,
    /// They have ended well.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerState.SUCCEEDED")]
    Succeeded,
    /// One has failed.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerState.FAILED")]
    Failed,
}
impl WorkerState {
    /// All states.
    pub const ALL: [WorkerState; 7] = [
        WorkerState::Unknown,
        WorkerState::Init,
        WorkerState::Healthy,
        WorkerState::Unhealthy,
        WorkerState::Stopped,
        WorkerState::Succeeded,
        WorkerState::Failed,
    ];
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            WorkerState::Unknown => "UNKNOWN",
            WorkerState::Init => "INIT",
            WorkerState::Healthy => "HEALTHY",
            WorkerState::Unhealthy => "UNHEALTHY",
            WorkerState::Stopped => "STOPPED",
            WorkerState::Succeeded => "SUCCEEDED",
            WorkerState::Failed => "FAILED",
        }
    }
    /// Whether workers run.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerState.is_running")]
    pub fn is_running(self) -> bool {
        matches!(self, WorkerState::Healthy | WorkerState::Unhealthy)
    }
}

/// Keywords of [`WorkerSpec`].
#[flambeau_macros::options]
pub struct WorkerSpecOptions {
    /// How often a failed job starts again. Default: 3.
    #[default(3)]
    pub(crate) max_restarts: i64,
    /// How often to look at the workers. Default: every tenth of a second.
    #[default(Duration::from_millis(100))]
    pub(crate) monitor_interval: Duration,
    /// Where the workers' store is, where it is not the rendezvous' word.
    pub(crate) master_addr: Option<String>,
    /// Its port.
    pub(crate) master_port: Option<u16>,
    /// Where output and errors go.
    pub(crate) log_dir: Option<String>,
    /// Which output goes to files instead.
    pub(crate) redirects: Option<Stds>,
    /// Which output goes to files as well.
    pub(crate) tee: Option<Stds>,
    /// Whose output is shown, where it is not all workers'.
    pub(crate) local_ranks_filter: Option<Vec<i64>>,
    /// What lines of teed output begin with: `${role_name}`, `${local_rank}`, `${rank}` and `${hostname}` are replaced.
    pub(crate) log_line_prefix_template: Option<String>,
    /// Where events go: `null` or `console`.
    #[default("null")]
    pub(crate) event_log_handler: String,
    /// How long workers may take to end when they are told to. Default: 30 seconds.
    #[default(Duration::from_secs(30))]
    pub(crate) shutdown_timeout: Duration,
    /// How long an agent waits for the others at the end. Default: 5 minutes.
    #[default(Duration::from_secs(300))]
    pub(crate) exit_barrier_timeout: Duration,
    /// Whether each worker finds `LOCAL_RANK` 0, and of the devices in `CUDA_VISIBLE_DEVICES` its own alone. Default: false.
    #[default(false)]
    pub(crate) virtual_local_rank: bool,
    /// Which processors workers are bound to. Default: none.
    pub(crate) numa_options: Option<crate::numa::NumaOptions>,
    /// Lines of teed standard output that contain one of these go to `filtered_stdout.log` as well.
    pub(crate) duplicate_stdout_filters: Option<LineFilters>,
    /// The same of standard error, to `filtered_stderr.log`.
    pub(crate) duplicate_stderr_filters: Option<LineFilters>,
    /// Names of the signals that end the job and are handed on to the workers, as workers find them in their variables.
    #[default(super::failures::SIGNALS_TO_HANDLE)]
    pub(crate) signals_to_handle: String,
}
/// The workers of an agent.
#[doc(alias = "torch.distributed.elastic.agent.server.WorkerSpec")]
pub struct WorkerSpec {
    /// What they do in the job.
    pub role: String,
    /// How many.
    pub local_world_size: i64,
    /// The program and its arguments; `${local_rank}` is replaced.
    pub entrypoint: Vec<String>,
    /// How agents find each other.
    pub rdzv_handler: Box<dyn RendezvousHandler>,
    /// Everything else.
    pub options: WorkerSpecOptions,
}
impl std::fmt::Debug for WorkerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkerSpec({}, {} x {:?})", self.role, self.local_world_size, self.entrypoint)
    }
}
impl WorkerSpec {
    /// Checks them.
    ///
    /// # Errors
    /// No workers, no program, an interval of 0.
    pub fn new(
        role: &str,
        local_world_size: i64,
        entrypoint: &[String],
        rdzv_handler: Box<dyn RendezvousHandler>,
        options: WorkerSpecOptions,
    ) -> Result<WorkerSpec> {
        ensure!(local_world_size > 0, Assertion, "");
        ensure!(!options.monitor_interval.is_zero(), Assertion, "");
        ensure!(!entrypoint.is_empty(), Value, "a job without a program");
        Ok(WorkerSpec {
            role: role.to_owned(),
            local_world_size,
            entrypoint: entrypoint.to_vec(),
            rdzv_handler,
            options,
        })
    }
    /// The program's name.
    #[doc(alias = "torch.distributed.elastic.agent.server.WorkerSpec.get_entrypoint_name")]
    pub fn get_entrypoint_name(&self) -> String {
        let first = self.entrypoint.first().map_or("", String::as_str);
        first.rsplit('/').next().unwrap_or(first).to_owned()
    }
}
/// One worker.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.elastic.agent.server.Worker")]
pub struct Worker {
    /// Its process, once it is started.
    pub id: Option<u32>,
    /// Its number on this machine.
    pub local_rank: i64,
    /// Its rank in the job.
    pub global_rank: i64,
    /// Its rank among those of its role.
    pub role_rank: i64,
    /// How many workers the job has.
    pub world_size: i64,
    /// How many the role has.
    pub role_world_size: i64,
}
/// The workers of an agent in a round.
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.elastic.agent.server.WorkerGroup")]
pub struct WorkerGroup {
    /// The workers.
    pub workers: Vec<Worker>,
    /// How they are.
    pub state: WorkerState,
    /// This agent's number.
    pub group_rank: i64,
    /// How many agents there are.
    pub group_world_size: i64,
    /// Where the workers' store is.
    pub master_addr: String,
    /// Its port.
    pub master_port: u16,
}
impl Default for WorkerGroup {
    fn default() -> Self {
        WorkerGroup {
            workers: Vec::new(),
            state: WorkerState::Init,
            group_rank: 0,
            group_world_size: 0,
            master_addr: String::new(),
            master_port: 0,
        }
    }
}
/// How a job has ended.
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributed.elastic.agent.server.api.RunResult")]
pub struct RunResult {
    /// How the workers are.
    pub state: WorkerState,
    /// How workers of this machine have failed, by their rank in the job.
    pub failures: BTreeMap<i64, ProcessFailure>,
}
impl RunResult {
    /// Whether the job has failed.
    #[doc(alias = "torch.distributed.elastic.agent.server.api.RunResult.is_failed")]
    pub fn is_failed(&self) -> bool {
        self.state == WorkerState::Failed
    }
}

/// Ranks of an agent's workers: agents tell each other through the store how many they have, and the first one counts.
///
/// # Errors
/// The store cannot be reached in time; what stands in it cannot be read.
#[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._assign_worker_ranks")]
pub fn assign_worker_ranks(
    store: &dyn Store,
    group_rank: i64,
    group_world_size: i64,
    role: &str,
    local_world_size: i64,
) -> Result<Vec<Worker>> {
    let wrong =
        |what: &str| Error::value(format!("what agents have told of their workers cannot be read: {what}"));
    let mine = format!(
        "{{\"role\": {}, \"rank\": {group_rank}, \"local_world_size\": {local_world_size}}}",
        json!(role)
    );
    store.set(&format!("torchelastic/role_info/{group_rank}"), mine.as_bytes())?;
    if group_rank == 0 {
        let keys: Vec<String> =
            (0..group_world_size).map(|i| format!("torchelastic/role_info/{i}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let mut infos = Vec::new();
        for b in store.multi_get(&keys)? {
            let v: serde_json::Value = serde_json::from_slice(&b).map_err(|e| wrong(&e.to_string()))?;
            let role = v["role"].as_str().ok_or_else(|| wrong("no role"))?.to_owned();
            let n = v["local_world_size"].as_i64().filter(|n| *n >= 0).ok_or_else(|| wrong("no number"))?;
            infos.push((role, n));
        }
        let total: i64 = infos.iter().map(|i| i.1).sum();
        let mut sizes: BTreeMap<&str, i64> = BTreeMap::new();
        infos.iter().for_each(|(r, n)| *sizes.entry(r).or_default() += n);
        let (mut base, mut begun): (i64, BTreeMap<&str, i64>) = (0, BTreeMap::new());
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (i, (role, n)) in infos.iter().enumerate() {
            let in_role = begun.entry(role).or_default();
            keys.push(format!("torchelastic/assigned_ranks/{i}"));
            values.push(format!("[{base}, {total}, {in_role}, {}]", sizes[role.as_str()]));
            base += n;
            *in_role += n;
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        store.multi_set(&keys, &values)?;
    }
    let b = store.get(&format!("torchelastic/assigned_ranks/{group_rank}"))?;
    let l: Vec<i64> = serde_json::from_slice(&b).map_err(|e| wrong(&e.to_string()))?;
    let [base, world_size, role_base, role_world_size] = l[..] else { return Err(wrong("not four numbers")) };
    let one = |local_rank| Worker {
        id: None,
        local_rank,
        global_rank: base + local_rank,
        role_rank: role_base + local_rank,
        world_size,
        role_world_size,
    };
    Ok((0..local_world_size).map(one).collect())
}

/// Starts a job's workers on one machine and looks after them.
#[doc(alias = "torch.distributed.elastic.agent.server.ElasticAgent")]
pub trait ElasticAgent {
    /// Runs the job to its end.
    ///
    /// # Errors
    /// Workers that cannot be started, a rendezvous that does not come about, a signal that ends this process.
    #[doc(alias = "torch.distributed.elastic.agent.server.ElasticAgent.run")]
    fn run(&mut self) -> Result<RunResult>;
    /// The workers.
    #[doc(alias = "torch.distributed.elastic.agent.server.ElasticAgent.get_worker_group")]
    fn get_worker_group(&self) -> &WorkerGroup;
}

/// An agent whose workers are processes of this machine.
///
/// When a worker fails, all workers of the job are ended and started again, as often as the options say; when agents come
/// or go, they are started again without counting.
#[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent")]
#[doc(alias = "torch.distributed.elastic.agent.server.local_elastic_agent.LocalElasticAgent")]
pub struct LocalElasticAgent {
    spec: WorkerSpec,
    group: WorkerGroup,
    run_dir: PathBuf,
    store: Option<Arc<dyn Store>>,
    remaining: i64,
    context: Option<SubprocessContext>,
    signal: Arc<AtomicI32>,
}
impl std::fmt::Debug for LocalElasticAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalElasticAgent({:?})", self.spec)
    }
}
impl LocalElasticAgent {
    /// Of these workers.
    ///
    /// # Errors
    /// The folder for output cannot be made.
    pub fn new(spec: WorkerSpec) -> Result<LocalElasticAgent> {
        let run_dir =
            super::processes::run_dir(spec.options.log_dir.as_deref(), spec.rdzv_handler.get_run_id())?;
        let remaining = spec.options.max_restarts;
        Ok(LocalElasticAgent {
            spec,
            group: WorkerGroup::default(),
            run_dir,
            store: None,
            remaining,
            context: None,
            signal: Arc::new(AtomicI32::new(0)),
        })
    }
    /// Says where a signal's number is put that ends the job.
    pub fn watch(&mut self, signal: &Arc<AtomicI32>) {
        self.signal = signal.clone();
    }
    /// Where output and errors of this run are.
    pub fn run_dir(&self) -> &std::path::Path {
        &self.run_dir
    }
    fn told(&self) -> Result<()> {
        let n = self.signal.load(Ordering::SeqCst);
        ensure!(n == 0, Runtime, "Process {} got signal: {n}", std::process::id());
        Ok(())
    }
    fn event(&self, name: &str, source: EventSource) -> Event {
        use EventMetadataValue::{Int, Str};
        let mut e = Event::new(name, source)
            .with("run_id", Str(self.spec.rdzv_handler.get_run_id().to_owned()))
            .with("group_rank", Int(self.group.group_rank))
            .with("role", Str(self.spec.role.clone()))
            .with("rdzv_backend", Str(self.spec.rdzv_handler.get_backend().to_owned()))
            .with("max_restarts", Int(self.spec.options.max_restarts));
        e.timestamp = super::failures::seconds() * 1000;
        e
    }
    #[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._rendezvous")]
    fn rendezvous(&mut self) -> Result<()> {
        let RendezvousInfo { store, rank, world_size, master_addr, master_port } =
            self.spec.rdzv_handler.next_rendezvous()?;
        let o = &self.spec.options;
        let workers =
            assign_worker_ranks(&*store, rank, world_size, &self.spec.role, self.spec.local_world_size)?;
        self.group = WorkerGroup {
            workers,
            state: WorkerState::Init,
            group_rank: rank,
            group_world_size: world_size,
            master_addr: o.master_addr.clone().unwrap_or(master_addr),
            master_port: o.master_port.unwrap_or(master_port),
        };
        self.store = Some(store);
        Ok(())
    }
    #[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._initialize_workers")]
    fn initialize(&mut self) -> Result<()> {
        self.rendezvous()?;
        self.start()?;
        self.group.state = WorkerState::Healthy;
        record(&self.event("START", EventSource::Worker), &self.spec.options.event_log_handler);
        Ok(())
    }
    #[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._start_workers")]
    fn start(&mut self) -> Result<()> {
        let (o, g) = (&self.spec.options, &self.group);
        let attempt = o.max_restarts - self.remaining;
        let omp = std::env::var_os("OMP_NUM_THREADS").is_none() && self.spec.local_world_size > 1;
        let (mut commands, mut envs, mut prefixes) = (Vec::new(), Vec::new(), Vec::new());
        for w in &g.workers {
            let local = w.local_rank.to_string();
            let command = substitute(&self.spec.entrypoint, &local);
            commands.push(match o.numa_options {
                Some(n) => n.wrap(&command, w.local_rank)?,
                None => command,
            });
            let number = |n: i64| n.to_string();
            let mut env: Vec<(&str, String)> = vec![
                ("LOCAL_RANK", if o.virtual_local_rank { "0".into() } else { local.clone() }),
                ("RANK", number(w.global_rank)),
                ("GROUP_RANK", number(g.group_rank)),
                ("ROLE_RANK", number(w.role_rank)),
                ("ROLE_NAME", self.spec.role.clone()),
                ("LOCAL_WORLD_SIZE", number(self.spec.local_world_size)),
                ("WORLD_SIZE", number(w.world_size)),
                ("GROUP_WORLD_SIZE", number(g.group_world_size)),
                ("ROLE_WORLD_SIZE", number(w.role_world_size)),
                ("MASTER_ADDR", g.master_addr.clone()),
                ("MASTER_PORT", g.master_port.to_string()),
                ("TORCHELASTIC_RESTART_COUNT", number(attempt)),
                ("TORCHELASTIC_MAX_RESTARTS", number(o.max_restarts)),
                ("TORCHELASTIC_RUN_ID", self.spec.rdzv_handler.get_run_id().to_owned()),
                ("TORCHELASTIC_USE_AGENT_STORE", "True".into()),
                ("TORCHELASTIC_SIGNALS_TO_HANDLE", o.signals_to_handle.clone()),
                (
                    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                    std::env::var("TORCH_NCCL_ASYNC_ERROR_HANDLING").unwrap_or_else(|_| "1".into()),
                ),
            ];
            if omp {
                env.push(("OMP_NUM_THREADS", "1".into()));
            }
            if o.virtual_local_rank {
                env.push(("CUDA_VISIBLE_DEVICES", own_device(w.local_rank)?));
            }
            envs.push(env.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
            if let Some(t) = &o.log_line_prefix_template {
                let t = t.replace("${role_name}", &self.spec.role).replace("${local_rank}", &local);
                let t = t.replace("${rank}", &w.global_rank.to_string());
                prefixes.push(t.replace("${hostname}", &crate::gloo::host_name()));
            }
        }
        let spec = ProcessesSpec {
            name: self.spec.role.clone(),
            commands,
            envs,
            log_dir: self.run_dir.join(format!("attempt_{attempt}")),
            redirects: o.redirects.clone().unwrap_or_default(),
            tee: o.tee.clone().unwrap_or_default(),
            local_ranks_filter: o.local_ranks_filter.clone(),
            line_prefixes: (!prefixes.is_empty()).then_some(prefixes),
            duplicate_stdout_filters: o.duplicate_stdout_filters.clone().unwrap_or_default(),
            duplicate_stderr_filters: o.duplicate_stderr_filters.clone().unwrap_or_default(),
        };
        let started = start_processes(&spec)?;
        for (local, pid) in started.pids() {
            if let Some(w) = self.group.workers.get_mut(local as usize) {
                w.id = Some(pid);
            }
        }
        self.context = Some(started);
        Ok(())
    }
    #[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._stop_workers")]
    fn stop(&mut self) {
        self.shutdown(Signal::Term);
        self.group.state = WorkerState::Stopped;
    }
    #[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._shutdown")]
    fn shutdown(&mut self, signal: Signal) {
        if let Some(mut c) = self.context.take() {
            c.close(signal, self.spec.options.shutdown_timeout);
        }
    }
    #[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._restart_workers")]
    fn restart(&mut self) -> Result<()> {
        self.stop();
        self.initialize()
    }
    #[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._monitor_workers")]
    fn monitor(&mut self) -> Result<RunResult> {
        let grace = self.spec.options.shutdown_timeout;
        let Some(c) = &mut self.context else {
            return Ok(RunResult { state: WorkerState::Unknown, failures: BTreeMap::new() });
        };
        Ok(match c.poll(grace)? {
            None => RunResult { state: WorkerState::Healthy, failures: BTreeMap::new() },
            Some(r) if r.is_failed() => {
                let rank =
                    |local: i64| self.group.workers.get(local as usize).map_or(local, |w| w.global_rank);
                let failures = r.failures.into_iter().map(|(l, f)| (rank(l), f)).collect();
                RunResult { state: WorkerState::Failed, failures }
            }
            Some(_) => RunResult { state: WorkerState::Succeeded, failures: BTreeMap::new() },
        })
    }
    /// Waits for the other agents, so that the store is there as long as any worker needs it.
    #[doc(alias = "torch.distributed.elastic.agent.server.SimpleElasticAgent._exit_barrier")]
    fn exit_barrier(&mut self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        const KEY: &str = "torchelastic/agent/terminal_state";
        let come = || -> Result<()> {
            let last = format!("{KEY}/last_member");
            if store.add(&format!("{KEY}/num_members"), 1)? == self.group.group_world_size {
                store.set(&last, b"<val_ignored>")?;
            }
            let end = deadline(self.spec.options.exit_barrier_timeout);
            while std::time::Instant::now() < end {
                self.told()?;
                if store.check(&[&last])? {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        };
        match come() {
            Err(e) if self.signal.load(Ordering::SeqCst) != 0 => Err(e),
            // an agent that has gone takes the store with it: this one's workers have done their work
            _ => Ok(()),
        }
    }
    fn invoke(&mut self) -> Result<RunResult> {
        self.initialize()?;
        let role = self.spec.role.clone();
        let mut looked = std::time::Instant::now();
        loop {
            std::thread::sleep(self.spec.options.monitor_interval);
            self.told()?;
            let r = self.monitor()?;
            self.group.state = r.state;
            put_metric(&format!("workers.{role}.remaining_restarts"), self.remaining, "torchelastic");
            put_metric(&format!("workers.{role}.{}", r.state.name().to_lowercase()), 1, "torchelastic");
            match r.state {
                WorkerState::Succeeded => {
                    self.exit_barrier()?;
                    return Ok(r);
                }
                WorkerState::Failed | WorkerState::Unhealthy => {
                    if self.remaining == 0 {
                        self.stop();
                        self.group.state = WorkerState::Failed;
                        return Ok(r);
                    }
                    self.remaining -= 1;
                    self.restart()?;
                }
                _ => {
                    // not more often than the state in the store may change
                    if looked.elapsed() > Duration::from_secs(1) {
                        looked = std::time::Instant::now();
                        if self.spec.rdzv_handler.num_nodes_waiting()? > 0 {
                            self.restart()?;
                        }
                    }
                }
            }
        }
    }
}
impl ElasticAgent for LocalElasticAgent {
    fn run(&mut self) -> Result<RunResult> {
        let r = self.invoke();
        let told = self.signal.load(Ordering::SeqCst);
        // workers of other machines go on only if this one's have ended well
        if !matches!(&r, Ok(r) if !r.is_failed()) && told == 0 {
            self.spec.rdzv_handler.shutdown();
        }
        self.shutdown(if told == 0 { Signal::Term } else { Signal::from_number(told) });
        let name = match &r {
            Ok(r) => r.state.name(),
            Err(_) => "FAILED",
        };
        record(&self.event(name, EventSource::Agent), &self.spec.options.event_log_handler);
        r
    }
    fn get_worker_group(&self) -> &WorkerGroup {
        &self.group
    }
}

/// The device that a worker sees alone: of those that this process sees, the one with its number.
fn own_device(local_rank: i64) -> Result<String> {
    let Ok(all) = std::env::var("CUDA_VISIBLE_DEVICES") else { return Ok(local_rank.to_string()) };
    match usize::try_from(local_rank).ok().and_then(|i| all.split(',').nth(i)) {
        Some(d) => Ok(d.trim().to_owned()),
        None => bail!(Value, "local_rank {local_rank} exceeds available GPUs in CUDA_VISIBLE_DEVICES={all}"),
    }
}
