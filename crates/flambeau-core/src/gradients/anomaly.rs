//! Anomaly mode: nodes remember where the forward call was made, and gradients are searched for NaN.

use crate::gradients::grad_mode::{self, ANOMALY, ModeGuard, NO_NAN_CHECK};
use crate::gradients::hooks::{self, Made};
use crate::tensor::graph::{Node, node_name};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::{Arc, Weak};

thread_local! {
    static HERE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    // nodes made since the last `stamp`
    static FRESH: RefCell<Vec<Weak<dyn Node>>> = const { RefCell::new(Vec::new()) };
}

/// Turns anomaly mode on until dropped.
#[must_use = "the mode ends when the guard is dropped"]
pub struct AnomalyGuard(#[allow(dead_code, reason = "restores on drop")] [ModeGuard; 2]);

/// Anomaly mode on or off until the guard is dropped; `check_nan` fails backward at the first gradient with a NaN.
#[doc(alias = "torch.autograd.set_detect_anomaly")]
pub fn set_detect_anomaly_guard(mode: bool, check_nan: bool) -> AnomalyGuard {
    AnomalyGuard([ModeGuard::new(ANOMALY, mode), ModeGuard::new(NO_NAN_CHECK, !check_nan)])
}
/// Runs `f` in anomaly mode: errors of backward name the place of the forward call, and a gradient with a NaN is an
/// error. Slow; for debugging.
#[doc(alias = "torch.autograd.detect_anomaly")]
pub fn detect_anomaly<R>(f: impl FnOnce() -> R) -> R {
    let _g = set_detect_anomaly_guard(true, true);
    f()
}
/// Whether anomaly mode is on.
#[doc(alias = "torch.is_anomaly_enabled")]
pub fn is_anomaly_enabled() -> bool {
    grad_mode::has(ANOMALY)
}
/// Whether gradients are searched for NaN.
#[doc(alias = "torch.is_anomaly_check_nan_enabled")]
pub fn is_anomaly_check_nan_enabled() -> bool {
    is_anomaly_enabled() && !grad_mode::has(NO_NAN_CHECK)
}

/// Runs `f` with `here` as the place of all forward calls in it, for code that knows it better than a backtrace.
pub fn with_location<R>(here: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    struct Reset(Option<&'static Location<'static>>);
    impl Drop for Reset {
        fn drop(&mut self) {
            HERE.set(self.0);
        }
    }
    let _reset = Reset(HERE.get());
    HERE.set(Some(here));
    f()
}

/// Called for every node made.
#[inline(always)]
pub fn made(node: &Arc<dyn Node>) {
    if grad_mode::has(ANOMALY) {
        remember(node);
    }
}
#[cold]
#[inline(never)]
fn remember(node: &Arc<dyn Node>) {
    let m = Made { location: HERE.get(), backtrace: user_frames(&Backtrace::force_capture().to_string()) };
    let _ = hooks::extra_or_init(&**node).made.set(m);
    let _ = FRESH.try_with(|f| {
        let mut f = f.borrow_mut();
        f.retain(|w| w.strong_count() > 0);
        f.push(Arc::downgrade(node));
    });
}

/// The frames of a backtrace from the caller of the operator outwards, innermost first.
fn user_frames(text: &str) -> String {
    let mut frames: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(at) = line.strip_prefix("at ") {
            if let Some(f) = frames.last_mut() {
                f.push_str(" at ");
                f.push_str(at);
            }
        } else if let Some((number, name)) = line.split_once(": ")
            && number.parse::<u32>().is_ok()
        {
            frames.push(name.trim_start_matches('<').to_string());
        }
    }
    // frames inside of the working directory are printed relative to it
    let here = std::env::current_dir().map(|d| format!(" at {}/", d.display())).unwrap_or_default();
    let library = |f: &String| is_library(&f.replace(" at ./", &here));
    let std = |f: &String| f.contains("/rustc/");
    // the caller's code begins where the library's first stretch ends; further out it may come again, when a closure runs
    // inside of `no_grad` and the like
    let inside = frames.iter().position(library).unwrap_or(0);
    let first = inside + frames[inside..].iter().take_while(|f| library(f) || std(f)).count();
    let mut out = String::new();
    for f in frames[first..].iter().filter(|f| !std(f) && !library(f)).take(8) {
        out.push_str("\n  ");
        out.push_str(f);
    }
    out
}

/// Whether a frame belongs to one of the crates that a call passes through before it reaches the caller's own code. With
/// line tables only, a frame has no crate in its name: then the file's path tells.
#[doc(hidden)]
pub fn is_library(frame: &str) -> bool {
    const CRATES: [&str; 8] =
        ["core", "autograd", "nn-functional", "nn", "optim", "serialization", "memory", "cpu"];
    // `.../flambeau-core/src/`, or with a version from the registry: `.../flambeau-core-0.1.0/src/`
    let in_sources = |name: &str| {
        frame.match_indices(name).any(|(i, _)| {
            let rest = &frame[i + name.len()..];
            let version =
                rest.find(|c: char| c != '-' && c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[version..].starts_with("/src/")
        })
    };
    frame.contains("_autograd at")
        || in_sources("/flambeau")
        || CRATES.iter().any(|c| {
            in_sources(&format!("/flambeau-{c}"))
                || frame.contains(&format!("flambeau_{}::", c.replace('-', "_")))
        })
}

/// Where a node's forward call was made, as text for errors; empty outside anomaly mode.
pub fn place(node: &dyn Node) -> String {
    let Some(m) = hooks::extra(node).and_then(|x| x.made.get()) else { return String::new() };
    match (m.location, m.backtrace.as_str()) {
        (Some(l), _) => format!("\nForward call of {}: {l}", node_name(node)),
        (None, "") => String::new(),
        (None, b) => format!("\nForward call of {} (innermost first):{b}", node_name(node)),
    }
}
