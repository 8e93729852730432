//! Processes that are killed while they train: the others say so in time, and what is started again ends as if nothing had been.

use flambeau_core::Tensor;
use flambeau_distributed as dist;
use flambeau_distributed::ddp::{DistributedDataParallel, DistributedDataParallelOptions};
use flambeau_distributed::launch::{LaunchOptions, launch};
use flambeau_distributed::{InitProcessGroupOptions, ReduceOp, ReduceOptions};
use flambeau_nn::Linear;
use flambeau_nn::prelude::*;
use flambeau_optim::{Optimizer as _, SGDOptions};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where a worker finds its job; without it this binary is no worker.
const FOLDER: &str = "FLAMBEAU_TEST_JOB";
const STEPS: usize = 30;
const RANKS: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a process of the job does: not a test of its own.
#[test]
fn worker() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let rank = std::env::var("RANK").unwrap();
    let done = catch_unwind(AssertUnwindSafe(|| train(Path::new(&folder))));
    let error = match done {
        Ok(Ok(())) => return,
        Ok(Err(e)) => e.to_string(),
        // backward has no way to give an error but a panic
        Err(p) => p.downcast_ref::<String>().cloned().unwrap_or_default(),
    };
    std::fs::write(Path::new(&folder).join(format!("error.{rank}")), error).unwrap();
    std::process::exit(1);
}
fn train(folder: &Path) -> flambeau_core::Result<()> {
    dist::try_init_process_group("gloo", InitProcessGroupOptions::new().timeout(TIMEOUT))?;
    let rank = dist::try_get_rank()? as usize;
    let m = Linear::new(8, 4);
    let page = std::fs::read(folder.join("checkpoint")).unwrap_or_default();
    let first = page.first().map_or(0, |n| usize::from(*n));
    let saved: Vec<f32> =
        page.get(1..).unwrap_or(&[]).as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
    let mut at = 0;
    for p in m.parameters() {
        let n = p.tensor().numel() as usize;
        let fresh = (0..n).map(|k| (k * 7 % 11) as f32 / 11.0 - 0.5).collect();
        let v: Vec<f32> = saved.get(at..at + n).map_or(fresh, <[f32]>::to_vec);
        at += n;
        flambeau_autograd::no_grad(|| {
            p.tensor().copy_(&Tensor::from_vec(v, p.tensor().sizes()));
        });
    }
    let d = DistributedDataParallel::try_new(m, DistributedDataParallelOptions::new())?;
    let mut o = SGDOptions::new().lr(0.05).build(d.parameters());
    for step in first..STEPS {
        let v: Vec<f32> = (0..32).map(|k| ((k * 5 + step * 13 + rank * 3) % 17) as f32 / 17.0).collect();
        o.zero_grad();
        let loss = d.try_call(&Tensor::from_vec(v, [4, 8]))?.square().mean();
        loss.backward();
        o.step();
        let mean = loss.detach();
        dist::try_all_reduce(&mean, ReduceOptions::new().op(ReduceOp::Avg))?;
        // so that a step is not over before anybody can be killed in it
        std::thread::sleep(Duration::from_millis(3));
        if rank == 0 {
            let mut page = vec![step as u8 + 1];
            for p in d.parameters() {
                page.extend(p.tensor().detach().to_vec::<f32>().iter().flat_map(|x| x.to_le_bytes()));
            }
            let losses = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("losses"))?;
            writeln!(&losses, "{step} {:08x}", mean.item::<f32>().to_bits())?;
            std::fs::write(folder.join("draft"), page)?;
            std::fs::rename(folder.join("draft"), folder.join("checkpoint"))?;
        }
    }
    dist::try_barrier(dist::CollectiveOptions::new())?;
    dist::try_destroy_process_group()
}

