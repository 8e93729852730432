//! `torch.cuda.profiler`: NVIDIA's profilers from inside of the program.

use super::absent;
use crate::table::answers;

answers! { "torch.cuda.profiler", NAMES {
    /// Begins to profile.
    try try_start() -> () { absent() }
    /// Ends it.
    try try_stop() -> () { absent() }
    /// Profiles what follows.
    try try_profile() -> () { absent() }
} }
