//! Jobs under a launcher: this program stands for `flambeau-run`, a shell's script for the workers.

use super::{Done, LAUNCH};
use crate::families::text;
use serde_json::{Value as J, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const NAMES: [&str; 20] = [
    "RANK",
    "LOCAL_RANK",
    "ROLE_RANK",
    "ROLE_NAME",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMP_NUM_THREADS",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_SIGNALS_TO_HANDLE",
    "ARGUMENTS",
];
/// Writes the variables and the arguments down, and ends as its first argument says.
const WORKER: &str = r#"
out="$1"; shift
export ARGUMENTS="$*"
f="$out/env.$RANK.$TORCHELASTIC_RESTART_COUNT"
env > "$f.part"; mv "$f.part" "$f"
echo "out of $RANK"; echo "err of $RANK" >&2
case "$1" in
fail_first) if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && [ "$RANK" = 1 ]; then exit 3; fi;;
fail) if [ "$RANK" = 1 ]; then exit 3; fi; sleep 30;;
kill) if [ "$RANK" = 1 ]; then kill -9 $$; fi; sleep 30;;
recorded) if [ "$RANK" = 1 ]; then
  echo '{"message": {"message": "RuntimeError: boom on rank 1", "extraInfo": {"py_callstack": "Traceback (most recent call last):", "timestamp": "1"}}}' > "$TORCHELASTIC_ERROR_FILE"
  exit 1; fi; sleep 30;;
sleep) exec sleep 30;;
esac
"#;

