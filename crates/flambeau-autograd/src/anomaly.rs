//! Anomaly mode: nodes remember where the forward call was made, and gradients are searched for NaN.

use crate::grad_mode::{self, ANOMALY, ModeGuard, NO_NAN_CHECK};
use crate::hooks::{self, Made};
use flambeau_core::graph::Node;
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
    let _reset = Reset(HERE.replace(Some(here)));
    f()
}

/// Called for every node made.
#[inline(always)]
pub(crate) fn made(node: &Arc<dyn Node>) {
    if grad_mode::has(ANOMALY) {
        remember(node);
    }
}
#[cold]
#[inline(never)]
fn remember(node: &Arc<dyn Node>) {
    let m = Made { location: HERE.get(), backtrace: user_frames(&Backtrace::force_capture().to_string()) };
    let _ = hooks::extra_or_init(&**node).made.set(m);
    FRESH.with_borrow_mut(|f| {
        f.retain(|w| w.strong_count() > 0);
        f.push(Arc::downgrade(node));
    });
}

/// The frames of a backtrace that are not this library's or the runtime's, innermost first.
fn user_frames(text: &str) -> String {
    const OURS: [&str; 8] = [
        "flambeau_core::",
        "flambeau_autograd::",
        "flambeau_cpu::",
        "std::",
        "core::",
        "alloc::",
        "rust_begin",
        "__",
    ];
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    let mut shown = 0;
    while let Some(line) = lines.next() {
        let Some((number, name)) = line.trim_start().split_once(": ") else { continue };
        if number.parse::<u32>().is_err() {
            continue;
        }
        let name = name.trim_start_matches('<');
        if OURS.iter().any(|o| name.starts_with(o)) {
            continue;
        }
        out.push_str("\n  ");
        out.push_str(name);
        if let Some(at) = lines.peek().map(|l| l.trim()).filter(|l| l.starts_with("at ")) {
            out.push(' ');
            out.push_str(at);
        }
        shown += 1;
        if shown == 8 {
            break;
        }
    }
    out
}

/// Where a node's forward call was made, as text for errors; empty outside anomaly mode.
pub(crate) fn place(node: &dyn Node) -> String {
    let Some(m) = hooks::extra(node).and_then(|x| x.made.get()) else { return String::new() };
    match (m.location, m.backtrace.as_str()) {
        (Some(l), _) => format!("\nForward call of {}: {l}", node.name()),
        (None, "") => String::new(),
        (None, b) => format!("\nForward call of {} (innermost first):{b}", node.name()),
    }
}
