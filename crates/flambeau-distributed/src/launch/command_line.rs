//! The command line of `flambeau-run`: torchrun's flags, and those of `torch.distributed.launch`.

use super::{LaunchOptions, launch_until};
use crate::calls::merge_traces;
use crate::elastic::processes::Stds;
use crate::elastic::{determine_local_world_size, int, parse_min_max_nnodes};
use crate::numa::AffinityMode;
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
  --log-line-prefix-template T   what lines of teed output begin with: ${role_name}, ${local_rank}, ${rank}, ${hostname}
  --duplicate-stdout-filters A,B   lines of teed output with A or B to filtered_stdout.log as well; ,, is a comma
  --duplicate-stderr-filters A,B   the same of standard error
  --signals-to-handle A,B  signals that end the job and go to the workers; default SIGTERM,SIGINT,SIGHUP,SIGQUIT
  --start-method NAME      spawn, fork, forkserver: how functions of Python would start; programs start in one way
  --event-log-handler NAME null, console; default null
  --virtual-local-rank     each process finds LOCAL_RANK 0 and its own device alone
  --print-completion SHELL prints what completes these flags in bash, zsh or tcsh
  --numa-binding HOW       processors near each process' device: node, socket, exclusive, core-complex; by numactl
  --logs-specs NAME        a class of a package of Python; there is none for programs
  -m, --module             PROGRAM is a module of Python, which $PYTHON_EXEC (default python3) runs
  --run-path               PROGRAM is a script of Python, which that runs by runpy
  --no-python              programs are started as they are here anyway
  --use-env                LOCAL_RANK is a variable here anyway
  --no-use-env             the program gets --local-rank=N as well, as of torch.distributed.launch

Each flag may be written with - or _, and shortened as long as it is clear. A variable PET_NAME stands for --name where that is not given.";

/// Flags with a value. Those of torchrun that a variable can stand for, all of them.
const VALUED: [&str; 27] = [
    "--nproc-per-node",
    "--nnodes",
    "--rdzv-backend",
    "--rdzv-endpoint",
    "--rdzv-id",
    "--rdzv-conf",
    "--node-rank",
    "--master-addr",
    "--master-port",
    "--local-addr",
    "--max-restarts",
    "--monitor-interval",
    "--shutdown-timeout",
    "--start-method",
    "--role",
    "--log-dir",
    "--redirects",
    "--tee",
    "--local-ranks-filter",
    "--log-line-prefix-template",
    "--duplicate-stdout-filters",
    "--duplicate-stderr-filters",
    "--event-log-handler",
    "--signals-to-handle",
    "--numa-binding",
    "--logs-specs",
    "--print-completion",
];
/// Flags without one.
const PLAIN: [&str; 7] = [
    "--standalone",
    "--no-python",
    "--module",
    "--run-path",
    "--virtual-local-rank",
    "--use-env",
    "--no-use-env",
];
/// What runs a script from its path, within an interpreter.
const RUN_PATH: &str =
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')";

