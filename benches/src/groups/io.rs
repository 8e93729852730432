//! Files, start-up, memory, size.

use super::{Setting, e2e};
use crate::input::{fill, ints};
use crate::memory;
use crate::row::Rows;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use torch::prelude::*;
use torch::serialization::Tree;
use torch::utils::data::{DataLoaderOptions, TensorDataset};

/// What a process that a row starts does: `--child NAME`.
pub const CHILDREN: &[(&str, fn())] = &[("startup", startup), ("peak-rss", peak_rss)];

fn startup() {
    std::hint::black_box(torch::ones(()) + torch::ones(()));
}

/// 200 training steps, then the largest resident set so far, in bytes.
fn peak_rss() {
    let mut step = e2e::mlp_adam();
    for _ in 0..200 {
        step();
    }
    if let Some(bytes) = memory::peak() {
        println!("{bytes}");
    }
}

fn child(setting: &Setting, name: &str) -> Command {
    let mut c = Command::new(&setting.executable);
    c.args(["--child", name, "--threads", &setting.threads.to_string()]);
    c
}

/// A state dict of 50 tensors, 200 MB, as `.pt`.
fn state() -> Tree<Tensor> {
    let entry = |i: u32| (Tree::Str(format!("t{i}")), Tree::Tensor(fill([1 << 20], i + 1)));
    Tree::Dict((0..50).map(entry).collect())
}
fn save(state: &Tree<Tensor>, path: &Path) {
    torch::save(state, path).unwrap_or_else(|e| panic!("{e}"));
}
fn folder() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("no temporary folder: {e}"));
    let path = dir.path().join("state.pt");
    (dir, path)
}

/// Bytes of a program without its symbols.
fn stripped(program: &Path) -> Result<u64, String> {
    let (dir, _) = folder();
    let out = dir.path().join("stripped");
    let run = Command::new("strip").arg("-o").arg(&out).arg(program).output();
    let run = run.map_err(|e| format!("strip: {e}"))?;
    if !run.status.success() {
        return Err(format!("strip: {}", String::from_utf8_lossy(&run.stderr).trim()));
    }
    std::fs::metadata(&out).map(|m| m.len()).map_err(|e| e.to_string())
}

pub fn rows(r: &mut Rows, setting: &Setting) {
    r.add("io/save_200mb", || {
        let (state, (dir, path)) = (state(), folder());
        move || {
            let _keep = &dir;
            save(&state, &path);
        }
    })
    .no_check();
    r.add("io/load_200mb", || {
        let (dir, path) = folder();
        save(&state(), &path);
        move || {
            let _keep = &dir;
            std::hint::black_box(torch::load(&path).unwrap_or_else(|e| panic!("{e}")));
        }
    })
    .no_check();
    r.add("io/dataloader_60k", || {
        let data = TensorDataset::new((fill([60_000, 784], 1), ints([60_000], 10, 2)));
        let loader = DataLoaderOptions::new(data).batch_size(128).shuffle(true).build();
        move || {
            std::hint::black_box(loader.iter().map(|(x, _)| x.size(0)).sum::<i64>());
        }
    })
    .no_check();
    let s = setting.clone();
    r.add("io/startup", move || {
        let s = s.clone();
        move || {
            let status = child(&s, "startup").status();
            assert!(status.is_ok_and(|s| s.success()), "the process failed");
        }
    })
    .no_check();
    let s = setting.clone();
    r.bytes("io/install_size", move || stripped(&s.installed));
    let s = setting.clone();
    r.bytes("io/peak_rss_mlp", move || {
        let out = child(&s, "peak-rss").output().map_err(|e| e.to_string())?;
        String::from_utf8_lossy(&out.stdout)
            .trim()
            .parse()
            .map_err(|_| "no figure on this system".to_string())
    });
}
