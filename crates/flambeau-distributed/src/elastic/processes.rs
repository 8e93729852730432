//! Workers as processes (`torch.distributed.elastic.multiprocessing`).

use super::failures::ProcessFailure;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::types::time::deadline;
use flambeau_core::{Error, Result, bail};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A worker's outputs: none, one of them, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "torch.distributed.elastic.multiprocessing.Std")]
pub enum Std {
    /// None.
    #[default]
    None,
    /// Standard output.
    Out,
    /// Standard error.
    Err,
    /// Both.
    All,
}
impl Std {
    /// From the number that stands for it.
    pub fn from_number(n: i64) -> Option<Std> {
        [Std::None, Std::Out, Std::Err, Std::All].get(usize::try_from(n).ok()?).copied()
    }
    /// The number that stands for it: 1 standard output, 2 standard error, 3 both.
    pub fn number(self) -> i64 {
        match self {
            Std::None => 0,
            Std::Out => 1,
            Std::Err => 2,
            Std::All => 3,
        }
    }
    /// PyTorch's name.
    pub fn name(self) -> &'static str {
        match self {
            Std::None => "NONE",
            Std::Out => "OUT",
            Std::Err => "ERR",
            Std::All => "ALL",
        }
    }
    fn has(self, bit: i64) -> bool {
        self.number() & bit != 0
    }
}
/// Outputs of all workers, or of each.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Stds {
    /// The same of all.
    All(Std),
    /// By local rank; none of the others.
    Each(BTreeMap<i64, Std>),
}
impl Default for Stds {
    fn default() -> Self {
        Stds::All(Std::None)
    }
}
impl IntoArg<Stds> for Stds {
    fn into_arg(self) -> Stds {
        self
    }
}
impl IntoArg<Stds> for Std {
    fn into_arg(self) -> Stds {
        Stds::All(self)
    }
}
impl Stds {
    /// Of a worker.
    pub fn of(&self, local_rank: i64) -> Std {
        match self {
            Stds::All(s) => *s,
            Stds::Each(m) => m.get(&local_rank).copied().unwrap_or_default(),
        }
    }
}
impl std::str::FromStr for Stds {
    type Err = Error;
    /// `0` to `3`, or `0:1,1:2`.
    fn from_str(vm: &str) -> Result<Stds> {
        let digit = |t: &str| if t.len() == 1 { t.parse().ok().and_then(Std::from_number) } else { None };
        if let Some(s) = digit(vm) {
            return Ok(Stds::All(s));
        }
        let mut all = BTreeMap::new();
        for part in vm.split(',') {
            let found = part.split_once(':').and_then(|(i, v)| {
                let i = if i.len() == 1 { i.parse::<i64>().ok() } else { None };
                Some((i?, digit(v)?))
            });
            let Some((i, s)) = found else {
                bail!(Value, "{vm} does not match: <^[0123]$> or <^(\\d:[0123],)*(\\d:[0123])$>")
            };
            all.insert(i, s);
        }
        Ok(Stds::Each(all))
    }
}
impl std::fmt::Display for Stds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stds::All(s) => write!(f, "{}", s.number()),
            Stds::Each(m) => {
                let all: Vec<String> =
                    m.iter().map(|(i, s)| format!("{i}: <Std.{}: {}>", s.name(), s.number())).collect();
                write!(f, "{{{}}}", all.join(", "))
            }
        }
    }
}

/// Texts of which a line has one, as an option takes them.
#[derive(Clone, Debug, Default)]
pub struct LineFilters(pub(crate) Vec<String>);
impl<S: Into<String>, const N: usize> IntoArg<LineFilters> for [S; N] {
    fn into_arg(self) -> LineFilters {
        LineFilters(self.into_iter().map(Into::into).collect())
    }
}
impl IntoArg<LineFilters> for Vec<String> {
    fn into_arg(self) -> LineFilters {
        LineFilters(self)
    }
}

