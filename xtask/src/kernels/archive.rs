//! `cargo xtask kernels --archive`: the kernels of `kernels/instances.tsv`, compiled by nvcc for every architecture into one file that the
//! feature `cuda-prebuilt` embeds. `cargo xtask kernels --instances`: that list, from what programs ask for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// The version of NVIDIA's compiler that is fetched where there is none: the oldest that knows all architectures and takes drivers of CUDA 13.
const NVCC: &str = "13.0.88";
const PACKAGES: [&str; 4] = ["nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime"];
/// Architectures with code of their own. A cubin serves the later devices of its generation too; 90a is capability 9.0 alone.
const ARCHITECTURES: &[&str] = &["80", "90a", "100", "120"];
/// The architecture of the PTX, from which drivers make code for all others from 8.0 on.
const PTX: &str = "80";

fn example(root: &Path, name: &str, args: &[&str]) -> Result<String, String> {
    let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    c.current_dir(root).args(["run", "--quiet", "--package", "flambeau-cuda", "--example", name, "--"]);
    let out = c.args(args).stderr(Stdio::piped()).output().map_err(|e| format!("cargo: {e}"))?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() { Ok(said) } else { Err(said + &String::from_utf8_lossy(&out.stderr)) }
}
fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: not in UTF-8", path.display()))
}

/// `NVCC`, one in PATH, or the pinned one of the Python index in a folder of the user's cache.
fn compiler() -> Result<PathBuf, String> {
    let runs = |p: &Path| Command::new(p).arg("--version").output().is_ok_and(|o| o.status.success());
    if let Some(own) = std::env::var_os("NVCC").map(PathBuf::from) {
        return if runs(&own) { Ok(own) } else { Err(format!("NVCC={} does not run", own.display())) };
    }
    if runs(Path::new("nvcc")) {
        return Ok("nvcc".into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = cache.ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join(format!("flambeau/nvcc-{NVCC}"));
    let found = |folder: &Path| {
        let packages = std::fs::read_dir(folder.join("lib")).ok()?;
        let nvcc = |p: PathBuf| p.join("site-packages/nvidia/cu13/bin/nvcc");
        packages.filter_map(|p| Some(nvcc(p.ok()?.path()))).find(|p| runs(p))
    };
    if let Some(known) = found(&folder) {
        return Ok(known);
    }
    println!("fetching nvcc {NVCC} into {}", folder.display());
    let step = |program: &Path, args: &[&str]| match Command::new(program).args(args).status() {
        Ok(s) if s.success() => Ok(()),
        Ok(s) => Err(format!("{} {}: {s}", program.display(), args.join(" "))),
        Err(e) => Err(format!("{}: {e}; set NVCC to a compiler of CUDA 12.8 or newer", program.display())),
    };
    step(Path::new("python3"), &["-m", "venv", text(&folder)?])?;
    let major = NVCC.rsplit_once('.').map_or(NVCC, |p| p.0);
    let wanted = PACKAGES.map(|p| match p {
        // the runtime's headers have numbers of their own
        "nvidia-cuda-runtime" => format!("{p}=={major}.*"),
        _ => format!("{p}=={NVCC}"),
    });
    let mut args = vec!["install", "--quiet", "--disable-pip-version-check"];
    args.extend(wanted.iter().map(String::as_str));
    step(&folder.join("bin/pip"), &args)?;
    found(&folder).ok_or_else(|| format!("there is no nvcc in {}", folder.display()))
}

/// Compiles a unit for all architectures; those that products of groups of warps do not exist on are left out.
fn compile(
    nvcc: &Path,
    from: &Path,
    to: &Path,
    groups: bool,
    architectures: &[&str],
) -> Result<bool, String> {
    let mut c = Command::new(nvcc);
    c.args(["-std=c++20", "-fmad=false", "-expt-relaxed-constexpr", "-w", "-fatbin", "-compress-mode=size"]);
    let own: Vec<&&str> = architectures.iter().filter(|a| !groups || **a == "90a").collect();
    if own.is_empty() {
        return Ok(false);
    }
    for a in own {
        let kinds = if *a == PTX { format!("[sm_{a},compute_{a}]") } else { format!("sm_{a}") };
        c.arg("-gencode").arg(format!("arch=compute_{a},code={kinds}"));
    }
    let beside = to.with_extension("new");
    let out = c.arg("-o").arg(&beside).arg(from).output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{}: {}", from.display(), String::from_utf8_lossy(&out.stderr)));
    }
    std::fs::rename(&beside, to).map_err(|e| e.to_string())?;
    Ok(true)
}

/// `--archive [--architectures 80,90a] [--list FILE] [--out FILE]`.
///
/// # Errors
/// No compiler and none to be had; a source that it refuses.
pub fn archive(root: &Path, args: &[String]) -> Result<bool, String> {
    let (mut architectures, mut list, mut out) = (
        ARCHITECTURES.to_vec(),
        root.join("kernels/instances.tsv"),
        root.join("target/kernels/flambeau.kernels"),
    );
    let mut rest = args.iter();
    while let Some(a) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{a} needs a value"))?;
        match a.as_str() {
            "--architectures" => architectures = value.split(',').collect(),
            "--list" => list = value.into(),
            "--out" => out = value.into(),
            _ => return Err("known are --architectures, --list and --out".into()),
        }
    }
    if let Some(unknown) = architectures.iter().find(|a| !ARCHITECTURES.contains(a)) {
        return Err(format!("architecture {unknown}: known are {}", ARCHITECTURES.join(", ")));
    }
    let nvcc = compiler()?;
    let said = Command::new(&nvcc).arg("--version").output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version =
        said.lines().find_map(|l| l.split("release ").nth(1)).unwrap_or("unknown").replace([',', ' '], "");
    let folder = root.join("target/kernels").join(format!("{version}-{}", architectures.join("-")));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    example(root, "archive", &["plan", text(&list)?, text(&folder)?])?;
    let table = folder.join("units.tsv");
    let units = std::fs::read_to_string(&table).map_err(|e| format!("{}: {e}", table.display()))?;
    let units: Vec<(&str, bool)> = units
        .lines()
        .filter_map(|l| l.split_once('\t'))
        .map(|(name, rest)| (name, rest.starts_with("groups")))
        .collect();
    let begin = Instant::now();
    let left = Mutex::new((units.iter(), Vec::new(), 0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                loop {
                    let next = match left.lock() {
                        Ok(mut l) if l.1.is_empty() => l.0.next(),
                        _ => None,
                    };
                    let Some((name, groups)) = next else { return };
                    let (from, to) =
                        (folder.join(format!("{name}.cu")), folder.join(format!("{name}.fatbin")));
                    if to.is_file() {
                        continue;
                    }
                    let done = compile(&nvcc, &from, &to, *groups, &architectures);
                    let Ok(mut l) = left.lock() else { return };
                    match done {
                        Ok(made) => l.2 += usize::from(made),
                        Err(e) => l.1.push(e),
                    }
                }
            });
        }
    });
    let (_, errors, made) = left.into_inner().map_err(|e| e.to_string())?;
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    if let Some(parent) = out.parent() {
        std::fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    }
    let packed = example(root, "archive", &["pack", text(&folder)?, text(&out)?])?;
    let whole = out.canonicalize().unwrap_or(out);
    println!(
        "compiled {made} of {} units in {} s by nvcc {version} for {}\n{packed}FLAMBEAU_KERNEL_ARCHIVE={}",
        units.len(),
        begin.elapsed().as_secs(),
        architectures.join(", "),
        whole.display()
    );
    Ok(true)
}

