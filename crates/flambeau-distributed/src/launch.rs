//! Starts a job's processes on this machine and looks after them: what `flambeau-run` does.
//!
//! Workers find what torchrun's find: the same variables, and a store that this process serves and they are clients of. When one of
//! them fails, all are ended, and started again as often as `max_restarts` says.

use crate::store::{TCPStore, TCPStoreOptions};
use flambeau_core::{Error, Result, bail, ensure};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
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
    /// Which of them this is. Default: 0.
    #[default(0)]
    pub(crate) node_rank: i64,
    /// Where machine 0 is. Default: this one.
    #[default("127.0.0.1")]
    pub(crate) master_addr: String,
    /// The port of the store there; of a single machine 0 finds a free one. Default: 29500 of several machines, else 0.
    pub(crate) master_port: Option<i64>,
    /// How often a failed job of a single machine starts again. Default: 0.
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
    /// Which output goes to files instead: 1 standard output, 2 standard error, 3 both. Default: 0, none.
    #[default(0)]
    pub(crate) redirects: i64,
    /// Which output goes to files as well. Default: 0, none.
    #[default(0)]
    pub(crate) tee: i64,
}

/// How a worker has ended that failed first.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerFailure {
    /// Its number on this machine.
    pub local_rank: i64,
    /// Its rank.
    pub rank: i64,
    /// Its exit code, or the negative number of the signal that ended it.
    pub exit_code: i32,
    /// What it has written to `TORCHELASTIC_ERROR_FILE`.
    pub error: Option<String>,
}

/// Starts as many copies of a program as the options say, and waits for them.
///
/// # Errors
/// Numbers that do not fit, a program that cannot be started, a port that is taken; restarts over several machines, which this
/// does not do yet.
pub fn launch(program: &[String], options: LaunchOptions) -> Result<std::result::Result<(), WorkerFailure>> {
    let o = options;
    ensure!(
        !program.is_empty(),
        Value,
        "the following arguments are required: training_script, training_script_args"
    );
    ensure!(o.nproc_per_node > 0, Value, "Unsupported nproc_per_node value: {}", o.nproc_per_node);
    ensure!(
        o.nnodes > 0 && (0..o.nnodes).contains(&o.node_rank),
        Value,
        "node_rank {} of {} nodes",
        o.node_rank,
        o.nnodes
    );
    if o.nnodes > 1 && o.max_restarts > 0 {
        bail!(Missing, "restarts of a job on several machines");
    }
    let port = o.master_port.unwrap_or(if o.nnodes > 1 { 29500 } else { 0 });
    let port = u16::try_from(port).map_err(|_| Error::value(format!("port {port}")))?;
    let store = if o.node_rank == 0 {
        Some(TCPStore::new("127.0.0.1", port, TCPStoreOptions::new().is_master(true))?)
    } else {
        None
    };
    let port = store.as_ref().map_or(port, TCPStore::port);
    let dir = match &o.log_dir {
        Some(d) => PathBuf::from(d),
        None => std::env::temp_dir().join(format!("flambeau-run-{}", std::process::id())),
    };
    let dir = dir.join(&o.run_id);
    let mut attempt = 0;
    loop {
        let mut all = Vec::new();
        for local in 0..o.nproc_per_node {
            match start(program, &o, port, attempt, local, &dir) {
                Ok(w) => all.push(w),
                Err(e) => {
                    all.iter_mut().for_each(Worker::end);
                    return Err(e);
                }
            }
        }
        match watch(&mut all, o.monitor_interval)? {
            None => return Ok(Ok(())),
            Some(_) if attempt < o.max_restarts => attempt += 1,
            Some(f) => return Ok(Err(f)),
        }
    }
}

