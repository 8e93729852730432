//! Runs calls that must neither panic, abort, hang nor ask for absurd memory: in a child process whose address space is
//! limited, watched from outside. Every finding is reported, an abort or a hang too: the child is started again behind
//! the call that ended it.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Address space of the child, where nothing else is said. Threads' stacks and the pool's mappings need some hundred MB of it.
const LIMIT_KB: u64 = 3 << 20;
/// A call that runs this long hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// How a report of such a call begins.
const HANGS: &str = "runs for more than";
/// Findings after which the rest is not tried.
const ENOUGH: usize = 200;
const FROM: &str = "FLAMBEAU_HOSTILE_FROM";
const FILE: &str = "FLAMBEAU_HOSTILE_FILE";

/// Calls by number.
pub struct Calls<'a> {
    /// The `#[test]` function that calls [`Calls::judge`], as the test binary knows it: `here!()`.
    pub test: &'static str,
    /// How many.
    pub count: usize,
    /// What call `i` is called in reports.
    pub name: &'a dyn Fn(usize) -> String,
    /// Makes call `i`, and says what is wrong with its outcome.
    pub run: &'a dyn Fn(usize) -> Option<String>,
}

/// Whether this process is a child that makes the calls.
pub fn in_child() -> bool {
    std::env::var_os(FROM).is_some()
}

