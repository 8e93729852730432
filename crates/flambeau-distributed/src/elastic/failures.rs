//! How workers have failed (`torch.distributed.elastic.multiprocessing.errors`).

use flambeau_core::{Error, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const NONE: &str = "<N/A>";

/// Seconds since 1970.
pub(crate) fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}
/// The signals that end a job unless somebody says others.
pub(crate) const SIGNALS_TO_HANDLE: &str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
/// The name of a signal.
pub fn signal_name(number: i32) -> &'static str {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    usize::try_from(number - 1).ok().and_then(|i| NAMES.get(i)).copied().unwrap_or(NONE)
}
/// How one worker has failed.
///
/// ```
/// use torch::distributed::elastic::failures::{ProcessFailure, failed_job, signal_name};
///
/// let f = ProcessFailure::new(1, 4711, -9, "no such file".as_ref());
/// assert_eq!((f.signal_name(), signal_name(15)), ("SIGKILL", "SIGTERM"));
/// assert!(failed_job("train", &[(3, f)]).contains("4711"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[doc(alias = "torch.distributed.elastic.multiprocessing.errors.ProcessFailure")]
pub struct ProcessFailure {
    /// Its number on this machine.
    pub local_rank: i64,
    /// Its process.
    pub pid: u32,
    /// Its exit code, or the negative number of the signal that ended it.
    pub exit_code: i32,
    /// Where it has written its error, if it has.
    pub error_file: String,
    /// What it has written: a text, or an object with `message` and `extraInfo`.
    pub message: Value,
    /// When it has failed, in seconds since 1970.
    pub timestamp: i64,
}
impl ProcessFailure {
    /// Of a worker's end; its error file is read if it is there.
    pub fn new(local_rank: i64, pid: u32, exit_code: i32, error_file: &Path) -> ProcessFailure {
        let data = std::fs::read_to_string(error_file).ok();
        let data: Option<Value> = data.and_then(|t| serde_json::from_str(&t).ok());
        let (mut message, mut timestamp, mut file) = (Value::Null, seconds(), NONE.to_owned());
        if let Some(d) = data {
            let m = d["message"].clone();
            let at = if m.is_string() { d.get("timestamp") } else { m["extraInfo"].get("timestamp") };
            let at = at.and_then(|t| t.as_i64().or_else(|| t.as_str()?.parse().ok()));
            (message, timestamp, file) = (m, at.unwrap_or(0), error_file.display().to_string());
        }
        if message.is_null() || message.as_str() == Some("") {
            message = json!(if exit_code < 0 {
                format!("Signal {} ({}) received by PID {pid}", -exit_code, signal_name(-exit_code))
            } else {
                "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html".to_owned()
            });
        }
        ProcessFailure { local_rank, pid, exit_code, error_file: file, message, timestamp }
    }
    /// The name of the signal that has ended it.
    pub fn signal_name(&self) -> &'static str {
        if self.exit_code < 0 { signal_name(-self.exit_code) } else { NONE }
    }
    fn text(&self) -> String {
        match &self.message {
            Value::String(s) => s.clone(),
            m => m["extraInfo"]["py_callstack"]
                .as_str()
                .or(m["message"].as_str())
                .unwrap_or(NONE)
                .replace('\n', "\n  "),
        }
    }
    fn shown(&self, index: usize, rank: i64) -> String {
        let signal = self.signal_name();
        let signal = if signal == NONE { String::new() } else { format!(" ({signal})") };
        format!(
            "[{index}]:\n  time      : {}\n  host      : {}\n  rank      : {rank} (local_rank: {})\n  exitcode  : {} (pid: {}) {signal}\n  error_file: {}\n  traceback : {}",
            iso(self.timestamp),
            crate::gloo::host_name(),
            self.local_rank,
            self.exit_code,
            self.pid,
            self.error_file,
            self.text()
        )
    }
}
/// As `2026-01-02_03:04:05`, in universal time.
fn iso(seconds: i64) -> String {
    let (y, m, d) = civil(seconds.div_euclid(86400));
    let s = seconds.rem_euclid(86400);
    format!("{y:04}-{m:02}-{d:02}_{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}
/// Year, month and day of a number of days since 1970 (Hinnant's algorithm).
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month as u32, (doy - (153 * mp + 2) / 5 + 1) as u32)
}
/// The reverse of [`civil`].
pub(crate) fn days(year: i64, month: u32, day: u32) -> i64 {
    let y = year - i64::from(month <= 2);
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let mp = i64::from((month + 9) % 12);
    let doy = (153 * mp + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// What is printed of a job that has failed: the worker that failed first, and the others.
#[doc(alias = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError")]
pub fn failed_job(name: &str, failures: &[(i64, ProcessFailure)]) -> String {
    let title = format!("{name} FAILED");
    let first = failures.iter().min_by_key(|f| f.1.timestamp).map(|f| f.0);
    let (mut root, mut others) = (String::new(), Vec::new());
    let mut width = title.len();
    for (i, (rank, f)) in failures.iter().enumerate() {
        let text = f.shown(i, *rank);
        width = text.lines().map(str::len).max().unwrap_or(0).max(width);
        if Some(*rank) == first { root = text } else { others.push(text) }
    }
    let width = width.min(60);
    let others = if others.is_empty() { "  <NO_OTHER_FAILURES>".to_owned() } else { others.join("\n") };
    let (line, thin) = ("=".repeat(width), "-".repeat(width));
    format!(
        "\n{line}\n{title}\n{thin}\nFailures:\n{others}\n{thin}\nRoot Cause (first observed failure):\n{root}\n{line}"
    )
}

/// Runs a worker's main function, and writes its error where the agent looks for it (`TORCHELASTIC_ERROR_FILE`).
///
/// ```
/// use torch::distributed::elastic::failures::record;
/// assert_eq!(record(|| Ok(3))?, 3);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Those of the function.
#[doc(alias = "torch.distributed.elastic.multiprocessing.errors.record")]
pub fn record<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    let write = |text: &str| {
        if let Some(path) = std::env::var_os("TORCHELASTIC_ERROR_FILE") {
            let info = json!({"py_callstack": text, "timestamp": seconds().to_string()});
            let page = json!({"message": {"message": text, "extraInfo": info}});
            let path = std::path::PathBuf::from(path);
            if let Some(dir) = path.parent() {
                let _ = std::fs::create_dir_all(dir);
            }
            let _ = std::fs::write(path, page.to_string());
        }
    };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(Ok(r)) => Ok(r),
        Ok(Err(e)) => {
            write(&format!("{}: {e}", e.kind().class_name()));
            Err(e)
        }
        Err(p) => {
            let text =
                p.downcast_ref::<String>().map(String::as_str).or_else(|| p.downcast_ref::<&str>().copied());
            write(&format!("RuntimeError: {}", text.unwrap_or("a panic")));
            std::panic::resume_unwind(p)
        }
    }
}
/// An error for a job that has failed.
pub(crate) fn job_error(name: &str, failures: &[(i64, ProcessFailure)]) -> Error {
    Error::runtime(failed_job(name, failures))
}
