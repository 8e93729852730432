//! Starts a job's processes on this machine and looks after them: what `flambeau-run` does.
//!
//! Workers find what torchrun's find: the same variables, and a store that an agent serves and they are clients of. When one of
//! them fails, all are ended, and started again as often as `max_restarts` says. Machines whose agents are torchrun's and such whose
//! agents are these join one job.

mod command_line;

pub use command_line::{USAGE, command_line};

use crate::elastic::agent::{ElasticAgent as _, LocalElasticAgent, WorkerSpec, WorkerSpecOptions};
use crate::elastic::failures::job_error;
use crate::elastic::processes::{LineFilters, Stds};
use crate::elastic::rendezvous::{RendezvousParameters, get_rendezvous_handler};
use flambeau_core::{Result, ensure};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

/// What to start, and how.
#[flambeau_macros::options]
pub struct LaunchOptions {
    /// How many processes on each machine. Default: 1.
    #[default(1)]
    pub(crate) nproc_per_node: i64,
    /// How many machines. Default: 1.
    #[default(1)]
    pub(crate) nnodes: i64,
    /// The least number of machines, where it may change between this and `nnodes`.
    pub(crate) min_nodes: Option<i64>,
    /// Which of them this is. Default: 0.
    #[default(0)]
    pub(crate) node_rank: i64,
    /// Where machine 0 is. Default: this one.
    #[default("127.0.0.1")]
    pub(crate) master_addr: String,
    /// The port of the store there; of a single machine 0 finds a free one. Default: 29500 of several machines, else 0.
    pub(crate) master_port: Option<i64>,
    /// How machines find each other: `static` or `c10d`. Default: `static`.
    #[default("static")]
    pub(crate) rdzv_backend: String,
    /// Where they do; `master_addr` and `master_port` if left out.
    pub(crate) rdzv_endpoint: Option<String>,
    /// Further settings of that: `a=1,b=true`.
    #[default("")]
    pub(crate) rdzv_conf: String,
    /// This machine's address for others.
    pub(crate) local_addr: Option<String>,
    /// How often a failed job starts again. Default: 0.
    #[default(0)]
    pub(crate) max_restarts: i64,
    /// How often to look at the processes. Default: every tenth of a second.
    #[default(Duration::from_millis(100))]
    pub(crate) monitor_interval: Duration,
    /// The job's name. Default: `none`.
    #[default("none")]
    pub(crate) run_id: String,
    /// What the workers are called. Default: `default`.
    #[default("default")]
    pub(crate) role: String,
    /// Where output goes that is redirected, and errors are written; a folder for temporary files if left out.
    pub(crate) log_dir: Option<String>,
    /// Which output goes to files instead. Default: none.
    pub(crate) redirects: Option<Stds>,
    /// Which output goes to files as well. Default: none.
    pub(crate) tee: Option<Stds>,
    /// Whose output is shown, where it is not all workers'.
    pub(crate) local_ranks_filter: Option<Vec<i64>>,
    /// What lines of teed output begin with.
    pub(crate) log_line_prefix_template: Option<String>,
    /// Where events go: `null` or `console`.
    #[default("null")]
    pub(crate) event_log_handler: String,
    /// How long workers may take to end when they are told to. Default: 30 seconds.
    #[default(Duration::from_secs(30))]
    pub(crate) shutdown_timeout: Duration,
    /// Whether each worker finds `LOCAL_RANK` 0, and of the devices in `CUDA_VISIBLE_DEVICES` its own alone. Default: false.
    #[default(false)]
    pub(crate) virtual_local_rank: bool,
    /// Which processors workers are bound to. Default: none.
    pub(crate) numa_options: Option<crate::numa::NumaOptions>,
    /// Lines of teed standard output that contain one of these go to `filtered_stdout.log` as well.
    pub(crate) duplicate_stdout_filters: Option<LineFilters>,
    /// The same of standard error, to `filtered_stderr.log`.
    pub(crate) duplicate_stderr_filters: Option<LineFilters>,
    /// Names of the signals that end the job, which workers find in `TORCHELASTIC_SIGNALS_TO_HANDLE`.
    #[default(crate::elastic::failures::SIGNALS_TO_HANDLE)]
    pub(crate) signals_to_handle: String,
}

