//! `flambeau-run [flags] PROGRAM [ARGUMENTS]`: starts a job's processes on this machine, as torchrun does.

#![forbid(unsafe_code)]

use flambeau_core::{Error, Result, bail};
use flambeau_distributed::launch::{LaunchOptions, launch};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: flambeau-run [flags] PROGRAM [ARGUMENTS]

  --nproc-per-node N    processes on this machine (auto, cpu: one for each processor); default 1
  --nnodes N            machines; default 1
  --node-rank N         which of them this is; default 0
  --master-addr HOST    where machine 0 is; default 127.0.0.1
  --master-port PORT    the port of its store; default 29500
  --standalone          this machine alone, with a free port
  --max-restarts N      how often a failed job starts again; default 0
  --monitor-interval S  how often to look at the processes; default 0.1
  --rdzv-id ID          the job's name
  --rdzv-backend NAME   static; c10d on one machine
  --rdzv-endpoint H:P   the same as --master-addr and --master-port
  --role NAME           what the workers are called; default `default`
  --log-dir DIR         where output goes that is redirected
  -r, --redirects N     output to files instead: 1 standard output, 2 standard error, 3 both
  -t, --tee N           output to files as well
  --no-python           as torchrun's: programs are started as they are here anyway";

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::value(format!("invalid literal for int() with base 10: '{text}'")))
}
fn parse(mut args: impl Iterator<Item = String>) -> Result<(LaunchOptions, Vec<String>)> {
    let (mut o, mut program) = (LaunchOptions::new(), Vec::new());
    let (mut nnodes, mut standalone) = (1, false);
    let (mut host, mut port): (Option<String>, Option<i64>) = (None, None);
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
        if matches!(flag.as_str(), "--standalone" | "--no-python") {
            standalone |= flag == "--standalone";
            continue;
        }
        let mut value = || match given.clone().or_else(|| args.next()) {
            Some(v) => Ok(v),
            None => Err(Error::value(format!("argument {flag}: expected one argument"))),
        };
        o = match flag.as_str() {
            "--nproc-per-node" => {
                let v = value()?;
                let n = match v.as_str() {
                    "auto" | "cpu" => std::thread::available_parallelism().map_or(1, |n| n.get() as i64),
                    "gpu" => bail!(Value, "Cuda is not available."),
                    n => n
                        .parse()
                        .map_err(|_| Error::value(format!("Unsupported nproc_per_node value: {n}")))?,
                };
                o.nproc_per_node(n)
            }
            "--nnodes" => {
                let v = value()?;
                let (low, high) = v.split_once(':').unwrap_or((&v, &v));
                let (low, high): (i64, i64) = (number(low)?, number(high)?);
                if low <= 0 || low > high {
                    bail!(
                        Assertion,
                        "min_nodes must be > 0 and <= max_nodes, got min_nodes={low}, max_nodes={high}"
                    );
                }
                if low != high {
                    bail!(Missing, "--nnodes {v}: a number of machines that changes");
                }
                nnodes = low;
                o.nnodes(low)
            }
            "--node-rank" => o.node_rank(number::<i64>(&value()?)?),
            "--master-addr" => {
                host = Some(value()?);
                o
            }
            "--master-port" => {
                port = Some(number(&value()?)?);
                o
            }
            "--rdzv-endpoint" => {
                let v = value()?;
                match v.rsplit_once(':') {
                    Some((h, p)) => (host, port) = (Some(h.to_owned()), Some(number(p)?)),
                    None => host = Some(v),
                }
                o
            }
            "--rdzv-backend" => match value()?.as_str() {
                "static" | "c10d" => o,
                other => bail!(
                    Value,
                    "The rendezvous backend '{other}' is not registered. Did you forget to call `register`?"
                ),
            },
            "--rdzv-id" => o.run_id(value()?),
            "--role" => o.role(value()?),
            "--max-restarts" => o.max_restarts(number::<i64>(&value()?)?),
            "--monitor-interval" => {
                let v = value()?;
                let s: f64 = v
                    .parse()
                    .map_err(|_| Error::value(format!("could not convert string to float: '{v}'")))?;
                o.monitor_interval(Duration::from_secs_f64(s.clamp(0.001, 3600.0)))
            }
            "--log-dir" => o.log_dir(value()?),
            "-r" | "--redirects" => o.redirects(number::<i64>(&value()?)?),
            "-t" | "--tee" => o.tee(number::<i64>(&value()?)?),
            other => bail!(Value, "unknown flag {other}\n\n{USAGE}"),
        };
    }
    if !standalone {
        if let Some(h) = host {
            o = o.master_addr(h);
        }
        if let Some(p) = port {
            o = o.master_port(p);
        } else if nnodes == 1 {
            o = o.master_port(0);
        }
    }
    Ok((o, program))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() || args.iter().any(|a| a == "--help" || a == "-h") {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    match parse(args.into_iter()).and_then(|(o, program)| launch(&program, o)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(f)) => {
            eprintln!("failed (exitcode: {}) local_rank: {} rank: {}", f.exit_code, f.local_rank, f.rank);
            if let Some(e) = f.error {
                eprintln!("{e}");
            }
            ExitCode::from(1)
        }
        Err(e) => {
            eprintln!("{}: {e}", e.kind().class_name());
            ExitCode::from(1)
        }
    }
}
