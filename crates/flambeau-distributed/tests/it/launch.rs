use flambeau_distributed::launch::{LaunchOptions, launch};
use std::path::Path;

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(String::from).to_vec()
}
fn options(dir: &Path) -> LaunchOptions {
    LaunchOptions::new().nproc_per_node(2).log_dir(dir.display().to_string()).redirects(1)
}

#[test]
fn workers_find_their_variables() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $TORCHELASTIC_USE_AGENT_STORE $TORCHELASTIC_RESTART_COUNT";
    assert_eq!(launch(&shell(script), options(dir.path())).unwrap(), Ok(()));
    for r in 0..2 {
        let text =
            std::fs::read_to_string(dir.path().join(format!("none/attempt_0/{r}/stdout.log"))).unwrap();
        assert_eq!(text, format!("{r} {r} 2 2 True 0\n"));
    }
}

#[test]
fn a_failed_worker_ends_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let script = "if [ $RANK = 1 ]; then echo '{\"message\": 1}' > $TORCHELASTIC_ERROR_FILE; exit 3; else sleep 60; fi";
    let start = std::time::Instant::now();
    let f = launch(&shell(script), options(dir.path())).unwrap().unwrap_err();
    assert_eq!((f.rank, f.exit_code, f.error.as_deref()), (1, 3, Some("{\"message\": 1}\n")));
    assert!(start.elapsed().as_secs() < 30);
}

#[test]
fn a_failed_job_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    let script = "[ $TORCHELASTIC_RESTART_COUNT = 1 ]";
    assert_eq!(launch(&shell(script), options(dir.path()).max_restarts(2)).unwrap(), Ok(()));
    assert!(!dir.path().join("none/attempt_2").exists());
}