fn command() -> Vec<String> {
    let exe = std::env::current_exe().unwrap().display().to_string();
    [&*exe, "--exact", "kills::worker", "--nocapture", "--test-threads=1"].map(String::from).into()
}
fn start(folder: &Path) -> Vec<Child> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let one = |rank: usize| {
        let c = command();
        Command::new(&c[0])
            .args(&c[1..])
            .envs([
                ("RANK", rank.to_string()),
                ("WORLD_SIZE", RANKS.to_string()),
                ("MASTER_PORT", port.to_string()),
            ])
            .envs([("MASTER_ADDR", "127.0.0.1"), ("GLOO_SOCKET_IFNAME", "lo"), ("RUST_BACKTRACE", "0")])
            .env(FOLDER, folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    (0..RANKS).map(one).collect()
}
/// The loss of each step, as it was last; a step that was repeated had the same one before.
fn losses(folder: &Path) -> Vec<String> {
    let mut all = vec![String::new(); STEPS];
    for line in std::fs::read_to_string(folder.join("losses")).unwrap().lines() {
        let (step, loss) = line.split_once(' ').unwrap();
        let at = &mut all[step.parse::<usize>().unwrap()];
        assert!(at.is_empty() || at == loss, "step {step} had {at} and then {loss}");
        loss.clone_into(at);
    }
    all
}
fn undisturbed() -> (Vec<String>, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    for mut c in start(dir.path()) {
        assert!(c.wait().unwrap().success());
    }
    (losses(dir.path()), begun.elapsed())
}
/// Kills one process at a moment, looks what the others say, and starts all again.
fn killed(seed: u64, whole: Duration, want: &[String]) {
    let dir = tempfile::tempdir().unwrap();
    let random = |n: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(n | 1) >> 33;
    let victim = random(3) as usize % RANKS;
    let moment = whole.mul_f64(random(7) as f64 / f64::from(1u32 << 31));
    let mut all = start(dir.path());
    std::thread::sleep(moment);
    let over = all[victim].try_wait().unwrap().is_some();
    let _ = all[victim].kill();
    let dead = Instant::now();
    for (rank, c) in all.iter_mut().enumerate() {
        let status = c.wait().unwrap();
        // who was through when it happened does not notice
        if rank == victim || over || status.success() {
            continue;
        }
        let text = std::fs::read_to_string(dir.path().join(format!("error.{rank}")));
        let text = text.unwrap_or_else(|_| panic!("rank {rank} said nothing, and ended with {status}"));
        assert!(
            !text.is_empty() && dead.elapsed() < TIMEOUT + Duration::from_secs(20),
            "rank {rank}: {text}"
        );
    }
    for mut c in start(dir.path()) {
        assert!(c.wait().unwrap().success(), "seed {seed}");
    }
    assert_eq!(losses(dir.path()), want, "seed {seed}");
}

#[test]
fn a_killed_process_is_noticed_and_made_up_for() {
    let (want, whole) = undisturbed();
    (0..4).for_each(|seed| killed(seed, whole, &want));
}
#[test]
#[ignore = "minutes: two hundred jobs"]
fn two_hundred_killed_processes_are_noticed_and_made_up_for() {
    let (want, whole) = undisturbed();
    (0..200).for_each(|seed| killed(seed, whole, &want));
}

#[test]
fn the_launcher_starts_a_job_again_whose_process_was_killed() {
    let (want, _) = undisturbed();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_owned();
    // each worker kills itself twice, as nobody but the kernel can: by its own number, in the middle of a step
    let script = format!(
        "export {FOLDER}={folder} GLOO_SOCKET_IFNAME=lo; if [ $TORCHELASTIC_RESTART_COUNT -lt 2 ] && [ $RANK = $TORCHELASTIC_RESTART_COUNT ]; then \
         (while [ $(wc -l < {folder}/losses || echo 0) -lt $((5 + 10 * $RANK)) ]; do sleep 0.01; done; kill -9 $$) & fi; exec {command}",
        folder = folder.display(),
        command = command().join(" "),
    );
    let logs: PathBuf = dir.path().join("logs");
    let o = LaunchOptions::new()
        .nproc_per_node(RANKS)
        .max_restarts(3)
        .log_dir(logs.display().to_string())
        .redirects(dist::elastic::processes::Std::All);
    launch(&["sh".into(), "-c".into(), script], o).unwrap();
    assert_eq!(losses(dir.path()), want);
    let run = std::fs::read_dir(&logs).unwrap().next().unwrap().unwrap().path();
    assert!(run.join("attempt_2").exists() && !run.join("attempt_3").exists());
}