/// The flag that is meant: itself, one of which it is the only beginning, or as it stands.
fn whole(flag: &str) -> String {
    let flag = flag.replace('_', "-");
    let flag = match flag.as_str() {
        "-m" => "--module",
        "-r" => "--redirects",
        "-t" => "--tee",
        f => f,
    };
    let all = || VALUED.into_iter().chain(PLAIN);
    let mut begun = all().filter(|f| flag.len() > 2 && f.starts_with(flag));
    match (all().find(|f| *f == flag), begun.next(), begun.next()) {
        (Some(f), ..) | (None, Some(f), None) => f.to_owned(),
        _ => flag.to_owned(),
    }
}
/// What the variable `PET_NAME` says of a flag.
fn variable(flag: &str) -> Option<String> {
    let name = flag.trim_start_matches('-').replace('-', "_").to_uppercase();
    std::env::var(format!("PET_{name}")).ok()
}
/// Parts between commas; two commas are one that belongs to a part.
fn parts(list: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut rest = list.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, all.last_mut()) {
            (',', Some(last)) if rest.peek() == Some(&',') => {
                rest.next();
                last.push(',');
            }
            (',', _) => all.push(String::new()),
            (_, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    all
}
/// What completes the flags in a shell.
fn completion(shell: &str) -> Result<String> {
    let all: Vec<&str> = VALUED.into_iter().chain(PLAIN).chain(["--help"]).collect();
    let words = all.join(" ");
    Ok(match shell {
        "bash" => format!("complete -o default -W \"{words}\" flambeau-run"),
        "zsh" => format!("#compdef flambeau-run\n_arguments '*:program:_files' {words}"),
        "tcsh" => format!(
            "complete flambeau-run 'c/--/({})/'",
            all.iter().map(|f| f.trim_start_matches('-')).collect::<Vec<_>>().join(" ")
        ),
        other => bail!(
            Value,
            "argument --print-completion: invalid choice: '{other}' (choose from 'bash', 'zsh', 'tcsh')"
        ),
    })
}

fn take<T: std::str::FromStr>(text: &str, what: &str) -> Result<T> {
    text.parse().map_err(|_| Error::value(format!("could not convert string to {what}: '{text}'")))
}
struct Parsed {
    options: LaunchOptions,
    program: Vec<String>,
    /// what is printed instead of anything else
    prints: Option<String>,
}
fn parse(args: impl IntoIterator<Item = String>) -> Result<Parsed> {
    let mut args = args.into_iter();
    let (mut o, mut program, mut prints) = (LaunchOptions::new(), Vec::new(), None);
    let (mut standalone, mut local_rank_argument) = (false, false);
    let (mut module, mut run_path, mut no_python) = (false, false, false);
    let mut plain = |o: LaunchOptions, flag: &str| -> Result<LaunchOptions> {
        match flag {
            "--standalone" => standalone = true,
            "--use-env" => {}
            "--no-python" => no_python = true,
            "--module" => module = true,
            "--run-path" => run_path = true,
            "--no-use-env" => local_rank_argument = true,
            "--virtual-local-rank" => return Ok(o.virtual_local_rank(true)),
            other => bail!(Value, "unrecognized arguments: {other}"),
        }
        Ok(o)
    };
    if let Ok(s) = std::env::var("TORCH_ELASTIC_SHUTDOWN_TIMEOUT") {
        o = valued(o, "--shutdown-timeout", s)?;
    }
    for flag in VALUED {
        if let Some(v) = variable(flag).filter(|_| flag != "--print-completion") {
            o = valued(o, flag, v)?;
        }
    }
    for flag in ["--standalone", "--module", "--run-path", "--virtual-local-rank"] {
        if variable(flag).map(|v| int(&v)).transpose()?.is_some_and(|n| n != 0) {
            o = plain(o, flag)?;
        }
    }
    while let Some(a) = args.next() {
        if !a.starts_with('-') || a == "--" {
            program.extend(Some(a).filter(|a| a != "--"));
            program.extend(args);
            break;
        }
        let (flag, given) = match a.split_once('=') {
            Some((f, v)) => (f.to_owned(), Some(v.to_owned())),
            // the value of a flag of one letter may follow at once
            None if a.len() > 2 && (a.starts_with("-r") || a.starts_with("-t")) => {
                (a[..2].to_owned(), Some(a[2..].to_owned()))
            }
            None => (a, None),
        };
        let flag = whole(&flag);
        if PLAIN.contains(&flag.as_str()) {
            o = plain(o, &flag)?;
            continue;
        }
        let v = match given.or_else(|| args.next()) {
            Some(v) => v,
            None => bail!(Value, "argument {flag}: expected one argument"),
        };
        if flag == "--print-completion" {
            prints = Some(completion(&v)?);
            break;
        }
        o = valued(o, &flag, v)?;
    }
    if local_rank_argument {
        let at = usize::from(!program.is_empty());
        program.insert(at, "--local-rank=${local_rank}".into());
    }
    if !program.is_empty() && (module || run_path) {
        ensure!(
            run_path || !no_python,
            Value,
            "Don't use both the '--no-python' flag and the '--module' flag at the same time."
        );
        let python = std::env::var("PYTHON_EXEC").unwrap_or_else(|_| "python3".into());
        let how: &[&str] = if run_path { &["-u", "-c", RUN_PATH] } else { &["-u", "-m"] };
        program.splice(0..0, [python].into_iter().chain(how.iter().map(|h| (*h).to_owned())));
    }
    if standalone {
        o.rdzv_backend = "c10d".into();
        o.rdzv_endpoint = Some("localhost:0".into());
        o.run_id = fresh_id();
        (o.nnodes, o.min_nodes) = (1, None);
    }
    Ok(Parsed { options: o, program, prints })
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
        "--duplicate-stdout-filters" => o.duplicate_stdout_filters(parts(&v)),
        "--duplicate-stderr-filters" => o.duplicate_stderr_filters(parts(&v)),
        "--signals-to-handle" => o.signals_to_handle(v),
        "--start-method" => {
            ensure!(
                ["spawn", "fork", "forkserver"].contains(&v.as_str()),
                Value,
                "argument --start-method: invalid choice: '{v}' (choose from 'spawn', 'fork', 'forkserver')"
            );
            o
        }
        "--numa-binding" => o.numa_options(v.parse::<AffinityMode>()?),
        // PyTorch finds a class of this name among the packages of Python; there is none here
        "--logs-specs" => bail!(Value, "Could not find entrypoint under 'torchrun.logs_specs[{v}]' key"),
        "--redirects" => o.redirects(v.parse::<Stds>()?),
        "--tee" => o.tee(v.parse::<Stds>()?),
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
/// The number of a signal that a process may handle, by its name.
#[cfg(unix)]
fn signal_number(name: &str) -> Option<i32> {
    use signal_hook::consts as c;
    Some(match name {
        "SIGTERM" => c::SIGTERM,
        "SIGINT" => c::SIGINT,
        "SIGHUP" => c::SIGHUP,
        "SIGQUIT" => c::SIGQUIT,
        "SIGUSR1" => c::SIGUSR1,
        "SIGUSR2" => c::SIGUSR2,
        "SIGALRM" => c::SIGALRM,
        "SIGABRT" => c::SIGABRT,
        "SIGCONT" => c::SIGCONT,
        "SIGPIPE" => c::SIGPIPE,
        "SIGPROF" => c::SIGPROF,
        "SIGTSTP" => c::SIGTSTP,
        "SIGURG" => c::SIGURG,
        "SIGVTALRM" => c::SIGVTALRM,
        "SIGWINCH" => c::SIGWINCH,
        "SIGXCPU" => c::SIGXCPU,
        "SIGXFSZ" => c::SIGXFSZ,
        _ => return None,
    })
}
/// Puts the numbers of these signals, if they come, into a cell. Names that are no signals, or none that a process may handle, are said.
fn signals(names: &str) -> Result<Arc<AtomicI32>> {
    let cell = Arc::new(AtomicI32::new(0));
    #[cfg(unix)]
    {
        let mut numbers = Vec::new();
        for name in names.split(',').map(str::trim) {
            match signal_number(name) {
                Some(n) => numbers.push(n),
                None => eprintln!("Failed to register signal handler for {name}"),
            }
        }
        let mut all = signal_hook::iterator::Signals::new(numbers)?;
        let to = cell.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for n in all.forever() {
                to.store(n, std::sync::atomic::Ordering::SeqCst);
            }
        })?;
    }
    #[cfg(not(unix))]
    let _ = names;
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
            let unclear = ["argument ", "unrecognized arguments"].iter().any(|t| e.message().starts_with(t));
            return if unclear { 2 } else { 1 };
        }
    };
    if let Some(text) = p.prints {
        println!("{text}");
        return 0;
    }
    if p.program.is_empty() {
        eprintln!(
            "flambeau-run: error: the following arguments are required: training_script, training_script_args"
        );
        return 2;
    }
    let done = signals(&p.options.signals_to_handle).and_then(|s| launch_until(&p.program, p.options, &s));
    match done {
        Ok(()) => 0,
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
