//! Locks of the library are those whose order debug builds watch (flambeau-core/src/types/order.rs).

use super::{line_of, report, sources, words};

/// Files with a reason to take the standard library's.
const FILES: &[(&str, &str)] = &[
    ("crates/flambeau-core/src/types/order.rs", "makes the watched ones of them"),
    (
        "crates/flambeau-core/src/gradients/accumulate.rs",
        "a turn, under which operators run, and so modes of a program",
    ),
    ("crates/flambeau-devices/src/cuda/streams.rs", "as the next: it calls nobody under it"),
    ("crates/flambeau-devices/src/cuda/runtime.rs", "the one runtime: it calls nobody under it"),
    ("crates/flambeau-nn/src/modules/lazy.rs", "a turn, as above"),
    ("crates/flambeau-nn/src/module/field.rs", "modules of a program may hold them"),
    ("crates/flambeau-distributed/src/sync.rs", "threads wait for conditions under it, and call nobody"),
    (
        "crates/flambeau-distributed/src/simulation/scheduler.rs",
        "ranks of a simulated world wait for conditions under it, and call nobody",
    ),
    ("crates/flambeau-optim/src/by_name.rs", "a turn: steps of one optimizer follow each other"),
];
/// Below core, and tools.
const CRATES: &[&str] =
    &["flambeau-memory", "flambeau-cpu", "flambeau-cpu-fft", "flambeau-cpu-linalg", "flambeau-conformance"];

#[test]
fn locks_are_watched() {
    let mut broken = Vec::new();
    for s in sources() {
        let apart = |c: &&str| s.path.starts_with(&format!("crates/{c}/"));
        if !s.path.starts_with("crates/")
            || !s.path.contains("/src/")
            || CRATES.iter().any(apart)
            || FILES.iter().any(|f| f.0 == s.path)
        {
            continue;
        }
        for name in ["Mutex", "RwLock", "ReentrantLock"] {
            for at in words(&s.code, name) {
                let before = &s.code[..at];
                // `std::sync::Mutex`, and a list that `use std::sync::{` opens
                let list = before.rfind("std::sync::{").is_some_and(|i| !before[i..].contains('}'));
                if list || before.ends_with("std::sync::") {
                    broken.push(format!("{}:{}: {name}", s.path, line_of(&s.code, at)));
                }
            }
        }
    }
    report("locks come from flambeau_core::types::order", &broken);
    for (path, _) in FILES {
        assert!(sources().iter().any(|s| s.path == *path), "{path} is no file any more");
    }
}
