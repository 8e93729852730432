//! What a process has asked of its groups lately: judges read it, reports of jobs that hang name it, and it is written to a file when
//! a rank does not come or has gone.

use crate::sync::Monitor;
use flambeau_core::{DType, Error, Result, Tensor};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// As many operations are remembered.
const KEPT: usize = 1000;

/// How far an operation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// It runs, or waits for others.
    Started,
    /// It has ended well.
    Completed,
    /// It has ended with an error.
    Failed,
}
impl Progress {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            Progress::Started => "started",
            Progress::Completed => "completed",
            Progress::Failed => "failed",
        }
    }
}
/// An operation's progress, which its thread reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status(Arc<AtomicU8>);
impl Status {
    pub(crate) fn end(&self, well: bool) {
        self.0.store(if well { 1 } else { 2 }, Ordering::Relaxed);
    }
    fn get(&self) -> Progress {
        match self.0.load(Ordering::Relaxed) {
            0 => Progress::Started,
            1 => Progress::Completed,
            _ => Progress::Failed,
        }
    }
}

/// What is called, with which tensors.
#[derive(Clone, Debug, Default)]
pub(crate) struct What {
    pub(crate) operation: &'static str,
    pub(crate) sizes: Vec<Vec<i64>>,
    pub(crate) dtypes: Vec<DType>,
    pub(crate) out_sizes: Vec<Vec<i64>>,
}
impl What {
    pub(crate) fn new<'a>(operation: &'static str, inputs: impl IntoIterator<Item = &'a Tensor>) -> What {
        let (mut sizes, mut dtypes) = (Vec::new(), Vec::new());
        for t in inputs {
            sizes.push(t.sizes().to_vec());
            dtypes.push(t.dtype());
        }
        What { operation, out_sizes: sizes.clone(), sizes, dtypes }
    }
    /// Where results have other sizes.
    pub(crate) fn gives(mut self, out_sizes: Vec<Vec<i64>>) -> What {
        self.out_sizes = out_sizes;
        self
    }
}

/// An operation that a process has asked for.
///
/// ```
/// use torch::distributed::simulation::simulate;
/// use torch::distributed::{self, Progress, Recorded};
///
/// let job = simulate(2, |rank| distributed::recv(&torch::zeros([3]), Some((1 - rank).into())));
/// let stuck: &Recorded = job.deadlock().unwrap().calls()[0].call().unwrap();
/// assert_eq!((stuck.operation.as_str(), stuck.progress), ("recv", Progress::Started));
/// assert_eq!((stuck.sizes[0].as_slice(), stuck.progress.name()), (&[3][..], "started"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recorded {
    /// Its number among those of this process.
    pub number: u64,
    /// The group's name.
    pub group: String,
    /// Its name: `all_reduce`, `broadcast`, ...
    pub operation: String,
    /// Sizes of what it was given.
    pub sizes: Vec<Vec<i64>>,
    /// Their dtypes.
    pub dtypes: Vec<DType>,
    /// Sizes of what it gives.
    pub out_sizes: Vec<Vec<i64>>,
    /// How far it has come.
    pub progress: Progress,
}
struct Entry {
    number: u64,
    group: String,
    what: What,
    status: Status,
}
impl Entry {
    fn shown(&self) -> Recorded {
        let w = self.what.clone();
        Recorded {
            number: self.number,
            group: self.group.clone(),
            operation: w.operation.to_owned(),
            sizes: w.sizes,
            dtypes: w.dtypes,
            out_sizes: w.out_sizes,
            progress: self.status.get(),
        }
    }
}

