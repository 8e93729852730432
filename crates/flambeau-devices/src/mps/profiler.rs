//! `torch.mps.profiler`: traces for Apple's Instruments.

use super::absent;
use crate::table::answers;

answers! { "torch.mps.profiler", NAMES {
    /// Begins a trace.
    try try_start(; mode: String, wait_until_completed: bool) -> () { absent("profilerStartTrace") }
    /// Ends it.
    try try_stop() -> () { absent("profilerStopTrace") }
    /// Traces what follows.
    try try_profile(; mode: String, wait_until_completed: bool) -> () { absent("profilerStartTrace") }
    /// Whether work can be recorded for Xcode: no.
    fn is_metal_capture_enabled() -> bool { false }
    /// Whether work is recorded for Xcode: no.
    fn is_capturing_metal() -> bool { false }
    /// Records what follows for Xcode.
    try try_metal_capture(fname: String) -> () { absent("startCapture") }
} }