struct Worker {
    child: Child,
    local: i64,
    rank: i64,
    error_file: PathBuf,
    done: Option<ExitStatus>,
}
impl Worker {
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(
    program: &[String],
    o: &LaunchOptions,
    port: u16,
    attempt: i64,
    local: i64,
    dir: &Path,
) -> Result<Worker> {
    let (n, world) = (o.nproc_per_node, o.nproc_per_node * o.nnodes);
    let rank = o.node_rank * n + local;
    let dir = dir.join(format!("attempt_{attempt}")).join(local.to_string());
    std::fs::create_dir_all(&dir)?;
    let error_file = dir.join("error.json");
    let mut c = Command::new(&program[0]);
    c.args(&program[1..]);
    let numbers = [
        ("RANK", rank),
        ("LOCAL_RANK", local),
        ("WORLD_SIZE", world),
        ("LOCAL_WORLD_SIZE", n),
        ("GROUP_RANK", o.node_rank),
        ("GROUP_WORLD_SIZE", o.nnodes),
        ("ROLE_RANK", rank),
        ("ROLE_WORLD_SIZE", world),
        ("MASTER_PORT", port.into()),
        ("TORCHELASTIC_RESTART_COUNT", attempt),
        ("TORCHELASTIC_MAX_RESTARTS", o.max_restarts),
    ];
    for (k, v) in numbers {
        c.env(k, v.to_string());
    }
    c.env("ROLE_NAME", &o.role).env("MASTER_ADDR", &o.master_addr).env("TORCHELASTIC_RUN_ID", &o.run_id);
    c.env("TORCHELASTIC_USE_AGENT_STORE", "True").env("TORCHELASTIC_ERROR_FILE", &error_file);
    c.env("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
    c.env("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    if n > 1 && std::env::var_os("OMP_NUM_THREADS").is_none() {
        c.env("OMP_NUM_THREADS", "1");
    }
    let file = |bit: i64, name: &str| -> Result<Option<File>> {
        if (o.redirects | o.tee) & bit == 0 { Ok(None) } else { Ok(Some(File::create(dir.join(name))?)) }
    };
    let (out, err) = (file(1, "stdout.log")?, file(2, "stderr.log")?);
    let pipe = |bit: i64, f: &Option<File>| -> Result<Stdio> {
        Ok(match f {
            None => Stdio::inherit(),
            Some(_) if o.tee & bit != 0 => Stdio::piped(),
            Some(f) => f.try_clone()?.into(),
        })
    };
    c.stdout(pipe(1, &out)?).stderr(pipe(2, &err)?);
    let mut child = c.spawn().map_err(|e| Error::from(e).at_path(&program[0]))?;
    let label = format!("[{}{local}]:", o.role);
    if let (Some(from), Some(to)) = (child.stdout.take(), out) {
        copy(from, to, label.clone(), false)?;
    }
    if let (Some(from), Some(to)) = (child.stderr.take(), err) {
        copy(from, to, label, true)?;
    }
    Ok(Worker { child, local, rank, error_file, done: None })
}
/// Each line to the file, and with the worker's name to this process's own output.
fn copy(from: impl Read + Send + 'static, mut to: File, label: String, error: bool) -> Result<()> {
    std::thread::Builder::new().name("worker output".into()).spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(std::result::Result::ok) {
            let _ = to.write_all(&line).and_then(|()| to.write_all(b"\n"));
            let shown = [label.as_bytes(), &line, b"\n"].concat();
            let _ =
                if error { std::io::stderr().write_all(&shown) } else { std::io::stdout().write_all(&shown) };
        }
    })?;
    Ok(())
}
/// Waits until all have ended well, or one has not: then the others are ended.
fn watch(all: &mut [Worker], pause: Duration) -> Result<Option<WorkerFailure>> {
    loop {
        let mut failed = None;
        for w in all.iter_mut().filter(|w| w.done.is_none()) {
            w.done = w.child.try_wait()?;
            if let Some(s) = w.done
                && !s.success()
                && failed.is_none()
            {
                let error = std::fs::read_to_string(&w.error_file).ok();
                failed = Some(WorkerFailure { local_rank: w.local, rank: w.rank, exit_code: code(s), error });
            }
        }
        if failed.is_some() {
            all.iter_mut().for_each(Worker::end);
            return Ok(failed);
        }
        if all.iter().all(|w| w.done.is_some()) {
            return Ok(None);
        }
        std::thread::sleep(pause);
    }
}
fn code(s: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(n) = std::os::unix::process::ExitStatusExt::signal(&s) {
        return -n;
    }
    s.code().unwrap_or(1)
}