/// What programs are run for `--instances`: arguments of cargo, and the devices on which they run.
const PROGRAMS: &[(&str, &[&str])] = &[
    // products by matrix units of a warp, which devices have but those of capability 9.0
    (
        "emulated:2:8.0",
        &[
            "test",
            "-p",
            "flambeau-cuda",
            "--test",
            "it",
            "--",
            "--ignored",
            "--test-threads=1",
            "on_a_device",
        ],
    ),
    (
        "emulated:2",
        &["test", "--workspace", "--test", "it", "--", "--ignored", "--test-threads=1", "on_a_device"],
    ),
    ("emulated", &["xtask", "conformance", "--device", "cuda"]),
];

/// `--instances [FILE...] [--check]`: adds what the files recorded (`FLAMBEAU_KERNEL_LIST`) to the list, or what the project's own programs
/// ask for where no file is given; `--check` only says what the list lacks.
///
/// # Errors
/// A program that fails; under `--check` kernels that the list lacks.
pub fn instances(root: &Path, args: &[String]) -> Result<bool, String> {
    let check = args.iter().any(|a| a == "--check");
    let mut files: Vec<String> = args.iter().filter(|a| *a != "--check").cloned().collect();
    if files.is_empty() {
        let recorded = root.join("target/kernels/recorded.tsv");
        std::fs::create_dir_all(root.join("target/kernels")).map_err(|e| e.to_string())?;
        std::fs::write(&recorded, "").map_err(|e| format!("{}: {e}", recorded.display()))?;
        for (devices, program) in PROGRAMS {
            let mut c = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
            c.current_dir(root).args(*program).env("FLAMBEAU_CUDA", devices);
            let status = c.env("FLAMBEAU_KERNEL_LIST", &recorded).status().map_err(|e| e.to_string())?;
            println!("cargo {}: {status}", program.join(" "));
        }
        files.push(text(&recorded)?.to_string());
    }
    let list = root.join("kernels/instances.tsv");
    let mut args = vec![if check { "check" } else { "merge" }, text(&list)?];
    args.extend(files.iter().map(String::as_str));
    print!("{}", example(root, "archive", &args)?);
    Ok(true)
}

/// `--fallbacks [--check]`: writes the list of operators that devices leave to the CPU.
///
/// # Errors
/// Of the build and of the disk.
pub fn fallbacks(root: &Path, args: &[String]) -> Result<bool, String> {
    let path = root.join("kernels/by_the_cpu.txt");
    let new = example(root, "fallbacks", &[])?;
    let fresh = std::fs::read_to_string(&path).is_ok_and(|old| old == new);
    match args {
        [] if !fresh => std::fs::write(&path, new).map_err(|e| format!("{}: {e}", path.display()))?,
        [] => {}
        [a] if a == "--check" => {
            if !fresh {
                println!("stale: {}", path.display());
            }
            return Ok(fresh);
        }
        _ => return Err("only --check is known".into()),
    }
    println!("{}", std::fs::read_to_string(&path).unwrap_or_default().lines().nth(1).unwrap_or_default());
    Ok(true)
}
