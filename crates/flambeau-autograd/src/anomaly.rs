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
    // with line tables only, a frame has no crate in its name: the wrappers and core's path tell where the library ends
    let ours = |f: &String| {
        ["flambeau_core", "flambeau-core", "flambeau_autograd", "_autograd at"].iter().any(|o| f.contains(o))
    };
    let first = frames.iter().rposition(ours).map_or(0, |i| i + 1);
    let mut out = String::new();
    for f in frames[first..].iter().filter(|f| !f.contains("/rustc/")).take(8) {
        out.push_str("\n  ");
        out.push_str(f);
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
