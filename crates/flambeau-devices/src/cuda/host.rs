//! Memory of the host that devices reach by themselves: pinned memory, which a caching allocator hands out.

use super::runtime::{answer, of_runtime};
use crate::Stats;
use crate::table::answers;

answers! { "torch.cuda", NAMES {
    /// Statistics of pinned memory of the host; none without a device.
    fn host_memory_stats() -> Stats { answer(|r| r.host_stats()).unwrap_or_default() }
    /// The same, by group in Python.
    fn host_memory_stats_as_nested_dict() -> Stats { host_memory_stats() }
    /// Begins to count anew.
    try try_reset_peak_host_memory_stats() -> () { of_runtime(|r| { r.reset_host_stats(true, false); Ok(()) }) }
    /// Begins to count anew.
    try try_reset_accumulated_host_memory_stats() -> () { of_runtime(|r| { r.reset_host_stats(false, true); Ok(()) }) }
} }
/// Gives cached pinned memory back to the driver.
pub(crate) fn empty_host_cache() {
    answer(|r| r.empty_host_cache());
}
