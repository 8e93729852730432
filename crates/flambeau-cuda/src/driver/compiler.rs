//! Sources of kernels: put together, compiled by the host's C++ compiler or NVRTC, and kept on disk by what they were made of.

use flambeau_core::{Error, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What device code is compiled with, by whatever compiler.
pub(crate) const OPTIONS: [&str; 2] = ["--std=c++20", "--fmad=false"];

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        /// The files of `kernels/`, by their path in it.
        const SOURCES: &[(&str, &str)] = &[$(($path, include_str!(concat!("../../../../kernels/", $path)))),*];
    };
}
sources! {
    "device/emulation.h", "device/base.cuh", "device/number.cuh", "device/block.cuh", "device/matrix.cuh", "device/groups.cuh", "pointwise/loop.cuh", "generated/pointwise.cuh", "copy/copy.cuh",
    "reduction/reduction.cuh", "softmax/softmax.cuh", "blas/product.cuh", "indexing/indexing.cuh",
    "norm/rows.cuh", "norm/channels.cuh", "loss/classes.cuh", "loss/ctc.cuh", "embedding/rows.cuh", "pool/windows.cuh", "pool/planes.cuh",
    "conv/conv.cuh", "conv/implicit.cuh", "conv/depthwise.cuh", "attention/attention.cuh", "attention/dropout.cuh", "attention/groups.cuh", "vision/resample.cuh", "padding/padding.cuh", "random/dropout.cuh", "rnn/cells.cuh",
    "indexing/reduce.cuh", "indexing/compact.cuh", "device/atomic.cuh", "creation/creation.cuh", "joining/joining.cuh", "scan/scan.cuh",
    "scan/complex.cuh", "optim/step.cuh", "linalg/eliminate.cuh", "pointwise/frexp.cuh", "random/philox.cuh", "random/fill.cuh", "random/rejection.cuh", "sorting/key.cuh", "sorting/sort.cuh", "sorting/select.cuh", "sorting/search.cuh", "sorting/unique.cuh",
}

/// One text with everything that `text` includes, each file once.
pub(crate) fn together(text: &str) -> Result<String> {
    let mut out = String::new();
    include(text, "", &mut BTreeSet::new(), &mut out)?;
    Ok(out)
}
fn include(text: &str, folder: &str, seen: &mut BTreeSet<String>, out: &mut String) -> Result<()> {
    for line in text.lines() {
        match line.trim().strip_prefix("#include \"").and_then(|l| l.strip_suffix('"')) {
            Some(path) => {
                let path = match path.strip_prefix("../") {
                    Some(p) => p.to_string(),
                    None if folder.is_empty() => path.to_string(),
                    None => format!("{folder}/{path}"),
                };
                if seen.insert(path.clone()) {
                    let file = SOURCES.iter().find(|(p, _)| *p == path);
                    let (_, text) =
                        file.ok_or_else(|| Error::runtime(format!("kernels/{path} is not there")))?;
                    include(text, path.rsplit_once('/').map_or("", |(f, _)| f), seen, out)?;
                }
            }
            None if line.trim() == "#pragma once" => {}
            None => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    Ok(())
}

/// The host's C++ compiler: its name and what it says of its version.
///
/// # Errors
/// There is none.
pub(crate) fn host_compiler() -> Result<&'static (String, String)> {
    static FOUND: OnceLock<Option<(String, String)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let own = std::env::var("CXX").ok().into_iter();
        own.chain(["g++", "c++", "clang++"].map(String::from)).find_map(|name| {
            let out = Command::new(&name).arg("--version").output().ok()?;
            out.status.success().then(|| (name, String::from_utf8_lossy(&out.stdout).into_owned()))
        })
    });
    found.as_ref().ok_or_else(|| {
        Error::device(
            "the emulated CUDA device needs a C++20 compiler (g++ 10, clang 12 or newer, or CXX=PATH)",
        )
    })
}

const FLAGS: &[&str] = &[
    "-std=c++20",
    "-O1",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-w",
    "-x",
    "c++",
];

/// The library of a source for the host.
///
/// # Errors
/// Of the compiler and of the disk.
pub(crate) fn for_host(text: &str) -> Result<PathBuf> {
    let (compiler, version) = host_compiler()?;
    let text = format!("#define FLAMBEAU_EMULATED\n{text}");
    kept(&[&text, version, &FLAGS.join(" ")], "so", |to| {
        let folder = tempfile::tempdir().map_err(disk)?;
        let source = folder.path().join("kernel.cpp");
        std::fs::write(&source, &text).map_err(disk)?;
        let out = Command::new(compiler).args(FLAGS).arg(&source).arg("-o").arg(to).output().map_err(disk)?;
        if out.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&out.stderr);
        let said: String =
            said.lines().filter(|l| l.contains("error")).take(5).collect::<Vec<_>>().join("\n");
        Err(Error::runtime(format!("{compiler} refuses a kernel: {said}")))
    })
}

/// A file of the cache that is made of `parts`: as it is there, or made by `make` in a file beside it that takes its place
/// when it is whole.
///
/// # Errors
/// Of `make` and of the disk.
pub(crate) fn kept(
    parts: &[&str],
    extension: &str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    for p in parts {
        hash.update(p.len().to_le_bytes());
        hash.update(p.as_bytes());
    }
    let name = hash.finalize().iter().take(16).fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    });
    let folder = folder();
    let path = folder.join(format!("{name}.{extension}"));
    if path.is_file() {
        return Ok(path);
    }
    std::fs::create_dir_all(&folder).map_err(disk)?;
    let beside = tempfile::Builder::new().prefix(".new").tempfile_in(&folder).map_err(disk)?;
    make(beside.path())?;
    beside.persist(&path).map_err(|e| disk(e.error))?;
    Ok(path)
}
/// `FLAMBEAU_KERNEL_CACHE`, or the user's folder for what can be made again.
fn folder() -> PathBuf {
    if let Some(own) = std::env::var_os("FLAMBEAU_KERNEL_CACHE") {
        return own.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
    cache.or_else(home).unwrap_or_else(std::env::temp_dir).join("flambeau").join("kernels")
}
pub(crate) fn disk(e: std::io::Error) -> Error {
    Error::runtime(format!("the cache of kernels: {e}"))
}