impl Calls<'_> {
    /// Makes all calls and panics with the findings.
    pub fn judge(&self) {
        self.judge_with(&[]);
    }
    /// The same with variables in the child's environment.
    pub fn judge_with(&self, environment: &[(&str, &str)]) {
        self.judge_within(LIMIT_KB, environment);
    }
    /// The same in an address space of so many KB.
    pub fn judge_within(&self, limit_kb: u64, environment: &[(&str, &str)]) {
        self.judge_by(limit_kb, environment, PATIENCE, false);
    }
    /// The same where loops may be long: a call that takes longer than this is stopped, which is no finding.
    pub fn judge_but_for_long_loops(&self, patience: Duration) {
        self.judge_by(LIMIT_KB, &[], patience, true);
    }
    fn judge_by(&self, limit_kb: u64, environment: &[(&str, &str)], patience: Duration, long: bool) {
        if let (Ok(from), Some(file)) = (std::env::var(FROM), std::env::var_os(FILE)) {
            return self.child(from.parse().expect("a number"), Path::new(&file));
        }
        let file = std::env::temp_dir().join(format!(
            "flambeau-hostile-{}-{}",
            self.test.replace("::", "-"),
            std::process::id()
        ));
        let mut findings = Vec::new();
        let mut next = 0;
        while next < self.count && findings.len() < ENOUGH {
            let why = self.watch(next, &file, limit_kb, environment, patience);
            let (at, mut found) = read(&file);
            // shown at once under --nocapture: a long list is worked off while it grows
            found.iter().for_each(|f| eprintln!("{f}"));
            findings.append(&mut found);
            match why {
                None => next = self.count,
                Some(why) => {
                    let at = at.unwrap_or(next);
                    if !(long && why.starts_with(HANGS)) {
                        findings.push(format!("{}: {why}", (self.name)(at)));
                        eprintln!("{}", findings[findings.len() - 1]);
                    }
                    // one death per operator: what else it does wrong is found when this is mended
                    let group = |i: usize| (self.name)(i).split_whitespace().next().map(str::to_string);
                    next = (at + 1..self.count).find(|i| group(*i) != group(at)).unwrap_or(self.count);
                }
            }
        }
        for f in [file.clone(), progress(&file), file.with_extension("err")] {
            let _ = fs::remove_file(f);
        }
        assert!(
            findings.is_empty(),
            "{} of {} calls are wrong:\n{}",
            findings.len(),
            self.count,
            findings.join("\n")
        );
    }

    /// Runs a child from call `from` on; `None` when it came to the end.
    fn watch(
        &self,
        from: usize,
        file: &Path,
        limit_kb: u64,
        environment: &[(&str, &str)],
        patience: Duration,
    ) -> Option<String> {
        let exe = std::env::current_exe().expect("the test binary");
        for f in [file.to_path_buf(), progress(file)] {
            fs::write(f, "").expect("a file in the temporary directory");
        }
        let mut c = if cfg!(unix) {
            let mut c = Command::new("sh");
            c.args(["-c", &format!("ulimit -v {limit_kb}; exec \"$0\" \"$@\"")]).arg(exe);
            c
        } else {
            Command::new(exe)
        };
        c.args([self.test, "--exact", "--include-ignored", "--nocapture", "--test-threads", "1"]);
        // a file, not a pipe: nobody reads while the child runs
        let said = fs::File::create(file.with_extension("err")).expect("a file in the temporary directory");
        c.env(FROM, from.to_string()).env(FILE, file).stdout(Stdio::null()).stderr(said);
        c.envs(environment.iter().copied());
        let mut child = c.spawn().expect("a child process");
        let (mut last, mut since) = (None, Instant::now());
        loop {
            if let Some(status) = child.try_wait().expect("a child's status") {
                if status.success() {
                    // a name that no test has would pass with no call made
                    assert_eq!(
                        last_step(file),
                        Some(self.count),
                        "{}: the child made other calls",
                        self.test
                    );
                    return None;
                }
                let text = fs::read_to_string(file.with_extension("err")).unwrap_or_default();
                let last: Vec<&str> = text.lines().rev().take(4).collect();
                return Some(format!("the process died ({status}): {}", last.join(" | ")));
            }
            let at = last_step(file);
            if at != last {
                (last, since) = (at, Instant::now());
            } else if since.elapsed() > patience {
                let _ = child.kill();
                let _ = child.wait();
                return Some(format!("{HANGS} {patience:?}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn child(&self, from: usize, file: &Path) {
        static PANIC: Mutex<String> = Mutex::new(String::new());
        std::panic::set_hook(Box::new(|info| {
            *PANIC.lock().unwrap_or_else(|e| e.into_inner()) = info.to_string().replace('\n', " ");
        }));
        let mut out = fs::OpenOptions::new().append(true).open(file).expect("the file of findings");
        let mut step = fs::OpenOptions::new().append(true).open(progress(file)).expect("the file of steps");
        let mut found = 0;
        for i in from..self.count {
            step.write_all(&(i as u64).to_le_bytes()).expect("a step is written");
            let wrong = match catch_unwind(AssertUnwindSafe(|| (self.run)(i))) {
                Ok(w) => w,
                Err(_) => Some(format!("panics: {}", PANIC.lock().unwrap_or_else(|e| e.into_inner()))),
            };
            if let Some(w) = wrong {
                let line = format!("{}: {}\n", (self.name)(i), w.replace('\n', " "));
                out.write_all(line.as_bytes()).expect("a finding is written");
                found += 1;
                if found >= ENOUGH {
                    break;
                }
            }
        }
        step.write_all(&(self.count as u64).to_le_bytes()).expect("the end is written");
        let _ = std::panic::take_hook();
    }
}

fn progress(file: &Path) -> PathBuf {
    file.with_extension("step")
}

/// The last call that was begun (past the last one: all were made), and the findings so far.
fn read(file: &Path) -> (Option<usize>, Vec<String>) {
    (last_step(file), fs::read_to_string(file).unwrap_or_default().lines().map(str::to_string).collect())
}

fn last_step(file: &Path) -> Option<usize> {
    let mut f = fs::File::open(progress(file)).ok()?;
    let whole = f.metadata().ok()?.len() / 8;
    f.seek(SeekFrom::Start(whole.checked_sub(1)? * 8)).ok()?;
    let mut b = [0; 8];
    f.read_exact(&mut b).ok()?;
    Some(u64::from_le_bytes(b) as usize)
}
