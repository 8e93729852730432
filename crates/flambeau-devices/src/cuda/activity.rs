//! What devices did while a profiler recorded: kernels, copies, and the calls that queued them. The profiler says which operator
//! runs on its thread; the back end notes it with what the thread queues.

use super::runtime::{Properties, answer, of_runtime};
use flambeau_core::Result;
use std::time::Instant;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A kernel.
    Kernel {
        /// Blocks in each direction.
        grid: [u32; 3],
        /// Threads of a block in each direction.
        block: [u32; 3],
        /// Registers of a thread; 0 where nobody says.
        registers: u32,
        /// Bytes of shared memory of a block.
        shared: u32,
    },
    /// A copy of so many bytes.
    Copy(u64),
    /// So many bytes were filled.
    Fill(u64),
    /// A call of the driver, on the host.
    Call,
}
/// One thing that was done.
#[derive(Clone, Debug)]
pub struct Activity {
    /// What.
    pub what: What,
    /// The kernel's name, the call's, or where a copy goes from and to.
    pub name: String,
    /// The device, and its number of the stream.
    pub device: i64,
    /// See `device`.
    pub stream: u64,
    /// Nanoseconds from the begin of the recording.
    pub start: u64,
    /// Nanoseconds from the begin of the recording.
    pub end: u64,
    /// The same for a call and for what it queued.
    pub correlation: u64,
    /// The operator that ran on the thread that queued it ([`enter`]).
    pub operator: Option<u64>,
    /// Of a call: the thread, by the system's number.
    pub thread: u64,
}

/// Whether devices can be watched: there is one, and what its driver's activities are asked by.
pub fn supported() -> bool {
    answer(|r| r.can_watch().is_ok()).unwrap_or(false)
}
impl Activity {
    /// Whether it is a call on the host, rather than something that a device did.
    pub fn is_call(&self) -> bool {
        self.what == What::Call
    }
}
/// Properties of a device.
pub fn properties(device: i64) -> Option<Properties> {
    answer(|r| r.properties(device).ok()).flatten()
}
/// Begins to note what devices do; times count from `base` on.
///
/// # Errors
/// There is no device, nothing to ask its driver by, or somebody watches already.
pub fn begin(base: Instant) -> Result<()> {
    of_runtime(|r| r.watch(base))
}
/// Waits for all devices and ends it: what was noted.
///
/// # Errors
/// Of a kernel.
pub fn end() -> Result<Vec<Activity>> {
    of_runtime(|r| r.watched())
}
/// From here on this thread's work is that of an operator.
pub fn enter(operator: u64) {
    answer(|r| r.operator(Some(operator)));
}
/// It is that of the operator before again.
pub fn leave() {
    answer(|r| r.operator(None));
}