struct Job {
    dir: PathBuf,
}
impl Job {
    fn new() -> std::io::Result<Job> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("flambeau-elastic-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join("worker.sh"), WORKER)?;
        Ok(Job { dir })
    }
    fn command(&self, flags: &[String], args: &[&str]) -> std::io::Result<Command> {
        let mut c = Command::new(std::env::current_exe()?);
        c.arg(LAUNCH).args(flags).arg("sh").arg(self.dir.join("worker.sh")).arg(&self.dir).args(args);
        for n in NAMES {
            c.env_remove(n);
        }
        c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(c)
    }
    fn run(&self, flags: &[String], args: &[&str]) -> Result<Output, String> {
        self.command(flags, args).and_then(|mut c| c.output()).map_err(|e| e.to_string())
    }
    /// What workers have written down, by rank and round.
    fn workers(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        for e in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = e.file_name().to_string_lossy().into_owned();
            if let Some(who) = name.strip_prefix("env.").filter(|n| !n.ends_with("part")) {
                let text = std::fs::read_to_string(e.path()).unwrap_or_default();
                let vars = text.lines().filter_map(|l| l.split_once('='));
                all.insert(who.to_owned(), vars.map(|(k, v)| (k.to_owned(), v.to_owned())).collect());
            }
        }
        all
    }
}
impl Drop for Job {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
fn free_port() -> String {
    let l = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    l.map_or(29987, |a| a.port()).to_string()
}
/// Flags of the record, with a port and a folder.
fn flags(case: &J, port: &str, dir: &Path) -> Vec<String> {
    let put =
        |a: &J| a.as_str().unwrap_or("").replace("<PORT>", port).replace("<DIR>", &dir.display().to_string());
    case["arguments"].as_array().into_iter().flatten().map(put).collect()
}
fn exited(o: &Output, want: &J) -> Done {
    if json!(o.status.code()) == *want {
        return Ok(());
    }
    Err(format!("exit {:?} instead of {want}: {}", o.status.code(), String::from_utf8_lossy(&o.stderr)))
}
/// Whether the variables are the recorded ones.
fn variables(got: &BTreeMap<String, String>, want: &J) -> Done {
    for (k, w) in want["env"].as_object().into_iter().flatten() {
        let w = w.as_str().unwrap_or("");
        let Some(g) = got.get(k) else { return Err(format!("no {k}")) };
        // names of this machine and numbers of ports are its own
        let free = w.starts_with('<') || k == "MASTER_ADDR" && w == "localhost";
        if !free && g != w {
            return Err(format!("{k}: {g} instead of {w}"));
        }
    }
    let argv: Vec<&str> = want["argv"].as_array().into_iter().flatten().filter_map(J::as_str).collect();
    let got = got.get("ARGUMENTS").map_or("", String::as_str);
    if got == argv.join(" ") { Ok(()) } else { Err(format!("arguments {got:?} instead of {argv:?}")) }
}
fn all_variables(job: &Job, want: &J, prefix: impl Fn(&str) -> String) -> Done {
    let got = job.workers();
    let wanted = want.as_object().cloned().unwrap_or_default();
    if got.len() != wanted.len() {
        return Err(format!("workers {:?} instead of {:?}", got.keys(), wanted.keys()));
    }
    for (k, w) in &wanted {
        let who = prefix(k);
        let Some(g) = got.get(&who) else { return Err(format!("no worker {who}: {:?}", got.keys())) };
        variables(g, w).map_err(|e| format!("worker {who}: {e}"))?;
    }
    Ok(())
}

pub(super) fn run(case: &J) -> Done {
    let id = text(case, "id");
    let said = |e: std::io::Error| e.to_string();
    let job = Job::new().map_err(said)?;
    let port = free_port();
    let own = |l: &[&str]| -> Vec<String> { l.iter().map(|s| (*s).to_owned()).collect() };
    match id {
        "env.standalone" | "env.static" | "env.role_run_id" => {
            let o = job.run(&flags(case, &port, &job.dir), &["a", "--flag=b"])?;
            exited(&o, &case["exit"])?;
            all_variables(&job, &case["workers"], str::to_owned)
        }
        "env.two_agents" => {
            let mut f = flags(case, &port, &job.dir);
            f.extend(own(&["--rdzv-endpoint", &format!("127.0.0.1:{port}"), "--rdzv-id", "two"]));
            let start = || job.command(&f, &[]).and_then(|mut c| c.spawn());
            let (a, b) = (start().map_err(said)?, start().map_err(said)?);
            let (a, b) = (a.wait_with_output().map_err(said)?, b.wait_with_output().map_err(said)?);
            exited(&a, &case["exit"][0])?;
            exited(&b, &case["exit"][1])?;
            all_variables(&job, &case["workers"], |k| k.split_once('.').map_or("", |n| n.1).to_owned())
        }
        "restart.once" => {
            let o = job.run(
                &own(&["--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]),
                &["fail_first"],
            )?;
            exited(&o, &case["exit"])?;
            all_variables(&job, &case["workers"], str::to_owned)
        }
        "failure.exit_3" | "failure.sigkill" => {
            let (mode, restarts) = if id.ends_with("3") { ("fail", "1") } else { ("kill", "0") };
            let o = job
                .run(&own(&["--standalone", "--nproc-per-node", "2", "--max-restarts", restarts]), &[mode])?;
            exited(&o, &case["exit"])?;
            if case["rounds"].is_array() {
                let got: Vec<String> = job.workers().into_keys().collect();
                if json!(got) != case["rounds"] {
                    return Err(format!("rounds {got:?}"));
                }
            }
            log(&o, case, &job)
        }
        "failure.recorded_exception" => {
            let logs = job.dir.join("logs");
            let mut f = flags(case, &port, &logs);
            f.extend(own(&["--standalone", "--nproc-per-node", "2"]));
            let o = job.run(&f, &["recorded"])?;
            exited(&o, &case["exit"])?;
            for (name, w) in case["files"].as_object().into_iter().flatten() {
                let path = run_folder(&logs).map(|r| r.join(name.trim_start_matches("<RUN>/")));
                let Some(path) = path.filter(|p| p.exists()) else { return Err(format!("no file {name}")) };
                if name.ends_with("error.json") && w.is_object() {
                    let got = std::fs::read_to_string(path).unwrap_or_default();
                    let got: J = serde_json::from_str(&got).unwrap_or_default();
                    if got["message"]["message"] != w["message"]["message"] {
                        return Err(format!("{got} instead of {w}"));
                    }
                }
            }
            log(&o, case, &job)
        }
        "logs.redirects" => {
            let logs = job.dir.join("logs");
            let mut f = flags(case, &port, &logs);
            f.extend(own(&[
                "--standalone",
                "--nproc-per-node",
                "2",
                "--log-dir",
                &logs.display().to_string(),
            ]));
            let o = job.run(&f, &[])?;
            exited(&o, &case["exit"])?;
            for name in case["files"].as_array().into_iter().flatten().filter_map(J::as_str) {
                let path = run_folder(&logs).map(|r| r.join(name.trim_start_matches("<RUN>/")));
                if !path.is_some_and(|p| p.exists()) {
                    return Err(format!("no file {name}"));
                }
            }
            Ok(())
        }
        "signal.sigterm" => {
            let c = job.command(&own(&["--standalone", "--nproc-per-node", "2"]), &["sleep"]);
            let c = c.and_then(|mut c| c.spawn()).map_err(said)?;
            let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
            while job.workers().len() < 2 && std::time::Instant::now() < end {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            let told = Command::new("sh").arg("-c").arg(format!("kill -TERM {}", c.id())).status();
            told.map_err(said)?;
            let o = c.wait_with_output().map_err(said)?;
            exited(&o, &case["exit"])?;
            let text = String::from_utf8_lossy(&o.stderr).into_owned();
            if text.contains("got signal: 15") { Ok(()) } else { Err(text) }
        }
        "arguments.no_script" => {
            let mut c = Command::new(std::env::current_exe().map_err(said)?);
            let o = c.arg(LAUNCH).output().map_err(said)?;
            exited(&o, &case["exit"])?;
            last_line(&o, case)
        }
        _ if id.starts_with("arguments.") => {
            let o = job.run(&flags(case, &port, &job.dir), &[])?;
            exited(&o, &case["exit"])?;
            last_line(&o, case)
        }
        "rendezvous.c10d_state" => state(case),
        "job.two_agents" | "job.standalone" => {
            // workers that join a process group are programs of their own: the library's tests have them
            Err("no runner of jobs whose workers are programs".into())
        }
        other => Err(format!("no runner of {other}")),
    }
}
/// The folder that a run has made.
fn run_folder(logs: &Path) -> Option<PathBuf> {
    std::fs::read_dir(logs).ok()?.flatten().map(|e| e.path()).find(|p| p.is_dir())
}
fn last_line(o: &Output, case: &J) -> Done {
    let text = String::from_utf8_lossy(&o.stderr).into_owned();
    let want = text_of(case, "last_line").trim_start_matches("run.py: ").to_owned();
    if text.contains(&want) { Ok(()) } else { Err(format!("{text:?} instead of {want:?}")) }
}
fn text_of<'a>(j: &'a J, k: &str) -> &'a str {
    text(j, k)
}
/// The lines of the record that are no names of Python's modules.
fn log(o: &Output, case: &J, job: &Job) -> Done {
    let err = String::from_utf8_lossy(&o.stderr).into_owned();
    let dir = job.dir.join("logs").display().to_string();
    for l in case["log"].as_array().into_iter().flatten().filter_map(J::as_str) {
        let l = l.split("] ").last().unwrap_or(l);
        if l.contains("raise ")
            || l.contains("Error: ")
            || l.contains("traceback :") && l.contains("Traceback")
        {
            continue;
        }
        let l = l.replace("of binary: <PYTHON>", "").replace("<DIR>", &dir);
        let parts: Vec<String> =
            l.split("<PID>").flat_map(|p| p.split("<RUN>")).map(|p| regex::escape(p.trim_end())).collect();
        let pattern = regex::Regex::new(&parts.join("[^\\n]*?")).map_err(|e| e.to_string())?;
        if !pattern.is_match(&err) {
            return Err(format!("no line {l:?} in {err}"));
        }
    }
    Ok(())
}
/// The state that agents keep in a store.
fn state(case: &J) -> Done {
    use flambeau_distributed::internal::rendezvous_state;
    let sample = crate::distributed::shared::bytes_of(text(case, "sample_pickle"));
    let shown = rendezvous_state(&sample).map_err(|e| format!("{e:?}"))?;
    let s = &case["sample"];
    let want = json!({
        "round": s["round"], "complete": s["complete"], "closed": s["closed"],
        "participants": s["participants"].as_array().map_or(0, Vec::len),
        "wait_list": s["wait_list"].as_array().map_or(0, Vec::len),
    });
    for (k, w) in want.as_object().into_iter().flatten() {
        if shown[k] != *w {
            return Err(format!("{k}: {shown} instead of {want}"));
        }
    }
    if shown["again"] != json!(true) {
        return Err("what was written is not what was read".into());
    }
    if shown["null_value"] != case["null_value"] { Err("the null value".into()) } else { Ok(()) }
}
