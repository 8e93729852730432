//! The project's own commands: `cargo xtask COMMAND [ARGUMENTS]`.

mod accuracy;
mod autocast;
mod bench;
mod codegen;
mod conformance;
mod conventions;
mod coverage;
mod examples;
mod instructions;
mod kernels;
mod memcheck;
mod out_rules;
mod release;
mod schema;
mod table;
mod tidy;
mod weigh;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A command: takes the repository root and its own arguments, says whether all is well.
type Command = fn(&Path, &[String]) -> Result<bool, String>;

/// Name, one line of help, function.
const COMMANDS: &[(&str, &str, Command)] = &[
    (
        "accuracy",
        "write docs/accuracy.md: largest errors of functions, in last places, beside PyTorch's: [--from FILE]",
        accuracy::run,
    ),
    (
        "bench",
        "time the rows of the benchmark, PyTorch beside them: [--threads 1,2] [--only TEXT] [--min-time S] [--python PATH] [--compare FILE] [--out FILE] [--networks [--quick]] [--growth] [--limits] [--device cuda]",
        bench::run,
    ),
    (
        "codegen",
        "write src/generated/ of every crate from its ops/*.toml; --check only compares",
        codegen::run,
    ),
    (
        "conformance",
        "judge recorded calls: [DIR] [--only TEXT] [--failures N] [--list-missing] [--record] [--check]",
        conformance::run,
    ),
    ("coverage", "write docs/coverage.md: which documented names work; --check only compares", coverage::run),
    (
        "examples",
        "list public names without an example that runs, and those that have a reason",
        examples::run,
    ),
    (
        "instructions",
        "count instructions of small calls beside the kept counts, and what a process costs: [--check | --write]",
        instructions::run,
    ),
    (
        "features",
        "check the facade without features, with each alone, as it comes and with all: [NAME]",
        release::features,
    ),
    (
        "kernels",
        "write the formulas of flambeau-cpu as device functions (kernels/generated); --check only compares, --report writes docs/cuda_kernels.md, --archive [--architectures 80,90a] [--list FILE] [--out FILE] compiles kernels/instances.tsv with nvcc for the feature cuda-prebuilt, --instances [FILE...] [--check] adds what programs ask for to that list, --fallbacks [--check] writes kernels/by_the_cpu.txt, the operators without kernels",
        kernels::run,
    ),
    (
        "memcheck",
        "tests of storage, views and iterator under [asan] [tsan] [valgrind] [miri], as far as the machine has them; the lock's models [loom]",
        memcheck::run,
    ),
    (
        "notices",
        "write docs/third-party.md: crates of others in a program, with their licences; --check only compares",
        release::notices,
    ),
    ("package", "pack the published crates and look into the packages: [--allow-dirty]", release::package),
    ("tidy", "count core's import circles and the arrows that run back up, and hold their bounds", tidy::run),
    (
        "weigh",
        "what a program outside of the workspace costs: build time, weight, rebuild, for each set of features: [NAME]",
        weigh::run,
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("", String::as_str);
    let Some((_, _, command)) = COMMANDS.iter().find(|c| c.0 == name) else {
        eprintln!("usage: cargo xtask COMMAND [ARGUMENTS]");
        for (name, help, _) in COMMANDS {
            eprintln!("  {name:<12} {help}");
        }
        return ExitCode::from(2);
    };
    match command(&root(), &args[1..]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("{name}: {e}");
            ExitCode::from(1)
        }
    }
}
