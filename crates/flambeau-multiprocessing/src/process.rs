//! Copies of the program, and what becomes of them.

use crate::items::Message;
use crate::queue::line;
use crate::wire;
use flambeau_core::types::time::deadline;
use flambeau_core::{Error, Result, Value, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a copy of the program runs: it gets its number and the arguments.
pub type Function = fn(usize, &[Message]) -> Result<()>;

/// How the name of the program begins that a copy sees as its own (`argv[0]`). The number of the process that started it follows.
const MARK: &str = "spawned-by:";
/// What a copy ends with when the process that started it does: as if interrupted.
const ORPHAN: i32 = 128 + 2;

static FUNCTIONS: OnceLock<Vec<&'static str>> = OnceLock::new();
static RUNS_FUNCTION: AtomicBool = AtomicBool::new(false);

fn is_copy() -> bool {
    std::env::args_os().next().is_some_and(|a| a.to_string_lossy().starts_with(MARK))
}

/// Registers the functions that copies of the program run; the first thing in `main`. In a copy it runs the function and ends the
/// process: with 0, or with 1 where the function gives an error or panics, after sending its text.
///
/// See `torch::multiprocessing` for a program.
#[doc(alias = "torch.multiprocessing.freeze_support")]
pub fn freeze_support(functions: &[(&'static str, Function)]) {
    let _ = FUNCTIONS.set(functions.iter().map(|f| f.0).collect());
    if is_copy() {
        std::process::exit(run_copy(functions));
    }
}

fn run_copy(functions: &[(&'static str, Function)]) -> i32 {
    // standard input is the line to the process that started this one; programs find an empty one instead
    let parent = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(fd) => fd,
        Err(_) => return ORPHAN,
    };
    if let Ok(null) = std::fs::File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(null);
    }
    RUNS_FUNCTION.store(true, Ordering::Relaxed);
    let job = match wire::receive(&parent) {
        Ok(job) => job,
        // gone before it said what to do
        Err(e) if e.kind() == flambeau_core::ErrorKind::Io => return ORPHAN,
        Err(e) => return report(&parent, "?", &e),
    };
    let Ok(watched) = parent.try_clone() else { return ORPHAN };
    std::thread::spawn(move || end_with(&watched));
    let told = Ok::<_, Error>((job.first().map(Message::get::<String>), job.get(1).map(Message::int)));
    let (Ok((Some(Ok(name)), Some(Ok(index)))), true) = (told, job.len() >= 2) else {
        return report(&parent, "?", &Error::serialization("a job without a name"));
    };
    let Some(f) = functions.iter().find(|f| f.0 == name) else {
        return report(
            &parent,
            &name,
            &Error::attribute(format!("no function '{name}' is registered in the copy")),
        );
    };
    match catch_unwind(AssertUnwindSafe(|| (f.1)(index as usize, &job[2..]))) {
        Ok(Ok(())) => 0,
        Ok(Err(e)) => report(&parent, &name, &e),
        Err(p) => {
            let text = p.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| p.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text");
            report(&parent, &name, &Error::runtime(text))
        }
    }
}
/// Sends the parent why it ends.
fn report(parent: &OwnedFd, name: &str, e: &Error) -> i32 {
    let text = format!("Traceback (most recent call last):\n  in {name}\n{}: {e}\n", e.kind().class_name());
    let _ = wire::send(parent, &[text.into()]);
    1
}
/// Ends this process when the other end of the line is closed, as by the death of its process.
fn end_with(parent: &OwnedFd) {
    loop {
        let mut fds = [PollFd::new(parent, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
                std::process::exit(ORPHAN)
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// A copy gave an error or panicked. It is the [`source`](std::error::Error::source) of the error that [`ProcessContext::join`] gives.
#[doc(alias = "torch.multiprocessing.ProcessRaisedException")]
#[derive(Clone, Debug)]
pub struct ProcessRaisedException {
    /// The text, with that of the copy.
    pub msg: String,
    /// The copy's number.
    pub error_index: usize,
    /// Its process.
    pub error_pid: u32,
}
/// A copy ended otherwise than by the end of its function. It is the [`source`](std::error::Error::source) of the error that
/// [`ProcessContext::join`] gives.
#[doc(alias = "torch.multiprocessing.ProcessExitedException")]
#[derive(Clone, Debug)]
pub struct ProcessExitedException {
    /// The text.
    pub msg: String,
    /// The copy's number.
    pub error_index: usize,
    /// Its process.
    pub error_pid: u32,
    /// What it ended with; below 0 the signal that ended it.
    pub exit_code: i32,
    /// That signal's name: `SIGKILL`.
    pub signal_name: Option<String>,
}
macro_rules! errors {
    ($($t:ident),*) => {$(
        impl std::fmt::Display for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.msg)
            }
        }
        impl std::error::Error for $t {}
    )*};
}
errors!(ProcessRaisedException, ProcessExitedException);

fn signal_name(n: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    match usize::try_from(n - 1).ok().and_then(|i| NAMES.get(i)) {
        Some(name) => format!("SIG{name}"),
        None => format!("<Unknown signal {n}>"),
    }
}

/// How copies are started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpawnOptions {
    nprocs: usize,
    daemon: bool,
    start_method: String,
    args: Option<Vec<OsString>>,
}
impl Default for SpawnOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl SpawnOptions {
    /// One copy.
    pub fn new() -> Self {
        SpawnOptions { nprocs: 1, daemon: false, start_method: "spawn".into(), args: None }
    }
    /// How many copies. Default: 1.
    pub fn nprocs(mut self, n: usize) -> Self {
        self.nprocs = n;
        self
    }
    /// Whether copies end when their context is dropped, instead of being waited for. Default: no.
    pub fn daemon(mut self, on: bool) -> Self {
        self.daemon = on;
        self
    }
    /// How: `spawn`, the default, starts the program again. Threads do not survive the other ways (`Missing`).
    pub fn start_method(mut self, method: impl Into<String>) -> Self {
        self.start_method = method.into();
        self
    }
    /// The command line of the copies, for programs that read it before [`freeze_support`]. Default: this program's.
    pub fn command_line(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args = Some(args.into_iter().map(Into::into).collect());
        self
    }
}

/// How long to wait for copies.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct JoinOptions {
    timeout: Option<Duration>,
    grace_period: Option<Duration>,
}
impl JoinOptions {
    /// Until a copy ends, and without grace for the others when one fails.
    pub fn new() -> Self {
        Self::default()
    }
    /// Wait no longer.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }
    /// When a copy fails, wait so long for the others before they are ended (SIGTERM), and so long again before they are killed (30
    /// seconds where it is not said).
    pub fn grace_period(mut self, limit: Duration) -> Self {
        self.grace_period = Some(limit);
        self
    }
}

#[derive(Debug)]
struct Copy {
    child: Child,
    line: OwnedFd,
    /// Not waited for yet.
    open: bool,
}
impl Copy {
    fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

/// Copies of the program that run.
///
/// Dropping it waits for them, or ends them where they are daemons.
#[doc(alias = "torch.multiprocessing.ProcessContext")]
#[derive(Debug)]
pub struct ProcessContext {
    copies: Vec<Copy>,
    daemon: bool,
}
impl ProcessContext {
    /// Their processes.
    #[doc(alias = "torch.multiprocessing.ProcessContext.pids")]
    pub fn pids(&self) -> Vec<u32> {
        self.copies.iter().map(|c| c.child.id()).collect()
    }
    /// Waits until some copies end; whether all have. When one ends otherwise than by the end of its function, the others are ended too.
    ///
    /// # Errors
    /// Of the first copy that failed; [`source`](std::error::Error::source) is a [`ProcessRaisedException`] with the text that it sent,
    /// or a [`ProcessExitedException`].
    #[doc(alias = "torch.multiprocessing.SpawnContext.join")]
    pub fn join(&mut self) -> Result<bool> {
        self.join_with(JoinOptions::new())
    }
    /// As [`ProcessContext::join`], with limits of time.
    ///
    /// # Errors
    /// As there.
    pub fn join_with(&mut self, options: JoinOptions) -> Result<bool> {
        if self.copies.iter().all(|c| !c.open) {
            return Ok(true);
        }
        let ready = self.ended(options.timeout)?;
        let mut failed = None;
        for i in ready {
            let c = &mut self.copies[i];
            c.open = false;
            let status = c.child.wait()?;
            if !status.success() {
                failed = Some((i, status));
                break;
            }
        }
        let Some((index, status)) = failed else {
            return Ok(self.copies.iter().all(|c| !c.open));
        };
        if let Some(t) = options.grace_period {
            self.wait_at_most(t);
        }
        self.end(options.grace_period.unwrap_or(Duration::from_secs(30)));
        let copy = &self.copies[index];
        let error_pid = copy.child.id();
        let text = wire::receive_within(&copy.line, Duration::ZERO).ok().flatten();
        let text = text.and_then(|items| items.first()?.get::<String>().ok());
        if let Some(trace) = text {
            let msg = format!("\n\n-- Process {index} terminated with the following error:\n{trace}");
            return Err(Error::other(ProcessRaisedException { msg, error_index: index, error_pid }));
        }
        let (exit_code, signal_name) = match (status.code(), status.signal()) {
            (Some(code), _) => (code, None),
            (None, signal) => (-signal.unwrap_or(0), signal.map(signal_name)),
        };
        let how = match &signal_name {
            Some(s) => format!("signal {s}"),
            None => format!("exit code {exit_code}"),
        };
        let msg = format!("process {index} terminated with {how}");
        Err(Error::other(ProcessExitedException {
            msg,
            error_index: index,
            error_pid,
            exit_code,
            signal_name,
        }))
    }
    /// The copies that have ended of those that were not waited for, once there are any.
    fn ended(&mut self, limit: Option<Duration>) -> Result<Vec<usize>> {
        let until = limit.map(deadline);
        let open: Vec<usize> = (0..self.copies.len()).filter(|i| self.copies[*i].open).collect();
        // an end closes the line; a text on it comes a moment before
        let mut fds: Vec<PollFd<'_>> =
            open.iter().map(|i| PollFd::new(&self.copies[*i].line, PollFlags::empty())).collect();
        loop {
            let left = until.map(|u| wire::timespec(u.saturating_duration_since(Instant::now())));
            match poll(&mut fds, left.as_ref()) {
                Err(Errno::INTR) => {}
                Err(e) => return Err(std::io::Error::from(e).into()),
                Ok(_) => {
                    let gone = |f: &PollFd<'_>| !f.revents().is_empty();
                    return Ok(open.iter().zip(&fds).filter(|(_, f)| gone(f)).map(|(i, _)| *i).collect());
                }
            }
        }
    }
    fn wait_at_most(&mut self, limit: Duration) {
        let until = deadline(limit);
        while self.copies.iter_mut().any(Copy::alive) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    /// Ends all that still run.
    fn end(&mut self, patience: Duration) {
        for c in self.copies.iter_mut().filter_map(|c| c.alive().then_some(&*c)) {
            if let Some(pid) = i32::try_from(c.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        self.wait_at_most(patience);
        for c in &mut self.copies {
            if c.alive() {
                let _ = c.child.kill();
            }
            let _ = c.child.wait();
            c.open = false;
        }
    }
}
impl Drop for ProcessContext {
    fn drop(&mut self) {
        if self.daemon {
            self.end(Duration::from_secs(30));
        }
        for c in &mut self.copies {
            let _ = c.child.wait();
        }
    }
}

/// Starts copies of the program that run the function of this name, each with its number and the arguments, and gives what they are
/// waited for by.
///
/// # Errors
/// No function has this name; an argument cannot go to another process (see [`SimpleQueue::put`](crate::SimpleQueue::put)); the system
/// has no room for more processes; other ways to start them (`Missing`).
#[doc(alias = "torch.multiprocessing.start_processes")]
pub fn start_processes(function: &str, args: &[Message], options: SpawnOptions) -> Result<ProcessContext> {
    match &*options.start_method {
        "spawn" => {}
        m @ ("fork" | "forkserver") => {
            bail!(Missing, "start_method='{m}': threads do not survive it, use 'spawn'")
        }
        other => bail!(Value, "cannot find context for '{other}'"),
    }
    ensure!(
        !is_copy() || RUNS_FUNCTION.load(Ordering::Relaxed),
        Runtime,
        "An attempt has been made to start a new process before the current process has finished its bootstrapping phase: call \
         freeze_support first in main"
    );
    let known = FUNCTIONS.get().map_or(&[][..], Vec::as_slice);
    ensure!(
        known.contains(&function),
        Attribute,
        "no function '{function}' is registered: give it to freeze_support, first in main"
    );
    let program = std::env::current_exe()?;
    let mut names = std::env::args_os();
    let own = names.next().unwrap_or_default();
    let command_line: Vec<OsString> = options.args.unwrap_or_else(|| names.collect());
    let mut context = ProcessContext { copies: Vec::new(), daemon: true };
    for index in 0..options.nprocs {
        let (ours, theirs) = line()?;
        let mut mark = OsString::from(format!("{MARK}{}:", std::process::id()));
        mark.push(&own);
        let mut command = Command::new(&program);
        let child = command.args(&command_line).arg0(mark).stdin(Stdio::from(theirs)).spawn()?;
        // its end of the line would stay open in this process
        drop(command);
        context.copies.push(Copy { child, line: ours, open: true });
        let mut job = vec![Message::from(function), Message::Value(Value::Int(index as i64))];
        job.extend(args.iter().cloned());
        wire::send(&context.copies[index].line, &job)?;
    }
    // until here an error ends those that were started
    context.daemon = options.daemon;
    Ok(context)
}
/// One copy of the program that runs the function of this name; waits for it.
///
/// # Errors
/// As [`start_processes`] and [`ProcessContext::join`].
#[doc(alias = "torch.multiprocessing.spawn")]
pub fn spawn(function: &str, args: &[Message]) -> Result<()> {
    spawn_with(function, args, SpawnOptions::new())
}
/// Copies of the program that run the function of this name, `f(index, args)`; waits for all of them. When one fails, all are ended.
///
/// # Errors
/// As [`start_processes`] and [`ProcessContext::join`].
pub fn spawn_with(function: &str, args: &[Message], options: SpawnOptions) -> Result<()> {
    let mut context = start_processes(function, args, options)?;
    while !context.join()? {}
    Ok(())
}