/// Starts as many copies of a program as the options say, and waits for them.
///
/// ```no_run
/// use torch::distributed::launch::{LaunchOptions, launch};
///
/// launch(&["./train".to_owned()], LaunchOptions::new().nproc_per_node(2).max_restarts(3))?;
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Numbers that do not fit, a program that cannot be started, machines that do not come, and a worker's failure, whose text says how
/// each has ended.
pub fn launch(program: &[String], options: LaunchOptions) -> Result<()> {
    launch_until(program, options, &Arc::default())
}
/// [`launch`] until a signal's number is put into a cell: then the workers get that signal, and the job ends with an error.
///
/// # Errors
/// As [`launch`], and the signal.
pub fn launch_until(program: &[String], options: LaunchOptions, signal: &Arc<AtomicI32>) -> Result<()> {
    let o = options;
    ensure!(
        !program.is_empty(),
        Value,
        "the following arguments are required: training_script, training_script_args"
    );
    let min = o.min_nodes.unwrap_or(o.nnodes);
    ensure!(
        0 < min && min <= o.nnodes,
        Assertion,
        "min_nodes must be > 0 and <= max_nodes, got min_nodes={min}, max_nodes={}",
        o.nnodes
    );
    ensure!(o.max_restarts >= 0, Assertion, "max_restarts must be >= 0");
    ensure!(o.nproc_per_node > 0, Value, "Unsupported nproc_per_node value: {}", o.nproc_per_node);
    let mut config = crate::elastic::parse_rendezvous_config(&o.rdzv_conf)?;
    let endpoint = match &o.rdzv_endpoint {
        Some(e) => e.clone(),
        None if o.rdzv_backend == "static" => {
            let port = o.master_port.unwrap_or(if o.nnodes > 1 { 29500 } else { 0 });
            format!("{}:{port}", o.master_addr)
        }
        None => String::new(),
    };
    if o.rdzv_backend == "static" {
        ensure!(
            (0..o.nnodes).contains(&o.node_rank),
            Value,
            "node_rank {} of {} nodes",
            o.node_rank,
            o.nnodes
        );
        config.push(("rank".into(), o.node_rank.to_string()));
    }
    let mut p = RendezvousParameters::new(&o.rdzv_backend, &endpoint, &o.run_id, min, o.nnodes, config)?;
    p.local_addr = o.local_addr.clone();
    let handler = get_rendezvous_handler(&p)?;
    let mut w = WorkerSpecOptions::new()
        .max_restarts(o.max_restarts)
        .monitor_interval(o.monitor_interval)
        .event_log_handler(o.event_log_handler)
        .shutdown_timeout(o.shutdown_timeout)
        .virtual_local_rank(o.virtual_local_rank)
        .signals_to_handle(o.signals_to_handle);
    (w.log_dir, w.redirects, w.tee) = (o.log_dir, o.redirects, o.tee);
    (w.duplicate_stdout_filters, w.duplicate_stderr_filters) =
        (o.duplicate_stdout_filters, o.duplicate_stderr_filters);
    w.numa_options = o.numa_options;
    (w.local_ranks_filter, w.log_line_prefix_template) = (o.local_ranks_filter, o.log_line_prefix_template);
    let spec = WorkerSpec::new(&o.role, o.nproc_per_node, program, handler, w)?;
    let name = spec.get_entrypoint_name();
    let mut agent = LocalElasticAgent::new(spec)?;
    agent.watch(signal);
    let r = agent.run()?;
    let failures: Vec<_> = r.failures.clone().into_iter().collect();
    if r.is_failed() { Err(job_error(&name, &failures)) } else { Ok(()) }
}
