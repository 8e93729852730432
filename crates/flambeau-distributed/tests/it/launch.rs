use flambeau_distributed::elastic::processes::Std;
use flambeau_distributed::launch::{LaunchOptions, launch, launch_until};
use flambeau_distributed::numa::{AffinityMode, NumaOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(String::from).to_vec()
}
fn options(dir: &Path) -> LaunchOptions {
    LaunchOptions::new().nproc_per_node(2).log_dir(dir.display().to_string()).redirects(Std::Out)
}
/// The folder of the one run in a folder.
fn run(dir: &Path) -> PathBuf {
    std::fs::read_dir(dir).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn workers_find_their_variables() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $TORCHELASTIC_USE_AGENT_STORE $TORCHELASTIC_RESTART_COUNT";
    launch(&shell(script), options(dir.path())).unwrap();
    for r in 0..2 {
        let text =
            std::fs::read_to_string(run(dir.path()).join(format!("attempt_0/{r}/stdout.log"))).unwrap();
        assert_eq!(text, format!("{r} {r} 2 2 True 0\n"));
    }
}

#[test]
fn a_failed_worker_ends_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let script = "if [ $RANK = 1 ]; then echo '{\"message\": \"lost\", \"timestamp\": 1}' > $TORCHELASTIC_ERROR_FILE; exit 3; else sleep 60; fi";
    let start = std::time::Instant::now();
    let e = launch(&shell(script), options(dir.path())).unwrap_err();
    let root = e.message().split("Root Cause").nth(1).unwrap().to_owned();
    for part in ["rank      : 1 (local_rank: 1)", "exitcode  : 3", "traceback : lost", "error.json"] {
        assert!(root.contains(part), "{part}: {e}");
    }
    assert!(e.message().contains("exitcode  : -15") && e.message().contains("SIGTERM"), "{e}");
    assert!(start.elapsed().as_secs() < 30);
}

#[test]
fn a_failed_job_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    let script = "[ $TORCHELASTIC_RESTART_COUNT = 1 ]";
    launch(&shell(script), options(dir.path()).max_restarts(2)).unwrap();
    assert!(!run(dir.path()).join("attempt_2").exists());
}

#[test]
fn workers_that_do_not_listen_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let script = "if [ $RANK = 1 ]; then sleep 0.3; exit 3; fi; trap '' TERM; while true; do sleep 0.1; done";
    let o = options(dir.path()).shutdown_timeout(std::time::Duration::from_millis(300));
    let e = launch(&shell(script), o).unwrap_err();
    assert!(e.message().contains("SIGKILL"), "{e}");
}

#[test]
fn a_signal_ends_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let signal = Arc::new(AtomicI32::new(0));
    let to = signal.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        to.store(15, Ordering::SeqCst);
    });
    let e = launch_until(&shell("sleep 60"), options(dir.path()), &signal).unwrap_err();
    assert!(e.message().ends_with("got signal: 15"), "{e}");
}

#[test]
fn two_machines_find_each_other() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |dir: &Path| {
        let o = options(dir)
            .nnodes(2)
            .rdzv_backend("c10d")
            .rdzv_endpoint(format!("127.0.0.1:{port}"))
            .run_id("pair");
        std::thread::spawn(move || launch(&shell("echo $RANK $WORLD_SIZE $GROUP_RANK"), o))
    };
    let all = [start(dirs[0].path()), start(dirs[1].path())];
    for t in all {
        t.join().unwrap().unwrap();
    }
    let mut seen = Vec::new();
    for d in &dirs {
        for r in 0..2 {
            seen.push(
                std::fs::read_to_string(run(d.path()).join(format!("attempt_0/{r}/stdout.log"))).unwrap(),
            );
        }
    }
    seen.sort();
    assert_eq!(seen, ["0 4 0\n", "1 4 0\n", "2 4 1\n", "3 4 1\n"]);
}

#[test]
fn chosen_lines_of_all_workers_are_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "echo apple $RANK; echo pear $RANK; echo plum $RANK >&2; echo $TORCHELASTIC_SIGNALS_TO_HANDLE";
    let o = options(dir.path())
        .tee(Std::All)
        .local_ranks_filter(vec![0])
        .log_line_prefix_template("${role_name}-${rank}: ")
        .duplicate_stdout_filters(["apple", "USR1"])
        .duplicate_stderr_filters(["plum"])
        .signals_to_handle("SIGTERM,SIGUSR1");
    launch(&shell(script), o).unwrap();
    let kept = |name: &str| {
        let text = std::fs::read_to_string(run(dir.path()).join("attempt_0").join(name)).unwrap();
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort();
        lines
    };
    let out = kept("filtered_stdout.log");
    let want = [
        "default-0: SIGTERM,SIGUSR1",
        "default-0: apple 0",
        "default-1: SIGTERM,SIGUSR1",
        "default-1: apple 1",
    ];
    assert_eq!(out, want);
    assert_eq!(kept("filtered_stderr.log"), ["default-0: plum 0", "default-1: plum 1"]);
}