/// What to start.
#[derive(Clone, Debug)]
pub struct ProcessesSpec {
    /// What the workers are called.
    pub name: String,
    /// The program and its arguments, by worker.
    pub commands: Vec<Vec<String>>,
    /// Variables, by worker.
    pub envs: Vec<Vec<(String, String)>>,
    /// Where output and errors go: a folder for each worker is made in it.
    pub log_dir: PathBuf,
    /// Which output goes to files instead.
    pub redirects: Stds,
    /// Which output goes to files as well.
    pub tee: Stds,
    /// Whose output is shown, where it is not all workers'.
    pub local_ranks_filter: Option<Vec<i64>>,
    /// What lines of teed output begin with; `[NAMEi]:` if left out.
    pub line_prefixes: Option<Vec<String>>,
    /// Lines of teed standard output with one of these texts go to `filtered_stdout.log` as well, all workers' to one file.
    pub duplicate_stdout_filters: LineFilters,
    /// The same of standard error, to `filtered_stderr.log`.
    pub duplicate_stderr_filters: LineFilters,
}

/// Starts workers.
///
/// # Errors
/// A program that cannot be started, files that cannot be made.
#[doc(alias = "torch.distributed.elastic.multiprocessing.start_processes")]
pub fn start_processes(spec: &ProcessesSpec) -> Result<SubprocessContext> {
    let mut all = SubprocessContext { workers: Vec::new(), copiers: Vec::new() };
    let kept = |LineFilters(texts): &LineFilters, name: &str| -> Result<Option<Arc<Kept>>> {
        if texts.is_empty() {
            return Ok(None);
        }
        std::fs::create_dir_all(&spec.log_dir).map_err(|e| Error::from(e).at_path(&spec.log_dir))?;
        let file = File::create(spec.log_dir.join(name))?;
        Ok(Some(Arc::new(Kept { texts: texts.clone(), file })))
    };
    let kept = [
        kept(&spec.duplicate_stdout_filters, "filtered_stdout.log")?,
        kept(&spec.duplicate_stderr_filters, "filtered_stderr.log")?,
    ];
    for (i, command) in spec.commands.iter().enumerate() {
        match all.start(spec, i as i64, command, &kept) {
            Ok(()) => {}
            Err(e) => {
                all.close(Signal::Kill, Duration::ZERO);
                return Err(e);
            }
        }
    }
    Ok(all)
}

/// How to end a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Signal {
    /// SIGTERM: it may tidy up.
    Term,
    /// SIGINT.
    Int,
    /// SIGHUP.
    Hup,
    /// SIGQUIT.
    Quit,
    /// SIGKILL: at once.
    Kill,
    /// Another one, by its number.
    Other(i32),
}
impl Signal {
    /// Of a signal's number.
    pub fn from_number(n: i32) -> Signal {
        match n {
            1 => Signal::Hup,
            2 => Signal::Int,
            3 => Signal::Quit,
            9 => Signal::Kill,
            15 => Signal::Term,
            n => Signal::Other(n),
        }
    }
}

