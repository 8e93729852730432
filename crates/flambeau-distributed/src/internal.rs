//! What the judge of this library needs and no program does: no part of the API, and free to change.

pub use crate::pickles::{dump, load};

/// Buckets of a model: by sizes in bytes, dtypes, and whether gradients are sparse, with their limits.
pub fn assign_buckets(
    items: &[(usize, flambeau_core::DType, bool)],
    limits: &[usize],
) -> Vec<(Vec<usize>, usize)> {
    use crate::ddp::buckets::{Item, assign};
    let items: Vec<Item> = items
        .iter()
        .map(|(bytes, dtype, sparse)| Item { bytes: *bytes, dtype: *dtype, sparse: *sparse })
        .collect();
    assign(&items, limits, None)
}
/// Limits of the first buckets, and of those that are made later.
pub fn bucket_limits(o: &crate::ddp::DistributedDataParallelOptions) -> (Vec<usize>, Vec<usize>) {
    let all = crate::ddp::limits(o);
    (crate::ddp::first_limits(o, &all), all)
}

/// What a rendezvous' pickle says, whether it is the same when it is written again, and what stands for none.
///
/// # Errors
/// It cannot be read.
pub fn rendezvous_state(pickle: &[u8]) -> flambeau_core::Result<serde_json::Value> {
    use crate::elastic::rendezvous::state::State;
    let s = State::read(pickle)?;
    let again = State::read(&s.write()?)? == s;
    Ok(serde_json::json!({
        "round": s.round, "complete": s.complete, "closed": s.closed, "participants": s.participants.len(),
        "wait_list": s.wait_list.len(), "again": again, "null_value": "Y2FuaW1hZGFt",
    }))
}

/// The processors of a worker on a machine whose file systems are mounted at `root`.
///
/// # Errors
/// As starting such a worker.
pub fn numa_processors(
    root: &std::path::Path,
    visible: Option<&str>,
    mode: crate::numa::AffinityMode,
    local_rank: i64,
) -> flambeau_core::Result<String> {
    use crate::numa::{Machine, written};
    let m = Machine { root: root.to_owned(), visible: visible.map(str::to_owned) };
    m.processors(mode, local_rank).map(|all| written(&all))
}
/// A list of processors, read and written again.
///
/// # Errors
/// It is none.
pub fn numa_list(text: &str) -> flambeau_core::Result<String> {
    crate::numa::numbers(text).map(|all| crate::numa::written(&all))
}

/// Frames as they go over the wire, of all groups of this process.
pub mod tap {
    use crate::sync::Monitor;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// One frame.
    #[derive(Clone, Debug)]
    pub struct Frame {
        /// Who has sent it.
        pub from: usize,
        /// To whom.
        pub to: usize,
        /// What it is.
        pub kind: u64,
        /// Its slot.
        pub slot: u64,
        /// The length that it says.
        pub length: u64,
        /// Its data.
        pub data: Vec<u8>,
    }
    static ON: AtomicBool = AtomicBool::new(false);
    static SEEN: Monitor<Vec<Frame>> = Monitor::new(Vec::new());

    /// Keeps frames from now on.
    pub fn start() {
        SEEN.lock().clear();
        ON.store(true, Ordering::SeqCst);
    }
    /// What was kept.
    pub fn stop() -> Vec<Frame> {
        ON.store(false, Ordering::SeqCst);
        std::mem::take(&mut *SEEN.lock())
    }
    pub(crate) fn is_on() -> bool {
        ON.load(Ordering::Relaxed)
    }
    pub(crate) fn keep(f: Frame) {
        SEEN.lock().push(f);
    }
}