/// What `flambeau-run` prints, and its exit code, with variables of its own.
fn command(args: &[&str], variables: &[(&str, &str)]) -> (String, Option<i32>) {
    let mut c = std::process::Command::new(env!("CARGO_BIN_EXE_flambeau-run"));
    let out = c.args(args).envs(variables.iter().copied()).output().unwrap();
    (
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr),
        out.status.code(),
    )
}
#[test]
fn flags_are_torchruns() {
    let echo = ["sh", "-c", "echo $WORLD_SIZE $LOCAL_RANK $CUDA_VISIBLE_DEVICES $TORCHELASTIC_MAX_RESTARTS"];
    let run = |flags: &[&str], variables: &[(&str, &str)]| command(&[flags, &echo].concat(), variables);
    // shortened, with underscores, by variables, which flags come before
    let (text, code) =
        run(&["--nproc_per=2", "--virtual-l", "--max_restarts", "1"], &[("CUDA_VISIBLE_DEVICES", "5,6")]);
    assert_eq!(code, Some(0), "{text}");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["2 0 5 1", "2 0 6 1"]);
    let (text, code) =
        run(&["--max-restarts=2", "--"], &[("PET_NPROC_PER_NODE", "2"), ("PET_MAX_RESTARTS", "7")]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.lines().all(|l| l.starts_with("2 ") && l.ends_with(" 2")) && text.lines().count() == 2,
        "{text}"
    );
    let (text, code) = run(&["--virtual-local-rank", "--nproc-per-node=2"], &[("CUDA_VISIBLE_DEVICES", "5")]);
    assert!(
        text.contains("local_rank 1 exceeds available GPUs in CUDA_VISIBLE_DEVICES=5") && code == Some(1),
        "{text}"
    );
    let (text, code) = run(&["--start-method", "thread"], &[]);
    assert!(text.contains("invalid choice: 'thread'") && code == Some(2), "{text}");
    let (text, code) = run(&["--signals-to-handle", "SIGTERM,SIGNONE"], &[]);
    assert!(text.contains("Failed to register signal handler for SIGNONE") && code == Some(0), "{text}");
    let (text, code) = run(&["--numa-binding=near"], &[]);
    assert!(text.contains("invalid choice: 'near'") && code == Some(2), "{text}");
    let (text, code) = run(&["--logs-specs=mine"], &[]);
    assert!(text.contains("'torchrun.logs_specs[mine]'") && code == Some(1), "{text}");
    let (text, code) = run(&["-m", "--no-python"], &[]);
    assert!(text.contains("Don't use both the '--no-python' flag") && code == Some(1), "{text}");
    let python = [("PYTHON_EXEC", "echo")];
    let (text, _) = command(&["-m", "--no-use-env", "pack.train", "--lr=1"], &python);
    assert_eq!(text, "-u -m pack.train --local-rank=0 --lr=1\n");
    let (text, _) = command(&["--run-path", "train.py", "--lr=1"], &python);
    assert!(text.starts_with("-u -c import runpy") && text.ends_with(" train.py --lr=1\n"), "{text}");
    for shell in ["bash", "zsh", "tcsh"] {
        let (text, code) = command(&["--print-completion", shell], &[]);
        assert!(text.contains("nproc-per-node") && code == Some(0), "{text}");
    }
}

/// A machine without devices, or without `numactl`, says so; a program starts there if it may.
#[test]
fn workers_are_bound_or_say_why_not() {
    let unbound = NumaOptions::new(AffinityMode::Node);
    let dir = tempfile::tempdir().unwrap();
    let o = || options(dir.path()).nproc_per_node(1);
    match launch(&shell("true"), o().numa_options(unbound)) {
        Ok(()) => {}
        Err(e) => assert!(e.message().contains("NUMA"), "{e}"),
    }
    launch(&shell("true"), o().numa_options(unbound.should_fall_back_if_binding_fails(true))).unwrap();
}
