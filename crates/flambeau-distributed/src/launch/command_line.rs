//! The command line of `flambeau-run`: torchrun's flags, and those of `torch.distributed.launch`.

use super::{LaunchOptions, launch_until};
use crate::calls::merge_traces;
use crate::elastic::processes::Stds;
use crate::elastic::{determine_local_world_size, int, parse_min_max_nnodes};
use flambeau_core::{Error, Result, bail, ensure};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

/// What `--help` prints.
#[doc(alias = "torch.distributed.run")]
#[doc(alias = "torchrun")]
#[doc(alias = "torchrun:--max_restarts")]
#[doc(alias = "torchrun:--nnodes")]
#[doc(alias = "torchrun:--nproc_per_node")]
#[doc(alias = "torchrun:--rdzv_backend")]
#[doc(alias = "torchrun:--rdzv_endpoint")]
#[doc(alias = "torchrun:--rdzv_id")]
#[doc(alias = "torchrun:--standalone")]
#[doc(alias = "torch.distributed.launch")]
#[doc(alias = "torch.distributed.deprecated.launch")]
#[doc(alias = "torch.distributed.launch:--local-rank")]
#[doc(alias = "torch.distributed.launch:--master-addr")]
#[doc(alias = "torch.distributed.launch:--master-port")]
#[doc(alias = "torch.distributed.launch:--nnodes")]
#[doc(alias = "torch.distributed.launch:--node-rank")]
#[doc(alias = "torch.distributed.launch:--nproc-per-node")]
#[doc(alias = "torch.distributed.launch:--use-env")]
pub const USAGE: &str = "\
usage: flambeau-run [flags] PROGRAM [ARGUMENTS]
       flambeau-run --merge-traces FILE...

Starts a job's processes on this machine, as torchrun does; machines under torchrun can be of the same job.

  --nproc-per-node N       processes on this machine (auto, cpu: one for each processor); default 1
  --nnodes N, MIN:MAX      machines; default 1
  --rdzv-backend NAME      how machines find each other: static, c10d; default static
  --rdzv-endpoint H:P      where they do
  --rdzv-id ID             the job's name
  --rdzv-conf A=B,C=D      further settings: timeout, join_timeout, last_call_timeout, is_host, ...
  --standalone             this machine alone, with a free port
  --node-rank N            which machine this is, with static; default 0
  --master-addr HOST       where machine 0 is, with static; default 127.0.0.1
  --master-port PORT       the port of its store; default 29500
  --local-addr HOST        this machine's address for others
  --max-restarts N         how often a failed job starts again; default 0
  --monitor-interval S     how often to look at the processes; default 0.1
  --shutdown-timeout S     how long processes may take to end; default 30
  --role NAME              what the workers are called; default `default`
  --log-dir DIR            where output goes that is redirected
  -r, --redirects S        output to files instead: 1 standard output, 2 standard error, 3 both; or by process: 0:3,1:2
  -t, --tee S              output to files as well
  --local-ranks-filter L   whose output is shown: 0,1
  --log-line-prefix-template T   what lines of teed output begin with: ${role_name}, ${local_rank}, ${rank}
  --event-log-handler NAME null, console; default null
  --virtual-local-rank     each process finds LOCAL_RANK 0
  --print-completion       says how the job has ended
  --no-python              programs are started as they are here anyway
  --use-env                LOCAL_RANK is a variable here anyway
  --no-use-env             the program gets --local-rank=N as well, as of torch.distributed.launch

Each flag may be written with - or _.";

