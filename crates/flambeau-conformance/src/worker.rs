//! Processes that run files. The default generator and the default dtype belong to a process, so cases run one after the
//! other in each, and several processes share the files. A case that ends its process (an abort, a stack overflow, a hang)
//! is a failed case: the next process goes on behind it.

use crate::families::{Case, File, Outcome};
use crate::report::{Line, Report};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A case may take this long.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a case; a panic is a failure.
pub fn run(case: &Case) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| (case.run)())) {
        Ok(o) => o,
        Err(p) => {
            let text =
                p.downcast_ref::<String>().map(String::as_str).or_else(|| p.downcast_ref::<&str>().copied());
            Outcome::Failed(format!("panic: {}", text.unwrap_or("?")))
        }
    }
}

/// The worker's side: reads `FILE<TAB>FIRST` lines from standard input, and prints before and after every case from that
/// number on.
///
/// # Errors
/// When the pipes break.
pub fn serve(dir: &Path, only: Option<&str>) -> Result<(), String> {
    std::panic::set_hook(Box::new(|_| {}));
    let mut out = std::io::stdout().lock();
    let mut say = |s: String| writeln!(out, "{s}").and_then(|()| out.flush()).map_err(|e| e.to_string());
    for job in std::io::stdin().lines() {
        let job = job.map_err(|e| e.to_string())?;
        let (name, from) = job.split_once('\t').unwrap_or((&job, "0"));
        let from: usize = from.parse().unwrap_or(0);
        match File::open(dir, name) {
            Err(e) => say(format!("E\t{}", flat(&e)))?,
            Ok(f) => {
                for (i, case) in f.cases().iter().enumerate().skip(from) {
                    if only
                        .is_some_and(|o| !name.contains(o) && !case.call.contains(o) && !case.id.contains(o))
                    {
                        continue;
                    }
                    say(format!("B\t{i}\t{}\t{}\t{}", flat(&case.id), case.call, case.core))?;
                    let (tag, text) = match run(case) {
                        Outcome::Passed => ('P', String::new()),
                        Outcome::Failed(e) => ('F', e),
                        Outcome::Apart(e) => ('A', e),
                        Outcome::Missing(n) => ('M', n),
                    };
                    say(format!("{tag}\t{}", flat(&text)))?;
                }
            }
        }
        say("D".into())?;
    }
    Ok(())
}
fn flat(s: &str) -> String {
    s.replace(['\n', '\t', '\r'], " ").chars().take(600).collect()
}

struct Worker {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}
impl Worker {
    fn start(dir: &Path, only: Option<&str>, device: Option<&str>) -> Result<Worker, String> {
        let exe = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut cmd = Command::new(exe);
        cmd.arg("--worker").arg(dir);
        if let Some(o) = only {
            cmd.args(["--only", o]);
        }
        if let Some(d) = device {
            cmd.args(["--device", d]);
        }
        // one thread each: there is one process per core
        cmd.env("RAYON_NUM_THREADS", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        // what has no kernel on the device is named where that is asked for
        let named = std::env::var_os("FLAMBEAU_CUDA_FALLBACKS").is_some();
        cmd.stderr(if named { Stdio::inherit() } else { Stdio::null() });
        let mut child = cmd.spawn().map_err(|e| e.to_string())?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { child, lines })
    }
    fn ask(&mut self, file: &str, from: usize) -> Result<(), String> {
        let stdin = self.child.stdin.as_mut().ok_or("no pipe")?;
        writeln!(stdin, "{file}\t{from}").and_then(|()| stdin.flush()).map_err(|e| e.to_string())
    }
}
impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs all files in as many processes as there are cores.
///
/// # Errors
/// When no process can be started or a file cannot be read.
pub fn run_all(
    dir: &Path,
    files: &[String],
    only: Option<&str>,
    device: Option<&str>,
) -> Result<Report, String> {
    let next = Mutex::new(0usize);
    let n = std::thread::available_parallelism().map_or(1, |n| n.get()).min(files.len().max(1));
    let results: Vec<Result<Vec<Line>, String>> = std::thread::scope(|s| {
        let one = || {
            let mut lines = Vec::new();
            let mut worker = None;
            loop {
                let i = {
                    let mut at = next.lock().unwrap_or_else(|e| e.into_inner());
                    *at += 1;
                    *at - 1
                };
                let Some(file) = files.get(i) else { return Ok(lines) };
                file_results(dir, file, only, device, &mut worker, &mut lines)?;
            }
        };
        let handles: Vec<_> = (0..n).map(|_| s.spawn(one)).collect();
        handles.into_iter().map(|h| h.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    let mut all = Vec::new();
    for r in results {
        all.extend(r?);
    }
    let order: std::collections::HashMap<&String, usize> =
        files.iter().enumerate().map(|(i, f)| (f, i)).collect();
    all.sort_by_key(|l| (order.get(&l.file).copied(), l.number));
    let seen: HashSet<&str> = all.iter().map(|l| l.file.as_str()).collect();
    if seen.is_empty() && only.is_none() {
        return Err("no case ran".into());
    }
    Ok(Report { lines: all })
}

fn file_results(
    dir: &Path,
    file: &str,
    only: Option<&str>,
    device: Option<&str>,
    worker: &mut Option<Worker>,
    lines: &mut Vec<Line>,
) -> Result<(), String> {
    let mut from = 0;
    loop {
        if worker.is_none() {
            *worker = Some(Worker::start(dir, only, device)?);
        }
        let Some(w) = worker.as_mut() else { return Err("no worker".into()) };
        w.ask(file, from)?;
        let mut open: Option<Line> = None;
        let died = loop {
            let line = match w.lines.recv_timeout(LIMIT) {
                Ok(l) => l,
                Err(RecvTimeoutError::Timeout) => break format!("no end within {} s", LIMIT.as_secs()),
                Err(RecvTimeoutError::Disconnected) => {
                    break w
                        .child
                        .wait()
                        .map_or_else(|e| e.to_string(), |s| format!("the process ended: {s}"));
                }
            };
            let mut parts = line.splitn(5, '\t');
            let tag = parts.next().unwrap_or("");
            let mut part = || parts.next().unwrap_or("").to_string();
            match tag {
                "B" => {
                    let number = part().parse().unwrap_or(0);
                    let (id, call, core) = (part(), part(), part() == "true");
                    open = Some(Line { file: file.into(), number, id, call, core, outcome: Outcome::Passed });
                }
                "D" => return Ok(()),
                "E" => return Err(part()),
                _ => {
                    if let Some(mut l) = open.take() {
                        let text = part();
                        l.outcome = match tag {
                            "P" => Outcome::Passed,
                            "A" => Outcome::Apart(text),
                            "M" => Outcome::Missing(text),
                            _ => Outcome::Failed(text),
                        };
                        lines.push(l);
                    }
                }
            }
        };
        *worker = None;
        let Some(mut l) = open else { return Err(format!("{file}: {died} between cases")) };
        from = l.number + 1;
        l.outcome = Outcome::Failed(died);
        lines.push(l);
    }
}
