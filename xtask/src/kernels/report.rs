//! `cargo xtask kernels --report`: what NVRTC's assembler says of an instance of each kernel (`kernels/report.tsv`), as
//! docs/cuda_kernels.md. It needs NVRTC and no device.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const ARCHITECTURE: &str = "sm_90a";
/// Of a multiprocessor of that architecture.
const REGISTERS: u32 = 65_536;
const THREADS: u32 = 2048;

/// A line of the list.
struct Instance {
    file: String,
    call: String,
    bound: String,
}
impl Instance {
    fn parse(line: &str) -> Result<Instance, String> {
        let mut parts = line.split('\t').map(str::to_string);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(file), Some(call), Some(bound)) => Ok(Instance { file, call, bound }),
            _ => Err(format!("kernels/report.tsv: {line}")),
        }
    }
    fn macro_name(&self) -> &str {
        self.call.split('(').next().unwrap_or_default()
    }
    /// A source whose kernels' names begin with `k`.
    fn source(&self) -> String {
        let rest = self.call.split_once('(').map_or("", |c| c.1);
        let comma = if rest == ")" { "" } else { ", " };
        let formulas = if rest.contains("formula::") { "#include \"generated/pointwise.cuh\"\n" } else { "" };
        format!("#include \"{}\"\n{formulas}{}(k{comma}{rest}\n", self.file, self.macro_name())
    }
}

/// What a kernel takes.
#[derive(Debug, PartialEq)]
struct Use {
    kernel: String,
    registers: u32,
    spilled: u32,
    shared: u32,
}
/// The kernels that the assembler's words are about.
fn uses(said: &str) -> Vec<Use> {
    let before = |line: &str, what: &str| -> u32 {
        let head = line.split(what).next().filter(|_| line.contains(what));
        head.and_then(|h| h.trim_end().rsplit([' ', ',']).next()?.parse().ok()).unwrap_or(0)
    };
    let mut all: Vec<Use> = Vec::new();
    for line in said.lines() {
        if let Some(name) = line.split("Compiling entry function '").nth(1) {
            let kernel = name.split('\'').next().unwrap_or_default().to_string();
            all.push(Use { kernel, registers: 0, spilled: 0, shared: 0 });
        } else if let Some(u) = all.last_mut() {
            u.spilled = u.spilled.max(before(line, " bytes spill stores"));
            u.registers = u.registers.max(before(line, " registers"));
            u.shared = u.shared.max(before(line, " bytes smem"));
        }
    }
    all.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    all
}
/// Macros of a source that define kernels.
fn macros(text: &str) -> Vec<String> {
    let mut lines = text.lines().peekable();
    let mut out = Vec::new();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("#define ").and_then(|l| l.split_once("(NAME")).map(|l| l.0);
        let kernel = lines.peek().is_some_and(|l| l.trim_start().starts_with("KERNEL"));
        out.extend(name.filter(|n| kernel && !n.starts_with("KERNEL")).map(str::to_string));
    }
    out
}
/// Macros of all files that the list lacks.
fn missing(folder: &Path, listed: &BTreeSet<&str>, out: &mut Vec<String>) -> Result<(), String> {
    let read = |p: &Path| std::fs::read_dir(p).map_err(|e| format!("{}: {e}", p.display()));
    for entry in read(folder)? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.is_dir() {
            missing(&path, listed, out)?;
        } else if path.extension().is_some_and(|e| e == "cuh") {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            out.extend(macros(&text).into_iter().filter(|m| !listed.contains(m.as_str())));
        }
    }
    Ok(())
}
fn table(instances: &[Instance], all: &[Vec<Use>]) -> String {
    let mut out = format!(
        "# Kernels\n\nWritten by `cargo xtask kernels --report` from what NVRTC's assembler says of `kernels/report.tsv` for {ARCHITECTURE}; \
         do not edit. *Threads*: how many a multiprocessor has at once by registers, of {THREADS}. *Spilled*: bytes of registers \
         that a thread keeps in memory. *Bound*: what the time should follow from, where all elements are used.\n\n\
         | file | kernel | registers | threads | spilled | shared | bound |\n|---|---|---|---|---|---|---|\n"
    );
    for (i, kernels) in instances.iter().zip(all) {
        for u in kernels {
            let threads = (REGISTERS / (u.registers.max(1).next_multiple_of(8) * 32) * 32).min(THREADS);
            let part = u.kernel.strip_prefix("k_").map_or(String::new(), |p| format!(" ({p})"));
            let _ = writeln!(
                out,
                "| {} | `{}`{part} | {} | {threads} | {} | {} | {} |",
                i.file.trim_end_matches(".cuh"),
                i.call,
                u.registers,
                u.spilled,
                u.shared,
                i.bound
            );
        }
    }
    out
}

