//! What fuzzing kept, given to the same entry points: each file of `tests/fuzz/corpus/NAME` goes to the fuzz target of that name,
//! which neither panics nor aborts nor takes long. No fuzzer and no nightly compiler is needed for it.
#![allow(unused_attributes, reason = "fuzz targets are roots of programs where they are fuzzed")]

extern crate self as libfuzzer_sys;

/// What `libfuzzer_sys` makes a program of is a function here.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        pub fn run($data: &[u8]) {
            $body;
        }
    };
}

macro_rules! targets {
    ($($name:ident $path:literal),*) => {
        $(#[path = $path] mod $name;)*
        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::run)),*];
    };
}
targets!(
    archive "../fuzz/fuzz_targets/archive.rs",
    calls "../fuzz/fuzz_targets/calls.rs",
    checkpoint "../fuzz/fuzz_targets/checkpoint.rs",
    frames "../fuzz/fuzz_targets/frames.rs",
    npy "../fuzz/fuzz_targets/npy.rs",
    pickle "../fuzz/fuzz_targets/pickle.rs",
    program "../fuzz/fuzz_targets/program.rs",
    record "../fuzz/fuzz_targets/record.rs",
    safetensors "../fuzz/fuzz_targets/safetensors.rs",
    text "../fuzz/fuzz_targets/text.rs",
    tree "../fuzz/fuzz_targets/tree.rs"
);

use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use std::fs;
use std::path::{Path, PathBuf};

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut all: Vec<PathBuf> = all.collect();
    all.sort();
    all
}

#[test]
fn what_fuzzing_kept_does_no_harm() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    // no target without a corpus, no corpus without a target
    let name = |p: &PathBuf| p.file_stem().map(|s| s.to_string_lossy().into_owned());
    let names: Vec<String> = TARGETS.iter().map(|t| t.0.to_owned()).collect();
    for folder in ["fuzz_targets", "corpus"] {
        let found: Vec<String> = sorted(&root.join(folder)).iter().filter_map(name).collect();
        assert_eq!(found, names, "{folder}");
    }
    let mut all = Vec::new();
    for (name, run) in TARGETS {
        all.extend(sorted(&root.join("corpus").join(name)).into_iter().map(|f| (f, run)));
    }
    let name = |i: usize| {
        let at: &Path = &all[i].0;
        at.strip_prefix(&root).unwrap_or(at).display().to_string()
    };
    let run = |i: usize| match fs::read(&all[i].0) {
        Ok(bytes) => {
            all[i].1(&bytes);
            None
        }
        Err(e) => Some(e.to_string()),
    };
    Calls { test: here!(), count: all.len(), name: &name, run: &run }.judge();
}