fn take<T: std::str::FromStr>(text: &str, what: &str) -> Result<T> {
    text.parse().map_err(|_| Error::value(format!("could not convert string to {what}: '{text}'")))
}
struct Parsed {
    options: LaunchOptions,
    program: Vec<String>,
    tells: bool,
}
fn parse(args: impl IntoIterator<Item = String>) -> Result<Parsed> {
    let mut args = args.into_iter();
    let (mut o, mut program) = (LaunchOptions::new(), Vec::new());
    let (mut standalone, mut local_rank_argument, mut tells) = (false, false, false);
    while let Some(a) = args.next() {
        if !a.starts_with('-') {
            program.push(a);
            program.extend(args);
            break;
        }
        let (flag, given) = match a.split_once('=') {
            Some((f, v)) => (f.to_owned(), Some(v.to_owned())),
            None => (a, None),
        };
        let flag = flag.replace('_', "-");
        match flag.as_str() {
            "--standalone" => standalone = true,
            "--no-python" | "--use-env" => {}
            "--no-use-env" => local_rank_argument = true,
            "--print-completion" => tells = true,
            "--virtual-local-rank" => o = o.virtual_local_rank(true),
            "-m" | "--module" | "--run-path" => {
                bail!(
                    Value,
                    "{flag} is of programs in Python: start them with torchrun, whose machines can be of the same job"
                )
            }
            "--numa-binding" => bail!(Missing, "{flag}: processes bound to processors"),
            "--logs-specs"
            | "--start-method"
            | "--signals-to-handle"
            | "--duplicate-stdout-filters"
            | "--duplicate-stderr-filters" => bail!(Missing, "{flag}"),
            _ => {
                let v = match given.or_else(|| args.next()) {
                    Some(v) => v,
                    None => bail!(Value, "argument {flag}: expected one argument"),
                };
                o = valued(o, &flag, v)?;
            }
        }
    }
    if local_rank_argument {
        let at = usize::from(!program.is_empty());
        program.insert(at, "--local-rank=${local_rank}".into());
    }
    if standalone {
        o.rdzv_backend = "c10d".into();
        o.rdzv_endpoint = Some("localhost:0".into());
        o.run_id = fresh_id();
        (o.nnodes, o.min_nodes) = (1, None);
    }
    Ok(Parsed { options: o, program, tells })
}
fn valued(o: LaunchOptions, flag: &str, v: String) -> Result<LaunchOptions> {
    let seconds = |v: &str| -> Result<Duration> {
        let s: f64 = take(v, "float")?;
        ensure!(s > 0.0 && s < 1e9, Value, "{flag}: {v} seconds");
        Ok(Duration::from_secs_f64(s))
    };
    Ok(match flag {
        "--nproc-per-node" => o.nproc_per_node(determine_local_world_size(&v)?),
        "--nnodes" => {
            let (low, high) = parse_min_max_nnodes(&v)?;
            ensure!(
                0 < low && low <= high,
                Assertion,
                "min_nodes must be > 0 and <= max_nodes, got min_nodes={low}, max_nodes={high}"
            );
            o.nnodes(high).min_nodes(low)
        }
        "--node-rank" => o.node_rank(int(&v)?),
        "--master-addr" => o.master_addr(v),
        "--master-port" => o.master_port(int(&v)?),
        "--rdzv-backend" => o.rdzv_backend(v),
        "--rdzv-endpoint" => o.rdzv_endpoint(v),
        "--rdzv-id" => o.run_id(v),
        "--rdzv-conf" => o.rdzv_conf(v),
        "--local-addr" => o.local_addr(v),
        "--role" => o.role(v),
        "--max-restarts" => o.max_restarts(int(&v)?),
        "--monitor-interval" => o.monitor_interval(seconds(&v)?),
        "--shutdown-timeout" => o.shutdown_timeout(seconds(&v)?),
        "--log-dir" => o.log_dir(v),
        "--event-log-handler" => o.event_log_handler(v),
        "--log-line-prefix-template" => o.log_line_prefix_template(v),
        "-r" | "--redirects" => o.redirects(v.parse::<Stds>()?),
        "-t" | "--tee" => o.tee(v.parse::<Stds>()?),
        "--local-ranks-filter" => {
            let all: Result<Vec<i64>> = v.split(',').map(int).collect();
            match all {
                Ok(l) if !l.is_empty() => o.local_ranks_filter(l),
                _ => bail!(
                    Value,
                    "--local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2"
                ),
            }
        }
        other => bail!(Value, "unrecognized arguments: {other}\n\n{USAGE}"),
    })
}
/// A name that no other job has, in the form of a UUID.
fn fresh_id() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let h = crate::sha1::sha1_hex(format!("{now} {} {:p}", std::process::id(), &now).as_bytes());
    format!("{}-{}-4{}-8{}-{}", &h[..8], &h[8..12], &h[13..16], &h[17..20], &h[20..32])
}
/// Puts the numbers of signals that would end this process into a cell.
fn signals() -> Result<Arc<AtomicI32>> {
    let cell = Arc::new(AtomicI32::new(0));
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        let mut all = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT])?;
        let to = cell.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for n in all.forever() {
                to.store(n, std::sync::atomic::Ordering::SeqCst);
            }
        })?;
    }
    Ok(cell)
}

/// Does what a command line says, and gives the exit code: 0, 1 where the job has failed, 2 where it was not understood.
pub fn command_line(args: Vec<String>) -> u8 {
    if args.iter().take_while(|a| a.starts_with('-')).any(|a| a == "--help" || a == "-h") {
        println!("{USAGE}");
        return 0;
    }
    if let Some(files) = args.strip_prefix(&["--merge-traces".to_owned()][..]) {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        return match merge_traces(&files) {
            Ok(text) => {
                print!("{text}");
                0
            }
            Err(e) => {
                eprintln!("{}: {e}", e.kind().class_name());
                1
            }
        };
    }
    let said = |e: &Error| eprintln!("{}: {e}", e.kind().class_name());
    let p = match parse(args) {
        Ok(p) => p,
        Err(e) => {
            said(&e);
            return 1;
        }
    };
    if p.program.is_empty() {
        eprintln!(
            "flambeau-run: error: the following arguments are required: training_script, training_script_args"
        );
        return 2;
    }
    let run_id = p.options.run_id.clone();
    let done = signals().and_then(|s| launch_until(&p.program, p.options, &s));
    match done {
        Ok(()) => {
            if p.tells {
                println!("job {run_id} has ended well");
            }
            0
        }
        Err(e) if e.message().contains("Root Cause") => {
            eprintln!("ChildFailedError: {e}");
            1
        }
        Err(e) => {
            said(&e);
            1
        }
    }
}