/// The latest operations of a process.
pub(crate) struct Log {
    next: AtomicU64,
    entries: Monitor<VecDeque<Entry>>,
    written: AtomicBool,
}
impl Default for Log {
    fn default() -> Self {
        Log {
            next: AtomicU64::new(0),
            entries: Monitor::new(VecDeque::new()),
            written: AtomicBool::new(false),
        }
    }
}
impl Log {
    /// Notes that an operation begins.
    pub(crate) fn begin(&self, group: &str, what: What) -> Status {
        let status = Status::default();
        let mut all = self.entries.lock();
        if all.len() == KEPT {
            all.pop_front();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        all.push_back(Entry { number, group: group.to_owned(), what, status: status.clone() });
        status
    }
    pub(crate) fn all(&self) -> Vec<Recorded> {
        self.entries.lock().iter().map(Entry::shown).collect()
    }
    /// Writes the log where `place` and the rank say, once in the life of a process: what fails later follows from the first failure.
    pub(crate) fn write_once(&self, place: Option<&str>, rank: i64, why: &Error) {
        let Some(place) = place else { return };
        if self.written.swap(true, Ordering::SeqCst) {
            return;
        }
        // a report that cannot be written must not hide the error that it is about
        let _ = write(&PathBuf::from(format!("{place}{rank}")), rank, &self.all(), why.message());
    }
}
fn write(path: &Path, rank: i64, all: &[Recorded], why: &str) -> Result<()> {
    let entries: Vec<serde_json::Value> = all
        .iter()
        .map(|r| {
            let dtypes: Vec<&str> = r.dtypes.iter().map(|d| d.name()).collect();
            serde_json::json!({
                "number": r.number, "group": r.group, "operation": r.operation, "sizes": r.sizes,
                "dtypes": dtypes, "out_sizes": r.out_sizes, "state": r.progress.name(),
            })
        })
        .collect();
    let page = serde_json::json!({"version": 1, "rank": rank, "error": why, "entries": entries});
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let draft = dir.join(format!(
        ".{}.{}",
        path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
        std::process::id()
    ));
    std::fs::write(&draft, page.to_string())?;
    std::fs::rename(&draft, path)?;
    Ok(())
}

/// Reads the files that ranks have written when their job failed, and says where they first differ: which rank has not called what the
/// others have, or has called something else.
///
/// # Errors
/// Files that cannot be read, or are none of these.
pub fn merge_traces(files: &[PathBuf]) -> Result<String> {
    let mut ranks: Vec<(i64, Vec<serde_json::Value>, String)> = Vec::new();
    for f in files {
        let text = std::fs::read_to_string(f).map_err(|e| Error::from(e).at_path(f))?;
        let wrong = |what: &str| Error::value(format!("{}: {what}", f.display()));
        let page: serde_json::Value = serde_json::from_str(&text).map_err(|e| wrong(&e.to_string()))?;
        let rank = page["rank"].as_i64().ok_or_else(|| wrong("no rank"))?;
        let entries = page["entries"].as_array().cloned().ok_or_else(|| wrong("no entries"))?;
        ranks.push((rank, entries, page["error"].as_str().unwrap_or("").to_owned()));
    }
    ranks.sort_by_key(|r| r.0);
    let mut groups: Vec<String> = Vec::new();
    for e in ranks.iter().flat_map(|r| &r.1) {
        let g = e["group"].as_str().unwrap_or("").to_owned();
        if !groups.contains(&g) {
            groups.push(g);
        }
    }
    let mut out = String::new();
    for (rank, entries, why) in &ranks {
        let last = entries.last().map_or_else(|| "nothing".to_owned(), shown);
        let _ = writeln!(out, "rank {rank}: last called {last}; {why}");
    }
    for g in groups {
        // messages are between two ranks: only what all members call is compared
        let calls: Vec<(i64, Vec<&serde_json::Value>)> = ranks
            .iter()
            .map(|r| {
                let mine = r.1.iter().filter(|e| {
                    e["group"].as_str() == Some(&*g)
                        && !matches!(e["operation"].as_str(), Some("send" | "recv"))
                });
                (r.0, mine.collect::<Vec<_>>())
            })
            .filter(|r| !r.1.is_empty())
            .collect();
        let most = calls.iter().map(|c| c.1.len()).max().unwrap_or(0);
        for i in 0..most {
            let here: Vec<(i64, Option<&serde_json::Value>)> =
                calls.iter().map(|c| (c.0, c.1.get(i).copied())).collect();
            let first = here.iter().find_map(|h| h.1);
            let same = here.iter().all(|h| match (h.1, first) {
                (Some(a), Some(b)) => a["operation"] == b["operation"] && a["sizes"] == b["sizes"],
                _ => false,
            });
            let done = here.iter().all(|h| h.1.is_some_and(|e| e["state"] == "completed"));
            if same && done {
                continue;
            }
            let _ = writeln!(out, "group {g:?}, call {i}:");
            for (rank, e) in here {
                let _ = match e {
                    Some(e) => {
                        writeln!(out, "  rank {rank}: {}, {}", shown(e), e["state"].as_str().unwrap_or("?"))
                    }
                    None => writeln!(out, "  rank {rank}: has not called it"),
                };
            }
            break;
        }
    }
    Ok(out)
}
fn shown(e: &serde_json::Value) -> String {
    format!("{}({})", e["operation"].as_str().unwrap_or("?"), e["sizes"])
}