/// A worker that was started.
#[derive(Debug)]
struct Started {
    child: Child,
    local_rank: i64,
    error_file: PathBuf,
    done: Option<ExitStatus>,
}
/// What has become of workers that have all ended well, or of which one has failed.
#[derive(Clone, Debug, Default)]
#[doc(alias = "torch.distributed.elastic.multiprocessing.api.RunProcsResult")]
pub struct RunProcsResult {
    /// How workers have failed, by local rank.
    pub failures: BTreeMap<i64, ProcessFailure>,
}
impl RunProcsResult {
    /// Whether one has.
    pub fn is_failed(&self) -> bool {
        !self.failures.is_empty()
    }
}
/// Workers that were started together.
#[doc(alias = "torch.distributed.elastic.multiprocessing.api.PContext")]
#[doc(alias = "torch.distributed.elastic.multiprocessing.api.SubprocessContext")]
#[doc(alias = "torch.distributed.elastic.multiprocessing.api.MultiprocessContext")]
#[derive(Debug)]
pub struct SubprocessContext {
    workers: Vec<Started>,
    copiers: Vec<JoinHandle<()>>,
}
impl SubprocessContext {
    /// The processes, by local rank.
    pub fn pids(&self) -> BTreeMap<i64, u32> {
        self.workers.iter().map(|w| (w.local_rank, w.child.id())).collect()
    }
    fn start(
        &mut self,
        spec: &ProcessesSpec,
        local_rank: i64,
        command: &[String],
        kept: &[Option<Arc<Kept>>; 2],
    ) -> Result<()> {
        let Some((program, args)) = command.split_first() else { bail!(Value, "no program") };
        let i = local_rank as usize;
        let dir = spec.log_dir.join(local_rank.to_string());
        std::fs::create_dir_all(&dir).map_err(|e| Error::from(e).at_path(&dir))?;
        let error_file = dir.join("error.json");
        let mut c = Command::new(program);
        c.args(args);
        for (k, v) in spec.envs.get(i).into_iter().flatten() {
            c.env(k, v);
        }
        c.env("TORCHELASTIC_ERROR_FILE", &error_file);
        let (redirects, tee) = (spec.redirects.of(local_rank), spec.tee.of(local_rank));
        let shown = spec.local_ranks_filter.as_ref().is_none_or(|f| f.contains(&local_rank));
        let file = |bit: i64, name: &str| -> Result<Option<File>> {
            if redirects.has(bit) || tee.has(bit) {
                Ok(Some(File::create(dir.join(name))?))
            } else {
                Ok(None)
            }
        };
        let (out, err) = (file(1, "stdout.log")?, file(2, "stderr.log")?);
        let stdio = |bit: i64, f: &Option<File>| -> Result<Stdio> {
            Ok(match f {
                None if shown => Stdio::inherit(),
                None => Stdio::null(),
                Some(_) if tee.has(bit) => Stdio::piped(),
                Some(f) => f.try_clone()?.into(),
            })
        };
        c.stdout(stdio(1, &out)?).stderr(stdio(2, &err)?);
        let mut child = c.spawn().map_err(|e| Error::from(e).at_path(program))?;
        let label = match &spec.line_prefixes {
            Some(p) => p.get(i).cloned().unwrap_or_default(),
            None => format!("[{}{local_rank}]:", spec.name),
        };
        for (from, to, error) in [
            (child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>), out, false),
            (child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>), err, true),
        ] {
            if let (Some(from), Some(to)) = (from, to) {
                let kept = kept[usize::from(error)].clone();
                self.copiers.push(copy(from, to, label.clone(), (error, shown), kept)?);
            }
        }
        self.workers.push(Started { child, local_rank, error_file, done: None });
        Ok(())
    }
    /// Looks at the workers: nothing while they run; once all have ended well, or one has not, what has become of them. The others of
    /// a failed one are ended then.
    ///
    /// # Errors
    /// The system cannot be asked.
    pub fn poll(&mut self, grace: Duration) -> Result<Option<RunProcsResult>> {
        let mut failed = false;
        for w in self.workers.iter_mut().filter(|w| w.done.is_none()) {
            w.done = w.child.try_wait()?;
            if let Some(s) = w.done
                && !s.success()
            {
                failed = true;
                eprintln!(
                    "failed (exitcode: {}) local_rank: {} (pid: {})",
                    exit_code(s),
                    w.local_rank,
                    w.child.id()
                );
            }
        }
        if failed {
            self.close(Signal::Term, grace);
            return Ok(Some(self.result()));
        }
        if self.workers.iter().all(|w| w.done.is_some()) {
            self.join();
            return Ok(Some(RunProcsResult::default()));
        }
        Ok(None)
    }
    fn result(&self) -> RunProcsResult {
        let failed = self.workers.iter().filter_map(|w| {
            let s = w.done.filter(|s| !s.success())?;
            Some((w.local_rank, ProcessFailure::new(w.local_rank, w.child.id(), exit_code(s), &w.error_file)))
        });
        RunProcsResult { failures: failed.collect() }
    }
    /// Ends workers that run: by a signal, and by SIGKILL after the time of grace.
    pub fn close(&mut self, signal: Signal, grace: Duration) {
        let end = deadline(grace);
        for w in self.workers.iter_mut().filter(|w| w.done.is_none()) {
            tell(&mut w.child, signal);
        }
        while signal != Signal::Kill && Instant::now() < end && self.running() {
            std::thread::sleep(Duration::from_millis(10));
        }
        for w in self.workers.iter_mut().filter(|w| w.done.is_none()) {
            if let Ok(Some(s)) = w.child.try_wait() {
                w.done = Some(s);
                continue;
            }
            let _ = w.child.kill();
            w.done = w.child.wait().ok();
        }
        self.join();
    }
    fn running(&mut self) -> bool {
        for w in self.workers.iter_mut().filter(|w| w.done.is_none()) {
            w.done = w.child.try_wait().ok().flatten();
        }
        self.workers.iter().any(|w| w.done.is_none())
    }
    /// Waits until what workers have written is in the files; a process that outlives its worker may hold a pipe open, and is not
    /// waited for.
    fn join(&mut self) {
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end && self.copiers.iter().any(|c| !c.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.copiers.clear();
    }
}
impl Drop for SubprocessContext {
    fn drop(&mut self) {
        self.close(Signal::Kill, Duration::ZERO);
    }
}
fn tell(child: &mut Child, signal: Signal) {
    #[cfg(unix)]
    {
        use rustix::process::Signal as S;
        let s = match signal {
            Signal::Term => S::TERM,
            Signal::Int => S::INT,
            Signal::Hup => S::HUP,
            Signal::Quit => S::QUIT,
            Signal::Kill => S::KILL,
            Signal::Other(n) => S::from_named_raw(n).unwrap_or(S::TERM),
        };
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(child), s);
    }
    #[cfg(not(unix))]
    {
        let _ = (signal, child.kill());
    }
}
/// Lines that are kept apart, of all workers.
struct Kept {
    texts: Vec<String>,
    file: File,
}
impl Kept {
    fn wants(&self, line: &[u8]) -> bool {
        let line = String::from_utf8_lossy(line);
        self.texts.iter().any(|t| line.contains(t.as_str()))
    }
}
/// Each line to the file, and with the worker's name to this process's own output.
fn copy(
    from: Box<dyn Read + Send>,
    mut to: File,
    label: String,
    (error, shown): (bool, bool),
    kept: Option<Arc<Kept>>,
) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("worker output".into()).spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(std::result::Result::ok) {
            let _ = to.write_all(&line).and_then(|()| to.write_all(b"\n"));
            let labelled = [label.as_bytes(), &line, b"\n"].concat();
            if let Some(k) = kept.as_ref().filter(|k| k.wants(&line)) {
                // one write a line, so lines of several workers stay whole
                let _ = (&k.file).write_all(&labelled);
            }
            if !shown {
                continue;
            }
            let line = labelled;
            let _ =
                if error { std::io::stderr().write_all(&line) } else { std::io::stdout().write_all(&line) };
        }
    })?;
    Ok(thread)
}
/// An exit code, or the negative number of the signal that has ended a process.
pub(crate) fn exit_code(s: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(n) = std::os::unix::process::ExitStatusExt::signal(&s) {
        return -n;
    }
    s.code().unwrap_or(1)
}
/// A new folder for a run's output and errors, in the given one or in that for temporary files.
pub(crate) fn run_dir(log_dir: Option<&str>, run_id: &str) -> Result<PathBuf> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let base = match log_dir {
        Some(d) => PathBuf::from(d),
        None => std::env::temp_dir().join(format!("torchelastic_{}", std::process::id())),
    };
    let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let dir = base.join(format!("{run_id}_{}_{n}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| Error::from(e).at_path(Path::new(&dir)))?;
    Ok(dir)
}
