//! Copies of the program. Each test is a program of its own: its copies come to the same test, where they run their function.

use flambeau_autograd as _;
use flambeau_core::{Error, Result, functions as torch};
use flambeau_multiprocessing::{
    self as mp, Function, Message, ProcessExitedException, ProcessRaisedException,
};
use flambeau_multiprocessing::{JoinOptions, SimpleQueue, SpawnOptions};
use flambeau_test_support::alone;
use std::error::Error as _;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

fn tells(index: usize, args: &[Message]) -> Result<()> {
    args[0].queue()?.put(index as i64)
}
fn fails(index: usize, _: &[Message]) -> Result<()> {
    if index == 1 {
        return Err(Error::value(format!("boom {index}")));
    }
    std::thread::sleep(LONG);
    Ok(())
}
fn panics(_: usize, _: &[Message]) -> Result<()> {
    panic!("no way on")
}
fn exits(index: usize, _: &[Message]) -> Result<()> {
    if index == 1 {
        std::process::exit(5);
    }
    std::thread::sleep(LONG);
    Ok(())
}
fn killed(index: usize, _: &[Message]) -> Result<()> {
    if index == 0 {
        kill(std::process::id());
    }
    std::thread::sleep(LONG);
    Ok(())
}
fn shares(index: usize, args: &[Message]) -> Result<()> {
    let t = args[0].tensor()?;
    t.narrow(0, index as i64, 1).fill_(index as f64 + 1.0);
    args[1].tensor()?.fill_(8.0);
    args[2].queue()?.put(&t)
}
/// Starts copies of its own, tells their numbers, and waits.
fn starts(_: usize, args: &[Message]) -> Result<()> {
    let context = mp::start_processes("sleeps", &args[1..], SpawnOptions::new().nprocs(2))?;
    for pid in context.pids() {
        args[0].queue()?.put(i64::from(pid))?;
    }
    std::thread::sleep(LONG);
    Ok(())
}
fn sleeps(_: usize, _: &[Message]) -> Result<()> {
    std::thread::sleep(LONG);
    Ok(())
}
const ALL: [(&str, Function); 8] = [
    ("tells", tells),
    ("fails", fails),
    ("panics", panics),
    ("exits", exits),
    ("killed", killed),
    ("shares", shares),
    ("starts", starts),
    ("sleeps", sleeps),
];
fn kill(pid: u32) {
    let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
}
fn two() -> SpawnOptions {
    SpawnOptions::new().nprocs(2)
}

#[test]
fn functions_run_in_copies() {
    alone!();
    mp::freeze_support(&ALL);
    let q = SimpleQueue::new().unwrap();
    mp::spawn_with("tells", &[q.clone().into()], SpawnOptions::new().nprocs(3)).unwrap();
    let mut got: Vec<i64> = (0..3).map(|_| q.get().unwrap().int().unwrap()).collect();
    got.sort();
    assert_eq!(got, [0, 1, 2]);
    let mut context = mp::start_processes("tells", &[q.into()], two()).unwrap();
    assert_eq!(context.pids().len(), 2);
    while !context.join().unwrap() {}
    assert!(context.join().unwrap());
    let e = mp::spawn("nosuch", &[]).unwrap_err();
    assert!(e.message().starts_with("no function 'nosuch' is registered"));
    assert!(mp::start_processes("tells", &[], two().start_method("fork")).is_err());
}
#[test]
fn one_failure_ends_all() {
    alone!();
    mp::freeze_support(&ALL);
    let began = Instant::now();
    let e = mp::spawn_with("fails", &[], two()).unwrap_err();
    let raised = e.source().unwrap().downcast_ref::<ProcessRaisedException>().unwrap();
    assert_eq!(raised.error_index, 1);
    let lines: Vec<&str> = e.message().trim().lines().collect();
    assert_eq!(lines[0], "-- Process 1 terminated with the following error:");
    assert_eq!(lines.last(), Some(&"ValueError: boom 1"));
    let e = mp::spawn("panics", &[]).unwrap_err();
    assert!(e.message().trim().ends_with("RuntimeError: no way on"), "{e}");
    for (name, text, index, code, signal) in [
        ("exits", "process 1 terminated with exit code 5", 1, 5, None),
        ("killed", "process 0 terminated with signal SIGKILL", 0, -9, Some("SIGKILL")),
    ] {
        let e = mp::spawn_with(name, &[], two()).unwrap_err();
        assert_eq!(e.message(), text);
        let exited = e.source().unwrap().downcast_ref::<ProcessExitedException>().unwrap();
        assert_eq!(
            (exited.error_index, exited.exit_code, exited.signal_name.as_deref()),
            (index, code, signal)
        );
    }
    assert!(began.elapsed() < LONG / 2);
}
#[test]
fn joins_wait_no_longer_than_asked() {
    alone!();
    mp::freeze_support(&ALL);
    let mut context = mp::start_processes("sleeps", &[], two().daemon(true)).unwrap();
    let began = Instant::now();
    assert!(!context.join_with(JoinOptions::new().timeout(Duration::from_millis(20))).unwrap());
    drop(context);
    assert!(began.elapsed() < LONG / 2);
}
#[test]
fn tensors_are_shared_where_that_was_asked_for() {
    alone!();
    mp::freeze_support(&ALL);
    let shared = torch::zeros([4]);
    let own = torch::zeros([4]);
    // SAFETY: each copy writes its own element, and this process reads when both are done.
    unsafe { mp::share_memory_(&shared).unwrap() };
    let q = SimpleQueue::new().unwrap();
    mp::spawn_with("shares", &[(&shared).into(), (&own).into(), q.clone().into()], two()).unwrap();
    assert_eq!(shared.to_vec::<f32>(), [1.0, 2.0, 0.0, 0.0]);
    assert_eq!(own.to_vec::<f32>(), [0.0; 4]);
    let back = q.get().unwrap().tensor().unwrap();
    back.fill_(3.0);
    assert_eq!(shared.to_vec::<f32>(), [3.0; 4]);
}
/// The memory has no name: the system frees it with the last process that has it, so what may not be left is processes.
#[test]
fn nothing_outlives_a_killed_parent() {
    alone!();
    mp::freeze_support(&ALL);
    let q = SimpleQueue::new().unwrap();
    let big = torch::zeros([1 << 20]);
    // SAFETY: nobody writes.
    unsafe { mp::share_memory_(&big).unwrap() };
    let context =
        mp::start_processes("starts", &[q.clone().into(), (&big).into()], SpawnOptions::new()).unwrap();
    let pids: Vec<i64> = (0..2).map(|_| q.get().unwrap().int().unwrap()).collect();
    let lives = |pid: &i64| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z")
    };
    assert!(pids.iter().all(lives));
    kill(context.pids()[0]);
    let until = Instant::now() + Duration::from_secs(10);
    while pids.iter().any(lives) {
        assert!(Instant::now() < until, "copies of a killed process still run");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(context);
}
