//! Starts a job's processes on this machine, as torchrun does.

#![forbid(unsafe_code)]

use flambeau_distributed::launch::command_line;
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(command_line(std::env::args().skip(1).collect()))
}