/// Writes the table.
///
/// # Errors
/// No NVRTC, a source that it refuses, a macro that the list lacks.
pub fn run(root: &Path) -> Result<bool, String> {
    let list = root.join("kernels/report.tsv");
    let text = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    let instances = lines.map(Instance::parse).collect::<Result<Vec<_>, _>>()?;
    let (listed, mut absent) = (instances.iter().map(Instance::macro_name).collect(), Vec::new());
    missing(&root.join("kernels"), &listed, &mut absent)?;
    if !absent.is_empty() {
        return Err(format!("kernels/report.tsv lacks {}", absent.join(", ")));
    }
    let folder = root.join("target/kernels");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    c.current_dir(root).args([
        "run",
        "--quiet",
        "--package",
        "flambeau-cuda",
        "--example",
        "assembled",
        "--",
    ]);
    c.arg(ARCHITECTURE);
    for (i, instance) in instances.iter().enumerate() {
        let path = folder.join(format!("{i}.cu"));
        std::fs::write(&path, instance.source()).map_err(|e| format!("{}: {e}", path.display()))?;
        c.arg(path);
    }
    let out = c.output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stdout);
    let all: Vec<Vec<Use>> = said.split("file ").skip(1).map(uses).collect();
    if all.len() != instances.len() {
        return Err(format!("{} sources, {} answers", instances.len(), all.len()));
    }
    let path = root.join("docs/cuda_kernels.md");
    std::fs::write(&path, table(&instances, &all)).map_err(|e| format!("{}: {e}", path.display()))?;
    let spilled = all.iter().flatten().filter(|u| u.spilled > 0).count();
    println!(
        "wrote {}: {} kernels, {spilled} spill",
        path.display(),
        all.iter().map(Vec::len).sum::<usize>()
    );
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_assembler_says() {
        let said = "ptxas info    : 48 bytes gmem\nptxas info    : Compiling entry function 'k_b' for 'sm_90'\nptxas         .     16 \
                    bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\nptxas info    : Used 64 registers, used 1 barriers, \
                    16 bytes cumulative stack size, 128 bytes smem\nptxas info    : Compiling entry function 'k' for 'sm_90'\nptxas info    \
                    : Used 32 registers, used 0 barriers\n";
        let of = |kernel: &str, registers, spilled, shared| Use {
            kernel: kernel.into(),
            registers,
            spilled,
            shared,
        };
        assert_eq!(uses(said), [of("k", 32, 0, 0), of("k_b", 64, 12, 128)]);
    }
    #[test]
    fn sources_and_macros() {
        let i = Instance::parse("a/b.cuh\tFILL(u32)\tbytes").unwrap();
        assert_eq!(i.source(), "#include \"a/b.cuh\"\nFILL(k, u32)\n");
        let i = Instance::parse("a/b.cuh\tREPEAT()\tbytes").unwrap();
        assert_eq!(i.source(), "#include \"a/b.cuh\"\nREPEAT(k)\n");
        assert!(Instance::parse("a/b.cuh").is_err());
        assert_eq!(
            macros("#define A(NAME, T) \\\n    KERNEL(NAME, P) {}\n#define B(NAME) \\\n    other\n"),
            ["A"]
        );
    }
}
